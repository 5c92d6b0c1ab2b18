// SPDX-License-Identifier: Apache-2.0
/*
 * Faults that strike the rank's main thread right before an operation, and the slowness of its kernels. Each says on
 * stderr and in the fault log when it begins and when it ends: tests know the truth from there.
 */
#include "rank.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void report_write(int fd, const char *text, int length, int size)
{
	if (length >= size)
		length = size - 1;
	if (write(fd, text, length) != length)
		perror("simjob: cannot write the fault log");
}

void fault_report(struct rank *rank, const struct fault *fault, const char *phase, const struct job_comm *comm,
		  const struct op_call *call)
{
	uint64_t seq = comm ? comm_next_seq((struct job_comm *)comm, call, false) : 0;
	uint64_t now_ns = clock_now_ns();
	char place[128] = "", text[512];
	int length;

	if (comm)
		snprintf(place, sizeof(place), " op=%s comm=0x%016" PRIx64 " seq=%" PRIu64, op_name(call->kind),
			 comm->hash, seq);
	length = snprintf(text, sizeof(text), "simjob: fault %s%s rank=%d pid=%d step=%d t_ns=%" PRIu64 "%s\n",
			  fault_name(fault), strcmp(phase, "begin") ? " end" : "", rank->rank, rank->pid, rank->step,
			  now_ns, place);
	report_write(STDERR_FILENO, text, length, sizeof(text));
	if (rank->fault_log_fd < 0)
		return;
	if (comm)
		snprintf(place, sizeof(place), ",\"op\":\"%s\",\"comm\":\"0x%016" PRIx64 "\",\"seq\":%" PRIu64,
			 op_name(call->kind), comm->hash, seq);
	length =
	    snprintf(text, sizeof(text),
		     "{\"fault\":\"%s\",\"phase\":\"%s\",\"rank\":%d,\"pid\":%d,\"step\":%d,\"t_ns\":%" PRIu64 "%s}\n",
		     fault_name(fault), phase, rank->rank, rank->pid, rank->step, now_ns, place);
	report_write(rank->fault_log_fd, text, length, sizeof(text));
}

/* From @from_step on, or from the very first step when that lies in the past. */
static bool fault_is_on(const struct rank *rank, const struct fault *fault)
{
	return (fault->rank < 0 || fault->rank == rank->rank) && rank->step >= fault->step &&
	       rank->step < fault->until_step;
}

double faults_slowness(struct rank *rank)
{
	const struct options *options = rank->options;
	double slowness = 1.0;
	int i;

	for (i = 0; i < options->nr_faults; i++) {
		const struct fault *fault = &options->faults[i];
		bool on = fault->kind == FAULT_SLOW && fault_is_on(rank, fault);

		if (on)
			slowness *= 1.0 + fault->percent / 100.0;
		if (on && !rank->fault_begun[i])
			fault_report(rank, fault, "begin", NULL, NULL);
		if (!on && rank->fault_begun[i] && fault->kind == FAULT_SLOW && !rank->fault_done[i]) {
			fault_report(rank, fault, "end", NULL, NULL);
			rank->fault_done[i] = true;
		}
		if (on)
			rank->fault_begun[i] = true;
	}
	return slowness;
}

/* The operation is the asked one, or the drawn one of as many as the last step had. */
static bool fault_strikes_here(const struct rank *rank, const struct fault *fault)
{
	int op = fault->op;

	if (fault->rank != rank->rank || rank->step < fault->step)
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
	    ncclUint8,	  ncclInt8,  ncclUint32, ncclInt32,   ncclUint64,     ncclInt64,
	    ncclBfloat16, ncclInt32, ncclInt64,	 ncclFloat16, ncclFloat8e5m2, ncclFloat8e4m3,
	};

	if (fault->mismatch == MISMATCH_DTYPE)
		call->datatype = same_size[call->datatype];
	else
		call->count = call->count > 1 ? call->count / 2 : 2;
}

static void fault_strike(struct rank *rank, int index, struct job_comm *comm, struct op_call *call)
{
	const struct fault *fault = &rank->options->faults[index];
	struct op_place place = {comm, call};

	/* What was entered before is the GPU's business, and a real GPU does not stop with its process. */
	if (fault->kind == FAULT_STOP)
		rank->api.sim_device_settle(NSEC_PER_SEC);
	if (fault->kind != FAULT_DSTATE && fault->kind != FAULT_DSTATE_MM)
		fault_report(rank, fault, "begin", comm, call);
	switch (fault->kind) {
	case FAULT_STOP:
		kill(rank->pid, SIGSTOP);
		break;
	case FAULT_HANG:
		sleep_until(fault_deadline_ns(fault));
		break;
	case FAULT_HANG_BUSY:
		spin_until(fault_deadline_ns(fault));
		break;
	case FAULT_MISMATCH:
		mismatch_apply(fault, call);
		return;
	case FAULT_DSTATE:
	case FAULT_DSTATE_MM:
		fault_block(rank, fault, index, &place);
		break;
	default:
		return;
	}
	fault_report(rank, fault, "end", comm, call);
}

static bool fault_is_per_op(const struct fault *fault)
{
	return fault->kind != FAULT_SLOW && fault->kind != FAULT_PHASE;
}

void faults_before_op(struct rank *rank, struct job_comm *comm, struct op_call *call)
{
	const struct options *options = rank->options;
	int i;

	for (i = 0; i < options->nr_faults; i++) {
		if (rank->fault_done[i] || !fault_is_per_op(&options->faults[i]))
			continue;
		if (!fault_strikes_here(rank, &options->faults[i]))
			continue;
		rank->fault_done[i] = true;
		fault_strike(rank, i, comm, call);
	}
}
