/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs_settings.h - what a test sets of the stand-in for libibverbs, by the environment; devices are sim0, sim1...
 *
 *   SIM_VERBS_DEVICES=4          how many                  SIM_VERBS_SHARED=FILE  the queue pairs of all processes
 *   SIM_VERBS_NAME=nic           three letters: they are nic0, nic1...
 *   SIM_VERBS_DOWN=1[,2...]      it is down                SIM_VERBS_MTU=1:1024   its active MTU
 *   SIM_VERBS_PHYS=5             the physical state of those
 *   SIM_VERBS_SUBNET=1:7         all are InfiniBand, and it is in that subnet; SIM_VERBS_ETHERNET=3[,...]: but these
 *   SIM_VERBS_SM=1122            a digit a device: the LID of its subnet manager
 *   SIM_VERBS_FABRICS=0011       a digit a device: between two of other digits nothing arrives
 *   SIM_VERBS_NO_ADDRESS=1[,...] the netdev of it has no address (verbs_addresses.h)
 *   SIM_VERBS_NO_WAY=own         a queue pair gets no address of another port of its process; all: of any other port
 *   SIM_VERBS_DEAD=1             what it sends or is sent does not arrive
 *   SIM_VERBS_DEAD_LINK=0:1      the same between these two
 *   SIM_VERBS_SMALL=0:1          the same, of packets of more than 256 bytes
 *   SIM_VERBS_LOSE=1:500         it is gone after as many messages that it sends
 *   SIM_VERBS_MUTE=1:3           its port does not answer the third and later questions
 *   SIM_VERBS_FLIP=1[:read]      a bit of each 40th message that it receives is wrong
 *   SIM_VERBS_SLOW=1:20          its messages take 20 us more, while SIM_SLOW_WHILE is there, if set
 *   SIM_VERBS_LOSS=1             each 10th message is counted as out of sequence
 *   SIM_VERBS_HANG=1             nothing that it posts is ever completed
 *   SIM_VERBS_NO_MR=1            no memory can be registered, SIM_VERBS_NO_OPEN=1: no device opened
 *   SIM_VERBS_NO_DMABUF=1        an old kernel or adapter: none is registered; SIM_VERBS_PEERMEM=1: GPU memory by its
 *                                address is (nvidia-peermem)
 *   SIM_VERBS_CPU_US=1:20        a message of a thread that may run on other CPUs than 1 takes 20 us more
 *   SIM_VERBS_FAR_US=20          between a device and a GPU of another number each message takes 20 us more
 *   SIM_VERBS_GPU_SLOW=1:20      so does each to and from the memory of GPU 1, by any device
 *   SIM_VERBS_GPU_FLIP=1         a bit of each 40th of those is wrong
 */
#ifndef TESTS_VERBS_SETTINGS_H
#define TESTS_VERBS_SETTINGS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int number_of(const char *variable, int otherwise)
{
	const char *text = getenv(variable);

	return text ? atoi(text) : otherwise;
}

static const char *name_of_all(void)
{
	const char *name = getenv("SIM_VERBS_NAME");

	return name ? name : "sim";
}

/* "A:B" of a variable; -1: it is not set. */
static int second_of(const char *variable)
{
	const char *text = getenv(variable), *colon = text ? strchr(text, ':') : NULL;

	return colon ? atoi(colon + 1) : -1;
}

/* It is in the list of numbers, "1,2". */
static bool is_listed(const char *variable, int number)
{
	const char *at = getenv(variable);
	bool found = false;

	for (; at && *at && !found; at += strcspn(at, ","), at += *at == ',')
		found = atoi(at) == number;
	return found;
}

/* The digit of a device in such a variable; 0: it has none. */
static int digit_of(const char *variable, int device)
{
	const char *text = getenv(variable);

	return text && device < (int)strlen(text) ? text[device] - '0' : 0;
}

static bool is_infiniband(int device)
{
	return getenv("SIM_VERBS_SUBNET") && !is_listed("SIM_VERBS_ETHERNET", device);
}

#endif
