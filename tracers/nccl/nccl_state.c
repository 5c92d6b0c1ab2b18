/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_state.c - see nccl_state.h. The abort flag lies behind a pointer: a second read, where it does not lie where it
 * lay.
 */
#include "tracers/nccl/nccl_state.h"

#include <errno.h>
#include <string.h>

#include "inspect/reader/reader.h"

#define AT_ONCE 32
#define FIELDS_MAX 12
#define NRANKS_MAX (1 << 20) /* more is a wrong read */

_Static_assert(AT_ONCE *FIELDS_MAX <= READER_RANGES_MAX, "one batch");

struct raw { /* as it lies in memory */
	uint64_t magic, end_magic, hash, counters[NCCL_SEQ_MAX], abort_addr, launches;
	int32_t rank, nranks, device, async_result, init_state;
	uint32_t abort; /* at the address from before */
};

bool nccl_identity_sane(uint64_t magic, uint64_t end_magic, uint64_t hash, int rank, int nranks)
{
	return magic == NCCL_MAGIC && end_magic == NCCL_MAGIC && hash && rank >= 0 && rank < nranks &&
	       nranks <= NRANKS_MAX;
}

static void range_add(struct reader_range *ranges, size_t *n, uint64_t comm, uint32_t offset, void *to, size_t len)
{
	if (offset != NCCL_NOWHERE && len)
		ranges[(*n)++] = (struct reader_range){ .addr = comm + offset, .to = to, .len = len };
}

static size_t ranges_of(const struct nccl_layout *l, uint64_t comm, struct raw *raw, struct reader_range *ranges)
{
	size_t n = 0;

	range_add(ranges, &n, comm, l->magic, &raw->magic, 8);
	range_add(ranges, &n, comm, l->hash, &raw->hash, 8);
	range_add(ranges, &n, comm, l->rank, &raw->rank, 4);
	range_add(ranges, &n, comm, l->nranks, &raw->nranks, 4);
	range_add(ranges, &n, comm, l->device, &raw->device, 4);
	range_add(ranges, &n, comm, l->counters, raw->counters, 8 * l->n_counters);
	range_add(ranges, &n, comm, l->async_result, &raw->async_result, 4);
	range_add(ranges, &n, comm, l->init_state, &raw->init_state, 4);
	range_add(ranges, &n, comm, l->abort_flag, &raw->abort_addr, 8);
	range_add(ranges, &n, comm, l->launches, &raw->launches, l->launches ? 8 : 0);
	range_add(ranges, &n, comm, l->end_magic, &raw->end_magic, 8); /* it was whole until then */
	return n;
}

static bool all_read(const struct reader_range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ranges[i].got != ranges[i].len)
			return false;
	return true;
}

static void abort_take(const struct raw *raw, const struct reader_range *flag, struct nccl_state *s)
{
	s->has_abort = flag->len && flag->addr == s->abort_addr && flag->got == flag->len;
	s->abort = s->has_abort ? raw->abort : 0;
}

static void state_fill(const struct nccl_layout *l, const struct raw *raw, struct nccl_state *s)
{
	*s = (struct nccl_state){
		.valid = nccl_identity_sane(raw->magic, raw->end_magic, raw->hash, raw->rank, raw->nranks),
		.read = true,
		.hash = raw->hash,
		.rank = raw->rank,
		.nranks = raw->nranks,
		.device = l->device != NCCL_NOWHERE ? raw->device : -1,
		.n_counters = l->n_counters,
		.has_async_result = l->async_result != NCCL_NOWHERE,
		.async_result = raw->async_result,
		.has_init_state = l->init_state != NCCL_NOWHERE,
		.init_state = raw->init_state,
	};
	s->launches = raw->launches;
	s->abort_addr = raw->abort_addr;
	memcpy(s->counters, raw->counters, sizeof(s->counters));
}

static int aborts_read(struct reader *r, pid_t pid, size_t n, unsigned deadline_ms, struct nccl_state *ret)
{
	struct reader_range ranges[AT_ONCE];
	struct nccl_state *of[AT_ONCE];
	size_t k = 0;
	int err;

	for (size_t i = 0; i < n; i++) {
		if (!ret[i].valid || !ret[i].abort_addr || ret[i].has_abort)
			continue;
		ranges[k] = (struct reader_range){ .addr = ret[i].abort_addr,
						   .to = &ret[i].abort,
						   .len = sizeof(ret[i].abort) };
		of[k++] = &ret[i];
	}
	err = k ? reader_memory(r, pid, ranges, k, deadline_ms) : 0;
	for (size_t i = 0; !err && i < k; i++)
		of[i]->has_abort = ranges[i].got == ranges[i].len;
	return err;
}

static int some_read(struct reader *r, pid_t pid, const struct nccl_layout *layouts, const struct nccl_place *places,
		     size_t n, unsigned deadline_ms, const struct nccl_state *before, struct nccl_state *ret)
{
	struct reader_range ranges[AT_ONCE * FIELDS_MAX];
	struct raw raw[AT_ONCE] = { 0 };
	size_t first[AT_ONCE + 1] = { 0 };
	int err;

	for (size_t i = 0; i < n; i++) {
		first[i + 1] =
			first[i] + ranges_of(&layouts[places[i].layout], places[i].addr, &raw[i], &ranges[first[i]]);
		ranges[first[i + 1]++] =
			(struct reader_range){ .addr = before ? before[i].abort_addr : 0,
					       .to = &raw[i].abort,
					       .len = before && before[i].abort_addr ? sizeof(raw[i].abort) : 0 };
	}
	err = reader_memory(r, pid, ranges, first[n], deadline_ms);
	for (size_t i = 0; !err && i < n; i++) {
		ret[i] = (struct nccl_state){ .valid = false };
		if (!all_read(&ranges[first[i]], first[i + 1] - first[i] - 1))
			continue;
		state_fill(&layouts[places[i].layout], &raw[i], &ret[i]);
		abort_take(&raw[i], &ranges[first[i + 1] - 1], &ret[i]);
	}
	return err ? err : aborts_read(r, pid, n, deadline_ms, ret);
}

int nccl_states_read(struct reader *r, pid_t pid, const struct nccl_layout *layouts, const struct nccl_place *places,
		     size_t n, unsigned deadline_ms, const struct nccl_state *before, struct nccl_state *ret)
{
	int err = 0;

	for (size_t i = 0; !err && i < n; i += AT_ONCE)
		err = some_read(r, pid, layouts, places + i, n - i < AT_ONCE ? n - i : AT_ONCE, deadline_ms,
				before ? before + i : NULL, ret + i);
	return err;
}

bool nccl_counters_stand(const struct nccl_state *s, size_t n)
{
	uint64_t launches = 0, counted = 0;

	for (size_t i = 0; i < n; i++) {
		launches += s[i].valid ? s[i].launches : 0;
		for (uint32_t k = 0; s[i].valid && k < s[i].n_counters; k++)
			counted |= s[i].counters[k];
	}
	return launches && !counted;
}
