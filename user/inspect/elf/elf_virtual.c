/* SPDX-License-Identifier: Apache-2.0
 *
 * elf_virtual.c - a virtual function of a class in a stripped library. What links it to the class survives every strip,
 * because the program needs it: the type's name is a text; the type info points to it; the table of virtual functions
 * points to the type info; and all these pointers are relocations. The file is hostile input: passes, and what they may
 * visit, are bounded, and a table that is not unique is none.
 */
#include "inspect/elf/elf_private.h"

#include <string.h>

#define LOADS_MAX 16
#define NAMES_MAX 4   /* places of the text */
#define TYPES_MAX 4   /* type infos that point to them */
#define TABLES_MAX 16 /* pointers to the type infos */
#define SLOTS_MAX 16
#define TYPE_LEN_MAX 200
#define VISITS_MAX (1u << 25) /* relocations of a pass: libtorch has a million */
#define SYMBOL_BYTES sizeof(Elf64_Sym)

#if defined(__x86_64__)
#define RELOC_RELATIVE R_X86_64_RELATIVE
#define RELOC_ADDRESS R_X86_64_64
#else
#define RELOC_RELATIVE R_AARCH64_RELATIVE
#define RELOC_ADDRESS R_AARCH64_ABS64
#endif

struct image {
	const struct elf_file *f;
	const Elf64_Phdr *loads[LOADS_MAX];
	int n_loads;
	const Elf64_Rela *rela;
	const uint64_t *relr;
	size_t n_rela, n_relr;
	uint64_t symbols; /* address of .dynsym; 0 none */
};

struct table { /* `at`: where the pointer to the type info is, behind one word and before the functions */
	uint64_t at, functions[SLOTS_MAX];
	bool damaged; /* the word before it is a pointer: no table, or not a class's first */
};

struct search { /* one pass: relocations that lead to one of `to` are noted by their places */
	const struct image *m;
	const uint64_t *to;
	size_t n_to, n, max;
	uint64_t *places;
	struct table *tables;
	size_t n_tables;
	unsigned visits;
};

static const void *at_address(const struct image *m, uint64_t address, uint64_t len)
{
	for (int i = 0; i < m->n_loads; i++) {
		const Elf64_Phdr *p = m->loads[i];

		if (address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz &&
		    len <= p->p_filesz - (address - p->p_vaddr))
			return elf_file_bytes(m->f, p->p_offset + (address - p->p_vaddr), len);
	}
	return NULL;
}

static uint64_t word_at(const struct image *m, uint64_t address)
{
	const void *at = at_address(m, address, sizeof(uint64_t));
	uint64_t word = 0;

	if (at)
		memcpy(&word, at, sizeof(word));
	return word;
}

static void dynamic_read(struct image *m, const Elf64_Phdr *p)
{
	uint64_t rela = 0, rela_bytes = 0, relr = 0, relr_bytes = 0;
	size_t n = p->p_filesz / sizeof(Elf64_Dyn);
	const uint8_t *at = elf_file_bytes(m->f, p->p_offset, n * sizeof(Elf64_Dyn));
	Elf64_Dyn d;

	for (size_t i = 0; at && i < n; i++) {
		memcpy(&d, at + i * sizeof(d), sizeof(d));
		switch (d.d_tag) {
		case DT_NULL: n = i; break;
		case DT_RELA: rela = d.d_un.d_ptr; break;
		case DT_RELASZ: rela_bytes = d.d_un.d_val; break;
		case DT_RELR: relr = d.d_un.d_ptr; break;
		case DT_RELRSZ: relr_bytes = d.d_un.d_val; break;
		case DT_SYMTAB: m->symbols = d.d_un.d_ptr; break;
		}
	}
	m->rela = rela % 8 ? NULL : at_address(m, rela, rela_bytes);
	m->n_rela = m->rela ? rela_bytes / sizeof(Elf64_Rela) : 0;
	m->relr = relr % 8 ? NULL : at_address(m, relr, relr_bytes);
	m->n_relr = m->relr ? relr_bytes / sizeof(uint64_t) : 0;
	/* a segment may lie at any offset of a hostile file */
	if ((uintptr_t)m->rela % 8)
		m->n_rela = 0;
	if ((uintptr_t)m->relr % 8)
		m->n_relr = 0;
}

static bool image_read(struct image *m, const struct elf_file *f)
{
	const Elf64_Ehdr *e = elf_file_bytes(f, 0, sizeof(*e));
	const Elf64_Phdr *p = e ? elf_file_bytes(f, e->e_phoff, (uint64_t)e->e_phnum * sizeof(*p)) : NULL;

	*m = (struct image){ .f = f };
	for (int i = 0; p && i < e->e_phnum && m->n_loads < LOADS_MAX; i++)
		if (p[i].p_type == PT_LOAD)
			m->loads[m->n_loads++] = &p[i];
	for (int i = 0; p && i < e->e_phnum; i++)
		if (p[i].p_type == PT_DYNAMIC) {
			dynamic_read(m, &p[i]);
			break;
		}
	return m->n_rela || m->n_relr;
}

/* --- passes over the relocations --- */

static void table_note(struct table *t, uint64_t place, uint64_t target)
{
	uint64_t slot = (place - t->at) / 8 - 1;

	if (place == t->at - 8)
		t->damaged = true;
	else if (place > t->at && slot < SLOTS_MAX && !(place % 8))
		t->functions[slot] = target;
}

