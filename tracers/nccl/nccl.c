/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl.c - the rows of NCCL's API (which argument carries what), and the facts of each library. A new
 * NCCL function is one CALL line. Argument places follow nccl.h of NCCL 2.18 to 2.31.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tracers/nccl/nccl.h"
#include "inspect/discover/discover.h"
#include "base/log.h"
#include "inspect/elf/elf_file.h"
#include "inspect/reader/reader.h"
#include "tracers/nccl/nccl_exports.h"
#include "tracers/nccl/nccl_layout.h"
#include "source.h"
#include "nccl.skel.h"

#define NONE NCCL_NO_ARG
#define NCCL_DWARF_DEADLINE_MS 5000 /* a cold page cache and 218 MB */

/* CALL(symbol, program, required, fields of struct nccl_call): one table, the probe rows and their facts. */
#define OP(n, kind, count_, dtype_, redop_, root_, peer_, comm_, stream_, wraps) \
	CALL("nccl" n, "pnccl" n, "nccl_op_enter", .op = kind, .count = count_, .dtype = dtype_, .redop = redop_, \
	     .root = root_, .peer = peer_, .comm = comm_, .stream = stream_, .wraps_next = wraps)
#define SIGNAL(n, kind, count_, dtype_, peer_, comm_, stream_) \
	CALL("nccl" n, "pnccl" n, "nccl_signal_enter", .op = kind, .count = count_, .dtype = dtype_, .peer = peer_, \
	     .comm = comm_, .stream = stream_)
#define INIT(n, kind, newcomm_, parent_, nranks_, rank_, color_, key_, id_, by_value) \
	CALL("nccl" n, "pnccl" n, "nccl_init_enter", .op = kind, .newcomm = newcomm_, .comm = parent_, \
	     .nranks = nranks_, .rank = rank_, .color = color_, .key = key_, .id = id_, .id_by_value = by_value) \
	RETURN("nccl" n, "pnccl" n, "nccl_init_exit")
#define GROUP(n, end) CALL("nccl" n, "pnccl" n, "nccl_group_enter", .op = end)
#define GONE(n, kind) CALL("nccl" n, "pnccl" n, "nccl_gone_enter", .op = kind, .comm = 0)

#define CALLS \
	OP("AllReduce", OP_ALLREDUCE, 2, 3, 4, NONE, NONE, 5, 6, 0) \
	OP("Broadcast", OP_BROADCAST, 2, 3, NONE, 4, NONE, 5, 6, 0) \
	OP("Bcast", OP_BROADCAST, 1, 2, NONE, 3, NONE, 4, 5, 1) \
	OP("Reduce", OP_REDUCE, 2, 3, 4, 5, NONE, 6, 7, 0) \
	OP("AllGather", OP_ALLGATHER, 2, 3, NONE, NONE, NONE, 4, 5, 0) \
	OP("ReduceScatter", OP_REDUCESCATTER, 2, 3, 4, NONE, NONE, 5, 6, 0) \
	OP("AlltoAll", OP_ALLTOALL, 2, 3, NONE, NONE, NONE, 4, 5, 0) \
	OP("Gather", OP_GATHER, 2, 3, NONE, 4, NONE, 5, 6, 0) \
	OP("Scatter", OP_SCATTER, 2, 3, NONE, 4, NONE, 5, 6, 0) \
	OP("AllReduceConfig", OP_ALLREDUCE, 2, 3, 4, NONE, NONE, 5, 6, 0) \
	OP("BroadcastConfig", OP_BROADCAST, 2, 3, NONE, 4, NONE, 5, 6, 0) \
	OP("ReduceConfig", OP_REDUCE, 2, 3, 4, 5, NONE, 6, 7, 0) \
	OP("AllGatherConfig", OP_ALLGATHER, 2, 3, NONE, NONE, NONE, 4, 5, 0) \
	OP("ReduceScatterConfig", OP_REDUCESCATTER, 2, 3, 4, NONE, NONE, 5, 6, 0) \
	OP("AlltoAllConfig", OP_ALLTOALL, 2, 3, NONE, NONE, NONE, 4, 5, 0) \
	OP("GatherConfig", OP_GATHER, 2, 3, NONE, 4, NONE, 5, 6, 0) \
	OP("ScatterConfig", OP_SCATTER, 2, 3, NONE, 4, NONE, 5, 6, 0) \
	SIGNAL("PutSignal", NCCL_PUT_SIGNAL, 1, 2, 3, 9, 10) \
	SIGNAL("Signal", NCCL_SEND_SIGNAL, NONE, NONE, 0, 4, 5) \
	SIGNAL("WaitSignal", NCCL_WAIT_SIGNAL, 0, NONE, NONE, 2, 3) \
	OP("Send", OP_SEND, 1, 2, NONE, NONE, 3, 4, 5, 0) \
	OP("Recv", OP_RECV, 1, 2, NONE, NONE, 3, 4, 5, 0) \
	GROUP("GroupStart", 0) \
	GROUP("GroupEnd", 1) \
	INIT("CommInitRank", COMM_INIT_RANK, 0, NONE, 1, 3, NONE, NONE, 2, 1) \
	INIT("CommInitRankConfig", COMM_INIT_CONFIG, 0, NONE, 1, 3, NONE, NONE, 2, 1) \
	INIT("CommInitRankScalable", COMM_INIT_SCALABLE, 0, NONE, 1, 2, NONE, NONE, 4, 0) \
	INIT("CommInitAll", COMM_INIT_ALL, 0, NONE, 1, NONE, NONE, NONE, NONE, 0) \
	INIT("CommSplit", COMM_INIT_SPLIT, 3, 0, NONE, NONE, 1, 2, NONE, 0) \
	INIT("CommShrink", COMM_INIT_SHRINK, 3, 0, NONE, NONE, NONE, NONE, NONE, 0) \
	INIT("CommGrow", COMM_INIT_GROW, 4, 0, 1, 3, NONE, NONE, NONE, 0) \
	GONE("CommFinalize", COMM_GONE_FINALIZE) \
	GONE("CommDestroy", COMM_GONE_DESTROY) \
	GONE("CommAbort", COMM_GONE_ABORT) \
	GONE("CommRevoke", COMM_GONE_REVOKE)

