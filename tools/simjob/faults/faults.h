/* SPDX-License-Identifier: Apache-2.0 */
/* All faults and resources of faults.def, so that each file is held to the type of what it defines. */
#ifndef SIMJOB_FAULTS_H
#define SIMJOB_FAULTS_H

#include "tools/simjob/job/fault.h"

#define FAULT(ID, NAME, HELP) extern const struct fault fault_##ID;
#define RESOURCE(ID) extern const struct resource resource_##ID;
#include "tools/simjob/faults/faults.def"
#undef FAULT
#undef RESOURCE

#endif
