/* SPDX-License-Identifier: Apache-2.0
 *
 * collective.c - see collective.h.
 */
#include "tools/stress/nccl/collective.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_BYTES 16  /* NCCL's fast paths need it: as nccl-tests cuts its counts */
#define PLACE_ALIGN 256 /* of buffers */
#define BYTES_MAX (1ull << 40)

const struct nccl_type nccl_types[N_TYPES] = {
#define TYPE(id, ...) { __VA_ARGS__ },
#include "tools/stress/nccl/types.def"
#undef TYPE
};

const struct collective collectives[N_COLLECTIVES] = {
#define COLLECTIVE(id, name, call, reduces, in_place, of_parts, factor) { name, call, reduces, in_place, of_parts },
#include "tools/stress/nccl/collectives.def"
#undef COLLECTIVE
};

static uint64_t aligned(uint64_t bytes)
{
	return (bytes + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
}

uint64_t collective_room(uint64_t bytes, uint64_t cache_bytes, uint64_t free_bytes)
{
	uint64_t room = 2 * cache_bytes;

	return aligned(bytes >= room || 4 * room > free_bytes ? bytes : room);
}

uint64_t collective_place(uint64_t room, uint64_t bytes, uint32_t i)
{
	uint64_t step = aligned(bytes), places = step ? room / step : 0;

	return places ? i % places * step : 0;
}

double collective_bus_factor(uint32_t collective, int n)
{
	switch (collective) {
#define COLLECTIVE(id, name, call, reduces, in_place, of_parts, factor) \
	case COLLECTIVE_##id: \
		return factor;
#include "tools/stress/nccl/collectives.def"
#undef COLLECTIVE
	}
	return 1;
}

void collective_layout(const struct nccl_case *c, int n, int rank, struct layout *l)
{
	uint32_t bytes = nccl_types[c->type].bytes;
	uint64_t least = ALIGN_BYTES / bytes,
		 count = c->bytes / bytes / (collectives[c->collective].is_of_parts ? n : 1);

	count = count < least ? least : count / least * least;
	*l = (struct layout){ .count = count,
			      .send = count,
			      .recv = count,
			      .fills = true,
			      .checks = true,
			      .segment = count,
			      .ranks_summed = 1,
			      .bytes = count * bytes * (collectives[c->collective].is_of_parts ? n : 1) };
	switch (c->collective) {
	case COLLECTIVE_all_reduce: l->ranks_summed = n; break;
	case COLLECTIVE_all_gather:
		l->recv = n * count;
		l->send_at = rank * count;
		break;
	case COLLECTIVE_reduce_scatter:
		l->send = n * count;
		l->recv_at = l->base = rank * count;
		l->ranks_summed = n;
		break;
	case COLLECTIVE_broadcast:
		l->fills = rank == (int)c->root;
		l->first_rank = c->root;
		break;
	case COLLECTIVE_reduce:
		l->checks = rank == (int)c->root;
		l->ranks_summed = n;
		break;
	case COLLECTIVE_alltoall:
		l->send = l->recv = n * count;
		l->base = rank * count;
		break;
	case COLLECTIVE_sendrecv: l->first_rank = (rank + n - 1) % n; break;
	}
}

void collective_pattern(const struct nccl_case *c, int n, struct pattern *p)
{
	uint32_t exact = nccl_types[c->type].exact, ranks = n;

	*p = (struct pattern){ .seed = c->seed, .every = 1 };
	if (!collectives[c->collective].reduces)
		return;
	p->most = exact / ranks;
	if (p->most)
		return;
	p->most = 1;
	p->every = (ranks + exact - 1) / exact;
}

/* --- what the user wrote --- */

static int list_parse(const char *text, int (*find)(const char *word), int n, uint32_t *bits)
{
	char copy[256], *rest = copy, *word;

	*bits = 0;
	if (!*text || strlen(text) >= sizeof(copy))
		return -EINVAL;
	snprintf(copy, sizeof(copy), "%s", text);
	while ((word = strsep(&rest, ","))) {
		int i = find(word);

		if (i < 0 && strcmp(word, "all"))
			return -EINVAL;
		*bits |= i < 0 ? (1u << n) - 1 : 1u << i;
	}
	return 0;
}

static int collective_find(const char *word)
{
	for (int i = 0; i < N_COLLECTIVES; i++)
		if (!strcmp(collectives[i].name, word))
			return i;
	return -1;
}

static int type_find(const char *word)
{
	for (int i = 0; i < N_TYPES; i++)
		if (!strcmp(nccl_types[i].name, word))
			return i;
	return -1;
}

int collectives_parse(const char *text, uint32_t *bits)
{
	return list_parse(text, collective_find, N_COLLECTIVES, bits);
}

int types_parse(const char *text, uint32_t *bits)
{
	return list_parse(text, type_find, N_TYPES, bits);
}

/* "8", "64K", "1M", "4G"; *end: behind it. 0: none. */
static uint64_t size_take(const char *text, char **end)
{
	uint64_t size = *text >= '0' && *text <= '9' ? strtoull(text, end, 10) : 0;
	static const char letters[] = "KMG";
	const char *letter;

	if (!size || size > BYTES_MAX)
		return 0;
	letter = **end ? strchr(letters, **end) : NULL;
	if (letter) {
		size <<= 10 * (1 + (letter - letters));
		*end += 1;
	}
	return size <= BYTES_MAX ? size : 0;
}

int bytes_parse(const char *text, struct nccl_options *o)
{
	char *end = NULL;

	o->bytes_min = o->bytes_max = size_take(text, &end);
	o->factor = 4;
	if (o->bytes_min && *end == '-')
		o->bytes_max = size_take(end + 1, &end);
	if (o->bytes_min && o->bytes_max && *end == ':')
		o->factor = strtoul(end + 1, &end, 10);
	return !o->bytes_min || o->bytes_max < o->bytes_min || *end || o->factor < 2 || o->factor > 1024 ? -EINVAL : 0;
}
