/* SPDX-License-Identifier: Apache-2.0
 *
 * targets.c - see targets.h.
 *
 * A young process (20 s from its fork, exec or discovery) is scanned every 50 ms, so that its libraries get probes
 * before its first call. A new process (half a second from its exec) is scanned every 5 ms, because small programs make
 * their first call by then.
 */
#include "session/targets_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/probe_rows.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/shares.h"
#include "model/model.h"
#include "session/rules/budget_rules.h"
#include "source.h"
#include "session/load_error.h"
#include "session/parts/target_threads.h"
#include "tracers/process/proc_record.h"
#include "schemas/collector.h"
#include "tracers/process/life.h"
#include "inspect/discover/discover.h"
#include "tracers/nccl/nccl.h"
#include "uthash.h"

#define YOUNG_NS 20000000000ull
#define COMM_YOUNG_NS 1000000000ull /* young for that long again */
#define THREADS_EVERY_NS 1000000000ull
#define THREADS_WATCH_EVERY_NS 30000000000ull /* tier watch: one file of /proc per thread, and a rank has hundreds */
#define UNSEEN_NS 2000000000ull               /* for a process that the kernel announced and no scan ever found */
#define YOUNG_MAX 4096
#define NEW_PROC_NS 500000000ull /* since its exec */
#define NEW_PROC_POLL_NS \
	5000000ull /* at least, and as long as the last scan of them took: half of the collector's time at most */
#define NEW_PROCS_MAX 8
#define SAME_START_NS 1000000000ull /* a fork is recorded after the start, on a busy machine long after */
#define ATTACH_NS 50000000ull       /* of one poll */

static void traced_free(struct session_targets *t, struct traced *p)
{
	HASH_DELETE(hh, t->traced, p);
	target_threads_free(&p->threads);
	free(p);
}

void session_targets_free(struct session_targets *t)
{
	struct traced *p, *next;

	if (!t)
		return;
	HASH_ITER (hh, t->traced, p, next)
		traced_free(t, p);
	free(t);
}

static struct traced *traced_find(struct session_targets *t, uint32_t tgid)
{
	struct traced *p;

	HASH_FIND(hh, t->traced, &tgid, sizeof(tgid), p);
	return p;
}

static struct traced *traced_get(struct session_targets *t, uint32_t tgid, uint64_t now_ns)
{
	struct traced *p = traced_find(t, tgid);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->tgid = tgid;
	p->uid = UID_UNKNOWN;
	p->since_ns = now_ns;
	p->tier = t->cfg->tier;
	p->young_until_ns = now_ns + YOUNG_NS;
	HASH_ADD(hh, t->traced, tgid, sizeof(tgid), p);
	t->n_seen++;
	return p;
}

struct session_targets *session_targets_new(const struct session_cfg *cfg, struct target_set *set, struct loader *l,
					    struct shares *shares, int (*emit)(void *to, const struct wire_hdr *rec),
					    void *to)
{
	struct session_targets *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct session_targets){ .cfg = cfg,
				       .set = set,
				       .loader = l,
				       .shares = shares,
				       .emit = emit,
				       .to = to,
				       .start_boot_ns = clock_boottime_ns() };
	/* Poll processes of --pid even if they do not train: their children may. */
	for (int i = 0; i < cfg->n_pids; i++)
		traced_get(t, cfg->pids[i], clock_monotonic_ns());
	if (cfg->child)
		traced_get(t, cfg->child, clock_monotonic_ns());
	return t;
}

static uint32_t groups_held(const struct session_targets *t)
{
	bool budget = t->cfg->budget_ppm || t->cfg->budget_node_ppm;

	return budget && loader_attaches_per_process(t->loader) ? BUDGET_HELD : 0;
}

static bool pid_listed(const struct session_cfg *cfg, uint32_t tgid)
{
	for (int i = 0; i < cfg->n_pids; i++)
		if (cfg->pids[i] == tgid)
			return true;
	return cfg->child && tgid == (uint32_t)cfg->child;
}

static bool descends_from_listed(const struct session_targets *t, const struct target_proc *p)
{
	for (int depth = 0; p && depth < 64; depth++) {
		if (pid_listed(t->cfg, p->tgid))
			return true;
		p = p->parent_tgid ? target_set_find(t->set, p->parent_tgid) : NULL;
	}
	return false;
}

