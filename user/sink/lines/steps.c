/* SPDX-License-Identifier: Apache-2.0
 *
 * steps.c - each step of each rank as a JSON line: how long it was in which phase. Nothing in it is foreign text.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sink/line_sink.h"
#include "sink/sink_io.h"

static int steps_open(const char *path, struct sink **ret_sink)
{
	return line_sink_open(&sink_steps, path, ret_sink);
}

/* A phase that nothing shows is null. */
static int phases_print(char *to, size_t size, const struct step_done *s)
{
	int n = 0;

	for (int i = 0; i < STEP_PHASES; i++)
		if (step_shows(s, i))
			n += snprintf(to + n, size - n, ",\"%s_ns\":%" PRIu64, step_phase_name(i), s->phase_ns[i]);
		else
			n += snprintf(to + n, size - n, ",\"%s_ns\":null", step_phase_name(i));
	return n;
}

static int steps_step(struct sink *base, const struct step_done *s, const struct model *m)
{
	struct line_sink *to = (struct line_sink *)base;
	char line[784], rank[16] = "null";
	int n;

	(void)m;
	if (sink_rank(s->proc) >= 0)
		snprintf(rank, sizeof(rank), "%d", sink_rank(s->proc));
	n = snprintf(line, sizeof(line),
		     "{\"rank\":%s,\"pid\":%u,\"step\":%" PRIu64
		     ",\"ends_by\":\"%s\",\"phases_by\":\"%s\",\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64,
		     rank, s->proc->tgid, s->number, s->by_data_wait ? "data_wait" : "optimizer",
		     s->by == STEPS_BY_RANGES ? "ranges" : "operators", s->begin_ns, s->end_ns);
	n += phases_print(line + n, sizeof(line) - n, s);
	n += snprintf(line + n, sizeof(line) - n,
		      ",\"other_ns\":%" PRIu64 ",\"backwards\":%u,\"optimizer_steps\":%u,\"forward_by\":\"%s\""
		      ",\"backward_end\":\"%s\",\"operations\":%" PRIu64 ",\"gpu_wait_ns\":%" PRIu64
		      ",\"exposed_most_ns\":%" PRIu64 ",\"storage_ns\":%" PRIu64 "}\n",
		      step_other_ns(s), s->n_backward, s->n_optimizer,
		      s->forward_by_gap      ? "gap"
		      : s->forward_by_gather ? "gather"
					     : "mark",
		      s->end_by_next ? "next_mark" : "return", s->n_ops, s->gpu_wait_ns, s->exposed_most_ns,
		      step_storage_ns(s));
	return lines_out_put(&to->out, line, (size_t)n);
}

static int clock_put(struct line_sink *to, const struct proc *p, int rank, const char *gpu)
{
	const struct steps *s = rank_steps_last(p, rank);
	char line[192];
	int n = snprintf(line, sizeof(line),
			 "{\"rank\":%d,\"pid\":%u%s,\"period_ops\":%zu,\"iterations\":%" PRIu64 ",\"median_s\":%.6f}\n",
			 rank, p->tgid, gpu, s->period_ops, s->n, s->median_s);

	return lines_out_put(&to->out, line, (size_t)n);
}

/* Of a process that is several ranks: each, with its GPU. */
static int clocks_put(struct line_sink *to, const struct proc *p)
{
	const struct member *mb = rank_above(p, -1);
	char gpu[32] = "";
	int err = 0;

	for (; !err && mb; mb = rank_above(p, member_rank(mb))) {
		if (member_gpu(mb) >= 0)
			snprintf(gpu, sizeof(gpu), ",\"gpu\":%d", member_gpu(mb));
		err = clock_put(to, p, member_rank(mb), member_gpu(mb) < 0 ? "" : gpu);
	}
	return err;
}

/* At the end the iteration clock of each rank. */
static int steps_close(struct sink *base, const struct model *m)
{
	struct line_sink *to = (struct line_sink *)base;
	int err = 0, closed;

	for (const struct proc *p = m->procs; !err && p; p = p->next)
		if (p->leader == p && p->shared)
			err = clocks_put(to, p);
		else if (p->steps && p->leader == p && sink_rank(p) >= 0)
			err = clock_put(to, p, sink_rank(p), "");
	closed = line_sink_close(base, m);
	return err ? err : closed;
}

const struct sink_class sink_steps = {
	.name = "steps",
	.help = "every step of a rank, with its phases, as a JSON line",
	.lines = true,
	.open = steps_open,
	.step = steps_step,
	.close = steps_close,
};
