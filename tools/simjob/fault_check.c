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
		err = refuse_if(options->graph == GRAPH_STEP &&
				    (fault->kind == FAULT_DEADLOCK || fault->kind == FAULT_P2P),
				reason, "with --graph step its operations are captured once and for all; use --graph layers");
	if (!err)
		err = refuse_if(fault->kind == FAULT_DSTATE_CHILD && !options->dataloader, reason,
				"there is no dataloader child; leave --no-dataloader out");
	return err;
}

static int init_check(const struct fault *fault, struct reason *reason)
{
	bool is_init = fault->kind == FAULT_INIT;
	int err =
	    refuse_if(is_init && (fault->given & KEY_WHAT) && fault->what == INIT_START && (fault->given & KEY_STEP),
		      reason, "what=start is before the first step; leave step= out or say what=new or what=split");

	if (!err)
		err = refuse_if(is_init && fault->how == INIT_DEAD && (fault->given & KEY_SEC), reason,
				"the dead do not come back after sec=; leave it out, or say how=sleep, stop or busy");
	return err;
}

int fault_check(const struct options *options, int index, char *ret_reason, int reason_size)
{
	const struct fault *fault = &options->faults[index];
	struct reason reason = {ret_reason, reason_size};
	int err = refuse_if(fault->rank >= options->nr_ranks, &reason, "rank=%d does not exist; ranks are 0 to %d",
			    fault->rank, options->nr_ranks - 1);

	if (!err)
		err = options_check(options, fault, &reason);
	if (!err)
		err = init_check(fault, &reason);
	if (!err)
		err = refuse_if(fault->kind == FAULT_DEADLOCK && kinds_count(options, FAULT_DEADLOCK) > 1, &reason,
				"given more than once, and the job does not come past the first; leave one out");
	return err;
}
