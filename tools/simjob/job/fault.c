// SPDX-License-Identifier: Apache-2.0
/*
 * Reading fault specifications, NAME:key=value,..., and drawing what they leave open. The table says which keys a
 * fault takes, and the words where the value is one; whatever it does not take is an error, not ignored.
 */
#include "fault.h"
#include "random.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK_DRAWN -2
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

struct fault_type {
	const char *name;
	unsigned int keys;
	const char *const *what, *const *how, *const *host; /* the first word is the default */
	unsigned int required;                              /* keys that have no default */
	double default_s, default_percent, default_rate;
	int default_rank; /* -1: all */
};

#define PLACE_KEYS (KEY_RANK | KEY_STEP | KEY_OP)

static const struct fault_type fault_types[NR_FAULT_KINDS] = {
	[FAULT_STOP] = { "stop", PLACE_KEYS | KEY_SEC, .default_s = FAULT_FOREVER, .default_rank = RANK_DRAWN },
	[FAULT_HANG] = { "hang", PLACE_KEYS | KEY_SEC, .default_s = FAULT_FOREVER, .default_rank = RANK_DRAWN },
	[FAULT_HANG_BUSY] = { "hang-busy", PLACE_KEYS | KEY_SEC, .default_s = FAULT_FOREVER,
			      .default_rank = RANK_DRAWN },
	[FAULT_KILL] = { "kill", PLACE_KEYS | KEY_HOW, .how = WORDS("kill", "exit", "segv"),
			 .default_rank = RANK_DRAWN },
	[FAULT_MISMATCH] = { "mismatch", PLACE_KEYS | KEY_WHAT, .what = WORDS("count", "dtype"),
			     .default_rank = RANK_DRAWN },
	[FAULT_DEADLOCK] = { "deadlock", KEY_RANK | KEY_STEP | KEY_HOST, .host = WORDS("ahead", "blocked"),
			     .default_rank = RANK_DRAWN },
	[FAULT_P2P] = { "p2p", PLACE_KEYS | KEY_WHAT, .what = WORDS("send", "recv"), .default_rank = RANK_DRAWN },
	[FAULT_INIT] = { "init", KEY_RANK | KEY_STEP | KEY_SEC | KEY_WHAT | KEY_HOW,
			 .what = WORDS("start", "new", "split"), .how = WORDS("sleep", "stop", "busy", "dead"),
			 .default_s = FAULT_FOREVER, .default_rank = RANK_DRAWN },
	[FAULT_INSIDE] = { "inside", PLACE_KEYS, .default_rank = RANK_DRAWN },
	[FAULT_PROXY] = { "proxy", PLACE_KEYS | KEY_HOW | KEY_N, .how = WORDS("stop", "starve", "sigstop"),
			  .default_rank = RANK_DRAWN },
	[FAULT_DSTATE_CHILD] = { "dstate-child", KEY_RANK | KEY_STEP | KEY_SEC | KEY_WAIT, .default_s = 7,
				 .default_rank = RANK_DRAWN },
	[FAULT_DSTATE] = { "dstate", PLACE_KEYS | KEY_SEC, .default_s = 7, .default_rank = RANK_DRAWN },
	[FAULT_DSTATE_MM] = { "dstate-mm", PLACE_KEYS | KEY_SEC, .default_s = 7, .default_rank = RANK_DRAWN },
	[FAULT_SLOW] = { "slow", KEY_RANK | KEY_STEP | KEY_UNTIL | KEY_PERCENT, .default_percent = 50,
			 .default_rank = RANK_DRAWN },
	[FAULT_CPU] = { "cpu", KEY_RANK | KEY_STEP | KEY_UNTIL | KEY_SEC | KEY_HOW | KEY_N | KEY_PERCENT,
			.how = WORDS("hog", "quota"), .default_s = FAULT_FOREVER, .default_percent = 20,
			.default_rank = RANK_DRAWN },
	[FAULT_GC] = { "gc", KEY_STEP | KEY_UNTIL | KEY_RATE, .default_rate = 0.05, .default_rank = -1 },
	[FAULT_IMBALANCE] = { "imbalance", KEY_STEP | KEY_UNTIL | KEY_WHAT | KEY_PERCENT,
			      .what = WORDS("stage", "sequence"), .required = KEY_WHAT, .default_percent = 40,
			      .default_rank = -1 },
	[FAULT_IO] = { "io", KEY_STEP | KEY_UNTIL | KEY_RATE | KEY_MS, .default_rate = 0.7, .default_rank = -1 },
	[FAULT_PHASE] = { "phase", KEY_RANK | KEY_STEP | KEY_SEC | KEY_WHAT,
			  .what = WORDS("eval", "checkpoint", "compile", "warmup", "restart", "rank0log"),
			  .required = KEY_WHAT },
	[FAULT_GPU] = { "gpu", KEY_RANK | KEY_STEP | KEY_SEC | KEY_WHAT,
			.what = WORDS("thermal", "power-brake", "ecc", "rows", "nvlink", "nvlink-down", "pcie", "lost",
				      "silent", "inforom"),
			.required = KEY_WHAT, .default_s = FAULT_FOREVER, .default_rank = RANK_DRAWN },
};

