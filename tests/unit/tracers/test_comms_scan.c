/* SPDX-License-Identifier: Apache-2.0
 *
 * test_comms_scan.c - whose memory the sampler of communicators looks through next, and how soon again (decisions 640,
 * 643). The real sampler, over processes that exist only here and a clock that only scans move: stands in for the scan,
 * the reads of memory and of /proc, the set of targets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"
#include "inspect/stack/evidence.h"
#include "schemas/collector.h"
#include "source.h"
#include "tracers/nccl/comm_proxies.h"
#include "tracers/nccl/wire/comm.h"

#define SEC 1000000000ull
#define PROCS 4
#define COMMS 4
#define PERIOD_NS 50000000ull
#define PAGE_NS 1000ull /* to look through one: 4 GB take a second */
#define PER_SEC (SEC / PAGE_NS)
#define TGID(p) (100 + (p))

static struct fake { /* a process */
	unsigned int n_samples;
	uint64_t pages;
	unsigned int n_threads;
	uint64_t begun, ended;   /* scans */
	uint64_t first_scan_ns;  /* when the first one was over */
	uint64_t scanned_ns;     /* all of them took */
	uint64_t hashes[COMMS];  /* of its communicators, in the order of their pages; 0: none there */
	uint64_t at[COMMS];      /* its page */
	uint64_t seen_ns[COMMS]; /* when the present one was first sampled; 0: not yet */
} fakes[PROCS];
static size_t n_fakes;
static uint64_t now_ns, n_hashes;

/* --- what the sampler stands on --- */

uint64_t clock_monotonic_ns(void)
{
	return now_ns;
}

uint64_t clock_boottime_ns(void)
{
	return now_ns;
}

uint64_t clock_realtime_offset_ns(void)
{
	return 0;
}

static struct target_file file = { .fd = 0 };
static struct target_lib lib = { .file = &file, .tracers = 1u << WIRE_NCCL };
static struct target_proc procs[PROCS];
static const struct target_proc *list[PROCS];

const struct target_proc *const *target_set_list(struct target_set *s, size_t *ret_n)
{
	(void)s;
	*ret_n = n_fakes;
	return list;
}

const struct target_proc *target_set_find(const struct target_set *s, uint32_t tgid)
{
	(void)s;
	return tgid >= TGID(0) && tgid < TGID(n_fakes) ? &procs[tgid - TGID(0)] : NULL;
}

uint64_t target_set_revision(const struct target_set *s)
{
	(void)s;
	return 1;
}

int nccl_layout_fetch(struct reader *r, int fd, struct nccl_layout *ret)
{
	(void)r;
	(void)fd;
	*ret = (struct nccl_layout){ .size = 8 };
	return 0;
}

int nccl_proxy_layout_fetch(struct reader *r, int fd, struct nccl_proxy_layout *ret)
{
	(void)r;
	(void)fd;
	(void)ret;
	return 0;
}

int nccl_scan_step(struct reader *r, pid_t pid, const struct nccl_layout *layouts, size_t n_layouts, uint32_t pages_max,
		   struct nccl_scan_at *at, struct nccl_places *ret)
{
	struct fake *f = &fakes[pid - TGID(0)];
	uint64_t from = at->addr, to = from + pages_max < f->pages ? from + pages_max : f->pages;

	(void)r;
	(void)layouts;
	assert_int_equal(n_layouts, 1);
	f->begun += !from;
	for (int i = 0; i < COMMS; i++)
		if (f->hashes[i] && f->at[i] >= from && f->at[i] < to)
			ret->at[ret->n++] = (struct nccl_place){ .addr = 1 + f->at[i] };
	now_ns += (to - from) * PAGE_NS;
	f->scanned_ns += (to - from) * PAGE_NS;
	at->addr = to;
	if (to < f->pages)
		return 1;
	f->ended++;
	f->first_scan_ns = f->first_scan_ns ? f->first_scan_ns : now_ns;
	return 0;
}

int nccl_states_read(struct reader *r, pid_t pid, const struct nccl_layout *layouts, const struct nccl_place *places,
		     size_t n, unsigned deadline_ms, const struct nccl_state *before, struct nccl_state *ret)
{
	const struct fake *f = &fakes[pid - TGID(0)];

	(void)r;
	(void)layouts;
	(void)deadline_ms;
	(void)before;
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct nccl_state){ .read = true };
		for (int k = 0; k < COMMS; k++)
			if (f->hashes[k] && 1 + f->at[k] == places[i].addr)
				ret[i] = (struct nccl_state){ .valid = true,
							      .read = true,
							      .hash = f->hashes[k],
							      .rank = pid - TGID(0),
							      .nranks = PROCS,
							      .n_counters = 1,
							      .counters = { now_ns } };
	}
	return 0;
}

bool nccl_counters_stand(const struct nccl_state *s, size_t n)
{
	(void)s;
	(void)n;
	return false;
}

