/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_metrics.c - see hub_metrics.h.
 */
#include "hub/hub_metrics.h"

#include "base/larger.h"
#include "command.h"
#include "model/ahead.h"

struct job_sum {
	unsigned int ranks, unobserved;
	uint64_t moved_ns;
	bool any[TALLY_KINDS]; /* a rank of it is in a communicator of that kind */
	uint64_t lag[TALLY_KINDS];
};

const char *hub_refused_text(int why)
{
	return why == HUB_REFUSED_FORGED ? "published for a host by another name" : report_fault_text(why);
}

/* --- hosts and reports --- */

static void hosts_write(struct page *p, const struct hosts *hosts, uint64_t now_ns)
{
	unsigned int reporting = 0, silent = 0, paused = 0;
	uint64_t missing = 0;

	for (const struct host *h = hosts->all; h; h = h->hh.next) {
		bool is_silent = now_ns > h->at_ns + HOSTS_SILENT_NS;

		silent += is_silent;
		paused += !is_silent && h->paused;
		reporting += !is_silent && !h->paused;
		missing += h->n_missing;
	}
	page_put(p, METRIC_HUB_HOSTS, reporting, "reporting");
	page_put(p, METRIC_HUB_HOSTS, silent, "silent");
	page_put(p, METRIC_HUB_HOSTS, paused, "paused");
	page_put(p, METRIC_HUB_MISSING, (double)missing);
}

static void reports_write(struct page *p, const struct hub_health *of)
{
	page_put(p, METRIC_HUB_REPORTS, (double)of->n_reports);
	page_put(p, METRIC_HUB_REPEATED, (double)of->n_repeated);
	page_put(p, METRIC_HUB_CARRIED, (double)of->n_carried);
	for (int why = REPORT_GOOD + 1; why < HUB_REFUSED_KINDS; why++)
		page_put(p, METRIC_HUB_REFUSED, (double)of->refused[why], hub_refused_text(why));
	page_put(p, METRIC_HUB_UNREAD, (double)of->n_unread);
	if (of->last_report_ns)
		page_put(p, METRIC_HUB_LAST_REPORT, (double)of->last_report_ns * 1e-9);
}

/* --- jobs --- */

static void member_count(struct job_sum *s, const struct member *mb)
{
	enum tally_kind k = tally_kind_of(mb->comm);

	if (mb->gone || !tally_sighted(mb))
		return;
	s->any[k] = true;
	s->lag[k] = larger(s->lag[k], tally_lag(mb));
	s->moved_ns = larger(s->moved_ns, tally_moved_ns(mb));
}

static bool is_first_of_rank(const struct proc *p, const struct member *mb)
{
	const struct member *o = p->members;

	while (o != mb && member_rank(o) != member_rank(mb))
		o = o->next_in_proc;
	return o == mb;
}

static unsigned int ranks_of(const struct proc *p)
{
	unsigned int n = 0;

	if (!p->shared)
		return 1;
	for (const struct member *mb = p->members; mb; mb = member_next_in_proc(mb))
		n += !mb->gone && is_first_of_rank(p, mb);
	return n;
}

static struct job_sum sum_of(const struct model *m)
{
	struct job_sum s = { 0 };

	for (const struct proc *p = m->procs; p; p = proc_next(p)) {
		unsigned int n = p->dead || p->is_child ? 0 : ranks_of(p);

		s.ranks += n;
		s.unobserved += proc_unobserved(p) ? n : 0;
		for (const struct member *mb = n ? p->members : NULL; mb; mb = member_next_in_proc(mb))
			member_count(&s, mb);
	}
	return s;
}

static unsigned int hosts_of(const struct hub_job *j, const struct model *m)
{
	unsigned int n = 0;

	for (const struct keyed *k = j->fed.nodes.all; k; k = k->next) {
		const struct node *node = model_node(m, (uint32_t)k->a);

		n += node && node->n_procs;
	}
	return n;
}

static void job_write(struct page *p, const struct hub_job *j)
{
	const struct model *m = pipeline_model(j->pipeline);
	struct job_sum s = sum_of(m);

	page_put(p, METRIC_HUB_JOB_HOSTS, hosts_of(j, m), j->name);
	page_put(p, METRIC_HUB_JOB_RANKS, s.ranks, j->name);
	page_put(p, METRIC_HUB_JOB_UNOBSERVED, s.unobserved, j->name);
	for (enum tally_kind k = 0; k < TALLY_KINDS; k++)
		if (s.any[k])
			page_put(p, METRIC_HUB_JOB_LAG, (double)s.lag[k], j->name, tally_kind_name(k));
	if (s.moved_ns)
		page_put(p, METRIC_HUB_JOB_LAST_COLLECTIVE, (double)(s.moved_ns + m->realtime_offset_ns) * 1e-9,
			 j->name);
	write_finding_ages(p, METRIC_HUB_FINDING_AGE, pipeline_incidents(j->pipeline), m);
}

static void jobs_write(struct page *p, const struct hub_health *of, const struct hub_job *jobs)
{
	struct finding_counts counts = { 0 };
	unsigned int owned = 0, standby = 0;

	finding_counts_add(&counts, NULL, &of->forgotten);
	for (const struct hub_job *j = jobs; j; j = j->next) {
		owned += j->taken;
		standby += !j->taken;
		finding_counts_add(&counts, j->taken ? pipeline_incidents(j->pipeline) : NULL, &j->findings);
		if (j->taken)
			job_write(p, j);
	}
	page_put(p, METRIC_HUB_JOBS, owned, "owned");
	page_put(p, METRIC_HUB_JOBS, standby, "standby");
	write_finding_counts(p, METRIC_HUB_FINDINGS_OPEN, METRIC_HUB_FINDINGS, &counts);
}

void hub_metrics_write(struct page *p, const struct hub_health *of, const struct hosts *hosts,
		       const struct hub_job *jobs, uint64_t now_ns)
{
	page_put(p, METRIC_HUB_INFO, 1, RANKTRACE_VERSION);
	hosts_write(p, hosts, now_ns);
	reports_write(p, of);
	jobs_write(p, of, jobs);
	write_process(p, of->start_realtime_ns, of->turn_gap_ns);
}
