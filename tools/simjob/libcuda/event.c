// SPDX-License-Identifier: Apache-2.0
/*
 * Events. A recording is an instant, which becomes known when the stream's thread reaches it, and has passed when the
 * clock says so. A query is thus one comparison and wakes no thread.
 */
#include "tools/simjob/libcuda/device.h"

#include <stdlib.h>

struct sim_instant *instant_create(void)
{
	struct sim_instant *instant = calloc(1, sizeof(*instant));

	if (instant)
		instant->refs = 1;
	return instant;
}

struct sim_instant *instant_get(struct sim_instant *instant)
{
	if (instant)
		atomic_fetch_add(&instant->refs, 1);
	return instant;
}

void instant_put(struct sim_instant *instant)
{
	if (instant && atomic_fetch_sub(&instant->refs, 1) == 1)
		free(instant);
}

void instant_schedule(struct sim_instant *instant, uint64_t end_ns)
{
	instant->end_ns = end_ns;
	atomic_store(&instant->scheduled, 1);
	futex_wake_all(&instant->scheduled);
}

uint64_t instant_wait_scheduled(struct sim_instant *instant)
{
	while (!atomic_load(&instant->scheduled))
		futex_wait(&instant->scheduled, 0, 0);
	return instant->end_ns;
}

void instant_wait_reached(struct sim_instant *instant)
{
	uint64_t end_ns = instant_wait_scheduled(instant);

	while (clock_now_ns() < end_ns)
		futex_wait(&instant->scheduled, 1, end_ns);
}

static bool instant_is_reached(const struct sim_instant *instant)
{
	return atomic_load(&instant->scheduled) && clock_now_ns() >= instant->end_ns;
}

/* The recording in force, with a reference; NULL before the first one. */
static struct sim_instant *event_instant(CUevent event)
{
	struct sim_instant *instant;

	pthread_mutex_lock(&event->lock);
	instant = instant_get(event->instant);
	pthread_mutex_unlock(&event->lock);
	return instant;
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
	instant_put(event->instant);
	pthread_mutex_destroy(&event->lock);
	free(event);
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream handle)
{
	struct CUstream_st *stream = stream_resolve(handle);
	struct sim_instant *instant, *old;
	CUresult res;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream && capture_takes_record(stream, event, &res))
		return res;
	instant = instant_create();
	if (!instant || !stream) {
		instant_put(instant);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&event->lock);
	old = event->instant;
	event->instant = instant_get(instant);
	pthread_mutex_unlock(&event->lock);
	instant_put(old);
	return stream_enqueue(stream, &(struct sim_work){ .kind = WORK_RECORD, .instant = instant });
}

static CUresult stream_wait_event(CUstream handle, CUevent event)
{
	struct CUstream_st *stream = stream_resolve(handle);
	struct sim_instant *instant;
	CUresult res;

	if (!event || !stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (capture_takes_wait(stream, event, &res))
		return res;
	instant = event_instant(event);
	if (!instant)
		return CUDA_SUCCESS;
	return stream_enqueue(stream, &(struct sim_work){ .kind = WORK_WAIT, .instant = instant });
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
	struct sim_instant *instant;
	bool reached;
	CUresult res = call_injected_error(__func__);

	if (!res)
		res = event ? capture_permits_event_use(event) : CUDA_ERROR_INVALID_HANDLE;
	if (res)
		return res;
	instant = event_instant(event);
	reached = !instant || instant_is_reached(instant);
	instant_put(instant);
	return reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SIM_EXPORT CUresult cuEventSynchronize(CUevent event)
{
	struct sim_instant *instant;
	CUresult res = call_injected_error(__func__);

	if (!res)
		res = event ? capture_permits_event_use(event) : CUDA_ERROR_INVALID_HANDLE;
	if (res)
		return res;
	instant = event_instant(event);
	if (instant)
		instant_wait_reached(instant);
	instant_put(instant);
	return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ret_ms, CUevent start, CUevent end)
{
	struct sim_instant *from, *to;
	CUresult res = CUDA_SUCCESS;

	if (!ret_ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start || !end || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if ((res = capture_permits_event_use(start)) || (res = capture_permits_event_use(end)))
		return res;
	from = event_instant(start);
	to = event_instant(end);
	if (!from || !to)
		res = CUDA_ERROR_INVALID_HANDLE;
	else if (!instant_is_reached(from) || !instant_is_reached(to))
		res = CUDA_ERROR_NOT_READY;
	else
		*ret_ms = (float)((double)(int64_t)(to->end_ns - from->end_ns) / NSEC_PER_MSEC);
	instant_put(from);
	instant_put(to);
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
