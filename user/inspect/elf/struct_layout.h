/* SPDX-License-Identifier: Apache-2.0
 *
 * struct_layout.h - where the members of a C or C++ struct lie, from the DWARF of the mapped file. No debuglink, no
 * split DWARF. What it says must still be checked against live memory before use.
 */
#ifndef RANKTRACE_TARGET_STRUCT_LAYOUT_H
#define RANKTRACE_TARGET_STRUCT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STRUCT_FIELDS_MAX 64

struct reader;

struct field_layout {
	bool found;
	uint32_t offset; /* bytes from the start of the struct */
	uint32_t size;   /* bytes of the whole member, 0 unknown */
	uint32_t count;  /* elements when it is an array of known bounds (all dimensions multiplied), else 1 */
};

struct struct_layout {
	uint32_t size; /* bytes of the struct */
	uint32_t n;    /* fields asked for */
	uint32_t n_found;
	struct field_layout fields[STRUCT_FIELDS_MAX];
};

/*
 * Reads the first complete definition of struct, class or union `name` at file scope. A field may be a path through
 * members that are structs themselves: "proxyState.version"; members of base classes and anonymous unions count as
 * the struct's own. fd is borrowed. -ENODATA no DWARF, -ENOENT no such struct, -E2BIG, -EBADMSG damaged, -ETIME gave
 * up (too large). A field that is not there is no error.
 */
int struct_layout_read(int fd, const char *name, const char *const fields[], size_t n, struct struct_layout *ret);

/* The same in the helper process. Also errors of reader_run(). A deadline of 2000 ms suits a cold page cache. */
int struct_layout_fetch(struct reader *r, int fd, const char *name, const char *const fields[], size_t n,
			unsigned deadline_ms, struct struct_layout *ret);

#endif
