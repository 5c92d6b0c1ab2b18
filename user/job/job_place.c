/* SPDX-License-Identifier: Apache-2.0
 *
 * job_place.c - see job_place.h.
 */
#include "job/job_place.h"

#include <stdio.h>
#include <string.h>

const char *job_place_text(const char *s)
{
	return s ? s : "";
}

const char *placeless_text(uint64_t placeless, char to[PLACE_TEXT_MAX])
{
	snprintf(to, PLACE_TEXT_MAX, "(not kept, %016llx)", (unsigned long long)placeless);
	return to;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

void trait_text(enum trait what, const struct job_place *at, char to[TRAIT_MAX])
{
	static const char *const words[] = { "pod", "pod", "host", "container", "netns", "cgroup", "user" };
	const char *texts[] = { job_place_text(at->pod_name),
				job_place_text(at->pod),
				job_place_text(at->host_name),
				job_place_text(at->container),
				"",
				last_part(job_place_text(at->cgroup)),
				"" };

	to[0] = '\0';
	if (what == TRAIT_NETNS && at->netns)
		snprintf(to, TRAIT_MAX, "%s %llu", words[what], (unsigned long long)at->netns);
	else if (what == TRAIT_USER && at->user)
		snprintf(to, TRAIT_MAX, "%s %u", words[what], at->user - 1);
	else if (*texts[what])
		snprintf(to, TRAIT_MAX, "%s %.120s", words[what], texts[what]);
}

bool job_selected(const char *text, const char *name, const struct job_place *at)
{
	size_t n = strlen(name), len = strlen(text);
	char trait[TRAIT_MAX];

	if (strncmp(text, name, n))
		return false;
	if (len == n)
		return true;
	if (len < n + 3 || strncmp(text + n, " (", 2) || text[len - 1] != ')')
		return false;
	for (int what = 0; what < TRAITS; what++) {
		trait_text(what, at, trait);
		if (*trait && strlen(trait) == len - n - 3 && !strncmp(text + n + 2, trait, len - n - 3))
			return true;
	}
	return false;
}
