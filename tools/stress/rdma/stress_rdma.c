/* SPDX-License-Identifier: Apache-2.0
 *
 * stress_rdma.c - `stress rdma`: hosts and ports, the shapes one after the other, the judgement.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/stress/rdma/rdma_run.h"
#include "tools/stress/stress.h"

/* --- faults and notes --- */

double rdma_elapsed_s(const struct rdma_run *run)
{
	return (clock_monotonic_ns() - run->begin_ns) * 1e-9;
}

static void fault_take(struct rdma_run *run, struct fault *fault, const char *format, va_list args)
{
	vsnprintf(fault->text, sizeof(fault->text), format, args);
	fault->measure = -1;
	fault->at_s = rdma_elapsed_s(run);
	if (fault->gpu >= 0) {
		run->faults_of[fault->gpu]++;
		run->is_bad[fault->gpu] = true;
	}
	if (fault->to)
		run->is_bad[fault->to - 1] = true;
	if (run->n_faults < RDMA_FAULTS_MAX)
		run->faults[run->n_faults++] = *fault;
	rdma_report_fault(run, fault);
}

void rdma_fault(struct rdma_run *run, enum fault_kind kind, int port, const char *format, ...)
{
	struct fault fault = { .kind = kind, .gpu = port };
	va_list args;

	va_start(args, format);
	fault_take(run, &fault, format, args);
	va_end(args);
}

void rdma_case_fault(struct rdma_run *run, enum fault_kind kind, int port, const struct rdma_measured *m,
		     const char *format, ...)
{
	struct fault fault = { .kind = kind,
			       .gpu = port < 0 ? m->from : port,
			       .to = port < 0 && m->to != m->from ? 1 + m->to : 0,
			       .unit = rdma_measure_units[m->of.measure] };
	va_list args;

	if (kind == FAULT_SLOW)
		fault.held = m->judged;
	va_start(args, format);
	fault_take(run, &fault, format, args);
	va_end(args);
}

void rdma_gpu_fault(struct rdma_run *run, enum fault_kind kind, const struct rdma_measured *m, const char *format, ...)
{
	struct fault fault = { .kind = kind,
			       .gpu = -1,
			       .memory_gpu = 1 + m->of.to.gpu,
			       .memory_host = run->fleet.ports[m->to].port.host,
			       .unit = rdma_measure_units[m->of.measure] };
	va_list args;

	if (kind == FAULT_SLOW)
		fault.held = m->judged;
	run->fleet.hosts[fault.memory_host].bad_gpus |= 1ull << m->of.to.gpu;
	va_start(args, format);
	fault_take(run, &fault, format, args);
	va_end(args);
}

void rdma_note(struct rdma_run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	notes_add(&run->notes, format, args);
	va_end(args);
}

/* --- shapes --- */

static bool stopped(struct rdma_run *run)
{
	return fleet_stopped(&run->fleet);
}

/* Ports that are up, with their host and rail. */
static int usable_ports(const struct rdma_run *run, struct shape_port *ports)
{
	int n = 0;

	for (int i = 0; i < run->fleet.n_ports; i++)
		if (run->is_usable[i])
			ports[n++] = (struct shape_port){ i, run->fleet.ports[i].port.host, run->names[i],
							  run->networks[i], run->fleet.ports[i].port.link_layer };
	return n;
}

/* The n-th memory of the host that a link ends in; false: it has not so many. */
static bool place_of(const struct rdma_run *run, int port, int n, struct rdma_place *place)
{
	const struct wire_host *h = &run->fleet.hosts[run->fleet.ports[port].port.host].hello;

	if (n >= h->n_places)
		return false;
	*place = h->places[n];
	return true;
}

static void case_on_round(struct rdma_run *run, enum rdma_shape shape, const struct shape_link *all, int n,
			  struct rdma_case *of)
{
	struct shape_link links[RDMA_PORTS_MAX];
	struct rdma_place places[RDMA_PORTS_MAX];
	bool all_places = shape == SHAPE_LOOPBACK && of->measure == RDMA_BANDWIDTH;

