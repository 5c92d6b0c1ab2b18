/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the launcher that stands for what a rank asks over the network: it takes connections on a port of the
 * loopback and answers late. It is the launcher's child alone, as a real one would be no rank's.
 */
#ifndef SIMJOB_OBJECT_STORE_H
#define SIMJOB_OBJECT_STORE_H

#include <stdint.h>

struct object_store {
	int fd;  /* connected */
	int pid; /* of the process at the other end */
	int port;
};

/* Asks for an answer after that time; with a path: for a byte written to that FIFO then. Exits without a store. */
struct object_store object_store_ask(uint64_t delay_ns, const char *fifo);
/* Waits in recv() for the answer. */
void object_store_await(struct object_store *store);

#endif
