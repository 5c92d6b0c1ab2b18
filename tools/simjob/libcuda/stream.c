// SPDX-License-Identifier: Apache-2.0
/*
 * Streams: a queue and a thread each. The thread works through the queue in order and computes when each piece ends;
 * see device.h for why it does not sleep meanwhile. Only a host function makes it wait for the clock.
 */
#include "tools/simjob/libcuda/device.h"

#include <stdlib.h>
#include <sys/prctl.h>

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *streams;
static struct CUstream_st *default_stream;

void sleep_until_ns(uint64_t deadline_ns)
{
	static const _Atomic uint32_t never;

	while (!futex_wait(&never, 0, deadline_ns))
		;
}

static uint64_t callback_kernel_run(const struct sim_work *work, uint64_t ready_ns)
{
	struct sim_gpu_span *span = usage_nccl_begin(ready_ns);
	uint64_t end_ns = work->kernel->run(work->arg, ready_ns);

	usage_nccl_end(span, end_ns);
	return end_ns;
}

uint64_t work_run(struct sim_work *work, uint64_t ready_ns)
{
	uint64_t end_ns = ready_ns;

	switch (work->kind) {
	case WORK_KERNEL:
		end_ns += work->duration_ns;
		usage_note(ready_ns, end_ns);
		break;
	case WORK_COPY: end_ns += work->duration_ns; break;
	case WORK_CALLBACK_KERNEL: end_ns = callback_kernel_run(work, ready_ns); break;
	case WORK_RECORD: instant_schedule(work->instant, end_ns); break;
	case WORK_WAIT: end_ns = instant_wait_scheduled(work->instant); break;
	case WORK_HOST_FUNC:
		sleep_until_ns(ready_ns);
		work->host_fn(work->arg);
		end_ns = clock_now_ns();
		break;
	case WORK_GRAPH: end_ns = graph_run_work(work->graph_run, ready_ns); break;
	case WORK_COMPUTE:
		work->host_fn(work->arg);
		end_ns += work->duration_ns;
		usage_note(ready_ns, end_ns);
		break;
	}
	return end_ns > ready_ns ? end_ns : ready_ns;
}

static struct sim_work *stream_take(struct CUstream_st *stream)
{
	struct sim_work *work;

	pthread_mutex_lock(&stream->lock);
	work = stream->head;
	if (work && !(stream->head = work->next))
		stream->tail = &stream->head;
	pthread_mutex_unlock(&stream->lock);
	return work;
}

static void stream_forget(struct CUstream_st *stream)
{
	struct CUstream_st **link;

	pthread_mutex_lock(&streams_lock);
	for (link = &streams; *link; link = &(*link)->next_in_process) {
		if (*link == stream) {
			*link = stream->next_in_process;
			break;
		}
	}
	pthread_mutex_unlock(&streams_lock);
}

static void stream_run_one(struct CUstream_st *stream, struct sim_work *work)
{
	uint64_t end_ns = stream->end_ns;

	/* A wait takes no time of its own: it must not drag the stream up to the instant of its call. */
	if (work->kind != WORK_WAIT && work->enqueued_ns > end_ns)
		end_ns = work->enqueued_ns;
	stream->end_ns = work_run(work, end_ns);
	instant_put(work->instant);
	graph_run_free(work->graph_run);
	free(work);
	atomic_fetch_add(&stream->scheduled, 1);
	futex_wake_all(&stream->scheduled);
}

static void *stream_thread(void *arg)
{
	struct CUstream_st *stream = arg;
	struct sim_work *work;
	uint32_t queued;

	prctl(PR_SET_NAME, "cuda-EvtHandlr");
	if (stream->context)
		usage_of(stream->context->device);
	for (;;) {
		queued = stream->queued;
		while ((work = stream_take(stream)))
			stream_run_one(stream, work);
		if (stream->closing && queued == stream->queued)
			break;
		futex_wait(&stream->queued, queued, 0);
	}
	stream_forget(stream);
	pthread_mutex_destroy(&stream->lock);
	free(stream);
	return NULL;
}

static CUresult stream_start(struct CUstream_st **ret_stream, unsigned int flags)
{
	struct CUstream_st *stream = calloc(1, sizeof(*stream));
	pthread_t thread;

	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&stream->lock, NULL);
	stream->tail = &stream->head;
	stream->flags = flags;
	pthread_mutex_lock(&streams_lock);
	stream->context = context_current();
	stream->next_in_process = streams;
	streams = stream;
	pthread_mutex_unlock(&streams_lock);
	if (pthread_create(&thread, NULL, stream_thread, stream)) {
		stream_forget(stream);
		free(stream);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_detach(thread);
	*ret_stream = stream;
	return CUDA_SUCCESS;
}

/* NULL or CU_STREAM_LEGACY. */
bool stream_is_legacy(CUstream handle)
{
	return (uintptr_t)handle <= 1;
}

struct CUstream_st *stream_resolve(CUstream handle)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	/* 1 and 2 are CU_STREAM_LEGACY and CU_STREAM_PER_THREAD. */
	if ((uintptr_t)handle > 2)
		return handle;
	pthread_mutex_lock(&lock);
	if (!default_stream)
		stream_start(&default_stream, 0);
	pthread_mutex_unlock(&lock);
	return default_stream;
}

