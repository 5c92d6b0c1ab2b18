/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_text.h - an incident in words: what kind, one sentence (who, what, where, since when), and its evidence.
 */
#ifndef RANKTRACE_INCIDENT_TEXT_H
#define RANKTRACE_INCIDENT_TEXT_H

#include "finding.h"
#include "sink/text.h"

void incident_text_head(struct text *t, const struct incident *i);     /* "HANG stopped  " */
void incident_text_sentence(struct text *t, const struct incident *i); /* no line break behind it */
void incident_text_evidence(struct text *t, const struct finding *f);  /* a line each, indented */

#endif
