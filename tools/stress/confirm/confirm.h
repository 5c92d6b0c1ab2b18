/* SPDX-License-Identifier: Apache-2.0
 *
 * confirm.h - from a finding of the tracer (a line of JSON, schemas/incident.schema.json) to the test that would
 * confirm it: user/confirm.def.
 */
#ifndef STRESS_CONFIRM_H
#define STRESS_CONFIRM_H

#include "tools/stress/lib/library.h"
#include "tools/stress/stress.h"

struct confirmation {
	char id[128], summary[400];
	const char *command; /* "gpu --only memory" */
	char gpu[96];        /* UUID or PCI address of the GPU that the finding is about; "": of none, or not known */
	char port[80];       /* of an RDMA device: "mlx5_0:1", "mlx5_0" where it is about the whole device; "" */
	bool one;            /* on that GPU alone */
	bool any;            /* it is about no single device: whatever fails confirms it */
};

/* `what`: "FILE" of JSON lines, "-" for standard input: the last finding that a test would confirm; "FILE#ID": that
 * one. STRESS_PASSED, or STRESS_USAGE with `why`; another host's is refused unless `any_host`. */
int confirm_find(const char *what, bool any_host, struct confirmation *c, char why[LIBRARY_WHY]);
/* Says, after the test, whether it was confirmed: whether a fault is of the device that the finding is about. */
void confirm_say(const struct confirmation *c, int status, const struct stress_result *result, enum report_mode mode);

#endif
