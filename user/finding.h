/* SPDX-License-Identifier: Apache-2.0
 *
 * finding.h - what a detector says and a sink shows: one fault, the ranks it hits and the evidence. Detectors
 * return the set that holds now; user/incident.c turns the change between two ticks into open, update, close.
 */
#ifndef RANKTRACE_FINDING_H
#define RANKTRACE_FINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "event.h"
#include "subject.h"

/* How bad it is: info is worth knowing, warning may end by itself, critical does not, or lasts far longer than anything
 * here does (detect/severity.c). scripts/incident_schema.py --write puts them in the schema. */
/* clang-format off */
#define SEVERITIES(X) \
	X(INFO, "info") \
	X(WARNING, "warning") \
	X(CRITICAL, "critical")
/* clang-format on */

/* kinds and classes: name, then for kinds the usual severity. They are in the schema, too. */
/* clang-format off */
#define FINDING_KINDS(X) \
	X(HANG, "hang", WARNING) \
	X(STRAGGLER, "straggler", WARNING) \
	X(MISMATCH, "mismatch", CRITICAL) \
	X(D_STATE, "d_state", CRITICAL) \
	X(STOPPED, "stopped", CRITICAL) \
	X(CPU_STARVED, "cpu_starved", WARNING) \
	X(IO_STALL, "io_stall", WARNING) \
	X(XID, "xid", WARNING) \
	X(GPU_HEALTH, "gpu_health", WARNING) \
	X(LINK, "link", WARNING) \
	X(SLOW_STEP, "slow_step", INFO) \
	X(OBSERVATION, "observation", INFO) \
	X(LOST_EVENTS, "lost_events", INFO) \
	X(UNOBSERVED, "unobserved", INFO)
/* clang-format on */
/* clang-format off */
#define HANG_CLASSES(X) \
	X(NONE, "") \
	X(MISSING_ENTER, "missing_enter") \
	X(DEADLOCK, "deadlock") \
	X(P2P_UNMATCHED, "p2p_unmatched") \
	X(INSIDE_NETWORK, "inside_network") \
	X(INSIDE_GPU, "inside_gpu") \
	X(HOST_BLOCKED, "host_blocked") \
	X(STOPPED, "stopped") \
	X(PROCESS_DEAD, "process_dead") \
	X(INIT, "init") \
	X(UNKNOWN, "unknown")
/* clang-format on */

/* Evidence: what a value is (id, name in JSON, what it holds: a LIST is a text, too), and its unit (id, name, the
 * ending of names that people read as a unit, how they read it). schemas/incident.schema.json has both. */
/* clang-format off */
#define EVIDENCE_TYPES(X) \
	X(NUMBER, "number", NUMBER) \
	X(INTEGER, "integer", NUMBER) \
	X(RANK, "rank", NUMBER)      /* global; -1 not known */ \
	X(FLAG, "flag", NUMBER)      /* 0 or 1 */ \
	X(TEXT, "text", TEXT)        /* one line */ \
	X(LINES, "lines", LIST)      /* separated by line breaks */ \
	X(NAMES, "names", LIST)      /* "a,b" */ \
	X(RANKS, "ranks", LIST)      /* "0,3,?": global ranks, ? not known */ \
	X(PIDS, "pids", LIST)
#define EVIDENCE_UNITS(X) \
	X(NONE, "", "", "") \
	X(S, "s", "_s", " s") \
	X(S_AGO, "s", "_s_ago", " s ago") \
	X(MS, "ms", "_ms", " ms") \
	X(PERCENT, "%", "_percent", " %") \
	X(SHARE, "1", "", "") \
	X(PER_S, "1/s", "_per_s", " /s") \
	X(BYTES, "B", "_bytes", " B") \
	X(BYTES_PER_S, "B/s", "_bytes_per_s", " B/s") \
	X(MS_PER_MB, "ms/MB", "", "") \
	X(GBPS, "Gbit/s", "", "") \
	X(MHZ, "MHz", "", "") \
	X(W, "W", "", "") \
	X(C, "C", "", "") \
	X(CORES, "cores", "", "")
/* clang-format on */

enum evidence_type {
#define X(id, name, holds) EVIDENCE_TYPE_##id,
	EVIDENCE_TYPES(X)
#undef X
};

enum evidence_unit {
#define X(id, name, ending, shown) EVIDENCE_UNIT_##id,
	EVIDENCE_UNITS(X)
#undef X
};

enum evidence_id {
#define EVIDENCE(id, name, type, unit, help) EVIDENCE_##id,
#include "evidence.def"
#undef EVIDENCE
	EVIDENCE_ID_MAX
};

enum finding_cause {
	CAUSE_NONE,
#define CAUSE(id, name, help) CAUSE_##id,
#include "cause.def"
#undef CAUSE
	CAUSE_MAX
};

enum severity {
#define X(id, name) SEVERITY_##id,
	SEVERITIES(X)
#undef X
		SEVERITY_MAX
};

enum finding_kind {
#define X(id, name, severity) FINDING_##id,
	FINDING_KINDS(X)
#undef X
		FINDING_KIND_MAX
};

enum hang_class {
#define X(id, name) HANG_##id,
	HANG_CLASSES(X)
#undef X
		HANG_CLASS_MAX
};

#define FINDING_RANKS_MAX 16 /* that are listed; n_ranks_all counts the rest, too */
#define FINDING_NO_NODE SUBJECT_NO_NODE
#define FINDING_ID_MAX 96
#define FINDING_EVIDENCE_MAX 40

struct evidence {
	enum evidence_id id;
	union { /* which one: evidence_is_text() */
		double number;
		const char *text;
	};
};

