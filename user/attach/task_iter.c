/* SPDX-License-Identifier: Apache-2.0
 *
 * task_iter.c - the kernel's tasks, read by iterator programs: of the targets, or one look at every process. What the
 * collector's own programs select is all that crosses over.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "attach/loader_internal.h"
#include "base/clock.h"
#include "inspect/discover/discover.h"
#include "schemas/glance.h"

/* A pass over all processes comes that many times its own length apart: 1/2000 of a core. */
#define GLANCES_SHARE 2000
#define GLANCES_LAST_NS 20000000000ull
#define TASKS_FOR_LINK 150 /* a link of its own for a process costs as much as that many tasks passed by */

static struct bpf_link *iterator_link(struct tracer_handle *h, const char *program)
{
	const struct bpf_program *p = h->iter ? NULL : bpf_object__find_program_by_name(h->object, program);

	if (p)
		h->iter = bpf_program__attach_iter(p, NULL);
	return h->iter;
}

static int rows_read(int fd, size_t row_bytes, int (*each)(void *arg, const void *row), void *arg)
{
	_Alignas(8) char rows[16384];
	size_t at, n = 0;
	ssize_t got = 1;
	int err = 0;

	while (!err && got > 0) {
		got = read(fd, rows + n, sizeof(rows) - n);
		if (got < 0 && errno != EAGAIN && errno != EINTR) /* EAGAIN: it stopped in the middle; read on */
			err = -errno;
		n += got > 0 ? got : 0;
		got = got < 0 ? 1 : got;
		for (at = 0; !err && at + row_bytes <= n; at += row_bytes)
			err = each(arg, rows + at);
		memmove(rows, rows + at, n - at);
		n -= at;
	}
	return err;
}

static int link_read(struct bpf_link *link, size_t row_bytes, int (*each)(void *arg, const void *row), void *arg)
{
	int fd = link ? bpf_iter_create(bpf_link__fd(link)) : -1, err = fd < 0 ? -errno : 0;

	if (!err)
		err = rows_read(fd, row_bytes, each, arg);
	if (fd >= 0)
		close(fd);
	return err;
}

int tracer_iter_each(struct tracer_handle *h, const char *program, size_t row_bytes,
		     int (*each)(void *arg, const void *row), void *arg)
{
	return link_read(iterator_link(h, program), row_bytes, each, arg);
}

/* ---- the targets alone ---- */

/* One process: kernels from 6.1 (f0d74c4da1f0) start there; before, -EINVAL. */
static int target_read(const struct bpf_program *p, uint32_t tgid, size_t row_bytes,
		       int (*each)(void *arg, const void *row), void *arg)
{
	union bpf_iter_link_info info = { .task.pid = tgid };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_link *link = bpf_program__attach_iter(p, &opts);
	int err = link ? link_read(link, row_bytes, each, arg) : errno == ESRCH ? 0 : -errno;

	bpf_link__destroy(link);
	return err;
}

/* Up to `max` tgids; max + 1: there are more. */
static size_t targets_list(const struct loader *l, uint32_t *tgids, size_t max)
{
	int fd = loader_map_fd(l, "targets");
	uint32_t next;
	size_t n = 0;

	for (const uint32_t *prev = NULL; n <= max && !bpf_map_get_next_key(fd, prev, &next); prev = &tgids[n - 1]) {
		if (n == max)
			return max + 1;
		tgids[n++] = next;
	}
	return n;
}

int tracer_iter_targets(struct tracer_handle *h, const char *program, size_t row_bytes,
			int (*each)(void *arg, const void *row), void *arg)
{
	const struct bpf_program *p = bpf_object__find_program_by_name(h->object, program);
	uint32_t tgids[TASK_ITER_TARGETS];
	struct sysinfo host;
	size_t n = targets_list(h->loader, tgids, TASK_ITER_TARGETS);
	int err = 0;

	if (h->loader->no_task_links || n > TASK_ITER_TARGETS || sysinfo(&host) || n * TASKS_FOR_LINK > host.procs)
		return tracer_iter_each(h, program, row_bytes, each, arg);
	for (size_t i = 0; p && !err && i < n; i++)
		err = target_read(p, tgids[i], row_bytes, each, arg);
	if (err != -EINVAL)
		return p ? err : -ENOENT;
	h->loader->no_task_links = true;
	return tracer_iter_each(h, program, row_bytes, each, arg);
}

/* ---- every process, at a glance ---- */

struct glances {
	struct process_glance *rows;
	size_t n, room;
};

static int glance_take(void *arg, const void *row)
{
	struct glances *g = arg;

	if (g->n == g->room) {
		size_t room = g->room ? g->room * 2 : 1024;
		struct process_glance *grown = realloc(g->rows, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		g->rows = grown;
		g->room = room;
	}
	memcpy(&g->rows[g->n++], row, sizeof(*g->rows));
	return 0;
}

static int glances_read(struct loader *l, struct process_glance **ret, size_t *ret_n)
{
	const struct bpf_program *p = bpf_object__find_program_by_name(l->life, "process_glances");
	struct glances g = { 0 };
	int err;

	if (!l->glances && p)
		l->glances = bpf_program__attach_iter(p, NULL);
	err = l->glances ? link_read(l->glances, sizeof(*g.rows), glance_take, &g) : -ENOENT;
	if (!err && !g.n)
		err = -ENODATA;
	if (err)
		free(g.rows);
	*ret = err ? NULL : g.rows;
	*ret_n = err ? 0 : g.n;
	return err;
}

static size_t born_read(struct loader *l, struct target_born *born)
{
	int fd = loader_map_fd(l, "born");
	size_t n = 0;

	while (n < BORN_MAX && !bpf_map_get_next_key(fd, NULL, &born[n].tgid)) {
		if (bpf_map_lookup_elem(fd, &born[n].tgid, &born[n].uid))
			born[n].uid = UID_UNKNOWN;
		bpf_map_delete_elem(fd, &born[n++].tgid);
	}
	return n;
}

static int all_scan(struct loader *l, struct target_set *set)
{
	uint64_t begin_ns = clock_monotonic_ns(), wait_ns;
	struct process_glance *rows;
	size_t n;
	int err = glances_read(l, &rows, &n);

	wait_ns = (clock_monotonic_ns() - begin_ns) * GLANCES_SHARE;
	l->glances_due_ns = err ? 0 : begin_ns + (wait_ns < GLANCES_LAST_NS ? wait_ns : GLANCES_LAST_NS);
	return err ? target_set_scan(set) : target_set_scan_glances(set, rows, n, begin_ns);
}

/* What was born is read in every scan. What old strangers map is seen by the pass over all, which comes less often on a
 * host of many processes. */
int loader_scan(struct loader *l, struct target_set *set)
{
	struct target_born born[BORN_MAX];
	size_t n = born_read(l, born);

	if (n == BORN_MAX || clock_monotonic_ns() >= l->glances_due_ns)
		return all_scan(l, set);
	return target_set_scan_some(set, born, n);
}