static const struct probe nccl_probes[] = {
#define CALL(sym, pname, prog, ...) { .symbol = sym, .alias = pname, .program = prog },
#define RETURN(sym, pname, prog) { .symbol = sym, .alias = pname, .program = prog, .at_return = true },
	CALLS
#undef CALL
#undef RETURN
};

static const struct nccl_call nccl_calls[] = {
#define CALL(sym, pname, prog, ...) { __VA_ARGS__ },
#define RETURN(sym, pname, prog) { .comm = NONE },
	CALLS
#undef CALL
#undef RETURN
};

static const char *const nccl_markers[] = { "ncclAllReduce|pncclAllReduce", NULL };

static const void *nccl_object(size_t *ret_size)
{
	return nccl_bpf__elf_bytes(ret_size);
}

static int nccl_start(struct tracer_handle *h)
{
	_Static_assert(sizeof(nccl_calls) / sizeof(nccl_calls[0]) <= NCCL_CALLS_MAX, "more calls than the map holds");
	int err = 0;

	for (uint32_t i = 0; !err && i < sizeof(nccl_calls) / sizeof(nccl_calls[0]); i++)
		err = tracer_map_put(h, "nccl_calls", &i, &nccl_calls[i]);
	return err;
}

/* Offsets of ncclComm out of the library's own DWARF. What is read by them is checked at each use (magic, rank). 0,
 * -errno. */
static int nccl_offsets_learn(struct reader *reader, int fd, struct nccl_lib *ret)
{
	_Static_assert(NCCL_COUNTERS_MAX == NCCL_SEQ_MAX, "as many counters as the layout may have");
	struct nccl_layout l;
	int err = nccl_layout_fetch(reader, fd, &l);

	if (err)
		return err;
	*ret = (struct nccl_lib){
		.valid = 1,
		.magic = l.magic,
		.end_magic = l.end_magic,
		.hash = l.hash,
		.rank = l.rank,
		.nranks = l.nranks,
		.device = l.device != NCCL_NOWHERE ? l.device : l.rank,
		.counters = l.n_counters ? l.counters : 0,
		.n_counters = l.n_counters,
	};
	return 0;
}

