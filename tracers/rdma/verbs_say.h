/* SPDX-License-Identifier: Apache-2.0
 * verbs_say.h - what a person is shown, once, of a process whose RDMA cannot be seen or does not work. */
#ifndef RANKTRACE_VERBS_SAY_H
#define RANKTRACE_VERBS_SAY_H

#include <stdbool.h>

#include "inspect/discover/discover.h"
#include "tracers/rdma/verbs.h"

/* Libraries that write work requests past any provider's functions are mapped. */
void verbs_say_bypass(const struct target_proc *proc);
/* It can use RDMA, and the host has no device. True: said. */
bool verbs_say_no_device(const struct target_proc *proc);
/* ibv_open_device returned NULL. */
void verbs_say_unopened(const struct verbs_unopened *u);

#endif
