/* SPDX-License-Identifier: Apache-2.0
 *
 * attach.c - attaches a tracer's probe rows to a library of one process.
 *
 * Symbols become file offsets once per file; then each program gets one link. Links are filtered by process where
 * the kernel can do that. Where it cannot, one attach serves every process that maps the file, and the collector says
 * that all of them pay.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bpf/cookie.h"
#include "attach/loader_internal.h"
#include "attach/probe_rows.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"

#define WAIT_LOG_NS 1000000000ull /* log a wait for a lock after this time */
#define SLICE_NS 10000000ull

int batch_new(struct batch *b, size_t n_rows)
{
	b->offsets = calloc(n_rows, sizeof(*b->offsets));
	b->cookies = calloc(n_rows, sizeof(*b->cookies));
	b->n = 0;
	return b->offsets && b->cookies ? 0 : -ENOMEM;
}

void batch_free(struct batch *b)
{
	free(b->offsets);
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
static int cookies_put(struct loader *l, const struct attached *a, const struct lib_probes *lib, __u64 bias,
		       __u64 flags)
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

static void cookies_forget(struct loader *l, const struct attached *a)
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
	LIBBPF_OPTS(bpf_uprobe_multi_opts, multi, .offsets = b->offsets, .cookies = b->cookies, .cnt = b->n,
		    .retprobe = at_return);
	int err = 0;

	if (l->multi)
		return link_keep(a, bpf_program__attach_uprobe_multi(prog, a->tgid, path, NULL, &multi));
	for (size_t i = 0; !err && i < b->n; i++) {
		LIBBPF_OPTS(bpf_uprobe_opts, one, .retprobe = at_return);

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
	unsigned long offset = lib->symbols[row].offset;
	__u64 cookie = cookie_of(h->loader, lib, row, flags);
	struct batch b = { .offsets = &offset, .cookies = &cookie, .n = 1 };
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
}

/* Attaches row by row, each return before its entry, and goes on where the last poll stopped until the time is over. 1:
 * more is left. */
static int rows_attach_slice(struct tracer_handle *h, struct attached *a, struct lib_probes *lib, int fd, bool returns)
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

static int side_attach(struct tracer_handle *h, struct attached *a, const struct lib_probes *lib, const char *path,
		       struct batch *b, bool at_return, __u64 flags)
{
	const struct tracer *t = h->tracer;
	int err = 0;

	for (size_t i = 0; !err && i < t->n_probes; i++) {
		const struct bpf_program *prog;

		if (!row_leads(lib, i) || t->probes[i].at_return != at_return)
			continue;
		prog = bpf_object__find_program_by_name(h->object, t->probes[i].program);
		if (!prog)
			return -ENOENT;
		batch_fill(h->loader, b, lib, i, flags);
		err = batch_attach(h->loader, a, prog, path, b, at_return);
		a->n_probes += err ? 0 : b->n;
	}
	return err;
}

/* Attach returns first, so that every call whose begin is seen has its end seen too. */
static int rows_attach(struct tracer_handle *h, struct attached *a, const struct lib_probes *lib, int fd, bool returns)
{
	struct batch b;
	char path[64];
	__u64 flags = h->loader->uretprobe_syscall ? COOKIE_RETURNS_END_BY_SECCOMP : 0;
	int err = batch_new(&b, h->tracer->n_probes);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!err && returns)
		err = side_attach(h, a, lib, path, &b, true, 0);
	a->n_return_links = a->n_links;
	a->n_return_probes = a->n_probes;
	if (!returns)
		flags = COOKIE_NO_RETURNS;
	if (!err)
		err = side_attach(h, a, lib, path, &b, false, flags);
	batch_free(&b);
	return err;
}

