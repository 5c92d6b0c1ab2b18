/* SPDX-License-Identifier: Apache-2.0
 *
 * test_wait.c - what a sleeping process waits for, where another one is to do something: the other side of a socket, a
 * child. Real ones, each blocked in one way, read from outside.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/inspect/wait_processes.h"

/* For the client to come. */
static int listen_at(uint32_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	shared->at_work = false;
	return fd;
}

/* An object store: takes a connection, says one byte and then nothing. */
static void store(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);

	prctl(PR_SET_NAME, "store");
	if (write(fd, "x", 1) == 1)
		pause();
}

static int connect_to(uint32_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char byte;

	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) || write(fd, "q", 1) != 1 || read(fd, &byte, 1) != 1)
		_exit(1);
	shared->at_work = true; /* until here it waited for the same server, in another call */
	return fd;
}

static void body_recv(void *arg)
{
	char byte;
	int fd = connect_to(shared->port);

	(void)arg;
	if (recv(fd, &byte, 1, 0) < 0)
		_exit(1);
}

/* As libcurl does: the socket among descriptors of its own, by poll, select or epoll. */
static void body_poll(void *arg)
{
	struct pollfd fds[3] = { { eventfd(0, 0), POLLIN, 0 },
				 { -1, POLLIN, 0 },
				 { connect_to(shared->port), POLLIN, 0 } };

	(void)arg;
	poll(fds, 3, -1);
}

static void body_select(void *arg)
{
	int own[2], fd = connect_to(shared->port);
	fd_set set;

	(void)arg;
	if (pipe(own))
		_exit(1);
	FD_ZERO(&set);
	FD_SET(own[0], &set);
	FD_SET(fd, &set);
	select(64, &set, NULL, NULL, NULL);
}

static void body_epoll(void *arg)
{
	int ep = epoll_create1(0), fd = connect_to(shared->port), own = eventfd(0, 0);
	struct epoll_event e = { .events = EPOLLIN }, got;

	(void)arg;
	epoll_ctl(ep, EPOLL_CTL_ADD, own, &e);
	epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
	epoll_wait(ep, &got, 1, -1);
}

static void an_answer_on_a_socket(void **state)
{
	void (*const bodies[])(void *) = { body_recv, body_poll, body_select, body_epoll };
	char address[64], text[512];
	struct target_wait w, again;

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		int fd = listen_at(&shared->port);
		pid_t server = fork_into(store, &fd), pid = fork_into(bodies[i], NULL);

		work_expect();
		snprintf(address, sizeof(address), "waits for an answer of 127.0.0.1:%u (pid %d store, ", shared->port,
			 server);
		expect_kind(pid, address, WAITS_SOCKET, &w);
		assert_int_equal(w.w.pid, server);
		assert_true(w.w.since_ns > 0 && w.w.since_ns <= w.w.ns);
		assert_true(w.bytes >= 2); /* and what the kernel counts for opening */
		wait_remedy(&w.w, text, sizeof(text));
		assert_non_null(strstr(text, "does not answer: look there first"));
		assert_int_equal(target_wait_read(reader, pid, pid, WAIT_DEADLINE_MS, &again), 0);
		target_wait_compare(&w, &again);
		assert_int_equal(again.w.flags, WAITS_STANDS);
		end(pid);
		end(server);
		close(fd);
	}
}

/* Bytes that come are no answer yet, but the other side lives. */
static void trickle(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);

	for (;;) {
		if (write(fd, "x", 1) != 1)
			_exit(1);
		usleep(20000);
	}
}

static void body_slow(void *arg)
{
	int fd = connect_to(shared->port);
	char bytes[4096];

	(void)arg;
	recv(fd, bytes, sizeof(bytes), MSG_WAITALL);
}

static void bytes_that_move(void **state)
{
	int fd = listen_at(&shared->port);
	pid_t server = fork_into(trickle, &fd), pid = fork_into(body_slow, NULL);
	struct target_wait w, again;
	char text[512];

	(void)state;
	work_expect();
	expect_kind(pid, "waits for an answer", WAITS_SOCKET, &w);
	for (int i = 0; i < LOOKS && (!i || !(again.w.flags & WAITS_MOVES)); i++) {
		usleep(50000); /* on a busy machine nothing may come meanwhile */
		assert_int_equal(target_wait_read(reader, pid, pid, WAIT_DEADLINE_MS, &again), 0);
		target_wait_compare(&w, &again);
	}
	assert_true(again.w.flags & WAITS_MOVES);
	wait_text(&again.w, text, sizeof(text));
	assert_non_null(strstr(text, "bytes move"));
	assert_null(strstr(text, "no byte"));
	end(pid);
	end(server);
	close(fd);
}

