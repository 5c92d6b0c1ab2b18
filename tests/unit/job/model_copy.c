/* SPDX-License-Identifier: Apache-2.0
 *
 * model_copy.c - see model_copy.h.
 */
#include "tests/unit/job/model_copy.h"

#include <assert.h>
#include <stdlib.h>

#include "pipeline/decode.h"
#include "model/snapshot/snapshot.h"
#include "pipeline/snapshot_record.h"

static int pass(void *to, const struct event *e)
{
	static union {
		struct wire_hdr h;
		char bytes[WIRE_SIZE_MAX];
	} raw;
	struct event out[DECODE_EVENTS_MAX];
	struct model_copy *c = to;
	int size = snapshot_encode(e, &raw.h);

	assert(size > 0 && size == raw.h.size);
	assert(decode_record(&raw.h, c->strings, out) == 1);
	assert(model_apply(c->m, &out[0]) == 0);
	c->n_records++;
	c->n_bytes += size;
	return 0;
}

void model_copy(struct model *from, struct model_copy *ret)
{
	*ret = (struct model_copy){ .m = model_new(), .strings = intern_new() };
	assert(ret->m && ret->strings);
	assert(model_snapshot(from, pass, ret) == 0);
}

void model_copy_free(struct model_copy *c)
{
	intern_free(c->strings);
}
