/* SPDX-License-Identifier: Apache-2.0
 *
 * finding.c - names of kinds, classes and evidence, keys, the filling and keeping of a finding. No detector logic.
 */
#include "finding.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static const struct {
	const char *name;
	enum severity severity;
} kinds[FINDING_KIND_MAX] = {
#define X(id, name, severity) [FINDING_##id] = { name, SEVERITY_##severity },
	FINDING_KINDS(X)
#undef X
};

static const char *const classes[HANG_CLASS_MAX] = {
#define X(id, name) [HANG_##id] = name,
	HANG_CLASSES(X)
#undef X
};

static const char *const severities[SEVERITY_MAX] = {
#define X(id, name) [SEVERITY_##id] = name,
	SEVERITIES(X)
#undef X
};

static const char *const causes[CAUSE_MAX] = {
	[CAUSE_NONE] = "",
#define CAUSE(id, name, help) [CAUSE_##id] = name,
#include "cause.def"
#undef CAUSE
};

static const char *const cause_helps[CAUSE_MAX] = {
	[CAUSE_NONE] = "",
#define CAUSE(id, name, help) [CAUSE_##id] = help,
#include "cause.def"
#undef CAUSE
};

enum holds { HOLDS_NUMBER, HOLDS_TEXT, HOLDS_LIST };

static const enum holds types_hold[] = {
#define X(id, name, holds) [EVIDENCE_TYPE_##id] = HOLDS_##holds,
	EVIDENCE_TYPES(X)
#undef X
};

static const struct {
	const char *ending, *shown;
} units[] = {
#define X(id, name, ending, shown) [EVIDENCE_UNIT_##id] = { ending, shown },
	EVIDENCE_UNITS(X)
#undef X
};

static const struct {
	const char *name;
	enum evidence_type type;
	enum evidence_unit unit;
} table[EVIDENCE_ID_MAX] = {
#define EVIDENCE(id, name, type, unit, help) [EVIDENCE_##id] = { name, EVIDENCE_TYPE_##type, EVIDENCE_UNIT_##unit },
#include "evidence.def"
#undef EVIDENCE
};

const char *finding_kind_name(enum finding_kind kind)
{
	return (unsigned int)kind < FINDING_KIND_MAX ? kinds[kind].name : "?";
}

const char *finding_kind_shown(const struct finding *f)
{
	static const char *const hangs[SEVERITY_MAX] = {
		[SEVERITY_INFO] = "possible stall",
		[SEVERITY_WARNING] = "stall",
		[SEVERITY_CRITICAL] = "hang",
	};

	if (f->kind != FINDING_HANG)
		return finding_kind_name(f->kind);
	return f->severity == SEVERITY_INFO && finding_text(f, EVIDENCE_KNOWN_PHASE) ? "known phase"
										     : hangs[f->severity];
}

const char *hang_class_name(enum hang_class class)
{
	return (unsigned int)class < HANG_CLASS_MAX ? classes[class] : "?";
}

const char *cause_name(enum finding_cause cause)
{
	return (unsigned int)cause < CAUSE_MAX ? causes[cause] : "?";
}

const char *cause_help(enum finding_cause cause)
{
	return (unsigned int)cause < CAUSE_MAX ? cause_helps[cause] : "?";
}

const char *finding_cause_shown(const struct finding *f)
{
	const char *wchan = f->cause == CAUSE_D_STATE ? finding_text(f, EVIDENCE_WCHAN) : NULL;

	return wchan ? wchan : cause_name(f->cause);
}

enum finding_cause finding_cause_of_host(const struct finding *f)
{
	const struct evidence *throttled =
		f->cause == CAUSE_CPU_STARVED ? finding_evidence(f, EVIDENCE_THROTTLED_SHARE) : NULL;

	return throttled && 2 * throttled->number > finding_number(f, EVIDENCE_RUNQUEUE_WAIT_SHARE) ? CAUSE_CGROUP_QUOTA
												    : f->cause;
}

bool finding_has_call_site(const struct finding *f)
{
	return finding_text(f, EVIDENCE_PYTHON) || finding_text(f, EVIDENCE_NATIVE_FRAME) ||
	       finding_text(f, EVIDENCE_KERNEL_WAIT) || finding_text(f, EVIDENCE_WAITS_FOR);
}

const char *severity_name(enum severity severity)
{
	return (unsigned int)severity < SEVERITY_MAX ? severities[severity] : "?";
}

enum severity finding_kind_severity(enum finding_kind kind)
{
	return (unsigned int)kind < FINDING_KIND_MAX ? kinds[kind].severity : SEVERITY_INFO;
}

uint64_t finding_key(enum finding_kind kind, const struct subject *s, const char *stage, uint64_t what, uint64_t which)
{
	uint64_t h = hash_text(hash_mix(subject_hash(s), kind), stage);

	h = hash_mix(hash_mix(h, what), which);
	return h ? h : 1;
}

void finding_identify(struct finding *f, const char *stage, uint64_t what, uint64_t which)
{
	f->key = finding_key(f->kind, &f->subject, stage, what, which);
}

