/* SPDX-License-Identifier: Apache-2.0
 *
 * hand_port.h - ports of an RDMA device as plain structs, of which the first is looked at once a second by detector
 * link. Of one test program.
 */
#ifndef RANKTRACE_HAND_PORT_H
#define RANKTRACE_HAND_PORT_H

#include <stdlib.h>

#include "detect/detect.h"
#define HAND_RANKS 2
#include "tests/unit/job/hand_job.h"

enum { PORTS = 4, PACKETS = 1000000, BYTES = 1000000000 };

static struct port ports[PORTS];
static struct port *const p = &ports[0];
static uint64_t counters[PORT_COUNTERS], step_ns;
static struct port_status status;
static struct finding_list list;
static void *detector;

static inline void sample_add(struct port *of)
{
	struct port_sample *l = &of->samples[of->n_samples++ % PORT_SAMPLES_KEPT];

	l->ts_ns = l->now.taken_ns = m.now_ns;
	l->now = status;
	l->now.taken_ns = m.now_ns;
	memcpy(l->counters, counters, sizeof(counters));
	if (of->n_samples == 1)
		of->first = *l;
}

static inline void tick(void)
{
	list.n = 0;
	assert_int_equal(detector_link.tick(detector, &m, &list), 0);
}

/* So much later. Before it, so many of a counter. */
static inline void look(int counter, uint64_t n)
{
	m.now_ns += step_ns;
	if (counter >= 0)
		counters[counter] += n;
	sample_add(p);
	tick();
}

/* The same while data flow. */
static inline void window(int counter, uint64_t n)
{
	counters[PORT_SENT_BYTES] += BYTES / 2;
	counters[PORT_SENT_PACKETS] += PACKETS / 2;
	counters[PORT_RECEIVED_BYTES] += BYTES / 2;
	counters[PORT_RECEIVED_PACKETS] += PACKETS / 2;
	look(counter, n);
}

static inline void windows(int times, int counter, uint64_t n)
{
	while (times-- > 0)
		window(counter, n);
}

static inline const struct finding *only(void)
{
	assert_true(list.n <= 1);
	return list.n ? &list.items[0] : NULL;
}

static inline bool is(enum finding_cause cause)
{
	return only() && only()->cause == cause;
}

static inline int begin(void **state)
{
	hand_setup(state);
	memset(counters, 0, sizeof(counters));
	memset(ports, 0, sizeof(ports));
	step_ns = SEC;
	status = (struct port_status){ .state = PORT_STATE_ACTIVE, .rate_mbps = 400000, .lanes = 4 };
	for (int i = 0; i < PORTS; i++) {
		ports[i] = (struct port){ .node = &node,
					  .device = "mlx5_0",
					  .netdev = "eth0",
					  .pci = "0000:1b:00.0",
					  .kind = "0x15b3:0x1021",
					  .layer = "InfiniBand" };
		ports[i].id.number = 1 + i;
		ports[i].users = (struct port_users){ .known = true, .n = 1, .pids = { HAND_PID(0) } };
	}
	node.ports = p;
	list = (struct finding_list){ 0 };
	detector = calloc(1, detector_link.state_bytes);
	look(-1, 0);
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	detector_link.release(detector);
	free(detector);
	finding_list_free(&list);
	return 0;
}

static inline void again(void **state)
{
	end(state);
	begin(state);
}

#endif
