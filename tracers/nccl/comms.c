/* SPDX-License-Identifier: Apache-2.0
 *
 * comms.c - NCCL's own counters of every communicator, read from the targets' memory: no probe. A process is scanned in
 * pieces, again when it has grown threads or lost a communicator (each creation starts proxy threads), and else so
 * seldom that it costs nothing. Threads come and go in a healthy rank, too: signs that led to nothing are trusted less
 * and less. What is known is read once a second, and more often while its counters begin to stop.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/larger.h"
#include "base/log.h"
#include "base/shares.h"
#include "tracers/nccl/comm_places.h"
#include "tracers/nccl/comm_proxies.h"
#include "source.h"
#include "schemas/collector.h"
#include "inspect/stack/evidence.h"
#include "inspect/reader/proc_files.h"
#include "uthash.h"

#define SAMPLE_EVERY_NS 50000000ull
#define READ_EVERY_NS 1000000000ull
#define PROCS_EVERY_NS 500000000ull
#define STILL_NS 500000000ull /* past it: read often ... */
#define STILL_READ_EVERY_NS 250000000ull
#define STILL_LONG_NS 8000000000ull /* ... up to here: by now it was reported, or is nothing new */
#define PROXIES_TRY 8 /* reads: does one have a progress thread by now? Then after twice as many, and so on */
#define QUICK_OF 0xff /* of the newest eight samples of a process ... */
#define QUICK_AFTER 2 /* ... so many at which something was on its way: */
#define QUICK_READ_EVERY_NS 125000000ull
#define QUICK_NS 10000000000ull      /* all are read often for that long, so that ways can be compared, */
#define QUICK_PROBE_NS 3000000000ull /* past it only if they differ, */
#define QUICK_PROBED 0xffffff        /* by these samples */
#define QUICK_UNEVEN 4               /* in so many, and so many times as many, something was on its way */
#define QUICK_AGAIN_NS \
	60000000000ull      /* and not again before: 24 samples a minute more for a job on a network that is well */
#define SCAN_NS 15000000ull /* of one sample */
#define SCAN_PAGES 4096     /* of one piece: 16 MB, some ms */
#define SCAN_PAGES_MIN 512
/* From the end of a scan to the next begin: so many times what it took, and at least so long. */
#define SCAN_AGAIN_FIRST 2   /* until a scan finds what the last one did: a job makes its communicators one by one */
#define SCAN_AGAIN_CHANGE 20 /* it has changed; both are doubled by each scan that finds nothing new */
#define SCAN_QUICK 10        /* scans' time may go into that, and a 100th of a core's time behind it: */
#define SCAN_QUICK_PART 100  /* some programs make their communicators anew again and again */
#define SCAN_AGAIN_EMPTY 320 /* at a sign of change in one without communicators: at most */
#define SCAN_AGAIN_CHANGE_NS 500000000ull
#define SCAN_AGAIN_QUIET 4000 /* 0.025 % of a core */
#define SCAN_AGAIN_QUIET_NS 10000000000ull
#define THREADS_EVERY_NS 2000000000ull
#define GONE_SAMPLES 3 /* as another generation, or none: it was destroyed */

struct scan {
	struct nccl_scan_at at;
	struct nccl_places found;
	size_t n_taken; /* of found: sampled since */
	uint64_t took_ns;
};

struct scanned { /* one process */
	uint32_t tgid, uid;
	uint64_t start_ns, revision;
	bool in_list;
	struct comm_places comms;
	uint64_t read_ns, moved_ns, emitted_at_ns;
	unsigned int n_reads, try_at; /* try_at: reads until proxies are looked for again */
	unsigned int busy;            /* bits, the newest sample's first: something was on its way */
	bool has_proxy;
	uint64_t sum;        /* of all its counters, as last read */
	unsigned int n_gone; /* samples in a row that some communicator was not there */
	unsigned int n_threads;
	uint64_t threads_ns;                /* when they were counted */
	uint64_t scan_due_ns, scan_took_ns; /* took: the last whole one */
	uint64_t owed_ns, owed_at_ns;       /* what its scans took, less their part of the time since */
	uint64_t found;                     /* by the last scan: sum of places and hashes */
	unsigned int again;                 /* so many times what a scan took, at a sign of change */
	struct scan *scan;                  /* under way; NULL: none */
	UT_hash_handle hh;
};

