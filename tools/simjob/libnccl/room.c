// SPDX-License-Identifier: Apache-2.0
/*
 * SIM_NCCL_NO_SHM=1: GPU 1 finds no room in /dev/shm when a communicator is created, as in a container with 64 MiB of
 * it. NCCL fails there with ncclSystemError, and with ncclRemoteError on the others. =1:20: not before the 20th
 * operation of its process, as NCCL since 2.22 connects when it first needs to.
 */
#include "tools/simjob/libnccl/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *setting(int *ret_device)
{
	const char *text = getenv("SIM_NCCL_NO_SHM");

	*ret_device = text ? atoi(text) : -1;
	return text;
}

static ncclResult_t no_room(struct ncclComm *comm)
{
	snprintf(comm_last_error, sizeof(comm_last_error),
		 "Error while creating shared memory segment /dev/shm/nccl-2a8fGh (size 9637888), error: No space left "
		 "on device (28)");
	memcpy(comm->last_error, comm_last_error, sizeof(comm->last_error));
	return ncclSystemError;
}

ncclResult_t room_create(struct ncclComm *comm)
{
	int device, devices[FABRIC_MAX_RANKS], keys[FABRIC_MAX_RANKS];
	const char *text = setting(&device);

	if (!text || strchr(text, ':') || fabric_exchange(&comm->fabric, 0, comm->cudaDev, 0, devices, keys))
		return ncclSuccess;
	for (int i = 0; i < comm->nRanks; i++) {
		if (devices[i] == device)
			return i == comm->rank ? no_room(comm) : ncclRemoteError;
	}
	return ncclSuccess;
}

ncclResult_t room_operate(struct ncclComm *comm)
{
	static _Atomic long operations;
	int device;
	const char *text = setting(&device), *from = text ? strchr(text, ':') : NULL;

	return from && device == comm->cudaDev && operations++ >= atol(from + 1) ? no_room(comm) : ncclSuccess;
}