struct phase_type {
	const char *full_name;
	double default_s;
	int default_rank;
};

static const struct phase_type phase_types[NR_PHASE_KINDS] = {
	[PHASE_EVAL] = { "phase-eval", 5, -1 },
	[PHASE_CHECKPOINT] = { "phase-checkpoint", 4, -1 },
	[PHASE_COMPILE] = { "phase-compile", 60, RANK_DRAWN },
	[PHASE_WARMUP] = { "phase-warmup", 4, -1 },
	[PHASE_RESTART] = { "phase-restart", 2, -1 },
	[PHASE_RANK0LOG] = { "phase-rank0log", 0.02, 0 },
};

const char *fault_name(const struct fault *fault)
{
	return fault->kind == FAULT_PHASE ? phase_types[fault->what].full_name : fault_types[fault->kind].name;
}

bool fault_recurs(const struct fault *fault)
{
	return fault->kind == FAULT_GC || fault->kind == FAULT_IO;
}

bool fault_needs_frozen_fs(const struct fault *fault)
{
	return fault->kind == FAULT_DSTATE || fault->kind == FAULT_DSTATE_MM || fault->kind == FAULT_DSTATE_CHILD ||
	       fault->kind == FAULT_IO;
}

bool fault_ends_rank(const struct fault *fault)
{
	return fault->kind == FAULT_KILL || (fault->kind == FAULT_INIT && fault->how == INIT_DEAD);
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
		NAME, KEY, offsetof(struct fault, MEMBER), 0, MAX, true \
	}
#define REAL(NAME, KEY, MEMBER, MAX) \
	{ \
		NAME, KEY, offsetof(struct fault, MEMBER), 0, MAX, false \
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

static int number_set(struct fault *fault, const struct number_key *key, const char *text)
{
	char *end, *member = (char *)fault + key->offset;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= key->min && value <= key->max))
		return -EINVAL;
	if (key->is_whole && value != (int)value)
		return -EINVAL;
	if (key->is_whole)
		*(int *)member = value;
	else
		*(double *)member = value;
	return 0;
}

static int word_set(int *member, const char *const *words, const char *text)
{
	int i;

	for (i = 0; words[i]; i++) {
		if (!strcmp(text, words[i])) {
			*member = i;
			return 0;
		}
	}
	return -EINVAL;
}

/* The words of a key, and where the choice is stored. NULL: its value is a number, or there is no such key. */
static const char *const *key_words(struct fault *fault, const char *name, enum fault_key *ret_key, int **ret_member)
{
	const struct fault_type *type = &fault_types[fault->kind];
	const struct {
		const char *name;
		enum fault_key key;
		const char *const *words;
		int *member;
	} keys[] = {
		{ "what", KEY_WHAT, type->what, &fault->what },
		{ "how", KEY_HOW, type->how, &fault->how },
		{ "host", KEY_HOST, type->host, &fault->host },
	};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(name, keys[i].name))
			continue;
		*ret_key = keys[i].key;
		*ret_member = keys[i].member;
		return keys[i].words;
	}
	return NULL;
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

static int pair_parse(struct fault *fault, char *pair, char *ret_reason, int reason_size)
{
	const struct fault_type *type = &fault_types[fault->kind];
	const struct number_key *number;
	const char *const *words;
	char *value = strchr(pair, '=');
	enum fault_key key = 0;
	int *member = NULL, err;

	if (value)
		*value++ = '\0';
	words = key_words(fault, pair, &key, &member);
	number = words ? NULL : number_key_find(pair);
	if (number)
		key = number->key;
	if (!value || !(type->keys & key)) {
		snprintf(ret_reason, reason_size, "fault %s takes no '%s%s'", type->name, pair, value ? "=" : "");
		return -EINVAL;
	}
	err = number ? number_set(fault, number, value) : word_set(member, words, value);
	if (err)
		snprintf(ret_reason, reason_size, "fault %s: %s='%s' is not a value it knows", type->name, pair, value);
	fault->given |= key;
	return err;
}

/* "a, b and c" */
static void names_list(char *ret_text, int size)
{
	int i, length = 0;

	for (i = 0; i < NR_FAULT_KINDS && length < size; i++)
		length += snprintf(ret_text + length, size - length, "%s%s",
				   i == 0                    ? ""
				   : i == NR_FAULT_KINDS - 1 ? " and "
							     : ", ",
				   fault_types[i].name);
}

