/* SPDX-License-Identifier: Apache-2.0
 *
 * rates.c - see rates.h. A link is compared with the upper quartile of the links of its kind (same shape, operation,
 * measure and size; ports of one kind; memory as far from its port), as in `stress p2p`: a bad port among few spoils a
 * median. A latency may be twice the lower quartile and 10 us more: one more switch takes a microsecond. Where nothing
 * says how far two memories are, or that it is the same way, there is nothing to compare with: the baseline counts.
 */
#include "tools/stress/rdma/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/lib/node.h"

#define LATENCY_FACTOR 2.0
#define LATENCY_MORE_US 10.0
#define SOFT_SHARE 0.5 /* of a port that is software: its rate is the CPU's share that it got */
#define SOFT_LATENCY_FACTOR 4.0
#define TABLE_BYTES_MIN 65536
#define MEASURE_TEXT 64

const struct rate_row rate_rows[] = {
#define RATE(...) { __VA_ARGS__ },
#include "tools/stress/rdma/rates.def"
#undef RATE
};
const int n_rate_rows = sizeof(rate_rows) / sizeof(rate_rows[0]);

const struct rate_row *rate_row_find(double gbits)
{
	for (int i = 0; i < n_rate_rows; i++)
		if (rate_rows[i].gbits == gbits)
			return &rate_rows[i];
	return NULL;
}

static const struct rdma_port *port_of(const struct rdma_run *run, int port)
{
	return &run->fleet.ports[port].port;
}

/* enum rdma_apart, or a distance between memory nodes */
static int apart_of(const struct rdma_run *run, const struct rdma_measured *m)
{
	const struct rdma_port *p = port_of(run, m->to);
	const struct wire_host *h = &run->fleet.hosts[p->host].hello;
	const struct rdma_place *to = &m->of.to;

	for (int i = 0; i < h->n_places; i++)
		if (h->places[i].gpu == to->gpu && h->places[i].number == to->number)
			return p->apart[i];
	return NODE_OWN;
}

static bool is_like(const struct rdma_run *run, const struct rdma_measured *a, const struct rdma_measured *b)
{
	return a->shape == b->shape && a->of.operation == b->of.operation && a->of.measure == b->of.measure &&
	       a->of.bytes == b->of.bytes && apart_of(run, a) == apart_of(run, b) &&
	       ports_as_fast(port_of(run, a->from), port_of(run, b->from)) &&
	       ports_as_fast(port_of(run, a->to), port_of(run, b->to));
}

static bool is_measured(const struct rdma_measured *m)
{
	return m->result.status == RDMA_DONE && m->result.value > 0;
}

/* --- the rules --- */

static int others_of(const struct rdma_run *run, const struct rdma_measured *m, double *others)
{
	int n = 0;

	if (apart_of(run, m) >= NODE_UNKNOWN)
		return 0;
	for (int i = 0; i < run->n_measured; i++)
		if (&run->measured[i] != m && run->measured[i].judged.measured && is_like(run, m, &run->measured[i]))
			others[n++] = run->measured[i].judged.value;
	return n;
}

/* "loopback write bandwidth, GPU 3" and the port's speed: what a baseline knows a measurement by. */
static void baseline_measure(const struct rdma_run *run, const struct rdma_measured *m, char text[MEASURE_TEXT])
{
	char place[40] = "own node";

	if (apart_of(run, m) != NODE_OWN)
		rdma_place_name(&m->of.to, place, sizeof(place));
	snprintf(text, MEASURE_TEXT, "%s %s %s, %s", rdma_shape_names[m->shape], rdma_operation_names[m->of.operation],
		 rdma_measure_names[m->of.measure], place);
}

static void row_take(const struct rdma_run *run, const struct rdma_measured *m, struct bounds *b)
{
	double from = port_of(run, m->from)->gbits, to = port_of(run, m->to)->gbits;
	const struct rate_row *row = rate_row_find(from < to ? from : to);

	if (!row || m->of.operation != RDMA_WRITE || m->of.measure != RDMA_BANDWIDTH || m->from == m->to ||
	    m->of.bytes < TABLE_BYTES_MIN)
		return;
	b->least = row->least;
	snprintf(b->row, sizeof(b->row), "table, %.0f Gb/s: %s, %s", row->gbits, row->source, row->date);
}

