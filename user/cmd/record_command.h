/* SPDX-License-Identifier: Apache-2.0
 *
 * record_command.h - the command of `ranktrace record -- CMD`: started under trace, ended with it, its status counted.
 */
#ifndef RANKTRACE_CMD_RECORD_COMMAND_H
#define RANKTRACE_CMD_RECORD_COMMAND_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct record_command {
	char **argv; /* of the command line; NULL: none */
	pid_t pid;
	int go_fd;     /* a byte lets it start, end-of-file ends it; the session closes it */
	int failed_fd; /* its errno if it could not start */
};

/* Could it start at all? 0 or -errno: no such file on PATH, no permission. */
int record_command_check(char *const *argv);
/* Forks CMD, which waits at a pipe, so that it is a target before its first instruction. If this process ends before it
 * lets CMD go, CMD never starts. `signals`: its signal mask. `quiet_stdout`: its output goes to stderr. 0 or -errno. */
int record_command_fork(struct record_command *c, const sigset_t *signals, bool quiet_stdout);
/* Ends CMD, which runs or still waits. */
void record_command_kill(const struct record_command *c);
/* `status` is its wait status. Logs what became of it unless it succeeded. Returns its exit status, as a shell has it;
 * EXIT_USAGE if it could not start. */
int record_command_result(const struct record_command *c, int status);

#endif
