/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.c - one pass over a private copy of the text; paths are cut and unescaped in place.
 */
#include "inspect/reader/maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A hexadecimal or decimal number of 1..16 (20) digits that must end with `stop`. Moves *s behind it. */
static bool take_number(char **s, int base, char stop, uint64_t *ret)
{
	uint64_t v = 0;
	char *p = *s;

	for (; *p && *p != stop; p++) {
		int d = *p >= '0' && *p <= '9' ? *p - '0' : base == 16 && *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;

		if (d < 0 || v > (UINT64_MAX - d) / base)
			return false;
		v = v * base + d;
	}
	if (p == *s || *p != stop)
		return false;
	*s = *p ? p + 1 : p;
	*ret = v;
	return true;
}

static bool take_prot(char **s, struct mapping *m)
{
	const char *p = *s;

	if (strnlen(p, 5) < 5 || p[4] != ' ' || (p[3] != 'p' && p[3] != 's'))
		return false;
	m->prot =
		(p[0] == 'r' ? MAPPING_READ : 0) | (p[1] == 'w' ? MAPPING_WRITE : 0) | (p[2] == 'x' ? MAPPING_EXEC : 0);
	m->shared = p[3] == 's';
	*s += 5;
	return true;
}

/* The kernel writes a newline in a path as \012. */
static void unescape(char *path)
{
	char *to = path;

	for (const char *p = path; *p; p++)
		if (!strncmp(p, "\\012", 4)) {
			*to++ = '\n';
			p += 3;
		} else {
			*to++ = *p;
		}
	*to = '\0';
}

static void take_path(char *s, struct mapping *m)
{
	static const char gone[] = " (deleted)";

	while (*s == ' ')
		s++;
	unescape(s);
	size_t len = strlen(s), cut = sizeof(gone) - 1;

	if (m->inode && len > cut && !strcmp(s + len - cut, gone)) {
		s[len - cut] = '\0';
		m->deleted = true;
	}
	m->path = s;
}

static bool take_inode(char **s, uint64_t *ret)
{
	/* Followed by blanks and a path, or by nothing at all. */
	char *end = *s + strspn(*s, "0123456789");
	char kept = *end;

	if (kept && kept != ' ')
		return false;
	*end = '\0';
	bool ok = take_number(s, 10, '\0', ret);

	*end = kept;
	*s = end;
	return ok;
}

static bool parse_line(char *line, struct mapping *m)
{
	uint64_t major, minor;

	*m = (struct mapping){ 0 };
	if (!take_number(&line, 16, '-', &m->start) || !take_number(&line, 16, ' ', &m->end) || m->start >= m->end)
		return false;
	if (!take_prot(&line, m) || !take_number(&line, 16, ' ', &m->offset))
		return false;
	if (!take_number(&line, 16, ':', &major) || !take_number(&line, 16, ' ', &minor) ||
	    !take_inode(&line, &m->inode))
		return false;
	if (major > UINT32_MAX || minor > UINT32_MAX || m->offset > UINT64_MAX - (m->end - m->start))
		return false;
	m->dev_major = major;
	m->dev_minor = minor;
	take_path(line, m);
	return true;
}

static int grow(struct maps *m, size_t *room)
{
	if (m->n < *room)
		return 0;
	if (m->n >= MAPS_ROWS_MAX)
		return -E2BIG;
	size_t want = *room ? *room * 2 : 64;
	struct mapping *rows = realloc(m->rows, want * sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	m->rows = rows;
	*room = want;
	return 0;
}

static int parse_all(struct maps *m)
{
	size_t room = 0;

	for (char *line = m->text, *next; *line; line = next) {
		size_t len = strcspn(line, "\n");

		next = line + len + (line[len] == '\n');
		line[len] = '\0';
		int rc = grow(m, &room);

		if (rc)
			return rc;
		if (!parse_line(line, &m->rows[m->n]))
			return -EBADMSG;
		if (m->n && m->rows[m->n].start < m->rows[m->n - 1].end)
			m->n_dropped++;
		else
			m->n++;
	}
	return 0;
}

int maps_parse(const char *text, size_t len, struct maps *ret)
{
	struct maps m = { .text = malloc(len + 1) };

	if (!m.text)
		return -ENOMEM;
	memcpy(m.text, text, len);
	m.text[len] = '\0';
	int rc = strlen(m.text) == len ? parse_all(&m) : -EBADMSG;

	if (rc)
		maps_free(&m);
	else
		*ret = m;
	return rc;
}

void maps_free(struct maps *m)
{
	free(m->rows);
	free(m->text);
	*m = (struct maps){ 0 };
}

const struct mapping *maps_find(const struct maps *m, uint64_t addr)
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (addr >= m->rows[mid].end)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < m->n && addr >= m->rows[lo].start ? &m->rows[lo] : NULL;
}
