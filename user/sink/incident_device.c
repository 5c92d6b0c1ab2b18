/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_device.c - a GPU, a port or a path in one sentence: its name, and what it does.
 */
#include "sink/incident_parts.h"

static const char *const device_verbs[CAUSE_MAX] = {
	[CAUSE_GPU_LOST] = "is off the bus",
	[CAUSE_NEEDS_RESET] = "needs a reset, says the driver",
	[CAUSE_DRIVER_DOES_NOT_ANSWER] = "does not answer",
	[CAUSE_THROTTLED_THERMAL] = "is too hot: the hardware slows its clocks down",
	[CAUSE_THROTTLED_THERMAL_SOFTWARE] = "is near its thermal limit: the driver slows its clocks down",
	[CAUSE_THROTTLED_POWER_BRAKE] = "is slowed down because the power supply asked for it",
	[CAUSE_THROTTLED_HARDWARE] = "is slowed down by its hardware",
	[CAUSE_ECC_UNCORRECTED] = "has memory errors that could not be corrected",
	[CAUSE_ROWS_PENDING] = "has a memory row to be replaced at the next reset",
	[CAUSE_REMAP_FAILED] = "has a bad memory row that could not be replaced",
	[CAUSE_PAGES_PENDING] = "has a memory page to be retired at the next reset",
	[CAUSE_INFOROM_CORRUPT] = "has damaged configuration memory (InfoROM)",
	[CAUSE_NVLINK_ERRORS] = "has more and more errors on its NVLinks",
	[CAUSE_NVLINK_DOWN] = "has lost an NVLink that was up",
	[CAUSE_PCIE_WIDTH] = "uses fewer PCIe lanes than it could",
	[CAUSE_PCIE_REPLAYS] = "sends PCIe packets again and again",
	[CAUSE_PORT_DOWN] = "is down",
	[CAUSE_DEVICE_GONE] = "is gone",
	[CAUSE_DOES_NOT_ANSWER] = "does not answer",
	[CAUSE_FLAP] = "was down for a moment",
	[CAUSE_LINK_ERRORS] = "receives damaged packets",
	[CAUSE_RETRANSMITS] = "loses packets and sends them again",
	[CAUSE_DISCARDS] = "drops packets",
	[CAUSE_LOW_RATE] = "is up at less than its rate",
	[CAUSE_CONGESTION] = "is congested",
	[CAUSE_SLOW_PORT] = "is slow on all paths that use it",
	[CAUSE_SHARED_PORT] = "carries several paths, and so each is slow",
	[CAUSE_SLOW_PATH] = "is far slower than other paths",
	[CAUSE_NETDEV_DOWN] = "is cut off: the network device has no link",
	[CAUSE_STALLED] = "does not move: nothing comes back from the other side",
	[CAUSE_RECEIVER_DOES_NOT_READ] = "waits for a receiver that does not read",
	[CAUSE_SEND_BUFFER] = "is limited by too small a send buffer",
	[CAUSE_TRANSPORT_RETRIES] = "got no answer from the far end, and gave up after all retries",
	[CAUSE_DEVICE_ERROR] = "gave up by itself",
	[CAUSE_QUEUE_PAIR_ERROR] = "has a queue pair in error",
	[CAUSE_RECEIVER_NOT_READY] = "sent to a far end that posted no receive in time",
	[CAUSE_REQUEST_REFUSED] = "was refused a request by the far end",
	[CAUSE_BAD_REQUEST] = "was given a wrong request",
	[CAUSE_PEER_GONE] = "sent to a rank that is dead",
};

static void verb_add(struct text *t, const struct finding *f)
{
	const char *verb = device_verbs[f->cause];

	text_add(t, " %s", verb ? verb : "has a fault");
	if (!verb)
		text_cause(t, f);
}

/* "GPU 1 (rank 5)", "GPUs (ranks 0 and 1)" */
static void text_gpu(struct text *t, const struct finding *f)
{
	bool known = finding_evidence(f, EVIDENCE_GPU);

	text_add(t, known ? "GPU %.0f" : "a GPU", known ? finding_number(f, EVIDENCE_GPU) : 0);
	if (!f->n_ranks)
		return;
	text_add(t, " (");
	text_ranks(t, f);
	text_add(t, ")");
}

void text_gpu_health(struct text *t, const struct finding *f)
{
	if (f->cause == CAUSE_DRIVER_DOES_NOT_ANSWER) {
		text_add(t, "the NVIDIA driver of ");
		text_ranks(t, f);
		verb_add(t, f);
		return;
	}
	text_gpu(t, f);
	verb_add(t, f);
}

void text_xid(struct text *t, const struct finding *f)
{
	const char *meaning = finding_text(f, EVIDENCE_MEANING);

	if (finding_evidence(f, EVIDENCE_SXID)) {
		text_add(t, "an NVSwitch reports error %.0f (SXID)", finding_number(f, EVIDENCE_SXID));
		return;
	}
	text_gpu(t, f);
	text_add(t, " reports XID %.0f", finding_number(f, EVIDENCE_XID));
	if (f->cause == CAUSE_UNKNOWN)
		text_add(t, ", which ranktrace does not know");
	else if (meaning)
		text_add(t, ": %s", meaning);
}

static void text_path(struct text *t, const struct subject *s)
{
	if (s->procs[0]) {
		text_add(t, "the path from rank %d to rank %d", s->ranks[0], s->ranks[1]);
	} else if (!s->a) {
		text_add(t, "TCP of all hosts");
	} else {
		text_add(t, "TCP between ");
		text_foreign(t, s->a, NULL);
		text_add(t, " and ");
		text_foreign(t, s->b, NULL);
	}
}

bool subject_is_link(const struct subject *s)
{
	return s->type == SUBJECT_PATH || s->type == SUBJECT_PORT;
}

/* "port 1 of mlx5_3", "TCP of 10.0.0.3 (eth0)", "the port of rank 3" */
static void text_link(struct text *t, const struct subject *s)
{
	if (s->type == SUBJECT_PATH) {
		text_path(t, s);
	} else if (s->address) {
		text_add(t, "TCP of ");
		text_foreign(t, s->address, NULL);
		text_add(t, s->netdev ? " (" : "");
		text_foreign(t, s->netdev ? s->netdev : "", NULL);
		text_add(t, s->netdev ? ")" : "");
	} else if (s->device) {
		text_foreign(t, s->device, NULL);
		text_add(t, s->port ? " port %u" : "", s->port);
	} else {
		text_add(t, s->rank >= 0 ? "the port of rank %d" : "a port", s->rank);
	}
}

void text_link_fault(struct text *t, const struct finding *f)
{
	if (subject_is_link(&f->subject)) {
		text_link(t, &f->subject);
	} else {
		text_add(t, "a link of ");
		text_ranks(t, f);
	}
	verb_add(t, f);
}
