/* SPDX-License-Identifier: Apache-2.0
 *
 * storage_wait.c - see storage_wait.h. The kernel waits in D state for a server's answer to one fsync() as it waits for
 * a server that is gone, and checkpoints flush gigabytes. A file system that is frozen does nothing, and the lock
 * that is waited for says so.
 */
#include "detect/host/storage_wait.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/larger.h"
#include "detect/severity.h"

#define USUAL_FOR_NS 604800000000000ull /* a week: mounts come and go with jobs */

struct wait {               /* that goes on */
	struct keyed keyed; /* process, thread */
	uint64_t place, since_ns, seen_ns;
};

struct usual {
	struct keyed keyed; /* place, 0 */
	uint64_t longest_ns, seen_ns;
};

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* /dev/shm is memory, whose waits are none of storage's either. */
bool is_on_storage(const struct task *t)
{
	return t->mount && *t->mount && *t->file && strcmp(t->syscall, "ioctl") && !begins(t->file, "/dev/") &&
	       !begins(t->file, "/proc/") && !begins(t->file, "/sys/");
}

/* The lock of a file system that fsfreeze, a snapshot or a remount holds: nothing is on its way. */
static bool is_frozen(const struct task *t)
{
	return strstr(t->wchan, "percpu_rwsem") || strstr(t->wchan, "percpu_down_read") ||
	       strstr(t->kernel_stack, "percpu_rwsem_wait") || strstr(t->kernel_stack, "percpu_down_read");
}

static uint64_t place_of(const struct task *t)
{
	return hash_text(hash_text(hash_mix(0, t->proc->node->number + 1), t->mount), t->syscall);
}

static int wait_over(struct storage_waits *s, const struct wait *w, uint64_t now_ns)
{
	struct usual *u = keyed_get(&s->usual, w->place, 0, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->longest_ns = larger(u->longest_ns, now_ns - w->since_ns);
	u->seen_ns = now_ns;
	return 0;
}

static int wait_keep(struct storage_waits *s, const struct model *m, const struct task *t)
{
	struct wait *w = keyed_get(&s->now, t->proc->key, t->tid, sizeof(*w));
	int err = 0;

	if (!w)
		return -ENOMEM;
	if (w->since_ns && w->since_ns != t->blocked_since_ns) /* the next one began between two ticks */
		err = wait_over(s, w, w->seen_ns);
	w->place = place_of(t);
	w->since_ns = t->blocked_since_ns;
	w->seen_ns = m->now_ns;
	return err;
}

int storage_wait_critical(struct storage_waits *s, const struct model *m, const struct task *t, uint64_t *ret_ns)
{
	const struct usual *u;
	int err;

	*ret_ns = 0;
	if (!is_on_storage(t) || is_frozen(t))
		return 0;
	err = wait_keep(s, m, t);
	u = keyed_find(&s->usual, place_of(t), 0);
	*ret_ns = smaller(larger(STALL_CRITICAL_NS, u ? 3 * u->longest_ns : 0), WORKS_CRITICAL_NS);
	return err;
}

static bool goes_on(void *entry, const void *model)
{
	const struct wait *w = entry;
	const struct model *m = model;

	return w->seen_ns == m->now_ns;
}

static bool is_remembered(void *entry, const void *model)
{
	const struct usual *u = entry;
	const struct model *m = model;

	return m->now_ns < u->seen_ns + USUAL_FOR_NS;
}

int storage_waits_learn(struct storage_waits *s, const struct model *m)
{
	const struct proc *p;
	int err = 0;

	for (const struct wait *w = s->now.all; w && !err; w = w->keyed.next) {
		p = goes_on((void *)w, m) ? NULL : model_proc(m, w->keyed.a);
		if (p && !p->dead) /* of one that died it is not known how long it would have lasted */
			err = wait_over(s, w, m->now_ns);
	}
	keyed_keep(&s->now, goes_on, m);
	keyed_keep(&s->usual, is_remembered, m);
	return err;
}

void storage_waits_free(struct storage_waits *s)
{
	keyed_free(&s->now);
	keyed_free(&s->usual);
}
