/* SPDX-License-Identifier: Apache-2.0
 *
 * flight.h - the flight recorder: the last seconds of the stream, always in memory, written as files when something
 * happened. Memory is chunks of a recording (.rtr) in segments; each segment begins with the model's state retold, so
 * that whatever segment is the oldest one, a replay from there says what the live session says.
 */
#ifndef RANKTRACE_FLIGHT_H
#define RANKTRACE_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "pipeline/incident.h"
#include "model/model.h"
#include "schemas/wire.h"

#define FLIGHT_SECONDS 120
#define FLIGHT_MB 64
#define FLIGHT_KEEP 20
#define FLIGHT_DIR "/var/lib/ranktrace"

struct flight_cfg {
	const char *dir; /* of the files; made when missing. NULL: no flight recorder */
	uint64_t
		window_ns; /* 0: FLIGHT_SECONDS. At least that much is held (up to an eighth more), memory permitting */
	size_t bytes_max;  /* 0: FLIGHT_MB. Of packed chunks; older ones go */
	unsigned int keep; /* 0: FLIGHT_KEEP. Dumps in `dir`; older ones are removed */
	uint64_t settle_ns; /* 0: 5 s. From a finding to its dump, so that what it brought about is in it */
};

struct flight;
struct pipeline;

/* 0, -ENOMEM, or -errno of `dir` with the message (object, cause, remedy) in `error`. */
int flight_new(const struct flight_cfg *cfg, struct flight **ret, char *error, size_t error_size);
void flight_free(struct flight *f); /* a dump that is being written goes on by itself */

/* Has the pipeline feed it: flight_put() with each record. */
void flight_tap(struct flight *f, struct pipeline *p);
/* A record, before the model takes it. Without memory the window is given up and begins anew. */
void flight_put(struct flight *f, const struct wire_hdr *rec, struct model *m);

/* Somebody asks for a dump now; `token` (0: none) is told to have been served by flight_state.h's file. */
void flight_request(struct flight *f, int token);
/* Every loop: begins the dump that is due (of a request, or of a root finding that opened), and tells of one that is
 * written, or not. Never waits for a file. */
void flight_look(struct flight *f, const struct incidents *i, const struct model *m, uint64_t now_ns);
/* The session ends: writes what is still due and waits for it, up to a minute. */
void flight_finish(struct flight *f, const struct incidents *i, const struct model *m, uint64_t now_ns);

size_t flight_bytes(const struct flight *f); /* held now */
size_t flight_bytes_peak(const struct flight *f);

#endif
