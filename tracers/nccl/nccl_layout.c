/* SPDX-License-Identifier: Apache-2.0
 *
 * nccl_layout.c - see nccl_layout.h. Names of members are NCCL's own, 2.18 to 2.30.
 */
#include "tracers/nccl/nccl_layout.h"

#include <errno.h>

#include "inspect/elf/struct_layout.h"

#define DWARF_DEADLINE_MS 5000 /* a cold page cache and 218 MB */

enum field { MAGIC, END_MAGIC, HASH, RANK, NRANKS, DEVICE, COUNTERS, ASYNC, INIT_STATE, ABORT, LAUNCHES, FIELDS };

static uint32_t place_of(const struct field_layout *f, uint32_t size)
{
	return f->found && (!f->size || f->size == size) ? f->offset : NCCL_NOWHERE;
}

int nccl_layout_fetch(struct reader *r, int fd, struct nccl_layout *ret)
{
	static const char *const names[FIELDS] = {
		"startMagic", "endMagic",    "commHash",  "rank",      "nRanks",  "cudaDev",
		"seqNumber",  "asyncResult", "initState", "abortFlag", "opCount",
	};
	const struct field_layout *f;
	struct struct_layout s;
	int err = struct_layout_fetch(r, fd, "ncclComm", names, FIELDS, DWARF_DEADLINE_MS, &s);

	if (err)
		return err;
	f = s.fields;
	if (!f[MAGIC].found || !f[HASH].found || !f[RANK].found || !f[NRANKS].found)
		return -ENOENT;
	*ret = (struct nccl_layout){
		.magic = f[MAGIC].offset,
		.end_magic = f[f[END_MAGIC].found ? END_MAGIC : MAGIC].offset,
		.hash = f[HASH].offset,
		.rank = f[RANK].offset,
		.nranks = f[NRANKS].offset,
		.device = place_of(&f[DEVICE], 4),
		.counters = f[COUNTERS].found ? f[COUNTERS].offset : NCCL_NOWHERE,
		.async_result = place_of(&f[ASYNC], 4),
		.init_state = place_of(&f[INIT_STATE], 4),
		.abort_flag = place_of(&f[ABORT], 8),
		.size = s.size,
		.launches = f[LAUNCHES].found && f[LAUNCHES].size == 8 ? f[LAUNCHES].offset : 0,
	};
	if (f[COUNTERS].found && f[COUNTERS].count <= NCCL_SEQ_MAX)
		ret->n_counters = f[COUNTERS].count;
	return 0;
}
