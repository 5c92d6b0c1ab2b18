/* SPDX-License-Identifier: Apache-2.0
 *
 * discover.h - who trains on this host: processes with wanted symbols in their executable mappings, their identity and
 * their descendants. Found by symbols, never by file names. Nothing here attaches to or stops a process; what can block
 * behind a target goes through the reader. Problems of one process are its `status`, never a failure of the scan.
 */
#ifndef RANKTRACE_TARGET_DISCOVER_H
#define RANKTRACE_TARGET_DISCOVER_H

#include "schemas/collector.h"
#include "schemas/glance.h"
#include "inspect/elf/elf_file.h"
#include "inspect/reader/maps.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/reader.h"

#define TARGET_TRACERS_MAX 16

/* What makes a file interesting to one tracer, and what that tracer wants to know of it. Static tables, borrowed. */
struct target_filter {
	uint8_t tracer;             /* < TARGET_TRACERS_MAX */
	const char *const *markers; /* all must be defined; "a|b": either */
	size_t n_markers;
	const char *const *symbols; /* looked up in files that match: target_file_symbol() */
	size_t n_symbols;
	const char *files; /* "a|b": how their names usually begin: such files are inspected first. NULL: any */
	bool vital;        /* its files are read before those of other filters */
	bool of_many;      /* many programs have such a file: a process is not listed for it */
};

/* One file (by device, inode, size, mtime), shared by the processes that map it. Owned by the set. */
struct target_file {
	uint64_t dev, ino, size, mtime_ns; /* as fstat says */
	struct elf_facts facts;
	uint32_t tracers; /* bit (1 << tracer) for each want that matches */
	bool lists;       /* some of these is not of many: a process that maps it is listed */
	int fd;           /* kept open for target processes, for attach and symbols; -1 not */
	int error;        /* -errno of the inspection, 0 fine */
};

struct target_lib { /* a file in one process; several copies are several rows */
	struct target_file *file;
	uint32_t tracers;                        /* of the file */
	uint64_t map_start, map_end, map_offset; /* its first executable mapping: /proc/TGID/map_files/<start>-<end> */
	uint64_t bias;                           /* address of the image's vaddr 0 in the process */
	uint32_t dev_major, dev_minor;           /* as in maps */
	uint64_t ino;
	bool deleted;
	const char *path; /* as in maps (target's mount namespace); lives as long as the process' maps */
};

enum target_status {
	TARGET_OK,
	TARGET_GONE,    /* exited while it was sampled, or a zombie */
	TARGET_DENIED,  /* the kernel refused (capabilities, ptrace rules) */
	TARGET_BLOCKED, /* a read past its deadline: mmap_lock held. What is known is from before */
	TARGET_ERROR,   /* anything else: see `error` */
};

struct target_place {                     /* texts: "" unknown */
	char pod_name[64], namespace[64]; /* as its environment says */
	char slurm_job[24], slurm_step[16];
	char cgroup[192]; /* path, or its end */
	char boot_id[40]; /* of this host */
	char job[320];    /* as it is shown: target_set_name_jobs() */
};

struct target_proc {
	uint32_t tgid, parent_tgid;
	uint32_t ns_pid;        /* pid inside its own pid namespace */
	uint64_t start_time_ns; /* since boot (CLOCK_BOOTTIME), to 10 ms: with tgid the key */
	char state;             /* as in /proc/PID/stat */
	char name[16];
	char exe[256];                    /* "" unknown */
	int rank, local_rank, world_size; /* -1 unknown */
	enum rank_source rank_source;     /* RANK_INHERITED: a child's, its rank's */
	bool rank_late;                   /* set by the program after its start */
	bool rank_ambiguous;              /* several processes with communicators say the same rank: none is believed */
	enum rank_source other_source;    /* a less trusted launcher that says otherwise; RANK_UNKNOWN none */
	int other_rank, other_size;
	bool is_child;                    /* a descendant that belongs to the rank process rank_tgid */
	uint32_t rank_tgid;               /* process that is the rank; own tgid for itself; 0 none */
	char job[128];                    /* "" unknown */
	char container[16];               /* first 12 digits of its id; "" none */
	char pod[40];                     /* Kubernetes pod uid; "" none */
	uint64_t netns;                   /* inode of its network namespace; 0 unknown */
	const struct target_place *place; /* never NULL; of a listed process */
	char visible_devices[64];         /* CUDA_VISIBLE_DEVICES; "" unset */
	int seccomp;                      /* 0 off, 1 strict, 2 filter, -1 unknown */
	uint32_t uid;                     /* real, as this host counts; UID_UNKNOWN. Of a listed process */
	enum target_status status;
	int error;         /* -errno behind the status */
	uint64_t revision; /* set's revision when identity or libs last changed */
	uint64_t bare_ns; /* CLOCK_MONOTONIC of the last look that found all its files, and none it is listed by; 0 none
			   */
	struct target_lib
		*libs; /* n_files rows: first the n_libs with wanted symbols by which it is listed, then others */
	size_t n_libs, n_files;
	bool opened;         /* the files are open, or cannot be opened; else that is tried again at each scan */
	size_t n_unreadable; /* executable files that could not be inspected; the first one: */
	int unreadable_error;
	char unreadable[256];
	struct maps maps; /* the last snapshot read */
};

struct target_counts { /* of the last full scan */
	size_t processes, kernel_threads, denied, blocked, maps_read, files_inspected;
};

struct target_set;
struct shares;

struct target_born { /* a process that is new, or another program now */
	uint32_t tgid, uid;
};

/* Borrows the reader and the filters; they must outlive the set. */
int target_set_new(struct reader *r, const struct target_filter *filters, size_t n, struct target_set **ret);
void target_set_free(struct target_set *s);

