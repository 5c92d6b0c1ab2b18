/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_mark.h - what people said of incidents: that somebody has one in hand (acknowledged), and that a fault is
 * not to be shown for a while (silenced). An acknowledgement is of one incident; a silence is of its fingerprint, so
 * that the same fault is silent when it comes again. Kept in the table of marks: who shows or sends incidents asks
 * there.
 */
#ifndef RANKTRACE_HUB_INCIDENT_MARK_H
#define RANKTRACE_HUB_INCIDENT_MARK_H

#include <stdint.h>

#include "bus/bus.h"

#define MARK_NOTE_MAX 256

struct incident_mark { /* zero: none */
	char by[128], note[MARK_NOTE_MAX];
	uint64_t at_s;    /* wall clock, seconds; 0 none */
	uint64_t until_s; /* of a silence; 0 none */
};

/* Who we are: "alice@node-1"; of who became root the name before. */
void incident_mark_sign(struct incident_mark *m);

enum mark_kind { MARK_ACKNOWLEDGED, MARK_SILENCED };

/* `of`: the incident's id, or its fingerprint ("0x..."). 0; -ENOENT: no hub has made the table; -ENOTCONN. A mark that
 * is not there, or is over at `now_s`, is zero. */
int incident_mark_read(struct bus *b, enum mark_kind kind, const char *of, uint64_t now_s, struct incident_mark *ret);
/* Takes the place of an earlier one; a silence with until_s <= at_s ends it. 0 or as above. */
int incident_mark_write(struct bus *b, enum mark_kind kind, const char *of, const struct incident_mark *mark);

#endif
