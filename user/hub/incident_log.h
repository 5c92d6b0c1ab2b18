/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_log.h - a job's log of incidents: what was open when this hub took the job over, and what it appends. Each
 * append expects to be behind the last one that this hub saw; where it is not, another hub has the job.
 *
 * An incident is known by what it is about, in words that are the same on every hub (`key`): so who takes over goes on
 * with the id that is in the log.
 */
#ifndef RANKTRACE_HUB_INCIDENT_LOG_H
#define RANKTRACE_HUB_INCIDENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/bus.h"
#include "finding.h"

struct logged { /* an incident that the log has as open */
	uint64_t key;
	char id[FINDING_ID_MAX];
	char *line; /* as it was last written */
	struct logged *next;
};

struct incident_log {
	char token[BUS_TOKEN_MAX]; /* of the job */
	char hub[64];              /* who we are */
	uint64_t last;             /* number in the log that the next append is behind */
	uint64_t n;                /* of this hub's own entries */
	bool unsure;               /* the last append may be there, or not: no answer came */
	struct logged *open;       /* as of `last` */
};

/* Reads what is open, and appends that the job is this hub's. 0: from here on no other hub's append succeeds; -ESTALE:
 * another one was faster; -ENOTCONN and the like: try again. */
int incident_log_take(struct incident_log *l, struct bus *b);
/* Reads what is open, and appends nothing. 0; -ENOTCONN and the like. */
int incident_log_read(struct incident_log *l, struct bus *b);
void incident_log_free(struct incident_log *l); /* what it knows */

/* `line`: the incident as JSON. 0; -ESTALE: another hub has taken the job over; else try again. */
int incident_log_append(struct incident_log *l, struct bus *b, uint64_t key, const char *id, bool closes,
			const char *line);
/* It holds no more, and that is all that is known: closes it with what was last said of it. As incident_log_append().
 */
int incident_log_close(struct incident_log *l, struct bus *b, const struct logged *o);
struct logged *incident_log_find(const struct incident_log *l, uint64_t key);

/* An entry of the log in parts; false: none of an incident, as that a hub took over. `line` may be changed and is cut
 * out of `entry`; free() it. */
struct log_entry {
	char hub[64];
	uint64_t n, key;
	char id[FINDING_ID_MAX];
	bool is_incident, closes;
	char *line;
};
bool log_entry_parse(const void *data, size_t len, struct log_entry *ret);
void log_entry_free(struct log_entry *e);

#endif
