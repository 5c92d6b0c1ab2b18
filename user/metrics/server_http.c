/* SPDX-License-Identifier: Apache-2.0
 *
 * server_http.c - see server.h: the server's side. One thread; each request gets the newest page, which is put together
 * once for all that ask for it. A connection serves one request and lives for seconds; where too many are open, the
 * oldest goes, so that a client that sends nothing keeps none out.
 */
#include "metrics/server.h"

#include <dlfcn.h>
#include <gnutls/abstract.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "metrics/format.h"
#include "metrics/server_tls.h"
#include "metrics/web/server_auth.h"

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
	struct tls_identity *identity; /* NULL: without TLS */
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
	struct web_config *web; /* who may read */
	bool checks_passwords;  /* what that takes is open */
	const struct share *share;
	struct shared_page page;
	uint64_t turn;                            /* of `page` and the answers */
	struct MHD_Response *answers[FORMATS][2]; /* compressed: the second */
	struct connection *oldest, *newest;
	size_t n;
} server;

/* --- answers --- */

static void answers_renew(void)
{
	if (share_turn(server.share) == server.turn)
		return;
	server.turn = share_copy(server.share, &server.page);
	for (int i = 0; i < FORMATS * 2; i++) {
		struct MHD_Response **r = &server.answers[i / 2][i % 2];

		if (*r)
			http.destroy_response(*r); /* who is being served keeps it */
		*r = NULL;
	}
}

/* New, compressed where that is wanted; NULL without memory. */
static char *body_make(enum metrics_format f, bool gzip, size_t *ret_len)
{
	char *text = format_page(&server.page, f, ret_len), *packed;

	if (!text || !gzip)
		return text;
	packed = format_gzip(text, *ret_len, ret_len);
	free(text);
	return packed;
}

static struct MHD_Response *answer_of(enum metrics_format f, bool gzip)
{
	struct MHD_Response *r;
	size_t len;
	char *text;

	answers_renew();
	if (server.answers[f][gzip])
		return server.answers[f][gzip];
	text = body_make(f, gzip, &len);
	r = text ? http.response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE) : NULL;
	if (!r) {
		free(text);
		return NULL;
	}
	http.add_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, format_content_type(f));
	http.add_header(r, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
	if (gzip)
		http.add_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
	http.add_header(r, MHD_HTTP_HEADER_CONNECTION, "close");
	return server.answers[f][gzip] = r;
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
	const char *accept = http.lookup_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT),
		   *coding = http.lookup_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
	struct MHD_Response *r = answer_of(format_wanted(accept), format_takes_gzip(coding));

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

static bool has_tls(void)
{
	return server.web->pems[WEB_CERT].text;
}

/* libmicrohttpd's own: has no certificate. */
static int identity_none(gnutls_session_t session, const gnutls_datum_t *names, int n_names,
			 const gnutls_pk_algorithm_t *kinds, int n_kinds, gnutls_pcert_st **certificates,
			 unsigned int *n, gnutls_privkey_t *key)
{
	(void)session;
	(void)names;
	(void)n_names;
	(void)kinds;
	(void)n_kinds;
	(void)certificates;
	(void)n;
	(void)key;
	return -1;
}

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
	i = has_tls() ? http.connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION) : NULL;
	k->identity = i ? tls_begin(i->tls_session) : NULL; /* without one no handshake succeeds: identity_none() */
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
	if (k)
		tls_end(k->identity);
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

	if (send(SERVER_CHANNEL, &byte, 1, MSG_NOSIGNAL) != 1)
		_exit(1);
}

/* It did not start. */
__attribute__((noreturn)) static void start_fail(enum server_status why)
{
	status_say(why);
	_exit(1);
}

static struct MHD_Daemon *daemon_start(void)
{
	struct MHD_OptionItem secure[] = { { MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)identity_none },
					   { MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_VERSIONS },
					   { MHD_OPTION_END, 0, NULL } };

	return http.start_daemon(MHD_USE_EPOLL | (has_tls() ? MHD_USE_TLS : 0), 0, NULL, NULL, request_take, NULL,
				 MHD_OPTION_LISTEN_SOCKET, SERVER_SOCKET, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_END,
				 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
				 MHD_OPTION_NOTIFY_CONNECTION, connection_change, NULL, MHD_OPTION_ARRAY,
				 has_tls() ? secure : &secure[2], MHD_OPTION_END);
}

/* What cannot be opened later: a new configuration may have users where there were none. */
static void libraries_open(void)
{
	if (!library_open())
		start_fail(SERVER_NO_LIBRARY);
	if (has_tls() && (http.is_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK) != MHD_YES || !tls_open()))
		start_fail(SERVER_NO_TLS);
	if (server.web->path)
		server.checks_passwords = http.is_supported(MHD_FEATURE_BASIC_AUTH) == MHD_YES && auth_open();
}

/* Who may read from now on. `next` is the server's, or as it was. */
static enum server_status web_set(struct web_config *next)
{
	enum server_status status = next->n_users && !server.checks_passwords ? SERVER_NO_BCRYPT : SERVER_READY;

	if (status == SERVER_READY && next->pems[WEB_CERT].text)
		status = tls_set(next);
	if (status != SERVER_READY)
		return status;
	if (next != server.web) {
		web_config_free(server.web);
		*server.web = *next;
		explicit_bzero(next, sizeof(*next));
	}
	auth_users_set(server.web);
	return SERVER_READY;
}

/* The collector has written a new configuration; it waits with the next one for the answer. */
static void channel_take(void)
{
	struct web_config next;
	enum server_status status;
	char byte;

	if (recv(SERVER_CHANNEL, &byte, 1, MSG_DONTWAIT) != 1)
		return;
	status = web_config_unpack(SERVER_WEB, &next) ? SERVER_FAILED : web_set(&next);
	web_config_free(&next);
	status_say(status);
}

void server_main(pid_t parent, struct web_config *web)
{
	enum server_status status;
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
		start_fail(SERVER_FAILED);
	rights_give_up(parent);
	status = web_set(web);
	d = status == SERVER_READY ? daemon_start() : NULL;
	if (!d || confine_server_calls())
		start_fail(status == SERVER_READY ? SERVER_FAILED : status);
	status_say(SERVER_READY);
	while (http.run_wait(d, WAIT_MS) == MHD_YES && getppid() == parent) {
		old_ones_cut();
		channel_take();
	}
	_exit(1); /* a parent without CAP_KILL (a hub) cannot signal another user, not by its end either */
}
