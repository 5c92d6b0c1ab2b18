/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c - see server.h: the collector's side.
 */
#include "metrics/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "metrics/share.h"
#include "metrics/web/web_config.h"

#define BACKLOG 1024
#define START_MS 10000
#define FORMS "give PORT (on 127.0.0.1), ADDR:PORT or [ADDR]:PORT, with a number as address"

static int port_parse(const char *text, in_port_t *ret)
{
	char *end;
	unsigned long port = strtoul(text, &end, 10);

	if (end == text || *end || port > 65535 || *text == '-' || *text == '+')
		return -EINVAL;
	*ret = htons((in_port_t)port);
	return 0;
}

static int host_parse(const char *host, in_port_t port, struct sockaddr_storage *ret, socklen_t *ret_len)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = port;
		*ret_len = sizeof(*v4);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
		return -EINVAL;
	v6->sin6_family = AF_INET6;
	v6->sin6_port = port;
	*ret_len = sizeof(*v6);
	return 0;
}

int server_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len, char *error, size_t size)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2] = "127.0.0.1", *bare = host;
	size_t len = colon ? (size_t)(colon - text) : 0;
	in_port_t port;

	if (colon && len < sizeof(host)) {
		memcpy(host, text, len);
		host[len] = 0;
	}
	if (*host == '[' && host[strlen(host) - 1] == ']') {
		host[strlen(host) - 1] = 0;
		bare++;
	}
	if (len < sizeof(host) && !port_parse(colon ? colon + 1 : text, &port) && !host_parse(bare, port, ret, ret_len))
		return 0;
	snprintf(error, size, "'%.64s' is no address to listen on; " FORMS, text);
	return -EINVAL;
}

static bool is_loopback(const struct sockaddr_storage *at)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)at;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)at;

	return at->ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
					: IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* As bound: port 0 became one that was free. */
static void bound_set(struct server *s, int fd)
{
	struct sockaddr_storage at = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;
	socklen_t len = sizeof(at);
	char host[INET6_ADDRSTRLEN] = "?";

	if (getsockname(fd, (struct sockaddr *)&at, &len))
		return;
	s->open = !is_loopback(&at);
	if (at.ss_family == AF_INET)
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
	else
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
	snprintf(s->url, sizeof(s->url),
		 at.ss_family == AF_INET ? "http%s://%s:%u/metrics" : "http%s://[%s]:%u/metrics", s->tls ? "s" : "",
		 host, ntohs(at.ss_family == AF_INET ? v4->sin_port : v6->sin6_port));
}

static int listen_on(const char *address, int *ret, char *error, size_t size)
{
	struct sockaddr_storage at;
	socklen_t len;
	int one = 1, fd, err = server_address(address, &at, &len, error, size);

	if (err)
		return err;
	fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) || listen(fd, BACKLOG)) {
		err = -errno;
		snprintf(error, size, "--metrics %s: %s; give an address of this host and a port that is free", address,
			 strerror(-err));
		if (fd >= 0)
			close(fd);
		return err;
	}
	*ret = fd;
	return 0;
}

/* Of the collector it keeps nothing: not even its standard output, whose reader would wait for its end. */
__attribute__((noreturn)) static void child_run(const int *files, pid_t parent, struct web_config *web)
{
	int copies[SERVER_FILES];

	for (int i = 0; i < SERVER_FILES; i++) { /* each may be one of the first itself */
		copies[i] = fcntl(files[i], F_DUPFD_CLOEXEC, SERVER_FILES);
		if (copies[i] < 0)
			_exit(1);
	}
	for (int i = 0; i < SERVER_FILES; i++)
		if (dup2(copies[i], i) < 0)
			_exit(1);
	if (syscall(SYS_close_range, SERVER_FILES, ~0u, 0)) /* Linux 5.9 */
		_exit(1);
	server_main(parent, web);
}

static const char *status_text(uint8_t status)
{
	switch (status) {
	case SERVER_NO_LIBRARY: return "--metrics: libmicrohttpd.so.12 is missing; install libmicrohttpd12";
	case SERVER_NO_TLS:
		return "--metrics-config: this libmicrohttpd has no TLS; install Debian's libmicrohttpd12, or put a "
		       "reverse proxy in front";
	case SERVER_NO_BCRYPT:
		return "--metrics-config: passwords take libcrypt with bcrypt (libxcrypt) and libgnutls.so.30; install "
		       "libcrypt1 and libgnutls30";
	case SERVER_BAD_PAIR:
		return "--metrics-config: cert_file and key_file are no pair that GnuTLS takes; 'openssl x509 -noout "
		       "-pubkey -in CERT' and 'openssl pkey -pubout -in KEY' must print the same";
	case SERVER_BAD_CLIENT_CA:
		return "--metrics-config: GnuTLS finds no certificate in client_ca_file; 'openssl x509 -noout -text "
		       "-in FILE' must print it";
	}
	return "--metrics: the server did not start; it takes a kernel with seccomp filters";
}

