/* SPDX-License-Identifier: Apache-2.0
 *
 * sampler.h - the half of a source (source.h) that has no probes: it reads of the targets or the machine from outside,
 * now and then, and writes what it saw as records, which go the way of all others (merge, recording, decode), so that a
 * replay knows them. A sample must never block: whatever can goes through the reader or a child with a deadline.
 */
#ifndef RANKTRACE_SAMPLER_H
#define RANKTRACE_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "schemas/wire.h"

struct reader;
struct shares;
struct target_proc;
struct target_set;

enum { /* tiers of a session in which a sampler runs, as bits */
       SAMPLER_WATCH = 1,
       SAMPLER_PROBES = 2, /* trace and burst */
       SAMPLER_ALWAYS = 3,
};

struct side_thread;

struct sampler_ctx { /* all borrowed; lives as long as the sampler */
	struct reader *reader;
	struct target_set *targets;
	struct shares *shares; /* what each user's processes may cost in a turn; NULL: no limit */
	/* Is this process one that the session traces, now? The set lists every candidate of the host. */
	bool (*is_traced)(const void *of, const struct target_proc *p);
	const void *is_traced_of;
	/* Has it no probes, as the budget took them or they wait, or did they come too late? NULL: never. */
	bool (*is_unseen)(const void *of, const struct target_proc *p);
	int (*emit)(void *to, const struct wire_hdr *rec); /* copied; what it returns ends the session: pass it on */
	void *emit_to;
	uint64_t start_ns;      /* of the session (CLOCK_MONOTONIC) */
	uint64_t start_boot_ns; /* the same on the clock of target_proc.start_time_ns */
	uint64_t dstate_limit_ns;
	bool probes;              /* some process may have probes: tier trace or burst */
	uint64_t thread_limit_ns; /* a thread that is at work for longer gets a successor; 0: a minute */
	uint64_t until_ns;        /* of one sample (CLOCK_MONOTONIC): from then on what may wait does; 0: no limit */
	bool often;               /* for some seconds only: sample as often as the values are renewed */
};

struct sampler {
	unsigned int tiers; /* SAMPLER_* */
	uint64_t period_ns; /* between the begins of two samples; what needs fewer counts for itself */
	const char *remedy; /* what to do about a failure, in words: "run as root, or with CAP_SYSLOG" */
	/* 0, or -errno: reported once, and this sampler stays off. -ENOTSUP: stays off, silently. */
	int (*open)(const struct sampler_ctx *ctx, void **ret_state);
	/* After the processes were looked for. 0, or -errno: reported once, and it is asked again after the next
	 * period. The target set's pointers are good until it returns. */
	int (*sample)(void *state, uint64_t now_ns);
	/* NULL, as open() may leave the state, is fine. What a thread of its own that does not come back uses stays. */
	void (*close)(void *state);
	/* Its thread, where it has one: one that does not come back is left behind, with its state, for a new one.
	 * NULL: none. */
	struct side_thread *(*side)(void *state);
};

struct samplers;

/* Opens those of this tier. 0 or -ENOMEM. */
int samplers_open(const struct sampler_ctx *ctx, struct samplers **ret);
/* From now on, each samples as often as its values are renewed, or as it does by itself. */
void samplers_often(struct samplers *s, bool often);
/* Looks with those that are due: with one at least, with no further one from until_ns on (CLOCK_MONOTONIC); the next
 * call begins behind it. 0, or what emit() returned. */
int samplers_run(struct samplers *s, uint64_t now_ns, uint64_t until_ns);
void samplers_free(struct samplers *s);

#endif