int attached_emit(struct loader *l, const struct attached *a, const struct target_lib *lib, uint64_t begin_ns,
		  bool has_layout)
{
	union {
		struct record_lib f;
		char bytes[sizeof(struct record_lib) + 4096 + 8];
	} u = {};
	size_t len = strnlen(lib->path, 4095) + 1, size = (sizeof(u.f) + len + 7) & ~7ul;
	uint64_t now_ns = clock_monotonic_ns();
	struct record_attach attach = {
		.hdr = { .size = sizeof(attach),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_ATTACH,
			 .tgid = a->tgid,
			 .ts_ns = now_ns },
		.begin_ns = begin_ns,
		.n_probes = a->n_probes,
		.for_tracer = a->tracer->id,
		.group = l->libs[a->lib_id].group,
		.shared = !l->multi,
	};
	int err;

	u.f.hdr = (struct wire_hdr){
		.size = size, .tracer = WIRE_COLLECTOR, .kind = RECORD_LIB, .tgid = a->tgid, .ts_ns = now_ns
	};
	u.f.lib_id = a->lib_id;
	u.f.n_probes = a->n_probes;
	u.f.for_tracer = a->tracer->id;
	u.f.has_layout = has_layout;
	u.f.build_id_len = lib->file->facts.build_id_len;
	memcpy(u.f.build_id, lib->file->facts.build_id, u.f.build_id_len);
	u.f.path_len = len;
	memcpy(u.f.path, lib->path, len - 1);
	err = l->cfg.emit(l->cfg.emit_to, &u.f.hdr);
	return err ? err : l->cfg.emit(l->cfg.emit_to, &attach.hdr);
}

static struct attached *attached_find(const struct loader *l, const struct tracer *t, const struct target_proc *proc,
				      const struct target_lib *lib, int lib_id)
{
	for (struct attached *a = l->attached; a; a = a->next)
		if (!a->n_places && a->tracer == t && a->tgid == proc->tgid && a->start_ns == proc->start_time_ns &&
		    attached_is_of(l, a, lib_id) && a->text_begin == lib->map_start)
			return a;
	return NULL;
}

void attached_free(struct loader *l, struct attached *a)
{
	detacher_close(l->detacher, a->links, a->n_links, a->lib_id);
	l->n_probes -= a->n_probes;
	free(a->places);
	free(a);
}

static struct attached *attached_new(struct tracer_handle *h, const struct target_proc *proc,
				     const struct target_lib *lib, int lib_id)
{
	struct attached *a = calloc(1, sizeof(*a));

	if (a)
		*a = (struct attached){ .tgid = proc->tgid,
					.start_ns = proc->start_time_ns,
					.tracer = h->tracer,
					.lib_id = lib_id,
					.text_begin = lib->map_start,
					.bias = lib->bias,
					.begin_ns = clock_monotonic_ns() };
	return a;
}

/* Prepares the library, then attaches the first probes. 1: more is left. */
static int lib_begin(struct tracer_handle *h, struct attached *a, const struct target_proc *proc,
		     const struct target_lib *lib)
{
	struct loader *l = h->loader;
	struct lib_probes *known = &l->libs[a->lib_id];
	bool returns = return_probes_allowed(l, proc);
	int err = lib_file_check(l, lib->file);

	if (!err && !a->partial && h->tracer->on_lib)
		err = h->tracer->on_lib(h, proc, lib, lib->file->fd, a->lib_id, &a->has_layout);
	if (!err && !a->partial && (l->lacks & KERNEL_BIT(COOKIE)))
		err = cookies_put(l, a, known, lib->bias, returns ? 0 : COOKIE_NO_RETURNS);
	if (err)
		return err;
	return l->multi ? rows_attach(h, a, known, lib->file->fd, returns)
			: rows_attach_slice(h, a, known, lib->file->fd, returns);
}

/* `a`: the partial attach of this library; NULL: none yet. */
static int lib_attach(struct tracer_handle *h, struct attached *a, const struct target_proc *proc,
		      const struct target_lib *lib, int lib_id, bool *ret_more)
{
	struct loader *l = h->loader;
	bool is_new = !a;
	uint32_t before;
	int err;

	if (is_new)
		a = attached_new(h, proc, lib, lib_id);
	if (!a)
		return -ENOMEM;
	before = a->n_probes;
	err = lib_begin(h, a, proc, lib);
	l->n_probes += a->n_probes - before;
	if (err < 0 && is_new && (l->multi || !a->n_links)) {
		attached_free(l, a);
		return err;
	}
	if (is_new) {
		a->next = l->attached;
		l->attached = a;
	}
	a->partial = err; /* also after a row that failed */
	*ret_more = err > 0;
	if (!err)
		err = attached_emit(l, a, lib, a->begin_ns, a->has_layout);
	return err < 0 ? err : (int)(a->n_probes - before);
}

