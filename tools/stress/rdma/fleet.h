/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet.h - all hosts of a run, as the coordinator sees them: their ports, and a connection to each end of each port.
 * The coordinator is the process of the first host; its own ports are threads of it, those of others come over TCP.
 */
#ifndef STRESS_RDMA_FLEET_H
#define STRESS_RDMA_FLEET_H

#include "tools/stress/launch/launcher.h"
#include "tools/stress/rdma/lane.h"
#include "tools/stress/stress.h"

#define RDMA_PORT_DEFAULT 29556 /* one more than that of stress nccl */

struct wire_host {
	uint32_t version, list; /* of the binary; a hash of --hosts */
	int32_t rank, size, n_ports, n_left_out, n_places;
	int32_t cpu_percent; /* of one CPU, by control groups; 0: no limit */
	int32_t names_ports; /* by its --devices: what it names should be up */
	char host[64], note[256];
	struct rdma_place places[RDMA_PLACES_MAX];
};

_Static_assert(sizeof(struct wire_host) <= WIRE_BODY_MAX, "one message");

struct wire_port {
	int32_t index;
	struct rdma_port port;
};

struct wire_lane {
	uint32_t version;
	int32_t rank, port, role;
};

#define FLEET_VERSION \
	((uint32_t)(sizeof(struct rdma_result) << 16 ^ sizeof(struct rdma_port) << 4 ^ sizeof(struct rdma_case) ^ \
		    sizeof(struct rdma_address) << 24 ^ 5))

/* WIRE_STATUS: how all ended, to a host that is not the first. */
struct wire_ended {
	int32_t status;
	uint64_t bad;      /* bit i: the host's port i has a fault, or a link of it has one */
	uint64_t bad_gpus; /* bit i: so has the memory of its GPU i, as CUDA counts */
};
_Static_assert(RDMA_PORTS_HOST_MAX <= 64, "a bit a port");

struct fleet_host {
	struct wire_host hello;
	struct rdma_left_out *left_out; /* hello.n_left_out */
	int fd, first_port;             /* fd -1: this host */
	uint64_t bad_gpus;              /* known at the end, as wire_ended has it */
};

struct fleet_port {
	struct rdma_port port;
	int fds[2]; /* by enum traffic_role */
	bool lost;  /* an end does not answer any more */
	bool bad;   /* it has a fault, or a link of it has one: known at the end */
	struct wire_counted begin, end;
};

struct fleet {
	const struct stress_options *options;
	int n_hosts, n_ports;
	struct fleet_host *hosts;
	struct fleet_port *ports;
	struct lane lanes[2 * RDMA_PORTS_HOST_MAX]; /* of this host */
	bool stopped;                               /* by a signal here or to another host: no case begins any more */
	int stopper;                                /* that host */
	uint64_t stopped_ns;
};

/* What a host says of itself first; its ports and what it leaves out follow. */
void fleet_hello(struct wire_host *hello, const struct rdma_host *host, int rank, int size, uint32_t list);
/* `place` NULL: this host alone. STRESS_PASSED: all are here; else the exit status, with `why`. */
int fleet_open(struct fleet *fleet, struct rdma_host *host, const struct launcher_place *place, uint32_t list,
	       char why[LIBRARY_WHY]);
/* Ends all hosts with that exit status. */
/* What a host gets to know at the end, and takes into its result: its ports and GPUs that have a fault. */
struct wire_ended fleet_ended(const struct fleet *fleet, int host, int status);
void fleet_bad_take(const struct rdma_host *host, struct wire_ended ended, struct stress_result *result);
void fleet_close(struct fleet *fleet, int status);
/* A host that is not the first: its whole part. The exit status; `result` has `why`, and which of its ports are bad. */
int fleet_join(struct rdma_host *host, const struct stress_options *options, const struct launcher_place *place,
	       uint32_t list, struct stress_result *result);
/* The same for a host that cannot test, so that the first one knows: STRESS_* and why. */
void fleet_refuse(const struct stress_options *options, const struct launcher_place *place, int status,
		  const char *why);

/* Whether a signal has stopped this process, or that of another host, which says so. */
bool fleet_stopped(struct fleet *fleet);
/* It is stopped, by a signal to the process of this host of the run. */
void fleet_stop(struct fleet *fleet, int host);

/* False: it is lost, now or before. */
bool lane_say(struct fleet *fleet, int port, enum traffic_role role, enum wire_type type, const void *body,
	      uint32_t bytes);
/* Once the run is stopped it waits for about a second more, whatever the limit is. */
bool lane_hear(struct fleet *fleet, int port, enum traffic_role role, enum wire_type type, void *body, size_t bytes,
	       uint64_t limit_ns);
/* Returns when it has said a word, is lost, or the run is stopped; after limit_ns at the latest. */
void lane_wait(struct fleet *fleet, int port, enum traffic_role role, uint64_t limit_ns);
/* "mlx5_0:1", of several hosts "node3/mlx5_0:1" */
const char *fleet_port_name(const struct fleet *fleet, int port, char *text, size_t size);
/* hosts.c: which rank this host is in "a,b,c". 0 or -EINVAL with `why`. *list: a hash of it. */
int hosts_find(const char *list, struct launcher_place *place, uint32_t *hash, char why[LIBRARY_WHY]);

#endif
