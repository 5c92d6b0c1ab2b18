/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_files.c - the files a target maps, as the unwinder wants them. Runs in the parser, which asks for each once and
 * keeps it open over calls (ranks map the same ones); an open file keeps its inode number from being given to another.
 */
#include "inspect/stack/stack_private.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 256
#define KEEP_CALLS 32 /* a file that no call asked for so many times is closed */
#define SYMBOLS_MAX 4000000u

struct stack_file {
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	unsigned used; /* call in which it was asked for last */
	bool broken;   /* is no ELF file of ours, or (fd < 0) could not be had in this call */
	int fd;
	Elf *elf;
	Dwarf_CFI *cfi;
	bool cfi_tried;
	struct elf_file *names; /* opened at the first question */
	bool names_tried;
	const uint8_t *bytes;
	size_t size;
};

static struct stack_file files[FILES_MAX];
static unsigned n_files, call;

static void file_close(struct stack_file *f)
{
	if (f->cfi)
		dwarf_cfi_end(f->cfi);
	elf_file_free(f->names);
	if (f->elf)
		elf_end(f->elf);
	if (f->fd >= 0)
		close(f->fd);
}

void stack_files_trim(void)
{
	unsigned kept = 0;

	call++;
	for (unsigned i = 0; i < n_files; i++)
		if (call - files[i].used > KEEP_CALLS || files[i].fd < 0)
			file_close(&files[i]);
		else
			files[kept++] = files[i];
	n_files = kept;
}

static bool file_open(struct stack_file *f)
{
	GElf_Ehdr ehdr;
	char *ident;

	elf_version(EV_CURRENT);
	f->elf = elf_begin(f->fd, ELF_C_READ_MMAP, NULL);
	if (!f->elf || elf_kind(f->elf) != ELF_K_ELF || !gelf_getehdr(f->elf, &ehdr))
		return false;
	ident = elf_getident(f->elf, NULL);
	f->bytes = (const uint8_t *)elf_rawfile(f->elf, &f->size);
	return ident && f->bytes && ident[EI_CLASS] == ELFCLASS64 && ident[EI_DATA] == ELFDATA2LSB;
}

struct stack_file *stack_file_get(const struct mapping *row)
{
	if (!row || !row->inode)
		return NULL;
	for (unsigned i = 0; i < n_files; i++) {
		struct stack_file *f = &files[i];

		if (f->inode == row->inode && f->dev_major == row->dev_major && f->dev_minor == row->dev_minor) {
			f->used = call;
			return f->broken ? NULL : f;
		}
	}
	if (n_files == FILES_MAX)
		return NULL;
	struct stack_file *f = &files[n_files++];
	int fd = job_mapped_file(row->start, row->end);

	*f = (struct stack_file){
		.inode = row->inode, .dev_major = row->dev_major, .dev_minor = row->dev_minor, .used = call, .fd = fd
	};
	f->broken = fd < 0 || !file_open(f);
	return f->broken ? NULL : f;
}

Dwarf_CFI *stack_file_cfi(struct stack_file *f)
{
	if (!f->cfi_tried)
		f->cfi = dwarf_getcfi_elf(f->elf);
	f->cfi_tried = true;
	return f->cfi;
}

/* The loadable segment that holds an offset (or, by_vaddr, an address). */
static bool segment_find(const struct stack_file *f, uint64_t at, bool by_vaddr, GElf_Phdr *ret)
{
	size_t n = 0;

	if (elf_getphdrnum(f->elf, &n))
		return false;
	for (size_t i = 0; i < n && i < 256; i++) {
		if (!gelf_getphdr(f->elf, i, ret) || ret->p_type != PT_LOAD)
			continue;
		uint64_t begin = by_vaddr ? ret->p_vaddr : ret->p_offset;

		if (at >= begin && at - begin < (by_vaddr ? ret->p_memsz : ret->p_filesz))
			return true;
	}
	return false;
}

bool stack_file_vaddr(const struct stack_file *f, uint64_t offset, uint64_t *ret)
{
	GElf_Phdr p;

	if (!segment_find(f, offset, false, &p))
		return false;
	*ret = offset - p.p_offset + p.p_vaddr;
	return true;
}

bool stack_file_offset(const struct stack_file *f, uint64_t vaddr, uint64_t *ret)
{
	GElf_Phdr p;

	if (!segment_find(f, vaddr, true, &p))
		return false;
	*ret = vaddr - p.p_vaddr + p.p_offset;
	return true;
}

const uint8_t *stack_file_bytes(const struct stack_file *f, uint64_t offset, size_t len)
{
	return offset > f->size || len > f->size - offset ? NULL : f->bytes + offset;
}

int stack_file_names(struct stack_file *f, const uint64_t offsets[], size_t n, struct elf_name *ret)
{
	memset(ret, 0, n * sizeof(*ret));
	if (!f->names_tried && elf_file_open(f->fd, &f->names))
		f->names = NULL;
	f->names_tried = true;
	return f->names ? elf_file_name(f->names, offsets, n, ret) : -ENOEXEC;
}

static void table_search(struct stack_file *f, Elf_Scn *scn, const GElf_Shdr *shdr, const char *const names[], size_t n,
			 uint64_t *ret)
{
	Elf_Data *data = elf_getdata(scn, NULL);
	size_t rows = data && shdr->sh_entsize ? data->d_size / shdr->sh_entsize : 0;
	GElf_Sym sym;

	for (size_t i = 0; i < rows && i < SYMBOLS_MAX && gelf_getsym(data, i, &sym); i++) {
		if (sym.st_shndx == SHN_UNDEF || GELF_ST_TYPE(sym.st_info) != STT_OBJECT)
			continue;
		const char *name = elf_strptr(f->elf, shdr->sh_link, sym.st_name);

		for (size_t k = 0; name && k < n; k++)
			if (!ret[k] && !strcmp(name, names[k]))
				ret[k] = sym.st_value;
	}
}

size_t stack_file_symbols(struct stack_file *f, const char *const names[], size_t n, uint64_t *ret)
{
	size_t found = 0;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;

	memset(ret, 0, n * sizeof(*ret));
	while ((scn = elf_nextscn(f->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && (shdr.sh_type == SHT_DYNSYM || shdr.sh_type == SHT_SYMTAB))
			table_search(f, scn, &shdr, names, n, ret);
	for (size_t k = 0; k < n; k++)
		found += ret[k] != 0;
	return found;
}