static bool is_wanted(const struct session_targets *t, const struct target_proc *p)
{
	const struct session_cfg *cfg = t->cfg;

	if (p->status == TARGET_GONE)
		return false;
	if (cfg->n_pids || cfg->child)
		return loader_is_target(t->loader, p->tgid) || descends_from_listed(t, p);
	return !cfg->job || target_proc_of_job(p, cfg->job);
}

/* A rank of a job that is traced, by its launcher's name, and of that job's user: another's claim costs it nothing. */
static bool is_left_out(const struct session_targets *t, const struct target_proc *p)
{
	if (p->status == TARGET_GONE || p->is_child || p->rank < 0 || is_wanted(t, p))
		return false;
	for (const struct traced *one = t->traced; one; one = one->hh.next) {
		const struct target_proc *known = one->known ? target_set_find(t->set, one->tgid) : NULL;

		if (known && known->uid == p->uid && !strcmp(known->job, p->job))
			return true;
	}
	return false;
}

/* With --pid: says once that it leaves ranks of its jobs out: nothing else distinguishes these from ranks that died. */
static int partial_emit(struct session_targets *t, const struct target_proc *const *list, size_t n, uint64_t now_ns)
{
	const struct record_partial partial = {
		.hdr = { .size = sizeof(partial), .tracer = WIRE_COLLECTOR, .kind = RECORD_PARTIAL, .ts_ns = now_ns }
	};

	for (size_t i = 0; !t->partial && i < n; i++)
		t->partial = is_left_out(t, list[i]);
	return t->partial ? t->emit(t->to, &partial.hdr) : 0;
}

static int threads_emit(struct session_targets *t, struct traced *p, uint64_t now_ns)
{
	if (p->threads_ns &&
	    now_ns - p->threads_ns < (t->cfg->tier == TIER_WATCH ? THREADS_WATCH_EVERY_NS : THREADS_EVERY_NS))
		return 0;
	p->threads_ns = now_ns;
	return target_threads_emit(&p->threads, &p->threads_from, p->tgid, now_ns, t->emit, t->to);
}

static void returns_drop(struct session_targets *t, const struct target_proc *p)
{
	uint32_t n = loader_returns_drop(t->loader, p->tgid);

	if (n)
		log_info("pid %u came under seccomp: removed its %u return probes, because a filter may kill the "
			 "process for them",
			 p->tgid, n);
}

/* Of a process that runs already a group at a time is attached, and measured. */
static uint32_t held_at_first(const struct session_targets *t, const struct target_proc *p)
{
	bool is_running = p->start_time_ns <= t->start_boot_ns && p->tgid != (uint32_t)t->cfg->child;

	return is_running ? groups_held(t) : 0;
}

/* Makes it a target if its user, and the table, have room for one more; it is tried again at each scan. */
static int target_admit(struct session_targets *t, struct traced *traced, const struct target_proc *p)
{
	int err = loader_target_add(t->loader, p->tgid, p->uid);
	bool refused = err == -EDQUOT || err == -ENOSPC;

	t->n_refused += refused && !traced->refused;
	traced->refused = refused;
	return refused ? 0 : err;
}

static int proc_trace_now(struct session_targets *t, const struct target_proc *p, uint64_t now_ns)
{
	struct traced *traced = traced_get(t, p->tgid, now_ns);
	int err = 0;

	if (!traced)
		return -ENOMEM;
	if (traced->known && traced->start_time_ns != p->start_time_ns) { /* the pid was reused */
		loader_target_forget(t->loader, p->tgid);
		target_threads_free(&traced->threads);
		traced->known = traced->has_comm = traced->late = false;
		traced->looked_ns = traced->files_ns = 0;
	}
	traced->dead = false;
	traced->uid = p->uid;
	if (!traced->known) {
		traced->shed = t->shed_shared;
		traced->held = held_at_first(t, p);
		traced->by_ranges = false;
		err = target_admit(t, traced, p);
		if (err || traced->refused)
			return err;
		loader_proc_known(t->loader, p);
	}
	if (!err && (!traced->known || traced->revision != p->revision))
		err = proc_record_emit(p, now_ns, t->emit, t->to);
	if (!err)
		err = threads_emit(t, traced, now_ns);
	if (p->seccomp > 0)
		returns_drop(t, p);
	probes_place(t, traced, p, now_ns);
	if (traced->has_comm)
		target_set_has_comm(t->set, p->tgid);
	traced->known = true;
	traced->start_time_ns = p->start_time_ns;
	traced->revision = p->revision;
	return err;
}

