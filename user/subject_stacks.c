/* SPDX-License-Identifier: Apache-2.0
 *
 * subject_stacks.c - see subject_stacks.h. The frames are put together here, once, as people read them: what is
 * recorded is what is shown.
 */
#include "subject_stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "schemas/facts.h"
#include "subject_pool.h"
#include "target/stack.h"

#define FRAMES_BYTES 5120  /* of a record, which holds 8 KiB in all */
#define KERNEL_BYTES 1536
#define LEAST_NS 20000000ull /* with less time left it is not begun */

/* --- order --- */

static bool is_behind(const struct proc *p)
{
	for (const struct member *mb = p->members; mb; mb = mb->next_in_proc)
		if (mb->entered_seq[SEQ_COLL] < mb->comm->highest_seq[SEQ_COLL])
			return true;
	return false;
}

static bool main_is_stuck(const struct proc *p)
{
	const struct task *t = p->tasks;

	while (t && t->tid != p->tgid)
		t = t->next;
	return t && (t->state == TASK_STOPPED || t->state == TASK_DISK);
}

/* Who is behind, or cannot go on; who shows no communicator while others do; the other ranks; their children. */
static int turn_of(const struct subject *s, const struct model *m)
{
	const struct proc *p = model_proc(m, s->proc->tgid);

	if (s->proc->is_child)
		return 3;
	if (!p)
		return 2;
	if (is_behind(p) || main_is_stuck(p))
		return 0;
	return p->members ? 2 : 1;
}

static size_t *order_make(const struct subjects *s, const struct model *m)
{
	size_t *order = calloc(s->n + 1, sizeof(*order)), n = 0;

	for (int turn = 0; order && turn <= 3; turn++)
		for (size_t i = 0; i < s->n; i++)
			if (turn_of(&s->all[i], m) == turn)
				order[n++] = i;
	return order;
}

/* --- reading, in several threads --- */

static int stacks_read(struct subjects *s, struct reader *r, struct subject *of)
{
	uint64_t now_ns = clock_monotonic_ns(), left_ns = s->stacks_until_ns > now_ns ? s->stacks_until_ns - now_ns : 0;
	unsigned ms = left_ns / 1000000 < STACK_DEADLINE_MS ? left_ns / 1000000 : STACK_DEADLINE_MS;

	of->stacks = calloc(1, sizeof(*of->stacks));
	if (!of->stacks)
		return -ENOMEM;
	of->stacks_err = left_ns < LEAST_NS ? -ETIME : target_stacks_read(r, of->proc->tgid, ms, of->stacks);
	of->stacks_ns = clock_monotonic_ns();
	return 0;
}

/* --- records --- */

static bool is_plumbing(const struct stack_native_frame *f)
{
	static const char *const names[] = { "libc.so", "libc-", "libpthread", "ld-linux", "[vdso]", "linux-vdso", "libstdc++", "libm.so" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(f->module, names[i], strlen(names[i])))
			return true;
	return !*f->func;
}

/* Of these only the function that was called from outside means something to people. */
static bool is_driver(const struct stack_native_frame *f)
{
	return !strncmp(f->module, "libcuda", 7) || !strncmp(f->module, "libnccl", 7);
}

static const struct stack_native_frame *telling_frame(const struct stack_thread *t)
{
	const struct stack_native_frame *best = NULL;

	for (size_t i = 0; i < t->n_native; i++) {
		const struct stack_native_frame *f = &t->native[i];

		if (best && strcmp(best->module, f->module))
			break;
		if (!is_plumbing(f))
			best = f;
		if (best && !is_driver(best))
			break;
	}
	return best ? best : t->n_native ? &t->native[0] : NULL;
}

static void native_text(const struct stack_thread *t, char *to, size_t size)
{
	const struct stack_native_frame *f = telling_frame(t);

	if (f && (*f->func || *f->module))
		snprintf(to, size, "%s (%s)", *f->func ? f->func : "??", *f->module ? f->module : "no file");
}

static void python_text(const struct stack_thread *t, char *to, size_t size)
{
	const struct stack_python_frame *f = t->python;

	if (t->n_python && f->line)
		snprintf(to, size, "%s:%d %s", f->file, f->line, f->func);
	else if (t->n_python)
		snprintf(to, size, "%s %s", f->file, f->func);
}

