// SPDX-License-Identifier: Apache-2.0
/*
 * Reading fault specifications, NAME:key=value,..., and drawing what they leave open. The table says which keys a
 * fault takes; a key that it does not take is an error, not ignored.
 */
#include "fault.h"
#include "random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fault_key {
	KEY_RANK = 1 << 0,
	KEY_STEP = 1 << 1,
	KEY_UNTIL = 1 << 2,
	KEY_OP = 1 << 3,
	KEY_SEC = 1 << 4,
	KEY_PERCENT = 1 << 5,
	KEY_WHAT = 1 << 6,
};

struct fault_type {
	const char *name;
	unsigned int keys;
	double default_s;
};

static const struct fault_type fault_types[NR_FAULT_KINDS] = {
    [FAULT_STOP] = {"stop", KEY_RANK | KEY_STEP | KEY_OP | KEY_SEC, FAULT_FOREVER},
    [FAULT_HANG] = {"hang", KEY_RANK | KEY_STEP | KEY_OP | KEY_SEC, FAULT_FOREVER},
    [FAULT_HANG_BUSY] = {"hang-busy", KEY_RANK | KEY_STEP | KEY_OP | KEY_SEC, FAULT_FOREVER},
    [FAULT_MISMATCH] = {"mismatch", KEY_RANK | KEY_STEP | KEY_OP | KEY_WHAT, 0},
    [FAULT_DSTATE] = {"dstate", KEY_RANK | KEY_STEP | KEY_OP | KEY_SEC, 7},
    [FAULT_DSTATE_MM] = {"dstate-mm", KEY_RANK | KEY_STEP | KEY_OP | KEY_SEC, 7},
    [FAULT_SLOW] = {"slow", KEY_RANK | KEY_STEP | KEY_UNTIL | KEY_PERCENT | KEY_SEC, 0},
    [FAULT_PHASE] = {"phase", KEY_RANK | KEY_STEP | KEY_SEC | KEY_WHAT, 0},
};

struct phase_type {
	const char *name, *full_name;
	double default_s;
	int default_rank; /* -1: all; -2: drawn */
};

static const struct phase_type phase_types[NR_PHASE_KINDS] = {
    [PHASE_EVAL] = {"eval", "phase-eval", 5, -1},
    [PHASE_CHECKPOINT] = {"checkpoint", "phase-checkpoint", 4, -1},
    [PHASE_COMPILE] = {"compile", "phase-compile", 60, -2},
    [PHASE_WARMUP] = {"warmup", "phase-warmup", 4, -1},
    [PHASE_RESTART] = {"restart", "phase-restart", 2, -1},
    [PHASE_RANK0LOG] = {"rank0log", "phase-rank0log", 0.02, 0},
};

const char *fault_name(const struct fault *fault)
{
	return fault->kind == FAULT_PHASE ? phase_types[fault->phase].full_name : fault_types[fault->kind].name;
}

bool fault_needs_frozen_fs(const struct fault *fault)
{
	return fault->kind == FAULT_DSTATE || fault->kind == FAULT_DSTATE_MM;
}

static int what_set(struct fault *fault, const char *value)
{
	int i;

	if (fault->kind == FAULT_MISMATCH) {
		fault->mismatch = !strcmp(value, "dtype") ? MISMATCH_DTYPE : MISMATCH_COUNT;
		return !strcmp(value, "dtype") || !strcmp(value, "count") ? 0 : -EINVAL;
	}
	for (i = 0; i < NR_PHASE_KINDS; i++) {
		if (!strcmp(value, phase_types[i].name)) {
			fault->phase = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int number_parse(const char *text, double min, double max, double *ret_value)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= min && value <= max))
		return -EINVAL;
	*ret_value = value;
	return 0;
}

static void number_set(struct fault *fault, enum fault_key key, double value)
{
	switch (key) {
	case KEY_RANK:
		fault->rank = value;
		fault->has_rank = true;
		break;
	case KEY_STEP:
		fault->step = value;
		fault->has_step = true;
		break;
	case KEY_UNTIL:
		fault->until_step = value;
		break;
	case KEY_OP:
		fault->op = value;
		break;
	case KEY_SEC:
		fault->duration_s = value;
		fault->has_duration = true;
		break;
	case KEY_PERCENT:
		fault->percent = value;
		break;
	case KEY_WHAT:
		break;
	}
}

static enum fault_key key_find(const char *name)
{
	static const char *const names[] = {"rank", "step", "until", "op", "sec", "percent", "what"};
	unsigned int i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i]))
			return 1 << i;
	}
	return 0;
}