struct comms {
	const struct sampler_ctx *ctx;
	struct layout_cache layouts;
	struct scanned *procs;
	uint64_t revision, procs_ns; /* of the set, and when it was gone through */
	uint64_t quick_ns;           /* those with a proxy are read often since; 0 never */
	bool quick_over;
	struct nccl_state *now;                   /* room for one process */
	uint64_t n_scans, n_pages, scans_took_ns; /* whole ones; pages read; all pieces */
	uint32_t pages;                           /* of a piece */
};

static int comms_open(const struct sampler_ctx *ctx, void **ret)
{
	struct comms *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->ctx = ctx;
	c->pages = SCAN_PAGES;
	c->now = calloc(NCCL_PLACES_MAX, sizeof(*c->now));
	*ret = c;
	return c->now ? 0 : -ENOMEM;
}

static void scanned_free(struct comms *c, struct scanned *p)
{
	HASH_DELETE(hh, c->procs, p);
	comm_places_free(&p->comms);
	free(p->scan);
	free(p);
}

static void comms_close(void *state)
{
	struct comms *c = state;
	struct scanned *p, *next;

	if (!c)
		return;
	if (c->n_scans)
		log_detail("comms: %" PRIu64 " scans of a process for communicators: %.1f GB of memory in %.2f s",
			   c->n_scans, c->n_pages * (double)sysconf(_SC_PAGESIZE) / 1e9, c->scans_took_ns / 1e9);
	HASH_ITER (hh, c->procs, p, next)
		scanned_free(c, p);
	layout_cache_free(&c->layouts);
	free(c->now);
	free(c);
}

/* --- who --- */

/* Where there are probes, a process born under them is seen to call: counters would say nothing new, unless the
 * probes cost too much. */
static bool is_seen_to_call(const struct comms *c, const struct target_proc *p)
{
	return c->ctx->probes && p->start_time_ns > c->ctx->start_boot_ns &&
	       !(c->ctx->is_unseen && c->ctx->is_unseen(c->ctx->is_traced_of, p));
}

static bool is_wanted(const struct comms *c, const struct target_proc *p)
{
	if ((p->status != TARGET_OK && p->status != TARGET_BLOCKED) || p->is_child || is_seen_to_call(c, p))
		return false;
	for (size_t i = 0; i < p->n_libs; i++)
		if (p->libs[i].tracers & 1u << WIRE_NCCL)
			return c->ctx->is_traced(c->ctx->is_traced_of, p);
	return false;
}

static struct scanned *scanned_find(const struct comms *c, uint32_t tgid)
{
	struct scanned *p;

	HASH_FIND(hh, c->procs, &tgid, sizeof(tgid), p);
	return p;
}

static struct scanned *scanned_get(struct comms *c, const struct target_proc *t)
{
	struct scanned *p = scanned_find(c, t->tgid);

	if (p && p->start_ns != t->start_time_ns) {
		scanned_free(c, p);
		p = NULL;
	}
	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->tgid = t->tgid;
	p->start_ns = t->start_time_ns;
	p->again = SCAN_AGAIN_FIRST;
	HASH_ADD(hh, c->procs, tgid, sizeof(p->tgid), p);
	return p;
}

static unsigned int threads_count(uint32_t tgid)
{
	char text[4096], *at;
	unsigned int n = 0;

	if (proc_read(text, sizeof(text), "/proc/%u/status", tgid) > 0 && (at = strstr(text, "\nThreads:")))
		sscanf(at, "\nThreads: %u", &n);
	return n;
}

