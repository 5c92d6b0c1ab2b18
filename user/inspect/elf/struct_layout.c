/* SPDX-License-Identifier: Apache-2.0
 *
 * struct_layout.c - walks the compile units until one holds a complete definition, and stops there. No index is built:
 * children of a unit are skipped by DW_AT_sibling, so a unit costs its top level only.
 */
#include "inspect/elf/struct_layout.h"
#include "inspect/elf/elf_file.h"
#include "inspect/reader/reader.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIES_MAX 20000000u /* entries read: some seconds */
#define NESTING_MAX 16

struct walk {
	unsigned dies;
	int nesting;
};

static bool is_struct(Dwarf_Die *die)
{
	int tag = dwarf_tag(die);

	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

/* 1: found in this unit, 0: not here, -errno. */
static int find_in_unit(Dwarf_Die *unit, const char *name, struct walk *w, Dwarf_Die *ret)
{
	Dwarf_Die die;

	for (int rc = dwarf_child(unit, &die); rc == 0; rc = dwarf_siblingof(&die, &die)) {
		if (++w->dies > DIES_MAX)
			return -ETIME;
		if (!is_struct(&die) || dwarf_hasattr(&die, DW_AT_declaration))
			continue;
		const char *found = dwarf_diename(&die);

		if (found && !strcmp(found, name)) {
			*ret = die;
			return 1;
		}
	}
	return 0;
}

static int find_struct(Dwarf *dw, const char *name, struct walk *w, Dwarf_Die *ret)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	int rc;

	while ((rc = dwarf_get_units(dw, cu, &cu, NULL, NULL, &unit, NULL)) == 0) {
		int hit = find_in_unit(&unit, name, w, ret);

		if (hit)
			return hit < 0 ? hit : 0;
	}
	return rc < 0 ? -EBADMSG : -ENOENT;
}

static bool type_of(Dwarf_Die *die, Dwarf_Die *ret)
{
	Dwarf_Attribute attr;

	return dwarf_attr_integrate(die, DW_AT_type, &attr) && dwarf_formref_die(&attr, ret) &&
	       dwarf_peel_type(ret, ret) == 0;
}

static bool member_offset(Dwarf_Die *member, uint64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Word v = 0;

	/* A union's members have none, and lie at 0. */
	if (dwarf_attr(member, DW_AT_data_member_location, &attr) && dwarf_formudata(&attr, &v))
		return false;
	*ret = v;
	return true;
}

static uint64_t subrange_count(Dwarf_Die *range)
{
	Dwarf_Attribute attr;
	Dwarf_Word v;

	if (dwarf_attr(range, DW_AT_count, &attr) && !dwarf_formudata(&attr, &v))
		return v;
	if (dwarf_attr(range, DW_AT_upper_bound, &attr) && !dwarf_formudata(&attr, &v))
		return v + 1;
	return 0;
}

static uint32_t array_count(Dwarf_Die *type)
{
	uint64_t count = 1;
	Dwarf_Die die;

	if (dwarf_tag(type) != DW_TAG_array_type)
		return 1;
	for (int rc = dwarf_child(type, &die); rc == 0; rc = dwarf_siblingof(&die, &die))
		if (dwarf_tag(&die) == DW_TAG_subrange_type) {
			uint64_t n = subrange_count(&die);

			if (n > UINT32_MAX || count * n > UINT32_MAX)
				return 0;
			count *= n;
		}
	return count;
}

static bool find_field(Dwarf_Die *type, const char *path, uint64_t base, struct walk *w, struct field_layout *ret);

static bool fill_field(Dwarf_Die *member, uint64_t offset, struct field_layout *ret)
{
	Dwarf_Die type;
	Dwarf_Word size = 0;

	if (offset > UINT32_MAX || !type_of(member, &type))
		return false;
	if (dwarf_aggregate_size(&type, &size) || size > UINT32_MAX)
		size = 0;
	*ret = (struct field_layout){ true, offset, size, array_count(&type) };
	return true;
}

/* `path` against one member: the member itself, a path through it, or a way into a nameless one. */
static bool match_member(Dwarf_Die *member, const char *path, uint64_t base, struct walk *w, struct field_layout *ret)
{
	size_t len = strcspn(path, ".");
	const char *name = dwarf_diename(member);
	bool nameless = !name || dwarf_tag(member) == DW_TAG_inheritance;
	uint64_t offset = 0;
	Dwarf_Die type;

	if (!nameless && (strncmp(name, path, len) || name[len]))
		return false;
	if (!member_offset(member, &offset) || offset > UINT32_MAX)
		return false;
	if (!nameless && !path[len])
		return fill_field(member, base + offset, ret);
	if (!type_of(member, &type) || !is_struct(&type))
		return false;
	return find_field(&type, nameless ? path : path + len + 1, base + offset, w, ret);
}

