/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * storage.bpf.h - on which file system, and in which kind of call, a task is blocked: seen where it leaves the CPU, in
 * its own context, from the system call it is in. A call that is not blocked costs nothing and is not counted.
 */
#ifndef RANKTRACE_STORAGE_BPF_H
#define RANKTRACE_STORAGE_BPF_H

#include "bpf/record.bpf.h"
#include "tracers/sched/sched.h"

#define SAME_CALL_NS 20000000ull /* a call that runs for longer between two waits counts as two */
#define MODE_TYPE 0170000        /* include/uapi/linux/stat.h */
#define MODE_FILE 0100000
#define MODE_FOLDER 0040000

struct { /* by number of the system call: enum storage_act, | STORAGE_BY_PATH */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STORAGE_CALLS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} storage_calls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, STORAGE_SUMS_MAX);
	__type(key, struct storage_key);
	__type(value, struct storage_sum);
} storage_sums SEC(".maps");

static const struct storage_sum zero_sum;

#if defined(__TARGET_ARCH_arm64)
struct pt_regs___calls { /* arch/arm64/include/asm/ptrace.h */
	u64 orig_x0;
	s32 syscallno;
} __attribute__((preserve_access_index));
#endif

static __always_inline __s64 call_number(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#else
	return BPF_CORE_READ((struct pt_regs___calls *)regs, syscallno);
#endif
}

static __always_inline __u64 first_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->di;
#else
	return BPF_CORE_READ((struct pt_regs___calls *)regs, orig_x0);
#endif
}

/* The position of the file distinguishes calls with the same arguments: it moves as a call returns. */
static __always_inline __u64 call_id(struct pt_regs *regs, __u64 position)
{
	const __u64 mix = 0x9e3779b97f4a7c15ull;
	__u64 id = call_number(regs) * mix + first_argument(regs);

#if defined(__TARGET_ARCH_x86)
	id = ((id * mix + regs->si) * mix + regs->dx) * mix + regs->r10;
#else
	for (int i = 1; i < 4; i++)
		id = id * mix + BPF_CORE_READ(regs, user_regs.regs[i]);
#endif
	return id * mix + position;
}

/* Most sleeps in read() are on pipes and sockets: what pointers of known types lead to is read without a call. */
static __always_inline struct file *file_of(struct task_struct *p, __u64 fd)
{
	struct files_struct *files = p->files;
	struct fdtable *table = files ? files->fdt : NULL;
	struct file *f = NULL;

	if (!table || fd >= table->max_fds)
		return NULL;
	bpf_probe_read_kernel(&f, sizeof(f), table->fd + fd);
	return f;
}

/* Pipes, sockets, terminals and devices have names in file systems, too. */
static __always_inline bool is_stored(struct inode *inode)
{
	unsigned short type = BPF_CORE_READ(inode, i_mode) & MODE_TYPE;

	return type == MODE_FILE || type == MODE_FOLDER;
}

/* 0: the descriptor is no file's. */
static __always_inline __u32 wait_by_file(struct task_struct *p, struct pt_regs *regs, __u32 act,
					  struct storage_call *c)
{
	struct file *f = file_of(p, first_argument(regs));
	struct inode *inode = f ? BPF_CORE_READ(f, f_inode) : NULL;

	if (inode && !is_stored(inode))
		return 0;
	/* close() takes the descriptor out of the table before it writes what is left: a wait in D is storage's */
	if (!inode && act != STORAGE_CLOSE)
		return 0;
	c->next_id = call_id(regs, f ? BPF_CORE_READ(f, f_pos) : 0);
	if (!inode)
		return STORAGE_AT(0, act);
	bpf_probe_read_kernel_str(c->file, sizeof(c->file), BPF_CORE_READ(f, f_path.dentry, d_name.name));
	return STORAGE_AT(BPF_CORE_READ(inode, i_sb, s_dev), act);
}

/* While a path is looked up, the kernel keeps with the task how far it is; behind that the file system is not known. */
static __always_inline __u32 wait_by_path(struct task_struct *p, struct pt_regs *regs, __u32 act,
					  struct storage_call *c)
{
	struct nameidata *walk = p->nameidata;
	struct dentry *at = walk ? BPF_CORE_READ(walk, path.dentry) : NULL;

