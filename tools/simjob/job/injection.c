// SPDX-License-Identifier: Apache-2.0
/*
 * See injection.h. A fault says which keys it takes, and the words where the value is one; whatever it does not take is
 * an error, not ignored.
 */
#include "tools/simjob/job/injection.h"

#include "tools/simjob/job/random.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int refuse(struct reason *reason, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(reason->text, reason->size, format, args);
	va_end(args);
	return -EINVAL;
}

/* A key with a number: where it is stored, and what it may be. */
struct number_key {
	const char *name;
	enum fault_key key;
	size_t offset;
	double min, max;
	bool is_whole; /* the member is an int, else a double */
};

#define WHOLE(NAME, KEY, MEMBER, MAX) \
	{ \
		NAME, KEY, offsetof(struct injection, MEMBER), 0, MAX, true \
	}
#define REAL(NAME, KEY, MEMBER, MAX) \
	{ \
		NAME, KEY, offsetof(struct injection, MEMBER), 0, MAX, false \
	}

static const struct number_key number_keys[] = {
	WHOLE("rank", KEY_RANK, rank, 1e9),
	WHOLE("step", KEY_STEP, step, 1e9),
	WHOLE("until", KEY_UNTIL, until_step, 1e9),
	WHOLE("op", KEY_OP, op, 1e9),
	WHOLE("wait", KEY_WAIT, wait, 1),
	WHOLE("n", KEY_N, n, 64),
	REAL("sec", KEY_SEC, duration_s, FAULT_FOREVER),
	REAL("rate", KEY_RATE, rate, 1),
	REAL("ms", KEY_MS, ms, 60000),
	REAL("percent", KEY_PERCENT, percent, 1e6),
};

static int number_set(struct injection *injection, const struct number_key *key, const char *text)
{
	char *end, *member = (char *)injection + key->offset;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= key->min && value <= key->max))
		return -EINVAL;
	if (key->is_whole && value != (int)value)
		return -EINVAL;
	if (key->is_whole)
		*(int *)member = value;
	else
		*(double *)member = value; /* lint: is_whole says which of both it is */
	return 0;
}

static const struct number_key *number_key_find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(number_keys) / sizeof(number_keys[0]); i++) {
		if (!strcmp(name, number_keys[i].name))
			return &number_keys[i];
	}
	return NULL;
}

/* A key with a word: the fault's choice of words, and where the index of the chosen one is stored. */
struct word_key {
	const char *name;
	enum fault_key key;
	size_t words_offset, member_offset;
};

#define WORD(NAME, KEY, MEMBER) \
	{ \
		NAME, KEY, offsetof(struct fault, MEMBER), offsetof(struct injection, MEMBER) \
	}

static const struct word_key word_keys[] = {
	WORD("what", KEY_WHAT, what),
	WORD("how", KEY_HOW, how),
	WORD("host", KEY_HOST, host),
};
#define NR_WORD_KEYS (sizeof(word_keys) / sizeof(word_keys[0]))

static const char *const *words_of(const struct fault *fault, const struct word_key *key)
{
	return *(const char *const *const *)((const char *)fault + key->words_offset);
}

static const struct word_key *word_key_find(const char *name)
{
	size_t i;

	for (i = 0; i < NR_WORD_KEYS; i++) {
		if (!strcmp(name, word_keys[i].name))
			return &word_keys[i];
	}
	return NULL;
}

