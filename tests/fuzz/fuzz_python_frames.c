/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_python_frames.c - an interpreter whose memory holds anything: the input stands at a fixed address, and pointers
 * in it may lead back into it. The list of threads and the frames end, and fit.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/stack/stack_private.h"

#define PLACE 0x10000000ull /* nothing of this process lies there */

static void frames(struct stack_process *p, struct python_runtime *rt, struct feed *f)
{
	static struct stack_python_frame out[STACK_FRAMES_MAX];
	struct python_thread threads[8];
	struct stack_task tasks[2] = { { .tid = 5, .ns_tid = 5 }, { .tid = 6, .ns_tid = 6 } };
	size_t n = python_threads_list(p, rt, threads, 8), k;

	if (n > 8)
		abort();
	python_threads_match(p, threads, n, tasks, 2);
	for (size_t i = 0; i <= n; i++) {
		python_frames_read(p, rt, i < n ? threads[i].frame : PLACE + feed_number(f, 2) % 4096, out,
				   STACK_FRAMES_MAX, &k);
		if (k > STACK_FRAMES_MAX)
			abort();
		for (size_t j = 0; j < k; j++)
			if (strnlen(out[j].func, sizeof(out[j].func)) == sizeof(out[j].func) ||
			    strnlen(out[j].file, sizeof(out[j].file)) == sizeof(out[j].file))
				abort();
	}
}

/* Small numbers at aligned places become pointers into the input, or no input would ever link two things. */
static void pointers_make(uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (words[i] && words[i] < n * 8 && words[i] % 8 == 0)
			words[i] += PLACE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int versions[] = { 0x030900, 0x030a00, 0x030b00, 0x030c01 };
	static uint64_t words[4096];
	struct feed f = { data, size };
	struct maps maps = { 0 };
	struct stack_process p = { .exe = "", .maps = &maps };
	struct memory m = { .bytes = -1, .pages = -1, .page_bytes = 4096, .maps = maps };
	struct python_runtime rt = {
		.runtime = PLACE, .code_type = PLACE + 8 * 16, .str_type = PLACE + 8 * 17, .bytes_type = PLACE + 8 * 18
	};
	uint8_t which = feed_number(&f, 1);

	feed_bytes(&f, words, sizeof(words));
	rt.version = versions[which % 4];
	if (which & 128 ? !python_layout_debug((const uint8_t *)words, sizeof(words), &rt.version, &rt.layout)
			: !python_layout_table(rt.version, &rt.layout))
		return 0;
	pointers_make(words, sizeof(words) / 8);
	if (stack_memory_open(&m, &p.memory))
		return 0;
	stack_memory_overlay(p.memory, PLACE, words, sizeof(words));
	f = (struct feed){ data, size };
	frames(&p, &rt, &f);
	stack_memory_free(p.memory);
	return 0;
}
