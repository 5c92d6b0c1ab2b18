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
	uint64_t incident, since_ns, held_ns; /* held_ns: until then */
	bool asked;                           /* for a finding or a user; else it is held alone */
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

static bool is_full(const struct escalation *e, uint64_t now_ns)
{
	int n = 0;

	for (const struct raised *r = e->all; r; r = r->next)
		n += now_ns < r->held_ns || (r->asked && now_ns < r->since_ns + e->cfg.raise_ns);
	return n >= ESCALATION_PROCS_MAX;
}

/* NULL: no memory. */
static struct raised *raised_get(struct escalation *e, uint32_t tgid)
{
	struct raised **at = raised_find(e, tgid);

	if (!*at)
		*at = calloc(1, sizeof(**at));
	if (*at && !(*at)->tgid)
		**at = (struct raised){ .tgid = tgid, .tier = TIER_WATCH };
	return *at;
}

int escalation_note(struct escalation *e, uint32_t tgid, uint64_t incident, uint64_t now_ns)
{
	struct raised *r = *raised_find(e, tgid);

	if ((r && r->asked) || is_full(e, now_ns) || !e->cfg.raise_ns)
		return 0;
	r = raised_get(e, tgid);
	if (!r)
		return -ENOMEM;
	r->asked = true;
	r->incident = incident;
	r->since_ns = now_ns;
	return 0;
}

int escalation_hold(struct escalation *e, uint32_t tgid, uint64_t until_ns, uint64_t now_ns)
{
	struct raised *r = *raised_find(e, tgid);

	if (!r && is_full(e, now_ns))
		return 0;
	r = raised_get(e, tgid);
	if (!r)
		return -ENOMEM;
	r->held_ns = until_ns;
	return 0;
}

bool escalation_ask(struct escalation *e, uint32_t tgid, uint64_t now_ns)
{
	struct raised *r = *raised_find(e, tgid);

	if (r && r->asked && now_ns < r->since_ns + e->cfg.raise_ns)
		return false;
	if (r && r->tier == TIER_WATCH)
		escalation_forget(e, tgid);
	else if (r)
		r->asked = false;
	return !escalation_note(e, tgid, 0, now_ns) && *raised_find(e, tgid);
}

static enum tier tier_at(const struct escalation_cfg *cfg, const struct raised *r, uint64_t now_ns)
{
	uint64_t passed_ns = now_ns - r->since_ns;

	if (!r->asked || passed_ns >= cfg->raise_ns)
		return now_ns < r->held_ns ? TIER_TRACE : TIER_WATCH;
	return passed_ns >= cfg->burst_after_ns && passed_ns < cfg->burst_after_ns + cfg->burst_ns ? TIER_BURST
												   : TIER_TRACE;
}

bool escalation_next(struct escalation *e, uint64_t now_ns, struct tier_change *ret)
{
	struct raised **at = &e->all, *r;

	while ((r = *at)) {
		uint64_t passed_ns = now_ns - r->since_ns;
		enum tier tier = tier_at(&e->cfg, r, now_ns);

		if (tier != r->tier) {
			*ret = (struct tier_change){
				.tgid = r->tgid, .tier = tier, .before = r->tier, .incident = r->incident
			};
			r->tier = tier;
			return true;
		}
		if (now_ns < r->held_ns || (r->asked && passed_ns < e->cfg.raise_ns + e->cfg.pause_ns)) {
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
