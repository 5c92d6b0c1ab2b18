// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* sched.bpf.c - state of the targets' tasks at every switch and wake-up. Only intervals long enough to draw go to
 * the ring; all else is totals in a map that user space scans. In tier watch none of this is attached: an iterator is
 * read now and then instead, whose cost does not grow with the number of switches.
 */
#include "bpf/record.bpf.h"
#include "tracers/sched/sched.h"
#include "tracers/sched/storage.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(sched_off);
RECORD_IN_BTF(sched_storage_wait);

/* Task states: include/linux/sched.h. TASK_IDLE is UNINTERRUPTIBLE | NOLOAD and no D state. */
#define KERNEL_INTERRUPTIBLE 0x1
#define KERNEL_UNINTERRUPTIBLE 0x2
#define KERNEL_STOPPED 0x4
#define KERNEL_TRACED 0x8
#define KERNEL_DEAD 0x10
#define KERNEL_ZOMBIE 0x20
#define KERNEL_TASK_DEAD 0x80
#define KERNEL_NOLOAD 0x400

#define BEHIND_NS 100000ull      /* 0.1 ms; behind whom it waited less is not kept */
#define DRAW_SLEEP_NS 5000000ull /* 5 ms; shorter sleeps are not drawn */
#define DRAW_WAIT_NS 1000000ull  /* 1 ms in D or waiting for a CPU */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, __u32); /* tid */
	__type(value, struct sched_entry);
} sched_tasks SEC(".maps");

static const struct sched_entry zero_entry;

static __always_inline struct sched_entry *entry_of(struct task_struct *p)
{
	__u32 tid = p->pid, tgid = p->tgid;
	struct sched_entry *e;

	if (!target_of(tgid))
		return NULL;
	e = bpf_map_lookup_elem(&sched_tasks, &tid);
	if (e)
		return e;
	bpf_map_update_elem(&sched_tasks, &tid, &zero_entry, BPF_NOEXIST);
	e = bpf_map_lookup_elem(&sched_tasks, &tid);
	if (e)
		e->tgid = tgid;
	return e;
}

static __always_inline __u8 state_of(bool preempt, unsigned int prev_state)
{
	if (preempt || !prev_state)
		return SCHED_RUNNABLE;
	if (prev_state & (KERNEL_DEAD | KERNEL_ZOMBIE | KERNEL_TASK_DEAD))
		return SCHED_DEAD;
	if (prev_state & (KERNEL_STOPPED | KERNEL_TRACED))
		return SCHED_STOPPED;
	if (prev_state & KERNEL_UNINTERRUPTIBLE)
		return prev_state & KERNEL_NOLOAD ? SCHED_SLEEP : SCHED_DISK;
	return SCHED_SLEEP;
}

static __always_inline void switch_out(void *ctx, struct task_struct *p, __u8 state, __u64 now)
{
	struct sched_entry *e;
	__u32 tid = p->pid;
	long bytes;

	/* Before the filter: a process' last thread is no target any more when it leaves the CPU for good. */
	if (state == SCHED_DEAD) {
		bpf_map_delete_elem(&sched_tasks, &tid);
		return;
	}
	e = entry_of(p);
	if (!e)
		return;
	if (e->state == SCHED_ON_CPU)
		e->run_ns += now - e->since_ns;
	e->state = e->off_state = state;
	e->since_ns = e->off_since_ns = now;
	e->wake_ns = 0;
	if (state == SCHED_RUNNABLE) {
		e->wake_ns = now;
		e->preempted++;
	}
	e->n_frames = 0;
	e->call.waits_at = 0;
	if (kernel_has(TASK_REGS) && (state == SCHED_DISK || state == SCHED_SLEEP))
		storage_wait_begin(p, state, &e->call);
	if (state != SCHED_DISK)
		return;
	/* The wait begins here, in the task's own context: its user stack cannot be had later without its mmap_lock. */
	bytes = bpf_get_stack(ctx, e->frames, sizeof(e->frames), BPF_F_USER_STACK);
	if (bytes > 0)
		e->n_frames = bytes / 8;
}

static __always_inline void wait_account(struct sched_entry *e, __u64 now)
{
	__u64 d = now - e->since_ns;

	if (e->state == SCHED_RUNNABLE)
		e->wait_ns += d;
	else if (e->state == SCHED_DISK)
		e->disk_ns += d;
	else if (e->state == SCHED_SLEEP || e->state == SCHED_STOPPED)
		e->sleep_ns += d;
	if (e->state == SCHED_STOPPED)
		e->stopped_ns += d;
}

