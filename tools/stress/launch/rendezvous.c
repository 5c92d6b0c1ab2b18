/* SPDX-License-Identifier: Apache-2.0
 *
 * rendezvous.c - see rendezvous.h.
 */
#include "tools/stress/launch/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/run.h"

#define CONNECT_RETRY_NS 200000000
#define PENDING_MAX 4096

static int address_find(const char *host, int port, bool passive, struct addrinfo **list, char why[LIBRARY_WHY])
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = passive ? AI_PASSIVE : 0 };
	char service[16];
	int err;

	snprintf(service, sizeof(service), "%d", port);
	err = getaddrinfo(passive ? NULL : host, service, &hints, list);
	if (!err)
		return 0;
	snprintf(why, LIBRARY_WHY, "rank 0's host '%.100s': %s: give an address with --host", host, gai_strerror(err));
	return -EINVAL;
}

/* On all addresses, of IPv6 too where there is one. */
int rendezvous_listen(int port, int *fd, char why[LIBRARY_WHY])
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT, .sin6_port = htons(port) };
	struct sockaddr_in old = { .sin_family = AF_INET, .sin_port = htons(port) };
	const struct sockaddr *at = (const struct sockaddr *)&any;
	socklen_t size = sizeof(any);

	*fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd >= 0)
		setsockopt(*fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){ 0 }, sizeof(int));
	else {
		*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		at = (const struct sockaddr *)&old;
		size = sizeof(old);
	}
	setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (!bind(*fd, at, size) && !listen(*fd, PENDING_MAX))
		return 0;
	snprintf(why, LIBRARY_WHY,
		 "rank 0 cannot listen on port %d: %s: give another with --host ADDRESS:PORT, on all "
		 "ranks alike",
		 port, strerror(errno));
	return -EINVAL;
}

void rendezvous_tune(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){ 10 }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &(int){ 5 }, sizeof(int));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(int){ 4 }, sizeof(int));
}

static int any_connect(const struct addrinfo *list)
{
	for (const struct addrinfo *a = list; a && !run_signal; a = a->ai_next) {
		int fd = socket(a->ai_family, SOCK_STREAM, 0);

		if (fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen))
			return fd;
		close(fd);
	}
	return -1;
}

int rendezvous_connect(const struct launcher_place *place, uint64_t limit_ns, int *fd, char why[LIBRARY_WHY])
{
	uint64_t end_ns = clock_monotonic_ns() + limit_ns;
	struct addrinfo *list = NULL;

	if (address_find(place->host, place->port, false, &list, why))
		return STRESS_USAGE;
	while ((*fd = any_connect(list)) < 0 && clock_monotonic_ns() < end_ns && !run_signal)
		nanosleep(&(struct timespec){ .tv_nsec = CONNECT_RETRY_NS }, NULL);
	freeaddrinfo(list);
	if (*fd >= 0) {
		rendezvous_tune(*fd);
		return STRESS_PASSED;
	}
	snprintf(why, LIBRARY_WHY,
		 "rank %d: rank 0 at %.100s, port %d, cannot be reached for %.0f s: does it run there, and does a "
		 "firewall let that port through? --host ADDRESS:PORT gives another",
		 place->rank, place->host, place->port, limit_ns * 1e-9);
	return STRESS_IMPOSSIBLE;
}
