/* SPDX-License-Identifier: Apache-2.0
 *
 * severity.c - see severity.h. The rules, from the top:
 *
 *   critical   evidence says that it does not end by itself: a rank is stopped or dead, ranks wait for each other in a
 *              cycle, they called different operations, a task is in D state for what is no slow storage, a queue pair
 *              is in error, a GPU is gone; or a hang is the consequence of such a finding
 *   by time    any other hang is a stall (warning) that becomes critical when it outlasts what is usual: the detector
 *              says what that is (critical_after_ns), else STALL_CRITICAL_NS. Before warning_after_ns it is info. So
 *              does a D state that may be slow storage, and what waits for it is as grave as it.
 *   by kind    all others: FINDING_KINDS
 *   upwards    a finding is as grave as what follows from it: who is paged by roots alone misses nothing
 */
#include "detect/severity.h"

#define CHAIN_MAX 4

bool xid_is_corrected(int xid)
{
	return xid == 92 || xid == 121;
}

static enum severity xid_severity(const struct finding *f)
{
	if (f->cause == CAUSE_INFORMATION)
		return SEVERITY_INFO;
	if ((f->cause == CAUSE_HARDWARE || f->cause == CAUSE_DRIVER) &&
	    !xid_is_corrected((int)finding_number(f, EVIDENCE_XID)))
		return SEVERITY_CRITICAL;
	return finding_kind_severity(f->kind);
}

static enum severity gpu_severity(const struct finding *f)
{
	return f->cause == CAUSE_GPU_LOST || f->cause == CAUSE_NEEDS_RESET ? SEVERITY_CRITICAL
									   : finding_kind_severity(f->kind);
}

/* A queue pair in error stays so until the program makes a new one. A cut link may come up again, and a job may do
 * without it: it is as grave as the wait behind it. */
static enum severity link_severity(const struct finding *f)
{
	switch (f->cause) {
	case CAUSE_TRANSPORT_RETRIES:
	case CAUSE_DEVICE_ERROR:
	case CAUSE_QUEUE_PAIR_ERROR:
	case CAUSE_DEVICE_GONE: return SEVERITY_CRITICAL;
	default: return finding_kind_severity(f->kind);
	}
}

/* An init says by its cause why a rank does not come; of p2p_unmatched one side is past the place of its call. */
static bool hang_is_permanent(const struct finding *f)
{
	switch (f->class) {
	case HANG_DEADLOCK:
	case HANG_STOPPED:
	case HANG_PROCESS_DEAD:
	case HANG_HOST_BLOCKED:
	case HANG_P2P_UNMATCHED: return true;
	case HANG_INIT:
		return f->cause == CAUSE_DEAD || f->cause == CAUSE_STOPPED || f->cause == CAUSE_FROZEN ||
		       f->cause == CAUSE_D_STATE;
	case HANG_INSIDE_NETWORK: return f->cause == CAUSE_PROXY_BLOCKED;
	default: return false;
	}
}

static enum severity hang_severity(const struct finding *f, uint64_t now_ns)
{
	uint64_t lasted = now_ns > f->since_ns ? now_ns - f->since_ns : 0;
	uint64_t critical = f->critical_after_ns ? f->critical_after_ns : STALL_CRITICAL_NS;

	if (hang_is_permanent(f) || lasted >= critical)
		return SEVERITY_CRITICAL;
	return lasted < f->warning_after_ns ? SEVERITY_INFO : SEVERITY_WARNING;
}

/* By its evidence, which a hub has, too. */
static enum severity blocked_severity(const struct finding *f, uint64_t now_ns)
{
	double lasted_s = now_ns > f->since_ns ? (double)(now_ns - f->since_ns) / 1e9 : 0;

	return lasted_s < finding_number(f, EVIDENCE_CRITICAL_AFTER_S) ? SEVERITY_WARNING : SEVERITY_CRITICAL;
}

/* A job as a whole is suspended by who may do that, and may be so again and again. */
static enum severity stopped_severity(const struct finding *f, uint64_t now_ns)
{
	uint64_t lasted = now_ns > f->since_ns ? now_ns - f->since_ns : 0;

	if (f->subject.type != SUBJECT_JOB)
		return finding_kind_severity(f->kind);
	return lasted < f->warning_after_ns ? SEVERITY_INFO : SEVERITY_WARNING;
}

static enum severity severity_of(const struct finding *f, uint64_t now_ns)
{
	switch (f->kind) {
	case FINDING_HANG: return hang_severity(f, now_ns);
	case FINDING_D_STATE: return blocked_severity(f, now_ns);
	case FINDING_IO_STALL: /* of D states alone it has theirs */
		return finding_evidence(f, EVIDENCE_CRITICAL_AFTER_S) ? blocked_severity(f, now_ns)
								      : finding_kind_severity(f->kind);
	case FINDING_STOPPED: return stopped_severity(f, now_ns);
	case FINDING_XID: return xid_severity(f);
	case FINDING_GPU_HEALTH: return gpu_severity(f);
	case FINDING_LINK: return link_severity(f);
	default: return finding_kind_severity(f->kind);
	}
}

static struct finding *cause_of(struct finding_list *found, const struct finding *f)
{
	for (size_t i = 0; i < found->n && f->caused_by_key; i++)
		if (found->items[i].key == f->caused_by_key && &found->items[i] != f)
			return &found->items[i];
	return NULL;
}

/* A chain of causes is short: an XID, from an XID, from a GPU that is gone. */
static void causes_grave(struct finding_list *found, const struct finding *f)
{
	struct finding *cause = cause_of(found, f);

	for (int i = 0; i < CHAIN_MAX && cause; i++) {
		cause->severity = cause->severity > f->severity ? cause->severity : f->severity;
		cause = cause_of(found, cause);
	}
}

/* A hang that a D state explains ends when that does. */
static bool is_of_blocked(const struct finding *f, const struct finding *cause)
{
	bool blocked = f->class == HANG_HOST_BLOCKED || f->cause == CAUSE_D_STATE || f->cause == CAUSE_PROXY_BLOCKED;

	return blocked && (cause->kind == FINDING_D_STATE || cause->kind == FINDING_IO_STALL);
}

static void hang_follows(struct finding_list *found, struct finding *f)
{
	const struct finding *cause = cause_of(found, f);

	if (cause && (cause->severity == SEVERITY_CRITICAL || is_of_blocked(f, cause)))
		f->severity = cause->severity;
}

void severities_judge(struct finding_list *found, uint64_t now_ns)
{
	for (size_t i = 0; i < found->n; i++)
		found->items[i].severity = severity_of(&found->items[i], now_ns);
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == FINDING_D_STATE)
			causes_grave(found, &found->items[i]);
	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].kind == FINDING_HANG)
			hang_follows(found, &found->items[i]);
	for (size_t i = 0; i < found->n; i++)
		causes_grave(found, &found->items[i]);
}
