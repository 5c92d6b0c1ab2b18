// SPDX-License-Identifier: Apache-2.0
/*
 * A stand-in for libtorch_cuda.so: what its flight recorder is given right before NCCL is called. In C++ it is a member
 * function that returns 32 bytes, so by a hidden pointer, and takes a tuple of two strings, laid out from its last to
 * its first, and a string by the address of a copy (g++ 12 on x86-64 and arm64).
 */
#include "tools/simjob/libtorch/torch_abi.h"

#include <stddef.h>
#include <string.h>

#define API __attribute__((visibility("default")))

/* std::string of the new ABI, as far as it is read. */
struct string {
	const char *bytes;
	size_t length;
	char local[16];
};

struct names { /* std::tuple<std::string, std::string> of name and description */
	struct string desc, name;
};

struct trace_identifier {
	size_t id, has_id, epoch, has_epoch;
};

static volatile size_t nr_recorded;

/* clang-format off */
struct trace_identifier record_with_reset_enabled(void *recorder, size_t group, const struct names *names,
						  size_t collective_seq, size_t p2p_seq, size_t op_id,
						  const struct string *title, const void *inputs)
	__asm__("_ZN4c10d14FlightRecorderIN2at4cuda9CUDAEventEE22recordWithResetEnabledEmRKSt5tupleIJNSt7__cxx1112"
		"basic_stringIcSt11char_traitsIcESaIcEEESB_EEmmmSB_RKSt6vectorINS1_6TensorESaISG_EESK_PS3_SL_NSt6"
		"chrono8durationIlSt5ratioILl1ELl1000EEEESt10shared_ptrINS_18ProcessGroupStatusEEb")
	__attribute__((visibility("default"), noinline));
/* clang-format on */

/* The recorder is off, as it is by default. */
struct trace_identifier record_with_reset_enabled(void *recorder, size_t group, const struct names *names,
						  size_t collective_seq, size_t p2p_seq, size_t op_id,
						  const struct string *title, const void *inputs)
{
	(void)recorder, (void)group, (void)names, (void)collective_seq, (void)p2p_seq, (void)op_id, (void)title;
	(void)inputs;
	nr_recorded++;
	return (struct trace_identifier){ 0 };
}

static struct string string_of(const char *text)
{
	return (struct string){ .bytes = text, .length = strlen(text) };
}

API void sim_torch_group(const char *name, const char *desc, size_t seq, size_t p2p_seq, const char *title)
{
	struct names names = { string_of(desc), string_of(name) };
	struct string title_copy = string_of(title);

	record_with_reset_enabled(NULL, 0, &names, seq, p2p_seq, seq + p2p_seq, &title_copy, NULL);
}
