/* SPDX-License-Identifier: Apache-2.0
 *
 * perfetto_track.c - which track a thing is drawn on, and what it is called. A track is made when it is first needed,
 * its descriptor before anything that is drawn on it.
 */
#include "sink/perfetto/perfetto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PID_BITS 22 /* PID_MAX_LIMIT of the kernel */

static size_t descriptor_open(struct perfetto_sink *p, uint64_t uuid, uint64_t parent)
{
	struct pb *b = &p->file.batch;
	size_t at;

	packet_open(&p->file, 0);
	at = pb_open(b, PACKET_TRACK_DESCRIPTOR);
	pb_u64(b, TRACK_UUID, uuid);
	if (parent)
		pb_u64(b, TRACK_PARENT, parent);
	return at;
}

static void descriptor_close(struct perfetto_sink *p, size_t at)
{
	pb_close(&p->file.batch, at);
	packet_close(&p->file);
}

void descriptor_write(struct perfetto_sink *p, uint64_t uuid, uint64_t parent, const char *name, bool counter)
{
	size_t at = descriptor_open(p, uuid, parent);

	packet_text(&p->file.batch, TRACK_NAME, name);
	if (counter)
		pb_bytes(&p->file.batch, TRACK_COUNTER, NULL, 0);
	descriptor_close(p, at);
}

struct track *track_find(struct perfetto_sink *p, const struct track_key *key)
{
	struct track *t;

	HASH_FIND(hh, p->tracks, key, sizeof(*key), t);
	return t;
}

struct track *track_get(struct perfetto_sink *p, struct track_key key, uint64_t parent, const char *name)
{
	struct track *t = track_find(p, &key);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->key = key;
	t->parent = parent;
	t->name = strdup(name);
	if (!t->name) {
		free(t);
		return NULL;
	}
	HASH_ADD(hh, p->tracks, key, sizeof(t->key), t);
	return t;
}

void global_tracks_write(struct perfetto_sink *p)
{
	size_t at = descriptor_open(p, 0, 0);

	pb_u64(&p->file.batch, TRACK_PROCESS_ORDERING, PROCESS_ORDERING_EXPLICIT);
	descriptor_close(p, at);
	descriptor_write(p, UUID_RANKTRACE, 0, "ranktrace", false);
}

/* false: it has that name already, or there is no memory. */
static bool track_rename(struct track *t, const char *name)
{
	char *copy = strcmp(name, t->name) ? strdup(name) : NULL;

	if (!copy)
		return false;
	free(t->name);
	t->name = copy;
	return true;
}

static int process_device(const struct proc *proc)
{
	for (const struct member *mb = proc->members; mb; mb = mb->next_in_proc)
		if (mb->device >= 0)
			return mb->device;
	return -1;
}

/* " · pod 6a1e5c3b", else " · container 0123456789ab", else nothing. */
static void process_place(char *buf, size_t size, const struct proc *proc)
{
	*buf = 0;
	if (proc && proc->pod && *proc->pod)
		snprintf(buf, size, " · pod %.8s", proc->pod);
	else if (proc && proc->container && *proc->container)
		snprintf(buf, size, " · container %s", proc->container);
}

typedef int member_number(const struct member *mb);

/* The lowest number above `after` that a member has; -1 none. */
static int number_next(const struct proc *proc, member_number *number, int after)
{
	int next = -1;

	for (const struct member *mb = proc->members; mb; mb = mb->next_in_proc)
		if (!mb->gone && number(mb) > after && (next < 0 || number(mb) < next))
			next = number(mb);
	return next;
}

static void numbers_list(char *buf, size_t size, const struct proc *proc, member_number *number)
{
	size_t at = 0;

	for (int n = number_next(proc, number, -1); n >= 0 && at < size; n = number_next(proc, number, n))
		at += (size_t)snprintf(buf + at, size - at, "%s%d", at ? ", " : "", n);
}

/* "ranks 0, 1 · host · GPUs 0, 1 · pod 6a1e5c3b" */
static void shared_name(char *buf, size_t size, const struct proc *proc, const char *host, const char *place)
{
	char ranks[96] = "", gpus[96] = "";

	numbers_list(ranks, sizeof(ranks), proc, member_rank);
	numbers_list(gpus, sizeof(gpus), proc, member_gpu);
	snprintf(buf, size, "ranks %s%s%s%s%s%s", ranks, *host ? " · " : "", host, *gpus ? " · GPUs " : "", gpus,
		 place);
}

