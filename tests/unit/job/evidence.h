/* SPDX-License-Identifier: Apache-2.0
 *
 * evidence.h - evidence by its name in JSON, so that tests check the promised names too.
 */
#ifndef RANKTRACE_TEST_EVIDENCE_H
#define RANKTRACE_TEST_EVIDENCE_H

#include <string.h>

#include "finding.h"

/* The first of that name; NULL none. */
static inline const struct evidence *evidence_named(const struct finding *f, const char *name)
{
	for (int i = 0; i < f->n_evidence; i++)
		if (!strcmp(evidence_name(f->evidence[i].id), name))
			return &f->evidence[i];
	return NULL;
}

/* `absent` where there is none, or one of the other type. */
static inline double number_named(const struct finding *f, const char *name, double absent)
{
	const struct evidence *e = evidence_named(f, name);

	return e && !evidence_is_text(e->id) ? e->number : absent;
}

static inline const char *text_named(const struct finding *f, const char *name, const char *absent)
{
	const struct evidence *e = evidence_named(f, name);

	return e && evidence_is_text(e->id) ? e->text : absent;
}

#endif
