/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.h - BPF objects in the kernel: load, share maps, attach per process, detach. Only this and ring.c use libbpf.
 *
 * A tracer that fails to load never stops the others.
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
struct shares;
struct target_set;
struct symbolizer;
struct target_proc;
struct target_lib;

struct loader_cfg {
	struct reader *reader;
	struct target_set *targets;
	struct symbolizer *symbols;
	uint64_t dstate_limit_ns;
	size_t ring_bytes[RING_CLASSES]; /* of each ring of the class: a power of two */
	enum tier tier;
	bool prices;           /* measure and count the cost of probes */
	bool shared_probes;    /* session.h */
	struct shares *shares; /* whose processes are as many as one user may have; NULL: no user's */
	uint32_t lacks;        /* bits of kernel.def to do without, beside what the kernel lacks; 0: none */
	/* Gets the records of the loader and of tracers' ticks. */
	int (*emit)(void *to, const struct wire_hdr *rec);
	void *emit_to;
	void (*log)(const char *line); /* gets libbpf's messages when a load fails; NULL: dropped */
};

/* Loads everything. 0; -EPERM missing privilege; -ENOENT no BTF; errors of kernel_lacks_read(); -errno of the life
 * programs (nothing works without them). loader_tracer_error() reports a tracer that did not load. */
int loader_open(const struct loader_cfg *cfg, struct loader **ret);
/* Detaches all probes. Links on a file that must not be touched now (attach_guard.h) go to a process of their own:
 * returns their number, the process that blocks them, and the closing process. 0 links: none. */
struct loader_left {
	int n_links;
	uint32_t holder;
	pid_t closer; /* or -errno: loader_free() closes them, however long that takes */
};
struct loader_left loader_detach(struct loader *l);
void loader_free(struct loader *l); /* detaches everything */

/* i-th tracer: its name, and 0 or the -errno of its load; NULL past the end. */
const char *loader_tracer_error(const struct loader *l, int i, int *ret_err);

int loader_tracer_programs(const struct loader *l,
			   int i); /* programs of the i-th tracer in the kernel; 0: it did not load */
int loader_private_stacks(
	const struct loader *l); /* uprobe programs with a stack per CPU: the kernel may panic (kernel_quirks.def) */

/* Call it before any attach to the process. -EDQUOT: its user (UID_UNKNOWN: of none) has TARGETS_OF_USER of them;
 * -ENOSPC: the table is full. */
int loader_target_add(struct loader *l, uint32_t tgid, uint32_t uid);
void loader_target_forget(struct loader *l, uint32_t tgid); /* the process exited: release its links */
void loader_links_forget(struct loader *l,
			 uint32_t tgid); /* the same after the BPF programs saw the exit: the pid may be in use again */
uint64_t loader_forks_refused(const struct loader *l); /* children of targets that found no room */
bool loader_is_target(const struct loader *l, uint32_t tgid);

/* Scans the processes of the host: those that are new, changed, or matter; about once a second. 0 or -errno. */
int loader_scan(struct loader *l, struct target_set *set);

int loader_attach_life(struct loader *l);     /* process life: call it first */
int loader_attach_samplers(struct loader *l); /* kernel-side programs of the tracers: call it last */
/* What an attach has to report, once each. */
struct attach_note {
	size_t n_ambiguous; /* functions of the library without a probe, because several share one address */
	uint32_t holder;    /* process that the library has been waiting for, for a second by now; 0: none */
	bool waits;         /* nothing was attached: try again */
	const struct target_proc *other; /* another user's process that maps it, and would pay: it waits for that */
	uint32_t crowd;                  /* user with more processes than are scanned, that map it: it waits for that */
	char unseen[256]; /* what is not visible of this library for want of its functions; "" nothing, or said before
			   */
	bool more;        /* not all were attached, as each takes milliseconds here: call again soon */
};
/* Starts a time slice: where probes are attached one by one, attaches take 10 ms at most, so that urgent work gets its
 * turn. */
void loader_slice_begin(struct loader *l);
/* Attaches one tracer's probes to a library of this process: the rows of the group up to tier `upto`, unless done
 * already. Emits RECORD_LIB and RECORD_ATTACH once all are attached. Returns the number of probes attached now or
 * -errno. */
