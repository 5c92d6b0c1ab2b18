/* SPDX-License-Identifier: Apache-2.0
 *
 * load_error.h - turns a failed load of the BPF programs into a message with cause and remedy.
 */
#ifndef RANKTRACE_LOAD_ERROR_H
#define RANKTRACE_LOAD_ERROR_H

#include <stddef.h>

#include "attach/loader.h"

/* Writes the message for the -errno of loader_open() to `error`. Returns the -errno that decides the exit code. */
int load_error_say(int err, char *error, size_t size);
/* Warns of probes that could not be removed yet. */
void load_left_say(struct loader_left left);
/* Warns of each tracer that did not load. Returns 0, or -ENOTSUP with the message in `error` if none loaded. */
int tracers_check(const struct loader *l, char *error, size_t size);

#endif
