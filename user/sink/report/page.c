/* SPDX-License-Identifier: Apache-2.0
 *
 * page.c - the page around a report's data. HTML, style and script are files of page/ (the assembler reads what
 * the Makefile joined); nothing is inserted but the data, as one JSON text in which no '<' is left, so that nothing in
 * it can end its element. The page may load nothing and run no script but its own, which it names by its hash.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/write_whole.h"
#include "gen_report.h"
#include "sink/report/report.h"

/* Hidden: a reference by way of the table of addresses, for which lld 14 wants their alignment on arm64, is none. */
#define HIDDEN __attribute__((visibility("hidden")))
#define FILE_OF(name, path) \
	__asm__(".section .rodata\n" #name "_begin:\n" \
		".incbin \"" path "\"\n" #name "_end:\n" \
		".previous\n"); \
	extern const char name##_begin[] HIDDEN, name##_end[] HIDDEN

FILE_OF(report_page, "user/sink/report/page/page.html");
FILE_OF(report_style, "user/sink/report/page/style.css");
FILE_OF(report_script, REPORT_SCRIPT);

struct piece {
	const char *mark; /* in the page, where `text` goes */
	const char *text;
	size_t len;
};

static int page_put(int fd, const char *at, const char *end, const struct piece *pieces, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *mark = memmem(at, (size_t)(end - at), pieces[i].mark, strlen(pieces[i].mark));
		int err = mark ? write_whole(fd, at, (size_t)(mark - at)) : -EINVAL;

		if (!err)
			err = write_whole(fd, pieces[i].text, pieces[i].len);
		if (err)
			return err;
		at = mark + strlen(pieces[i].mark);
	}
	return write_whole(fd, at, (size_t)(end - at));
}

/* In JSON a '<' stands in strings only, where its escape is the same. */
static char *escaped(const char *json)
{
	size_t n = 0, len = strlen(json);
	char *to, *text;

	for (const char *c = json; *c; c++)
		n += *c == '<';
	text = to = malloc(len + 5 * n + 1);
	for (const char *c = json; text && *c; c++) {
		if (*c == '<') {
			memcpy(to, "\\u003c", 6);
			to += 6;
		} else {
			*to++ = *c;
		}
	}
	if (text)
		*to = '\0';
	return text;
}

int report_write(int fd, const char *json)
{
	char *data = escaped(json);
	const struct piece pieces[] = {
		{ "@HASH@", REPORT_SCRIPT_SHA256, strlen(REPORT_SCRIPT_SHA256) },
		{ "@STYLE@", report_style_begin,
		  (size_t)(report_style_end - report_style_begin) }, /* lint: both ends of one file */
		{ "@DATA@", data, data ? strlen(data) : 0 },
		{ "@SCRIPT@", report_script_begin,
		  (size_t)(report_script_end - report_script_begin) }, /* lint: both ends of one file */
	};
	int err = data ? page_put(fd, report_page_begin, report_page_end, pieces, sizeof(pieces) / sizeof(pieces[0]))
		       : -ENOMEM;

	free(data);
	return err;
}
