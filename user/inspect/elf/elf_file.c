/* SPDX-License-Identifier: Apache-2.0
 *
 * elf_file.c - a bounds-checked view of a mapped ELF file. No libelf: what is needed is little, and here each offset
 * that comes out of the file goes through view() or is refused. Symbols are scanned, not indexed: one pass over
 * libnccl's 12,000 takes less than building a table would, and nothing stays in memory.
 */
#include "inspect/elf/elf_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOLES_MAX (64ull << 20) /* bytes: reading a hole of a file in memory makes it real, at our cost */
#define PHDRS_MAX 4096
#define SHDRS_MAX 65536
#define SYMBOLS_MAX 8000000u

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#error "port elf_file.c: machine"
#endif

/* len bytes at offset, aligned for 8-byte fields, or NULL. */
static const void *view(const struct elf_file *f, uint64_t offset, uint64_t len, unsigned align)
{
	if (offset > f->size || len > f->size - offset || offset % align)
		return NULL;
	return f->map + offset;
}

static int check_ident(const struct elf_file *f)
{
	const Elf64_Ehdr *e = view(f, 0, sizeof(*e), 1);

	if (f->size < SELFMAG || memcmp(f->map, ELFMAG, SELFMAG))
		return -ENOEXEC;
	if (!e)
		return -EBADMSG;
	if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_ident[EI_DATA] != ELFDATA2LSB || e->e_machine != OUR_MACHINE)
		return -ENOTSUP;
	if (e->e_type != ET_EXEC && e->e_type != ET_DYN)
		return -ENOEXEC;
	return 0;
}

static void take_build_id(struct elf_file *f, const Elf64_Phdr *p)
{
	const uint8_t *note = view(f, p->p_offset, p->p_filesz, 4);
	uint64_t left = p->p_filesz;
	Elf64_Nhdr n;

	while (note && left >= sizeof(n) && !f->facts.build_id_len) {
		memcpy(&n, note, sizeof(n));
		uint64_t name = (n.n_namesz + 3ull) & ~3ull, desc = (n.n_descsz + 3ull) & ~3ull;

		if (name > left - sizeof(n) || desc > left - sizeof(n) - name)
			return;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(note + sizeof(n), "GNU", 4) &&
		    n.n_descsz) {
			f->facts.build_id_len = n.n_descsz < ELF_BUILD_ID_MAX ? n.n_descsz : ELF_BUILD_ID_MAX;
			memcpy(f->facts.build_id, note + sizeof(n) + name, f->facts.build_id_len);
		}
		note += sizeof(n) + name + desc;
		left -= sizeof(n) + name + desc;
	}
}

static int take_text(struct elf_file *f, const Elf64_Phdr *p)
{
	struct elf_facts *facts = &f->facts;

	if (p->p_offset > f->size || p->p_filesz > f->size - p->p_offset || p->p_vaddr > UINT64_MAX - p->p_memsz)
		return -EBADMSG;
	if (!(p->p_flags & PF_X) || facts->n_text == ELF_TEXTS_MAX)
		return 0;
	facts->text[facts->n_text++] = (struct elf_text){ p->p_vaddr, p->p_offset, p->p_filesz };
	return 0;
}

static int take_segments(struct elf_file *f)
{
	const Elf64_Ehdr *e = view(f, 0, sizeof(*e), 8);
	/* lint: check_ident() has seen the header */
	const Elf64_Phdr *p = view(f, e->e_phoff, (uint64_t)e->e_phnum * sizeof(*p), 8);

	if (!p || e->e_phentsize != sizeof(*p) || e->e_phnum > PHDRS_MAX)
		return -EBADMSG;
	f->facts.type = e->e_type;
	for (int i = 0; i < e->e_phnum; i++) {
		int rc = p[i].p_type == PT_LOAD ? take_text(f, &p[i]) : 0;

		if (rc)
			return rc;
		if (p[i].p_type == PT_GNU_EH_FRAME && p[i].p_offset <= f->size &&
		    p[i].p_filesz <= f->size - p[i].p_offset)
			f->facts.unwind = (struct elf_text){ p[i].p_vaddr, p[i].p_offset, p[i].p_filesz };
		if (p[i].p_type == PT_NOTE)
			take_build_id(f, &p[i]);
	}
	return 0;
}

