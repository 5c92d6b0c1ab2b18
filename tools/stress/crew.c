/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.c - see crew.h.
 */
#include "tools/stress/crew.h"

void crew_init(struct crew *crew, int members)
{
	*crew = (struct crew){ .members = members };
	pthread_mutex_init(&crew->lock, NULL);
	pthread_cond_init(&crew->changed, NULL);
}

static void meeting_end(struct crew *crew)
{
	if (crew->last)
		crew->last(crew->arg);
	crew->waiting = 0;
	crew->meetings++;
	pthread_cond_broadcast(&crew->changed);
}

void crew_meet(struct crew *crew, void (*last)(void *), void *arg)
{
	uint64_t meeting;

	pthread_mutex_lock(&crew->lock);
	meeting = crew->meetings;
	crew->last = last;
	crew->arg = arg;
	if (++crew->waiting == crew->members)
		meeting_end(crew);
	while (meeting == crew->meetings)
		pthread_cond_wait(&crew->changed, &crew->lock);
	pthread_mutex_unlock(&crew->lock);
}

void crew_leave(struct crew *crew)
{
	pthread_mutex_lock(&crew->lock);
	crew->members--;
	if (crew->waiting && crew->waiting == crew->members)
		meeting_end(crew);
	pthread_mutex_unlock(&crew->lock);
}
