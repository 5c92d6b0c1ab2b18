// SPDX-License-Identifier: Apache-2.0
/*
 * Two communicators in opposite order: one rank reduces the loss over the world before the last gradient operation of
 * its data-parallel group, the others after it. Both operations go through the compute stream, so each side's first
 * one is never joined: the culprit's waits in the world for its group, the group's for the culprit. With host=blocked
 * each host waits for its first operation and never enters the second; with host=ahead all have entered both, and only
 * the order of the streams tells.
 */
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <stdio.h>

/* Extra operations would come between the two. */
static bool deadlock_is_due(const struct rank *rank, const struct fault *fault)
{
	bool has_extra_ops = rank->options->extra_ops && rank->step % 4 == 3;

	return fault->kind == FAULT_DEADLOCK && rank->step >= fault->step && !has_extra_ops;
}

static int group_print(const struct rank *rank, char *ret_text, int size)
{
	const struct options *options = rank->options;
	int i, length = 0;

	for (i = 0; i < options->dp && length < size; i++) {
		int member = rank->position.tp + options->tp * (i + options->dp * rank->position.pp);

		length += snprintf(ret_text + length, size - length, "%s%d", i ? "," : "", member);
	}
	return length;
}

/* In the healthy order: first the gradients' operation, then the loss. */
static void deadlock_report(struct rank *rank, const struct fault *fault, const struct op_call *call)
{
	struct op_call loss = { .kind = OP_ALL_REDUCE };
	char ranks[1400], facts[2000];

	group_print(rank, ranks, sizeof(ranks));
	snprintf(facts, sizeof(facts),
		 ",\"ranks\":[%s],\"ops\":[\"%s\",\"%s\"],\"comms\":[\"0x%016" PRIx64 "\",\"0x%016" PRIx64
		 "\"],\"seqs\":[%" PRIu64 ",%" PRIu64 "]",
		 ranks, op_name(call->kind), op_name(loss.kind), rank->dp.hash, rank->world.hash,
		 comm_next_seq(rank, &rank->dp, call, false), comm_next_seq(rank, &rank->world, &loss, false));
	fault_report_with(rank, fault, "begin", facts);
}

/* As work.wait() does with TORCH_NCCL_BLOCKING_WAIT. */
static void host_wait(struct rank *rank, const struct job_comm *comm)
{
	cuda_check(&rank->api, rank->api.cuStreamSynchronize(comm->stream), "cuStreamSynchronize");
}

void deadlock_at_last_bucket(struct rank *rank, const struct op_call *call, bool is_issued)
{
	const struct options *options = rank->options;
	int i;

	for (i = 0; i < options->nr_faults; i++) {
		const struct fault *fault = &options->faults[i];
		bool is_culprit = fault->rank == rank->rank;

		/* The culprit acts before the operation, the others' hosts wait, if at all, after it. */
		if (!deadlock_is_due(rank, fault) || is_culprit == is_issued)
			continue;
		if (is_culprit) {
			deadlock_report(rank, fault, call);
			loss_reduce(rank);
			rank->is_loss_reduced = true;
		}
		if (fault->host == HOST_BLOCKED)
			host_wait(rank, is_culprit ? &rank->world : &rank->dp);
	}
}
