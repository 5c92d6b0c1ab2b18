/* SPDX-License-Identifier: Apache-2.0
 *
 * subject.c - see subject.h. A rank's number and a netdev's name may become known later: they are shown, and are no
 * part of what a subject is known by where something else is.
 */
#include "subject.h"

#include <stddef.h>

#include "base/hash.h"

static const char *const types[SUBJECT_TYPE_MAX] = {
#define X(id, name, help) [SUBJECT_##id] = name,
	SUBJECT_TYPES(X)
#undef X
};

const char *subject_type_name(enum subject_type type)
{
	return (unsigned int)type < SUBJECT_TYPE_MAX ? types[type] : "?";
}

static struct subject subject_of(enum subject_type type, uint32_t node)
{
	return (struct subject){
		.type = type, .node = node, .rank = -1, .gpu = SUBJECT_NO_GPU, .pci = GPU_PCI_NONE, .ranks = { -1, -1 }
	};
}

static struct subject of_proc(enum subject_type type, int rank, uint64_t proc)
{
	struct subject s = subject_of(type, proc ? (uint32_t)(proc >> 32) : SUBJECT_NO_NODE);

	s.rank = rank;
	s.proc = proc;
	return s;
}

struct subject subject_rank(int rank, uint64_t proc)
{
	return of_proc(SUBJECT_RANK, rank, proc);
}

struct subject subject_ranks(uint64_t set)
{
	struct subject s = subject_of(SUBJECT_RANKS, SUBJECT_NO_NODE);

	s.set = set;
	return s;
}

struct subject subject_process(int rank, uint64_t proc)
{
	return of_proc(SUBJECT_PROCESS, rank, proc);
}

struct subject subject_thread(int rank, uint64_t proc, uint32_t tid)
{
	struct subject s = of_proc(SUBJECT_THREAD, rank, proc);

	s.tid = tid;
	return s;
}

struct subject subject_gpu(uint32_t node, uint32_t gpu, uint64_t pci)
{
	struct subject s = subject_of(SUBJECT_GPU, node);

	s.gpu = gpu;
	s.pci = pci;
	return s;
}

struct subject subject_port(uint32_t node, const char *device, uint32_t port, int rank, uint64_t proc)
{
	struct subject s = subject_of(SUBJECT_PORT, node);

	s.device = device && *device ? device : NULL;
	s.port = port;
	s.rank = rank;
	s.proc = proc;
	return s;
}

struct subject subject_address(const char *address, const char *netdev)
{
	struct subject s = subject_of(SUBJECT_PORT, SUBJECT_NO_NODE);

	s.address = address;
	s.netdev = netdev && *netdev ? netdev : NULL;
	return s;
}

struct subject subject_path(const char *a, const char *b)
{
	struct subject s = subject_of(SUBJECT_PATH, SUBJECT_NO_NODE);

	s.a = a;
	s.b = b;
	return s;
}

struct subject subject_path_of_ranks(int from, uint64_t from_proc, int to, uint64_t to_proc)
{
	struct subject s = subject_of(SUBJECT_PATH, SUBJECT_NO_NODE);

	s.ranks[0] = from;
	s.ranks[1] = to;
	s.procs[0] = from_proc;
	s.procs[1] = to_proc;
	return s;
}

struct subject subject_comm(uint64_t comm, uint64_t parent)
{
	struct subject s = subject_of(SUBJECT_COMMUNICATOR, SUBJECT_NO_NODE);

	s.comm = comm;
	s.parent = parent;
	return s;
}

struct subject subject_job(const char *name, uint32_t nth, const char *shown)
{
	struct subject s = subject_of(SUBJECT_JOB, SUBJECT_NO_NODE);

	s.job = shown ? shown : "";
	s.job_name = name;
	s.job_nth = nth;
	return s;
}

struct subject subject_node(uint32_t node)
{
	return subject_of(SUBJECT_NODE, node);
}

/* --- what it is known by --- */

static uint64_t proc_mix(uint64_t h, uint64_t proc, int rank)
{
	return hash_mix(h, proc ? proc : (uint64_t)(int64_t)rank);
}

static uint64_t port_mix(uint64_t h, const struct subject *s)
{
	if (s->proc)
		return hash_mix(h, s->proc);
	return hash_mix(hash_text(hash_text(h, s->device), s->address), s->port);
}

static uint64_t path_mix(uint64_t h, const struct subject *s)
{
	h = hash_text(hash_text(h, s->a), s->b);
	return proc_mix(proc_mix(h, s->procs[0], s->ranks[0]), s->procs[1], s->ranks[1]);
}

uint64_t subject_hash(const struct subject *s)
{
	uint64_t h = hash_mix(hash_mix(0, s->type), s->node);

	switch (s->type) {
	case SUBJECT_RANK:
	case SUBJECT_PROCESS: return proc_mix(h, s->proc, s->rank);
	case SUBJECT_THREAD: return hash_mix(proc_mix(h, s->proc, s->rank), s->tid);
	case SUBJECT_RANKS: return hash_mix(h, s->set);
	case SUBJECT_GPU: return s->pci != GPU_PCI_NONE ? hash_mix(hash_mix(h, 1), s->pci) : hash_mix(h, s->gpu);
	case SUBJECT_PORT: return port_mix(h, s);
	case SUBJECT_PATH: return path_mix(h, s);
	case SUBJECT_COMMUNICATOR: return hash_mix(hash_mix(h, s->comm), s->parent);
	case SUBJECT_JOB:
		return s->job_nth > 1 ? hash_mix(hash_text(h, s->job_name), s->job_nth) : hash_text(h, s->job_name);
	case SUBJECT_NONE:
	case SUBJECT_NODE:
	case SUBJECT_TYPE_MAX: break;
	}
	return h;
}
