/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.h - a node's part in a cluster: a sink that hands a report of the model to the publisher every second, and
 * never waits.
 */
#ifndef RANKTRACE_CLUSTER_AGENT_H
#define RANKTRACE_CLUSTER_AGENT_H

#include "cluster/publisher.h"
#include "sink/sink.h"

/* `fd`: of publisher_start(), owned from here on. `started_ns`: distinguishes this run of the agent from others of this
 * boot. NULL: no memory. Its class' close frees it. */
struct sink *agent_new(int fd, uint64_t started_ns);
/* What `ranktrace ctl` set, once after each change; NULL: nothing new. */
const struct agent_settings *agent_settings(struct sink *agent);
/* What the cluster asks for, each once; false: nothing. */
bool agent_asked(struct sink *agent, struct agent_ask *ret);
/* The answer: as publisher_answer(). */
void agent_answer(struct sink *agent, uint64_t number, const char *host, int file, const char *error);
struct agent_mode {        /* as settings made it */
	bool paused;       /* it samples nothing */
	bool traces;       /* ranks have probes */
	const char *error; /* what of the settings is not possible; "" nothing */
};

/* For its reports. */
void agent_settled(struct sink *agent, const struct agent_mode *state);

#endif
