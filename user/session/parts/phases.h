/* SPDX-License-Identifier: Apache-2.0
 *
 * phases.h - known phases over restarts: a file of what sessions learnt of their jobs' pauses. Read at the start, as
 * records; written when something was learnt, beside the old file and renamed.
 */
#ifndef RANKTRACE_PHASES_H
#define RANKTRACE_PHASES_H

#include <stddef.h>

#include "pipeline/pipeline.h"
#include "schemas/wire.h"

#define PHASES_NAME "known_phases.json"

/* Calls each() for every phase of the file, as long as it returns 0. Texts live during the call. 0; what each()
 * returned; -errno (-ENOENT: no file yet), or -EPROTO, with the reason in `error`. */
int phases_read(const char *path, int (*each)(void *to, const struct known_phase_event *p), void *to, char *error,
		size_t size);
/* The text of a file of what this session learnt, and of what it read and did not meet again. free() it; NULL: no
 * memory.
 */
char *phases_print(const struct pauses *own, const struct known_phases *given);

/* Where a daemon keeps them: $STATE_DIRECTORY, else FLIGHT_DIR. NULL: neither may be written to. free() it. */
char *phases_path_default(void);

struct session_phases;

/* Emits what the file has. A file that is none of ours is reported, left alone, and nothing is kept. NULL: no memory.
 */
struct session_phases *session_phases_open(const char *path, const struct pipeline *p,
					   int (*emit)(void *to, const struct wire_hdr *rec), void *to);
/* Has the file written, without a wait, if something was learnt; not more often than twice a minute. */
void session_phases_tick(struct session_phases *s, uint64_t now_ns);
/* Writes what is left, or says that the disk did not take it within 5 s. */
void session_phases_close(struct session_phases *s);

#endif
