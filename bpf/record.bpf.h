/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * record.bpf.h - the begin and the end of every tracer's BPF program: is this process a target, and room in a ring for
 * the record.
 *
 * All tracers share one set of maps (the loader shares them by name). A record that finds no room is counted per ring
 * and CPU, never lost silently.
 */
#ifndef RANKTRACE_RECORD_BPF_H
#define RANKTRACE_RECORD_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/cookie.h"
#include "bpf/kernel.bpf.h"
#include "bpf/target.h"
#include "schemas/ring.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TARGETS_MAX);
	__type(key, __u32); /* tgid */
	__type(value, struct target);
} targets SEC(".maps");

struct ring_buffer_map { /* the collector sets the sizes */
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, RING_SLOTS);
	__type(key, __u32);
	__array(values, struct ring_buffer_map);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RING_SLOTS);
	__type(key, __u32);
	__type(value, struct ring_state);
} ring_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RING_CLASSES);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct heartbeat);
} heartbeat SEC(".maps");

static __always_inline struct target *target_of(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid);
}

static __always_inline void drop_count(__u32 ring)
{
	__u64 *n = bpf_map_lookup_elem(&drops, &ring);

	if (n)
		*n += 1;
}

static __always_inline bool collector_is_away(void)
{
	__u32 first = 0;
	struct heartbeat *h = bpf_map_lookup_elem(&heartbeat, &first);

	return h && bpf_ktime_get_ns() > h->until_ns;
}

/* The same at a function's entry, and counts what the probe costs the process. */
static __always_inline struct target *target_hit(__u32 tgid, __u64 cookie)
{
	struct target *t = target_of(tgid);

	if (t) {
		__sync_fetch_and_add(&t->hits[COOKIE_GROUP(cookie)], COOKIE_TRAPS(cookie));
		__sync_fetch_and_add(&t->paid[COOKIE_GROUP(cookie)], COOKIE_PRICE(cookie));
	}
	return t;
}

/* The same for a call whose record is all that it is for: NULL, and counted as lost, while no collector takes records.
 * What keeps totals in maps does not use it: they stay exact. */
static __always_inline struct target *target_call(__u32 tgid, __u64 cookie, __u32 ring)
{
	struct target *t = target_hit(tgid, cookie);

	if (!t || !collector_is_away())
		return t;
	drop_count(ring);
	return NULL;
}

static __always_inline void header_fill(struct wire_hdr *h, __u32 size, __u8 tracer, __u8 kind)
{
	__u64 id = bpf_get_current_pid_tgid();

	h->size = size;
	h->tracer = tracer;
	h->kind = kind;
	h->tid = (__u32)id;
	h->tgid = id >> 32;
	h->cpu = bpf_get_smp_processor_id();
	h->ts_ns = bpf_ktime_get_ns();
}

/* An empty record, discarded: it only wakes the collector, so that submit never has to. */
static __always_inline void ring_wake(void *ring, struct ring_state *s)
{
	void *r = bpf_ringbuf_reserve(ring, 8, 0);

	if (!r)
		return;
	s->woken = 1;
	bpf_ringbuf_discard(r, BPF_RB_FORCE_WAKEUP);
}

/* The ring of this class on this CPU's node. A ring that fills wakes the collector once, until it has polled. */
static __always_inline void *ring_of(__u32 class)
{
	__u32 slot = class * RING_NODES_MAX + (bpf_get_numa_node_id() & (RING_NODES_MAX - 1));
	struct ring_state *s = bpf_map_lookup_elem(&ring_states, &slot);
	void *ring = bpf_map_lookup_elem(&rings, &slot);

	if (ring && s && !s->woken && bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA) >= s->wake_bytes)
		ring_wake(ring, s);
	return ring;
}

/* Reserves `type` in the ring of `class`, or counts the drop and returns NULL. The caller sets every other byte. */
#define record_reserve(class, type, tracer, kind) \
	({ \
		void *__ring = ring_of(class); \
		type *__r = __ring ? bpf_ringbuf_reserve(__ring, sizeof(type), 0) : NULL; \
		if (__r) \
			header_fill((struct wire_hdr *)__r, sizeof(type), tracer, kind); \
		else \
			drop_count(class); \
		__r; \
	})

/* A record that is only used inside a function is absent from BTF; a global of its type keeps it there, for the layout
 * test. */
#define RECORD_IN_BTF(name) const struct name *btf_of_##name __attribute__((unused))

/* Without a wake-up: the collector polls every 20 ms, and the target would pay for a wake-up (see ring_wake). */
#define record_submit(r) bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP)

#endif
