/* SPDX-License-Identifier: Apache-2.0
 *
 * rdma_poller.c - spins in ibv_poll_cq() on an empty completion queue of the first RDMA device and says every quarter
 * of a second how many polls it made, in how much CPU time of its own, and when: "CPU_NS WALL_NS POLLS". For
 * tests/vm/rdma_poller.py. STAND_IN: over the stand-ins of tests/aid/verbs, with a provider and a file uverbsN as
 * arguments.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SAY_NS 250000000ull
#define LOOK_EVERY 64 /* polls between two samples of the clock */

static unsigned long long clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static struct ibv_device *device_first(char **argv)
{
#ifdef STAND_IN
	struct ibv_device *d = calloc(1, sizeof(*d));

	snprintf(d->name, sizeof(d->name), "fake0");
	snprintf(d->dev_name, sizeof(d->dev_name), "uverbs0");
	snprintf(d->dev_path, sizeof(d->dev_path), "%s", argv[1]);
	snprintf(d->ibdev_path, sizeof(d->ibdev_path), "%s", argv[2]);
	return d;
#else
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)argv;
	return list ? list[0] : NULL;
#endif
}

int main(int argc, char **argv)
{
	struct ibv_device *d = device_first(argv);
	struct ibv_context *c = d ? ibv_open_device(d) : NULL;
	struct ibv_cq *cq = c ? ibv_create_cq(c, 64, NULL, NULL, 0) : NULL;
	unsigned long long polls = 0, said = clock_ns(CLOCK_MONOTONIC);
	struct ibv_wc wc[16];

	(void)argc;
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
		now = clock_ns(CLOCK_MONOTONIC);
		if (now - said < SAY_NS)
			continue;
		printf("%llu %llu %llu\n", clock_ns(CLOCK_PROCESS_CPUTIME_ID), now, polls);
		fflush(stdout);
		said = now;
	}
}