static void body_accept(void *arg)
{
	accept(*(int *)arg, NULL, NULL);
}

static void body_udp(void *arg)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(53053) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char byte;

	(void)arg;
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) || recv(fd, &byte, 1, 0) < 0)
		_exit(1);
}

/* Of anybody, as a name server's client does. */
static void body_udp_open(void *arg)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char byte;

	(void)arg;
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || recv(fd, &byte, 1, 0) < 0)
		_exit(1);
}

static void body_unix(void *arg)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char byte;

	snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/daemon", (const char *)arg);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) || recv(fd, &byte, 1, 0) < 0)
		_exit(1);
}

static void body_unix_server(void *arg)
{
	prctl(PR_SET_NAME, "daemon");
	if (accept(*(int *)arg, NULL, NULL) >= 0)
		pause();
}

static void other_sockets(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = listen_at(&shared->port), local = socket(AF_UNIX, SOCK_STREAM, 0);
	struct target_wait w;
	char part[256];
	pid_t pid = fork_into(body_accept, &fd), server;

	(void)state;
	snprintf(part, sizeof(part), "waits for a connection on port %u", shared->port);
	expect_kind(pid, part, WAITS_SOCKET, &w);
	end(pid);
	pid = fork_into(body_udp, NULL);
	expect_kind(pid, "waits for an answer of 127.0.0.1:53053 (UDP", WAITS_SOCKET, &w);
	end(pid);
	pid = fork_into(body_udp_open, NULL);
	expect_kind(pid, "waits for data on port ", WAITS_SOCKET, &w);
	end(pid);
	snprintf(a.sun_path, sizeof(a.sun_path), "%.90s/daemon", folder);
	assert_int_equal(bind(local, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(local, 1), 0);
	server = fork_into(body_unix_server, &local);
	pid = fork_into(body_unix, folder);
	snprintf(part, sizeof(part), "waits for an answer of socket %.90s/daemon (pid %d daemon", folder, server);
	expect_kind(pid, part, WAITS_SOCKET, &w);
	end(pid);
	end(server);
	close(local);
	close(fd);
	unlink(a.sun_path);
}

/* The loopback of a namespace of its own, with the address and port of a server of ours: not that one. */
static void body_elsewhere(void *arg)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd, client;
	char byte;

	(void)arg;
	if (unshare(CLONE_NEWNET) || system("ip link set lo up"))
		_exit(1);
	fd = listen_at(&shared->port);
	client = socket(AF_INET, SOCK_STREAM, 0);
	getsockname(fd, (struct sockaddr *)&a, &len);
	shared->pid = fork_into(store, &fd);
	if (connect(client, (struct sockaddr *)&a, len) || write(client, "q", 1) != 1 || read(client, &byte, 1) != 1 ||
	    read(client, &byte, 1) < 0)
		_exit(1);
}

static void a_socket_in_another_namespace(void **state)
{
	pid_t pid;
	struct target_wait w;
	char part[128];

	(void)state;
	if (geteuid())
		skip();
	shared->port = shared->pid = 0;
	pid = fork_into(body_elsewhere, NULL);
	for (int i = 0; i < LOOKS && !shared->pid; i++)
		usleep(20000);
	assert_true(shared->pid);
	snprintf(part, sizeof(part), "waits for an answer of 127.0.0.1:%u (pid %u store", shared->port, shared->pid);
	expect_kind(pid, part, WAITS_SOCKET, &w);
	end(pid);
}

/* --- children --- */

static void nap(void *arg)
{
	prctl(PR_SET_NAME, "pt_data_worker");
	for (;;)
		sleep(*(const int *)arg);
}

static void body_wait(void *arg)
{
	const int hour = 3600;

	shared->pid = fork_into(nap, (void *)&hour);
	if (arg)
		waitpid(-1, NULL, 0);
	else
		waitpid(shared->pid, NULL, 0);
}

/* Data of a child, by a pipe whose ends all have, as with a queue of multiprocessing: one works, the other idles. */
static void body_worker(void *arg)
{
	int *ends = arg;
	char byte;

	prctl(PR_SET_NAME, "idle_worker");
	if (read(ends[2], &byte, 1) < 0)
		_exit(1);
}

