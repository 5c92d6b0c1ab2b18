/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_event.c - see gpu_event.h. Each rule is one finding that follows from another of the same GPU, or of its host:
 *
 *   an XID             from its GPU that is lost or wants a reset; from what the GPU's counters say of the same part
 *                      (memory, NVLink); from an earlier XID of that GPU that is as grave; of NVLink from a switch's
 *   silence            of the driver: from a GPU that is lost or wants a reset, or from a grave XID, of that host
 *   NVLink's counters  from an error of a switch of that host
 *   a D state          in a call of the driver: from that silence, that GPU, that XID
 *
 * Which of them opens is the first that is seen (pipeline/incident.c).
 */
#include "detect/gpu/gpu_event.h"

#include <string.h>

#include "detect/severity.h"

enum part { PART_NONE, PART_MEMORY, PART_NVLINK };

static const struct {
	enum part part;
	int xid;
} xid_parts[] = {
	{ PART_MEMORY, 48 },  { PART_MEMORY, 63 },  { PART_MEMORY, 64 },  { PART_MEMORY, 92 },  { PART_MEMORY, 94 },
	{ PART_MEMORY, 95 },  { PART_MEMORY, 140 }, { PART_NVLINK, 74 },  { PART_NVLINK, 136 }, { PART_NVLINK, 137 },
	{ PART_NVLINK, 144 }, { PART_NVLINK, 145 }, { PART_NVLINK, 149 },
};

static bool is_xid(const struct finding *f)
{
	return f->kind == FINDING_XID && !finding_evidence(f, EVIDENCE_SXID);
}

static bool is_switch(const struct finding *f)
{
	return f->kind == FINDING_XID && finding_evidence(f, EVIDENCE_SXID);
}

static enum part part_of(const struct finding *f)
{
	int xid = is_xid(f) ? (int)finding_number(f, EVIDENCE_XID) : 0;

	for (size_t i = 0; i < sizeof(xid_parts) / sizeof(xid_parts[0]); i++)
		if (xid == xid_parts[i].xid)
			return xid_parts[i].part;
	switch (f->kind == FINDING_GPU_HEALTH ? f->cause : CAUSE_NONE) {
	case CAUSE_ECC_UNCORRECTED:
	case CAUSE_ROWS_PENDING:
	case CAUSE_PAGES_PENDING:
	case CAUSE_REMAP_FAILED: return PART_MEMORY;
	case CAUSE_NVLINK_ERRORS:
	case CAUSE_NVLINK_DOWN: return PART_NVLINK;
	default: return PART_NONE;
	}
}

/* How far what follows may be its consequence: a broken GPU breaks programs, not the other way round. */
static int gravity(const struct finding *f)
{
	if (f->kind != FINDING_XID)
		return 0;
	if (f->cause == CAUSE_HARDWARE || f->cause == CAUSE_DRIVER)
		return xid_is_corrected((int)finding_number(f, EVIDENCE_XID)) ? 0 : 2;
	return f->cause == CAUSE_APPLICATION;
}

static bool is_gone(const struct finding *f)
{
	return f->kind == FINDING_GPU_HEALTH && (f->cause == CAUSE_GPU_LOST || f->cause == CAUSE_NEEDS_RESET);
}

static bool is_silence(const struct finding *f)
{
	return f->kind == FINDING_GPU_HEALTH && f->cause == CAUSE_DRIVER_DOES_NOT_ANSWER;
}

static bool same_gpu(const struct finding *a, const struct finding *b)
{
	return a->subject.type == SUBJECT_GPU && b->subject.type == SUBJECT_GPU && a->subject.pci == b->subject.pci &&
	       a->subject.node == b->subject.node;
}

/* Of two XIDs at one time the first in the list: what it says of the second it does not say of itself. */
static bool is_earlier(const struct finding *a, const struct finding *than)
{
	return a->since_ns < than->since_ns || (a->since_ns == than->since_ns && a < than);
}

static bool xid_follows(const struct finding *f, const struct finding *from)
{
	if (is_switch(from))
		return part_of(f) == PART_NVLINK;
	if (!same_gpu(f, from))
		return false;
	if (is_gone(from))
		return gravity(f) > 1 || f->since_ns >= from->since_ns;
	if (from->kind == FINDING_GPU_HEALTH)
		return part_of(f) != PART_NONE && part_of(f) == part_of(from);
	return gravity(from) && gravity(from) >= gravity(f) && is_earlier(from, f);
}

static bool in_driver(const struct finding *f)
{
	const char *stack = f->kind == FINDING_D_STATE ? finding_text(f, EVIDENCE_KERNEL_STACK) : NULL;

	return stack && strstr(stack, "nvidia");
}

static bool follows(const struct finding *f, const struct finding *from)
{
	if (f == from || f->node != from->node)
		return false;
	if (is_xid(f))
		return xid_follows(f, from);
	if (is_silence(f))
		return is_gone(from) || gravity(from) > 1;
	if (f->kind == FINDING_GPU_HEALTH)
		return part_of(f) == PART_NVLINK && is_switch(from);
	return in_driver(f) && (is_silence(from) || is_gone(from) || gravity(from) > 1);
}

/* What says most, then what came first. */
static int weight(const struct finding *f)
{
	return is_gone(f) ? 3 : is_switch(f) ? 2 : f->kind == FINDING_GPU_HEALTH ? 1 : 0;
}

static bool is_better(const struct finding *a, const struct finding *b)
{
	return weight(a) != weight(b) ? weight(a) > weight(b) : is_earlier(a, b);
}

void gpu_event_join(struct finding_list *found)
{
	for (size_t i = 0; i < found->n; i++) {
		const struct finding *best = NULL;

		for (size_t k = 0; k < found->n; k++)
			if (follows(&found->items[i], &found->items[k]) && (!best || is_better(&found->items[k], best)))
				best = &found->items[k];
		if (best && !found->items[i].caused_by_key)
			found->items[i].caused_by_key = best->key;
	}
}
