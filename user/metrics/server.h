/* SPDX-License-Identifier: Apache-2.0
 *
 * server.h - the process that serves the pages of metrics over HTTP (libmicrohttpd). It has no rights, no file but the
 * listening socket, the shared page, and what its parent says to it, and a filter of system calls. Bounded:
 * connections, memory, and the life of a connection, whatever its client sends or does not take.
 */
#ifndef RANKTRACE_METRICS_SERVER_H
#define RANKTRACE_METRICS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

struct share;
struct web_config;

#define SERVER_NAME "ranktrace-http"

struct server {
	pid_t pid;    /* 0: none, or it ended, and has no files */
	int channel;  /* a byte for "there is a new configuration", and enum server_status as the answer */
	int web_fd;   /* in which that is (web_config_pack()): empty again with the answer */
	bool asked;   /* the answer is to come */
	bool tls;     /* since its start, and to its end */
	bool open;    /* to others than this host */
	char url[96]; /* "http://127.0.0.1:9978/metrics", or https */
};

/* "[ADDR:]PORT": a number as address ("[::1]" of IPv6), none: 127.0.0.1. 0, or -EINVAL with what is wrong in `error`.
 */
int server_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_len, char *error, size_t size);
/* Binds and forks: while this process still has one thread. `web`: who may read, with certificate and key loaded; the
 * server has its own copy. The page to write is *ret. 0, or -errno with `error`. */
int server_start(struct server *s, const char *address, struct web_config *web, struct share **ret, char *error,
		 size_t size);
/* New certificates and users for the connections that begin from now on: `web` is loaded. The server has its own copy.
 * 0, -EBUSY: the last one is not answered; or -errno with `error`, and nothing changed. */
int server_renew(struct server *s, const struct web_config *web, char *error, size_t size);
/* Has it taken them? 0, -EAGAIN: not yet, or nothing was asked; or -errno with `error`, and what was there stays. */
int server_renewed(struct server *s, char *error, size_t size);
bool server_ended(struct server *s);
void server_stop(struct server *s);

/* server_http.c: the process itself; never returns. Its files: */
enum { SERVER_SOCKET, SERVER_PAGE, SERVER_CHANNEL, SERVER_WEB, SERVER_FILES };
enum server_status { /* a byte: at the start, and of each new configuration */
		     SERVER_READY = 1,
		     SERVER_NO_LIBRARY,
		     SERVER_NO_TLS,    /* libmicrohttpd was built without */
		     SERVER_NO_BCRYPT, /* nor digests: libcrypt, libgnutls */
		     SERVER_BAD_PAIR,  /* certificate and key */
		     SERVER_BAD_CLIENT_CA,
		     SERVER_FAILED
};
__attribute__((noreturn)) void server_main(pid_t parent, struct web_config *web);

#endif