/* Something is new in it for certain. */
static unsigned int again_soonest(const struct scanned *p)
{
	return p->owed_ns <= SCAN_QUICK * p->scan_took_ns ? SCAN_AGAIN_FIRST : SCAN_AGAIN_CHANGE;
}

static int procs_refresh(struct comms *c)
{
	struct scanned *p, *next;
	uint64_t begin_ns;
	size_t n;
	const struct target_proc *const *list = target_set_list(c->ctx->targets, &n);

	for (size_t i = 0; i < n; i++) {
		if (!is_wanted(c, list[i]))
			continue;
		p = scanned_get(c, list[i]);
		if (!p)
			return -ENOMEM;
		p->in_list = true;
		p->uid = list[i]->uid;
		if (!shares_may(c->ctx->shares, p->uid)) {
			c->revision = 0; /* again at the next sample */
			continue;
		}
		begin_ns = clock_monotonic_ns();
		if (p->revision != list[i]->revision || !p->comms.n_layouts)
			comm_layouts_learn(&c->layouts, c->ctx->reader, list[i], &p->comms);
		if (p->revision != list[i]->revision && !p->comms.n_places)
			p->again = again_soonest(p);
		p->revision = list[i]->revision;
		shares_spend(c->ctx->shares, p->uid, clock_monotonic_ns() - begin_ns);
	}
	HASH_ITER (hh, c->procs, p, next) {
		if (!p->in_list)
			scanned_free(c, p);
		else
			p->in_list = false;
	}
	return 0;
}

static bool procs_due(struct comms *c, uint64_t now_ns)
{
	uint64_t revision = target_set_revision(c->ctx->targets);

	if (revision == c->revision && now_ns - c->procs_ns < PROCS_EVERY_NS)
		return false;
	c->revision = revision;
	c->procs_ns = now_ns;
	return true;
}

/* --- finding --- */

static void parent_copies_drop(struct comms *c, struct scanned *p)
{
	const struct target_proc *t = target_set_find(c->ctx->targets, p->tgid);
	const struct scanned *parent = t ? scanned_find(c, t->parent_tgid) : NULL;

	comm_copies_drop(&p->comms, parent ? &parent->comms : NULL);
}

/* A scan without a result makes the next one wait longer, also of a process that has no communicator: a launcher that
 * maps NCCL never has any. */
static void again_set(struct scanned *p)
{
	uint64_t found = p->comms.n_places;

	for (size_t i = 0; i < p->comms.n_places; i++)
		found += p->comms.places[i].addr ^ p->comms.states[i].hash;
	if (found != p->found)
		p->again = again_soonest(p);
	else if (p->again < SCAN_AGAIN_QUIET)
		p->again *= 2;
	p->found = found;
}

/* A process that is sampled no more would look as if it did not move. */
static int gone_emit(struct comms *c, struct scanned *p, uint64_t now_ns)
{
	struct comm_gone gone;
	int err = 0;

	while (comm_gone_next(&p->comms, &gone) && !err) {
		p->n_gone = GONE_SAMPLES;
		err = comm_gone_emit(p->tgid, &gone, now_ns, c->ctx->emit, c->ctx->emit_to);
	}
	return err;
}

/* What the scan has found so far is sampled from now on. */
static int found_take(struct comms *c, struct scanned *p)
{
	int err = comm_places_take(&p->comms, &p->scan->found);

	p->scan->n_taken = p->scan->found.n;
	if (!err)
		err = comm_states_begin(&p->comms, c->ctx->reader, p->tgid);
	if (!err)
		err = gone_emit(c, p, clock_monotonic_ns());
	if (err)
		return err;
	parent_copies_drop(c, p);
	p->read_ns = 0; /* at once */
	return 0;
}

