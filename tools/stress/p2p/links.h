/* SPDX-License-Identifier: Apache-2.0
 *
 * links.h - the table of least bandwidths of links: links.def.
 */
#ifndef STRESS_P2P_LINKS_H
#define STRESS_P2P_LINKS_H

#include "tools/stress/p2p/p2p.h"

#define LINK_HOST N_LINK_MEASURES

struct link_row {
	const char *device;
	int measure;
	double least;
	const char *source, *date, *condition;
};

extern const struct link_row link_rows[];
extern const int n_link_rows;

/* NULL: none fits. */
const struct link_row *link_row_find(const char *device, int measure);

#endif
