/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.c - see lease.h. Expiry is a length of time on the clock of the one that waits: no hub's clock is compared with
 * another's. The server does not say that a key is old (2.9), so those that wait ask.
 */
#include "hub/lease.h"

#include <errno.h>
#include <string.h>

#define FREE "free"

/* Behind the newest revision. */
static int revision_write(struct lease *l, struct bus *b, const char *value)
{
	uint64_t written = l->revision;
	int err = b->class->table_write(b, BUS_LEASES, l->token, value, l->revision, &written);

	l->revision = err ? l->revision : written;
	return err;
}

static enum lease_change renew(struct lease *l, struct bus *b, const char *value, uint64_t now_ns)
{
	int err;

	if (now_ns - l->asked_ns < LEASE_RENEW_NS)
		return LEASE_SAME;
	l->asked_ns = now_ns;
	err = revision_write(l, b, value);
	if (!err)
		l->changed_ns = now_ns;
	else if (err == -ESTALE || now_ns - l->changed_ns > LEASE_EXPIRES_NS)
		l->mine = false;
	if (!l->mine)
		l->changed_ns = now_ns; /* it is another's from now on, or may be */
	return l->mine ? LEASE_SAME : LEASE_LOST;
}

/* Any replica answers, and one that is behind answers with an old revision: that changes nothing. When none knows the
 * newest any more the table was made anew. */
static void answer_take(struct lease *l, uint64_t revision, uint64_t now_ns)
{
	bool is_behind = revision < l->revision && now_ns - l->known_ns <= LEASE_EXPIRES_NS;

	if (!l->changed_ns || (revision != l->revision && !is_behind)) {
		l->revision = revision;
		l->changed_ns = now_ns;
	}
	if (revision == l->revision)
		l->known_ns = now_ns;
}

/* It may be taken: there was none, it was given up, or its owner did not renew it. */
static bool is_free(struct lease *l, const char *value, uint64_t revision, uint64_t now_ns)
{
	answer_take(l, revision, now_ns);
	return (revision == l->revision && (revision == BUS_NO_REVISION || !strcmp(value, FREE))) ||
	       now_ns - l->changed_ns > LEASE_EXPIRES_NS;
}

/* Reads it, and writes it if it is free. 0: it is ours; -EBUSY: another's, and renewed. */
static int try_take(struct lease *l, struct bus *b, const char *value, uint64_t now_ns)
{
	char seen[256];
	uint64_t revision;
	int err = b->class->table_read(b, BUS_LEASES, l->token, seen, sizeof(seen), &revision);

	if (err)
		return err;
	if (!is_free(l, seen, revision, now_ns))
		return -EBUSY;
	return revision_write(l, b, value);
}

static enum lease_change take(struct lease *l, struct bus *b, const char *value, uint64_t now_ns)
{
	if (l->asked_ns && now_ns - l->asked_ns < LEASE_POLL_NS)
		return LEASE_SAME;
	l->asked_ns = now_ns;
	l->err = try_take(l, b, value, now_ns);
	if (!l->err || l->err == -EBUSY)
		l->refused_ns = 0;
	else if (!l->refused_ns)
		l->refused_ns = now_ns;
	if (l->err)
		return LEASE_SAME;
	l->mine = true;
	l->changed_ns = l->known_ns = now_ns;
	return LEASE_TAKEN;
}

enum lease_change lease_turn(struct lease *l, struct bus *b, const char *value, uint64_t now_ns)
{
	return l->mine ? renew(l, b, value, now_ns) : take(l, b, value, now_ns);
}

void lease_give_up(struct lease *l, struct bus *b)
{
	if (l->mine)
		revision_write(l, b, FREE);
	l->mine = false;
}
