/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_bus.c - see memory_bus.h.
 */
#include "tests/unit/cluster/memory_bus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_bus memory_bus;

struct bus_cursor {
	uint64_t next;
};

static int follow(struct bus *b, enum bus_stream stream, const char *token, uint64_t from, int past_s,
		  struct bus_cursor **ret)
{
	(void)b;
	(void)stream;
	(void)token;
	(void)past_s;
	if (memory_bus.away)
		return -ENOTCONN;
	*ret = calloc(1, sizeof(**ret));
	(*ret)->next = from ? from : 1;
	return 0;
}

static int fetch(struct bus_cursor *c, int wait_ms, struct bus_message *ret)
{
	(void)wait_ms;
	if (c->next > memory_bus.n_log)
		return 0;
	*ret = (struct bus_message){ .token = "job",
				     .data = memory_bus.log[c->next - 1],
				     .len = strlen(memory_bus.log[c->next - 1]),
				     .seq = c->next };
	c->next++;
	return 1;
}

static void cursor_free(struct bus_cursor *c)
{
	free(c);
}

static int last(struct bus *b, const char *token, uint64_t *ret_seq)
{
	(void)b;
	(void)token;
	*ret_seq = memory_bus.n_log;
	return memory_bus.away ? -ENOTCONN : 0;
}

static int append(struct bus *b, const char *token, const void *data, size_t len, uint64_t after, uint64_t *ret_seq)
{
	(void)b;
	(void)token;
	if (memory_bus.away)
		return -ENOTCONN;
	if (memory_bus.appends_lost)
		return memory_bus.appends_lost--, -ETIMEDOUT;
	if (after != memory_bus.n_log)
		return -ESTALE;
	memory_bus.log[memory_bus.n_log++] = strndup(data, len);
	*ret_seq = memory_bus.n_log;
	if (memory_bus.answers_lost)
		return memory_bus.answers_lost--, -ETIMEDOUT;
	return 0;
}

static struct memory_value *value_of(enum bus_table table, const char *key)
{
	int i = 0;

	while (i < memory_bus.n_values &&
	       (memory_bus.values[i].table != table || strcmp(memory_bus.values[i].key, key)))
		i++;
	if (i == memory_bus.n_values) {
		memory_bus.values[i].table = table;
		snprintf(memory_bus.values[i].key, sizeof(memory_bus.values[i].key), "%s", key);
		memory_bus.n_values++;
	}
	return &memory_bus.values[i];
}

static int table_read(struct bus *b, enum bus_table table, const char *key, char *value, size_t size,
		      uint64_t *ret_revision)
{
	struct memory_value *v = value_of(table, key);

	(void)b;
	snprintf(value, size, "%s", v->value);
	*ret_revision = v->revision;
	if (memory_bus.is_behind && memory_bus.n_read++ % 2)
		--*ret_revision;
	return memory_bus.away ? -ENOTCONN : 0;
}

static int table_write(struct bus *b, enum bus_table table, const char *key, const char *value, uint64_t revision,
		       uint64_t *ret_revision)
{
	struct memory_value *v = value_of(table, key);

	(void)b;
	*ret_revision = BUS_NO_REVISION; /* as the library leaves it where it is refused */
	if (memory_bus.away)
		return -ENOTCONN;
	if (revision != v->revision)
		return -ESTALE;
	snprintf(v->value, sizeof(v->value), "%s", value);
	*ret_revision = ++v->revision;
	return 0;
}

static int piece_put(struct bus *b, const char *key, const void *data, size_t len)
{
	(void)b;
	(void)data;
	(void)len;
	if (memory_bus.away)
		return -ENOTCONN;
	snprintf(memory_bus.piece_keys[memory_bus.n_pieces++ % 16], BUS_KEY_MAX, "%s", key);
	return 0;
}

static int ask(struct bus *b, const char *whose, const void *data, size_t len, struct bus_cursor **ret_answers)
{
	int i = memory_bus.n_asked % 16;

	(void)b;
	(void)whose;
	(void)ret_answers;
	if (memory_bus.away)
		return -ENOTCONN;
	memcpy(memory_bus.asked[i], data, len < sizeof(memory_bus.asked[i]) ? len : sizeof(memory_bus.asked[i]));
	memory_bus.asked_len[i] = len;
	memory_bus.n_asked++;
	return 0;
}

static const struct bus_class class = {
	.follow = follow,
	.fetch = fetch,
	.cursor_free = cursor_free,
	.last = last,
	.append = append,
	.table_read = table_read,
	.table_write = table_write,
	.piece_put = piece_put,
	.ask = ask,
};

void memory_bus_begin(void)
{
	memory_bus = (struct memory_bus){ .base.class = &class };
}

void memory_bus_end(void)
{
	for (uint64_t i = 0; i < memory_bus.n_log; i++)
		free(memory_bus.log[i]);
	memory_bus.n_log = 0;
}

int memory_bus_count(const char *text)
{
	int n = 0;

	for (uint64_t i = 0; i < memory_bus.n_log; i++)
		n += strstr(memory_bus.log[i], text) != NULL;
	return n;
}
