/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_cpu_quota.c - the CPU quota of a process from made-up cgroup trees: version 1, 2, hybrid and a
 * container's part of one; quotas on parents; freezers; and the totals that the scheduler's tracer makes of them, in
 * records old and new.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/intern.h"
#include "tracers/sched/cpu_quota.h"
#include "tracers/sched/freezer.h"
#include "pipeline/decode.h"
#include "tracers/sched/sched.h"
#include "tracers/sched/wire/throttle.h"

static char top[64];

static void put(const char *path, const char *text)
{
	char full[1024];
	FILE *f;

	snprintf(full, sizeof(full), "%s/%s", top, path);
	for (char *p = full + strlen(top) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		assert_true(mkdir(full, 0755) == 0 || errno == EEXIST);
		*p = '/';
	}
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(top, "/tmp/ranktrace-quota-XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", top);
	return system(command);
}

/* %s: `top` */
static void mounts(struct cgroup_mounts *m, const char *format)
{
	char text[2048], path[128];

	snprintf(text, sizeof(text), format, top, top, top);
	put("mountinfo", text);
	snprintf(path, sizeof(path), "%s/mountinfo", top);
	assert_int_equal(cgroup_mounts_read(path, m), 0);
}

static struct cpu_quota quota(const struct cgroup_mounts *m, const char *cgroup)
{
	char dir[2 * CGROUP_PATH_MAX];
	struct cpu_quota q;
	bool v2;

	assert_int_equal(cgroup_cpu_dir(m, cgroup, dir, &v2), 0);
	cpu_quota_read(m, dir, v2, &q);
	return q;
}

static void test_version_2_and_parents(void **state)
{
	struct cgroup_mounts m;
	struct cpu_quota q;

	(void)state;
	mounts(&m, "22 1 0:20 / /proc rw - proc proc rw\n30 1 0:26 / %s/cg\\0402 rw,nosuid shared:4 - cgroup2 cgroup2 "
		   "rw\n");
	put("cg 2/cpu.stat", "usage_usec 5\nnr_throttled 900\nthrottled_usec 0\n");
	put("cg 2/pod/cpu.max", "150000 100000\n");
	put("cg 2/pod/cpu.stat", "usage_usec 77\nnr_periods 9\nnr_throttled 3\nthrottled_usec 2000\n");
	put("cg 2/pod/train/cpu.max", "max 100000\n");
	put("cg 2/pod/train/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n");
	put("cg 2/pod/other/cpu.max", "20000 100000\n");
	put("cg 2/pod/other/cpu.stat", "nr_throttled 4\nthrottled_usec 500\n");
	q = quota(&m, "0::/pod/train\n");
	assert_true(q.cores == 1.5); /* the parent's */
	assert_int_equal(q.throttled_ns, 2000000);
	q = quota(&m, "0::/pod/other\n");
	assert_true(q.cores == 0.2);
	assert_int_equal(q.throttled_ns, 2500000);
	assert_int_equal(q.periods, 907);
	assert_true(quota(&m, "0::/\n").cores == 0);
}

/* As on this project's machines: the controller sits in version 1, version 2 is there without it. */
static void test_hybrid(void **state)
{
	struct cgroup_mounts m;
	struct cpu_quota q;

	(void)state;
	mounts(&m, "31 1 0:27 / %s/cpuset rw - cgroup cgroup rw,cpuset\n32 1 0:28 / %s/cpu rw - cgroup cgroup "
		   "rw,cpu,cpuacct\n"
		   "33 1 0:29 / %s/unified rw - cgroup2 cgroup2 rw\n");
	put("cpu/job/cpu.cfs_quota_us", "50000\n");
	put("cpu/job/cpu.cfs_period_us", "100000\n");
	put("cpu/job/cpu.stat", "nr_periods 21\nnr_throttled 20\nthrottled_time 1586701810\n");
	put("unified/job/cpu.max", "1000 100000\n");
	q = quota(&m, "9:name=systemd:/\n3:cpuset:/x\n1:cpu,cpuacct:/job\n0::/job\n");
	assert_true(q.cores == 0.5);
	assert_int_equal(q.throttled_ns, 1586701810);
	assert_int_equal(q.periods, 20);
	put("cpu/job/cpu.cfs_quota_us", "-1\n");
	assert_true(quota(&m, "1:cpu,cpuacct:/job\n0::/job\n").cores == 0);
}

