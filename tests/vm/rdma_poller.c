/* SPDX-License-Identifier: Apache-2.0
 *
 * rdma_poller.c - spins in ibv_poll_cq() on an empty completion queue of the first RDMA device and says every quarter of a second
 * how many polls it made: "TIME_NS POLLS", time of CLOCK_MONOTONIC. For tests/vm/rdma_poller.py.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SAY_NS 250000000ull
#define LOOK_EVERY 64 /* polls between two looks at the clock */

static unsigned long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_cq *cq = c ? ibv_create_cq(c, 64, NULL, NULL, 0) : NULL;
	unsigned long long polls = 0, said = now_ns();
	struct ibv_wc wc[16];

	if (!cq) {
		fprintf(stderr, "no RDMA device can be opened\n");
		return 1;
	}
	for (;;) {
		unsigned long long now;

		for (int i = 0; i < LOOK_EVERY; i++)
			if (ibv_poll_cq(cq, 16, wc) < 0)
				return 1;
		polls += LOOK_EVERY;
		now = now_ns();
		if (now - said < SAY_NS)
			continue;
		printf("%llu %llu\n", now, polls);
		fflush(stdout);
		said = now;
	}
}
