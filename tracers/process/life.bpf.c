// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* life.bpf.c - keeps the set of target processes: a child of a target is a target before it runs its first
 * instruction, so nothing of a new dataloader or an exec'd rank is missed. Attached first, detached last.
 * And a glance at all processes of the host, at a fiftieth of what their files in /proc cost.
 */
#include "bpf/record.bpf.h"
#include "bpf/cookie.bpf.h" /* its map, which the tracers share */
#include "schemas/glance.h"
#include "tracers/process/life.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(life_fork);
RECORD_IN_BTF(life_exit);

/* Strangers that are new or another program now, and their users: the next scan reads these, not all that are old. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, BORN_MAX);
	__type(key, __u32);   /* tgid */
	__type(value, __u32); /* uid */
} born SEC(".maps");

static __always_inline int born_note(__u32 tgid)
{
	__u32 uid = (__u32)bpf_get_current_uid_gid();

	bpf_map_update_elem(&born, &tgid, &uid, BPF_ANY);
	return 0;
}

/* Targets by user, which the collector counts too. Root's are not counted. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TARGET_USERS + 1);
	__type(key, __u32);
	__type(value, __u64);
} target_users SEC(".maps");

static __always_inline __u64 *user_count(__u32 uid)
{
	__u32 slot = uid % TARGET_USERS;

	return uid ? bpf_map_lookup_elem(&target_users, &slot) : NULL;
}

static __always_inline void refused_count(void)
{
	__u32 slot = TARGETS_REFUSED;
	__u64 *n = bpf_map_lookup_elem(&target_users, &slot);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline void target_remove(__u32 tgid)
{
	struct target *t = target_of(tgid);
	__u64 *n = t ? user_count(t->uid) : NULL;

	if (t && !bpf_map_delete_elem(&targets, &tgid) && n)
		__sync_fetch_and_add(n, -1);
}

/* False: its user has as many as one may, or the table is full. */
static __always_inline bool target_add(__u32 tgid)
{
	struct target t = { .generation = bpf_ktime_get_ns(), .uid = (__u32)bpf_get_current_uid_gid() };
	__u64 *n = user_count(t.uid);

	target_remove(tgid); /* its exit was not seen */
	if ((n && *n >= TARGETS_OF_USER) || bpf_map_update_elem(&targets, &tgid, &t, BPF_NOEXIST)) {
		refused_count();
		return false;
	}
	if (n)
		__sync_fetch_and_add(n, 1);
	return true;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(life_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid, child_tgid = child->tgid;
	struct life_fork *r;

	if (!target_of(parent_tgid))
		return child_tgid != parent_tgid ? born_note(child_tgid) : 0;
	if (child_tgid != parent_tgid && !target_add(child_tgid))
		return 0;
	r = record_reserve(RING_CRITICAL, struct life_fork, WIRE_LIFE, LIFE_FORK);
	if (!r)
		return 0;
	r->child_tgid = child_tgid;
	r->child_tid = child->pid;
	record_submit(r);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(life_exec, struct task_struct *p)
{
	struct target *t = target_of(p->tgid);
	struct life_exec *r;

	if (!t)
		return born_note(p->tgid);
	t->generation = bpf_ktime_get_ns();
	r = record_reserve(RING_CRITICAL, struct life_exec, WIRE_LIFE, LIFE_EXEC);
	if (r) /* its libraries are mapped within milliseconds */
		bpf_ringbuf_submit(r, BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(life_exit, struct task_struct *p)
{
	__u32 tgid = p->tgid;
	bool last = p->signal->live.counter == 0;
	struct life_exit *r;

	if (!target_of(tgid))
		return 0;
	if (last)
		target_remove(tgid);
	r = record_reserve(RING_CRITICAL, struct life_exit, WIRE_LIFE, LIFE_EXIT);
	if (!r)
		return 0;
	r->code = p->exit_code;
	r->last = last;
	r->run_ns = p->se.sum_exec_runtime;
	record_submit(r);
	return 0;
}

#define KERNEL_PF_KTHREAD 0x00200000

SEC("iter/task")
int process_glances(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct process_glance g = {};
	struct mm_struct *mm;

	if (!p || p->pid != p->tgid)
		return 0;
	mm = p->mm;
	g.tgid = p->tgid;
	g.parent_tgid = p->real_parent->tgid;
	g.start_ns = p->start_time;
	g.execs = p->self_exec_id;
	g.uid = BPF_CORE_READ(p, real_cred, uid.val);
	if (mm)
		g.pages = mm->total_vm;
	g.over = p->exit_state || (!mm && !(p->flags & KERNEL_PF_KTHREAD));
	bpf_seq_write(ctx->meta->seq, &g, sizeof(g));
	return 0;
}
