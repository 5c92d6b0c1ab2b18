/* SPDX-License-Identifier: Apache-2.0
 *
 * proxy_starved.c - a rank whose NCCL progress thread waits for a CPU as no peer's does, scan after scan: its transfers
 * creep, and so do everybody's. On a busy machine that is so of some rank by chance, but not of the same one scan after
 * scan. Where the hosts stand for it, too, it is a hang.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/keyed.h"
#include "detect/detect.h"
#include "detect/transfer/stalled_transfer.h"

#define SCANS_MIN 4
#define LASTS_MIN_NS 1000000000ull
#define CONFIDENCE 0.85

struct starving { /* one member, for as long as every scan says so */
	struct keyed keyed;
	const struct member *member;
	uint64_t since_ns, scan_ns;
	int n_scans;
	bool seen, hang; /* hang: reported as one, and stays one */
};

struct proxy_starved {
	struct keyed_table members;
};

static struct starving *starving_get(struct proxy_starved *s, const struct member *mb, const struct task *t)
{
	struct starving *one = keyed_get(&s->members, (uintptr_t)mb, 0, sizeof(*one));

	if (one && !one->member) {
		one->member = mb;
		one->since_ns = t->prev_seen_ns;
	}
	return one;
}

static bool stands(const struct model *m, const struct member *mb)
{
	uint64_t since_ns = transfers_unchanged_since(mb->comm, false);
	struct stalled_transfer j;

	return since_ns && m->now_ns >= since_ns + m->hang_floor_ns && stalled_transfer_find(m, mb->comm, &j);
}

static void fill(struct finding *f, const struct model *m, const struct starving *one)
{
	const struct member *mb = one->member;
	struct stalled_transfer j;

	f->kind = one->hang ? FINDING_HANG : FINDING_CPU_STARVED;
	f->class = one->hang ? HANG_INSIDE_NETWORK : HANG_NONE;
	f->cause = one->hang ? CAUSE_PROXY_STARVED : CAUSE_PROXY_THREAD;
	f->comm = mb->comm->hash;
	f->peer = -1;
	if (one->hang && stalled_transfer_find(m, mb->comm, &j) && j.coll < OP_KINDS_COUNTED) {
		f->has_op = true;
		f->op = (enum op_kind)j.coll;
		f->seq = stalled_transfer_seq(&j);
	}
	f->since_ns = one->since_ns;
	f->confidence = CONFIDENCE;
	f->subject = subject_rank(proc_rank(mb->proc), mb->proc->key);
	finding_identify(f, "proxy_starved", 0, f->comm);
	finding_add_rank(f, member_rank(mb), mb->proc->key);
	if (one->hang)
		finding_note(f, EVIDENCE_N_WAITING, mb->comm->nranks - 1);
}

static int report(const struct model *m, struct starving *one, struct finding_list *found)
{
	const struct member *mb = one->member;
	struct finding *f;

	if (finding_list_of(found, FINDING_HANG, mb->proc->key) ||
	    finding_list_of(found, FINDING_CPU_STARVED, mb->proc->key))
		return 0;
	f = finding_list_add(found);
	if (!f)
		return -ENOMEM;
	one->hang |= stands(m, mb);
	fill(f, m, one);
	proxy_thread_note(f, mb);
	finding_note(f, EVIDENCE_PEERS_WAIT_SHARE, proxy_peers_wait(mb));
	finding_note(f, EVIDENCE_N_SCANS, one->n_scans);
	stalled_transfer_note(f, found, m, mb->proc);
	return 0;
}

/* Its proxy was not read, and that of another communicator of its process was: the thread is that one's. */
static bool is_anothers(const struct member *mb)
{
	for (const struct member *o = mb->proc->members; o && !mb->proxies.n_samples; o = member_next_in_proc(o))
		if (o->proxies.n_samples)
			return true;
	return false;
}

static int member_tick(struct proxy_starved *s, const struct model *m, const struct member *mb,
		       struct finding_list *found)
{
	const struct task *t = mb->gone ? NULL : proxy_task(mb);
	struct starving *one;

	if (!t || is_anothers(mb) || proxy_thread_judge(mb) != PROXY_STARVED)
		return 0;
	one = starving_get(s, mb, t);
	if (!one)
		return -ENOMEM;
	one->seen = true;
	one->n_scans += t->seen_ns != one->scan_ns;
	one->scan_ns = t->seen_ns;
	if (one->n_scans < SCANS_MIN || t->seen_ns < one->since_ns + LASTS_MIN_NS)
		return 0;
	return report(m, one, found);
}

static bool was_seen(void *entry, const void *arg)
{
	struct starving *one = entry;
	bool seen = one->seen;

	(void)arg;
	one->seen = false;
	return seen;
}

static int proxy_starved_tick(void *state, const struct model *m, struct finding_list *found)
{
	struct proxy_starved *s = state;
	int err = 0;

	for (const struct comm *c = m->comms; !err && c; c = c->next)
		for (const struct member *mb = c->members; !err && mb; mb = member_next_in_comm(mb))
			err = member_tick(s, m, mb, found);
	keyed_keep(&s->members, was_seen, NULL);
	return err;
}

static void proxy_starved_release(void *state)
{
	struct proxy_starved *s = state;

	keyed_free(&s->members);
}

const struct detector detector_proxy_starved = {
	.name = "proxy_starved",
	.help = "a rank whose NCCL progress thread waits for a CPU as no peer's does",
	.state_bytes = sizeof(struct proxy_starved),
	.release = proxy_starved_release,
	.tick = proxy_starved_tick,
};
