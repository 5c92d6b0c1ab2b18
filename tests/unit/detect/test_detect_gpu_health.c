/* SPDX-License-Identifier: Apache-2.0
 *
 * test_detect_gpu_health.c - detectors gpu_health and xid: each fault of a GPU names the rank that computes on it, once
 * it is one, and nobody before; and what is known of a slow rank's GPU becomes the cause of its slowness.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/straggler/cause.h"
#include "detect/gpu/gpu_cause.h"
#include "tests/unit/job/evidence.h"
#include "tests/unit/job/job_script.h"

#define RANKS 4

struct machine {
	struct model *m;
	struct detectors *d;
	struct finding_list list;
	uint64_t now_ns;
};

static void give(struct machine *u, struct event e)
{
	if (!e.ts_ns)
		e.ts_ns = u->now_ns;
	assert_int_equal(model_apply(u->m, &e), 0);
}

static void pass(struct machine *u, double seconds)
{
	u->now_ns += (uint64_t)(seconds * SEC);
	give(u, (struct event){ .kind = EV_TICK });
	assert_int_equal(detectors_tick(u->d, u->m, &u->list), 0);
}

static uint64_t pci_of(int gpu)
{
	return (0x10ull + gpu) << 8;
}

/* Rank r on GPU 3 - r, so that indices do not help. */
static struct machine node_new(void)
{
	struct machine u = { .m = model_new(), .d = detectors_new(), .now_ns = JOB_T0 };

	assert_non_null(u.m);
	assert_non_null(u.d);
	for (int r = 0; r < RANKS; r++) {
		struct event e = job_proc_event(r, RANKS, u.now_ns);

		give(&u, e);
		e = (struct event){ .kind = EV_GPU_DEVICE };
		e.gpu_device = (struct gpu_device){ .index = 3 - r,
						    .n_gpus = RANKS,
						    .pcie_width_max = 16,
						    .pcie_gen_max = 5,
						    .n_nvlinks = 18,
						    .pci = pci_of(3 - r) };
		e.gpu_name = e.gpu_uuid = "";
		give(&u, e);
		e = (struct event){ .kind = EV_GPU_PROCS };
		e.gpu_procs.index = 3 - r;
		e.gpu_procs.n = 1;
		e.gpu_procs.pids[0] = job_pid(r);
		give(&u, e);
	}
	return u;
}

static void node_free(struct machine *u)
{
	finding_list_free(&u->list);
	detectors_free(u->d);
	model_free(u->m);
}

static void look(struct machine *u, int gpu, uint64_t slowdown)
{
	struct event e = { .kind = EV_GPU_SAMPLE };

	e.gpu_sample = (struct gpu_sample){ .index = gpu,
					    .window_ns = SEC,
					    .sm_bp = 9000,
					    .tensor_bp = 5000,
					    .power_mw = 650000,
					    .temperature_c = 90,
					    .sm_clock_mhz = 1200,
					    .slowdown = slowdown };
	give(u, e);
}

static const struct gpu_health well = {
	.nvlinks_active = 18,
	.pcie_width = 16,
	.pcie_gen = 5,
	.ecc_corrected = 7,
	.ecc_uncorrected = 1,
	.nvlink_crc = 12,
	.nvlink_replay = 3,
	.rows_uncorrected = 1,
	.pages_pending = GPU_NO_VALUE,
};

static void checkup(struct machine *u, int gpu, struct gpu_health h)
{
	struct event e = { .kind = EV_GPU_HEALTH };

	h.index = gpu;
	e.gpu_health = h;
	give(u, e);
}

static const struct finding *only(const struct machine *u, enum finding_kind kind, const char *cause)
{
	const struct finding *f = u->list.n == 1 ? &u->list.items[0] : NULL;

	for (size_t i = 0; i < u->list.n && !f; i++)
		printf("also %s %s\n", finding_kind_name(u->list.items[i].kind), cause_name(u->list.items[i].cause));
	assert_non_null(f);
	assert_int_equal(f->kind, kind);
	assert_string_equal(cause_name(f->cause), cause);
	return f;
}

static void check_named(const struct machine *u, enum finding_kind kind, const char *cause, int rank)
{
	const struct finding *f = only(u, kind, cause);

	assert_int_equal(f->n_ranks, 1);
	assert_int_equal(f->ranks[0], rank);
	assert_int_equal(f->pids[0], job_pid(rank));
}

