/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.c - see ask.h. What comes in may be anybody's who may ask: it is bounded before it is unpacked, and copied.
 */
#include "cluster/ask.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "cluster.pb-c.h"

#define VERSION 1
#define USER_MAX INT64_C(0xffffffff)

void ask_whose(int64_t user, char to[ASK_WHOSE_MAX])
{
	if (user == ASK_ANY_USER)
		snprintf(to, ASK_WHOSE_MAX, ASK_ALL);
	else
		snprintf(to, ASK_WHOSE_MAX, "u%" PRId64, user);
}

static bool whose_read(const char *text, int64_t *ret)
{
	char *end;

	*ret = ASK_ANY_USER;
	if (!strcmp(text, ASK_ALL))
		return true;
	if (text[0] != 'u' || text[1] < '0' || text[1] > '9')
		return false;
	errno = 0;
	*ret = strtoll(text + 1, &end, 10);
	return !*end && !errno && *ret <= USER_MAX;
}

/* False: it has no room. */
static bool text_copy(char *to, size_t size, const char *from)
{
	int n = snprintf(to, size, "%s", from ? from : "");

	utf8_tame(to, "");
	return n >= 0 && (size_t)n < size;
}

size_t ask_pack(const struct ask *a, void *to)
{
	Cluster__Ask m = CLUSTER__ASK__INIT;
	char *hosts[ASK_HOSTS_MAX];

	for (size_t i = 0; i < a->n_hosts; i++)
		hosts[i] = (char *)a->hosts[i];
	m.has_version = m.has_kind = 1;
	m.version = VERSION;
	m.kind = (Cluster__Ask__Kind)a->kind;
	m.id = (char *)a->id;
	m.job = *a->job ? (char *)a->job : NULL;
	m.n_hosts = a->n_hosts;
	m.hosts = hosts;
	return cluster__ask__get_packed_size(&m) <= ASK_BYTES_MAX ? cluster__ask__pack(&m, to) : 0;
}

static bool ask_take(const Cluster__Ask *m, struct ask *ret)
{
	if (!m->has_version || m->version > VERSION || !m->id || !*m->id || m->n_hosts > ASK_HOSTS_MAX)
		return false;
	ret->kind = m->kind == CLUSTER__ASK__KIND__WINDOW ? ASK_WINDOW
		    : m->kind == CLUSTER__ASK__KIND__LOOK ? ASK_LOOK
							  : ASK_NOTHING;
	ret->n_hosts = m->n_hosts;
	for (size_t i = 0; i < m->n_hosts; i++)
		if (!text_copy(ret->hosts[i], sizeof(ret->hosts[i]), m->hosts[i]))
			return false;
	return ret->kind != ASK_NOTHING && text_copy(ret->id, sizeof(ret->id), m->id) &&
	       text_copy(ret->job, sizeof(ret->job), m->job);
}

bool ask_unpack(const char *whose, const void *data, size_t len, struct ask *ret)
{
	Cluster__Ask *m = len <= ASK_BYTES_MAX ? cluster__ask__unpack(NULL, len, data) : NULL;
	bool ok;

	memset(ret, 0, sizeof(*ret));
	ok = m && whose_read(whose, &ret->user) && ask_take(m, ret);
	if (m)
		cluster__ask__free_unpacked(m, NULL);
	return ok;
}

bool ask_is_for(const struct ask *a, const char *host_token)
{
	for (size_t i = 0; i < a->n_hosts; i++)
		if (!strcmp(a->hosts[i], host_token))
			return true;
	return !a->n_hosts;
}

size_t file_head_pack(const struct file_head *h, void *to)
{
	Cluster__FileHead m = CLUSTER__FILE_HEAD__INIT;

	m.has_version = m.has_bytes = m.has_pieces = 1;
	m.version = VERSION;
	m.host = (char *)h->host;
	m.bytes = h->bytes;
	m.pieces = h->pieces;
	m.error = *h->error ? (char *)h->error : NULL;
	return cluster__file_head__pack(&m, to);
}

bool file_head_unpack(const void *data, size_t len, struct file_head *ret)
{
	Cluster__FileHead *m = len <= ASK_BYTES_MAX ? cluster__file_head__unpack(NULL, len, data) : NULL;
	bool ok = m && m->has_version && m->version <= VERSION;

	memset(ret, 0, sizeof(*ret));
	ok = ok && text_copy(ret->host, sizeof(ret->host), m->host) &&
	     text_copy(ret->error, sizeof(ret->error), m->error);
	if (ok) {
		ret->bytes = m->bytes;
		ret->pieces = m->pieces;
	}
	if (m)
		cluster__file_head__free_unpacked(m, NULL);
	return ok;
}

void file_key(char to[BUS_KEY_MAX], int64_t user, const char *id, const char *host, uint32_t piece)
{
	char whose[ASK_WHOSE_MAX], token[BUS_TOKEN_MAX];

	ask_whose(user, whose);
	bus_token(id, token);
	snprintf(to, BUS_KEY_MAX, "%s.%s.%s.%" PRIu32, whose, token, host, piece);
}
