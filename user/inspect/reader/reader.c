/* SPDX-License-Identifier: Apache-2.0
 *
 * reader.c - the collector's side of the helper: questions and answers, and how long these are waited for. Where
 * workers come from is reader_spawn.c's, which targets blocked one reader_late.c's, which files take long
 * reader_slow.c's, what a job does reader_ops.c's.
 */
#include "base/clock.h"
#include "inspect/reader/hurried.h"
#include "inspect/reader/parser_turn.h"
#include "inspect/reader/reader_late.h"
#include "inspect/reader/reader_queue.h"
#include "inspect/reader/reader_spawn.h"
#include "inspect/reader/reader_wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PARSE_CPU_NS 250000000ull /* of one job, where the caller must go on looking: libnccl takes 41 ms at most */
#define PARSE_STEP_MS 20
#define PARSE_STARVED_DEADLINES 4   /* a parser that runs gets so many */
#define WAIT_LEAST_MS 2             /* an answer takes 0.1 ms */
#define CHECK_EVERY_NS 250000000ull /* zygotes: both are lost only if they are at once */
#define FILES_ASKED_MAX 512         /* in one call: more than a process of ours maps */
#define RUNNING_STEP_MS 10
#define RUNNING_STEPS 10           /* of one call at most, of a worker that is not asleep at any sample */
#define RUNNING_ALL_NS 60000000ull /* of a second, for all of these */
#define RUNNING_PATIENT_NS 900000000ull
#define STARVED_MS 10            /* a reader that by then has not had half of it starves */
#define STARVED_NS 1000000000ull /* and goes before other work for so long */

struct reader {
	struct workers workers;
	uint64_t checked_ns; /* when they were */
	uint64_t seq;
	struct late_table late_table;
	uint64_t timeout_ns; /* a second; 0 no limit */
	uint64_t running_ns; /* a second, for workers that have no CPU */
	struct allowance late, running;
	struct file_queue queues[READER_QUEUES];
	enum reader_queue queue; /* of the files that are asked for now */
	struct parser_turn parser_turn;
	bool is_hurried;
	uint64_t starved_until_ns; /* its readers are hurried until then, too */
};

bool reader_is_blocked(const struct reader *r, pid_t pid)
{
	return late_refused(&r->late_table, pid);
}

pid_t reader_pid(const struct reader *r)
{
	return r->workers.zygote.pid;
}

bool reader_is_lost(const struct reader *r)
{
	return r->workers.is_lost;
}

void reader_unblock(struct reader *r, pid_t pid)
{
	late_forget(&r->late_table, pid);
}

void reader_set_timeout(struct reader *r, unsigned ms)
{
	uint64_t now = clock_monotonic_ns();

	r->timeout_ns = ms * 1000000ull;
	r->late = (struct allowance){ r->timeout_ns, now };
	r->running_ns = RUNNING_ALL_NS;
	r->running = (struct allowance){ r->running_ns, now };
	queues_reset(r->queues, r->running_ns);
}

void reader_queue_use(struct reader *r, enum reader_queue queue)
{
	r->queue = queue;
}

void reader_set_patient(struct reader *r, bool patient)
{
	r->running_ns = patient ? RUNNING_PATIENT_NS : RUNNING_ALL_NS;
}

static void fds_close(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]); /* lint: without room for any, n is 0 */
}

/* ---- how long is waited ---- */

bool reader_queue_is_done(const struct reader *r, enum reader_queue queue)
{
	return slow_is_done(&r->queues[queue].slow);
}

bool reader_queue_is_full(struct reader *r, enum reader_queue queue)
{
	struct file_queue *q = &r->queues[queue];

	return r->timeout_ns && q->slow.worker.pid && !slow_is_done(&q->slow) &&
	       queue_left(q, r->running_ns) < PARSE_STEP_MS * 1000000ull;
}

/* A process that timed out before is asked again without anyone waiting; the others share what is left. */
static unsigned wait_allowed_ms(struct reader *r, pid_t pid, unsigned deadline_ms)
{
	uint64_t allowed_ms;

	if (!pid || !r->timeout_ns)
		return deadline_ms;
	if (late_held(&r->late_table, pid))
		return 0;
	allowed_ms = allowance_left(&r->late, r->timeout_ns) / 1000000;
	if (allowed_ms < WAIT_LEAST_MS)
		allowed_ms = WAIT_LEAST_MS;
	return allowed_ms < deadline_ms ? allowed_ms : deadline_ms;
}

/* Somebody stopped it, which says nothing of the target. */
static int stopped_drop(struct worker *w, enum worker_kind kind)
{
	worker_lost_say(worker_name(kind));
	worker_drop(w);
	return -EAGAIN;
}

