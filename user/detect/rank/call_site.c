/* SPDX-License-Identifier: Apache-2.0
 *
 * call_site.c - see call_site.h. Reads no stack: these are texts in the model.
 */
#include "detect/rank/call_site.h"

#include <string.h>

#include "detect/phrase.h"

#define PASSING_NS 3000000000ull /* as who is late is not read again sooner: session/stacks.c */
#define OTHERS_MAX 256           /* ranks read for where most of them are */

/* It has called NCCL or waited for its GPU since then: where it stood for an earlier fault says nothing of this one. */
static bool proc_moved_since(const struct proc *p, uint64_t ns)
{
	if (p->last_call_ns > ns)
		return true;
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		if (!mb->gone && mb->samples.moved && mb->samples.since_ns > ns)
			return true;
	return false;
}

/* The same of one thread of several that call NCCL. */
static bool thread_moved_since(const struct proc *p, uint32_t tid, uint64_t ns)
{
	for (const struct op *op = p->last_op; op && op->call_ns > ns; op = op->prev_in_proc)
		if (op->tid == tid)
			return true;
	return false;
}

/* It may be of an earlier pause. */
static bool is_of_now(const struct proc *p, const struct task *t, uint64_t ns)
{
	bool is_main = t->tid == p->tgid;

	return ns && !(p->shared && !is_main ? thread_moved_since(p, t->tid, ns) : proc_moved_since(p, ns));
}

static bool stack_is_of_now(const struct task *t)
{
	return is_of_now(t->proc, t, t->stack.ns);
}

static const struct task *thread_of(const struct proc *p, uint32_t tid)
{
	const struct task *t = p->tasks;

	while (t && t->tid != (tid ? tid : p->tgid))
		t = t->next;
	return t;
}

const struct task *call_site_thread(const struct proc *p, uint32_t tid)
{
	const struct task *t = thread_of(p, tid);

	return t && is_of_now(p, t, t->stack.ns) ? t : NULL;
}

const struct task *call_site_task(const struct proc *p)
{
	return call_site_thread(p, 0);
}

/* "cuStreamSynchronize (libcuda.so.1)", "cudaDeviceSynchronize_ptsz (libtorch_cuda.so)", "cuMemcpyDtoH_v2 (...": a copy
 * that returns when it is done. Names inside the driver's own file count too. */
static bool line_waits(const char *line)
{
	size_t name = strcspn(line, " \n");

	if (strncmp(line, "cu", 2) && strncmp(line + name, " (libcuda", 9))
		return false;
	if (!strncmp(line, "cuMemcpyDtoH", 12) && !memchr(line, 'A', name)) /* not ...Async */
		return true;
	for (size_t i = 0; i + 10 <= name; i++)
		if (!strncmp(line + i, "ynchronize", 10))
			return true;
	return false;
}

