// SPDX-License-Identifier: Apache-2.0
/*
 * SIM_NCCL_SHARED=FILE: all communicators whose processes name this file share one network, or one GPU: an operation
 * takes as many times longer as there are of them. In the file a byte for each device says whether it is rank 0 of one.
 */
#include "tools/simjob/libnccl/comm.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICES 4096

static _Atomic unsigned char *slots;
static pthread_once_t slots_once = PTHREAD_ONCE_INIT;

static void slots_map(void)
{
	const char *path = getenv("SIM_NCCL_SHARED");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *map = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, DEVICES))
		map = mmap(NULL, DEVICES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	slots = map == MAP_FAILED ? NULL : map;
}

static void slot_set(const struct ncclComm *comm, unsigned char value)
{
	pthread_once(&slots_once, slots_map);
	if (slots && !comm->rank && comm->cudaDev >= 0 && comm->cudaDev < DEVICES)
		slots[comm->cudaDev] = value;
}

void shared_join(const struct ncclComm *comm)
{
	slot_set(comm, 1);
}

void shared_leave(const struct ncclComm *comm)
{
	slot_set(comm, 0);
}

int shared_communicators(void)
{
	int n = 0, i;

	for (i = 0; slots && i < DEVICES; i++)
		n += slots[i];
	return n > 1 ? n : 1;
}