static void test_throttling(void **state)
{
	static const struct {
		uint64_t why;
		const char *cause;
	} cases[] = {
		{ 8 | 0x40, "throttled_thermal" },
		{ 8 | 0x80, "throttled_power_brake" },
		{ 8, "throttled_hardware" },
		{ 0x20, "throttled_thermal_software" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine u = node_new();

		for (int k = 0; k < 20; k++) { /* the power cap alone: how they run */
			look(&u, 1, 4);
			pass(&u, 1);
		}
		look(&u, 1, 4 | cases[i].why); /* for a moment */
		pass(&u, 1);
		for (int k = 0; k < 20; k++) {
			look(&u, 1, 4);
			pass(&u, 1);
			assert_int_equal(u.list.n, 0);
		}
		for (int k = 0; k < 5; k++) {
			look(&u, 1, 4 | cases[i].why);
			pass(&u, 1);
		}
		check_named(&u, FINDING_GPU_HEALTH, cases[i].cause, 2);
		for (int k = 0; k < 13; k++) {
			look(&u, 1, 4);
			pass(&u, 1);
		}
		assert_int_equal(u.list.n, 0);
		node_free(&u);
	}
}

/* Counters of before the session are nobody's news; what moves is. */
static void test_counters_that_move(void **state)
{
	struct gpu_health ecc = well, link = well, recovery = well, replay = well;
	const struct {
		struct gpu_health *h;
		const char *cause;
	} cases[] = {
		{ &ecc, "ecc_uncorrected" },
		{ &link, "nvlink_errors" },
		{ &recovery, "nvlink_errors" },
		{ &replay, "pcie_replays" },
	};

	(void)state;
	ecc.ecc_uncorrected++;
	link.nvlink_replay += 150;
	recovery.nvlink_recovery++;
	replay.pcie_replay += 500;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine u = node_new();

		checkup(&u, 0, well);
		pass(&u, 10);
		checkup(&u, 0, well);
		pass(&u, 10);
		assert_int_equal(u.list.n, 0);
		checkup(&u, 0, *cases[i].h);
		pass(&u, 1);
		check_named(&u, FINDING_GPU_HEALTH, cases[i].cause, 3);
		for (int k = 0; k < 7; k++) {
			checkup(&u, 0, *cases[i].h);
			pass(&u, 10);
		}
		assert_int_equal(u.list.n, 0);
		node_free(&u);
	}
}

static void test_single_link_errors_are_usual(void **state)
{
	struct gpu_health h = well;
	struct machine u = node_new();

	(void)state;
	for (int k = 0; k < 50; k++) {
		h.nvlink_replay += k % 2 ? 3 : 0;
		h.nvlink_crc += 3200; /* as on healthy H200s */
		h.ecc_corrected += 5;
		checkup(&u, 0, h);
		pass(&u, 10);
		assert_int_equal(u.list.n, 0);
	}
	node_free(&u);
}

static void test_states(void **state)
{
	struct gpu_health rows = well, failed = well, inforom = well, down = well, width = well;
	const struct {
		struct gpu_health *h;
		const char *cause;
	} cases[] = {
		{ &rows, "rows_pending" }, { &failed, "remap_failed" }, { &inforom, "inforom_corrupt" },
		{ &down, "nvlink_down" },  { &width, "pcie_width" },
	};

	(void)state;
	rows.rows_pending = failed.rows_failed = inforom.inforom_bad = 1;
	down.nvlinks_active = 17;
	width.pcie_width = 8;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine u = node_new();

		if (cases[i].h == &width) { /* an idle link may be narrow */
			checkup(&u, 2, width);
			pass(&u, 1);
			assert_int_equal(u.list.n, 0);
		}
		look(&u, 2, 4);
		checkup(&u, 2, *cases[i].h);
		pass(&u, 1);
		check_named(&u, FINDING_GPU_HEALTH, cases[i].cause, 1);
		checkup(&u, 2, well);
		pass(&u, 1);
		assert_int_equal(u.list.n, 0);
		node_free(&u);
	}
}

static void answer(struct machine *u, uint32_t gpu, enum gpu_answer a)
{
	struct event e = { .kind = EV_GPU_STATE };

	e.gpu_state.index = gpu;
	e.gpu_state.answer = a;
	e.gpu_state.since_ns = u->now_ns;
	give(u, e);
}

