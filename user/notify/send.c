/* SPDX-License-Identifier: Apache-2.0
 *
 * send.c - see send.h. libcurl is opened by this command alone: no other maps it, nor the TLS that it brings along.
 */
#include "notify/send.h"

#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "notify/sign.h"

#define LIBRARY "libcurl.so.4"
#define CONNECT_MS 5000l
#define ANSWER_MS 15000l
#define RETRY_FIRST_MS 5000
#define RETRY_MAX_MS 300000
#define ANSWER_MAX 4096
#define URL_MAX 2048
#define SECRET_MAX 2048 /* a header with a token, of OTLP */
/* clang-format off */
#define FUNCTIONS(X) \
	X(global_init) X(easy_init) X(easy_setopt) X(easy_cleanup) X(easy_getinfo) X(easy_strerror) X(slist_append) \
	X(slist_free_all) X(multi_init) X(multi_add_handle) X(multi_remove_handle) X(multi_perform) X(multi_poll) \
	X(multi_info_read) X(multi_cleanup)
/* clang-format on */

static struct {
#define X(name) __typeof__(curl_##name) *name;
	FUNCTIONS(X)
#undef X
} curl;

struct channel {
	enum payload_format format;
	char *name;
	const char *file; /* in `name` */
	CURL *easy;       /* NULL: nothing is under way */
	char *body;
	struct curl_slist *headers; /* of the message under way; NULL: those of all */
	char answer[ANSWER_MAX];
	size_t answer_len;
	char id[FINDING_ID_MAX]; /* of the notice that it is notified of */
	enum notice_event event;
	int64_t retry_ms, pause_ms; /* pause 0: it works */
};

struct sender {
	CURLM *multi;
	struct curl_slist *headers;
	struct channel channels[CHANNELS_MAX];
	const char *names[CHANNELS_MAX];
	int n, n_busy;
};

static bool library_open(void)
{
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	bool all = lib;

#define X(name) all = all && (*(void **)&curl.name = dlsym(lib, "curl_" #name));
	FUNCTIONS(X)
#undef X
	return all;
}

static struct curl_slist *headers_new(void)
{
	return curl.slist_append(curl.slist_append(NULL, "Content-Type: application/json; charset=utf-8"), "Expect:");
}

struct sender *sender_new(char *error, size_t size)
{
	struct sender *s = calloc(1, sizeof(*s));

	snprintf(error, size, LIBRARY " is missing or older than 7.66; install libcurl4");
	if (!s || !library_open() || curl.global_init(CURL_GLOBAL_DEFAULT)) {
		free(s);
		return NULL;
	}
	s->names[CHANNEL_EVENTS] = "health-events";
	s->multi = curl.multi_init();
	s->headers = headers_new();
	return s;
}

/* --- channels --- */

/* Its URL and secret; whatever is wrong is said in `error`. */
static int secret_read(const struct channel *c, char url[URL_MAX], char secret[SECRET_MAX], char *error, size_t size)
{
	FILE *f = fopen(c->file, "re");

	*url = *secret = 0;
	if (!f) {
		snprintf(error, size, "%s: %s", c->file, strerror(errno));
		return -errno;
	}
	if (fgets(url, URL_MAX, f))
		url[strcspn(url, " \t\r\n")] = 0;
	if (fgets(secret, SECRET_MAX, f))
		secret[strcspn(secret, c->format == PAYLOAD_OTLP ? "\r\n" : " \t\r\n")] = 0;
	fclose(f);
	if (strncmp(url, "https://", 8) && strncmp(url, "http://", 7)) {
		snprintf(error, size, "%s:1: no URL: the first line is the webhook's, https://...", c->file);
		return -EINVAL;
	}
	if (*secret && c->format == PAYLOAD_OTLP && !strstr(secret, ": ")) {
		snprintf(error, size, "%s:2: no header: of otlp the second line is one, as 'Authorization: Bearer ...'",
			 c->file);
		return -EINVAL;
	}
	return 0;
}

