// SPDX-License-Identifier: Apache-2.0
/* The tables of job/fault.h, from faults.def. */
#include "tools/simjob/faults/faults.h"

const struct fault_row fault_rows[] = {
#define FAULT(ID, NAME, HELP) { NAME, HELP, &fault_##ID },
#define RESOURCE(ID)
#include "tools/simjob/faults/faults.def"
#undef FAULT
#undef RESOURCE
};
const int nr_fault_rows = sizeof(fault_rows) / sizeof(fault_rows[0]);

const struct resource *const resources[] = {
#define FAULT(ID, NAME, HELP)
#define RESOURCE(ID) &resource_##ID,
#include "tools/simjob/faults/faults.def"
};
const int nr_resources = sizeof(resources) / sizeof(resources[0]);
