/* SPDX-License-Identifier: Apache-2.0
 *
 * session_private.h - shared by session.c (the loop) and reload.c (settings that change meanwhile). Private to them.
 */
#ifndef RANKTRACE_SESSION_PRIVATE_H
#define RANKTRACE_SESSION_PRIVATE_H

#include "session/parts/hurry.h"
#include "session/parts/notify.h"
#include "session/parts/tick_grid.h"
#include "session/session.h"

struct pace {               /* periods of the loop's work */
	uint32_t loop_ns;   /* empty the rings */
	uint64_t rescan_ns; /* rescan young processes */
	uint64_t scan_ns;   /* scan all processes of the host */
	uint64_t progress_ns;
};

struct session {
	struct session_cfg cfg;
	const struct pace *pace;
	struct reader *reader;
	struct pipeline *pipeline;
	struct target_set *set;
	struct shares *shares; /* what each user's processes may cost */
	struct symbolizer *symbols;
	struct loader *loader;
	struct session_targets *targets;
	struct greeting *greeting;
	struct samplers *samplers;
	struct escalator *escalator;       /* tier watch only, else NULL */
	struct session_stacks *stacks;     /* NULL none */
	struct session_phases *phases;     /* NULL: none are kept */
	struct probe_budget *probe_budget; /* NULL: no limit on the cost of probes */
	struct reorder *reorder;
	struct flight *flight; /* NULL: off */
	struct windows windows;
	struct notify notify; /* the service manager */
	struct hurry hurry;
	int timer_fd, signal_fd, child_fd;
	uint64_t start_boot_ns; /* same moment as start_ns, on the clock of process start times */
	uint64_t start_ns, tick_ns, rescan_ns, scan_ns, flush_ns, trim_ns, progress_ns; /* last time of each */
	struct tick_grid ticks;
	unsigned int part;    /* of a turn's long work, the next one (long_work.h) */
	uint64_t page_gap_ns; /* longest without a turn since the last page of metrics */
	struct session_result result;
	uint64_t realtime_offset_ns; /* as last emitted */
	bool comms_refused_said;
	bool stop, more, tick_soon; /* more: the last poll left records in the rings; tick_soon: a change cannot wait */
};

struct wire_hdr session_record(size_t size, uint8_t kind, uint64_t now_ns); /* the collector's */
int session_emit(void *session, const struct wire_hdr *rec);

/* reload.c: what any signal asks for; how far the session is; SIGHUP; a message of the user */
void session_signals_take(struct session *s);
void session_progress_say(const struct session *s, void (*say)(const char *format, ...));
void session_reload(struct session *s);
void session_asked(struct session *s);
/* Every turn: settings that came by another way, without outputs. */
void settings_turn(struct session *s);

#endif
