/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs_scan.h - finds the open RDMA contexts (struct ibv_context) and queue pairs (struct ibv_qp) of a live process
 * from outside, in slices: for jobs that opened their devices before anybody looked. A context is recognised by its ops
 * pointing into the text of one file, its mark of the extended ABI and a device whose name is uverbsN; a queue pair by
 * its context, and by its protection domain and completion queues naming the same one. No provider is known by name.
 */
#ifndef RANKTRACE_TARGET_VERBS_SCAN_H
#define RANKTRACE_TARGET_VERBS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VERBS_CONTEXTS_MAX 64
#define VERBS_QPS_MAX 4096 /* of one process */
#define VERBS_QP_FNS 16    /* pointers of a struct ibv_qp_ex that are of use */

struct reader;

struct verbs_context_at {
	uint64_t addr, poll_cq, post_send, post_recv; /* functions: addresses in the process */
	char device[32];
};

struct verbs_qp_at {
	uint64_t addr, context;
	uint32_t qpn, state, type, port;
	uint64_t ex; /* its address where it is a struct ibv_qp_ex with functions of one file; else 0 */
};

struct verbs_found { /* begins zeroed; `qps` is freed by verbs_found_free() */
	size_t n_contexts, n_qps;
	struct verbs_context_at contexts[VERBS_CONTEXTS_MAX];
	struct verbs_qp_at *qps;
	bool cut; /* there may be more */
	/* where the walk stands */
	uint64_t from, space;
	bool second; /* contexts are known, queue pairs are looked for */
};

/* One slice of up to `pages_max` present pages. 1: there is more; 0: that was the end; an error of parser_run_memory(),
 * after which it may be asked again. */
int verbs_scan_step(struct reader *r, pid_t pid, uint32_t pages_max, struct verbs_found *found);
void verbs_found_free(struct verbs_found *found);

#endif