static void readers_check(const char *file)
{
	struct stat is;

	if (!stat(file, &is) && is.st_mode & S_IROTH)
		log_warn("%s: everybody may read this secret: chmod 600", file);
}

int sender_add(struct sender *s, const char *text, char *error, size_t size)
{
	struct channel *c = &s->channels[s->n];
	size_t len = strcspn(text, "=");
	char url[URL_MAX], secret[SECRET_MAX];
	int err;

	if (s->n == CHANNEL_EVENTS) {
		snprintf(error, size, "at most %d channels", CHANNEL_EVENTS);
		return -E2BIG;
	}
	for (c->format = 0; c->format < PAYLOAD_FORMAT_MAX; c->format++)
		if (strlen(payload_format_name(c->format)) == len &&
		    !strncmp(text, payload_format_name(c->format), len))
			break;
	if (c->format == PAYLOAD_FORMAT_MAX || text[len] != '=' || !text[len + 1]) {
		snprintf(error, size,
			 "'%s' is no FORMAT=FILE with a FORMAT of wecom, dingtalk, feishu, slack, json or "
			 "otlp",
			 text);
		return -EINVAL;
	}
	c->name = strdup(text);
	if (!c->name)
		return -ENOMEM;
	c->file = c->name + len + 1;
	err = secret_read(c, url, secret, error, size);
	readers_check(c->file);
	s->names[s->n] = c->name;
	s->n++;
	return err;
}

const char *const *sender_names(const struct sender *s, int *ret_n)
{
	*ret_n = CHANNELS_MAX;
	return s->names;
}

/* --- one message --- */

static size_t answer_take(char *data, size_t one, size_t n, void *of)
{
	struct channel *c = of;
	size_t len = one * n, room = sizeof(c->answer) - 1 - c->answer_len, kept = len < room ? len : room;

	memcpy(c->answer + c->answer_len, data, kept);
	c->answer_len += kept;
	c->answer[c->answer_len] = 0;
	return len;
}

static void failed(struct channel *c, int64_t now_ms, const char *why)
{
	if (!c->pause_ms)
		log_warn("%s: %s; it is tried again until it is taken", c->name, why);
	c->pause_ms = c->pause_ms ? 2 * c->pause_ms : RETRY_FIRST_MS;
	c->pause_ms = c->pause_ms < RETRY_MAX_MS ? c->pause_ms : RETRY_MAX_MS;
	c->retry_ms = now_ms + c->pause_ms;
}

static int message_make(struct channel *c, const struct notice *n, int64_t now_ms, const char *also, char url[URL_MAX])
{
	char secret[SECRET_MAX], error[512], timestamp[32], sign[SIGN_MAX];
	struct payload_extra extra = { .also = also, .now_ms = now_ms };
	int err = secret_read(c, url, secret, error, sizeof(error));

	if (!err && *secret && c->format == PAYLOAD_FEISHU) {
		err = sign_feishu(secret, now_ms, timestamp, sign, error, sizeof(error));
		extra.timestamp = timestamp;
		extra.sign = sign;
	} else if (!err && *secret && c->format == PAYLOAD_DINGTALK) {
		err = sign_dingtalk(secret, now_ms, url, URL_MAX, error, sizeof(error));
	} else if (!err && *secret && c->format == PAYLOAD_OTLP) {
		c->headers = curl.slist_append(headers_new(), secret);
	}
	if (err) {
		failed(c, now_ms, error);
		return err;
	}
	c->body = payload_make(c->format, n, c->event, &extra);
	return c->body ? 0 : -ENOMEM;
}

static void message_free(struct channel *c)
{
	if (c->easy)
		curl.easy_cleanup(c->easy);
	curl.slist_free_all(c->headers);
	free(c->body);
	c->easy = NULL;
	c->headers = NULL;
	c->body = NULL;
}

