/* SPDX-License-Identifier: Apache-2.0
 *
 * port_judge.c - ports by comparison with those of their kind: one that is down where most are up, settings that
 * differ, one that a host lacks and most hosts have. A host has ports with no cable; so a port that is down is no fault
 * by itself, unless it was named, or shows that it has a cable.
 */
#include <stdio.h>
#include <string.h>

#include "tools/stress/rdma/rdma_run.h"

#define HOLE_LIST 240

static const struct rdma_port *port_at(const struct rdma_run *run, int i)
{
	return &run->fleet.ports[i].port;
}

bool ports_alike(const struct rdma_port *a, const struct rdma_port *b)
{
	return a->vendor == b->vendor && a->part == b->part && a->link_layer == b->link_layer && a->soft == b->soft &&
	       !strcmp(a->board, b->board);
}

bool ports_as_fast(const struct rdma_port *a, const struct rdma_port *b)
{
	return ports_alike(a, b) && a->gbits == b->gbits;
}

static const char *state_name(int state)
{
	static const char *const names[] = { "unknown", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER" };

	return state >= 0 && state < (int)(sizeof(names) / sizeof(names[0])) ? names[state] : "unknown";
}

static const char *state_remedy(const struct rdma_port *p)
{
	if (p->state == VERBS_PORT_INIT && p->link_layer == VERBS_LINK_INFINIBAND)
		return "the link is up, but no subnet manager has set it up: does opensm run?";
	return p->phys_state == VERBS_PHYS_POLLING
		       ? "it sees no other end: look at cable and switch port"
		       : "look at cable, transceiver, switch port, and at its netdev (ip link)";
}

/* A host has like cards for different ends. So of several hosts those of one name are compared, where most have it. */
static bool goes_by_name(const struct rdma_run *run, int i)
{
	int have = 0;

	for (int j = 0; j < run->fleet.n_ports; j++)
		have += run->names[j] == run->names[i];
	return run->fleet.n_hosts > 1 && 2 * have > run->fleet.n_hosts;
}

static bool is_peer(const struct rdma_run *run, int i, int j, bool by_name)
{
	return ports_alike(port_at(run, i), port_at(run, j)) && (!by_name || run->names[i] == run->names[j]);
}

/* How many there are to compare it with, and are up. */
static void peers_count(const struct rdma_run *run, int i, bool by_name, int *others, int *up)
{
	*others = *up = 0;
	for (int j = 0; j < run->fleet.n_ports; j++)
		if (j != i && is_peer(run, i, j, by_name)) {
			(*others)++;
			*up += run->is_usable[j];
		}
}

static int down_on_host(const struct rdma_run *run, int i)
{
	int n = 0;

	for (int j = 0; j < run->fleet.n_ports; j++)
		n += !run->is_usable[j] && port_at(run, i)->host == port_at(run, j)->host && is_peer(run, i, j, false);
	return n;
}

/* Most of its name are up; where that says nothing, most of its kind. Then two of one host that are down are so by
 * design, as the second ports of two cards. */
static bool is_odd(const struct rdma_run *run, int i, int others, int up, bool by_name)
{
	if (by_name && others && 2 * up != others + 1)
		return 2 * up > others + 1;
	peers_count(run, i, false, &others, &up);
	return 2 * up > others + 1 && down_on_host(run, i) == 1;
}

static const char *peers_name(bool by_name)
{
	return by_name ? "of its name" : "of its kind";
}

/* By what a port that is not up should be; false: by nothing. */
static bool should_be_up(const struct rdma_run *run, int i, int others, int up, bool by_name, char text[96])
{
	const struct rdma_port *p = port_at(run, i);
	bool is_named = run->fleet.hosts[p->host].hello.names_ports;

	if (is_odd(run, i, others, up, by_name) || (is_named && others))
		snprintf(text, 96, "%d of %d others %s are up", up, others, peers_name(by_name));
	else if (is_named)
		snprintf(text, 96, "--devices names it");
	else if (p->phys_state == VERBS_PHYS_LINK_UP)
		snprintf(text, 96, "its cable is in: the physical link is up");
	else if (p->has_heard)
		snprintf(text, 96, "it was up before: it has received data since its driver was loaded");
	else
		return false;
	return true;
}

static void down_judge(struct rdma_run *run, int i)
{
	const struct rdma_port *p = port_at(run, i);
	char name[160], reason[96];
	bool by_name = goes_by_name(run, i);
	int others, up;

	peers_count(run, i, by_name, &others, &up);
	if (should_be_up(run, i, others, up, by_name, reason))
		rdma_fault(run, FAULT_PORT, i, "it is %s, %s: %s; or leave it out (--devices ^%s)",
			   state_name(p->state), reason, state_remedy(p), p->device);
	else
		rdma_note(run,
			  "%s is %s and not tested (%d of %d others %s are up); name it with --devices if it should "
			  "be up",
			  rdma_port_name(run, i, name, sizeof(name)), state_name(p->state), up, others,
			  peers_name(by_name));
}

/* --- over hosts --- */

static bool host_has(const struct rdma_run *run, int host, int name)
{
	for (int i = 0; i < run->fleet.n_ports; i++)
		if (run->names[i] == name && port_at(run, i)->host == host)
			return true;
	return false;
}

/* It stands behind the fleet's ports, so that the fault has a subject: nothing is measured there. */
static void missing_fault(struct rdma_run *run, int host, int name, int up)
{
	const struct rdma_port like = *port_at(run, name);
	int at = run->fleet.n_ports + run->n_missing;
	struct fleet_port *p = &run->fleet.ports[at];

	if (at == RDMA_PORTS_MAX) {
		rdma_fault(run, FAULT_PORT, -1, "host %.60s lacks %s:%d, which is up on %d of %d hosts",
			   run->fleet.hosts[host].hello.host, like.device, like.number, up, run->fleet.n_hosts);
		return;
	}
	run->n_missing++;
	p->port = (struct rdma_port){ .host = host, .number = like.number };
	memcpy(p->port.device, like.device, sizeof(like.device));
	memset(p->begin.counters, 0xff, sizeof(p->begin.counters)); /* PORT_NOT_COUNTED */
	memset(p->end.counters, 0xff, sizeof(p->end.counters));
	rdma_fault(run, FAULT_PORT, at,
		   "this host does not have it, and it is up on %d of %d hosts: is its adapter off the bus (lspci, "
		   "dmesg), or without its driver? Or leave it out on those that have it (--devices ^%s)",
		   up, run->fleet.n_hosts, p->port.device);
}

/* By its own --devices, or as it has no queue pairs of type RC: it is there. */
static bool host_leaves_out(const struct rdma_run *run, int host, int name)
{
	const struct fleet_host *h = &run->fleet.hosts[host];
	const struct rdma_port *p = port_at(run, name);

	for (int i = 0; i < h->hello.n_left_out; i++)
		if (!strcmp(h->left_out[i].device, p->device) &&
		    (!h->left_out[i].number || h->left_out[i].number == p->number))
			return true;
	return false;
}

static int rail_up(const struct rdma_run *run, int name)
{
	int up = 0;

	for (int i = 0; i < run->fleet.n_ports; i++)
		up += run->names[i] == name && run->is_usable[i];
	return up;
}

/* A name that is up on most hosts: of one host without it that is odd. */
static bool is_rail(const struct rdma_run *run, int name)
{
	return run->names[name] == name && 2 * rail_up(run, name) > run->fleet.n_hosts;
}

static bool is_hole(const struct rdma_run *run, int host, int name)
{
	return is_rail(run, name) && !host_has(run, host, name);
}

/* For each rail that it lacks it has a port that is up and of no rail: they were given other names there. */
static bool has_other_names(const struct rdma_run *run, int host, int name)
{
	const struct rdma_port *like = port_at(run, name);
	int lacks = 0, other = 0;

	for (int i = 0; i < run->fleet.n_ports; i++) {
		const struct rdma_port *p = port_at(run, i);

		if (p->link_layer != like->link_layer || p->soft != like->soft)
			continue;
		other += p->host == host && run->is_usable[i] && !is_rail(run, run->names[i]);
		lacks += is_hole(run, host, i) && !host_leaves_out(run, host, i);
	}
	return other >= lacks;
}

enum hole { HOLE_LEFT_OUT, HOLE_OTHER_NAME, HOLE_UNASKED, N_HOLE_NOTES, HOLE_FAULT = N_HOLE_NOTES };

static const char *const hole_notes[N_HOLE_NOTES] = {
	[HOLE_LEFT_OUT] = "host %.60s leaves out %s (up on most hosts): by its own --devices, or as it has no queue "
			  "pairs of type RC",
	[HOLE_OTHER_NAME] = "host %.60s lacks %s (up on most hosts), and has as many ports under other names: --shapes "
			    "mesh links ports of any name",
	[HOLE_UNASKED] = "host %.60s lacks %s (up on most hosts): no fault, as these shapes do not go by name; if it "
			 "should be there, look for its adapter (lspci, dmesg)",
};

/* Only nic-to-nic and ring go by name: with the others, as mesh, hosts may have any names. */
static enum hole hole_of(const struct rdma_run *run, int host, int name)
{
	const uint32_t by_name = 1u << SHAPE_NIC_TO_NIC | 1u << SHAPE_RING;

	if (host_leaves_out(run, host, name))
		return HOLE_LEFT_OUT;
	if (has_other_names(run, host, name))
		return HOLE_OTHER_NAME;
	return run->options->rdma.shapes & by_name ? HOLE_FAULT : HOLE_UNASKED;
}

static void hole_list(char text[HOLE_LIST], const struct rdma_port *p)
{
	size_t at = strlen(text);

	if (at < HOLE_LIST - 80)
		snprintf(text + at, HOLE_LIST - at, "%s%.60s:%d", at ? ", " : "", p->device, p->number);
	else if (strcmp(text + at - 3, "..."))
		snprintf(text + at, HOLE_LIST - at, ", ...");
}

/* A rail with a hole in it: the links that are left are all well. What only some hosts have is theirs by design. */
static void holes_judge(struct rdma_run *run, int host)
{
	char lists[N_HOLE_NOTES][HOLE_LIST] = { "" };

	for (int i = 0; i < run->fleet.n_ports; i++) {
		enum hole hole;

		if (!is_hole(run, host, i))
			continue;
		hole = hole_of(run, host, i);
		if (hole == HOLE_FAULT)
			missing_fault(run, host, i, rail_up(run, i));
		else
			hole_list(lists[hole], port_at(run, i));
	}
	for (int i = 0; i < N_HOLE_NOTES; i++)
		if (*lists[i])
			rdma_note(run, hole_notes[i], run->fleet.hosts[host].hello.host, lists[i]);
}

static void few_note(struct rdma_run *run, int name)
{
	int have = 0, n_hosts = run->fleet.n_hosts, up = rail_up(run, name);

	for (int host = 0; host < n_hosts; host++)
		have += host_has(run, host, name);
	if (have < n_hosts && 2 * up <= n_hosts && up > 1)
		rdma_note(run, "%s:%d is on %d of %d hosts only", port_at(run, name)->device,
			  port_at(run, name)->number, have, n_hosts);
}

static bool is_linked(const struct rdma_run *run, int port)
{
	for (int i = 0; i < run->n_measured; i++) {
		const struct rdma_measured *m = &run->measured[i];

		if ((m->from == port || m->to == port) && port_at(run, m->from)->host != port_at(run, m->to)->host)
			return true;
	}
	return false;
}

int ports_alone(struct rdma_run *run)
{
	const uint32_t asks = 1u << SHAPE_NIC_TO_NIC | 1u << SHAPE_RING | 1u << SHAPE_MESH;
	char name[160];
	int n = 0;

	if (run->fleet.n_hosts == 1 || !(run->options->rdma.shapes & asks))
		return 0;
	for (int i = 0; i < run->fleet.n_ports; i++) {
		run->is_alone[i] = run->is_usable[i] && !run->fleet.ports[i].lost && !is_linked(run, i);
		if (!run->is_alone[i])
			continue;
		n++;
		rdma_note(run,
			  "%s is up, and no other host has a port of that name that is: it was not tested over the "
			  "network",
			  rdma_port_name(run, i, name, sizeof(name)));
	}
	return n;
}

/* --- settings --- */

struct setting {
	const char *name;
	enum { SETTING_MTU, SETTING_SPEED, SETTING_GID_TYPE, SETTING_GID_INDEX, SETTING_FIRMWARE, N_SETTINGS } id;
	bool is_note;
	const char *remedy;
};

static const struct setting settings[N_SETTINGS] = {
	{ "active MTU", SETTING_MTU, false, "set the MTU of its netdev, and of the switch port, as the others'" },
	{ "speed and width", SETTING_SPEED, false,
	  "look at cable, transceiver and switch port; a link that trained down" },
	{ "GID type", SETTING_GID_TYPE, false, "its netdev has no address of the kind that the others have" },
	{ "GID index", SETTING_GID_INDEX, true, "do not set NCCL_IB_GID_INDEX to one number for all" },
	{ "firmware", SETTING_FIRMWARE, true, "one version makes faults easier to find" },
};

static const char *setting_text(const struct rdma_port *p, const struct setting *s, char *text, size_t size)
{
	switch (s->id) {
	case SETTING_MTU: snprintf(text, size, "%d", p->mtu); break;
	case SETTING_SPEED: snprintf(text, size, "%s", p->speed); break;
	case SETTING_GID_TYPE: snprintf(text, size, "%s", p->gid_type); break;
	case SETTING_GID_INDEX: snprintf(text, size, "%d", p->gid_index); break;
	default: snprintf(text, size, "%s", p->firmware);
	}
	return text;
}

struct usual {
	char value[80];
	int n, of; /* ports that have it, of those that were compared */
	bool by_name;
};

/* How many usable ports that it is compared with, itself among them, have this value; *of: how many there are. */
static int value_count(const struct rdma_run *run, const struct setting *s, int i, bool by_name, const char *value,
		       int *of)
{
	char text[80];
	int n = 0;

	*of = 0;
	for (int j = 0; j < run->fleet.n_ports; j++) {
		if (!run->is_usable[j] || !is_peer(run, i, j, by_name))
			continue;
		(*of)++;
		n += !strcmp(setting_text(port_at(run, j), s, text, sizeof(text)), value);
	}
	return n;
}

/* The value that most have, of as many the one that more of its kind have; else that of another port: where two
 * differ, both are named. */
static bool usual_find(const struct rdma_run *run, const struct setting *s, int i, struct usual *u)
{
	char own[80];
	int kind = 0, of_kind = 0;

	*u = (struct usual){ .by_name = goes_by_name(run, i) };
	setting_text(port_at(run, i), s, own, sizeof(own));
	for (int j = 0; j < run->fleet.n_ports; j++) {
		char text[80];
		int n, alike;

		if (!run->is_usable[j] || !is_peer(run, i, j, u->by_name))
			continue;
		n = value_count(run, s, i, u->by_name, setting_text(port_at(run, j), s, text, sizeof(text)), &u->of);
		alike = value_count(run, s, i, false, text, &of_kind);
		if (n < u->n || (n == u->n && alike < kind) ||
		    (n == u->n && alike == kind && (strcmp(u->value, own) || !strcmp(text, own))))
			continue;
		u->n = n;
		kind = alike;
		snprintf(u->value, sizeof(u->value), "%s", text);
	}
	if (u->by_name && 2 * u->n <= u->of && 2 * kind > of_kind) {
		u->n = kind;
		u->of = of_kind;
		u->by_name = false;
	}
	return u->n && strcmp(u->value, own);
}

/* How many ports of its host and kind have its value; *first: it is the first of these. */
static int value_shared(const struct rdma_run *run, const struct setting *s, int i, bool *first)
{
	char own[80], text[80];
	int n = 0;

	setting_text(port_at(run, i), s, own, sizeof(own));
	for (int j = 0; j < run->fleet.n_ports; j++) {
		if (!run->is_usable[j] || port_at(run, i)->host != port_at(run, j)->host ||
		    !is_peer(run, i, j, false) || strcmp(setting_text(port_at(run, j), s, text, sizeof(text)), own))
			continue;
		*first = !n ? j == i : *first;
		n++;
	}
	return n;
}

/* Two or more of one host have it: they are for another end than the others, as cards for storage are. */
static void shared_note(struct rdma_run *run, const struct setting *s, int i, const struct usual *u, int n)
{
	char own[80], name[160];

	setting_text(port_at(run, i), s, own, sizeof(own));
	rdma_note(run, "%s and %d more of its kind and host: %s %s, of %d of %d ports %s: no fault, as they share it",
		  rdma_port_name(run, i, name, sizeof(name)), n - 1, s->name, *own ? own : "none", u->n, u->of,
		  *u->value ? u->value : "none");
}

static void setting_fault(struct rdma_run *run, const struct setting *s, int i, const struct usual *u)
{
	char own[80];

	setting_text(port_at(run, i), s, own, sizeof(own));
	rdma_fault(run, FAULT_PORT, i, "%s %s, of %d of %d ports %s %s%s: %s", s->name, *own ? own : "none", u->n,
		   u->of, peers_name(u->by_name), *u->value ? u->value : "none",
		   2 * u->n > u->of ? "" : " (which one is right, nothing says)", s->remedy);
}

static void setting_judge(struct rdma_run *run, const struct setting *s, int i)
{
	char own[80], name[160];
	bool first = false;
	struct usual u;
	int shared;

	if (!usual_find(run, s, i, &u))
		return;
	shared = value_shared(run, s, i, &first);
	if (s->is_note)
		rdma_note(run, "%s: %s %s, of %d of %d ports %s %s: %s", rdma_port_name(run, i, name, sizeof(name)),
			  s->name, *setting_text(port_at(run, i), s, own, sizeof(own)) ? own : "none", u.n, u.of,
			  peers_name(u.by_name), *u.value ? u.value : "none", s->remedy);
	else if (shared < 2 || goes_by_name(run, i))
		setting_fault(run, s, i, &u);
	else if (first)
		shared_note(run, s, i, &u, shared);
}

void ports_judge(struct rdma_run *run)
{
	for (int host = 0; host < run->fleet.n_hosts && run->fleet.n_hosts > 1; host++)
		holes_judge(run, host);
	for (int i = 0; i < run->fleet.n_ports && run->fleet.n_hosts > 1; i++)
		if (run->names[i] == i)
			few_note(run, i);
	for (int i = 0; i < run->fleet.n_ports; i++)
		if (!run->is_usable[i])
			down_judge(run, i);
	for (int i = 0; i < run->fleet.n_ports; i++)
		for (int s = 0; s < N_SETTINGS && run->is_usable[i]; s++)
			setting_judge(run, &settings[s], i);
}
