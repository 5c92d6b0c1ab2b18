// SPDX-License-Identifier: Apache-2.0
/*
 * See cpu_limit.h. Where the groups go: below our own group in the hierarchy that has the cpu controller (version 1),
 * or in the nearest group at or above ours that can hand the controller down (version 2). A group is a directory in a
 * kernel's file system and outlives its maker, so somebody has to be left who removes it: the janitor.
 */
#include "tools/simjob/faults/cpu_limit.h"

#include "tools/simjob/faults/faults.h"
#include "tools/simjob/job/options.h"
#include "tools/simjob/libcuda/futex.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CGROUP_PATH_SIZE 512
#define PERIOD_US 100000
#define REMOVE_TRIES 500 /* 10 ms each: killed ranks leave their group when they are gone */

static struct {
	const struct options *options;
	char home[CGROUP_PATH_SIZE]; /* the launcher's own group, to which a rank returns */
	char base[CGROUP_PATH_SIZE]; /* injection N's group is this with N behind it; empty: there are none */
	int janitor_pid;
} limits;

static int file_write(const char *dir, const char *name, const char *text)
{
	char path[CGROUP_PATH_SIZE + 64];
	int fd, err = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		err = -errno;
	close(fd);
	return err;
}

/* A word of a list, "cpu" in "cpuset cpu io" or in "rw,cpu,cpuacct". */
static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);
	const char *at;

	for (at = list; (at = strstr(at, word)); at += length) {
		bool begins = at == list || strchr(", \n", at[-1]);

		if (begins && (!at[length] || strchr(", \n", at[length])))
			return true;
	}
	return false;
}

/* Where the hierarchy with the cpu controller is mounted, version 1 before 2. */
static bool hierarchy_find(char *ret_mount, int *ret_version)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[2048], point[CGROUP_PATH_SIZE], type[64], options[1024];

	*ret_version = 0;
	while (mounts && *ret_version != 1 && fgets(line, sizeof(line), mounts)) {
		if (sscanf(line, "%*s %511s %63s %1023s", point, type, options) != 3)
			continue;
		if (!strcmp(type, "cgroup") && list_has(options, "cpu"))
			*ret_version = 1;
		else if (!strcmp(type, "cgroup2") && !*ret_version)
			*ret_version = 2;
		else
			continue;
		strcpy(ret_mount, point);
	}
	if (mounts)
		fclose(mounts);
	return *ret_version > 0;
}

/* Our own group in that hierarchy, below @mount. In a container its path may lie outside of what is mounted. */
static void home_find(char *ret_home, const char *mount, int version)
{
	FILE *groups = fopen("/proc/self/cgroup", "re");
	char line[2048];

	snprintf(ret_home, CGROUP_PATH_SIZE, "%s", mount);
	while (groups && fgets(line, sizeof(line), groups)) {
		char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (version == 2 ? controllers[1] != '\0' : !list_has(controllers + 1, "cpu"))
			continue;
		snprintf(ret_home, CGROUP_PATH_SIZE, "%s%s", mount, strcmp(path, "/") ? path : "");
		if (access(ret_home, F_OK) < 0)
			snprintf(ret_home, CGROUP_PATH_SIZE, "%s", mount);
	}
	if (groups)
		fclose(groups);
}

static bool hands_down_cpu(const char *dir)
{
	char path[CGROUP_PATH_SIZE + 64], text[256] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir);
	file = fopen(path, "re");
	if (file && !fgets(text, sizeof(text), file))
		text[0] = '\0';
	if (file)
		fclose(file);
	/* A group with processes of its own refuses; the root does not. */
	return list_has(text, "cpu") || file_write(dir, "cgroup.subtree_control", "+cpu") == 0;
}

/* The directory in which to make groups. */
static bool parent_find(char *ret_parent, const char *home, const char *mount, int version)
{
	char *slash;

	snprintf(ret_parent, CGROUP_PATH_SIZE, "%s", home);
	while (version == 2 && !hands_down_cpu(ret_parent)) {
		slash = strrchr(ret_parent, '/');
		if (strlen(ret_parent) <= strlen(mount) || !slash)
			return false;
		*slash = '\0';
	}
	return true;
}

static int group_create(const char *dir, int version, double percent)
{
	long quota_us = percent * PERIOD_US / 100;
	char text[64];
	int err;

	if (mkdir(dir, 0755) < 0)
		return -errno;
	if (version == 2) {
		snprintf(text, sizeof(text), "%ld %d", quota_us, PERIOD_US);
		return file_write(dir, "cpu.max", text);
	}
	snprintf(text, sizeof(text), "%d", PERIOD_US);
	err = file_write(dir, "cpu.cfs_period_us", text);
	snprintf(text, sizeof(text), "%ld", quota_us);
	return err ? err : file_write(dir, "cpu.cfs_quota_us", text);
}

