/* SPDX-License-Identifier: Apache-2.0
 *
 * escalation.c - see escalation.h. The tier of a process is a function of the time since its escalation began.
 */
#include "session/rules/escalation.h"

#include <errno.h>
#include <stdlib.h>

struct raised {
	uint32_t tgid;
	enum tier tier;
	uint64_t incident, since_ns;
	struct raised *next;
};

struct escalation {
	struct escalation_cfg cfg;
	struct raised *all; /* escalated, or in the pause after it */
};

struct escalation *escalation_new(const struct escalation_cfg *cfg)
{
	struct escalation *e = calloc(1, sizeof(*e));

	if (e)
		e->cfg = *cfg;
	return e;
}

void escalation_set(struct escalation *e, const struct escalation_cfg *cfg)
{
	e->cfg = *cfg;
}

void escalation_free(struct escalation *e)
{
	while (e && e->all)
		escalation_forget(e, e->all->tgid);
	free(e);
}

static struct raised **raised_find(struct escalation *e, uint32_t tgid)
{
	struct raised **at = &e->all;

	while (*at && (*at)->tgid != tgid)
		at = &(*at)->next;
	return at;
}

int escalation_raised(const struct escalation *e)
{
	int n = 0;

	for (const struct raised *r = e->all; r; r = r->next)
		n += r->tier != TIER_WATCH;
	return n;
}

int escalation_note(struct escalation *e, uint32_t tgid, uint64_t incident, uint64_t now_ns)
{
	struct raised **at = raised_find(e, tgid);
	int n = 0;

	for (const struct raised *r = e->all; r; r = r->next)
		n += now_ns < r->since_ns + e->cfg.raise_ns;
	if (*at || n >= ESCALATION_PROCS_MAX || !e->cfg.raise_ns)
		return 0;
	*at = calloc(1, sizeof(**at));
	if (!*at)
		return -ENOMEM;
	**at = (struct raised){ .tgid = tgid, .tier = TIER_WATCH, .incident = incident, .since_ns = now_ns };
	return 0;
}

bool escalation_ask(struct escalation *e, uint32_t tgid, uint64_t now_ns)
{
	struct raised *r = *raised_find(e, tgid);

	if (r && now_ns < r->since_ns + e->cfg.raise_ns)
		return false;
	if (r && r->tier == TIER_WATCH)
		escalation_forget(e, tgid);
	return !escalation_note(e, tgid, 0, now_ns) && *raised_find(e, tgid);
}

static enum tier tier_at(const struct escalation_cfg *cfg, uint64_t passed_ns)
{
	if (passed_ns >= cfg->raise_ns)
		return TIER_WATCH;
	return passed_ns >= cfg->burst_after_ns && passed_ns < cfg->burst_after_ns + cfg->burst_ns ? TIER_BURST
												   : TIER_TRACE;
}

bool escalation_next(struct escalation *e, uint64_t now_ns, struct tier_change *ret)
{
	struct raised **at = &e->all, *r;

	while ((r = *at)) {
		uint64_t passed_ns = now_ns - r->since_ns;
		enum tier tier = tier_at(&e->cfg, passed_ns);

		if (tier != r->tier) {
			*ret = (struct tier_change){
				.tgid = r->tgid, .tier = tier, .before = r->tier, .incident = r->incident
			};
			r->tier = tier;
			return true;
		}
		if (passed_ns < e->cfg.raise_ns + e->cfg.pause_ns) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		free(r);
	}
	return false;
}

void escalation_forget(struct escalation *e, uint32_t tgid)
{
	struct raised **at = raised_find(e, tgid), *r = *at;

	if (!r)
		return;
	*at = r->next;
	free(r);
}
