/* SPDX-License-Identifier: Apache-2.0
 *
 * test_rank_tree.c - which process of a tree is the rank, and whose the others are: wrappers, launchers, data workers,
 * tasks of Slurm, processes that cannot be read. Trees are tables; test_target_ranks.c has real ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inspect/discover/discover_private.h"

enum {
	LIBS = 1, /* maps the libraries */
	COMM = 3, /* and uses communicators */
	BLOCKED = 4,
	KERNEL = 8,
	OTHER_IMAGE = 16, /* ran exec since it was forked */
	OTHER_PLACE = 32, /* a container of its own */
	UNREAD = 64,      /* none of its files is read yet */
	LATE = 128,       /* some are not */
};

struct member {
	uint32_t pid, parent;
	const char *env; /* '|' for the zero byte; NULL: could not be read */
	unsigned int is;
	int rank;       /* what it shall be; -1 none */
	uint32_t owner; /* its rank's process; 0 none */
	bool listed;
};

static struct target_place place;
static struct target_set set;

static struct proc_row *row_of(const struct member *t)
{
	struct proc_row *p = calloc(1, sizeof(*p));
	char text[256] = "";

	assert_non_null(p);
	p->pub.tgid = t->pid;
	p->pub.parent_tgid = t->parent;
	p->pub.place = &place;
	p->pub.n_libs = t->is & LIBS;
	p->pub.status = t->is & BLOCKED ? TARGET_BLOCKED : TARGET_OK;
	p->pub.netns = t->is & OTHER_PLACE ? 2 : 1;
	p->has_comm = (t->is & COMM) == COMM;
	p->is_kernel = t->is & KERNEL;
	p->seen_maps = !(t->is & UNREAD);
	p->retry_ns = t->is & LATE ? 1 : 0;
	p->image = t->is & OTHER_IMAGE ? 2 : 1;
	p->has_env = t->env != NULL;
	strncat(text, t->env ? t->env : "", sizeof(text) - 1);
	for (char *c = text; *c; c++)
		*c = *c == '|' ? '\0' : *c;
	proc_environ_parse(text, t->env ? strlen(t->env) : 0, &p->env);
	return p;
}

static void tree_free(void)
{
	struct proc_row *p, *next;

	HASH_ITER (hh, set.procs, p, next) {
		HASH_DEL(set.procs, p);
		DL_DELETE(set.active, p);
		free(p);
	}
}

static struct proc_row *row(uint32_t pid)
{
	return proc_row_find(&set, pid);
}

/* Ends in the built tree: tree_free(). */
static void tree(const struct member *t, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct proc_row *p = row_of(&t[i]);

		HASH_ADD_INT(set.procs, pub.tgid, p);
		proc_row_wake(&set, p);
	}
	rank_tree_build(&set);
	for (size_t i = 0; i < n; i++) {
		const struct target_proc *p = &row(t[i].pid)->pub;

		if (p->rank != t[i].rank || p->rank_tgid != t[i].owner || row(t[i].pid)->listed != t[i].listed ||
		    p->is_child != (t[i].owner && t[i].owner != t[i].pid))
			fail_msg("%u: rank %d of process %u%s%s", p->tgid, p->rank, p->rank_tgid,
				 p->is_child ? ", a child" : "", row(t[i].pid)->listed ? ", listed" : "");
	}
}

#define TREE(...) \
	do { \
		static const struct member members[] = { __VA_ARGS__ }; \
		tree(members, sizeof(members) / sizeof(members[0])); \
	} while (0)