static void stream_wait_for_room(struct CUstream_st *stream)
{
	uint32_t scheduled;

	while (stream->queued - (scheduled = stream->scheduled) >= STREAM_QUEUE_LIMIT)
		futex_wait(&stream->scheduled, scheduled, 0);
}

CUresult stream_enqueue(struct CUstream_st *stream, const struct sim_work *work)
{
	struct sim_work *copy;
	CUresult res;

	if (capture_takes_work(stream, work, &res))
		return res;
	copy = malloc(sizeof(*copy));
	if (!copy) {
		instant_put(work->instant);
		graph_run_free(work->graph_run);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*copy = *work;
	copy->next = NULL;
	copy->enqueued_ns = clock_now_ns();
	stream_wait_for_room(stream);
	pthread_mutex_lock(&stream->lock);
	*stream->tail = copy;
	stream->tail = &copy->next;
	atomic_fetch_add(&stream->queued, 1);
	pthread_mutex_unlock(&stream->lock);
	futex_wake_all(&stream->queued);
	return CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *ret_stream, unsigned int flags)
{
	if (!ret_stream)
		return CUDA_ERROR_INVALID_VALUE;
	if (!context_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	return stream_start(ret_stream, flags);
}

SIM_EXPORT CUresult cuStreamCreate(CUstream *ret_stream, unsigned int flags)
{
	return stream_create(ret_stream, flags);
}

SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream *ret_stream, unsigned int flags, int priority)
{
	(void)priority;
	return stream_create(ret_stream, flags);
}

/* As the driver's: returns at once, the stream goes when its work is done. */
SIM_EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
	if ((uintptr_t)handle <= 2)
		return CUDA_ERROR_INVALID_HANDLE;
	capture_forget_stream(handle);
	/* Under the lock, so that the thread cannot see closing, free the stream and leave us with a dead futex word.
	 */
	pthread_mutex_lock(&streams_lock);
	handle->closing = 1;
	atomic_fetch_add(&handle->queued, 1);
	futex_wake_all(&handle->queued);
	pthread_mutex_unlock(&streams_lock);
	return CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream handle)
{
	struct CUstream_st *stream = stream_resolve(handle);
	struct sim_instant *instant;
	CUresult res = stream ? capture_permits_wait_for_stream(stream) : CUDA_ERROR_OUT_OF_MEMORY;

	if (!res && stream_is_legacy(handle))
		res = capture_permits_legacy_stream();
	if (res)
		return res;
	instant = instant_create();
	if (!instant)
		return CUDA_ERROR_OUT_OF_MEMORY;
	res = stream_enqueue(stream, &(struct sim_work){ .kind = WORK_RECORD, .instant = instant_get(instant) });
	if (res == CUDA_SUCCESS)
		instant_wait_reached(instant);
	instant_put(instant);
	return res;
}

static bool stream_is_busy(const struct CUstream_st *stream)
{
	return stream->scheduled != stream->queued || clock_now_ns() < stream->end_ns;
}

static CUresult stream_query(CUstream handle)
{
	struct CUstream_st *stream = stream_resolve(handle);
	CUresult res = stream ? capture_permits_wait_for_stream(stream) : CUDA_ERROR_OUT_OF_MEMORY;

	if (res)
		return res;
	return stream_is_busy(stream) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

#define DEFINE_STREAM_CALLS(SUFFIX) \
	SIM_EXPORT CUresult cuStreamSynchronize##SUFFIX(CUstream stream) \
	{ \
		CUresult res = call_injected_error(__func__); \
\
		return res ? res : stream_synchronize(stream); \
	} \
	SIM_EXPORT CUresult cuStreamQuery##SUFFIX(CUstream stream) \
	{ \
		CUresult res = call_injected_error(__func__); \
\
		return res ? res : stream_query(stream); \
	}

DEFINE_STREAM_CALLS()
DEFINE_STREAM_CALLS(_ptsz)

/* Takes the first stream of the current context with unfinished work and marks its end. NULL when there is none. */
static struct sim_instant *streams_end_busy(void)
{
	struct sim_instant *instant = NULL;
	struct CUstream_st *stream;

	pthread_mutex_lock(&streams_lock);
	for (stream = streams; stream; stream = stream->next_in_process) {
		if (!stream->closing && (!stream->context || stream->context == context_current()) &&
		    stream_is_busy(stream))
			break;
	}
	if (stream && (instant = instant_create()))
		stream_enqueue(stream, &(struct sim_work){ .kind = WORK_RECORD, .instant = instant_get(instant) });
	pthread_mutex_unlock(&streams_lock);
	return instant;
}

CUresult stream_synchronize_all(void)
{
	struct sim_instant *instant;
	CUresult res = capture_permits_wait_for_all();

	while (!res && (instant = streams_end_busy())) {
		instant_wait_reached(instant);
		instant_put(instant);
	}
	return res;
}

static bool streams_settled(void)
{
	struct CUstream_st *stream;
	bool settled = true;

	pthread_mutex_lock(&streams_lock);
	for (stream = streams; stream; stream = stream->next_in_process)
		settled &= stream->scheduled == stream->queued;
	pthread_mutex_unlock(&streams_lock);
	return settled;
}

SIM_EXPORT void sim_device_settle(uint64_t timeout_ns)
{
	uint64_t deadline_ns = clock_now_ns() + timeout_ns;

	while (!streams_settled() && clock_now_ns() < deadline_ns)
		sleep_until_ns(clock_now_ns() + NSEC_PER_MSEC);
}
