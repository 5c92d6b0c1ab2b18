/* SPDX-License-Identifier: Apache-2.0
 *
 * config_file.c - see config_file.h. A line that is wrong is reported with what it takes to mend it: file, line, key,
 * what is allowed there.
 */
#include "session/config/config_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 4096
#define WORD_MAX 32 /* of a key, when the nearest one is looked for */

struct kept_value {
	struct kept_value *next;
	char text[];
};

struct config {
	struct session_args *args;
	const struct config_keys *keys;
	char what[1024];
};

/* NULL without memory. */
static const char *value_keep(struct session_args *a, const char *text)
{
	size_t size = strlen(text) + 1;
	struct kept_value *v = malloc(sizeof(*v) + size);

	if (!v)
		return NULL;
	memcpy(v->text, text, size);
	v->next = a->values;
	a->values = v;
	return v->text;
}

void config_values_free(struct session_args *a)
{
	struct kept_value *v;

	while ((v = a->values)) {
		a->values = v->next;
		free(v);
	}
}

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (isspace((unsigned char)*text))
		text++;
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = 0;
	return text;
}

/* --- a key that is none --- */

static size_t least(size_t a, size_t b, size_t c)
{
	size_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* By how many letters two words differ (Levenshtein, 1966), of their first WORD_MAX. */
static size_t words_apart(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1], n = strnlen(b, WORD_MAX);

	for (size_t k = 0; k <= n; k++)
		row[k] = k;
	for (size_t i = 0; i < WORD_MAX && a[i]; i++) {
		size_t before = row[0];

		row[0] = i + 1;
		for (size_t k = 1; k <= n; k++) {
			size_t old = row[k];

			row[k] = least(old + 1, row[k - 1] + 1, before + (a[i] != b[k - 1]));
			before = old;
		}
	}
	return row[n];
}

static size_t names_all(const struct config *c, const char **to)
{
	size_t n = session_args_names(to, CONFIG_NAMES_MAX);

	for (size_t i = 0; c->keys && i < c->keys->n_names && n < CONFIG_NAMES_MAX; i++)
		to[n++] = c->keys->names[i];
	return n;
}

/* "'hang-limt' is not a setting: hang-limit is; the others are pid, job, ..." */
static void unknown_put(struct config *c, const char *name)
{
	const char *names[CONFIG_NAMES_MAX], *nearest = NULL;
	size_t n = names_all(c, names), apart = 3; /* more letters are another word */
	int at;

	for (size_t i = 0; i < n; i++)
		if (words_apart(name, names[i]) < apart) {
			nearest = names[i];
			apart = words_apart(name, nearest);
		}
	at = snprintf(c->what, sizeof(c->what), "'%.80s' is not a setting", name);
	if (nearest)
		at += snprintf(c->what + at, sizeof(c->what) - at, " (did you mean %s?)", nearest);
	at += snprintf(c->what + at, sizeof(c->what) - at, "; settings are");
	for (size_t i = 0; i < n && at < (int)sizeof(c->what); i++)
		at += snprintf(c->what + at, sizeof(c->what) - at, "%s %s", i ? "," : "", names[i]);
}

/* --- lines --- */

/* "hang-limit: 'soon' is not a number of seconds above 0" */
static void key_put(struct config *c, const char *name)
{
	char what[sizeof(c->what)];

	memcpy(what, c->what, sizeof(what));
	snprintf(c->what, sizeof(c->what), "%.40s: %.900s", name, what);
}

/* An error message goes to c->what. */
static int line_take(struct config *c, char *line)
{
	const char *value;
	char *equals, *name;
	int err = -ENOENT;

	line[strcspn(line, "#\n")] = 0;
	name = trim(line);
	if (!*name)
		return 0;
	equals = strchr(name, '=');
	if (!equals) {
		snprintf(c->what, sizeof(c->what), "'%.80s' is not 'key = value'", name);
		return -EINVAL;
	}
	*equals = 0;
	name = trim(name);
	value = value_keep(c->args, trim(equals + 1));
	if (!value)
		return -ENOMEM;
	if (c->keys)
		err = c->keys->set(c->keys->of, name, value, c->what, sizeof(c->what));
	if (err == -ENOENT)
		err = session_args_set(c->args, name, value, c->what, sizeof(c->what));
	if (err == -EINVAL)
		key_put(c, name);
	if (err == -ENOENT)
		unknown_put(c, name);
	return err;
}

/* A line that is cut would be read as two. */
static int line_read(struct config *c, FILE *f, char *line)
{
	size_t len = strlen(line);

	if (len == LINE_MAX_BYTES - 1 && line[len - 1] != '\n') {
		for (int ch = 0; ch != '\n' && ch != EOF;)
			ch = fgetc(f);
		snprintf(c->what, sizeof(c->what), "a line of more than %d bytes; shorten it", LINE_MAX_BYTES - 2);
		return -EINVAL;
	}
	return line_take(c, line);
}

/* The last error; each is reported to keys->wrong. */
static int lines_read(struct config *c, FILE *f, const char *path, char *error, size_t size)
{
	bool goes_on = c->keys && c->keys->wrong;
	char line[LINE_MAX_BYTES];
	int last = 0;

	for (int n = 1; (!last || goes_on) && fgets(line, sizeof(line), f); n++) {
		int err;

		snprintf(c->what, sizeof(c->what), "out of memory");
		err = line_read(c, f, line);
		if (!err)
			continue;
		last = err;
		snprintf(error, size, "%s:%d: %s", path, n, c->what);
		if (goes_on)
			c->keys->wrong(c->keys->of, error);
	}
	return last;
}

/* A folder opens, and cannot be read. */
static int open_read(struct config *c, const char *path, char *error, size_t size)
{
	FILE *f = fopen(path, "re");
	int err;

	if (!f)
		return -errno; /* lint: without a file there is nothing to close */
	err = lines_read(c, f, path, error, size);
	if (ferror(f)) {
		*error = 0;
		err = errno ? -errno : -EIO;
	}
	fclose(f);
	return err;
}

int config_file_read(struct session_args *a, const char *path, const struct config_keys *keys, char *error, size_t size)
{
	struct config c = { .args = a, .keys = keys };
	int err;

	*error = 0;
	err = open_read(&c, path, error, size);
	if (!err || *error)
		return err;
	snprintf(error, size, "%s: %s; give a readable file of 'key = value' lines", path, strerror(-err));
	if (keys && keys->wrong)
		keys->wrong(keys->of, error);
	return err;
}