/* "rank 5 · host · GPU 3 · pod 6a1e5c3b"; a rank's child "rank 5 · dataloader pid 4712"; no rank: its own name. */
static void process_name(char *buf, size_t size, const struct model *m, const struct proc *proc, uint32_t tgid)
{
	const char *name = proc && proc->name ? proc->name : "", *host = m->merged && proc ? proc->node->name
									 : m->host         ? m->host
											   : "";
	int device = proc ? process_device(proc) : -1;
	char gpu[24] = "", place[48];

	process_place(place, sizeof(place), proc);
	if (device >= 0)
		snprintf(gpu, sizeof(gpu), " · GPU %d", device);
	if (proc && proc->shared)
		shared_name(buf, size, proc, host, place);
	else if (proc && sink_rank(proc) >= 0 && proc->is_child)
		snprintf(buf, size, "rank %d · %s pid %u", sink_rank(proc), *name ? name : "child", tgid);
	else if (proc && sink_rank(proc) >= 0)
		snprintf(buf, size, "rank %d%s%s%s%s", sink_rank(proc), *host ? " · " : "", host, gpu, place);
	else
		snprintf(buf, size, "%s%s%s", *name ? name : "process", gpu, place);
}

static int process_order(const struct proc *proc)
{
	if (proc && proc->shared && number_next(proc, member_rank, -1) >= 0)
		return 2 * number_next(proc, member_rank, -1);
	return proc && sink_rank(proc) >= 0 ? 2 * sink_rank(proc) + proc->is_child : 1 << 30;
}

/* The format knows one host: a process of another gets a number that no pid is. */
static uint64_t shown_pid(const struct track *t)
{
	return t->key.node << PID_BITS ^ t->key.tgid;
}

static void process_write(struct perfetto_sink *p, const struct track *t, const struct proc *proc)
{
	struct pb *b = &p->file.batch;
	size_t at = descriptor_open(p, t->lanes[0].uuid, 0), inner;

	pb_i64(b, TRACK_ORDER, process_order(proc));
	inner = pb_open(b, TRACK_PROCESS);
	pb_u64(b, PROCESS_PID, shown_pid(t));
	packet_text(b, PROCESS_NAME, t->name);
	pb_close(b, inner);
	descriptor_close(p, at);
}

uint64_t process_uuid(struct perfetto_sink *p, const struct model *m, uint64_t id)
{
	struct track_key key = { .kind = TRACK_KIND_PROCESS, .node = id >> 32, .tgid = (uint32_t)id };
	struct track *t = track_find(p, &key);
	const struct proc *proc;
	char name[256];

	if (t && t->n_lanes)
		return t->lanes[0].uuid;
	proc = model_proc(m, id);
	process_name(name, sizeof(name), m, proc, (uint32_t)id);
	t = track_get(p, key, 0, name);
	if (!t || !lane_add(p, t))
		return 0;
	process_write(p, t, proc);
	return t->lanes[0].uuid;
}

void process_rename(struct perfetto_sink *p, const struct model *m, uint64_t id)
{
	struct track_key key = { .kind = TRACK_KIND_PROCESS, .node = id >> 32, .tgid = (uint32_t)id };
	struct track *t = track_find(p, &key);
	const struct proc *proc = model_proc(m, id);
	char name[256];

	if (!t || !t->n_lanes)
		return;
	process_name(name, sizeof(name), m, proc, (uint32_t)id);
	if (track_rename(t, name))
		process_write(p, t, proc);
}

void process_seen(struct perfetto_sink *p, const struct model *m, uint64_t id)
{
	const struct proc *proc = model_proc(m, id);

	if (proc && sink_rank(proc) >= 0 && !proc->is_child)
		process_uuid(p, m, id);
	process_rename(p, m, id);
}

static void thread_write(struct perfetto_sink *p, const struct track *t, const char *name)
{
	struct pb *b = &p->file.batch;
	size_t at = descriptor_open(p, t->lanes[0].uuid, 0), inner = pb_open(b, TRACK_THREAD);

	pb_u64(b, THREAD_PID, shown_pid(t));
	pb_u64(b, THREAD_TID, t->key.tid);
	if (name && *name)
		packet_text(b, THREAD_NAME, name);
	pb_close(b, inner);
	descriptor_close(p, at);
}

