// SPDX-License-Identifier: Apache-2.0
/*
 * A transfer of the pipeline that one side leaves out and goes on. Transfers match by their order, so the peer's next
 * ones meet what was meant for later ones, and what stays unmatched is the last of the step: by then both sides need
 * the loss, and the one that waits never gets there.
 */
#include "tools/simjob/job/rank.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t transfers_so_far(const struct job_comm *comm, enum op_kind kind)
{
	const uint64_t *seqs = kind == OP_SEND ? comm->send_seq : comm->recv_seq;
	uint64_t sum = 0;
	int i;

	for (i = 0; i < comm->size; i++)
		sum += seqs[i];
	return sum;
}

bool p2p_strikes_here(const struct rank *rank, const struct fault *fault, const struct job_comm *comm,
		      const struct op_call *call)
{
	enum op_kind kind = fault->what == P2P_SEND ? OP_SEND : OP_RECV;
	int neighbours = (rank->position.pp > 0) + (rank->position.pp < rank->options->pp - 1);
	int per_step = neighbours * rank->options->microbatches;

	if (comm != &rank->pp || call->kind != kind)
		return false;
	if (fault->op >= 0)
		return rank->step > fault->step || rank->op_in_step >= fault->op;
	return transfers_so_far(comm, kind) % per_step >= fault->draw % per_step;
}

static int stage_rank(const struct rank *rank, int stage)
{
	return rank->position.tp + rank->options->tp * (rank->position.dp + rank->options->dp * stage);
}

void p2p_report(struct rank *rank, const struct fault *fault, const struct op_place *place)
{
	uint64_t per_step = rank->options->microbatches;
	uint64_t seq = comm_next_seq(rank, (struct job_comm *)place->comm, place->call, false);
	int peer = stage_rank(rank, place->call->root_or_peer);
	bool is_send = place->call->kind == OP_SEND;
	char facts[256];

	snprintf(facts, sizeof(facts),
		 ",\"op\":\"%s\",\"comm\":\"0x%016" PRIx64 "\",\"seq\":%" PRIu64
		 ",\"sender\":%d,\"receiver\":%d,\"unmatched_seq\":%" PRIu64,
		 op_name(place->call->kind), place->comm->hash, seq, is_send ? rank->rank : peer,
		 is_send ? peer : rank->rank, (seq / per_step + 1) * per_step - 1);
	fault_report_with(rank, fault, "begin", facts);
}
