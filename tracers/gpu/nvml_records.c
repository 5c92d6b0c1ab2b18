/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml_records.c - GPUs as NVML shows them.
 */
#include "record.h"
#include "schemas/collector.h"

static int device_texts(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	const uint16_t lens[] = { e->gpu_device.name_len, e->gpu_device.uuid_len };
	const char **const texts[] = { &e->gpu_name, &e->gpu_uuid };

	return record_texts(rec, sizeof(struct record_gpu_device), 2, lens, texts, strings);
}

static int procs_check(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)rec;
	(void)strings;
	e->gpu_procs.n = e->gpu_procs.n < GPU_PIDS_MAX ? e->gpu_procs.n : GPU_PIDS_MAX;
	return 1;
}

static int usage_check(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)rec;
	(void)strings;
	return e->gpu_usage.sm_percent <= 100 || e->gpu_usage.sm_percent == GPU_NO_VALUE ? 1 : -EINVAL;
}

static int state_check(const struct wire_hdr *rec, struct intern *strings, struct event *e)
{
	(void)strings;
	if (!e->gpu_state.since_ns)
		e->gpu_state.since_ns = rec->ts_ns;
	return e->gpu_state.answer <= GPU_NO_ANSWER ? 1 : -EINVAL;
}

/* A usage has no process in its header, so that it does not end with its process: the GPU's next list leaves it out. */
static bool usage_ends(const struct wire_hdr *rec, const struct wire_hdr *kept)
{
	const struct gpu_procs *list = &((const struct record_gpu_procs *)rec)->body;
	const struct gpu_usage *u = &((const struct record_gpu_usage *)kept)->body;

	if (kept->tracer != WIRE_COLLECTOR || kept->kind != RECORD_GPU_USAGE || u->index != list->index)
		return false;
	for (uint32_t i = 0; i < list->n && i < GPU_PIDS_MAX; i++)
		if (list->pids[i] == u->pid)
			return false;
	return true;
}

#define NVML(id, event, member) \
	RECORD_AS_EVENT(event, member), .tracer = WIRE_COLLECTOR, .kind = id, .in_autopsy = true, \
					.kept_by = sizeof(struct wire_hdr)

_Static_assert(offsetof(struct gpu_usage, pid) == offsetof(struct gpu_usage, index) + 4, "key of a usage");
const struct record_kind source_records_nvml[] = {
	{ "gpu_device", NVML(RECORD_GPU_DEVICE, EV_GPU_DEVICE, gpu_device), .decode = device_texts },
	{ "gpu_sample", NVML(RECORD_GPU_SAMPLE, EV_GPU_SAMPLE, gpu_sample) },
	{ "gpu_health", NVML(RECORD_GPU_HEALTH, EV_GPU_HEALTH, gpu_health) },
	{ "gpu_procs", NVML(RECORD_GPU_PROCS, EV_GPU_PROCS, gpu_procs), .decode = procs_check, .ends = usage_ends },
	{ "gpu_usage", RECORD_AS_EVENT(EV_GPU_USAGE, gpu_usage), .tracer = WIRE_COLLECTOR, .kind = RECORD_GPU_USAGE,
	  .in_autopsy = true, .kept_by = offsetof(struct record_gpu_usage, body.index), .kept_bytes = 8,
	  .decode = usage_check },
	{ "gpu_state", NVML(RECORD_GPU_STATE, EV_GPU_STATE, gpu_state),
	  .times = { offsetof(struct record_gpu_state, body.since_ns) }, .decode = state_check },
	{}
};
