/* SPDX-License-Identifier: Apache-2.0
 *
 * elf_private.h - the mapped file and its symbol tables, shared by elf_file.c (what is in it), elf_find.c (wanted
 * functions), elf_virtual.c (functions without a name) and elf_usdt.c (static marks).
 */
#ifndef RANKTRACE_ELF_PRIVATE_H
#define RANKTRACE_ELF_PRIVATE_H

#include <elf.h>

#include "inspect/elf/elf_file.h"

struct symtab {
	const Elf64_Sym *rows;
	size_t n;
	const char *names;
	size_t names_len;           /* names[names_len - 1] is a zero byte */
	bool dynamic;               /* .dynsym: what others may call */
	const Elf64_Half *versions; /* of .dynsym: one a row; NULL none */
};

struct elf_file {
	const uint8_t *map;
	size_t size;
	struct elf_facts facts;
	struct symtab tabs[2]; /* .dynsym, .symtab */
	int n_tabs;
};

/* A named function defined here, its place in the file, or NULL. */
const char *elf_function_name(const struct elf_file *f, const struct symtab *t, const Elf64_Sym *s,
			      uint64_t *ret_offset);
/* Of an address in the file's text. */
bool elf_vaddr_to_offset(const struct elf_facts *facts, uint64_t vaddr, uint64_t *ret);
/* The address of the virtual function in this slot of a class, by its type's name as the compiler writes it; 0: not
 * there, or not for sure. */
uint64_t elf_virtual_find(const struct elf_file *f, const char *type, size_t type_len, unsigned slot);
/* A static mark, "provider:name": false, it is not there, in more than one place, or not as it should be. */
bool elf_usdt_find(const struct elf_file *f, const char *name, struct elf_symbol *ret);

#endif
