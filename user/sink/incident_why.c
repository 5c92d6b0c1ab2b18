/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_why.c - the lines "why" of an incident: a fact a line, the most important first. Of a rank that does not
 * come where it is and what it waits for; of what is slow or ill the figures; of an operation its size and
 * communicator.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sink/incident_parts.h"
#include "sink/incident_text.h"
#include "sink/op_size.h"

#define OPS_SCANNED 512 /* of a member, newest first, for the size of an operation */

struct why {
	struct text *t;
	const struct finding *f;
	int n; /* lines so far */
};

static struct text *line_begin(struct why *w)
{
	text_label(w->t, w->n++ ? "" : "why");
	return w->t;
}

static void line_end(struct why *w)
{
	text_add(w->t, "\n");
}

/* A line of its own for a text that is known; line breaks in it are kept. */
static void line_text(struct why *w, const char *before, const char *text)
{
	if (!text || !*text)
		return;
	text_add(line_begin(w), "%s", before);
	text_foreign(w->t, text, "\n          ");
	line_end(w);
}

static bool has(const struct why *w, enum evidence_id id)
{
	return finding_evidence(w->f, id);
}

static double number(const struct why *w, enum evidence_id id)
{
	return finding_number(w->f, id);
}

static double percent(const struct why *w, enum evidence_id id)
{
	return 100 * finding_number(w->f, id);
}

/* --- where the rank is --- */

static void call_site_add(struct why *w)
{
	const char *python = finding_text(w->f, EVIDENCE_PYTHON), *native = finding_text(w->f, EVIDENCE_NATIVE_FRAME);

	if (!python && !native)
		return;
	text_add(line_begin(w), "at ");
	text_foreign(w->t, python ? python : native, NULL);
	text_add(w->t, python && native ? ", in " : "");
	text_foreign(w->t, python && native ? native : "", NULL);
	line_end(w);
}

static void wait_add(struct why *w)
{
	const char *waits_for = finding_text(w->f, EVIDENCE_WAITS_FOR);

	line_text(w, "", waits_for);
	line_text(w, "mount: ", waits_for ? finding_text(w->f, EVIDENCE_MOUNT) : NULL);
	line_text(w, "in the kernel: ", waits_for ? NULL : finding_text(w->f, EVIDENCE_KERNEL_WAIT));
	line_text(w, "its stack was not read: ", finding_text(w->f, EVIDENCE_STACK_UNREAD));
}

/* Of a rank whose call site is not known: what it called last. */
static void last_call_add(struct why *w)
{
	const char *call = finding_text(w->f, EVIDENCE_IN_CALL), *op = finding_text(w->f, EVIDENCE_LAST_OP);

	if (call) {
		text_add(line_begin(w), "in %s for ", call);
		text_duration(w->t, number(w, EVIDENCE_IN_CALL_S));
		line_end(w);
	} else if (op && !finding_has_call_site(w->f)) {
		text_add(line_begin(w), "its last call was %s #%.0f, ", op, number(w, EVIDENCE_LAST_OP_SEQ));
		text_duration(w->t, number(w, EVIDENCE_LAST_OP_S_AGO));
		text_add(w->t, " ago");
		line_end(w);
	}
}

static void cuda_error_add(struct why *w)
{
	const char *call = finding_text(w->f, EVIDENCE_CUDA_ERROR_CALL),
		   *error = finding_text(w->f, EVIDENCE_CUDA_ERROR);

	if (!call || !error)
		return;
	text_add(line_begin(w), "%s returned %s", call, error);
	line_end(w);
}

static void death_add(struct why *w)
{
	if (number(w, EVIDENCE_EXIT_SIGNAL) > 0) {
		text_add(line_begin(w), "killed by signal %.0f (%s)", number(w, EVIDENCE_EXIT_SIGNAL),
			 strsignal((int)number(w, EVIDENCE_EXIT_SIGNAL)));
		line_end(w);
	} else if (has(w, EVIDENCE_EXIT_CODE)) {
		text_add(line_begin(w), "it ended by itself, with exit code %.0f", number(w, EVIDENCE_EXIT_CODE));
		line_end(w);
	}
}

static void kernel_add(struct why *w)
{
	const char *wchan = finding_text(w->f, EVIDENCE_WCHAN), *thread = finding_text(w->f, EVIDENCE_THREAD);
	bool in = (w->f->kind == FINDING_HANG || w->f->kind == FINDING_IO_STALL) &&
		  (has(w, EVIDENCE_SYSCALL) || has(w, EVIDENCE_FILE));

	if (w->f->cause != CAUSE_D_STATE && w->f->kind != FINDING_D_STATE)
		return;
	if (in) {
		text_blocked_in(line_begin(w), w->f);
		line_end(w);
	}
	if (!wchan)
		return;
	text_add(line_begin(w), thread ? "thread " : "it");
	text_foreign(w->t, thread ? thread : "", NULL);
	text_add(w->t, " waits in kernel function ");
	text_foreign(w->t, wchan, NULL);
	line_end(w);
}

