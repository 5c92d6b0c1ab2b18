/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous.h - where processes of one test on several hosts meet: over TCP, at the address of rank 0.
 */
#ifndef STRESS_RENDEZVOUS_H
#define STRESS_RENDEZVOUS_H

#include "tools/stress/launch/launcher.h"

/* On all addresses of this host. 0 or -EINVAL with `why`. */
int rendezvous_listen(int port, int *fd, char why[LIBRARY_WHY]);
/* Tries until limit_ns are over. STRESS_PASSED; STRESS_USAGE, STRESS_IMPOSSIBLE with `why`. The socket stays open over
 * an exec. */
int rendezvous_connect(const struct launcher_place *place, uint64_t limit_ns, int *fd, char why[LIBRARY_WHY]);
/* A peer that vanished is seen within half a minute. */
void rendezvous_tune(int fd);

#endif
