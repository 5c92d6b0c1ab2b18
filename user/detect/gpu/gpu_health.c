/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_health.c - what is wrong with a GPU by the driver's own counters, reported of the ranks that compute on it. A
 * power cap under load is how these GPUs run and is no fault. Counters count from when they were first seen: what broke
 * long ago is reported only where it is still open (rows that wait for a reset).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/gpu/gpu_event.h"

#define HOLD_NS 60000000000ull       /* a counter that moved is reported for so long */
#define THROTTLE_NS 3000000000ull    /* throttled for so long, and */
#define THROTTLE_SAMPLES 3           /* in so many samples */
#define UNTHROTTLE_NS 10000000000ull /* free of it for so long: over */
#define LOAD_SM 20.0                 /* percent: under load */
#define LINK_ERRORS_AT_ONCE 100      /* replays between two checkups; */
#define LINK_ERRORS_AGAIN 10         /* or twice running, so many together: single ones are the cable's usual rate */

enum fault {
	FAULT_LOST,
	FAULT_RESET,
	FAULT_SILENT,
	FAULT_HW_THERMAL,
	FAULT_SW_THERMAL,
	FAULT_POWER_BRAKE,
	FAULT_HW_SLOW,
	FAULT_ECC,
	FAULT_ROWS,
	FAULT_REMAP,
	FAULT_PAGES,
	FAULT_INFOROM,
	FAULT_NVLINK,
	FAULT_NVLINK_DOWN,
	FAULT_PCIE_WIDTH,
	FAULT_PCIE_REPLAY,
	FAULTS,
};

static const struct {
	enum finding_cause cause;
	const char *remedy;
} faults[FAULTS] = {
	[FAULT_LOST] = { CAUSE_GPU_LOST,
			 "the GPU is off the bus: drain the node, power-cycle it, reseat or replace the board" },
	[FAULT_RESET] = { CAUSE_NEEDS_RESET, "stop what uses the GPU and reset it (nvidia-smi -r), or reboot" },
	[FAULT_SILENT] = { CAUSE_DRIVER_DOES_NOT_ANSWER,
			   "the driver is stalled: see the kernel log for an XID; reboot the node" },
	[FAULT_HW_THERMAL] = { CAUSE_THROTTLED_THERMAL, "too hot: look at fans, coolant, airflow and neighbours" },
	[FAULT_SW_THERMAL] = { CAUSE_THROTTLED_THERMAL_SOFTWARE,
			       "near its thermal limit: look at fans, coolant and airflow" },
	[FAULT_POWER_BRAKE] = { CAUSE_THROTTLED_POWER_BRAKE,
				"the board's power supply asked it to slow down: look at PSUs and PDUs" },
	[FAULT_HW_SLOW] = { CAUSE_THROTTLED_HARDWARE,
			    "the hardware slows the clocks down: look at temperature and power supply" },
	[FAULT_ECC] = { CAUSE_ECC_UNCORRECTED,
			"memory errors: drain, reset the GPU, run a memory test; replace it if they come back" },
	[FAULT_ROWS] = { CAUSE_ROWS_PENDING, "a memory row waits to be remapped: reset the GPU when the job is over" },
	[FAULT_REMAP] = { CAUSE_REMAP_FAILED, "no spare memory row is left: replace the board" },
	[FAULT_PAGES] = { CAUSE_PAGES_PENDING,
			  "a memory page waits to be retired: reset the GPU when the job is over" },
	[FAULT_INFOROM] = { CAUSE_INFOROM_CORRUPT, "its configuration memory is damaged: replace the board" },
	[FAULT_NVLINK] = { CAUSE_NVLINK_ERRORS,
			   "errors on a link to the switch or a peer: reseat board or cable; see the fabric manager's "
			   "log" },
	[FAULT_NVLINK_DOWN] = { CAUSE_NVLINK_DOWN,
				"a link that was there is gone: reset the GPUs of the node, restart the fabric "
				"manager" },
	[FAULT_PCIE_WIDTH] = { CAUSE_PCIE_WIDTH, "fewer lanes than it could have: reseat the board or riser" },
	[FAULT_PCIE_REPLAY] = { CAUSE_PCIE_REPLAYS, "packets are sent again and again: reseat the board or riser" },
};

