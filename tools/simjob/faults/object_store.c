// SPDX-License-Identifier: Apache-2.0
/*
 * See object_store.h. A process for each connection, so that one slow answer does not delay the next. It says its
 * process number at once, which is what a test needs to know, and the answer when it is due.
 */
#include "tools/simjob/faults/object_store.h"

#include "tools/simjob/faults/faults.h"
#include "tools/simjob/job/rank.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define PORT_VARIABLE "SIMJOB_STORE_PORT"

struct request {
	uint64_t delay_ns;
	char fifo[256]; /* "" answer on the connection */
};

static struct {
	int pid, port;
} server;

static void failed(const char *what)
{
	fprintf(stderr, "simjob: object store: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void die_with_parent(int parent)
{
	prctl(PR_SET_NAME, "object-store");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
}

static void request_serve(int fd)
{
	struct request request;
	int pid = getpid();

	if (recv(fd, &request, sizeof(request), MSG_WAITALL) != sizeof(request) ||
	    send(fd, &pid, sizeof(pid), 0) != sizeof(pid))
		_exit(0);
	request.fifo[sizeof(request.fifo) - 1] = '\0';
	if (request.fifo[0])
		fd = open(request.fifo, O_WRONLY | O_CLOEXEC);
	sleep_until(clock_now_ns() + request.delay_ns);
	if (fd < 0 || write(fd, "", 1) != 1)
		_exit(1);
	_exit(0);
}

static void server_run(int listening, int launcher)
{
	int self = getpid(), fd;

	die_with_parent(launcher);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		fd = accept(listening, NULL, NULL);
		if (fd < 0 && errno != EINTR)
			failed("accept");
		if (fd >= 0 && fork() == 0) {
			close(listening);
			die_with_parent(self);
			request_serve(fd);
		}
		if (fd >= 0)
			close(fd);
	}
}

static void server_start(const struct options *options, struct store *store)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), launcher = getpid();

	(void)options;
	(void)store;
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64) ||
	    getsockname(fd, (struct sockaddr *)&address, &length))
		failed("cannot listen");
	server.port = ntohs(address.sin_port);
	server.pid = fork();
	if (server.pid < 0)
		failed("fork");
	if (server.pid == 0)
		server_run(fd, launcher);
	close(fd);
}

static void server_set_env(void)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", server.port);
	setenv(PORT_VARIABLE, text, 1);
}

/* Its connections end with it, and the launcher reaps it. */
static void server_release(void)
{
	if (server.pid > 0)
		kill(server.pid, SIGKILL);
	server.pid = 0;
}

const struct resource resource_object_store = {
	.create = server_start,
	.set_env = server_set_env,
	.release = server_release,
};

struct object_store object_store_ask(uint64_t delay_ns, const char *fifo)
{
	const char *port = getenv(PORT_VARIABLE);
	struct object_store store = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
				      .port = port ? atoi(port) : 0 };
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				       .sin_port = htons(store.port) };
	struct request request = { .delay_ns = delay_ns };

	snprintf(request.fifo, sizeof(request.fifo), "%s", fifo ? fifo : "");
	if (store.fd < 0 || connect(store.fd, (struct sockaddr *)&address, sizeof(address)) ||
	    send(store.fd, &request, sizeof(request), 0) != sizeof(request) ||
	    recv(store.fd, &store.pid, sizeof(store.pid), MSG_WAITALL) != sizeof(store.pid))
		failed("cannot ask");
	return store;
}

void object_store_await(struct object_store *store)
{
	char byte;

	while (recv(store->fd, &byte, 1, 0) < 0 && errno == EINTR)
		;
	close(store->fd);
}
