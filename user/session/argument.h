/* SPDX-License-Identifier: Apache-2.0
 *
 * argument.h - parses option values that several commands take. A bad value is an argp error: the command prints it and
 * exits with 2.
 */
#ifndef RANKTRACE_ARGUMENT_H
#define RANKTRACE_ARGUMENT_H

#include <argp.h>
#include <stdint.h>

#include "finding.h"
#include "pipeline/output.h"

/* Appends the process id in `text` to `pids`, which has room for SESSION_PIDS_MAX. */
void argument_pid(struct argp_state *state, const char *text, uint32_t *pids, int *n);
/* The same for a value of any origin. Returns 0, or -EINVAL with the reason in `error`. */
int argument_pid_add(const char *text, uint32_t *pids, int *n, char *error, size_t size);

/* From which severity on a finding changes the exit code: warning or critical. Returns 0, or -EINVAL with the reason in
 * `error`. */
int argument_fail_on_set(const char *text, enum severity *to, char *error, size_t size);
void argument_fail_on(struct argp_state *state, const char *text, enum severity *to);
#define FAIL_ON_HELP "exit with 1 from findings of that severity on: warning or critical"

/* --budget: percent of a core in millionths of a core; 'no': 0. 0, or -EINVAL with the reason in `error`. */
#define PPM_PER_PERCENT 10000u
int argument_percent_set(const char *text, uint32_t *to_ppm, char *error, size_t size);

/* --rotate: a size (500M, 2G) or a time (30min, 12h); each call sets one of both. --keep: how many. 0, or -EINVAL with
 * the reason in `error`. */
int argument_rotate_set(const char *text, struct output_rules *to, char *error, size_t size);
int argument_keep_set(const char *text, struct output_rules *to, char *error, size_t size);

/* --metrics: an address to listen on; 'no': NULL. 0, or -EINVAL with the reason in `error`. */
int argument_metrics_set(const char *text, const char **to, char *error, size_t size);

#endif