struct tracer_handle *handle_of(struct loader *l, const struct tracer *t)
{
	for (int i = 0; i < l->n_tracers; i++)
		if (l->tracers[i].tracer == t)
			return &l->tracers[i];
	return NULL;
}

uint32_t lib_holder(struct loader *l, uint32_t lib_id)
{
	const struct lib_probes *lib = &l->libs[lib_id];

	return attach_guard_holder(l->guard, lib->build_id, lib->build_id_len);
}

/* Has a wait for this file been logged? Each of its probe groups waits separately. */
static bool is_wait_logged(const struct loader *l, const struct lib_probes *lib)
{
	for (uint32_t i = 0; i < l->n_libs; i++)
		if (l->libs[i].wait_logged && l->libs[i].build_id_len == lib->build_id_len &&
		    !memcmp(l->libs[i].build_id, lib->build_id, lib->build_id_len))
			return true;
	return false;
}

bool lib_waits(struct loader *l, uint32_t lib_id, struct attach_note *note)
{
	struct lib_probes *lib = &l->libs[lib_id];
	uint32_t holder = lib_holder(l, lib_id);
	uint64_t now_ns = clock_monotonic_ns();

	if (!holder) { /* old links can close when nothing holds the lock */
		note->waits = detacher_waits_on(l->detacher, lib_id);
		lib->waits_since_ns = 0;
		lib->wait_logged = false;
		return note->waits;
	}
	if (!lib->waits_since_ns)
		lib->waits_since_ns = now_ns;
	note->waits = true;
	if (!lib->wait_logged && now_ns - lib->waits_since_ns >= WAIT_LOG_NS) {
		note->holder = is_wait_logged(l, lib) ? 0 : holder;
		lib->wait_logged = true;
	}
	return true;
}

static bool has_rows(const struct tracer *t, enum probe_group group)
{
	for (size_t i = 0; i < t->n_probes; i++)
		if (probe_group(t, i) == group)
			return true;
	return false;
}

int loader_attach_lib(struct loader *l, const struct tracer *t, const struct target_proc *proc,
		      const struct target_lib *lib, enum probe_group group, enum tier upto, struct attach_note *note)
{
	struct tracer_handle *h = handle_of(l, t);
	struct attached *a;
	int lib_id, err;

	*note = (struct attach_note){ 0 };
	if (!h || !has_rows(t, group))
		return 0;
	err = tracer_load_late(h);
	if (err || !h->object)
		return err;
	if (lib->file->fd < 0)
		return lib->file->error ? lib->file->error : -EBADF;
	lib_id = lib_get(l, t, proc, lib->file, group, upto);
	if (lib_id >= 0 && group != PROBES_NEEDED && !l->libs[lib_id].n_found)
		return 0; /* the library has none of these functions */
	if (lib_id < 0)
		return lib_id;
	a = attached_find(l, t, proc, lib, lib_id);
	if (a && !a->partial)
		return 0;
	if (lib_waits(l, lib_id, note))
		return 0;
	note->n_ambiguous = l->libs[lib_id].n_ambiguous;
	l->libs[lib_id].n_ambiguous = 0; /* report it once */
	return lib_attach(h, a, proc, lib, lib_id, &note->more);
}

static uint32_t attached_returns_drop(struct loader *l, struct attached *a)
{
	struct bpf_link **returns = calloc(a->n_return_links, sizeof(*returns));
	uint32_t n = a->n_return_probes;

	if (!returns)
		return 0;
	memcpy(returns, a->links, a->n_return_links * sizeof(*returns));
	a->n_links -= a->n_return_links;
	memmove(a->links, a->links + a->n_return_links, a->n_links * sizeof(*returns));
	detacher_close(l->detacher, returns, a->n_return_links, a->lib_id);
	a->n_return_links = a->n_return_probes = 0;
	a->n_probes -= n;
	l->n_probes -= n;
	return n;
}

