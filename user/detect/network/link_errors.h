/* SPDX-License-Identifier: Apache-2.0
 *
 * link_errors.h - what a port counts of packets and symbols that arrive broken.
 */
#ifndef RANKTRACE_LINK_ERRORS_H
#define RANKTRACE_LINK_ERRORS_H

#include "model/port.h"

struct link_errors {
	uint64_t before; /* weighed, in the window before */
	uint32_t ended;  /* bit by counter: it grew to its highest value; before the session is another matter */
};

/* One window: `n` errors. True: more than a good cable makes. */
bool link_errors_take(struct link_errors *e, const struct port_sample *now, const struct port_sample *before,
		      uint64_t *n);
/* One that grew is as high as it can be: it says nothing more until it is set back (perfquery -R). */
bool link_errors_at_limit(const struct link_errors *e, const struct port_sample *l);

#endif