/* A file may be made to be parsed for minutes, and a starved host takes as long for any: -EINPROGRESS then, and the
 * worker is at work. Else as wait_whole(), for what of the second is left to waiting for workers that do not get on. */
static int wait_parser(struct reader *r, struct worker *w, unsigned deadline_ms)
{
	uint64_t begin_ns = clock_monotonic_ns(), cpu_ns = worker_cpu_ns(w), late_ns = deadline_ms * 1000000ull;
	uint64_t allowed_ns = queue_left(&r->queues[r->queue], r->running_ns);

	for (;;) {
		int n = worker_wait(w->sock, PARSE_STEP_MS);
		uint64_t took_ns = clock_monotonic_ns() - begin_ns, used_ns = worker_cpu_ns(w) - cpu_ns;
		uint64_t idle_ns = took_ns > used_ns ? took_ns - used_ns : 0;
		enum worker_state state = n ? WORKER_RUNS : worker_state(w->pid);

		parser_turn_look(&r->parser_turn, w);
		if (!n && used_ns < PARSE_CPU_NS && idle_ns < allowed_ns &&
		    (took_ns < late_ns || (took_ns < PARSE_STARVED_DEADLINES * late_ns && state == WORKER_RUNS)))
			continue;
		allowance_spend(&r->queues[r->queue].running, idle_ns);
		if (n)
			return n < 0 ? n : 0;
		if (state == WORKER_STOPPED)
			return stopped_drop(w, WORKER_PARSER);
		if (state == WORKER_RUNS || took_ns < late_ns)
			return -EINPROGRESS;
		worker_drop(w);
		return -ETIMEDOUT;
	}
}

/* A parser is in its turn alone (parser_turn.h). Without the right nothing changes. */
static void worker_hurry(struct reader *r, struct worker *w)
{
	bool hurried = r->is_hurried || clock_monotonic_ns() < r->starved_until_ns;

	if (w->pid && w->is_hurried != hurried && !hurried_set(w->pid, hurried))
		w->is_hurried = hurried;
}

/* As worker_wait(). The loop has its turn, and the reader that it waits for has none: each answer of such a turn would
 * take up to the deadline. */
static int wait_hurrying(struct reader *r, struct worker *w, unsigned timeout_ms)
{
	bool may = r->timeout_ns && w == &r->workers.worker[WORKER_READER] && !w->is_hurried && timeout_ms > STARVED_MS;
	uint64_t cpu_ns = may ? worker_cpu_ns(w) : 0;
	int n = worker_wait(w->sock, may ? STARVED_MS : timeout_ms);

	if (n || !may)
		return n;
	if (worker_state(w->pid) == WORKER_RUNS && worker_cpu_ns(w) - cpu_ns < STARVED_MS * 500000ull) {
		r->starved_until_ns = clock_monotonic_ns() + STARVED_NS;
		worker_hurry(r, w);
	}
	return worker_wait(w->sock, timeout_ms - STARVED_MS);
}

/* The whole deadline, while no other is served; longer while the worker runs. */
static int wait_whole(struct reader *r, struct worker *w, pid_t pid, unsigned deadline_ms)
{
	enum worker_kind kind = w == &r->workers.worker[WORKER_PARSER] ? WORKER_PARSER : WORKER_READER;

	for (int i = 0; i < READER_STARVED_DEADLINES; i++) {
		int n = wait_hurrying(r, w, deadline_ms);

		if (n)
			return n < 0 ? n : 0;
		enum worker_state state = worker_state(w->pid);

		if (state == WORKER_RUNS)
			continue;
		/* It may have answered between the two samples. */
		if (worker_wait(w->sock, 0) == 1)
			return 0;
		if (state == WORKER_STOPPED)
			return stopped_drop(w, kind);
		worker_drop(w);
		late_timed_out(&r->late_table, pid);
		return -ETIMEDOUT;
	}
	worker_drop(w);
	return -EAGAIN;
}

/* A worker that runs, or would if it had a CPU, is delayed by no lock: on a busy machine its answer is worth some
 * waiting, as it would be thrown away and asked for again. Poll's result. */
static int wait_running(struct reader *r, const struct worker *w)
{
	int n = 0;

	for (int i = 0; !n && i < RUNNING_STEPS && worker_state(w->pid) == WORKER_RUNS; i++) {
		if (allowance_left(&r->running, r->running_ns) < RUNNING_STEP_MS * 1000000ull)
			break;
		uint64_t begin_ns = clock_monotonic_ns();

		n = worker_wait(w->sock, RUNNING_STEP_MS);
		allowance_spend(&r->running, clock_monotonic_ns() - begin_ns);
	}
	return n;
}