/* A table that does not check out is left out, not an error: the segments alone are of use. */
static void take_symtab(struct elf_file *f, const Elf64_Shdr *all, size_t n_all, const Elf64_Shdr *s)
{
	struct symtab t = { .n = s->sh_size / sizeof(Elf64_Sym), .dynamic = s->sh_type == SHT_DYNSYM };

	if (s->sh_entsize != sizeof(Elf64_Sym) || s->sh_link >= n_all || f->n_tabs == 2 || t.n > SYMBOLS_MAX)
		return;
	const Elf64_Shdr *names = &all[s->sh_link];

	t.rows = view(f, s->sh_offset, t.n * sizeof(Elf64_Sym), 8);
	t.names = view(f, names->sh_offset, names->sh_size, 1);
	t.names_len = names->sh_size;
	if (!t.rows || !t.names || names->sh_type != SHT_STRTAB || !t.names_len || t.names[t.names_len - 1])
		return;
	f->tabs[f->n_tabs++] = t;
	f->facts.has_symbols = true;
	if (s->sh_type == SHT_SYMTAB)
		f->facts.has_symtab = true;
}

/* The section stands behind .dynsym in files as linkers make them; elsewhere versions are not distinguished. */
static void take_versions(struct elf_file *f, const Elf64_Shdr *s)
{
	for (int i = 0; i < f->n_tabs; i++)
		if (s->sh_size / sizeof(Elf64_Half) == f->tabs[i].n && !f->tabs[i].versions && !f->facts.has_symtab)
			f->tabs[i].versions = view(f, s->sh_offset, s->sh_size, sizeof(Elf64_Half));
}

static bool is_debug_info(const struct elf_file *f, const Elf64_Shdr *names, const Elf64_Shdr *s)
{
	static const char want[] = ".debug_info";
	const char *name = NULL;

	if (names->sh_size > s->sh_name && s->sh_type == SHT_PROGBITS)
		name = view(f, names->sh_offset + s->sh_name, sizeof(want), 1);
	return name && names->sh_offset <= f->size && !memcmp(name, want, sizeof(want));
}

static void take_sections(struct elf_file *f)
{
	const Elf64_Ehdr *e = view(f, 0, sizeof(*e), 8);
	uint64_t n = e->e_shnum;
	const Elf64_Shdr *s = view(f, e->e_shoff, n * sizeof(*s), 8);

	if (!s || e->e_shentsize != sizeof(*s) || n > SHDRS_MAX)
		return;
	for (size_t i = 0; i < n; i++) {
		if (s[i].sh_type == SHT_DYNSYM || s[i].sh_type == SHT_SYMTAB)
			take_symtab(f, s, n, &s[i]);
		if (s[i].sh_type == SHT_GNU_versym)
			take_versions(f, &s[i]);
		if (e->e_shstrndx < n && is_debug_info(f, &s[e->e_shstrndx], &s[i]))
			f->facts.has_dwarf = true;
	}
}

/* libc's own, and the copy of it that a program's linker made: that one is the variable in use then. */
static void take_environ(struct elf_file *f)
{
	for (int i = 0; i < f->n_tabs; i++)
		for (size_t k = 0; k < f->tabs[i].n && !f->facts.environ_vaddr; k++) {
			const Elf64_Sym *s = &f->tabs[i].rows[k];

			if (ELF64_ST_TYPE(s->st_info) == STT_OBJECT && s->st_shndx != SHN_UNDEF &&
			    s->st_size == sizeof(uint64_t) && s->st_name < f->tabs[i].names_len &&
			    (!strcmp(f->tabs[i].names + s->st_name, "environ") ||
			     !strcmp(f->tabs[i].names + s->st_name, "__environ")))
				f->facts.environ_vaddr = s->st_value;
		}
}

/* FNV-1a, twice with different starts, of what distinguishes one file from another. */
static void make_up_build_id(struct elf_facts *facts, const struct stat *st)
{
	const uint64_t what[] = { st->st_dev, st->st_ino, st->st_size, st->st_mtim.tv_sec, st->st_mtim.tv_nsec };
	const uint8_t *bytes = (const uint8_t *)what;

	for (unsigned half = 0; half < 2; half++) {
		uint64_t h = 0xcbf29ce484222325ull + half;

		for (size_t i = 0; i < sizeof(what); i++)
			h = (h ^ bytes[i]) * 0x100000001b3ull; /* lint: all of it is filled */
		memcpy(facts->build_id + half * 8, &h, 8);
	}
	facts->build_id_len = 16;
	facts->build_id_made_up = true;
}

bool elf_fd_sparse(int fd, const struct stat *st)
{
	uint64_t there = st->st_blocks * 512ull, size = st->st_size;

	return size > there && size - there > HOLES_MAX && lseek(fd, 0, SEEK_HOLE) < st->st_size;
}

