/* SPDX-License-Identifier: Apache-2.0
 *
 * pages.c - see pages.h.
 */
#include "top/pages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/parallel.h"
#include "sink/incident_text.h"
#include "waits_for.h"

#define THREADS_SHOWN 12

void top_duration(char *to, size_t size, double s)
{
	if (!(s > 0))
		snprintf(to, size, "-");
	else if (s >= 36000)
		snprintf(to, size, "%.0f h", s / 3600);
	else if (s >= 600)
		snprintf(to, size, "%.0f min", s / 60);
	else if (s >= 10)
		snprintf(to, size, "%.0f s", s);
	else if (s >= 1)
		snprintf(to, size, "%.1f s", s);
	else
		snprintf(to, size, "%.0f ms", s * 1e3);
}

const char *top_gpu_role(enum gpu_role role)
{
	static const char *const names[] = { "", "in_nccl", "other", "works", "idle" };

	return names[role];
}

/* --- a rank --- */

static void text_head(struct text *t, const char *label)
{
	text_add(t, "\n %s\n", label);
}

static void text_named(struct text *t, const char *what, const char *name)
{
	if (!*name)
		return;
	text_add(t, ", %s ", what);
	text_foreign(t, name, NULL);
}

static void text_identity(struct text *t, const struct top_row *r)
{
	const struct proc *p = r->proc;
	char wait[32];

	text_add(t, r->rank >= 0 ? " rank %d" : " rank unknown", r->rank);
	text_add(t, ", pid %u", p->tgid);
	text_named(t, "host", r->host);
	text_named(t, "job", r->job);
	text_named(t, "pod", p->pod_name);
	text_named(t, "Slurm job", p->slurm_job);
	text_named(t, "command", p->name);
	top_duration(wait, sizeof(wait), (double)r->wait_ns * 1e-9);
	text_add(t, "\n %s: %s", top_state_name(r->state), top_state_help(r->state));
	text_add(t, r->wait_ns ? "; entered nothing for %s\n" : "\n", wait);
}

static void text_comms(struct text *t, const struct top_row *r, uint64_t now_ns)
{
	text_head(t, "COMMUNICATORS        for     rank of size    entered   behind   without a move");
	for (const struct member *mb = r->proc->members; mb; mb = mb->next_in_proc) {
		const char *use = parallelism_name(mb->comm->parallelism);
		uint64_t most = mb->comm->highest_seq[SEQ_COLL], own = mb->entered_seq[SEQ_COLL];
		uint64_t at_ns = mb->last_call_ns > mb->samples.since_ns ? mb->last_call_ns : mb->samples.since_ns;
		char still[32] = "-", behind[24] = "?";

		if (mb->gone)
			continue;
		if (member_comparable(mb, SEQ_COLL))
			snprintf(behind, sizeof(behind), "%llu", (unsigned long long)(most > own ? most - own : 0));
		if (at_ns && now_ns > at_ns)
			top_duration(still, sizeof(still), (double)(now_ns - at_ns) * 1e-9);
		text_add(t, "  0x%016llx   %-6s %5d %7d %10llu %8s   %s\n", (unsigned long long)mb->comm->hash,
			 use ? use : "?", mb->rank, mb->comm->nranks, (unsigned long long)own, behind, still);
	}
}

static void text_findings(struct text *t, const struct top_row *r, const struct top_table *table)
{
	text_head(t, "FINDINGS");
	for (size_t k = 0; k < table->n_found; k++) {
		const struct incident *i = table->found[k].i;

		if (table->found[k].m != r->part->m || !top_finding_names(&i->f, r->proc, r->rank))
			continue;
		text_add(t, "  %s %s: ", severity_name(i->f.severity), finding_kind_shown(&i->f));
		incident_text_sentence(t, i);
		text_add(t, "\n");
	}
	if (!r->n_findings)
		text_add(t, "  none is open that names it\n");
}