/* It has its library, gave up its rights, and listens; or says why not. */
static int status_wait(int fd, char *error, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t status = SERVER_FAILED;

	if (poll(&p, 1, START_MS) == 1 && recv(fd, &status, 1, MSG_DONTWAIT) != 1)
		status = SERVER_FAILED;
	if (status != SERVER_READY)
		snprintf(error, size, "%s", status_text(status));
	return status == SERVER_READY ? 0 : -ENOTSUP;
}

static int channel_open(struct server *s, int *ret_theirs)
{
	int ends[2];

	s->web_fd = memfd_create("ranktrace-web", MFD_CLOEXEC);
	if (s->web_fd < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
		close(s->web_fd);
		return -errno;
	}
	s->channel = ends[0];
	*ret_theirs = ends[1];
	return 0;
}

static void channel_close(struct server *s)
{
	close(s->channel);
	close(s->web_fd);
}

static int child_start(struct server *s, int listen_fd, int page_fd, struct web_config *web, char *error, size_t size)
{
	int theirs = -1, err = channel_open(s, &theirs);
	pid_t parent = getpid(), pid;

	if (err)
		return err;
	pid = fork();
	if (!pid)
		child_run((int[SERVER_FILES]){ listen_fd, page_fd, theirs, s->web_fd }, parent, web);
	err = pid < 0 ? -errno : 0;
	close(theirs);
	if (err) {
		channel_close(s);
		return err;
	}
	s->pid = pid;
	return status_wait(s->channel, error, size);
}

/* At the start, and with each new configuration. */
static void open_door_say(const struct server *s, const struct web_config *web)
{
	bool tls = web->pems[WEB_CERT].path, asks = web->n_users || web->clients == WEB_CLIENTS_KNOWN;

	if ((tls && asks) || !s->open)
		return;
	log_warn("%s: %s; have a --metrics-config with tls_server_config and basic_auth_users "
		 "(docs/operate.md), or listen on 127.0.0.1",
		 s->url,
		 asks  ? "without TLS the passwords cross the network readable"
		 : tls ? "all who reach this address may read the metrics"
		       : "all who reach this address may read the metrics, also on their way");
}

int server_start(struct server *s, const char *address, struct web_config *web, struct share **ret, char *error,
		 size_t size)
{
	int listen_fd = -1, page_fd = -1, err = listen_on(address, &listen_fd, error, size);

	if (err)
		return err;
	snprintf(error, size, "--metrics: out of memory or processes");
	s->tls = web->pems[WEB_CERT].path;
	bound_set(s, listen_fd);
	err = share_new(ret, &page_fd);
	if (!err) {
		err = child_start(s, listen_fd, page_fd, web, error, size);
		close(page_fd);
	}
	close(listen_fd);
	if (err)
		return err;
	open_door_say(s, web);
	log_info("metrics at %s", s->url);
	return 0;
}

int server_renew(struct server *s, const struct web_config *web, char *error, size_t size)
{
	int err = s->asked ? -EBUSY : s->tls == (web->pems[WEB_CERT].path != NULL) ? 0 : -EINVAL;

	if (err == -EINVAL)
		snprintf(error, size, "%s: tls_server_config %s; that takes a restart", web->path,
			 s->tls ? "is gone" : "is new");
	if (err)
		return err;
	err = web_config_pack(web, s->web_fd);
	if (!err && send(s->channel, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		err = -errno;
	if (err) {
		snprintf(error, size, "%s: the server of the metrics does not take it: %s", web->path, strerror(-err));
		return err;
	}
	s->asked = true;
	open_door_say(s, web);
	return 0;
}

int server_renewed(struct server *s, char *error, size_t size)
{
	uint8_t status = SERVER_FAILED;

	if (!s->pid || !s->asked || recv(s->channel, &status, 1, MSG_DONTWAIT) < 0)
		return -EAGAIN;
	s->asked = false;
	if (ftruncate(s->web_fd, 0))
		return -errno;
	if (status == SERVER_READY)
		return 0;
	snprintf(error, size, "%s", status_text(status));
	return -EINVAL;
}

bool server_ended(struct server *s)
{
	if (s->pid && waitpid(s->pid, NULL, WNOHANG)) { /* also of what the kernel reaped itself */
		channel_close(s);
		s->pid = 0;
	}
	return !s->pid;
}

void server_stop(struct server *s)
{
	if (server_ended(s))
		return;
	if (!kill(s->pid, SIGKILL)) /* a hub may not: it sees that its parent is gone */
		waitpid(s->pid, NULL, 0);
	channel_close(s);
	s->pid = 0;
}
