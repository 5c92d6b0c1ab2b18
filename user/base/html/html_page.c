/* SPDX-License-Identifier: Apache-2.0
 *
 * html_page.c - see html_page.h.
 */
#include "base/html/html_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/write_whole.h"

struct piece {
	const char *mark; /* in the page, where `text` goes; "": right behind the piece before */
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

int html_page_write(int fd, const struct html_page *of, const char *json)
{
	char *data = escaped(json);
	const struct piece pieces[] = {
		{ "@HASH@", of->hash, strlen(of->hash) },
		{ "@STYLE@", of->style, (size_t)(of->style_end - of->style) },
		{ "", of->more, of->more ? (size_t)(of->more_end - of->more) : 0 },
		{ "@DATA@", data, data ? strlen(data) : 0 },
		{ "@SCRIPT@", of->script, (size_t)(of->script_end - of->script) },
	};
	int err = data ? page_put(fd, of->page, of->page_end, pieces, sizeof(pieces) / sizeof(pieces[0])) : -ENOMEM;

	free(data);
	return err;
}
