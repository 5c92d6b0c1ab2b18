/* SPDX-License-Identifier: Apache-2.0
 *
 * nvml.c - GPUs by NVML, asked through a child (nvml_child.c). The collector never waits for it: a sample sends a
 * question or takes what has come. A child that is late is killed, reported as a driver that does not answer, and
 * replaced once the kernel has let it go. How often it asks follows from what an answer costs.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "tracers/gpu/gpu_guess.h"
#include "tracers/gpu/nvml_abi.h"
#include "tracers/gpu/nvml_child.h"
#include "source.h"
#include "schemas/collector.h"
#include "tracers/gpu/wire/gpu.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"

#define SEC 1000000000ull
#define DEADLINE_NS (5 * SEC)
#define STOPPED_AFTER_NS SEC         /* late by so much: its state is read */
#define START_DEADLINE_NS (45 * SEC) /* without persistence mode the driver initialises 8 GPUs first */
#define STARVED_DEADLINES 4          /* a child that runs is given that many: the machine may be busy */
#define BACKOFF_FIRST_NS SEC
#define BACKOFF_MAX_NS (60 * SEC)
#define HEALTH_EVERY_NS (10 * SEC)
#define PROCS_EVERY_NS (5 * SEC)
#define DEVICES_EVERY_NS (300 * SEC)
#define ACTIVITY_QUIET_NS SEC /* at least between two; more where they cost more than */
#define ACTIVITY_SHARE 0.002  /* of a core */
#define ACTIVITY_QUIET_MAX_NS (4 * SEC)
#define ACTIVITY_EXCITED_NS (SEC / 2)
#define EXCITED_NS (10 * SEC)
#define EXCITED_MAX_NS (30 * SEC) /* without a rest; then it is how the job is */
#define REST_NS (60 * SEC)
#define EXCITING_SM 3.0 /* points off the GPU's own running mean */
#define EXCITING_TENSOR 2.0
#define RUNNING_MEAN 0.1

struct watched {
	double sm, tensor;
	bool known;
}; /* running means */

struct nvml_sampler {
	const struct sampler_ctx *ctx;
	const char *library;
	pid_t pid, dying; /* 0 none; dying: killed, not yet reaped */
	int fd;
	bool waiting, silent, lost, away; /* away: there were GPUs, and the driver went */
	struct nvml_question asked;
	uint64_t asked_ns, answers, restart_ns, backoff_ns;
	uint64_t devices_ns, activity_ns, health_ns, procs_ns; /* when each was asked for last */
	uint64_t excited_ns, excited_until_ns, rest_until_ns;
	uint64_t activity_cpu_ns;   /* what an answer costs, running mean */
	uint64_t n_samples, cpu_ns; /* of all activity answers */
	int n_gpus;
	bool matched, guessing; /* NVML named a rank; it names no rank, so the sampler does */
	struct watched watched[NVML_DEVICES_MAX];
};

static bool driver_here(void)
{
	return !access("/dev/nvidiactl", F_OK) || !access("/proc/driver/nvidia/version", F_OK);
}

static int nvml_open(const struct sampler_ctx *ctx, void **ret)
{
	const char *library = getenv("RANKTRACE_NVML");
	struct nvml_sampler *s;

	if (!library && !driver_here())
		return -ENOTSUP;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	*s = (struct nvml_sampler){
		.ctx = ctx, .library = library ? library : "libnvidia-ml.so.1", .fd = -1, .backoff_ns = BACKOFF_FIRST_NS
	};
	*ret = s;
	return 0;
}

/* --- the child --- */

static int child_spawn(struct nvml_sampler *s, int sock)
{
	char *argv[] = { NVML_CHILD_NAME, (char *)s->library, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int err;

	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, sock, NVML_CHILD_FD);
	for (int fd = 0; fd < 3; fd++) /* a child that cannot die must hold no pipe of ours open */
		posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	posix_spawn_file_actions_addclosefrom_np(&files, NVML_CHILD_FD + 1);
	err = posix_spawn(&s->pid, "/proc/self/exe", &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return -err;
}

static int child_start(struct nvml_sampler *s)
{
	int pair[2], low, err;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	low = fcntl(pair[1], F_DUPFD_CLOEXEC, NVML_CHILD_FD + 1); /* dup2() onto itself would leave it close-on-exec */
	err = low < 0 ? -errno : child_spawn(s, low);
	close(pair[1]);
	if (low >= 0)
		close(low);
	if (err) {
		close(pair[0]);
		s->pid = 0;
		return err;
	}
	s->fd = pair[0];
	s->waiting = false;
	s->devices_ns = s->activity_ns = s->health_ns = s->procs_ns = s->answers = 0;
	return 0;
}

static void child_end(struct nvml_sampler *s, uint64_t now_ns)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	if (s->pid)
		kill(s->pid, SIGKILL);
	s->dying = s->pid;
	s->pid = 0;
	s->waiting = false;
	s->restart_ns = now_ns + s->backoff_ns;
	s->backoff_ns = s->backoff_ns < BACKOFF_MAX_NS / 2 ? 2 * s->backoff_ns : BACKOFF_MAX_NS;
}