	for (int place = 0; place < (all_places ? RDMA_PLACES_MAX : 1) && !stopped(run); place++) {
		int n_links = 0;

		for (int i = 0; i < n; i++) {
			links[n_links] = all[i];
			places[n_links] = (struct rdma_place){ -1, -1 };
			n_links += !all_places || place_of(run, all[i].to, place, &places[n_links]);
		}
		if (!n_links)
			return;
		of->seed++;
		links_run(run, shape, links, n_links, of, places);
	}
}

static struct rdma_case case_make(const struct rdma_options *o, int operation, int measure)
{
	return (struct rdma_case){ .operation = operation,
				   .measure = measure,
				   .bytes = measure == RDMA_BANDWIDTH ? o->bytes : RDMA_SMALL_BYTES,
				   .depth = RDMA_DEPTH,
				   .iterations = o->iterations,
				   .mtu = INT32_MAX,
				   .time_ns = o->time_ns,
				   .limit_ns = o->limit_ns,
				   .from = { -1, -1 },
				   .to = { -1, -1 } };
}

static void round_run(struct rdma_run *run, enum rdma_shape shape, const struct shape_link *links, int n,
		      uint64_t *seed)
{
	const struct rdma_options *o = &run->options->rdma;

	for (int i = 0; i < N_RDMA_OPERATIONS * N_RDMA_MEASURES && !stopped(run); i++) {
		int operation = i / N_RDMA_MEASURES, measure = i % N_RDMA_MEASURES;
		struct rdma_case of = case_make(o, operation, measure);

		of.seed = *seed += RDMA_PORTS_MAX;
		if (o->operations >> operation & 1 && o->measures >> measure & 1)
			case_on_round(run, shape, links, n, &of);
	}
}

/* Whether they are one with others' nothing says: none is guessed. */
static void unknown_note(struct rdma_run *run)
{
	char text[160] = "", name[160];
	int n = 0;

	for (int i = 0; i < run->fleet.n_ports; i++) {
		size_t at = strlen(text);

		if (run->is_usable[i] && run->networks[i] < 0)
			snprintf(text + at, sizeof(text) - at, "%s%.80s", n++ ? ", " : "",
				 rdma_port_name(run, i, name, sizeof(name)));
	}
	if (n)
		rdma_note(run,
			  "nic-to-nic: the network of %s is not known (its netdev has no address here, or a link-local "
			  "one), and it has no link to others of its host; --shapes mesh tries them",
			  text);
}

/* Inside a host there is no link between separate networks: rails that meet in routers, or nowhere. */
static void networks_note(struct rdma_run *run)
{
	char text[120] = "";
	int n = 0, at = 0;

	for (int i = 0; i < run->fleet.n_ports; i++) {
		if (!run->is_usable[i] || run->networks[i] != i)
			continue;
		if (at < (int)sizeof(text) - 1)
			at += snprintf(text + at, sizeof(text) - at, "%s%s", n ? ", " : "",
				       run->fleet.ports[i].port.network);
		n++;
	}
	if (n > 1)
		rdma_note(run,
			  "nic-to-nic: the ports are on %d networks (%s), and links between these are not tried; "
			  "--shapes mesh tries them",
			  n, text);
}

static void shape_run(struct rdma_run *run, enum rdma_shape shape, uint64_t *seed)
{
	static struct shape_port ports[RDMA_PORTS_MAX];
	static struct shape_link links[RDMA_PORTS_MAX];
	int n_ports = usable_ports(run, ports), n, before = run->n_measured;

	for (int round = 0; (n = shape_round(shape, ports, n_ports, round, links)) && !stopped(run); round++)
		if (n > 0)
			round_run(run, shape, links, n, seed);
	if (shape == SHAPE_NIC_TO_NIC && run->fleet.n_hosts == 1) {
		networks_note(run);
		unknown_note(run);
	}
	if (run->n_measured == before && !stopped(run) && !run->n_faults)
		rdma_note(run, "%s: no link of that shape: %d port%s up on %d host%s", rdma_shape_names[shape], n_ports,
			  n_ports == 1 ? " is" : "s are", run->fleet.n_hosts, run->fleet.n_hosts == 1 ? "" : "s");
}

