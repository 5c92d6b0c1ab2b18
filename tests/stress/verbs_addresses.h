/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs_addresses.h - the netdevs of the stand-in's Ethernet devices: simnet0 with 10.0.0.1/24 and so on, before those
 * that this machine has. It is preloaded, so that these are what the C library lists.
 */
#ifndef TESTS_VERBS_ADDRESSES_H
#define TESTS_VERBS_ADDRESSES_H

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <stdio.h>

#include "tests/stress/verbs_settings.h"

#define NETDEVS 64

struct netdev {
	struct ifaddrs entry; /* the first of each list that is given out */
	char name[16];
	struct sockaddr_in address, mask;
};

int getifaddrs(struct ifaddrs **list)
{
	int (*real)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, "getifaddrs");
	int n = number_of("SIM_VERBS_DEVICES", 2), result = real(list);

	for (int i = 0; i < n && i < NETDEVS && !result; i++) {
		struct netdev *d = calloc(1, sizeof(*d));

		if (is_listed("SIM_VERBS_NO_ADDRESS", i))
			continue;
		snprintf(d->name, sizeof(d->name), "%snet%d", name_of_all(), i);
		d->address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(0x0a000001 + i) } };
		d->mask = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(0xffffff00) } };
		d->entry = (struct ifaddrs){ .ifa_next = *list,
					     .ifa_name = d->name,
					     .ifa_addr = (struct sockaddr *)&d->address,
					     .ifa_netmask = (struct sockaddr *)&d->mask };
		*list = &d->entry;
	}
	return result;
}

/* Ours stay: a test is short. */
void freeifaddrs(struct ifaddrs *list)
{
	void (*real)(struct ifaddrs *) = (void (*)(struct ifaddrs *))dlsym(RTLD_NEXT, "freeifaddrs");

	while (list && strstr(list->ifa_name, "net") && list->ifa_netmask && !list->ifa_flags)
		list = list->ifa_next;
	if (list)
		real(list);
}

#endif
