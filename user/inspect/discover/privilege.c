/* SPDX-License-Identifier: Apache-2.0
 *
 * privilege.c - reads /proc/self and /sys only; tries nothing out.
 */
#include "inspect/discover/privilege.h"
#include "inspect/reader/proc_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Inodes of the first namespaces: include/linux/proc_ns.h (PROC_USER_INIT_INO, PROC_PID_INIT_INO), fixed since 3.8. */
#define USER_INIT_INO 4026531837ul
#define PID_INIT_INO 4026531836ul

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

static uint64_t effective_capabilities(void)
{
	char text[8192];

	if (proc_read(text, sizeof(text), "/proc/self/status") < 0)
		return 0;
	const char *line = strstr(text, "\nCapEff:");

	return line ? strtoull(line + strlen("\nCapEff:"), NULL, 16) : 0;
}

enum privilege_problem privilege_capabilities(char *message, size_t size)
{
	uint64_t caps = effective_capabilities();
	bool admin = caps >> CAP_SYS_ADMIN & 1, bpf = caps >> CAP_BPF & 1, perfmon = caps >> CAP_PERFMON & 1;
	bool ptrace = caps >> CAP_SYS_PTRACE & 1;

	snprintf(message, size, "%s", "");
	if ((admin || (bpf && perfmon)) && ptrace)
		return PRIVILEGE_OK;
	snprintf(message, size,
		 "tracing as uid %u: missing%s%s%s: run as root (sudo), or give the container these capabilities",
		 getuid(), admin || bpf ? "" : " CAP_BPF", admin || perfmon ? "" : " CAP_PERFMON",
		 ptrace ? "" : " CAP_SYS_PTRACE");
	return PRIVILEGE_NO_CAPABILITY;
}

enum privilege_problem privilege_reading(char *message, size_t size)
{
	snprintf(message, size, "%s", "");
	if (effective_capabilities() >> CAP_SYS_PTRACE & 1)
		return PRIVILEGE_OK;
	snprintf(message, size,
		 "uid %u may read its own processes only: missing CAP_SYS_PTRACE: run as root (sudo), or give the "
		 "container CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
		 getuid());
	return PRIVILEGE_NO_CAPABILITY;
}

static uint64_t namespace_inode(const char *name)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return stat(path, &st) ? 0 : st.st_ino;
}

enum privilege_problem privilege_namespaces(char *message, size_t size)
{
	uint64_t pid = namespace_inode("pid"), user = namespace_inode("user");

	snprintf(message, size, "%s", "");
	if (pid != PID_INIT_INO) {
		snprintf(message, size,
			 "this shell's pid namespace is %llu, not the host's (%lu): pids seen by the kernel would "
			 "not be those seen here: run on the host, or start the container with --pid=host",
			 (unsigned long long)pid, PID_INIT_INO);
		return PRIVILEGE_PID_NAMESPACE;
	}
	if (user && user != USER_INIT_INO) {
		snprintf(
			message, size,
			"this shell's user namespace is %llu, not the host's (%lu): its capabilities do not reach "
			"the kernel's tracing: run on the host, or start the container without --userns (as real root)",
			(unsigned long long)user, USER_INIT_INO);
		return PRIVILEGE_USER_NAMESPACE;
	}
	return PRIVILEGE_OK;
}

enum privilege_problem privilege_btf(const char *path, char *message, size_t size)
{
	const char *given = path ? path : getenv("RANKTRACE_BTF");

	if (!given || !*given)
		given = "/sys/kernel/btf/vmlinux";
	snprintf(message, size, "%s", "");
	if (!access(given, R_OK))
		return PRIVILEGE_OK;
	snprintf(message, size,
		 "%s: %s: this kernel was built without CONFIG_DEBUG_INFO_BTF (or /sys is not mounted): use a "
		 "distribution kernel from 5.10 on",
		 given, strerror(errno));
	return PRIVILEGE_NO_BTF;
}

enum privilege_problem privilege_process(uint32_t pid, char *message, size_t size)
{
	char text[8192];
	int rc = proc_read(text, sizeof(text), "/proc/%u/status", pid);

	snprintf(message, size, "%s", "");
	if (rc < 0) {
		snprintf(message, size, "pid %u: %s: see `ranktrace ps` for the training processes of this host", pid,
			 rc == -ESRCH ? "no such process" : strerror(-rc));
		return PRIVILEGE_NO_PROCESS;
	}
	const char *line = strstr(text, "\nTgid:");
	uint32_t tgid = line ? strtoul(line + strlen("\nTgid:"), NULL, 10) : pid;

	if (tgid == pid)
		return PRIVILEGE_OK;
	snprintf(message, size, "pid %u: it is a thread of process %u: use --pid %u", pid, tgid, tgid);
	return PRIVILEGE_NO_PROCESS;
}

enum privilege_problem privilege_check(const uint32_t *pids, size_t n, char *message, size_t size)
{
	enum privilege_problem p = privilege_namespaces(message, size);

	if (!p)
		p = privilege_capabilities(message, size);
	if (!p)
		p = privilege_btf(NULL, message, size);
	for (size_t i = 0; !p && i < n; i++)
		p = privilege_process(pids[i], message, size);
	return p;
}
