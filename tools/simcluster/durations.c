/* SPDX-License-Identifier: Apache-2.0
 *
 * durations.c - see durations.h.
 */
#include "tools/simcluster/durations.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hub/slow_ranks.h"

#define RANKS_MAX 65536
#define SECOND_NS 1000000000ull

struct line {
	uint64_t second, rank, comm, nranks, ended, ended_ns, error_ns, recvs, recvs_ns;
};

struct walk {
	struct model *m;
	struct slow_ranks slow;
	struct finding_list found;
	bool known[RANKS_MAX];
	uint64_t second;
};

static int rank_make(struct walk *w, uint64_t rank)
{
	struct event node = { .kind = EV_NODE, .node = (uint32_t)rank + 1, .ts_ns = SECOND_NS };
	struct event proc = { .kind = EV_PROC, .node = node.node, .tgid = 1, .ts_ns = SECOND_NS };
	int err;

	node.host.name = "worker";
	proc.proc = (struct event_proc){ .start_ns = 1,
					 .rank = (int)rank,
					 .local_rank = -1,
					 .world_size = -1,
					 .job = "recorded",
					 .name = "",
					 .container = "",
					 .pod = "",
					 .pod_name = "",
					 .namespace = "",
					 .cgroup = "",
					 .boot_id = "",
					 .slurm_job = "",
					 .slurm_step = "" };
	w->known[rank] = true;
	err = model_apply(w->m, &node);
	return err ? err : model_apply(w->m, &proc);
}

static int line_take(struct walk *w, const struct line *l)
{
	const struct host h = { .number = (uint32_t)l->rank + 1, .at_ns = w->m->now_ns };
	Cluster__NodeReport r = CLUSTER__NODE_REPORT__INIT;
	Cluster__Process p = CLUSTER__PROCESS__INIT, *processes[] = { &p };
	Cluster__Member mb = CLUSTER__MEMBER__INIT, *members[] = { &mb };
	int err = w->known[l->rank] ? 0 : rank_make(w, l->rank);

	p.pid = 1;
	p.rank = (int)l->rank;
	p.job = (char *)"recorded";
	p.comms = members;
	p.n_comms = 1;
	mb.addr = mb.hash = l->comm;
	mb.nranks = (int)l->nranks;
	mb.has_ended = 1;
	mb.ended = (uint32_t)l->ended;
	mb.ended_ns = l->ended_ns;
	mb.ended_error_ns = l->error_ns;
	mb.transfers_ended = (uint32_t)l->recvs;
	mb.transfers_ended_ns = l->recvs_ns;
	r.now_ns = (l->second + 10) * SECOND_NS;
	r.processes = processes;
	r.n_processes = 1;
	return err ? err : slow_ranks_take(&w->slow, &h, &r, "recorded");
}

static int second_end(struct walk *w)
{
	int err;

	w->found.n = 0;
	err = slow_ranks_find(&w->slow, w->m, &w->found);
	for (size_t i = 0; i < w->found.n && !err; i++) {
		const struct finding *f = &w->found.items[i];

		printf("{\"second\":%" PRIu64 ",\"ranks\":[", w->second);
		for (int k = 0; k < f->n_ranks; k++)
			printf("%s%d", k ? "," : "", f->ranks[k]);
		puts("]}");
	}
	return err;
}

static int second_begin(struct walk *w, uint64_t second)
{
	const struct event tick = { .kind = EV_TICK, .ts_ns = (second + 10) * SECOND_NS };

	w->second = second;
	return model_apply(w->m, &tick);
}

static int lines_take(struct walk *w, FILE *from)
{
	struct line l;
	int n, err = second_begin(w, 0);

	while (!err && (n = fscanf(from,
				   "%" SCNu64 " %" SCNu64 " %" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
				   " %" SCNu64 " %" SCNu64,
				   &l.second, &l.rank, &l.comm, &l.nranks, &l.ended, &l.ended_ns, &l.error_ns, &l.recvs,
				   &l.recvs_ns)) != EOF) {
		if (n != 9 || l.rank >= RANKS_MAX || l.nranks > RANKS_MAX || l.second < w->second)
			return -EINVAL;
		if (l.second != w->second) {
			err = second_end(w);
			err = err ? err : second_begin(w, l.second);
		}
		err = err ? err : line_take(w, &l);
	}
	return err ? err : second_end(w);
}

int durations_judge(const char *path)
{
	FILE *from = fopen(path, "r");
	int err = from ? -ENOMEM : -errno;
	struct walk *w = from ? calloc(1, sizeof(*w)) : NULL;

	if (w)
		w->m = model_new();
	if (w && w->m)
		err = lines_take(w, from);
	if (w) {
		slow_ranks_free(&w->slow);
		finding_list_free(&w->found);
		model_free(w->m);
	}
	free(w);
	if (from)
		fclose(from);
	return err;
}
