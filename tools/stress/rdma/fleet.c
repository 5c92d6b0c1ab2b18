/* SPDX-License-Identifier: Apache-2.0
 *
 * fleet.c - see fleet.h.
 */
#include "tools/stress/rdma/fleet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/launch/rendezvous.h"
#include "tools/stress/lib/node.h"

#define FIRST_WORD_NS 5000000000ull
#define SLICE_NS 300000000ull
#define ACCEPT_MS 200
#define LEFT_OUT_MAX 65536    /* more is none of ours */
#define STOP_NS 1000000000ull /* for what is on the way when a signal stops the run */

/* --- the end by a signal --- */

void fleet_stop(struct fleet *f, int host)
{
	if (f->stopped)
		return;
	f->stopped = true;
	f->stopper = host;
	f->stopped_ns = clock_monotonic_ns();
}

/* Of a host that is not the first: it says that a signal stopped it, or its connection ends with its process. */
static void host_look(struct fleet *f, int host)
{
	char any[WIRE_BODY_MAX] __attribute__((aligned(8)));
	struct pollfd p = { .fd = f->hosts[host].fd, .events = POLLIN };
	enum wire_type type;

	if (p.fd < 0 || poll(&p, 1, 0) <= 0)
		return;
	if (wire_receive(p.fd, &type, any, clock_monotonic_ns() + SLICE_NS)) {
		close(p.fd);
		f->hosts[host].fd = -1;
	} else if (type == WIRE_BYE) {
		fleet_stop(f, host);
	}
}

bool fleet_stopped(struct fleet *f)
{
	if (run_signal)
		fleet_stop(f, 0);
	for (int i = 1; i < f->n_hosts && !f->stopped; i++)
		host_look(f, i);
	return f->stopped;
}

static uint64_t end_of(const struct fleet *f, uint64_t end_ns)
{
	uint64_t stop_ns = f->stopped_ns + STOP_NS;

	return f->stopped && stop_ns < end_ns ? stop_ns : end_ns;
}

/* --- one end of a port --- */

bool lane_say(struct fleet *f, int port, enum traffic_role role, enum wire_type type, const void *body, uint32_t bytes)
{
	struct fleet_port *p = &f->ports[port];

	if (!p->lost && wire_send(p->fds[role], type, body, bytes))
		p->lost = true;
	return !p->lost;
}

bool lane_hear(struct fleet *f, int port, enum traffic_role role, enum wire_type wanted, void *body, size_t bytes,
	       uint64_t limit_ns)
{
	char any[WIRE_BODY_MAX] __attribute__((aligned(8)));
	uint64_t end_ns = clock_monotonic_ns() + limit_ns;
	struct fleet_port *p = &f->ports[port];
	enum wire_type type = WIRE_CLOSED;
	int err = -ETIMEDOUT;

	if (p->lost)
		return false;
	do {
		uint64_t now_ns = clock_monotonic_ns(), until_ns = end_of(f, end_ns);

		err = wire_receive(p->fds[role], &type, any,
				   until_ns < now_ns + SLICE_NS ? until_ns : now_ns + SLICE_NS);
		/* of a case that ends as its other end is lost, answers that are not waited for are on the way */
		if (!err && wanted == WIRE_CLOSED && type != wanted)
			err = -ETIMEDOUT;
		if (err)
			fleet_stopped(f);
	} while (err == -ETIMEDOUT && clock_monotonic_ns() < end_of(f, end_ns));
	if (err || type != wanted)
		p->lost = true;
	else if (bytes)
		memcpy(body, any, bytes);
	return !p->lost;
}

void lane_wait(struct fleet *f, int port, enum traffic_role role, uint64_t limit_ns)
{
	struct pollfd p = { .fd = f->ports[port].fds[role], .events = POLLIN };
	uint64_t end_ns = clock_monotonic_ns() + limit_ns;

	while (!f->ports[port].lost && !fleet_stopped(f) && clock_monotonic_ns() < end_ns)
		if (poll(&p, 1, SLICE_NS / 1000000) > 0)
			return;
}

