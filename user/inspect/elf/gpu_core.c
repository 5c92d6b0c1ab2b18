/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_core.c - see gpu_core.h. A table of grids hangs on a device's row by its sh_info; a grid names its module by a
 * handle, a row of a table of modules; the module's image, a cubin with addresses as on the device, hangs on that table
 * by sh_link and on the row by sh_info. The kernel is the section ".text.NAME" of it that holds the grid's entry.
 */
#include "inspect/elf/gpu_core.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "inspect/reader/reader.h"

#define MACHINE_CUDA 0xbe
#define SECTIONS_MAX (1u << 24) /* several for each thread of each SM */
#define ROWS_MAX 65536          /* of a table of grids or modules */

/* CudbgSectionHeaderTypes, CUDBGGridStatus */
enum { DEV_TABLE = SHT_LOUSER + 9, GRID_TABLE = SHT_LOUSER + 12, MOD_TABLE = SHT_LOUSER + 16 };
enum { RELOCATED_IMAGE = SHT_LOUSER + 7 };
enum { GRID_ACTIVE = 2 };

/* Baseline of CudbgGridTableEntry and CudbgDeviceTableEntry: rows only grow. */
struct grid_row {
	uint64_t id, context, function, entry, module, parent, params;
	uint32_t type, origin, status, registers, grid[3], block[3], blocking, tid;
};
_Static_assert(sizeof(struct grid_row) == 104, "CudbgGridTableEntry of driver 346");

struct device_row {
	uint64_t name, type, sm_type;
	uint32_t id;
};
#define DEVICE_BYTES (offsetof(struct device_row, id) + sizeof(uint32_t))

struct image { /* bytes of an ELF file, which need not be aligned, and its sections */
	const uint8_t *bytes;
	uint64_t size, sections_at;
	uint32_t n, names; /* names: index of the section of their names */
	uint16_t type;
};

static const uint8_t *bytes_at(const struct image *f, uint64_t offset, uint64_t len)
{
	return offset <= f->size && len <= f->size - offset ? f->bytes + offset : NULL;
}

static const uint8_t *section_bytes(const struct image *f, const Elf64_Shdr *s)
{
	return bytes_at(f, s->sh_offset, s->sh_size);
}

static Elf64_Shdr section(const struct image *f, uint32_t i)
{
	Elf64_Shdr s;

	memcpy(&s, f->bytes + f->sections_at + i * sizeof(s), sizeof(s));
	return s;
}

/* The number of sections stands in the first one where it is too large for the header. */
static int image_open(struct image *f)
{
	const uint8_t *at = bytes_at(f, 0, sizeof(Elf64_Ehdr)), *all;
	Elf64_Shdr first;
	Elf64_Ehdr e;

	if (!at)
		return -EAGAIN;
	memcpy(&e, at, sizeof(e));
	if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
	    e.e_ident[EI_DATA] != ELFDATA2LSB || e.e_machine != MACHINE_CUDA)
		return -ENOEXEC;
	all = bytes_at(f, e.e_shoff, sizeof(first));
	if (!e.e_shoff || !all)
		return -EAGAIN;
	memcpy(&first, all, sizeof(first));
	f->type = e.e_type;
	f->sections_at = e.e_shoff;
	f->n = e.e_shnum ? e.e_shnum : (uint32_t)first.sh_size;
	f->names = e.e_shstrndx == SHN_XINDEX ? first.sh_link : e.e_shstrndx;
	if (e.e_shentsize != sizeof(first) || f->n > SECTIONS_MAX)
		return -EBADMSG;
	return bytes_at(f, e.e_shoff, f->n * sizeof(first)) ? 0 : -EAGAIN;
}

/* Row i of a table, as much of it as is known; false: past its end, or its rows are shorter. */
static bool row_read(const struct image *f, const Elf64_Shdr *s, uint64_t i, void *to, size_t bytes)
{
	const uint8_t *rows = section_bytes(f, s);

	if (!rows || s->sh_entsize < bytes || i >= s->sh_size / s->sh_entsize)
		return false;
	memcpy(to, rows + i * s->sh_entsize, bytes);
	return true;
}

static bool image_of_module(const struct image *f, uint32_t table, uint64_t row, Elf64_Shdr *ret)
{
	for (uint32_t i = 0; i < f->n; i++) {
		*ret = section(f, i);
		if (ret->sh_type == RELOCATED_IMAGE && ret->sh_link == table && ret->sh_info == row)
			return true;
	}
	return false;
}

static bool module_image(const struct image *f, uint64_t handle, Elf64_Shdr *ret)
{
	for (uint32_t i = 0; i < f->n; i++) {
		Elf64_Shdr s = section(f, i);
		uint64_t at;

		for (uint64_t k = 0; s.sh_type == MOD_TABLE && k < ROWS_MAX; k++) {
			if (!row_read(f, &s, k, &at, sizeof(at)))
				break;
			if (at == handle)
				return image_of_module(f, i, k, ret);
		}
	}
	return false;
}

