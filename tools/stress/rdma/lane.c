/* SPDX-License-Identifier: Apache-2.0
 *
 * lane.c - see lane.h.
 */
#include "tools/stress/rdma/lane.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/stress/lib/node.h"

#define FOR_EVER UINT64_MAX
#define COUNTERS_SETTLE_NS 15000000 /* providers keep what they read for 10 ms (lifespan) */

struct state {
	struct lane *lane;
	struct rdma_case of;
	struct endpoint e;
	struct rdma_result result;
	uint64_t before[PORT_COUNTERS];
};

static void own_counters(const struct state *s, uint64_t counters[PORT_COUNTERS])
{
	const struct rdma_port *p = &s->lane->host->ports[s->lane->port];

	counters_read(p->device, p->number, p->netdev, counters);
}

static int open_do(struct state *s)
{
	struct wire_opened answer = { .status = RDMA_DONE };
	const struct rdma_place *place = s->lane->role == ROLE_FROM ? &s->of.from : &s->of.to;
	int err;

	endpoint_close(&s->e);
	err = endpoint_open(&s->e, s->lane->host, s->lane->port, &s->of, place, answer.text);
	if (err)
		answer.status = err == -ENOTSUP ? RDMA_ABSENT : RDMA_FAILED;
	answer.own = s->e.own;
	return wire_send(s->lane->fd, WIRE_OPENED, &answer, sizeof(answer));
}

static int connect_do(struct state *s)
{
	struct wire_ready answer = { .status = RDMA_DONE };

	if (endpoint_connect(&s->e, &s->of, answer.text))
		answer.status = RDMA_FAILED;
	return wire_send(s->lane->fd, WIRE_CONNECTED, &answer, sizeof(answer));
}

static void counters_rose(struct state *s)
{
	uint64_t now[PORT_COUNTERS];

	nanosleep(&(struct timespec){ .tv_nsec = COUNTERS_SETTLE_NS }, NULL);
	own_counters(s, now);
	counters_since(s->before, now, s->result.counters);
}

/* 0 when the coordinator says that word; -ECANCELED: it closes this case, as the other end is lost. */
static int word_wait(struct state *s, enum wire_type wanted)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	enum wire_type type;
	int err = wire_receive(s->lane->fd, &type, body, FOR_EVER);

	if (!err && type != wanted)
		err = type == WIRE_CLOSE ? -ECANCELED : -EPROTO;
	return err;
}

static int close_do(struct state *s)
{
	endpoint_close(&s->e);
	return wire_send(s->lane->fd, WIRE_CLOSED, NULL, 0);
}

static int run_do(struct state *s, enum traffic_phase phase)
{
	struct traffic t = { .e = &s->e, .c = &s->of, .phase = phase, .fd = s->lane->fd, .result = &s->result };
	struct wire_ready ready = { .status = RDMA_DONE };
	int err;

	s->result = (struct rdma_result){ .status = RDMA_DONE, .value = NAN };
	own_counters(s, s->before);
	if (traffic_prepare(&t, s->lane->role))
		ready.status = s->result.status;
	snprintf(ready.text, sizeof(ready.text), "%s", s->result.text);
	err = wire_send(s->lane->fd, WIRE_READY, &ready, sizeof(ready));
	err = err ? err : word_wait(s, WIRE_GO);
	if (err)
		return err;
	if (s->lane->role == ROLE_FROM)
		traffic_from(&t);
	else
		traffic_to(&t);
	if (s->lane->role == ROLE_TO)
		err = word_wait(s, WIRE_FINISH);
	if (err)
		return err;
	if (s->result.status == RDMA_DONE)
		traffic_verify(&t, s->lane->role);
	counters_rose(s);
	err = wire_send(s->lane->fd, WIRE_MEASURED, &s->result, sizeof(s->result));
	return err || s->lane->role == ROLE_TO ? err : word_wait(s, WIRE_FINISH);
}

static int count_do(struct state *s)
{
	struct rdma_port port = s->lane->host->ports[s->lane->port];
	struct wire_counted answer = { .state = 0 };

	if (!port_read(s->lane->host, s->lane->host->contexts[s->lane->port], &port))
		answer.state = port.state;
	own_counters(s, answer.counters);
	return wire_send(s->lane->fd, WIRE_COUNTED, &answer, sizeof(answer));
}

static int word_do(struct state *s, enum wire_type type, const void *body)
{
	int err;

	switch (type) {
	case WIRE_OPEN: memcpy(&s->of, body, sizeof(s->of)); return open_do(s);
	case WIRE_CONNECT: memcpy(&s->e.other, body, sizeof(s->e.other)); return connect_do(s);
	case WIRE_RUN: err = run_do(s, *(const int32_t *)body); return err == -ECANCELED ? close_do(s) : err;
	case WIRE_CLOSE: return close_do(s);
	case WIRE_COUNT: return count_do(s);
	default: return -EPROTO;
	}
}

static void *lane_main(void *arg)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	struct state s = { .lane = arg, .e = { .dmabuf = -1 } };
	enum wire_type type;
	int err = 0;

	node_stay(sysfs_root(), s.lane->host->ports[s.lane->port].node); /* as `numactl -N` does for perftest */
	while (!err) {
		err = wire_receive(s.lane->fd, &type, body, FOR_EVER);
		err = err ? err : word_do(&s, type, body);
	}
	endpoint_close(&s.e);
	shutdown(s.lane->fd, SHUT_RDWR); /* who waits for an answer has to see it */
	return NULL;
}

int lane_start(struct lane *lane)
{
	int error = pthread_create(&lane->thread, NULL, lane_main, lane);

	lane->started = !error;
	return -error;
}

void lane_stop(struct lane *lane)
{
	if (!lane->started)
		return;
	pthread_join(lane->thread, NULL);
	close(lane->fd);
	lane->started = false;
}
