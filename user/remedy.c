/* SPDX-License-Identifier: Apache-2.0
 *
 * remedy.c - see remedy.h.
 */
#include "remedy.h"

#include <stddef.h>

enum { FINDING_ANY = -1, HANG_ANY = -1, CAUSE_ANY = -1 };
enum remedy_by { BY_NOTHING, BY_CALL_SITE, BY_KERNEL_STACK };

static const struct remedy {
	enum remedy_by by;
	int kind, class, cause;
	const char *text;
} remedies[] = {
#define REMEDY(kind, class, cause, text) { BY_NOTHING, FINDING_##kind, HANG_##class, CAUSE_##cause, text },
#define REMEDY_BY(what, kind, class, cause, text) { BY_##what, FINDING_##kind, HANG_##class, CAUSE_##cause, text },
#include "remedy.def"
#undef REMEDY_BY
#undef REMEDY
};

static bool has_evidence(const struct finding *f, enum remedy_by by)
{
	switch (by) {
	case BY_CALL_SITE:
		return finding_text(f, EVIDENCE_PYTHON) || finding_text(f, EVIDENCE_NATIVE_FRAME) ||
		       finding_text(f, EVIDENCE_KERNEL_WAIT);
	case BY_KERNEL_STACK: return finding_text(f, EVIDENCE_KERNEL_STACK);
	default: return true;
	}
}

static bool fits(const struct remedy *r, const struct finding *f)
{
	return r->kind == (int)f->kind && (r->class == HANG_ANY || r->class == (int)f->class) &&
	       (r->cause == CAUSE_ANY || r->cause == (int)f->cause) && has_evidence(f, r->by);
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
