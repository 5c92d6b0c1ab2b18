/* SPDX-License-Identifier: Apache-2.0 */
/* An injection from its text, NAME:key=value,..., to all that it needs to know. */
#ifndef SIMJOB_INJECTION_H
#define SIMJOB_INJECTION_H

#include "tools/simjob/job/options.h"

/* -EINVAL, with cause and remedy in @reason. */
__attribute__((format(printf, 2, 3))) int refuse(struct reason *reason, const char *format, ...);

/* 0, or -EINVAL with @reason. */
int injection_parse(struct injection *ret_injection, int index, const char *spec, struct reason *reason);
/* Whether a job with these options can have it: 0, or -EINVAL with @reason. */
int injection_check(const struct options *options, const struct injection *injection, struct reason *reason);
/* Fills in what is open. */
void injection_draw(struct injection *injection, uint64_t seed, int nr_ranks, int nr_steps);
/* One line on stderr: what was drawn. */
void injection_print_plan(const struct injection *injection);
/* "rank, step, how=kill|exit": the keys that a fault takes, for --help. */
void fault_keys_print(const struct fault *fault, char *ret_text, int size);

#endif