static void data_workers_are_their_ranks(void **state)
{
	(void)state;
	TREE({ 10, 1, "HOME=/", LIBS, -1, 0, true }, /* torchrun: the library alone makes no rank */
	     { 11, 10, "RANK=0|WORLD_SIZE=2|LOCAL_RANK=0|CUDA_VISIBLE_DEVICES=3", COMM, 0, 11, true },
	     { 12, 11, "RANK=0|WORLD_SIZE=2|LOCAL_RANK=0", LIBS, 0, 11, true },
	     { 13, 12, "HOME=/", 0, 0, 11, true }, /* one that lost its variables */
	     { 14, 10, "RANK=1|WORLD_SIZE=2|LOCAL_RANK=1", COMM, 1, 14, true }, { 15, 1, "HOME=/", 0, -1, 0, false });
	assert_int_equal(row(11)->pub.rank_source, RANK_ENV);
	assert_int_equal(row(12)->pub.rank_source, RANK_INHERITED);
	assert_int_equal(row(10)->pub.rank_source, RANK_UNKNOWN);
	assert_string_equal(row(11)->pub.visible_devices, "3");
	assert_string_equal(row(13)->pub.visible_devices, "");
	assert_int_equal(row(14)->pub.local_rank, 1);
	assert_int_equal(row(14)->pub.world_size, 2);
	tree_free();
}

/* bash train.sh, with the variables that its program inherits. */
/* On a busy host the files of a data worker may be read before those of the rank that forked it. */
static void a_worker_that_is_read_first_is_no_rank(void **state)
{
	(void)state;
	TREE({ 10, 1, "RANK=1|WORLD_SIZE=2", UNREAD, 1, 10, true },
	     { 11, 10, "RANK=1|WORLD_SIZE=2", LIBS, 1, 10, true });
	tree_free();
	TREE({ 10, 1, "RANK=1|WORLD_SIZE=2", LATE, 1, 10, true }, { 11, 10, "RANK=1|WORLD_SIZE=2", LIBS, 1, 10, true });
	tree_free();
	TREE({ 10, 1, NULL, UNREAD, 1, 10, true }, { 11, 10, "RANK=1|WORLD_SIZE=2", LIBS, 1, 10, true });
	tree_free();
	/* One that was read and has none is a wrapper; so is one of another program, read or not. */
	TREE({ 10, 1, "RANK=1|WORLD_SIZE=2", 0, -1, 0, false }, { 11, 10, "RANK=1|WORLD_SIZE=2", LIBS, 1, 11, true });
	tree_free();
	TREE({ 10, 1, "RANK=1|WORLD_SIZE=2", LATE, -1, 0, false },
	     { 11, 10, "RANK=1|WORLD_SIZE=2", LIBS | OTHER_IMAGE, 1, 11, true });
	tree_free();
}

static void a_shell_around_it_is_not_the_rank(void **state)
{
	(void)state;
	TREE({ 20, 1, "RANK=1|WORLD_SIZE=2", 0, -1, 0, false }, { 21, 20, "RANK=1|WORLD_SIZE=2", LIBS, 1, 21, true });
	tree_free();
}

/* A program that has the library mapped and runs another one that communicates. */
static void the_topmost_with_communicators_is_it(void **state)
{
	(void)state;
	TREE({ 30, 1, "RANK=1|WORLD_SIZE=2", LIBS, -1, 0, true }, { 31, 30, "RANK=1|WORLD_SIZE=2", COMM, 1, 31, true },
	     { 32, 31, "RANK=1|WORLD_SIZE=2", COMM, 1, 31, true });
	tree_free();
}

/* Nothing communicates yet. */
static void the_topmost_with_the_library_is_it_at_first(void **state)
{
	(void)state;
	TREE({ 33, 1, "RANK=1|WORLD_SIZE=2", LIBS, 1, 33, true }, { 34, 33, "RANK=1|WORLD_SIZE=2", LIBS, 1, 33, true });
	tree_free();
}

/* torchrun's agent in a pod of Kubernetes: the operator gives it the RANK of its node. */
static void an_agent_above_another_rank_is_a_launcher(void **state)
{
	(void)state;
	TREE({ 40, 1, "RANK=0|WORLD_SIZE=2", LIBS, -1, 0, true }, { 41, 40, "RANK=0|WORLD_SIZE=4", COMM, 0, 41, true },
	     { 42, 40, "RANK=1|WORLD_SIZE=4", COMM, 1, 42, true },
	     { 43, 42, "RANK=1|WORLD_SIZE=4", LIBS, 1, 42, true });
	tree_free();
	/* one that communicates itself is none, whatever it starts */
	TREE({ 44, 1, "RANK=0|WORLD_SIZE=2", COMM, 0, 44, true }, { 45, 44, "RANK=7|WORLD_SIZE=8", COMM, 7, 45, true });
	tree_free();
	/* nor does another job's name hide: the same number of two jobs is two ranks */
	TREE({ 46, 1, "RANK=0|WORLD_SIZE=2|TORCHELASTIC_RUN_ID=a", LIBS, -1, 0, true },
	     { 47, 46, "RANK=0|WORLD_SIZE=2|TORCHELASTIC_RUN_ID=b", LIBS, 0, 47, true });
	tree_free();
}

