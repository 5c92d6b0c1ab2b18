/* SPDX-License-Identifier: Apache-2.0
 *
 * member_traced.c - with --trace a rank begins when the tracer is there: a probe of the kernel is a breakpoint in place
 * of a function's first instruction, which the process itself can read.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tools/stress/nccl/member_case.h"

#define WAIT_NS 15000000000ull
#define POLL_NS 20000000
#define ARM_BRK_MASK 0xffe0001fu
#define ARM_BRK 0xd4200000u

static bool is_probed(const void *function)
{
#ifdef __aarch64__
	uint32_t first;

	memcpy(&first, function, sizeof(first));
	return (first & ARM_BRK_MASK) == ARM_BRK;
#else
	uint8_t first;

	memcpy(&first, function, sizeof(first));
	return first == 0xcc; /* int3 */
#endif
}

void member_traced_wait(const struct member *m)
{
	const struct nccl *nccl = &m->nccl;
	const void *const functions[] = { (const void *)nccl->init,       (const void *)nccl->all_reduce,
					  (const void *)nccl->all_gather, (const void *)nccl->reduce_scatter,
					  (const void *)nccl->broadcast,  (const void *)nccl->reduce,
					  (const void *)nccl->send,       (const void *)nccl->recv,
					  (const void *)nccl->all_to_all };
	uint64_t end_ns = clock_monotonic_ns() + WAIT_NS;

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		while (functions[i] && !is_probed(functions[i]) && clock_monotonic_ns() < end_ns)
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
}
