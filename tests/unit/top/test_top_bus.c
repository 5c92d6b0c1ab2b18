/* SPDX-License-Identifier: Apache-2.0
 *
 * test_top_bus.c - what `top`'s child hands on where reports come faster than it waits for one: also that there was
 * none between them, by which `top` knows what time it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/cluster/bus_open.h"
#include "cmd/cluster/top_bus.h"

enum { REPORTS = 20, WAITING = 5 /* of these, as it begins */ };

static int n_fetched;
static int asks[2];

static int follow(struct bus *b, enum bus_stream stream, const char *token, uint64_t from, int past_s,
		  struct bus_cursor **ret)
{
	(void)b, (void)token, (void)from, (void)past_s;
	if (stream != BUS_REPORTS)
		return -ENOENT;
	*ret = (struct bus_cursor *)&n_fetched;
	return 0;
}

/* One comes within each wait, and none while it is handed on. */
static int fetch(struct bus_cursor *c, int wait_ms, struct bus_message *ret)
{
	(void)c;
	if (!wait_ms && n_fetched >= WAITING)
		return 0;
	*ret = (struct bus_message){ .token = "node-a", .data = "x", .len = 1, .stored_ns = ++n_fetched };
	if (n_fetched == REPORTS)
		close(asks[1]);
	return 1;
}

static void nothing(struct bus_cursor *c)
{
	(void)c;
}

static void bus_close(struct bus *b)
{
	(void)b;
}

static const struct bus_class class = { .follow = follow, .fetch = fetch, .cursor_free = nothing, .close = bus_close };
static struct bus bus = { .class = &class };

int bus_open_confined(const struct bus_cfg *cfg, struct bus **ret)
{
	(void)cfg;
	*ret = &bus;
	return 0;
}

/* --- */

static void that_there_was_none_is_said_between_reports(void **state)
{
	const struct top_bus_cfg cfg = { .job = NULL };
	int out = dup(STDOUT_FILENO), pipes[2], none = 0, reports = 0;
	struct top_report_head head;
	char byte;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, asks), 0);
	dup2(pipes[1], STDOUT_FILENO);
	close(pipes[1]);
	assert_int_equal(top_bus_run((void *)&cfg, asks[0]), 0);
	dup2(out, STDOUT_FILENO);
	while (reports < REPORTS) {
		assert_int_equal(read(pipes[0], &head, sizeof(head)), sizeof(head));
		none = head.said == TOP_NO_REPORT ? none + 1 : none;
		if (head.said != TOP_REPORT)
			continue;
		assert_int_equal(read(pipes[0], &byte, 1), 1);
		assert_int_equal(none, ++reports > WAITING ? reports - WAITING : 0);
	}
	close(pipes[0]);
	close(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(that_there_was_none_is_said_between_reports) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
