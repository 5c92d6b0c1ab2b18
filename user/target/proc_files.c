/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_files.c - parsers, and direct reads of files that stay readable while the target's mmap_lock is held (measured;
 * tests/unit/test_target_blocked.c shows it).
 */
#include "target/proc_files.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PF_KTHREAD 0x00200000

int proc_read(char *to, size_t size, const char *format, ...)
{
	char path[1280]; /* cgroups of pods are deep */
	va_list args;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	size_t len = 0;
	ssize_t n = 1;

	while (len < size - 1 && (n = read(fd, to + len, size - 1 - len)) > 0)
		len += n;
	int err = errno;

	close(fd);
	if (n < 0)
		return -err;
	to[len] = '\0';
	return len;
}

/* Fields of /proc/PID/stat by their number in proc(5), from 3 on. */
static int stat_fields(const char *p, uint64_t *fields, int n)
{
	for (int i = 4; i < n; i++) {
		char *end;

		fields[i] = strtoull(p, &end, 10);
		if (end == p)
			return -EBADMSG;
		p = end;
	}
	return 0;
}

int proc_stat_parse(const char *text, struct proc_stat *ret)
{
	struct proc_stat out = { 0 };
	uint64_t f[52] = { 0 };
	const char *name = strchr(text, '('), *paren = strrchr(text, ')');

	if (!name || !paren || paren < name || paren[1] != ' ' || !paren[2] || paren[3] != ' ')
		return -EBADMSG;
	int rc = stat_fields(paren + 4, f, 52);

	if (rc)
		return rc;
	snprintf(out.name, sizeof(out.name), "%.*s", (int)(paren - name - 1), name + 1);
	out.state = paren[2];
	out.parent = f[4];
	out.is_kernel = f[9] & PF_KTHREAD;
	out.start_time_ns = f[22] * (1000000000ull / sysconf(_SC_CLK_TCK));
	out.vsize = f[23];
	out.image = f[26] * 31 + f[28]; /* start of code and of the stack; not of the arguments, which titles move */
	*ret = out;
	return 0;
}

int proc_stat_read(uint32_t pid, struct proc_stat *ret)
{
	char text[1024];
	int rc = proc_read(text, sizeof(text), "/proc/%u/stat", pid);

	return rc < 0 ? rc : proc_stat_parse(text, ret);
}

int proc_status_read(uint32_t pid, struct proc_status *ret)
{
	char text[8192];
	int rc = proc_read(text, sizeof(text), "/proc/%u/status", pid);

	if (rc < 0)
		return rc;
	*ret = (struct proc_status){ .ns_pid = pid, .seccomp = -1 };
	const char *seccomp = strstr(text, "\nSeccomp:"), *ns = strstr(text, "\nNSpid:");

	if (seccomp)
		ret->seccomp = atoi(seccomp + strlen("\nSeccomp:"));
	if (ns) { /* one number a namespace, the innermost last */
		size_t len = strcspn(ns + 1, "\n");
		const char *last = ns + len;

		while (last > ns && isdigit((unsigned char)*last))
			last--;
		ret->ns_pid = strtoul(last + 1, NULL, 10);
	}
	return 0;
}

void proc_container_parse(const char *cgroup, char to[16])
{
	size_t run = 0;

	to[0] = '\0';
	for (const char *p = cgroup; ; p++) {
		if (isxdigit((unsigned char)*p)) {
			run++;
			continue;
		}
		if (run == 64)
			snprintf(to, 16, "%.12s", p - 64);
		run = 0;
		if (!*p)
			return;
	}
}

void proc_container_read(uint32_t pid, char to[16])
{
	char text[8192];

	if (proc_read(text, sizeof(text), "/proc/%u/cgroup", pid) < 0)
		text[0] = '\0';
	proc_container_parse(text, to);
}

static const char *env_find(const char *text, size_t len, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = text; p < text + len; p += strlen(p) + 1)
		if (!strncmp(p, name, n) && p[n] == '=')
			return p + n + 1;
	return NULL;
}

/* First of the names (NULL-terminated) that holds a whole number >= 0; -1 none. */
static int env_number(const char *text, size_t len, const char *const names[])
{
	for (; *names; names++) {
		const char *v = env_find(text, len, *names);
		char *end;

		if (!v || !isdigit((unsigned char)*v))
			continue;
		long n = strtol(v, &end, 10);

		if (!*end && n < 10000000)
			return n;
	}
	return -1;
}

static void env_job(const char *text, size_t len, char *to, size_t size)
{
	const char *run = env_find(text, len, "TORCHELASTIC_RUN_ID");
	const char *host = env_find(text, len, "MASTER_ADDR"), *port = env_find(text, len, "MASTER_PORT");
	const char *slurm = env_find(text, len, "SLURM_JOB_ID");

	/* torchrun without --rdzv-id says "none", which would make one job of all. */
	if (run && *run && strcmp(run, "none"))
		snprintf(to, size, "%s", run);
	else if (host && port)
		snprintf(to, size, "%s:%s", host, port);
	else if (slurm)
		snprintf(to, size, "slurm-%s", slurm);
}

void proc_environ_parse(const char *text, size_t len, struct proc_environ *ret)
{
	static const char *const rank[] = { "RANK", NULL };
	static const char *const world[] = { "WORLD_SIZE", NULL };
	static const char *const local[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID",
					    "MPI_LOCALRANKID", NULL};
	static const char *const s_rank[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL };
	static const char *const s_world[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL };
	struct proc_environ out = { .rank = env_number(text, len, rank), .world_size = env_number(text, len, world) };

	if (out.rank < 0 || out.world_size < 0) {
		out.rank = env_number(text, len, s_rank);
		out.world_size = env_number(text, len, s_world);
		out.from_scheduler = out.rank >= 0;
	}
	if (out.rank < 0 || out.world_size <= out.rank)
		out.rank = out.world_size = -1;
	out.local_rank = out.rank < 0 ? -1 : env_number(text, len, local);
	env_job(text, len, out.job, sizeof(out.job));
	const char *devices = env_find(text, len, "CUDA_VISIBLE_DEVICES");

	snprintf(out.visible_devices, sizeof(out.visible_devices), "%s", devices ? devices : "");
	*ret = out;
}
