/* SPDX-License-Identifier: Apache-2.0
 *
 * collective.h - a collective of a type and size: how many elements, who has which, the call, and what each element has
 * to be afterwards.
 *
 * Operands. For what only moves, every element is 64 random bits, cut to the type. For a reduction it is an integer of
 * at most `most` in size, so small that every partial sum over all ranks, in any order, is exact in the type: the
 * expected result is exact, too, and there is no tolerance. Where the type's range is smaller than the number of ranks,
 * only every `every`-th rank brings something to an element.
 */
#ifndef STRESS_NCCL_COLLECTIVE_H
#define STRESS_NCCL_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/stress/options.h"

enum collective_id {
#define COLLECTIVE(id, ...) COLLECTIVE_##id,
#include "tools/stress/nccl/collectives.def"
#undef COLLECTIVE
	N_COLLECTIVES
};

enum type_id {
#define TYPE(id, ...) TYPE_##id,
#include "tools/stress/nccl/types.def"
#undef TYPE
	N_TYPES
};

struct nccl_type {
	const char *name;
	int code;
	uint32_t bytes, mantissa, bias, is_signed, exact;
	int version_min;
};

extern const struct nccl_type nccl_types[N_TYPES];

struct collective {
	const char *name, *call;
	bool reduces, can_be_in_place, is_of_parts;
};

extern const struct collective collectives[N_COLLECTIVES];

/* One measurement, of which all ranks of a group do their part. */
struct nccl_case {
	uint32_t collective, type, in_place, iterations, skip, root;
	uint64_t bytes, seed, limit_ns;
};

/* What a rank fills, calls and checks. Places are elements from the begin of the buffer. */
struct layout {
	uint64_t count;                    /* of one call */
	uint64_t send, send_at, recv;      /* elements, and where they are when in place */
	uint64_t recv_at;                  /* of what is received, when in place */
	bool fills, checks;                /* this rank brings something, gets something */
	uint64_t segment, base;            /* of what is checked: kernels/stress.ptx */
	uint32_t first_rank, ranks_summed; /* whose parts are in it */
	uint64_t bytes;                    /* of the whole operation, as nccl-tests counts them */
};

struct pattern {
	uint64_t seed;
	uint32_t most, every;
};

void collective_layout(const struct nccl_case *c, int n, int rank, struct layout *layout);
void collective_pattern(const struct nccl_case *c, int n, struct pattern *pattern);
/* Buffers that operations of `bytes` walk over: room for each of both, so that none finds its operands in the cache,
 * as no training step does (nccl-tests does the same). free_bytes: of the GPU; where that is little, `bytes`. */
uint64_t collective_room(uint64_t bytes, uint64_t cache_bytes, uint64_t free_bytes);
/* Where in the room operation i begins; it stays there where the room has one place. */
uint64_t collective_place(uint64_t room, uint64_t bytes, uint32_t i);
/* Bytes a second over the slowest link, from bytes a second of the operation. */
double collective_bus_factor(uint32_t collective, int n);

/* "all_reduce,alltoall" or "fp32,bf16" -> bits; "all". 0 or -EINVAL. */
int collectives_parse(const char *text, uint32_t *bits);
int types_parse(const char *text, uint32_t *bits);
/* "1M", "1K-1G", "8-128M:2". 0 or -EINVAL. */
int bytes_parse(const char *text, struct nccl_options *options);

#endif
