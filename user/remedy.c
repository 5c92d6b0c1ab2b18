/* SPDX-License-Identifier: Apache-2.0
 *
 * remedy.c - see remedy.h.
 */
#include "remedy.h"

#include <stdio.h>
#include <string.h>

enum { FINDING_ANY = -1, HANG_ANY = -1, CAUSE_ANY = -1 };

enum when {
	WHEN_ALWAYS,
	WHEN_CALL_SITE,
	WHEN_EXIT_CODE,
	WHEN_FILE,
	WHEN_JOB,
	WHEN_KERNEL_STACK,
	WHEN_MOUNT,
	WHEN_PROCESS
};

static const struct remedy {
	int kind, class, cause;
	enum when when;
	const char *text;
} remedies[] = {
#define REMEDY(kind, class, cause, when, text) { FINDING_##kind, HANG_##class, CAUSE_##cause, WHEN_##when, text },
#include "remedy.def"
#undef REMEDY
};

static bool is_known(const struct finding *f, enum when when)
{
	switch (when) {
	case WHEN_CALL_SITE: return finding_has_call_site(f);
	case WHEN_EXIT_CODE: return finding_evidence(f, EVIDENCE_EXIT_CODE) && !finding_number(f, EVIDENCE_EXIT_SIGNAL);
	case WHEN_FILE: return finding_text(f, EVIDENCE_FILE);
	case WHEN_JOB: return f->subject.type == SUBJECT_JOB;
	case WHEN_KERNEL_STACK: return finding_text(f, EVIDENCE_KERNEL_STACK);
	case WHEN_MOUNT: return finding_text(f, EVIDENCE_MOUNT);
	case WHEN_PROCESS: return f->n_ranks && f->pids[0];
	default: return true;
	}
}

static bool fits(const struct remedy *r, const struct finding *f)
{
	return r->kind == (int)f->kind && (r->class == HANG_ANY || r->class == (int)f->class) &&
	       (r->cause == CAUSE_ANY || r->cause == (int)finding_cause_of_host(f)) && is_known(f, r->when);
}

static const char *template_of(const struct finding *f)
{
	const char *of_wait = finding_text(f, EVIDENCE_WAITS_FOR_REMEDY),
		   *of_detector = finding_text(f, EVIDENCE_REMEDY);

	if (of_wait || of_detector)
		return of_wait ? of_wait : of_detector;
	for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (fits(&remedies[i], f))
			return remedies[i].text;
	return "";
}

/* The value of the name that stands at `at`, and how long it is there; NULL: it is none. */
static const char *value_at(const char *at, const struct finding *f, char pid[12], size_t *ret_len)
{
	const char *file = finding_text(f, EVIDENCE_FILE), *mount = finding_text(f, EVIDENCE_MOUNT);

	if (!strncmp(at, "{pid}", *ret_len = 5)) {
		snprintf(pid, 12, "%u", f->pids[0]);
		return f->n_ranks && f->pids[0] ? pid : "PID";
	}
	if (!strncmp(at, "{mount}", *ret_len = 7))
		return mount ? mount : "its mount";
	return strncmp(at, "{file}", *ret_len = 6) ? NULL : file ? file : "its file";
}

/* The active test that would confirm it: "gpu --only memory"; NULL: none does. */
static const char *test_of(const struct finding *f)
{
	enum on { ONE, ALL, PORT, ANY };
	static const struct {
		const char *kind, *what;
		enum on on;
		const char *test;
	} rows[] = {
#define CONFIRM(...) { __VA_ARGS__ },
#include "confirm.def"
#undef CONFIRM
	};
	const bool of_port = f->subject.device && *f->subject.device;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if ((of_port || rows[i].on != PORT) && !strcmp(rows[i].kind, finding_kind_name(f->kind)) &&
		    (!strcmp(rows[i].what, cause_name(f->cause)) || !strcmp(rows[i].what, hang_class_name(f->class))))
			return rows[i].test;
	return NULL;
}

void finding_remedy(const struct finding *f, char *to, size_t size)
{
	const char *test = test_of(f);
	size_t len = 0, skip;
	char pid[12];

	for (const char *at = template_of(f); *at && len + 1 < size; at += skip) {
		const char *value = value_at(at, f, pid, &skip);
		size_t n = value ? strlen(value) : (skip = 1);

		n = n < size - 1 - len ? n : size - 1 - len;
		memcpy(to + len, value ? value : at, n);
		len += n;
	}
	to[len] = 0;
	if (test)
		snprintf(to + len, size - len, "; to confirm it: ranktrace stress %s", test);
}
