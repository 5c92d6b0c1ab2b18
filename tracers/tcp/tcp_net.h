/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_net.h - a network namespace in which ranks are, seen from ours: sockets that were made in it, its addresses and
 * devices. Making them moves the calling thread there and back: only for a thread of one's own.
 */
#ifndef RANKTRACE_TCP_NET_H
#define RANKTRACE_TCP_NET_H

#include <stdbool.h>
#include <stdint.h>

#define NET_DEVICES_MAX 64

struct net_device {
	char name[16];
	bool known, up;          /* up: and has carrier */
	uint64_t sent, received; /* bytes; TCP_NO_VALUE */
};

struct reader;

struct tcp_net {
	uint64_t inode; /* of the namespace; 0: the place is free */
	uint32_t tgid;  /* a process in it */
	int fd;         /* a socket made there, for sock_diag and for its devices; -1 */
	int error;      /* why it could not be; 0 */
	bool used;      /* for its owner: some rank is there */
	struct {
		int family, device;
		uint8_t address[16];
	} last; /* asked for last: many connections have one address */
	struct net_device devices[NET_DEVICES_MAX];
	int n_devices;
};

/* 0, or -errno, which is kept: -EPERM is for want of CAP_SYS_ADMIN. Another namespace than ours is entered by the
 * reader, and by nothing else (NULL). */
int tcp_net_open(struct tcp_net *n, struct reader *r, uint64_t inode, uint32_t tgid);
bool tcp_net_is_own(uint64_t inode);
void tcp_net_close(struct tcp_net *n);
/* Reads how its devices stand and what they counted. */
void tcp_net_scan(struct tcp_net *n);
/* The device that has the address, as of now; -1: none, or unknown. */
int tcp_net_device(struct tcp_net *n, int family, const void *address);
/* One line of /proc/net/dev. */
bool tcp_net_line(const char *line, char name[16], uint64_t *ret_received, uint64_t *ret_sent);

#endif