/*
 * NCCL's own code, to distinguish its own calls from the job's. Not all of the file: NCCL may be linked into a program
 * or a framework's library, whose code is the caller. Its objects lie together there, the functions of the API among
 * them.
 */
static int nccl_text_learn(struct reader *reader, int fd, struct nccl_lib *ret)
{
	enum { N = 2 * sizeof(nccl_probes) / sizeof(nccl_probes[0]) };
	struct elf_symbol symbols[N];
	struct elf_facts facts;
	const char *names[N];
	int err;

	for (size_t i = 0; i < N; i++)
		names[i] = i % 2 ? nccl_probes[i / 2].alias : nccl_probes[i / 2].symbol;
	err = elf_fetch_facts(reader, fd, names, N, NCCL_DWARF_DEADLINE_MS, &facts, symbols);
	for (size_t i = 0; !err && i < N; i++) {
		uint64_t end = symbols[i].vaddr + symbols[i].size;

		if (!symbols[i].found)
			continue;
		if (!ret->text_end || symbols[i].vaddr < ret->text_first)
			ret->text_first = symbols[i].vaddr;
		if (end > ret->text_end)
			ret->text_end = end;
	}
	return err;
}

static bool nccl_is_traced(const char *name)
{
	for (size_t i = 0; i < sizeof(nccl_probes) / sizeof(nccl_probes[0]); i++)
		if (!strcmp(nccl_probes[i].symbol, name))
			return true;
	return false;
}

/* Once a file: what runs there unseen looks like a GPU that works, or waits, for nothing. */
static void untraced_say(struct tracer_handle *h, const struct target_lib *lib, int fd)
{
	char names[512];
	int n = nccl_untraced(tracer_reader(h), fd, nccl_is_traced, names, sizeof(names));

	if (n > 0)
		log_info("%s: %d entry point%s not traced: %s", lib->path, n, n > 1 ? "s" : "", names);
}

static int text_put(struct tracer_handle *h, uint32_t tgid, uint32_t lib_id, uint64_t begin, uint64_t bytes)
{
	struct nccl_text_key key = { .tgid = tgid, .lib = lib_id };
	struct nccl_text text = {};

	tracer_map_get(h, "nccl_texts", &key, &text);
	for (int i = 0; i < NCCL_COPIES_MAX; i++)
		if (text.begin[i] == begin)
			return 0;
	text.begin[text.n++ % NCCL_COPIES_MAX] = begin;
	text.bytes = bytes;
	return tracer_map_put(h, "nccl_texts", &key, &text);
}

static int nccl_on_lib(struct tracer_handle *h, const struct target_proc *proc, const struct target_lib *lib, int fd,
		       uint32_t lib_id, bool *ret_has_layout)
{
	struct nccl_lib known = {};
	bool learned = false;
	int err;

	if (lib_id >= NCCL_LIBS_MAX)
		return -ENOSPC;
	tracer_map_get(h, "nccl_libs", &lib_id, &known);
	if (!known.valid) {
		err = nccl_offsets_learn(tracer_reader(h), fd, &known);
		if (reader_is_late(err)) /* a file without them is none forever: not what a busy machine says */
			return err;
		learned = !err;
	}
	if (!known.text_end) {
		err = nccl_text_learn(tracer_reader(h), fd, &known);
		untraced_say(h, lib, fd);
		learned = true;
		if (err)
			return err;
	}
	if (learned && (err = tracer_map_put(h, "nccl_libs", &lib_id, &known)))
		return err;
	*ret_has_layout = known.valid;
	return text_put(h, proc->tgid, lib_id, lib->bias + known.text_first, known.text_end - known.text_first);
}

static void nccl_lib_gone(struct tracer_handle *h, uint32_t lib_id)
{
	struct nccl_lib none = {};

	tracer_map_put(h, "nccl_libs", &lib_id, &none);
}

static const struct tracer nccl_tracer = {
	.name = "nccl",
	.id = WIRE_NCCL,
	.probes = nccl_probes,
	.n_probes = sizeof(nccl_probes) / sizeof(nccl_probes[0]),
	.markers = nccl_markers,
	.vital = true,
	.files = "libnccl",
	.object = nccl_object,
	.start = nccl_start,
	.on_lib = nccl_on_lib,
	.lib_gone = nccl_lib_gone,
};

const struct source_live source_nccl = { .tracer = &nccl_tracer };
