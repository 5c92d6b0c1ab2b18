/* SPDX-License-Identifier: Apache-2.0
 *
 * d_state.c - tasks of a rank, or of its children, in uninterruptible sleep past the limit, while they are. One
 * finding a wait. Of several in one process one is the cause: who waits for mmap_lock is a consequence of who holds
 * it, and equal waits follow from the first. What may be a store that is slow is not critical at once.
 */
#include <errno.h>
#include <string.h>

#include "detect/hang/pending.h"
#include "detect/host/io_stall.h"
#include "detect/host/storage_wait.h"
#include "detect/rank/seats.h"

static bool has_any(const char *stack, const char *const *names)
{
	for (; *names; names++)
		if (strstr(stack, *names))
			return true;
	return false;
}

/* Blocked in a read-write semaphore, below a function that takes the memory map's. */
static bool waits_mmap_lock(const struct task *t)
{
	static const char *const lock[] = { "rwsem_down", "down_read", "down_write", NULL };
	static const char *const mm[] = { "mmap", "munmap",  "mprotect",        "madvise", "mremap",
					  "brk",  "lock_mm", "user_addr_fault", "exit_mm", NULL };

	return has_any(t->kernel_stack, lock) && has_any(t->kernel_stack, mm) &&
	       !strstr(t->kernel_stack, "page_mkwrite");
}

static struct subject subject_of(const struct task *t)
{
	return subject_thread(proc_rank(t->proc), t->proc->key, t->tid);
}

static uint64_t wait_key(const struct task *t)
{
	struct subject s = subject_of(t);

	/* one at a time: its begin is another one for an agent that was started anew meanwhile */
	return finding_key(FINDING_D_STATE, &s, "d_state", 0, 0);
}

static enum finding_cause cause_of(const struct task *t)
{
	if (waits_mmap_lock(t) || (t->mmap_lock_held && !strncmp(t->wchan, "rwsem_", 6)))
		return CAUSE_MMAP_LOCK;
	return *t->wchan ? CAUSE_D_STATE : CAUSE_UNKNOWN;
}

static bool before(const struct task *a, const struct task *b)
{
	return a->blocked_since_ns != b->blocked_since_ns ? a->blocked_since_ns < b->blocked_since_ns : a->tid < b->tid;
}

static const struct task *cause_task(const struct task *t)
{
	const struct task *best = NULL;
	bool mm = waits_mmap_lock(t);

	for (const struct task *o = t->proc->tasks; o; o = o->next) {
		if (!o->blocked || o == t || (best && !before(o, best)))
			continue;
		if (mm ? !waits_mmap_lock(o) || before(o, t) : before(o, t) && !strcmp(o->wchan, t->wchan))
			best = o;
	}
	return best;
}

/* Those that wait for its rank past the shortest hang: for a moment somebody waits in every step. */
static int peers_waiting(const struct model *m, const struct proc *rank)
{
	struct pending pending;

	return rank && rank_pending(m, rank, &pending) && m->now_ns > pending.since_ns + m->hang_floor_ns
		       ? pending.n_waiting
		       : 0;
}

static void evidence_add(struct finding *f, const struct model *m, const struct task *t)
{
	finding_note_text(f, EVIDENCE_KERNEL_STACK, t->kernel_stack);
	finding_note_text(f, EVIDENCE_WCHAN, t->wchan);
	finding_note_text(f, EVIDENCE_SYSCALL, t->syscall);
	finding_note_text(f, EVIDENCE_FILE, t->file);
	finding_note_text(f, EVIDENCE_MOUNT, t->mount);
	finding_note_text(f, EVIDENCE_USER_STACK, t->user_stack);
	if (t->stack.ns) {
		finding_note_text(f, EVIDENCE_PYTHON, t->stack.python);
		finding_note_text(f, EVIDENCE_NATIVE_FRAME, t->stack.native);
		finding_note_text(f, EVIDENCE_STACK, t->stack.frames);
	}
	finding_note_text(f, EVIDENCE_THREAD, t->name);
	finding_note(f, EVIDENCE_TID, t->tid);
	finding_note(f, EVIDENCE_CHILD, t->proc->is_child);
	if (t->proc->is_child) {
		finding_note(f, EVIDENCE_CHILD_PID, t->proc->tgid);
		finding_note_text(f, EVIDENCE_CHILD_NAME, *t->proc->name ? t->proc->name : t->name);
	}
	if (t->mmap_lock_held)
		finding_note(f, EVIDENCE_MMAP_LOCK_HELD, 1);
	finding_note(f, EVIDENCE_BLOCKED_S, (double)(m->now_ns - t->blocked_since_ns) * 1e-9);
	finding_note(f, EVIDENCE_PEERS_WAITING, peers_waiting(m, t->proc->leader));
}

static int wait_report(struct storage_waits *s, const struct model *m, const struct task *t, struct finding_list *found)
{
	const struct task *cause = cause_task(t);
	struct finding *f = finding_list_add(found);
	uint64_t critical_ns;

	if (!f || storage_wait_critical(s, m, t, &critical_ns))
		return -ENOMEM;
	f->kind = FINDING_D_STATE;
	f->subject = subject_of(t);
	f->key = wait_key(t);
	f->caused_by_key = cause ? wait_key(cause) : io_stall_of(found, t);
	f->cause = cause_of(t);
	f->since_ns = t->blocked_since_ns;
	f->confidence = 0.99; /* the kernel's own word */
	proc_ranks_note(f, found, t->proc, t->tid);
	evidence_add(f, m, t);
	if (critical_ns && f->cause == CAUSE_D_STATE)
		finding_note(f, EVIDENCE_CRITICAL_AFTER_S, (double)critical_ns / 1e9);
	return 0;
}

static int d_state_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct storage_waits *s = state;
	int err = 0;

	for (const struct proc *p = m->procs; p != m->past && !err; p = proc_next(p))
		for (const struct task *t = p->dead ? NULL : p->tasks; t && !err; t = t->next)
			if (t->blocked)
				err = wait_report(s, m, t, found);
	return err ? err : storage_waits_learn(s, m);
}

static void d_state_release(void *state)
{
	storage_waits_free(state);
}

const struct detector detector_d_state = {
	.name = "d_state",
	.help = "a task of a rank in uninterruptible sleep past the limit (5 s), while it is still blocked",
	.state_bytes = sizeof(struct storage_waits),
	.release = d_state_release,
	.tick = d_state_tick,
};
