/* SPDX-License-Identifier: Apache-2.0
 *
 * server_http.c - see server.h: the server's side. One thread; each request gets the newest page, which is put together
 * once for all that ask for it. A connection serves one request and lives for seconds; where too many are open, the
 * oldest goes, so that a client that sends nothing keeps none out.
 */
#include "metrics/server.h"

#include <dlfcn.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "metrics/format.h"
#include "metrics/server_auth.h"

#define CONNECTIONS_MAX 1536 /* the oldest goes; libmicrohttpd itself refuses at CONNECTIONS_END */
#define CONNECTIONS_END 2048
#define TLS_VERSIONS "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" /* as Prometheus' exporters without min_version */
#define CONNECTION_LIFE_NS 5000000000ull
#define CONNECTION_BYTES 4096 /* for a request's headers; a scraper's have 500 */
#define FILES_MAX 4096
#define DATA_BYTES (128u << 20) /* 2,048 connections (TLS: of 16 KB), and pages that slow clients still take */
#define STALE_NS 30000000000ull /* the collector writes one a second */
#define WAIT_MS 500
#define ROOT_TEXT "ranktrace: metrics at /metrics\n"

struct connection {
	struct connection *next, *prev; /* from the oldest to the newest */
	int fd;
	uint64_t begun_ns;
};

/* By dlopen, here alone: the collector maps no HTTP, nor the TLS that the library brings along. */
#define HTTP_LIBRARY "libmicrohttpd.so.12"
#define HTTP_FUNCTIONS(X) \
	X(start_daemon, MHD_start_daemon) \
	X(run_wait, MHD_run_wait) \
	X(response_from_buffer, MHD_create_response_from_buffer) \
	X(add_header, MHD_add_response_header) \
	X(queue_response, MHD_queue_response) \
	X(destroy_response, MHD_destroy_response) \
	X(lookup_value, MHD_lookup_connection_value) \
	X(is_supported, MHD_is_feature_supported) \
	X(basic_auth, MHD_basic_auth_get_username_password) \
	X(basic_auth_fail, MHD_queue_basic_auth_fail_response) \
	X(give_back, MHD_free) \
	X(connection_info, MHD_get_connection_info)

static struct {
#define X(field, symbol) __typeof__(symbol) *field;
	HTTP_FUNCTIONS(X)
#undef X
} http;

static struct {
	const struct web_config *web;
	const struct share *share;
	struct shared_page page;
	uint64_t turn; /* of `page` and the answers */
	struct MHD_Response *answers[FORMATS];
	struct connection *oldest, *newest;
	size_t n;
} server;

/* --- answers --- */

static void answers_renew(void)
{
	if (share_turn(server.share) == server.turn)
		return;
	server.turn = share_copy(server.share, &server.page);
	for (int i = 0; i < FORMATS; i++) {
		if (server.answers[i])
			http.destroy_response(server.answers[i]); /* who is being served keeps it */
		server.answers[i] = NULL;
	}
}

static struct MHD_Response *answer_of(enum metrics_format f)
{
	struct MHD_Response *r;
	size_t len;
	char *text;

	answers_renew();
	if (server.answers[f])
		return server.answers[f];
	text = format_page(&server.page, f, &len);
	r = text ? http.response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE) : NULL;
	if (!r) {
		free(text);
		return NULL;
	}
	http.add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, format_content_type(f));
	http.add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	return server.answers[f] = r;
}

static enum MHD_Result text_send(struct MHD_Connection *c, unsigned int status, const char *text)
{
	struct MHD_Response *r = http.response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result done;

	if (!r)
		return MHD_NO;
	http.add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; charset=utf-8");
	http.add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		http.add_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	done = http.queue_response(c, status, r);
	http.destroy_response(r);
	return done;
}

static enum MHD_Result page_send(struct MHD_Connection *c)
{
	struct MHD_Response *r =
		answer_of(format_wanted(http.lookup_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT)));

	if (!server.turn)
		return text_send(c, MHD_HTTP_SERVICE_UNAVAILABLE, "the session has not begun yet\n");
	if (clock_monotonic_ns() - server.page.made_ns > STALE_NS)
		return text_send(c, MHD_HTTP_SERVICE_UNAVAILABLE, "the collector had no turn for 30 s\n");
	return r ? http.queue_response(c, MHD_HTTP_OK, r) : MHD_NO;
}

static enum auth who_asks(struct MHD_Connection *c)
{
	char *password = NULL, *name = http.basic_auth(c, &password);
	enum auth who = auth_check(name, password, clock_monotonic_ns());

	if (password)
		explicit_bzero(password, strlen(password));
	http.give_back(password);
	http.give_back(name);
	return who;
}

static enum MHD_Result refusal_send(struct MHD_Connection *c, enum auth who)
{
	static const char text[] = "a user and the password are wanted (basic authentication)\n";
	struct MHD_Response *r;
	enum MHD_Result done;

	if (who == AUTH_LATER)
		return text_send(c, MHD_HTTP_TOO_MANY_REQUESTS, "too many wrong passwords; again in some seconds\n");
	r = http.response_from_buffer(sizeof(text) - 1, (void *)text, MHD_RESPMEM_PERSISTENT);
	if (!r)
		return MHD_NO;
	http.add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	done = http.basic_auth_fail(c, "ranktrace", r);
	http.destroy_response(r);
	return done;
}