static struct track *thread_track_get(struct perfetto_sink *p, uint64_t proc, uint32_t tid)
{
	struct track_key key = { .kind = TRACK_KIND_THREAD, .node = proc >> 32, .tgid = (uint32_t)proc, .tid = tid };

	return track_get(p, key, 0, "");
}

struct track *thread_track(struct perfetto_sink *p, struct thread *t)
{
	if (!t->track)
		t->track = thread_track_get(p, t->proc, t->tid);
	return t->track;
}

uint64_t thread_track_uuid(struct perfetto_sink *p, const struct model *m, struct track *t)
{
	uint64_t proc = t ? proc_key(t->key.node, t->key.tgid) : 0;
	const struct task *task;

	if (t && t->n_lanes)
		return t->lanes[0].uuid;
	if (!t || (process_uuid(p, m, proc), !lane_add(p, t)))
		return 0;
	task = model_task(m, proc, t->key.tid);
	thread_write(p, t, task ? task->name : NULL);
	return t->lanes[0].uuid;
}

uint64_t thread_uuid(struct perfetto_sink *p, const struct model *m, uint64_t proc, uint32_t tid)
{
	return thread_track_uuid(p, m, thread_track_get(p, proc, tid));
}

void thread_rename(struct perfetto_sink *p, uint64_t proc, uint32_t tid, const char *name)
{
	struct track_key key = { .kind = TRACK_KIND_THREAD, .node = proc >> 32, .tgid = (uint32_t)proc, .tid = tid };
	struct track *t = track_find(p, &key);

	if (t && t->n_lanes)
		thread_write(p, t, name);
}

static uint64_t name_key(struct perfetto_sink *p, const char *name)
{
	return (uintptr_t)trace_text(&p->file, name);
}

struct track *thread_child_track(struct perfetto_sink *p, const struct model *m, enum track_kind kind, uint64_t proc,
				 uint32_t tid, const char *name)
{
	struct track_key key = {
		.kind = kind, .node = proc >> 32, .tgid = (uint32_t)proc, .tid = tid, .a = name_key(p, name)
	};
	struct track *t = track_find(p, &key);

	return t ? t : track_get(p, key, thread_uuid(p, m, proc, tid), name);
}

struct track *process_child_track(struct perfetto_sink *p, const struct model *m, enum track_kind kind, uint64_t proc,
				  const char *name)
{
	struct track_key key = { .kind = kind, .node = proc >> 32, .tgid = (uint32_t)proc, .a = name_key(p, name) };
	struct track *t = track_find(p, &key);

	return t ? t : track_get(p, key, process_uuid(p, m, proc), name);
}

static struct track_key comm_key(const struct member *mb)
{
	return (struct track_key){ .kind = TRACK_KIND_COMM,
				   .node = mb->proc->key >> 32,
				   .tgid = mb->proc->tgid,
				   .a = mb->addr,
				   .b = mb->comm ? mb->comm->hash : 0 };
}

/* What of a communicator's name is learnt later. */
static int64_t comm_learnt(const struct comm *c)
{
	return 2 * (int64_t)c->parallelism + (*c->process_group != 0);
}

/* "tp · mesh_tp · comm 0x72e8… (rank 0 of 4)" */
static void comm_name(char *buf, size_t size, const struct member *mb)
{
	const char *use = mb->comm ? parallelism_name(mb->comm->parallelism) : NULL;
	uint64_t hash = mb->comm ? mb->comm->hash : 0;
	char ranks[48] = "", prefix[32 + TORCH_GROUP_TEXT] = "";
	size_t at = 0;

	if (mb->rank >= 0 && mb->comm && mb->comm->nranks > 0)
		snprintf(ranks, sizeof(ranks), " (rank %d of %d)", mb->rank, mb->comm->nranks);
	if (use)
		at = (size_t)snprintf(prefix, sizeof(prefix), "%s · ", use);
	if (mb->comm && *mb->comm->process_group)
		snprintf(prefix + at, sizeof(prefix) - at, "%s · ", mb->comm->process_group);
	if (hash)
		snprintf(buf, size, "%scomm 0x%04x…%s", prefix, (unsigned int)(hash >> 48), ranks);
	else
		snprintf(buf, size, "%scomm at 0x%" PRIx64 "%s", prefix, mb->addr, ranks);
}