/* Every script of a step has the task's variables. */
static void a_slurm_variable_alone_makes_no_rank(void **state)
{
	(void)state;
	TREE({ 50, 1, "SLURM_PROCID=0|SLURM_NTASKS=2", 0, -1, 0, false },
	     { 51, 50, "SLURM_PROCID=0|SLURM_NTASKS=2", LIBS, 0, 51, true },
	     { 52, 50, "SLURM_PROCID=0|SLURM_NTASKS=2", 0, -1, 0, false });
	assert_true(row(52)->candidate); /* it may become one */
	assert_false(row(51)->candidate);
	assert_string_equal(row(51)->pub.job, "");
	tree_free();
}

static void what_slurm_says_otherwise_is_kept(void **state)
{
	(void)state;
	TREE({ 53, 1, "RANK=5|WORLD_SIZE=8|SLURM_PROCID=1|SLURM_NTASKS=2|SLURM_JOB_ID=7", COMM, 5, 53, true });
	assert_int_equal(row(53)->pub.other_source, RANK_SLURM);
	assert_int_equal(row(53)->pub.other_rank, 1);
	assert_int_equal(row(53)->pub.other_size, 2);
	assert_string_equal(row(53)->pub.job, "slurm-7");
	tree_free();
}

/* One task of Slurm spawns workers that tell nobody their rank. */
static void two_that_say_one_rank_are_not_believed(void **state)
{
	(void)state;
	TREE({ 60, 1, "SLURM_PROCID=0|SLURM_NTASKS=2", 0, -1, 0, false },
	     { 61, 60, "SLURM_PROCID=0|SLURM_NTASKS=2", COMM, -1, 61, true },
	     { 62, 60, "SLURM_PROCID=0|SLURM_NTASKS=2", COMM, -1, 62, true },
	     { 63, 60, "SLURM_PROCID=1|SLURM_NTASKS=2", COMM, 1, 63, true });
	assert_true(row(61)->pub.rank_ambiguous && row(62)->pub.rank_ambiguous && !row(63)->pub.rank_ambiguous);
	assert_int_equal(row(61)->pub.rank_source, RANK_UNKNOWN);
	tree_free();
	/* of two jobs, each in a network of its own */
	TREE({ 64, 1, "RANK=0|WORLD_SIZE=2", COMM, 0, 64, true },
	     { 65, 1, "RANK=0|WORLD_SIZE=2", COMM | OTHER_PLACE, 0, 65, true });
	tree_free();
}

static void one_that_cannot_be_read_beside_ranks_is_listed(void **state)
{
	(void)state;
	TREE({ 70, 1, "HOME=/", 0, -1, 0, false }, { 71, 70, "RANK=0|WORLD_SIZE=3", COMM, 0, 71, true },
	     { 72, 70, NULL, BLOCKED, -1, 0, true }, { 73, 71, NULL, BLOCKED, 0, 71, true },
	     { 74, 1, NULL, BLOCKED, -1, 0, false }, { 75, 70, NULL, BLOCKED | KERNEL, -1, 0, false },
	     { 76, 70, NULL, 0, -1, 0, false }, { 77, 75, NULL, BLOCKED, -1, 0, false });
	tree_free();
}

/* Its mmap_lock was held before we came; a data worker that it forked has its environment. */
static void one_that_cannot_be_read_is_known_by_its_child(void **state)
{
	(void)state;
	TREE({ 80, 1, NULL, BLOCKED, 3, 80, true }, { 81, 80, "RANK=3|WORLD_SIZE=4", LIBS, 3, 80, true },
	     /* not if the child is another program */
	     { 82, 1, NULL, BLOCKED, -1, 0, false },
	     { 83, 82, "RANK=2|WORLD_SIZE=4", LIBS | OTHER_IMAGE, 2, 83, true });
	assert_int_equal(row(80)->pub.rank_source, RANK_ENV);
	tree_free();
}