/* In D state it stays: another one would only stand beside it. */
static bool child_gone(struct nvml_sampler *s)
{
	if (s->dying && waitpid(s->dying, NULL, WNOHANG) == 0)
		return false;
	s->dying = 0;
	return true;
}

/* As the kernel has it: R runnable, not blocked: what is late may be this machine; T stopped by somebody. */
static char child_state(const struct nvml_sampler *s)
{
	struct proc_stat st;

	return proc_stat_read(s->pid, &st) ? 0 : st.state;
}

/* It died of the driver's library or of somebody's kill, or somebody stopped it: which says nothing of a GPU. */
static void child_lost(struct nvml_sampler *s, uint64_t now_ns)
{
	if (!s->lost)
		log_warn("a helper process, " NVML_CHILD_NAME
			 ", ended or was stopped in the middle of its work, by somebody "
			 "or by the driver's library; another takes its place");
	s->lost = true;
	child_end(s, now_ns);
}

/* --- what it says --- */

static int driver_emit(struct nvml_sampler *s, enum gpu_answer answer, uint64_t since_ns, uint64_t now_ns)
{
	struct record_gpu_state f = {
		.hdr = { .size = sizeof(f), .tracer = WIRE_COLLECTOR, .kind = RECORD_GPU_STATE, .ts_ns = now_ns },
		.body = { .index = GPU_INDEX_ALL, .answer = answer, .since_ns = since_ns },
	};

	if (s->silent == (answer == GPU_NO_ANSWER))
		return 0;
	s->silent = answer == GPU_NO_ANSWER;
	return s->ctx->emit(s->ctx->emit_to, &f.hdr);
}

static double off_mean(double *mean, double now, bool known)
{
	double off = known ? fabs(now - *mean) : 0;

	*mean = known ? *mean + RUNNING_MEAN * (now - *mean) : now;
	return off;
}

/* A GPU that is busier or less busy than it was: sampled more often for a while. */
static void excitement_note(struct nvml_sampler *s, const struct gpu_sample *f, uint64_t now_ns)
{
	struct watched *w = f->index < NVML_DEVICES_MAX ? &s->watched[f->index] : NULL;
	double sm, tensor;

	if (!w || !f->window_ns || f->sm_bp == GPU_NO_VALUE || f->tensor_bp == GPU_NO_VALUE)
		return;
	sm = off_mean(&w->sm, gpu_percent(f->sm_bp), w->known);
	tensor = off_mean(&w->tensor, gpu_percent(f->tensor_bp), w->known);
	w->known = true;
	if ((sm < EXCITING_SM && tensor < EXCITING_TENSOR) || now_ns < s->rest_until_ns)
		return;
	if (now_ns > s->excited_until_ns)
		s->excited_ns = now_ns;
	s->excited_until_ns = now_ns + EXCITED_NS;
	if (now_ns < s->excited_ns + EXCITED_MAX_NS)
		return;
	s->excited_until_ns = 0;
	s->rest_until_ns = now_ns + REST_NS;
}

static bool is_rank(const struct nvml_sampler *s, const struct target_proc *p)
{
	return p && s->ctx->is_traced(s->ctx->is_traced_of, p);
}

/* From a pid namespace that is not the host's, or where it hides them, the driver's pids are no process': then what the
 * ranks' own environment says, of those that have a GPU open. Each GPU at once, behind the last answer. */
static int procs_guess(struct nvml_sampler *s, uint64_t now_ns)
{
	struct record_gpu_procs f[NVML_DEVICES_MAX] = { 0 };
	size_t n = 0;
	const struct target_proc *const *list = target_set_list(s->ctx->targets, &n);
	int err = 0;

	for (size_t i = 0; i < n; i++) {
		int gpu = list[i]->is_child || list[i]->rank < 0
				  ? -1
				  : gpu_guess(list[i]->visible_devices, list[i]->local_rank);

		if (gpu < 0 || gpu >= s->n_gpus || f[gpu].body.n == GPU_PIDS_MAX || !is_rank(s, list[i]) ||
		    !gpu_in_use(list[i]->tgid))
			continue;
		f[gpu].body.pids[f[gpu].body.n++] = list[i]->tgid;
	}
	for (int i = 0; i < s->n_gpus && !err; i++) {
		f[i].hdr = (struct wire_hdr){
			.size = sizeof(f[i]), .tracer = WIRE_COLLECTOR, .kind = RECORD_GPU_PROCS, .ts_ns = now_ns
		};
		f[i].body.index = i;
		s->guessing |= f[i].body.n > 0;
		if (s->guessing)
			err = s->ctx->emit(s->ctx->emit_to, &f[i].hdr);
	}
	return err;
}