static void scan_charge(struct scanned *p, uint64_t now_ns)
{
	uint64_t paid_ns = (now_ns - p->owed_at_ns) / SCAN_QUICK_PART;

	p->scan_took_ns = p->scan->took_ns;
	p->owed_ns -= smaller(p->owed_ns, paid_ns);
	p->owed_ns += p->scan_took_ns;
	p->owed_at_ns = now_ns;
}

static int scan_end(struct comms *c, struct scanned *p, int err)
{
	bool quiet;

	scan_charge(p, clock_monotonic_ns());
	c->n_scans++;
	c->n_pages += p->scan->found.pages;
	c->scans_took_ns += p->scan_took_ns;
	if (!err)
		err = found_take(c, p);
	if (!err) {
		again_set(p);
		p->n_gone = 0;
	}
	free(p->scan);
	p->scan = NULL;
	quiet = !err && p->comms.n_places && p->again >= SCAN_AGAIN_CHANGE;
	p->scan_due_ns = clock_monotonic_ns() + (quiet ? SCAN_AGAIN_QUIET : p->again) * p->scan_took_ns +
			 (quiet ? SCAN_AGAIN_QUIET_NS : SCAN_AGAIN_CHANGE_NS);
	return err == -ENOMEM || err == -EPIPE ? err : 0;
}

static int scan_begin(struct scanned *p)
{
	p->scan = calloc(1, sizeof(*p->scan));
	return p->scan ? 0 : -ENOMEM;
}

/* Who shows no communicator yet is the most wanted, and is not left before it does; last those that show some. */
enum wanted { WANTED_NOT, WANTED_AGAIN, WANTED_REST, WANTED_FIRST, WANTED_GO_ON };

static enum wanted wanted(const struct comms *c, const struct scanned *p, uint64_t now_ns)
{
	if (!p->comms.n_layouts || !shares_may(c->ctx->shares, p->uid))
		return WANTED_NOT;
	if (p->scan)
		return p->comms.n_places ? WANTED_REST : WANTED_GO_ON;
	if (p->scan_due_ns > now_ns)
		return WANTED_NOT;
	return p->comms.n_places ? WANTED_AGAIN : WANTED_FIRST;
}

static struct scanned *scan_choose(const struct comms *c, uint64_t now_ns)
{
	struct scanned *best = NULL;
	enum wanted most = WANTED_NOT;

	for (struct scanned *p = c->procs; p; p = p->hh.next)
		if (wanted(c, p, now_ns) > most) {
			most = wanted(c, p, now_ns);
			best = p;
		}
	return best;
}

/* One piece. 1: go on with it; 0: nothing more to do now; -errno. */
static int scan_piece(struct comms *c, struct scanned *p)
{
	uint64_t begin_ns = clock_monotonic_ns();
	int more = nccl_scan_step(c->ctx->reader, p->tgid, p->comms.layouts, p->comms.n_layouts, c->pages, &p->scan->at,
				  &p->scan->found),
	    err = 0;

	p->scan->took_ns += clock_monotonic_ns() - begin_ns;
	shares_spend(c->ctx->shares, p->uid, clock_monotonic_ns() - begin_ns);
	if (more == -EINPROGRESS || more == -EAGAIN) { /* a slow machine: the same again, in less, later */
		c->pages = c->pages / 2 > SCAN_PAGES_MIN ? c->pages / 2 : SCAN_PAGES_MIN;
		return 0;
	}
	if (more <= 0)
		return scan_end(c, p, more) ?: 1;
	if (p->scan->found.n > p->scan->n_taken)
		err = found_take(c, p);
	return err == -ENOMEM || err == -EPIPE ? err : 1;
}

static int scans_go_on(struct comms *c, uint64_t now_ns)
{
	uint64_t until_ns = now_ns + SCAN_NS;
	int more = 1;

	while (more > 0 && clock_monotonic_ns() < until_ns) {
		struct scanned *p = scan_choose(c, now_ns);

		if (!p)
			return 0;
		if (!p->scan)
			more = scan_begin(p);
		more = more < 0 ? more : scan_piece(c, p);
	}
	return more < 0 ? more : 0;
}

