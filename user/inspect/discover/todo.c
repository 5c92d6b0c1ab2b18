/* SPDX-License-Identifier: Apache-2.0
 *
 * todo.c - what a scan has still to read. A process of a user whose share is used up stays in the list, in its place,
 * for the next turn of the loop; those behind it are read meanwhile. Where the time of the turn is up all that are left
 * stay.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "inspect/discover/discover_private.h"

int todo_add(struct target_set *s, uint32_t tgid, uint32_t uid)
{
	struct todo *t = &s->todo;
	struct proc_row *p = proc_row_find(s, tgid);

	if (t->n == t->room) {
		size_t room = t->room ? 2 * t->room : 1024;
		struct todo_one *grown = realloc(t->rows, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		t->rows = grown;
		t->room = room;
	}
	t->rows[t->n++] = (struct todo_one){ tgid, uid };
	if (p) {
		p->waits = true;
		p->seen = s->scan;
	}
	return 0;
}

void todo_run(struct target_set *s)
{
	struct todo *t = &s->todo;
	size_t left = 0;

	t->cut = false;
	for (size_t i = 0; i < t->n; i++) {
		t->cut = t->cut || (i && s->until_ns && clock_monotonic_ns() >= s->until_ns);
		if (t->cut || !discover_pid_scan(s, t->rows[i].tgid, t->rows[i].uid, true))
			t->rows[left++] = t->rows[i];
	}
	t->n = left;
}

void todo_clear(struct target_set *s)
{
	for (size_t i = 0; i < s->todo.n; i++) {
		struct proc_row *p = proc_row_find(s, s->todo.rows[i].tgid);

		if (p)
			p->waits = false;
	}
	s->todo.n = 0;
}

bool target_set_scan_left(const struct target_set *s)
{
	return s->todo.n;
}

bool target_set_scan_cut(const struct target_set *s)
{
	return s->todo.cut;
}

void target_set_until(struct target_set *s, uint64_t until_ns)
{
	s->until_ns = until_ns;
}

int target_set_scan_more(struct target_set *s)
{
	int err;

	todo_run(s);
	err = discover_finish(s);
	settled_rest(s);
	return err;
}
