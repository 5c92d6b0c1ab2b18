/* SPDX-License-Identifier: Apache-2.0
 *
 * proc_wire.c - see proc_wire.h.
 */
#include "tracers/process/proc_wire.h"

#include <string.h>

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

/* `at`: where the texts of the record end. */
static int place_read(const struct record_proc *rec, size_t at, struct intern *strings, struct event_proc *p)
{
	const struct record_proc_place *f = (const void *)((const char *)rec + ((at + 7) & ~7ul));
	const char **const to[] = {
		&p->pod_name, &p->namespace, &p->cgroup, &p->boot_id, &p->slurm_job, &p->slurm_step
	};

	at = (at + 7) & ~7ul;
	if (at + sizeof(*f) > rec->hdr.size)
		return -EINVAL;
	p->netns = f->netns;
	p->user = f->user[0] | (uint32_t)f->user[1] << 16;
	return record_texts(&rec->hdr, at + sizeof(*f), 6,
			    (uint16_t[]){ f->pod_name_len, f->namespace_len, f->cgroup_len, f->boot_id_len,
					  f->slurm_job_len, f->slurm_step_len },
			    to, strings);
}

int proc_wire_read(const struct record_proc *f, struct intern *strings, struct event_proc *p)
{
	const uint16_t lens[] = { f->job_len, f->name_len, f->container_len, f->pod_len };
	const char **const texts[] = { &p->job, &p->name, &p->container, &p->pod };
	size_t end = sizeof(*f) + f->job_len + f->name_len + f->container_len + f->pod_len;

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
	if (record_texts(&f->hdr, sizeof(*f), 4, lens, texts, strings) < 0)
		return -EINVAL;
	return f->has_place ? place_read(f, end, strings, p) : 1;
}
