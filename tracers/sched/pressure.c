/* SPDX-License-Identifier: Apache-2.0
 *
 * pressure.c - what tasks wait for (PSI): of the whole host, and the CPU's of each rank's cgroup where the kernel keeps
 * it. Quotas and throttled time of the cgroups are the scheduler tracer's (user/target/cpu_quota.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracers/sched/pressure.h"
#include "source.h"
#include "schemas/collector.h"
#include "tracers/sched/cpu_quota.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"

struct pressure_sampler {
	const struct sampler_ctx *ctx;
	struct cgroup_mounts mounts;
};

static const char *const resources[PRESSURE_RESOURCES] = { "cpu", "memory", "io" };

/* Totals stand in microseconds: "some avg10=0.00 avg60=0.00 avg300=0.00 total=123". */
void pressure_parse(const char *text, int resource, struct pressure_totals *to)
{
	static const char *const lines[2] = { "some ", "full " };

	for (int full = 0; full < 2; full++) {
		const char *line = strstr(text, lines[full]), *total = line ? strstr(line, "total=") : NULL;

		if (!total || memchr(line, '\n', total - line))
			continue;
		to->stall_ns[resource][full] = 1000 * strtoull(total + 6, NULL, 10);
		to->known |= 1u << (2 * resource + full);
	}
}

static int emit(const struct pressure_sampler *s, struct record_pressure *f, uint32_t tgid, uint64_t now_ns)
{
	if (!f->body.known)
		return 0;
	f->hdr = (struct wire_hdr){
		.size = sizeof(*f), .tracer = WIRE_COLLECTOR, .kind = RECORD_PRESSURE, .tgid = tgid, .ts_ns = now_ns
	};
	return s->ctx->emit(s->ctx->emit_to, &f->hdr);
}

static int host_sample(const struct pressure_sampler *s, uint64_t now_ns)
{
	struct record_pressure f = { 0 };
	char text[512];

	for (int r = 0; r < PRESSURE_RESOURCES; r++)
		if (proc_read(text, sizeof(text), "/proc/pressure/%s", resources[r]) > 0)
			pressure_parse(text, r, &f.body);
	return emit(s, &f, 0, now_ns);
}

/* Version 2 only: version 1 keeps no pressure of a cgroup. */
static int proc_sample(const struct pressure_sampler *s, const struct target_proc *p, uint64_t now_ns)
{
	struct record_pressure f = { 0 };
	char text[4096], dir[2 * CGROUP_PATH_MAX];
	bool v2;

	if (proc_read(text, sizeof(text), "/proc/%u/cgroup", p->tgid) <= 0 ||
	    cgroup_cpu_dir(&s->mounts, text, dir, &v2) || !v2)
		return 0;
	for (int r = 0; r < PRESSURE_RESOURCES; r++)
		if (proc_read(text, sizeof(text), "%s/%s.pressure", dir, resources[r]) > 0)
			pressure_parse(text, r, &f.body);
	return emit(s, &f, p->tgid, now_ns);
}

static int pressure_sample(void *state, uint64_t now_ns)
{
	const struct pressure_sampler *s = state;
	size_t n = 0;
	const struct target_proc *const *list = s->ctx->targets ? target_set_list(s->ctx->targets, &n) : NULL;
	int err = host_sample(s, now_ns);

	for (size_t i = 0; i < n && !err; i++)
		if (!list[i]->is_child && list[i]->rank >= 0 && s->ctx->is_traced(s->ctx->is_traced_of, list[i]))
			err = proc_sample(s, list[i], now_ns);
	return err;
}

static int pressure_open(const struct sampler_ctx *ctx, void **ret)
{
	struct pressure_sampler *s;

	if (access("/proc/pressure/cpu", R_OK)) /* a kernel without CONFIG_PSI, or with psi=0 */
		return -ENOTSUP;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->ctx = ctx;
	cgroup_mounts_read("/proc/self/mountinfo", &s->mounts);
	*ret = s;
	return 0;
}

static const struct sampler pressure_sampler = {
	.tiers = SAMPLER_ALWAYS,
	.period_ns = 5000000000ull,
	.remedy = "is /proc/pressure/cpu readable? run as root",
	.open = pressure_open,
	.sample = pressure_sample,
	.close = free,
};

const struct source_live source_pressure = { .sampler = &pressure_sampler };
