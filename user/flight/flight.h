/* SPDX-License-Identifier: Apache-2.0
 *
 * flight.h - the flight recorder: keeps the last seconds of the stream in memory and writes them to files when
 * something happens.
 *
 * The memory holds chunks of a recording (.rtr) in segments. Each segment begins with a snapshot of the model, so a
 * replay from the oldest segment on gives the findings of the live session.
 */
#ifndef RANKTRACE_FLIGHT_H
#define RANKTRACE_FLIGHT_H

#include <stdbool.h>
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
	const char *dir;    /* where files go; made if missing. NULL: no flight recorder */
	uint64_t window_ns; /* 0: FLIGHT_SECONDS. Holds at least that much (up to an eighth more) if the memory limit
			       allows */
	size_t bytes_max;   /* 0: FLIGHT_MB. Limit for packed chunks; drops the oldest */
	unsigned int keep;  /* 0: FLIGHT_KEEP. Dumps in `dir`; older ones are removed */
	uint64_t settle_ns; /* 0: 5 s. Time from a finding to its dump, so that the consequences are in it */
	uint64_t dump_limit_ns; /* 0: 120 s. A dump that takes longer is given up: its disk does not answer */
};

struct flight;
struct pipeline;

/* 0, -ENOMEM, or -errno of `dir` with the message (object, cause, remedy) in `error`. */
int flight_new(const struct flight_cfg *cfg, struct flight **ret, char *error, size_t error_size);
/* Other limits, another directory, from now on; what is held stays. 0, or -errno of the directory with the message in
 * `error`, and nothing changes. */
int flight_set(struct flight *f, const struct flight_cfg *cfg, char *error, size_t error_size);
void flight_free(struct flight *f); /* a dump under way goes on by itself */

/* Takes each record from now on, before the model does. If out of memory, drops the window and starts a new one. */
void flight_tap(struct flight *f, struct pipeline *p);

/* Requests a dump now; the file of flight_state.h reports the result for `token` (0: none). */
void flight_request(struct flight *f, int token);
/* Call it in every loop: starts a due dump (requested, or for a root finding that opened) and logs a finished one.
 * Never waits for a file, nor for a dump whose file does not answer: that one is ended, and the next begins. */
void flight_poll(struct flight *f, const struct incidents *i, const struct model *m, uint64_t now_ns);
/* The session ends: writes due dumps and waits for them, up to a minute. */
void flight_finish(struct flight *f, const struct incidents *i, const struct model *m, uint64_t now_ns);

/* A recording of the window, or of its newest part (what was before stands in its snapshot), into the file `fd`, which
 * is in memory: nothing is waited for. It ends as a session ends. 0 or -errno. */
int flight_copy(struct flight *f, bool newest_only, const struct model *m, int fd);

size_t flight_bytes(const struct flight *f); /* memory held now */
size_t flight_bytes_peak(const struct flight *f);

#endif
