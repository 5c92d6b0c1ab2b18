/* SPDX-License-Identifier: Apache-2.0
 *
 * tracer.h - the half of a source (source.h) that has programs in the kernel: struct tracer, its rows and functions,
 * and all it may do (the tracer_*() calls on its narrow handle, implemented by user/attach). A tracer never sees
 * libbpf, the model or a sink.
 */
#ifndef RANKTRACE_TRACER_H
#define RANKTRACE_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "event.h"
#include "schemas/wire.h"

struct tracer_handle;
struct target_proc;
struct target_lib;

/* What a session has on, from less to more: a row above its tier is not attached. A row's own is trace unless it says
 * otherwise; watch is below every row. */
enum tier { TIER_WATCH = -1, TIER_TRACE, TIER_BURST };

/* A row: the program `program` goes on the entry (or return) of `symbol`. Rows that share program, side and
 * library attach as one link. The cookie a program gets is made by bpf/cookie.h: row index, library, returns or not. */
struct probe {
	const char *symbol; /* exported name; a second name at the same address is not probed again */
	const char *alias;  /* looked for if `symbol` is absent (stripped weak names); NULL none */
	const char *program;
	bool at_return; /* left out for targets under seccomp where the kernel implements it by a system call */
	const char
		*shows; /* what is not visible in a library that has no row of this text; NULL: nothing worth saying */
	enum tier tier;
	bool placed; /* not found by its name (`symbol` is for people) but by tracer_place() */
};

struct tracer {
	const char *name; /* of its source */
	enum wire_tracer id;
	bool of_machine; /* its hooks are the machine's, not the targets': in every tier, and one that is absent is no
			    trouble */
	bool of_many;    /* many programs have its files: one alone makes no process a rank, or interesting */
	const struct probe *probes; /* NULL: no uprobes, its programs attach to the kernel */
	size_t n_probes;
	/* Do two rows of one side mean the same to the programs, so that at one address they are one function under two
	 * names? If not, a hit there cannot be distinguished and neither is probed. NULL: rows of one program are
	 * alike.
	 */
	bool (*rows_alike)(size_t a, size_t b);
	/* Of a row of tier trace: which group it belongs to. NULL: all are needed. */
	enum probe_group (*group)(size_t row);
	const char *const *markers; /* NULL-terminated: a file that defines all of these is probed; "a|b": either */
	bool vital;                 /* nothing is known of an operation without it: its files are read first of all */
	const char *files;          /* "a|b": how their names usually begin; such files are read first. NULL: any */
	const void *(*object)(size_t *ret_size); /* the BPF object, from the skeleton */
	/* After load, before anything attaches. 0 or -errno. NULL nothing to do. */
	int (*start)(struct tracer_handle *h);
	/* A library was found in a process; before its probes attach. `fd` is the mapped file, borrowed.
	 * `*ret_has_layout`: facts were learned. NULL nothing. */
	int (*on_lib)(struct tracer_handle *h, const struct target_proc *proc, const struct target_lib *lib, int fd,
		      uint32_t lib_id, bool *ret_has_layout);
	/* The number of a library is free for another one: what was kept by it is void. NULL nothing. */
	void (*lib_gone)(struct tracer_handle *h, uint32_t lib_id);
	/* A process became a target. NULL nothing. */
	int (*on_proc)(struct tracer_handle *h, const struct target_proc *proc);
	/* Scan what no probe shows (several times a second); emits records. NULL nothing. */
	int (*tick)(struct tracer_handle *h, uint64_t now_ns);
	/* Between two ticks, each time the rings were emptied (20 ms): for what cannot wait. NULL nothing. */
	int (*sample)(struct tracer_handle *h, uint64_t now_ns);
	/* The session ends: frees what tracer_state() leads to. NULL nothing. */
	void (*end)(struct tracer_handle *h);
};

/* Map of this tracer's object by name. 0, -ENOENT no such map, or -errno of the kernel. */
int tracer_map_put(struct tracer_handle *h, const char *map, const void *key, const void *value);
int tracer_map_put_new(struct tracer_handle *h, const char *map, const void *key, const void *value); /* -EEXIST */
int tracer_map_get(struct tracer_handle *h, const char *map, const void *key, void *ret_value);
int tracer_map_delete(struct tracer_handle *h, const char *map, const void *key); /* -ENOENT it was not there */
/* First key with prev NULL, then the one after prev; -ENOENT at the end. */
int tracer_map_next(struct tracer_handle *h, const char *map, const void *prev, void *ret_key);
/* When the process became a target, or its calls in flight belong to no process; false: it is no target. */
bool tracer_generation(struct tracer_handle *h, uint32_t tgid, uint64_t *ret);
/* Groups of this tracer's rows that are probed in the process, a bit each. */
uint32_t tracer_groups(struct tracer_handle *h, uint32_t tgid);
/* Groups that the probe budget took from the process, a bit each. */
uint32_t tracer_shed(struct tracer_handle *h, uint32_t tgid);
/* Put a record of the tracer's own making into the stream (copied); ts_ns and sizes set by the caller. */
int tracer_emit(struct tracer_handle *h, const struct wire_hdr *rec);
/* Reads the tracer's iterator program once: `each` for every row it wrote, of row_bytes. 0, what `each` returned, or
 * -errno. */
int tracer_iter_each(struct tracer_handle *h, const char *program, size_t row_bytes,
		     int (*each)(void *arg, const void *row), void *arg);
/* The same for an iterator over tasks that selects the targets' threads, without passing by all tasks of the host where
 * the targets are few. The order of rows may differ. */
int tracer_iter_targets(struct tracer_handle *h, const char *program, size_t row_bytes,
			int (*each)(void *arg, const void *row), void *arg);
/* Settings of the session. */
enum tier tracer_tier(const struct tracer_handle *h); /* of the session: a process may be raised above it */
uint64_t tracer_dstate_limit_ns(const struct tracer_handle *h);
/* Own memory, zeroed, freed with the handle; `bytes` the same at every call. NULL without memory. */
void *tracer_state(struct tracer_handle *h, size_t bytes);
/* The helper process for whatever can block behind a target. */
struct reader *tracer_reader(struct tracer_handle *h);
/* Probes on functions that only a pointer in the target's memory leads to: `address` in the process gets the placed row
 * `row`. By file and offset, each once a process however often it is asked for; what was placed in a file is placed at
 * once in the next process that maps it. Emits RECORD_LIB and RECORD_ATTACH. *ret_since_ns: when the last of them was
 * in place. How many probes are new; -ESRCH unknown process, or one that is to have none of them any more; -ENOENT an
 * address lies in no file that can be probed; -EAGAIN not now (a lock is held); -errno. */
struct tracer_place {
	uint64_t address;
	uint32_t row;
};
int tracer_place(struct tracer_handle *h, uint32_t tgid, const struct tracer_place *places, size_t n,
		 uint64_t *ret_since_ns);
/* Names of user addresses of a target, one "func+0x1f (lib.so)" line each, innermost first; "" where nothing is known.
 * Never touches the target. */
void tracer_user_stack(struct tracer_handle *h, uint32_t tgid, const uint64_t *addrs, size_t n, char *to, size_t size);

#endif