/* --- transfers --- */

/* "11 Sends (#0 to #10)" */
static void calls_add(struct why *w, const char *what, double n)
{
	text_add(w->t, "%.0f %s%s", n, what, n == 1 ? "" : "s");
	if (n == 1)
		text_add(w->t, " (#0)");
	else if (n > 1)
		text_add(w->t, " (#0 to #%.0f)", n - 1);
}

static void pair_add(struct why *w)
{
	if (!has(w, EVIDENCE_N_SENDS) || !has(w, EVIDENCE_N_RECVS))
		return;
	text_add(line_begin(w), "rank %.0f called ", number(w, EVIDENCE_SENDER));
	calls_add(w, "Send", number(w, EVIDENCE_N_SENDS));
	text_add(w->t, " to rank %.0f, which called ", number(w, EVIDENCE_RECEIVER));
	calls_add(w, "Recv", number(w, EVIDENCE_N_RECVS));
	line_end(w);
}

static void side_add(struct why *w, const char *side, enum evidence_id rank, enum evidence_id progress)
{
	const char *text = finding_text(w->f, progress);

	if (!text)
		return;
	text_add(line_begin(w), "%s, rank %.0f: %s%s", side, number(w, rank), text,
		 strpbrk(text, "0123456789") ? " chunks" : "");
	line_end(w);
}

static void transfer_add(struct why *w)
{
	side_add(w, "sender", EVIDENCE_SENDER, EVIDENCE_SENT);
	side_add(w, "receiver", EVIDENCE_RECEIVER, EVIDENCE_RECEIVED);
}

/* --- figures: what a rank takes of the time, and its peers --- */

static const struct share {
	enum evidence_id own, peers;
	const char *what;
} shares[] = {
	{ EVIDENCE_RUNQUEUE_WAIT_SHARE, EVIDENCE_RUNQUEUE_WAIT_SHARE_PEERS, "waiting for a CPU" },
	{ EVIDENCE_D_STATE_SHARE, EVIDENCE_D_STATE_SHARE_PEERS, "blocked in the kernel" },
	{ EVIDENCE_STOPPED_SHARE, EVIDENCE_STOPPED_SHARE_PEERS, "stopped" },
	{ EVIDENCE_MEMORY_ALLOC_SHARE, EVIDENCE_MEMORY_ALLOC_SHARE_PEERS, "allocating GPU memory" },
	{ EVIDENCE_MEMORY_FREE_SHARE, EVIDENCE_MEMORY_FREE_SHARE_PEERS, "freeing GPU memory" },
	{ EVIDENCE_MODULE_LOAD_SHARE, EVIDENCE_MODULE_LOAD_SHARE_PEERS, "loading GPU code" },
	{ EVIDENCE_GRAPH_INSTANTIATE_SHARE, EVIDENCE_GRAPH_INSTANTIATE_SHARE_PEERS, "making CUDA graphs" },
};

#define SHARE_SHOWN 0.05

static void share_add(struct why *w, const struct share *s)
{
	if (!has(w, s->own) || number(w, s->own) < SHARE_SHOWN)
		return;
	text_add(line_begin(w), "%s: %.0f %% of its time", s->what, percent(w, s->own));
	if (has(w, s->peers))
		text_add(w->t, ", its peers %.0f %%", percent(w, s->peers));
	line_end(w);
}

static void cpu_add(struct why *w)
{
	const char *by = finding_text(w->f, EVIDENCE_PREEMPTED_BY);
	bool cpu = w->f->cause == CAUSE_CPU_STARVED;

	if (has(w, EVIDENCE_THROTTLED_SHARE)) {
		text_add(line_begin(w), "throttled: %.0f %% of its time", percent(w, EVIDENCE_THROTTLED_SHARE));
		if (has(w, EVIDENCE_QUOTA_CORES))
			text_add(w->t, ", by a quota of %.3g CPUs", number(w, EVIDENCE_QUOTA_CORES));
		line_end(w);
	} else if (cpu && has(w, EVIDENCE_PREEMPTED_PER_S)) {
		text_add(line_begin(w), "loses its CPU %.0f times a second%s", number(w, EVIDENCE_PREEMPTED_PER_S),
			 by ? ", last to " : "");
		text_foreign(w->t, by ? by : "", NULL);
		line_end(w);
	}
}

