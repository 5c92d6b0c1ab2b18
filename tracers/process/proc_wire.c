/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_wire.c - see proc_wire.h.
 */
#include "tracers/process/proc_wire.h"

#include <string.h>

#include "base/hash.h"
#include "record.h"

#define TEXT_MAX 320 /* of each, with its zero byte */

_Static_assert(sizeof(struct record_proc) + sizeof(struct record_proc_place) + 10 * TEXT_MAX + 16 <= PROC_WIRE_BYTES,
	       "PROC_WIRE_BYTES");

/* n texts at `to`, each with its zero byte. Bytes written. */
static size_t texts_write(char *to, const char *const *texts, int n, __u16 *lens)
{
	size_t used = 0;

	for (int i = 0; i < n; i++) {
		size_t len = texts[i] ? strnlen(texts[i], TEXT_MAX - 1) : 0;

		if (len)
			memcpy(to + used, texts[i], len);
		to[used + len] = '\0';
		lens[i] = len + 1;
		used += len + 1;
	}
	return used;
}

static size_t padded(char *rec, size_t size)
{
	memset(rec + size, 0, -size & 7);
	return (size + 7) & ~7ul;
}

static size_t place_write(const struct event_proc *p, char *rec, size_t at)
{
	const char *texts[] = { p->pod_name, p->namespace, p->cgroup, p->boot_id, p->slurm_job, p->slurm_step };
	struct record_proc_place *f = (struct record_proc_place *)(rec + at);
	__u16 lens[6];

	*f = (struct record_proc_place){ .netns = p->netns, .user = { p->user & 0xffff, p->user >> 16 } };
	at += sizeof(*f) + texts_write(f->text, texts, 6, lens);
	f->pod_name_len = lens[0];
	f->namespace_len = lens[1];
	f->cgroup_len = lens[2];
	f->boot_id_len = lens[3];
	f->slurm_job_len = lens[4];
	f->slurm_step_len = lens[5];
	return padded(rec, at);
}

void proc_wire_write(const struct event_proc *p, struct record_proc *f)
{
	const char *texts[] = { p->job, p->name, p->container, p->pod };
	__u16 lens[4];
	size_t at = sizeof(*f) + texts_write(f->text, texts, 4, lens);

	f->start_ns = p->start_ns;
	f->parent_tgid = p->parent_tgid;
	f->ns_pid = p->ns_pid;
	f->rank = p->rank;
	f->local_rank = p->local_rank;
	f->world_size = p->world_size;
	f->rank_source = p->rank_inherited ? RANK_INHERITED : p->rank >= 0 ? RANK_ENV : RANK_UNKNOWN;
	f->is_child = p->is_child;
	f->rank_flags = 0;
	f->has_place = 1;
	f->job_len = lens[0];
	f->name_len = lens[1];
	f->container_len = lens[2];
	f->pod_len = lens[3];
	f->hdr.kind = RECORD_PROC;
	f->hdr.size = place_write(p, (char *)f, padded((char *)f, at));
}

/* NULL: it has none, or it lies beyond the record. */
static const struct record_proc_place *place_of(const struct record_proc *f)
{
	size_t at = (sizeof(*f) + f->job_len + f->name_len + f->container_len + f->pod_len + 7) & ~7ul;

	return f->has_place && at + sizeof(struct record_proc_place) <= f->hdr.size
		       ? (const void *)((const char *)f + at)
		       : NULL;
}

static uint32_t user_of(const struct record_proc_place *f)
{
	return f ? f->user[0] | (uint32_t)f->user[1] << 16 : 0;
}

/* `h`, and the text that was refused; 0 is none. */
static uint64_t refused_mix(uint64_t h, const char *kept, const char *text, size_t len)
{
	return intern_refused(kept) ? hash_bytes(h, text, len) | 1 : h;
}

static int place_read(const struct record_proc *rec, const struct record_proc_place *f, struct intern *strings,
		      struct event_proc *p)
{
	const uint16_t lens[] = { f->pod_name_len, f->namespace_len, f->cgroup_len,
				  f->boot_id_len,  f->slurm_job_len, f->slurm_step_len };
	const char **const to[] = {
		&p->pod_name, &p->namespace, &p->cgroup, &p->boot_id, &p->slurm_job, &p->slurm_step
	};
	int n = record_texts(&rec->hdr, f->text - (const char *)rec, 6, lens, to, strings);

	p->netns = f->netns;
	p->user = user_of(f);
	if (n == 1)
		p->placeless = refused_mix(p->placeless, p->cgroup, f->text + f->pod_name_len + f->namespace_len,
					   f->cgroup_len);
	return n;
}

static int texts_read(const struct record_proc *f, struct intern *strings, struct event_proc *p)
{
	const uint16_t lens[] = { f->job_len, f->name_len, f->container_len, f->pod_len };
	const char **const texts[] = { &p->job, &p->name, &p->container, &p->pod };
	const struct record_proc_place *place = place_of(f);
	const char *container = f->text + f->job_len + f->name_len;

	if (record_texts(&f->hdr, sizeof(*f), 4, lens, texts, strings) < 0 || (f->has_place && !place))
		return -EINVAL;
	p->nameless = refused_mix(0, p->job, f->text, f->job_len);
	p->placeless = refused_mix(0, p->container, container, f->container_len);
	p->placeless = refused_mix(p->placeless, p->pod, container + f->container_len, f->pod_len);
	return place ? place_read(f, place, strings, p) : 1;
}

/* Whose names they are, before any of them is kept. */
static uint64_t owner_of(const struct record_proc *f)
{
	size_t at = sizeof(*f) + f->job_len + f->name_len, len = f->container_len;
	char container[TEXT_MAX] = "";

	if (at + len <= f->hdr.size && len < TEXT_MAX)
		memcpy(container, (const char *)f + at, len);
	return event_proc_owner(user_of(place_of(f)), container);
}

int proc_wire_read(const struct record_proc *f, struct intern *strings, struct event_proc *p)
{
	int n;

	if (!ranks_possible(f->rank, f->world_size) || !ranks_possible(f->local_rank, 0))
		return -EINVAL;
	p->start_ns = f->start_ns;
	p->parent_tgid = f->parent_tgid;
	p->ns_pid = f->ns_pid;
	p->rank = f->rank;
	p->local_rank = f->local_rank;
	p->world_size = f->world_size;
	p->is_child = f->is_child;
	p->rank_inherited = f->rank_source == RANK_INHERITED;
	p->pod_name = p->namespace = p->cgroup = p->boot_id = p->slurm_job = p->slurm_step = "";
	intern_names_begin(strings, owner_of(f));
	n = texts_read(f, strings, p);
	intern_names_end(strings);
	return n;
}
