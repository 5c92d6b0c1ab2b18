/* SPDX-License-Identifier: Apache-2.0
 *
 * options.c - see options.h.
 */
#include "tools/stress/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/numbers.h"

#define TEXT_MAX 256
#define SIZE_BITS_MAX 64
#define TIME_MAX_S (366 * 86400.0)

/* Calls take(word, to) for each word between commas; stops at the first error. */
static int words_each(const char *text, int (*take)(char *word, void *to), void *to)
{
	char copy[TEXT_MAX], *rest = copy, *word;
	int err = strlen(text) < sizeof(copy) && *text ? 0 : -EINVAL;

	snprintf(copy, sizeof(copy), "%s", text);
	while (!err && (word = strsep(&rest, ",")))
		err = take(word, to);
	return err;
}

static int number_take(const char *text, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*value = strtoull(text, &end, 0);
	return *end || errno ? -EINVAL : 0;
}

static int inject_word(char *word, void *to)
{
	struct inject *inject = to;
	char *value = strchr(word, '=');
	uint64_t n;

	if (!strcmp(word, "always")) {
		inject->always = true;
		return 0;
	}
	if (!value || number_take(value + 1, &n))
		return -EINVAL;
	*value = 0;
	if (!strcmp(word, "at")) {
		inject->at = n;
		return 0;
	}
	if (n > UINT32_MAX)
		return -EINVAL;
	if (!strcmp(word, "gpu") && n < STRESS_GPUS_MAX)
		inject->gpu = n;
	else if (!strcmp(word, "to") && n < STRESS_GPUS_MAX)
		inject->to = n;
	else if (!strcmp(word, "row"))
		inject->row = n;
	else if (!strcmp(word, "col"))
		inject->column = n;
	else if (!strcmp(word, "bit") && n < SIZE_BITS_MAX)
		inject->bit = n;
	else
		return -EINVAL;
	return 0;
}

int inject_parse(const char *text, struct inject *inject)
{
	*inject = (struct inject){ .kind = INJECT_NONE };
	if (!strncmp(text, "flip:", 5))
		inject->kind = INJECT_FLIP;
	else if (!strncmp(text, "mem:", 4))
		inject->kind = INJECT_MEMORY;
	else if (!strncmp(text, "nopeer:", 7))
		inject->kind = INJECT_NO_PEER;
	else
		return -EINVAL;
	return words_each(strchr(text, ':') + 1, inject_word, inject);
}

int time_parse(const char *text, uint64_t *ns)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || !(s > 0))
		return -EINVAL;
	s *= *end == 'm' ? 60 : *end == 'h' ? 3600 : *end == 'd' ? 86400 : 1;
	if (*end && (!strchr("smhd", *end) || end[1]))
		return -EINVAL;
	if (s > TIME_MAX_S)
		return -EINVAL;
	*ns = (uint64_t)(s * 1e9);
	return 0;
}

static int gpu_word(char *word, void *to)
{
	uint64_t *bits = to, first, last;
	char *dash = strchr(word, '-');

	if (dash)
		*dash = 0;
	if (number_take(word, &first))
		return -EINVAL;
	last = first;
	if (dash && number_take(dash + 1, &last))
		return -EINVAL;
	if (last >= STRESS_GPUS_MAX || first > last)
		return -EINVAL;
	for (uint64_t i = first; i <= last; i++)
		*bits |= 1ull << i;
	return 0;
}

int gpus_parse(const char *text, uint64_t *bits)
{
	*bits = 0;
	return words_each(text, gpu_word, bits);
}

static int measure_word(char *word, void *to)
{
	int measure = measure_find(word);

	if (!strcmp(word, "all"))
		*(uint32_t *)to = (1u << N_MEASURES) - 1;
	else if (measure >= 0)
		*(uint32_t *)to |= 1u << measure;
	else
		return -EINVAL;
	return 0;
}

int measures_parse(const char *text, uint32_t *bits)
{
	*bits = 0;
	return words_each(text, measure_word, bits);
}
