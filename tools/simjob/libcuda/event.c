// SPDX-License-Identifier: Apache-2.0
/*
 * Events. A recording is a mark: an instant that becomes known when the stream's thread reaches it, and that has
 * passed when the clock says so. A query is thus one comparison and wakes nobody.
 */
#include "tools/simjob/libcuda/device.h"

#include <stdlib.h>

struct sim_mark *mark_create(void)
{
	struct sim_mark *mark = calloc(1, sizeof(*mark));

	if (mark)
		mark->refs = 1;
	return mark;
}

struct sim_mark *mark_get(struct sim_mark *mark)
{
	if (mark)
		atomic_fetch_add(&mark->refs, 1);
	return mark;
}

void mark_put(struct sim_mark *mark)
{
	if (mark && atomic_fetch_sub(&mark->refs, 1) == 1)
		free(mark);
}

void mark_schedule(struct sim_mark *mark, uint64_t end_ns)
{
	mark->end_ns = end_ns;
	atomic_store(&mark->scheduled, 1);
	futex_wake_all(&mark->scheduled);
}

uint64_t mark_wait_scheduled(struct sim_mark *mark)
{
	while (!atomic_load(&mark->scheduled))
		futex_wait(&mark->scheduled, 0, 0);
	return mark->end_ns;
}

void mark_wait_reached(struct sim_mark *mark)
{
	uint64_t end_ns = mark_wait_scheduled(mark);

	while (clock_now_ns() < end_ns)
		futex_wait(&mark->scheduled, 1, end_ns);
}

static bool mark_is_reached(const struct sim_mark *mark)
{
	return atomic_load(&mark->scheduled) && clock_now_ns() >= mark->end_ns;
}

/* The recording in force, with a reference; NULL before the first one. */
static struct sim_mark *event_mark(CUevent event)
{
	struct sim_mark *mark;

	pthread_mutex_lock(&event->lock);
	mark = mark_get(event->mark);
	pthread_mutex_unlock(&event->lock);
	return mark;
}

SIM_EXPORT CUresult cuEventCreate(CUevent *ret_event, unsigned int flags)
{
	struct CUevent_st *event;

	if (!ret_event)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	event = calloc(1, sizeof(*event));
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&event->lock, NULL);
	event->flags = flags;
	*ret_event = event;
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	capture_forget_event(event);
	mark_put(event->mark);
	pthread_mutex_destroy(&event->lock);
	free(event);
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream handle)
{
	struct CUstream_st *stream = stream_resolve(handle);
	struct sim_mark *mark, *old;
	CUresult res;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream && capture_takes_record(stream, event, &res))
		return res;
	mark = mark_create();
	if (!mark || !stream) {
		mark_put(mark);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&event->lock);
	old = event->mark;
	event->mark = mark_get(mark);
	pthread_mutex_unlock(&event->lock);
	mark_put(old);
	return stream_enqueue(stream, &(struct sim_work){ .kind = WORK_RECORD, .mark = mark });
}

static CUresult stream_wait_event(CUstream handle, CUevent event)
{
	struct CUstream_st *stream = stream_resolve(handle);
	struct sim_mark *mark;
	CUresult res;

	if (!event || !stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (capture_takes_wait(stream, event, &res))
		return res;
	mark = event_mark(event);
	if (!mark)
		return CUDA_SUCCESS;
	return stream_enqueue(stream, &(struct sim_work){ .kind = WORK_WAIT, .mark = mark });
}

#define DEFINE_EVENT_CALLS(SUFFIX) \
	SIM_EXPORT CUresult cuEventRecord##SUFFIX(CUevent event, CUstream stream) \
	{ \
		CUresult res = call_injected_error(__func__); \
\
		return res ? res : event_record(event, stream); \
	} \
	SIM_EXPORT CUresult cuEventRecordWithFlags##SUFFIX(CUevent event, CUstream stream, unsigned int flags) \
	{ \
		(void)flags; \
		return event_record(event, stream); \
	} \
	SIM_EXPORT CUresult cuStreamWaitEvent##SUFFIX(CUstream stream, CUevent event, unsigned int flags) \
	{ \
		CUresult res = call_injected_error(__func__); \
\
		(void)flags; \
		return res ? res : stream_wait_event(stream, event); \
	}

DEFINE_EVENT_CALLS()
DEFINE_EVENT_CALLS(_ptsz)

SIM_EXPORT CUresult cuEventQuery(CUevent event)
{
	struct sim_mark *mark;
	bool reached;
	CUresult res = call_injected_error(__func__);

	if (!res)
		res = event ? capture_permits_event_use(event) : CUDA_ERROR_INVALID_HANDLE;
	if (res)
		return res;
	mark = event_mark(event);
	reached = !mark || mark_is_reached(mark);
	mark_put(mark);
	return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	struct sim_mark *mark;
	CUresult res = call_injected_error(__func__);

	if (!res)
		res = event ? capture_permits_event_use(event) : CUDA_ERROR_INVALID_HANDLE;
	if (res)
		return res;
	mark = event_mark(event);
	if (mark)
		mark_wait_reached(mark);
	mark_put(mark);
	return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ret_ms, CUevent start, CUevent end)
{
	struct sim_mark *from, *to;
	CUresult res = CUDA_SUCCESS;

	if (!ret_ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start || !end || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if ((res = capture_permits_event_use(start)) || (res = capture_permits_event_use(end)))
		return res;
	from = event_mark(start);
	to = event_mark(end);
	if (!from || !to)
		res = CUDA_ERROR_INVALID_HANDLE;
	else if (!mark_is_reached(from) || !mark_is_reached(to))
		res = CUDA_ERROR_NOT_READY;
	else
		*ret_ms = (float)((double)(int64_t)(to->end_ns - from->end_ns) / NSEC_PER_MSEC);
	mark_put(from);
	mark_put(to);
	return res;
}

SIM_EXPORT CUresult cuEventElapsedTime(float *ret_ms, CUevent start, CUevent end)
{
	return event_elapsed(ret_ms, start, end);
}

SIM_EXPORT CUresult cuEventElapsedTime_v2(float *ret_ms, CUevent start, CUevent end)
{
	return event_elapsed(ret_ms, start, end);
}
