/* SPDX-License-Identifier: Apache-2.0
 *
 * test_gpu_event.c - which findings about GPUs follow from which: of one GPU, of one host, of one part.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "detect/gpu/gpu_event.h"

enum { LOST = 1000, RESET, SILENT, ECC, NVLINK, HOT, SWITCH, BLOCKED, BLOCKED_ELSEWHERE };

struct row {
	int what; /* an XID's number, or one of the above */
	int gpu, since_s, node;
	int from; /* index of the row that it follows from; -1 none */
};

static enum finding_cause health_of(int what)
{
	switch (what) {
	case LOST: return CAUSE_GPU_LOST;
	case RESET: return CAUSE_NEEDS_RESET;
	case SILENT: return CAUSE_DRIVER_DOES_NOT_ANSWER;
	case ECC: return CAUSE_ECC_UNCORRECTED;
	case NVLINK: return CAUSE_NVLINK_DOWN;
	default: return CAUSE_THROTTLED_THERMAL;
	}
}

static enum finding_cause xid_of(int what)
{
	switch (what) {
	case 63: return CAUSE_INFORMATION;
	case 119: return CAUSE_DRIVER;
	case 31:
	case 43: return CAUSE_APPLICATION;
	case 999: return CAUSE_UNKNOWN;
	default: return CAUSE_HARDWARE;
	}
}

static void put(struct finding_list *list, const struct row *r, uint64_t key)
{
	struct finding *f = finding_list_add(list);

	f->key = key;
	f->node = r->node;
	f->since_ns = r->since_s * 1000000000ull;
	f->subject = r->what == SILENT || r->what == SWITCH ? subject_node(r->node)
							    : subject_gpu(r->node, r->gpu, 0x100 + r->gpu);
	if (r->what == BLOCKED || r->what == BLOCKED_ELSEWHERE) {
		f->kind = FINDING_D_STATE;
		finding_note_text(f, EVIDENCE_KERNEL_STACK,
				  r->what == BLOCKED ? "rm_wait [nvidia]\nnvidia_ioctl [nvidia]" : "nfs_wait");
		return;
	}
	f->kind = r->what < LOST || r->what == SWITCH ? FINDING_XID : FINDING_GPU_HEALTH;
	f->cause = f->kind == FINDING_GPU_HEALTH ? health_of(r->what) : xid_of(r->what);
	if (f->kind == FINDING_XID)
		finding_note(f, r->what == SWITCH ? EVIDENCE_SXID : EVIDENCE_XID, r->what);
}

static void check(const struct row *rows)
{
	struct finding_list list = { 0 };

	for (int i = 0; rows[i].what; i++)
		put(&list, &rows[i], i + 1);
	gpu_event_join(&list);
	for (int i = 0; rows[i].what; i++)
		assert_int_equal(list.items[i].caused_by_key, rows[i].from + 1);
	finding_list_free(&list);
}

/* what, gpu, since, host, follows from */
static void off_the_bus(void **state)
{
	(void)state;
	check((struct row[]){ { 79, 1, 10, 0, 3 },
			      { 31, 1, 12, 0, 3 },
			      { 31, 2, 12, 0, -1 }, /* another GPU's */
			      { LOST, 1, 11, 0, -1 },
			      { SILENT, 0, 20, 0, 3 },
			      { BLOCKED, 0, 15, 0, 3 },
			      { BLOCKED_ELSEWHERE, 0, 15, 0, -1 },
			      { HOT, 1, 9, 0, -1 },
			      { 79, 1, 12, 1, -1 }, /* another host's */
			      { 0 } });
	check((struct row[]){ { 31, 1, 10, 0, -1 }, /* before it, and the program's own */
			      { RESET, 1, 11, 0, -1 },
			      { 31, 1, 11, 0, 1 },
			      { 0 } });
}

/* An earlier one that is as grave; of two at one time the first of the list. */
static void an_xid_and_the_next(void **state)
{
	(void)state;
	check((struct row[]){
		{ 119, 0, 5, 0, -1 }, { 31, 0, 6, 0, 0 }, { 43, 0, 7, 0, 0 }, { 79, 0, 8, 0, 0 }, { 0 } });
	check((struct row[]){
		{ 31, 0, 5, 0, -1 }, { 43, 0, 6, 0, 0 }, { 79, 0, 7, 0, -1 }, { 43, 0, 8, 0, 0 }, { 0 } });
	check((struct row[]){ { 79, 0, 5, 0, -1 }, { 119, 0, 5, 0, 0 }, { 0 } });
	check((struct row[]){ { 92, 0, 5, 0, -1 }, { 31, 0, 6, 0, -1 }, { 0 } }); /* what is corrected breaks nothing */
	check((struct row[]){ { 63, 0, 5, 0, -1 }, { 999, 0, 6, 0, -1 }, { 31, 0, 7, 0, -1 }, { 0 } });
}

static void one_part(void **state)
{
	(void)state;
	check((struct row[]){
		{ 48, 0, 5, 0, 1 }, { ECC, 0, 9, 0, -1 }, { 63, 0, 10, 0, 1 }, { 74, 0, 5, 0, 0 }, { 0 } });
	check((struct row[]){ { 74, 0, 5, 0, 1 }, { NVLINK, 0, 9, 0, -1 }, { 48, 1, 9, 0, -1 }, { 0 } });
	check((struct row[]){ { SWITCH, 0, 5, 0, -1 },
			      { 74, 0, 5, 0, 0 },
			      { 74, 1, 4, 0, 0 },
			      { NVLINK, 0, 9, 0, 0 },
			      { ECC, 0, 9, 0, -1 },
			      { 0 } });
}

static void the_driver(void **state)
{
	(void)state;
	check((struct row[]){ { 119, 3, 5, 0, -1 }, { SILENT, 0, 9, 0, 0 }, { BLOCKED, 0, 9, 0, 1 }, { 0 } });
	check((struct row[]){ { 31, 3, 5, 0, -1 }, { SILENT, 0, 9, 0, -1 }, { HOT, 0, 9, 0, -1 }, { 0 } });
	check((struct row[]){ { BLOCKED, 0, 9, 0, -1 }, { 31, 0, 8, 0, -1 }, { 0 } });
}

/* What a detector knows itself stays. */
static void a_cause_that_is_known(void **state)
{
	static const struct row rows[] = { { 79, 0, 5, 0, 0 }, { 31, 0, 6, 0, 0 } };
	struct finding_list list = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++)
		put(&list, &rows[i], i + 1);
	list.items[1].caused_by_key = 77;
	gpu_event_join(&list);
	assert_int_equal(list.items[1].caused_by_key, 77);
	finding_list_free(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(off_the_bus), cmocka_unit_test(an_xid_and_the_next),   cmocka_unit_test(one_part),
		cmocka_unit_test(the_driver),  cmocka_unit_test(a_cause_that_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