struct one {
	uint64_t since_ns, last_ns;
	int n;
}; /* since_ns 0: not so; last_ns: newest sign of it */

struct watched {
	struct keyed keyed;             /* by its node and its index there */
	uint64_t n_samples, n_checkups; /* judged */
	struct one faults[FAULTS];
};

struct gpu_health_state {
	struct keyed_table gpus;
};

/* --- signs --- */

static void sign(struct one *o, bool is, uint64_t now_ns)
{
	if (!is)
		return;
	if (!o->since_ns)
		*o = (struct one){ .since_ns = now_ns };
	o->last_ns = now_ns;
	o->n++;
}

static void sign_state(struct one *o, bool is, uint64_t since_ns)
{
	if (!is)
		*o = (struct one){ 0 };
	else if (!o->since_ns)
		*o = (struct one){ .since_ns = since_ns };
}

static void sample_take(struct watched *w, const struct gpu_sampled *l)
{
	uint64_t why = l->s.slowdown;
	bool thermal = why & 0x40, brake = why & 0x80;

	sign(&w->faults[FAULT_SW_THERMAL], why & 0x20, l->ts_ns);
	sign(&w->faults[FAULT_HW_THERMAL], thermal, l->ts_ns);
	sign(&w->faults[FAULT_POWER_BRAKE], brake, l->ts_ns);
	sign(&w->faults[FAULT_HW_SLOW], why & 0x8 && !thermal && !brake, l->ts_ns);
	for (int f = FAULT_HW_THERMAL; f <= FAULT_HW_SLOW; f++)
		if (w->faults[f].since_ns && l->ts_ns > w->faults[f].last_ns + UNTHROTTLE_NS)
			w->faults[f] = (struct one){ 0 };
}

static uint64_t grown(uint64_t now, uint64_t before)
{
	return now != ~0ull && before != ~0ull && now > before ? now - before : 0;
}

/* What had to be sent again. CRC errors alone are no fault: links with forward error correction count them by the
 * hundred a second on healthy H200s under load, without one replay (docs/measurements/gpu.md). */
static uint64_t link_errors(const struct gpu_health *now, const struct gpu_health *then)
{
	return grown(now->nvlink_replay, then->nvlink_replay);
}

/* Between the i-th newest checkup and the one before it; NULL: there is none. */
static const struct gpu_health *health_at(const struct gpu *g, uint64_t i)
{
	const struct gpu_checkup *c = gpu_checkup(g, i);

	return c ? &c->h : NULL;
}

static bool counts_much(uint64_t now, uint64_t before)
{
	return now >= LINK_ERRORS_AT_ONCE || (now && before && now + before >= LINK_ERRORS_AGAIN);
}

static void checkup_take(struct watched *w, const struct gpu *g)
{
	const struct gpu_health *h = health_at(g, 0), *b = health_at(g, 1), *bb = health_at(g, 2);
	const struct gpu_sampled *l = gpu_sample(g, 0);
	uint64_t now_ns = gpu_checkup(g, 0)->ts_ns; /* lint: called for a GPU that has a checkup */
	bool load = l && gpu_percent(l->s.sm_bp) > LOAD_SM;

	sign_state(&w->faults[FAULT_ROWS], h->rows_pending == 1, now_ns);
	sign_state(&w->faults[FAULT_REMAP], h->rows_failed == 1, now_ns);
	sign_state(&w->faults[FAULT_PAGES], h->pages_pending == 1, now_ns);
	sign_state(&w->faults[FAULT_INFOROM], h->inforom_bad == 1, now_ns);
	sign_state(&w->faults[FAULT_NVLINK_DOWN],
		   g->device.n_nvlinks != GPU_NO_VALUE && h->nvlinks_active != GPU_NO_VALUE &&
			   h->nvlinks_active < g->device.n_nvlinks,
		   now_ns);
	if (load || w->faults[FAULT_PCIE_WIDTH].since_ns) /* an idle link may save power */
		sign_state(&w->faults[FAULT_PCIE_WIDTH],
			   h->pcie_width != GPU_NO_VALUE && g->device.pcie_width_max != GPU_NO_VALUE &&
				   h->pcie_width < g->device.pcie_width_max,
			   now_ns);
	if (!b)
		return;
	sign(&w->faults[FAULT_ECC], grown(h->ecc_uncorrected, b->ecc_uncorrected), now_ns);
	sign(&w->faults[FAULT_NVLINK],
	     grown(h->nvlink_recovery, b->nvlink_recovery) ||
		     counts_much(link_errors(h, b), bb ? link_errors(b, bb) : 0),
	     now_ns);
	sign(&w->faults[FAULT_PCIE_REPLAY],
	     counts_much(grown(h->pcie_replay, b->pcie_replay), bb ? grown(b->pcie_replay, bb->pcie_replay) : 0),
	     now_ns);
}

