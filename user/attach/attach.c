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
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "attach/loader_internal.h"
#include "bpf/cookie.h"
#include "attach/probe_rows.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"

#define WAIT_LOG_NS 1000000000ull /* log a wait for a lock after this time */

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
		.group = probe_group_counted(l->libs[a->lib_id].group),
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

static struct attached *attached_new(struct tracer_handle *h, const struct target_proc *proc,
				     const struct target_lib *lib, int lib_id)
{
	struct attached *a = calloc(1, sizeof(*a));

	if (a)
		*a = (struct attached){ .tgid = proc->tgid,
					.uid = proc->uid,
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
	bool returns = a->partial ? a->returns : return_probes_allowed(l, proc);
	int err = lib_file_check(l, lib->file);

	a->returns = returns;
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
	int err, added;

	if (is_new)
		a = attached_new(h, proc, lib, lib_id);
	if (!a)
		return -ENOMEM;
	before = a->n_probes;
	err = lib_begin(h, a, proc, lib);
	if (!l->multi) /* else made_keep() counts */
		l->n_probes += a->n_probes - before;
	if (is_new && err >= 0 && (added = attached_add(l, a)))
		err = added;
	if (err < 0 && (l->multi || (is_new && !a->n_links))) {
		attached_free(l, a);
		return err;
	}
	if (err < 0 && is_new && attached_add(l, a))
		return err;
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

static bool is_crowd_said(const struct loader *l, const struct lib_probes *lib)
{
	for (uint32_t i = 0; i < l->n_libs; i++)
		if (l->libs[i].crowd_said && l->libs[i].build_id_len == lib->build_id_len &&
		    !memcmp(l->libs[i].build_id, lib->build_id, lib->build_id_len))
			return true;
	return false;
}

/* A close waits for grace periods (detach.h). A second link beside it would report each call twice: to the detectors
 * the process made calls that its peers did not make. */
static bool links_are_closing(const struct loader *l, const struct target_proc *proc, uint32_t lib_id)
{
	struct detach_of of = { .lib_id = lib_id };

	if (l->multi) { /* else they are everybody's */
		of.tgid = proc->tgid;
		of.start_ns = proc->start_time_ns;
	}
	return detacher_closes(l->detacher, &of, lib_is_same, l);
}

bool lib_waits(struct loader *l, const struct target_proc *proc, uint32_t lib_id, struct attach_note *note)
{
	struct lib_probes *lib = &l->libs[lib_id];
	struct guard_answer a = attach_guard_ask(l->guard, lib->build_id, lib->build_id_len);
	uint32_t holder = a.holder;
	uint64_t now_ns = clock_monotonic_ns();

	if (links_are_closing(l, proc, lib_id)) {
		note->waits = true;
		return true;
	}
	if (a.crowd || a.unfinished) {
		note->waits = true;
		note->crowd = a.crowd && !is_crowd_said(l, lib) ? a.crowd : 0;
		lib->crowd_said |= a.crowd != 0;
		return true;
	}
	lib->crowd_said = false;
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

/* Are the links still those of this process? A thread that execs takes the place of the first one, and they stay
 * behind; kernels before 6.8 do not say. */
static bool links_hold(const struct attached *a)
{
	for (int i = 0; i < a->n_links; i++) {
		struct bpf_link_info info = { 0 };
		__u32 size = sizeof(info);

		if (bpf_link_get_info_by_fd(bpf_link__fd(a->links[i]), &info, &size) ||
		    info.uprobe_multi.pid != a->tgid)
			return false;
	}
	return true;
}

/* The file is mapped at another address, after an exec or a dlclose. Its probes came along, as they are the file's: a
 * second attach would report each call twice. Returns what is attached; NULL: it is given up, as it is another's. */
static struct attached *attached_move(struct tracer_handle *h, struct attached *a, const struct target_proc *proc,
				      const struct target_lib *lib, int lib_id, int *ret_err)
{
	struct loader *l = h->loader;
	uint64_t begin_ns = clock_monotonic_ns();

	if (a->lib_id != (uint32_t)lib_id || !links_hold(a)) {
		attached_free(l, a);
		return NULL;
	}
	if (h->tracer->on_lib)
		*ret_err = h->tracer->on_lib(h, proc, lib, lib->file->fd, lib_id, &a->has_layout);
	if (*ret_err)
		return a;
	a->text_begin = lib->map_start;
	a->bias = lib->bias;
	if (!a->partial)
		*ret_err = attached_emit(l, a, lib, begin_ns, a->has_layout);
	return a;
}

static bool has_rows(const struct tracer *t, enum probe_group group)
{
	for (size_t i = 0; i < t->n_probes; i++)
		if (probe_group(t, i) == group)
			return true;
	return false;
}

/* Where a probe is everybody's who maps the file: another user's process that would pay. */
static const struct target_proc *payer_find(const struct loader *l, const struct target_proc *proc,
					    const struct target_file *file)
{
	size_t n = 0;
	const struct target_proc *const *list =
		l->multi || l->cfg.shared_probes ? NULL : target_set_list(l->cfg.targets, &n);

	for (size_t i = 0; i < n; i++) {
		if (list[i]->uid == proc->uid)
			continue;
		for (size_t k = 0; k < list[i]->n_files; k++)
			if (target_file_same(list[i]->libs[k].file, file))
				return list[i];
	}
	return NULL;
}

/* Said once for a library, however many its groups of probes are. */
static bool shared_waits(struct loader *l, struct lib_probes *lib, const struct target_proc *proc,
			 struct attach_note *note)
{
	const struct target_proc *other = payer_find(l, proc, &lib->file);

	if (!other)
		return false;
	note->waits = true;
	if (!lib->shared_said && lib->group == PROBES_NEEDED)
		note->other = other;
	lib->shared_said = true;
	return true;
}

struct file_of {
	const struct loader *l;
	const struct target_file *file;
};

static bool row_defined(void *arg, const struct probe *row)
{
	const struct file_of *f = arg;

	return target_file_symbol(f->l->cfg.targets, f->file, row->symbol) ||
	       (row->alias && target_file_symbol(f->l->cfg.targets, f->file, row->alias));
}

/* Once for a file and group, not for each process that maps it. */
static void unseen_note(struct loader *l, const struct target_file *file, struct lib_probes *lib,
			struct attach_note *note)
{
	struct file_of f = { l, file };

	if (!lib->unseen_said)
		probe_rows_unseen(lib->tracer, 1u << lib->group, row_defined, &f, note->unseen, sizeof(note->unseen));
	lib->unseen_said = true;
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
		return lib->file->error ? lib->file->error : proc->opened ? -EBADF : -EAGAIN;
	lib_id = lib_get(l, t, proc, lib->file, group, upto);
	if (lib_id >= 0)
		unseen_note(l, lib->file, &l->libs[lib_id], note);
	if (lib_id >= 0 && group != PROBES_NEEDED && !l->libs[lib_id].n_found)
		return 0; /* the library has none of these functions */
	if (lib_id < 0)
		return lib_id;
	a = attached_find(l, t, proc, lib, lib_id);
	if (a && a->text_begin != lib->map_start)
		a = attached_move(h, a, proc, lib, lib_id, &err);
	if (err || (a && !a->partial))
		return err;
	if (lib_waits(l, proc, lib_id, note) || shared_waits(l, &l->libs[lib_id], proc, note))
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
	detacher_close(l->detacher, returns, a->n_return_links, &(struct detach_of){ a->lib_id, a->tgid, a->start_ns });
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
	for (struct attached *a = attached_first(l, tgid); a; a = a->next_of_proc)
		if (a->n_return_links)
			n += attached_returns_drop(l, a);
	return n;
}
