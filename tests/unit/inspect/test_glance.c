/* SPDX-License-Identifier: Apache-2.0
 *
 * test_glance.c - a stranger is read once, and again when the kernel's glance says something new of it: a mapping, an
 * exec, another parent, its end. The set knows only the processes that the test has glances of: its own children,
 * which act on single letters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"

#define NCCL 2
#define MAPS_WAIT_US 250000 /* twice the first wait of a stranger that maps again */

static const char *const markers[] = { "ncclAllReduce" };
static const struct target_filter filters[] = { { .tracer = NCCL, .markers = markers, .n_markers = 1 } };
static char dir[64];
static struct reader *reader;

struct child {
	pid_t pid;
	int to, from;
};

static void child_does(char letter)
{
	char lib[96];

	snprintf(lib, sizeof(lib), "%s/lib.so", dir);
	if (letter == 'l' && !dlopen(lib, RTLD_NOW))
		_exit(3);
	if (letter == 'm' && mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		_exit(4);
	if (letter == 'r') {
		setenv("RANK", "3", 1);
		setenv("WORLD_SIZE", "4", 1);
	}
	if (letter == 'f' && !fork()) { /* says no rank, maps nothing of interest */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execle("/bin/sleep", "sleep", "100", NULL, (char *[]){ NULL });
		_exit(5);
	}
	if (letter == 'f')
		usleep(100000); /* its exec */
}

static struct child child_new(void)
{
	int to[2], from[2];
	struct child c;
	char letter;

	assert_false(pipe(to) || pipe(from));
	c = (struct child){ fork(), to[1], from[0] };
	if (c.pid) {
		close(to[0]);
		close(from[1]);
		return c;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(to[0], &letter, 1) == 1) {
		child_does(letter);
		if (write(from[1], "", 1) != 1)
			break;
	}
	_exit(0);
}

static void tell(const struct child *c, char letter)
{
	char done;

	assert_int_equal(write(c->to, &letter, 1), 1);
	assert_int_equal(read(c->from, &done, 1), 1);
}

static void end(const struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->to);
	close(c->from);
}

static uint32_t child_of(uint32_t parent)
{
	char text[256];

	assert_true(proc_read(text, sizeof(text), "/proc/%u/task/%u/children", parent, parent) >= 0);
	return strtoul(text, NULL, 10);
}

/* As the kernel says it of these processes now. */
static struct process_glance *glances(const uint32_t *tgids, size_t n)
{
	struct process_glance *rows = calloc(n + 1, sizeof(*rows));

	for (size_t i = 0; i < n; i++) {
		struct proc_stat st;

		assert_int_equal(proc_stat_read(tgids[i], &st), 0);
		rows[i] = (struct process_glance){ .tgid = tgids[i],
						   .parent_tgid = st.parent,
						   .start_ns = st.start_time_ns,
						   .execs = st.image,
						   .pages = st.vsize / 4096 };
	}
	return rows;
}

static size_t scan(struct target_set *s, const uint32_t *tgids, size_t n)
{
	uint64_t at_ns = clock_monotonic_ns();

	assert_int_equal(target_set_scan_glances(s, glances(tgids, n), n, at_ns), 0);
	return target_set_counts(s)->maps_read;
}

static const struct target_proc *listed(struct target_set *s, uint32_t tgid)
{
	size_t n;
	const struct target_proc *const *list = target_set_list(s, &n);

	for (size_t i = 0; i < n; i++)
		if (list[i]->tgid == tgid)
			return list[i];
	return NULL;
}