/* What the host does to it was measured, and is not what makes it slow. */
static void excluded_add(struct why *w)
{
	if (w->f->kind != FINDING_STRAGGLER || w->f->cause != CAUSE_GPU_OR_UNKNOWN ||
	    !has(w, EVIDENCE_RUNQUEUE_WAIT_SHARE))
		return;
	line_text(w, "", "not the reason: CPU, storage, stops, GPU memory calls, loading of GPU code (like its peers)");
}

/* "backward: 15.2 ms of a step, its peers 0.2 ms (98 % of the wait)" */
static void phase_add(struct why *w)
{
	const char *phase = finding_text(w->f, EVIDENCE_PHASE), *who = finding_text(w->f, EVIDENCE_PHASE_WHO);

	if (!phase)
		return;
	line_begin(w);
	if (!has(w, EVIDENCE_PHASE_S)) {
		text_add(w->t, "phase of its step: ");
		text_phase(w->t, phase);
		line_end(w);
		return;
	}
	text_phase(w->t, phase);
	text_add(w->t, ": ");
	text_time_of_step(w->t, number(w, EVIDENCE_PHASE_S));
	text_add(w->t, " of a step%s, %s ", who && !strcmp(who, "turns") ? " on all ranks together" : "",
		 w->f->kind == FINDING_STRAGGLER ? "its peers" : "before");
	text_time_of_step(w->t, number(w, EVIDENCE_PHASE_USUAL_S));
	text_add(w->t, " (%.0f %% of the wait)", number(w, EVIDENCE_PHASE_PERCENT));
	line_end(w);
}

/* "of these 3.2 s of a step blocked in storage, longest in flush, on /ckpt (nfs4 filer:/ckpt, 0:52)" */
static void storage_add(struct why *w)
{
	const char *call = finding_text(w->f, EVIDENCE_STORAGE_CALL), *mount = finding_text(w->f, EVIDENCE_MOUNT);

	if (!has(w, EVIDENCE_STORAGE_S))
		return;
	text_add(line_begin(w), "of these ");
	text_time_of_step(w->t, number(w, EVIDENCE_STORAGE_S));
	text_add(w->t, " blocked in storage, longest in %s", call ? call : "a call");
	text_add(w->t, mount ? ", on " : "");
	text_foreign(w->t, mount ? mount : "", NULL);
	line_end(w);
}

static void worker_add(struct why *w)
{
	const char *name = finding_text(w->f, EVIDENCE_CHILD_NAME);

	if (!has(w, EVIDENCE_PHASE_S) || !has(w, EVIDENCE_CHILD_PID))
		return;
	text_add(line_begin(w), "of its %.0f processes pid %.0f", number(w, EVIDENCE_N_CHILDREN),
		 number(w, EVIDENCE_CHILD_PID));
	text_add(w->t, name ? " (" : "");
	text_foreign(w->t, name ? name : "", NULL);
	text_add(w->t, name ? ")" : "");
	text_add(w->t, " alone is busy");
	line_end(w);
}

static void slowness_add(struct why *w)
{
	storage_add(w);
	worker_add(w);
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
		share_add(w, &shares[i]);
	cpu_add(w);
	excluded_add(w);
	if (number(w, EVIDENCE_WHAT_IF_PERCENT) >= 1) {
		text_add(line_begin(w), "without it steps would be %.0f %% shorter",
			 number(w, EVIDENCE_WHAT_IF_PERCENT));
		line_end(w);
	}
}

/* --- figures: GPUs, ports, TCP --- */

