/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_unwind.c - a stack that holds anything, in a process with real code: ours. Return addresses out of the input lie
 * in our text, so that real rules are applied to nonsense.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/stack/stack_private.h"

#define PLACE 0x10000000ull

static struct maps maps;
static struct memory memory;
static const struct mapping *text;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static char buf[1 << 20];
	FILE *f = fopen("/proc/self/maps", "re");
	size_t n = f ? fread(buf, 1, sizeof(buf), f) : 0;

	(void)argc;
	(void)argv;
	if (f)
		fclose(f);
	if (maps_parse(buf, n, &maps))
		abort();
	memory = (struct memory){ .bytes = open("/proc/self/mem", O_RDONLY | O_CLOEXEC),
				  .pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
				  .page_bytes = 4096,
				  .maps = maps };
	text = maps_find(&maps, (uint64_t)&LLVMFuzzerInitialize);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t stack[1024];
	struct stack_process p = { .exe = "", .maps = &maps };
	struct stack_pc pcs[STACK_FRAMES_MAX];
	struct feed f = { data, size };
	struct stack_regs regs;
	size_t n = 0;
	uint64_t pc = text->start + feed_number(&f, 4) % (text->end - text->start);

	feed_bytes(&f, stack, sizeof(stack));
	for (size_t i = 0; i < 1024; i++)
		if (stack[i] % 3 == 1)
			stack[i] = text->start + stack[i] % (text->end - text->start);
		else if (stack[i] % 3 == 2)
			stack[i] = PLACE + stack[i] % sizeof(stack);
	if (stack_memory_open(&memory, &p.memory))
		return 0;
	stack_memory_overlay(p.memory, PLACE, stack, sizeof(stack));
	regs = stack_regs_of(pc, PLACE);
	stack_unwind(&p, &regs, pcs, STACK_FRAMES_MAX, &n);
	if (n > STACK_FRAMES_MAX)
		abort();
	stack_memory_free(p.memory);
	return 0;
}
