/* SPDX-License-Identifier: Apache-2.0
 *
 * load_error.h - messages with cause and remedy: of BPF programs that do not load, of probes that wait, of processes
 * that found no room.
 */
#ifndef RANKTRACE_LOAD_ERROR_H
#define RANKTRACE_LOAD_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/loader.h"
#include "model/model.h"

/* Writes the message for the -errno of loader_open() to `error`. Returns the -errno that decides the exit code. */
int load_error_say(int err, char *error, size_t size);
/* Warns of probes that could not be removed yet. */
void load_left_say(struct loader_left left);
/* Warns of each tracer that did not load. Returns 0, or -ENOTSUP with the message in `error` if none loaded. */
int tracers_check(const struct loader *l, char *error, size_t size);

/* Warns of probes that wait because attaching them would block every fork of the host. */
void attach_wait_say(const char *path, uint32_t holder);
/* The kernel cannot filter probes by process. */
void attach_shared_say(bool allowed);
void attach_other_say(const char *path, uint32_t tgid, uint32_t other_tgid, uint32_t other_uid);
/* Processes of this user map the file, and he has more than are scanned. */
void attach_crowd_say(const char *path, uint32_t uid);
/* Warns, once, of `n` processes that found no room among the targets. Returns whether that was said by now. */
bool targets_refused_say(uint64_t n, bool said);
/* The same of communicators that found no room in the model: of the process that has the most of them. */
bool comms_refused_say(const struct model *m, bool said);
/* Warns of a time in which probes returned at once (loader_away_ns()); 0: there was none. */
void away_say(uint64_t ns);

#endif