/* --- reading --- */

/* Where the main thread sits shows who waits for whom when counters alone do not (Send and Recv are in none). */
static int place_emit(struct comms *c, struct scanned *p, uint64_t now_ns)
{
	union {
		struct record_task_at f;
		char bytes[sizeof(struct record_task_at) + 720];
	} u = {};
	struct target_evidence e = { .syscall_nr = -1 };
	size_t most = sizeof(u) - 8;

	if (now_ns - p->emitted_at_ns < READ_EVERY_NS ||
	    evidence_read(c->ctx->reader, p->tgid, p->tgid, READER_DEADLINE_MS, &e))
		return 0;
	p->emitted_at_ns = now_ns;
	u.f.hdr = (struct wire_hdr){ .size = sizeof(u.f),
				     .tracer = WIRE_COLLECTOR,
				     .kind = RECORD_TASK_AT,
				     .tgid = p->tgid,
				     .tid = p->tgid,
				     .ts_ns = clock_monotonic_ns() };
	u.f.wchan_len = record_text_put(&u.f.hdr, most, e.wchan);
	u.f.syscall_len = record_text_put(&u.f.hdr, most, e.syscall);
	u.f.file_len = record_text_put(&u.f.hdr, most, e.file);
	record_pad(&u.f.hdr);
	return c->ctx->emit(c->ctx->emit_to, &u.f.hdr);
}

static bool uneven(const struct comms *c)
{
	unsigned int most = 0, least = 32, n;

	for (const struct scanned *p = c->procs; p; p = p->hh.next) {
		if (!p->has_proxy) /* lint: uthash gives a next one that lives */
			continue;
		n = __builtin_popcount(p->busy & QUICK_PROBED);
		most = n > most ? n : most;
		least = n < least ? n : least;
	}
	return most >= QUICK_UNEVEN && least * QUICK_UNEVEN <= most;
}

static bool is_quick(const struct comms *c, const struct scanned *p, uint64_t now_ns)
{
	return p->has_proxy && c->quick_ns && !c->quick_over && now_ns - c->quick_ns < QUICK_NS;
}

static bool read_due(const struct comms *c, const struct scanned *p, uint64_t now_ns)
{
	uint64_t still_ns = p->read_ns - p->moved_ns, every_ns = READ_EVERY_NS; /* as of the last read */

	if (p->read_ns && still_ns >= STILL_NS && still_ns < STILL_LONG_NS)
		every_ns = STILL_READ_EVERY_NS;
	if (is_quick(c, p, now_ns))
		every_ns = QUICK_READ_EVERY_NS;
	return p->comms.n_places && now_ns - p->read_ns + SAMPLE_EVERY_NS / 2 >= every_ns;
}

/* Its counters; a creation changes a sum, too. */
static void movement_note(struct scanned *p, const struct nccl_state *now, uint64_t now_ns)
{
	uint64_t sum = p->comms.n_places;
	bool gone = false;

	for (size_t i = 0; i < p->comms.n_places; i++) {
		gone |= !now[i].valid;
		for (uint32_t k = 0; now[i].valid && k < now[i].n_counters; k++)
			sum += now[i].counters[k];
	}
	if (sum != p->sum || !p->moved_ns)
		p->moved_ns = now_ns;
	p->sum = sum;
	p->n_gone = gone ? p->n_gone + 1 : 0;
}

static void changed_note(struct scanned *p, uint64_t now_ns)
{
	unsigned int n = p->n_threads, again = p->again;
	bool gone = p->n_gone >= GONE_SAMPLES;
	uint64_t due_ns;

	if (gone)
		again = smaller(again, again_soonest(p));
	else if (!p->comms.n_places)
		again = smaller(again, SCAN_AGAIN_EMPTY);
	due_ns = now_ns + SCAN_AGAIN_CHANGE_NS + again * p->scan_took_ns;
	if (now_ns - p->threads_ns >= THREADS_EVERY_NS) {
		p->threads_ns = now_ns;
		n = threads_count(p->tgid);
	}
	if (gone || (p->n_threads && n > p->n_threads))
		p->scan_due_ns = smaller(due_ns, p->scan_due_ns);
	p->n_threads = n;
}

