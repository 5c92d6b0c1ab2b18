/* SPDX-License-Identifier: Apache-2.0
 *
 * sched.c - scans the task map: totals once a second, a wait in D state past the limit at once and once, with
 * its evidence, and its end. Nothing here touches the target's memory except through the reader's deadline. In tier
 * watch the tasks are sampled twice a second instead of followed from switch to switch.
 */
#include "tracers/sched/sched.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sched.skel.h"
#include "tracers/sched/sched_sample.h"
#include "tracers/sched/storage.h"
#include "tracers/sched/cpu_quota.h"
#include "tracers/sched/freezer.h"
#include "inspect/discover/discover.h"
#include "inspect/stack/evidence.h"
#include "inspect/stack/mount.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/reader.h"
#include "source.h"
#include "tracers/sched/wire/throttle.h"
#include "uthash.h"

#define TOTALS_EVERY_NS 1000000000ull
#define SAMPLE_EVERY_NS 450000000ull /* tier watch: every other tick */
#define AT_REST_NS 600000000ull      /* asleep for longer than that, and emitted so: nothing new */
#define QUOTA_EVERY_NS 1000000000ull
#define QUOTA_WATCH_EVERY_NS 5000000000ull /* five files a rank: no small part of what tier watch costs */
#define FREEZER_EVERY_NS 1000000000ull
#define FREEZER_AFTER_NS 500000000ull /* a main thread that does not run for that long may be frozen */
#define EVIDENCE_NS 80000000ull       /* a tick; what is left waits for the next one */
#define FILES_NS 10000000ull          /* of a tick for quotas and counts of bytes: what is left comes in the next one */
#define EVIDENCE_LATE_NS 750000000ull /* past the limit; then a wait is reported with what is known */
#define DELAYED_NS \
	20000000ull /* that long without a CPU or in D since the last record: emitted at once, for causes are judged \
		       within a second */

struct seen { /* what was last emitted of a task */
	uint32_t tid;
	uint64_t emitted_ns, since_ns;
	uint8_t emitted_state;
	uint64_t delayed_ns; /* wait and D as emitted */
	uint64_t quota_emitted_ns;
	struct cpu_quota quota;                         /* as read */
	uint64_t quota_dir_hash, throttled_ns, periods; /* as emitted: over cgroups */
	uint64_t blocked_begin_ns;                      /* a D wait, or one for storage, was reported; 0 none */
	uint64_t freezer_read_ns, frozen_ns;            /* of the process; frozen since then, 0 it is not */
	bool in_scan;
	struct sched_sampled sampled; /* tier watch */
	UT_hash_handle hh;
};

struct sched_scan {
	struct seen *seen;
	uint64_t evidence_until_ns; /* of this tick */
	uint64_t files_until_ns;    /* of this tick */
	uint64_t sampled_ns;        /* tier watch */
	bool has_mounts;
	struct cgroup_mounts mounts;
	struct storage_scan storage;
};

static const void *sched_object(size_t *ret_size)
{
	return sched_bpf__elf_bytes(ret_size);
}

static uint8_t state_of_letter(char c)
{
	switch (c) {
	case 'R': return SCHED_RUNNABLE;
	case 'D': return SCHED_DISK;
	case 'T':
	case 't': return SCHED_STOPPED;
	case 'Z':
	case 'X': return SCHED_DEAD;
	default: return SCHED_SLEEP;
	}
}

/* State letter of a task: the field after the last ')' of stat, since a name may hold anything. */
static char task_letter(uint32_t tgid, const char *tid)
{
	char path[64], text[512], *p;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/task/%.20s/stat", tgid, tid);
	f = fopen(path, "re");
	if (!f)
		return 'X';
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	p = strrchr(text, ')');
	return p && p[1] == ' ' ? p[2] : 'X';
}

