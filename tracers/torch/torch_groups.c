/* SPDX-License-Identifier: Apache-2.0
 *
 * torch_groups.c - the probe rows of torch_groups.def: which process group PyTorch calls NCCL for. They are in a
 * library of their own (libtorch_cuda), so this is a tracer of its own.
 */
#include "tracers/torch/torch_groups.h"

#include "source.h"
#include "torch_groups.skel.h"

static const struct probe group_probes[] = {
#define RECORD(name, skipped_, string_bytes_) { .symbol = name, .program = "torch_group_enter" },
#include "tracers/torch/torch_groups.def"
#undef RECORD
};
#define N_ROWS (sizeof(group_probes) / sizeof(group_probes[0]))

/* Where the arguments are: rows that differ in it are no names of one function. */
enum { NOTHING, HIDDEN_RESULT, OLD_STRING = 0, NEW_STRING = 2 };
static const uint8_t layouts[N_ROWS] = {
#define RECORD(name, skipped_, string_bytes_) skipped_ + string_bytes_,
#include "tracers/torch/torch_groups.def"
#undef RECORD
};

static const char *const group_markers[] = {
	"_ZN4c10d15NCCLTraceBuffer6recordEmRKSt5tuple*|_ZN4c10d14FlightRecorder6recordEmRKSt5tuple*|"
	"_ZN4c10d14FlightRecorderIN2at4cuda9CUDAEventEE6recordEmRKSt5tuple*|"
	"_ZN4c10d14FlightRecorderIN2at4cuda9CUDAEventEE22recordWithResetEnabledEmRKSt5tuple*",
	NULL
};

static const void *group_object(size_t *ret_size)
{
	return torch_groups_bpf__elf_bytes(ret_size);
}

static bool group_rows_alike(size_t a, size_t b)
{
	return layouts[a] == layouts[b];
}

/* They name, and prove nothing. */
static enum probe_group group_group(size_t row)
{
	(void)row;
	return PROBES_RANGES;
}

static const struct tracer group_tracer = {
	.name = "torch_groups",
	.id = WIRE_TORCH_GROUPS,
	.probes = group_probes,
	.n_probes = N_ROWS,
	.rows_alike = group_rows_alike,
	.group = group_group,
	.markers = group_markers,
	.files = "libtorch_cuda",
	.object = group_object,
};

const struct source_live source_torch_groups = { .tracer = &group_tracer };
