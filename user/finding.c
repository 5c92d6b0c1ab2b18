/* SPDX-License-Identifier: Apache-2.0
 *
 * finding.c - names of kinds and classes, keys, and the filling of a finding. No detector logic.
 */
#include "finding.h"

#include <stddef.h>

#include "base/hash.h"

static const struct {
	const char *name;
	bool exits;
} kinds[FINDING_KIND_MAX] = {
#define X(id, name, exits) [FINDING_##id] = { name, exits },
	FINDING_KINDS(X)
#undef X
};

static const char *const classes[HANG_CLASS_MAX] = {
#define X(id, name) [HANG_##id] = name,
	HANG_CLASSES(X)
#undef X
};

const char *finding_kind_name(enum finding_kind kind)
{
	return (unsigned int)kind < FINDING_KIND_MAX ? kinds[kind].name : "?";
}

const char *hang_class_name(enum hang_class class)
{
	return (unsigned int)class < HANG_CLASS_MAX ? classes[class] : "?";
}

bool finding_kind_exits(enum finding_kind kind)
{
	return (unsigned int)kind < FINDING_KIND_MAX && kinds[kind].exits;
}

uint64_t finding_key(enum finding_kind kind, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t h = hash_mix(hash_mix(hash_mix(hash_mix(0, kind), a), b), c);

	return h ? h : 1;
}

static struct evidence *evidence_add(struct finding *f, const char *name)
{
	if (f->n_evidence >= EVIDENCE_MAX)
		return NULL;
	f->evidence[f->n_evidence].name = name;
	return &f->evidence[f->n_evidence++];
}

void finding_note(struct finding *f, const char *name, double number)
{
	struct evidence *e = evidence_add(f, name);

	if (e) {
		e->text = NULL;
		e->number = number;
	}
}

void finding_note_text(struct finding *f, const char *name, const char *text)
{
	struct evidence *e;

	if (!text || !*text) /* an empty text would read as a number */
		return;
	e = evidence_add(f, name);
	if (e)
		e->text = text;
}

void finding_add_rank(struct finding *f, int rank, uint32_t pid)
{
	for (int i = 0; i < f->n_ranks; i++)
		if (f->ranks[i] == rank && f->pids[i] == pid)
			return;
	if (f->n_ranks >= FINDING_RANKS_MAX)
		return;
	f->ranks[f->n_ranks] = rank;
	f->pids[f->n_ranks++] = pid;
}
