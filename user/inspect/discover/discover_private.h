/* SPDX-License-Identifier: Apache-2.0
 *
 * discover_private.h - what discover.c (scanning), lib_table.c (files) and rank_tree.c (who is whose) share. No one
 * else includes it.
 */
#ifndef RANKTRACE_TARGET_DISCOVER_PRIVATE_H
#define RANKTRACE_TARGET_DISCOVER_PRIVATE_H

#include "inspect/discover/discover.h"
#include "inspect/discover/launch_env.h"
#include "inspect/reader/proc_files.h"

#include <uthash.h>
#include <utlist.h>

struct file_row {
	struct target_file pub;     /* its first four fields are the key */
	struct elf_symbol *symbols; /* one for each of the set's names, NULL when no want matches */
	unsigned n_users;           /* target_lib rows that point here */
	UT_hash_handle hh;
};
#define FILE_KEY_LEN (4 * sizeof(uint64_t))

struct proc_row {
	struct target_proc pub;
	struct target_place *place; /* NULL until it is listed */
	struct proc_environ env;    /* as at exec time, then as in its memory */
	bool has_env;               /* env was read for this image */
	bool adopted;               /* env could not be read: it is that of a child forked from this very image */
	bool has_comm;              /* creates or uses communicators */
	uint64_t late_wait_ns, late_due_ns; /* when to read its memory for variables set since */
	bool is_kernel, listed, launcher;
	bool candidate; /* says a rank, but nothing shows yet that it is one: scanned often while young */
	uint64_t young_until_ns;
	bool awaited;   /* a read of it goes on in a worker: asked again at every rescan */
	bool seen_maps; /* of this image, whether or not any of it is kept */
	bool stale;     /* maps must be read whatever vsize says */
	uint64_t vsize, image;
	uint64_t exec_hash;  /* of the executable rows; 0 never read */
	uint64_t shown_hash; /* of what the caller was shown last */
	uint64_t seen;       /* scan number */
	uint64_t retry_ns;   /* a file did not answer in time: look again then; 0 none */
	bool starved;        /* of such a one: its parser had no CPU, or was not asked */
	uint64_t maps_wait_ns, maps_read_ns, maps_took_ns, file_pages; /* see proc_row.c */
	struct proc_row *owner;                                        /* rank process it belongs to, itself, or NULL */
	bool active;                  /* in the set's list of active processes; else it rests (glance.c) */
	bool woken;                   /* active for the moment: proc_rows_wake() */
	bool waits;                   /* in the list of what a scan has still to read */
	bool settled, had_owner;      /* it was in a tree before; with an owner */
	uint64_t stat_vsize;          /* as its stat file said last */
	struct proc_row *prev, *next; /* of the active ones */
	UT_hash_handle hh;
};

#define HALF_DEAD_MAX 64

struct todo { /* what is left of a scan: processes to read, in this order */
	struct todo_one {
		uint32_t tgid, uid; /* as the kernel said; UID_UNKNOWN: ask the row */
	} * rows;
	size_t n, room;
	bool cut; /* for time */
};

struct target_set {
	struct reader *reader;
	const struct target_filter *filters;
	size_t n_filters;
	char *names[ELF_WANTED_MAX]; /* every marker and symbol, once */
	size_t n_names;
	struct proc_row *procs;
	struct proc_row *active;        /* those that scans and rescans read */
	struct process_glance *glances; /* of the last scan by glances, by tgid; NULL: it was by /proc */
	size_t n_glances;
	uint64_t glanced_ns; /* when these began */
	struct file_row *files;
	uint64_t first_ns; /* when a file of the first queue became known */
	size_t n_open;     /* files kept open */
	size_t n_refused;  /* files that cost too much to read */
	const struct target_proc **list;
	size_t n_list;
	uint32_t half_dead[HALF_DEAD_MAX]; /* by the last scans: zombies with threads that live */
	size_t n_half_dead;
	uint64_t scan, revision;
	struct shares *shares; /* what each user's processes may cost; NULL: no limit */
	struct todo todo;
	size_t turn; /* where a rescan begins: no process is always the last */
	bool of_all; /* the scan under way is one of all processes: it counts them */
	bool unhurried;
	uint64_t until_ns; /* of this turn; 0: no limit */
	struct target_counts counts;
};

enum proc_row_scan {
	SCAN_PATIENT, /* a full scan: a busy stranger may wait */
	SCAN_NOW,     /* asked for by pid */
	SCAN_AGAIN,   /* read all, changed or not */
};

/* proc_row.c */
struct proc_row *proc_row_add(struct target_set *s, uint32_t tgid); /* NULL without memory */
void proc_row_free(struct target_set *s, struct proc_row *p);       /* takes it out of the set */
void proc_row_status(struct proc_row *p, int rc);
/* Brings one process up to date. False: it is gone, and so is the row. */
bool proc_row_update(struct target_set *s, struct proc_row *p, enum proc_row_scan scan);
int proc_row_load_maps(struct target_set *s, struct proc_row *p);

/* discover.c */
/* `uid`: as the kernel says, or UID_UNKNOWN. False: its user's share is used up, and nothing was read. */
bool discover_pid_scan(struct target_set *s, uint32_t tgid, uint32_t uid, bool all);
int discover_finish(struct target_set *s);
void discover_scan_begin(struct target_set *s);

/* todo.c: a scan reads as many as the shares of their users allow, the rest in the next turns. */
int todo_add(struct target_set *s, uint32_t tgid, uint32_t uid);
void todo_run(struct target_set *s);
void todo_clear(struct target_set *s);

/* glance.c */
void proc_row_wake(struct target_set *s, struct proc_row *p); /* scans read it from now on */
void proc_rows_wake(struct target_set *s);                    /* all of them, until */
void proc_rows_rest(struct target_set *s);                    /* those of them that still may */
void glances_drop(struct target_set *s);
void settled_rest(struct target_set *s);

/* late_environ.c: what the process set in its own environment since its start. 0, -ENODATA no libc known, or an error
 * of reader_run(). Needs libs and maps. */
int late_environ_read(struct reader *r, const struct target_proc *p, struct proc_environ *ret);

/* lib_table.c */
int lib_table_init(struct target_set *s);
void lib_table_free(struct target_set *s);
/* Fills libs from pub.maps. 0; files that could not be read are noted in the row. Or an error of the reader, and libs
 * are what they were. */
int lib_table_load(struct target_set *s, struct proc_row *p);
/* Opens, for good, the files of a process that is to be traced. */
void lib_table_keep(struct target_set *s, struct proc_row *p);
/* Closes files that no listed process maps any more; forgets them when there are too many. */
void lib_table_sweep(struct target_set *s);
void lib_table_unload(struct target_set *s, struct proc_row *p);

/* place.c: what of it stays as it is while the program runs; and what its environment says, to be shown. */
void place_read(struct proc_row *p);
struct cgroup_names;
void place_names_take(struct proc_row *p, const struct cgroup_names *names);
void place_show(struct proc_row *p);
extern const struct target_place place_none;

void discover_sort(struct target_set *s); /* the list */

/* rank_tree.c: owner, rank, job and listed of every active process, from what each one's environment said. */
void rank_tree_build(struct target_set *s);

static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull; /* lint: callers hash what they filled */
	return h;
}

static inline struct proc_row *proc_row_find(const struct target_set *s, uint32_t tgid)
{
	struct proc_row *p = NULL;

	HASH_FIND_INT(s->procs, &tgid, p);
	return p;
}

#endif
