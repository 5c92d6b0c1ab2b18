/* SPDX-License-Identifier: Apache-2.0
 *
 * storage.c - how long processes are blocked on file systems: of each what it reports itself, and of a rank the sum of
 * its own process and its children, of those that ended too.
 */
#include "model/storage/storage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/larger.h"
#include "model/state.h"

#define KINDS_MAX 64 /* file systems and acts of one process; further ones are not kept */

/* The one of `at` in a list; NULL: there are too many, or no memory (*err). */
static struct storage *storage_get(struct storage **list, uint32_t at, int *err)
{
	int n = 0;

	for (; *list; list = &(*list)->next, n++)
		if ((*list)->sum.at == at)
			return *list;
	if (n == KINDS_MAX)
		return NULL;
	*list = calloc(1, sizeof(**list));
	if (!*list) {
		*err = -ENOMEM;
		return NULL;
	}
	(*list)->sum.at = at;
	(*list)->mount = (*list)->file = "";
	return *list;
}

/* What `now` has more than `before`, which began anew where it has less. */
static uint64_t grown(uint64_t now, uint64_t before)
{
	return now - (now < before ? 0 : before);
}

static void rank_add(struct storage *rank, const struct storage_sum *now, const struct storage_sum *before)
{
	struct storage_sum none = { 0 }, *to = &rank->sum;

	if (now->calls < before->calls)
		before = &none;
	to->blocked_ns += grown(now->blocked_ns, before->blocked_ns);
	to->calls += now->calls - before->calls;
	for (int i = 0; i <= STORAGE_BOUNDS; i++) /* a call that goes on moves to a longer one */
		to->by_length[i] += now->by_length[i] - before->by_length[i];
}

static void names_note(struct storage *s, const struct event *e)
{
	if (e->storage.mount && *e->storage.mount)
		s->mount = e->storage.mount;
	if (e->storage.sum.longest_ns < s->sum.longest_ns)
		return;
	s->sum.longest_ns = e->storage.sum.longest_ns;
	s->file = e->storage.file ? e->storage.file : "";
}

int storage_apply(struct model *m, const struct event *e)
{
	struct proc *p = (struct proc *)model_proc(m, event_proc(e));
	struct storage *own, *rank;
	uint32_t at = e->storage.sum.at;
	int err = 0;

	if (!p)
		return 0;
	own = storage_get(&p->storage, at, &err);
	rank = own && p->leader ? storage_get(&p->leader->storage_of_rank, at, &err) : NULL;
	if (rank) {
		rank_add(rank, &e->storage.sum, &own->sum);
		names_note(rank, e);
	}
	if (own) {
		names_note(own, e);
		own->sum = e->storage.sum;
	}
	return err;
}

static void list_free(struct storage *s)
{
	struct storage *next;

	for (; s; s = next) {
		next = s->next;
		free(s);
	}
}

void storage_free(struct proc *p)
{
	list_free(p->storage);
	list_free(p->storage_of_rank);
}

const char *storage_mount(const struct proc *p, uint32_t at)
{
	const struct storage *lists[] = { p->storage, p->leader ? p->leader->storage_of_rank : NULL };

	for (int i = 0; i < 2; i++)
		for (const struct storage *s = lists[i]; s; s = s->next)
			if (STORAGE_DEVICE(s->sum.at) == STORAGE_DEVICE(at) && *s->mount)
				return s->mount;
	return "";
}

static void part_take(char *to, size_t size, const char *from, const char *end)
{
	size_t n = smaller(size - 1, (size_t)(end - from));

	memcpy(to, from, n);
	to[n] = '\0';
}

/* The point may hold anything: the last bracket counts. */
void mount_split(const char *mount, struct mount_parts *ret)
{
	const char *bracket = NULL, *comma = strrchr(mount, ','), *space;

	for (const char *p = mount; (p = strstr(p, " (")); p++)
		bracket = p;
	*ret = (struct mount_parts){ .point = "" };
	space = bracket ? strchr(bracket + 2, ' ') : NULL;
	if (!space || !comma || comma < space)
		return;
	part_take(ret->point, sizeof(ret->point), mount, bracket);
	part_take(ret->type, sizeof(ret->type), bracket + 2, space);
	part_take(ret->source, sizeof(ret->source), space + 1, comma);
}

const char *storage_act_name(uint32_t at)
{
	static const char *const names[STORAGE_ACTS] = {
		[STORAGE_READ] = "read",   [STORAGE_WRITE] = "write", [STORAGE_FLUSH] = "flush",
		[STORAGE_OPEN] = "open",   [STORAGE_CLOSE] = "close", [STORAGE_NAMES] = "names",
		[STORAGE_FAULT] = "fault",
	};
	const char *name = names[STORAGE_ACT(at)];

	return name ? name : "";
}