/* Who ran until now on the CPU that `e` gets: the task it waited behind. Kept for the longest wait recently. */
static __always_inline void behind_note(struct sched_entry *e, struct task_struct *prev, __u64 now)
{
	__u64 d = e->wake_ns ? now - e->wake_ns : 0;

	if (d < BEHIND_NS)
		return;
	e->behind_ns -= e->behind_ns >> 3;
	if (d < e->behind_ns)
		return;
	e->behind_ns = d;
	if (prev->pid)
		bpf_probe_read_kernel(e->behind, sizeof(e->behind), prev->comm);
	else
		e->behind[0] = 0;
}

static __always_inline void off_fill(struct sched_off *r, struct task_struct *p, const struct sched_entry *e,
				     __u64 runq_ns)
{
	r->hdr.tid = p->pid;
	r->hdr.tgid = p->tgid;
	r->begin_ns = e->off_since_ns;
	r->runq_ns = runq_ns;
	r->state = e->off_state;
	r->reserved = 0;
}

static __always_inline void storage_emit(struct task_struct *p, const struct sched_entry *e, __u64 runq_ns)
{
	struct sched_storage_wait *r =
		record_reserve(RING_NORMAL, struct sched_storage_wait, WIRE_SCHED, SCHED_STORAGE_WAIT);

	if (!r)
		return;
	off_fill(&r->off, p, e, runq_ns);
	r->at = e->call.waits_at;
	r->reserved = 0;
	__builtin_memcpy(r->file, e->call.file, sizeof(r->file));
	record_submit(r);
}

static __always_inline void off_emit(struct task_struct *p, const struct sched_entry *e, __u64 now)
{
	__u64 runq = e->wake_ns ? now - e->wake_ns : 0, off = now - e->off_since_ns;
	struct sched_off *r;

	if (off < DRAW_WAIT_NS)
		return;
	if (e->call.waits_at) {
		storage_emit(p, e, runq);
		return;
	}
	if (e->off_state == SCHED_SLEEP && off < DRAW_SLEEP_NS && runq < DRAW_WAIT_NS)
		return;
	r = record_reserve(RING_NORMAL, struct sched_off, WIRE_SCHED, SCHED_OFF);
	if (!r)
		return;
	off_fill(r, p, e, runq);
	record_submit(r);
}

static __always_inline void switch_in(struct task_struct *p, struct task_struct *prev, __u64 now)
{
	struct sched_entry *e = entry_of(p);

	if (!e)
		return;
	if (e->off_since_ns) {
		wait_account(e, now);
		off_emit(p, e, now);
		if (e->call.waits_at)
			storage_wait_end(e->tgid, &e->call, (e->wake_ns ? e->wake_ns : now) - e->off_since_ns, now);
		behind_note(e, prev, now);
	}
	e->state = SCHED_ON_CPU;
	e->since_ns = now;
	e->off_since_ns = 0;
	e->wake_ns = 0;
	e->call.waits_at = 0;
}

/* Not BPF_PROG: that reads all arguments, and the last one came with 5.18. */
SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	bool preempt = ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	unsigned int prev_state = kernel_has(PREV_STATE) ? (unsigned int)ctx[3] : task_state_of(prev);
	__u64 now = bpf_ktime_get_ns();

	switch_out(ctx, prev, state_of(preempt, prev_state), now);
	switch_in(next, prev, now);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *p)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 tid = p->pid;
	struct sched_entry *e;

	if (!target_of(p->tgid))
		return 0;
	e = bpf_map_lookup_elem(&sched_tasks, &tid);
	if (!e || e->state == SCHED_ON_CPU || e->state == SCHED_RUNNABLE || !e->since_ns)
		return 0;
	wait_account(e, now);
	e->state = SCHED_RUNNABLE;
	e->since_ns = e->wake_ns = now;
	return 0;
}

static __always_inline __u32 sample_state(struct task_struct *p)
{
	__u8 state = state_of(false, task_state_of(p));

	return state == SCHED_RUNNABLE && p->on_cpu ? SCHED_ON_CPU : state;
}

/* FUSE's and Lustre's clients sleep, in no D state, until their server answers. */
static __always_inline __u32 sample_waits_at(struct task_struct *p, __u32 state)
{
	struct storage_call call = {};

	if (kernel_has(TASK_REGS) && state == SCHED_SLEEP)
		storage_wait_begin(p, state, &call);
	return call.waits_at;
}

SEC("iter/task")
int sched_samples(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct sched_sample l = {};

	if (!p || !target_of(p->tgid))
		return 0;
	l.tid = p->pid;
	l.tgid = p->tgid;
	l.run_ns = p->se.sum_exec_runtime;
	l.wait_ns = p->sched_info.run_delay;
	l.switches = p->nvcsw + p->nivcsw;
	l.state = sample_state(p);
	l.waits_at = sample_waits_at(p, l.state);
	bpf_seq_write(ctx->meta->seq, &l, sizeof(l));
	return 0;
}
