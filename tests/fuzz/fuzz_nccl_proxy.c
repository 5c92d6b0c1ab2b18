/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_nccl_proxy.c - NCCL's lists of network operations, walked by a layout in memory that holds anything: lists that
 * are circles, counts beyond any, pointers into the input and out of it. What is reported is in order.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "tracers/nccl/nccl_layout.h"
#include "tracers/nccl/nccl_proxy.h"

#define WORDS 512

static uint32_t offset(struct feed *f)
{
	uint8_t v = feed_number(f, 1);

	return v == 255 ? 0x7fffffff : v == 254 ? NCCL_NOWHERE : 4u * (v % 32);
}

/* As nccl_proxy_layout_fetch() gives them, but for what it refuses. */
static struct nccl_proxy_layout layout(struct feed *f)
{
	struct nccl_proxy_layout l;
	uint32_t *of = (uint32_t *)&l;

	for (size_t i = 0; i < sizeof(l) / sizeof(*of); i++)
		of[i] = offset(f);
	l.known = 1;
	l.stride = 8 * (1 + feed_number(f, 1) % 16);
	l.max_subs = feed_number(f, 1) % 65;
	return l;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t memory[WORDS];
	static struct nccl_proxy_sample s;
	struct feed f = { data, size };
	struct nccl_proxy_layout l = layout(&f);
	uint32_t hash_at = offset(&f);
	uint64_t hash;

	feed_bytes(&f, memory, sizeof(memory));
	for (size_t i = 0; i < WORDS; i++) /* else next to nothing points anywhere */
		if (memory[i] % 3 == 1)
			memory[i] = (uint64_t)&memory[memory[i] / 3 % WORDS];
	hash = hash_at < sizeof(memory) - 8 ? *(uint64_t *)((char *)memory + hash_at) : 0;
	if (nccl_proxy_read(NULL, getpid(), &l, (uint64_t)memory, hash_at, hash, 0, 100, &s))
		return 0;
	if (s.n > NCCL_PROXY_SUBS_MAX)
		abort();
	for (uint32_t i = 0; i < s.n; i++)
		if (s.parts[i].nsteps < 0 || s.parts[i].channel < 0 || s.parts[i].peer < 0)
			abort();
	return 0;
}
