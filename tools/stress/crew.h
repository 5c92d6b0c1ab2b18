/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - a thread for each GPU, and where they meet. One that is lost leaves, and the others go on without it.
 */
#ifndef STRESS_CREW_H
#define STRESS_CREW_H

#include <pthread.h>
#include <stdint.h>

struct crew {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int members, waiting;
	uint64_t meetings;
	void (*last)(void *); /* of the meeting that is on */
	void *arg;
};

void crew_init(struct crew *crew, int members);
/* Returns when all members are here; the last one runs `last` (may be NULL) for all before that. */
void crew_meet(struct crew *crew, void (*last)(void *), void *arg);
void crew_leave(struct crew *crew);

#endif
