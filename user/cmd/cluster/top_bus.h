/* SPDX-License-Identifier: Apache-2.0
 *
 * top_bus.h - what speaks to the bus for `top`, in a process of its own: it hands the reports of all hosts on by a
 * pipe, says what hubs write into their logs of incidents, and acknowledges. What is in a report it does not look at.
 */
#ifndef RANKTRACE_CMD_TOP_BUS_H
#define RANKTRACE_CMD_TOP_BUS_H

#include "bus/bus.h"

#define TOP_REPORT_BYTES_MAX (8u << 20) /* a server takes 1 MB by default, 64 at most */

enum top_said { TOP_REPORT, TOP_NO_REPORT /* there is none now: time goes on */, TOP_CUT /* they cannot be read */ };

struct top_report_head { /* on the pipe; `len` bytes of the report are behind it */
	uint64_t len, n_behind;
	int64_t stored_ns;
	uint64_t said;             /* enum top_said; behind the last two there is nothing */
	char token[BUS_TOKEN_MAX]; /* the host's; zero-terminated */
};

struct top_acknowledge {           /* a request: an incident of that job is in hand */
	char token[BUS_TOKEN_MAX]; /* the job's */
	uint64_t key;              /* in its log; never 0 */
};

struct top_bus_cfg {
	struct bus_cfg bus;
	const char *job; /* whose log is said; NULL: all jobs' */
};

/* As a child's main function (top/child.h); `of`: struct top_bus_cfg. An exit code. */
int top_bus_run(void *of, int control_fd);

#endif
