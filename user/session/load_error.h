/* SPDX-License-Identifier: Apache-2.0
 *
 * load_error.h - what a failed load of the BPF programs means to people: cause and remedy.
 */
#ifndef RANKTRACE_LOAD_ERROR_H
#define RANKTRACE_LOAD_ERROR_H

#include <stddef.h>

struct loader;

/* The message for loader_open()'s -errno into `error`; returns the -errno that the command's exit code goes by. */
int load_error_say(int err, char *error, size_t size);
/* Warns of each tracer that did not load. 0, or -ENOTSUP with the message in `error`: none did. */
int tracers_check(const struct loader *l, char *error, size_t size);

#endif
