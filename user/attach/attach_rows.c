/* SPDX-License-Identifier: Apache-2.0
 *
 * attach_rows.c - puts the probes of one library into one process: offsets and cookies, program by program, returns
 * before entries. A probe costs the kernel a walk over every process that maps the file, of all users: what one
 * costs is measured, and where that is much, few are attached at a time.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/loader_internal.h"
#include "base/clock.h"
#include "base/shares.h"
#include "bpf/cookie.h"

#define SLICE_NS 10000000ull
#define CALL_NS 5000000ull       /* of one call that attaches */
#define MADE_WAIT_NS 10000000ull /* an attach takes 0.1 to 5 ms where no process is in the middle of a fork */
#define DEAR_NS 100000ull        /* one probe: then no more than a slice at a time */

int batch_new(struct batch *b, size_t n_rows)
{
	b->offsets = calloc(n_rows, sizeof(*b->offsets));
	b->semaphores = calloc(n_rows, sizeof(*b->semaphores));
	b->cookies = calloc(n_rows, sizeof(*b->cookies));
	b->n = 0;
	return b->offsets && b->semaphores && b->cookies ? 0 : -ENOMEM;
}

void batch_free(struct batch *b)
{
	free(b->offsets);
	free(b->semaphores);
	free(b->cookies);
}

bool row_is_pair(const struct tracer *t, size_t row)
{
	const struct probe *p = &t->probes[row];

	return row + 1 < t->n_probes && p[1].at_return && !strcmp(p->symbol, p[1].symbol);
}

/* Part of the cookie that an entry row gets. */
static __u64 cookie_of(const struct loader *l, const struct lib_probes *lib, size_t row, __u64 flags)
{
	bool pair = !(flags & COOKIE_NO_RETURNS) && row_is_pair(lib->tracer, row) && lib->symbols[row + 1].found;

	return COOKIE(row, (__u64)(lib - l->libs)) | flags | cookie_pays(l, lib->group, lib->classes[row], pair);
}

static void batch_fill(const struct loader *l, struct batch *b, const struct lib_probes *lib, size_t first, __u64 flags)
{
	const struct tracer *t = lib->tracer;
	const struct probe *lead = &t->probes[first];

	b->n = 0;
	for (size_t i = first; i < t->n_probes; i++) {
		if (!lib->symbols[i].found || t->probes[i].at_return != lead->at_return ||
		    strcmp(t->probes[i].program, lead->program))
			continue;
		b->offsets[b->n] = lib->symbols[i].offset;
		b->semaphores[b->n] = lib->symbols[i].semaphore;
		b->cookies[b->n++] = cookie_of(l, lib, i, flags);
	}
}

/* Is this the first row of its program and side that exists in the library? */
static bool row_leads(const struct lib_probes *lib, size_t row)
{
	const struct probe *rows = lib->tracer->probes;

	if (!lib->symbols[row].found)
		return false;
	for (size_t i = 0; i < row; i++)
		if (lib->symbols[i].found && rows[i].at_return == rows[row].at_return &&
		    !strcmp(rows[i].program, rows[row].program))
			return false;
	return true;
}

/* Where no probe carries its cookie: entry rows by address, for this process. 0 or -errno. */
int cookies_put(struct loader *l, const struct attached *a, const struct lib_probes *lib, __u64 bias, __u64 flags)
{
	int fd = loader_map_fd(l, "probe_cookies"), err = 0;

	for (size_t i = 0; !err && i < a->tracer->n_probes; i++) {
		struct cookie_key key = { .ip = bias + lib->symbols[i].vaddr, .tgid = a->tgid };
		__u64 cookie = cookie_of(l, lib, i, flags);

		if (lib->symbols[i].found && !a->tracer->probes[i].at_return &&
		    bpf_map_update_elem(fd, &key, &cookie, BPF_ANY))
			err = -errno;
	}
	return err;
}

void cookies_forget(struct loader *l, const struct attached *a)
{
	const struct lib_probes *lib = &l->libs[a->lib_id];
	int fd = loader_map_fd(l, "probe_cookies");

	for (size_t i = 0; i < a->tracer->n_probes; i++) {
		struct cookie_key key = { .ip = a->bias + lib->symbols[i].vaddr, .tgid = a->tgid };

		if (lib->symbols[i].found)
			bpf_map_delete_elem(fd, &key);
	}
}

