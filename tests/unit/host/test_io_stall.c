/* SPDX-License-Identifier: Apache-2.0
 *
 * test_io_stall.c - several ranks blocked on one mount are one io_stall, the cause of what d_state says of each; which
 * mounts are one, and what is no stall.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "tests/unit/job/evidence.h"
#define HAND_RANKS 3
#include "tests/unit/job/hand_known.h"

#define NFS "/data (nfs4 filer:/export, 0:52)"
#define DISK "/scratch (ext4 /dev/nvme0n1, 259:1)"

static const struct job_id job = { .name = "train", .shown = "train", .nth = 1 },
			   other_job = { .name = "train", .shown = "train", .nth = 2 };
static struct node other_node;
static struct finding_list list;
static uint64_t memory[64], waits[64];

static int begin(void **state)
{
	hand_setup(state);
	hand_find();
	list = (struct finding_list){ 0 };
	other_node = (struct node){ .boot_id = "b", .name = "node8", .number = 1 };
	for (int r = 0; r < HAND_RANKS; r++) {
		known[r]->job = &job;
		mains[r].kernel_stack = mains[r].user_stack = mains[r].wchan = mains[r].syscall = mains[r].file =
			mains[r].mount = "";
	}
	assert_true(detector_io_stall.state_bytes <= sizeof(memory));
	assert_true(detector_d_state.state_bytes <= sizeof(waits));
	return 0;
}

static int end(void **state)
{
	(void)state;
	detector_io_stall.release(memory);
	detector_d_state.release(waits);
	finding_list_free(&list);
	hand_lose();
	return 0;
}

static void blocked(int r, const char *mount, int seconds)
{
	mains[r].blocked = true;
	mains[r].blocked_since_ns = NOW - seconds * SEC;
	mains[r].wchan = "rpc_wait_bit_killable";
	mains[r].syscall = "fsync";
	mains[r].file = "/data/checkpoint.pt";
	mains[r].mount = mount;
}

/* As a session does it: causes first. The finding, NULL there is none. */
static const struct finding *stall(void)
{
	const struct finding *f = NULL;

	list.n = 0;
	assert_int_equal(detector_io_stall.tick(memory, &m, &list), 0);
	assert_int_equal(detector_d_state.tick(waits, &m, &list), 0);
	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].kind == FINDING_IO_STALL) {
			assert_null(f);
			f = &list.items[i];
		}
	return f;
}

static int n_caused_by(const struct finding *f)
{
	int n = 0;

	for (size_t i = 0; i < list.n; i++)
		n += list.items[i].kind == FINDING_D_STATE && list.items[i].caused_by_key == f->key;
	return n;
}

static void two_ranks_on_one_mount(void **state)
{
	const struct finding *f;
	uint64_t key;

	(void)state;
	blocked(0, NFS, 6);
	blocked(2, NFS, 9);
	f = stall();
	assert_non_null(f);
	assert_int_equal(f->n_ranks_all, 2);
	assert_int_equal(f->ranks[0] + f->ranks[1], 2);
	assert_int_equal(f->since_ns, NOW - 9 * SEC);
	assert_int_equal(n_caused_by(f), 2);
	assert_string_equal(text_named(f, "mount", ""), NFS);
	assert_string_equal(text_named(f, "file", ""), "/data/checkpoint.pt");
	assert_string_equal(text_named(f, "syscall", ""), "fsync");
	assert_true(number_named(f, "n_blocked", 0) == 2 && number_named(f, "blocked_s", 0) == 9);
	key = f->key;
	blocked(1, NFS, 3); /* one more is the same stall */
	f = stall();
	assert_true(f->key == key && f->n_ranks_all == 3 && n_caused_by(f) == 3);
	mains[0].blocked = mains[1].blocked = false;
	assert_null(stall());
	assert_int_equal(list.items[0].caused_by_key, 0);
	assert_string_equal(text_named(&list.items[0], "mount", ""), NFS); /* d_state names it alone */
}

/* A child's task counts for its rank. */
static void tasks_of_one_rank(void **state)
{
	(void)state;
	known[1]->is_child = true;
	known[1]->leader = known[0];
	blocked(0, NFS, 6);
	blocked(1, NFS, 6);
	assert_null(stall());
	known[1]->leader = known[2];
	assert_non_null(stall());
	assert_int_equal(stall()->n_ranks_all, 2);
	known[1]->leader = NULL;
	assert_null(stall());
}

/* A server is one for all hosts and wherever it is mounted; a disk is by its number, on its host. */
static void which_mounts_are_one(void **state)
{
	static const struct {
		const char *a, *b;
		bool other_host, is_one;
	} cases[] = {
		{ NFS, "/mnt (nfs4 filer:/export, 0:77)", true, true },
		{ NFS, "/data (nfs4 filer:/home, 0:52)", false, false },
		{ "/x (lustre 10.0.0.1@tcp:/s, 0:1)", "/y (lustre 10.0.0.1@tcp:/s, 0:2)", true, true },
		{ "/x (cifs //srv/share, 0:1)", "/y (cifs //srv/share, 0:2)", true, true },
		{ DISK, "/bound (ext4 /dev/nvme0n1, 259:1)", false, true },
		{ DISK, DISK, true, false },
		{ DISK, "/scratch (ext4 /dev/nvme1n1, 259:2)", false, false },
		{ "/s3 (fuse.s3fs s3fs, 0:9)", "/s3 (fuse.s3fs s3fs, 0:9)", true, false },
		{ "/s (ext4 /dev/disk/by-path/pci-0:1, 8:1)", "/s (ext4 /dev/disk/by-path/pci-0:1, 8:1)", true, false },
		{ "/a (b) (nfs f:/e, 0:1)", "/c (nfs f:/e, 0:1)", true, true },
		{ "", "", false, false },
		{ "no mount", "no mount", false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		known[1]->node = cases[i].other_host ? &other_node : &node;
		blocked(0, cases[i].a, 6);
		blocked(1, cases[i].b, 6);
		if (!stall() == cases[i].is_one)
			fail_msg("%s, %s", cases[i].a, cases[i].b);
	}
}

static void each_job_for_itself(void **state)
{
	const struct finding *f;

	(void)state;
	known[2]->job = &other_job;
	blocked(0, NFS, 6);
	blocked(2, NFS, 6);
	assert_null(stall());
	blocked(1, NFS, 6);
	f = stall();
	assert_non_null(f);
	assert_int_equal(f->n_ranks_all, 2);
	assert_int_equal(n_caused_by(f), 2);
	known[0]->dead = true;
	assert_null(stall());
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(two_ranks_on_one_mount),
		TEST(tasks_of_one_rank),
		TEST(which_mounts_are_one),
		TEST(each_job_for_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
