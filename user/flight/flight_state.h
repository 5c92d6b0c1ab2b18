/* SPDX-License-Identifier: Apache-2.0
 *
 * flight_state.h - the file /run/ranktrace/PID.flight: a session with a flight recorder runs, and the results of the
 * last requests.
 *
 * The session writes it, `ranktrace dump` reads it. Lines: "start TICKS" (field 22 of its /proc/PID/stat, because a pid
 * may be reused), "dir DIR", then "done TOKEN PATH" or "failed TOKEN WHY", newest last.
 */
#ifndef RANKTRACE_FLIGHT_STATE_H
#define RANKTRACE_FLIGHT_STATE_H

#include <stdbool.h>
#include <sys/types.h>

#define FLIGHT_STATE_DIR "/run/ranktrace" /* RANKTRACE_RUN_DIR in the environment replaces it */

/* For this process. Logs a failed write; the session goes on, and 'ranktrace dump' does not find it. */
void flight_state_open(const char *dir);
void flight_state_served(const char *dir, const int *tokens, int n, bool ok, const char *text);
void flight_state_close(void);

#define FLIGHT_SESSIONS_MAX 64
struct flight_session {
	pid_t pid;
	char dir[512];
};

/* Running sessions, into to[FLIGHT_SESSIONS_MAX]; removes the files of dead ones. Returns how many. */
int flight_sessions(struct flight_session *to);
/* Result of a request: 1 done (the path without suffix in `text`), 0 none yet, -1 failed (the reason). */
int flight_state_answer(pid_t pid, int token, char *text, size_t size);

#endif
