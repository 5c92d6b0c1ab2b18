/* SPDX-License-Identifier: Apache-2.0
 *
 * netns.h - network namespaces of processes, and a visit to one: what is made there (a netlink socket) keeps asking
 * there. A visit moves the calling thread there and back: only for a thread, or a worker, of one's own.
 */
#ifndef RANKTRACE_NETNS_H
#define RANKTRACE_NETNS_H

#include <stdint.h>

/* Of the namespace in which a process is: 0 and its inode, or -errno. */
int netns_of(uint32_t tgid, uint64_t *ret_inode);
/* Calls `act` in the namespace with that inode, which the process is in. What it returns, or -errno: -EPERM is for want
 * of CAP_SYS_ADMIN; where the thread is there already, no privilege is needed. */
int netns_visit(uint64_t inode, uint32_t tgid, int (*act)(void *of), void *of);

#endif
