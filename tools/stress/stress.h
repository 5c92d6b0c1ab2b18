/* SPDX-License-Identifier: Apache-2.0
 *
 * stress.h - the active tests, as functions: what `ranktrace stress NAME` runs, and what a test that consists of others
 * calls. A test prints by report.h and returns an exit status; what it could not do is in `result`.
 */
#ifndef STRESS_STRESS_H
#define STRESS_STRESS_H

#include "tools/stress/fault.h"
#include "tools/stress/lib/library.h"
#include "tools/stress/options.h"
#include "tools/stress/report.h"

#define STRESS_FAULTS_MAX 64
#define STRESS_BAD_MAX 1024

/* What a finding calls it by, too. Of a GPU: "GPU 3", UUID and PCI address; of an RDMA port of this host: "sim1:1". */
struct stress_device {
	char name[80], uuid[64], pci[32];
};

struct stress_result {
	char why[LIBRARY_WHY]; /* of STRESS_USAGE and STRESS_IMPOSSIBLE: object, cause, remedy */
	char partial[160];     /* what is missing of a whole run, "": nothing */
	uint32_t n_gpus, n_faults;
	int ordinals[STRESS_GPUS_MAX];
	struct fault faults[STRESS_FAULTS_MAX];   /* fault.gpu: index in `ordinals` */
	struct stress_device bad[STRESS_BAD_MAX]; /* each that has a fault, or is an end of a link that has one, once */
	uint32_t n_bad;
};

/* enum stress_exit */
typedef int stress_test(const struct stress_options *options, enum report_mode mode, struct stress_result *result);
#define STRESS(id, name, help) stress_test stress_##id;
#include "tools/stress/tests.def"
#undef STRESS

/* NULL: no test has that name. */
stress_test *stress_find(const char *name);
/* Runs the one of that name, which is there; in JSON the reason of a refusal is a line, too. */
int stress_run_test(const char *name, const struct stress_options *options, enum report_mode mode,
		    struct stress_result *result);
/* GPUs and faults of a run. */
void stress_result_fill(struct stress_result *result, const struct stress_run *run);
/* That device, NULL `uuid` and `pci`: it has none, is a bad one. */
void stress_result_bad(struct stress_result *result, const char *name, const char *uuid, const char *pci);
/* gpu/selftest.c: `stress gpu --self-test`: faults on purpose on each GPU, each of which has to be found where it is.
 */
int stress_self_test(const struct stress_options *options, struct stress_result *result);

#endif
