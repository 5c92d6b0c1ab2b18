/* SPDX-License-Identifier: Apache-2.0 */
/* CPU hogs: processes of the launcher that spin on the core of a rank while a fault asks for it, and sleep otherwise.
 */
#ifndef SIMJOB_HOGS_H
#define SIMJOB_HOGS_H

#include "tools/simjob/job/options.h"
#include "tools/simjob/job/store.h"

/* One set for each fault that wants hogs. They die with the calling process. */
void hogs_start(const struct options *options, struct store *store);
/* Tells them to end; the caller reaps them. */
void hogs_stop(const struct options *options, struct store *store);

#endif
