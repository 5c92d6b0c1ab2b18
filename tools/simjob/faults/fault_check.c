// SPDX-License-Identifier: Apache-2.0
/* See fault_check.h. A rule a line: the condition, and what to say. */
#include "fault_check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct reason {
	char *text;
	int size;
};

__attribute__((format(printf, 3, 4))) static int refuse_if(bool broken, struct reason *reason, const char *format, ...)
{
	va_list args;

	if (!broken)
		return 0;
	va_start(args, format);
	vsnprintf(reason->text, reason->size, format, args);
	va_end(args);
	return -EINVAL;
}

static int kinds_count(const struct options *options, enum fault_kind kind)
{
	int i, nr = 0;

	for (i = 0; i < options->nr_faults; i++)
		nr += options->faults[i].kind == kind;
	return nr;
}

static int options_check(const struct options *options, const struct fault *fault, struct reason *reason)
{
	int err = refuse_if(fault->kind == FAULT_P2P && options->pp < 2, reason,
			    "there is no pipeline to transfer in, pp is 1; ask for one by --layout pp=2 or more");

	if (!err)
		err = refuse_if(fault->kind == FAULT_DEADLOCK && options->dp < 2, reason,
				"there is no second communicator with the same members, dp is 1; ask for one by "
				"--layout dp=2 or more");
	if (!err)
		err = refuse_if(
			options->graph == GRAPH_STEP && (fault->kind == FAULT_DEADLOCK || fault->kind == FAULT_P2P),
			reason, "with --graph step its operations are captured once and for all; use --graph layers");
	if (!err)
		err = refuse_if(
			fault->kind == FAULT_IMBALANCE && fault->what == IMBALANCE_STAGE && options->pp < 2, reason,
			"there is no pipeline with a last stage, pp is 1; ask for one by --layout pp=2 or more");
	if (!err)
		err = refuse_if((fault->kind == FAULT_INSIDE || fault->kind == FAULT_PROXY) &&
					(!options->net || options->nr_ranks < 2),
				reason, "no data travel over a network; say --net, and 2 ranks or more");
	if (!err)
		err = refuse_if((fault->kind == FAULT_INSIDE || fault->kind == FAULT_PROXY) &&
					options->graph == GRAPH_STEP,
				reason, "with --graph step all but one operation are captured; use --graph layers");
	if (!err)
		err = refuse_if((fault->kind == FAULT_DSTATE_CHILD || fault->kind == FAULT_IO) && !options->dataloader,
				reason, "there is no dataloader child; leave --no-dataloader out");
	return err;
}

static int init_check(const struct fault *fault, struct reason *reason)
{
	bool is_init = fault->kind == FAULT_INIT;
	int err = refuse_if(
		is_init && (fault->given & KEY_WHAT) && fault->what == INIT_START && (fault->given & KEY_STEP), reason,
		"what=start is before the first step; leave step= out or say what=new or what=split");

	if (!err)
		err = refuse_if(is_init && fault->how == INIT_DEAD && (fault->given & KEY_SEC), reason,
				"the dead do not come back after sec=; leave it out, or say how=sleep, stop or busy");
	return err;
}

static bool is_quota(const struct fault *fault)
{
	return fault->kind == FAULT_CPU && fault->how == CPU_QUOTA;
}

static int cpu_check(const struct options *options, int index, struct reason *reason)
{
	const struct fault *fault = &options->faults[index];
	bool is_hog = fault->kind == FAULT_CPU && fault->how == CPU_HOG, shares_rank = false;
	int i, err;

	for (i = 0; i < index; i++)
		shares_rank |= is_quota(fault) && is_quota(&options->faults[i]) && fault->rank >= 0 &&
			       options->faults[i].rank == fault->rank;
	err = refuse_if(is_hog && (fault->given & KEY_PERCENT), reason, "percent= is of how=quota; say n= hogs");
	if (!err)
		err = refuse_if(is_hog && fault->n < 1, reason, "n=0 is no hog; n is 1 to 64");
	if (!err)
		err = refuse_if(is_quota(fault) && (fault->given & KEY_N), reason, "n= is of how=hog; say percent=");
	if (!err)
		err = refuse_if(is_quota(fault) && fault->percent < 1, reason,
				"percent=%g: a quota is at least 1 percent of a core", fault->percent);
	if (!err)
		err = refuse_if(shares_rank, reason, "rank %d has two quotas; leave one out", fault->rank);
	return err;
}

int fault_check(const struct options *options, int index, char *ret_reason, int reason_size)
{
	const struct fault *fault = &options->faults[index];
	struct reason reason = { ret_reason, reason_size };
	int err = refuse_if(fault->rank >= options->nr_ranks, &reason, "rank=%d does not exist; ranks are 0 to %d",
			    fault->rank, options->nr_ranks - 1);

	if (!err)
		err = options_check(options, fault, &reason);
	if (!err)
		err = init_check(fault, &reason);
	if (!err)
		err = cpu_check(options, index, &reason);
	if (!err)
		err = refuse_if(fault->kind == FAULT_DEADLOCK && kinds_count(options, FAULT_DEADLOCK) > 1, &reason,
				"given more than once, and the job does not come past the first; leave one out");
	return err;
}
