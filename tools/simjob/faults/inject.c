// SPDX-License-Identifier: Apache-2.0
/*
 * Faults that strike the rank's main thread right before an operation, and the slowness of its kernels. Each says on
 * stderr and in the fault log when it begins and when it ends: tests know the truth from there.
 */
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static void report_write(int fd, const char *text, int length, int size)
{
	if (length >= size)
		length = size - 1;
	if (write(fd, text, length) != length)
		perror("simjob: cannot write the fault log");
}

/* For people: the same facts without the quotes, ,"a":[1,2] as " a=[1,2]". */
static void facts_print(char *ret_text, size_t size, const char *json)
{
	size_t length = 0;

	for (; *json && length + 1 < size; json++) {
		if (*json == '"')
			continue;
		ret_text[length++] = *json == ':' ? '=' : *json == ',' && json[1] == '"' ? ' ' : *json;
	}
	ret_text[length] = '\0';
}

static void place_print(const struct rank *rank, char *ret_json, size_t size, const struct job_comm *comm,
			const struct op_call *call)
{
	*ret_json = '\0';
	if (comm)
		snprintf(ret_json, size, ",\"op\":\"%s\",\"comm\":\"0x%016" PRIx64 "\",\"seq\":%" PRIu64 "%s",
			 op_name(call->kind), comm->hash, comm_next_seq(rank, (struct job_comm *)comm, call, false),
			 rank->launching ? ",\"graph\":true" : "");
}

void fault_report_with(struct rank *rank, const struct fault *fault, const char *phase, const char *facts)
{
	uint64_t now_ns = clock_now_ns();
	char spoken[2048], text[4096];
	int length;

	facts_print(spoken, sizeof(spoken), facts);
	length = snprintf(text, sizeof(text), "simjob: fault %s%s rank=%d pid=%d step=%d t_ns=%" PRIu64 "%s\n",
			  fault_name(fault), strcmp(phase, "begin") ? " end" : "", rank->rank, rank->pid, rank->step,
			  now_ns, spoken);
	if (!fault_recurs(fault) || !rank->fault_begun[fault - rank->options->faults])
		report_write(STDERR_FILENO, text, length, sizeof(text));
	if (rank->fault_log_fd < 0)
		return;
	length = snprintf(text, sizeof(text),
			  "{\"fault\":\"%s\",\"phase\":\"%s\",\"rank\":%d,\"pid\":%d,\"step\":%d,\"t_ns\":%" PRIu64
			  "%s}\n",
			  fault_name(fault), phase, rank->rank, rank->pid, rank->step, now_ns, facts);
	report_write(rank->fault_log_fd, text, length, sizeof(text));
}

void fault_report(struct rank *rank, const struct fault *fault, const char *phase, const struct job_comm *comm,
		  const struct op_call *call)
{
	char place[256];

	place_print(rank, place, sizeof(place), comm, call);
	fault_report_with(rank, fault, phase, place);
}

/* From @from_step on, or from the very first step when that lies in the past. */
static bool fault_is_on(const struct rank *rank, const struct fault *fault)
{
	return (fault->rank < 0 || fault->rank == rank->rank) && rank->step >= fault->step &&
	       rank->step < fault->until_step;
}

/* Sequences are as long in all ranks that work on the same batch: they share the place in the data-parallel group. */
static double sequence_factor(const struct rank *rank, const struct fault *fault)
{
	struct random random = { .state = fault->draw ^ (uint64_t)rank->step << 32 ^ rank->position.dp };

	random_u64(&random);
	return 1.0 + fault->percent / 100.0 * random_unit(&random);
}

static double fault_slowness(const struct rank *rank, const struct fault *fault)
{
	if (fault->kind == FAULT_IMBALANCE && fault->what == IMBALANCE_SEQUENCE)
		return sequence_factor(rank, fault);
	if (fault->kind == FAULT_IMBALANCE && rank->position.pp < rank->options->pp - 1)
		return 1.0;
	return 1.0 + fault->percent / 100.0;
}

/* Of an imbalance, which is everybody's, one rank speaks. */
static bool slowness_is_told_here(const struct rank *rank, const struct fault *fault)
{
	return fault->kind == FAULT_SLOW || rank->rank == 0;
}

double faults_slowness(struct rank *rank)
{
	const struct options *options = rank->options;
	double slowness = 1.0;
	int i;

	for (i = 0; i < options->nr_faults; i++) {
		const struct fault *fault = &options->faults[i];
		bool on = fault_is_on(rank, fault), is_told = slowness_is_told_here(rank, fault);

		if (fault->kind != FAULT_SLOW && fault->kind != FAULT_IMBALANCE)
			continue;
		if (on)
			slowness *= fault_slowness(rank, fault);
		if (on && !rank->fault_begun[i] && is_told)
			fault_report(rank, fault, "begin", NULL, NULL);
		if (!on && rank->fault_begun[i] && !rank->fault_done[i]) {
			if (is_told)
				fault_report(rank, fault, "end", NULL, NULL);
			rank->fault_done[i] = true;
		}
		if (on)
			rank->fault_begun[i] = true;
	}
	return slowness;
}

