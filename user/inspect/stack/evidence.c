/* SPDX-License-Identifier: Apache-2.0
 *
 * evidence.c - reads /proc/TGID/task/TID/{stat,stack,wchan,syscall} and the links behind fds directly: they were
 * measured to work while the mmap_lock is held. The path argument of a call is target memory, so the reader gets it.
 */
#include "inspect/stack/evidence.h"
#include "inspect/reader/proc_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kernel_stack_clean(const char *text, char *to, size_t size)
{
	size_t used = 0;

	to[0] = '\0';
	while (*text && used + 1 < size) {
		size_t len = strcspn(text, "\n");
		const char *line = text, *end = text + len;

		if (*line == '[') { /* "[<0>] func+0x1/0x2" */
			while (line < end && *line != ']')
				line++;
			line += line < end;
			while (line < end && *line == ' ')
				line++;
		}
		if (line < end && strncmp(line, "0xffff", 6))
			used += snprintf(to + used, size - used, "%s%.*s", used ? "\n" : "", (int)(end - line), line);
		text = end + (*end == '\n');
	}
}

/* "nr a0 .. a5 sp pc", "-1 sp pc" or "running". */
static void parse_syscall(const char *text, struct target_evidence *e)
{
	unsigned long long a[6], sp = 0, pc = 0;
	int nr = -1;

	if (sscanf(text, "%d %llx %llx %llx %llx %llx %llx %llx %llx", &nr, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5],
		   &sp, &pc) == 9) {
		e->syscall_nr = nr;
		for (int i = 0; i < 6; i++)
			e->args[i] = a[i];
	} else if (sscanf(text, "-1 %llx %llx", &sp, &pc) != 2) {
		return;
	}
	e->sp = sp;
	e->pc = pc;
}

static void name_syscall(struct target_evidence *e)
{
	const char *name = e->syscall_nr >= 0 ? syscall_name(e->syscall_nr) : NULL;

	if (name)
		snprintf(e->syscall, sizeof(e->syscall), "%s", name);
	else if (e->syscall_nr >= 0)
		snprintf(e->syscall, sizeof(e->syscall), "syscall_%d", e->syscall_nr);
	else if (e->pc && strstr(e->kernel_stack, "fault"))
		snprintf(e->syscall, sizeof(e->syscall), "page_fault");
}

/* Reading these links takes no lock of the target's memory and touches no disk. */
static bool read_link(char *to, size_t size, uint32_t tgid, const char *what)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/%s", tgid, what);
	ssize_t n = readlink(path, to, size - 1);

	if (n < 0)
		return false;
	to[n] = '\0';
	return true;
}

static bool read_fd(char *to, size_t size, uint32_t tgid, uint64_t fd)
{
	char what[32];

	if ((int)fd < 0)
		return false;
	snprintf(what, sizeof(what), "fd/%d", (int)fd);
	return read_link(to, size, tgid, what);
}

/* A string of the target, cut to `size`; the second half may lie on a page that is not there. */
static bool read_string(struct reader *r, uint32_t tgid, uint64_t addr, unsigned deadline_ms, char *to, size_t size)
{
	size_t first = 4096 - addr % 4096;
	struct reader_range ranges[2] = { { addr, to, size - 1, 0 } };
	int n = 1;

	if (first < size - 1) {
		ranges[0].len = first;
		ranges[1] = (struct reader_range){ addr + first, to + first, size - 1 - first, 0 };
		n = 2;
	}
	if (!addr || reader_memory(r, tgid, ranges, n, deadline_ms) || !ranges[0].got)
		return false;
	size_t got = ranges[0].got + (n == 2 && ranges[0].got == first ? ranges[1].got : 0);

	to[got] = '\0';
	return true;
}

static void read_path(struct reader *r, uint32_t tgid, bool has_dir, uint64_t dir_fd, uint64_t addr,
		      unsigned deadline_ms, struct target_evidence *e)
{
	char path[256], dir[256] = "";

	if (!read_string(r, tgid, addr, deadline_ms, path, sizeof(path)))
		path[0] = '\0';
	if (path[0] != '/') {
		if (has_dir && (int)dir_fd != AT_FDCWD)
			read_fd(dir, sizeof(dir), tgid, dir_fd);
		else
			read_link(dir, sizeof(dir), tgid, "cwd");
	}
	/* An unread path (lock held) still leaves the directory as a hint. */
	if (path[0])
		snprintf(e->file, sizeof(e->file), "%s%s%s", dir, dir[0] ? "/" : "", path);
	else if (has_dir && (int)dir_fd != AT_FDCWD)
		snprintf(e->file, sizeof(e->file), "%s", dir);
}

static void read_subject(struct reader *r, uint32_t tgid, unsigned deadline_ms, struct target_evidence *e)
{
	switch (e->syscall_nr < 0 ? SUBJECT_NONE : syscall_subject(e->syscall_nr)) {
	case SUBJECT_FD: read_fd(e->file, sizeof(e->file), tgid, e->args[0]); break;
	case SUBJECT_FD1: read_fd(e->file, sizeof(e->file), tgid, e->args[1]); break;
	case SUBJECT_FD4: read_fd(e->file, sizeof(e->file), tgid, e->args[4]); break;
	case SUBJECT_PATH: read_path(r, tgid, false, 0, e->args[0], deadline_ms, e); break;
	case SUBJECT_AT: read_path(r, tgid, true, e->args[0], e->args[1], deadline_ms, e); break;
	case SUBJECT_NONE: break;
	}
}

static int read_task(struct reader *r, uint32_t tgid, uint32_t tid, struct target_evidence *e)
{
	char text[16384];
	struct proc_stat st;
	int rc = proc_read(text, sizeof(text), "/proc/%u/task/%u/stat", tgid, tid);

	if (rc < 0)
		return rc;
	if (!proc_stat_parse(text, &st))
		e->state = st.state;
	rc = proc_read(text, sizeof(text), "/proc/%u/task/%u/syscall", tgid, tid);
	if (rc < 0)
		return rc;
	parse_syscall(text, e);
	if (!reader_kernel_stack(r, tgid, tid, text, sizeof(text), READER_DEADLINE_MS))
		kernel_stack_clean(text, e->kernel_stack, sizeof(e->kernel_stack));
	if (proc_read(text, sizeof(text), "/proc/%u/task/%u/wchan", tgid, tid) > 0 && strcmp(text, "0"))
		snprintf(e->wchan, sizeof(e->wchan), "%.60s", text);
	name_syscall(e);
	return 0;
}

int evidence_read(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms, struct target_evidence *ret)
{
	struct target_evidence e = { .syscall_nr = -1 };
	/* First the probe: when it times out, the reader refuses the path at once instead of waiting again. */
	int rc = reader_probe(r, tgid, deadline_ms, &e.mmap_lock_held);

	if (rc == -EINPROGRESS)
		return rc;
	if (rc)
		e.mmap_lock_held = false;
	rc = read_task(r, tgid, tid, &e);
	if (rc)
		return rc;
	read_subject(r, tgid, deadline_ms, &e);
	*ret = e;
	return 0;
}
