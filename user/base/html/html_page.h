/* SPDX-License-Identifier: Apache-2.0
 *
 * html_page.h - a page of one file around data: HTML, style and script as files of the source (the assembler reads
 * what the Makefile joined); nothing is inserted but the data, as one JSON text in which no '<' is left, so that
 * nothing in it can end its element. The page may load nothing and run no script but its own, which it names by its
 * hash.
 */
#ifndef RANKTRACE_BASE_HTML_PAGE_H
#define RANKTRACE_BASE_HTML_PAGE_H

#include <stddef.h>

/* Defines `name`: the contents of a file, by struct html_text. Hidden: a reference by way of the table of addresses,
 * for which lld 14 wants their alignment on arm64, is none. */
#define HTML_FILE_OF(name, path) \
	__asm__(".section .rodata\n" #name "_begin:\n" \
		".incbin \"" path "\"\n" #name "_end:\n" \
		".previous\n"); \
	extern const char name##_begin[] __attribute__((visibility("hidden"))), \
		name##_end[] __attribute__((visibility("hidden")))

struct html_page {
	const char *page, *page_end;   /* with the marks @HASH@, @STYLE@, @DATA@, @SCRIPT@, once each, in this order */
	const char *style, *style_end; /* what all pages have */
	const char *more, *more_end;   /* this page's own style; NULL: none */
	const char *script, *script_end;
	const char *hash; /* "sha256-..." of the script */
};

/* 0, -ENOMEM, -errno of writing. */
int html_page_write(int fd, const struct html_page *of, const char *json);

#endif
