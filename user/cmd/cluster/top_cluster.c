/* SPDX-License-Identifier: Apache-2.0
 *
 * top_cluster.c - see top_cluster.h.
 */
#include "cmd/cluster/top_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "hub/job_incidents.h"

#define READ_BYTES (256u << 10)
#define TAKE_NS 200000000ull /* then keys and the screen have a turn */
#define NOTHING_NS 10000000000ull
#define CATCH_UP_NS 60000000000ull /* two minutes are kept */
#define SETTLE_NS 1500000000ull    /* three ticks of the detectors */

/* --- reports --- */

static int space_make(struct top_cluster *c)
{
	size_t cap = c->cap ? 2 * c->cap : 2 * READ_BYTES;
	char *grown;

	if (c->cap - c->len >= READ_BYTES)
		return 0;
	grown = realloc(c->bytes, cap);
	if (!grown)
		return -ENOMEM;
	c->bytes = grown;
	c->cap = cap;
	return 0;
}

/* More bytes, if some are there. 1: there are. */
static int bytes_read(struct top_cluster *c)
{
	int err = space_make(c);
	ssize_t n = err ? err : read(c->child.data_fd, c->bytes + c->len, c->cap - c->len);

	if (err || n > 0) {
		c->len += err ? 0 : (size_t)n;
		return err ? err : 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	c->over = true;
	return n < 0 ? -errno : 0;
}

static void name_make(struct top_cluster *c)
{
	snprintf(c->name, sizeof(c->name), "cluster%s%s%s", c->f.job ? ", job " : "", c->f.job ? c->f.job : "",
		 c->cut ? ": NO CONNECTION" : "");
}

static int report_take(struct top_cluster *c, const struct top_report_head *head, const char *data)
{
	struct bus_message msg = { .token = head->token,
				   .data = data,
				   .len = head->len,
				   .n_behind = head->n_behind,
				   .stored_ns = head->stored_ns };
	int err;

	c->cut = head->said == TOP_CUT;
	name_make(c);
	if (c->cut) /* the picture stays: nothing says that hosts are silent */
		return 0;
	err = head->said == TOP_REPORT ? follower_take(&c->f, &msg) : follower_pass(&c->f);
	return err ? err : follower_ticks(&c->f);
}

/* All that are whole. */
static int reports_take(struct top_cluster *c)
{
	struct top_report_head head;
	size_t at = 0;
	int err = 0;

	while (!err && c->len - at >= sizeof(head)) {
		memcpy(&head, c->bytes + at, sizeof(head));
		if (head.len > TOP_REPORT_BYTES_MAX || head.token[sizeof(head.token) - 1])
			return -EBADMSG;
		if (c->len - at < sizeof(head) + head.len)
			break;
		err = report_take(c, &head, c->bytes + at + sizeof(head));
		at += sizeof(head) + head.len;
	}
	if (at)
		memmove(c->bytes, c->bytes + at, c->len - at);
	c->len -= at;
	return err;
}

static int cluster_take(void *of)
{
	struct top_cluster *c = of;
	uint64_t until_ns = clock_monotonic_ns() + TAKE_NS;
	int more = 1, err = 0;

	while (!err && more == 1 && clock_monotonic_ns() < until_ns) {
		more = bytes_read(c);
		err = more < 0 ? more : reports_take(c);
	}
	follower_forget(&c->f);
	return err;
}

static size_t cluster_parts(void *of, const struct top_part **ret)
{
	struct top_cluster *c = of;
	struct top_part *parts = realloc(c->parts, (c->f.n_jobs + 1) * sizeof(*parts));
	size_t n = 0;

	if (!parts)
		return 0;
	c->parts = parts;
	for (const struct hub_job *j = c->f.jobs; j; j = j->next)
		parts[n++] = (struct top_part){ pipeline_model(j->pipeline), pipeline_incidents(j->pipeline) };
	*ret = parts;
	return n;
}

static bool cluster_is_over(void *of)
{
	return ((const struct top_cluster *)of)->over;
}

/* --- what keys ask --- */

static void cluster_acknowledge(void *of, const char *id, char *answer, size_t size)
{
	const struct top_cluster *c = of;
	struct top_acknowledge a = { .key = 0 };

	for (const struct hub_job *j = c->f.jobs; j && !a.key; j = j->next) {
		a.key = job_incident_key(j, id);
		memcpy(a.token, j->log.token, sizeof(a.token));
	}
	if (!a.key)
		snprintf(answer, size, "that finding is over");
	else if (write(c->child.control_fd, &a, sizeof(a)) != sizeof(a))
		snprintf(answer, size, "the connection to the bus has ended");
	else
		*answer = 0;
}

/* --- */

int top_cluster_open(struct top_cluster *c, const char *job, const struct top_child *child, struct top_run *r)
{
	int err = follower_init(&c->f, "top", NULL, job);

	c->child = *child;
	if (fcntl(child->data_fd, F_SETFL, O_NONBLOCK))
		err = err ? err : -errno;
	name_make(c);
	r->source.name = c->name;
	r->origin = (struct top_origin){
		.of = c, .take = cluster_take, .parts = cluster_parts, .is_over = cluster_is_over
	};
	r->child = &c->child;
	r->stream_fd = c->child.data_fd;
	r->refusals[SESSION_RAISE] = "not from here: ranktrace ctl set tier=trace --job JOB --nats URL";
	r->refusals[SESSION_STACKS] = "not from here: ranktrace autopsy --job JOB --nats URL";
	r->refusals[SESSION_DUMP] = "not from here: ranktrace incidents fetch ID -o FILE --nats URL";
	r->acknowledge = cluster_acknowledge;
	r->acknowledge_of = c;
	return err;
}

/* By then an agent that lives was heard, ten times. */
static bool is_nothing(const struct top_cluster *c, uint64_t waited_ns)
{
	return c->over || (!c->f.time.now_ns && waited_ns > NOTHING_NS);
}

int top_cluster_catch_up(struct top_cluster *c)
{
	uint64_t begin_ns = clock_monotonic_ns(), now_ns = begin_ns, caught_ns = 0;
	int err = 0;

	while (!err && !is_nothing(c, now_ns - begin_ns) && now_ns - begin_ns < CATCH_UP_NS &&
	       (!caught_ns || now_ns - caught_ns < SETTLE_NS)) {
		struct pollfd fd = { .fd = c->child.data_fd, .events = POLLIN };

		poll(&fd, 1, 100);
		err = cluster_take(c);
		now_ns = clock_monotonic_ns();
		caught_ns = caught_ns ? caught_ns : c->f.caught_up ? now_ns : 0;
	}
	return err ? err : caught_ns ? 0 : c->f.time.now_ns ? -ETIMEDOUT : -ENODATA;
}

int top_cluster_close(struct top_cluster *c)
{
	int code = top_child_end(&c->child);

	follower_free(&c->f);
	free(c->bytes);
	free(c->parts);
	return code;
}
