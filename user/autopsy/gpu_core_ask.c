/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_core_ask.c - see gpu_core_ask.h. CUDA listens at a FIFO for a byte, then stops the GPU, writes the dump, and,
 * with skip_abort, goes on. The FIFO is found among the rank's descriptors, so that mount namespaces do not matter;
 * paths are searched in a reader, which a dead file system may hold.
 */
#include "autopsy/gpu_core_ask.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "inspect/elf/gpu_core.h"
#include "inspect/reader/proc_files.h"
#include "inspect/reader/reader.h"
#include "model/model.h"

#define ENVIRON_CAP (1u << 20)
#define PATTERN_LEN 512
#define RANKS_MAX 64      /* of one host */
#define PARSE_MS 2000     /* to read a dump's tables */
#define POLL_NS 200000000 /* between two looks for a dump */
#define SHOWN_MAX 4       /* kernels of a rank */

/* What CUDA does without the variables. */
#define PIPE_DEFAULT "corepipe.cuda.%h.%p"
#define FILE_DEFAULT "core_%t_%h_%p.nvcudmp"

static const char variables[] =
	"CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1 CUDA_COREDUMP_PIPE=/tmp/corepipe.cuda.%h.%p "
	"CUDA_COREDUMP_FILE=/tmp/core.cuda.%h.%p CUDA_COREDUMP_GENERATION_FLAGS=skip_abort,"
	"skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,skip_constbank_memory";

enum gpu_core_state {                           /* of a rank */
		      GPU_CORE_NOT_STARTED_FOR, /* no CUDA_ENABLE_USER_TRIGGERED_COREDUMP, no pipe */
		      GPU_CORE_NO_PIPE,         /* the variable is there, and no pipe is open */
		      GPU_CORE_ABORTS,     /* its flags lack skip_abort, or are not known: a dump would end the rank */
		      GPU_CORE_ALL_MEMORY, /* they lack skip_global_memory: it would write all of the GPU's memory */
		      GPU_CORE_READY,
};

struct rank_core {
	uint32_t pid;
	int rank;
	enum gpu_core_state state;
	int pipe;               /* its descriptor of the FIFO; -1 none */
	char file[PATTERN_LEN]; /* pattern of the dump's path */
	struct gpu_core core;
	int err; /* of the dump: -EAGAIN it is awaited */
};

/* --- what its environment says --- */

static const char *variable(const char *environ, size_t len, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = environ; at < environ + len; at += strlen(at) + 1)
		if (!strncmp(at, name, n) && at[n] == '=')
			return at + n + 1;
	return NULL;
}

static bool is_on(const char *value)
{
	return value && *value && strcmp(value, "0") != 0;
}

static bool has_flag(const char *flags, const char *flag)
{
	size_t n = strlen(flag);

	for (const char *at = flags; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
		if (strcspn(at, ",") == n && !strncmp(at, flag, n))
			return true;
	return false;
}

/* A name with CUDA's %p, %h and %t as a pattern for fnmatch(): the host and the time are not known for sure. */
static void pattern_make(char *to, size_t size, const char *name, uint32_t ns_pid)
{
	size_t at = 0;

	for (; *name && at + 16 < size; name++) {
		if (name[0] != '%' || !name[1]) {
			if (strchr("*?[\\", *name))
				to[at++] = '\\';
			to[at++] = *name;
			continue;
		}
		name++;
		if (*name == 'p')
			at += (size_t)snprintf(to + at, size - at, "%u", ns_pid);
		else
			to[at++] = *name == '%' ? '%' : '*';
	}
	to[at] = '\0';
}

/* --- in a reader --- */

struct find_arg {
	uint32_t pid;
	int64_t since_s; /* CLOCK_REALTIME */
	char pattern[PATTERN_LEN];
};

/* The rank's descriptor of a FIFO of that name. */
static int op_find_pipe(struct reader_job *job)
{
	const struct find_arg *a = job->arg;
	char path[64], name[PATTERN_LEN], below[PATTERN_LEN + 4];
	struct dirent *d;
	struct stat st;
	int fd = -ENOENT;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/fd", a->pid);
	snprintf(below, sizeof(below), "%s%s", *a->pattern == '/' ? "" : "*/", a->pattern);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (fd < 0 && (d = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), d->d_name, name, sizeof(name) - 1);

		name[len > 0 ? len : 0] = '\0';
		if (!fnmatch(below, name, 0) && !fstatat(dirfd(dir), d->d_name, &st, 0) && S_ISFIFO(st.st_mode))
			fd = atoi(d->d_name);
	}
	closedir(dir);
	memcpy(job->out, &fd, sizeof(fd));
	job->out_len = sizeof(fd);
	return fd < 0 ? fd : 0;
}

