/* SPDX-License-Identifier: Apache-2.0
 *
 * loader_internal.h - shared by loader.c (objects and maps), loader_targets.c (map of processes), loader_away.c (the
 * collector's heartbeat), attach.c (probes on
 * libraries), attach_place.c (on functions without a name) and attach_cost.c (on functions of the collector). Private
 * to them.
 */
#ifndef RANKTRACE_LOADER_INTERNAL_H
#define RANKTRACE_LOADER_INTERNAL_H

#include <bpf/libbpf.h>

#include "attach/attach_guard.h"
#include "attach/attacher.h"
#include "attach/detach.h"
#include "attach/kernel.h"
#include "attach/loader.h"
#include "inspect/discover/discover.h"
#include "inspect/elf/elf_file.h"
#include "tracer.h"

#define LOADER_TRACERS_MAX WIRE_TRACER_MAX
#define TASK_ITER_TARGETS 512
#define LOADER_LIBS_MAX WIRE_LIBS_MAX
#define LOADER_LIBS_OF_PROC 128 /* a file counts once for each tracer and probe group: some ten files */
#define LOADER_LIBS_OF_UID (LOADER_LIBS_MAX / 2) /* of one user that is not root: others find room whatever it does */

struct tracer_handle { /* one tracer in the kernel */
	struct loader *loader;
	const struct tracer *tracer;
	struct bpf_object *object; /* NULL: not loaded, or closed */
	int err;
	bool later; /* loaded with the first library that it probes */
	void *state;
	struct bpf_link **samplers;
	int n_samplers;
	struct bpf_link *iter; /* of its iterator, once it was read */
};

struct lib_probes {              /* a library as one tracer sees it: this very file, whatever build-id it has */
	struct target_file file; /* identity only: fd -1 */
	uint32_t uid;            /* whose process brought it */
	uint8_t build_id[ELF_BUILD_ID_MAX];
	uint8_t build_id_len;
	const struct tracer *tracer;
	enum probe_group group; /* rows of this group, up to `upto` */
	enum tier upto;
	struct elf_symbol *symbols;   /* [tracer->n_probes] */
	uint8_t *classes;             /* the same: enum hit_class of each */
	uint32_t n_found, n_attached; /* n_attached: rows of `attached` */
	uint64_t price_ns;            /* time that one probe on it cost the attach; 0 not known */
	bool crowd_said, shared_said, unseen_said;
	size_t n_ambiguous;      /* functions left out because others share their address; 0 after it was reported */
	uint64_t waits_since_ns; /* waits for a lock since then; 0: does not wait */
	bool wait_logged;
	size_t shared_next; /* without a pid filter, probes are attached once for all processes: the first row that is
			       missing */
};

#define PLACES_MAX 64 /* of one call in one file */
struct placed_at {
	uint64_t offset;
	uint32_t row;
};

struct learnt {                  /* a file that tracer_place() put probes on */
	struct target_file file; /* a copy, with an fd of its own */
	uint32_t uid;            /* whose pointers led there: other users' processes are not probed for it */
	char *path;
	uint32_t lib_id;
	struct placed_at at[PLACES_MAX];
	size_t n;
	struct learnt *next;
};

struct attached { /* links on one library of one process */
	uint32_t tgid, uid;
	uint64_t start_ns; /* of the process */
	const struct tracer *tracer;
	uint32_t lib_id;
	uint64_t bias;       /* of the image in the process */
	uint64_t text_begin; /* the same file may be mapped anew after dlclose */
	struct bpf_link **links;
	int n_links;
	int n_return_links; /* the first ones */
	uint32_t n_return_probes;
	uint32_t n_probes;
	bool partial, has_layout; /* partial: rows are left for the next poll */
	uint64_t begin_ns;        /* when its first attach began */
	struct placed_at *places; /* set by tracer_place(); NULL: found by symbols */
	size_t n_places;
	uint64_t since_ns; /* when the last of these was in place */
	bool early;        /* attached before the process maps the file */
	uint64_t dev, ino; /* of the file that holds the places */
	size_t n_rows;     /* of the attach order that are done: the next call goes on there */
	int made_err;      /* of the attacher, for that call */
	bool returns;      /* return probes are among them */
	bool added;        /* in the lists */
	struct attached *prev, *next, *next_of_proc;
};

