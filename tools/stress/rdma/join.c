/* SPDX-License-Identifier: Apache-2.0
 *
 * join.c - the part of a host that is not the first: it connects, shows its ports, gives a connection to each end of
 * each, and ends with the exit status of all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/launch/rendezvous.h"
#include "tools/stress/rdma/fleet.h"

#define SLICE_NS 100000000ull
#define STOP_NS 3000000000ull /* from a signal until the first host has said how it ended */

static int ports_send(int fd, const struct rdma_host *host, const struct launcher_place *place, uint32_t list)
{
	struct wire_host hello;
	int err;

	fleet_hello(&hello, host, place->rank, place->size, list);
	err = wire_send(fd, WIRE_HOST, &hello, sizeof(hello));
	for (int i = 0; i < host->n_ports && !err; i++) {
		struct wire_port port = { i, host->ports[i] };

		err = wire_send(fd, WIRE_PORT, &port, sizeof(port));
	}
	for (int i = 0; i < host->n_left_out && !err; i++)
		err = wire_send(fd, WIRE_LEFT_OUT, &host->left_out[i], sizeof(host->left_out[i]));
	return err;
}

static int lanes_connect(struct lane *lanes, struct rdma_host *host, const struct stress_options *options,
			 const struct launcher_place *place, char why[LIBRARY_WHY])
{
	for (int i = 0; i < 2 * host->n_ports; i++) {
		struct wire_lane hello = { FLEET_VERSION, place->rank, i / 2, i % 2 };
		int status;

		lanes[i] = (struct lane){ .host = host, .port = i / 2, .role = i % 2 };
		status = rendezvous_connect(place, options->rdma.limit_ns, &lanes[i].fd, why);
		if (status)
			return status;
		if (wire_send(lanes[i].fd, WIRE_LANE, &hello, sizeof(hello)) || lane_start(&lanes[i])) {
			snprintf(why, LIBRARY_WHY, "host %.60s, which leads the test, ended it: see what it says",
				 place->host);
			return STRESS_IMPOSSIBLE;
		}
	}
	return STRESS_PASSED;
}

/* Until the first host says how it ended. A signal here is said to it: it ends the run, and does not take this host
 * for one that failed. */
static int status_wait(int fd, const struct rdma_host *host, const struct launcher_place *place,
		       struct stress_result *result)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	struct wire_ended ended = { .status = STRESS_IMPOSSIBLE };
	int err = -ETIMEDOUT;
	uint64_t end_ns = UINT64_MAX;
	enum wire_type type = 0;

	while (err == -ETIMEDOUT && clock_monotonic_ns() < end_ns) {
		if (run_signal && end_ns == UINT64_MAX) {
			end_ns = clock_monotonic_ns() + STOP_NS;
			wire_send(fd, WIRE_BYE, NULL, 0);
		}
		err = wire_receive(fd, &type, body, clock_monotonic_ns() + SLICE_NS);
	}
	if (!err && type == WIRE_STATUS)
		memcpy(&ended, body, sizeof(ended));
	else
		snprintf(result->why, LIBRARY_WHY,
			 run_signal ? "stopped by a signal"
				    : "host %.60s, which leads the test, ended it: see what it says",
			 place->host);
	fleet_bad_take(host, ended, result);
	return ended.status;
}

int fleet_join(struct rdma_host *host, const struct stress_options *options, const struct launcher_place *place,
	       uint32_t list, struct stress_result *result)
{
	static struct lane lanes[2 * RDMA_PORTS_HOST_MAX];
	char *why = result->why;
	int fd, status = rendezvous_connect(place, options->rdma.limit_ns, &fd, why);

	if (status)
		return status;
	if (ports_send(fd, host, place, list)) {
		snprintf(why, LIBRARY_WHY, "host %.60s, which leads the test, ended it: see what it says", place->host);
		return STRESS_IMPOSSIBLE;
	}
	status = lanes_connect(lanes, host, options, place, why);
	status = status ? status : status_wait(fd, host, place, result);
	close(fd);
	for (int i = 0; i < 2 * host->n_ports; i++) {
		if (lanes[i].started)
			shutdown(lanes[i].fd, SHUT_RDWR);
		lane_stop(&lanes[i]);
	}
	return status;
}

void fleet_refuse(const struct stress_options *options, const struct launcher_place *place, int status, const char *why)
{
	struct wire_refused refused = { .rank = place->rank, .status = status };
	char name[64], own[LIBRARY_WHY];
	int fd;

	snprintf(refused.why, sizeof(refused.why), "host %.60s: %.420s", wire_host_name(name, sizeof(name)), why);
	if (rendezvous_connect(place, options->rdma.limit_ns, &fd, own))
		return;
	wire_send(fd, WIRE_REFUSED, &refused, sizeof(refused));
	close(fd);
}