/* Only a part of the hierarchy is mounted; what lies outside cannot be read and is not guessed. */
static void test_a_part_of_the_hierarchy(void **state)
{
	struct cgroup_mounts m;
	char dir[2 * CGROUP_PATH_MAX];
	bool v2;

	(void)state;
	mounts(&m, "30 1 0:26 /docker/abc %s/part rw - cgroup2 cgroup2 rw\n");
	put("part/in/cpu.max", "30000 100000\n");
	assert_true(quota(&m, "0::/docker/abc/in\n").cores == 0.3);
	assert_int_equal(cgroup_cpu_dir(&m, "0::/docker/abcd\n", dir, &v2), -ENOENT);
	assert_int_equal(cgroup_cpu_dir(&m, "0::/../other\n", dir, &v2), -ENOENT);
	assert_int_equal(cgroup_cpu_dir(&m, "", dir, &v2), -ENOENT);
}

/* Each hierarchy has a freezer of its own. Only what is frozen counts, not what is on its way there. */
static void test_freezers(void **state)
{
	static const char both[] = "7:freezer:/job\n1:cpu,cpuacct:/x\n0::/job/in\n";
	struct cgroup_mounts m;

	(void)state;
	mounts(&m, "31 1 0:27 / %s/freezer rw - cgroup cgroup rw,freezer\n32 1 0:28 / %s/cpu rw - cgroup cgroup "
		   "rw,cpu,cpuacct\n33 1 0:29 / %s/unified rw - cgroup2 cgroup2 rw\n");
	put("freezer/job/freezer.state", "THAWED\n");
	put("unified/job/in/cgroup.events", "populated 1\nfrozen 0\n");
	assert_false(freezer_holds(&m, both));
	put("freezer/job/freezer.state", "FREEZING\n");
	assert_false(freezer_holds(&m, both));
	put("freezer/job/freezer.state", "FROZEN\n");
	assert_true(freezer_holds(&m, both));
	assert_false(freezer_holds(&m, "7:freezer:/other\n0::/job/in\n"));
	put("freezer/job/freezer.state", "THAWED\n");
	put("unified/job/in/cgroup.events", "populated 1\nfrozen 1\n");
	assert_true(freezer_holds(&m, both));
	assert_true(freezer_holds(&m, "0::/job/in\n"));
	assert_false(freezer_holds(&m, "0::/job\n"));
	assert_false(freezer_holds(&m, "7:freezer:/\n0::/\n"));
	assert_false(freezer_holds(&m, "0::/../job/in\n"));
	assert_false(freezer_holds(&m, ""));
	mounts(&m, "32 1 0:28 / %s/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
	assert_false(freezer_holds(&m, both));
}

/* Recordings of version 1 lack what a task waited behind. */
static void test_records_old_and_new(void **state)
{
	struct sched_task r = { .hdr = { sizeof(r), WIRE_SCHED, SCHED_TASK, 7, 7, 0, 9 },
				.wait_ns = 5,
				.preempted = 3,
				.stopped_ns = 2,
				.behind = "hog" };
	struct sched_throttle t = { { sizeof(t), WIRE_SCHED, SCHED_THROTTLE, 7, 7, 0, 9 }, { 11, 12, 1500 } };
	struct intern *strings = intern_new();
	struct event e = { 0 };

	(void)state;
	assert_int_equal(decode_record(&r.hdr, strings, &e), 1);
	assert_int_equal(e.task.preempted, 3);
	assert_int_equal(e.task.stopped_ns, 2);
	assert_string_equal(e.task.preempted_by, "hog");
	assert_false(e.task.frozen);
	r.frozen = 1; /* of one that is not stopped it means nothing */
	assert_int_equal(decode_record(&r.hdr, strings, &e), 1);
	assert_false(e.task.frozen);
	r.state = SCHED_STOPPED;
	assert_int_equal(decode_record(&r.hdr, strings, &e), 1);
	assert_true(e.task.frozen);
	e = (struct event){ 0 };
	r.hdr.size = SCHED_TASK_V1_BYTES;
	assert_int_equal(decode_record(&r.hdr, strings, &e), 1);
	assert_int_equal(e.task.wait_ns, 5);
	assert_int_equal(e.task.preempted, 0);
	assert_null(e.task.preempted_by);
	assert_int_equal(decode_record(&t.hdr, strings, &e), 1);
	assert_int_equal(e.kind, EV_THROTTLE);
	assert_int_equal(e.throttle.throttled_ns, 11);
	assert_int_equal(e.throttle.quota_millicores, 1500);
	t.hdr.size -= 8;
	assert_int_equal(decode_record(&t.hdr, strings, &e), -EINVAL);
	intern_free(strings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version_2_and_parents),   cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_a_part_of_the_hierarchy), cmocka_unit_test(test_freezers),
		cmocka_unit_test(test_records_old_and_new),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