struct shed { /* groups that were removed from a process, one bit each */
	uint32_t tgid, groups;
	struct shed *next;
};

struct batch { /* rows of one program and side; room for all rows of the tracer */
	unsigned long *offsets;
	unsigned long *semaphores; /* of static marks, 0 none; NULL: none in any row */
	__u64 *cookies;
	size_t n;
};

struct loader {
	struct loader_cfg cfg;
	struct bpf_object *life;
	struct bpf_link **life_links;
	int n_life_links;
	struct bpf_link *glances; /* of the iterator over all processes, once it was read */
	uint64_t glances_due_ns;  /* the next pass over all */
	bool no_task_links;       /* the kernel's iterators go over all tasks only */
	struct tracer_handle tracers[LOADER_TRACERS_MAX];
	int n_tracers;
	uint32_t lacks;         /* bits of kernel.def */
	bool multi;             /* uprobe.multi: one of them */
	bool uretprobe_syscall; /* return probes trap by a system call that seccomp may deny */
	struct lib_probes libs[LOADER_LIBS_MAX];
	uint32_t n_libs, lib_next; /* lib_next: where the search for one to reuse begins */
	struct hit_prices prices;  /* 0: not measured */
	uint64_t slice_until_ns;   /* loader_slice_begin() */
	uint64_t asked_ns;         /* who holds a lock was asked for tracer_place(), anew, the last time */
	struct attached *attached;
	struct proc_links *proc_links; /* the same by process */
	struct shed *shed;
	struct learnt *learnt;
	struct attach_guard *guard;
	struct detacher *detacher;
	struct attacher *attacher;
	uint32_t n_probes;
	uint32_t n_refused; /* places where no function begins */
	struct ring_source *rings;
	struct heartbeat *heartbeat; /* the BPF programs' memory too */
	uint64_t away_ns;            /* they returned at once for so long, since it was last asked for */
	uint64_t *target_users;      /* the BPF programs' memory: targets of a user */
	uint64_t lost[RING_CLASSES];
	uint64_t *drops; /* as last emitted: [class][cpu], then one more row as read buffer */
	int n_cpus;
};

/* loader_targets.c */
int target_users_map(struct loader *l);
void target_users_unmap(struct loader *l);

/* loader_maps.c */
void maps_shrink(struct bpf_object *o, const char *name); /* hash maps, or that one: to one entry */
bool maps_stay_empty(const struct loader *l, const struct tracer *t);

#define OWN_CLIP_NS 16000 /* at least: our programs take 0.2 to 3 us */

/* loader_away.c */
int heartbeat_map(struct loader *l);
void heartbeat_unmap(struct loader *l);
void heartbeat_beat(struct loader *l); /* the collector has its turn */

/* attached.c */
struct attached *attached_find(const struct loader *l, const struct tracer *t, const struct target_proc *proc,
			       const struct target_lib *lib, int lib_id);
struct attached *attached_first(const struct loader *l, uint32_t tgid); /* of a process; then ->next_of_proc */
int attached_add(struct loader *l, struct attached *a);                 /* 0, -ENOMEM, or -EEXIST: it has those */

/* attach_rows.c: 0, 1 more is left, or -errno */
int rows_attach(struct tracer_handle *h, struct attached *a, struct lib_probes *lib, int fd, bool returns);
int rows_attach_slice(struct tracer_handle *h, struct attached *a, struct lib_probes *lib, int fd, bool returns);
int cookies_put(struct loader *l, const struct attached *a, const struct lib_probes *lib, __u64 bias, __u64 flags);
void cookies_forget(struct loader *l, const struct attached *a);
/* What the attacher has put in place becomes its library's; waits for it for so long at most. */
void attach_made_take(struct loader *l, uint64_t wait_ns);