/* One gives its parent what was read of itself, and not what it has from a child: that parent may be the launcher,
 * which forks ranks as a rank forks its workers. */
static void what_a_child_lent_goes_no_further(void **state)
{
	(void)state;
	TREE({ 84, 1, NULL, BLOCKED, -1, 0, false }, { 85, 84, NULL, BLOCKED, 3, 85, true },
	     { 86, 85, "RANK=3|WORLD_SIZE=4", LIBS, 3, 85, true });
	tree_free();
	/* in the other order, too */
	TREE({ 86, 85, "RANK=3|WORLD_SIZE=4", LIBS, 3, 85, true }, { 85, 84, NULL, BLOCKED, 3, 85, true },
	     { 84, 1, NULL, BLOCKED, -1, 0, false });
	tree_free();
}

/* Parents are read one by one, so a circle is possible. */
static void a_circle_of_parents_ends(void **state)
{
	(void)state;
	TREE({ 90, 91, "RANK=0|WORLD_SIZE=2", LIBS, -1, 0, true }, { 91, 90, "RANK=1|WORLD_SIZE=2", LIBS, -1, 0, true },
	     { 92, 92, "RANK=1|WORLD_SIZE=2", LIBS, 1, 92, true });
	tree_free();
}

/* `far` parents up from the process `of` is `top`; the ones in between say nothing. */
static void chain(const struct member *top, const struct member *of, uint32_t far)
{
	static struct member all[80];

	all[0] = *top;
	for (uint32_t i = 1; i < far; i++)
		all[i] = (struct member){ 1000 + i, 1000 + i - 1, "HOME=/", 0, top->rank, top->owner, top->owner };
	all[1].parent = top->pid;
	all[far] = *of;
	all[far].parent = far > 1 ? 1000 + far - 1 : top->pid;
	tree(all, far + 1);
	tree_free();
}

/* A process belongs to the rank 63 parents up, and no further; a launcher is known over 64. */
static void how_far_up_it_looks(void **state)
{
	static const struct member rank = { 1, 0, "RANK=1|WORLD_SIZE=2", COMM, 1, 1, true },
				   child = { 2, 0, "HOME=/", 0, 1, 1, true },
				   nobody = { 2, 0, "HOME=/", 0, -1, 0, false };
	static const struct member agent = { 1, 0, "RANK=0|WORLD_SIZE=2", LIBS, -1, 0, true },
				   worker = { 2, 0, "RANK=1|WORLD_SIZE=4", COMM, 1, 2, true };
	static const struct member shell = { 1, 0, "RANK=1|WORLD_SIZE=2", 0, -1, 0, false },
				   program = { 2, 0, "RANK=1|WORLD_SIZE=2", LIBS, 1, 2, true };

	(void)state;
	chain(&rank, &child, 1);
	chain(&rank, &child, 63);
	for (int i = 0; i < 2; i++) {
		chain(&agent, &worker, 1 + 63 * i);
		chain(&shell, &program, 1 + 63 * i);
	}
	/* one more: of those in between 63 belong to the rank */
	for (uint32_t far = 64; far < 66; far++) {
		struct member all[80] = { rank };

		for (uint32_t i = 1; i <= far; i++)
			all[i] = i < 64 ? child : nobody;
		for (uint32_t i = 1; i <= far; i++) {
			all[i].pid = 1000 + i;
			all[i].parent = i > 1 ? 1000 + i - 1 : 1;
		}
		tree(all, far + 1);
		tree_free();
	}
	/* 65 up: both are ranks */
	for (int i = 0; i < 2; i++) {
		struct member all[80] = { i ? shell : agent };

		all[0].rank = i;
		all[0].owner = 1;
		all[0].listed = true;
		for (uint32_t k = 1; k < 65; k++)
			all[k] = (struct member){ 1000 + k, k > 1 ? 1000 + k - 1 : 1, "HOME=/", 0, -1, 0, false };
		for (uint32_t k = 1; k < 64; k++) {
			all[k].rank = i;
			all[k].owner = 1;
			all[k].listed = true;
		}
		all[65] = i ? program : worker;
		all[65].parent = 1064;
		tree(all, 66);
		tree_free();
	}
}