int comm_proxies_sample(struct comm_places *c, struct reader *r, uint32_t tgid,
			int (*emit)(void *to, const struct wire_hdr *rec), void *to, struct proxies_seen *ret)
{
	(void)c;
	(void)r;
	(void)tgid;
	(void)emit;
	(void)to;
	*ret = (struct proxies_seen){ 0 };
	return 0;
}

int evidence_read(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, struct target_evidence *ret)
{
	(void)r;
	(void)tgid;
	(void)tid;
	(void)deadline_ms;
	(void)ret;
	return -ESRCH;
}

int proc_read(char *to, size_t size, const char *format, ...)
{
	unsigned int tgid;
	va_list args;

	va_start(args, format);
	tgid = va_arg(args, unsigned int);
	va_end(args);
	return snprintf(to, size, "Name:\ttrain\nThreads:\t%u\n", fakes[tgid - TGID(0)].n_threads);
}

/* --- the session --- */

static struct sampler_ctx ctx;
static void *comms;

static bool every_one(const void *of, const struct target_proc *p)
{
	(void)of;
	(void)p;
	return true;
}

static int note(void *to, const struct wire_hdr *rec)
{
	const struct record_comm_sample *s = (const struct record_comm_sample *)rec;
	struct fake *f = &fakes[rec->tgid - TGID(0)];

	(void)to;
	f->n_samples += rec->kind == RECORD_COMM_SAMPLE;
	for (int i = 0; i < COMMS && rec->kind == RECORD_COMM_SAMPLE; i++)
		if (f->hashes[i] == s->body.hash && !f->seen_ns[i])
			f->seen_ns[i] = now_ns;
	return 0;
}

/* A session meets n processes; to look each through takes so long. */
static void session(size_t n, double scan_s)
{
	now_ns = 1000 * SEC;
	n_fakes = n;
	memset(fakes, 0, sizeof(fakes));
	for (size_t i = 0; i < n; i++) {
		fakes[i] = (struct fake){ .pages = scan_s * PER_SEC, .n_threads = 10 };
		procs[i] = (struct target_proc){ .tgid = TGID(i),
						 .status = TARGET_OK,
						 .libs = &lib,
						 .n_libs = 1,
						 .revision = 1,
						 .start_time_ns = 5 };
		list[i] = &procs[i];
	}
	ctx = (struct sampler_ctx){ .is_traced = every_one, .emit = note };
	assert_int_equal(source_comms.sampler->open(&ctx, &comms), 0);
}

static int session_end(void **state)
{
	(void)state;
	source_comms.sampler->close(comms);
	comms = NULL;
	return 0;
}

static void goes_on(double seconds)
{
	uint64_t end_ns = now_ns + (uint64_t)(seconds * SEC), next_ns;

	while (now_ns < end_ns) {
		next_ns = now_ns + PERIOD_NS;
		assert_int_equal(source_comms.sampler->sample(comms, now_ns), 0);
		assert_true(now_ns < next_ns);
		now_ns = next_ns;
	}
}

/* Process p makes communicator i, at that part of its memory: a thread more. */
static void makes(int p, int i, double where)
{
	struct fake *f = &fakes[p];

	f->hashes[i] = ++n_hashes;
	f->at[i] = where * f->pages;
	f->seen_ns[i] = 0;
	f->n_threads++;
}

/* The same of them, at other places; the old ones' memory is another's now. */
static void makes_anew(int p, int n)
{
	for (int i = 0; i < n; i++)
		makes(p, i, ((i + 1) * 10 + n_hashes % 7) / 100.0);
	fakes[p].n_threads -= n;
}

/* How long after then it was first sampled; -1: it was not. */
static double seen_after_s(int p, int i, uint64_t then_ns)
{
	return fakes[p].seen_ns[i] ? (fakes[p].seen_ns[i] - then_ns) / 1e9 : -1;
}

static bool within(double s, double most)
{
	if (s < 0 || s > most)
		printf("sampled after %.2f s\n", s);
	return s >= 0 && s <= most;
}

/* --- tests --- */

/* A scan of 3.3 s has a third of the time: it ends after 11 s. What it has found by then waits no longer. */
static void what_is_found_is_sampled_at_once(void **state)
{
	uint64_t begin_ns;

	(void)state;
	session(1, 3.3);
	begin_ns = now_ns;
	makes(0, 0, 0.1);
	makes(0, 1, 0.6);
	goes_on(20);
	assert_true(within(seen_after_s(0, 0, begin_ns), 1.5));
	assert_true(within(seen_after_s(0, 1, begin_ns), 6.3));
	assert_true(fakes[0].first_scan_ns > begin_ns + 9 * SEC);
}