/* A lost GPU lists no processes any more: who was there last is hit. */
static void test_lost_and_silent(void **state)
{
	struct machine u = node_new();
	struct event e = { .kind = EV_GPU_PROCS };

	(void)state;
	answer(&u, 1, GPU_IS_LOST);
	e.gpu_procs.index = 1;
	give(&u, e);
	pass(&u, 1);
	check_named(&u, FINDING_GPU_HEALTH, "gpu_lost", 2);
	answer(&u, 1, GPU_WANTS_RESET);
	pass(&u, 1);
	check_named(&u, FINDING_GPU_HEALTH, "needs_reset", 2);
	answer(&u, 1, GPU_IS_THERE);
	pass(&u, 1);
	assert_int_equal(u.list.n, 0);
	answer(&u, GPU_INDEX_ALL, GPU_NO_ANSWER);
	pass(&u, 1);
	assert_int_equal(only(&u, FINDING_GPU_HEALTH, "driver_does_not_answer")->n_ranks, RANKS);
	answer(&u, GPU_INDEX_ALL, GPU_IS_THERE);
	pass(&u, 1);
	assert_int_equal(u.list.n, 0);
	node_free(&u);
}

/* A GPU on which nobody of the job computes is not the job's affair. */
static void test_foreign_gpu(void **state)
{
	struct gpu_health rows = well;
	struct machine u = node_new();

	(void)state;
	rows.rows_pending = 1;
	checkup(&u, 7, rows);
	pass(&u, 1);
	assert_int_equal(u.list.n, 0);
	node_free(&u);
}

static void device(struct machine *u, uint32_t index, uint32_t n_nvlinks)
{
	struct event e = { .kind = EV_GPU_DEVICE };

	e.gpu_device = (struct gpu_device){ .index = index, .pcie_width_max = 8, .n_nvlinks = n_nvlinks };
	e.gpu_name = e.gpu_uuid = "";
	give(u, e);
}

/* A child of NVML's that is started anew counts the links that are there now, and some may be gone by then. */
static void test_links_are_counted_once(void **state)
{
	struct machine u = node_new();
	const struct gpu *g = node_gpu(u.m->nodes[0], 1);

	(void)state;
	device(&u, 1, 17);
	assert_int_equal(g->device.n_nvlinks, 18);
	assert_int_equal(g->device.pcie_width_max, 8); /* all else is as it is now */
	device(&u, 1, GPU_NO_VALUE);
	assert_int_equal(g->device.n_nvlinks, 18);
	device(&u, 1, 20);
	assert_int_equal(g->device.n_nvlinks, 20);
	device(&u, 9, GPU_NO_VALUE);
	device(&u, 9, 4);
	assert_int_equal(node_gpu(u.m->nodes[0], 9)->device.n_nvlinks, 4);
	node_free(&u);
}

static void xid(struct machine *u, uint32_t number, uint64_t pci, uint32_t pid, bool of_switch)
{
	struct event e = { .kind = EV_XID };

	e.kernel_log.xid = number;
	e.kernel_log.pci = pci;
	e.kernel_log.pid = pid;
	e.kernel_log.of_switch = of_switch;
	e.kernel_log.class = "xid";
	e.kernel_log.text = "NVRM: Xid (PCI:0000:11:00): 79";
	give(u, e);
}

static const char *text_of(const struct finding *f, const char *name)
{
	return text_named(f, name, "");
}

static void test_xid(void **state)
{
	struct machine u = node_new();

	(void)state;
	xid(&u, 79, pci_of(1), 0, false);
	pass(&u, 1);
	xid(&u, 79, pci_of(1), 0, false); /* the kernel log says it again */
	pass(&u, 1);
	check_named(&u, FINDING_XID, "hardware", 2);
	assert_non_null(strstr(text_of(&u.list.items[0], "meaning"), "fallen off the bus"));
	pass(&u, 61);
	assert_int_equal(u.list.n, 0);
	xid(&u, 31, pci_of(1), job_pid(0), false); /* the process is named: it is the one */
	pass(&u, 1);
	check_named(&u, FINDING_XID, "application", 0);
	pass(&u, 61);
	xid(&u, 9999, pci_of(0), 0, false);
	pass(&u, 1);
	check_named(&u, FINDING_XID, "unknown", 3);
	pass(&u, 61);
	xid(&u, 12028, GPU_PCI_NONE, 0, true);
	pass(&u, 1);
	assert_int_equal(only(&u, FINDING_XID, "hardware")->n_ranks, RANKS);
	pass(&u, 61);
	xid(&u, 48, 0x7700, 0, false); /* of a GPU that is not known: reported, without a rank */
	pass(&u, 1);
	assert_int_equal(only(&u, FINDING_XID, "hardware")->n_ranks, 0);
	node_free(&u);
}

