/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.h - one end of a port: a thread that does what the coordinator says over a connection of its own. A port has
 * two, one that posts and one that answers, so that each does one thing at a time, a port with itself, too.
 */
#ifndef STRESS_RDMA_LANE_H
#define STRESS_RDMA_LANE_H

#include <pthread.h>

#include "tools/stress/nccl/wire.h"
#include "tools/stress/verbs/traffic.h"

/* What is said: WIRE_OPEN has a rdma_case, WIRE_CONNECT a rdma_address, WIRE_RUN an int32_t phase, WIRE_MEASURED a
 * rdma_result, WIRE_COUNTED the absolute counters and the port's state; READY, GO, FINISH, CLOSE, CLOSED nothing.
 * FINISH ends a run: of the end that answers before it looks at what arrived, of the one that posts behind its result,
 * or in the middle, where the run is stopped. */

struct wire_opened {
	int32_t status; /* enum rdma_status */
	struct rdma_address own;
	char text[192];
};

struct wire_ready {
	int32_t status; /* of WIRE_CONNECTED and WIRE_READY */
	char text[192];
};

struct wire_counted {
	int32_t state; /* of the port, now; 0: it cannot be asked */
	uint64_t counters[PORT_COUNTERS];
};

struct lane {
	struct rdma_host *host;
	int port, fd;
	enum traffic_role role;
	pthread_t thread;
	bool started;
};

/* The thread ends when the other side of `fd` is closed. 0 or -errno. */
int lane_start(struct lane *lane);
/* Waits for its end, and closes. */
void lane_stop(struct lane *lane);

#endif