static void reads_a_stranger_once(void **state)
{
	struct child c = child_new();
	uint32_t tgid = c.pid;

	tell(&c, 'm');
	assert_int_equal(scan(*state, &tgid, 1), 1);
	assert_non_null(target_set_find(*state, tgid));
	assert_int_equal(scan(*state, &tgid, 1), 0);
	assert_int_equal(target_set_counts(*state)->processes, 1);
	tell(&c, 'm');
	assert_int_equal(scan(*state, &tgid, 1), 0); /* just read: not again that soon, nor forgotten */
	usleep(MAPS_WAIT_US);
	assert_int_equal(scan(*state, &tgid, 1), 1);
	assert_int_equal(scan(*state, &tgid, 1), 0);
	assert_int_equal(scan(*state, NULL, 0), 0); /* its end */
	assert_null(target_set_find(*state, tgid));
	end(&c);
}

/* A glance from before says nothing: that is what a scan saves. One from now says that it mapped something. */
static void finds_what_a_stranger_becomes(void **state)
{
	struct child c = child_new();
	uint32_t tgid = c.pid;
	struct process_glance *before = glances(&tgid, 1);

	tell(&c, 'm');
	scan(*state, &tgid, 1);
	free(before);
	before = glances(&tgid, 1);
	tell(&c, 'l');
	assert_int_equal(target_set_scan_glances(*state, before, 1, clock_monotonic_ns()), 0);
	assert_null(listed(*state, tgid));
	usleep(MAPS_WAIT_US);
	scan(*state, &tgid, 1);
	assert_non_null(listed(*state, tgid));
	scan(*state, &tgid, 1); /* it never rests again */
	assert_non_null(listed(*state, tgid));
	end(&c);
	scan(*state, NULL, 0);
	assert_null(target_set_find(*state, tgid));
}

/* Below a process that turns out to be a rank: a stranger that rests, and one seen by /proc since. */
static void a_rank_gets_what_rests_below_it(void **state)
{
	struct child c = child_new();
	uint32_t tgids[2] = { c.pid };

	tell(&c, 'f');
	tgids[1] = child_of(c.pid);
	for (int i = 0; i < 3; i++)
		scan(*state, tgids, 2);
	tell(&c, 'l');
	tell(&c, 'r');
	for (int i = 0; i < 3; i++, usleep(200000)) /* its environment is read again now and then */
		scan(*state, tgids, 2);
	const struct target_proc *child = listed(*state, tgids[1]);

	assert_non_null(child);
	assert_true(child->is_child && child->rank == 3 && child->rank_tgid == tgids[0] && child->maps.n);
	scan(*state, tgids, 2);
	assert_non_null(listed(*state, tgids[1]));
	end(&c);
}

/* A rescan looks at it between two scans, a scan of /proc comes in between: nothing is lost, nothing stays. */
static void mixes_with_other_scans(void **state)
{
	struct child c = child_new(), d = child_new();
	uint32_t tgids[2] = { c.pid, d.pid };

	tell(&c, 'm');
	tell(&d, 'm');
	scan(*state, tgids, 2);
	assert_int_equal(target_set_rescan(*state, tgids, 2), 0);
	scan(*state, tgids, 2);
	assert_true(target_set_find(*state, tgids[0]) && target_set_find(*state, tgids[1]));
	assert_int_equal(target_set_scan(*state), 0);
	assert_true(target_set_find(*state, tgids[0]) && target_set_find(*state, getppid()));
	scan(*state, tgids, 2);
	assert_true(target_set_find(*state, tgids[0]) && !target_set_find(*state, getppid()));
	assert_non_null(target_set_refresh(*state, tgids[0]));
	scan(*state, &tgids[1], 1);
	assert_true(!target_set_find(*state, tgids[0]) && target_set_find(*state, tgids[1]));
	end(&c);
	end(&d);
}

