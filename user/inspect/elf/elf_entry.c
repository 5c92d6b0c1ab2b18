/* SPDX-License-Identifier: Apache-2.0
 *
 * elf_entry.c - does a function begin at an offset of a file? A target's pointer says so; a probe that lands inside an
 * instruction kills the process that runs it. Believed are the file's symbols and its unwind table, which has a row for
 * each function, also for those without a name. Only where the file has neither, the bytes decide.
 */
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/elf/elf_file.h"

struct unwind_head { /* of .eh_frame_hdr, as every linker writes it */
	uint8_t version, frame_enc, count_enc, table_enc;
	int32_t frame;
	uint32_t n;
};

struct unwind_row { /* relative to the section's begin; sorted by `begin` */
	int32_t begin, frame;
};

/* NULL: no such table, in another encoding, or at an address that no linker gives it. */
static const struct unwind_row *unwind_rows(const struct elf_file *f, uint32_t *ret_n)
{
	const struct elf_text *at = &elf_file_facts(f)->unwind;
	bool fits = at->size >= sizeof(struct unwind_head) && !(at->offset % _Alignof(struct unwind_head));
	const struct unwind_head *h = fits ? elf_file_bytes(f, at->offset, sizeof(*h)) : NULL;

	if (!h || h->version != 1 || (h->frame_enc & 0x0f) != DW_EH_PE_sdata4 || h->count_enc != DW_EH_PE_udata4 ||
	    h->table_enc != (DW_EH_PE_datarel | DW_EH_PE_sdata4) || !h->n ||
	    h->n > (at->size - sizeof(*h)) / sizeof(struct unwind_row))
		return NULL;
	*ret_n = h->n;
	return elf_file_bytes(f, at->offset + sizeof(*h), h->n * sizeof(struct unwind_row));
}

static bool begins_in_table(const struct unwind_row *rows, uint32_t n, uint64_t table, uint64_t vaddr)
{
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if ((int64_t)(table + rows[mid].begin) < (int64_t)vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && table + rows[low].begin == vaddr;
}

/* What compilers begin a function with. */
static bool bytes_begin(const uint8_t *b, uint64_t offset)
{
#if defined(__x86_64__)
	static const struct {
		uint8_t len, bytes[4];
	} heads[] = {
		{ 4, { 0xf3, 0x0f, 0x1e, 0xfa } } /* endbr64 */,
		{ 3, { 0x48, 0x83, 0xec } } /* sub $, %rsp */,
		{ 3, { 0x48, 0x81, 0xec } },
	};

	(void)offset;
	if ((b[0] & 0xf8) == 0x50 || (b[0] == 0x41 && (b[1] & 0xf8) == 0x50)) /* push */
		return true;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (!memcmp(b, heads[i].bytes, heads[i].len))
			return true;
	return false;
#else
	/* stp ..., [sp, #-n]!; sub sp, sp; hints: bti, paciasp */
	return !(offset % 4) && (b[3] == 0xa9 || b[3] == 0xd1 || (b[3] == 0xd5 && b[2] == 0x03));
#endif
}

static bool offset_to_vaddr(const struct elf_facts *facts, uint64_t offset, uint64_t *ret)
{
	for (uint32_t i = 0; i < facts->n_text; i++) {
		const struct elf_text *t = &facts->text[i];

		if (offset < t->offset || offset - t->offset >= t->size)
			continue;
		*ret = offset - t->offset + t->vaddr;
		return true;
	}
	return false;
}

int elf_file_entries(const struct elf_file *f, const uint64_t offsets[], size_t n, bool ret[])
{
	const struct elf_facts *facts = elf_file_facts(f);
	struct elf_name *names = calloc(n ? n : 1, sizeof(*names));
	uint32_t n_rows = 0;
	const struct unwind_row *rows = unwind_rows(f, &n_rows);
	int rc = names ? elf_file_name(f, offsets, n, names) : -ENOMEM;

	for (size_t i = 0; rc >= 0 && i < n; i++) {
		const uint8_t *b = elf_file_bytes(f, offsets[i], 4);
		uint64_t vaddr = 0;
		bool in_text = offset_to_vaddr(facts, offsets[i], &vaddr) && b, named = names[i].name[0];

		ret[i] = in_text && named && !names[i].delta;
		if (in_text && rows)
			ret[i] |= begins_in_table(rows, n_rows, facts->unwind.vaddr, vaddr);
		else if (in_text && !named)
			ret[i] = bytes_begin(b, offsets[i]);
	}
	free(names);
	return rc < 0 ? rc : 0;
}