static int proxies_emit(struct comms *c, struct scanned *p, uint64_t now_ns)
{
	struct proxies_seen seen;
	int err = comm_proxies_sample(&p->comms, c->ctx->reader, p->tgid, c->ctx->emit, c->ctx->emit_to, &seen);

	p->has_proxy |= seen.any;
	p->busy = p->busy << 1 | seen.busy;
	if (__builtin_popcount(p->busy & QUICK_OF) >= QUICK_AFTER &&
	    (!c->quick_ns || now_ns - c->quick_ns >= QUICK_AGAIN_NS)) {
		c->quick_ns = now_ns;
		c->quick_over = false;
	}
	return err;
}

/* How far transfers are; and where nothing was entered for a while, where the host sits. */
static int progress_emit(struct comms *c, struct scanned *p, uint64_t now_ns)
{
	bool still = now_ns - p->moved_ns >= STILL_NS;
	int err = still ? place_emit(c, p, now_ns) : 0;

	if (err)
		return err;
	if (!still && !p->has_proxy) {
		if (p->n_reads++ < p->try_at)
			return 0;
		p->try_at = p->try_at ? 2 * p->try_at : PROXIES_TRY;
	}
	return proxies_emit(c, p, now_ns);
}

static int read_one(struct comms *c, struct scanned *p)
{
	int err = comm_states_sample(&p->comms, c->ctx->reader, p->tgid, c->now);
	uint64_t now_ns = clock_monotonic_ns(); /* behind the read */

	p->read_ns = now_ns;
	if (err == -ENOMEM || err == -EPIPE)
		return err;
	if (err)
		return 0;
	movement_note(p, c->now, now_ns);
	for (size_t i = 0; !err && i < p->comms.n_places; i++)
		if (c->now[i].valid)
			err = comm_sample_emit(p->tgid, p->comms.places[i].addr, &c->now[i], now_ns, c->ctx->emit,
					       c->ctx->emit_to);
	if (!err)
		err = gone_emit(c, p, now_ns);
	return err ? err : progress_emit(c, p, now_ns);
}

/* Time is up: those left are still due, and the first at the next sample, as those that were read are not. */
static bool is_over(const struct comms *c)
{
	return c->ctx->until_ns && clock_monotonic_ns() >= c->ctx->until_ns;
}

static int comms_sample(void *state, uint64_t now_ns)
{
	struct comms *c = state;
	int err = procs_due(c, now_ns) ? procs_refresh(c) : 0;
	uint64_t begin_ns;

	if (c->quick_ns && now_ns - c->quick_ns >= QUICK_PROBE_NS && !uneven(c))
		c->quick_over = true;
	for (struct scanned *p = c->procs; !err && p; p = p->hh.next) {
		if (!read_due(c, p, now_ns) && p->comms.n_places) /* lint: uthash gives a next one that lives */
			continue;
		if (!shares_may(c->ctx->shares, p->uid))
			continue;
		begin_ns = clock_monotonic_ns();
		changed_note(p, now_ns);
		err = p->comms.n_places ? read_one(c, p) : 0;
		shares_spend(c->ctx->shares, p->uid, clock_monotonic_ns() - begin_ns);
		if (is_over(c))
			break;
	}
	return err ? err : scans_go_on(c, clock_monotonic_ns());
}

static const struct sampler comms_sampler = {
	.tiers = SAMPLER_ALWAYS,
	.period_ns = SAMPLE_EVERY_NS,
	.remedy = "run as root, or with CAP_SYS_PTRACE",
	.open = comms_open,
	.sample = comms_sample,
	.close = comms_close,
};

const struct source_live source_comms = { .sampler = &comms_sampler };
