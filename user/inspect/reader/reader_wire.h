/* SPDX-License-Identifier: Apache-2.0
 *
 * reader_wire.h - what the collector and its own helper say to each other, over SEQPACKET sockets: one message, one
 * packet. Private to reader.c, reader_wire.c, reader_zygote.c and reader_worker.c. The helper trusts the collector; the
 * collector checks every size.
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
	uint32_t is_last; /* this worker ends now: it has used its processor time */
};

/* What the zygote hands over for a new worker, with 3 fds: pidfd, socket, shared memory. */
struct reader_hello {
	int32_t rc;
	int32_t pid;
};
#define READER_HELLO_FDS 3

/* What the zygote is asked for: one byte. */
enum worker_kind { WORKER_READER, WORKER_PARSER, WORKER_KINDS };

/* Sends one packet with `n` fds (0..READER_FDS_MAX). 0 or -errno. */
int reader_send(int sock, const void *data, size_t len, const int *fds, size_t n);
/* Receives one packet of at most `max` bytes and exactly up to `n` fds (*ret_n were there; surplus closed). Bytes, 0 at
 * the end of the connection, -errno; -EMSGSIZE when cut. */
ssize_t reader_recv(int sock, void *data, size_t max, int *fds, size_t n, size_t *ret_n);

/* A parser that used so much processor time ends, so that its limit cuts no job short for what others took. Tests set
 * it before reader_open(). */
extern unsigned parser_cpu_used_s;
/* SIGKILL when the parent ends. */
void reader_die_with(pid_t parent, const char *name);
/* Body of a worker. */
void reader_worker_main(enum worker_kind kind, int sock, int shm_fd, pid_t parent) __attribute__((noreturn));
/* Body of the zygote; never returns. */
void reader_zygote_main(int sock, pid_t parent) __attribute__((noreturn));

#endif
