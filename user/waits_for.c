/* SPDX-License-Identifier: Apache-2.0
 *
 * waits_for.c - see waits_for.h. A sentence is its main clause and then, in brackets, what is known of the other side.
 */
#include "waits_for.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[WAITS_KIND_MAX] = {
#define X(id, name) [WAITS_##id] = name,
	WAITS_KINDS(X)
#undef X
};

const char *waits_kind_name(enum waits_kind kind)
{
	return (unsigned int)kind < WAITS_KIND_MAX ? names[kind] : "";
}

struct words {
	char *to;
	size_t size, len;
	int n_said; /* in brackets */
};

static void __attribute__((format(printf, 2, 3))) add(struct words *s, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(s->to + s->len, s->size - s->len, format, args);
	va_end(args);
	s->len = n < 0 ? s->len : s->len + n < s->size ? s->len + n : s->size - 1;
}

/* "0.8 s", "30 s", "250 ms", "12 min" */
static void add_time(struct words *s, uint64_t ns)
{
	if (ns < 100000000)
		add(s, "%.3g ms", ns * 1e-6);
	else if (ns < 100000000000ull)
		add(s, "%.1f", ns * 1e-9);
	else if (ns < 600000000000ull)
		add(s, "%.0f s", ns * 1e-9);
	else if (ns < 7200000000000ull)
		add(s, "%.0f min", ns / 60e9);
	else if (ns < 172800000000000ull)
		add(s, "%.0f h", ns / 3600e9);
	else
		add(s, "%.0f days", ns / 86400e9);
	if (ns < 100000000 || ns >= 100000000000ull)
		return;
	if (s->len > 2 && !strcmp(s->to + s->len - 2, ".0"))
		s->to[s->len -= 2] = 0;
	add(s, " s");
}

/* --- in brackets --- */

static void say(struct words *s)
{
	add(s, "%s", s->n_said++ ? ", " : " (");
}

static void say_text(struct words *s, const char *text)
{
	if (!*text)
		return;
	say(s);
	add(s, "%s", text);
}

static void say_end(struct words *s)
{
	if (s->n_said)
		add(s, ")");
	s->n_said = 0;
}

static void say_n(struct words *s, const struct waits_for *w, const char *of)
{
	if (w->n < 2)
		return;
	say(s);
	add(s, "one of %u %s", w->n, of);
}

static uint64_t ago(const struct waits_for *w)
{
	return w->since_ns && w->ns > w->since_ns ? w->ns - w->since_ns : 0;
}

static void say_started(struct words *s, const struct waits_for *w)
{
	if (!w->since_ns)
		return;
	say(s);
	add(s, "started ");
	add_time(s, ago(w));
	add(s, " ago");
}

/* "pid 812 python": of a process at the other end of something. */
static void say_process(struct words *s, const struct waits_for *w)
{
	if (w->pid) {
		say(s);
		add(s, "pid %u%s%s", w->pid, *w->who ? " " : "", w->who);
	}
	say_text(s, w->activity);
}

static void say_bytes(struct words *s, const struct waits_for *w)
{
	if (w->flags & WAITS_MOVES) {
		say_text(s, "bytes move");
	} else if (w->since_ns) {
		say(s);
		add(s, "no byte for ");
		add_time(s, ago(w));
	} else if (w->flags & WAITS_STANDS) {
		say_text(s, "no byte moves");
	}
}

/* --- kinds --- */

static void socket_name(struct words *s, const struct waits_for *w)
{
	if (w->flags & WAITS_UNIX)
		add(s, "socket%s%s", *w->what ? " " : "", w->what);
	else
		add(s, "%s", *w->what ? w->what : "a socket");
}