static bool is_limited(const struct injection *injection)
{
	return injection->resource == &resource_cpu_limit;
}

static void group_path(char *ret_path, const char *base, int index)
{
	snprintf(ret_path, CGROUP_PATH_SIZE + 16, "%s%d", base, index);
}

/* True when none is left. */
static bool groups_remove(void)
{
	char path[CGROUP_PATH_SIZE + 16];
	bool gone = true;
	int i;

	for (i = 0; i < limits.options->nr_injections; i++) {
		if (!is_limited(&limits.options->injections[i]))
			continue;
		group_path(path, limits.base, i);
		gone &= rmdir(path) == 0 || errno == ENOENT;
	}
	return gone;
}

static void janitor_main(int launcher_pid)
{
	struct pollfd launcher = { syscall(SYS_pidfd_open, launcher_pid, 0), POLLIN, 0 };
	struct timespec pause = { .tv_nsec = 10 * NSEC_PER_MSEC };
	sigset_t all;
	int tries;

	prctl(PR_SET_NAME, "simjob-janitor");
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	while (getppid() == launcher_pid && launcher.fd >= 0 && poll(&launcher, 1, -1) < 0)
		;
	for (tries = 0; tries < REMOVE_TRIES && !groups_remove(); tries++)
		nanosleep(&pause, NULL);
	_exit(0);
}

/* Before the groups are there: whenever the launcher is killed, somebody knows of them. */
static int janitor_start(void)
{
	int launcher_pid = getpid();

	limits.janitor_pid = fork();
	if (limits.janitor_pid == 0)
		janitor_main(launcher_pid);
	return limits.janitor_pid < 0 ? -errno : 0;
}

__attribute__((noreturn)) static void limits_fail(const char *where, const char *why)
{
	if (limits.base[0])
		groups_remove();
	if (limits.janitor_pid > 0)
		kill(limits.janitor_pid, SIGKILL);
	fprintf(stderr,
		"simjob: --fault cpu:how=quota: cannot limit the CPU in %s: %s; run as root where the cpu controller "
		"of control groups can be written, or use how=hog\n",
		where, why);
	exit(2);
}

static void cpu_limits_create(const struct options *options, struct store *store)
{
	char mount[CGROUP_PATH_SIZE], parent[CGROUP_PATH_SIZE], path[CGROUP_PATH_SIZE + 16];
	int i, version, err;

	(void)store;
	limits.options = options;
	if (!hierarchy_find(mount, &version))
		limits_fail("/proc/self/mounts", "no control groups with the cpu controller are mounted");
	home_find(limits.home, mount, version);
	if (!parent_find(parent, limits.home, mount, version))
		limits_fail(limits.home, "the cpu controller cannot be enabled there or above");
	if (snprintf(limits.base, sizeof(limits.base), "%s/simjob-%d-", parent, getpid()) >= CGROUP_PATH_SIZE)
		limits_fail(parent, "the path is too long");
	err = janitor_start();
	for (i = 0; i < options->nr_injections && !err; i++) {
		group_path(path, limits.base, i);
		if (is_limited(&options->injections[i]))
			err = group_create(path, version, options->injections[i].percent);
	}
	if (err)
		limits_fail(parent, strerror(-err));
}

static void cpu_limits_set_env(void)
{
	setenv("SIMJOB_CGROUP_BASE", limits.base, 1);
	setenv("SIMJOB_CGROUP_HOME", limits.home, 1);
}

static void cpu_limits_destroy(void)
{
	groups_remove();
	kill(limits.janitor_pid, SIGKILL);
}

/* "0" is the process that writes it. */
int cpu_limit_enter(int index)
{
	const char *base = getenv("SIMJOB_CGROUP_BASE");
	char path[CGROUP_PATH_SIZE + 16];

	if (!base)
		return -ENOENT;
	group_path(path, base, index);
	return file_write(path, "cgroup.procs", "0");
}

int cpu_limit_leave(void)
{
	const char *home = getenv("SIMJOB_CGROUP_HOME");

	return home ? file_write(home, "cgroup.procs", "0") : -ENOENT;
}

const struct resource resource_cpu_limit = {
	.create = cpu_limits_create,
	.set_env = cpu_limits_set_env,
	.destroy = cpu_limits_destroy,
};
