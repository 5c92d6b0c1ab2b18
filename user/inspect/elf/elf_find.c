/* SPDX-License-Identifier: Apache-2.0
 *
 * elf_find.c - where wanted functions are in a file: by name, by the begin of a name, by class and slot, or as a static
 * mark (elf_file.h has how each is written). One pass over the symbols; a name is compared with those alone that begin
 * with its letter.
 */
#include "inspect/elf/elf_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct wanted { /* names by their first letter, as lists */
	int16_t first[256], next[ELF_WANTED_MAX];
	const char *const *names;
	size_t len[ELF_WANTED_MAX]; /* of a begin of a name; 0: the whole name counts */
};

static bool is_virtual(const char *name)
{
	size_t len = strlen(name);

	return len && name[len - 1] == ']';
}

static bool is_usdt(const char *name)
{
	return strchr(name, ':');
}

static void wanted_fill(struct wanted *w, const char *const names[], size_t n)
{
	memset(w->first, -1, sizeof(w->first));
	w->names = names;
	for (size_t i = n; i--;) {
		size_t len = strlen(names[i]);

		if (!len || is_virtual(names[i]) || is_usdt(names[i]))
			continue;
		w->len[i] = names[i][len - 1] == '*' ? len - 1 : 0;
		w->next[i] = w->first[(uint8_t)names[i][0]];
		w->first[(uint8_t)names[i][0]] = i;
	}
}

/* A part of a function that the compiler split off (name.cold) is not its begin. */
static bool is_wanted(const struct wanted *w, int i, const char *name)
{
	if (!w->len[i])
		return !strcmp(name, w->names[i]);
	return !strncmp(name, w->names[i], w->len[i]) && !strchr(name + w->len[i], '.');
}

/* An old version of a symbol (name@V, not name@@V), which nothing linked today gets. */
static bool is_old_version(const struct symtab *t, size_t row)
{
	return t->versions && t->versions[row] & 0x8000;
}

static int find_in(const struct elf_file *f, const struct symtab *t, const struct wanted *w, struct elf_symbol *ret)
{
	int found = 0;
	uint64_t offset = 0;

	for (size_t k = 0; k < t->n; k++) {
		const Elf64_Sym *s = &t->rows[k];
		int i = s->st_name < t->names_len ? w->first[(uint8_t)t->names[s->st_name]] : -1;
		const char *name = i >= 0 ? elf_function_name(f, t, s, &offset) : NULL;

		for (; name && i >= 0; i = w->next[i])
			if (!ret[i].found && !is_old_version(t, k) && is_wanted(w, i, name)) {
				ret[i] = (struct elf_symbol){ true, offset, s->st_value, s->st_size, 0 };
				found++;
			}
	}
	return found;
}

static void export_note(struct elf_exports *to, const char *name)
{
	if (to->n == ELF_EXPORTS_MAX || strlen(name) >= ELF_EXPORT_LEN)
		return;
	for (uint32_t i = 0; i < to->n; i++)
		if (!strcmp(to->names[i], name))
			return;
	strcpy(to->names[to->n++], name);
}

void elf_file_exports(const struct elf_file *f, const char *begins, struct elf_exports *ret)
{
	size_t len = strlen(begins);
	uint64_t offset;

	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < f->n_tabs; i++)
		for (size_t k = 0; f->tabs[i].dynamic && k < f->tabs[i].n; k++) {
			const char *name = elf_function_name(f, &f->tabs[i], &f->tabs[i].rows[k], &offset);

			if (name && !strncmp(name, begins, len))
				export_note(ret, name);
		}
}

/* Only a file with a wanted function of C++ in it is searched for types: that takes a pass over its data. */
static bool has_cxx(const char *const names[], size_t n, const struct elf_symbol *symbols)
{
	for (size_t i = 0; i < n; i++)
		if (symbols[i].found && !strncmp(names[i], "_Z", 2))
			return true;
	return false;
}

static bool virtual_find(const struct elf_file *f, const char *name, struct elf_symbol *ret)
{
	size_t type_len = strcspn(name, "[");
	uint64_t vaddr = elf_virtual_find(f, name, type_len, name[type_len] ? atoi(name + type_len + 1) : 0), offset;
	bool begins = false;

	if (!vaddr || !elf_vaddr_to_offset(&f->facts, vaddr, &offset))
		return false;
	if (elf_file_entries(f, &offset, 1, &begins) || !begins)
		return false;
	*ret = (struct elf_symbol){ true, offset, vaddr, 0, 0 };
	return true;
}

int elf_file_find(const struct elf_file *f, const char *const names[], size_t n, struct elf_symbol *ret)
{
	struct wanted w;
	int found = 0;

	if (n > ELF_WANTED_MAX)
		return -E2BIG;
	memset(ret, 0, n * sizeof(*ret));
	wanted_fill(&w, names, n);
	for (int i = 0; i < f->n_tabs && (size_t)found < n; i++)
		found += find_in(f, &f->tabs[i], &w, ret);
	for (size_t i = 0; has_cxx(names, n, ret) && i < n; i++)
		found += is_virtual(names[i]) && virtual_find(f, names[i], &ret[i]);
	for (size_t i = 0; i < n; i++)
		found += is_usdt(names[i]) && elf_usdt_find(f, names[i], &ret[i]);
	return found;
}
