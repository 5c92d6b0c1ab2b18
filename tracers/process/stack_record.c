/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_record.c - see stack_record.h. The frames are put together here, once, as people read them: what is recorded is
 * what is shown.
 */
#include "tracers/process/stack_record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "schemas/collector.h"

#define FRAMES_BYTES 5120 /* of a record, which holds 8 KiB in all */
#define KERNEL_BYTES 1536

static bool is_plumbing(const struct stack_native_frame *f)
{
	static const char *const names[] = { "libc.so", "libc-",      "libpthread", "ld-linux",
					     "[vdso]",  "linux-vdso", "libstdc++",  "libm.so" };

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

static const struct stack_native_frame *evident_frame(const struct stack_thread *t)
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
	const struct stack_native_frame *f = evident_frame(t);

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

static int texts_emit(struct record_stack *f, size_t cap, const char *const texts[7], stack_emit *emit, void *to)
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
	f->hdr.size = (at + 7) & ~7ul;
	return emit(to, &f->hdr);
}

static struct wire_hdr hdr_of(uint32_t tgid, uint32_t tid, uint64_t ns)
{
	return (struct wire_hdr){
		.tracer = WIRE_COLLECTOR, .kind = RECORD_STACK, .tgid = tgid, .tid = tid, .ts_ns = ns
	};
}

int stack_record_emit(uint32_t tgid, uint64_t ns, const struct stack_thread *t, stack_emit *emit, void *to)
{
	union {
		struct record_stack f;
		char bytes[WIRE_SIZE_MAX];
	} u;
	char kernel[KERNEL_BYTES], frames[FRAMES_BYTES], python[288] = "", native[192] = "", end[192] = "";
	const char *texts[] = { t->wait, t->file, kernel, frames, python, native, end };

	memset(&u.f, 0, sizeof(u.f));
	u.f.hdr = hdr_of(tgid, t->tid, ns);
	u.f.state = t->state;
	u.f.flags = t->sampled ? STACK_FLAG_SAMPLED : 0;
	lines_copy(kernel, sizeof(kernel), t->kernel ? t->kernel : "");
	stack_thread_text(t, frames, sizeof(frames));
	python_text(t, python, sizeof(python));
	native_text(t, native, sizeof(native));
	end_text(t, end, sizeof(end));
	return texts_emit(&u.f, sizeof(u) - 8, texts, emit, to);
}

int stack_record_unread(uint32_t tgid, uint64_t ns, int error, stack_emit *emit, void *to)
{
	union {
		struct record_stack f;
		char bytes[512];
	} u;
	const char *why = error == -ETIME ? "not read in time" : strerror(-error);
	const char *texts[] = { "", "", "", "", "", "", why };

	memset(&u.f, 0, sizeof(u.f));
	u.f.hdr = hdr_of(tgid, tgid, ns);
	u.f.flags = STACK_FLAG_UNREAD;
	return texts_emit(&u.f, sizeof(u) - 8, texts, emit, to);
}
