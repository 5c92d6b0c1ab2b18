/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_eh_frame.c - a mapped file whose unwind tables say anything, under a stack that holds anything: what elfutils
 * makes of the tables is applied to registers and memory by us. The input: where the thread is, its stack, the file.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "inspect/stack/stack_private.h"

#define STACK_AT 0x10000000ull
#define FILE_AT 0x20000000ull
#define FILE_MAX (1u << 16)
#define KEPT_CALLS 40 /* more than an unused file is kept open for: the next file may have its inode's number */

/* The file as the target has it: mapped, for the worker opens what /proc/PID/map_files leads to. */
static int file_map(const uint8_t *data, size_t size, struct mapping *row)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct stat st;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || fstat(fd, &st) ||
	    mmap((void *)FILE_AT, size, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, 0) != (void *)FILE_AT)
		abort();
	*row = (struct mapping){ .start = FILE_AT,
				 .end = FILE_AT + (size + 4095) / 4096 * 4096,
				 .prot = MAPPING_EXEC,
				 .inode = st.st_ino,
				 .dev_minor = st.st_dev,
				 .path = "fuzz" };
	return fd;
}

static struct memory memory; /* this process' */

static void unwind(struct stack_process *p, uint64_t pc, const uint64_t *words, size_t bytes)
{
	struct stack_pc pcs[STACK_FRAMES_MAX];
	struct stack_regs regs = stack_regs_of(pc, STACK_AT + 64);
	size_t n = 0;

	regs.known = ~0ull;
	for (size_t i = 0; i < sizeof(regs.value) / sizeof(regs.value[0]); i++)
		regs.value[i] = regs.value[i] ? regs.value[i] : words[i];
	if (stack_memory_open(&memory, &p->memory))
		return;
	stack_memory_overlay(p->memory, STACK_AT, words, bytes);
	stack_unwind(p, &regs, pcs, STACK_FRAMES_MAX, &n);
	if (n > STACK_FRAMES_MAX)
		abort();
	stack_memory_free(p->memory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	memory = (struct memory){ .bytes = open("/proc/self/mem", O_RDONLY | O_CLOEXEC),
				  .pages = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
				  .page_bytes = 4096 };
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t words[64];
	struct mapping row;
	struct maps maps = { .rows = &row, .n = 1 };
	struct stack_process p = { .exe = "", .maps = &maps };
	struct feed f = { data, size };
	uint64_t pc = feed_number(&f, 2);
	size_t len;
	int fd;

	feed_bytes(&f, words, sizeof(words));
	len = f.left < FILE_MAX ? f.left : FILE_MAX;
	if (!len)
		return 0;
	for (size_t i = 0; i < 64; i++) /* return addresses, and pointers into the stack */
		if (words[i] % 3)
			words[i] = words[i] % 3 == 1 ? FILE_AT + words[i] / 3 % len
						     : STACK_AT + words[i] / 3 % sizeof(words);
	fd = file_map(f.at, len, &row);
	memory.maps = maps;
	unwind(&p, FILE_AT + pc % len, words, sizeof(words));
	munmap((void *)FILE_AT, len);
	close(fd);
	for (int i = 0; i < KEPT_CALLS; i++)
		stack_files_trim();
	return 0;
}
