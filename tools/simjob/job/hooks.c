// SPDX-License-Identifier: Apache-2.0
/*
 * The moments of a rank's life at which faults may act (fault.h): each function calls one hook of all injections, in
 * the order of the command line. Nothing here knows which fault it is.
 */
#include "tools/simjob/job/rank.h"

/* for (each injection whose fault has that hook) */
#define FOR_EACH_HOOKED(INJECTION, RANK, HOOK) \
	for (INJECTION = (RANK)->options->injections; \
	     INJECTION < (RANK)->options->injections + (RANK)->options->nr_injections; INJECTION++) \
		if (INJECTION->fault->HOOK)

void hooks_before_world(struct rank *rank)
{
	const struct injection *injection;

	FOR_EACH_HOOKED(injection, rank, before_world)
	injection->fault->before_world(rank, injection);
}

void hooks_before_step(struct rank *rank)
{
	const struct injection *injection;

	FOR_EACH_HOOKED(injection, rank, before_step)
	injection->fault->before_step(rank, injection);
}

bool hooks_skip_loader(const struct rank *rank)
{
	const struct injection *injection;

	FOR_EACH_HOOKED(injection, rank, skips_loader)
	{
		if (injection->fault->skips_loader(rank, injection))
			return true;
	}
	return false;
}

double hooks_kernel_factor(struct rank *rank)
{
	const struct injection *injection;
	double factor = 1.0;

	FOR_EACH_HOOKED(injection, rank, kernel_factor)
	factor *= injection->fault->kernel_factor(rank, injection);
	return factor;
}

/* The operation is the asked one, or the drawn one of as many as the last step had, or comes after it. */
static bool strike_is_due(const struct rank *rank, const struct injection *injection, const struct op_place *place)
{
	const struct fault *fault = injection->fault;
	int op = injection->op;

	if (rank->injections[injection->index].done || injection->rank != rank->rank || rank->step < injection->step)
		return false;
	if (fault->fits_op && !fault->fits_op(rank, place))
		return false;
	if (op < 0)
		op = rank->ops_last_step ? injection->draw % rank->ops_last_step : 0;
	return rank->step > injection->step || rank->op_in_step >= op;
}

bool hooks_before_op(struct rank *rank, struct job_comm *comm, struct op_call *call)
{
	const struct op_place place = { comm, call };
	const struct options *options = rank->options;
	int i;

	for (i = 0; i < options->nr_injections; i++) {
		const struct injection *injection = &options->injections[i];
		const struct fault *fault = injection->fault;

		if (fault->before_op && !fault->before_op(rank, injection, &place))
			return false;
		if (fault->strike && strike_is_due(rank, injection, &place)) {
			injection_state(rank, injection)->done = true;
			fault->strike(rank, injection, &place);
		}
	}
	return true;
}

void hooks_before_last_bucket(struct rank *rank, const struct op_call *call)
{
	const struct injection *injection;

	FOR_EACH_HOOKED(injection, rank, before_last_bucket)
	injection->fault->before_last_bucket(rank, injection, call);
}

void hooks_after_last_bucket(struct rank *rank, const struct op_call *call)
{
	const struct injection *injection;

	FOR_EACH_HOOKED(injection, rank, after_last_bucket)
	injection->fault->after_last_bucket(rank, injection, call);
}

void hooks_before_batch(struct rank *rank)
{
	const struct injection *injection;

	FOR_EACH_HOOKED(injection, rank, before_batch)
	injection->fault->before_batch(rank, injection);
}

void hooks_in_part(struct rank *rank, enum step_part part)
{
	const struct injection *injection;

	FOR_EACH_HOOKED(injection, rank, in_part)
	injection->fault->in_part(rank, injection, part);
}
