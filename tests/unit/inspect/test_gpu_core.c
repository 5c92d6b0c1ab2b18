/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_core.c - kernels by name from a core dump as cudacoredump.h describes it: names, devices, what is not
 * running, what is missing or cut short.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inspect/elf/gpu_core.h"
#include "inspect/reader/reader.h"

#define CUDA 0xbe
#define ENTRY 0x7f0000001000ull
#define HANDLE 0xabcdull
#define NAME "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"

enum { ACTIVE = 2, PENDING = 1 };
enum { S_NULL, S_NAMES, S_DEVICES, S_GRIDS, S_MODULES, S_IMAGE, SECTIONS };

struct grid { /* of driver 565 and later: longer than what is read of it */
	uint64_t id, context, function, entry, module, parent, params;
	uint32_t type, origin, status, registers, grid[3], block[3], blocking, tid, cluster[4], preferred[4];
};

struct file {
	uint8_t bytes[32768];
	uint64_t size;
	int n; /* sections */
	Elf64_Shdr sections[8];
};

static void file_begin(struct file *f)
{
	memset(f, 0, sizeof(*f));
	f->size = sizeof(Elf64_Ehdr) + 3; /* nothing is aligned */
	f->n = 1;
}

static Elf64_Shdr *section_put(struct file *f, uint32_t type, const void *bytes, uint64_t len, uint64_t row)
{
	Elf64_Shdr *s = &f->sections[f->n++];

	memcpy(f->bytes + f->size, bytes, len);
	*s = (Elf64_Shdr){ .sh_type = type, .sh_offset = f->size, .sh_size = len, .sh_entsize = row };
	f->size += len;
	return s;
}

static void file_end(struct file *f, int type)
{
	Elf64_Ehdr e = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT, 0x33 },
			 .e_type = type,
			 .e_machine = CUDA,
			 .e_shoff = f->size,
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = f->n,
			 .e_shstrndx = S_NAMES };

	memcpy(f->bytes, &e, sizeof(e));
	memcpy(f->bytes + f->size, f->sections, f->n * sizeof(Elf64_Shdr));
	f->size += f->n * sizeof(Elf64_Shdr);
}

/* A module with two kernels, the second one at ENTRY. */
static void cubin_make(struct file *f)
{
	static const char names[] = "\0.text.other\0.text." NAME;
	char code[64] = { 0 };
	Elf64_Shdr *s;

	file_begin(f);
	section_put(f, SHT_STRTAB, names, sizeof(names), 0);
	for (int i = 0; i < 2; i++) {
		s = section_put(f, SHT_PROGBITS, code, sizeof(code), 0);
		s->sh_flags = SHF_ALLOC | SHF_EXECINSTR;
		s->sh_name = i ? 1 + sizeof(".text.other") : 1;
		s->sh_addr = ENTRY - 0x100 * !i;
	}
	file_end(f, ET_EXEC);
}

static struct grid grid_of(uint32_t status, uint64_t module, uint64_t entry)
{
	return (struct grid){
		.entry = entry, .module = module, .status = status, .grid = { 24, 1, 1 }, .block = { 544, 1, 1 }
	};
}

static void core_make(struct file *f, const struct grid *grids, int n)
{
	struct {
		uint64_t name, type, sm_type;
		uint32_t id, rest[11];
	} devices[2] = { { .id = 4 }, { .id = 5 } };
	uint64_t modules[2] = { 1, HANDLE };
	static struct file cubin;
	Elf64_Shdr *s;

	cubin_make(&cubin);
	file_begin(f);
	section_put(f, SHT_STRTAB, "", 1, 0);
	section_put(f, SHT_LOUSER + 9, devices, sizeof(devices), sizeof(devices[0]));
	s = section_put(f, SHT_LOUSER + 12, grids, n * sizeof(*grids), sizeof(*grids));
	s->sh_link = S_DEVICES;
	s->sh_info = 1;
	section_put(f, SHT_LOUSER + 16, modules, sizeof(modules), sizeof(modules[0]));
	s = section_put(f, SHT_LOUSER + 7, cubin.bytes, cubin.size, 0);
	s->sh_link = S_MODULES;
	s->sh_info = 1;
	file_end(f, ET_CORE);
}