static void procs_match(struct nvml_sampler *s, const struct gpu_procs *f)
{
	for (uint32_t i = 0; i < f->n && i < GPU_PIDS_MAX && s->ctx->targets; i++)
		s->matched |= is_rank(s, target_set_find(s->ctx->targets, f->pids[i]));
}

/* A driver that is reloaded is back in seconds, one that was never seen may come at any time: a try a minute. */
static void driver_missed(struct nvml_sampler *s, uint64_t now_ns)
{
	if (s->n_gpus && !s->away)
		log_info("the NVIDIA driver is away: its GPUs are not seen until it is back");
	s->away = s->n_gpus > 0;
	if (!s->away)
		s->backoff_ns = BACKOFF_MAX_NS;
	child_end(s, now_ns);
}

static int answer_end(struct nvml_sampler *s, const struct nvml_end *end, uint64_t now_ns)
{
	int err = 0;

	s->waiting = false;
	s->answers++;
	if (end->n_gpus <= 0) { /* no library, no driver: nothing that could be silent */
		driver_missed(s, now_ns);
		return 0;
	}
	s->backoff_ns = BACKOFF_FIRST_NS;
	if (s->away)
		log_info("the NVIDIA driver is back");
	s->away = false;
	s->n_gpus = end->n_gpus < NVML_DEVICES_MAX ? end->n_gpus : NVML_DEVICES_MAX; /* the child may say anything */
	if (s->asked.what == NVML_ASK_ACTIVITY) {
		s->n_samples++;
		s->cpu_ns += end->cpu_ns;
		s->activity_cpu_ns = s->activity_cpu_ns ? (7 * s->activity_cpu_ns + end->cpu_ns) / 8 : end->cpu_ns;
	}
	if (s->asked.what == NVML_ASK_PROCS && !s->matched && s->ctx->targets)
		err = procs_guess(s, now_ns);
	return err ? err : driver_emit(s, GPU_IS_THERE, now_ns, now_ns);
}

/* The child is ours, but it runs foreign code: only whole records of these kinds pass. */
static int packet_take(struct nvml_sampler *s, void *packet, size_t size, uint64_t now_ns)
{
	static const uint16_t sizes[] = {
		[RECORD_GPU_DEVICE] = sizeof(struct record_gpu_device),
		[RECORD_GPU_SAMPLE] = sizeof(struct record_gpu_sample),
		[RECORD_GPU_HEALTH] = sizeof(struct record_gpu_health),
		[RECORD_GPU_PROCS] = sizeof(struct record_gpu_procs),
		[RECORD_GPU_STATE] = sizeof(struct record_gpu_state),
		[RECORD_GPU_USAGE] = sizeof(struct record_gpu_usage),
	};
	struct wire_hdr *hdr = packet;
	const struct nvml_end *end = packet;

	if (size == sizeof(*end))
		return end->number == s->asked.number ? answer_end(s, end, now_ns) : 0;
	if (size < sizeof(*hdr) || hdr->size != size || hdr->tracer != WIRE_COLLECTOR ||
	    hdr->kind >= sizeof(sizes) / sizeof(sizes[0]) || !sizes[hdr->kind] || size < sizes[hdr->kind])
		return 0;
	hdr->ts_ns = now_ns;
	if (hdr->kind == RECORD_GPU_SAMPLE)
		excitement_note(s, &((struct record_gpu_sample *)packet)->body, now_ns);
	if (hdr->kind == RECORD_GPU_PROCS)
		procs_match(s, &((struct record_gpu_procs *)packet)->body);
	if (hdr->kind == RECORD_GPU_PROCS && s->guessing && !s->matched)
		return 0;
	return s->ctx->emit(s->ctx->emit_to, hdr);
}

