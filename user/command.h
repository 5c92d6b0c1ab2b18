/* SPDX-License-Identifier: Apache-2.0
 *
 * command.h - what every subcommand is, and the exit codes they share.
 */
#ifndef RANKTRACE_COMMAND_H
#define RANKTRACE_COMMAND_H

enum exit_code {
	EXIT_CLEAN = 0,   /* no finding, or none that counts (--fail-on) */
	EXIT_FINDING = 1, /* a finding that counts */
	EXIT_USAGE = 2,
	EXIT_UNSUPPORTED = 3, /* privilege, device or kernel feature missing; not in the host's pid namespace */
	EXIT_OUTPUT = 4,      /* an output could not be written whole */
	EXIT_INTERNAL = 4,    /* ranktrace itself failed */
};

/* Groups of options in the help text; within a group they stand in the order of their tables. */
enum help_group { HELP_WHAT, HELP_OUTPUT, HELP_LIMITS, HELP_PROBES, HELP_FLIGHT, HELP_BUS, HELP_MESSAGES };

/* What was printed may still wait in the buffer, and a full disk shows only now: says so and returns EXIT_OUTPUT unless
 * the command failed, else `code`. */
int stdout_check(int code);

#define RANKTRACE_VERSION "0.1.0"

#define COMMAND(id, name, help) int cmd_##id(int argc, char **argv);
#include "commands.def"
#undef COMMAND

#endif