static int read_of(const struct file *f, uint64_t size, struct gpu_core *ret)
{
	int fd = memfd_create("core", 0), err;

	assert_true(fd >= 0 && write(fd, f->bytes, size) == (ssize_t)size);
	err = gpu_core_read(fd, ret);
	close(fd);
	return err;
}

static struct file file;
static struct gpu_core core;

static void what_runs(void **state)
{
	struct grid grids[] = { grid_of(PENDING, HANDLE, ENTRY), grid_of(ACTIVE, HANDLE, ENTRY + 16),
				grid_of(ACTIVE, 99, ENTRY), grid_of(ACTIVE, HANDLE, 64) };

	(void)state;
	core_make(&file, grids, 4);
	assert_int_equal(read_of(&file, file.size, &core), 0);
	assert_int_equal(core.n, 3);
	assert_string_equal(core.kernels[0].name, NAME);
	assert_int_equal(core.kernels[0].device, 5);
	assert_int_equal(core.kernels[0].grid[0], 24);
	assert_int_equal(core.kernels[0].block[0], 544);
	assert_string_equal(core.kernels[1].name, ""); /* of a module that is not there */
	assert_string_equal(core.kernels[2].name, ""); /* at no function of it */
}

static void many(void **state)
{
	struct grid grids[GPU_CORE_KERNELS_MAX + 3];

	(void)state;
	for (int i = 0; i < GPU_CORE_KERNELS_MAX + 3; i++)
		grids[i] = grid_of(ACTIVE, HANDLE, ENTRY);
	core_make(&file, grids, GPU_CORE_KERNELS_MAX + 3);
	assert_int_equal(read_of(&file, file.size, &core), 0);
	assert_int_equal(core.n, GPU_CORE_KERNELS_MAX);
	assert_int_equal(core.n_left_out, 3);
}

/* While it is written it is never taken for whole. */
static void cut_short(void **state)
{
	struct grid g = grid_of(ACTIVE, HANDLE, ENTRY);

	(void)state;
	core_make(&file, &g, 1);
	for (uint64_t size = 0; size < file.size; size += size < 256 ? 1 : 37)
		assert_int_equal(read_of(&file, size, &core), -EAGAIN);
	assert_int_equal(read_of(&file, file.size, &core), 0);
}

static void not_a_core(void **state)
{
	struct grid g = grid_of(ACTIVE, HANDLE, ENTRY);
	static struct file cubin;

	(void)state;
	cubin_make(&cubin);
	assert_int_equal(read_of(&cubin, cubin.size, &core), -ENOEXEC);
	core_make(&file, &g, 1);
	file.bytes[0] = 'x';
	assert_int_equal(read_of(&file, file.size, &core), -ENOEXEC);
	assert_int_equal(gpu_core_read(-1, &core), -EINVAL);
}

/* Whatever stands in the sections: an answer, and nothing past the file is read (sanitizers see it). */
static void damaged(void **state)
{
	struct grid g = grid_of(ACTIVE, HANDLE, ENTRY);
	uint64_t seed = 1, at;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		core_make(&file, &g, 1);
		for (int k = 0; k < 4; k++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			at = 20 + (seed >> 33) % (file.size - 20);
			file.bytes[at] = (uint8_t)(seed >> 24);
		}
		read_of(&file, file.size, &core);
		assert_true(core.n <= GPU_CORE_KERNELS_MAX);
	}
}

/* In the process that may do nothing else. */
static void in_a_parser(void **state)
{
	struct grid g = grid_of(ACTIVE, HANDLE, ENTRY);
	struct reader *r = NULL;
	int fd = memfd_create("core", 0);

	(void)state;
	assert_int_equal(reader_open(&r), 0);
	core_make(&file, &g, 1);
	assert_true(fd >= 0 && write(fd, file.bytes, file.size) == (ssize_t)file.size);
	assert_int_equal(gpu_core_fetch(r, fd, 5000, &core), 0);
	assert_int_equal(core.n, 1);
	assert_string_equal(core.kernels[0].name, NAME);
	close(fd);
	reader_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_runs),  cmocka_unit_test(many),    cmocka_unit_test(cut_short),
		cmocka_unit_test(not_a_core), cmocka_unit_test(damaged), cmocka_unit_test(in_a_parser),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
