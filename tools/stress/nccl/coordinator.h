/* SPDX-License-Identifier: Apache-2.0
 *
 * coordinator.h - the process that leads the ranks: it has no GPU, so that nothing that goes wrong on one holds it up.
 * It starts the ranks of its own host, waits for those of others, and has a connection to each.
 */
#ifndef STRESS_NCCL_COORDINATOR_H
#define STRESS_NCCL_COORDINATOR_H

#include <sys/types.h>

#include "tools/stress/launch/launcher.h"
#include "tools/stress/nccl/wire.h"

#define NCCL_GRACE_NS 20000000000ull /* beyond a limit: until a rank itself has noticed and said it */

struct rank {
	struct wire_hello hello;
	int fd;
	pid_t pid;  /* ours; 0: it is elsewhere */
	int node;   /* its host, an index */
	bool lost;  /* it does not answer any more: `why` */
	bool again; /* it is starting anew */
	char why[FAULT_TEXT];
	struct wire_result last;
	uint32_t n_faults;
};

/* Calls of NCCL that ranks made, and their bytes: a rank's count times the type. */
struct nccl_issued {
	uint64_t calls, bytes;
};

struct coordinator {
	const struct stress_options *options;
	int n, n_nodes;
	struct rank *ranks;
	bool stopped;                                        /* by a signal */
	struct nccl_issued issued[N_COLLECTIVES], transfers; /* Send and Recv together, half of them each */
};

/* STRESS_PASSED: all ranks are here. Else the exit status, with `why`. `place` NULL: starts one for each GPU. */
int coordinator_open(struct coordinator *c, const struct stress_options *options, const struct launcher_place *place,
		     char why[LIBRARY_WHY]);
/* Ends the test on the ranks; each fault of their health goes to take(). */
void coordinator_health(struct coordinator *c, void (*take)(void *arg, int rank, struct fault *fault), void *arg);
/* Ends the ranks, with the test's exit status. */
void coordinator_close(struct coordinator *c, int status);
/* For the ranks behind a launcher but the first: connects, and becomes a rank. Only returns with `why`. */
int coordinator_join(const struct launcher_place *place, const struct stress_options *options, char why[LIBRARY_WHY]);

/* False: the rank is lost, or was before. */
bool rank_send(struct coordinator *c, int rank, enum wire_type type, const void *body, uint32_t bytes);
/* Waits for a message of that type. 0, -ECANCELED (a signal, and it has not come), -errno: the rank is lost now. */
int rank_expect(struct coordinator *c, int rank, enum wire_type type, void *body, size_t bytes, uint64_t deadline_ns);

#endif