static void test_it_is_the_cause_of_slowness(void **state)
{
	struct machine u = node_new();
	struct finding slow = { .kind = FINDING_STRAGGLER, .cause = CAUSE_GPU_OR_UNKNOWN }, other = slow;

	(void)state;
	finding_add_rank(&slow, 2, job_pid(2));
	finding_add_rank(&other, 1, job_pid(1));
	for (int k = 0; k < 6; k++) {
		look(&u, 1, 4 | 8 | 0x40);
		pass(&u, 1);
	}
	gpu_cause_set(u.m, &u.list, &slow);
	gpu_cause_set(u.m, &u.list, &other);
	assert_string_equal(cause_name(slow.cause), "gpu_throttled");
	assert_int_equal(slow.caused_by_key, u.list.items[0].key);
	assert_string_equal(cause_name(other.cause), "gpu_or_unknown");
	node_free(&u);
}

static void pressure(struct machine *u, uint32_t pid, uint64_t cpu_ns, uint64_t io_ns)
{
	struct event e = { .kind = EV_PRESSURE, .tgid = pid };

	e.pressure.stall_ns[0][0] = cpu_ns;
	e.pressure.stall_ns[2][0] = io_ns;
	e.pressure.known = 0x11;
	give(u, e);
}

static void test_pressure_is_evidence(void **state)
{
	struct machine u = node_new();
	struct finding f = { 0 };

	(void)state;
	for (int k = 0; k < 2; k++) {
		pressure(&u, 0, 100 * SEC + k * SEC, 7 * SEC);
		pressure(&u, job_pid(1), 50 * SEC, 9 * SEC + k * 2 * SEC);
		pass(&u, 4);
	}
	pressure_note(&f, model_proc(u.m, job_pid(1)));
	assert_int_equal(f.n_evidence, 2);
	assert_string_equal(evidence_name(f.evidence[0].id), "host_cpu_pressure_share");
	assert_true(f.evidence[0].number > 0.24 && f.evidence[0].number < 0.26);
	assert_string_equal(evidence_name(f.evidence[1].id), "cgroup_io_pressure_share");
	assert_true(f.evidence[1].number > 0.49 && f.evidence[1].number < 0.51);
	node_free(&u);
}

static void test_what_stops_a_rank(void **state)
{
	struct machine u = node_new();

	(void)state;
	xid(&u, 63, pci_of(1), 0, false); /* informs */
	xid(&u, 92, pci_of(1), 0, false); /* corrected */
	pass(&u, 1);
	assert_int_equal(gpu_stop_key(&u.list, job_pid(2)), 0);
	xid(&u, 43, pci_of(1), 0, false); /* the program's own, and nobody else computes there */
	pass(&u, 1);
	assert_int_equal(gpu_stop_key(&u.list, job_pid(2)), u.list.items[2].key);
	xid(&u, 79, pci_of(1), 0, false);
	pass(&u, 1);
	assert_int_equal(gpu_stop_key(&u.list, job_pid(2)), u.list.items[3].key);
	assert_int_equal(gpu_stop_key(&u.list, job_pid(1)), 0);
	pass(&u, 62);
	answer(&u, GPU_INDEX_ALL, GPU_NO_ANSWER);
	pass(&u, 1);
	assert_int_equal(gpu_stop_key(&u.list, job_pid(1)), u.list.items[0].key);
	node_free(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_throttling),
		cmocka_unit_test(test_counters_that_move),
		cmocka_unit_test(test_single_link_errors_are_usual),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_lost_and_silent),
		cmocka_unit_test(test_foreign_gpu),
		cmocka_unit_test(test_links_are_counted_once),
		cmocka_unit_test(test_xid),
		cmocka_unit_test(test_it_is_the_cause_of_slowness),
		cmocka_unit_test(test_what_stops_a_rank),
		cmocka_unit_test(test_pressure_is_evidence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
