/* SPDX-License-Identifier: Apache-2.0
 *
 * cuda.c - the probe rows of the driver's functions, and the scan of what no probe shows: calls that have been open for
 * long, and the totals of the burst tier. libcudart is not probed, since its calls arrive here (README.md).
 */
#include "tracers/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda.skel.h"
#include "inspect/reader/reader.h"
#include "source.h"

#define OPEN_AFTER_NS 1000000000ull /* a call this long is reported, */
#define OPEN_EVERY_NS 5000000000ull /* and again this often */
#define IDLE_NS 5000000000ull       /* then a thread that calls nothing is looked for */
#define SCAN_MAX 16384              /* entries read in one scan: the map may change under it and start over */
#define EMITTED_MAX 4096

static const struct probe cuda_probes[] = {
#define IN(name, prog, tier_) { .symbol = name, .program = prog, .tier = tier_ },
#define OUT(name, tier_) { .symbol = name, .program = "cuda_exit", .at_return = true, .tier = tier_ },
#define PAIR(symbol, fn, ...) IN(symbol, "cuda_enter", TIER_TRACE) OUT(symbol, TIER_TRACE)
#define ENTRY(symbol, fn, ...) IN(symbol, "cuda_enter", TIER_TRACE)
#define BURST(symbol, fn, ...) IN(symbol, "cuda_launch_enter", TIER_BURST)
#define BURST_PAIR(symbol, fn, ...) IN(symbol, "cuda_enter", TIER_BURST) OUT(symbol, TIER_BURST)
#include "tracers/cuda/cuda_calls.def"
#undef PAIR
#undef ENTRY
#undef BURST
#undef BURST_PAIR
};

/* The same rows: what the kernel side has. */
static const struct cuda_call cuda_calls[] = {
#define ONE(name, ...) { .fn = CUDA_FN_##name, __VA_ARGS__ },
#define PAIR(symbol, name, ...) ONE(name, __VA_ARGS__) ONE(name, __VA_ARGS__)
#define ENTRY(symbol, name, ...) ONE(name, __VA_ARGS__)
#define BURST(symbol, name, ...) ONE(name, __VA_ARGS__)
#define BURST_PAIR(symbol, name, ...) PAIR(symbol, name, __VA_ARGS__)
#include "tracers/cuda/cuda_calls.def"
};
#define N_ROWS (sizeof(cuda_calls) / sizeof(cuda_calls[0]))
_Static_assert(N_ROWS == sizeof(cuda_probes) / sizeof(cuda_probes[0]), "a row is a probe and its facts");
_Static_assert(SYNC_STREAM == CUDA_WAIT_STREAM - 1 && SYNC_EVENT == CUDA_WAIT_EVENT - 1 &&
		       SYNC_CONTEXT == CUDA_WAIT_CONTEXT - 1 && SYNC_COPY == CUDA_WAIT_COPY - 1,
	       "sync_kind as cuda.bpf.c counts");
_Static_assert(CAPTURE_BEGIN == 0 && CAPTURE_END == 1 && CAPTURE_INSTANTIATE == 2 && CAPTURE_CLONE == 3 &&
		       CAPTURE_LAUNCH == 4 && CAPTURE_UPDATE == 5 && CAPTURE_DESTROY == 6,
	       "capture_kind as cuda.bpf.c counts");

static const char *const cuda_markers[] = { "cuStreamSynchronize", NULL };

static const void *cuda_object(size_t *ret_size)
{
	return cuda_bpf__elf_bytes(ret_size);
}

/* Two rows of one address: the same function under two names, or functions that a linker folded into one? A function
 * cannot distinguish its own _ptsz form, so that alone is no difference. */
static bool cuda_rows_alike(size_t a, size_t b)
{
	struct cuda_call x = cuda_calls[a], y = cuda_calls[b];

	x.per_thread = y.per_thread = 0;
	return !memcmp(&x, &y, sizeof(x));
}

