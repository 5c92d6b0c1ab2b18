/* SPDX-License-Identifier: Apache-2.0
 *
 * two_hosts.h - a job of four ranks on two hosts, as two hubs hear of it by reports, second by second, and the log that
 * the hubs write. Included by one test file each.
 */
#ifndef RANKTRACE_TESTS_TWO_HOSTS_H
#define RANKTRACE_TESTS_TWO_HOSTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "hub/job.h"
#include "tests/unit/cluster/memory_bus.h"

#define MSEC 1000000ull
#define SEC 1000000000ull
#define WALL (1790000000ull * SEC)

enum { HOSTS = 2, PER_HOST = 2, RANKS = HOSTS * PER_HOST, WORLD = 0xa0, OTHER = 0xb0, COMMS = 2, CALLS = 4 };

static struct hub { /* two of them, given the same */
	struct hosts hosts;
	struct hub_job *job;
	bool stopped; /* it does nothing, as after SIGSTOP */
} hubs[2];

static uint64_t now;            /* since the beginning */
static uint64_t entered[RANKS]; /* collectives, and since when so many */
static uint64_t since[RANKS];
static bool reports[HOSTS];          /* its agent lives */
static bool partial[HOSTS];          /* and leaves out ranks */
static bool is_there[RANKS];         /* its process does */
static uint32_t thread_state[RANKS]; /* of its thread, as in cluster.proto */
static bool thread_frozen[RANKS];
static bool no_thread[RANKS]; /* its report does not have the thread */
static uint64_t delay[HOSTS]; /* its reports take so long */
static uint64_t sequence[HOSTS];
static Cluster__Finding *findings[HOSTS][4]; /* what its node holds */
static size_t n_findings[HOSTS];
static Cluster__Gpu *gpus[HOSTS][PER_HOST];
static size_t n_gpus[HOSTS];
static const char *job_of[HOSTS]; /* NULL: train */

static struct rank_calls { /* where its agent sees them */
	bool seen;
	uint64_t other; /* collectives in OTHER, a second communicator of all ranks; 0: there is none */
	Cluster__Call open[CALLS];
	size_t n_open;
	uint64_t waits_for; /* the id of one; 0: its host waits for none */
	Cluster__Peer peer; /* of WORLD */
	bool has_peer;
} rank_calls[RANKS];

/* --- what an agent says: the clocks of the hosts differ by a day --- */

static uint64_t host_clock(int host)
{
	return now + (host ? 86400 : 100) * SEC - delay[host];
}

static void member_fill(int rank, uint64_t hash, uint64_t n, Cluster__Member *mb, uint64_t *counters)
{
	*mb = (Cluster__Member)CLUSTER__MEMBER__INIT;
	mb->addr = 0x1000 + hash;
	mb->hash = hash;
	mb->rank = rank;
	mb->nranks = RANKS;
	counters[4] = n;
	mb->counters = counters;
	mb->n_counters = 5;
	mb->has_addr = mb->has_hash = mb->has_rank = mb->has_nranks = mb->has_sampled_age_ns = mb->has_same_age_ns = 1;
	mb->sampled_age_ns = 100 * MSEC;
	mb->same_age_ns = now - since[rank] > 100 * MSEC ? now - since[rank] : 100 * MSEC;
	mb->has_entered = rank_calls[rank].seen;
	mb->entered = n;
}

/* Lists of its calls, which live in the caller's. */
static void calls_fill(int rank, Cluster__Process *p, Cluster__Call **list, Cluster__HostWait *w,
		       Cluster__HostWait **waits)
{
	struct rank_calls *c = &rank_calls[rank];

	p->calls = list;
	for (; p->n_calls < c->n_open; p->n_calls++) {
		list[p->n_calls] = &c->open[p->n_calls];
		list[p->n_calls]->age_ns = now - since[rank];
		list[p->n_calls]->has_age_ns = 1;
	}
	*w = (Cluster__HostWait)CLUSTER__HOST_WAIT__INIT;
	w->has_tid = w->has_age_ns = w->has_call = 1;
	w->tid = p->pid;
	w->age_ns = now - since[rank];
	w->call = c->waits_for;
	waits[0] = w;
	p->waits = waits;
	p->n_waits = c->waits_for != 0;
}