/* As long as its user's share lasts: what is left comes in later turns. */
static int proc_trace(struct session_targets *t, const struct target_proc *p, uint64_t now_ns)
{
	uint64_t begin_ns = clock_monotonic_ns();
	int err;

	if (!shares_may(t->shares, p->uid)) {
		t->deferred = true;
		return 0;
	}
	err = proc_trace_now(t, p, now_ns);
	shares_spend(t->shares, p->uid, clock_monotonic_ns() - begin_ns);
	return err;
}

static void dead_forget(struct session_targets *t, uint64_t now_ns)
{
	struct traced *p, *next;

	HASH_ITER (hh, t->traced, p, next) {
		const struct target_proc *known = target_set_find(t->set, p->tgid);

		if (!p->dead && known && known->status != TARGET_GONE)
			continue;
		/* Forked a moment ago. Later: its exit was never seen, or it was over before --pid named it. */
		if (!p->dead && !known && !p->known && now_ns < p->since_ns + UNSEEN_NS)
			continue;
		if (p->dead)
			loader_links_forget(t->loader, p->tgid);
		else
			loader_target_forget(t->loader, p->tgid);
		traced_free(t, p);
	}
}

static void attach_begin(struct session_targets *t)
{
	t->attach_until_ns = clock_monotonic_ns() + ATTACH_NS;
	t->unattached = false;
	loader_slice_begin(t->loader);
}

static int listed_trace(struct session_targets *t, uint64_t now_ns)
{
	size_t n;
	const struct target_proc *const *list = target_set_list(t->set, &n);
	int err = 0;

	attach_begin(t);
	t->waiting = t->deferred = false;
	t->revision = target_set_revision(t->set);
	for (size_t i = 0; !err && i < n; i++) {
		const struct target_proc *p = list[(t->turn + i) % n];

		if (is_wanted(t, p))
			err = proc_trace(t, p, now_ns);
	}
	t->turn++;
	return err || t->partial || !t->cfg->n_pids ? err : partial_emit(t, list, n, now_ns);
}

int session_targets_scan(struct session_targets *t, uint64_t now_ns)
{
	int err = loader_scan(t->loader, t->set);

	if (!err)
		err = listed_trace(t, now_ns);
	dead_forget(t, now_ns);
	t->refused_said = targets_refused_say(t->n_refused + loader_forks_refused(t->loader), t->refused_said);
	return err;
}

/* Scans these processes and traces new ones; scans all if more than these changed. */
static int pids_rescan(struct session_targets *t, const struct target_born *procs, size_t n, uint64_t now_ns)
{
	int err = target_set_rescan_of(t->set, procs, n);

	if (!err && (t->unattached || t->waiting || t->deferred ||
		     target_set_revision(t->set) != t->revision)) /* also processes not known to be young ranks */
		return listed_trace(t, now_ns);
	attach_begin(t);
	for (size_t i = 0; !err && i < n; i++) {
		const struct target_proc *p = target_set_find(t->set, procs[i].tgid);

		if (p && is_wanted(t, p))
			err = proc_trace(t, p, now_ns);
	}
	return err;
}

int session_targets_rescan(struct session_targets *t, uint64_t now_ns)
{
	struct target_born young[YOUNG_MAX];
	size_t n = 0;

	for (struct traced *p = t->traced; p && n < YOUNG_MAX; p = p->hh.next)
		if (!p->dead && p->young_until_ns > now_ns)
			young[n++] = (struct target_born){ p->tgid, p->uid };
	return pids_rescan(t, young, n, now_ns);
}

bool session_targets_has_new(const struct session_targets *t, uint64_t now_ns)
{
	return t->new_until_ns > now_ns;
}

