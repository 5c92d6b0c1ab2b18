// SPDX-License-Identifier: Apache-2.0
/* One operation is called with another count, and peers hang, or with a type of the same size, and the job goes on. */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/rank.h"

enum mismatch_what { MISMATCH_COUNT, MISMATCH_DTYPE };

/* What a graph runs was fixed at its capture. */
static bool fits_op(const struct rank *rank, const struct op_place *place)
{
	(void)place;
	return !rank->launching;
}

static void call_change(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	static const ncclDataType_t same_size[ncclNumTypes] = {
		ncclUint8,    ncclInt8,  ncclUint32, ncclInt32,   ncclUint64,     ncclInt64,
		ncclBfloat16, ncclInt32, ncclInt64,  ncclFloat16, ncclFloat8e5m2, ncclFloat8e4m3,
	};
	struct op_call *call = place->call;

	injection_report(rank, injection, "begin", place);
	if (injection->what == MISMATCH_DTYPE)
		call->datatype = same_size[call->datatype];
	else
		call->count = call->count > 1 ? call->count / 2 : 2;
}

const struct fault fault_mismatch = {
	.keys = PLACE_KEYS | KEY_WHAT,
	.what = WORDS("count", "dtype"),
	.fits_op = fits_op,
	.strike = call_change,
};