static void socket_text(struct words *s, const struct waits_for *w)
{
	static const char *const verbs[WAITS_ACT_MAX] = {
		[WAITS_TO_READ] = "waits for an answer of ", [WAITS_TO_WRITE] = "waits to send to ",
		[WAITS_TO_CONNECT] = "waits to connect to ", [WAITS_TO_ACCEPT] = "waits for a connection on ",
		[WAITS_TO_OTHER] = "waits for data on ",
	};

	add(s, "%s", verbs[w->act] ? verbs[w->act] : verbs[WAITS_TO_READ]);
	socket_name(s, w);
	if (w->flags & WAITS_UDP)
		say_text(s, "UDP");
	if (w->flags & WAITS_OWN)
		say_text(s, "its own process");
	else if (w->act != WAITS_TO_ACCEPT)
		say_process(s, w);
	if (w->act == WAITS_TO_READ || w->act == WAITS_TO_WRITE)
		say_bytes(s, w);
	say_n(s, w, "that it waits for");
}

static void child_text(struct words *s, const struct waits_for *w)
{
	add(s, w->act == WAITS_TO_READ ? "waits for data of " : "waits for ");
	if (w->pid)
		add(s, "child %u", w->pid);
	else
		add(s, "any child");
	say_text(s, w->who);
	say_started(s, w);
	say_text(s, w->activity);
	say_n(s, w, "children");
}

static void holder_text(struct words *s, const struct waits_for *w)
{
	add(s, "thread %u%s%s%s", w->thread, *w->who ? " '" : "", w->who, *w->who ? "'" : "");
}

static void lock_text(struct words *s, const struct waits_for *w)
{
	add(s, *w->what ? "waits for a lock of file %s" : "waits for a mutex", w->what);
	if (w->thread) {
		add(s, " held by ");
		holder_text(s, w);
		say_text(s, w->activity);
	} else if (w->pid) {
		say_process(s, w);
	}
}

static void condition_text(struct words *s, const struct waits_for *w)
{
	add(s, "waits for a condition or semaphore of its own process");
	if (!w->thread)
		return;
	add(s, ", where ");
	holder_text(s, w);
	if (*w->activity)
		add(s, " %s", w->activity);
}

static void thread_text(struct words *s, const struct waits_for *w)
{
	add(s, "waits for the end of ");
	holder_text(s, w);
	say_text(s, w->activity);
}

static void timer_text(struct words *s, const struct waits_for *w)
{
	if (w->flags & WAITS_AGAIN) {
		add(s, "sleeps again and again");
		if (w->length_ns) {
			add(s, ", ");
			add_time(s, w->length_ns);
			add(s, " at a time");
		}
	} else if (w->length_ns) {
		add(s, "sleeps for ");
		add_time(s, w->length_ns);
	} else if (w->until_ns > w->ns) {
		add(s, "sleeps for another ");
		add_time(s, w->until_ns - w->ns);
	} else {
		add(s, "sleeps");
	}
	say_text(s, "timer");
}

static const char *act_verb(const struct waits_for *w)
{
	static const char *const verbs[WAITS_ACT_MAX] = {
		[WAITS_TO_READ] = "reads",
		[WAITS_TO_WRITE] = "writes",
		[WAITS_TO_OPEN] = "opens",
		[WAITS_TO_FLUSH] = "flushes",
	};

	return verbs[w->act];
}

static void file_text(struct words *s, const struct waits_for *w)
{
	if (act_verb(w))
		add(s, "%s file %s", act_verb(w), w->what);
	else
		add(s, "is in %s of %s", *w->activity ? w->activity : "a system call", w->what);
	if (w->flags & WAITS_MOVES)
		say_text(s, "bytes move");
	else if (w->flags & WAITS_STANDS)
		say_text(s, "no byte moves");
}

static void pipe_text(struct words *s, const struct waits_for *w)
{
	const char *verb = act_verb(w) ? act_verb(w) : "waits for";

	if (*w->what)
		add(s, "%s FIFO %s", verb, w->what);
	else
		add(s, "%s a pipe", verb);
	if (w->flags & WAITS_OWN)
		add(s, " whose other end is its own process");
	else if (w->flags & WAITS_UNOPENED)
		add(s, " whose other end no process has open");
	else if (w->pid)
		add(s, " whose other end is pid %u", w->pid);
	say_text(s, w->who);
	say_text(s, w->activity);
	say_n(s, w, "that have it open");
	if (w->flags & WAITS_MOVES)
		say_text(s, "bytes move");
}

