/* SPDX-License-Identifier: Apache-2.0
 *
 * subject.h - what a finding is about, by type: the thing that somebody has to look at. Every detector sets it, and
 * with the kind and a number of the detector's own it is what a finding is known by from tick to tick
 * (finding_identify()).
 */
#ifndef RANKTRACE_SUBJECT_H
#define RANKTRACE_SUBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "tracers/gpu/wire/gpu.h"

#define SUBJECT_NO_NODE (~0u)
#define SUBJECT_NO_GPU (~0u)

/* Name in JSON, and what it is. */
/* clang-format off */
#define SUBJECT_TYPES(X) \
	X(NONE, "", "not set") \
	X(RANK, "rank", "one rank, or what is known of it") \
	X(RANKS, "ranks", "several ranks: those of the finding") \
	X(PROCESS, "process", "a process as a whole") \
	X(THREAD, "thread", "one thread of a process") \
	X(GPU, "gpu", "a GPU of a host") \
	X(PORT, "port", "a port of an RDMA device, or what has a TCP address") \
	X(PATH, "path", "the way between two TCP addresses or two ranks; without ends: all ways") \
	X(COMMUNICATOR, "communicator", "a communicator, or one whose creation is pending") \
	X(JOB, "job", "the job as a whole") \
	X(NODE, "node", "a host as a whole")
/* clang-format on */

enum subject_type {
#define X(id, name, help) SUBJECT_##id,
	SUBJECT_TYPES(X)
#undef X
		SUBJECT_TYPE_MAX
};

/* Only the fields of its type are set; all others are 0, NULL or as said. Texts are interned or static. */
struct subject {
	enum subject_type type;
	uint32_t node; /* number of its host; SUBJECT_NO_NODE: several, or not known */
	int rank;      /* RANK, PROCESS, THREAD, PORT: global; -1 not known */
	uint64_t proc; /* RANK, PROCESS, THREAD, PORT: proc_key(), 0 none */
	uint32_t tid;  /* THREAD */
	uint64_t set;  /* RANKS: what the set is known by, whatever is in it now */
	uint32_t gpu;  /* GPU: as NVML counts; SUBJECT_NO_GPU not known */
	uint64_t pci;  /* GPU: what it is known by where it is reported, else by `gpu`; GPU_PCI_NONE not known */
	const char *device, *address; /* PORT: of an RDMA device and its number there, or a TCP address */
	const char *netdev;           /* PORT: of that address; NULL not known */
	uint32_t port;                /* PORT */
	const char *a, *b;            /* PATH: TCP addresses */
	uint64_t procs[2];            /* PATH: of the ranks that it is between, the sender first */
	int ranks[2];                 /* PATH: of these, global */
	uint64_t comm, parent;        /* COMMUNICATOR: commHash; pending and not known by one: 0, and its parent's */
	const char *job;              /* JOB: as it is shown; "" not known */
	const char *job_name;         /* JOB: what it is known by, with job_nth: what is shown may get longer */
	uint32_t job_nth;             /* JOB: of those of its name, from 1 */
};

/* `proc`: proc_key(), 0 no process. */
struct subject subject_rank(int rank, uint64_t proc);
struct subject subject_ranks(uint64_t set);
struct subject subject_process(int rank, uint64_t proc);
struct subject subject_thread(int rank, uint64_t proc, uint32_t tid);
struct subject subject_gpu(uint32_t node, uint32_t gpu, uint64_t pci);
/* `device` "" not known; `proc`: of the rank whose port it is, where it is known by that, else 0. */
struct subject subject_port(uint32_t node, const char *device, uint32_t port, int rank, uint64_t proc);
struct subject subject_address(const char *address, const char *netdev);
struct subject subject_path(const char *a, const char *b); /* NULL, NULL: all */
struct subject subject_path_of_ranks(int from, uint64_t from_proc, int to, uint64_t to_proc);
struct subject subject_comm(uint64_t comm, uint64_t parent);
struct subject subject_job(const char *name, uint32_t nth, const char *shown);
struct subject subject_node(uint32_t node); /* SUBJECT_NO_NODE: the session's host */

const char *subject_type_name(enum subject_type type); /* as JSON has it */
/* The same for the same subject: from one tick to the next, in a replay, on another machine. */
uint64_t subject_hash(const struct subject *s);

#endif
