/* SPDX-License-Identifier: Apache-2.0
 *
 * event_outside.h - what events say of a thread that was sampled from outside: its stack, and what it waits for.
 * Included by event.h.
 */
#ifndef RANKTRACE_EVENT_OUTSIDE_H
#define RANKTRACE_EVENT_OUTSIDE_H

#include "waits_for.h"

struct stack_event {
	bool unread;                      /* nothing of this process; `end` says why */
	bool sampled;                     /* it ran: one sample */
	const char *wait, *file, *kernel; /* "" none or unknown */
	const char *frames;               /* a line each, innermost first; "" none */
	const char *python, *native;      /* "file:line function"; "function (file)"; "" none */
	const char *end;                  /* why `frames` ends where it does; "" they are whole */
};

#endif
