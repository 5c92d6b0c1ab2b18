/* SPDX-License-Identifier: Apache-2.0
 *
 * test_nats.c - the bus on a real nats-server, started here: what is stored once, who may write behind whom, leases,
 * cursors; and what a bus that is not there returns. Skipped where there is no server or no libnats.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bus/bus.h"

static char dir[] = "/tmp/ranktrace-nats-XXXXXX", url[64], error[512];
static struct bus *hub, *agent;
static pid_t server;

static int port(void)
{
	return 20000 + getpid() % 20000;
}

static pid_t server_start(void)
{
	char number[16], store[64];
	pid_t child;

	snprintf(number, sizeof(number), "%d", port());
	snprintf(store, sizeof(store), "%s/js", dir);
	child = fork();
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execlp("nats-server", "nats-server", "-js", "-a", "127.0.0.1", "-p", number, "-sd", store, "-l", "/dev/null",
	       NULL);
	_exit(77);
}

static int begin(void **state)
{
	struct bus_cfg cfg = { .url = url, .name = "test", .owns_streams = true };

	(void)state;
	snprintf(url, sizeof(url), "nats://127.0.0.1:%d", port());
	if (!mkdtemp(dir))
		return -1;
	server = server_start();
	if (bus_nats_open(&cfg, &hub, error, sizeof(error)))
		return -1;
	cfg.owns_streams = false;
	return bus_nats_open(&cfg, &agent, error, sizeof(error));
}

static int end(void **state)
{
	char command[128];

	(void)state;
	agent->class->close(agent);
	hub->class->close(hub);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static int publish(const char *text, const char *id)
{
	int err = -ENOTCONN;

	for (int i = 0; i < 50 && err == -ENOTCONN; i++) { /* it connects in the background */
		err = agent->class->publish(agent, "node-a", text, strlen(text), id);
		if (err)
			usleep(100000);
	}
	return err;
}

static void reports_come_once_and_in_order(void **state)
{
	struct bus_cursor *c;
	struct bus_message msg;

	(void)state;
	assert_int_equal(publish("one", "1"), 0);
	assert_int_equal(publish("one", "1"), 0); /* its answer was lost, for all that the agent knows */
	assert_int_equal(publish("two", "2"), 0);
	assert_int_equal(hub->class->follow(hub, BUS_REPORTS, NULL, 0, 60, &c), 0);
	assert_int_equal(hub->class->fetch(c, 2000, &msg), 1);
	assert_string_equal(msg.token, "node-a");
	assert_memory_equal(msg.data, "one", 3);
	assert_true(msg.stored_ns > 1700000000000000000ll);
	assert_int_equal(hub->class->fetch(c, 2000, &msg), 1);
	assert_memory_equal(msg.data, "two", 3);
	assert_int_equal(msg.n_behind, 0);
	assert_int_equal(hub->class->fetch(c, 200, &msg), 0);
	hub->class->cursor_free(c);
}

static int append(const char *token, uint64_t after, uint64_t *ret)
{
	return hub->class->append(hub, token, "x", 1, after, ret);
}

static void who_writes_behind_another_is_refused(void **state)
{
	uint64_t first, second, none = 0;

	(void)state;
	assert_int_equal(append("job", BUS_NO_REVISION, &first), 0);
	assert_int_equal(append("job", first, &second), 0);
	assert_int_equal(append("job", first, &none), -ESTALE);
	assert_int_equal(append("job", BUS_NO_REVISION, &none), -ESTALE);
	assert_int_equal(append("other", second, &none), -ESTALE);
	assert_int_equal(none, 0);
	assert_int_equal(append("other", BUS_NO_REVISION, &none), 0); /* a log of its own */
	assert_int_equal(hub->class->last(hub, "job", &none), 0);
	assert_int_equal(none, second);
	assert_int_equal(hub->class->last(hub, "no-such-job", &none), 0);
	assert_int_equal(none, BUS_NO_REVISION);
}

static void a_lease_changes_for_who_knows_its_revision(void **state)
{
	uint64_t first, second, none;
	char value[16];

	(void)state;
	assert_int_equal(hub->class->table_read(hub, BUS_LEASES, "job", value, sizeof(value), &none), 0);
	assert_int_equal(none, BUS_NO_REVISION);
	assert_int_equal(hub->class->table_write(hub, BUS_LEASES, "job", "a", BUS_NO_REVISION, &first), 0);
	assert_int_equal(hub->class->table_write(hub, BUS_LEASES, "job", "b", BUS_NO_REVISION, &none), -ESTALE);
	assert_int_equal(hub->class->table_write(hub, BUS_LEASES, "job", "a", first, &second), 0);
	assert_int_equal(hub->class->table_write(hub, BUS_LEASES, "job", "b", first, &none), -ESTALE);
	assert_int_equal(hub->class->table_read(hub, BUS_LEASES, "job", value, sizeof(value), &none), 0);
	assert_int_equal(none, second);
	assert_string_equal(value, "a");
}

/* The whole server stops, and its files are what is left. What was not acknowledged may come after all, behind what it
 * was to be behind. */
static void a_server_that_is_killed_keeps_incidents(void **state)
{
	uint64_t before, now = 0;
	int err = -1;

	(void)state;
	assert_int_equal(hub->class->last(hub, "job", &before), 0);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	assert_true(append("job", before, &now) < 0);
	assert_true(agent->class->publish(agent, "node-a", "x", 1, "9") < 0);
	server = server_start();
	for (int i = 0; i < 100 && err; i++) {
		err = hub->class->last(hub, "job", &now);
		usleep(100000);
	}
	assert_int_equal(err, 0);
	assert_true(now >= before);
	assert_int_equal(append("job", now, &now), 0);
}

static void settings_that_cannot_be(void **state)
{
	struct bus_cfg cfg = { .url = url, .name = "test", .ca = "/nonexistent.pem" };
	struct bus *b = NULL;

	(void)state;
	assert_int_equal(bus_nats_open(&cfg, &b, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "/nonexistent.pem"));
	cfg = (struct bus_cfg){ .url = ",", .name = "test" };
	assert_int_equal(bus_nats_open(&cfg, &b, error, sizeof(error)), -EINVAL);
	assert_null(b);
	cfg.url = "nats://127.0.0.1:9"; /* no server there, yet */
	assert_int_equal(bus_nats_open(&cfg, &b, error, sizeof(error)), 0);
	assert_int_equal(b->class->publish(b, "node-a", "x", 1, "1"), -ENOTCONN);
	b->class->close(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_come_once_and_in_order),
		cmocka_unit_test(who_writes_behind_another_is_refused),
		cmocka_unit_test(a_lease_changes_for_who_knows_its_revision),
		cmocka_unit_test(a_server_that_is_killed_keeps_incidents),
		cmocka_unit_test(settings_that_cannot_be),
	};

	if (system("command -v nats-server > /dev/null && ldconfig -p | grep -q libnats")) {
		printf("skipped: nats-server or libnats is missing\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, begin, end);
}
