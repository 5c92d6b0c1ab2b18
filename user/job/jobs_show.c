/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs_show.c - under which text a job is shown: its name, and once two jobs of it live, what distinguishes them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/jobs_private.h"

static bool distinguishes(const struct jobs *j, const struct job_own *job, const struct name_row *row, enum trait what)
{
	char own[TRAIT_MAX], other[TRAIT_MAX];

	trait_text(what, &job->place, own);
	for (const struct job_own *o = row->jobs; o && *own; o = o->next) {
		if (o == job || o->claimed != j->round)
			continue;
		trait_text(what, &o->place, other);
		if (!strcmp(own, other))
			return false;
	}
	return *own;
}

static size_t n_living(const struct jobs *j, const struct name_row *row)
{
	size_t n = 0;

	for (const struct job_own *o = row->jobs; o; o = o->next)
		n += o->claimed == j->round;
	return n;
}

static void job_show(const struct jobs *j, struct job_own *job, const struct name_row *row)
{
	char trait[TRAIT_MAX] = "";
	size_t size = strlen(row->name) + TRAIT_MAX + 16;
	int what = 0;

	while (what < TRAITS && !distinguishes(j, job, row, what))
		what++;
	if (row->user && n_living(j, row) == 1)
		what = TRAIT_USER;
	job->text = malloc(size);
	if (!job->text)
		return;
	if (what < TRAITS)
		trait_text(what, &job->place, trait);
	if (*trait)
		snprintf(job->text, size, "%s (%s)", row->name, trait);
	else
		snprintf(job->text, size, "%s #%u", row->name, job->j.nth);
	job->j.shown = job->text;
}

/* Of all names that ever came those with a job that lives, in their order. */
static struct name_row *living_rows(const struct jobs *j)
{
	struct name_row *first = NULL, **tail = &first;

	for (struct name_row *row = j->names; row; row = row->hh.next)
		if (n_living(j, row)) {
			*tail = row;
			tail = &row->next_living;
		}
	*tail = NULL;
	return first;
}

/* Another user's processes say the same name. */
static bool name_shared(const struct name_row *living, const struct name_row *row)
{
	for (const struct name_row *o = living; o; o = o->next_living)
		if (o != row && !strcmp(o->name, row->name))
			return true;
	return false;
}

/* A name that was distinguished once stays so: what was reported under it is found again. */
void names_show(struct jobs *j)
{
	struct name_row *living = living_rows(j);

	for (struct name_row *row = living; row; row = row->next_living) {
		bool shared = *row->name && (n_living(j, row) > 1 || name_shared(living, row));

		for (struct job_own *o = row->jobs; o && shared; o = o->next)
			if (o->claimed == j->round && !o->text && !*o->nameless)
				job_show(j, o, row);
	}
}