static int link_keep(struct attached *a, struct bpf_link *link)
{
	struct bpf_link **grown;

	if (!link)
		return -errno;
	grown = realloc(a->links, (a->n_links + 1) * sizeof(*grown));
	if (!grown) {
		bpf_link__destroy(link);
		return -ENOMEM;
	}
	a->links = grown;
	a->links[a->n_links++] = link;
	return 0;
}

int batch_attach(struct loader *l, struct attached *a, const struct bpf_program *prog, const char *path,
		 const struct batch *b, bool at_return)
{
	LIBBPF_OPTS(bpf_uprobe_multi_opts, multi, .offsets = b->offsets, .ref_ctr_offsets = b->semaphores,
		    .cookies = b->cookies, .cnt = b->n, .retprobe = at_return);
	int err = 0;

	if (l->multi)
		return link_keep(a, bpf_program__attach_uprobe_multi(prog, a->tgid, path, NULL, &multi));
	for (size_t i = 0; !err && i < b->n; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, one, .retprobe = at_return,
			    .ref_ctr_offset = b->semaphores ? b->semaphores[i] : 0);

		if (!(l->lacks & KERNEL_BIT(COOKIE)))
			one.bpf_cookie = b->cookies[i];
		err = link_keep(a, bpf_program__attach_uprobe_opts(prog, -1, path, b->offsets[i], &one));
	}
	return err;
}

/* Attaches one row if the file has its symbol. */
static int row_attach(struct tracer_handle *h, struct attached *a, const struct lib_probes *lib, const char *path,
		      size_t row, __u64 flags)
{
	const struct probe *p = &h->tracer->probes[row];
	const struct bpf_program *prog = bpf_object__find_program_by_name(h->object, p->program);
	unsigned long offset = lib->symbols[row].offset, semaphore = lib->symbols[row].semaphore;
	__u64 cookie = cookie_of(h->loader, lib, row, flags);
	struct batch b = { .offsets = &offset, .semaphores = &semaphore, .cookies = &cookie, .n = 1 };
	int err;

	if (!lib->symbols[row].found)
		return 0;
	err = prog ? batch_attach(h->loader, a, prog, path, &b, p->at_return) : -ENOENT;
	a->n_probes += !err;
	return err;
}

void loader_slice_begin(struct loader *l)
{
	l->slice_until_ns = clock_monotonic_ns() + SLICE_NS;
	attach_guard_slice(l->guard);
}

/* Attaches row by row, each return before its entry, and goes on where the last poll stopped until the time is over. 1:
 * more is left. */
int rows_attach_slice(struct tracer_handle *h, struct attached *a, struct lib_probes *lib, int fd, bool returns)
{
	__u64 flags = !returns ? COOKIE_NO_RETURNS : h->loader->uretprobe_syscall ? COOKIE_RETURNS_END_BY_SECCOMP : 0;
	size_t n = h->tracer->n_probes;
	char path[64];
	int err = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	while (!err && lib->shared_next < n && clock_monotonic_ns() < h->loader->slice_until_ns) {
		size_t row = lib->shared_next;
		bool pair = row_is_pair(h->tracer, row);

		if (pair && returns)
			err = row_attach(h, a, lib, path, row + 1, 0);
		if (!err && (returns || !h->tracer->probes[row].at_return))
			err = row_attach(h, a, lib, path, row, flags);
		lib->shared_next += pair ? 2 : 1;
	}
	return err ? err : lib->shared_next < n;
}

/* How many probes one call attaches: the first on a file alone, to see what it costs. */
static size_t chunk_size(const struct lib_probes *lib)
{
	size_t n = lib->price_ns ? CALL_NS / lib->price_ns : 1;

	return n ? n : 1;
}

