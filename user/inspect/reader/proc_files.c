/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_files.c - parsers, and direct reads of files that stay readable while the target's mmap_lock is held (measured;
 * tests/unit/test_target_blocked.c shows it).
 */
#include "inspect/reader/proc_files.h"

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
	out.n_threads = f[20];
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
	*ret = (struct proc_status){ .ns_pid = pid, .seccomp = -1, .uid = UID_UNKNOWN };
	const char *seccomp = strstr(text, "\nSeccomp:"), *ns = strstr(text, "\nNSpid:"), *uid = strstr(text, "\nUid:");

	if (seccomp)
		ret->seccomp = atoi(seccomp + strlen("\nSeccomp:"));
	if (uid)
		ret->uid = strtoul(uid + strlen("\nUid:"), NULL, 10);
	if (ns) { /* one number a namespace, the innermost last */
		size_t len = strcspn(ns + 1, "\n");
		const char *last = ns + len;

		while (last > ns && isdigit((unsigned char)*last))
			last--;
		ret->ns_pid = strtoul(last + 1, NULL, 10);
	}
	return 0;
}