static void body_queue(void *arg)
{
	const int hour = 3600;
	int ends[4];
	char byte;

	if (pipe(ends) || pipe(ends + 2))
		_exit(1);
	shared->pid = fork_into(nap, (void *)&hour);
	usleep(30000); /* the clock that tells their ages ticks every 10 ms: the one at work is the older */
	fork_into(body_worker, ends);
	if (arg) {
		struct pollfd fds[2] = { { eventfd(0, 0), POLLIN, 0 }, { ends[0], POLLIN, 0 } };

		poll(fds, 2, -1);
	} else if (read(ends[0], &byte, 1) < 0) {
		_exit(1);
	}
}

/* A thread of its own has the pipe, and hands on what comes: PyTorch's pin_memory. */
static const char *thread_name = "pt_pin_memory";

static void *pin(void *arg)
{
	char byte;

	prctl(PR_SET_NAME, thread_name);
	return read(*(int *)arg, &byte, 1) < 0 ? NULL : arg;
}

static void body_pin(void *arg)
{
	static sem_t ready;
	const int hour = 3600;
	pthread_t t;
	int ends[2];

	thread_name = arg ? arg : thread_name;
	if (pipe(ends))
		_exit(1);
	shared->pid = fork_into(nap, (void *)&hour);
	pthread_create(&t, NULL, pin, &ends[0]);
	sem_init(&ready, 0, 0);
	sem_wait(&ready);
}

static void data_that_a_thread_waits_for(void **state)
{
	pid_t pid = fork_into(body_pin, NULL);
	struct target_wait w;
	char part[128], text[512];

	(void)state;
	expect_kind(pid, "semaphore of its own process, where thread ", WAITS_CONDITION, &w);
	snprintf(part, sizeof(part), "'pt_pin_memory' waits for data of child %u (pt_data_worker, started",
		 shared->pid);
	expect(pid, part, &w);
	wait_remedy(&w.w, text, sizeof(text));
	assert_non_null(strstr(text, "look at thread "));
	end(pid);
}

/* Seen on a real job: a rank waited for a Python lock, and the driver's thread polled a pipe that its data workers had
 * inherited. */
static void a_thread_of_the_driver_is_not_followed(void **state)
{
	pid_t pid = fork_into(body_pin, (void *)"cuda00001800007");
	struct target_wait w;

	(void)state;
	expect_kind(pid, "semaphore of its own process", WAITS_CONDITION, &w);
	assert_int_equal(w.w.thread, 0);
	assert_string_equal(w.w.activity, "");
	end(pid);
}

static void a_child(void **state)
{
	struct target_wait w, again;
	char part[128];

	(void)state;
	for (long any = 0; any < 2; any++) {
		pid_t pid = fork_into(body_wait, (void *)any);

		expect_kind(pid, "(pt_data_worker, started ", WAITS_CHILD, &w);
		snprintf(part, sizeof(part), "waits for child %u (pt_data_worker, started ", shared->pid);
		expect(pid, part, &w);
		expect(pid, "s ago, sleeps for 60 min (timer))", &w);
		assert_int_equal(w.w.pid, shared->pid);
		assert_true(w.w.ns - w.w.since_ns < 10000000000ull);
		assert_int_equal(target_wait_read(reader, pid, pid, WAIT_DEADLINE_MS, &again), 0);
		target_wait_compare(&w, &again);
		assert_int_equal(again.w.flags & (WAITS_MOVES | WAITS_STANDS), WAITS_STANDS);
		kill(shared->pid, SIGSTOP);
		expect(pid, "s ago, stopped)", &w);
		end(pid);
	}
}

static void data_of_a_child(void **state)
{
	struct target_wait w;
	char part[128];
	pid_t pid;

	(void)state;
	for (int polls = 0; polls < 2; polls++) {
		pid = fork_into(body_queue, polls ? "" : NULL);
		expect_kind(pid, "one of 2 children)", WAITS_CHILD, &w);
		snprintf(part, sizeof(part), "waits for data of child %u (pt_data_worker", shared->pid);
		expect(pid, part, &w);
		assert_int_equal(w.w.act, WAITS_TO_READ);
		end(pid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_on_a_socket),
		cmocka_unit_test(bytes_that_move),
		cmocka_unit_test(other_sockets),
		cmocka_unit_test(a_socket_in_another_namespace),
		cmocka_unit_test(a_child),
		cmocka_unit_test(data_of_a_child),
		cmocka_unit_test(data_that_a_thread_waits_for),
		cmocka_unit_test(a_thread_of_the_driver_is_not_followed),
	};
	int failed = reader_open(&reader) ? 1 : cmocka_run_group_tests(tests, waits_begin, waits_over);

	reader_free(reader);
	return failed;
}
