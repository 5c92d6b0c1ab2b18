/* SPDX-License-Identifier: Apache-2.0
 *
 * io_stall.c - storage that does not answer: tasks of several ranks of a job are blocked on one mount. It is the cause
 * of what d_state says of each of them; of one rank alone d_state names the mount. FUSE's and Lustre's clients sleep in
 * no D state: their waits are said here alone, and are as grave as slow storage is.
 */
#include "detect/host/io_stall.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/keyed.h"
#include "detect/host/storage_wait.h"
#include "detect/rank/seats.h"

struct stall {
	struct keyed keyed;       /* set_of(), 0 */
	const struct task *first; /* the one that is blocked for longest */
	uint64_t n_tasks, n_ranks;
	uint64_t critical_ns; /* of tasks that sleep the least: how long it has to last; 0 none does */
};

struct stalled_rank {
	struct keyed keyed; /* set_of(), and its process */
	bool counted;
};

struct io_stall {
	struct keyed_table stalls, ranks; /* of this tick */
	struct storage_waits asleep;
};

/* "/data (nfs4 filer:/export, 0:52)": from the bracket on; NULL it is not so. */
static const char *served_by(const char *mount)
{
	const char *at = NULL;

	for (const char *p = mount; (p = strstr(p, " (")); p++)
		at = p + 2;
	return at;
}

/* A source that names a server is one for all hosts, whatever device number each of them gave it. */
static bool names_server(const char *type_source)
{
	const char *source = strchr(type_source, ' '), *comma = strrchr(type_source, ',');

	if (!source || !comma || comma < source || !strncmp(source + 1, "/dev/", 5))
		return false;
	return memchr(source, ':', comma - source) || memchr(source, '@', comma - source) ||
	       !strncmp(source + 1, "//", 2);
}

/* What the storage behind a mount is known by, wherever it is mounted; 0 not known. */
static uint64_t storage_id(const struct task *t)
{
	const char *served = is_on_storage(t) ? served_by(t->mount) : NULL,
		   *comma = served ? strrchr(served, ',') : NULL;
	uint64_t id = 0;

	if (!comma)
		return 0;
	if (!names_server(served))
		return hash_text(hash_mix(0, t->proc->node->number + 1), comma);
	for (const char *p = served; p < comma; p++)
		id = hash_mix(id, (unsigned char)*p);
	return id;
}

/* What a stall of that task's storage and job is known by; 0 not known. */
static uint64_t set_of(const struct task *t)
{
	const struct proc *rank = t->proc->leader;
	uint64_t id = rank ? storage_id(t) : 0;

	return id ? hash_text(hash_mix(id, rank->job->nth), rank->job->name) : 0;
}

uint64_t io_stall_of(const struct finding_list *found, const struct task *t)
{
	uint64_t set = set_of(t);

	for (size_t i = 0; i < found->n && set; i++)
		if (found->items[i].kind == FINDING_IO_STALL && found->items[i].subject.set == set)
			return found->items[i].key;
	return 0;
}

static int asleep_count(struct io_stall *s, const struct model *m, const struct task *t, struct stall *stall)
{
	uint64_t critical_ns;
	int err = storage_wait_critical(&s->asleep, m, t, &critical_ns);

	if (!err && (!stall->critical_ns || critical_ns < stall->critical_ns))
		stall->critical_ns = critical_ns;
	return err;
}

static int task_count(struct io_stall *s, const struct model *m, const struct task *t)
{
	uint64_t set = set_of(t);
	struct stalled_rank *r;
	struct stall *stall;

	if (!set)
		return 0;
	stall = keyed_get(&s->stalls, set, 0, sizeof(*stall));
	r = keyed_get(&s->ranks, set, t->proc->leader->key, sizeof(*r));
	if (!stall || !r)
		return -ENOMEM;
	stall->n_tasks++;
	stall->n_ranks += !r->counted;
	r->counted = true;
	if (!stall->first || t->blocked_since_ns < stall->first->blocked_since_ns)
		stall->first = t;
	return t->stalled ? asleep_count(s, m, t, stall) : 0;
}

static void evidence_add(struct finding *f, const struct model *m, const struct stall *s)
{
	const struct task *t = s->first;

	finding_note_text(f, EVIDENCE_MOUNT, t->mount);
	finding_note_text(f, EVIDENCE_SYSCALL, t->syscall);
	finding_note_text(f, EVIDENCE_FILE, t->file);
	finding_note_text(f, EVIDENCE_WCHAN, t->wchan);
	finding_note_text(f, EVIDENCE_KERNEL_STACK, t->kernel_stack);
	finding_note(f, EVIDENCE_N_BLOCKED, s->n_tasks);
	if (s->critical_ns)
		finding_note(f, EVIDENCE_CRITICAL_AFTER_S, (double)s->critical_ns / 1e9);
	finding_note(f, EVIDENCE_BLOCKED_S, (double)(m->now_ns - t->blocked_since_ns) * 1e-9);
}

static void ranks_note(struct finding *f, const struct io_stall *all, const struct stall *s, const struct model *m,
		       struct finding_list *found)
{
	for (const struct proc *p = m->procs; p; p = proc_next(p))
		if (keyed_find(&all->ranks, s->keyed.a, p->key))
			proc_ranks_note(f, found, p, 0);
}

static int stall_report(const struct io_stall *all, const struct stall *s, const struct model *m,
			struct finding_list *found)
{
	struct finding *f;

	if (s->n_ranks < 2)
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = FINDING_IO_STALL;
	f->subject = subject_ranks(s->keyed.a);
	f->since_ns = s->first->blocked_since_ns;
	finding_identify(f, "io_stall", 0, f->since_ns);
	f->cause = CAUSE_D_STATE;
	f->confidence = 0.99; /* the kernel's own word */
	ranks_note(f, all, s, m, found);
	evidence_add(f, m, s);
	return 0;
}

static int io_stall_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct io_stall *s = state;
	struct stall *stall;
	int err = 0;

	keyed_free(&s->stalls);
	keyed_free(&s->ranks);
	for (const struct proc *p = m->procs; p != m->past && !err; p = proc_next(p))
		for (const struct task *t = p->dead ? NULL : p->tasks; t && !err; t = t->next)
			if (t->blocked || t->stalled)
				err = task_count(s, m, t);
	err = err ? err : storage_waits_learn(&s->asleep, m);
	for (stall = s->stalls.all; stall && !err; stall = stall->keyed.next)
		err = stall_report(s, stall, m, found);
	return err;
}

static void io_stall_release(void *state)
{
	struct io_stall *s = state;

	keyed_free(&s->stalls);
	keyed_free(&s->ranks);
	storage_waits_free(&s->asleep);
}

const struct detector detector_io_stall = {
	.name = "io_stall",
	.help = "storage that does not answer: tasks of several ranks are blocked on one mount",
	.state_bytes = sizeof(struct io_stall),
	.release = io_stall_release,
	.tick = io_stall_tick,
};
