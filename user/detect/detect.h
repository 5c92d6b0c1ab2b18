/* SPDX-License-Identifier: Apache-2.0
 *
 * detect.h - a detector is a pure function: (model, its own memory) -> the findings that hold at this tick. One
 * file a detector and one line in detectors.def. It never prints, never reads a clock, never changes the model.
 */
#ifndef RANKTRACE_DETECT_H
#define RANKTRACE_DETECT_H

#include "detect/pauses.h"
#include "finding.h"
#include "model/ahead.h"

struct finding_list { /* zeroed at first; owns texts of the findings that hold now */
	struct finding *items;
	size_t n, cap;
	struct intern *texts;
};

struct detector {
	const char *name, *help;
	size_t state_bytes;           /* own memory, zeroed at start; 0 none */
	void (*release)(void *state); /* frees what state points to; NULL none */
	/* Called at every tick, after every earlier line of detectors.def; `found` already holds their findings of
	 * this tick, so that a consequence can name its cause. 0 or -ENOMEM. */
	int (*tick)(void *state, const struct model *m, struct finding_list *found);
	/* Pauses that ended by themselves, as it learnt them; for one detector at most. NULL: it learns none. */
	const struct pauses *(*pauses)(const void *state);
};

#define DETECTOR(id, name, help) extern const struct detector detector_##id;
#include "detect/detectors.def"
#undef DETECTOR

/* What others found, and these detectors cannot see: `before` adds what may be a cause, `behind` what none of them
 * reports. Each 0 or -ENOMEM. */
struct outside_judge {
	void *of;
	int (*before)(void *of, const struct model *m, struct finding_list *found);
	int (*behind)(void *of, const struct model *m, struct finding_list *found);
};

/* All detectors with their memory. */
struct detectors;
struct detectors *detectors_new(void);
void detectors_free(struct detectors *d);
void detectors_set_outside(struct detectors *d, const struct outside_judge *j); /* copied; none at first */
/* One tick: clears `found`, runs every detector. 0 or -ENOMEM. */
int detectors_tick(struct detectors *d, const struct model *m, struct finding_list *found);
/* What they learnt of pauses; changes with every tick. */
const struct pauses *detectors_pauses(const struct detectors *d);
/* A fresh zeroed finding at the end of the list, owned by it; NULL without memory. */
struct finding *finding_list_add(struct finding_list *list);
void finding_list_free(struct finding_list *list);
/* Text for evidence that a detector composes; lives until the next tick. "" without memory. */
const char *finding_list_text(struct finding_list *list, const char *text);
/* The finding of that kind that names this process, or of which not all ranks are listed: it may be one of the others.
 * NULL none. For causes. */
const struct finding *finding_list_of(const struct finding_list *list, enum finding_kind kind, uint64_t proc);
#endif
