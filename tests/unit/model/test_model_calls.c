/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_calls.c - driver calls: which one a thread sits in, what finished ones took, errors they returned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/unit/job/job_script.h"
#include "tests/unit/job/model_copy.h"

static struct model *m;

static void give(enum event_kind kind, uint64_t ts_ns, uint64_t begin_ns, uint32_t thread)
{
	struct event e = job_event(kind, 0, ts_ns);

	e.tid += thread;
	if (kind == EV_SYNC_BEGIN || kind == EV_SYNC_END) {
		e.sync.kind = SYNC_COPY;
		e.sync.begin_ns = begin_ns;
	} else {
		e.call.class = CALL_MODULE;
		e.call.name = "cuModuleLoadData";
		e.call.begin_ns = begin_ns;
	}
	assert_int_equal(model_apply(m, &e), 0);
}

static const struct proc *proc(void)
{
	return model_proc(m, job_pid(0));
}

static void test_totals(void **state)
{
	(void)state;
	m = model_new();
	give(EV_CALL, 300, 100, 0);
	give(EV_CALL, 350, 340, 1);
	give(EV_CALL, 10, 20, 1); /* nonsense */
	assert_int_equal(proc()->call_ns[CALL_MODULE], 210);
	assert_int_equal(proc()->call_ns[CALL_ALLOC], 0);
	assert_null(proc()->calls);
	model_free(m);
}

static void test_a_call_that_takes_long(void **state)
{
	(void)state;
	m = model_new();
	give(EV_CALL_OPEN, 2000, 100, 0);
	give(EV_CALL_OPEN, 3000, 100, 0); /* given again */
	assert_string_equal(proc()->calls->name, "cuModuleLoadData");
	assert_true(!proc()->calls->is_sync && proc()->calls->begin_ns == 100 && !proc()->calls->next);
	assert_false(proc_waits(proc()));
	assert_int_equal(proc()->last_call_ns, 100); /* when it was called, not when it was found in it */
	give(EV_SYNC_BEGIN, 3500, 0, 1);             /* another thread */
	assert_true(proc_waits(proc()) && proc()->calls->next);
	assert_string_equal(proc()->calls->name, "cuMemcpy");
	give(EV_SYNC_BEGIN, 4000, 0, 0); /* the thread does something else: it is out of the call */
	assert_true(proc()->calls->is_sync && proc()->calls->next->is_sync && !proc()->calls->next->next);
	give(EV_SYNC_END, 4500, 4000, 0);
	give(EV_CALL, 5000, 4900, 1);
	assert_null(proc()->calls);
	model_free(m);
}

static void test_errors(void **state)
{
	struct event e = job_event(EV_CUDA_ERROR, 0, 700);

	(void)state;
	m = model_new();
	give(EV_CALL, 300, 100, 0);
	assert_string_equal(proc()->cuda_error_name, "");
	e.cuda_error.call = "cuStreamSynchronize";
	e.cuda_error.error = "CUDA_ERROR_ILLEGAL_ADDRESS";
	e.cuda_error.result = 700;
	assert_int_equal(model_apply(m, &e), 0);
	assert_int_equal(proc()->cuda_error, 700);
	assert_string_equal(proc()->cuda_error_call, "cuStreamSynchronize");
	assert_string_equal(proc()->cuda_error_name, "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_int_equal(proc()->cuda_error_ns, 700);
	assert_int_equal(proc()->last_call_ns, 300); /* a watchdog that polls gets it again and again */
	model_free(m);
}

static void budget(enum budget_what what, uint32_t shed, uint64_t ts_ns)
{
	struct event e = job_event(EV_BUDGET, 0, ts_ns);

	e.budget.what = what;
	e.budget.shed = shed;
	assert_int_equal(model_apply(m, &e), 0);
}

/* Whether it still sits in a call whose probes are gone is not known; waits are probed as before. */
static void test_probes_taken_away(void **state)
{
	struct model_copy c;

	(void)state;
	m = model_new();
	give(EV_CALL_OPEN, 2000, 100, 0);
	give(EV_SYNC_BEGIN, 2500, 0, 1);
	budget(BUDGET_KEPT, 0, 2600);
	budget(BUDGET_SHED, 1 << PROBES_POLLS, 2700);
	assert_true(proc()->calls && proc()->calls->next && proc()->shed == 1 << PROBES_POLLS);
	assert_int_equal(proc()->calls_shed_ns, 0);
	budget(BUDGET_SHED, 1 << PROBES_POLLS | 1 << PROBES_CALLS, 3000);
	assert_true(proc()->calls->is_sync && !proc()->calls->next);
	assert_int_equal(proc()->calls_shed_ns, 3000);
	budget(BUDGET_BACK, 1 << PROBES_POLLS, 4000);
	assert_int_equal(proc()->calls_shed_ns, 4000);
	assert_int_equal(proc()->shed, 1 << PROBES_POLLS);
	assert_true(proc_waits(proc()));
	model_copy(m, &c); /* a recording that begins here knows it, too */
	assert_int_equal(model_proc(c.m, job_pid(0))->shed, 1 << PROBES_POLLS);
	model_free(c.m);
	model_copy_free(&c);
	model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_totals),
		cmocka_unit_test(test_a_call_that_takes_long),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_probes_taken_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