static bool is_counter(int f)
{
	return f == FAULT_ECC || f == FAULT_NVLINK || f == FAULT_PCIE_REPLAY;
}

static void gpu_samples_take(struct watched *w, const struct model *m, const struct gpu *g)
{
	for (; w->n_samples < g->n_samples; w->n_samples++)
		if (gpu_sample(g, g->n_samples - 1 - w->n_samples))
			sample_take(w, gpu_sample(g, g->n_samples - 1 - w->n_samples));
	if (w->n_checkups != g->n_checkups)
		checkup_take(w, g);
	w->n_checkups = g->n_checkups;
	sign_state(&w->faults[FAULT_LOST], g->answer == GPU_IS_LOST, g->answer_ns);
	sign_state(&w->faults[FAULT_RESET], g->answer == GPU_WANTS_RESET, g->answer_ns);
	for (int f = 0; f < FAULTS; f++)
		if (is_counter(f) && w->faults[f].since_ns && m->now_ns > w->faults[f].last_ns + HOLD_NS)
			w->faults[f] = (struct one){ 0 };
}

/* --- findings --- */

static bool is_reported(const struct one *o, int f)
{
	if (!o->since_ns)
		return false;
	if (f < FAULT_HW_THERMAL || f > FAULT_HW_SLOW)
		return true;
	return o->n >= THROTTLE_SAMPLES && o->last_ns >= o->since_ns + THROTTLE_NS;
}

static void ranks_add(struct finding *f, const struct model *m, const struct gpu *g)
{
	for (const struct proc *p = m->procs; p; p = proc_next(p))
		if (!p->is_child && gpu_has_proc(g, p) && (!p->dead || m->now_ns < p->exit_ns + HOLD_NS))
			finding_add_rank(f, proc_rank(p), p->key);
}

static void number_note(struct finding *f, enum evidence_id id, uint64_t n)
{
	if (n != ~0ull && n != GPU_NO_VALUE)
		finding_note(f, id, n);
}

static void sample_note(struct finding *f, const struct gpu_sampled *l)
{
	if (!l)
		return;
	number_note(f, EVIDENCE_SM_CLOCK_MHZ, l->s.sm_clock_mhz);
	number_note(f, EVIDENCE_TEMPERATURE_C, l->s.temperature_c);
	if (l->s.power_mw != GPU_NO_VALUE)
		finding_note(f, EVIDENCE_POWER_W, l->s.power_mw / 1e3);
}

static void health_note(struct finding *f, int fault, const struct gpu *g)
{
	const struct gpu_health *h = health_at(g, 0);

	if (!h)
		return;
	if (fault == FAULT_ECC || fault == FAULT_ROWS || fault == FAULT_REMAP) {
		number_note(f, EVIDENCE_ECC_UNCORRECTED, h->ecc_uncorrected);
		number_note(f, EVIDENCE_ECC_CORRECTED, h->ecc_corrected);
		number_note(f, EVIDENCE_ROWS_REMAPPED_UNCORRECTED, h->rows_uncorrected);
	}
	if (fault == FAULT_NVLINK || fault == FAULT_NVLINK_DOWN) {
		number_note(f, EVIDENCE_NVLINK_CRC_ERRORS, grown(h->nvlink_crc, g->first.nvlink_crc));
		number_note(f, EVIDENCE_NVLINK_REPLAYS, grown(h->nvlink_replay, g->first.nvlink_replay));
		number_note(f, EVIDENCE_NVLINKS_ACTIVE, h->nvlinks_active);
		number_note(f, EVIDENCE_NVLINKS, g->device.n_nvlinks);
	}
	if (fault == FAULT_PCIE_WIDTH) {
		number_note(f, EVIDENCE_PCIE_WIDTH, h->pcie_width);
		number_note(f, EVIDENCE_PCIE_WIDTH_MAX, g->device.pcie_width_max);
	}
	if (fault == FAULT_PCIE_REPLAY)
		number_note(f, EVIDENCE_PCIE_REPLAYS, grown(h->pcie_replay, g->first.pcie_replay));
}

