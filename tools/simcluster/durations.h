/* SPDX-License-Identifier: Apache-2.0
 *
 * durations.h - durations of a recorded job through the hub's blame walk alone (user/hub/slow_ranks.h).
 */
#ifndef RANKTRACE_SIMCLUSTER_DURATIONS_H
#define RANKTRACE_SIMCLUSTER_DURATIONS_H

/* Lines of `path`, in the order of seconds, each a rank in a communicator in that second:
 *   SECOND RANK COMM NRANKS ENDED ENDED_NS ERROR_NS RECVS RECVS_NS
 * with the meaning of the fields of cluster.proto; every rank is on a host of its own. A JSON line on stdout for each
 * second in which somebody is named. 0, -ENOMEM, -EINVAL (no such line), or what fopen() says. */
int durations_judge(const char *path);

#endif