static void rank_fill(int rank, uint64_t clock_ns, Cluster__Process *p, Cluster__Thread *t)
{
	*p = (Cluster__Process)CLUSTER__PROCESS__INIT;
	*t = (Cluster__Thread)CLUSTER__THREAD__INIT;
	p->pid = 100 + rank;
	p->start_ns = clock_ns - now + delay[rank / PER_HOST];
	p->rank = rank;
	p->world_size = RANKS;
	p->job = (char *)(job_of[rank / PER_HOST] ? job_of[rank / PER_HOST] : "train");
	t->tid = p->pid;
	t->state = thread_state[rank];
	t->has_frozen = t->frozen = thread_frozen[rank];
	t->has_seen_age_ns = t->has_at_age_ns = 1;
	t->seen_age_ns = t->at_age_ns = 100 * MSEC;
	t->state_age_ns = now - since[rank] + SEC - delay[rank / PER_HOST];
	t->wchan = (char *)"futex_wait_queue";
}

static size_t report_write(int host, void *to)
{
	Cluster__NodeReport r = CLUSTER__NODE_REPORT__INIT;
	Cluster__Process procs[PER_HOST], *list[PER_HOST];
	Cluster__Member members[PER_HOST][COMMS], *member_list[PER_HOST][COMMS];
	Cluster__Peer *peers[PER_HOST];
	Cluster__Call *call_list[PER_HOST][CALLS];
	Cluster__HostWait waits[PER_HOST], *wait_list[PER_HOST][1];
	Cluster__Thread threads[PER_HOST], *thread_list[PER_HOST];
	uint64_t counters[PER_HOST][COMMS][5] = { { { 0 } } };

	r.has_version = r.has_agent = r.has_sequence = r.has_now_ns = 1;
	r.version = REPORT_VERSION;
	r.has_partial = r.partial = partial[host];
	r.host = (char *)(host ? "node-b" : "node-a");
	r.boot_id = (char *)"boot";
	r.agent = 1;
	r.sequence = ++sequence[host];
	r.now_ns = host_clock(host);
	r.processes = list;
	r.findings = findings[host];
	r.n_findings = n_findings[host];
	r.gpus = gpus[host];
	r.n_gpus = n_gpus[host];
	for (int i = 0; i < PER_HOST; i++) {
		int rank = host * PER_HOST + i;
		struct rank_calls *c = &rank_calls[rank];

		rank_fill(rank, r.now_ns, &procs[i], &threads[i]);
		member_fill(rank, WORLD, entered[rank], &members[i][0], counters[i][0]);
		member_fill(rank, OTHER, c->other, &members[i][1], counters[i][1]);
		calls_fill(rank, &procs[i], call_list[i], &waits[i], wait_list[i]);
		peers[i] = &c->peer;
		members[i][0].peers = &peers[i];
		members[i][0].n_peers = c->has_peer;
		procs[i].has_pid = procs[i].has_start_ns = procs[i].has_rank = procs[i].has_world_size = 1;
		threads[i].has_tid = threads[i].has_state = threads[i].has_state_age_ns = 1;
		member_list[i][0] = &members[i][0];
		member_list[i][1] = &members[i][1];
		thread_list[i] = &threads[i];
		procs[i].comms = member_list[i];
		procs[i].threads = &thread_list[i];
		procs[i].n_comms = c->other ? COMMS : 1;
		procs[i].n_threads = !no_thread[rank];
		if (is_there[rank])
			list[r.n_processes++] = &procs[i];
	}
	return report_pack(&r, to);
}

/* --- hubs --- */

