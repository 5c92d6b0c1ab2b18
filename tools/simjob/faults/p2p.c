// SPDX-License-Identifier: Apache-2.0
/*
 * A transfer of the pipeline that one side leaves out and goes on. Transfers match by their order, so the peer's next
 * ones meet what was meant for later ones, and what stays unmatched is the last of the step: by then both sides need
 * the loss, and the one that waits never gets there.
 */
#include "tools/simjob/faults/faults.h"

#include "tools/simjob/job/injection.h"
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <stdio.h>

enum p2p_what { P2P_SEND, P2P_RECV };

static uint64_t transfers_so_far(const struct job_comm *comm, enum op_kind kind)
{
	const uint64_t *seqs = kind == OP_SEND ? comm->send_seq : comm->recv_seq;
	uint64_t sum = 0;
	int i;

	for (i = 0; i < comm->size; i++)
		sum += seqs[i];
	return sum;
}

static bool is_due(const struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	enum op_kind kind = injection->what == P2P_SEND ? OP_SEND : OP_RECV;
	int neighbours = (rank->position.pp > 0) + (rank->position.pp < rank->options->pp - 1);
	int per_step = neighbours * rank->options->microbatches;

	if (injection->rank != rank->rank || rank->step < injection->step)
		return false;
	/* What a graph runs was fixed at its capture. */
	if (rank->launching || place->comm != &rank->pp || place->call->kind != kind)
		return false;
	if (injection->op >= 0)
		return rank->step > injection->step || rank->op_in_step >= injection->op;
	/* lint: who has such a call has a neighbour */
	return transfers_so_far(place->comm, kind) % per_step >= injection->draw % per_step;
}

static int stage_rank(const struct rank *rank, int stage)
{
	return rank->position.tp + rank->options->tp * (rank->position.dp + rank->options->dp * stage);
}

static void report(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	uint64_t per_step = rank->options->microbatches;
	uint64_t seq = comm_next_seq(rank, place->comm, place->call, false);
	int peer = stage_rank(rank, place->call->root_or_peer);
	bool is_send = place->call->kind == OP_SEND;
	char facts[256];

	snprintf(facts, sizeof(facts),
		 ",\"op\":\"%s\",\"comm\":\"0x%016" PRIx64 "\",\"seq\":%" PRIu64
		 ",\"sender\":%d,\"receiver\":%d,\"unmatched_seq\":%" PRIu64,
		 op_name(place->call->kind), place->comm->hash, seq, is_send ? rank->rank : peer,
		 is_send ? peer : rank->rank, (seq / per_step + 1) * per_step - 1);
	injection_report_with(rank, injection, "begin", facts);
}

static bool before_op(struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	struct injection_state *state = injection_state(rank, injection);

	if (state->done || !is_due(rank, injection, place))
		return true;
	state->done = true;
	report(rank, injection, place);
	return false;
}

static int check(const struct options *options, const struct injection *injection, struct reason *reason)
{
	(void)injection;
	if (options->pp < 2)
		return refuse(reason,
			      "there is no pipeline to transfer in, pp is 1; ask for one by --layout pp=2 or more");
	if (options->graph == GRAPH_STEP)
		return refuse(reason,
			      "with --graph step its operations are captured once and for all; use --graph layers");
	return 0;
}

const struct fault fault_p2p = {
	.keys = PLACE_KEYS | KEY_WHAT,
	.what = WORDS("send", "recv"),
	.check = check,
	.before_op = before_op,
};