static int kind_parse(struct fault *fault, const char *name, char *ret_reason, int reason_size)
{
	char names[256];
	int i;

	for (i = 0; i < NR_FAULT_KINDS; i++) {
		if (!strcmp(name, fault_types[i].name)) {
			fault->kind = i;
			fault->duration_s = fault_types[i].default_s;
			fault->percent = fault_types[i].default_percent;
			fault->rate = fault_types[i].default_rate;
			return 0;
		}
	}
	names_list(names, sizeof(names));
	snprintf(ret_reason, reason_size, "no fault '%s'; there are %s", name, names);
	return -EINVAL;
}

static int required_check(const struct fault *fault, char *ret_reason, int reason_size)
{
	const struct fault_type *type = &fault_types[fault->kind];
	int i, length;

	if (!(type->required & KEY_WHAT & ~fault->given))
		return 0;
	length = snprintf(ret_reason, reason_size, "fault %s needs what=", type->name);
	for (i = 0; type->what[i] && length < reason_size; i++)
		length += snprintf(ret_reason + length, reason_size - length, "%s%s", i ? "|" : "", type->what[i]);
	return -EINVAL;
}

int fault_parse(struct fault *ret_fault, const char *spec, char *ret_reason, int reason_size)
{
	struct fault fault = { .rank = -1, .step = -1, .op = -1, .until_step = 1 << 30, .wait = 1, .n = 4, .ms = 200 };
	char text[256], *rest = text, *name, *pair;
	int err;

	if (snprintf(text, sizeof(text), "%s", spec) >= (int)sizeof(text)) {
		snprintf(ret_reason, reason_size, "longer than %zu characters", sizeof(text) - 1);
		return -EINVAL;
	}
	name = strsep(&rest, ":");
	err = kind_parse(&fault, name, ret_reason, reason_size);
	while (!err && rest && (pair = strsep(&rest, ",")))
		err = pair_parse(&fault, pair, ret_reason, reason_size);
	if (!err)
		err = required_check(&fault, ret_reason, reason_size);
	if (!err)
		*ret_fault = fault;
	return err;
}

static int rank_draw(const struct fault *fault, struct random *random, int nr_ranks)
{
	int drawn = random_u64(random) % nr_ranks;
	int default_rank = fault->kind == FAULT_PHASE ? phase_types[fault->what].default_rank
						      : fault_types[fault->kind].default_rank;

	return default_rank == RANK_DRAWN ? drawn : default_rank;
}

/* Not among the first steps, where a job is not yet what it is later, nor at the very end. */
static int step_draw(const struct fault *fault, struct random *random, int nr_steps)
{
	int first = nr_steps / 4 > 2 ? nr_steps / 4 : nr_steps > 2 ? 2 : 0;
	int span = nr_steps - nr_steps / 4 - first;
	int drawn = first + (int)(random_u64(random) % (span > 0 ? span : 1));

	if (fault->kind == FAULT_PHASE && fault->what == PHASE_WARMUP)
		return 0;
	if (fault->kind == FAULT_INIT && fault->what == INIT_START)
		return 0;
	/* How a job is, not what happens to it. */
	if (fault->kind == FAULT_GC || fault->kind == FAULT_IMBALANCE || fault->kind == FAULT_IO)
		return 0;
	return drawn;
}

void fault_draw(struct fault *fault, int index, uint64_t seed, int nr_ranks, int nr_steps)
{
	struct random random = { .state = seed ^ (0x5eedULL + index) << 32 };
	int rank, step;

	random_u64(&random);
	if (fault->kind == FAULT_INIT && (fault->given & KEY_STEP) && !(fault->given & KEY_WHAT))
		fault->what = INIT_NEW;
	rank = rank_draw(fault, &random, nr_ranks);
	step = step_draw(fault, &random, nr_steps);
	fault->draw = random_u64(&random);
	if (!(fault->given & KEY_RANK))
		fault->rank = rank;
	if (!(fault->given & KEY_STEP))
		fault->step = step;
	if (fault->kind == FAULT_IO)
		fault->duration_s = fault->ms / 1000;
	if (fault->kind == FAULT_PHASE && !(fault->given & KEY_SEC))
		fault->duration_s = phase_types[fault->what].default_s;
}

void fault_print_plan(const struct fault *fault, const char *prefix)
{
	char rank[16], op[20] = "";

	snprintf(rank, sizeof(rank), fault->rank < 0 ? "all" : "%d", fault->rank);
	if (fault_types[fault->kind].keys & KEY_OP)
		snprintf(op, sizeof(op), fault->op < 0 ? " op=drawn" : " op=%d", fault->op);
	fprintf(stderr, "%s: planned fault %s rank=%s step=%d%s\n", prefix, fault_name(fault), rank, fault->step, op);
}