const char *fleet_port_name(const struct fleet *f, int port, char *text, size_t size)
{
	const struct rdma_port *p = &f->ports[port].port;

	if (f->n_hosts > 1)
		snprintf(text, size, "%.60s/%.60s:%d", f->hosts[p->host].hello.host, p->device, p->number);
	else
		snprintf(text, size, "%.60s:%d", p->device, p->number);
	return text;
}

/* --- the ports of this host --- */

static int lanes_start(struct fleet *f, struct rdma_host *host, char why[LIBRARY_WHY])
{
	int pair[2], err = 0;

	for (int i = 0; i < 2 * host->n_ports && !err; i++) {
		struct lane *lane = &f->lanes[i];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
			err = -errno;
			break;
		}
		*lane = (struct lane){ .host = host, .port = i / 2, .fd = pair[1], .role = i % 2 };
		f->ports[i / 2].fds[i % 2] = pair[0];
		err = lane_start(lane);
	}
	if (!err)
		return STRESS_PASSED;
	snprintf(why, LIBRARY_WHY, "no thread for each port: %s: raise the limits (ulimit -u, -n)", strerror(-err));
	return STRESS_IMPOSSIBLE;
}

void fleet_hello(struct wire_host *h, const struct rdma_host *host, int rank, int size, uint32_t list)
{
	const char *devices = host->options->rdma.devices;

	*h = (struct wire_host){ .version = FLEET_VERSION,
				 .list = list,
				 .rank = rank,
				 .size = size,
				 .n_ports = host->n_ports,
				 .n_left_out = host->n_left_out,
				 .cpu_percent = cpus_quota(sysfs_root(), procfs_root()),
				 .names_ports = devices && *devices != '^',
				 .n_places = host->n_places };
	wire_host_name(h->host, sizeof(h->host));
	snprintf(h->note, sizeof(h->note), "%s", host->note);
	memcpy(h->places, host->places, sizeof(h->places));
}

static void left_out_room(struct fleet_host *h)
{
	h->left_out = calloc(h->hello.n_left_out + 1, sizeof(*h->left_out));
	if (!h->left_out)
		abort();
}

static void own_take(struct fleet *f, struct rdma_host *host, uint32_t list)
{
	fleet_hello(&f->hosts[0].hello, host, 0, f->n_hosts, list);
	left_out_room(&f->hosts[0]);
	if (host->n_left_out)
		memcpy(f->hosts[0].left_out, host->left_out, host->n_left_out * sizeof(*host->left_out));
	f->hosts[0].fd = -1;
	for (int i = 0; i < host->n_ports; i++)
		f->ports[i].port = host->ports[i];
	f->n_ports = host->n_ports;
}

/* --- the others come --- */

struct arrival {
	struct fleet *f;
	int hosts, lanes; /* how many are here */
	char *why;
};

static int ports_receive(struct arrival *a, int fd, struct fleet_host *h)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	struct fleet *f = a->f;
	enum wire_type type;

	h->first_port = f->n_ports;
	for (int i = 0; i < h->hello.n_ports; i++) {
		int err = wire_receive(fd, &type, body, clock_monotonic_ns() + FIRST_WORD_NS);

		if (err || type != WIRE_PORT || f->n_ports == RDMA_PORTS_MAX) {
			snprintf(a->why, LIBRARY_WHY, "host %.60s: its list of ports broke off%s", h->hello.host,
				 f->n_ports == RDMA_PORTS_MAX ? ": too many ports: name devices" : "");
			return STRESS_IMPOSSIBLE;
		}
		f->ports[f->n_ports].port = ((const struct wire_port *)body)->port;
		f->ports[f->n_ports].port.host = h->hello.rank;
		f->ports[f->n_ports].fds[0] = f->ports[f->n_ports].fds[1] = -1;
		f->n_ports++;
	}
	return STRESS_PASSED;
}

