/* SPDX-License-Identifier: Apache-2.0
 *
 * member.c - see member.h; member_case.c is one measurement.
 */
#include "tools/stress/nccl/member.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/stress/health.h"
#include "tools/stress/nccl/member_case.h"
#include "tools/stress/report.h"

#define CU_ATTRIBUTE_MULTICAST 132
#define FOR_EVER UINT64_MAX
#define JOIN_POLL_NS 1000000

int member_become(const struct member_place *p, const char *library)
{
	char text[64];

	snprintf(text, sizeof(text), "%d:%d:%d:%d:%d", p->fd, p->rank, p->size, p->local, p->forced);
	setenv(MEMBER_VARIABLE, text, 1);
	if (library)
		setenv(MEMBER_LIBRARY, library, 1);
	signal(SIGINT, SIG_IGN); /* the coordinator gets it, and ends the ranks in order */
	signal(SIGTERM, SIG_IGN);
	execl("/proc/self/exe", "ranktrace", "stress", "nccl", (char *)NULL);
	return -errno;
}

static void hello_send(struct member *m)
{
	struct wire_hello hello = { .version = WIRE_VERSION, .rank = m->place.rank, .size = m->place.size };
	struct stress_gpu *gpu = m->gpu;

	if (getenv(ISSUED_VARIABLE))
		member_traced_wait(m); /* before the first communicator: all of it is in the recording */
	hello.ordinal = gpu->ordinal;
	hello.sm_count = gpu->sm_count;
	m->nccl.version(&hello.nccl_version);
	m->run->cuda.device_attribute(&hello.multicast, CU_ATTRIBUTE_MULTICAST, gpu->device);
	wire_host_name(hello.host, sizeof(hello.host));
	memcpy(hello.name, gpu->name, sizeof(hello.name));
	memcpy(hello.pci, gpu->pci, sizeof(hello.pci));
	memcpy(hello.uuid, gpu->uuid, sizeof(hello.uuid));
	wire_send(m->place.fd, WIRE_HELLO, &hello, sizeof(hello));
}

/* The exit status of all; `status` where the coordinator is gone, or ended before all ranks were there. */
static int status_wait(const struct member *m, int status)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	enum wire_type type = WIRE_END;

	while (type != WIRE_STATUS)
		if (wire_receive(m->place.fd, &type, body, FOR_EVER))
			return status;
	memcpy(&status, body, sizeof(status));
	return status;
}

static int refuse(struct member *m, int status, const char *why)
{
	struct wire_refused refused = { .rank = m->place.rank, .status = status };

	snprintf(refused.why, sizeof(refused.why), "%s", why);
	wire_send(m->place.fd, WIRE_REFUSED, &refused, sizeof(refused));
	return status_wait(m, status);
}

/* --- a communicator; its creation may never return, so that a thread waits for it --- */

struct join {
	struct member *m;
	struct nccl_id id;
	int n, rank, error;
	_Atomic bool done;
};

static void *join_main(void *arg)
{
	struct join *j = arg;

	j->m->run->cuda.context_set(j->m->gpu->context);
	j->error = j->m->nccl.init(&j->m->comm, j->n, j->id, j->rank);
	j->done = true;
	return NULL;
}

static void join(struct member *m, const struct nccl_id *id, uint64_t limit_ns)
{
	static struct join j; /* outlives a thread that does not return */
	struct wire_joined joined = { .status = CASE_DONE };
	uint64_t end_ns = clock_monotonic_ns() + limit_ns;
	pthread_t thread;

	j = (struct join){ .m = m, .id = *id, .n = m->n, .rank = m->rank };
	if (pthread_create(&thread, NULL, join_main, &j))
		j.error = -1, j.done = true;
	else
		pthread_detach(thread);
	while (!j.done && clock_monotonic_ns() < end_ns &&
	       !wire_waits(m->place.fd)) /* else the group or the run is over */
		nanosleep(&(struct timespec){ .tv_nsec = JOIN_POLL_NS }, NULL);
	if (!j.done) {
		joined.status = CASE_HUNG;
		snprintf(joined.text, sizeof(joined.text), "the creation of the communicator has not ended for %.3g s",
			 limit_ns * 1e-9);
	} else if (j.error) {
		joined.status = member_nccl_error(m, j.error, "ncclCommInitRank", joined.text);
	}
	m->broken = joined.status != CASE_DONE;
	wire_send(m->place.fd, WIRE_JOINED, &joined, sizeof(joined));
}