/* Lines of a stack, indented. */
static void text_frames(struct text *t, const char *frames)
{
	while (*frames) {
		size_t len = strcspn(frames, "\n");
		char line[512];

		snprintf(line, sizeof(line), "%.*s", (int)(len < sizeof(line) ? len : sizeof(line) - 1), frames);
		text_add(t, "      ");
		text_foreign(t, line, NULL);
		text_add(t, "\n");
		frames += len + (frames[len] == '\n');
	}
}

static void text_thread(struct text *t, const struct task *task, uint64_t now_ns)
{
	char waits[640] = "", age[32];

	text_add(t, "  ");
	text_foreign(t, *task->name ? task->name : "thread", NULL); /* new, and not read yet */
	text_add(t, " (%u): %s", task->tid, task_state_name(task->state));
	if (task->wait.ns)
		wait_text(&task->wait, waits, sizeof(waits));
	text_add(t, *waits ? ", " : "");
	text_foreign(t, waits, NULL);
	if (task->stack.ns) {
		top_duration(age, sizeof(age), (double)(now_ns - task->stack.ns) * 1e-9);
		text_add(t, "; stack read %s ago", age);
	}
	text_add(t, "\n");
	if (task->blocked && task->kernel_stack && *task->kernel_stack)
		text_frames(t, task->kernel_stack);
	if (task->stack.ns)
		text_frames(t, task->stack.frames);
}

/* The main thread, then those whose stack was read or that are blocked, then others as far as there is room. */
static void text_threads(struct text *t, const struct proc *p, uint64_t now_ns, bool live)
{
	int n = 0, more = 0;

	text_head(t, "THREADS, their stacks innermost first");
	for (int round = 0; round < 3; round++)
		for (const struct task *x = p->tasks; x; x = x->next) {
			int of = x->tid == p->tgid ? 0 : x->stack.ns || x->blocked ? 1 : 2;

			if (of != round)
				continue;
			if (n++ < THREADS_SHOWN)
				text_thread(t, x, now_ns);
			else
				more++;
		}
	if (more)
		text_add(t, "  and %d more: ranktrace ps --stacks has all\n", more);
	if (p->outside.stacks_unread)
		text_add(t, "  its stacks were not read: %s\n", p->outside.stacks_unread);
	text_add(t, live ? "  u reads its main thread's stack now\n"
			 : "  (a stack is there where the session read one: of a hang's ranks)\n");
}

static void page_rank(struct text *to, const struct top_view *v, const struct top_table *t, const struct top_source *s)
{
	const struct top_row *r = top_view_row(v, t);

	if (!r) {
		text_add(to, " this rank is not there at this time (its process ended, or had not begun)\n");
		return;
	}
	text_identity(to, r);
	text_findings(to, r, t);
	text_threads(to, r->proc, r->part->m->now_ns, s->takes_requests);
	text_comms(to, r, r->part->m->now_ns);
}

/* --- a finding --- */

static void page_finding(struct text *to, const struct top_view *v, const struct top_table *t)
{
	const struct top_found *found = top_view_found(v, t);
	const struct incident *i = found ? found->i : NULL;

	if (!i) {
		text_add(to, " finding %s is not open at this time\n", v->incident);
		return;
	}
	text_add(to, " ");
	incident_text_head(to, i);
	incident_text_place(to, i, found->m);
	incident_text_sentence(to, i);
	text_add(to, "\n");
	incident_text_block(to, i, found->m);
	text_add(to, "\n EVIDENCE\n");
	incident_text_evidence(to, &i->f, found->m);
}

/* --- GPUs, as nvitop has them: devices, then processes --- */

static void text_percent(struct text *t, double percent)
{
	if (percent < 0)
		text_add(t, "%6s", "-");
	else
		text_add(t, "%5.0f%%", percent);
}

static void text_value(struct text *t, int width, uint32_t value, double unit, const char *name)
{
	char text[24] = "-";

	if (value != GPU_NO_VALUE)
		snprintf(text, sizeof(text), "%.0f%s", value * unit, name);
	text_add(t, "%*s", width, text);
}

