/* SPDX-License-Identifier: Apache-2.0
 *
 * test_torch.c - source torch: which groups its rows are in, what is said to be not visible of a library that lacks
 * some of them, and what of a record is believed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "attach/probe_rows.h"
#include "pipeline/decode.h"
#include "source.h"
#include "tracers/torch/torch.h"
#include "tracers/torch/torch_groups.h"

#define ALL ((1u << PROBE_SETS) - 1)

struct lacking { /* a library that has all rows but those whose symbol holds one of these */
	const char *what[4];
};

static bool is_there(void *arg, const struct probe *row)
{
	const struct lacking *l = arg;

	for (int i = 0; i < 4 && l->what[i]; i++)
		if (strstr(row->symbol, l->what[i]))
			return false;
	return true;
}

static void unseen_are(struct lacking lacking, uint32_t groups, const char *text)
{
	char unseen[256];

	probe_rows_unseen(source_torch.tracer, groups, is_there, &lacking, unseen, sizeof(unseen));
	assert_string_equal(unseen, text);
}

static void what_is_not_visible(void **state)
{
	char cut[8];

	(void)state;
	unseen_are((struct lacking){ { NULL } }, ALL, "");
	unseen_are((struct lacking){ { "RKSs" } }, ALL, ""); /* the other string ABI is there */
	unseen_are((struct lacking){ { "cxx11" } }, ALL, "");
	unseen_are((struct lacking){ { "RKSs", "cxx11" } }, ALL, "begins of ranges");
	unseen_are((struct lacking){ { "[1]", "Engine" } }, ALL, "ends of ranges, backward");
	unseen_are((struct lacking){ { "[1]", "Engine" } }, 1u << PROBES_RANGES, "ends of ranges");
	unseen_are((struct lacking){ { "[1]", "Engine" } }, 1u << PROBES_CALLS, "backward");
	unseen_are((struct lacking){ { "Engine", "Reducer" } }, 1u << PROBES_STAND_INS, "DDP's forward");
	probe_rows_unseen(source_torch.tracer, ALL, is_there, &(struct lacking){ { "_Z" } }, cut, sizeof(cut));
	assert_string_equal(cut, "begins ");
	probe_rows_unseen(source_nccl.tracer, ALL, is_there, &(struct lacking){ { "nccl" } }, cut, sizeof(cut));
	assert_string_equal(cut, "");
}

/* Ranges go alone, and first; backward is needed with them and without, and the rest only without. No row is of those
 * that must never go. */
static void groups(void **state)
{
	const struct tracer *t = source_torch.tracer;

	(void)state;
	for (size_t i = 0; i < t->n_probes; i++) {
		bool of_ranges = strstr(t->probes[i].symbol, "profiler") != NULL,
		     is_backward = strstr(t->probes[i].symbol, "Engine") != NULL;

		assert_int_equal(probe_group(t, i), of_ranges     ? PROBES_RANGES
						    : is_backward ? PROBES_CALLS
								  : PROBES_STAND_INS);
		assert_true(t->rows_alike(i, i));
		assert_true(!i || t->probes[i].at_return || !strstr(t->probes[i].symbol, "Engine") ||
			    !t->rows_alike(i, i - 1));
	}
	assert_int_equal(probe_group_tier(PROBES_RANGES), TIER_TRACE);
	assert_int_equal(probe_group_tier(PROBES_STAND_INS), TIER_TRACE);
	assert_int_equal(probe_group_counted(PROBES_STAND_INS), PROBES_CALLS);
	assert_true(t->rows_alike(0, 1)); /* begins of ranges */
	assert_false(t->rows_alike(1, 2));
}

static int decode(uint16_t what, const char *name, struct event *e)
{
	struct torch_record r = { .hdr = { .size = sizeof(r), .tracer = WIRE_TORCH, .kind = TORCH_MARK, .tgid = 7 },
				  .body.what = what };
	struct event out[DECODE_EVENTS_MAX];
	int n;

	memcpy(r.body.name, name, strnlen(name, sizeof(r.body.name))); /* no zero byte behind a long one */
	n = decode_record(&r.hdr, NULL, out);
	*e = out[0];
	return n;
}

static void records(void **state)
{
	char longest[2 * TORCH_NAME_LEN];
	struct event e;

	(void)state;
	assert_int_equal(decode(0, "", &e), -EINVAL);
	assert_int_equal(decode(TORCH_WHAT_MAX, "", &e), -EINVAL);
	assert_int_equal(decode(TORCH_RANGE_BEGIN, "Optimizer.step#AdamW.step", &e), 1);
	assert_true(e.kind == EV_TORCH && e.torch.what == TORCH_RANGE_BEGIN && e.tgid == 7);
	assert_string_equal(e.torch.name, "Optimizer.step#AdamW.step");
	assert_int_equal(decode(TORCH_RANGE_BEGIN, "a\033[2J\xff\nb", &e), 1);
	assert_string_equal(e.torch.name, "a?[2J??b");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(decode(TORCH_RANGE_BEGIN, longest, &e), 1);
	assert_int_equal(strlen(e.torch.name), TORCH_NAME_LEN - 1);
}

/* Names are a target's: cut, and fit to print. */
static void records_of_groups(void **state)
{
	struct torch_group_record r = {
		.hdr = { .size = sizeof(r), .tracer = WIRE_TORCH_GROUPS, .kind = TORCH_GROUP, .tgid = 7, .tid = 8 },
		.body = { .seq = 41, .p2p_seq = 3, .desc = "mesh\033_tp", .title = "nccl:x" }
	};
	struct event out[DECODE_EVENTS_MAX];

	(void)state;
	memset(r.body.name, 'x', sizeof(r.body.name));
	assert_int_equal(decode_record(&r.hdr, NULL, out), 1);
	assert_true(out[0].kind == EV_TORCH_GROUP && out[0].tid == 8);
	assert_true(out[0].torch_group.seq == 41 && out[0].torch_group.p2p_seq == 3);
	assert_string_equal(out[0].torch_group.desc, "mesh?_tp");
	assert_string_equal(out[0].torch_group.title, "nccl:x");
	assert_int_equal(strlen(out[0].torch_group.name), TORCH_GROUP_TEXT - 1);
	r.hdr.tid = 0;
	assert_int_equal(decode_record(&r.hdr, NULL, out), -EINVAL);
}

/* Where arguments lie differs by string ABI and by a hidden result; where they lie alike, two names are one function.
 */
static void rows_of_groups(void **state)
{
	const struct tracer *t = source_torch_groups.tracer;

	(void)state;
	for (size_t i = 0; i < t->n_probes; i++)
		for (size_t k = 0; k < t->n_probes; k++) {
			const char *a = t->probes[i].symbol, *b = t->probes[k].symbol;
			bool old_alike = !strstr(a, "SsSs") == !strstr(b, "SsSs");
			bool hidden_alike = !strstr(a, "ResetEnabled") == !strstr(b, "ResetEnabled");

			assert_int_equal(t->rows_alike(i, k), old_alike && hidden_alike);
			assert_int_equal(probe_group(t, i), PROBES_RANGES);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_visible), cmocka_unit_test(groups),         cmocka_unit_test(records),
		cmocka_unit_test(records_of_groups),   cmocka_unit_test(rows_of_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