static int left_out_receive(struct arrival *a, int fd, struct fleet_host *h)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	enum wire_type type;

	left_out_room(h);
	for (int i = 0; i < h->hello.n_left_out; i++) {
		if (wire_receive(fd, &type, body, clock_monotonic_ns() + FIRST_WORD_NS) || type != WIRE_LEFT_OUT) {
			snprintf(a->why, LIBRARY_WHY, "host %.60s: its list of ports broke off", h->hello.host);
			return STRESS_IMPOSSIBLE;
		}
		memcpy(&h->left_out[i], body, sizeof(h->left_out[i]));
		h->left_out[i].device[sizeof(h->left_out[i].device) - 1] = 0;
	}
	return STRESS_PASSED;
}

static int host_take(struct arrival *a, int fd, const struct wire_host *hello)
{
	struct fleet *f = a->f;
	struct fleet_host *h = &f->hosts[hello->rank];
	int status;

	if (hello->version != FLEET_VERSION || hello->size != f->n_hosts || hello->rank <= 0 ||
	    hello->rank >= f->n_hosts || h->fd >= 0 || hello->n_left_out < 0 || hello->n_left_out > LEFT_OUT_MAX) {
		snprintf(a->why, LIBRARY_WHY,
			 "host %.60s (rank %d) came twice, counts %d hosts in place of %d, or is of another ranktrace: "
			 "one binary and one list of hosts for all",
			 hello->host, hello->rank, hello->size, f->n_hosts);
		return STRESS_IMPOSSIBLE;
	}
	if (hello->list != f->hosts[0].hello.list) {
		snprintf(a->why, LIBRARY_WHY,
			 "host %.60s has another --hosts than %.60s: the same list, in the same order, on all",
			 hello->host, f->hosts[0].hello.host);
		return STRESS_USAGE;
	}
	h->hello = *hello;
	h->fd = fd;
	a->hosts++;
	status = ports_receive(a, fd, h);
	return status ? status : left_out_receive(a, fd, h);
}

static int lane_take(struct arrival *a, int fd, const struct wire_lane *lane)
{
	struct fleet *f = a->f;
	bool known = lane->version == FLEET_VERSION && lane->rank > 0 && lane->rank < f->n_hosts && lane->port >= 0 &&
		     lane->port < f->hosts[lane->rank].hello.n_ports &&
		     (lane->role == ROLE_FROM || lane->role == ROLE_TO);

	if (!known) {
		close(fd);
		return STRESS_PASSED;
	}
	f->ports[f->hosts[lane->rank].first_port + lane->port].fds[lane->role] = fd;
	a->lanes++;
	return STRESS_PASSED;
}

/* A connection says its first word. What is none of ours is closed: a port scanner ends no test. */
static int word_take(struct arrival *a, int fd)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	struct wire_refused refused;
	enum wire_type type;

	if (wire_receive(fd, &type, body, clock_monotonic_ns() + FIRST_WORD_NS))
		type = 0;
	if (type == WIRE_HOST)
		return host_take(a, fd, (const struct wire_host *)body);
	if (type == WIRE_LANE)
		return lane_take(a, fd, (const struct wire_lane *)body);
	close(fd);
	if (type != WIRE_REFUSED)
		return STRESS_PASSED;
	memcpy(&refused, body, sizeof(refused));
	snprintf(a->why, LIBRARY_WHY, "%.480s", refused.why);
	return refused.status;
}

static int missing_say(const struct arrival *a)
{
	const struct fleet *f = a->f;
	int first = 1;

	while (first < f->n_hosts - 1 && f->hosts[first].fd >= 0)
		first++;
	snprintf(a->why, LIBRARY_WHY,
		 "host %d of %d did not come within %.0f s%s (%d are here): is it started there, can that host reach "
		 "this one, and has it the same list of hosts?",
		 first, f->n_hosts, f->options->rdma.limit_ns * 1e-9, run_signal ? " (stopped by a signal)" : "",
		 a->hosts + 1);
	return STRESS_IMPOSSIBLE;
}

static int lanes_wanted(const struct fleet *f)
{
	return 2 * (f->n_ports - f->hosts[0].hello.n_ports);
}