/* --- the whole --- */

/* The first usable port on the network of each; -1: it is not known. */
static void networks_find(struct rdma_run *run)
{
	const struct fleet_port *ports = run->fleet.ports;

	for (int i = 0; i < run->fleet.n_ports; i++) {
		int j = 0;

		while (j < i && !(run->is_usable[j] && !strcmp(ports[j].port.network, ports[i].port.network)))
			j++;
		run->networks[i] = *ports[i].port.network ? j : -1;
	}
}

static void ports_prepare(struct rdma_run *run)
{
	for (int i = 0; i < run->fleet.n_ports; i++) {
		const struct rdma_port *p = &run->fleet.ports[i].port;
		int j = 0;

		run->is_usable[i] = p->state == VERBS_PORT_ACTIVE;
		while (strcmp(run->fleet.ports[j].port.device, p->device) ||
		       run->fleet.ports[j].port.number != p->number)
			j++;
		run->names[i] = j;
	}
	networks_find(run);
	for (int i = 0; i < run->fleet.n_hosts; i++) {
		const struct wire_host *h = &run->fleet.hosts[i].hello;

		if (*h->note && run->fleet.n_hosts > 1)
			rdma_note(run, "%s: %s", h->host, h->note);
		else if (*h->note)
			rdma_note(run, "%s", h->note);
	}
}

static bool any_done(const struct rdma_run *run)
{
	for (int i = 0; i < run->n_measured; i++)
		if (run->measured[i].result.status == RDMA_DONE)
			return true;
	return false;
}

static void none_up_say(const struct rdma_run *run, char why[LIBRARY_WHY])
{
	char name[160];
	int at = snprintf(why, LIBRARY_WHY, "no RDMA port is up (");

	for (int i = 0; i < run->fleet.n_ports && at < LIBRARY_WHY / 2; i++)
		at += snprintf(why + at, LIBRARY_WHY - at, "%s%.100s", i ? ", " : "",
			       rdma_port_name(run, i, name, sizeof(name)));
	snprintf(why + at, LIBRARY_WHY - at,
		 "), and none shows that it has a cable: name with --devices those that should be up");
}

static void alone_say(const struct rdma_run *run, int n, char why[LIBRARY_WHY])
{
	char name[160], others[32] = "";
	int first = 0;

	while (!run->is_alone[first])
		first++;
	if (n > 1)
		snprintf(others, sizeof(others), " and %d others", n - 1);
	snprintf(
		why, LIBRARY_WHY,
		"%s%s: up, and not tested over the network, as no other host has a port of that name that is up: is an "
		"adapter gone there? Leave out what only one host has (--devices), or link ports of any name (--shapes "
		"mesh)",
		rdma_port_name(run, first, name, sizeof(name)), others);
}

static int status_of(struct rdma_run *run, int n_alone, char why[LIBRARY_WHY])
{
	int n_up = 0;

	if (run->n_faults)
		return STRESS_FAILED;
	if (any_done(run) && !*run->partial && !n_alone)
		return STRESS_PASSED;
	for (int i = 0; i < run->fleet.n_ports; i++)
		n_up += run->is_usable[i];
	if (!n_up)
		none_up_say(run, why);
	else if (*run->partial)
		snprintf(why, LIBRARY_WHY, "stopped before everything had its turn: no verdict");
	else if (any_done(run))
		alone_say(run, n_alone, why);
	else
		notes_unmeasured(&run->notes, why, LIBRARY_WHY);
	return STRESS_IMPOSSIBLE;
}

/* What was seen before the signal stays seen: rules that need nothing to compare with. */
static void partial_judge(struct rdma_run *run)
{
	const struct fleet *f = &run->fleet;

	if (f->stopper)
		snprintf(run->partial, sizeof(run->partial), "host %.60s was stopped by a signal after %.0f s",
			 f->hosts[f->stopper].hello.host, rdma_elapsed_s(run));
	else
		snprintf(run->partial, sizeof(run->partial), "stopped by a signal after %.0f s", rdma_elapsed_s(run));
	links_judge_partial(run);
}

