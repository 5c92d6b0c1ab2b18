/* SPDX-License-Identifier: Apache-2.0
 *
 * nats_private.h - shared by the files of the NATS bus.
 */
#ifndef RANKTRACE_NATS_PRIVATE_H
#define RANKTRACE_NATS_PRIVATE_H

#include "bus/bus.h"
#include "bus/nats_library.h"

#define NATS_REPORTS "RANKTRACE_REPORTS" /* streams */
#define NATS_INCIDENTS "RANKTRACE_INCIDENTS"
#define NATS_FILES "RANKTRACE_FILES"
#define NATS_SUBJECT_MAX (BUS_TOKEN_MAX + 32)

struct nats_bus {
	struct bus base;
	const struct nats_library *lib;
	natsConnection *connection;
	jsCtx *js;
	kvStore *tables[BUS_TABLES]; /* NULL: not opened yet */
	bool owns_streams;           /* it is a hub's */
	uint64_t no_reports_ns;      /* since then the stream of reports does not answer; 0: it does */
};

/* -ESTALE, -ETIMEDOUT, -ENOTCONN and so on. */
int nats_errno(natsStatus s, jsErrCode code);
/* "ranktrace.report.HOST", "ranktrace.incident.JOB"; token NULL: all of them. */
void nats_subject(enum bus_stream stream, const char *token, char to[NATS_SUBJECT_MAX]);
/* 0; -ENOENT: no hub has made it yet; -ENOTCONN. */
int nats_table_open(struct nats_bus *b, enum bus_table table);
/* What a key-value table is to the server: a stream, with a subject for each key. */
void nats_table_names(enum bus_table table, const char *key, char stream[NATS_SUBJECT_MAX],
		      char subject[NATS_SUBJECT_MAX]);
/* Waits for the server, as nothing goes on without it. */
int nats_streams_make(struct nats_bus *b, const struct bus_cfg *cfg, char *error, size_t size);

struct bus_cursor {
	struct nats_bus *b;
	natsSubscription *sub;
	natsMsg *msg;      /* of the last call */
	uint64_t heard_ns; /* the last message, or that it is known */
	bool plain;        /* of no stream: nothing is known of a message but what it says */
};

/* Makes it where it is missing, on one server where there is one. */
int nats_stream_add(struct nats_bus *b, jsStreamConfig *c);
int nats_follow(struct bus *base, enum bus_stream stream, const char *token, uint64_t from, int past_s,
		struct bus_cursor **ret);
int nats_fetch(struct bus_cursor *c, int wait_ms, struct bus_message *ret);
void nats_cursor_free(struct bus_cursor *c);

/* nats_files.c */
int nats_files_make(struct nats_bus *b);
int nats_piece_put(struct bus *base, const char *key, const void *data, size_t len);
int nats_piece_get(struct bus *base, const char *key, void *to, size_t size, size_t *ret_len);
int nats_ask(struct bus *base, const char *whose, const void *data, size_t len, struct bus_cursor **ret_answers);
int nats_answer(struct bus *base, const char *reply, const void *data, size_t len);
int nats_listen(struct bus *base, struct bus_cursor **ret);

#endif