static int pair_parse(struct fault *fault, char *pair, char *ret_reason, int reason_size)
{
	const char *fault_type_name = fault_types[fault->kind].name;
	char *value = strchr(pair, '=');
	enum fault_key key;
	double number;

	if (value)
		*value++ = '\0';
	key = key_find(pair);
	if (!value || !key || !(fault_types[fault->kind].keys & key)) {
		snprintf(ret_reason, reason_size, "fault %s takes no '%s%s'", fault_type_name, pair, value ? "=" : "");
		return -EINVAL;
	}
	if (key == KEY_WHAT ? what_set(fault, value) : number_parse(value, 0, 1e9, &number)) {
		snprintf(ret_reason, reason_size, "fault %s: %s='%s' is not a value it knows", fault_type_name, pair,
			 value);
		return -EINVAL;
	}
	if (key != KEY_WHAT)
		number_set(fault, key, number);
	return 0;
}

static int kind_parse(struct fault *fault, const char *name, char *ret_reason, int reason_size)
{
	int i;

	for (i = 0; i < NR_FAULT_KINDS; i++) {
		if (!strcmp(name, fault_types[i].name)) {
			fault->kind = i;
			fault->duration_s = fault_types[i].default_s;
			return 0;
		}
	}
	snprintf(ret_reason, reason_size,
		 "no fault '%s'; there are stop, hang, hang-busy, mismatch, dstate, dstate-mm, slow "
		 "and phase",
		 name);
	return -EINVAL;
}

int fault_parse(struct fault *ret_fault, const char *spec, char *ret_reason, int reason_size)
{
	struct fault fault = {.rank = -1, .step = -1, .op = -1, .until_step = 1 << 30, .percent = 50};
	char text[256], *rest = text, *name, *pair;
	bool has_what = false;
	int err;

	if (snprintf(text, sizeof(text), "%s", spec) >= (int)sizeof(text)) {
		snprintf(ret_reason, reason_size, "longer than %zu characters", sizeof(text) - 1);
		return -EINVAL;
	}
	name = strsep(&rest, ":");
	err = kind_parse(&fault, name, ret_reason, reason_size);
	while (!err && rest && (pair = strsep(&rest, ","))) {
		has_what |= !strncmp(pair, "what=", 5);
		err = pair_parse(&fault, pair, ret_reason, reason_size);
	}
	if (!err && fault.kind == FAULT_PHASE && !has_what) {
		snprintf(ret_reason, reason_size,
			 "fault phase needs what=eval|checkpoint|compile|warmup|restart|rank0log");
		err = -EINVAL;
	}
	if (!err)
		*ret_fault = fault;
	return err;
}

static int rank_draw(const struct fault *fault, struct random *random, int nr_ranks)
{
	int drawn = random_u64(random) % nr_ranks;

	if (fault->kind != FAULT_PHASE || phase_types[fault->phase].default_rank == -2)
		return drawn;
	return phase_types[fault->phase].default_rank;
}

/* Not among the first steps, where a job is not yet what it is later, nor at the very end. */
static int step_draw(const struct fault *fault, struct random *random, int nr_steps)
{
	int first = nr_steps / 4 > 2 ? nr_steps / 4 : nr_steps > 2 ? 2 : 0;
	int span = nr_steps - nr_steps / 4 - first;
	int drawn = first + (int)(random_u64(random) % (span > 0 ? span : 1));

	if (fault->kind == FAULT_PHASE && fault->phase == PHASE_WARMUP)
		return 0;
	return drawn;
}

void fault_draw(struct fault *fault, int index, uint64_t seed, int nr_ranks, int nr_steps)
{
	struct random random = {.state = seed ^ (0x5eedULL + index) << 32};
	int rank, step;

	random_u64(&random);
	rank = rank_draw(fault, &random, nr_ranks);
	step = step_draw(fault, &random, nr_steps);
	fault->draw = random_u64(&random);
	if (!fault->has_rank)
		fault->rank = rank;
	if (!fault->has_step)
		fault->step = step;
	if (fault->kind == FAULT_PHASE && !fault->has_duration)
		fault->duration_s = phase_types[fault->phase].default_s;
}

void fault_print_plan(const struct fault *fault, const char *prefix)
{
	char rank[16], op[20] = "";

	snprintf(rank, sizeof(rank), fault->rank < 0 ? "all" : "%d", fault->rank);
	if (fault_types[fault->kind].keys & KEY_OP)
		snprintf(op, sizeof(op), fault->op < 0 ? " op=drawn" : " op=%d", fault->op);
	fprintf(stderr, "%s: planned fault %s rank=%s step=%d%s\n", prefix, fault_name(fault), rank, fault->step, op);
}