/* Between two passes over all: what was born is read, what rests is not, and what matters is. */
static void reads_what_was_born(void **state)
{
	struct child c = child_new(), born = child_new();
	uint32_t tgids[2] = { c.pid, born.pid };

	tell(&c, 'm');
	scan(*state, tgids, 1);
	tell(&c, 'l');
	tell(&born, 'l');
	assert_int_equal(target_set_scan_some(*state, &(struct target_born){ tgids[1], UID_UNKNOWN }, 1), 0);
	assert_non_null(listed(*state, tgids[1]));
	assert_null(listed(*state, tgids[0]));
	assert_int_equal(target_set_counts(*state)->processes, 1);
	tell(&born, 'r');
	target_set_has_comm(*state, tgids[1]);
	assert_int_equal(target_set_scan_some(*state, NULL, 0), 0);
	assert_int_equal(listed(*state, tgids[1])->rank, 3);
	end(&born);
	assert_int_equal(target_set_scan_some(*state, NULL, 0), 0);
	assert_null(target_set_find(*state, tgids[1]));
	usleep(MAPS_WAIT_US);
	scan(*state, tgids, 1);
	assert_non_null(listed(*state, tgids[0]));
	end(&c);
}

static uint64_t bare_ns(struct target_set *s, uint32_t tgid)
{
	assert_non_null(target_set_find(s, tgid));
	return target_set_find(s, tgid)->bare_ns;
}

/* When a process was last seen without libraries: by its maps, and while it rests by the glance. One that has some at
 * first never was. */
static void knows_since_when_a_library_may_be_there(void **state)
{
	struct child c = child_new(), d = child_new();
	uint32_t tgids[2] = { c.pid, d.pid };
	uint64_t begin_ns = clock_monotonic_ns(), again_ns, last_ns;

	tell(&d, 'l');
	scan(*state, tgids, 2);
	assert_in_range(bare_ns(*state, tgids[0]), begin_ns, clock_monotonic_ns());
	assert_int_equal(bare_ns(*state, tgids[1]), 0);
	for (int rests = 0; rests < 2; rests++) {
		again_ns = clock_monotonic_ns();
		scan(*state, tgids, 2);
		last_ns = clock_monotonic_ns();
	}
	usleep(MAPS_WAIT_US);
	tell(&c, 'l');
	scan(*state, tgids, 2);
	assert_non_null(listed(*state, tgids[0]));
	assert_in_range(bare_ns(*state, tgids[0]), again_ns, last_ns);
	scan(*state, tgids, 2);
	assert_in_range(bare_ns(*state, tgids[0]), again_ns, last_ns);
	end(&c);
	end(&d);
}

/* A stranger that maps and is not read for that yet: what it has since its last look is not known. */
static void what_is_not_read_yet_is_no_look(void **state)
{
	struct child c = child_new();
	uint32_t tgid = c.pid;
	uint64_t last_ns;

	tell(&c, 'm');
	scan(*state, &tgid, 1);
	last_ns = clock_monotonic_ns();
	tell(&c, 'l');
	assert_int_equal(scan(*state, &tgid, 1), 0);
	assert_true(bare_ns(*state, tgid) && bare_ns(*state, tgid) < last_ns);
	usleep(MAPS_WAIT_US);
	scan(*state, &tgid, 1);
	assert_non_null(listed(*state, tgid));
	assert_true(bare_ns(*state, tgid) < last_ns);
	end(&c);
}

static int group_setup(void **state)
{
	char command[256];

	(void)state;
	strcpy(dir, "/tmp/ranktrace-glance-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(command, sizeof(command),
		 "echo 'int ncclAllReduce(void) { return 1; }' | cc -xc -shared -fPIC -o %s/lib.so -", dir);
	return system(command) ? -1 : reader_open(&reader);
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	reader_free(reader);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static int setup(void **state)
{
	return target_set_new(reader, filters, 1, (struct target_set **)state);
}

static int teardown(void **state)
{
	target_set_free(*state);
	return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reads_a_stranger_once),
		TEST(finds_what_a_stranger_becomes),
		TEST(a_rank_gets_what_rests_below_it),
		TEST(mixes_with_other_scans),
		TEST(reads_what_was_born),
		TEST(knows_since_when_a_library_may_be_there),
		TEST(what_is_not_read_yet_is_no_look),
	};

	if (system("cc --version >/dev/null 2>&1") || geteuid()) {
		fprintf(stderr, "skipped: needs a C compiler (cc) and root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