static enum MHD_Result request_take(void *of, struct MHD_Connection *c, const char *url, const char *method,
				    const char *version, const char *upload, size_t *upload_size, void **state)
{
	enum auth who;
	bool reads = !strcmp(method, MHD_HTTP_METHOD_GET) || !strcmp(method, MHD_HTTP_METHOD_HEAD);

	(void)of;
	(void)version;
	(void)upload;
	(void)upload_size;
	if (!reads)
		return text_send(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD alone\n");
	if (!*state) { /* its headers are there; the answer is given at the next call */
		*state = &server;
		return MHD_YES;
	}
	if (server.web->n_users && (who = who_asks(c)) != AUTH_RIGHT)
		return refusal_send(c, who);
	if (!strcmp(url, "/metrics"))
		return page_send(c);
	return !strcmp(url, "/") ? text_send(c, MHD_HTTP_OK, ROOT_TEXT) : text_send(c, MHD_HTTP_NOT_FOUND, ROOT_TEXT);
}

/* --- connections --- */

static void connection_remove(struct connection *k)
{
	*(k->prev ? &k->prev->next : &server.oldest) = k->next;
	*(k->next ? &k->next->prev : &server.newest) = k->prev;
	server.n--;
}

/* libmicrohttpd sees its end, and closes it. */
static void connection_cut(struct connection *k)
{
	shutdown(k->fd, SHUT_RDWR);
	k->begun_ns = UINT64_MAX;
	connection_remove(k);
}

static void connection_add(struct MHD_Connection *c, void **of)
{
	const union MHD_ConnectionInfo *i = http.connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct connection *k = i ? calloc(1, sizeof(*k)) : NULL;

	*of = k;
	if (!k)
		return;
	if (server.n >= CONNECTIONS_MAX)
		connection_cut(server.oldest);
	*k = (struct connection){ .fd = i->connect_fd, .begun_ns = clock_monotonic_ns(), .prev = server.newest };
	*(k->prev ? &k->prev->next : &server.oldest) = k;
	server.newest = k;
	server.n++;
}

static void connection_change(void *unused, struct MHD_Connection *c, void **of,
			      enum MHD_ConnectionNotificationCode what)
{
	struct connection *k = *of;

	(void)unused;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		connection_add(c, of);
		return;
	}
	if (k && k->begun_ns != UINT64_MAX)
		connection_remove(k);
	free(k);
	*of = NULL;
}

static void old_ones_cut(void)
{
	uint64_t now_ns = clock_monotonic_ns();

	while (server.oldest && now_ns - server.oldest->begun_ns > CONNECTION_LIFE_NS)
		connection_cut(server.oldest);
}

/* --- the process --- */

static void limit(int what, rlim_t most)
{
	struct rlimit now, both = { most, most };

	if (getrlimit(what, &now))
		_exit(1);
	if (now.rlim_max < most)
		both.rlim_cur = both.rlim_max = now.rlim_max;
	if (setrlimit(what, &both))
		_exit(1);
}

static void rights_give_up(pid_t parent)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, 0);
	limit(RLIMIT_NPROC, 0);
	limit(RLIMIT_NOFILE, FILES_MAX);
	if (!CONFINE_SANITIZED)
		limit(RLIMIT_DATA, DATA_BYTES);
	if (confine_server())
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which takes it back */
	prctl(PR_SET_NAME, SERVER_NAME);
	if (getppid() != parent)
		_exit(0);
}

static bool library_open(void)
{
	void *lib = dlopen(HTTP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	bool all = lib;

#define X(field, symbol) all = all && (*(void **)&http.field = dlsym(lib, #symbol));
	HTTP_FUNCTIONS(X)
#undef X
	return all;
}

static void status_say(enum server_status status)
{
	uint8_t byte = status;

	if (write(SERVER_STATUS, &byte, 1) != 1 || status != SERVER_READY)
		_exit(1);
	close(SERVER_STATUS);
}

static struct MHD_Daemon *daemon_start(void)
{
	bool tls = server.web->cert.path;
	struct MHD_OptionItem secure[] = { { MHD_OPTION_HTTPS_MEM_KEY, 0, server.web->key.text },
					   { MHD_OPTION_HTTPS_MEM_CERT, 0, server.web->cert.text },
					   { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_VERSIONS },
					   { MHD_OPTION_END, 0, NULL } };

	return http.start_daemon(MHD_USE_EPOLL | (tls ? MHD_USE_TLS : 0), 0, NULL, NULL, request_take, NULL,
				 MHD_OPTION_LISTEN_SOCKET, SERVER_SOCKET, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_END,
				 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
				 MHD_OPTION_NOTIFY_CONNECTION, connection_change, NULL, MHD_OPTION_ARRAY,
				 tls ? secure : &secure[3], MHD_OPTION_END);
}

/* What cannot be opened later. */
static void libraries_open(void)
{
	if (!library_open())
		status_say(SERVER_NO_LIBRARY);
	if (server.web->cert.path && http.is_supported(MHD_FEATURE_TLS) != MHD_YES)
		status_say(SERVER_NO_TLS);
	if (server.web->n_users && (http.is_supported(MHD_FEATURE_BASIC_AUTH) != MHD_YES || !auth_open(server.web)))
		status_say(SERVER_NO_BCRYPT);
}

void server_main(pid_t parent, const struct web_config *web)
{
	struct MHD_Daemon *d;

	signal(SIGINT, SIG_IGN); /* the collector decides when this ends */
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	server.web = web;
	libraries_open();
	setenv("TZ", "UTC0", 1); /* for the header Date libc would want a file later */
	tzset();
	server.share = share_map(SERVER_PAGE);
	if (!server.share)
		status_say(SERVER_FAILED);
	rights_give_up(parent);
	d = daemon_start();
	if (!d && web->cert.path)
		status_say(SERVER_BAD_PAIR);
	if (!d || confine_server_calls())
		status_say(SERVER_FAILED);
	status_say(SERVER_READY);
	while (http.run_wait(d, WAIT_MS) == MHD_YES && getppid() == parent)
		old_ones_cut();
	_exit(1); /* a parent without CAP_KILL (a hub) cannot signal another user, not by its end either */
}