/* attach.c */
struct tracer_handle *handle_of(struct loader *l, const struct tracer *t); /* NULL none */
bool row_is_pair(const struct tracer *t, size_t row);                      /* its return is the next row */
void attached_forget(struct loader *l, uint32_t tgid);
void attached_free_all(struct loader *l);
uint32_t shed_groups(const struct loader *l, uint32_t tgid);
uint32_t lib_holder(struct loader *l, uint32_t lib_id); /* process that blocks its probes, 0: none */
void attached_free(struct loader *l, struct attached *a);
/* Nothing may be attached to it in this process now. */
bool lib_waits(struct loader *l, const struct target_proc *proc, uint32_t lib_id, struct attach_note *note);
bool return_probes_allowed(const struct loader *l, const struct target_proc *proc);
#define LIB_OWN LOADER_LIBS_MAX /* links that belong to no library of a target */
/* Returns the index of the library's entry for this tracer and group with rows up to `upto`, which is the lib_id in
 * cookies and records; or -errno: -ESTALE the file is not what was inspected any more, -EDQUOT the process or its user
 * has too many. */
int lib_get(struct loader *l, const struct tracer *t, const struct target_proc *proc, const struct target_file *file,
	    enum probe_group group, enum tier upto);
bool lib_is_same(const void *loader, uint32_t a, uint32_t b); /* the same rows of the same file, of any content */
/* Links on that library, also from before the file was touched. */
bool attached_is_of(const struct loader *l, const struct attached *a, int lib_id);
int lib_file_check(struct loader *l, const struct target_file *file); /* 0, -ESTALE: changed since its inspection */
int batch_new(struct batch *b, size_t n_rows);
void batch_free(struct batch *b);
int batch_attach(struct loader *l, struct attached *a, const struct bpf_program *prog, const char *path,
		 const struct batch *b, bool at_return);
int attached_emit(struct loader *l, const struct attached *a, const struct target_lib *lib, uint64_t begin_ns,
		  bool has_layout);

/* attach_place.c: places of one file in one process */
struct placing {
	struct tracer_handle *h;
	const struct target_proc *proc;
	const struct target_lib *lib;
	struct placed_at at[PLACES_MAX];
	size_t n;
	uint64_t since_ns; /* when the last of those that are there was */
};
bool place_is_there(struct placing *p, uint64_t offset, uint32_t row);
int placing_attach(struct placing *p, bool mapped); /* -EAGAIN: not now */
int places_attach(struct tracer_handle *h, const struct target_proc *proc, const struct tracer_place *places, size_t n,
		  uint64_t *ret_since_ns);

/* attach_learnt.c */
bool learnt_knows(const struct placing *p, uint64_t offset); /* it was probed there for another of the user's */
void learnt_note(const struct placing *p, uint32_t lib_id);
void learnt_free_all(struct loader *l);

/* attach_cost.c */
enum hit_class hit_class_at(int fd, uint64_t offset); /* of the function there */
/* The part of a cookie that holds the cost of a call. */
__u64 cookie_pays(const struct loader *l, enum probe_group group, enum hit_class class, bool pair);

/* loader_targets.c */
void targets_clear(struct loader *l);
void target_generation_begin(struct loader *l, uint32_t tgid);
void targets_generation_begin(struct loader *l); /* of all */

/* loader.c */
/* The tracer is about to probe: loads it where that was left until now. 0 or -errno, the latter once. */
int tracer_load_late(struct tracer_handle *h);
void links_free(struct bpf_link **links, int n);
bool program_is_uprobe(const struct bpf_program *p);
int loader_map_fd(const struct loader *l, const char *name); /* one of the maps that all objects share */

#endif
