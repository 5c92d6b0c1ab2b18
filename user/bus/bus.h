/* SPDX-License-Identifier: Apache-2.0
 *
 * bus.h - what carries reports and incidents between hosts: publish, fetch, append, read and write a table, and nothing
 * else of it is known outside of this room. A site with another engine writes these functions (nats.c has NATS
 * JetStream's).
 *
 * Two streams and three tables. Reports: one subject a host, kept for minutes, may be lost. Incidents: one log a job,
 * each message appended behind the one that its writer saw last, or refused. A table's value is changed only by who
 * knows its revision: leases (whose a job is), marks (what people said of incidents), settings (of agents).
 *
 * And what is asked for: a question to all agents that listen now, and files in pieces, kept for a day, by key.
 *
 * All calls wait for the other side, for BUS_WAIT_MS at most, and no thread but the caller's may be in one.
 */
#ifndef RANKTRACE_BUS_H
#define RANKTRACE_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUS_WAIT_MS 2000
#define BUS_TOKEN_MAX 64     /* of a subject's last part, with its zero byte: bus_token() */
#define BUS_KEPT_S 120       /* how long reports are kept: what a hub that begins knows of the past */
#define BUS_SAME_WINDOW_S 10 /* a report that is published twice within that is stored once */
#define BUS_NO_REVISION 0    /* of a value, or a log: there is none yet */
#define BUS_PIECE_MAX 262144 /* bytes of a piece: a server takes 1 MB */
#define BUS_KEY_MAX 256      /* of a piece: tokens with dots between */
#define BUS_REPLY_MAX 128

enum bus_stream { BUS_REPORTS, BUS_INCIDENTS };
enum bus_table { BUS_LEASES, BUS_MARKS, BUS_SETTINGS, BUS_TABLES };

struct bus_cfg {                     /* NULL: not given */
	const char *url;             /* "nats://host:4222,nats://host2:4222", "tls://..." */
	const char *credentials;     /* file of a user's JWT and seed */
	const char *ca, *cert, *key; /* files: who is trusted; who we are */
	const char *name;            /* for the server's lists */
	bool owns_streams;           /* may make the streams where they are missing: hubs */
};

struct bus_message {
	const char *token; /* the subject's last part: whose it is. As long as the cursor's next call */
	const void *data;
	size_t len;
	uint64_t seq;      /* in its stream */
	uint64_t n_behind; /* that the server has behind it: 0, this is the newest */
	int64_t stored_ns; /* the server's wall clock */
	const char *reply; /* of a question: where answers go; NULL none is wanted */
};

struct bus;
struct bus_cursor;

struct bus_class {
	/* 0: stored. -ENOTCONN, -ETIMEDOUT: not, or not known to be: publish it again with the same `id`. -ENOENT:
	 * there is no such stream yet. -EACCES, -EMSGSIZE: the server will not have it. */
	int (*publish)(struct bus *b, const char *token, const void *data, size_t len, const char *id);
	/* Messages of a stream in order: of one token or (NULL) of all; from number `from` on, or (0) those of the last
	 * `past_s` seconds and all later ones. */
	int (*follow)(struct bus *b, enum bus_stream stream, const char *token, uint64_t from, int past_s,
		      struct bus_cursor **ret);
	/* 1: *ret. 0: none came within that time. */
	int (*fetch)(struct bus_cursor *c, int wait_ms, struct bus_message *ret);
	void (*cursor_free)(struct bus_cursor *c);
	/* The newest number of that log; BUS_NO_REVISION: it has none. */
	int (*last)(struct bus *b, const char *token, uint64_t *ret_seq);
	/* -ESTALE: somebody else wrote behind `after`. */
	int (*append)(struct bus *b, const char *token, const void *data, size_t len, uint64_t after,
		      uint64_t *ret_seq);
	/* The value of a key (a token), zero-terminated, cut at `size`; "" and BUS_NO_REVISION: it has none. */
	int (*table_read)(struct bus *b, enum bus_table table, const char *key, char *value, size_t size,
			  uint64_t *ret_revision);
	/* -ESTALE: its revision is another one now. */
	int (*table_write)(struct bus *b, enum bus_table table, const char *key, const char *value, uint64_t revision,
			   uint64_t *ret_revision);
	/* A piece of a file; one that has the key already is replaced. 0, or as publish(). */
	int (*piece_put)(struct bus *b, const char *key, const void *data, size_t len);
	/* -ENOENT: it is not there; -EMSGSIZE: it is longer than `size`. */
	int (*piece_get)(struct bus *b, const char *key, void *to, size_t size, size_t *ret_len);
	/* To all that listen now; nothing keeps it. `whose`: a token, by which the server says who may ask. Answers are
	 * fetched from *ret_answers; NULL: none is wanted. -EACCES: this account may not. */
	int (*ask)(struct bus *b, const char *whose, const void *data, size_t len, struct bus_cursor **ret_answers);
	int (*answer)(struct bus *b, const char *reply, const void *data, size_t len);
	/* Questions from now on, whose they are as `token`: fetched as reports are. */
	int (*listen)(struct bus *b, struct bus_cursor **ret);
	void (*close)(struct bus *b);
};

struct bus { /* first member of an implementation's */
	const struct bus_class *class;
};

/* Connects, now or later: a server that is not there yet is waited for in the background. 0; -ENOTSUP: its library is
 * not on this machine; -EINVAL: a setting; with the message (object, cause, remedy) in `error`. */
int bus_nats_open(const struct bus_cfg *cfg, struct bus **ret, char *error, size_t error_size);

/* A text as part of a subject: letters, digits, '-' and '_' stay, of others and of long ones a hash is put behind. Two
 * texts have two tokens. */
void bus_token(const char *text, char to[BUS_TOKEN_MAX]);

#endif