int loader_attach_lib(struct loader *l, const struct tracer *t, const struct target_proc *proc,
		      const struct target_lib *lib, enum probe_group group, enum tier upto,
		      struct attach_note *ret_note);
bool loader_attach_waits(const struct loader *l); /* for the kernel: nothing more is attached meanwhile */
/* Attaches what tracer_place() attached to files of other processes to the same files of this one. 0, -EAGAIN not now,
 * or -errno. */
int loader_attach_learnt(struct loader *l, const struct target_proc *proc);
/* Call it before a process without probes gets them again: drops the state of calls that were in flight when the last
 * probes went. */
void loader_raise(struct loader *l, uint32_t tgid);
/* Removes the process' probes of rows above tier `to`. Its calls in flight are dropped. */
void loader_lower(struct loader *l, uint32_t tgid, enum tier to);
/* Removes the probes of these groups (one bit each) from the process, and only these; it may get the others back. Where
 * loader_attaches_per_process() is false, all processes lose them. */
void loader_shed(struct loader *l, uint32_t tgid, uint32_t groups);
/* What the process paid for its probes so far, by group; all wrap. */
#define LOADER_PRICE_NS 16
struct hit_counts {
	uint32_t hits[PROBE_GROUPS], paid[PROBE_GROUPS];       /* traps, and their cost in LOADER_PRICE_NS */
	uint32_t own_runs[PROBE_GROUPS], own_ns[PROBE_GROUPS]; /* of our programs: some that were timed */
};
bool loader_hits(const struct loader *l, uint32_t tgid, struct hit_counts *ret); /* false: not a target */
/* The cost of a hit depends on the function's first instruction: the kernel emulates some, and steps over others out of
 * line. */
enum hit_class { HIT_PUSH, HIT_LANDING /* endbr64, bti, paciasp */, HIT_OTHER, HIT_RETURN, HIT_CLASSES };
struct hit_prices {
	uint64_t ns[HIT_CLASSES]; /* of the trap, with a program that returns at once */
	uint64_t idle_ns; /* what a timed run of that program takes: such a price, and the clock's, is in both */
	uint64_t own_ns;  /* what our program is taken to add to a trap until it was timed */
	bool assumed;
};
/* Measures the costs here, on functions of the collector's own, in some milliseconds; `assumed`: that failed. With
 * cfg.prices this runs before the first attach, and the cost of each process is counted. */
void loader_prices(struct loader *l, struct hit_prices *ret);
const struct hit_prices *loader_prices_known(const struct loader *l); /* what cfg.prices had measured */
/* The process came under seccomp: removes its return probes where a filter may kill for them (x86-64 from 6.11).
 * Returns how many. */
uint32_t loader_returns_drop(struct loader *l, uint32_t tgid);
/* A process became a target: calls the tracers' on_proc. */
void loader_proc_known(struct loader *l, const struct target_proc *proc);

void loader_dstate_limit(struct loader *l, uint64_t ns); /* from now on */
int loader_tick(struct loader *l, uint64_t now_ns);      /* tracers' ticks and loss counters */

int loader_poll(struct loader *l, uint64_t now_ns); /* tracers' polls: call it after each loader_consume() */

/* Moves the rings' records into `emit`. 0, 1 if more is left (call again soon), or -errno. */
int loader_consume(struct loader *l);
/* So long the collector did not consume, past COLLECTOR_AWAY_NS, since this was last asked: calls of that time are lost
 * and counted. 0: it never was away. */
uint64_t loader_away_ns(struct loader *l);
uint64_t loader_ring_bytes_mapped(const struct loader *l);
int loader_wake_fd(const struct loader *l); /* for poll(): a ring fills up, consume now */

/* Gives up all privileges that attaching takes not from here on. Before any thread. 0, -errno. */
int loader_confine(struct loader *l);
bool loader_attaches_per_process(const struct loader *l); /* uprobe.multi with a pid filter */
uint64_t loader_lost(const struct loader *l, enum ring_class ring);
uint32_t loader_probes(const struct loader *l);        /* attached now */
uint32_t loader_libs_attached(const struct loader *l); /* libraries, counted per process and tracer */

#endif
