/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_state.h - /run/ranktrace/PID.flight: that a session with a flight recorder runs, and what became of the last
 * requests. The session writes it, `ranktrace dump` reads it. Lines of text: "start TICKS" (field 22 of its
 * /proc/PID/stat: the number may be used again), "dir DIR", then "done TOKEN PATH" or "failed TOKEN WHY", newest last.
 */
#ifndef RANKTRACE_FLIGHT_STATE_H
#define RANKTRACE_FLIGHT_STATE_H

#include <stdbool.h>
#include <sys/types.h>

#define FLIGHT_STATE_DIR "/run/ranktrace" /* RANKTRACE_RUN_DIR in the environment: another */

/* Of this process. Says so where the file cannot be written: the session goes on, found by nobody. */
void flight_state_open(const char *dir);
void flight_state_served(const char *dir, const int *tokens, int n, bool ok, const char *said);
void flight_state_close(void);

#define FLIGHT_SESSIONS_MAX 64
struct flight_session {
	pid_t pid;
	char dir[512];
};

/* Sessions that run, into to[FLIGHT_SESSIONS_MAX]; files of dead ones are removed. The number of them. */
int flight_sessions(struct flight_session *to);
/* What became of the request: 1 done (the path without suffix in `said`), 0 nothing yet, -1 failed (why). */
int flight_state_answer(pid_t pid, int token, char *said, size_t size);

#endif
