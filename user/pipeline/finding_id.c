/* SPDX-License-Identifier: Apache-2.0
 *
 * finding_id.c - see finding_id.h. Made of what is in the stream, and of nothing else.
 */
#include "pipeline/finding_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"

#define HOST_MAX 24 /* of a longer name the part before the first dot, of that the first characters */
#define SEC UINT64_C(1000000000)

static void host_part(char to[HOST_MAX + 1], const struct model *m)
{
	const char *host = m->merged ? "merge" : m->host && *m->host ? m->host : "host";
	size_t len = strlen(host);

	if (len > HOST_MAX)
		len = strcspn(host, ".");
	len = len > HOST_MAX ? HOST_MAX : len;
	for (size_t i = 0; i < len; i++)
		to[i] = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-", host[i]) ? host[i]
													    : '_';
	to[len] = 0;
}

static unsigned int digits(const struct model *m)
{
	return hash_text(hash_mix(hash_mix(0, m->start_realtime_ns), m->start_ns), m->host) & 0xffff;
}

void finding_id(char *to, const struct model *m, uint64_t number)
{
	time_t start = (time_t)(m->start_realtime_ns / SEC);
	char host[HOST_MAX + 1], when[24] = "0", from[40] = "";
	struct tm utc;

	host_part(host, m);
	if (gmtime_r(&start, &utc))
		strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &utc);
	if (m->resumed_ns)
		snprintf(from, sizeof(from), "-from%" PRIu64 "s", (m->resumed_ns - m->start_ns) / SEC);
	snprintf(to, FINDING_ID_MAX, "%s-%s-%04x%s-%" PRIu64, host, when, digits(m), from, number);
}