static void hub_take(struct hub *h, int which, const void *data, size_t len, const char *token)
{
	Cluster__NodeReport *r;
	struct host_message_id id;
	struct host *host;

	assert_int_equal(report_unpack(data, len, &r), REPORT_GOOD);
	id = (struct host_message_id){ token, r->host, r->boot_id, r->agent, r->sequence, r->now_ns, WALL + now };
	assert_int_equal(hosts_take(&h->hosts, &id, &host), HOST_NEW);
	if (!h->job)
		h->job = hub_job_new("train", which ? "b" : "a", &memory_bus.base, r, WALL + now);
	assert_non_null(h->job);
	assert_int_equal(hub_job_report(h->job, host, r, WALL + now), 0);
	report_free(r);
}

static void hub_turn(struct hub *h)
{
	assert_int_equal(hub_job_ticks(h->job, &h->hosts, WALL + now), 0);
	hub_job_turn(h->job, now + SEC);
}

/* A second of the cluster. `moving`: ranks [0, moving) go on. */
static void second(int moving)
{
	static char bytes[REPORT_BYTES_MAX];

	for (int r = 0; r < moving; r++) {
		entered[r] += 10;
		since[r] = now + 800 * MSEC;
	}
	now += SEC;
	for (int host = 0; host < HOSTS; host++) {
		size_t len = reports[host] ? report_write(host, bytes) : 0;

		for (int i = 0; i < 2 && len; i++)
			if (!hubs[i].stopped)
				hub_take(&hubs[i], i, bytes, len, host ? "node-b" : "node-a");
	}
	for (int i = 0; i < 2; i++)
		if (!hubs[i].stopped)
			hub_turn(&hubs[i]);
}

static inline void seconds(int n, int moving)
{
	while (n--)
		second(moving);
}

/* Rank 3 does not come any more: all others enter the next one, and wait. */
static void rank_3_sleeps(void)
{
	for (int r = 0; r < 3; r++) {
		entered[r]++;
		since[r] = now;
	}
}

static int begin(void **state)
{
	(void)state;
	memory_bus_begin();
	memset(hubs, 0, sizeof(hubs));
	memset(sequence, 0, sizeof(sequence));
	memset(entered, 0, sizeof(entered));
	memset(delay, 0, sizeof(delay));
	memset(n_findings, 0, sizeof(n_findings));
	memset(n_gpus, 0, sizeof(n_gpus));
	memset(rank_calls, 0, sizeof(rank_calls));
	memset(job_of, 0, sizeof(job_of));
	now = 10 * SEC;
	for (int r = 0; r < RANKS; r++) {
		since[r] = now;
		is_there[r] = true;
		thread_state[r] = 3;
		thread_frozen[r] = false;
		no_thread[r] = false;
	}
	for (int h = 0; h < HOSTS; h++)
		reports[h] = true;
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		hub_job_free(hubs[i].job);
		hosts_free(&hubs[i].hosts);
	}
	memory_bus_end();
	return 0;
}

/* --- the log --- */

/* The last word on the n-th incident (by its id); NULL: there are fewer. */
static cJSON *incident_nth(int n)
{
	char ids[16][FINDING_ID_MAX];
	cJSON *last[16] = { NULL }, *found = NULL;
	int n_ids = 0, k;

	for (uint64_t i = 0; i < memory_bus.n_log; i++) {
		struct log_entry e;

		assert_true(log_entry_parse(memory_bus.log[i], strlen(memory_bus.log[i]), &e));
		for (k = 0; e.is_incident && k < n_ids && strcmp(ids[k], e.id); k++)
			;
		if (e.is_incident) {
			n_ids += k == n_ids;
			memcpy(ids[k], e.id, FINDING_ID_MAX);
			cJSON_Delete(last[k]);
			last[k] = cJSON_Parse(e.line);
		}
		log_entry_free(&e);
	}
	for (k = 0; k < n_ids; k++)
		if (k == n)
			found = last[k];
		else
			cJSON_Delete(last[k]);
	return found;
}

static const char *text_of(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItem(o, name);

	return cJSON_IsString(item) ? item->valuestring : "";
}

static void assert_no_more(int n)
{
	cJSON *o = incident_nth(n);

	if (o)
		fail_msg("one more: %s %s", text_of(o, "kind"), text_of(o, "summary"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

#endif