static struct evidence *evidence_add(struct finding *f, enum evidence_id id)
{
	if (f->n_evidence >= FINDING_EVIDENCE_MAX)
		return NULL;
	f->evidence[f->n_evidence].id = id;
	return &f->evidence[f->n_evidence++];
}

static bool is_of_type(enum evidence_id id, bool text)
{
	assert(evidence_is_text(id) == text);
	return evidence_is_text(id) == text;
}

void finding_note(struct finding *f, enum evidence_id id, double number)
{
	struct evidence *e = is_of_type(id, false) ? evidence_add(f, id) : NULL;

	if (e)
		e->number = number;
}

void finding_note_text(struct finding *f, enum evidence_id id, const char *text)
{
	struct evidence *e = is_of_type(id, true) && text && *text ? evidence_add(f, id) : NULL;

	if (e)
		e->text = text;
}

const struct evidence *finding_evidence(const struct finding *f, enum evidence_id id)
{
	for (int i = 0; i < f->n_evidence; i++)
		if (f->evidence[i].id == id)
			return &f->evidence[i];
	return NULL;
}

double finding_number(const struct finding *f, enum evidence_id id)
{
	const struct evidence *e = is_of_type(id, false) ? finding_evidence(f, id) : NULL;

	return e ? e->number : 0;
}

const char *finding_text(const struct finding *f, enum evidence_id id)
{
	const struct evidence *e = is_of_type(id, true) ? finding_evidence(f, id) : NULL;

	return e ? e->text : NULL;
}

uint64_t finding_proc(const struct finding *f, int i)
{
	return f->pids[i] ? proc_key(f->nodes[i], f->pids[i]) : 0;
}

void finding_add_rank(struct finding *f, int rank, uint64_t proc)
{
	uint32_t node = proc ? proc >> 32 : FINDING_NO_NODE;

	for (int i = 0; i < f->n_ranks; i++)
		if (f->ranks[i] == rank && finding_proc(f, i) == proc)
			return;
	if (!f->n_ranks_all)
		f->node = node;
	else if (f->node != node)
		f->node = FINDING_NO_NODE;
	f->n_ranks_all++;
	if (f->n_ranks >= FINDING_RANKS_MAX)
		return;
	f->ranks[f->n_ranks] = rank;
	f->nodes[f->n_ranks] = node;
	f->pids[f->n_ranks++] = (uint32_t)proc;
}

bool evidence_is_text(enum evidence_id id)
{
	return (unsigned int)id < EVIDENCE_ID_MAX && types_hold[table[id].type] != HOLDS_NUMBER;
}

bool evidence_is_list(enum evidence_id id)
{
	return (unsigned int)id < EVIDENCE_ID_MAX && types_hold[table[id].type] == HOLDS_LIST;
}

enum evidence_type evidence_type(enum evidence_id id)
{
	return (unsigned int)id < EVIDENCE_ID_MAX ? table[id].type : EVIDENCE_TYPE_TEXT;
}

const char *evidence_name(enum evidence_id id)
{
	return (unsigned int)id < EVIDENCE_ID_MAX ? table[id].name : "?";
}

const char *evidence_unit(enum evidence_id id, int *ret_name_len)
{
	const char *name = evidence_name(id), *ending;
	size_t len = strlen(name), n;

	*ret_name_len = (int)len;
	if ((unsigned int)id >= EVIDENCE_ID_MAX)
		return "";
	ending = units[table[id].unit].ending;
	n = strlen(ending);
	if (!n || len <= n || strcmp(name + len - n, ending))
		return "";
	*ret_name_len = (int)(len - n);
	return units[table[id].unit].shown;
}

/* --- texts of its own --- */

/* Its bytes; `to` NULL: it stays where it is. */
static size_t text_move(const char **at, char *to)
{
	size_t n = *at && **at ? strlen(*at) + 1 : 0;

	if (to && *at)
		*at = n ? memcpy(to, *at, n) : "";
	return n;
}

static size_t texts_move(struct finding *f, char *to)
{
	struct subject *s = &f->subject;
	const char **fields[] = { &f->job, &f->host, &s->device, &s->address, &s->netdev,
				  &s->a,   &s->b,    &s->job,    &s->job_name };
	size_t n = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		n += text_move(fields[i], to ? to + n : NULL);
	for (int i = 0; i < f->n_evidence; i++)
		if (evidence_is_text(f->evidence[i].id))
			n += text_move(&f->evidence[i].text, to ? to + n : NULL);
	return n;
}

int finding_keep(struct finding *to, const struct finding *f)
{
	struct finding copy = *f;

	copy.texts = malloc(texts_move(&copy, NULL) + 1);
	if (!copy.texts)
		return -ENOMEM;
	texts_move(&copy, copy.texts);
	finding_drop(to);
	*to = copy;
	return 0;
}

int incident_keep(struct incident *to, const struct incident *i)
{
	struct finding kept = to->f;
	int err = finding_keep(&kept, &i->f);

	if (err)
		return err;
	*to = *i;
	to->f = kept;
	return 0;
}

void finding_drop(struct finding *f)
{
	free(f->texts);
	f->texts = NULL;
}