static void leave(struct member *m, int32_t anew)
{
	m->broken |= anew;
	if (m->comm && !m->broken)
		m->nccl.destroy(m->comm);
	m->comm = NULL;
}

/* --- what the coordinator says --- */

static void id_make(struct member *m)
{
	struct nccl_id id;

	memset(&id, 0, sizeof(id));
	m->nccl.id_make(&id); /* one that is none fails in the creation, with its message */
	wire_send(m->place.fd, WIRE_ID, &id, sizeof(id));
}

/* True: go on. */
static bool serve(struct member *m, enum wire_type type, const char *body)
{
	struct wire_group group;
	struct nccl_case c;
	struct nccl_id id;
	int32_t anew;

	switch (type) {
	case WIRE_GROUP:
		memcpy(&group, body, sizeof(group));
		m->n = group.n;
		m->rank = group.rank;
		m->limit_ns = group.limit_ns;
		if (!group.rank)
			id_make(m);
		return true;
	case WIRE_ID:
		memcpy(&id, body, sizeof(id));
		join(m, &id, m->limit_ns);
		return true;
	case WIRE_CASE:
		memcpy(&c, body, sizeof(c));
		member_case(m, &c);
		return true;
	case WIRE_LEAVE:
		memcpy(&anew, body, sizeof(anew));
		leave(m, anew);
		return true;
	case WIRE_STATUS: memcpy(&m->status, body, sizeof(m->status)); return false;
	case WIRE_END: return false;
	default: return true;
	}
}

/* What is broken does not end in order. Where the run is over it need not start anew for that. */
static void anew_become(struct member *m)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	enum wire_type type;
	int status = STRESS_IMPOSSIBLE;
	bool over = false;

	if (wire_waits(m->place.fd))
		over = wire_receive(m->place.fd, &type, body, FOR_EVER) || type == WIRE_STATUS;
	if (over && type == WIRE_STATUS)
		memcpy(&status, body, sizeof(status));
	if (over)
		_exit(status);
	m->place.forced = true; /* what works there is what is left of ours */
	member_become(&m->place, NULL);
}

static void commands_take(struct member *m)
{
	char body[WIRE_BODY_MAX] __attribute__((aligned(8)));
	enum wire_type type;

	hello_send(m);
	while (!wire_receive(m->place.fd, &type, body, FOR_EVER)) {
		if (!serve(m, type, body))
			break;
		if (m->broken)
			anew_become(m);
	}
}

static int health_report(struct member *m)
{
	for (uint32_t i = 0; i < m->run->n_faults; i++)
		wire_send(m->place.fd, WIRE_FAULT, &m->run->faults[i], sizeof(m->run->faults[i]));
	wire_send(m->place.fd, WIRE_BYE, NULL, 0);
	return status_wait(m, STRESS_IMPOSSIBLE);
}

static int member_run(struct member *m, const struct stress_options *options)
{
	struct report report = { .mode = REPORT_NONE };
	struct health_thread health;
	char why[LIBRARY_WHY];
	int status;

	m->run->report = &report;
	status = libraries_nccl(&m->nccl, options->nccl.library, why) ? STRESS_IMPOSSIBLE : STRESS_PASSED;
	status = status ? status : run_open(m->run, options, why);
	if (status)
		return refuse(m, status, why);
	m->gpu = &m->run->gpus[0];
	m->run->cuda.context_set(m->gpu->context);
	m->run->measure_now = -1;
	if (health_start(&health, m->run, why))
		return refuse(m, STRESS_IMPOSSIBLE, why);
	m->gpu->rate_now = 1;
	commands_take(m);
	leave(m, 0);
	health_stop(&health);
	return m->status < 0 ? health_report(m) : m->status;
}

int member_main(const char *variable)
{
	struct stress_options options = STRESS_DEFAULTS;
	struct member *m = calloc(1, sizeof(*m));

	if (!m)
		abort();
	m->status = -1;
	m->run = calloc(1, sizeof(*m->run));
	if (!m->run || sscanf(variable, "%d:%d:%d:%d:%d", &m->place.fd, &m->place.rank, &m->place.size, &m->place.local,
			      &m->place.forced) != 5)
		abort();
	options.measures = 0;
	options.member = 1 + m->place.local;
	options.force = m->place.forced;
	options.nccl.library = getenv(MEMBER_LIBRARY);
	return member_run(m, &options);
}