/* The newest file of that name that was written since. */
static int op_find_dump(struct reader_job *job)
{
	const struct find_arg *a = job->arg;
	char folder[PATTERN_LEN + 64], best[sizeof(folder) + 256] = "";
	const char *base = strrchr(a->pattern, '/');
	int64_t newest = a->since_s;
	struct dirent *d;
	struct stat st;
	DIR *dir;

	base = base ? base + 1 : a->pattern;
	snprintf(folder, sizeof(folder), "/proc/%u/%s/%.*s", a->pid, *a->pattern == '/' ? "root" : "cwd",
		 (int)(base - a->pattern), a->pattern);
	dir = opendir(folder);
	if (!dir)
		return -errno;
	while ((d = readdir(dir)))
		if (!fnmatch(base, d->d_name, 0) && !fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode) && st.st_mtime >= newest) {
			newest = st.st_mtime;
			snprintf(best, sizeof(best), "%s%s", folder, d->d_name);
		}
	closedir(dir);
	return *best ? job_open(job, best) : -ENOENT;
}

static int pipe_find(struct reader *r, uint32_t pid, const char *pattern)
{
	struct find_arg a = { .pid = pid };
	size_t got = 0;
	int fd = -1, err;

	snprintf(a.pattern, sizeof(a.pattern), "%s", pattern);
	err = reader_run(r, (pid_t)pid, op_find_pipe, &a, sizeof(a), READER_DEADLINE_MS, &fd, sizeof(fd), &got, NULL);
	return err || got != sizeof(fd) ? -1 : fd;
}

/* --- a rank --- */

static enum gpu_core_state flags_judge(const char *flags, bool lightweight)
{
	if (!has_flag(flags, "skip_abort"))
		return GPU_CORE_ABORTS;
	return lightweight || has_flag(flags, "skip_global_memory") ? GPU_CORE_READY : GPU_CORE_ALL_MEMORY;
}

static void rank_look(struct reader *r, struct rank_core *c)
{
	struct proc_status status = { .ns_pid = c->pid };
	char pattern[PATTERN_LEN], *text = NULL;
	const char *value;
	size_t len = 0;

	if (reader_file(r, (pid_t)c->pid, "environ", ENVIRON_CAP, READER_DEADLINE_MS, &text, &len))
		return;
	proc_status_read(c->pid, &status);
	value = variable(text, len, "CUDA_COREDUMP_PIPE");
	pattern_make(pattern, sizeof(pattern), value && *value ? value : PIPE_DEFAULT, status.ns_pid);
	c->pipe = pipe_find(r, c->pid, pattern);
	value = variable(text, len, "CUDA_COREDUMP_FILE");
	pattern_make(c->file, sizeof(c->file), value && *value ? value : FILE_DEFAULT, status.ns_pid);
	if (c->pipe >= 0)
		c->state = flags_judge(variable(text, len, "CUDA_COREDUMP_GENERATION_FLAGS"),
				       is_on(variable(text, len, "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP")));
	else if (is_on(variable(text, len, "CUDA_ENABLE_USER_TRIGGERED_COREDUMP")))
		c->state = GPU_CORE_NO_PIPE;
	free(text);
}

/* One byte; what it is does not matter. Who listens has the FIFO open. The rank may have put somebody else's file in
 * its place since: nothing is written to that. */
static int rank_ask(const struct rank_core *c)
{
	char path[64];
	struct stat st;
	int fd, err = 0;

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", c->pid, c->pipe);
	fd = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISFIFO(st.st_mode))
		err = -EPERM;
	else if (write(fd, "1", 1) != 1)
		err = -errno;
	close(fd);
	return err;
}

static int rank_take(struct reader *r, struct rank_core *c, int64_t since_s)
{
	struct find_arg a = { .pid = c->pid, .since_s = since_s };
	char none[8];
	size_t got = 0;
	int fd = -1, err;

	snprintf(a.pattern, sizeof(a.pattern), "%s", c->file);
	err = reader_run(r, (pid_t)c->pid, op_find_dump, &a, sizeof(a), READER_DEADLINE_MS, none, sizeof(none), &got,
			 &fd);
	if (err)
		return err == -ENOENT || reader_is_late(err) ? -EAGAIN : err;
	err = gpu_core_fetch(r, fd, PARSE_MS, &c->core);
	close(fd);
	return reader_is_late(err) ? -EAGAIN : err;
}

/* --- all of them --- */

static size_t ranks_look(struct reader *r, const struct model *m, struct rank_core *all)
{
	size_t n = 0;

	for (const struct proc *p = m->procs; p && n < RANKS_MAX; p = p->next) {
		if (p->dead || p->is_child || p->rank < 0)
			continue;
		all[n] = (struct rank_core){ .pid = p->tgid, .rank = p->rank, .pipe = -1, .err = -ENOTSUP };
		rank_look(r, &all[n++]);
	}
	return n;
}

static size_t count_of(const struct rank_core *all, size_t n, enum gpu_core_state state)
{
	size_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += all[i].state == state;
	return found;
}

