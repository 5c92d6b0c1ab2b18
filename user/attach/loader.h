/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.h - BPF objects in the kernel: load, share maps, attach per process, detach. The only user of libbpf
 * besides ring.c. One tracer that fails to load never stops the others.
 */
#ifndef RANKTRACE_LOADER_H
#define RANKTRACE_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "schemas/wire.h"
#include "tracer.h"

struct loader;
struct reader;
struct target_set;
struct symbolizer;
struct target_proc;
struct target_lib;

struct loader_cfg {
	struct reader *reader;
	struct target_set *targets;
	struct symbolizer *symbols;
	uint64_t dstate_limit_ns;
	size_t ring_bytes[RING_CLASSES]; /* of each ring of the class, a power of two */
	enum tier tier;
	bool prices;    /* count what probes cost */
	uint32_t lacks; /* bits of kernel.def to do without, beside what the kernel lacks; 0 none */
	/* Where records of the loader and of tracers' ticks go. */
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *emit_to;
	void (*log)(const char *line); /* libbpf's words, when a load fails; NULL none */
};

/* Load everything. 0; -EPERM missing privilege; -ENOENT no BTF; as kernel_lacks_read(); -errno of the life programs
 * (nothing works then). A tracer that did not load is reported by loader_tracer_error(). */
int loader_open(const struct loader_cfg *cfg, struct loader **ret);
/*
 * Takes all probes out. Those of a file that must not be touched now (attach_guard.h) are left to a process of ours:
 * their number, whom they wait for, and that process; 0 links: none.
 */
struct loader_left {
	int n_links;
	uint32_t holder;
	pid_t closer; /* or -errno: they are closed here, by loader_free(), however long it takes */
};
struct loader_left loader_detach(struct loader *l);
void loader_free(struct loader *l); /* detaches everything */

/* i-th tracer: its name and 0, or the -errno of its load; NULL past the end. */
const char *loader_tracer_error(const struct loader *l, int i, int *ret_err);

int loader_tracer_programs(const struct loader *l, int i); /* of the i-th tracer, in the kernel; 0 it did not load */
int loader_private_stacks(
	const struct loader *l); /* uprobe programs with one: the kernel may panic (kernel_quirks.def) */

int loader_target_add(struct loader *l, uint32_t tgid);     /* before anything attaches to it */
void loader_target_forget(struct loader *l, uint32_t tgid); /* it exited: release its links */
void loader_links_forget(struct loader *l,
			 uint32_t tgid); /* the same where the kernel side saw the exit: its pid may live again */
bool loader_is_target(const struct loader *l, uint32_t tgid);

int loader_attach_life(struct loader *l);     /* process life: first */
int loader_attach_samplers(struct loader *l); /* kernel-side programs of the tracers: last */
/* What is to be said of an attach, once each. */
struct attach_note {
	size_t n_ambiguous; /* functions of the library that are not probed because they cannot be told apart */
	uint32_t holder;    /* process that the library has waited for, for a second by now; 0 nobody */
	bool waits;         /* nothing was attached: try again */
	bool more;          /* not all were attached, as each takes milliseconds here: go on soon */
};
/* A look at processes begins: where probes are placed one by one, it places them for 10 ms, so that what cannot wait
 * has its turn. */
void loader_slice_begin(struct loader *l);
/* Attach one tracer's probes, of the group's rows up to tier `upto`, to a library of this process, unless it is done
 * already; emits FACT_LIB and FACT_ATTACH once all are. Returns the number of probes attached now or -errno. */
int loader_attach_lib(struct loader *l, const struct tracer *t, const struct target_proc *proc,
		      const struct target_lib *lib, enum probe_group group, enum tier upto,
		      struct attach_note *ret_note);
/* What tracer_place() put on files in other processes, on the same files in this one. 0, -EAGAIN not now, or -errno. */
int loader_attach_learnt(struct loader *l, const struct target_proc *proc);
/* Before a process that had no probes gets them again: what it was inside of when the last ones went is forgotten. */
void loader_raise(struct loader *l, uint32_t tgid);
/* Takes the process' probes of rows above tier `to` away. What it was inside of is not in flight any more. */
void loader_lower(struct loader *l, uint32_t tgid, enum tier to);
/* Takes the probes of these groups (a bit each) from the process, and only these: it may have the others back. Where
 * loader_attaches_per_process() is false, nothing happens. */
void loader_shed(struct loader *l, uint32_t tgid, uint32_t groups);
/* Traps of its probes that the process went through by now, by group, and what they cost, in LOADER_PRICE_NS:
 * PROBE_GROUPS of each, and they wrap. False: it is no target. */
#define LOADER_PRICE_NS 16
bool loader_hits(const struct loader *l, uint32_t tgid, uint32_t *ret_hits, uint32_t *ret_paid);
/* What a hit costs depends on the function's first instruction: the kernel emulates some, and steps over others out of
 * line. */
enum hit_class { HIT_PUSH, HIT_LANDING /* endbr64, bti, paciasp */, HIT_OTHER, HIT_RETURN, HIT_CLASSES };
struct hit_prices {
	uint64_t ns[HIT_CLASSES];
	bool assumed;
};
/* What it is here: measured on functions of our own, in some milliseconds; `assumed`: that could not be done. With
 * cfg.prices it is done by itself before the first probe is attached, and what a process pays is counted. */
void loader_prices(struct loader *l, struct hit_prices *ret);
const struct hit_prices *loader_prices_known(const struct loader *l); /* what cfg.prices had measured */
/* The process is under seccomp by now: its return probes go, where one may kill it (x86-64 from 6.11). How many. */
uint32_t loader_returns_drop(struct loader *l, uint32_t tgid);
/* A process became a target: tracers' on_proc. */
void loader_proc_known(struct loader *l, const struct target_proc *proc);

int loader_tick(struct loader *l, uint64_t now_ns); /* tracers' ticks, loss counters */

int loader_look(struct loader *l, uint64_t now_ns); /* tracers' looks: after each loader_consume() */

/* Take what the rings hold into `emit`: 0, 1 if more is left (come back soon), or -errno. */
int loader_consume(struct loader *l);
uint64_t loader_ring_bytes_mapped(const struct loader *l);
int loader_wake_fd(const struct loader *l); /* for poll(): a ring is filling up, consume now */

bool loader_attaches_per_process(const struct loader *l); /* uprobe.multi with a pid filter */
uint64_t loader_lost(const struct loader *l, enum ring_class ring);
uint32_t loader_probes(const struct loader *l);        /* attached now */
uint32_t loader_libs_attached(const struct loader *l); /* libraries, counted per process and tracer */

#endif