static int wait_answer(struct reader *r, struct worker *w, pid_t pid, unsigned deadline_ms)
{
	uint64_t begin = clock_monotonic_ns();
	unsigned allowed_ms = wait_allowed_ms(r, pid, deadline_ms);
	bool held = late_held(&r->late_table, pid);
	int n;

	if (allowed_ms == deadline_ms)
		return wait_whole(r, w, pid, deadline_ms);
	n = wait_hurrying(r, w, allowed_ms);
	if (!n)
		allowance_spend(&r->late, clock_monotonic_ns() - begin);
	if (!n && allowed_ms)
		n = wait_running(r, w);
	if (n)
		return n < 0 ? n : 0;
	late_park(&r->late_table, pid, w, begin + deadline_ms * 1000000ull, deadline_ms);
	return held ? -EBUSY : -EINPROGRESS;
}

/* Where an answer goes, and how much of it is wanted. */
struct answer_room {
	void *out;
	size_t out_max, *ret_len;
	int *fds;
	size_t fds_max, *ret_n_fds;
};

static void answer_copy(const struct worker *w, const struct reader_answer *ans, size_t n_fds,
			const struct answer_room *to)
{
	if (ans->out_len)
		memcpy(to->out, w->shm, ans->out_len);
	if (to->ret_len)
		*to->ret_len = ans->out_len;
	if (to->ret_n_fds)
		*to->ret_n_fds = n_fds;
}

/* *ret_asks: it asks for a file first. */
static int take_answer(struct worker *w, const char *name, uint64_t seq, const struct answer_room *to,
		       struct reader_answer *ret_asks)
{
	struct reader_answer ans;
	size_t n = 0;
	ssize_t got = reader_recv(w->sock, &ans, sizeof(ans), to->fds, to->fds_max, &n);
	bool whole = got == sizeof(ans) && ans.seq == seq;
	int rc = !whole ? -EIO : ans.rc > 0 ? -EPROTO : ans.rc;

	ret_asks->end = 0;
	if (got <= 0)
		worker_lost_say(name);
	if (!rc && ans.end)
		*ret_asks = ans;
	else if (!rc && ans.out_len > to->out_max)
		rc = -EMSGSIZE;
	else if (!rc)
		answer_copy(w, &ans, n, to);
	if (rc || ans.end)
		fds_close(to->fds, n);
	if (!whole || ans.is_last)
		worker_drop(w);
	return rc;
}

static int question_send(struct reader *r, struct worker *w, const struct question *q, size_t out_max)
{
	union {
		char bytes[sizeof(struct reader_request) + READER_ARG_MAX];
		struct reader_request req;
	} buf;

	buf.req = (struct reader_request){ .seq = ++r->seq, .fn = q->fn, .arg_len = q->arg_len, .out_max = out_max };
	if (q->arg_len)
		memcpy(buf.req.arg, q->arg, q->arg_len);
	if (!reader_send(w->sock, &buf, sizeof(buf.req) + q->arg_len, q->fds, q->n_fds))
		return 0;
	worker_drop(w);
	return -EIO;
}

/* A mapping of this process and no other. That it cannot be had is the job's to deal with. */
static int mapped_give(struct reader *r, struct worker *w, pid_t pid, const struct reader_answer *asks,
		       unsigned deadline_ms)
{
	struct reader_mapped give = { 0 };
	char name[64];
	int fd = -1;

	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, asks->start, asks->end);
	give.rc = reader_open_file(r, pid, name, deadline_ms, &fd);
	int rc = reader_send(w->sock, &give, sizeof(give), &fd, !give.rc) ? -EIO : 0;

	if (!give.rc)
		close(fd);
	if (rc)
		worker_drop(w);
	return rc;
}

static unsigned left_ms(uint64_t until_ns)
{
	uint64_t now = clock_monotonic_ns();

	return now + WAIT_LEAST_MS * 1000000ull < until_ns ? (until_ns - now) / 1000000 : WAIT_LEAST_MS;
}

