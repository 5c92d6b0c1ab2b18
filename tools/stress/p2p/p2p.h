/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p.h - one run of `stress p2p`: links between the GPUs of a host, and of each to the host's memory by NUMA node.
 */
#ifndef STRESS_P2P_H
#define STRESS_P2P_H

#include "tools/stress/report.h"
#include "tools/stress/run.h"
#include "tools/stress/threshold.h"

enum link_measure {
	LINK_OFF,     /* copy engine, peer access not enabled: through the host */
	LINK_COPY,    /* copy engine, one way */
	LINK_BOTH,    /* both ways at once, the sum */
	LINK_SM,      /* the source's multiprocessors write */
	LINK_LATENCY, /* a load of the source from the other's memory, in ns: less is better */
	N_LINK_MEASURES
};

struct link_rate {
	struct judgement judged; /* the first turn: the median of all rounds */
	double *values;          /* one a round */
	int n;
};

/* What a link goes over; else, over PCI, the distance of the two memory nodes (node.h). */
enum { WAY_UNKNOWN, WAY_SWITCH, WAY_NVLINK };

struct link {
	bool direct; /* the driver says that one GPU can access the other */
	int rank;    /* the driver's rank of its performance: links are compared within one */
	int way;     /* over PCI, what NVLinks there may be: p2p_way() */
	struct link_rate rates[N_LINK_MEASURES];
};

#define NODES_MAX 16
enum { HOST_TO_DEVICE, DEVICE_TO_HOST, N_WAYS_HOST };

struct p2p_gpu {
	cuda_ptr from, to, errors;
	cuda_handle events[2];
	struct link_rate host[NODES_MAX][N_WAYS_HOST];
	int node;                 /* of the GPU; -1: not known */
	int distances[NODES_MAX]; /* of it to each of the host's: node.h */
	int links_active, links;  /* NVLink; 0: none, or NVML does not say */
	/* Where the active ones lead: to a switch, to each of these GPUs; NVML does not say. */
	int links_switch, links_to[STRESS_GPUS_MAX], links_unknown;
	bool links_not_judged;
	int fabric; /* NVML_FABRIC_*: of its switches; not supported where NVML does not say */
	unsigned int width, width_max, generation, generation_max;
};

struct p2p {
	struct stress_run *run;
	enum report_mode mode;
	uint64_t bytes; /* of a copy */
	int rounds;     /* that are whole */
	volatile uint32_t *flag;
	void *host;
	int nodes[NODES_MAX], n_nodes; /* of memory */
	bool away[NODES_MAX];          /* a cpuset keeps this process from it: it was other memory, and is not judged */
	int n_switches;                /* NVSwitches on the PCI bus */
	int n_gpus_host;               /* that NVML shows, under test or not */
	bool is_virtual;               /* this is a virtual machine */
	char not_judged[LIBRARY_WHY];  /* why NVLinks got no verdict; "": they have one */
	struct p2p_gpu gpus[STRESS_GPUS_MAX];
	struct link links[STRESS_GPUS_MAX][STRESS_GPUS_MAX]; /* [from][to] */
};

extern const char *const link_measure_names[N_LINK_MEASURES];
const char *link_unit(int measure);

/* p2p_copy.c; 0, -EIO after a fault, -ENOMEM. */
int p2p_buffers(struct p2p *p);
void p2p_buffers_free(struct p2p *p);
int p2p_link(struct p2p *p, int from, int to, enum link_measure measure, double *value);
int p2p_enable(struct p2p *p);

/* p2p_host.c: the GPU's copies from and to memory of each NUMA node, and the state of its links. */
struct host_values {
	double of[NODES_MAX][N_WAYS_HOST];
};
int p2p_host(struct p2p *p, int gpu, struct host_values *values);
void p2p_nodes_find(struct p2p *p);
void p2p_state(struct p2p *p, int gpu);

/* p2p_nvlink.c: asks NVML for a GPU's NVLinks and where they lead. */
void p2p_nvlinks_read(struct p2p *p, int gpu);
/* How many of the NVLinks of `from` can carry a copy to `to`: all of them through a switch, active or not; else those
 * that lead there. 0: none, or NVML does not say. */
int p2p_nvlinks_between(const struct p2p *p, int from, int to);

/* p2p_way.c: reads the ways over PCI; then, after a round: what a link goes over. Links without NVLinks are compared
 * within one that is known. */
void p2p_ways_find(struct p2p *p);
int p2p_way(const struct p2p *p, int from, int to);

/* p2p_board.c: looks at what the host has of boards; then, after a round: leaves a fault of NVLinks that should be
 * active and are not, and p->not_judged where nothing says whether they should. */
void p2p_board_look(struct p2p *p);
void p2p_nvlinks_judge(struct p2p *p, int gpu);

/* p2p_again.c: the links that are below their bound, turn by turn. 0 or -EIO. */
int p2p_again(struct p2p *p, const struct baseline *baseline);

/* p2p_judge.c: p2p_hold() holds each link to its bounds, and again after a further turn (baseline NULL: none, then the
 * table); p2p_judge() leaves the faults. */
void p2p_hold(struct p2p *p, const struct baseline *baseline);
void p2p_judge(struct p2p *p);
enum better link_better(enum link_measure measure);
int p2p_baseline_write(const char *path, const struct p2p *p);

/* p2p_report.c */
void p2p_report_begin(const struct p2p *p);
void p2p_report(const struct p2p *p, int status, const char *partial);

#endif