/* Tasks that are already asleep, stopped or in D when we come may never switch: put them on the map as they are. */
static int sched_on_proc(struct tracer_handle *h, const struct target_proc *proc)
{
	struct sched_entry e = { .tgid = proc->tgid };
	struct dirent *d;
	char path[64];
	uint32_t tid;
	DIR *dir;

	if (tracer_tier(h) == TIER_WATCH)
		return 0;
	snprintf(path, sizeof(path), "/proc/%u/task", proc->tgid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((d = readdir(dir))) {
		tid = strtoul(d->d_name, NULL, 10);
		if (!tid)
			continue;
		e.state = e.off_state = state_of_letter(task_letter(proc->tgid, d->d_name));
		e.since_ns = e.off_since_ns = clock_monotonic_ns();
		if (e.state != SCHED_DEAD && e.state != SCHED_RUNNABLE)
			tracer_map_put_new(h, "sched_tasks", &tid, &e);
	}
	closedir(dir);
	return 0;
}

static struct seen *seen_get(struct sched_scan *s, uint32_t tid)
{
	struct seen *t;

	HASH_FIND(hh, s->seen, &tid, sizeof(tid), t);
	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = tid;
	HASH_ADD(hh, s->seen, tid, sizeof(tid), t);
	return t;
}

static struct wire_hdr sched_hdr(size_t size, uint8_t kind, uint32_t tid, uint32_t tgid, uint64_t now)
{
	return (struct wire_hdr){
		.size = (size + 7) & ~7ul, .tracer = WIRE_SCHED, .kind = kind, .tid = tid, .tgid = tgid, .ts_ns = now
	};
}

/* Bytes the process read and wrote, from /proc/PID/io (takes no mmap_lock). */
static uint64_t io_bytes(uint32_t tgid)
{
	unsigned long long rd = 0, wr = 0;
	char text[512];

	if (proc_read(text, sizeof(text), "/proc/%u/io", tgid) <= 0 ||
	    sscanf(text, "rchar: %llu wchar: %llu", &rd, &wr) != 2)
		return 0;
	return rd + wr;
}

/* The interval still open counts too. */
static void open_account(struct sched_entry *e, uint64_t now)
{
	uint64_t d = now > e->since_ns ? now - e->since_ns : 0;

	switch (e->state) {
	case SCHED_ON_CPU: e->run_ns += d; break;
	case SCHED_RUNNABLE: e->wait_ns += d; break;
	case SCHED_DISK: e->disk_ns += d; break;
	case SCHED_STOPPED: e->stopped_ns += d; /* fall through */
	case SCHED_SLEEP: e->sleep_ns += d; break;
	}
}

static int totals_emit(struct tracer_handle *h, const struct seen *s, const struct sched_entry *e, bool with_io,
		       uint64_t now)
{
	struct sched_task r = {
		.hdr = sched_hdr(sizeof(r), SCHED_TASK, s->tid, e->tgid, now),
		.since_ns = e->since_ns,
		.run_ns = e->run_ns,
		.wait_ns = e->wait_ns,
		.sleep_ns = e->sleep_ns,
		.disk_ns = e->disk_ns,
		.io_bytes = with_io && s->tid == e->tgid ? io_bytes(e->tgid) : 0,
		.state = e->state,
		.preempted = e->preempted,
		.stopped_ns = e->stopped_ns,
		.frozen = s->frozen_ns != 0,
	};

	memcpy(r.behind, e->behind, sizeof(r.behind));
	return tracer_emit(h, &r.hdr);
}

/* --- CPU quota --- */

static uint64_t text_hash(const char *s)
{
	uint64_t h = 14695981039346656037ull;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 1099511628211ull;
	return h;
}

/* A process that moves keeps what it was throttled before; the new cgroup's past is not its own. */
static void quota_account(struct seen *s, const struct cpu_quota *q, uint64_t dir_hash)
{
	if (dir_hash == s->quota_dir_hash && q->throttled_ns >= s->quota.throttled_ns &&
	    q->periods >= s->quota.periods) {
		s->throttled_ns += q->throttled_ns - s->quota.throttled_ns;
		s->periods += q->periods - s->quota.periods;
	}
	s->quota_dir_hash = dir_hash;
}

static bool cgroup_text(struct sched_scan *scan, uint32_t tgid, char *to, size_t size)
{
	if (!scan->has_mounts && cgroup_mounts_read("/proc/self/mountinfo", &scan->mounts))
		return false;
	scan->has_mounts = true;
	return proc_read(to, size, "/proc/%u/cgroup", tgid) > 0;
}

/* Says nothing of a process that has no quota and had none. */
static int quota_scan(struct tracer_handle *h, struct sched_scan *scan, struct seen *s, uint32_t tgid, uint64_t now)
{
	struct sched_throttle r = { .hdr = sched_hdr(sizeof(r), SCHED_THROTTLE, tgid, tgid, now) };
	char text[4096], dir[2 * CGROUP_PATH_MAX];
	bool v2, had = s->quota.cores > 0;
	struct cpu_quota q;

	s->quota_emitted_ns = now;
	if (!cgroup_text(scan, tgid, text, sizeof(text)) || cgroup_cpu_dir(&scan->mounts, text, dir, &v2))
		return 0;
	cpu_quota_read(&scan->mounts, dir, v2, &q);
	quota_account(s, &q, text_hash(dir));
	s->quota = q;
	if (q.cores <= 0 && !had)
		return 0;
	r.body.throttled_ns = s->throttled_ns;
	r.body.periods = s->periods;
	r.body.quota_millicores = q.cores * 1000 + 0.5;
	return tracer_emit(h, &r.hdr);
}

/* --- frozen by its cgroup --- */

/* Asked of the main thread's process while that thread does not run. */
static void freezer_look(struct sched_scan *scan, struct seen *s, const struct sched_entry *e, uint64_t now)
{
	bool rests = (e->state == SCHED_SLEEP || e->state == SCHED_DISK) && now - e->since_ns >= FREEZER_AFTER_NS;
	char text[4096];

	if (!rests)
		s->frozen_ns = 0;
	if (!rests || now - s->freezer_read_ns < FREEZER_EVERY_NS || clock_monotonic_ns() >= scan->files_until_ns)
		return;
	s->freezer_read_ns = now;
	if (!cgroup_text(scan, e->tgid, text, sizeof(text)) || !freezer_holds(&scan->mounts, text))
		s->frozen_ns = 0;
	else if (!s->frozen_ns)
		s->frozen_ns = now;
}

/* Its threads may be in D state by that alone. */
static bool is_frozen(struct sched_scan *scan, uint32_t tgid)
{
	struct seen *main_task;

	HASH_FIND(hh, scan->seen, &tgid, sizeof(tgid), main_task);
	return main_task && main_task->frozen_ns;
}

static void text_append(struct sched_blocked *r, size_t cap, __u16 *len, size_t *at, const char *text)
{
	size_t n = strlen(text), room = cap - *at;

	if (n + 1 > room)
		n = room ? room - 1 : 0;
	memcpy((char *)r + *at, text, n);
	((char *)r)[*at + n] = 0;
	*len = n + 1;
	*at += n + 1;
}

static int blocked_emit(struct tracer_handle *h, uint32_t tid, const struct sched_entry *e,
			const struct target_evidence *ev, uint64_t now)
{
	union {
		struct sched_blocked r;
		char bytes[WIRE_SIZE_MAX];
	} u = {};
	char user_stack[2048] = "", mount[512];
	size_t at = sizeof(u.r);

	tracer_user_stack(h, e->tgid, (const uint64_t *)e->frames, e->n_frames, user_stack, sizeof(user_stack));
	u.r.begin_ns = e->since_ns;
	u.r.mmap_lock_held = ev->mmap_lock_held;
	u.r.asleep = e->state == SCHED_SLEEP;
	text_append(&u.r, sizeof(u) - 8, &u.r.len[0], &at, ev->kernel_stack);
	text_append(&u.r, sizeof(u) - 8, &u.r.len[1], &at, user_stack);
	text_append(&u.r, sizeof(u) - 8, &u.r.len[2], &at, ev->wchan);
	text_append(&u.r, sizeof(u) - 8, &u.r.len[3], &at, ev->syscall);
	text_append(&u.r, sizeof(u) - 8, &u.r.len[4], &at, ev->file);
	mount_of_evidence(e->tgid, ev, mount, sizeof(mount));
	text_append(&u.r, sizeof(u) - 8, &u.r.mount_len, &at, mount);
	u.r.hdr = sched_hdr(at, SCHED_BLOCKED, tid, e->tgid, now);
	return tracer_emit(h, &u.r.hdr);
}

/* Sixty ranks on one frozen storage pass the limit in one tick: their evidence is read in the ticks that follow. */
static int blocked_sample(struct tracer_handle *h, struct sched_scan *scan, struct seen *s, const struct sched_entry *e,
			  uint64_t now)
{
	bool late = now >= e->since_ns + tracer_dstate_limit_ns(h) + EVIDENCE_LATE_NS;
	struct target_evidence ev = {};
	int err;

	if (clock_monotonic_ns() >= scan->evidence_until_ns)
		return 0;
	err = evidence_read(tracer_reader(h), e->tgid, s->tid, READER_DEADLINE_MS, &ev);
	if (err == -EINPROGRESS && !late)
		return 0;
	s->blocked_begin_ns = e->since_ns; /* what cannot be had stays empty */
	return blocked_emit(h, s->tid, e, &ev, now);
}

static int blocked_end_emit(struct tracer_handle *h, const struct seen *s, uint32_t tgid, uint64_t end_ns)
{
	struct sched_blocked_end r = {
		.hdr = sched_hdr(sizeof(r), SCHED_BLOCKED_END, s->tid, tgid, end_ns),
		.begin_ns = s->blocked_begin_ns,
	};

	return tracer_emit(h, &r.hdr);
}

static bool totals_due(const struct seen *s, const struct sched_entry *e, uint64_t now)
{
	bool stop = e->state == SCHED_STOPPED && s->since_ns != e->since_ns;
	bool goes_on = s->emitted_state == SCHED_STOPPED && e->state != SCHED_STOPPED;

	/* a thousand threads that sleep and slept are nothing new: the main one alone says that somebody looked */
	if (s->sampled.at_ns && e->state == SCHED_SLEEP && s->tid != e->tgid && s->emitted_state == SCHED_SLEEP &&
	    s->since_ns == e->since_ns && s->emitted_ns - s->since_ns > AT_REST_NS)
		return false;
	return now - s->emitted_ns >= TOTALS_EVERY_NS || stop || goes_on ||
	       e->wait_ns + e->disk_ns >= s->delayed_ns + DELAYED_NS;
}

static uint64_t quota_every_ns(const struct tracer_handle *h)
{
	return tracer_tier(h) == TIER_WATCH ? QUOTA_WATCH_EVERY_NS : QUOTA_EVERY_NS;
}

static bool is_blocked(const struct sched_entry *e)
{
	return e->state == SCHED_DISK || (e->state == SCHED_SLEEP && e->call.waits_at);
}

static int task_scan(struct tracer_handle *h, struct sched_scan *scan, struct seen *s, struct sched_entry *e,
		     uint64_t now)
{
	bool same_wait = s->blocked_begin_ns && is_blocked(e) && e->since_ns == s->blocked_begin_ns;
	bool has_time = s->tid == e->tgid && clock_monotonic_ns() < scan->files_until_ns;
	int err = 0;

	if (s->tid == e->tgid)
		freezer_look(scan, s, e, now);
	if (s->blocked_begin_ns && !same_wait) {
		err = blocked_end_emit(h, s, e->tgid, now);
		s->blocked_begin_ns = 0;
	}
	if (s->frozen_ns) {
		e->state = SCHED_STOPPED;
		e->since_ns = s->frozen_ns;
	}
	if (totals_due(s, e, now)) {
		s->emitted_ns = now;
		s->since_ns = e->since_ns;
		s->emitted_state = e->state;
		s->delayed_ns = e->wait_ns + e->disk_ns;
		err = totals_emit(h, s, e, has_time, now);
	}
	if (!err && has_time && now - s->quota_emitted_ns >= quota_every_ns(h))
		err = quota_scan(h, scan, s, e->tgid, now);
	if (!err && !same_wait && is_blocked(e) && now >= e->since_ns + tracer_dstate_limit_ns(h) &&
	    !is_frozen(scan, e->tgid))
		err = blocked_sample(h, scan, s, e, now);
	return err;
}

static void seen_sweep(struct tracer_handle *h, struct sched_scan *s, uint64_t now)
{
	struct seen *t, *next;

	HASH_ITER (hh, s->seen, t, next) {
		if (t->in_scan) {
			t->in_scan = false;
			continue;
		}
		if (t->blocked_begin_ns) /* it died in that wait */
			blocked_end_emit(h, t, 0, now);
		HASH_DELETE(hh, s->seen, t);
		free(t);
	}
}

struct sample_arg {
	struct tracer_handle *h;
	struct sched_scan *scan;
};

static int sample_take(void *arg, const void *row)
{
	const struct sample_arg *a = arg;
	const struct sched_sample *l = row;
	uint64_t now_ns = clock_monotonic_ns();
	struct seen *t = l->state == SCHED_DEAD ? NULL : seen_get(a->scan, l->tid);
	struct sched_entry e;

	if (!t)
		return l->state == SCHED_DEAD ? 0 : -ENOMEM;
	t->in_scan = true;
	sched_sample_take(&t->sampled, l, now_ns, &e);
	return task_scan(a->h, a->scan, t, &e, now_ns);
}

static int samples_tick(struct tracer_handle *h, struct sched_scan *s, uint64_t now_ns)
{
	struct sample_arg arg = { h, s };
	int err;

	if (now_ns - s->sampled_ns < SAMPLE_EVERY_NS)
		return 0;
	s->sampled_ns = now_ns;
	err = tracer_iter_targets(h, "sched_samples", sizeof(struct sched_sample), sample_take, &arg);
	if (!err)
		seen_sweep(h, s, now_ns);
	return err;
}

static int map_tick(struct tracer_handle *h, struct sched_scan *s, uint64_t now_ns)
{
	struct sched_entry e;
	struct seen *t;
	uint32_t tid, prev;
	int err = 0;

	if (tracer_map_next(h, "sched_tasks", NULL, &tid))
		return 0;
	do {
		if (!tracer_map_get(h, "sched_tasks", &tid, &e) && e.since_ns && (t = seen_get(s, tid))) {
			t->in_scan = true;
			open_account(&e, now_ns);
			err = task_scan(h, s, t, &e, now_ns);
		}
		prev = tid;
	} while (!err && !tracer_map_next(h, "sched_tasks", &prev, &tid));
	seen_sweep(h, s, now_ns);
	return err;
}

static int sched_tick(struct tracer_handle *h, uint64_t now_ns)
{
	struct sched_scan *s = tracer_state(h, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->evidence_until_ns = clock_monotonic_ns() + EVIDENCE_NS;
	s->files_until_ns = clock_monotonic_ns() + FILES_NS;
	if (tracer_tier(h) == TIER_WATCH)
		return samples_tick(h, s, now_ns);
	err = map_tick(h, s, now_ns);
	return err ? err : storage_scan_tick(h, &s->storage, now_ns);
}

static void sched_end(struct tracer_handle *h)
{
	struct sched_scan *s = tracer_state(h, sizeof(*s));
	struct seen *t, *next;

	HASH_ITER (hh, s->seen, t, next) {
		HASH_DELETE(hh, s->seen, t);
		free(t);
	}
	storage_scan_free(&s->storage);
}

static const struct tracer sched_tracer = {
	.name = "sched",
	.id = WIRE_SCHED,
	.object = sched_object,
	.start = storage_start,
	.on_proc = sched_on_proc,
	.tick = sched_tick,
	.end = sched_end,
};

const struct source_live source_sched = { .tracer = &sched_tracer };