static void end_text(const struct stack_thread *t, char *to, size_t size)
{
	const char *native = stack_end_text(t->native_end), *python = stack_end_text(t->python_end);
	bool both = *python && strcmp(native, python);

	snprintf(to, size, "%s%s%s%s", native, *native && both ? "; " : "", both ? "Python: " : "", both ? python : "");
}

/* Whole lines only. */
static void lines_copy(char *to, size_t size, const char *from)
{
	size_t len = strlen(from);

	if (len >= size)
		for (len = size - 1; len && from[len] != '\n'; len--)
			;
	memcpy(to, from, len);
	to[len] = 0;
}

static int stack_emit(const struct subject *s, struct fact_stack *f, size_t cap, const char *const texts[7], subject_emit *emit, void *to)
{
	uint16_t lens[7];
	size_t at = sizeof(*f);

	for (int i = 0; i < 7; i++) {
		size_t n = strlen(texts[i]), room = cap - at - (7 - i); /* a zero byte each for what follows */

		n = n < room ? n : room;
		memcpy((char *)f + at, texts[i], n);
		((char *)f)[at + n] = 0;
		lens[i] = n + 1;
		at += n + 1;
	}
	f->wait_len = lens[0];
	f->file_len = lens[1];
	f->kernel_len = lens[2];
	f->frames_len = lens[3];
	f->python_len = lens[4];
	f->native_len = lens[5];
	f->end_len = lens[6];
	memset((char *)f + at, 0, -at & 7);
	f->hdr = (struct wire_hdr){ .size = (at + 7) & ~7ul, .tracer = WIRE_FACT, .kind = FACT_STACK, .tgid = s->proc->tgid,
				    .tid = f->hdr.tid, .ts_ns = s->stacks_ns };
	return emit(to, &f->hdr);
}

static int thread_tell(const struct subject *s, const struct stack_thread *t, subject_emit *emit, void *to)
{
	union { struct fact_stack f; char bytes[WIRE_SIZE_MAX]; } u;
	char kernel[KERNEL_BYTES], frames[FRAMES_BYTES], python[288] = "", native[192] = "", end[192] = "";
	const char *texts[] = { t->wait, t->file, kernel, frames, python, native, end };

	memset(&u.f, 0, sizeof(u.f));
	u.f.hdr.tid = t->tid;
	u.f.state = t->state;
	u.f.flags = t->sampled ? STACK_FLAG_SAMPLED : 0;
	lines_copy(kernel, sizeof(kernel), t->kernel ? t->kernel : "");
	stack_thread_text(t, frames, sizeof(frames));
	python_text(t, python, sizeof(python));
	native_text(t, native, sizeof(native));
	end_text(t, end, sizeof(end));
	return stack_emit(s, &u.f, sizeof(u) - 8, texts, emit, to);
}

static int unread_tell(const struct subject *s, subject_emit *emit, void *to)
{
	union { struct fact_stack f; char bytes[512]; } u;
	const char *why = s->stacks_err == -ETIME ? "not read in time" : strerror(-s->stacks_err);
	const char *texts[] = { "", "", "", "", "", "", why };

	memset(&u.f, 0, sizeof(u.f));
	u.f.hdr.tid = s->proc->tgid;
	u.f.flags = STACK_FLAG_UNREAD;
	return stack_emit(s, &u.f, sizeof(u) - 8, texts, emit, to);
}

/* A process that ended meanwhile is no news. */
static int process_tell(struct subject *s, subject_emit *emit, void *to, int *unread)
{
	int err = 0;

	if (s->stacks_err == -ESRCH || !s->stacks)
		return 0;
	if (s->stacks_err) {
		++*unread;
		return unread_tell(s, emit, to);
	}
	for (size_t i = 0; !err && i < s->stacks->n; i++)
		err = thread_tell(s, &s->stacks->threads[i], emit, to);
	return err;
}

int subjects_stacks_look(struct subjects *s, const struct model *m, uint64_t until_ns, subject_emit *emit, void *to, int *ret_unread)
{
	size_t *order = order_make(s, m);
	int err = order ? 0 : -ENOMEM;

	*ret_unread = 0;
	s->stacks_until_ns = until_ns;
	if (!err)
		err = subjects_each(s, order, s->n, stacks_read);
	for (size_t i = 0; i < s->n && order; i++) {
		struct subject *of = &s->all[order[i]];

		if (!err)
			err = process_tell(of, emit, to, ret_unread);
		if (of->stacks)
			target_stacks_free(of->stacks);
		free(of->stacks);
		of->stacks = NULL;
	}
	free(order);
	return err;
}
