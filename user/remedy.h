/* SPDX-License-Identifier: Apache-2.0
 *
 * remedy.h - what to do about a finding, in words: remedy.def.
 */
#ifndef RANKTRACE_REMEDY_H
#define RANKTRACE_REMEDY_H

#include <stddef.h>

#include "finding.h"

#define REMEDY_MAX 1024 /* bytes that hold any remedy; a longer one is cut */

/* One or two sentences, never empty, to be done in this order of preference: about what the rank was seen to wait for;
 * what the detector advises; the line of remedy.def. */
void finding_remedy(const struct finding *f, char *to, size_t size);

#endif
