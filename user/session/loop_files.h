/* SPDX-License-Identifier: Apache-2.0
 *
 * loop_files.h - what the loop of a session wakes up for, as files for poll(): its timer, signals, and the end of CMD.
 */
#ifndef RANKTRACE_SESSION_LOOP_FILES_H
#define RANKTRACE_SESSION_LOOP_FILES_H

#include <stdint.h>

#include "session/session.h"

/* Blocks the signals that it opens a file for. 0 or -errno: those that are open already are the caller's to close. */
int loop_files_open(const struct session_cfg *cfg, uint32_t loop_ns, int *timer_fd, int *signal_fd, int *child_fd);

#endif
