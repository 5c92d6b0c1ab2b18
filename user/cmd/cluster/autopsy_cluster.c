/* SPDX-License-Identifier: Apache-2.0
 *
 * autopsy_cluster.c - see autopsy_cluster.h. Who has ranks of the job is not asked of anybody first: the agents know,
 * and answer. So an account that may read no reports can ask for its own ranks.
 */
#include "cmd/cluster/autopsy_cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/ask.h"
#include "cmd/cluster/bus_open.h"
#include "cmd/cluster/windows_gather.h"
#include "command.h"

#define CONNECT_TRIES 10
#define FETCH_MS 100
#define FIRST_NS 12000000000ull /* until the first answer: a second to be heard, 2.5 to look, and a busy host */
#define QUIET_NS 2500000000ull  /* behind an answer: then no more come */
#define DELIVER_NS 5000000000ull

struct answered {
	char (*hosts)[BUS_TOKEN_MAX];
	size_t n, room;
};

static int host_add(struct answered *a, const void *name, size_t len)
{
	char host[BUS_TOKEN_MAX];

	if (a->n == a->room) {
		size_t room = a->room ? 2 * a->room : 64;
		void *grown = room <= WINDOWS_MAX ? realloc(a->hosts, room * sizeof(*a->hosts)) : NULL;

		if (!grown)
			return -ENOMEM;
		a->hosts = grown;
		a->room = room;
	}
	snprintf(host, sizeof(host), "%.*s", (int)len, (const char *)name);
	bus_token(host, a->hosts[a->n++]); /* a token's token is itself */
	return 0;
}

/* The connection is made in the background. */
static int ask_send(struct bus *b, const struct ask *ask, struct bus_cursor **ret_answers)
{
	char bytes[ASK_BYTES_MAX], whose[ASK_WHOSE_MAX];
	size_t len = ask_pack(ask, bytes);
	int err = -ENOTCONN;

	ask_whose(ask->user, whose);
	for (int i = 0; err == -ENOTCONN && i < CONNECT_TRIES; i++) {
		if (i)
			usleep(BUS_WAIT_MS * 1000 / 4);
		err = b->class->ask(b, whose, bytes, len, ret_answers);
	}
	return err;
}

static int answers_wait(struct bus *b, struct bus_cursor *answers, struct answered *to)
{
	uint64_t until_ns = clock_monotonic_ns() + FIRST_NS;
	struct bus_message msg;
	int n = 0, err = 0;

	while (!err && n >= 0 && clock_monotonic_ns() < until_ns) {
		n = b->class->fetch(answers, FETCH_MS, &msg);
		if (n != 1 || !msg.len) /* the server's word that no agent listens has no length */
			continue;
		err = host_add(to, msg.data, msg.len);
		until_ns = clock_monotonic_ns() + QUIET_NS;
	}
	return err ? err : n < 0 ? n : 0;
}

static void id_make(struct ask *to)
{
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(to->id, sizeof(to->id), "autopsy-%s-%d-%" PRIx64, host, (int)getpid(), clock_monotonic_ns());
}

static void error_say(const struct ask *ask, int err)
{
	char whose[ASK_WHOSE_MAX];

	ask_whose(ask->user, whose);
	if (err == -EACCES)
		log_error("this account may not ask for the ranks of %s (ranktrace.ask.%s)%s",
			  ask->user == ASK_ANY_USER ? "all" : "this user", whose,
			  ask->user == ASK_ANY_USER ? "; --own asks for your own" : "");
	else
		log_error("asking the agents: %s", err == -ENOTCONN ? "no connection" : strerror(-err));
}

static int answered_feed(struct bus *b, const struct ask *ask, const struct answered *a, struct pipeline *p)
{
	uint64_t until_ns = clock_monotonic_ns() + DELIVER_NS;
	struct windows_gathered g = { 0 };
	int err, code;

	if (!a->n) {
		log_error("no agent has ranks of job '%s'; 'ranktrace ctl status' lists agents and jobs", ask->job);
		return EXIT_USAGE;
	}
	err = windows_gather(b, ask->user, ask->id, (const char(*)[BUS_TOKEN_MAX])a->hosts, a->n, until_ns, &g);
	if (err)
		log_error("no window was delivered: %s",
			  err == -ENODATA || err == -ENOENT ? "the agents say why, above" : strerror(-err));
	code = err ? EXIT_INTERNAL : windows_gathered_feed(&g, p);
	windows_gathered_free(&g);
	return code;
}

int autopsy_cluster(const struct bus_cfg *cfg, const char *job, int64_t user, struct pipeline *p)
{
	struct ask ask = { .kind = ASK_LOOK, .user = user };
	struct bus_cursor *answers = NULL;
	struct answered a = { 0 };
	struct bus *b = NULL;
	int code = bus_open_confined(cfg, &b), err;

	if (code)
		return code;
	snprintf(ask.job, sizeof(ask.job), "%s", job);
	id_make(&ask);
	err = ask_send(b, &ask, &answers);
	err = err ? err : answers_wait(b, answers, &a);
	if (err)
		error_say(&ask, err);
	code = err ? EXIT_INTERNAL : answered_feed(b, &ask, &a, p);
	if (answers)
		b->class->cursor_free(answers);
	free(a.hosts);
	b->class->close(b);
	return code;
}
