// SPDX-License-Identifier: Apache-2.0
/*
 * Two communicators in opposite order: one rank reduces the loss over the world before the last gradient operation of
 * its data-parallel group, the others after it. Both operations go through the compute stream, so each side's first
 * one is never joined: the culprit's waits in the world for its group, the group's for the culprit. With host=blocked
 * each host waits for its first operation and never enters the second; with host=ahead all have entered both, and only
 * the order of the streams shows it.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/injection.h"
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <stdio.h>

enum deadlock_host { HOST_AHEAD, HOST_BLOCKED };

/* Extra operations would come between the two. */
static bool is_due(const struct rank *rank, const struct injection *injection)
{
	bool has_extra_ops = rank->options->extra_ops && rank->step % 4 == 3;

	return rank->step >= injection->step && !has_extra_ops;
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
static void report(struct rank *rank, const struct injection *injection, const struct op_call *call)
{
	struct op_call loss = { .kind = OP_ALL_REDUCE };
	char ranks[1400], facts[2000];

	group_print(rank, ranks, sizeof(ranks));
	snprintf(facts, sizeof(facts),
		 ",\"ranks\":[%s],\"ops\":[\"%s\",\"%s\"],\"comms\":[\"0x%016" PRIx64 "\",\"0x%016" PRIx64
		 "\"],\"seqs\":[%" PRIu64 ",%" PRIu64 "]",
		 ranks, op_name(call->kind), op_name(loss.kind), rank->dp.hash, rank->world.hash,
		 comm_next_seq(rank, &rank->dp, call, false), comm_next_seq(rank, &rank->world, &loss, false));
	injection_report_with(rank, injection, "begin", facts);
}

/* As work.wait() does with TORCH_NCCL_BLOCKING_WAIT. */
static void host_wait(struct rank *rank, const struct job_comm *comm)
{
	cuda_check(&rank->api, rank->api.cuStreamSynchronize(comm->stream), "cuStreamSynchronize");
}

/* The culprit acts before the operation, the others' hosts wait, if at all, after it. */
static void before_last_bucket(struct rank *rank, const struct injection *injection, const struct op_call *call)
{
	if (injection->rank != rank->rank || !is_due(rank, injection))
		return;
	report(rank, injection, call);
	loss_reduce(rank);
	rank->is_loss_reduced = true;
	if (injection->host == HOST_BLOCKED)
		host_wait(rank, &rank->world);
}

static void after_last_bucket(struct rank *rank, const struct injection *injection, const struct op_call *call)
{
	(void)call;
	if (injection->rank != rank->rank && is_due(rank, injection) && injection->host == HOST_BLOCKED)
		host_wait(rank, &rank->dp);
}

static int check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	int i, nr = 0;

	for (i = 0; i < options->nr_injections; i++)
		nr += options->injections[i].fault == injection->fault;
	if (options->dp < 2)
		return refuse(reason, "there is no second communicator with the same members, dp is 1; ask for one by "
				      "--layout dp=2 or more");
	if (options->graph == GRAPH_STEP)
		return refuse(reason,
			      "with --graph step its operations are captured once and for all; use --graph layers");
	if (nr > 1)
		return refuse(reason, "given more than once, and the job does not come past the first; leave one out");
	return 0;
}

const struct fault fault_deadlock = {
	.keys = KEY_RANK | KEY_STEP | KEY_HOST,
	.host = WORDS("ahead", "blocked"),
	.check = check,
	.before_last_bucket = before_last_bucket,
	.after_last_bucket = after_last_bucket,
};