static const struct figure { /* a number that is shown as it is */
	enum evidence_id id;
	const char *format;
	bool if_zero;
} figures[] = {
	{ EVIDENCE_SM_CLOCK_MHZ, "%.0f MHz", true },
	{ EVIDENCE_SM_CLOCK_MHZ_BEFORE, "%.0f MHz before", false },
	{ EVIDENCE_SM_CLOCK_MHZ_PEERS, "its peers %.0f MHz", false },
	{ EVIDENCE_TEMPERATURE_C, "%.0f degrees C", true },
	{ EVIDENCE_POWER_W, "%.0f W", true },
	{ EVIDENCE_ECC_UNCORRECTED, "memory errors not corrected: %.0f", true },
	{ EVIDENCE_ECC_CORRECTED, "corrected: %.0f", true },
	{ EVIDENCE_NVLINKS_ACTIVE, "NVLinks up: %.0f", true },
	{ EVIDENCE_NVLINKS, "at first: %.0f", true },
	{ EVIDENCE_NVLINK_CRC_ERRORS, "NVLink CRC errors: %.0f", false },
	{ EVIDENCE_NVLINK_REPLAYS, "NVLink replays: %.0f", false },
	{ EVIDENCE_PCIE_WIDTH, "PCIe lanes: %.0f", true },
	{ EVIDENCE_PCIE_WIDTH_MAX, "possible: %.0f", true },
	{ EVIDENCE_PCIE_REPLAYS, "PCIe packets sent again: %.0f", false },
	{ EVIDENCE_RATE_GBPS, "%.4g Gbit/s", false },
	{ EVIDENCE_RATE_BEFORE_GBPS, "%.4g Gbit/s before", false },
	{ EVIDENCE_RATE_OF_PEERS_GBPS, "other ports %.4g Gbit/s", false },
	{ EVIDENCE_TIMES_DOWN, "times down: %.0f", false },
	{ EVIDENCE_PER_SECOND, "%.3g a second", false },
	{ EVIDENCE_N_QUEUE_PAIRS, "queue pairs in error: %.0f", false },
	{ EVIDENCE_ROUND_TRIP_MS, "round trip %.3g ms", false },
	{ EVIDENCE_ROUND_TRIP_BEFORE_MS, "before %.3g ms", false },
	{ EVIDENCE_QUICKEST_PATH_MS, "quickest path %.3g ms", false },
	{ EVIDENCE_LOST_PERCENT, "%.2g %% of the segments lost", false },
	{ EVIDENCE_LOST_SEGMENTS_PER_S, "%.3g a second", false },
	{ EVIDENCE_SINCE_ACKED_MS, "nothing acknowledged for %.0f ms", false },
	{ EVIDENCE_BUSY_PERCENT, "data on the way %.0f %% of the time", true },
	{ EVIDENCE_BUSY_PERCENT_ELSEWHERE, "on other paths %.0f %%", true },
};

static void figures_add(struct why *w)
{
	int n = 0;

	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		const struct evidence *e = finding_evidence(w->f, figures[i].id);

		if (!e || (!figures[i].if_zero && !(e->number > 0)))
			continue;
		if (!n++)
			line_begin(w);
		text_add(w->t, n > 1 ? ", " : "");
		text_add(w->t, figures[i].format, e->number);
	}
	if (n)
		line_end(w);
}

/* Who has the port open, and the connection that is worst. */
static void users_add(struct why *w)
{
	const char *using = finding_text(w->f, EVIDENCE_RANKS_USING), *may = finding_text(w->f, EVIDENCE_RANKS_MAY);
	const char *one = using ? using : may;

	if (one) {
		text_add(line_begin(w), "%s rank%s ", using ? "used by" : "may be used by",
			 strchr(one, ',') ? "s" : "");
		text_list(w->t, one);
		line_end(w);
	} else if (w->f->kind == FINDING_OBSERVATION && w->f->subject.device) {
		line_text(w, "", has(w, EVIDENCE_RANK_USING) ? NULL : "no rank uses it");
	}
	line_text(w, "worst connection: ", finding_text(w->f, EVIDENCE_CONNECTION));
	line_text(w, "far end: ", finding_text(w->f, EVIDENCE_PEER_ADDRESS));
	line_text(w, "completion status: ", finding_text(w->f, EVIDENCE_STATUS));
}

/* --- what the ranks' GPUs do --- */

/* Of a line "rank 3: waits in NCCL" what comes behind its rank. */
static const char *role_of(const char *line, size_t *ret_len)
{
	size_t len = strcspn(line, "\n"), head = strcspn(line, ":");

	head = head + 2 < len ? head + 2 : len;
	*ret_len = len - head;
	return line + head;
}

static const char *line_after(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
}

/* Lines of the same role from `line` on; 0: one before `line` has it, too. */
static int alike(const char *all, const char *line)
{
	size_t len, other;
	const char *role = role_of(line, &len), *of;
	int n = 0;

	for (const char *at = all; *at; at = line_after(at)) {
		of = role_of(at, &other);
		if (len != other || memcmp(role, of, len))
			continue;
		if (at < line)
			return 0;
		n++;
	}
	return n;
}

/* "GPUs: rank 3: runs nothing; 7 ranks: each waits in NCCL" */
static void gpu_states_add(struct why *w)
{
	const char *all = finding_text(w->f, EVIDENCE_GPU_STATES);
	size_t len;
	int shown = 0, n;

	for (const char *line = all ? all : ""; *line; line = line_after(line)) {
		n = alike(all, line);
		if (!n)
			continue;
		if (!shown++)
			line_begin(w);
		text_add(w->t, shown > 1 ? "; " : "GPUs: ");
		role_of(line, &len);
		if (n > 1)
			text_add(w->t, "%d ranks: each %.*s", n, (int)len, role_of(line, &len));
		else
			text_add(w->t, "%.*s", (int)strcspn(line, "\n"), line);
	}
	if (shown)
		line_end(w);
}