/* Scans every process of the host (about once a second). 0, or -errno when /proc itself cannot be read. */
int target_set_scan(struct target_set *s);
/* The same with what the kernel said of every process from at_ns on (CLOCK_MONOTONIC), in the order of tgids: reads
 * only those of which it says something new, and those that matter. Takes the rows over. 0 or -errno. */
int target_set_scan_glances(struct target_set *s, struct process_glance *rows, size_t n, uint64_t at_ns);
/* Of who looks once: then scans again what is awaited, for 1.2 s, and whose files' parsers had no CPU yet, for 5 s. */
int target_set_scan_settled(struct target_set *s);
/* In between: reads these strangers, and those that matter; the others are as they were. */
int target_set_scan_some(struct target_set *s, const struct target_born *born, size_t n);
/* What the processes of each user may cost, and how many of one are scanned; borrowed, before the first scan. A scan
 * then leaves for later turns what would cost a user more: goes on with that. 0 or -errno. */
void target_set_share(struct target_set *s, struct shares *shares);
bool target_set_scan_left(const struct target_set *s);
int target_set_scan_more(struct target_set *s);
/* From until_ns on (CLOCK_MONOTONIC; 0, as at first: no limit) a scan that has read one process reads no further one:
 * it is cut, and target_set_scan_more() goes on with it. A new scan before that would begin with the same ones again.
 */
void target_set_until(struct target_set *s, uint64_t until_ns);
bool target_set_scan_cut(const struct target_set *s);
/* Scans these processes only (young ones, every 50-100 ms; new children). Unknown pids are added. */
int target_set_rescan(struct target_set *s, const uint32_t *tgids, size_t n);
/* The same; `uid`: whose it is as far as one knows, for what it may cost. */
int target_set_rescan_of(struct target_set *s, const struct target_born *procs, size_t n);
/* Reads identity and maps again even where nothing seems to have changed (after exec, before a memory scan). Returns
 * as target_set_find(), NULL when it is gone. */
const struct target_proc *target_set_refresh(struct target_set *s, uint32_t tgid);
/*
 * The process was seen to create or use a communicator: it is a rank, its launcher is not, and by now it has set the
 * variables it sets itself. Its environment is read again at its next sample.
 */
void target_set_has_comm(struct target_set *s, uint32_t tgid);

/* Nothing is probed: what a known process of more than 20 s maps later is found seconds later (a minute at most), for
 * that the maps of ranks that only allocate memory are not read again and again. */
void target_set_unhurried(struct target_set *s);

/*
 * The listed processes: those with wanted symbols, those with a rank, descendants of ranks, and processes that cannot
 * be read but are siblings of these. Sorted by job, rank, children last, tgid. Pointers are good until the next scan,
 * rescan or refresh.
 */
const struct target_proc *const *target_set_list(struct target_set *s, size_t *ret_n);
/* Processes that a read is still out for, so that what the list says of them is from before: rescan. None while the
 * reader's timeout has no limit. */
size_t target_set_awaited(const struct target_set *s);
/*
 * Processes of which could not be read yet what they map, and those that were killed and are not over: a thread of
 * theirs still has the memory. Up to `max` of them; as many as there are.
 */
size_t target_set_unread(const struct target_set *s, uint32_t *tgids, size_t max);
/* Two jobs of one name get names that distinguish them, in place->job; the list is sorted by these. 0 or -ENOMEM. */
int target_set_name_jobs(struct target_set *s);
/* Any process known to the set, NULL unknown. */
const struct target_proc *target_set_find(const struct target_set *s, uint32_t tgid);
/* Counts up whenever a listed process appears, changes or goes. */
uint64_t target_set_revision(const struct target_set *s);
const struct target_counts *target_set_counts(const struct target_set *s);

/* Place of a symbol of some want's table in a file that matched, NULL when it is not defined there. */
const struct elf_symbol *target_file_symbol(const struct target_set *s, const struct target_file *file,
					    const char *name);
/* The same file with the same content, as far as stat shows. A build-id is what the file says of itself:
 * anybody can write one. */
static inline bool target_file_same(const struct target_file *a, const struct target_file *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns;
}
/* Its open file is as it was when it was inspected: what was learnt of it holds. Never waits. */
bool target_file_unchanged(const struct target_file *file);
/* It is not: those who map it are read again at their next scan. */
void target_set_file_changed(struct target_set *s, const struct target_file *file);
/* The row for an executable mapping of the process, NULL none. */
const struct target_lib *target_proc_lib(const struct target_proc *p, const struct mapping *m);
const char *target_status_name(enum target_status status); /* "blocked" */
/* Does --job TEXT mean it: its launcher's name for the job, that with its pod, container or network namespace, or what
 * target_set_name_jobs() calls it. */
bool target_proc_of_job(const struct target_proc *p, const char *text);

struct target_thread {
	uint32_t tid;
	char name[16];
};
/* Names of all threads; never takes the mmap_lock. Caller frees *ret. -ESRCH gone. */
int target_threads_read(uint32_t tgid, struct target_thread **ret, size_t *ret_n);
/* The same of `most` at most, from that place in the kernel's list on. Fewer: there are no more. */
int target_threads_read_some(uint32_t tgid, size_t from, size_t most, struct target_thread **ret, size_t *ret_n);
/* The path of its program, as in target_proc.exe; of a living thread's where the first one is gone. 0 or -errno. */
int target_exe_read(uint32_t tgid, char *to, size_t size);
bool target_threads_over(uint32_t tgid);     /* the process is gone, or its first thread is */
bool target_threads_blocked(uint32_t tgid);  /* a thread of it sleeps uninterruptibly now */
bool target_threads_faulting(uint32_t tgid); /* such a one is in a page fault */

#endif