int session_targets_poll_new(struct session_targets *t, uint64_t now_ns)
{
	struct target_born procs[NEW_PROCS_MAX];
	uint64_t begin_ns = clock_monotonic_ns(), took_ns;
	size_t n = 0;
	int err;

	if (now_ns < t->new_due_ns)
		return 0;
	for (struct traced *p = t->traced; p && n < NEW_PROCS_MAX; p = p->hh.next)
		if (!p->dead && p->exec_ns + NEW_PROC_NS > now_ns)
			procs[n++] = (struct target_born){ p->tgid, p->uid };
	err = pids_rescan(t, procs, n, now_ns);
	took_ns = clock_monotonic_ns() - begin_ns;
	t->new_due_ns = begin_ns + took_ns + (took_ns > NEW_PROC_POLL_NS ? took_ns : NEW_PROC_POLL_NS);
	return err;
}

/* A scan may find a process, and attach to it, before its fork record is read: that one is no older owner of the pid.
 * Where times are close it is the same one; if it is not, the next scan sees another start time. */
static bool is_older(const struct traced *p, uint64_t fork_ns)
{
	uint64_t boot_ns = clock_boottime_ns() - clock_monotonic_ns();

	return p->dead || (p->known && p->start_time_ns + SAME_START_NS < fork_ns + boot_ns);
}

/* A new process: an older one with the same pid is over. */
static void fork_note(struct session_targets *t, uint32_t parent_tgid, uint32_t tgid, uint64_t ts_ns)
{
	const struct traced *parent = traced_find(t, parent_tgid);
	struct traced *p = traced_find(t, tgid);
	uint32_t uid = parent ? parent->uid : UID_UNKNOWN;

	if (p && is_older(p, ts_ns)) {
		loader_links_forget(t->loader, tgid);
		traced_free(t, p);
	}
	p = traced_get(t, tgid, ts_ns);
	if (p && p->uid == UID_UNKNOWN)
		p->uid = uid;
}

bool session_targets_unattached(const struct session_targets *t)
{
	return t->unattached;
}

int session_targets_attach(struct session_targets *t, uint64_t now_ns)
{
	return listed_trace(t, now_ns);
}

/* A process with a communicator is a rank, and has set its own environment variables by now. */
static void comm_note(struct session_targets *t, const struct wire_hdr *rec)
{
	struct traced *p = NULL;

	if (rec->kind == NCCL_INIT || rec->kind == NCCL_READY || rec->kind == NCCL_COMM)
		p = traced_find(t, rec->tgid);
	if (!p || p->has_comm)
		return;
	p->has_comm = true;
	target_set_has_comm(t->set, rec->tgid);
	if (p->young_until_ns < rec->ts_ns + COMM_YOUNG_NS)
		p->young_until_ns = rec->ts_ns + COMM_YOUNG_NS;
}

void session_targets_note(struct session_targets *t, const struct wire_hdr *rec)
{
	const struct life_fork *fork = (const void *)rec;
	const struct life_exit *exit = (const void *)rec;
	struct traced *p;

	if (rec->tracer == WIRE_NCCL)
		comm_note(t, rec);
	if (rec->tracer != WIRE_LIFE)
		return;
	if (rec->kind == LIFE_FORK && fork->child_tgid != rec->tgid) {
		fork_note(t, rec->tgid, fork->child_tgid, rec->ts_ns);
		return;
	}
	p = traced_find(t, rec->tgid);
	if (p && rec->kind == LIFE_EXEC) {
		p->young_until_ns = rec->ts_ns + YOUNG_NS;
		p->exec_ns = rec->ts_ns;
		p->by_ranges = false;
		t->new_until_ns = rec->ts_ns + NEW_PROC_NS;
		p->has_comm = false;
	} else if (p && rec->kind == LIFE_EXIT && exit->last && rec->ts_ns >= p->since_ns) {
		p->dead = true; /* an older exit belongs to the previous owner of the pid */
	}
}

static void process_raise(struct session_targets *t, struct traced *p)
{
	loader_raise(t->loader, p->tgid);
	p->held = groups_held(t) & ~p->shed;
}