	if (at && !is_stored(BPF_CORE_READ(at, d_inode)))
		return 0;
	c->next_id = call_id(regs, 0);
	if (!at)
		return STORAGE_AT(0, act);
	bpf_probe_read_kernel_str(c->file, sizeof(c->file), BPF_CORE_READ(walk, last.name));
	return STORAGE_AT(BPF_CORE_READ(at, d_sb, s_dev), act);
}

/* Only waits that the kernel itself counts as such: it waits in D for locks of the memory map, too. */
static __always_inline __u32 wait_by_fault(struct task_struct *p, __u8 state, struct storage_call *c)
{
	if (state != SCHED_DISK || !BPF_CORE_READ_BITFIELD_PROBED(p, in_iowait))
		return 0;
	c->next_id = 0;
	return STORAGE_AT(0, STORAGE_FAULT);
}

/* The task leaves the CPU in `state` (D, or asleep: FUSE's waits are no D, Lustre's are idle ones). */
static __always_inline void storage_wait_begin(struct task_struct *p, __u8 state, struct storage_call *c)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);
	__s64 number = call_number(regs);
	__u32 nr = number, *act;

	c->file[0] = 0;
	if (number == -1) {
		c->waits_at = wait_by_fault(p, state, c);
		return;
	}
	act = bpf_map_lookup_elem(&storage_calls, &nr);
	if (!act || !*act)
		return;
	if (*act & STORAGE_BY_PATH)
		c->waits_at = wait_by_path(p, regs, *act & ~STORAGE_BY_PATH, c);
	else
		c->waits_at = wait_by_file(p, regs, *act, c);
	if (!STORAGE_DEVICE(c->waits_at) && state != SCHED_DISK)
		c->waits_at = 0;
}

static __always_inline struct storage_sum *storage_sum_of(__u32 tgid, __u32 at)
{
	struct storage_key key = { .tgid = tgid, .at = at };
	struct storage_sum *s = bpf_map_lookup_elem(&storage_sums, &key);

	if (s)
		return s;
	bpf_map_update_elem(&storage_sums, &key, &zero_sum, BPF_NOEXIST);
	s = bpf_map_lookup_elem(&storage_sums, &key);
	if (s)
		s->at = at;
	return s;
}

static __always_inline __u32 length_of(__u64 ns)
{
	return (ns > 300000) + (ns > 1000000) + (ns > 3000000) + (ns > 10000000) + (ns > 30000000) + (ns > 100000000) +
	       (ns > 1000000000) + (ns > 10000000000ull);
}

/* Threads of one process add to one sum at a time: but for the longest call, which is as good as the last that won. */
static __always_inline void storage_sum_add(struct storage_sum *s, struct storage_call *c, __u64 ns, bool again)
{
	__u32 before = length_of(c->blocked_ns), now;

	if (again)
		__sync_fetch_and_add(&s->by_length[before & 15], -1);
	else
		__sync_fetch_and_add(&s->calls, 1);
	c->blocked_ns = again ? c->blocked_ns + ns : ns;
	now = length_of(c->blocked_ns);
	if (now <= STORAGE_BOUNDS)
		__sync_fetch_and_add(&s->by_length[now], 1);
	__sync_fetch_and_add(&s->blocked_ns, ns);
	if (c->blocked_ns <= s->longest_ns)
		return;
	s->longest_ns = c->blocked_ns;
	__builtin_memcpy(s->file, c->file, sizeof(s->file));
}

/* The wait is over, after `ns` of it; the task is on a CPU again. What finds no room is counted as lost. */
static __always_inline void storage_wait_end(__u32 tgid, struct storage_call *c, __u64 ns, __u64 now)
{
	struct storage_sum *s = storage_sum_of(tgid, c->waits_at);
	bool again = c->id == c->next_id && c->at == c->waits_at && now - ns - c->end_ns < SAME_CALL_NS;

	if (!s) {
		drop_count(RING_NORMAL);
		return;
	}
	storage_sum_add(s, c, ns, again);
	c->id = c->next_id;
	c->at = c->waits_at;
	c->end_ns = now;
}

#endif
