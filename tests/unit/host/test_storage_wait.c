/* SPDX-License-Identifier: Apache-2.0
 *
 * test_storage_wait.c - how grave a D state is: a store that may just be slow is a warning for as long as is usual
 * there, one that is frozen, a driver and a lock are critical at once; who waits for it is as grave as it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "detect/severity.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 3
#include "tests/unit/job/hand_known.h"

#define NFS "/ckpt (nfs4 filer:/export, 0:52)"
#define ANSWER "rpc_wait_bit_killable\n__rpc_execute\nnfs_file_fsync"
#define FROZEN "percpu_rwsem_wait\n__percpu_down_read\nmnt_want_write"

static const struct job_id job = { .name = "train", .shown = "train", .nth = 1 };
static struct finding_list list;
static void *waits, *stalls;

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	list = (struct finding_list){ 0 };
	waits = calloc(1, detector_d_state.state_bytes);
	stalls = calloc(1, detector_io_stall.state_bytes);
	for (int r = 0; r < HAND_RANKS; r++) {
		known[r]->job = &job;
		mains[r].kernel_stack = mains[r].user_stack = mains[r].wchan = mains[r].syscall = mains[r].file =
			mains[r].mount = "";
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_d_state.release(waits);
	detector_io_stall.release(stalls);
	free(waits);
	free(stalls);
	finding_list_free(&list);
	hand_lose();
	return 0;
}

static void blocked(int r, const char *syscall, const char *stack, const char *file, const char *mount)
{
	mains[r].blocked = true;
	mains[r].blocked_since_ns = m.now_ns;
	mains[r].syscall = syscall;
	mains[r].kernel_stack = stack;
	mains[r].wchan = "x";
	mains[r].file = file;
	mains[r].mount = mount;
}

static void flushes(int r)
{
	blocked(r, "fsync", ANSWER, "/ckpt/step-100.pt", NFS);
}

/* So many seconds later; a tick. */
static void later(int seconds)
{
	m.now_ns += seconds * SEC;
	list.n = 0;
	assert_int_equal(detector_io_stall.tick(stalls, &m, &list), 0);
	assert_int_equal(detector_d_state.tick(waits, &m, &list), 0);
	severities_judge(&list, m.now_ns);
}

static const struct finding *first_of(enum finding_kind kind)
{
	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].kind == kind)
			return &list.items[i];
	return NULL;
}

static enum severity severity(void)
{
	assert_non_null(first_of(FINDING_D_STATE));
	return first_of(FINDING_D_STATE)->severity;
}

/* It ends by itself. */
static void goes_on(int r)
{
	mains[r].blocked = false;
	later(1);
	assert_null(first_of(FINDING_D_STATE));
}

static void a_checkpoint_that_waits_for_a_slow_store(void **state)
{
	(void)state;
	flushes(0);
	later(6);
	assert_int_equal(severity(), SEVERITY_WARNING);
	assert_true(number_named(first_of(FINDING_D_STATE), "critical_after_s", 0) == 30);
	later(23);
	assert_int_equal(severity(), SEVERITY_WARNING);
	later(1);
	assert_int_equal(severity(), SEVERITY_CRITICAL);
}

static void what_is_usual_there(void **state)
{
	(void)state;
	flushes(0);
	later(20);
	goes_on(0);
	flushes(1); /* another rank, the same store: three times 21 s */
	later(62);
	assert_int_equal(severity(), SEVERITY_WARNING);
	later(1);
	assert_int_equal(severity(), SEVERITY_CRITICAL);
	goes_on(1);
	blocked(0, "read", ANSWER, "/ckpt/step-100.pt", NFS); /* another call has lasted for nothing */
	later(31);
	assert_int_equal(severity(), SEVERITY_CRITICAL);
	mains[0].blocked = false;
	m.now_ns += 8 * 86400 * SEC;
	later(1);
	flushes(0);
	later(31);
	assert_int_equal(severity(), SEVERITY_CRITICAL); /* a week later it is forgotten */
}

/* The next wait of the same thread began before anybody looked. */
static void one_that_begins_anew(void **state)
{
	(void)state;
	flushes(0);
	later(20);
	flushes(0);
	later(31);
	assert_int_equal(severity(), SEVERITY_WARNING);
}

/* Whatever storage once needed: longer than PyTorch's groups wait nothing is usual. */
static void never_longer_than_ten_minutes(void **state)
{
	(void)state;
	flushes(0);
	later(3600);
	goes_on(0);
	flushes(0);
	later(599);
	assert_int_equal(severity(), SEVERITY_WARNING);
	later(1);
	assert_int_equal(severity(), SEVERITY_CRITICAL);
}

static void one_that_died_teaches_nothing(void **state)
{
	(void)state;
	flushes(0);
	later(20);
	known[0]->dead = true;
	later(1);
	flushes(1);
	later(31);
	assert_int_equal(severity(), SEVERITY_CRITICAL);
}