/* Its error is the next call's that goes on with the library. */
static void made_keep(struct loader *l, struct attached *a, const struct attach_made *made)
{
	int err = made->err ? made->err : link_keep(a, made->link);

	a->made_err = err;
	if (err)
		return;
	shares_spend(l->cfg.shares, a->uid, made->took_ns);
	l->libs[a->lib_id].price_ns = made->took_ns / made->n + 1;
	a->n_rows += made->n;
	a->n_probes += made->n;
	l->n_probes += made->n;
	if (made->at_return) { /* no entry is in place yet */
		a->n_return_links = a->n_links;
		a->n_return_probes = a->n_probes;
	}
}

void attach_made_take(struct loader *l, uint64_t wait_ns)
{
	struct attach_made made;
	struct attached *a;

	if (attacher_take(l->attacher, wait_ns, &a, &made))
		made_keep(l, a, &made);
}

bool loader_attach_waits(const struct loader *l)
{
	return attacher_is_busy(l->attacher);
}

/* What it costs: where it may wait for the forks of a user with many processes, that too; else a busy machine would
 * make each probe look expensive. 0, 1: later, or -errno. */
static int part_attach(struct tracer_handle *h, struct attached *a, const struct bpf_program *prog, int fd,
		       const struct batch *part, bool at_return)
{
	struct loader *l = h->loader;
	struct attach_order order = { .program = prog,
				      .tgid = a->tgid,
				      .lib_id = a->lib_id,
				      .start_ns = a->start_ns,
				      .fd = fd,
				      .batch = part,
				      .at_return = at_return,
				      .by_wall_clock = shares_are_many(l->cfg.shares, a->uid) };
	int err = attacher_order(l->attacher, a, &order);

	if (err)
		return err == -EBUSY ? 1 : err;
	attach_made_take(l, MADE_WAIT_NS);
	return attacher_works_on(l->attacher, a) ? 1 : a->made_err;
}

/* One program's probes of one side, from those on that are done; `before`: rows of the attach order before it. 1: the
 * slice is over, or the attacher is at work. */
static int batch_go_on(struct tracer_handle *h, struct attached *a, struct lib_probes *lib, int fd,
		       const struct batch *b, size_t before, size_t lead)
{
	const struct probe *p = &h->tracer->probes[lead];
	const struct bpf_program *prog = bpf_object__find_program_by_name(h->object, p->program);
	int err = !prog ? -ENOENT : attacher_works_on(h->loader->attacher, a) ? 1 : a->made_err;

	while (!err && a->n_rows - before < b->n) {
		size_t done = a->n_rows - before, left = b->n - done, n = chunk_size(lib);
		struct batch part = { b->offsets + done, b->semaphores + done, b->cookies + done, n < left ? n : left };

		if (lib->price_ns >= DEAR_NS && clock_monotonic_ns() >= h->loader->slice_until_ns)
			return 1;
		err = part_attach(h, a, prog, fd, &part, p->at_return);
	}
	return err;
}

/* `at`: how many rows of the attach order lie before; behind this side, on return. */
static int side_attach(struct tracer_handle *h, struct attached *a, struct lib_probes *lib, int fd, struct batch *b,
		       bool at_return, __u64 flags, size_t *at)
{
	const struct tracer *t = h->tracer;
	int err = 0;

	for (size_t i = 0; !err && i < t->n_probes; i++) {
		if (!row_leads(lib, i) || t->probes[i].at_return != at_return)
			continue;
		batch_fill(h->loader, b, lib, i, flags);
		if (a->n_rows < *at + b->n)
			err = batch_go_on(h, a, lib, fd, b, *at, i);
		*at += b->n;
	}
	return err;
}

/* Attach returns first, so that every call whose begin is seen has its end seen too. */
int rows_attach(struct tracer_handle *h, struct attached *a, struct lib_probes *lib, int fd, bool returns)
{
	struct batch b;
	__u64 flags = h->loader->uretprobe_syscall ? COOKIE_RETURNS_END_BY_SECCOMP : 0;
	size_t at = 0;
	int err = batch_new(&b, h->tracer->n_probes);

	if (!err && returns)
		err = side_attach(h, a, lib, fd, &b, true, 0, &at);
	if (!returns)
		flags = COOKIE_NO_RETURNS;
	if (!err)
		err = side_attach(h, a, lib, fd, &b, false, flags, &at);
	batch_free(&b);
	return err;
}