static int answers_take(struct nvml_sampler *s, uint64_t now_ns)
{
	_Static_assert(sizeof(struct nvml_end) < sizeof(struct wire_hdr), "distinguished by size");
	union {
		struct wire_hdr hdr;
		char bytes[1024];
	} u;
	ssize_t got;
	int err = 0;

	while (!err && s->fd >= 0) {
		got = recv(s->fd, &u, sizeof(u), MSG_DONTWAIT);
		if (got > 0)
			err = packet_take(s, &u, got, now_ns);
		else if (got < 0 && errno == EINTR)
			continue;
		else if (got < 0 && errno == EAGAIN)
			break;
		else
			child_lost(s, now_ns);
	}
	return err;
}

/* --- questions --- */

static bool due(uint64_t last_ns, uint64_t every_ns, uint64_t now_ns)
{
	return !last_ns || now_ns >= last_ns + every_ns;
}

static uint64_t activity_every_ns(const struct nvml_sampler *s, uint64_t now_ns)
{
	uint64_t quiet = s->activity_cpu_ns / ACTIVITY_SHARE;

	if (now_ns < s->excited_until_ns || s->ctx->often)
		return ACTIVITY_EXCITED_NS;
	return quiet < ACTIVITY_QUIET_NS       ? ACTIVITY_QUIET_NS
	       : quiet > ACTIVITY_QUIET_MAX_NS ? ACTIVITY_QUIET_MAX_NS
					       : quiet;
}

/* One kind a question, the rarest first, so that the cost of each is known. */
static uint32_t what_now(struct nvml_sampler *s, uint64_t now_ns)
{
	if (due(s->devices_ns, DEVICES_EVERY_NS, now_ns)) {
		s->devices_ns = now_ns;
		return NVML_ASK_DEVICES;
	}
	if (due(s->procs_ns, PROCS_EVERY_NS, now_ns)) {
		s->procs_ns = now_ns;
		return NVML_ASK_PROCS;
	}
	if (due(s->health_ns, HEALTH_EVERY_NS, now_ns)) {
		s->health_ns = now_ns;
		return NVML_ASK_HEALTH;
	}
	if (!due(s->activity_ns, activity_every_ns(s, now_ns), now_ns))
		return 0;
	s->activity_ns = now_ns;
	return NVML_ASK_ACTIVITY;
}

static void ask(struct nvml_sampler *s, uint64_t now_ns)
{
	s->asked.what = what_now(s, now_ns);
	if (!s->asked.what)
		return;
	s->asked.number++;
	s->asked_ns = now_ns;
	s->waiting = true;
	if (send(s->fd, &s->asked, sizeof(s->asked), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		child_end(s, now_ns);
}

static int deadline_check(struct nvml_sampler *s, uint64_t now_ns)
{
	uint64_t deadline = s->answers || s->silent ? DEADLINE_NS : START_DEADLINE_NS, late = now_ns - s->asked_ns,
		 since = s->asked_ns;
	char state = s->waiting && late >= STOPPED_AFTER_NS ? child_state(s) : 0;

	if (state == 'T' || state == 't') {
		child_lost(s, now_ns);
		return 0;
	}
	if (!s->waiting || late < deadline || (late < STARVED_DEADLINES * deadline && state == 'R'))
		return 0;
	child_end(s, now_ns);
	return driver_emit(s, GPU_NO_ANSWER, since, now_ns);
}

static int nvml_sample(void *state, uint64_t now_ns)
{
	struct nvml_sampler *s = state;
	int err = 0;

	if (!child_gone(s))
		return 0;
	if (!s->pid) {
		if (now_ns < s->restart_ns)
			return 0;
		err = child_start(s);
		if (err) {
			s->restart_ns = now_ns + BACKOFF_MAX_NS;
			return err;
		}
	}
	err = answers_take(s, now_ns);
	if (!err)
		err = deadline_check(s, now_ns);
	if (!err && s->pid && !s->waiting)
		ask(s, now_ns);
	return err;
}

static void nvml_close(void *state)
{
	struct nvml_sampler *s = state;

	if (!s)
		return;
	if (s->n_samples && s->n_gpus)
		log_detail("nvml: %" PRIu64 " samples of the activity of %d GPUs, %.2f ms of CPU each and GPU",
			   s->n_samples, s->n_gpus, s->cpu_ns / 1e6 / s->n_samples / s->n_gpus);
	child_end(s, 0);
	child_gone(s);
	free(s);
}

static const struct sampler nvml_sampler = {
	.tiers = SAMPLER_ALWAYS,
	.period_ns = 100000000ull, /* of taking answers; a question is due less often */
	.remedy = "is libnvidia-ml.so.1 readable?",
	.open = nvml_open,
	.sample = nvml_sample,
	.close = nvml_close,
};

const struct source_live source_nvml = { .sampler = &nvml_sampler };
