/* SPDX-License-Identifier: Apache-2.0
 *
 * elf_usdt.c - the static marks (USDT) that a file's author put into it: a note names each with its place in the text
 * and with its semaphore, a counter by which the program knows that a tracer looks. The file is hostile input: a place
 * that is not the empty instruction of a mark, or a semaphore outside of the file's own data, is none.
 */
#include "inspect/elf/elf_private.h"

#include <string.h>

#define NT_STAPSDT 3
#define PHDRS_MAX 4096
#define SHDRS_MAX 65536

struct usdt_note { /* what stands before the texts */
	uint64_t place, base, semaphore;
};

/* The instruction that a mark is: a probe anywhere else in the text could end the program. */
static bool is_mark(const struct elf_file *f, uint64_t offset)
{
#if defined(__x86_64__)
	static const uint8_t empty[] = { 0x90 };
#else
	static const uint8_t empty[] = { 0x1f, 0x20, 0x03, 0xd5 };
#endif
	const void *at = elf_file_bytes(f, offset, sizeof(empty));

	return at && !memcmp(at, empty, sizeof(empty));
}

/* Place in the file of a 16-bit counter in writable data; 0: it has none. */
static uint64_t semaphore_offset(const struct elf_file *f, uint64_t vaddr)
{
	const Elf64_Ehdr *e = elf_file_bytes(f, 0, sizeof(*e));
	const Elf64_Phdr *p =
		e && e->e_phnum <= PHDRS_MAX ? elf_file_bytes(f, e->e_phoff, (uint64_t)e->e_phnum * sizeof(*p)) : NULL;

	for (int i = 0; p && i < e->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_flags & PF_W && vaddr >= p[i].p_vaddr && !(vaddr % 2) &&
		    vaddr - p[i].p_vaddr < p[i].p_filesz && p[i].p_filesz - (vaddr - p[i].p_vaddr) >= 2 &&
		    p[i].p_offset <= f->size)
			return vaddr - p[i].p_vaddr + p[i].p_offset;
	return 0;
}

/* `texts`: provider, name and arguments, each with its zero byte, in len bytes. */
static bool is_named(const char *texts, uint64_t len, const char *name)
{
	size_t provider = strcspn(name, ":"), rest = strlen(name + provider + 1) + 1;

	return len >= provider + 1 + rest && !memcmp(texts, name, provider) && !texts[provider] &&
	       !memcmp(texts + provider + 1, name + provider + 1, rest);
}

/* A mark in two places would need two probes, of which one alone shows half: it is left out. */
static void note_take(const struct elf_file *f, const uint8_t *desc, uint64_t len, const char *name,
		      struct elf_symbol *ret, int *n_places)
{
	struct usdt_note note;
	uint64_t offset = 0, semaphore;

	if (len < sizeof(note))
		return;
	memcpy(&note, desc, sizeof(note));
	if (!is_named((const char *)desc + sizeof(note), len - sizeof(note), name))
		return;
	++*n_places;
	semaphore = note.semaphore ? semaphore_offset(f, note.semaphore) : 0;
	if (!elf_vaddr_to_offset(&f->facts, note.place, &offset) || !is_mark(f, offset) ||
	    (note.semaphore && !semaphore))
		return;
	*ret = (struct elf_symbol){ .found = true, .offset = offset, .vaddr = note.place, .semaphore = semaphore };
}

static void notes_search(const struct elf_file *f, const Elf64_Shdr *s, const char *name, struct elf_symbol *ret,
			 int *n_places)
{
	const uint8_t *at = elf_file_bytes(f, s->sh_offset, s->sh_size);
	uint64_t left = s->sh_size;
	Elf64_Nhdr n;

	while (at && left >= sizeof(n)) {
		memcpy(&n, at, sizeof(n));
		uint64_t owner = (n.n_namesz + 3ull) & ~3ull, desc = (n.n_descsz + 3ull) & ~3ull;

		if (owner > left - sizeof(n) || desc > left - sizeof(n) - owner)
			return;
		if (n.n_type == NT_STAPSDT && n.n_namesz == 8 && !memcmp(at + sizeof(n), "stapsdt", 8))
			note_take(f, at + sizeof(n) + owner, n.n_descsz, name, ret, n_places);
		at += sizeof(n) + owner + desc;
		left -= sizeof(n) + owner + desc;
	}
}

bool elf_usdt_find(const struct elf_file *f, const char *name, struct elf_symbol *ret)
{
	const Elf64_Ehdr *e = elf_file_bytes(f, 0, sizeof(*e));
	const Elf64_Shdr *s = e ? elf_file_bytes(f, e->e_shoff, (uint64_t)e->e_shnum * sizeof(*s)) : NULL;
	int n_places = 0;

	if (!s || e->e_shoff % 8 || e->e_shentsize != sizeof(*s))
		return false;
	for (size_t i = 0; i < e->e_shnum && i < SHDRS_MAX; i++)
		if (s[i].sh_type == SHT_NOTE)
			notes_search(f, &s[i], name, ret, &n_places);
	ret->found = ret->found && n_places == 1;
	return ret->found;
}
