/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.h - the killable helper processes. Whatever can block behind a target (its mmap_lock, a dead file system) or
 * crash on its files (hostile ELF) runs there, with a deadline. Not a thread pool: one call at a time, one thread.
 * The idea: a zygote is forked while the collector is still small; it forks workers, a late one is replaced at once:
 * left with its call until the deadline where no caller may wait that long, then killed. There are two kinds: a reader
 * may look into processes, and only opens and copies; a parser may do nothing but look at the files it is handed, the
 * memory of a process among them.
 */
#ifndef RANKTRACE_TARGET_READER_H
#define RANKTRACE_TARGET_READER_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define READER_DEADLINE_MS 200    /* what callers use unless they know better */
#define READER_TIMEOUT_MS 50      /* reader_set_timeout() of who must go on looking */
#define READER_OUT_MAX (8u << 20) /* bytes one call can bring back */
#define READER_ARG_MAX 16384u     /* bytes of argument of one call */
#define READER_RANGES_MAX 512
#define READER_FDS_MAX 64 /* files that go with one call, or come back */

#define READER_STARVED_DEADLINES 5 /* a worker that runs, and is not asleep, gets so many */

struct reader;

/* Forks the zygote: call it early, before threads, skeletons and big maps exist. 0 or -errno. */
int reader_open(struct reader **ret);
/* Kills the helper, waits for no worker that is stalled. reader_free(NULL) is fine. */
void reader_free(struct reader *r);
/*
 * How long, in a second, calls with a pid may wait in all for workers that turn out to be late. Sixty blocked processes
 * do not add up then: past it a call waits for 2 ms and says -EINPROGRESS. 0, as after reader_open(): no limit.
 */
void reader_set_timeout(struct reader *r, unsigned ms);
/* After that: workers that have no CPU may take most of each second, not 60 ms: of who looks once. */
void reader_set_patient(struct reader *r, bool patient);

/*
 * Files that parsers read wait in queues, each with a wait of its own in a second and a slow one of its own: on a host
 * without free CPUs a few are read in a second, and the files of processes that nothing is wanted of are hundreds.
 */
enum reader_queue { READER_FIRST, READER_NEXT, READER_OTHERS, READER_QUEUES };
/* In which one what is asked from now on waits; READER_FIRST after reader_open(). */
void reader_queue_use(struct reader *r, enum reader_queue queue);
/* Would -EAGAIN be the answer now, whatever the file? Nothing of this second is left, and the slow one is not done. */
bool reader_queue_is_full(struct reader *r, enum reader_queue queue);
/* Is the answer of its slow file there, for the next who asks? */
bool reader_queue_is_done(const struct reader *r, enum reader_queue queue);

/* Readers, and who makes them, run before other work (inspect/reader/hurried.h): where the loop does, as it waits for
 * them. */
void reader_hurry(struct reader *r, bool hurried);

/*
 * All calls below: `pid` is the process whose lock may be taken (0: none). Errors common to all:
 *   -ETIMEDOUT  the worker slept past `deadline_ms` and was killed: the target's mmap_lock (or its file) is held
 *   -EBUSY      this pid timed out a short while ago (0.5 s, doubling to 4 s), or is asked again and has not answered
 *   -EINPROGRESS  no answer yet, and no evidence: a worker stays with it until the deadline, and another call on this
 *               pid shows what came of it (only after reader_set_timeout())
 *   -EAGAIN     the worker was still running, not asleep, after 5 deadlines: the machine is overloaded; no evidence. Of
 *               a parser of one file, after reader_set_timeout(): it goes on; the same question, asked again, gets the
 *               answer, or -EFBIG after 10 s of CPU time
 *   -EIO        the worker died of a signal during the call (a hostile file); a new one takes its place
 *   -EPIPE      the zygote is gone: nothing will work any more
 */

/* One of these that say: no answer, ask again later. */
static inline bool reader_is_late(int rc)
{
	return rc == -ETIMEDOUT || rc == -EBUSY || rc == -EINPROGRESS || rc == -EAGAIN;
}