static bool find_field(Dwarf_Die *type, const char *path, uint64_t base, struct walk *w, struct field_layout *ret)
{
	Dwarf_Die die;
	bool found = false;

	if (w->nesting >= NESTING_MAX)
		return false;
	w->nesting++;
	for (int rc = dwarf_child(type, &die); rc == 0 && !found; rc = dwarf_siblingof(&die, &die)) {
		int tag = dwarf_tag(&die);

		if (++w->dies > DIES_MAX)
			break;
		if (tag == DW_TAG_member || tag == DW_TAG_inheritance)
			found = match_member(&die, path, base, w, ret);
	}
	w->nesting--;
	return found;
}

static int read_dwarf(Dwarf *dw, const char *name, const char *const fields[], size_t n, struct struct_layout *ret)
{
	struct struct_layout out = { .n = n };
	struct walk w = { 0 };
	Dwarf_Word size = 0;
	Dwarf_Die die;
	int rc = find_struct(dw, name, &w, &die);

	if (rc)
		return rc;
	if (dwarf_aggregate_size(&die, &size) || size > UINT32_MAX)
		return -EBADMSG;
	out.size = size;
	for (size_t i = 0; i < n; i++) {
		struct field_layout *f = &out.fields[i];

		if (!find_field(&die, fields[i], 0, &w, f))
			continue;
		if (f->offset > out.size || f->size > out.size - f->offset)
			return -EBADMSG;
		out.n_found++;
	}
	*ret = out;
	return 0;
}

/* Part of its DWARF is in another file, which libdw would go and open by the path that this one names. */
static bool is_split(Elf *elf)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	size_t names = 0;

	if (elf_getshdrstrndx(elf, &names))
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name = gelf_getshdr(scn, &shdr) ? elf_strptr(elf, names, shdr.sh_name) : NULL;

		if (name && !strcmp(name, ".gnu_debugaltlink"))
			return true;
	}
	return false;
}

int struct_layout_read(int fd, const char *name, const char *const fields[], size_t n, struct struct_layout *ret)
{
	int rc = -ENODATA;
	struct stat st;

	if (n > STRUCT_FIELDS_MAX)
		return -E2BIG;
	if (fstat(fd, &st) || elf_fd_sparse(fd, &st))
		return -EFBIG;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);

	if (!elf)
		return -EBADMSG;
	Dwarf *dw = elf_kind(elf) == ELF_K_ELF && !is_split(elf) ? dwarf_begin_elf(elf, DWARF_C_READ, NULL) : NULL;

	if (dw)
		rc = read_dwarf(dw, name, fields, n, ret);
	dwarf_end(dw);
	elf_end(elf);
	return rc;
}

/* Argument in the worker: the struct's name and then the fields' names, each with its zero byte. */
static int op_layout(struct reader_job *job)
{
	const char *p = job->arg, *end = p + job->arg_len, *name = p;
	const char *fields[STRUCT_FIELDS_MAX];
	size_t n = 0;

	for (p += strlen(p) + 1; p < end && n < STRUCT_FIELDS_MAX; p += strlen(p) + 1)
		fields[n++] = p;
	job->out_len = sizeof(struct struct_layout);
	return struct_layout_read(job->fds[0], name, fields, n, (struct struct_layout *)job->out);
}

int struct_layout_fetch(struct reader *r, int fd, const char *name, const char *const fields[], size_t n,
			unsigned deadline_ms, struct struct_layout *ret)
{
	char arg[4096];
	size_t used = 0, got = 0;
	struct struct_layout out;

	if (n > STRUCT_FIELDS_MAX)
		return -E2BIG;
	for (size_t i = 0; i <= n; i++) {
		const char *s = i ? fields[i - 1] : name;
		size_t len = strlen(s) + 1;

		if (len > sizeof(arg) - used)
			return -E2BIG;
		memcpy(arg + used, s, len);
		used += len;
	}
	int rc = parser_run(r, 0, op_layout, arg, used, &fd, 1, deadline_ms, &out, sizeof(out), &got);

	if (rc)
		return rc;
	if (got != sizeof(out) || out.n != n)
		return -EPROTO;
	*ret = out;
	return 0;
}