static bool any_line(const struct task *t, bool (*is)(const char *line))
{
	for (const char *line = t ? t->stack.frames : ""; *line;) {
		line += strncmp(line, "? ", 2) ? 0 : 2;
		if (is(line))
			return true;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return false;
}

static bool gpu_wait(const struct task *t)
{
	return any_line(t, line_waits);
}

bool call_site_gpu_wait(const struct proc *p)
{
	const struct task *t = call_site_task(p);

	return t && gpu_wait(t);
}

static bool line_launches(const char *line)
{
	return !strncmp(line, "cuLaunch", 8) || !strncmp(line, "cudaLaunch", 10);
}

bool call_site_launches(const struct proc *p)
{
	return any_line(call_site_task(p), line_launches);
}

static bool line_of(const char *line, const char *function, const char *file)
{
	size_t name = strcspn(line, " \n");

	return !strncmp(line, function, strlen(function)) || !strncmp(line + name, file, strlen(file));
}

static bool line_in_nccl(const char *line)
{
	return line_of(line, "nccl", " (libnccl") || line_of(line, "pnccl", " (libnccl");
}

static bool line_in_nccl_or_driver(const char *line)
{
	return line_waits(line) || line_in_nccl(line) || line_of(line, "nccl", " (libcuda");
}

bool call_site_in_nccl(const struct proc *p)
{
	return any_line(call_site_task(p), line_in_nccl);
}

bool call_site_in_nccl_or_driver(const struct proc *p)
{
	const struct task *t = call_site_task(p);

	return any_line(t, line_in_nccl_or_driver) || (t && !strncmp(t->stack.file, "/dev/nvidia", 11));
}

bool call_site_passed(const struct proc *p, uint64_t asleep_ns, uint64_t now_ns)
{
	const struct task *t = call_site_task(p);
	bool sleeps_there = t && asleep_ns && asleep_ns <= t->stack.ns;

	return t && t->stack.ns + PASSING_NS <= now_ns && !sleeps_there && !gpu_wait(t) && !any_line(t, line_in_nccl);
}

int call_site_same(const struct task *a, const struct task *b)
{
	if (!stack_is_of_now(a) || !stack_is_of_now(b) || (!*a->stack.native && !*a->stack.python) ||
	    (!*b->stack.native && !*b->stack.python))
		return -1;
	if (gpu_wait(a) || gpu_wait(b))
		return gpu_wait(a) && gpu_wait(b);
	return !strcmp(a->stack.native, b->stack.native);
}

static void kernel_wait_text(char *buf, size_t cap, const struct task_stack *s)
{
	phrase_add(buf, cap, s->wait);
	if (!*s->file)
		return;
	phrase_add(buf, cap, *s->wait ? " of " : "");
	phrase_add(buf, cap, s->file);
}

const struct waits_for *call_site_wait(const struct proc *p, uint32_t tid)
{
	const struct task *t = thread_of(p, tid);

	return t && t->wait.kind != WAITS_UNKNOWN && is_of_now(p, t, t->wait.ns) ? &t->wait : NULL;
}

bool call_site_waits_for_rank(const struct model *m, const struct proc *p)
{
	const struct waits_for *w = call_site_wait(p, 0);

	for (const struct proc *o = m->procs; o && w && w->pid; o = o->next)
		if (o->tgid == (uint32_t)w->pid && o != p && o->node == p->node && !o->is_child &&
		    (o->rank >= 0 || o->members))
			return true;
	return false;
}

static bool line_meets_peers(const char *line)
{
	static const char *const names[] = { "gloo::", "N4gloo", "TCPStore", "MPI_", "distributed_c10d.py" };
	size_t n = strcspn(line, "\n");

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (memmem(line, n, names[i], strlen(names[i])))
			return true;
	return false;
}

bool call_site_meets_peers(const struct proc *p)
{
	return any_line(call_site_task(p), line_meets_peers);
}

static void waits_note(struct finding *f, struct finding_list *found, const struct waits_for *w, const struct task *t)
{
	char text[640];

	if (!w || gpu_wait(t)) /* for its GPU, whichever way the driver sleeps */
		return;
	wait_text(w, text, sizeof(text));
	finding_note_text(f, EVIDENCE_WAITS_FOR, finding_list_text(found, text));
	wait_remedy(w, text, sizeof(text));
	finding_note_text(f, EVIDENCE_WAITS_FOR_REMEDY, finding_list_text(found, text));
	finding_note_text(f, EVIDENCE_WAITS_FOR_KIND, waits_kind_name(w->kind));
	if (w->kind == WAITS_SOCKET)
		finding_note_text(f, EVIDENCE_WAITS_FOR_PEER, w->what);
	else if (w->kind == WAITS_FILE || w->kind == WAITS_PIPE || w->kind == WAITS_LOCK)
		finding_note_text(f, EVIDENCE_WAITS_FOR_FILE, w->what);
	if (w->kind == WAITS_FILE && t->stalled)
		finding_note_text(f, EVIDENCE_MOUNT, t->mount);
	if (w->pid)
		finding_note(f, EVIDENCE_WAITS_FOR_PID, w->pid);
	if (w->thread)
		finding_note(f, EVIDENCE_WAITS_FOR_TID, w->thread);
	if (w->flags & (WAITS_MOVES | WAITS_STANDS))
		finding_note(f, EVIDENCE_WAITS_FOR_MOVES, !!(w->flags & WAITS_MOVES));
	if (w->kind == WAITS_SOCKET && w->since_ns)
		finding_note(f, EVIDENCE_WAITS_FOR_QUIET_S, (double)(w->ns - w->since_ns) * 1e-9);
}

void call_site_note(struct finding *f, struct finding_list *found, const struct proc *p, uint32_t tid)
{
	const struct task *t = call_site_thread(p, tid);
	char wait[384] = "";

	if (!t) {
		finding_note_text(f, EVIDENCE_STACK_UNREAD, p->outside.stacks_unread);
		return;
	}
	kernel_wait_text(wait, sizeof(wait), &t->stack);
	finding_note_text(f, EVIDENCE_PYTHON, t->stack.python);
	finding_note_text(f, EVIDENCE_NATIVE_FRAME, t->stack.native);
	finding_note_text(f, EVIDENCE_KERNEL_WAIT, finding_list_text(found, wait));
	waits_note(f, found, call_site_wait(p, tid), t);
	finding_note_text(f, EVIDENCE_STACK, t->stack.frames);
	finding_note_text(f, EVIDENCE_STACK_END, t->stack.end);
}

static void place_text(char *buf, size_t cap, const struct task_stack *s)
{
	phrase_add(buf, cap, s->native);
	phrase_add(buf, cap, *s->native && *s->python ? ", " : "");
	phrase_add(buf, cap, s->python);
}

void call_site_line(char *buf, size_t cap, const struct proc *p, uint32_t tid)
{
	const struct task *t = call_site_thread(p, tid);

	if (t)
		place_text(buf, cap, &t->stack);
}

/* --- its name --- */

/* Where everybody's time goes: a wait in a library is distinguished by who called it. */
static bool path_is_library(const char *path, size_t len)
{
	static const char *const parts[] = { "/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python" };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (memmem(path, len, parts[i], strlen(parts[i])))
			return true;
	return *path == '<'; /* <frozen importlib> */
}

static void bytes_add(char *buf, size_t cap, const char *text, size_t len)
{
	char one[256];

	len = len < sizeof(one) ? len : sizeof(one) - 1;
	memcpy(one, text, len);
	one[len] = 0;
	phrase_add(buf, cap, one);
}

/* "ckpt (/job/real.py:31)": appended as "/job/real.py:31 ckpt". False: no Python, or a library's. */
static bool own_line_add(char *buf, size_t cap, const char *line, size_t len)
{
	const char *open = memrchr(line, '(', len), *path = open ? open + 1 : NULL;
	size_t path_len;

	if (!open || open < line + 2 || line[len - 1] != ')')
		return false;
	path_len = (size_t)(line + len - 1 - path);
	if (!memmem(path, path_len, ".py:", 4) || path_is_library(path, path_len))
		return false;
	bytes_add(buf, cap, path, path_len);
	phrase_add(buf, cap, " ");
	bytes_add(buf, cap, line, (size_t)(open - 1 - line));
	return true;
}

void call_site_name(char *buf, size_t cap, const struct task *t)
{
	for (const char *line = t->stack.frames; *line;) {
		size_t len;

		line += strncmp(line, "? ", 2) ? 0 : 2;
		len = strcspn(line, "\n");
		if (own_line_add(buf, cap, line, len))
			return;
		line += len + (line[len] == '\n');
	}
	phrase_add(buf, cap, *t->stack.python ? t->stack.python : t->stack.native);
}

/* --- the others --- */

static bool is_named(const struct finding *f, const struct proc *p)
{
	for (int i = 0; i < f->n_ranks; i++)
		if (finding_proc(f, i) == p->key)
			return true;
	return false;
}

static bool is_rank(const struct proc *p)
{
	return !p->is_child && (p->rank >= 0 || p->members);
}

/* Of the ranks that it names; NULL: it names none. */
static const struct job_id *job_named(const struct finding *f, const struct model *m)
{
	const struct proc *p = f->n_ranks ? model_proc(m, finding_proc(f, 0)) : NULL;

	return p ? p->job : NULL;
}

static size_t others_list(const struct finding *f, const struct model *m, const struct task **others)
{
	const struct job_id *job = job_named(f, m);
	size_t n = 0;

	for (const struct proc *p = m->procs; p && n < OTHERS_MAX; p = proc_next(p)) {
		bool is_other = is_rank(p) && !p->dead && !is_named(f, p) && (!job || p->job == job);
		const struct task *t = is_other ? call_site_task(p) : NULL;

		if (t && (*t->stack.native || *t->stack.python))
			others[n++] = t;
	}
	return n;
}

static size_t alike(const struct task *const *all, size_t n, const struct task *t)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		k += !strcmp(all[i]->stack.native, t->stack.native) && !strcmp(all[i]->stack.python, t->stack.python);
	return k;
}

void call_site_note_others(struct finding *f, struct finding_list *found, const struct model *m)
{
	const struct task *others[OTHERS_MAX], *best = NULL;
	size_t n = others_list(f, m, others), most = 0;
	char text[512] = "";

	for (size_t i = 0; i < n && 2 * most <= n; i++) {
		size_t k = alike(others, n, others[i]);

		best = k > most ? others[i] : best;
		most = k > most ? k : most;
	}
	if (!best)
		return;
	phrase_number(text, sizeof(text), most);
	phrase_add(text, sizeof(text), " of ");
	phrase_number(text, sizeof(text), n);
	phrase_add(text, sizeof(text), " others: ");
	place_text(text, sizeof(text), &best->stack);
	finding_note_text(f, EVIDENCE_WAITING_IN, finding_list_text(found, text));
}
