/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_sentence.c - an incident in one sentence: who does what, for what reason, and since when others wait. Each
 * kind has a form of its own, as "rank 3 is slower" and "mlx5_3 port 1 is down" have different subjects.
 */
#include "sink/incident_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sink/incident_parts.h"

#define HARDLY_ANY_CPU 0.1 /* cores, of a thread that could use one */

/* --- parts --- */

void text_ranks(struct text *t, const struct finding *f)
{
	bool ranks = f->n_ranks && f->ranks[0] >= 0, more = f->n_ranks_all > f->n_ranks;

	if (!f->n_ranks) {
		text_add(t, "the job");
		return;
	}
	text_add(t, ranks ? "rank" : "pid");
	text_add(t, f->n_ranks == 1 && !more ? "" : "s");
	for (int i = 0; i < f->n_ranks; i++)
		text_add(t, "%s%d",
			 !i                           ? " "
			 : i + 1 < f->n_ranks || more ? ", "
						      : " and ",
			 ranks ? f->ranks[i] : (int)f->pids[i]);
	if (more)
		text_add(t, " and %d more", f->n_ranks_all - f->n_ranks);
}

void text_list(struct text *t, const char *list)
{
	for (; *list; list += *list == ',') {
		size_t len = strcspn(list, ",");

		text_add(t, "%.*s", (int)len, list);
		list += len;
		text_add(t, !*list ? "" : strchr(list + 1, ',') ? ", " : " and ");
	}
}

void text_op(struct text *t, const struct finding *f)
{
	const char *creation = finding_text(f, EVIDENCE_CREATION);

	if (f->has_op)
		text_add(t, "%s #%" PRIu64, op_kind_name(f->op), f->seq);
	else if (creation)
		text_add(t, "ncclComm%s", creation);
	else
		text_add(t, f->class == HANG_INIT ? "the creation of a communicator" : "an operation");
	if (f->has_op && f->peer >= 0 && op_kind_p2p(f->op))
		text_add(t, " %s rank %d", f->op == OP_SEND ? "to" : "from", f->peer);
}

void text_time_of_step(struct text *t, double s)
{
	if (s < 1)
		text_add(t, s < 0.01 ? "%.2g ms" : "%.0f ms", s * 1e3);
	else
		text_duration(t, s);
}