/* One deadline for all that the job asks for, and for its answer. */
static int answer_await(struct reader *r, enum worker_kind kind, pid_t pid, const struct question *q,
			unsigned deadline_ms, const struct answer_room *to)
{
	struct worker *w = &r->workers.worker[kind];
	uint64_t seq = r->seq, until_ns = clock_monotonic_ns() + deadline_ms * 1000000ull;
	struct reader_answer asks = { 0 };
	int n = 0, rc = wait_answer(r, w, pid, deadline_ms);

	while (!rc) {
		rc = take_answer(w, worker_name(kind), seq, to, &asks);
		if (rc || !asks.end) {
			/* Any answer, even an error, shows that the lock was free. */
			if (pid)
				reader_unblock(r, pid);
			return rc;
		}
		if (!q->gives_files || n++ == FILES_ASKED_MAX) {
			worker_drop(w);
			return -EIO;
		}
		rc = mapped_give(r, w, pid, &asks, left_ms(until_ns));
		rc = rc ? rc : wait_answer(r, w, pid, left_ms(until_ns));
	}
	return rc;
}

void reader_hurry(struct reader *r, bool hurried)
{
	r->is_hurried = hurried;
	worker_hurry(r, &r->workers.worker[WORKER_READER]);
	workers_hurry(&r->workers, hurried);
}

/* What one user's file made of a parser must not read another's: each change of the user takes a new one. */
static int worker_for(struct reader *r, enum worker_kind kind, uint32_t owner)
{
	struct workers *of = &r->workers;
	struct worker *w = &of->worker[kind];

	if (kind == WORKER_PARSER)
		parser_turn_end(&r->parser_turn, w);
	if (kind == WORKER_PARSER && w->is_used && (w->owner != owner || owner == OWNER_SEVERAL))
		worker_drop(w);
	int rc = worker_ensure(of, kind, r->timeout_ns ? workers_wait_ms(of) : WORKER_WAIT_MS);

	if (kind == WORKER_READER)
		worker_hurry(r, w);
	w->owner = owner;
	w->is_used = true;
	return rc;
}

void reader_check(struct reader *r)
{
	uint64_t now = clock_monotonic_ns();

	if (now <= r->checked_ns + CHECK_EVERY_NS)
		return;
	workers_check(&r->workers);
	queues_sweep(r->queues);
	r->checked_ns = now;
}

/* One that ended while it had nothing to do costs no question. */
static int question_ask(struct reader *r, enum worker_kind kind, const struct question *q, size_t out_max)
{
	int rc = -EIO;

	reader_check(r);
	for (int i = 0; rc == -EIO && i < 2; i++) {
		rc = worker_for(r, kind, q->owner);
		if (!rc)
			rc = question_send(r, &r->workers.worker[kind], q, out_max);
		if (rc == -EIO)
			worker_lost_say(worker_name(kind));
	}
	return rc;
}

/* Of who must go on looking. `key` NULL: no caller would ask for the answer once more. */
static int file_await(struct reader *r, enum slow_turn turn, const struct slow_key *key, unsigned deadline_ms,
		      const struct answer_room *to)
{
	struct worker *w = &r->workers.worker[WORKER_PARSER];
	uint64_t seq = r->seq;
	struct reader_answer asks;
	int rc = turn == SLOW_NEXT ? -EINPROGRESS : wait_parser(r, w, deadline_ms);

	if (!rc)
		return take_answer(w, worker_name(WORKER_PARSER), seq, to, &asks);
	parser_turn_end(&r->parser_turn, w);
	if (rc == -EINPROGRESS && key)
		slow_put(&r->queues[r->queue].slow, key, w, seq, deadline_ms * 1000000ull);
	else if (rc == -EINPROGRESS)
		worker_drop(w);
	return rc == -EINPROGRESS ? -EAGAIN : rc;
}

static int slow_take(struct reader *r, const struct answer_room *to)
{
	struct slow_files *slow = &r->queues[r->queue].slow;
	struct reader_answer asks;
	struct answer_room room = *to;
	size_t len = 0;

	room.ret_len = &len;
	int rc = take_answer(&slow->worker, worker_name(WORKER_PARSER), slow->seq, &room, &asks);

	if (rc == -EIO)
		rc = slow_lost(slow);
	else if (!rc)
		slow_keep(slow, to->out, len);
	if (to->ret_len)
		*to->ret_len = len;
	slow_end(slow);
	return rc;
}

static int kept_take(const struct slow_kept *kept, const struct answer_room *to)
{
	if (kept->len > to->out_max)
		return -EMSGSIZE;
	if (kept->len)
		memcpy(to->out, kept->data, kept->len);
	if (to->ret_len)
		*to->ret_len = kept->len;
	return 0;
}

