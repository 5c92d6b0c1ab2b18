/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_nccl_state.c - communicators read by a layout from memory that holds anything: at the input, at its edge, at
 * addresses out of the input. What passes for one has the magic numbers and a rank below its size.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tracers/nccl/nccl_state.h"

static uint32_t offset(struct feed *f)
{
	uint8_t v = feed_number(f, 1);

	return v == 255 ? NCCL_NOWHERE : v == 254 ? 0x7fffffff : 8u * v;
}

/* As nccl_layout_fetch() gives them: identity is there, and no more counters than fit. */
static struct nccl_layout layout(struct feed *f)
{
	struct nccl_layout l = { .magic = offset(f),
				 .hash = offset(f),
				 .rank = offset(f),
				 .nranks = offset(f),
				 .end_magic = offset(f),
				 .device = offset(f),
				 .counters = offset(f),
				 .async_result = offset(f),
				 .init_state = offset(f),
				 .abort_flag = offset(f) };

	l.n_counters = feed_number(f, 1) % (NCCL_SEQ_MAX + 1);
	return l;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t memory[1024];
	struct feed f = { data, size };
	struct nccl_layout layouts[2] = { layout(&f), layout(&f) };
	struct nccl_place places[40];
	struct nccl_state states[40];

	feed_bytes(&f, memory, sizeof(memory));
	for (size_t i = 0; i < 40; i++)
		places[i] =
			(struct nccl_place){ .addr = i % 3 == 2 ? memory[i] : (uint64_t)&memory[i % 3 ? 1000 : 16 * i],
					     .layout = i % 2 };
	for (size_t i = 0; i < 1024; i++)
		if (memory[i] % 251 == 7) /* else nothing ever looks like one */
			memory[i] = NCCL_MAGIC;
	if (nccl_states_read(NULL, getpid(), layouts, places, 40, 100, NULL, states))
		abort();
	for (size_t i = 0; i < 40; i++)
		if (states[i].valid && (states[i].rank < 0 || states[i].rank >= states[i].nranks || !states[i].hash))
			abort();
	return 0;
}
