/* SPDX-License-Identifier: Apache-2.0
 *
 * hosts.c - see hosts.h. A message is late by an unknown time, and the least late one of a minute shows best how the
 * clocks differ: what was spooled is then seen to be old. A host that boots has a new clock.
 */
#include "hub/hosts.h"

#include <stdlib.h>
#include <string.h>

#define HALF_NS 60000000000ll
#define HOSTS_MAX 65535

static void host_free(struct host *h)
{
	for (int i = 0; i < h->n_old_boots; i++)
		free(h->old_boots[i]);
	free(h->name);
	free(h->boot_id);
	free(h);
}

void hosts_free(struct hosts *h)
{
	struct host *one, *next;

	HASH_ITER (hh, h->all, one, next) {
		HASH_DEL(h->all, one);
		host_free(one);
	}
}

/* --- which host --- */

static struct host *host_find(const struct hosts *h, const char *name)
{
	struct host *one;

	HASH_FIND_STR(h->all, name, one);
	return one;
}

static struct host *host_new(struct hosts *h, const struct host_message_id *id)
{
	struct host *one = h->n < HOSTS_MAX ? calloc(1, sizeof(*one)) : NULL;

	if (!one)
		return NULL;
	one->name = strdup(id->name);
	one->boot_id = strdup(id->boot_id);
	if (!one->name || !one->boot_id) {
		host_free(one);
		return NULL;
	}
	memcpy(one->token, id->token, strnlen(id->token, BUS_TOKEN_MAX - 1));
	HASH_ADD_KEYPTR(hh, h->all, one->name, strlen(one->name), one);
	if (!one->hh.tbl) {
		host_free(one);
		return NULL;
	}
	one->number = (uint32_t)++h->n;
	return one;
}

/* --- new, or not --- */

static bool boot_is_old(const struct host *h, const char *boot_id)
{
	for (int i = 0; i < h->n_old_boots; i++)
		if (!strcmp(h->old_boots[i], boot_id))
			return true;
	return false;
}

static bool host_boots(struct host *h, const char *boot_id)
{
	char *copy = strdup(boot_id);

	if (!copy)
		return false;
	if (h->n_old_boots == HOST_BOOTS_KEPT) {
		free(h->old_boots[0]);
		memmove(h->old_boots, h->old_boots + 1, (HOST_BOOTS_KEPT - 1) * sizeof(char *));
		h->n_old_boots--;
	}
	h->old_boots[h->n_old_boots++] = h->boot_id;
	h->boot_id = copy;
	h->agent = h->sequence = 0;
	h->clock = (struct host_clock){}; /* lint: the copy is the host's */
	return true;
}

/* Of two runs of an agent the one that began later is the present one. */
static bool is_behind(const struct host *h, const struct host_message_id *id)
{
	return id->agent < h->agent || (id->agent == h->agent && id->sequence <= h->sequence);
}

static void number_note(struct host *h, const struct host_message_id *id)
{
	if (id->agent == h->agent)
		h->n_missing += id->sequence - h->sequence - 1;
	h->agent = id->agent;
	h->sequence = id->sequence;
}

/* --- when --- */

static void clock_note(struct host_clock *c, const struct host_message_id *id)
{
	int64_t late_ns = (int64_t)(id->stored_ns - id->made_ns);

	if (!c->half_ns || (int64_t)(id->stored_ns - c->half_ns) > HALF_NS) {
		c->before_ns = c->half_ns ? c->least_ns : late_ns;
		c->least_ns = late_ns;
		c->half_ns = id->stored_ns;
	}
	c->least_ns = late_ns < c->least_ns ? late_ns : c->least_ns;
}

uint64_t host_time(const struct host *h, uint64_t ns)
{
	const struct host_clock *c = &h->clock;
	int64_t offset = c->least_ns < c->before_ns ? c->least_ns : c->before_ns;
	uint64_t at = ns + (uint64_t)offset;

	return ns && (int64_t)at > 0 ? at : 0;
}

void hosts_clocks_forget(struct hosts *h)
{
	for (struct host *one = h->all; one; one = one->hh.next)
		one->clock = (struct host_clock){};
}

bool hosts_boots(const struct hosts *h, const struct host_message_id *id)
{
	const struct host *one = host_find(h, id->name);

	return one && strcmp(one->boot_id, id->boot_id);
}

enum host_message hosts_look(const struct hosts *h, const struct host_message_id *id)
{
	const struct host *one = host_find(h, id->name);
	char token[BUS_TOKEN_MAX];

	bus_token(id->name, token);
	if (strcmp(token, id->token))
		return HOST_FORGED;
	if (!one)
		return HOST_NEW;
	if (strcmp(one->boot_id, id->boot_id))
		return boot_is_old(one, id->boot_id) ? HOST_REPEATED : HOST_NEW;
	return is_behind(one, id) ? HOST_REPEATED : HOST_NEW;
}

enum host_message hosts_take(struct hosts *h, const struct host_message_id *id, struct host **ret)
{
	enum host_message what = hosts_look(h, id);
	struct host *one = host_find(h, id->name);
	uint64_t at_ns;

	if (what != HOST_NEW)
		return what;
	one = one ? one : host_new(h, id);
	if (!one || (strcmp(one->boot_id, id->boot_id) && !host_boots(one, id->boot_id)))
		return HOST_NO_MEMORY;
	number_note(one, id);
	clock_note(&one->clock, id);
	at_ns = host_time(one, id->made_ns);
	one->at_ns = at_ns > one->at_ns ? at_ns : one->at_ns + 1;
	*ret = one;
	return HOST_NEW;
}
