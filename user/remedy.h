/* SPDX-License-Identifier: Apache-2.0
 *
 * remedy.h - what to do about a finding, in words: remedy.def.
 */
#ifndef RANKTRACE_REMEDY_H
#define RANKTRACE_REMEDY_H

#include "finding.h"

/* One or two sentences; of a rank that waits for something known, about that. Never empty; as long-lived as `f`. */
const char *finding_remedy(const struct finding *f);

#endif