void wait_text(const struct waits_for *w, char *to, size_t size)
{
	struct words s = { to, size, 0, 0 };

	*to = 0;
	switch (w->kind) {
	case WAITS_SOCKET: socket_text(&s, w); break;
	case WAITS_CHILD: child_text(&s, w); break;
	case WAITS_THREAD: thread_text(&s, w); break;
	case WAITS_LOCK: lock_text(&s, w); break;
	case WAITS_CONDITION: condition_text(&s, w); break;
	case WAITS_TIMER: timer_text(&s, w); break;
	case WAITS_FILE: file_text(&s, w); break;
	case WAITS_PIPE: pipe_text(&s, w); break;
	case WAITS_EVENT: add(&s, "waits for an event (%s)", w->what); break;
	case WAITS_SIGNAL: add(&s, "waits for a signal"); break;
	default: return;
	}
	say_end(&s);
}

/* --- what to do --- */

static void socket_remedy(struct words *s, const struct waits_for *w)
{
	if (w->flags & WAITS_OWN || w->act == WAITS_TO_ACCEPT)
		return;
	if (w->pid)
		add(s, "pid %u%s%s%s at the other end of the socket", w->pid, *w->who ? " (" : "", w->who,
		    *w->who ? ")" : "");
	else
		socket_name(s, w);
	if (w->flags & WAITS_MOVES)
		add(s, " answers, slowly: it will end; look at its load and at the network to it");
	else
		add(s, w->act == WAITS_TO_WRITE     ? " takes no data: look there first"
		       : w->act == WAITS_TO_CONNECT ? " does not accept: is it up, does a firewall drop it?"
						    : " does not answer: look there first");
}

static void child_remedy(struct words *s, const struct waits_for *w)
{
	if (!w->pid)
		return;
	add(s, "look at child %u%s%s%s: what it does delays the rank", w->pid, *w->who ? " (" : "", w->who,
	    *w->who ? ")" : "");
	if (w->act == WAITS_TO_READ)
		add(s, "; more data workers, prefetching or persistent workers hide slow data");
}

static void holder_remedy(struct words *s, const struct waits_for *w)
{
	if (w->thread) {
		add(s, "look at ");
		holder_text(s, w);
		add(s, w->kind == WAITS_LOCK ? ": it holds the lock" : ": the rank waits until it ends");
		add(s, *w->activity ? " while it %s" : "", w->activity);
	} else if (w->pid) {
		add(s, "look at pid %u%s%s%s: it holds the lock", w->pid, *w->who ? " (" : "", w->who,
		    *w->who ? ")" : "");
	}
}

static void pipe_remedy(struct words *s, const struct waits_for *w)
{
	if (w->pid)
		add(s, "look at pid %u%s%s%s: it %s the pipe", w->pid, *w->who ? " (" : "", w->who, *w->who ? ")" : "",
		    w->act == WAITS_TO_WRITE ? "does not empty" : "does not fill");
	else if (w->flags & WAITS_UNOPENED)
		add(s, "start what is to %s the other end, or end the wait in the program",
		    w->act == WAITS_TO_WRITE ? "read" : "write");
}

static void condition_remedy(struct words *s, const struct waits_for *w)
{
	if (!w->thread) {
		add(s, "look at its other threads: ranktrace ps --stacks");
		return;
	}
	add(s, "look at ");
	holder_text(s, w);
	if (*w->activity)
		add(s, ", which %s", w->activity);
}

void wait_remedy(const struct waits_for *w, char *to, size_t size)
{
	struct words s = { to, size, 0, 0 };

	*to = 0;
	switch (w->kind) {
	case WAITS_SOCKET: socket_remedy(&s, w); break;
	case WAITS_CHILD: child_remedy(&s, w); break;
	case WAITS_THREAD:
	case WAITS_LOCK: holder_remedy(&s, w); break;
	case WAITS_TIMER: add(&s, "the program sleeps by itself: look at the line that does"); break;
	case WAITS_FILE:
		if (*w->what)
			add(&s, "look at the storage behind %s", w->what);
		break;
	case WAITS_PIPE: pipe_remedy(&s, w); break;
	case WAITS_CONDITION: condition_remedy(&s, w); break;
	default: break;
	}
}
