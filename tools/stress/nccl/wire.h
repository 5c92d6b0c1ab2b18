/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - what the coordinator and the ranks say to each other, over TCP: a head, then a struct by type. The same
 * ranktrace has to run everywhere, which the first message says.
 */
#ifndef STRESS_NCCL_WIRE_H
#define STRESS_NCCL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/stress/fault.h"
#include "tools/stress/lib/library.h"
#include "tools/stress/lib/nccl_abi.h"
#include "tools/stress/nccl/collective.h"

enum wire_type {
	WIRE_HELLO = 1, /* rank: I am here, or here again */
	WIRE_REFUSED,   /* rank: I cannot test, and why */
	WIRE_GROUP,     /* to a rank: you are in a group */
	WIRE_ID,        /* its first rank: its unique id; and to all of them */
	WIRE_JOINED,    /* rank: the communicator is there, or not */
	WIRE_CASE,      /* to a rank: do your part of this */
	WIRE_RESULT,
	WIRE_LEAVE,  /* to a rank: the group is over; 1: and start anew */
	WIRE_END,    /* to a rank: the test is over */
	WIRE_FAULT,  /* rank: what its GPU's health was */
	WIRE_BYE,    /* rank: I end; host of stress rdma: a signal stopped me */
	WIRE_STATUS, /* to a rank, a host: the exit status of all */
	/* stress rdma: rdma/fleet.h */
	WIRE_HOST = 64, /* host: I am here, with so many ports */
	WIRE_PORT,
	WIRE_LEFT_OUT, /* host: I have this port, too, and do not test it */
	WIRE_LANE,     /* host: this connection is an end of a port */
	/* to an end of a port, and its answers: rdma/lane.h */
	WIRE_OPEN,
	WIRE_OPENED,
	WIRE_CONNECT,
	WIRE_CONNECTED,
	WIRE_RUN,
	WIRE_READY,
	WIRE_GO,
	WIRE_FINISH,
	WIRE_MEASURED,
	WIRE_CLOSE,
	WIRE_CLOSED,
	WIRE_COUNT,
	WIRE_COUNTED,
};

struct wire_hello {
	uint32_t version; /* WIRE_VERSION */
	int32_t rank, size, ordinal, nccl_version, multicast, sm_count;
	char host[64], name[96], pci[32], uuid[64];
};

struct wire_refused {
	int32_t rank, status; /* enum stress_exit */
	char why[LIBRARY_WHY];
};

struct wire_group {
	int32_t n, rank;
	uint64_t limit_ns; /* of its creation */
};

enum case_status {
	CASE_DONE,
	CASE_UNSUPPORTED,
	CASE_HUNG,
	CASE_FAILED,
	CASE_NO_MEMORY,
	CASE_LOST,
	CASE_SYSTEM, /* NCCL lacks something of the host, and the GPU answers */
	CASE_PEER    /* it may have failed because another did; if none did, CASE_FAILED */
};

/* A communicator and a process that cannot go on. */
static inline bool case_is_broken(enum case_status status)
{
	return status != CASE_DONE && status != CASE_UNSUPPORTED && status != CASE_NO_MEMORY;
}

struct wire_joined {
	int32_t status;
	char text[FAULT_TEXT];
};

#define WRONG_KEPT 4

struct wire_result {
	int32_t status;
	uint32_t n_kept;
	double seconds; /* of one operation */
	double p99;     /* of one operation alone, of SPREAD_MAX at most; fewer than 100: the slowest */
	uint64_t wrong, checked;
	uint64_t calls, transfers; /* issued: of the collective's own call, or of Send and Recv */
	uint64_t call_bytes;       /* of each: its count times the type */
	struct {
		uint64_t index, want, got;
	} kept[WRONG_KEPT];
	char text[FAULT_TEXT];
};

#define WIRE_BODY_MAX 1024
#define WIRE_VERSION (sizeof(struct wire_hello) << 16 ^ sizeof(struct wire_result) << 8 ^ sizeof(struct nccl_case) ^ 1)

/* 0, -ETIMEDOUT, -ECONNRESET (the other end is gone), -EPROTO (none of ours), -errno. */
int wire_send(int fd, enum wire_type type, const void *body, uint32_t bytes);
/* `body` has WIRE_BODY_MAX bytes. -ETIMEDOUT: nothing came until then. */
int wire_receive(int fd, enum wire_type *type, void *body, uint64_t deadline_ns);
/* Whether something has come, or the other end is gone. */
bool wire_waits(int fd);
/* The name of this host: NCCL_HOSTID, else its own. Returns `name`. */
const char *wire_host_name(char *name, size_t size);

#endif
