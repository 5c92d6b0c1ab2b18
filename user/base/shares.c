/* SPDX-License-Identifier: Apache-2.0
 *
 * shares.c - see shares.h. A user's bucket holds one second and gains a quarter of a second in each, so that a job that
 * starts is served at once, and a flood takes a quarter of a core at most. All users together get TURN_ALL_NS of one
 * turn.
 */
#include "base/shares.h"

#include <stdlib.h>
#include <uthash.h>

#define BUCKET_NS 1000000000ull
#define GAIN_DIVISOR 4 /* of the time that passes */
#define TURN_USER_NS 25000000ull
#define TURN_ALL_NS 75000000ull
#define PROCS_MANY 128
#define USERS_MAX 4096 /* then those that cost nothing lately are forgotten */

struct user {
	uint32_t uid, n_procs;
	int64_t left_ns; /* below 0: the last piece of work cost more than was left */
	uint64_t at_ns;  /* when that was so */
	uint64_t turn_ns;
	UT_hash_handle hh;
};

struct shares {
	struct user *users;
	uint64_t now_ns, turn_ns;
};

struct shares *shares_new(void)
{
	return calloc(1, sizeof(struct shares));
}

void shares_free(struct shares *s)
{
	struct user *u, *next;

	if (!s)
		return;
	HASH_ITER (hh, s->users, u, next) {
		HASH_DEL(s->users, u);
		free(u);
	}
	free(s);
}

static void bucket_fill(struct user *u, uint64_t now_ns)
{
	u->left_ns += (now_ns - u->at_ns) / GAIN_DIVISOR;
	if (u->left_ns > (int64_t)BUCKET_NS)
		u->left_ns = BUCKET_NS;
	u->at_ns = now_ns;
}

static void idle_drop(struct shares *s)
{
	struct user *u, *next;

	HASH_ITER (hh, s->users, u, next) {
		if (u->n_procs || u->left_ns < (int64_t)BUCKET_NS)
			continue;
		HASH_DEL(s->users, u);
		free(u);
	}
}

static struct user *user_get(struct shares *s, uint32_t uid)
{
	struct user *u;

	HASH_FIND_INT(s->users, &uid, u);
	if (u)
		return u;
	if (HASH_COUNT(s->users) >= USERS_MAX)
		idle_drop(s);
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	*u = (struct user){ .uid = uid, .left_ns = BUCKET_NS, .at_ns = s->now_ns };
	HASH_ADD_INT(s->users, uid, u);
	return u;
}

void shares_turn(struct shares *s, uint64_t now_ns)
{
	s->now_ns = now_ns;
	s->turn_ns = 0;
	for (struct user *u = s->users; u; u = u->hh.next) {
		bucket_fill(u, now_ns);
		u->turn_ns = 0;
	}
}

bool shares_may(struct shares *s, uint32_t uid)
{
	const struct user *u = s && uid ? user_get(s, uid) : NULL;

	return !u || (u->left_ns > 0 && u->turn_ns < TURN_USER_NS && s->turn_ns < TURN_ALL_NS);
}

void shares_spend(struct shares *s, uint32_t uid, uint64_t ns)
{
	struct user *u = s && uid ? user_get(s, uid) : NULL;

	if (!u)
		return;
	u->left_ns -= ns;
	u->turn_ns += ns;
	s->turn_ns += ns;
}

void shares_count_begin(struct shares *s)
{
	for (struct user *u = s ? s->users : NULL; u; u = u->hh.next)
		u->n_procs = 0;
}

void shares_count(struct shares *s, uint32_t uid)
{
	struct user *u = s && uid ? user_get(s, uid) : NULL;

	if (u)
		u->n_procs++;
}

bool shares_are_many(struct shares *s, uint32_t uid)
{
	const struct user *u = s && uid ? user_get(s, uid) : NULL;

	return u && u->n_procs >= PROCS_MANY;
}

bool shares_are_full(struct shares *s, uint32_t uid)
{
	const struct user *u = s && uid ? user_get(s, uid) : NULL;

	return u && u->n_procs >= SHARES_PROCS_MAX;
}
