/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_text.c - a thread's frames as lines: Python frames in the place of the interpreter loop that runs them.
 */
#include "inspect/stack/stack.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct lines {
	char *to;
	size_t size, used;
	int n;
};

__attribute__((format(printf, 2, 3))) static void line_add(struct lines *l, const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	int len = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (len < 0 || l->used + len + 2 > l->size)
		return;
	l->used += snprintf(l->to + l->used, l->size - l->used, "%s%.511s", l->n ? "\n" : "", line);
	l->n++;
}

/* The frames of one interpreter loop: up to the one that C called. */
static size_t python_lines(struct lines *l, const struct stack_thread *t, size_t from)
{
	size_t i = from;

	while (i < t->n_python) {
		const struct stack_python_frame *f = &t->python[i++];

		if (f->line)
			line_add(l, "%s (%s:%d)", f->func, f->file, f->line);
		else
			line_add(l, "%s (%s)", f->func, f->file);
		if (f->is_entry)
			break;
	}
	return i;
}

/* Tail-calling builds of 3.14 have a function for each instruction instead of one loop. */
static bool is_loop(const struct stack_native_frame *f)
{
	return !strncmp(f->func, "_PyEval_EvalFrameDefault", 24) || !strncmp(f->func, "_TAIL_CALL_", 11);
}

static void native_line(struct lines *l, const struct stack_native_frame *f)
{
	const char *guess = f->guessed ? "? " : "";

	if (f->func[0])
		line_add(l, "%s%s (%s)", guess, f->func, f->module);
	else
		line_add(l, "%s?? (%s)", guess, f->module[0] ? f->module : "no file");
}

int stack_thread_text(const struct stack_thread *t, char *to, size_t size)
{
	struct lines l = { to, size, 0, 0 };
	size_t python = 0;

	if (size)
		to[0] = '\0';
	for (size_t i = 0; i < t->n_native; i++)
		if (is_loop(&t->native[i]) && python < t->n_python)
			python = python_lines(&l, t, python);
		else
			native_line(&l, &t->native[i]);
	while (python < t->n_python)
		python = python_lines(&l, t, python);
	return l.n;
}