static void message_begin(struct sender *s, struct channel *c, const struct notice *n, int64_t now_ms, const char *also)
{
	char url[URL_MAX];

	c->easy = message_make(c, n, now_ms, also, url) ? NULL : curl.easy_init();
	if (!c->easy) {
		message_free(c);
		return;
	}
	memcpy(c->id, n->id, sizeof(c->id));
	c->answer_len = 0;
	*c->answer = 0;
	curl.easy_setopt(c->easy, CURLOPT_URL, url);
	curl.easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body);
	curl.easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->headers ? c->headers : s->headers);
	curl.easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, answer_take);
	curl.easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
	curl.easy_setopt(c->easy, CURLOPT_PRIVATE, c);
	curl.easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl.easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, ANSWER_MS);
	curl.easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1l);
	curl.easy_setopt(c->easy, CURLOPT_USERAGENT, "ranktrace");
	curl.multi_add_handle(s->multi, c->easy);
	s->n_busy++;
}

static struct notice *notice_of(const struct notices *all, const char *id)
{
	struct notice *n = all->all;

	while (n && strcmp(n->id, id))
		n = n->next;
	return n;
}

static void message_end(struct sender *s, struct channel *c, CURLcode result, struct notices *all, int64_t now_ms)
{
	struct notice *n = notice_of(all, c->id);
	char why[256];
	long status = 0;

	curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (result != CURLE_OK)
		snprintf(why, sizeof(why), "%s", curl.easy_strerror(result));
	if (result != CURLE_OK || !payload_taken(c->format, status, c->answer, why, sizeof(why))) {
		failed(c, now_ms, why);
	} else {
		if (c->pause_ms)
			log_info("%s: it takes messages again", c->name);
		c->pause_ms = c->retry_ms = 0;
		if (n)
			notice_sent(all, n, (int)(c - s->channels), c->event);
	}
	curl.multi_remove_handle(s->multi, c->easy);
	message_free(c);
	s->n_busy--;
}

/* --- turns --- */

static void answers_take(struct sender *s, struct notices *all, int64_t now_ms)
{
	int running, left;
	CURLMsg *m;

	curl.multi_perform(s->multi, &running);
	while ((m = curl.multi_info_read(s->multi, &left)))
		if (m->msg == CURLMSG_DONE) {
			CURLcode result = m->data.result;
			char *of = NULL;

			curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &of);
			message_end(s, (struct channel *)of, result, all, now_ms);
		}
}

void sender_turn(struct sender *s, struct notices *all, int64_t now_ms,
		 const char *(*also)(void *of, const struct notice *n), void *of)
{
	answers_take(s, all, now_ms);
	for (struct channel *c = s->channels; c < s->channels + s->n; c++) {
		struct notice *n =
			c->easy || now_ms < c->retry_ms ? NULL : notices_next(all, (int)(c - s->channels), &c->event);

		if (n && c->format == PAYLOAD_OTLP && c->event == NOTICE_AGAIN)
			notice_sent(all, n, (int)(c - s->channels), c->event); /* a log needs no reminder */
		else if (n)
			message_begin(s, c, n, now_ms, also(of, n));
	}
	answers_take(s, all, now_ms);
}

void sender_wait(struct sender *s, int fd, int ms)
{
	struct curl_waitfd more = { .fd = fd, .events = CURL_WAIT_POLLIN };

	curl.multi_poll(s->multi, &more, fd >= 0, ms, NULL);
}

bool sender_idle(const struct sender *s)
{
	return !s->n_busy;
}

void sender_free(struct sender *s)
{
	if (!s)
		return;
	for (struct channel *c = s->channels; c < s->channels + s->n; c++) {
		if (c->easy)
			curl.multi_remove_handle(s->multi, c->easy);
		message_free(c);
		free(c->name);
	}
	curl.slist_free_all(s->headers);
	curl.multi_cleanup(s->multi);
	free(s);
}