static int word_set(struct injection *injection, const struct word_key *key, const char *text)
{
	const char *const *words = words_of(injection->fault, key);
	int i;

	for (i = 0; words[i]; i++) {
		if (!strcmp(text, words[i])) {
			*(int *)((char *)injection + key->member_offset) = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int pair_parse(struct injection *injection, char *pair, struct reason *reason)
{
	char *value = strchr(pair, '=');
	const struct number_key *number;
	const struct word_key *word;
	enum fault_key key;
	int err;

	if (value)
		*value++ = '\0';
	word = word_key_find(pair);
	number = number_key_find(pair);
	key = word ? word->key : number ? number->key : 0;
	if (!value || !(injection->fault->keys & key)) /* lint: every injection was given its fault */
		return refuse(reason, "fault %s takes no '%s%s'", injection->name, pair, value ? "=" : "");
	err = number ? number_set(injection, number, value) : word_set(injection, word, value);
	if (err)
		return refuse(reason, "fault %s: %s='%s' is not a value it knows", injection->name, pair, value);
	injection->given |= key;
	return 0;
}

/* "a, b and c" */
static void names_list(char *ret_text, int size)
{
	int i, length = 0;

	for (i = 0; i < nr_fault_rows && length < size; i++) {
		const char *before = i == 0 ? "" : i == nr_fault_rows - 1 ? " and " : ", ";

		length += snprintf(ret_text + length, size - length, "%s%s", before, fault_rows[i].name);
	}
}

static int name_parse(struct injection *injection, const char *name, struct reason *reason)
{
	char names[1024];
	int i;

	for (i = 0; i < nr_fault_rows; i++) {
		const struct fault *fault = fault_rows[i].fault;

		if (strcmp(name, fault_rows[i].name))
			continue;
		injection->name = fault_rows[i].name;
		injection->fault = fault;
		injection->resource = fault->resource;
		injection->nr_restarts = fault->nr_restarts;
		injection->rank = fault->is_of_job ? RANK_ALL : RANK_DRAWN;
		injection->step = fault->is_of_job ? 0 : STEP_DRAWN;
		injection->duration_s = fault->default_s;
		injection->percent = fault->default_percent;
		injection->rate = fault->default_rate;
		return 0;
	}
	names_list(names, sizeof(names));
	return refuse(reason, "no fault '%s'; there are %s", name, names);
}

static void words_print(const char *const *words, char *ret_text, int size)
{
	int i, length = 0;

	for (i = 0; words[i] && length < size; i++)
		length += snprintf(ret_text + length, size - length, "%s%s", i ? "|" : "", words[i]);
}

static int required_check(const struct injection *injection, struct reason *reason)
{
	char words[256];

	/* lint: every injection was given its fault */
	if (!(injection->fault->required & KEY_WHAT & ~injection->given))
		return 0;
	words_print(injection->fault->what, words, sizeof(words));
	return refuse(reason, "fault %s needs what=%s", injection->name, words);
}

int injection_parse(struct injection *ret_injection, int index, const char *spec, struct reason *reason)
{
	struct injection injection = { .index = index, .op = -1, .until_step = 1 << 30, .wait = 1, .n = 4, .ms = 200 };
	char text[256], *rest = text, *name, *pair;
	int err;

	if (snprintf(text, sizeof(text), "%s", spec) >= (int)sizeof(text))
		return refuse(reason, "longer than %zu characters", sizeof(text) - 1);
	name = strsep(&rest, ":");
	err = name_parse(&injection, name, reason);
	while (!err && rest && (pair = strsep(&rest, ",")))
		err = pair_parse(&injection, pair, reason);
	if (!err)
		err = required_check(&injection, reason);
	if (err)
		return err;
	if (injection.fault->complete)
		injection.fault->complete(&injection);
	*ret_injection = injection;
	return 0;
}

int injection_check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	if (injection->rank >= options->nr_ranks)
		return refuse(reason, "rank=%d does not exist; ranks are 0 to %d", injection->rank,
			      options->nr_ranks - 1);
	return injection->fault->check ? injection->fault->check(options, injection, reason) : 0;
}

/* Not among the first steps, where a job is not yet what it is later, nor at the very end. */
static int step_draw(struct random *random, int nr_steps)
{
	int first = nr_steps / 4 > 2 ? nr_steps / 4 : nr_steps > 2 ? 2 : 0;
	int span = nr_steps - nr_steps / 4 - first;

	return first + (int)(random_u64(random) % (span > 0 ? span : 1));
}

/* All is drawn, whether it is open or not: what one key says does not change what is drawn for another. */
void injection_draw(struct injection *injection, uint64_t seed, int nr_ranks, int nr_steps)
{
	struct random random = { .state = seed ^ (0x5eedULL + injection->index) << 32 };
	int rank, step;

	random_u64(&random);
	rank = random_u64(&random) % nr_ranks;
	step = step_draw(&random, nr_steps);
	injection->draw = random_u64(&random);
	if (injection->rank == RANK_DRAWN)
		injection->rank = rank;
	if (injection->step == STEP_DRAWN)
		injection->step = step;
}

void injection_print_plan(const struct injection *injection)
{
	char rank[16], op[20] = "";

	snprintf(rank, sizeof(rank), injection->rank < 0 ? "all" : "%d", injection->rank);
	if (injection->fault->keys & KEY_OP)
		snprintf(op, sizeof(op), injection->op < 0 ? " op=drawn" : " op=%d", injection->op);
	fprintf(stderr, "simjob: planned fault %s rank=%s step=%d%s\n", injection->name, rank, injection->step, op);
}

void fault_keys_print(const struct fault *fault, char *ret_text, int size)
{
	char words[256];
	int length = 0;
	size_t i;

	for (i = 0; i < sizeof(number_keys) / sizeof(number_keys[0]); i++) {
		if ((fault->keys & number_keys[i].key) && length < size)
			length += snprintf(ret_text + length, size - length, "%s%s", length ? ", " : "",
					   number_keys[i].name);
	}
	for (i = 0; i < NR_WORD_KEYS; i++) {
		if (!(fault->keys & word_keys[i].key) || length >= size)
			continue;
		words_print(words_of(fault, &word_keys[i]), words, sizeof(words));
		length += snprintf(ret_text + length, size - length, "%s%s=%s", length ? ", " : "", word_keys[i].name,
				   words);
	}
}
