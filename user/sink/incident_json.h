/* SPDX-License-Identifier: Apache-2.0
 *
 * incident_json.h - an incident as schemas/incident.schema.json has it: the line of the JSON sink, and the same inside
 * of other outputs.
 */
#ifndef RANKTRACE_INCIDENT_JSON_H
#define RANKTRACE_INCIDENT_JSON_H

#include "finding.h"
#include "model/model.h"

struct cJSON;

/* To be freed with cJSON_Delete(); NULL without memory. */
struct cJSON *incident_json(const struct incident *i, const struct model *m);
/* The same as a line without its end, to be freed; NULL without memory. */
char *json_incident_text(const struct incident *i, const struct model *m);
/* RFC 3339, in UTC, to the millisecond: "2026-11-23T15:02:07.123Z"; "" where the year has no four digits. */
void json_time(char to[48], uint64_t ns, const struct model *m);

#endif
