/* SPDX-License-Identifier: Apache-2.0
 *
 * remedy.c - see remedy.h.
 */
#include "remedy.h"

#include <stddef.h>

enum { FINDING_ANY = -1, HANG_ANY = -1, CAUSE_ANY = -1 };

static const struct remedy {
	int kind, class, cause;
	const char *text;
} remedies[] = {
#define REMEDY(kind, class, cause, text) { FINDING_##kind, HANG_##class, CAUSE_##cause, text },
#include "remedy.def"
#undef REMEDY
};

static bool fits(const struct remedy *r, const struct finding *f)
{
	return r->kind == (int)f->kind && (r->class == HANG_ANY || r->class == (int)f->class) &&
	       (r->cause == CAUSE_ANY || r->cause == (int)f->cause);
}

const char *finding_remedy(const struct finding *f)
{
	const char *of_wait = finding_text(f, EVIDENCE_WAITS_FOR_REMEDY);

	if (of_wait)
		return of_wait;
	for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (fits(&remedies[i], f))
			return remedies[i].text;
	return "";
}
