/* SPDX-License-Identifier: Apache-2.0
 *
 * sched_sample.c - see sched_sample.h.
 */
#include "tracers/sched/sched_sample.h"

static void stay_account(struct sched_sampled *k, uint64_t ns)
{
	switch (k->state) {
	case SCHED_DISK: k->disk_ns += ns; break;
	case SCHED_STOPPED: k->stopped_ns += ns; /* fall through */
	case SCHED_SLEEP: k->sleep_ns += ns; break;
	}
}

void sched_sample_take(struct sched_sampled *k, const struct sched_sample *l, uint64_t now_ns, struct sched_entry *ret)
{
	bool same = k->at_ns && k->state == l->state && k->switches == l->switches;

	if (same)
		stay_account(k, now_ns - k->at_ns);
	else
		k->since_ns = now_ns;
	k->at_ns = now_ns;
	k->state = l->state;
	k->switches = l->switches;
	*ret = (struct sched_entry){
		.since_ns = k->since_ns,
		.off_since_ns = k->since_ns,
		.tgid = l->tgid,
		.state = l->state,
		.off_state = l->state,
		.run_ns = l->run_ns,
		.wait_ns = l->wait_ns,
		.sleep_ns = k->sleep_ns,
		.disk_ns = k->disk_ns,
		.stopped_ns = k->stopped_ns,
		.call.waits_at = l->waits_at,
	};
}
