/* SPDX-License-Identifier: Apache-2.0
 *
 * job_place.h - where a process lives, and in which words two jobs of one name are distinguished by it.
 */
#ifndef RANKTRACE_JOB_JOB_PLACE_H
#define RANKTRACE_JOB_JOB_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#define TRAIT_MAX 160

struct job_place {      /* where a process lives; texts: "" or NULL unknown */
	uint32_t host;  /* its number in the stream */
	uint64_t netns; /* inode of its network namespace; 0 unknown */
	uint32_t user;  /* uid and 1; 0 unknown */
	const char *host_name;
	const char *pod, *pod_name; /* its uid; its name, as the environment says */
	const char *container;
	const char *cgroup;           /* path */
	uint64_t nameless, placeless; /* event_proc.h */
};

enum trait { TRAIT_POD_NAME, TRAIT_POD, TRAIT_HOST, TRAIT_CONTAINER, TRAIT_NETNS, TRAIT_CGROUP, TRAIT_USER, TRAITS };

/* "pod train-0"; "" unknown. */
void trait_text(enum trait what, const struct job_place *at, char to[TRAIT_MAX]);
#define PLACE_TEXT_MAX 40
/* In place of a cgroup of which only the hash is known, for a file: no other place has it. Returns `to`. */
const char *placeless_text(uint64_t placeless, char to[PLACE_TEXT_MAX]);
/* "" for NULL. */
const char *job_place_text(const char *s);

/* Does --job TEXT select a process: it is the launcher's name, or that with something that names its place. */
bool job_selected(const char *text, const char *name, const struct job_place *at);

#endif
