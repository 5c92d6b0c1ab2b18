// SPDX-License-Identifier: Apache-2.0
/*
 * Stream capture: from cuStreamBeginCapture on, what is handed to the stream becomes nodes of a graph instead. A stream
 * that waits for an event recorded in the capture joins it; all that joined must have come back to the first stream by
 * the end. Calls that a capture cannot hold make it invalid, with CUDA's error codes.
 */
#include "tools/simjob/libcuda/device.h"

#include <stdlib.h>

struct capture {
	_Atomic uint32_t refs; /* one while it lasts, one for each event recorded in it */
	struct capture *next;
	uint64_t id;
	CUstreamCaptureMode mode;
	pthread_t owner;
	struct CUstream_st *origin;
	struct CUstream_st *streams; /* all that are in it, origin included */
	CUgraph graph;
	bool extends_graph; /* the graph was the caller's before */
	size_t first_node;
	bool is_invalid;
};

/* Of all captures, and of what streams and events hold of them. */
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static _Atomic uint32_t nr_captures;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void capture_put(struct capture *capture)
{
	if (capture && atomic_fetch_sub(&capture->refs, 1) == 1)
		free(capture);
}

static CUresult capture_invalidate(struct capture *capture, CUresult error)
{
	capture->is_invalid = true;
	return error;
}

static int stream_join(struct capture *capture, struct CUstream_st *stream, const struct node_set *frontier)
{
	if (node_set_add(&stream->frontier, frontier))
		return -ENOMEM;
	stream->next_in_capture = capture->streams;
	capture->streams = stream;
	stream->capture = capture;
	return 0;
}

static void stream_leave(struct CUstream_st *stream)
{
	stream->capture = NULL;
	stream->next_in_capture = NULL;
	node_set_clear(&stream->frontier);
}

