/* SPDX-License-Identifier: Apache-2.0
 *
 * counters.c - see counters.h.
 */
#include "tools/stress/verbs/counters.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum counter_origin { PORT, NETDEV };

static const struct {
	int counter, from;
	uint64_t factor;
	const char *file;
} files[] = {
#define PORT_FILE(counter, from, factor, file) { PORT_##counter, from, factor, file },
#include "tracers/rdma/port_files.def"
#undef PORT_FILE
};

static const char *const names[PORT_COUNTERS] = {
#define PORT_COUNTER(id, name) name,
#include "tracers/rdma/wire/port_counters.def"
#undef PORT_COUNTER
};

const char *counter_name(int counter)
{
	return names[counter];
}

/* False: there is no such file, or no number in it. */
static bool number_read(const char *path, uint64_t *value)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fscanf(f, "%" SCNu64, value) == 1;

	if (f)
		fclose(f);
	return ok;
}

void counters_read(const char *device, int port, const char *netdev, uint64_t counters[PORT_COUNTERS])
{
	char path[512];
	uint64_t value;

	for (int i = 0; i < PORT_COUNTERS; i++)
		counters[i] = PORT_NOT_COUNTED;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		uint64_t *to = &counters[files[i].counter];

		if (*to != PORT_NOT_COUNTED || (files[i].from == NETDEV && !*netdev))
			continue;
		if (files[i].from == PORT)
			snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%d/%s", sysfs_root(), device, port,
				 files[i].file);
		else
			snprintf(path, sizeof(path), "%s/class/net/%s/%s", sysfs_root(), netdev, files[i].file);
		if (number_read(path, &value))
			*to = value * files[i].factor;
	}
}

void counters_since(const uint64_t *before, const uint64_t *now, uint64_t rose[PORT_COUNTERS])
{
	for (int i = 0; i < PORT_COUNTERS; i++)
		rose[i] = before[i] == PORT_NOT_COUNTED || now[i] == PORT_NOT_COUNTED ? PORT_NOT_COUNTED
			  : now[i] < before[i]                                        ? 0 /* somebody reset it */
										      : now[i] - before[i];
}

enum counter_meaning counter_meaning(int counter)
{
	switch (counter) {
	case PORT_LINK_DOWNED:
	case PORT_LINK_RECOVERIES:
	case PORT_INTEGRITY_ERRORS:
	case PORT_OVERRUNS:
	case PORT_RETRIES_EXCEEDED:
	case PORT_NETDEV_CARRIER_DOWNS: return COUNTER_HARD;
	case PORT_SYMBOL_ERRORS:
	case PORT_RECEIVE_ERRORS:
	case PORT_SEND_DISCARDS:
	case PORT_RECEIVE_DISCARDS:
	case PORT_OUT_OF_SEQUENCE:
	case PORT_SEQUENCE_NAKS:
	case PORT_TIMEOUTS:
	case PORT_RETRANSMITS:
	case PORT_NETDEV_RECEIVE_ERRORS:
	case PORT_NETDEV_SEND_ERRORS: return COUNTER_LOSS;
	case PORT_RNR_NAKS:
	case PORT_CNP_SENT:
	case PORT_CNP_HANDLED:
	case PORT_ECN_MARKED: return COUNTER_NOTE;
	default: return COUNTER_TRAFFIC;
	}
}

static bool rose_with(const uint64_t *rose, int i, enum counter_meaning meaning)
{
	return counter_meaning(i) == meaning && rose[i] && rose[i] != PORT_NOT_COUNTED;
}

uint64_t counters_sum(const uint64_t *rose, enum counter_meaning meaning)
{
	uint64_t sum = 0;

	for (int i = 0; i < PORT_COUNTERS; i++)
		sum += rose_with(rose, i, meaning) ? rose[i] : 0;
	return sum;
}

const char *counters_text(const uint64_t *rose, enum counter_meaning meaning, char *text, unsigned int size)
{
	size_t at = 0;

	text[0] = 0;
	for (int i = 0; i < PORT_COUNTERS; i++)
		if (rose_with(rose, i, meaning) && at < size)
			at += snprintf(text + at, size - at, "%s%s %" PRIu64, at ? ", " : "", names[i], rose[i]);
	return text;
}