/* Of this host: a finding is of one. Others get to know theirs with the exit status. */
static void bad_fill(struct rdma_run *run, const struct rdma_host *host, struct stress_result *result)
{
	for (int i = 0; i < run->fleet.n_ports; i++)
		run->fleet.ports[i].bad = run->is_bad[i];
	fleet_bad_take(host, fleet_ended(&run->fleet, 0, STRESS_FAILED), result);
}

static int test_run(struct rdma_run *run, const struct rdma_host *host, const struct baseline *baseline,
		    struct stress_result *result)
{
	uint64_t seed = run->options->seed << 32;
	int status, n_alone = 0;

	ports_prepare(run);
	rdma_report_begin(run);
	ports_judge(run);
	ports_count(run, false);
	for (int shape = 0; shape < N_RDMA_SHAPES && !stopped(run); shape++)
		if (run->options->rdma.shapes >> shape & 1)
			shape_run(run, shape, &seed);
	if (!stopped(run))
		rdma_again(run, baseline);
	if (!stopped(run))
		ports_count(run, true);
	if (stopped(run))
		partial_judge(run);
	else
		links_judge(run);
	if (!*run->partial)
		n_alone = ports_alone(run);
	status = status_of(run, n_alone, result->why);
	if (run->options->save_baseline)
		status = rdma_baseline_save(run, status, result->why);
	rdma_report_end(run, status);
	snprintf(result->partial, sizeof(result->partial), "%s", run->partial);
	result->n_faults = run->n_faults < STRESS_FAULTS_MAX ? run->n_faults : STRESS_FAULTS_MAX;
	memcpy(result->faults, run->faults, result->n_faults * sizeof(result->faults[0]));
	bad_fill(run, host, result);
	return status;
}

/* By a launcher, by --hosts, or this host alone. 0: *place is it, -ENOENT: alone, -EINVAL with `why`. */
static int place_find(const struct stress_options *options, struct launcher_place *place, uint32_t *list,
		      char why[LIBRARY_WHY])
{
	int err;

	*list = 0;
	if (options->rdma.hosts)
		return hosts_find(options->rdma.hosts, place, list, why);
	err = launcher_find(options->nccl.host, place, why);
	if (!err && place->local) {
		snprintf(why, LIBRARY_WHY,
			 "process %d of its host by %s: stress rdma is one process a host, which has all its ports: "
			 "--nproc-per-node 1, --npernode 1 or --ntasks-per-node 1",
			 place->local, place->launcher);
		return -EINVAL;
	}
	return err;
}

static int fleet_test(struct rdma_run *run, struct rdma_host *host, const struct launcher_place *place, uint32_t list,
		      struct stress_result *result)
{
	struct baseline *baseline = NULL;
	int status = baseline_open(run->options, &baseline, result->why);

	status = status ? status : fleet_open(&run->fleet, host, place, list, result->why);
	if (!status)
		status = test_run(run, host, baseline, result);
	fleet_close(&run->fleet, status);
	baseline_free(baseline);
	return status;
}

int stress_rdma(const struct stress_options *options, enum report_mode mode, struct stress_result *result)
{
	struct rdma_run *run = calloc(1, sizeof(*run));
	struct rdma_host *host = calloc(1, sizeof(*host));
	struct launcher_place place = { .rank = 0 };
	uint32_t list;
	int status, err;

	if (!run || !host)
		abort();
	memset(result, 0, sizeof(*result));
	run->options = options;
	run->mode = mode == REPORT_TERMINAL ? REPORT_PLAIN : mode;
	run->begin_ns = clock_monotonic_ns();
	err = place_find(options, &place, &list, result->why);
	status = err == -EINVAL ? STRESS_USAGE : host_open(host, options, result->why);
	if (status && !err && place.rank > 0)
		fleet_refuse(options, &place, status, result->why);
	else if (!status && !err && place.rank > 0)
		status = fleet_join(host, options, &place, list, result);
	else if (!status)
		status = fleet_test(run, host, err ? NULL : &place, list, result);
	host_close(host);
	free(run->measured);
	free(run);
	free(host);
	return status;
}