static const char *gpu_health_word(const struct gpu *g)
{
	const struct gpu_checkup *c = gpu_checkup(g, 0);

	switch (g->answer) {
	case GPU_IS_THERE: break;
	case GPU_IS_LOST: return "LOST";
	case GPU_WANTS_RESET: return "NEEDS RESET";
	default: return "NO ANSWER";
	}
	if (!c)
		return "";
	if (c->h.rows_failed == 1)
		return "remap failed";
	if (c->h.rows_pending == 1)
		return "remap pending";
	return c->h.ecc_uncorrected != ~0ull && c->h.ecc_uncorrected ? "ECC errors" : "ok";
}

static void text_gpu(struct text *t, const struct gpu *g, const struct model *m)
{
	const struct gpu_sampled *s = gpu_sample(g, 0);
	static const char maker[] = "NVIDIA ";
	const char *name = *g->name ? g->name : "?";
	char shown[16];
	uint64_t since_ns = m->now_ns > 5000000000ull ? m->now_ns - 5000000000ull : 0;
	uint64_t slow =
		s && s->s.slowdown != ~0ull ? s->s.slowdown & ~(uint64_t)(GPU_SLOW_IDLE | GPU_SLOW_APP_CLOCKS) : 0;

	name += strncmp(name, maker, sizeof(maker) - 1) ? 0 : sizeof(maker) - 1;
	snprintf(shown, sizeof(shown), "%s", name);
	text_add(t, "  %3u  ", g->device.index);
	text_foreign(t, shown, NULL);
	text_add(t, "%*s", (int)(sizeof(shown) - strlen(shown)), "");
	text_add(t, "%-8s", top_gpu_role(gpu_activity_since(g, since_ns, m->now_ns).role));
	if (s) {
		text_percent(t, s->s.window_ns ? gpu_percent(s->s.sm_bp) : -1);
		text_percent(t, s->s.window_ns ? gpu_percent(s->s.tensor_bp) : -1);
		text_percent(t, s->s.window_ns ? gpu_percent(s->s.dram_bp) : -1);
		text_value(t, 6, s->s.power_mw, 1e-3, "W");
		text_value(t, 5, s->s.temperature_c, 1, "C");
		text_value(t, 8, s->s.sm_clock_mhz, 1, "MHz");
	}
	text_add(t, "  %s%s\n", gpu_health_word(g), slow ? " slowed" : "");
}

/* "-": the driver does not say, as of a process in a container, or where shares are not counted (MIG). */
static void text_usage(struct text *t, const struct gpu_usage *u)
{
	char memory[24] = "-";

	if (u && u->memory_mib != GPU_NO_VALUE)
		snprintf(memory, sizeof(memory), u->memory_mib < 10240 ? "%.0f MiB" : "%.1f GiB",
			 u->memory_mib < 10240 ? u->memory_mib : u->memory_mib / 1024.0);
	text_add(t, "%10s", memory);
	text_percent(t, u && u->sm_percent != GPU_NO_VALUE ? (double)u->sm_percent : -1);
}

static void text_gpu_procs(struct text *t, const struct gpu *g, const struct model *m)
{
	for (uint32_t i = 0; i < g->procs.n && i < GPU_PIDS_MAX; i++) {
		const struct proc *p = model_proc(m, proc_key(g->node->number, g->procs.pids[i]));
		const struct task *main_task = p ? model_task(m, p->key, p->tgid) : NULL;
		double cpu = main_task ? task_cpu_share(main_task) : -1;
		int rank = p ? proc_rank(p) : -1;
		char number[16] = "-";

		if (rank >= 0)
			snprintf(number, sizeof(number), "%d", rank);
		text_add(t, "  %3u  %8u %6s", g->device.index, g->procs.pids[i], number);
		text_usage(t, gpu_usage_of(g, g->procs.pids[i]));
		text_percent(t, cpu < 0 ? -1 : 100 * cpu);
		text_add(t, "  ");
		text_foreign(t, p ? p->name : "(no training process)", NULL);
		text_named(t, "job", p ? p->job->shown : "");
		text_add(t, "\n");
	}
}

