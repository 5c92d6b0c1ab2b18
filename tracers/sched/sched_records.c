/* SPDX-License-Identifier: Apache-2.0
 *
 * sched_records.c - states of tasks, waits, CPU quotas. Those of tasks and waits are no structs of the event: texts,
 * and records of version 1 that end earlier.
 */
#include "record.h"
#include "tracers/sched/sched.h"

static int decode_task(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct sched_task *r = (const void *)rec;

	e->kind = EV_TASK;
	e->task.state = r->state <= SCHED_DEAD ? r->state : TASK_UNKNOWN;
	e->task.frozen = r->frozen && r->state == SCHED_STOPPED;
	e->task.since_ns = r->since_ns;
	e->task.run_ns = r->run_ns;
	e->task.wait_ns = r->wait_ns;
	e->task.sleep_ns = r->sleep_ns;
	e->task.disk_ns = r->disk_ns;
	e->task.io_bytes = r->io_bytes;
	if (r->hdr.size >= sizeof(*r)) {
		e->task.preempted = r->preempted;
		e->task.stopped_ns = r->stopped_ns;
		e->task.preempted_by = intern_bytes(strings, r->behind, sizeof(r->behind));
	}
	return 1;
}

static int decode_blocked(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct sched_blocked *r = (const void *)rec;
	const char **const texts[] = { &e->blocked.kernel_stack, &e->blocked.user_stack, &e->blocked.wchan,
				       &e->blocked.syscall, &e->blocked.file };
	const char **const mount[] = { &e->blocked.mount };
	size_t mount_at = sizeof(*r);

	e->kind = EV_BLOCKED;
	e->blocked.begin_ns = r->begin_ns;
	e->blocked.mmap_lock_held = r->mmap_lock_held;
	e->blocked.asleep = r->asleep;
	e->blocked.mount = "";
	for (int i = 0; i < 5; i++)
		mount_at += r->len[i];
	if (r->mount_len && record_texts(rec, mount_at, 1, &r->mount_len, mount, strings) < 0)
		return -EINVAL;
	return record_texts(rec, sizeof(*r), 5, r->len, texts, strings);
}

static int decode_off(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct sched_off *r = (const void *)rec;

	(void)strings;
	e->kind = EV_TASK_OFF;
	e->off.begin_ns = r->begin_ns;
	e->off.state = r->state <= SCHED_DEAD ? r->state : TASK_UNKNOWN;
	e->off.runq_ns = r->runq_ns;
	return 1;
}

static int decode_storage(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct sched_storage *r = (const void *)rec;
	const char **const mount[] = { &e->storage.mount };

	if (!STORAGE_ACT(r->body.at))
		return -EINVAL;
	e->kind = EV_STORAGE;
	e->storage.sum = r->body;
	e->storage.file = intern_bytes(strings, r->body.file, sizeof(r->body.file));
	return e->storage.file ? record_texts(rec, sizeof(*r), 1, &r->mount_len, mount, strings) : -EINVAL;
}

static int decode_storage_wait(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct sched_storage_wait *r = (const void *)rec;

	if (!STORAGE_ACT(r->at))
		return -EINVAL;
	e->off.storage_at = r->at;
	e->off.file = intern_bytes(strings, r->file, sizeof(r->file));
	return e->off.file ? decode_off(rec, strings, e) : -EINVAL;
}

static int decode_blocked_end(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const struct sched_blocked_end *r = (const void *)rec;

	(void)strings;
	e->kind = EV_BLOCKED_END;
	e->blocked.begin_ns = r->begin_ns;
	return 1;
}

#define SCHED(id) .tracer = WIRE_SCHED, .kind = id
const struct record_kind source_records_sched[] = {
	{ "sched_task", SCHED(SCHED_TASK), .size = SCHED_TASK_V1_BYTES,
	  .times = { offsetof(struct sched_task, since_ns) }, .in_autopsy = true, .decode = decode_task },
	{ "sched_off", SCHED(SCHED_OFF), .size = sizeof(struct sched_off),
	  .times = { offsetof(struct sched_off, begin_ns) }, .decode = decode_off },
	{ "sched_blocked", SCHED(SCHED_BLOCKED), .size = sizeof(struct sched_blocked),
	  .times = { offsetof(struct sched_blocked, begin_ns) }, .in_autopsy = true, .decode = decode_blocked },
	{ "sched_blocked_end", SCHED(SCHED_BLOCKED_END), .size = sizeof(struct sched_blocked_end),
	  .times = { offsetof(struct sched_blocked_end, begin_ns) }, .decode = decode_blocked_end },
	{ "sched_storage", SCHED(SCHED_STORAGE), .size = sizeof(struct sched_storage),
	  .kept_by = offsetof(struct sched_storage, body.at), .decode = decode_storage },
	{ "sched_storage_wait", SCHED(SCHED_STORAGE_WAIT), .size = sizeof(struct sched_storage_wait),
	  .times = { offsetof(struct sched_storage_wait, off.begin_ns) }, .decode = decode_storage_wait },
	{ "sched_throttle", SCHED(SCHED_THROTTLE), RECORD_AS_EVENT(EV_THROTTLE, throttle) },
	{}
};