/* --- the operation --- */

static bool is_op(const struct finding *f, const struct op *op)
{
	return op->kind == f->op && op->seq == f->seq && !op->captured;
}

/* Any member's: the one that is waited for has not called it. NULL: a Send or Recv, or none is kept. */
static const struct op *op_find(const struct finding *f, const struct comm *c)
{
	for (const struct member *mb = op_kind_p2p(f->op) ? NULL : c->members; mb; mb = mb->next_in_comm) {
		const struct op *op = mb->ops_tail;

		for (int i = 0; op && i < OPS_SCANNED && !is_op(f, op); i++)
			op = op->prev;
		if (op && is_op(f, op))
			return op;
	}
	return NULL;
}

static const struct comm *comm_find(const struct finding *f, const struct model *m)
{
	const struct comm *c = f->comm ? m->comms : NULL;

	while (c && c->hash != f->comm)
		c = c->next;
	return c;
}

static const struct op *op_of(const struct finding *f, const struct model *m)
{
	const struct comm *c = f->has_op && f->kind != FINDING_MISMATCH ? comm_find(f, m) : NULL;

	return c ? op_find(f, c) : NULL;
}

uint64_t incident_op_bytes(const struct finding *f, const struct model *m)
{
	const struct op *op = op_of(f, m);

	return op ? op_size_bytes(op->kind, op->count, op->dtype, op->member->comm->nranks) : 0;
}

const char *incident_parallelism(const struct finding *f, const struct model *m)
{
	const struct comm *c = comm_find(f, m);

	return c ? parallelism_name(c->parallelism) : NULL;
}

const char *incident_process_group(const struct finding *f, const struct model *m, int64_t *ret_seq)
{
	const struct comm *c = comm_find(f, m);
	const struct op *op = op_of(f, m);

	*ret_seq = op && op->in_process_group ? (int64_t)op->process_group_seq : -1;
	return c && *c->process_group ? c->process_group : NULL;
}

/* ", process group mesh_tp (SeqNum=30)": PyTorch's log of a timeout says it so. */
static void process_group_add(struct why *w, const struct model *m)
{
	int64_t seq;
	const char *name = incident_process_group(w->f, m, &seq);

	if (!name)
		return;
	text_add(w->t, ", process group ");
	text_foreign(w->t, name, " ");
	if (seq >= 0)
		text_add(w->t, " (SeqNum=%" PRId64 ")", seq);
}

/* "AllReduce #29 of 16 MiB (8388608 x bf16), communicator 0x3ac09e4473ad6a11 of 4 ranks" */
static void operation_add(struct why *w, const struct model *m)
{
	uint64_t bytes = incident_op_bytes(w->f, m);
	const struct op *op = op_of(w->f, m);
	const struct comm *c = comm_find(w->f, m);
	char text[32];

	if (!w->f->comm || has(w, EVIDENCE_CYCLE))
		return;
	line_begin(w);
	if (w->f->has_op) {
		text_op(w->t, w->f);
		put_bytes(text, bytes);
		if (bytes)
			text_add(w->t, " of %s (%" PRIu64 " x %s)", text, op->count, dtype_name(op->dtype));
		text_add(w->t, ", ");
	}
	text_add(w->t, "communicator 0x%016" PRIx64, w->f->comm);
	if (c && c->nranks > 0)
		text_add(w->t, " of %d ranks", c->nranks);
	process_group_add(w, m);
	line_end(w);
}

void text_why(struct text *t, const struct finding *f, const struct model *m)
{
	struct why w = { t, f, 0 };

	line_text(&w, "", finding_text(f, EVIDENCE_CYCLE));
	line_text(&w, "known phase: ", finding_text(f, EVIDENCE_KNOWN_PHASE));
	death_add(&w);
	kernel_add(&w);
	call_site_add(&w);
	wait_add(&w);
	phase_add(&w);
	last_call_add(&w);
	cuda_error_add(&w);
	pair_add(&w);
	transfer_add(&w);
	slowness_add(&w);
	line_text(&w, "", f->kind == FINDING_XID ? finding_text(f, EVIDENCE_MESSAGE) : NULL);
	figures_add(&w);
	users_add(&w);
	gpu_states_add(&w);
	operation_add(&w, m);
}