static uint64_t gpu_id(const struct gpu *g)
{
	return (uint64_t)g->node->number << 32 | g->device.index;
}

static int report(const struct model *m, const struct gpu *g, int fault, const struct one *o,
		  struct finding_list *found)
{
	struct finding *f = finding_list_add(found);

	if (!f)
		return -ENOMEM;
	f->kind = FINDING_GPU_HEALTH;
	f->subject = subject_gpu(g->node->number, g->device.index, g->device.pci);
	finding_identify(f, "gpu_health", fault, o->since_ns);
	f->node = g->node->number;
	f->cause = faults[fault].cause;
	f->since_ns = o->since_ns;
	f->confidence = 0.95;
	ranks_add(f, m, g);
	if (!f->n_ranks) { /* no rank's that we know of */
		found->n--;
		return 0;
	}
	finding_note(f, EVIDENCE_GPU, g->device.index);
	if (fault >= FAULT_HW_THERMAL && fault <= FAULT_HW_SLOW)
		sample_note(f, gpu_sample(g, 0));
	health_note(f, fault, g);
	finding_note_text(f, EVIDENCE_REMEDY, faults[fault].remedy);
	return 0;
}

/* The driver as a whole: all ranks that compute on any GPU. */
static int silence_report(const struct model *m, const struct node *n, struct finding_list *found)
{
	struct finding *f;

	if (n->gpus.driver != GPU_NO_ANSWER)
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	f->kind = FINDING_GPU_HEALTH;
	f->subject = subject_node(n->number);
	finding_identify(f, "gpu_health", FAULT_SILENT, n->gpus.driver_ns);
	f->cause = faults[FAULT_SILENT].cause;
	f->node = n->number;
	f->since_ns = n->gpus.driver_ns;
	f->confidence = 0.9;
	for (const struct gpu *g = n->gpus.all; g; g = g->next)
		ranks_add(f, m, g);
	if (!f->n_ranks) {
		found->n--;
		return 0;
	}
	finding_note_text(f, EVIDENCE_REMEDY, faults[FAULT_SILENT].remedy);
	return 0;
}

static int node_tick(struct gpu_health_state *s, const struct model *m, const struct node *n,
		     struct finding_list *found)
{
	int err = silence_report(m, n, found);

	for (const struct gpu *g = n->gpus.all; g && !err; g = g->next) {
		struct watched *w = keyed_get(&s->gpus, gpu_id(g), 0, sizeof(*w));

		if (!w)
			return -ENOMEM;
		gpu_samples_take(w, m, g);
		for (int f = 0; f < FAULTS && !err; f++)
			if (is_reported(&w->faults[f], f))
				err = report(m, g, f, &w->faults[f], found);
	}
	return err;
}

static int gpu_health_tick(void *state, const struct model *m, struct finding_list *found)
{
	int err = 0;

	for (const struct node *n = model_next_node(m, NULL); n && !err; n = model_next_node(m, n))
		err = node_tick(state, m, n, found);
	gpu_event_join(found);
	return err;
}

static void gpu_health_release(void *state)
{
	struct gpu_health_state *s = state;

	keyed_free(&s->gpus);
}

const struct detector detector_gpu_health = {
	.name = "gpu_health",
	.help = "a GPU that throttles, makes memory or link errors, is lost, or whose driver does not answer",
	.state_bytes = sizeof(struct gpu_health_state),
	.release = gpu_health_release,
	.tick = gpu_health_tick,
};