bool capture_takes_work(struct CUstream_st *stream, const struct sim_work *work, CUresult *ret_result)
{
	struct capture *capture;
	CUgraphNode node;

	if (!stream->capture)
		return false;
	pthread_mutex_lock(&capture_lock);
	capture = stream->capture;
	if (capture && capture->is_invalid) {
		*ret_result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else if (capture && work->kind == WORK_GRAPH) {
		*ret_result = capture_invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	} else if (capture) {
		node = graph_append(capture->graph, work, &stream->frontier);
		*ret_result = CUDA_ERROR_OUT_OF_MEMORY;
		node_set_clear(&stream->frontier);
		if (node && !node_set_add(&stream->frontier, &(struct node_set){ .nodes = &node, .nr_nodes = 1 }))
			*ret_result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&capture_lock);
	return capture != NULL;
}

static void event_leave(CUevent event)
{
	capture_put(event->capture);
	event->capture = NULL;
	node_set_clear(&event->frontier);
}

bool capture_takes_record(struct CUstream_st *stream, CUevent event, CUresult *ret_result)
{
	struct capture *capture;

	if (!stream->capture && !event->capture)
		return false;
	pthread_mutex_lock(&capture_lock);
	capture = stream->capture;
	if (capture && capture->is_invalid) {
		*ret_result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else {
		event_leave(event);
		*ret_result = CUDA_SUCCESS;
	}
	if (capture && !capture->is_invalid) {
		event->capture = capture;
		atomic_fetch_add(&capture->refs, 1);
		if (node_set_add(&event->frontier, &stream->frontier))
			*ret_result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&capture_lock);
	return capture != NULL;
}

/* The four cases of a wait in which a capture has a part. */
static CUresult wait_capture(struct CUstream_st *stream, CUevent event)
{
	struct capture *mine = stream->capture, *its = event->capture;

	if (mine && mine->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (mine && !its)
		return capture_invalidate(mine, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	if (!its->origin)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (its->is_invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (mine && mine != its) {
		capture_invalidate(its, 0);
		return capture_invalidate(mine, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	if (mine)
		return node_set_add(&stream->frontier, &event->frontier) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	return stream_join(its, stream, &event->frontier) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

bool capture_takes_wait(struct CUstream_st *stream, CUevent event, CUresult *ret_result)
{
	bool takes;

	if (!stream->capture && !event->capture)
		return false;
	pthread_mutex_lock(&capture_lock);
	takes = stream->capture || event->capture;
	if (takes)
		*ret_result = wait_capture(stream, event);
	pthread_mutex_unlock(&capture_lock);
	return takes;
}

CUresult capture_permits_wait_for_stream(struct CUstream_st *stream)
{
	CUresult res = CUDA_SUCCESS;

	if (!stream->capture)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	if (stream->capture)
		res = capture_invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	pthread_mutex_unlock(&capture_lock);
	return res;
}

CUresult capture_permits_wait_for_all(void)
{
	struct capture *capture;
	CUresult res = CUDA_SUCCESS;

	if (!nr_captures)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (capture = captures; capture; capture = capture->next)
		res = capture_invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	pthread_mutex_unlock(&capture_lock);
	return res;
}

/* The rule of cuThreadExchangeStreamCaptureMode. */
static bool capture_forbids(const struct capture *capture)
{
	if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (pthread_equal(capture->owner, pthread_self()))
		return true;
	return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_permits_unsafe_call(void)
{
	struct capture *capture;
	CUresult res = CUDA_SUCCESS;

	if (!nr_captures)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (capture = captures; capture; capture = capture->next) {
		if (capture_forbids(capture))
			res = capture_invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	}
	pthread_mutex_unlock(&capture_lock);
	return res;
}

CUresult capture_permits_event_use(CUevent event)
{
	CUresult res = capture_permits_unsafe_call();

	if (res || !event->capture)
		return res;
	pthread_mutex_lock(&capture_lock);
	if (event->capture) {
		res = CUDA_ERROR_CAPTURED_EVENT;
		capture_invalidate(event->capture, 0);
	}
	pthread_mutex_unlock(&capture_lock);
	return res;
}

static CUresult legacy_check(bool invalidates)
{
	struct capture *capture;
	struct CUstream_st *stream;
	CUresult res = CUDA_SUCCESS;

	if (!nr_captures)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (capture = captures; capture; capture = capture->next) {
		for (stream = capture->streams; stream; stream = stream->next_in_capture) {
			if (stream->flags & CU_STREAM_NON_BLOCKING)
				continue;
			res = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
			capture->is_invalid |= invalidates;
		}
	}
	pthread_mutex_unlock(&capture_lock);
	return res;
}

CUresult capture_permits_legacy_stream(void)
{
	return legacy_check(true);
}

void capture_forget_event(CUevent event)
{
	if (!event->capture)
		return;
	pthread_mutex_lock(&capture_lock);
	event_leave(event);
	pthread_mutex_unlock(&capture_lock);
}

static CUresult capture_begin(CUstream stream, CUstreamCaptureMode mode, CUgraph graph, const struct node_set *after)
{
	static uint64_t last_id;
	struct capture *capture;

	if (stream_is_legacy(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*capture = (struct capture){ .refs = 1, .mode = mode, .owner = pthread_self(), .origin = stream };
	capture->extends_graph = graph != NULL;
	capture->graph = graph ? graph : graph_create();
	pthread_mutex_lock(&capture_lock);
	if (!capture->graph || stream_join(capture, stream, after)) {
		pthread_mutex_unlock(&capture_lock);
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	capture->first_node = graph_nr_nodes(capture->graph);
	capture->id = ++last_id;
	capture->next = captures;
	captures = capture;
	nr_captures++;
	pthread_mutex_unlock(&capture_lock);
	return CUDA_SUCCESS;
}

static CUresult end_check(const struct capture *capture, const struct CUstream_st *stream)
{
	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(capture->owner, pthread_self()))
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	return CUDA_SUCCESS;
}

static CUresult capture_finish(struct capture *capture, CUgraph *ret_graph)
{
	struct CUstream_st *stream;
	struct capture **link;
	CUresult res = CUDA_SUCCESS;

	if (capture->is_invalid)
		res = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!graph_is_joined(capture->graph, capture->first_node, &capture->origin->frontier))
		res = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	while ((stream = capture->streams)) {
		capture->streams = stream->next_in_capture;
		stream_leave(stream);
	}
	for (link = &captures; *link != capture; link = &(*link)->next)
		;
	*link = capture->next;
	nr_captures--;
	*ret_graph = res ? NULL : capture->graph;
	if (res && !capture->extends_graph)
		graph_destroy(capture->graph);
	/* Events may still name it: it stays as the sign of a capture that is over. */
	capture->origin = NULL;
	capture->graph = NULL;
	capture_put(capture);
	return res;
}

/* A capture without its first stream cannot be ended any more: it is over. */
void capture_forget_stream(struct CUstream_st *stream)
{
	struct capture *capture;
	struct CUstream_st **link;
	CUgraph graph;

	if (!stream->capture)
		return;
	pthread_mutex_lock(&capture_lock);
	capture = stream->capture;
	if (capture) {
		for (link = &capture->streams; *link != stream; link = &(*link)->next_in_capture)
			;
		*link = stream->next_in_capture;
		capture->is_invalid = true;
		stream_leave(stream);
		if (capture->origin == stream)
			capture_finish(capture, &graph);
	}
	pthread_mutex_unlock(&capture_lock);
}

static CUresult capture_end(CUstream stream, CUgraph *ret_graph)
{
	CUresult res;

	if (!ret_graph)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_graph = NULL;
	if (stream_is_legacy(stream))
		return CUDA_ERROR_ILLEGAL_STATE;
	pthread_mutex_lock(&capture_lock);
	res = end_check(stream->capture, stream);
	if (!res)
		res = capture_finish(stream->capture, ret_graph);
	else if (stream->capture)
		capture_invalidate(stream->capture, 0);
	pthread_mutex_unlock(&capture_lock);
	return res;
}

struct capture_info {
	CUstreamCaptureStatus *status;
	uint64_t *id;
	CUgraph *graph;
	const CUgraphNode **dependencies;
	const void **edge_data;
	size_t *nr_dependencies;
};

static void info_fill(struct CUstream_st *stream, const struct capture_info *info)
{
	struct capture *capture = stream->capture;

	*info->status = !capture              ? CU_STREAM_CAPTURE_STATUS_NONE
			: capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
					      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
	if (*info->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return;
	if (info->id)
		*info->id = capture->id;
	if (info->graph)
		*info->graph = capture->graph;
	if (info->dependencies)
		*info->dependencies = stream->frontier.nodes;
	if (info->edge_data)
		*info->edge_data = NULL;
	if (info->nr_dependencies)
		*info->nr_dependencies = stream->frontier.nr_nodes;
}

static CUresult capture_info(CUstream stream, const struct capture_info *info)
{
	if (!info->status)
		return CUDA_ERROR_INVALID_VALUE;
	*info->status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (stream_is_legacy(stream))
		return legacy_check(false);
	pthread_mutex_lock(&capture_lock);
	info_fill(stream, info);
	pthread_mutex_unlock(&capture_lock);
	return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old = thread_mode;

	if (!mode || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

/* The edge data of a dependency says how far its kernel must have come: all the way, here. */
static CUresult capture_begin_to(CUstream stream, CUgraph graph, const CUgraphNode *nodes, size_t nr_nodes,
				 CUstreamCaptureMode mode)
{
	struct node_set after = { .nodes = (CUgraphNode *)nodes, .nr_nodes = nr_nodes };

	if (!graph || (!nodes && nr_nodes))
		return CUDA_ERROR_INVALID_VALUE;
	return capture_begin(stream, mode, graph, &after);
}

#define DEFINE_CAPTURE_CALLS(SUFFIX) \
	SIM_EXPORT CUresult cuStreamBeginCapture_v2##SUFFIX(CUstream stream, CUstreamCaptureMode mode) \
	{ \
		return capture_begin(stream, mode, NULL, &(struct node_set){ 0 }); \
	} \
	SIM_EXPORT CUresult cuStreamBeginCaptureToGraph##SUFFIX( \
		CUstream stream, CUgraph graph, const CUgraphNode *dependencies, const void *edge_data, \
		size_t nr_dependencies, CUstreamCaptureMode mode) \
	{ \
		(void)edge_data; \
		return capture_begin_to(stream, graph, dependencies, nr_dependencies, mode); \
	} \
	SIM_EXPORT CUresult cuStreamEndCapture##SUFFIX(CUstream stream, CUgraph *ret_graph) \
	{ \
		return capture_end(stream, ret_graph); \
	} \
	SIM_EXPORT CUresult cuStreamIsCapturing##SUFFIX(CUstream stream, CUstreamCaptureStatus *ret_status) \
	{ \
		return capture_info(stream, &(struct capture_info){ .status = ret_status }); \
	} \
	SIM_EXPORT CUresult cuStreamGetCaptureInfo_v2##SUFFIX(CUstream stream, CUstreamCaptureStatus *status, \
							      uint64_t *id, CUgraph *graph, \
							      const CUgraphNode **dependencies, size_t *nr) \
	{ \
		return capture_info(stream, &(struct capture_info){ status, id, graph, dependencies, NULL, nr }); \
	} \
	SIM_EXPORT CUresult cuStreamGetCaptureInfo_v3##SUFFIX( \
		CUstream stream, CUstreamCaptureStatus *status, uint64_t *id, CUgraph *graph, \
		const CUgraphNode **dependencies, const void **edge_data, size_t *nr) \
	{ \
		return capture_info(stream, &(struct capture_info){ status, id, graph, dependencies, edge_data, nr }); \
	}

DEFINE_CAPTURE_CALLS()
DEFINE_CAPTURE_CALLS(_ptsz)
