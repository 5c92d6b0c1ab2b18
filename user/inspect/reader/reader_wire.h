/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_wire.h - what the collector and its own helper say to each other, over SEQPACKET sockets: one message, one
 * packet. Private to the files reader*.c. The helper trusts the collector; the collector checks every size.
 */
#ifndef RANKTRACE_TARGET_READER_WIRE_H
#define RANKTRACE_TARGET_READER_WIRE_H

#include "inspect/reader/reader.h"

struct reader_request {
	uint64_t seq;
	reader_fn *fn;
	uint32_t arg_len;
	uint32_t out_max;
	uint8_t arg[];
};

struct reader_answer {
	uint64_t seq;
	int32_t rc;
	uint32_t out_len; /* bytes in the shared memory */
	uint32_t n_fds;
	uint32_t is_last;    /* this worker ends now: it has used its processor time */
	uint64_t start, end; /* end > 0: no answer, but a question: which file is mapped there? */
};

/* To that question, with the file. */
struct reader_mapped {
	int32_t rc;
};

/* What is asked of a worker: all of worker_run() that no answer changes. */
struct question {
	reader_fn *fn;
	const void *arg;
	size_t arg_len;
	const int *fds;
	size_t n_fds;
	bool gives_files; /* of the process, as its job asks */
	uint32_t owner;   /* user who made what a parser is to read */
};
#define OWNER_SEVERAL UINT32_MAX
#define OWNER_NONE (UINT32_MAX - 1) /* bytes without a file: lines of a log */

/* A spare zygote takes over when the first one is gone: the collector has given up what it would need to make another.
 */
enum worker_kind { WORKER_READER, WORKER_PARSER, WORKER_KINDS, ZYGOTE_SPARE = WORKER_KINDS };

struct reader_spawn {
	uint32_t kind, number;
};
/* The answer to that number, with 3 fds: pidfd, socket, shared memory; the last one not of a zygote. */
struct reader_hello {
	int32_t rc;
	int32_t pid;
	uint32_t number, reserved;
};
#define READER_HELLO_FDS 3

/* Sends one packet with `n` fds (0..READER_FDS_MAX). 0 or -errno. */
int reader_send(int sock, const void *data, size_t len, const int *fds, size_t n);
/* Receives one packet of at most `max` bytes and exactly up to `n` fds (*ret_n were there; surplus closed). Bytes, 0 at
 * the end of the connection, -errno; -EMSGSIZE when cut. */
ssize_t reader_recv(int sock, void *data, size_t max, int *fds, size_t n, size_t *ret_n);

/* parser_run() of any such question. */
int parser_ask(struct reader *r, pid_t pid, const struct question *q, unsigned deadline_ms, void *out, size_t out_max,
	       size_t *ret_len);

/* A worker that used so much processor time ends, so that its limit cuts no job short for what others took. Tests set
 * it before reader_open(). */
extern unsigned worker_cpu_used_s;
/* SIGKILL when the parent ends. */
void reader_die_with(pid_t parent, const char *name);
/* Body of a worker. */
void reader_worker_main(enum worker_kind kind, int sock, int shm_fd, pid_t parent) __attribute__((noreturn));
/* Body of the zygote; never returns. */
void reader_zygote_main(int sock, pid_t parent) __attribute__((noreturn));

#endif
