/* SPDX-License-Identifier: Apache-2.0
 *
 * finding_text.h - a finding as one text, with all its evidence: so that a test checks what is said as a whole.
 */
#ifndef RANKTRACE_TEST_FINDING_TEXT_H
#define RANKTRACE_TEST_FINDING_TEXT_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "finding.h"

static char finding_words[8192];

__attribute__((format(printf, 1, 2))) static inline void finding_say(const char *format, ...)
{
	size_t n = strlen(finding_words);
	va_list args;

	va_start(args, format);
	vsnprintf(finding_words + n, sizeof(finding_words) - n, format, args);
	va_end(args);
}

/* Kind, class, cause, confidence, operation, times in seconds, ranks; then a line for each evidence. Valid until the
 * next call. */
static inline const char *finding_text_of(const struct finding *f)
{
	*finding_words = 0;
	finding_say("%s %s %s %.4g", finding_kind_name(f->kind), hang_class_name(f->class), cause_name(f->cause),
		    f->confidence);
	if (f->has_op)
		finding_say(" %s", op_kind_name(f->op));
	finding_say(" #%d in %d", (int)f->seq, (int)f->comm);
	if (f->peer >= 0)
		finding_say(" peer %d", f->peer);
	finding_say(" since %g w %g c %g by %d ranks", f->since_ns * 1e-9, f->warning_after_ns * 1e-9,
		    f->critical_after_ns * 1e-9, (int)f->caused_by_key);
	for (int i = 0; i < f->n_ranks; i++)
		finding_say("%s%d", i ? "," : " ", f->ranks[i]);
	for (int i = 0; i < f->n_evidence; i++) {
		const struct evidence *e = &f->evidence[i];

		if (evidence_is_text(e->id))
			finding_say("\n%s %s", evidence_name(e->id), e->text);
		else
			finding_say("\n%s %.6g", evidence_name(e->id), e->number);
	}
	return finding_words;
}

#endif
