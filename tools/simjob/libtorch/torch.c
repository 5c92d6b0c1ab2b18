// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for libtorch_cpu.so: the functions by which a tracer knows the phases of a step, with their names, calling
 * convention and order of calls. A range is a C++ object there, so it is one here: it has a table of virtual functions,
 * found by the type's info as in the real library, and its deleting destructor has no symbol.
 */
#include "tools/simjob/libtorch/torch_abi.h"

#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
#define NAMED(NAME) __asm__(NAME) __attribute__((visibility("default"), noinline))

/* std::string of the new ABI, as far as it is read. */
struct string {
	const char *bytes;
	size_t length;
	char local[16];
};

/* --- class torch::autograd::profiler::PythonRecordFunction --- */

struct type_info {
	const void *table;
	const char *name;
};

struct virtual_table {
	long offset_to_top;
	const struct type_info *type;
	void (*destroy)(struct sim_range *range);
	void (*destroy_and_delete)(struct sim_range *range);
};

struct sim_range {
	void (*const *functions)(struct sim_range *range); /* of the virtual table */
};

__attribute__((noinline)) static void range_destroy(struct sim_range *range)
{
	range->functions = NULL;
}

__attribute__((noinline)) static void range_delete(struct sim_range *range)
{
	range_destroy(range);
	free(range);
}

static const struct type_info range_type = { .name = "N5torch8autograd8profiler20PythonRecordFunctionE" };
static const struct virtual_table range_table = { 0, &range_type, range_destroy, range_delete };

/* --- the functions that are known by name --- */

/* Each does something of its own, so that no two of them become one. */
enum { ENTERED, FORWARD, BACKWARD, REDUCED, COUNTED, UPDATED, NR_CALLS };
static volatile unsigned int nr_calls[NR_CALLS];

/* c10::intrusive_ptr<PythonRecordFunction> record_function_enter_new(const std::string &, optional<std::string>):
 * what it returns goes where its first argument points. */
/* clang-format off */
struct sim_range **enter_new(struct sim_range **ret_range, const struct string *name, const void *args)
	NAMED("_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESa"
	      "IcEEERKSt8optionalIS7_E");
/* clang-format on */
void engine_execute(void *engine, void (*graph)(void *), void *arg)
	NAMED("_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_");
void rebuild_buckets(void *reducer) NAMED("_ZN4c10d7Reducer15rebuild_bucketsEv");
void prepare_for_backward(void *reducer)
	NAMED("_ZN4c10d7Reducer20prepare_for_backwardERKSt6vectorIN2at6TensorESaIS3_EE");
void finalize_backward(void *reducer) NAMED("_ZN4c10d7Reducer17finalize_backwardEv");
void foreach_add_scalar(const void *tensors, size_t nr, const void *scalar)
	NAMED("_ZN2at4_ops20_foreach_add__Scalar4callEN3c108ArrayRefINS_6TensorEEERKNS2_6ScalarE");
/* Arguments of PyTorch's own are left out: the job gives what changes the parameters. */
void fused_adamw(void (*update)(void *), void *arg) NAMED(
	"_ZN2at4_ops13_fused_adamw_4callEN3c108ArrayRefINS_6TensorEEES5_S5_S5_S5_S5_dddddbbRKNS2_8optionalIS4_EES9_");

struct sim_range **enter_new(struct sim_range **ret_range, const struct string *name, const void *args)
{
	struct sim_range *range = malloc(sizeof(*range));

	(void)name, (void)args;
	nr_calls[ENTERED]++;
	if (!range)
		abort();
	range->functions = &range_table.destroy;
	*ret_range = range;
	return ret_range;
}

void engine_execute(void *engine, void (*graph)(void *), void *arg)
{
	(void)engine;
	graph(arg);
	finalize_backward(NULL);
}

void rebuild_buckets(void *reducer)
{
	(void)reducer;
	nr_calls[FORWARD]++;
}

void prepare_for_backward(void *reducer)
{
	(void)reducer;
	nr_calls[BACKWARD]++;
}

void finalize_backward(void *reducer)
{
	(void)reducer;
	nr_calls[REDUCED]++;
}

void foreach_add_scalar(const void *tensors, size_t nr, const void *scalar)
{
	(void)tensors, (void)nr, (void)scalar;
	nr_calls[COUNTED]++;
}

void fused_adamw(void (*update)(void *), void *arg)
{
	update(arg);
	nr_calls[UPDATED]++;
}

/* --- what the job calls --- */

API struct sim_range *sim_torch_enter(const char *name)
{
	struct string text = { .bytes = name, .length = strlen(name) };
	struct sim_range *range;

	enter_new(&range, &text, NULL);
	return range;
}

API void sim_torch_leave(struct sim_range *range)
{
	range->functions[1](range);
}

API void sim_torch_backward(void (*graph)(void *), void *arg)
{
	engine_execute(NULL, graph, arg);
}

API void sim_torch_optimizer_begin(void)
{
	foreach_add_scalar(NULL, 0, NULL);
}

API void sim_torch_optimizer_update(void (*update)(void *), void *arg)
{
	fused_adamw(update, arg);
}

API void sim_torch_ddp_forward(void)
{
	rebuild_buckets(NULL);
}

API void sim_torch_ddp_backward(void)
{
	prepare_for_backward(NULL);
}
