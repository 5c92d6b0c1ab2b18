/* SPDX-License-Identifier: Apache-2.0
 *
 * fault.h - what a test found wrong with a device: each has a kind, a sentence, and the place where there is one.
 */
#ifndef STRESS_FAULT_H
#define STRESS_FAULT_H

#include <stdint.h>

enum fault_kind {
#define FAULT_KIND(id, name) FAULT_##id,
#define FAULT_KINDS(X) \
	X(CORRUPT, "corruption") /* a result differs from what the others, or its own repeats, agree on */ \
	X(DISPUTED, "disputed")  /* results differ and nothing says whose are wrong */ \
	X(CHECKSUM, "checksum")  /* a row's sum is farther off than rounding explains */ \
	X(MEMORY, "memory")      /* memory under test did not keep a pattern */ \
	X(LOST, "lost")          /* the device, or a call about it, failed in the middle */ \
	X(STALLED, "stalled")    /* work on the device does not end */ \
	X(XID, "xid") \
	X(ECC, "ecc") \
	X(ROWS, "remapped_rows") \
	X(THROTTLED, "throttled") \
	X(SLOW, "slow") \
	X(TREND, "trend") \
	X(LINK, "link")            /* a link of the device is narrower, slower or fewer than it should be */ \
	X(PORT, "port")            /* of a network: it is down, or not set as the others of its kind */ \
	X(LOSS, "packet_loss")     /* packets of a port are lost or arrive broken */ \
	X(MISSING, "not_measured") /* a missing measurement fails */
	FAULT_KINDS(FAULT_KIND)
#undef FAULT_KIND
		N_FAULT_KINDS
};

#define FAULT_TEXT 400

struct fault {
	enum fault_kind kind;
	int gpu;     /* index in the run */
	int measure; /* enum number_id, MEASURE_MEMORY; -1: none */
	double at_s; /* since the start of the run */
	char text[FAULT_TEXT];
	/* FAULT_CORRUPT, FAULT_DISPUTED: the first element and all bits that differ in any; how many do, and after how
	 * many rows and columns the pattern comes again (0: no period). */
	uint32_t row, column, elements, row_period, column_period;
	uint64_t bits;
	uint64_t address; /* FAULT_MEMORY */
};

const char *fault_kind_name(enum fault_kind kind);

#endif