static int others_wait(struct arrival *a, int listener)
{
	uint64_t end_ns = clock_monotonic_ns() + a->f->options->rdma.limit_ns;
	struct pollfd p = { .fd = listener, .events = POLLIN };
	int status = STRESS_PASSED;

	while (!status && (a->hosts < a->f->n_hosts - 1 || a->lanes < lanes_wanted(a->f))) {
		int fd;

		if (clock_monotonic_ns() > end_ns || run_signal)
			return missing_say(a);
		if (poll(&p, 1, ACCEPT_MS) <= 0)
			continue;
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		rendezvous_tune(fd);
		status = word_take(a, fd);
	}
	return status;
}

static void files_allow(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int fleet_open(struct fleet *f, struct rdma_host *host, const struct launcher_place *place, uint32_t list,
	       char why[LIBRARY_WHY])
{
	struct arrival a = { .f = f, .why = why };
	int listener = -1, status;

	*f = (struct fleet){ .options = host->options, .n_hosts = place ? place->size : 1 };
	files_allow();
	f->hosts = calloc(f->n_hosts, sizeof(*f->hosts));
	f->ports = calloc(RDMA_PORTS_MAX, sizeof(*f->ports));
	if (!f->hosts || !f->ports)
		abort();
	for (int i = 0; i < f->n_hosts; i++)
		f->hosts[i].fd = -1;
	own_take(f, host, list);
	status = lanes_start(f, host, why);
	if (status || !place)
		return status;
	if (rendezvous_listen(place->port, &listener, why))
		return STRESS_IMPOSSIBLE;
	status = others_wait(&a, listener);
	close(listener);
	return status;
}

static uint64_t bad_of(const struct fleet *f, const struct fleet_host *h)
{
	uint64_t bad = 0;

	for (int i = 0; i < h->hello.n_ports && h->first_port + i < f->n_ports; i++)
		bad |= (uint64_t)f->ports[h->first_port + i].bad << i;
	return bad;
}

struct wire_ended fleet_ended(const struct fleet *f, int host, int status)
{
	const struct fleet_host *h = &f->hosts[host];

	return (struct wire_ended){ .status = status, .bad = bad_of(f, h), .bad_gpus = h->bad_gpus };
}

void fleet_bad_take(const struct rdma_host *host, struct wire_ended ended, struct stress_result *result)
{
	char name[80];

	for (int i = 0; i < host->n_ports; i++) {
		snprintf(name, sizeof(name), "%s:%d", host->ports[i].device, host->ports[i].number);
		if (ended.bad >> i & 1)
			stress_result_bad(result, name, NULL, NULL);
	}
	for (int i = 0; host->gpus && i < host->gpus->n_gpus; i++) {
		const struct stress_gpu *gpu = &host->gpus->gpus[i];

		snprintf(name, sizeof(name), "GPU %d", gpu->ordinal);
		if (ended.bad_gpus >> gpu->ordinal & 1)
			stress_result_bad(result, name, gpu->uuid, gpu->pci);
	}
}

void fleet_close(struct fleet *f, int status)
{
	for (int i = 0; i < f->n_ports; i++)
		for (int role = 0; role < 2; role++)
			if (f->ports[i].fds[role] > 0)
				close(f->ports[i].fds[role]);
	for (int i = 0; i < 2 * RDMA_PORTS_HOST_MAX; i++)
		lane_stop(&f->lanes[i]);
	for (int i = 1; i < f->n_hosts; i++) {
		const struct wire_ended ended = fleet_ended(f, i, status);

		if (f->hosts[i].fd < 0)
			continue;
		wire_send(f->hosts[i].fd, WIRE_STATUS, &ended, sizeof(ended));
		close(f->hosts[i].fd);
	}
	for (int i = 0; i < f->n_hosts; i++)
		free(f->hosts[i].left_out);
	free(f->hosts);
	free(f->ports);
	f->hosts = NULL;
	f->ports = NULL;
	f->n_hosts = f->n_ports = 0;
}