int elf_file_open(int fd, struct elf_file **ret)
{
	struct stat st;
	struct elf_file *f = NULL;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (elf_fd_sparse(fd, &st))
		return -EFBIG;
	if (!st.st_size)
		return -ENOEXEC;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->size = st.st_size;
	f->map = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
	int rc = f->map == MAP_FAILED ? -errno : check_ident(f);

	if (!rc)
		rc = take_segments(f);
	if (rc) {
		elf_file_free(f);
		return rc;
	}
	take_sections(f);
	take_environ(f);
	if (!f->facts.build_id_len)
		make_up_build_id(&f->facts, &st);
	*ret = f;
	return 0;
}

void elf_file_free(struct elf_file *f)
{
	if (!f)
		return;
	if (f->map != MAP_FAILED)
		munmap((void *)f->map, f->size);
	free(f);
}

const struct elf_facts *elf_file_facts(const struct elf_file *f)
{
	return &f->facts;
}

const void *elf_file_bytes(const struct elf_file *f, uint64_t offset, uint64_t len)
{
	return view(f, offset, len, 1);
}

bool elf_facts_in_text(const struct elf_facts *facts, uint64_t offset)
{
	for (uint32_t i = 0; i < facts->n_text; i++)
		if (offset >= facts->text[i].offset && offset - facts->text[i].offset < facts->text[i].size)
			return true;
	return false;
}

const char *elf_error_text(int error)
{
	switch (error) {
	case -ENOTSUP: return "built for another machine than this one; its calls stay invisible";
	case -EFBIG: return "it has holes, or tables that take too long to read: made to cost time";
	case -EBADMSG: return "damaged or cut short";
	case -EIO: return "it crashed the reader: damaged, or made to";
	case -ECANCELED:
	case -ETIME: return "not read in time; tried again";
	case -ESTALE: return "another file lies at its path now, and map_files is not permitted: run as root";
	default: return strerror(-error);
	}
}

void elf_facts_build_id(const struct elf_facts *facts, char *to)
{
	for (unsigned i = 0; i < facts->build_id_len; i++)
		snprintf(to + 2 * i, 3, "%02x", facts->build_id[i]);
	if (!facts->build_id_len)
		*to = '\0';
}

bool elf_vaddr_to_offset(const struct elf_facts *facts, uint64_t vaddr, uint64_t *ret)
{
	for (uint32_t i = 0; i < facts->n_text; i++) {
		const struct elf_text *t = &facts->text[i];

		if (vaddr >= t->vaddr && vaddr - t->vaddr < t->size) {
			*ret = vaddr - t->vaddr + t->offset;
			return true;
		}
	}
	return false;
}

const char *elf_function_name(const struct elf_file *f, const struct symtab *t, const Elf64_Sym *s,
			      uint64_t *ret_offset)
{
	if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_shndx == SHN_UNDEF || !s->st_name ||
	    s->st_name >= t->names_len)
		return NULL;
	return elf_vaddr_to_offset(&f->facts, s->st_value, ret_offset) ? t->names + s->st_name : NULL;
}

struct nearest {
	const char *name;
	uint64_t start, size;
};

/* Closer start wins; of several names of one function the shortest (ncclSend before pncclSend). */
static void nearest_update(struct nearest *best, const char *name, uint64_t start, uint64_t size)
{
	if (!best->name || start > best->start || (start == best->start && strlen(name) < strlen(best->name)))
		*best = (struct nearest){ name, start, size };
}

static void nearest_store(const struct nearest *best, uint64_t offset, struct elf_name *ret)
{
	memset(ret, 0, sizeof(*ret));
	/* Behind the end of a sized function is no man's land (PLT, padding): say nothing rather than a wrong name. */
	if (!best->name || (best->size && offset - best->start >= best->size))
		return;
	ret->delta = offset - best->start;
	snprintf(ret->name, sizeof(ret->name), "%s", best->name);
}

int elf_file_name(const struct elf_file *f, const uint64_t offsets[], size_t n, struct elf_name *ret)
{
	struct nearest *best = calloc(n ? n : 1, sizeof(*best));
	uint64_t start = 0;
	int named = 0;

	if (!best)
		return -ENOMEM;
	for (int i = 0; i < f->n_tabs; i++)
		for (size_t k = 0; k < f->tabs[i].n; k++) {
			const Elf64_Sym *s = &f->tabs[i].rows[k];
			const char *name = elf_function_name(f, &f->tabs[i], s, &start);

			for (size_t j = 0; name && j < n; j++)
				if (start <= offsets[j])
					nearest_update(&best[j], name, start, s->st_size);
		}
	for (size_t j = 0; j < n; j++) {
		nearest_store(&best[j], offsets[j], &ret[j]);
		named += ret[j].name[0] != '\0';
	}
	free(best);
	return named;
}