/* Its texts are a detector's for one tick, or its own: finding_keep(). */
struct finding {
	uint64_t key;           /* same fault, same key, from tick to tick: finding_identify() */
	uint64_t caused_by_key; /* key of the finding this one is a consequence of, 0 none */
	enum finding_kind kind;
	enum hang_class class;
	enum finding_cause cause;
	enum severity severity; /* detect/severity.c; never a detector */
	/* Of a hang that may end by itself, in time since since_ns: a warning from then on, and critical; 0: by the
	 * rule of its class; UINT64_MAX: never. */
	uint64_t warning_after_ns, critical_after_ns;
	struct subject subject;                /* what it is about; every detector sets it */
	int n_ranks, ranks[FINDING_RANKS_MAX]; /* culprits, global ranks; the first ones */
	int n_ranks_all;                       /* all of them */
	uint32_t pids[FINDING_RANKS_MAX],
		nodes[FINDING_RANKS_MAX]; /* their processes: pid 0 none; number of its host */
	const char *job;                  /* where no rank is named; NULL: that of its ranks */
	uint32_t node;    /* number of the host where it is; FINDING_NO_NODE: several, or the job's as a whole */
	const char *host; /* in a merge: the name of `node`. NULL: the session's, or several */
	bool has_op;
	uint64_t comm; /* commHash */
	enum op_kind op;
	uint64_t seq;
	int peer;          /* P2P: global rank of the other side, -1 */
	uint64_t since_ns; /* the fault's begin; for a hang when the first peer began to wait */
	double confidence; /* 0..1 */
	int n_evidence;
	struct evidence evidence[FINDING_EVIDENCE_MAX];
	char *texts; /* its own; NULL: they are another's */
};

enum finding_phase { PHASE_OPEN, PHASE_UPDATE, PHASE_CLOSE };

struct incident {                       /* a finding with its history; what sinks get */
	uint64_t number;                /* 1.. in order of opening; printed in the id */
	char id[FINDING_ID_MAX];        /* unique over hosts and sessions: pipeline/finding_id.h */
	char caused_by[FINDING_ID_MAX]; /* "" none: of one event that opened first */
	bool explains;                  /* it is the cause of that one, and was seen later */
	enum finding_phase phase;
	uint64_t open_ns, t_ns; /* when it opened, when this phase was reached */
	uint64_t warned_ns;     /* when it was first a warning or worse; 0 never */
	struct finding f;
	double cost_s; /* of the job's time: what it and its consequences took so far */
};

/* `to`, zeroed at first, becomes a copy with texts of its own, which finding_drop() frees: for who keeps one beyond the
 * call that hands it over. 0 or -ENOMEM: it is as it was. */
int finding_keep(struct finding *to, const struct finding *f);
int incident_keep(struct incident *to, const struct incident *i);
void finding_drop(struct finding *f);

const char *finding_kind_name(enum finding_kind kind);
/* What people read: a hang that is a warning is a stall; info is a known phase of its job, or not sure. */
const char *finding_kind_shown(const struct finding *f);
const char *hang_class_name(enum hang_class class);
const char *cause_name(enum finding_cause cause); /* as JSON has it; "" none */
const char *cause_help(enum finding_cause cause); /* in words; "" none */
/* What people read: of a thread that is blocked in the kernel the function that it waits in. */
const char *finding_cause_shown(const struct finding *f);
/* The cause, more exactly where the evidence shows it: no CPU because the cgroup's quota is used up. */
enum finding_cause finding_cause_of_host(const struct finding *f);
/* It says where the culprit's thread is: a line, a frame, a wait. */
bool finding_has_call_site(const struct finding *f);
const char *severity_name(enum severity severity);
enum severity finding_kind_severity(enum finding_kind kind); /* the usual one */

/* Sets the key, from kind, subject, and what distinguishes findings of this kind about one subject: `stage`, the name
 * of the detector or of a stage of it, `what` (which fault) and `which` (operation, begin). The first two come first.
 */
void finding_identify(struct finding *f, const char *stage, uint64_t what, uint64_t which);
/* That key, of a finding that is not there, or may not be; never 0. */
uint64_t finding_key(enum finding_kind kind, const struct subject *s, const char *stage, uint64_t what, uint64_t which);
/* Append evidence; silently drops past FINDING_EVIDENCE_MAX (the first are the important ones), and a text that is
 * empty or NULL. An id of the other type is a fault of the caller: it ends what was built for tests, and is dropped
 * with NDEBUG, in what is installed. */
void finding_note(struct finding *f, enum evidence_id id, double number);
void finding_note_text(struct finding *f, enum evidence_id id, const char *text);
/* The first of that id; NULL, 0 or NULL where there is none. */
const struct evidence *finding_evidence(const struct finding *f, enum evidence_id id);
double finding_number(const struct finding *f, enum evidence_id id);
const char *finding_text(const struct finding *f, enum evidence_id id);
/* `proc`: proc_key(), 0 no process. Each rank once: past FINDING_RANKS_MAX they are counted, and not distinguished. */
void finding_add_rank(struct finding *f, int rank, uint64_t proc);
uint64_t finding_proc(const struct finding *f, int i); /* the key of its i-th process */

bool evidence_is_text(enum evidence_id id);
bool evidence_is_list(enum evidence_id id); /* several values in one text */
enum evidence_type evidence_type(enum evidence_id id);
const char *evidence_name(enum evidence_id id); /* as JSON has it; "?" for no id */
/* What people read instead: the first `ret_name_len` bytes of the name, and the unit behind the number ("" none). */
const char *evidence_unit(enum evidence_id id, int *ret_name_len);

#endif