static bool is_code_at(const Elf64_Shdr *s, uint64_t address)
{
	return s->sh_type == SHT_PROGBITS && s->sh_flags & SHF_EXECINSTR && address >= s->sh_addr &&
	       address - s->sh_addr < s->sh_size;
}

static void kernel_name(const struct image *f, const struct grid_row *g, char *to, size_t size)
{
	static const char prefix[] = ".text.";
	Elf64_Shdr of_module, names, s;
	struct image cubin;
	const char *text;

	if (!module_image(f, g->module, &of_module))
		return;
	cubin = (struct image){ .bytes = section_bytes(f, &of_module), .size = of_module.sh_size };
	if (!cubin.bytes || image_open(&cubin) || cubin.names >= cubin.n)
		return;
	names = section(&cubin, cubin.names);
	text = (const char *)section_bytes(&cubin, &names);
	if (!text || !names.sh_size || text[names.sh_size - 1])
		return;
	for (uint32_t i = 0; i < cubin.n; i++) {
		s = section(&cubin, i);
		if (s.sh_name >= names.sh_size || !is_code_at(&s, g->entry) ||
		    strncmp(text + s.sh_name, prefix, sizeof(prefix) - 1))
			continue;
		snprintf(to, size, "%s", text + s.sh_name + sizeof(prefix) - 1);
		utf8_tame(to, "");
		return;
	}
}

/* A table of grids says in sh_link which table of devices, in sh_info which row of it. */
static uint32_t device_of(const struct image *f, const Elf64_Shdr *grids)
{
	struct device_row d = { .id = UINT32_MAX };
	Elf64_Shdr s;

	if (grids->sh_link >= f->n)
		return UINT32_MAX;
	s = section(f, grids->sh_link);
	return s.sh_type == DEV_TABLE && row_read(f, &s, grids->sh_info, &d, DEVICE_BYTES) ? d.id : UINT32_MAX;
}

static void grids_read(const struct image *f, const Elf64_Shdr *s, struct gpu_core *ret)
{
	struct grid_row g;

	for (uint64_t i = 0; i < ROWS_MAX && row_read(f, s, i, &g, sizeof(g)); i++) {
		struct gpu_kernel *k = &ret->kernels[ret->n];

		if (g.status != GRID_ACTIVE)
			continue;
		if (ret->n == GPU_CORE_KERNELS_MAX) {
			ret->n_left_out++;
			continue;
		}
		ret->n++;
		k->device = device_of(f, s);
		memcpy(k->grid, g.grid, sizeof(k->grid));
		memcpy(k->block, g.block, sizeof(k->block));
		kernel_name(f, &g, k->name, sizeof(k->name));
	}
}

/* One that is being written has its header first: whole is what has all of its sections. */
static bool is_whole(const struct image *f)
{
	for (uint32_t i = 0; i < f->n; i++) {
		Elf64_Shdr s = section(f, i);

		if (s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL && !section_bytes(f, &s))
			return false;
	}
	return true;
}

static int kernels_read(struct image *f, struct gpu_core *ret)
{
	int err = image_open(f);

	if (err)
		return err;
	if (f->type != ET_CORE)
		return -ENOEXEC;
	if (!is_whole(f))
		return -EAGAIN;
	for (uint32_t i = 0; i < f->n; i++) {
		Elf64_Shdr s = section(f, i);

		if (s.sh_type == GRID_TABLE)
			grids_read(f, &s, ret);
	}
	return 0;
}

int gpu_core_read(int fd, struct gpu_core *ret)
{
	struct image f = { 0 };
	struct stat st;
	void *map;
	int err;

	memset(ret, 0, sizeof(*ret));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -EINVAL;
	if (!st.st_size)
		return -EAGAIN;
	map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	f.bytes = map;
	f.size = st.st_size;
	err = kernels_read(&f, ret);
	munmap(map, st.st_size);
	return err;
}

static int op_gpu_core(struct reader_job *job)
{
	int err = gpu_core_read(job->fds[0], (struct gpu_core *)job->out);

	job->out_len = sizeof(struct gpu_core);
	return err;
}

int gpu_core_fetch(struct reader *r, int fd, unsigned deadline_ms, struct gpu_core *ret)
{
	size_t got = 0;
	int err = parser_run(r, 0, op_gpu_core, NULL, 0, &fd, 1, deadline_ms, ret, sizeof(*ret), &got);

	if (!err && (got != sizeof(*ret) || ret->n > GPU_CORE_KERNELS_MAX))
		return -EPROTO;
	for (uint32_t i = 0; !err && i < ret->n; i++)
		ret->kernels[i].name[GPU_CORE_NAME_LEN - 1] = '\0';
	return err;
}
