/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.h - a communicator as read from a rank's memory. The body of the record, and the event's.
 */
#ifndef RANKTRACE_WIRE_COMM_H
#define RANKTRACE_WIRE_COMM_H

#include <stdint.h>

#include "schemas/wire.h"

/* Which of a sample's fields were there: a version of NCCL may lack some. In an event those that were not are 0. */
enum comm_sample_known { COMM_SAMPLE_ASYNC_RESULT = 1, COMM_SAMPLE_INIT_STATE = 2, COMM_SAMPLE_ABORT = 4 };
#define COMM_SAMPLE_COUNTERS 8

struct comm_sample {
	uint64_t comm; /* address of the ncclComm */
	uint64_t hash;
	int32_t rank, nranks;
	int32_t device;                          /* -1 unknown */
	uint32_t n_counters;                     /* 0: NCCL keeps none that move */
	uint64_t counters[COMM_SAMPLE_COUNTERS]; /* by NCCL function, Broadcast first */
	int32_t async_result, init_state;        /* ncclResult_t */
	uint32_t abort;                          /* the word abortFlag points at */
	uint8_t known;                           /* of enum comm_sample_known */
	uint8_t reserved[3];
};
struct record_comm_sample {  /* ts: behind the read: nothing that was called later is counted */
	struct wire_hdr hdr; /* tgid */
	struct comm_sample body;
};
_Static_assert(sizeof(struct record_comm_sample) == 136, "record_comm_sample");

struct record_comm_vanished { /* ts: of the sample that did not find it */
	struct wire_hdr hdr;  /* tgid */
	uint64_t comm, hash;  /* as in the samples before */
};
_Static_assert(sizeof(struct record_comm_vanished) == 40, "record_comm_vanished");

/* tgid. A process that shows no communicator in a sample has none. Only an autopsy scans at all before it reports. */
struct record_comm_scan {
	struct wire_hdr hdr;
	uint32_t n_found;
	uint32_t reserved;
};
_Static_assert(sizeof(struct record_comm_scan) == 32, "record_comm_scan");

#endif