/* Waits and graphs are what verdicts stand on. Without CUDA events streams are followed, but not what joins them. */
static enum probe_group cuda_group(size_t row)
{
	if (cuda_probes[row].tier == TIER_BURST)
		return PROBES_BURST;
	switch (cuda_calls[row].what) {
	case CUDA_ASK_EVENT:
	case CUDA_ASK_STREAM: return PROBES_POLLS;
	case CUDA_ASK_ELAPSED:
	case CUDA_TIMED: return PROBES_CALLS;
	case CUDA_RECORD:
	case CUDA_STREAM_WAITS: return PROBES_EVENTS;
	default: return PROBES_NEEDED;
	}
}

static enum probe_group group_of(uint16_t fn)
{
	for (size_t i = 0; i < N_ROWS; i++)
		if (cuda_calls[i].fn == fn)
			return cuda_group(i);
	return PROBES_NEEDED;
}

/* --- calls in flight --- */

struct cuda_scan { /* tracer_state() */
	uint64_t last_ns;
	struct {
		uint32_t tgid;
		uint32_t reserved;
		uint64_t sum;
	} emitted[EMITTED_MAX]; /* by tgid, one another's place at worst */
};

/* Did this call come of age for reporting since the last scan? */
static bool open_due(const struct cuda_in_flight *f, uint64_t last_ns, uint64_t now_ns)
{
	uint64_t first_ns = f->begin_ns + OPEN_AFTER_NS;

	if (now_ns < first_ns)
		return false;
	return last_ns < first_ns || (now_ns - first_ns) / OPEN_EVERY_NS != (last_ns - first_ns) / OPEN_EVERY_NS;
}

/* A thread killed inside a call, or in a process that became another program, leaves it in the map. Without return
 * probes the call may be long over: it is not as long as its return address lies untouched on the stack, since whatever
 * the thread calls next overwrites that. */
static bool still_inside(struct tracer_handle *h, uint32_t tid, const struct cuda_in_flight *f)
{
	uint64_t word = 0;
	struct reader_range range = { .addr = f->sp, .to = &word, .len = sizeof(word) };
	uint64_t generation;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u", f->tgid, tid);
	if (access(path, F_OK) || !tracer_generation(h, f->tgid, &generation) || generation != f->generation)
		return false;
	if (!f->no_returns)
		return true;
	if (reader_memory(tracer_reader(h), f->tgid, &range, 1, READER_DEADLINE_MS) || range.got != sizeof(word))
		return false;
	return word == f->return_address;
}

static bool is_wait(uint8_t what)
{
	return what >= CUDA_WAIT_STREAM && what <= CUDA_WAIT_COPY; /* has its begin record */
}

static int open_emit(struct tracer_handle *h, uint32_t tid, const struct cuda_in_flight *f, uint64_t now_ns)
{
	struct cuda_span r = {
		.hdr = { .size = sizeof(r),
			 .tracer = WIRE_CUDA,
			 .kind = CUDA_CALL_OPEN,
			 .tid = tid,
			 .tgid = f->tgid,
			 .ts_ns = now_ns },
		.begin_ns = f->begin_ns,
		.bytes = f->bytes,
		.result = CUDA_RESULT_UNKNOWN,
		.fn = f->fn,
	};

	return tracer_emit(h, &r.hdr);
}

/* It was not written anew while it was read. */
static bool is_whole(struct tracer_handle *h, uint32_t tid, const struct cuda_in_flight *f)
{
	struct cuda_in_flight again;

	return !tracer_map_get(h, "cuda_in_flight", &tid, &again) && !memcmp(f, &again, sizeof(again));
}

/* The place of a thread that is gone. */
static void idle_drop(struct tracer_handle *h, uint32_t tid, const struct cuda_in_flight *f, uint64_t now_ns)
{
	char path[64];

	if (!f->begin_ns || now_ns < f->begin_ns + IDLE_NS)
		return;
	snprintf(path, sizeof(path), "/proc/%u/task/%u", f->tgid, tid);
	if (access(path, F_OK))
		tracer_map_delete(h, "cuda_in_flight", &tid);
}

