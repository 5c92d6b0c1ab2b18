/* SPDX-License-Identifier: Apache-2.0
 *
 * own_price.c - see own_price.h.
 */
#include "session/rules/own_price.h"

#include <math.h>

void own_price_add(struct own_price *o, uint32_t runs, uint32_t ns, uint32_t idle_ns)
{
	double part;

	o->runs += runs;
	o->ns += fmax(0, ns - (double)runs * idle_ns);
	if (o->runs <= OWN_PRICE_KEPT)
		return;
	part = OWN_PRICE_KEPT / o->runs;
	o->runs *= part;
	o->ns *= part;
}

double own_price_ns(const struct own_price *o, uint32_t assumed_ns)
{
	return (o->ns + (double)OWN_PRICE_ASSUMED * assumed_ns) / (o->runs + OWN_PRICE_ASSUMED);
}
