/* SPDX-License-Identifier: Apache-2.0
 *
 * unix_diag.h - sock_diag about sockets of this host (AF_UNIX), of the network namespace in which it is asked.
 */
#ifndef RANKTRACE_UNIX_DIAG_H
#define RANKTRACE_UNIX_DIAG_H

#include <stddef.h>
#include <stdint.h>

struct unix_socket {
	uint32_t inode, peer; /* peer: inode of the other end, 0 none */
	uint8_t state;        /* as TCP's */
	char path[108];       /* that it is bound to, "@name" an abstract one; "" none */
};

/* 0; -ENOENT: no such socket here; -errno. `fd` of tcp_diag_open(). */
int unix_diag_ask(int fd, uint32_t inode, struct unix_socket *ret);
/* What came in one recv(): 0, -errno of the kernel, -EBADMSG no such message. */
int unix_diag_parse(const void *bytes, size_t size, struct unix_socket *ret);

#endif