/* What runs in the worker. It returns 0 or -errno, and may set out_len (bytes written at out) and fds_out. */
struct reader_job {
	const void *arg;
	size_t arg_len;
	int fds[READER_FDS_MAX]; /* of a parser; closed afterwards by the worker loop, which a -1 prevents */
	size_t n_fds;
	char *out; /* out_max bytes, dirty from the last call */
	size_t out_max;
	size_t out_len;
	int fds_out[READER_FDS_MAX]; /* of a reader; sent to the collector, then closed */
	size_t n_fds_out;
};
typedef int reader_fn(struct reader_job *job);
/* In a job of a reader: the file comes back with the answer. 0, -errno. */
int job_open(struct reader_job *job, const char *path);

/*
 * Runs `fn` in a reader. `fn` must be in this program (the worker is a fork: same addresses) and must depend on
 * `arg` alone, as the worker's memory is that of reader_open() time. The answer lands in out (out_max bytes; -EMSGSIZE
 * when longer), its length in *ret_len; *ret_fd gets a new O_CLOEXEC fd (NULL: not wanted).
 */
int reader_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, unsigned deadline_ms,
	       void *out, size_t out_max, size_t *ret_len, int *ret_fd);
/* The same with up to READER_FDS_MAX files that come back, each O_CLOEXEC. */
int reader_run_fds(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, unsigned deadline_ms,
		   void *out, size_t out_max, size_t *ret_len, int *ret_fds, size_t *ret_n);
/* Runs `fn` in a parser, with files that are borrowed. It can open none, and whatever else it tries kills it: -EIO,
 * when a second one died of it, too. */
int parser_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, const int *fds,
	       size_t n_fds, unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len);
/* The same on the memory of `pid`: its first files are those of memory.h, `fds` come behind them, and job_mapped_file()
 * gives what the process maps. */
int parser_run_memory(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, const int *fds,
		      size_t n_fds, unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len);
/* In such a job: the regular file that the process maps at these addresses, which the collector has a reader open. A
 * descriptor that is the job's, or -errno. */
int job_mapped_file(uint64_t start, uint64_t end);

/* Whole file /proc/PID/<name>, zero-terminated, caller frees; -EFBIG past `cap` (at most READER_OUT_MAX). */
int reader_file(struct reader *r, pid_t pid, const char *name, size_t cap, unsigned deadline_ms, char **ret_data,
		size_t *ret_len);

/* What the thread does in the kernel, zero-terminated. Takes no lock of the target's: read of a blocked one too. */
int reader_kernel_stack(struct reader *r, pid_t pid, pid_t tid, char *to, size_t size, unsigned deadline_ms);

struct reader_range {
	uint64_t addr; /* in the target */
	void *to;      /* here */
	size_t len;
	size_t got; /* bytes read: shorter than len where a page is not there */
};
/* Reads the ranges by process_vm_readv; a hole shortens its own range only. -E2BIG past the limits, -ESRCH, -EPERM. */
int reader_memory(struct reader *r, pid_t pid, struct reader_range *ranges, size_t n, unsigned deadline_ms);

/* Opens the regular file /proc/PID/<name> (map_files/<range>, exe, root/...) read-only; -EINVAL for anything but a
 * file. */
int reader_open_file(struct reader *r, pid_t pid, const char *name, unsigned deadline_ms, int *ret_fd);

/* Reads the link /proc/PID/<name>, cut to `size`, zero-terminated. */
int reader_link(struct reader *r, pid_t pid, const char *name, char *to, size_t size, unsigned deadline_ms);

/* Replaces what makes workers if it is gone or was stopped. Calls see to it four times a second; a reader that is not
 * used, its owner. Costs next to nothing. */
void reader_check(struct reader *r);

/* Nothing will be read any more: what makes workers is gone, and what would replace it. Known once a worker is needed.
 */
bool reader_is_lost(const struct reader *r);
/* Process id of the zygote, parent of all workers: for leaving our own processes out of a scan. */
pid_t reader_pid(const struct reader *r);
/* True while calls on this pid would answer -EBUSY. Costs no system call but the clock's. */
bool reader_is_blocked(const struct reader *r, pid_t pid);
/* One cheap read that takes the mmap_lock. *ret_held: it timed out now or before, without an answer since.
 * -EINPROGRESS, -ESRCH and the like. */
int reader_probe(struct reader *r, pid_t pid, unsigned deadline_ms, bool *ret_held);
/* Forgets that the pid was blocked (it exited, or it was seen to run again). */
void reader_unblock(struct reader *r, pid_t pid);

#endif
