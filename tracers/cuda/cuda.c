/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c - the rows of the driver calls that tell when GPU work is over, and decode. Launches and copies are not
 * probed: they are the burst tier's. libcudart is not probed either, since its calls arrive here.
 */
#include "cuda.h"

#include <errno.h>

#include "cuda.skel.h"
#include "tracer.h"

#define SYNC(sym, kind, ptsz)                                                             \
	CALL(sym, "cuda_sync_enter", false, .what = CUDA_SYNC_BEGIN, .sync = kind, .per_thread = ptsz) \
	CALL(sym, "cuda_call_exit", true, .what = CUDA_SYNC_END)
#define MARK(sym, prog, kind, ptsz) CALL(sym, prog, false, .what = kind, .per_thread = ptsz)

#define CALLS                                                                            \
	SYNC("cuStreamSynchronize", SYNC_STREAM, 0)                                      \
	SYNC("cuStreamSynchronize_ptsz", SYNC_STREAM, 1)                                 \
	SYNC("cuEventSynchronize", SYNC_EVENT, 0)                                        \
	SYNC("cuCtxSynchronize", SYNC_CONTEXT, 0)                                        \
	SYNC("cuCtxSynchronize_v2", SYNC_CONTEXT, 0)                                     \
	MARK("cuEventQuery", "cuda_query_enter", CUDA_MARK_QUERY, 0)                     \
	CALL("cuEventQuery", "cuda_call_exit", true, .what = CUDA_MARK_QUERY)            \
	MARK("cuEventRecord", "cuda_event_record_enter", CUDA_MARK, 0)                   \
	MARK("cuEventRecord_ptsz", "cuda_event_record_enter", CUDA_MARK, 1)              \
	MARK("cuEventRecordWithFlags", "cuda_event_record_enter", CUDA_MARK, 0)          \
	MARK("cuEventRecordWithFlags_ptsz", "cuda_event_record_enter", CUDA_MARK, 1)     \
	MARK("cuStreamWaitEvent", "cuda_stream_wait_event_enter", CUDA_MARK_WAIT, 0)     \
	MARK("cuStreamWaitEvent_ptsz", "cuda_stream_wait_event_enter", CUDA_MARK_WAIT, 1)

static const struct probe cuda_probes[] = {
#define CALL(sym, prog, ret, ...) { .symbol = sym, .program = prog, .at_return = ret },
	CALLS
#undef CALL
};

static const struct cuda_call cuda_calls[] = {
#define CALL(sym, prog, ret, ...) { __VA_ARGS__ },
	CALLS
#undef CALL
};

static const char *const cuda_markers[] = { "cuStreamSynchronize", NULL };

static const void *cuda_object(size_t *ret_size)
{
	return cuda_bpf__elf_bytes(ret_size);
}

static int cuda_start(struct tracer_handle *h)
{
	_Static_assert(sizeof(cuda_calls) / sizeof(cuda_calls[0]) <= CUDA_CALLS_MAX, "more calls than the map holds");
	int err = 0;

	for (uint32_t i = 0; !err && i < sizeof(cuda_calls) / sizeof(cuda_calls[0]); i++)
		err = tracer_map_put(h, "cuda_calls", &i, &cuda_calls[i]);
	return err;
}

static int decode_sync(const struct cuda_sync *r, struct event *e)
{
	e->kind = r->hdr.kind == CUDA_SYNC_BEGIN ? EV_SYNC_BEGIN : EV_SYNC_END;
	e->sync.kind = r->sync;
	e->sync.handle = r->handle;
	e->sync.result = r->result;
	e->sync.begin_ns = r->begin_ns;
	return 1;
}

static int decode_mark(const struct cuda_mark *r, struct event *e)
{
	e->kind = r->hdr.kind == CUDA_MARK ? EV_MARK : r->hdr.kind == CUDA_MARK_WAIT ? EV_MARK_WAIT : EV_MARK_QUERY;
	e->mark.handle = r->event;
	e->mark.stream = r->stream;
	e->mark.result = r->result;
	return 1;
}

static int cuda_decode(const struct wire_hdr *h, struct intern *strings, struct event *out, int max)
{
	bool sync = h->kind == CUDA_SYNC_BEGIN || h->kind == CUDA_SYNC_END;

	(void)strings;
	if (max < 1 || h->kind < CUDA_SYNC_BEGIN || h->kind > CUDA_MARK_QUERY)
		return -EINVAL;
	if (h->size < (sync ? sizeof(struct cuda_sync) : sizeof(struct cuda_mark)))
		return -EINVAL;
	return sync ? decode_sync((const void *)h, out) : decode_mark((const void *)h, out);
}

const struct tracer tracer_cuda = {
	.name = "cuda",
	.help = "what the host waits for on the GPU",
	.id = WIRE_CUDA,
	.probes = cuda_probes,
	.n_probes = sizeof(cuda_probes) / sizeof(cuda_probes[0]),
	.markers = cuda_markers,
	.object = cuda_object,
	.start = cuda_start,
	.decode = cuda_decode,
};