/* Each rank shows one before any of them is looked through to its end: none is blind until the others are through. */
static void who_shows_none_goes_first(void **state)
{
	uint64_t begin_ns;

	(void)state;
	session(PROCS, 3.3);
	begin_ns = now_ns;
	for (int p = 0; p < PROCS; p++)
		makes(p, 0, 0.1);
	goes_on(60);
	for (int p = 0; p < PROCS; p++) {
		assert_true(within(seen_after_s(p, 0, begin_ns), 6));
		for (int q = 0; q < PROCS; q++)
			assert_true(fakes[q].first_scan_ns > fakes[p].seen_ns[0]);
	}
}

/* One that makes its first later than the others is not behind their second scans, either. */
static void nor_waits_it_for_second_scans(void **state)
{
	uint64_t made_ns;

	(void)state;
	session(PROCS, 3.3);
	for (int p = 1; p < PROCS; p++)
		makes(p, 0, 0.1);
	goes_on(45); /* all are through, and the others' turn comes again */
	made_ns = now_ns;
	makes(0, 0, 0.9);
	goes_on(40);
	assert_true(within(seen_after_s(0, 0, made_ns), 30));
}

/* A young job makes its communicators one by one: each is there a moment later, and not after twenty times the scan. */
static void a_young_process_is_looked_through_again_soon(void **state)
{
	(void)state;
	session(1, 0.5);
	goes_on(2);
	assert_int_equal(fakes[0].ended, 1);
	for (int i = 0; i < COMMS; i++) {
		uint64_t made_ns = now_ns;

		makes(0, i, 0.2 * (i + 1));
		goes_on(5);
		assert_true(within(seen_after_s(0, i, made_ns), 8));
	}
	goes_on(600); /* no more comes of it */
	assert_in_range(fakes[0].ended, 6, 12);
}

/* A program that makes its communicators anew every few seconds costs no more than a sign of change ever did. */
static void made_anew_again_and_again(void **state)
{
	static const double every_s[] = { 3, 10, 30 };

	(void)state;
	for (int e = 0; e < 3; e++) {
		int n = 900 / every_s[e], missed = 0;
		uint64_t before_ns;

		session(1, 0.3);
		makes_anew(0, 3);
		goes_on(60);
		before_ns = fakes[0].scanned_ns;
		for (int i = 0; i < n; i++) {
			makes_anew(0, 3);
			goes_on(every_s[e]);
			missed += !fakes[0].seen_ns[0] || !fakes[0].seen_ns[2];
		}
		printf("anew every %g s: %.1f %% of a core, %d of %d not seen\n", every_s[e],
		       (fakes[0].scanned_ns - before_ns) / 9e9, missed, n);
		assert_true(fakes[0].scanned_ns - before_ns < 900 * SEC / 20);
		assert_true(every_s[e] < 10 || !missed);
		session_end(NULL);
	}
	session(1, 0.3);
}

/* One that did so once, an hour ago, is as a young one again. */
static void anew_after_a_long_time(void **state)
{
	uint64_t made_ns;

	(void)state;
	session(1, 0.3);
	makes_anew(0, 3);
	goes_on(3600);
	for (int i = 0; i < 3; i++) {
		made_ns = now_ns;
		makes_anew(0, 1);
		goes_on(5); /* its first sign: the old one is gone */
		assert_true(within(seen_after_s(0, 0, made_ns), 5));
		made_ns = now_ns;
		makes(0, 1, 0.9);
		goes_on(5);
		assert_true(within(seen_after_s(0, 1, made_ns), 4));
		goes_on(1800);
	}
}

/* The time of each sample is up at once: it reads one process, and the next one the next. */
static void a_sample_that_is_over_reads_one(void **state)
{
	unsigned int before, n;

	(void)state;
	session(PROCS, 0.1);
	for (int p = 0; p < PROCS; p++)
		makes(p, 0, 0.1);
	goes_on(10);
	now_ns += 5 * SEC; /* all of them are due */
	ctx.until_ns = 1;
	for (int p = 0; p < PROCS; p++)
		fakes[p].n_samples = 0;
	for (before = 0; now_ns < 1018 * SEC; before = n) {
		goes_on(0.05);
		n = 0;
		for (int p = 0; p < PROCS; p++)
			n += fakes[p].n_samples;
		assert_in_range(n, before, before + 1);
	}
	for (int p = 0; p < PROCS; p++)
		assert_in_range(fakes[p].n_samples, 2, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_is_found_is_sampled_at_once, session_end),
		cmocka_unit_test_teardown(who_shows_none_goes_first, session_end),
		cmocka_unit_test_teardown(nor_waits_it_for_second_scans, session_end),
		cmocka_unit_test_teardown(a_young_process_is_looked_through_again_soon, session_end),
		cmocka_unit_test_teardown(made_anew_again_and_again, session_end),
		cmocka_unit_test_teardown(anew_after_a_long_time, session_end),
		cmocka_unit_test_teardown(a_sample_that_is_over_reads_one, session_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
