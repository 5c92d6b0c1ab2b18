/* SPDX-License-Identifier: Apache-2.0
 *
 * crowd.c - rounds in which ends that poll share CPUs: their rates are those of the CPUs, and say nothing of a port.
 */
#include "tools/stress/rdma/rates.h"

static const struct rdma_port *end_of(const struct rdma_run *run, const struct rdma_measured *m, int role)
{
	return &run->fleet.ports[role == ROLE_FROM ? m->from : m->to].port;
}

/* Who is written to or read from waits for a word of the coordinator. */
static bool polls(const struct rdma_measured *m, int role)
{
	return role == ROLE_FROM || m->of.operation == RDMA_SEND || m->of.measure == RDMA_LATENCY;
}

/* Ends that poll in its round on the host of a port: all, and those of ports of its memory node. Measurements of a
 * round stand side by side. */
static void polling_count(const struct rdma_run *run, const struct rdma_measured *of, const struct rdma_port *p,
			  int *all, int *of_node)
{
	const struct rdma_measured *m = of, *end = run->measured + run->n_measured;

	while (m > run->measured && m[-1].round == of->round)
		m--;
	*all = *of_node = 0;
	for (; m < end && m->round == of->round; m++)
		for (int role = 0; role < 2; role++) {
			const struct rdma_port *other = end_of(run, m, role);
			bool counts = polls(m, role) && other->host == p->host;

			*all += counts;
			*of_node += counts && other->node == p->node;
		}
}

static void crowd_note(struct rdma_run *run, int host, int ends, double cpus)
{
	rdma_note(
		run,
		"host %.60s has %g CPU%s for %d ends that poll at once: rates of such rounds are not judged; start it "
		"with more (mpirun --bind-to none, srun --cpus-per-task, the container's limit)",
		run->fleet.hosts[host].hello.host, cpus, cpus == 1 ? "" : "s", ends);
}

/* Software has its rate from the CPUs in any case, and wide bounds. */
bool crowd_is(struct rdma_run *run, const struct rdma_measured *m)
{
	bool is = false;

	for (int role = 0; role < 2 && !m->soft; role++) {
		const struct rdma_port *p = end_of(run, m, role);
		int percent = run->fleet.hosts[p->host].hello.cpu_percent, all, of_node;

		polling_count(run, m, p, &all, &of_node);
		if (p->cpus && of_node > p->cpus)
			crowd_note(run, p->host, of_node, p->cpus);
		else if (percent && 100 * all > percent)
			crowd_note(run, p->host, all, percent / 100.0);
		else
			continue;
		is = true;
	}
	return is;
}
