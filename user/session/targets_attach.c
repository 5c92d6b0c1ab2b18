/* SPDX-License-Identifier: Apache-2.0
 *
 * targets_attach.c - the probes of one process: group by group into each of its libraries. A process whose libraries
 * and groups are what they were when all was in place costs nothing.
 */
#include "session/targets_private.h"

#include <errno.h>
#include <string.h>

#include "attach/probe_rows.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/larger.h"
#include "base/log.h"
#include "inspect/reader/reader.h"
#include "session/load_error.h"
#include "source.h"

#define LATE_NS 2000000000ull /* a rank may have called its libraries by then */
#define LATE_SAID_NS 10000000000ull

/* No answer of what reads the process yet, as on a host without free CPUs: the next poll asks again. */
static void attach_late_say(struct traced *p, const struct tracer *t, const struct target_lib *lib, int err)
{
	uint64_t now = clock_monotonic_ns();

	if (!p->late_since_ns)
		p->late_since_ns = now;
	if (now - p->late_since_ns < LATE_SAID_NS || p->attach_error == err)
		return;
	p->attach_error = err;
	log_warn("pid %u: %s has no probes for '%s' yet: what reads its symbols got no answer for %llu s; ranktrace "
		 "tries again (is a CPU free on this host?)",
		 p->tgid, lib->path, t->name, LATE_SAID_NS / 1000000000);
}

/* Logs once per process and cause; the rest of the process is still traced. */
static void attach_error_say(struct traced *p, const struct tracer *t, const struct target_lib *lib, int err)
{
	if (p->attach_error == err || err == -ESRCH) /* gone during the attach: its exit is recorded */
		return;
	if (err == -ESTALE) { /* inspected anew at the next scan, then probed by what it is now */
		log_debug("pid %u: %s changed since it was inspected: once more", p->tgid, lib->path);
		return;
	}
	p->attach_error = err;
	log_warn("pid %u: %s cannot be probed for '%s': %s; its calls stay invisible", p->tgid, lib->path, t->name,
		 err == -EDQUOT ? "the process or its user has probes on as many files as one may" : strerror(-err));
}

/* False: more is left to attach. */
static bool lib_attach(struct session_targets *t, struct traced *traced, const struct target_proc *p,
		       const struct target_lib *lib, enum probe_group group, enum tier upto)
{
	const struct source *s = NULL;
	bool all = true;

	while ((s = source_next_tracer(s))) {
		const struct tracer *tr = s->live->tracer;
		struct attach_note note = { 0 };
		int err = 0;

		if (lib->tracers & 1u << tr->id)
			err = loader_attach_lib(t->loader, tr, p, lib, group, upto, &note);
		note.waits |= reader_is_late(err);
		if (reader_is_late(err))
			attach_late_say(traced, tr, lib, err);
		else if (err < 0)
			attach_error_say(traced, tr, lib, err);
		t->failed |= err < 0;
		t->waiting |= note.waits;
		all &= !note.more;
		traced->waits |= note.waits && group == PROBES_NEEDED;
		if (note.other)
			attach_other_say(lib->path, p->tgid, note.other->tgid, note.other->uid);
		if (note.crowd)
			attach_crowd_say(lib->path, note.crowd);
		if (note.holder)
			attach_wait_say(lib->path, note.holder);
		if (*note.unseen)
			log_info("%s: not visible: %s", lib->path, note.unseen);
		if (note.n_ambiguous)
			log_warn("%s: %zu functions of '%s' share an address with others and are indistinguishable; "
				 "their calls stay invisible",
				 lib->path, note.n_ambiguous, s->name);
	}
	return all;
}

/* The session's tier counts: a process escalated to burst gets no probes on functions that only pointers lead to. */
static void learnt_attach(struct session_targets *t, struct traced *traced, const struct target_proc *p)
{
	int err = 0;

	if (t->cfg->tier >= TIER_BURST && !(traced->shed >> PROBES_POSTS & 1))
		err = loader_attach_learnt(t->loader, p);
	t->waiting |= err == -EAGAIN;
	if (err == -EAGAIN || err == -ESRCH || err == traced->attach_error || !err)
		return;
	traced->attach_error = err;
	log_warn("pid %u: functions that were found in other processes cannot be probed in this one: %s; their calls "
		 "stay invisible",
		 p->tgid, strerror(-err));
}

