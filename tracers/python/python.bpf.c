// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* python.bpf.c - CPython collects garbage: one record when it is over, with its begin. Short collections, of which
 * there may be thousands a second, are summed up until they are worth a record.
 */
#include "bpf/record.bpf.h"
#include "bpf/regs.bpf.h"
#include "bpf/cookie.bpf.h"
#include "bpf/own_time.bpf.h"
#include "tracers/python/python.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

RECORD_IN_BTF(python_gc_record);

#define LONG_NS 100000   /* a collection that gets a record of its own */
#define SHORTS_NS 500000 /* short ones together */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PYTHON_THREADS_MAX);
	__type(key, __u32); /* tid */
	__type(value, struct python_thread);
} python_threads SEC(".maps");

static __always_inline void collection_begin(__u32 row)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = (__u32)id;
	struct python_thread *t = bpf_map_lookup_elem(&python_threads, &tid), new = { 0 };

	if (!t || t->tgid != id >> 32) {
		new.tgid = id >> 32;
		bpf_map_update_elem(&python_threads, &tid, &new, BPF_ANY);
		t = bpf_map_lookup_elem(&python_threads, &tid);
		if (!t)
			return;
	}
	/* Where the function and the mark in it are both probed, the outer one counts. */
	if (t->begin_ns && t->row != row)
		return;
	t->row = row;
	t->begin_ns = bpf_ktime_get_ns();
}

static __always_inline void collection_submit(struct python_thread *t, __u64 begin_ns, __u64 busy_ns)
{
	struct python_gc_record *r = record_reserve(RING_NORMAL, struct python_gc_record, WIRE_PYTHON, PYTHON_GC);

	if (!r)
		return;
	r->body.begin_ns = begin_ns;
	r->body.busy_ns = busy_ns + t->short_ns;
	r->body.n = t->n_short + 1;
	r->body.reserved = 0;
	t->short_ns = t->n_short = 0;
	record_submit(r);
}

static __always_inline void collection_end(__u32 row)
{
	__u64 id = bpf_get_current_pid_tgid(), begin_ns, busy_ns;
	__u32 tid = (__u32)id;
	struct python_thread *t = bpf_map_lookup_elem(&python_threads, &tid);

	if (!t || t->tgid != id >> 32 || !t->begin_ns || t->row != row)
		return;
	begin_ns = t->begin_ns;
	busy_ns = bpf_ktime_get_ns() - begin_ns;
	t->begin_ns = 0;
	if (busy_ns >= LONG_NS || t->short_ns + busy_ns >= SHORTS_NS) {
		collection_submit(t, begin_ns, busy_ns);
		return;
	}
	t->short_ns += busy_ns;
	t->n_short++;
}

/* At a place whose cookie says which: the marks, and the function's entry. */
UPROBE_ENTRY(python_gc_mark)
{
	__u64 cookie = probe_cookie(ctx), row = COOKIE_ROW(cookie);

	if (!target_call(bpf_get_current_pid_tgid() >> 32, cookie, RING_NORMAL))
		return 0;
	if (row == PYTHON_ROW_DONE)
		collection_end(PYTHON_ROW_START);
	else if (row == PYTHON_ROW_START || (row == PYTHON_ROW_ENTRY && !lacks_returns(cookie)))
		collection_begin(row);
	return 0;
}

UPROBE_RETURN(python_gc_return)
{
	private_stack_refuse(ctx);
	if (target_of(bpf_get_current_pid_tgid() >> 32) && !collector_is_away())
		collection_end(PYTHON_ROW_ENTRY);
	return 0;
}
