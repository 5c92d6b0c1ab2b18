/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_files.h - what the loop of a session wakes up for, as files for poll(): its timer, signals, and the end of CMD.
 */
#ifndef RANKTRACE_SESSION_LOOP_FILES_H
#define RANKTRACE_SESSION_LOOP_FILES_H

#include <stdint.h>

struct session;

/* Blocks the signals that it opens a file for. 0 or -errno: those that are open already are the session's to close. */
int loop_files_open(struct session *s);
/* Turns of the loop are due from then on (CLOCK_MONOTONIC), a period apart. 0 or -errno. */
int loop_timer_start(const struct session *s, uint64_t at_ns);
/* Waits for one of them, or so many milliseconds (-1: for ever), and takes what came but the rings' records. 0 or
 * -errno. */
int loop_wait(struct session *s, int timeout_ms);

#endif