/* Attaches group by group, the most needed first, so that each group can be removed alone. Where probes are attached
 * one by one, later groups may have to wait for the next poll. Rows above the session's tier are attached only while
 * the process is escalated. */
static void libs_attach(struct session_targets *t, struct traced *traced, const struct target_proc *p)
{
	bool all = true;

	for (int g = 0; g < PROBE_SETS; g++) {
		enum tier tier = probe_group_tier(g);

		if (tier > traced->tier || sets_out(traced, traced->shed | traced->held) >> g & 1)
			continue;
		if (g != PROBES_NEEDED && (!all || clock_monotonic_ns() >= t->attach_until_ns)) {
			t->unattached = true;
			return;
		}
		for (size_t i = 0; i < p->n_files; i++)
			all &= lib_attach(t, traced, p, &p->libs[i], g, tier > t->cfg->tier ? tier : t->cfg->tier);
		if (g == PROBES_NEEDED)
			learnt_attach(t, traced, p);
	}
	t->unattached |= !all;
}

/* What decides which probes it gets: as long as that is the same, nothing is missing. 0: what pointers lead to counts,
 * too. */
static uint64_t attach_key(const struct session_targets *t, const struct traced *traced, const struct target_proc *p)
{
	uint64_t h = hash_mix(traced->by_ranges, (uint32_t)traced->tier << 16 | traced->shed << 8 | traced->held);

	for (size_t i = 0; i < p->n_files; i++) {
		if (!p->libs[i].tracers)
			continue;
		h = hash_mix(h, (uintptr_t)p->libs[i].file);
		h = hash_mix(h, p->libs[i].map_start ^ (p->libs[i].file->fd < 0));
	}
	return !loader_attaches_per_process(t->loader) || t->cfg->tier >= TIER_BURST || traced->tier >= TIER_BURST
		       ? 0
		       : h | 1;
}

/* Attaches what is missing of its probes, as long as this poll's time lasts. False: an error, or a wait, is tried
 * again. */
static bool probes_attach(struct session_targets *t, struct traced *traced, const struct target_proc *p)
{
	uint64_t key = attach_key(t, traced, p);
	bool unattached = t->unattached, waiting = t->waiting, unplaced;

	if (key && key == traced->attached_key && traced->start_time_ns == p->start_time_ns)
		return true;
	t->unattached = t->waiting = t->failed = traced->waits = false;
	libs_attach(t, traced, p);
	traced->attached_key = t->unattached || t->waiting || t->failed ? 0 : key;
	if (!traced->waits)
		traced->late_since_ns = 0;
	unplaced = t->unattached || t->waiting || t->failed;
	t->waiting |= waiting;
	t->unattached |= unattached;
	return !unplaced;
}

static uint64_t start_mono_ns(const struct target_proc *p, uint64_t now_ns)
{
	uint64_t age_ns = clock_boottime_ns() - p->start_time_ns;

	return age_ns < now_ns ? now_ns - age_ns : 0;
}

/* On a busy host probes may come long after their library: what was called meanwhile is known from outside alone. One
 * that becomes a target by its libraries had none when the set looked last. */
void probes_place(struct session_targets *t, struct traced *traced, const struct target_proc *p, uint64_t now_ns)
{
	uint64_t first_ns = larger(start_mono_ns(p, now_ns), p->bare_ns);
	uint64_t looked_ns = traced->looked_ns ? traced->looked_ns : first_ns;

	if (!traced->files_ns && (!traced->known || traced->revision != p->revision))
		traced->files_ns = looked_ns;
	traced->looked_ns = now_ns;
	if (clock_monotonic_ns() >= t->attach_until_ns) {
		t->unattached = true;
	} else if (probes_attach(t, traced, p)) {
		traced->late |= traced->files_ns && p->n_libs && clock_monotonic_ns() > traced->files_ns + LATE_NS;
		traced->files_ns = 0;
	}
}
