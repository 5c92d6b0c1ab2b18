/* SPDX-License-Identifier: Apache-2.0
 *
 * hosts.c - `--hosts a,b,c`: the same command on each host; which of them is this one? By its name, else by the
 * addresses that the name has.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/stress/rdma/fleet.h"

#define LIST_BYTES 65536
#define HASH_PRIME 16777619u
#define HASH_START 2166136261u

static bool address_same(const struct sockaddr *a, const struct sockaddr *b)
{
	if (!b || a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return !memcmp(&((const struct sockaddr_in *)a)->sin_addr, &((const struct sockaddr_in *)b)->sin_addr,
			       sizeof(struct in_addr));
	return a->sa_family == AF_INET6 &&
	       !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr, &((const struct sockaddr_in6 *)b)->sin6_addr,
		       sizeof(struct in6_addr));
}

static bool is_local(const struct addrinfo *list)
{
	struct ifaddrs *own = NULL;
	bool found = false;

	if (getifaddrs(&own))
		return false;
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		for (const struct ifaddrs *i = own; i; i = i->ifa_next)
			found |= address_same(a->ai_addr, i->ifa_addr);
	freeifaddrs(own);
	return found;
}

/* "node7" is node7.cluster.example. */
static bool name_same(const char *host, const char *own)
{
	size_t n = strcspn(own, ".");

	return !strcmp(host, own) || (strlen(host) == n && !strncmp(host, own, n));
}

/* 1: it is this host, 0: it is not, -EINVAL with `why`: no such host. */
static int is_own(const char *host, char why[LIBRARY_WHY])
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	char own[128];
	int err, found;

	if (!gethostname(own, sizeof(own)) && name_same(host, own))
		return 1;
	err = getaddrinfo(host, NULL, &hints, &list);
	if (err) {
		snprintf(why, LIBRARY_WHY, "--hosts: '%.100s': %s: correct it, or give its address", host,
			 gai_strerror(err));
		return -EINVAL;
	}
	found = is_local(list);
	freeaddrinfo(list);
	return found;
}

static int one_take(const char *word, struct launcher_place *place, char why[LIBRARY_WHY])
{
	char host[128], own[128] = "";
	int port = place->port, found;

	if (launcher_host_parse(word, host, &port)) {
		snprintf(why, LIBRARY_WHY, "--hosts: '%.80s' is no HOST[:PORT]: as node1,node2,node3", word);
		return -EINVAL;
	}
	if (!place->size) {
		snprintf(place->host, sizeof(place->host), "%s", host);
		place->port = port;
	}
	found = is_own(host, why);
	if (found < 0)
		return found;
	if (found && place->rank >= 0) {
		gethostname(own, sizeof(own) - 1);
		snprintf(why, LIBRARY_WHY, "--hosts: '%.80s' and another are both this host (%.80s): each host once",
			 host, own);
		return -EINVAL;
	}
	place->rank = found ? place->size : place->rank;
	place->size++;
	return 0;
}

int hosts_find(const char *list, struct launcher_place *place, uint32_t *hash, char why[LIBRARY_WHY])
{
	char *copy = strndup(list, LIST_BYTES), *rest = copy, *word, own[128] = "";
	int err = 0;

	*hash = HASH_START;
	for (const char *c = list; *c; c++)
		*hash = (*hash ^ (uint8_t)*c) * HASH_PRIME;
	*place = (struct launcher_place){ .launcher = "--hosts", .rank = -1, .port = RDMA_PORT_DEFAULT };
	while (!err && copy && (word = strsep(&rest, ",")))
		err = one_take(word, place, why);
	free(copy);
	gethostname(own, sizeof(own) - 1);
	if (!err && place->rank < 0) {
		snprintf(why, LIBRARY_WHY,
			 "--hosts: none of '%.200s' is this host (%.80s): one command a host, with the "
			 "same list",
			 list, own);
		return -EINVAL;
	}
	if (!err && place->size < 2) {
		snprintf(why, LIBRARY_WHY, "--hosts: '%.100s' is this host alone: leave --hosts out, or name others",
			 list);
		return -EINVAL;
	}
	return err;
}
