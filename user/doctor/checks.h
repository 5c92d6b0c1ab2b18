/* SPDX-License-Identifier: Apache-2.0
 *
 * checks.h - one check of `ranktrace doctor`: what was found, and where something is missing the cause and the remedy.
 * Rights, namespaces and BTF are checked by the functions that record, watch and autopsy begin with.
 */
#ifndef RANKTRACE_DOCTOR_CHECKS_H
#define RANKTRACE_DOCTOR_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum check_status {
	CHECK_OK,
	CHECK_LIMITED, /* something is not seen, the rest is */
	CHECK_MISSING, /* tracing cannot work without it */
};

struct check {
	enum check_status status;
	char found[512];  /* what is there */
	char cause[1024]; /* why not, and what is not seen then; "" of one that is OK */
	char remedy[512]; /* "" the cause has it, or there is none */
};

struct target_set;
struct doctor_host {            /* what several checks need */
	struct target_set *set; /* scanned; NULL: /proc could not be */
	uint32_t kernel_lacks;  /* by RANKTRACE_KERNEL_LACKS and by itself */
	bool reads_all;         /* it may read other users' processes */
};

#define CHECK(id, name, rests) void check_##id(struct check *c, const struct doctor_host *h);
#include "doctor/checks.def"
#undef CHECK

#endif