/* Of a process that is several ranks: what one of its GPUs does is below a track of that GPU. */
static uint64_t seat_uuid(struct perfetto_sink *p, const struct model *m, const struct member *mb)
{
	struct track_key key = {
		.kind = TRACK_KIND_SEAT, .node = mb->proc->key >> 32, .tgid = mb->proc->tgid, .a = (uint64_t)mb->device
	};
	struct track *t = track_find(p, &key);
	char name[64];

	if (!mb->proc->shared || mb->device < 0)
		return process_uuid(p, m, mb->proc->key);
	if (t)
		return track_uuid(p, t);
	snprintf(name, sizeof(name), "GPU %d · rank %d", member_gpu(mb), member_rank(mb));
	return track_uuid(p, track_get(p, key, process_uuid(p, m, mb->proc->key), name));
}

struct track *seat_child_track(struct perfetto_sink *p, const struct model *m, enum track_kind kind,
			       const struct member *mb, const char *name)
{
	struct track_key key = { .kind = kind,
				 .node = mb->proc->key >> 32,
				 .tgid = mb->proc->tgid,
				 .a = name_key(p, name),
				 .b = (uint64_t)mb->device + 1 };
	struct track *t = track_find(p, &key);

	return t ? t : track_get(p, key, seat_uuid(p, m, mb), name);
}

static uint64_t comm_uuid(struct perfetto_sink *p, const struct model *m, const struct member *mb)
{
	struct track_key key = comm_key(mb);
	struct track *t = track_find(p, &key);
	char name[160];

	if (t)
		return track_uuid(p, t);
	comm_name(name, sizeof(name), mb);
	t = track_get(p, key, seat_uuid(p, m, mb), name);
	if (t && mb->comm)
		t->held_value = comm_learnt(mb->comm);
	return track_uuid(p, t);
}

static void comm_rename(struct perfetto_sink *p, const struct member *mb)
{
	struct track_key key = comm_key(mb);
	struct track *t = track_find(p, &key);
	char name[160];

	if (!t || !t->n_lanes || t->held_value == comm_learnt(mb->comm))
		return;
	t->held_value = comm_learnt(mb->comm);
	comm_name(name, sizeof(name), mb);
	if (track_rename(t, name))
		descriptor_write(p, t->lanes[0].uuid, t->parent, name, false);
}

void comms_rename(struct perfetto_sink *p, const struct model *m)
{
	for (const struct comm *c = m->comms; c; c = c->next)
		for (const struct member *mb = c->n_called ? c->members : NULL; mb; mb = mb->next_in_comm)
			comm_rename(p, mb);
}

/* Its number in its process, from 1, in the order of appearance: handles are addresses. */
static int64_t stream_number(struct perfetto_sink *p, const struct member *mb, uint64_t stream)
{
	struct track_key of_process = { .kind = TRACK_KIND_STREAM_NUMBER,
					.node = mb->proc->key >> 32,
					.tgid = mb->proc->tgid };
	struct track_key of_stream = of_process;
	struct track *number, *last = track_get(p, of_process, 0, "");

	of_stream.b = 1;
	of_stream.c = stream;
	number = track_get(p, of_stream, 0, "");
	if (number && last && !number->held_value)
		number->held_value = ++last->held_value;
	return number ? number->held_value : 0;
}

struct track *stream_track(struct perfetto_sink *p, const struct model *m, const struct op *op)
{
	const struct member *mb = op->member;
	struct track_key key = { .kind = TRACK_KIND_STREAM,
				 .node = mb->proc->key >> 32,
				 .tgid = mb->proc->tgid,
				 .a = mb->addr,
				 .b = mb->comm ? mb->comm->hash : 0,
				 .c = op->stream };
	struct track *t = track_find(p, &key);
	char name[40];

	if (t)
		return t;
	snprintf(name, sizeof(name), "stream %" PRId64, stream_number(p, mb, op->stream));
	return track_get(p, key, comm_uuid(p, m, mb), name);
}

void tracks_free(struct perfetto_sink *p)
{
	struct track *t, *next;

	HASH_ITER (hh, p->tracks, t, next) {
		HASH_DEL(p->tracks, t);
		free(t->name);
		free(t->lanes);
		free(t->steps);
		free(t);
	}
}