static void visit(struct search *s, uint64_t place, uint64_t target)
{
	s->visits++;
	for (size_t i = 0; i < s->n_to; i++)
		if (s->to[i] == target && s->n < s->max)
			s->places[s->n++] = place;
	for (size_t i = 0; i < s->n_tables; i++)
		table_note(&s->tables[i], place, target);
}

static void rela_visit(struct search *s, const Elf64_Rela *r)
{
	const uint8_t *at;
	Elf64_Sym sym;

	if (ELF64_R_TYPE(r->r_info) == RELOC_RELATIVE) {
		visit(s, r->r_offset, r->r_addend);
		return;
	}
	if (ELF64_R_TYPE(r->r_info) != RELOC_ADDRESS || !s->m->symbols)
		return;
	at = at_address(s->m, s->m->symbols + ELF64_R_SYM(r->r_info) * SYMBOL_BYTES, SYMBOL_BYTES);
	if (!at)
		return;
	memcpy(&sym, at, sizeof(sym));
	/* another library's: it stands in the table too, as no function of ours */
	visit(s, r->r_offset, sym.st_shndx == SHN_UNDEF ? 0 : sym.st_value + r->r_addend);
}

/* An even entry is a place; an odd one has a bit for each of the 63 words that follow the last. */
static void relr_visit(struct search *s)
{
	uint64_t where = 0;

	for (size_t i = 0; i < s->m->n_relr && s->visits < VISITS_MAX; i++) {
		uint64_t entry = s->m->relr[i];

		if (!(entry & 1)) {
			visit(s, entry, word_at(s->m, entry));
			where = entry + 8;
			continue;
		}
		for (int bit = 0; entry >>= 1; bit++)
			if (entry & 1)
				visit(s, where + 8 * bit, word_at(s->m, where + 8 * bit));
		where += 63 * 8;
	}
}

static size_t relocations_pass(struct search *s)
{
	for (size_t i = 0; i < s->m->n_rela && s->visits < VISITS_MAX; i++)
		rela_visit(s, &s->m->rela[i]);
	relr_visit(s);
	return s->n;
}

static size_t places_find(const struct image *m, const uint64_t *to, size_t n_to, uint64_t *places, size_t max)
{
	struct search s = { .m = m, .to = to, .n_to = n_to, .places = places, .max = max };

	return n_to ? relocations_pass(&s) : 0;
}

/* --- the text --- */

/* A whole text: in .dynstr it is the end of a longer name. */
static size_t text_find_in(const struct image *m, const Elf64_Phdr *p, const char *text, size_t len, uint64_t *to)
{
	const uint8_t *begin = elf_file_bytes(m->f, p->p_offset, p->p_filesz), *at = begin;
	size_t n = 0, left = p->p_filesz;

	if (!begin)
		return 0;
	while (n < NAMES_MAX && (at = memmem(at, left, text, len))) {
		if (at == begin || !at[-1])
			to[n++] = p->p_vaddr + (at - begin);
		at++;
		left = p->p_filesz - (at - begin);
	}
	return n;
}

/* Read-only data first; older linkers put it next to the code. */
static size_t text_find(const struct image *m, const char *type, size_t type_len, uint64_t to[NAMES_MAX])
{
	char text[TYPE_LEN_MAX + 1];
	size_t n = 0;

	memcpy(text, type, type_len);
	text[type_len] = '\0';
	for (int with_code = 0; !n && with_code < 2; with_code++)
		for (int i = 0; !n && i < m->n_loads; i++)
			if (!(m->loads[i]->p_flags & PF_W) && !(m->loads[i]->p_flags & PF_X) == !with_code)
				n = text_find_in(m, m->loads[i], text, type_len + 1, to);
	return n;
}

/* --- the table --- */

static bool is_table(const struct image *m, const struct table *t, unsigned slot)
{
	uint64_t offset;

	if (t->damaged || word_at(m, t->at - 8))
		return false;
	for (unsigned i = 0; i <= slot; i++)
		if (!elf_vaddr_to_offset(&m->f->facts, t->functions[i], &offset))
			return false;
	return true;
}

static uint64_t table_pick(const struct image *m, const uint64_t *places, size_t n, unsigned slot)
{
	struct table tables[TABLES_MAX] = { 0 };
	struct search s = { .m = m, .tables = tables, .n_tables = n };
	uint64_t found = 0;

	for (size_t i = 0; i < n; i++)
		tables[i].at = places[i];
	if (n)
		relocations_pass(&s);
	for (size_t i = 0; i < n; i++) {
		if (!is_table(m, &tables[i], slot))
			continue;
		if (found && found != tables[i].functions[slot])
			return 0;
		found = tables[i].functions[slot];
	}
	return found;
}

uint64_t elf_virtual_find(const struct elf_file *f, const char *type, size_t type_len, unsigned slot)
{
	uint64_t names[NAMES_MAX], types[TYPES_MAX], tables[TABLES_MAX];
	struct image m;
	size_t n;

	if (!type_len || type_len > TYPE_LEN_MAX || slot >= SLOTS_MAX || !image_read(&m, f))
		return 0;
	n = text_find(&m, type, type_len, names);
	n = places_find(&m, names, n, types, TYPES_MAX);
	for (size_t i = 0; i < n; i++)
		types[i] -= 8; /* the name is the second word of a type info */
	n = places_find(&m, types, n, tables, TABLES_MAX);
	return table_pick(&m, tables, n, slot);
}