static int file_ask(struct reader *r, const struct question *q, unsigned deadline_ms, const struct answer_room *to)
{
	struct slow_files *slow = &r->queues[r->queue].slow;
	struct slow_key key;
	bool is_one_file = slow_key_of(q, &key);
	const struct slow_kept *kept = is_one_file ? slow_kept(slow, &key) : NULL;

	if (kept)
		return kept_take(kept, to);
	int turn = is_one_file ? slow_check(slow, &key) : SLOW_UNKNOWN;

	if (turn < 0)
		return turn;
	if (turn == SLOW_ANSWERED)
		return slow_take(r, to);
	if (turn == SLOW_UNKNOWN && queue_left(&r->queues[r->queue], r->running_ns) < PARSE_STEP_MS * 1000000ull)
		return -EAGAIN; /* it would be asked, and not waited for */
	int rc = question_ask(r, WORKER_PARSER, q, to->out_max);

	if (rc)
		return rc == -EINPROGRESS ? -EAGAIN : rc; /* there is no process to ask for once more */
	if (r->is_hurried)
		parser_turn_begin(&r->parser_turn, &r->workers.worker[WORKER_PARSER]);
	return file_await(r, turn, is_one_file ? &key : NULL, deadline_ms, to);
}

static int worker_run(struct reader *r, enum worker_kind kind, pid_t pid, const struct question *q,
		      unsigned deadline_ms, const struct answer_room *to)
{
	if (q->arg_len > READER_ARG_MAX || to->out_max > READER_OUT_MAX || q->n_fds > READER_FDS_MAX)
		return -E2BIG;
	if (kind == WORKER_PARSER && !pid && r->timeout_ns)
		return file_ask(r, q, deadline_ms, to);
	int rc = late_check(&r->late_table, pid);

	if (!rc)
		rc = question_ask(r, kind, q, to->out_max);
	if (rc == -EINPROGRESS && !pid)
		return -EAGAIN;
	return rc ? rc : answer_await(r, kind, pid, q, deadline_ms, to);
}

int reader_run_fds(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, unsigned deadline_ms,
		   void *out, size_t out_max, size_t *ret_len, int *ret_fds, size_t *ret_n)
{
	struct question q = { .fn = fn, .arg = arg, .arg_len = arg_len };
	struct answer_room to = { out, out_max, ret_len, ret_fds, READER_FDS_MAX, ret_n };

	return worker_run(r, WORKER_READER, pid, &q, deadline_ms, &to);
}

int reader_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, unsigned deadline_ms,
	       void *out, size_t out_max, size_t *ret_len, int *ret_fd)
{
	struct question q = { .fn = fn, .arg = arg, .arg_len = arg_len };
	int fd = -1;
	size_t n = 0;
	struct answer_room to = { out, out_max, ret_len, &fd, ret_fd ? 1 : 0, &n }; /* lint: written there */
	int rc = worker_run(r, WORKER_READER, pid, &q, deadline_ms, &to);

	if (rc || !ret_fd)
		return rc;
	*ret_fd = fd;
	return n ? 0 : -EPROTO;
}

int parser_ask(struct reader *r, pid_t pid, const struct question *q, unsigned deadline_ms, void *out, size_t out_max,
	       size_t *ret_len)
{
	struct answer_room to = { .out = out, .out_max = out_max, .ret_len = ret_len };

	return worker_run(r, WORKER_PARSER, pid, q, deadline_ms, &to);
}

/* Who may have written these: root alone a file of root's, unless all users may. */
static uint32_t owner_of(const int *fds, size_t n)
{
	uint32_t owner = OWNER_NONE;
	struct stat st;

	for (size_t i = 0; i < n; i++) {
		if (fstat(fds[i], &st) || st.st_mode & S_IWOTH || (i && st.st_uid != owner))
			return OWNER_SEVERAL;
		owner = st.st_uid;
	}
	return owner;
}

int parser_run(struct reader *r, pid_t pid, reader_fn *fn, const void *arg, size_t arg_len, const int *fds,
	       size_t n_fds, unsigned deadline_ms, void *out, size_t out_max, size_t *ret_len)
{
	struct question q = { fn, arg, arg_len, fds, n_fds, false, owner_of(fds, n_fds) };
	int rc = parser_ask(r, pid, &q, deadline_ms, out, out_max, ret_len);

	return rc == -EIO ? parser_ask(r, pid, &q, deadline_ms, out, out_max, ret_len) : rc;
}

int reader_open(struct reader **ret)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->running_ns = RUNNING_ALL_NS;
	queues_reset(r->queues, r->running_ns);
	int rc = workers_open(&r->workers);

	if (rc) {
		reader_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void reader_free(struct reader *r)
{
	if (!r)
		return;
	workers_close(&r->workers);
	queues_free(r->queues);
	late_free(&r->late_table);
	free(r);
}