/* Entry probes stay attached: calls between a detach and a new attach would be missed and miscounted. */
uint32_t loader_returns_drop(struct loader *l, uint32_t tgid)
{
	uint32_t n = 0;

	if (!l->uretprobe_syscall || !l->multi)
		return 0;
	for (struct attached *a = l->attached; a; a = a->next)
		if (a->tgid == tgid && a->n_return_links)
			n += attached_returns_drop(l, a);
	return n;
}

static void links_drop(struct loader *l, uint32_t tgid, uint32_t groups)
{
	struct attached **at = &l->attached, *a;

	while ((a = *at)) {
		if ((l->multi && a->tgid != tgid) || !(groups >> l->libs[a->lib_id].group & 1)) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		l->libs[a->lib_id].shared_next = 0;
		if (l->lacks & KERNEL_BIT(COOKIE))
			cookies_forget(l, a);
		attached_free(l, a);
	}
}

/* Without probes a new generation begins, and calls in flight under the old probes are dropped. */
void loader_lower(struct loader *l, uint32_t tgid, enum tier to)
{
	uint32_t groups = 0;

	for (int g = 0; g < PROBE_GROUPS; g++)
		groups |= probe_group_tier(g) > to ? 1u << g : 0;
	if (l->multi) /* without a pid filter links serve other processes */
		links_drop(l, tgid, groups);
	if (to == TIER_WATCH)
		target_generation_begin(l, tgid);
}

uint32_t shed_groups(const struct loader *l, uint32_t tgid)
{
	const struct shed *s = l->shed;

	while (s && s->tgid != tgid)
		s = s->next;
	return s ? s->groups : 0;
}

uint32_t tracer_shed(struct tracer_handle *h, uint32_t tgid)
{
	return shed_groups(h->loader, tgid);
}

/* Returns what it was; without memory nothing is noted. */
static uint32_t shed_set(struct loader *l, uint32_t tgid, uint32_t groups)
{
	struct shed **at = &l->shed, *s;
	uint32_t before;

	while (*at && (*at)->tgid != tgid)
		at = &(*at)->next;
	if (!*at && groups)
		*at = calloc(1, sizeof(**at));
	s = *at;
	if (!s)
		return 0;
	before = s->groups;
	*s = (struct shed){ .tgid = tgid, .groups = groups, .next = s->next };
	if (groups)
		return before;
	*at = s->next;
	free(s);
	return before;
}

/* The generation stays, because the state of NCCL's calls is still needed, unless these are not seen any more. A call
 * in flight in these groups ends with its probes (tracer_groups()). */
void loader_shed(struct loader *l, uint32_t tgid, uint32_t groups)
{
	uint32_t before = shed_set(l, tgid, groups);

	links_drop(l, tgid, groups);
	if (groups & ~before & 1u << PROBES_NEEDED)
		target_generation_begin(l, tgid);
}

uint32_t tracer_groups(struct tracer_handle *h, uint32_t tgid)
{
	const struct loader *l = h->loader;
	uint32_t groups = 0;

	for (const struct attached *a = l->attached; a; a = a->next)
		if (a->tgid == tgid && a->tracer == h->tracer)
			groups |= 1u << l->libs[a->lib_id].group;
	return l->multi ? groups : ~shed_groups(l, tgid);
}

void attached_forget(struct loader *l, uint32_t tgid)
{
	struct attached **at = &l->attached, *a;

	shed_set(l, tgid, 0);
	while ((a = *at)) {
		if (a->tgid == tgid && (l->lacks & KERNEL_BIT(COOKIE)))
			cookies_forget(l, a);
		/* links without a pid filter serve other processes too, so they stay until the end */
		if (a->tgid != tgid || (!l->multi && a->n_links)) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		attached_free(l, a);
	}
}

uint32_t loader_libs_attached(const struct loader *l)
{
	uint32_t n = 0;

	for (const struct attached *a = l->attached; a; a = a->next)
		n += l->libs[a->lib_id].group == PROBES_NEEDED;
	return n;
}

void attached_free_all(struct loader *l)
{
	struct attached *a;

	while ((a = l->attached)) {
		l->attached = a->next;
		attached_free(l, a);
	}
}
