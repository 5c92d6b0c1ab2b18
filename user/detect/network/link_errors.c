/* SPDX-License-Identifier: Apache-2.0
 *
 * link_errors.c - see link_errors.h. Widths are those of the InfiniBand specification's PortCounters, as the kernel
 * reads them (drivers/infiniband/core/sysfs.c): at their highest value they stay. The narrow ones count what the port's
 * own threshold already let pass, and weigh more: NVIDIA's NVSentinel takes a single one for grave.
 */
#include "detect/network/link_errors.h"

#define AT_ONCE 100 /* in a window; */
#define AGAIN 10    /* or in two running: single ones are a cable's usual rate */
#define HEAVY AGAIN

static const struct {
	enum port_counter counter;
	int weight, bits; /* 0: as wide as it needs */
} rows[] = {
	{ PORT_SYMBOL_ERRORS, 1, 16 },     { PORT_RECEIVE_ERRORS, 1, 16 },     { PORT_INTEGRITY_ERRORS, HEAVY, 4 },
	{ PORT_OVERRUNS, HEAVY, 4 },       { PORT_LINK_RECOVERIES, HEAVY, 8 }, { PORT_NETDEV_RECEIVE_ERRORS, 1, 0 },
	{ PORT_NETDEV_SEND_ERRORS, 1, 0 },
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static bool is_ended(const struct port_sample *l, size_t row)
{
	return rows[row].bits && l->counters[rows[row].counter] == (1ull << rows[row].bits) - 1;
}

bool link_errors_take(struct link_errors *e, const struct port_sample *now, const struct port_sample *before,
		      uint64_t *n)
{
	uint64_t weighed = 0;
	bool is;

	*n = 0;
	for (size_t i = 0; i < N_ROWS; i++) {
		uint64_t grown = port_grown(now, before, rows[i].counter);

		*n += grown;
		weighed += grown * rows[i].weight;
		e->ended |= (uint32_t)(grown && is_ended(now, i)) << i;
	}
	is = weighed >= AT_ONCE || (weighed >= AGAIN && e->before >= AGAIN);
	e->before = weighed;
	return is;
}

bool link_errors_at_limit(const struct link_errors *e, const struct port_sample *l)
{
	bool is = false;

	for (size_t i = 0; i < N_ROWS; i++)
		is |= e->ended >> i & 1 && is_ended(l, i);
	return is;
}