enum better rdma_better(const struct rdma_measured *m)
{
	return m->of.measure == RDMA_LATENCY ? BETTER_LESS : BETTER_MORE;
}

static void tolerances_take(const struct rdma_measured *m, struct bounds *b)
{
	b->better = rdma_better(m);
	b->unit = rdma_measure_units[m->of.measure];
	if (m->of.measure == RDMA_LATENCY) {
		b->near = (struct tolerance){ m->soft ? SOFT_LATENCY_FACTOR : LATENCY_FACTOR, LATENCY_MORE_US };
		b->near_own = (struct tolerance){ LATENCY_FACTOR, 0 };
		return;
	}
	b->near = m->soft ? (struct tolerance){ SOFT_SHARE, 0 } : TOLERANCE_RATE;
	b->near_own = TOLERANCE_RATE;
	b->besides = m->soft ? ", in software" : NULL;
}

static void rate_hold(struct rdma_run *run, struct rdma_measured *m, const struct baseline *baseline)
{
	char name[MEASURE_TEXT], link[MEASURE_TEXT];
	struct bounds b = {
		.baseline = baseline,
		.own = { .uuid = link, .device = port_of(run, m->from)->speed, .measure = name, .size = m->of.bytes },
		.others = calloc(run->n_measured, sizeof(double)),
		.quartile = true
	};

	if (!b.others)
		abort();
	baseline_measure(run, m, name);
	rdma_link_name(run, m, link, sizeof(link));
	tolerances_take(m, &b);
	b.n_others = others_of(run, m, b.others);
	row_take(run, m, &b);
	if (!judgement_hold(&m->judged, &b))
		rdma_note(run, "the baseline has no %s of %u bytes", name, m->of.bytes);
	free(b.others);
}

void rates_measured(struct rdma_run *run)
{
	for (int i = 0; i < run->n_measured; i++) {
		struct rdma_measured *m = &run->measured[i];

		if (!is_measured(m) || crowd_is(run, m))
			continue;
		m->judged.measured = true;
		m->judged.value = m->result.value;
	}
}

void rates_hold(struct rdma_run *run, const struct baseline *baseline)
{
	for (int i = 0; i < run->n_measured; i++)
		if (run->measured[i].judged.measured)
			rate_hold(run, &run->measured[i], baseline);
}

int rdma_baseline_save(struct rdma_run *run, int status, char why[LIBRARY_WHY])
{
	struct baseline_line *lines = calloc(run->n_measured + 1, sizeof(*lines));
	char(*names)[MEASURE_TEXT] = calloc(run->n_measured + 1, sizeof(*names)),
	(*links)[MEASURE_TEXT] = calloc(run->n_measured + 1, sizeof(*links));
	int n = 0, err = 0;

	if (!lines || !names || !links)
		abort();
	for (int i = 0; i < run->n_measured && status == STRESS_PASSED; i++) {
		const struct rdma_measured *m = &run->measured[i];

		if (!m->judged.measured)
			continue;
		baseline_measure(run, m, names[n]);
		rdma_link_name(run, m, links[n], MEASURE_TEXT);
		lines[n] = (struct baseline_line){ links[n],    port_of(run, m->from)->speed,
						   names[n],    rdma_measure_units[m->of.measure],
						   m->of.bytes, m->judged.value };
		n++;
	}
	if (n)
		err = baseline_lines_write(run->options->save_baseline, lines, n);
	else
		rdma_note(run, "--save-baseline: nothing was written, as %s",
			  status == STRESS_PASSED ? "no rate counts" : "the run did not pass");
	free(lines);
	free(names);
	free(links);
	if (!err)
		return status;
	snprintf(why, LIBRARY_WHY, "--save-baseline: %.200s: %s", run->options->save_baseline, strerror(-err));
	return STRESS_USAGE;
}