static const char *host_of(const struct node *node, const struct model *m)
{
	return *node->name ? node->name : m->host ? m->host : "";
}

static unsigned int text_gpus(struct text *to, const struct node *node, const struct model *m)
{
	unsigned int n = 0;

	if (!node->gpus.all)
		return 0;
	text_add(to, " %s\n  GPU  name            does       SM tensor  DRAM power temp   clock  health\n",
		 host_of(node, m));
	for (const struct gpu *g = node->gpus.all; g; g = g->next, n++)
		text_gpu(to, g, m);
	text_add(to, "  GPU       PID   rank    memory    SM   CPU  process\n");
	for (const struct gpu *g = node->gpus.all; g; g = g->next)
		text_gpu_procs(to, g, m);
	text_add(to, "\n");
	return n;
}

/* Of all hosts; of one, where that is open. */
static void page_gpus(struct text *to, const struct top_view *v, const struct top_table *t)
{
	unsigned int n = 0;

	for (const struct top_part *p = t->parts; p < t->parts + t->n_parts; p++)
		for (const struct node *node = model_next_node(p->m, NULL); node; node = model_next_node(p->m, node))
			if (!v->choice.host || !strcmp(v->choice.host, host_of(node, p->m)))
				n += text_gpus(to, node, p->m);
	if (!n)
		text_add(to,
			 " no GPU is known: no driver (NVML) on this host, or its records are not in this recording\n");
}

/* --- help and messages --- */

static void page_help(struct text *to, const struct top_source *s)
{
	text_add(to, " LIST      arrows, PgUp, PgDn, Home, End: move    Enter: open    Backspace, Esc: back\n"
		     "           1 ranks   2 findings   3 GPUs and their processes   4 messages\n"
		     "           s, S: sort by the next, the last value   r: reverse\n"
		     "           g: a row a rank, a host, a job   /: filter by job, host, state, finding, rank\n");
	text_add(to, " SESSION   t: probes in this rank for a while (tier trace)   u: read its stack now\n"
		     "           d: dump the flight recorder   a: acknowledge the finding   q: quit\n");
	if (s->seekable)
		text_add(to,
			 " TIME      left, right: 1 s   , .: a quarter second   < >: a twentieth   ^ $: begin, end\n"
			 "           n, N: the next finding, the one before   Space: play, stop\n");
	else
		text_add(to, " TIME      Space: hold the picture, go on\n");
	text_add(to, "\n STATE\n");
	for (int i = 0; i < TOP_STATE_MAX; i++)
		text_add(to, "   %-8s %s\n", top_state_name(i), top_state_help(i));
	text_add(to, "\n COLUMNS\n"
		     "   OPERATION  where it stands: communicator's use, number, kind where probes show it\n"
		     "   LAG        collectives behind the first of a communicator\n"
		     "   WAIT       since it last entered an operation\n"
		     "   STEP       median time of its last iterations, while probes show them\n"
		     "   PHASE      of its step, as PyTorch says, while probes show them\n"
		     "   GPU        its index, and what it does: in_nccl waits, other: a kernel that is not NCCL's;\n"
		     "              slowed: the driver holds its clocks back, by power or heat (page 3)\n"
		     "   FINDING    the gravest that names it\n"
		     "   of a row for many: WAIT with those that stand, DOWN dead, stopped, in D state or silent;\n"
		     "   LAG, LONGEST (WAIT) and STEP are the most of one\n");
}

void top_page_text(struct text *to, const struct top_view *v, const struct top_table *t, const struct top_source *s)
{
	switch (v->page) {
	case TOP_RANK: page_rank(to, v, t, s); break;
	case TOP_FINDING: page_finding(to, v, t); break;
	case TOP_GPUS: page_gpus(to, v, t); break;
	case TOP_MESSAGES: text_add(to, "%s", *s->messages ? s->messages : " no message\n"); break;
	default: page_help(to, s); break;
	}
}
