/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_diag.h - sock_diag: the kernel's answers about TCP sockets of one network namespace, the one in which the netlink
 * socket was made. The parser trusts no length.
 */
#ifndef RANKTRACE_TCP_DIAG_H
#define RANKTRACE_TCP_DIAG_H

#include <linux/inet_diag.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracers/tcp/wire/tcp.h"

struct diag_socket {
	struct inet_diag_sockid id; /* addresses, ports, cookie */
	uint8_t family, state;
	uint32_t inode, receive_queue, send_queue;
	const uint8_t *info; /* struct tcp_info as far as this kernel has it; in the answer's bytes */
	size_t info_bytes;
};

typedef void (*diag_fn)(void *of, const struct diag_socket *s);

/* A netlink socket for questions, in the calling thread's network namespace: its descriptor or -errno. */
int tcp_diag_open(void);
/* All sockets of AF_INET or AF_INET6 that are connected or about to be. 0 or -errno. */
int tcp_diag_dump(int fd, int family, diag_fn each, void *of);
/* One socket. 0, -ENOENT: it is no more; -errno. */
int tcp_diag_ask(int fd, int family, const struct inet_diag_sockid *id, diag_fn each, void *of);

/* What came in one recv(). 0: more is to come; 1: that was the last; -errno of the kernel; -EBADMSG: no such
 * message. */
int tcp_diag_parse(const void *bytes, size_t size, diag_fn each, void *of);
/* Fills what tcp_info and the queues show; what the answer is too short for, and what is beside them, is TCP_NO_VALUE.
 */
void tcp_diag_counters(const struct diag_socket *s, uint64_t counters[TCP_COUNTERS]);
/* As text, an IPv4 address within IPv6 as what it is. */
void tcp_address_text(int family, const void *address, char *to, size_t size);

#endif