/* The operation is the asked one, or the drawn one of as many as the last step had. */
static bool fault_strikes_here(const struct rank *rank, const struct fault *fault, const struct job_comm *comm,
			       const struct op_call *call)
{
	int op = fault->op;

	if (fault->rank != rank->rank || rank->step < fault->step)
		return false;
	/* What a graph runs was fixed at its capture. */
	if (rank->launching && (fault->kind == FAULT_MISMATCH || fault->kind == FAULT_P2P))
		return false;
	if (fault->kind == FAULT_P2P)
		return p2p_strikes_here(rank, fault, comm, call);
	if ((fault->kind == FAULT_INSIDE || fault->kind == FAULT_PROXY) && !net_carries(rank, comm, call))
		return false;
	if (op < 0)
		op = rank->ops_last_step ? fault->draw % rank->ops_last_step : 0;
	return rank->step > fault->step || rank->op_in_step >= op;
}

static uint64_t fault_deadline_ns(const struct fault *fault)
{
	return clock_now_ns() + (uint64_t)(fault->duration_s * NSEC_PER_SEC);
}

static void mismatch_apply(const struct fault *fault, struct op_call *call)
{
	static const ncclDataType_t same_size[ncclNumTypes] = {
		ncclUint8,    ncclInt8,  ncclUint32, ncclInt32,   ncclUint64,     ncclInt64,
		ncclBfloat16, ncclInt32, ncclInt64,  ncclFloat16, ncclFloat8e5m2, ncclFloat8e4m3,
	};

	if (fault->what == MISMATCH_DTYPE)
		call->datatype = same_size[call->datatype];
	else
		call->count = call->count > 1 ? call->count / 2 : 2;
}

/* The process ends here and now; what it has entered and not reached its GPU loses with it. */
static void rank_end(const struct rank *rank, const struct fault *fault)
{
	volatile int *volatile nowhere = NULL; /* or the compiler sees that nobody reads it, and drops the store */

	switch ((enum kill_how)fault->how) {
	case KILL_BY_SIGKILL: kill(rank->pid, SIGKILL); break;
	case KILL_BY_EXIT: exit(1);
	case KILL_BY_SEGV:
		prctl(PR_SET_DUMPABLE, 0); /* no core file of a crash that was asked for */
		*nowhere = 1;
		break;
	}
}

void fault_stop(struct rank *rank, int index)
{
	/* The launcher learns from here which fault's time it is to count. */
	atomic_store(&rank->store->ranks[rank->rank].stopped_for, index + 1);
	kill(rank->pid, SIGSTOP);
}

/* What lasts a while: begin, and the end when it is over. */
static void fault_endure(struct rank *rank, int index, const struct op_place *place)
{
	const struct fault *fault = &rank->options->faults[index];

	/* What was entered before is the GPU's business, and a real GPU does not stop with its process. */
	if (fault->kind == FAULT_STOP)
		rank->api.sim_device_settle(NSEC_PER_SEC);
	if (!fault_needs_frozen_fs(fault))
		fault_report(rank, fault, "begin", place->comm, place->call);
	if (fault->kind == FAULT_STOP)
		fault_stop(rank, index);
	else if (fault->kind == FAULT_HANG)
		sleep_until(fault_deadline_ns(fault));
	else if (fault->kind == FAULT_HANG_BUSY)
		spin_until(fault_deadline_ns(fault));
	else
		fault_block(rank, fault, index, place);
	fault_report(rank, fault, "end", place->comm, place->call);
}

/* False: the operation is left out. */
static bool fault_strike(struct rank *rank, int index, struct job_comm *comm, struct op_call *call)
{
	const struct fault *fault = &rank->options->faults[index];
	struct op_place place = { comm, call };

	switch (fault->kind) {
	case FAULT_KILL:
		fault_report(rank, fault, "begin", comm, call);
		rank_end(rank, fault);
		return true;
	case FAULT_MISMATCH:
		fault_report(rank, fault, "begin", comm, call);
		mismatch_apply(fault, call);
		return true;
	case FAULT_P2P: p2p_report(rank, fault, &place); return false;
	case FAULT_INSIDE:
	case FAULT_PROXY: net_fault_arm(rank, index, &place); return true;
	default: fault_endure(rank, index, &place); return true;
	}
}

/* The others have moments of their own: a launch, a step, a batch. */
static bool fault_is_per_op(const struct fault *fault)
{
	switch (fault->kind) {
	case FAULT_STOP:
	case FAULT_HANG:
	case FAULT_HANG_BUSY:
	case FAULT_KILL:
	case FAULT_MISMATCH:
	case FAULT_P2P:
	case FAULT_INSIDE:
	case FAULT_PROXY:
	case FAULT_DSTATE:
	case FAULT_DSTATE_MM: return true;
	default: return false;
	}
}

bool faults_before_op(struct rank *rank, struct job_comm *comm, struct op_call *call)
{
	const struct options *options = rank->options;
	bool is_made = true;
	int i;

	collections_before_op(rank, comm, call);
	for (i = 0; i < options->nr_faults && is_made; i++) {
		if (rank->fault_done[i] || !fault_is_per_op(&options->faults[i]))
			continue;
		if (!fault_strikes_here(rank, &options->faults[i], comm, call))
			continue;
		rank->fault_done[i] = true;
		is_made = fault_strike(rank, i, comm, call);
	}
	return is_made;
}
