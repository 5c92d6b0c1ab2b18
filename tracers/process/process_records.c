/* SPDX-License-Identifier: Apache-2.0
 *
 * process_records.c - life of the processes of a job (fork, exec, exit), who they are, and where their threads are.
 */
#include "source.h"
#include "schemas/collector.h"
#include "tracers/process/life.h"
#include "tracers/process/proc_wire.h"

static int decode_fork(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct life_fork *r = (const void *)rec;

	(void)strings;
	e->kind = EV_FORK;
	e->fork.child_tgid = r->child_tgid;
	e->fork.child_tid = r->child_tid;
	return 1;
}

static int decode_exec(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)rec;
	(void)strings;
	e->kind = EV_EXEC;
	return 1;
}

static int decode_exit(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct life_exit *r = (const void *)rec;

	(void)strings;
	e->kind = EV_EXIT;
	e->exit.last = r->last;
	e->exit.code = r->code >> 8 & 0xff;
	e->exit.signal = r->code & 0x7f;
	e->exit.run_ns = rec->size >= sizeof(*r) ? r->run_ns : 0;
	return 1;
}

static int decode_proc(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	e->kind = EV_PROC;
	return proc_wire_read((const struct record_proc *)rec, strings, &e->proc);
}

static int decode_thread(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_thread *f = (const void *)rec;

	e->kind = EV_THREAD;
	e->thread.name = intern_bytes(strings, f->name, WIRE_COMM_LEN);
	return 1;
}

static int decode_task_at(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_task_at *f = (const void *)rec;
	const uint16_t lens[] = { f->wchan_len, f->syscall_len, f->file_len };
	const char **const texts[] = { &e->task_at.wchan, &e->task_at.syscall, &e->task_at.file };

	e->kind = EV_TASK_AT;
	return record_texts(rec, sizeof(*f), 3, lens, texts, strings);
}

static int decode_host(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_host *f = (const void *)rec;

	e->kind = EV_NODE;
	e->host.name = record_text(rec, sizeof(*f), f->host_len, strings);
	e->host.clock_error_ns = UINT64_MAX;
	return e->host.name ? 1 : -EINVAL;
}

static int decode_stack(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_stack *f = (const void *)rec;
	const uint16_t lens[] = { f->wait_len,   f->file_len,   f->kernel_len, f->frames_len,
				  f->python_len, f->native_len, f->end_len };
	const char **const texts[] = { &e->stack.wait,   &e->stack.file,   &e->stack.kernel, &e->stack.frames,
				       &e->stack.python, &e->stack.native, &e->stack.end };

	e->kind = EV_STACK;
	e->stack.unread = f->flags & STACK_FLAG_UNREAD;
	e->stack.sampled = f->flags & STACK_FLAG_SAMPLED;
	if (record_texts(rec, sizeof(*f), 7, lens, texts, strings) < 0)
		return -EINVAL;
	if (intern_refused(e->stack.frames) || intern_refused(e->stack.python) || intern_refused(e->stack.native)) {
		e->stack.unread = true; /* half a stack would name another place */
		e->stack.end = INTERN_FULL;
	}
	return 1;
}

static int decode_wait(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct record_wait *f = (const void *)rec;
	const uint16_t lens[] = { f->what_len, f->who_len, f->activity_len };
	const char **const texts[] = { &e->wait.what, &e->wait.who, &e->wait.activity };

	e->kind = EV_WAIT;
	e->wait = (struct waits_for){
		.ns = f->read_ns,
		.kind = f->kind < WAITS_KIND_MAX ? f->kind : WAITS_UNKNOWN, /* of a later version */
		.act = f->act < WAITS_ACT_MAX ? f->act : WAITS_TO_OTHER,
		.flags = f->flags,
		.pid = f->pid,
		.thread = f->thread,
		.n = f->n,
		.since_ns = f->since_ns,
		.length_ns = f->length_ns,
		.until_ns = f->until_ns,
	};
	return record_texts(rec, sizeof(*f), 3, lens, texts, strings);
}

#define LIFE(id) .tracer = WIRE_LIFE, .kind = id
#define COLLECTOR(id) .tracer = WIRE_COLLECTOR, .kind = id
const struct record_kind source_records_process[] = {
	{ "fork", LIFE(LIFE_FORK), .size = sizeof(struct life_fork), .decode = decode_fork },
	{ "exec", LIFE(LIFE_EXEC), .size = sizeof(struct life_exec), .decode = decode_exec },
	{ "exit", LIFE(LIFE_EXIT), .size = LIFE_EXIT_OLD_BYTES, .decode = decode_exit },
	{ "proc", COLLECTOR(RECORD_PROC), .size = sizeof(struct record_proc), .in_autopsy = true,
	  .decode = decode_proc },
	{ "thread", COLLECTOR(RECORD_THREAD), .size = sizeof(struct record_thread), .in_autopsy = true,
	  .decode = decode_thread },
	{ "task_at", COLLECTOR(RECORD_TASK_AT), .size = sizeof(struct record_task_at), .in_autopsy = true,
	  .decode = decode_task_at },
	{ "stack", COLLECTOR(RECORD_STACK), .size = sizeof(struct record_stack), .in_autopsy = true,
	  .decode = decode_stack },
	{ "wait", COLLECTOR(RECORD_WAIT), .size = sizeof(struct record_wait),
	  .times = { offsetof(struct record_wait, read_ns), offsetof(struct record_wait, since_ns),
		     offsetof(struct record_wait, until_ns) },
	  .in_autopsy = true, .decode = decode_wait },
	{ "host", COLLECTOR(RECORD_HOST), .size = sizeof(struct record_host),
	  .kept_by = offsetof(struct record_host, pid), .decode = decode_host },
	{}
};

const struct source_live source_process = {}; /* its program is in every session: the loader has it (life.bpf.c) */
