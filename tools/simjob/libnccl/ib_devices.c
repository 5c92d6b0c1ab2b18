// SPDX-License-Identifier: Apache-2.0
/* See ib_devices.h. A context stays open until the process ends, as NCCL's. */
#include "tools/simjob/libnccl/ib_devices.h"

#if __has_include(<infiniband/verbs.h>)
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#define DEVICES_MAX 32
#define PORT 1
#define GIDS_MAX 256

struct ib_verbs ib_verbs;
static struct ib_device devices[DEVICES_MAX];
static int nr_devices;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool library_open(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	static const struct {
		const char *name;
		size_t at;
	} functions[] = {
#define FUNCTION(name) { "ibv_" #name, offsetof(struct ib_verbs, name) }
		FUNCTION(get_device_list), FUNCTION(free_device_list), FUNCTION(get_device_name),
		FUNCTION(open_device),     FUNCTION(alloc_pd),         FUNCTION(reg_mr),
		FUNCTION(dereg_mr),        FUNCTION(create_cq),        FUNCTION(destroy_cq),
		FUNCTION(create_qp),       FUNCTION(modify_qp),        FUNCTION(destroy_qp),
		FUNCTION(query_port),      FUNCTION(query_gid),        FUNCTION(get_async_event),
		FUNCTION(ack_async_event),
#undef FUNCTION
	};
	size_t i;

	for (i = 0; library && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return false;
		memcpy((char *)&ib_verbs + functions[i].at, &function, sizeof(function));
	}
	return library;
}

static void *events_wait(void *arg)
{
	struct ib_device *device = arg;
	struct ibv_async_event event;
	char name[16];

	snprintf(name, sizeof(name), "NCCL IbAsync%2d", (int)(device - devices));
	prctl(PR_SET_NAME, name);
	while (!ib_verbs.get_async_event(device->context, &event)) {
		fprintf(stderr, "libnccl stand-in: NET/IB : %s: asynchronous event %d\n", device->name,
			event.event_type);
		ib_verbs.ack_async_event(&event);
	}
	return NULL;
}

static void events_watch(struct ib_device *device)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!pthread_create(&thread, NULL, events_wait, device))
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Of RoCE the first address that is IPv4's: what version 2 is routed by. */
static int gid_find(struct ib_device *device)
{
	static const unsigned char ipv4[12] = { [10] = 0xff, [11] = 0xff };
	union ibv_gid gid;
	int i;

	for (i = 0; i < GIDS_MAX && !ib_verbs.query_gid(device->context, PORT, i, &gid); i++) {
		if (memcmp(gid.raw, ipv4, sizeof(ipv4)))
			continue;
		device->gid = gid;
		return i;
	}
	return ib_verbs.query_gid(device->context, PORT, 0, &device->gid) ? -1 : 0;
}

static int device_open(struct ib_device *device)
{
	struct ibv_port_attr port = { 0 }; /* the exported function fills less of it than the inline would */

	device->context = ib_verbs.open_device(device->is);
	if (!device->context)
		return -errno;
	device->pd = ib_verbs.alloc_pd(device->context);
	device->gid_index = gid_find(device);
	if (!device->pd || device->gid_index < 0 || ib_verbs.query_port(device->context, PORT, (void *)&port))
		return -ENODEV;
	device->mtu = port.active_mtu;
	device->lid = port.lid;
	events_watch(device);
	return 0;
}

static void device_take(struct ibv_device *const *list, int nr, const char *name, size_t length)
{
	int i;

	for (i = 0; i < nr && nr_devices < DEVICES_MAX; i++) {
		const char *is = ib_verbs.get_device_name(list[i]);

		if (strlen(is) == length && !strncmp(is, name, length))
			devices[nr_devices++] = (struct ib_device){ .is = list[i], .name = is };
	}
}

/* NCCL_IB_HCA=rxe0,rxe1: these, in that order; without it all. The list is kept: the devices are in it. */
static void devices_list(void)
{
	const char *wanted = getenv("NCCL_IB_HCA"), *name;
	struct ibv_device **list;
	int nr = 0, i;

	if (!library_open()) {
		fprintf(stderr,
			"libnccl stand-in: libibverbs.so.1 cannot be opened: install rdma-core's libibverbs1\n");
		return;
	}
	list = ib_verbs.get_device_list(&nr);
	for (i = 0; list && !wanted && i < nr; i++) {
		name = ib_verbs.get_device_name(list[i]);
		device_take(list + i, 1, name, strlen(name));
	}
	for (name = wanted; list && name && *name; name += *name == ',') {
		device_take(list, nr, name, strcspn(name, ","));
		name += strcspn(name, ",");
	}
	if (!nr_devices)
		fprintf(stderr,
			"libnccl stand-in: none of %d RDMA devices is to be used; see NCCL_IB_HCA, /dev/infiniband\n",
			nr);
}

const struct ib_device *ib_device_get(int nth)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct ib_device *device;
	int err = 0;

	pthread_once(&once, devices_list);
	if (!nr_devices)
		return NULL;
	device = &devices[nth % nr_devices];
	pthread_mutex_lock(&lock);
	if (!device->context)
		err = device_open(device);
	pthread_mutex_unlock(&lock);
	if (err)
		fprintf(stderr, "libnccl stand-in: %s cannot be opened: %s; may this process use /dev/infiniband?\n",
			device->name, strerror(-err));
	return err ? NULL : device;
}

#endif
