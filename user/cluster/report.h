/* SPDX-License-Identifier: Apache-2.0
 *
 * report.h - the message that a node's agent publishes each second (schemas/cluster.proto): to bytes and back. What
 * comes in may be anybody's: it is bounded before it is unpacked, while it is, and after.
 */
#ifndef RANKTRACE_CLUSTER_REPORT_H
#define RANKTRACE_CLUSTER_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "cluster.pb-c.h"

#define REPORT_VERSION 1
#define REPORT_BYTES_MAX 131072u   /* of a message; a node of 8 ranks has 5 KB */
#define REPORT_MEMORY_LEAST 65536u /* unpacked; and so many times the bytes of the message */
#define REPORT_MEMORY_TIMES 64u
#define REPORT_PROCESSES_MAX 1024u  /* also of all threads of one, of all communicators of one */
#define REPORT_RANKS_MAX (1u << 20) /* no communicator is larger: tables are made by its size */
#define REPORT_TEXT_MAX 4096u
#define REPORT_CALLS_MAX 32u /* of a process; and as many peers of a communicator */
#define REPORT_AGE_MAX_NS (1ull << 62)

/* What became of input that is refused. */
enum report_fault {
	REPORT_GOOD,
	REPORT_OVERSIZED,  /* more bytes, or more in them, than any agent sends */
	REPORT_MALFORMED,  /* no such message */
	REPORT_NEWER,      /* of a version that this program does not know */
	REPORT_IMPOSSIBLE, /* a field has a value that cannot be */
	REPORT_FAULTS,
};

/* Free with report_free(). On a fault *ret is NULL. */
enum report_fault report_unpack(const void *data, size_t len, Cluster__NodeReport **ret);
void report_free(Cluster__NodeReport *r);
const char *report_fault_text(enum report_fault fault); /* "malformed" */

/* Into to[REPORT_BYTES_MAX]: its bytes. What does not fit is left out, from the end of the lists, least important
 * first (findings, GPUs, threads but the first of each process, processes), and counted in left_out. */
size_t report_pack(Cluster__NodeReport *r, void *to);

#endif