static void what_is_no_slow_store(void **state)
{
	static const struct {
		const char *syscall, *stack, *file, *mount;
	} cases[] = {
		{ "openat", FROZEN, "/ckpt/step-100.pt", NFS },
		{ "ioctl", "os_acquire_rwlock_write\nnvidia_ioctl", "/dev/nvidia0", "/dev (devtmpfs udev, 0:6)" },
		{ "read", "uvm_read", "/dev/nvidia-uvm", "/dev (devtmpfs udev, 0:6)" },
		{ "ioctl", ANSWER, "/ckpt/step-100.pt", NFS },
		{ "read", ANSWER, "/proc/7/mem", "/proc (proc proc, 0:4)" },
		{ "vfork", "wait_for_vfork_done", "", "" },
		{ "fsync", "down_write\ndo_mmap", "/ckpt/step-100.pt", NFS }, /* the memory map's lock */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		end(state);
		begin(state);
		blocked(0, cases[i].syscall, cases[i].stack, cases[i].file, cases[i].mount);
		later(5);
		assert_int_equal(severity(), SEVERITY_CRITICAL);
		assert_null(evidence_named(first_of(FINDING_D_STATE), "critical_after_s"));
	}
	blocked(0, "openat", "", "/ckpt/step-100.pt", NFS); /* no right to read kernel stacks */
	mains[0].wchan = "percpu_rwsem_wait";
	later(5);
	assert_int_equal(severity(), SEVERITY_CRITICAL);
}

/* All ranks save at once to one store: its finding and the wait of their peers are as grave as their D states. */
static void what_follows_from_it(void **state)
{
	struct finding *hang;

	(void)state;
	for (int s = 6; s < 40; s += 28) {
		end(state);
		begin(state);
		flushes(0);
		flushes(1);
		later(s);
		hang = finding_list_add(&list);
		hang->kind = FINDING_HANG;
		hang->class = HANG_HOST_BLOCKED;
		hang->cause = CAUSE_D_STATE;
		hang->since_ns = m.now_ns - 40 * SEC;
		hang->caused_by_key = first_of(FINDING_IO_STALL)->key;
		severities_judge(&list, m.now_ns);
		for (size_t i = 0; i < list.n; i++)
			assert_int_equal(list.items[i].severity, s < 30 ? SEVERITY_WARNING : SEVERITY_CRITICAL);
	}
	list.items[list.n - 1].caused_by_key = 0; /* no D state says it: by counters alone */
	list.items[list.n - 1].since_ns = m.now_ns;
	severities_judge(&list, m.now_ns);
	assert_int_equal(list.items[list.n - 1].severity, SEVERITY_CRITICAL);
}

/* Two ranks in a driver's call are no stall of storage. */
/* FUSE's and Lustre's clients are in no D state: no finding of one rank, and of several as grave as what may be slow.
 */
static void ranks_that_sleep_in_a_call(void **state)
{
	const struct finding *stall;

	(void)state;
	for (int again = 0; again < 2; again++) {
		for (int r = 0; r < 2; r++) {
			blocked(r, "pwrite64", "request_wait_answer", "/s3/step-100.pt", "/s3 (fuse.s3fs s3fs, 0:60)");
			mains[r].blocked = false;
			mains[r].stalled = true;
			later(1);
			assert_int_equal(list.n, r);
		}
		assert_true(number_named(first_of(FINDING_IO_STALL), "n_blocked", 0) == 2);
		later(28); /* the first sleeps for 30 s; the second time they did so for 32 s before */
		stall = first_of(FINDING_IO_STALL);
		assert_int_equal(stall->severity, again ? SEVERITY_WARNING : SEVERITY_CRITICAL);
		assert_true(number_named(stall, "critical_after_s", 0) == (again ? 96 : 30));
		later(1);
		mains[0].stalled = mains[1].stalled = false;
		later(1);
		assert_int_equal(list.n, 0);
	}
}

static void a_driver_is_no_store(void **state)
{
	(void)state;
	for (int r = 0; r < 2; r++)
		blocked(r, "ioctl", "nvidia_ioctl", "/dev/nvidia0", "/dev (devtmpfs udev, 0:6)");
	later(6);
	assert_null(first_of(FINDING_IO_STALL));
	for (int r = 0; r < 2; r++)
		flushes(r);
	later(6);
	assert_non_null(first_of(FINDING_IO_STALL));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_checkpoint_that_waits_for_a_slow_store),
		TEST(what_is_usual_there),
		TEST(one_that_begins_anew),
		TEST(never_longer_than_ten_minutes),
		TEST(one_that_died_teaches_nothing),
		TEST(what_is_no_slow_store),
		TEST(what_follows_from_it),
		TEST(ranks_that_sleep_in_a_call),
		TEST(a_driver_is_no_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
