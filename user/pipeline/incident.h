/* SPDX-License-Identifier: Apache-2.0
 *
 * incident.h - turns the set of findings of one tick and the set of the tick before into open, update and close.
 */
#ifndef RANKTRACE_INCIDENT_H
#define RANKTRACE_INCIDENT_H

#include "detect/detect.h"
#include "finding.h"

struct incidents;
struct incidents *incidents_new(void);
void incidents_free(struct incidents *s);
/* Compare `found` with what is open; afterwards incidents_next() yields what changed. 0 or -ENOMEM. */
int incidents_update(struct incidents *s, const struct finding_list *found, const struct model *m);
/* Changes of the last update in order: closes, then opens and updates, causes before consequences; NULL at the end. */
const struct incident *incidents_next(struct incidents *s);
/* Those that are open, in the order they opened: `after` NULL for the first; NULL at the end. */
const struct incident *incidents_next_open(const struct incidents *s, const struct incident *after);
enum severity incidents_worst(const struct incidents *s); /* of all so far, at any time of their life */
/* Those that are no other's consequence and cost the job time, the most expensive first: into to[cap]. The number of
 * them. */
size_t incidents_by_cost(const struct incidents *s, const struct incident **to, size_t cap);
uint64_t incidents_opened(const struct incidents *s);

#endif
