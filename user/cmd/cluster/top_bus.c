/* SPDX-License-Identifier: Apache-2.0
 *
 * top_bus.c - see top_bus.h. It waits for the bus where `top` must not.
 */
#include "cmd/cluster/top_bus.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/write_whole.h"
#include "cmd/cluster/bus_open.h"
#include "cmd/cluster/incidents_print.h"
#include "command.h"
#include "hub/incident_log.h"

#define FETCH_MS 50
#define LOG_TURN_NS 500000000ull
#define RETRY_NS 1000000000ull
#define LOG_PAST_S 3600 /* what hubs wrote before */

struct top_bus {
	const struct top_bus_cfg *cfg;
	struct bus *bus;
	struct bus_cursor *reports, *log;
	int data_fd, control_fd;
	uint64_t follow_ns, log_ns;
	uint64_t log_last; /* the newest entry that was said */
	int said;          /* why reports are not read; 0: they are */
	bool none;         /* no report was in hand when one was asked for: what comes next did not wait */
	bool gone;         /* `top` reads no more */
};

/* --- cursors --- */

/* Each reason once; 0: they are read again. */
static void why_say(struct top_bus *t, int err)
{
	const struct top_report_head cut = { .said = TOP_CUT };

	if (err == t->said)
		return;
	t->said = err;
	if (err)
		log_warn("reading reports: %s", err == -ENOTCONN || err == -ETIMEDOUT
							? "no connection; waiting for the bus"
						: err == -ENOENT ? "no hub has run on this bus yet; waiting"
						: err == -EACCES ? "this account may not"
								 : strerror(-err));
	else
		log_info("reports are read again");
	t->gone |= err && write_whole(t->data_fd, &cut, sizeof(cut));
}

static void cursor_drop(struct top_bus *t, struct bus_cursor **c)
{
	if (*c)
		t->bus->class->cursor_free(*c);
	*c = NULL;
}

/* Where one is missing, once a second. */
static void follow(struct top_bus *t)
{
	const struct bus_class *class = t->bus->class;
	uint64_t now_ns = clock_monotonic_ns();
	char token[BUS_TOKEN_MAX];

	if ((t->reports && t->log) || (t->follow_ns && now_ns - t->follow_ns < RETRY_NS))
		return;
	t->follow_ns = now_ns;
	if (!t->reports)
		why_say(t, class->follow(t->bus, BUS_REPORTS, NULL, 0, BUS_KEPT_S, &t->reports));
	if (t->cfg->job)
		bus_token(t->cfg->job, token);
	if (t->reports && !t->log)
		class->follow(t->bus, BUS_INCIDENTS, t->cfg->job ? token : NULL, t->log_last ? t->log_last + 1 : 0,
			      LOG_PAST_S, &t->log);
}

/* --- what comes --- */

static void report_hand(struct top_bus *t, const struct bus_message *msg)
{
	struct top_report_head head = { .len = msg->len, .n_behind = msg->n_behind, .stored_ns = msg->stored_ns };

	if (msg->len > TOP_REPORT_BYTES_MAX)
		return;
	snprintf(head.token, sizeof(head.token), "%s", msg->token);
	t->gone |= write_whole(t->data_fd, &head, sizeof(head)) || write_whole(t->data_fd, msg->data, msg->len);
}

/* Waits only where `top` knows that there was none: its time goes on by that (hub/time/stream_time.h). */
static void reports_turn(struct top_bus *t)
{
	static const struct top_report_head none = { .said = TOP_NO_REPORT };
	struct bus_message msg;
	int n = t->reports ? t->bus->class->fetch(t->reports, t->none ? FETCH_MS : 0, &msg) : 0;

	t->none = t->reports && !n;
	if (n < 0) {
		why_say(t, n);
		cursor_drop(t, &t->reports);
	}
	if (!t->reports)
		nanosleep(&(struct timespec){ .tv_nsec = FETCH_MS * 1000000 }, NULL);
	else if (n == 1)
		report_hand(t, &msg);
	else if (!n)
		t->gone |= write_whole(t->data_fd, &none, sizeof(none)) != 0;
}

static void entry_say(struct top_bus *t, const struct bus_message *msg)
{
	struct incident_marks marks = { 0 };
	struct log_entry e;

	if (msg->seq <= t->log_last)
		return;
	t->log_last = msg->seq;
	if (log_entry_parse(msg->data, msg->len, &e) && e.is_incident) {
		incident_marks_read(t->bus, e.line, &marks);
		incident_line_print(e.line, &marks, false);
	}
	log_entry_free(&e);
}

static void log_turn(struct top_bus *t)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct bus_message msg;
	int n = 0;

	if (!t->log || now_ns - t->log_ns < LOG_TURN_NS)
		return;
	t->log_ns = now_ns;
	while (clock_monotonic_ns() - now_ns < LOG_TURN_NS / 2 && (n = t->bus->class->fetch(t->log, 0, &msg)) == 1)
		entry_say(t, &msg);
	if (n < 0)
		cursor_drop(t, &t->log);
}

/* --- what is asked --- */

static void acknowledge(const struct top_bus *t, const struct top_acknowledge *a)
{
	struct incident_mark mark = { .at_s = (uint64_t)time(NULL) };
	struct incident_log l = { .last = 0 };
	const struct logged *o;
	int err;

	memcpy(l.token, a->token, sizeof(l.token));
	incident_mark_sign(&mark);
	err = incident_log_read(&l, t->bus);
	o = incident_log_find(&l, a->key);
	if (!err && o)
		err = incident_mark_write(t->bus, MARK_ACKNOWLEDGED, o->id, &mark);
	if (err)
		log_warn("not acknowledged: %s; may this account write marks?",
			 err == -ENOTCONN ? "no connection" : strerror(-err));
	else if (!o)
		log_warn("not acknowledged: no hub has written it into its log; does one run?");
	else
		log_info("%s: acknowledged", o->id);
	incident_log_free(&l);
}

/* False: who asks has ended. */
static bool control_turn(const struct top_bus *t)
{
	struct top_acknowledge a;
	ssize_t n = recv(t->control_fd, &a, sizeof(a), MSG_DONTWAIT);

	if (n == sizeof(a)) {
		a.token[sizeof(a.token) - 1] = 0;
		acknowledge(t, &a);
	}
	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* --- */

/* Standard output is the pipe, which takes no text. */
static int data_take(void)
{
	int fd = dup(STDOUT_FILENO);

	return fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? -errno : fd;
}

int top_bus_run(void *of, int control_fd)
{
	struct top_bus t = { .cfg = of, .control_fd = control_fd, .data_fd = data_take() };
	int code = t.data_fd < 0 ? EXIT_INTERNAL : bus_open_confined(&t.cfg->bus, &t.bus);

	if (code)
		return code;
	while (!t.gone && control_turn(&t)) {
		follow(&t);
		reports_turn(&t);
		log_turn(&t);
	}
	cursor_drop(&t, &t.reports);
	cursor_drop(&t, &t.log);
	t.bus->class->close(t.bus);
	return EXIT_CLEAN;
}