void text_phase(struct text *t, const char *phase)
{
	static const char *const said[][2] = {
		{ "data_wait", "the wait for data" },
		{ "gc", "garbage collection" },
		{ "other", "outside of data, forward, backward and optimizer" },
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		if (!strcmp(phase, said[i][0]))
			phase = said[i][1];
	text_add(t, "%s", phase);
}

void text_blocked_in(struct text *t, const struct finding *f)
{
	const char *call = finding_text(f, EVIDENCE_SYSCALL), *file = finding_text(f, EVIDENCE_FILE);

	if (!call && !file)
		return;
	text_add(t, "in ");
	text_foreign(t, call ? call : "a call", NULL);
	text_add(t, file ? " of " : "");
	text_foreign(t, file ? file : "", NULL);
}

static bool one_only(const struct finding *f)
{
	return f->n_ranks_all <= 1 && f->n_ranks <= 1;
}

/* Which of them it is is not known. */
static bool one_of(const struct finding *f)
{
	return !one_only(f) && finding_evidence(f, EVIDENCE_ONE_OF) && finding_number(f, EVIDENCE_ONE_OF) > 1;
}

static double number_of(const struct finding *f, enum evidence_id id, double unknown)
{
	return finding_evidence(f, id) ? finding_number(f, id) : unknown;
}

/* --- hang --- */

struct verb { /* of one, of several */
	const char *one, *several;
};

static const struct verb hang_verbs[HANG_CLASS_MAX] = {
	[HANG_NONE] = { "blocks", "block" },
	[HANG_MISSING_ENTER] = { "has not entered", "have not entered" },
	[HANG_P2P_UNMATCHED] = { "never called", "never called" },
	[HANG_INSIDE_NETWORK] = { "stalls", "stall" },
	[HANG_INSIDE_GPU] = { "stalls", "stall" },
	[HANG_HOST_BLOCKED] = { "is blocked in the kernel before", "are blocked in the kernel before" },
	[HANG_STOPPED] = { "is stopped before", "are stopped before" },
	[HANG_PROCESS_DEAD] = { "died before", "died before" },
	[HANG_INIT] = { "has not joined", "have not joined" },
	[HANG_UNKNOWN] = { "seems to block", "seem to block" },
};

/* The class says it already, or the line "why" does. */
static bool cause_is_said(const struct finding *f)
{
	return f->cause == CAUSE_NONE || f->cause == CAUSE_UNKNOWN || f->cause == CAUSE_D_STATE ||
	       f->cause == CAUSE_STOPPED || (f->class == HANG_PROCESS_DEAD && f->cause == CAUSE_DEAD);
}

/* It stands in line for a CPU: an overloaded host, or a quota. */
static bool gets_no_cpu(const struct finding *f)
{
	const char *state = finding_text(f, EVIDENCE_STATE);

	return f->cause == CAUSE_BUSY && state && !strcmp(state, "runnable") &&
	       number_of(f, EVIDENCE_CPU_SHARE, 1) < HARDLY_ANY_CPU;
}

/* Of a process that is several ranks it is the thread that calls for them that sleeps, its main one or another. */
static const char *cause_said(const struct finding *f)
{
	if (f->cause == CAUSE_ASLEEP && finding_text(f, EVIDENCE_MEMBER))
		return f->n_ranks > 1 ? "their thread sleeps outside of NCCL" : "its thread sleeps outside of NCCL";
	if (f->cause == CAUSE_BUSY && !one_only(f) && !one_of(f))
		return "they compute on the CPU";
	if (gets_no_cpu(f))
		return "it wants to compute and gets hardly any CPU";
	return cause_help(finding_cause_of_host(f));
}

void text_cause(struct text *t, const struct finding *f)
{
	if (!cause_is_said(f))
		text_add(t, ": %s", cause_said(f));
}

/* No rank is named: which rank is missing in a communicator's creation is not known, or not seen from here. */
static void init_of_unknown(struct text *t, const struct finding *f)
{
	int missing = (int)(number_of(f, EVIDENCE_COMM_SIZE, 0) - number_of(f, EVIDENCE_N_CALLED, 0));

	if (missing > 0)
		text_add(t, "%d of %d ranks %s not joined ", missing, (int)finding_number(f, EVIDENCE_COMM_SIZE),
			 missing == 1 ? "has" : "have");
	else
		text_add(t, "some rank has not joined ");
	text_op(t, f);
	text_add(t, f->cause == CAUSE_NOT_SEEN ? ": which is not seen from here" : ": which is not known");
}

/* Between two ranks, and neither is to blame. */
static void transfer_of_none(struct text *t, const struct finding *f)
{
	text_op(t, f);
	text_add(t, " is stalled in the network");
	if (finding_evidence(f, EVIDENCE_SENDER))
		text_add(t, " on its way from rank %d to rank %d", (int)finding_number(f, EVIDENCE_SENDER),
			 (int)finding_number(f, EVIDENCE_RECEIVER));
	text_cause(t, f);
}

/* Where nothing counts: most ranks wait inside NCCL, and several sleep elsewhere. */
static void host_of_none(struct text *t, const char *elsewhere)
{
	text_add(t, "ranks ");
	text_list(t, elsewhere);
	text_add(t, " sleep outside of NCCL while all others wait inside: which one they wait for is not known");
}

static void hang_of_none(struct text *t, const struct finding *f)
{
	const char *elsewhere = finding_text(f, EVIDENCE_ELSEWHERE_RANKS);

	if (f->class == HANG_INIT) {
		init_of_unknown(t, f);
	} else if (f->class == HANG_INSIDE_NETWORK) {
		transfer_of_none(t, f);
	} else if (elsewhere) {
		host_of_none(t, elsewhere);
	} else {
		text_add(t, "all ranks entered ");
		text_op(t, f);
		text_add(t, " and none finishes it");
	}
}

/* Known by its proxy: it entered the operation, and was in the middle of it. */
static bool is_inside(const struct finding *f)
{
	return finding_evidence(f, EVIDENCE_N_MEMBERS) || finding_evidence(f, EVIDENCE_PROXY_OP_COUNT);
}

static const char *hang_verb(const struct finding *f)
{
	const struct verb *v = &hang_verbs[f->class];

	if (f->class == HANG_PROCESS_DEAD && f->cause == CAUSE_NOT_THERE)
		return "has no process here any more; its peers wait in";
	if (f->class == HANG_PROCESS_DEAD && is_inside(f))
		return "died inside";
	if (f->class == HANG_STOPPED && is_inside(f))
		return one_only(f) ? "is stopped inside" : "are stopped inside";
	return one_only(f) || one_of(f) ? v->one : v->several;
}

static void hang_add(struct text *t, const struct finding *f)
{
	const char *phase = f->severity == SEVERITY_INFO ? finding_text(f, EVIDENCE_KNOWN_PHASE) : NULL;

	if (!f->n_ranks) {
		hang_of_none(t, f);
		return;
	}
	text_add(t, one_of(f) ? "one of " : "");
	text_ranks(t, f);
	if (f->class == HANG_DEADLOCK) {
		text_add(t, " wait for each other (deadlock): they call operations in different orders");
		return;
	}
	text_add(t, " %s ", hang_verb(f));
	text_op(t, f);
	if (phase) {
		text_add(t, ", as usual (");
		text_foreign(t, phase, NULL);
		text_add(t, ")");
	} else if (f->cause != CAUSE_NOT_THERE) {
		text_cause(t, f);
	}
}

/* --- what ranks call --- */

/* In the order of the causes' names: with this value, and that one. */
static void values_add(struct text *t, const char *what, const char *a, const char *between, const char *b)
{
	text_add(t, " with %s%s%s%s%s", what, a, between, what, b);
}

static const char *redop_name(double redop, char to[24])
{
	static const char *const names[] = { "sum", "product", "max", "min", "average", "of the program's own" };

	snprintf(to, 24, "%.0f", redop);
	return redop >= 0 && redop <= REDOP_OWN ? names[(int)redop] : to;
}

static const char *number_text(double v, char to[24])
{
	snprintf(to, 24, "%.0f", v);
	return to;
}

static void differs_add(struct text *t, const struct finding *f, const char *between)
{
	char a[24], b[24];
	const char *found = finding_text(f, EVIDENCE_DTYPE_FOUND), *usual = finding_text(f, EVIDENCE_DTYPE_EXPECTED);

	if (f->cause == CAUSE_DTYPE && found && usual) {
		values_add(t, "type ", found, between, usual);
		return;
	}
	switch (f->cause) {
	case CAUSE_COUNT:
		values_add(t, "", number_text(finding_number(f, EVIDENCE_COUNT_FOUND), a), between,
			   number_text(finding_number(f, EVIDENCE_COUNT_EXPECTED), b));
		text_add(t, " elements");
		break;
	case CAUSE_REDOP:
		values_add(t, "reduction ", redop_name(finding_number(f, EVIDENCE_REDOP_FOUND), a), between,
			   redop_name(finding_number(f, EVIDENCE_REDOP_EXPECTED), b));
		break;
	case CAUSE_ROOT:
		values_add(t, "root ", number_text(finding_number(f, EVIDENCE_ROOT_FOUND), a), between,
			   number_text(finding_number(f, EVIDENCE_ROOT_EXPECTED), b));
		break;
	default: text_add(t, " with other arguments than %s peers", one_only(f) ? "its" : "their"); break;
	}
}

/* Where it is even, none is right. */
static void mismatch_add(struct text *t, const struct finding *f)
{
	const char *found = finding_text(f, EVIDENCE_OP_FOUND), *usual = finding_text(f, EVIDENCE_OP_EXPECTED);
	bool even = f->confidence <= 0.5;

	text_ranks(t, f);
	if (f->cause == CAUSE_PAST_CALLS) {
		text_add(t,
			 even ? " called different operations, at #%" PRIu64 " or soon after"
			      : " called other operations than all others, at #%" PRIu64 " or soon after",
			 f->seq);
		return;
	}
	if (f->cause == CAUSE_OP && found && usual) {
		text_add(t,
			 even ? " called different operations as #%" PRIu64 ": %s and %s"
			      : " called as #%" PRIu64 " %s where all others called %s",
			 f->seq, found, usual);
		return;
	}
	text_add(t, " called ");
	text_op(t, f);
	differs_add(t, f, even ? " or " : one_only(f) ? ", its peers with " : ", their peers with ");
}

/* --- what a host does to a rank --- */

/* A child's task is its rank's: "a child of rank 2 (pid 10299, pt_data_worker)". */
static void blocked_add(struct text *t, const struct finding *f)
{
	const char *name = finding_text(f, EVIDENCE_CHILD_NAME);

	text_add(t, finding_evidence(f, EVIDENCE_CHILD_PID) ? "a child of " : "");
	text_ranks(t, f);
	if (finding_evidence(f, EVIDENCE_CHILD_PID)) {
		text_add(t, " (pid %.0f%s", finding_number(f, EVIDENCE_CHILD_PID), name ? ", " : "");
		text_foreign(t, name ? name : "", NULL);
		text_add(t, ")");
	}
	text_add(t, " is blocked in the kernel (D state)%s",
		 finding_text(f, EVIDENCE_SYSCALL) || finding_text(f, EVIDENCE_FILE) ? " " : "");
	text_blocked_in(t, f);
	text_cause(t, f);
}

/* ", in backward" */
static void phase_in_add(struct text *t, const char *phase)
{
	text_add(t, strcmp(phase, "other") ? ", in " : ", ");
	text_phase(t, phase);
}

static void straggler_add(struct text *t, const struct finding *f)
{
	bool one = one_only(f) || one_of(f);

	text_add(t, one_of(f) ? "one of " : "");
	text_ranks(t, f);
	if (finding_evidence(f, EVIDENCE_GAP_S) && finding_evidence(f, EVIDENCE_STEP_S)) {
		text_add(t, " %s peers wait ", one ? "makes its" : "make their");
		text_time_of_step(t, finding_number(f, EVIDENCE_GAP_S));
		text_add(t, " in each step of ");
		text_time_of_step(t, finding_number(f, EVIDENCE_STEP_S));
	} else {
		text_add(t, " %s peers", one ? "is slower than its" : "are slower than their");
	}
	if (f->cause == CAUSE_STOPPED)
		text_add(t, ": a signal or a debugger stops it again and again");
	else if (f->cause == CAUSE_D_STATE)
		text_add(t, ": its threads wait in the kernel, uninterruptibly");
	else if (f->cause == CAUSE_HOST_PHASE && finding_text(f, EVIDENCE_PHASE)) {
		text_add(t, ": its host is slow");
		phase_in_add(t, finding_text(f, EVIDENCE_PHASE));
	} else
		text_cause(t, f);
}

/* Whose phase became longer, or that all wait for their GPUs. */
static void slow_phase_add(struct text *t, const struct finding *f)
{
	const char *phase = finding_text(f, EVIDENCE_PHASE), *who = finding_text(f, EVIDENCE_PHASE_WHO),
		   *ranks = finding_text(f, EVIDENCE_PHASE_RANKS);

	if (!phase) {
		text_add(t, ": which rank is slow is not known");
		return;
	}
	if (!strcmp(phase, "gpu_wait")) {
		text_add(t, ": all hosts wait longer for their GPUs%s",
			 f->cause == CAUSE_GPU ? ", which compute longer" : "");
		return;
	}
	text_add(t, ": ");
	if (ranks) {
		text_add(t, "rank%s ", strchr(ranks, ',') ? "s" : "");
		text_list(t, ranks);
	} else {
		text_add(t, "%s", who && !strcmp(who, "turns") ? "now one rank, now another" : "all hosts");
	}
	phase_in_add(t, phase);
}

static void slow_step_add(struct text *t, const struct finding *f)
{
	if (finding_evidence(f, EVIDENCE_STEP_S)) {
		text_add(t, "steps take ");
		text_time_of_step(t, finding_number(f, EVIDENCE_STEP_S));
		text_add(t, ", before ");
		text_time_of_step(t, finding_number(f, EVIDENCE_STEP_BEFORE_S));
	} else {
		text_add(t, "the job calls %.3g collectives a second, before %.3g",
			 finding_number(f, EVIDENCE_OPS_PER_S), finding_number(f, EVIDENCE_OPS_PER_S_BEFORE));
	}
	slow_phase_add(t, f);
}

/* --- the rest --- */

static void unusual_add(struct text *t, const struct finding *f)
{
	const char *counter = finding_text(f, EVIDENCE_COUNTER);

	text_ranks(t, f);
	text_add(t, " is unlike its peers: ");
	text_foreign(t, counter ? counter : "a value", NULL);
	text_add(t, " is %.4g, the next peer has %.4g", finding_number(f, EVIDENCE_VALUE),
		 finding_number(f, EVIDENCE_PEERS_VALUE));
}

static void observation_add(struct text *t, const struct finding *f)
{
	if (subject_is_link(&f->subject)) {
		text_link_fault(t, f);
	} else if (f->cause == CAUSE_UNUSUAL_VALUE) {
		unusual_add(t, f);
	} else if (!f->n_ranks && f->class == HANG_INIT) {
		init_of_unknown(t, f);
	} else {
		text_ranks(t, f);
		text_add(t, one_only(f) ? " is late for " : " are late for ");
		text_op(t, f);
		text_cause(t, f);
	}
}

/* Its cause has a subject of its own: a thread of the rank. */
static void starved_add(struct text *t, const struct finding *f)
{
	text_ranks(t, f);
	if (f->cause != CAUSE_PROXY_THREAD && f->cause != CAUSE_PROXY_STARVED)
		text_add(t, one_only(f) ? " gets too little CPU" : " get too little CPU");
	text_cause(t, f);
}

static void storage_add(struct text *t, const struct finding *f)
{
	const char *mount = finding_text(f, EVIDENCE_MOUNT);

	text_ranks(t, f);
	text_add(t, one_only(f) ? " waits for storage that does not answer: "
				: " wait for storage that does not answer: ");
	text_foreign(t, mount ? mount : "not known", NULL);
}

static void stopped_add(struct text *t, const struct finding *f)
{
	const char *how = f->cause == CAUSE_STOPPED ? "stopped, by a signal or a debugger" : "stopped";

	if (f->subject.type == SUBJECT_JOB && f->n_ranks_all > 1)
		text_add(t, "the job is suspended: all %d ranks that are seen are stopped", f->n_ranks_all);
	else if (f->subject.type == SUBJECT_JOB)
		text_add(t, "the job is suspended: its rank is stopped");
	else {
		text_ranks(t, f);
		text_add(t, " %s %s", one_only(f) ? "is" : "are", how);
	}
	text_cause(t, f);
}

static void clause_add(struct text *t, const struct finding *f)
{
	switch (f->kind) {
	case FINDING_HANG: hang_add(t, f); break;
	case FINDING_MISMATCH: mismatch_add(t, f); break;
	case FINDING_D_STATE: blocked_add(t, f); break;
	case FINDING_STRAGGLER: straggler_add(t, f); break;
	case FINDING_SLOW_STEP: slow_step_add(t, f); break;
	case FINDING_GPU_HEALTH: text_gpu_health(t, f); break;
	case FINDING_XID: text_xid(t, f); break;
	case FINDING_LINK: text_link_fault(t, f); break;
	case FINDING_OBSERVATION: observation_add(t, f); break;
	case FINDING_STOPPED: stopped_add(t, f); break;
	case FINDING_CPU_STARVED: starved_add(t, f); break;
	case FINDING_IO_STALL: storage_add(t, f); break;
	case FINDING_LOST_EVENTS:
		text_add(t, "ranktrace lost %.0f records: its verdicts are less certain",
			 finding_number(f, EVIDENCE_LOST_RECORDS));
		break;
	case FINDING_UNOBSERVED:
		text_add(t, "no host reported ");
		text_ranks(t, f);
		break;
	default: break;
	}
}

/* How many peers wait, where the detector says so; 0 unknown. */
static int peers_waiting(const struct finding *f)
{
	static const enum evidence_id ids[] = { EVIDENCE_N_WAITING, EVIDENCE_PEERS_WAITING, EVIDENCE_N_CALLED };

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (finding_evidence(f, ids[i]))
			return (int)finding_number(f, ids[i]);
	return 0;
}

/* What happens at a moment has no length, and one below a second says nothing. */
static bool has_length(const struct finding *f, double s)
{
	return f->kind != FINDING_XID && f->kind != FINDING_LOST_EVENTS && f->kind != FINDING_UNOBSERVED && s >= 1;
}

void incident_text_sentence(struct text *t, const struct incident *i)
{
	const struct finding *f = &i->f;
	double since_s = i->t_ns > f->since_ns ? (double)(i->t_ns - f->since_ns) / 1e9 : 0;
	int waiting = i->phase == PHASE_CLOSE ? 0 : peers_waiting(f);

	clause_add(t, f);
	if (waiting)
		text_add(t, "; %d %s%s waited %s", waiting, f->n_ranks ? "peer" : "rank",
			 waiting == 1 ? " has" : "s have",
			 finding_evidence(f, EVIDENCE_WAITING_LONGER) ? "at least " : "");
	else if (i->phase == PHASE_CLOSE || has_length(f, since_s))
		text_add(t, i->phase == PHASE_CLOSE ? "; it lasted " : "; for ");
	else
		return;
	text_duration(t, since_s);
}
