/* SPDX-License-Identifier: Apache-2.0
 *
 * library.h - a library of NVIDIA's, opened at run time: its symbols are rows of a table, each required or not, and
 * what is missing is said by name.
 */
#ifndef STRESS_LIBRARY_H
#define STRESS_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct library_symbol {
	const char *name;
	size_t at; /* of the pointer, in the struct of functions */
	bool required;
};

#define LIBRARY_WHY 512

/* Opens the first of `names` (ends with NULL) that there is and fills `functions`. 0, -ENOENT: none can be opened,
 * -ENOSYS: one lacks a required symbol; `why` then has object and cause. */
int library_open(const char *const *names, const struct library_symbol *symbols, size_t n, void *functions,
		 char why[LIBRARY_WHY]);

#endif