/* One whose probes were taken away in the middle may be over long since, and would still be there when they are back.
 */
static int flight_sample(struct tracer_handle *h, const struct cuda_scan *s, uint32_t tid,
			 const struct cuda_in_flight *f, uint64_t now_ns)
{
	if (!f->what)
		idle_drop(h, tid, f, now_ns);
	if (!f->what || is_wait(f->what) || !open_due(f, s->last_ns, now_ns) || !is_whole(h, tid, f))
		return 0;
	if (!(tracer_groups(h, f->tgid) >> group_of(f->fn) & 1)) {
		tracer_map_delete(h, "cuda_in_flight", &tid);
		return 0;
	}
	return still_inside(h, tid, f) ? open_emit(h, tid, f, now_ns) : 0;
}

static int flights_scan(struct tracer_handle *h, struct cuda_scan *s, uint64_t now_ns)
{
	uint32_t tid, prev;
	int err = tracer_map_next(h, "cuda_in_flight", NULL, &tid), emitted = 0;

	for (int i = 0; !err && !emitted && i < SCAN_MAX; i++) {
		struct cuda_in_flight f;
		bool found = !tracer_map_get(h, "cuda_in_flight", &tid, &f);

		prev = tid;
		err = tracer_map_next(h, "cuda_in_flight", &prev, &tid);
		if (found)
			emitted = flight_sample(h, s, prev, &f, now_ns);
	}
	return emitted;
}

/* --- totals of the burst tier --- */

static int counts_emit(struct tracer_handle *h, struct cuda_scan *s, uint32_t tgid, const struct cuda_counts_value *v,
		       uint64_t now_ns)
{
	uint64_t sum = v->generation + v->launches + v->copies + v->sets;
	struct cuda_counts r = {
		.hdr = { .size = sizeof(r), .tracer = WIRE_CUDA, .kind = CUDA_COUNTS, .tgid = tgid, .ts_ns = now_ns },
		.launches = v->launches,
		.copies = v->copies,
		.copy_bytes = v->copy_bytes,
		.sets = v->sets,
	};

	if (s->emitted[tgid % EMITTED_MAX].tgid == tgid && s->emitted[tgid % EMITTED_MAX].sum == sum)
		return 0;
	s->emitted[tgid % EMITTED_MAX].tgid = tgid;
	s->emitted[tgid % EMITTED_MAX].sum = sum;
	return tracer_emit(h, &r.hdr);
}

static int counts_scan(struct tracer_handle *h, struct cuda_scan *s, uint64_t now_ns)
{
	uint32_t tgid, prev;
	int err = tracer_map_next(h, "cuda_counts", NULL, &tgid), emitted = 0;

	for (int i = 0; !err && !emitted && i < SCAN_MAX; i++) {
		struct cuda_counts_value v;

		if (!tracer_map_get(h, "cuda_counts", &tgid, &v))
			emitted = counts_emit(h, s, tgid, &v, now_ns);
		prev = tgid;
		err = tracer_map_next(h, "cuda_counts", &prev, &tgid);
	}
	return emitted;
}

static int cuda_tick(struct tracer_handle *h, uint64_t now_ns)
{
	struct cuda_scan *s = tracer_state(h, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	err = flights_scan(h, s, now_ns);
	if (!err)
		err = counts_scan(h, s, now_ns);
	s->last_ns = now_ns;
	return err;
}

static const struct tracer cuda_tracer = {
	.name = "cuda",
	.id = WIRE_CUDA,
	.probes = cuda_probes,
	.n_probes = N_ROWS,
	.rows_alike = cuda_rows_alike,
	.group = cuda_group,
	.markers = cuda_markers,
	.vital = true,
	.files = "libcuda.",
	.object = cuda_object,
	.tick = cuda_tick,
};

const struct source_live source_cuda = { .tracer = &cuda_tracer };