int session_targets_tier(struct session_targets *t, uint32_t tgid, enum tier tier, uint64_t now_ns)
{
	struct traced *p = traced_find(t, tgid);
	const struct target_proc *known = p ? target_set_find(t->set, tgid) : NULL;

	if (!p || p->dead || !p->known || !known || known->status == TARGET_GONE)
		return -ESRCH;
	if (p->tier > tier)
		loader_lower(t->loader, tgid, tier);
	else if (p->tier == TIER_WATCH && tier > TIER_WATCH)
		process_raise(t, p);
	p->tier = tier;
	attach_begin(t);
	return proc_trace(t, known, now_ns);
}

int session_targets_shed(struct session_targets *t, uint32_t tgid, uint32_t groups, uint32_t back)
{
	const uint32_t needed = 1u << PROBES_NEEDED;
	struct traced *p = traced_find(t, tgid);
	uint32_t before = p ? p->shed : 0;
	bool ranges_go;

	if (!loader_attaches_per_process(t->loader))
		t->shed_shared = groups;
	if (!p || p->dead || !p->known)
		return -ESRCH;
	ranges_go = p->by_ranges && groups >> PROBES_RANGES & 1;
	p->by_ranges &= !ranges_go;
	p->shed = groups;
	p->held &= ~(groups | back);
	p->attached_key = 0; /* also of what goes and comes between two scans */
	loader_shed(t->loader, tgid, sets_out(p, groups));
	if (back & before & needed)
		loader_raise(t->loader, tgid);
	t->unattached |= back || ranges_go; /* the loop attaches, in slices */
	return 0;
}

/* The model may be behind, and have seen ranges that are gone. */
static void stand_ins_remove(struct session_targets *t, uint32_t tgid)
{
	struct traced *p = traced_find(t, tgid);

	if (!p || !p->known || p->by_ranges || p->shed >> PROBES_RANGES & 1)
		return;
	p->by_ranges = true;
	loader_shed(t->loader, tgid, sets_out(p, p->shed));
}

void session_targets_stand_ins(struct session_targets *t, const struct model *m)
{
	for (const struct proc *p = loader_attaches_per_process(t->loader) ? m->procs : NULL; p; p = p->next)
		if (!p->dead && proc_ranges_suffice(p))
			stand_ins_remove(t, p->tgid);
}

static uint32_t tier_groups(enum tier tier)
{
	uint32_t groups = 0;

	for (int g = 0; g < PROBE_GROUPS; g++)
		groups |= probe_group_tier(g) <= tier ? 1u << g : 0;
	return groups;
}

void session_targets_each(const struct session_targets *t, void (*each)(void *to, const struct session_target *p),
			  void *to)
{
	for (const struct traced *p = t->traced; p; p = p->hh.next) {
		struct session_target one = { .tgid = p->tgid,
					      .start_ns = p->start_time_ns,
					      .probed = p->tier > TIER_WATCH,
					      .missing = (p->shed | p->held) & tier_groups(p->tier) };

		if (p->known && !p->dead)
			each(to, &one);
	}
}

bool session_targets_traces(const struct session_targets *t, uint32_t tgid)
{
	const struct traced *p = traced_find((struct session_targets *)t, tgid);

	return p && p->known && !p->dead;
}

bool session_targets_unprobed(const struct session_targets *t, uint32_t tgid)
{
	const struct traced *p = traced_find((struct session_targets *)t, tgid);

	return p && (p->waits || p->shed >> PROBES_NEEDED & 1);
}

bool session_targets_unseen(const struct session_targets *t, uint32_t tgid)
{
	const struct traced *p = traced_find((struct session_targets *)t, tgid);

	return session_targets_unprobed(t, tgid) || (p && p->late);
}

enum tier session_targets_tier_of(const struct session_targets *t, uint32_t tgid)
{
	const struct traced *p = traced_find((struct session_targets *)t, tgid);

	return p ? p->tier : TIER_WATCH;
}

uint32_t session_targets_alive(const struct session_targets *t)
{
	uint32_t n = 0;

	for (const struct traced *p = t->traced; p; p = p->hh.next)
		n += !p->dead;
	return n;
}

uint32_t session_targets_seen(const struct session_targets *t)
{
	return t->n_seen;
}
