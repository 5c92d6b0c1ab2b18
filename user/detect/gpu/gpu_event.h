/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_event.h - which findings about the GPUs of a host are one event: a GPU that is off the bus, its XID 79, the XIDs
 * that follow and a driver that does not answer any more are to be read, and paged, once.
 */
#ifndef RANKTRACE_GPU_EVENT_H
#define RANKTRACE_GPU_EVENT_H

#include "detect/detect.h"

/* Sets the causes among the findings of xid, gpu_health and d_state in the list. */
void gpu_event_join(struct finding_list *found);

#endif