/* Two are in one place where all that is known of it is the same. */
static void places_that_differ(void **state)
{
	static const struct member two[] = { { 64, 1, "RANK=0|WORLD_SIZE=2", COMM, -1, 64, true },
					     { 65, 1, "RANK=0|WORLD_SIZE=2", COMM, -1, 65, true } };
	static struct target_place other;

	(void)state;
	for (int what = 0; what < 5; what++) {
		struct target_proc *p;

		tree(two, 2);
		assert_true(row(64)->pub.rank_ambiguous && row(65)->pub.rank_ambiguous);
		p = &row(65)->pub;
		other = place;
		p->place = &other;
		if (what == 1)
			p->netns = 9;
		else if (what == 2)
			strcpy(p->container, "c");
		else if (what == 3)
			strcpy(p->pod, "p");
		else if (what == 4)
			strcpy(other.cgroup, "/x");
		rank_tree_build(&set);
		assert_int_equal(row(64)->pub.rank_ambiguous, !what);
		assert_int_equal(row(65)->pub.rank, what ? 0 : -1);
		tree_free();
	}
}

/* What the variables must have in common to be of one rank. */
static void what_makes_one_identity(void **state)
{
	static const struct {
		const char *below;
		bool same;
	} cases[] = { { "RANK=1|WORLD_SIZE=4|TORCHELASTIC_RUN_ID=a", true },
		      { "RANK=2|WORLD_SIZE=4|TORCHELASTIC_RUN_ID=a", false },
		      { "RANK=1|WORLD_SIZE=8|TORCHELASTIC_RUN_ID=a", false },
		      { "RANK=1|WORLD_SIZE=4|TORCHELASTIC_RUN_ID=b", false },
		      { "PMI_RANK=1|PMI_SIZE=4|TORCHELASTIC_RUN_ID=a", false } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool same = cases[i].same;
		struct member two[] = { { 30, 1, "RANK=1|WORLD_SIZE=4|TORCHELASTIC_RUN_ID=a", LIBS, same ? 1 : -1,
					  same ? 30 : 0, true },
					{ 31, 30, cases[i].below, LIBS, i == 1 ? 2 : 1, same ? 30 : 31, true } };

		tree(two, 2);
		tree_free();
	}
}

/* What was said of a tree does not stay when it changed. */
static void a_tree_is_built_anew(void **state)
{
	(void)state;
	TREE({ 30, 1, "RANK=1|WORLD_SIZE=2", LIBS, -1, 0, true }, { 31, 30, "RANK=1|WORLD_SIZE=2", COMM, 1, 31, true });
	row(31)->has_comm = false;
	rank_tree_build(&set);
	assert_int_equal(row(30)->pub.rank, 1);
	assert_int_equal(row(31)->pub.rank_tgid, 30);
	tree_free();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_workers_are_their_ranks),
		cmocka_unit_test(a_worker_that_is_read_first_is_no_rank),
		cmocka_unit_test(a_shell_around_it_is_not_the_rank),
		cmocka_unit_test(the_topmost_with_communicators_is_it),
		cmocka_unit_test(the_topmost_with_the_library_is_it_at_first),
		cmocka_unit_test(an_agent_above_another_rank_is_a_launcher),
		cmocka_unit_test(a_slurm_variable_alone_makes_no_rank),
		cmocka_unit_test(what_slurm_says_otherwise_is_kept),
		cmocka_unit_test(two_that_say_one_rank_are_not_believed),
		cmocka_unit_test(one_that_cannot_be_read_beside_ranks_is_listed),
		cmocka_unit_test(one_that_cannot_be_read_is_known_by_its_child),
		cmocka_unit_test(what_a_child_lent_goes_no_further),
		cmocka_unit_test(a_circle_of_parents_ends),
		cmocka_unit_test(how_far_up_it_looks),
		cmocka_unit_test(places_that_differ),
		cmocka_unit_test(what_makes_one_identity),
		cmocka_unit_test(a_tree_is_built_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
