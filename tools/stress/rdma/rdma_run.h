/* SPDX-License-Identifier: Apache-2.0
 *
 * rdma_run.h - one run of `stress rdma`: its hosts, what was measured over which link, what is wrong with which port.
 */
#ifndef STRESS_RDMA_RUN_H
#define STRESS_RDMA_RUN_H

#include "tools/stress/fault.h"
#include "tools/stress/rdma/fleet.h"
#include "tools/stress/rdma/shape.h"
#include "tools/stress/report.h"
#include "tools/stress/threshold.h"

#define RDMA_FAULTS_MAX 512

struct rdma_measured {
	enum rdma_shape shape;
	int from, to; /* ports of the fleet */
	struct rdma_case of;
	struct rdma_result result; /* of the end that posts; data, and what failed first, of both */
	uint64_t lost, packets;    /* at both ends: counters of loss, packets sent */
	bool soft;                 /* an end of it is software */
	bool small_passes;         /* it failed, and messages in small packets get through */
	bool is_excused;           /* it failed, and does so on a healthy host: RDMA_ABSENT */
	struct judgement judged;
	int round; /* the call of links_run() that measured it: links of a round run side by side */
};

struct rdma_run {
	const struct stress_options *options;
	enum report_mode mode;
	uint64_t begin_ns;
	struct fleet fleet;
	bool is_usable[RDMA_PORTS_MAX];   /* the port is up */
	bool is_measured[RDMA_PORTS_MAX]; /* anything was measured over it */
	bool is_alone[RDMA_PORTS_MAX];    /* it is up, and the shapes had no link to another host for it */
	int n_missing;                    /* behind the fleet's ports: those that most hosts have, and one has not */
	int names[RDMA_PORTS_MAX];        /* the rail of a port: shape_port.name */
	int networks[RDMA_PORTS_MAX];     /* shape_port.network */
	struct rdma_measured *measured;
	int n_measured, room, n_rounds;
	struct fault faults[RDMA_FAULTS_MAX]; /* .gpu: the port, -1: of no single one; .to: as there */
	uint32_t n_faults, faults_of[RDMA_PORTS_MAX];
	bool is_bad[RDMA_PORTS_MAX]; /* it has a fault, or is an end of a link that has one */
	struct notes notes;
	char partial[160];
};

void rdma_fault(struct rdma_run *run, enum fault_kind kind, int port, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* What a case showed of that port, -1: of its link. FAULT_SLOW: with what it was held to. */
void rdma_case_fault(struct rdma_run *run, enum fault_kind kind, int port, const struct rdma_measured *m,
		     const char *format, ...) __attribute__((format(printf, 5, 6)));
/* What cases showed of the GPU whose memory that one is. */
void rdma_gpu_fault(struct rdma_run *run, enum fault_kind kind, const struct rdma_measured *m, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void rdma_note(struct rdma_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
double rdma_elapsed_s(const struct rdma_run *run);
const char *rdma_port_name(const struct rdma_run *run, int port, char *text, size_t size);
/* "rxe0:1 to rxe1:1" */
const char *rdma_link_name(const struct rdma_run *run, const struct rdma_measured *m, char *text, size_t size);

/* links.c: the case on all links of a round at once; results are appended to run->measured. */
void links_run(struct rdma_run *run, enum rdma_shape shape, const struct shape_link *links, int n,
	       const struct rdma_case *of, const struct rdma_place *places);
/* A round of it again, all its links side by side as before: another turn of those that are below their bound. */
void links_again(struct rdma_run *run, int round);
/* Whether this link has failed before: then it is not tried again. */
bool link_has_failed(const struct rdma_run *run, int from, int to);
void ports_count(struct rdma_run *run, bool end);

/* port_judge.c: is each port up, and set as the others of its kind? Before anything is measured. */
void ports_judge(struct rdma_run *run);
/* After all was measured: ports that no shape could link to another host. How many; each has a note. */
int ports_alone(struct rdma_run *run);
/* rdma_again.c: rates, and rounds with one below its bound again, turn by turn. */
void rdma_again(struct rdma_run *run, const struct baseline *baseline);
/* link_judge.c: data, failed links, rates, loss, counters. */
void links_judge(struct rdma_run *run);
/* The same of a run that a signal cut: data, failed links and loss of what was measured until then. */
void links_judge_partial(struct rdma_run *run);
/* fabrics.c: failed links between two fabrics, as it seems, become RDMA_ABSENT. */
void fabrics_part(struct rdma_run *run);
bool ports_alike(const struct rdma_port *a, const struct rdma_port *b);
/* And of one speed. */
bool ports_as_fast(const struct rdma_port *a, const struct rdma_port *b);
/* Of a run that passed only. The exit status. */
int rdma_baseline_save(struct rdma_run *run, int status, char why[LIBRARY_WHY]);

/* rdma_report.c */
void rdma_report_begin(const struct rdma_run *run);
void rdma_report_measured(const struct rdma_run *run, const struct rdma_measured *m);
void rdma_report_fault(const struct rdma_run *run, const struct fault *fault);
void rdma_report_end(const struct rdma_run *run, int status);

#endif
