/* SPDX-License-Identifier: Apache-2.0
 *
 * torch.c - the probe rows of PyTorch, from torch_symbols.def. Nothing is learned of a library but where its functions
 * are.
 */
#include "tracers/torch/torch.h"

#include "source.h"
#include "torch.skel.h"

static const struct probe torch_probes[] = {
#define ENTRY(name, what_, group_, text) { .symbol = name, .program = "torch_enter", .shows = text },
#define CALL(name, what_, group_, text) \
	{ .symbol = name, .program = "torch_enter", .shows = text }, \
		{ .symbol = name, .program = "torch_exit", .at_return = true },
#include "tracers/torch/torch_symbols.def"
#undef ENTRY
#undef CALL
};
#define N_ROWS (sizeof(torch_probes) / sizeof(torch_probes[0]))

static const struct {
	enum torch_what what;
	enum probe_group group;
} torch_rows[] = {
#define ENTRY(name, what_, group_, text) { TORCH_##what_, group_ },
#define CALL(name, what_, group_, text) { TORCH_##what_, group_ }, { TORCH_##what_, group_ },
#include "tracers/torch/torch_symbols.def"
};
_Static_assert(sizeof(torch_rows) / sizeof(torch_rows[0]) == N_ROWS, "a row is a probe and its facts");

/* Any of them: each degrades alone. */
static const char *const torch_markers[] = {
	"_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_string*|"
	"_ZN5torch8autograd8profiler25record_function_enter_newERKSs*|"
	"_ZN5torch8autograd6Engine7executeERKSt6vector*|"
	"_ZN4c10d7Reducer15rebuild_bucketsEv",
	NULL
};

static const void *torch_object(size_t *ret_size)
{
	return torch_bpf__elf_bytes(ret_size);
}

static bool torch_rows_alike(size_t a, size_t b)
{
	return torch_rows[a].what == torch_rows[b].what;
}

static enum probe_group torch_group(size_t row)
{
	return torch_rows[row].group;
}

static const struct tracer torch_tracer = {
	.name = "torch",
	.id = WIRE_TORCH,
	.probes = torch_probes,
	.n_probes = N_ROWS,
	.rows_alike = torch_rows_alike,
	.group = torch_group,
	.markers = torch_markers,
	.files = "libtorch_cpu|libtorch_python",
	.object = torch_object,
};

const struct source_live source_torch = { .tracer = &torch_tracer };
