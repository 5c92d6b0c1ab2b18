/* SPDX-License-Identifier: Apache-2.0
 *
 * machines.c - what a report says of the hosts: GPUs and RDMA ports as they were last sampled, errors that the driver
 * reported, the libraries that were found.
 */
#include <inttypes.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "sink/report/report.h"

static void add_known(cJSON *o, const char *name, uint32_t v, double scale)
{
	if (v != GPU_NO_VALUE)
		cJSON_AddNumberToObject(o, name, v * scale);
}

static void add_slowdown(cJSON *o, uint64_t bits)
{
	static const struct {
		uint64_t bit;
		const char *name;
	} words[] = {
		{ GPU_SLOW_POWER_CAP, "power cap" },           { GPU_SLOW_HW, "hardware" },
		{ GPU_SLOW_SW_THERMAL, "thermal (software)" }, { GPU_SLOW_HW_THERMAL, "thermal (hardware)" },
		{ GPU_SLOW_POWER_BRAKE, "power brake" },
	};
	cJSON *list = cJSON_AddArrayToObject(o, "slowed_by");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (bits & words[i].bit)
			cJSON_AddItemToArray(list, cJSON_CreateString(words[i].name));
}

static cJSON *gpu_object(const struct gpu *g)
{
	static const char *const answers[] = { "answers", "lost", "wants a reset", "no answer" };
	const struct gpu_sampled *s = gpu_sample(g, 0);
	const struct gpu_checkup *h = gpu_checkup(g, 0);
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "index", g->device.index);
	report_add(o, "name", g->name);
	report_add(o, "uuid", g->uuid);
	report_add(o, "answer", (unsigned int)g->answer < 4 ? answers[g->answer] : "");
	if (s) {
		if (s->s.window_ns)
			add_known(o, "sm_percent", s->s.sm_bp, 0.01);
		add_known(o, "power_w", s->s.power_mw, 0.001);
		add_known(o, "temperature_c", s->s.temperature_c, 1);
		add_known(o, "sm_clock_mhz", s->s.sm_clock_mhz, 1);
		add_slowdown(o, s->s.slowdown);
	}
	if (h && h->h.ecc_uncorrected != ~0ull)
		cJSON_AddNumberToObject(o, "ecc_uncorrected", (double)h->h.ecc_uncorrected);
	if (h)
		add_known(o, "nvlinks_active", h->h.nvlinks_active, 1);
	return o;
}

static cJSON *port_object(const struct port *p)
{
	static const char *const states[] = { "unknown", "down", "init", "armed", "active", "active deferred" };
	const struct port_sample *s = port_sample(p, 0);
	cJSON *o = cJSON_CreateObject();

	report_add(o, "device", p->device);
	cJSON_AddNumberToObject(o, "port", p->id.number);
	report_add(o, "netdev", p->netdev);
	if (!s)
		return o;
	report_add(o, "state", port_is(s, PORT_GONE) ? "gone" : s->now.state < 6 ? states[s->now.state] : "unknown");
	if (s->now.rate_mbps != PORT_NO_VALUE)
		cJSON_AddNumberToObject(o, "rate_gbps", s->now.rate_mbps / 1000.0);
	return o;
}

static cJSON *xid_object(const struct xid *x)
{
	cJSON *o = cJSON_CreateObject();

	cJSON_AddNumberToObject(o, "xid", x->number);
	cJSON_AddNumberToObject(o, "times", (double)x->n);
	report_add(o, "text", x->text);
	return o;
}

static cJSON *node_object(const struct node *n)
{
	cJSON *o = cJSON_CreateObject(), *gpus = cJSON_AddArrayToObject(o, "gpus"),
	      *ports = cJSON_AddArrayToObject(o, "ports"), *xids = cJSON_AddArrayToObject(o, "xids");
	uint64_t first = n->gpus.n_xids > XIDS_KEPT ? n->gpus.n_xids - XIDS_KEPT : 0;

	report_add(o, "host", n->name);
	report_add(o, "boot_id", n->boot_id);
	cJSON_AddNumberToObject(o, "n_procs", (double)n->n_procs);
	for (const struct gpu *g = n->gpus.all; g; g = g->next)
		cJSON_AddItemToArray(gpus, gpu_object(g));
	for (const struct port *p = n->ports; p; p = p->next)
		cJSON_AddItemToArray(ports, port_object(p));
	for (uint64_t i = first; i < n->gpus.n_xids; i++)
		cJSON_AddItemToArray(xids, xid_object(&n->gpus.xids[i % XIDS_KEPT]));
	return o;
}

#define NODES_SHOWN 2048

cJSON *report_machines(const struct model *m)
{
	cJSON *list = cJSON_CreateArray();
	int n = 0;

	for (const struct node *node = model_next_node(m, NULL); node && n < NODES_SHOWN;
	     node = model_next_node(m, node), n++)
		cJSON_AddItemToArray(list, node_object(node));
	return list;
}

cJSON *report_libs(const struct report *r)
{
	cJSON *list = cJSON_CreateArray();

	for (size_t i = 0; i < r->n_libs; i++) {
		cJSON *o = cJSON_CreateObject();

		report_add(o, "path", r->libs[i].path);
		report_add(o, "build_id", r->libs[i].build_id);
		cJSON_AddNumberToObject(o, "n_probes", r->libs[i].n_probes);
		cJSON_AddItemToArray(list, o);
	}
	return list;
}