static void states_say(const struct rank_core *all, size_t n)
{
	size_t k;

	if ((k = count_of(all, n, GPU_CORE_NOT_STARTED_FOR)))
		log_info("kernels on the GPUs of %zu of %zu ranks cannot be named: they were not started for CUDA's "
			 "core dumps. Next time start the job with: %s",
			 k, n, variables);
	if ((k = count_of(all, n, GPU_CORE_NO_PIPE)))
		log_info("kernels on the GPUs of %zu of %zu ranks cannot be named: CUDA's core dumps are on "
			 "(CUDA_ENABLE_USER_TRIGGERED_COREDUMP), but no descriptor is the pipe at which it listens",
			 k, n);
	if ((k = count_of(all, n, GPU_CORE_ABORTS)))
		log_info("kernels on the GPUs of %zu of %zu ranks are not asked for: a core dump would end the rank. "
			 "Start it with skip_abort in CUDA_COREDUMP_GENERATION_FLAGS",
			 k, n);
	if ((k = count_of(all, n, GPU_CORE_ALL_MEMORY)))
		log_info("kernels on the GPUs of %zu of %zu ranks are not asked for: the dump would hold all of the "
			 "GPU's memory. Start it with skip_global_memory in CUDA_COREDUMP_GENERATION_FLAGS",
			 k, n);
}

void gpu_cores_offer(struct reader *r, const struct model *m)
{
	struct rank_core *all = calloc(RANKS_MAX, sizeof(*all));
	size_t n = all ? ranks_look(r, m, all) : 0, ready = all ? count_of(all, n, GPU_CORE_READY) : 0;

	if (ready)
		log_info("kernels on the GPUs of %zu of %zu ranks can be named by a core dump: ranktrace autopsy "
			 "--gpu-core (it stops their GPUs while it is written)",
			 ready, n);
	else if (n)
		states_say(all, n);
	free(all);
}

static void kernels_say(const struct rank_core *c)
{
	const struct gpu_core *g = &c->core;

	if (!g->n)
		log_info("rank %d (pid %u): no kernel was running", c->rank, c->pid);
	for (uint32_t i = 0; i < g->n && i < SHOWN_MAX; i++) {
		const struct gpu_kernel *k = &g->kernels[i];

		log_info("rank %d (pid %u): kernel %s, %u x %u x %u blocks of %u threads, on CUDA device %d", c->rank,
			 c->pid, *k->name ? k->name : "of an unknown name", k->grid[0], k->grid[1], k->grid[2],
			 k->block[0] * k->block[1] * k->block[2], (int)k->device);
	}
	if (g->n > SHOWN_MAX || g->n_left_out)
		log_info("rank %d: and %u more", c->rank, g->n - (g->n > SHOWN_MAX ? SHOWN_MAX : g->n) + g->n_left_out);
}

static size_t dumps_poll(struct reader *r, struct rank_core *all, size_t n, int64_t since_s)
{
	size_t awaited = 0;

	for (size_t i = 0; i < n; i++) {
		if (all[i].err != -EAGAIN)
			continue;
		all[i].err = rank_take(r, &all[i], since_s);
		if (!all[i].err)
			kernels_say(&all[i]);
		awaited += all[i].err == -EAGAIN;
	}
	return awaited;
}

static int results_say(const struct rank_core *all, size_t n)
{
	int worst = 0;

	for (size_t i = 0; i < n; i++) {
		if (all[i].state != GPU_CORE_READY || !all[i].err)
			continue;
		worst = -ETIMEDOUT;
		if (all[i].err == -EAGAIN)
			log_warn("rank %d (pid %u): its core dump did not come in time; --gpu-core=SEC waits longer",
				 all[i].rank, all[i].pid);
		else
			log_warn("rank %d (pid %u): its core dump: %s", all[i].rank, all[i].pid, strerror(-all[i].err));
	}
	return worst;
}

int gpu_cores_take(struct reader *r, const struct model *m, uint64_t wait_ns)
{
	struct rank_core *all = calloc(RANKS_MAX, sizeof(*all));
	uint64_t until_ns = clock_monotonic_ns() + wait_ns;
	int64_t since_s = time(NULL) - 1; /* a file system's clock is coarse */
	size_t n, awaited = 0;
	int err = -ENOTSUP;

	if (!all)
		return -ENOMEM;
	n = ranks_look(r, m, all);
	states_say(all, n);
	for (size_t i = 0; i < n; i++) {
		if (all[i].state != GPU_CORE_READY)
			continue;
		all[i].err = rank_ask(&all[i]);
		all[i].err = all[i].err ? all[i].err : -EAGAIN;
		awaited++;
	}
	if (awaited)
		err = 0;
	while (awaited && (awaited = dumps_poll(r, all, n, since_s)) && clock_monotonic_ns() < until_ns)
		nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	err = err ? err : results_say(all, n);
	free(all);
	return err;
}
