/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher.h - which rank this process is, if torchrun, mpirun or Slurm started it, and where rank 0 is: from their
 * variables. Without one the test starts its processes itself.
 */
#ifndef STRESS_LAUNCHER_H
#define STRESS_LAUNCHER_H

#include "tools/stress/lib/library.h"
#include "tools/stress/options.h"

#define NCCL_RANKS_MAX 4096

struct launcher_place {
	const char *launcher; /* "torchrun" */
	int rank, size, local, port;
	char host[128]; /* where rank 0 is */
};

/* 0; -ENOENT: no launcher did, or it started one process only; -EINVAL with `why`: object, cause, remedy. */
int launcher_find(const char *host_option, struct launcher_place *place, char why[LIBRARY_WHY]);
/* "ADDRESS", "ADDRESS:PORT", "[ADDRESS]:PORT" -> both; the port stays where none is given. 0 or -EINVAL. */
int launcher_host_parse(const char *text, char host[128], int *port);

#endif
