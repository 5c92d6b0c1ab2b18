/* SPDX-License-Identifier: Apache-2.0
 *
 * web_config.c - see web_config.h: what libyaml's events mean.
 */
#include "metrics/web/web_config.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define FILE_MAX (64u << 10)
#define YAML_LIBRARY "libyaml-0.so.2"
#define YAML_FUNCTIONS(X) \
	X(initialize, yaml_parser_initialize) \
	X(input, yaml_parser_set_input_string) \
	X(parse, yaml_parser_parse) \
	X(event_free, yaml_event_delete) \
	X(parser_free, yaml_parser_delete)

struct reading {
	void *library;
#define X(field, symbol) __typeof__(symbol) *field;
	YAML_FUNCTIONS(X)
#undef X
	yaml_parser_t parser;
	yaml_event_t event;
	struct web_config *to;
	char key[WEB_KEY_MAX]; /* the last one, as messages name it */
	unsigned clients_line; /* of client_auth_type; 0: none yet */
	unsigned line;
	char *error;
	size_t size;
};

const char *const web_pem_keys[WEB_PEMS] = { "cert_file", "key_file", "client_ca_file" };

/* By enum web_clients. */
static const char *const client_types[] = { "NoClientCert", "RequestClientCert", "RequireAnyClientCert",
					    "VerifyClientCertIfGiven", "RequireAndVerifyClientCert" };
#define CLIENT_TYPES \
	"NoClientCert, RequestClientCert, RequireAnyClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert"

/* "FILE:LINE: " and what is wrong. */
__attribute__((format(printf, 2, 3))) static int wrong(struct reading *r, const char *format, ...)
{
	int n = snprintf(r->error, r->size, "%s:%u: ", r->to->path, r->line);
	va_list args;

	va_start(args, format);
	if (n > 0 && (size_t)n < r->size)
		vsnprintf(r->error + n, r->size - (size_t)n, format, args);
	va_end(args);
	return -EINVAL;
}

static int next(struct reading *r)
{
	r->event_free(&r->event);
	if (r->parse(&r->parser, &r->event)) {
		r->line = (unsigned)r->event.start_mark.line + 1;
		return 0;
	}
	r->line = (unsigned)r->parser.problem_mark.line + 1;
	memset(&r->event, 0, sizeof(r->event));
	return wrong(r, "not YAML: %s", r->parser.problem ? r->parser.problem : "out of memory");
}

/* NULL: the event is no scalar, or has a zero byte in it. */
static const char *text_of(const struct reading *r)
{
	const char *text = (const char *)r->event.data.scalar.value;

	if (r->event.type != YAML_SCALAR_EVENT || strlen(text) != r->event.data.scalar.length)
		return NULL;
	return text;
}

/* The text of the value behind r->key, which is not empty. */
static int value_read(struct reading *r, const char *allowed, const char **ret)
{
	int err = next(r);

	if (err)
		return err;
	*ret = text_of(r);
	return *ret && **ret ? 0 : wrong(r, "%s: %s", r->key, allowed);
}

/* --- values --- */

/* A name without a slash at its begin is one of the configuration's folder, as Prometheus takes it. */
static char *path_of(const char *config, const char *name)
{
	const char *slash = strrchr(config, '/');
	char *path = NULL;

	if (*name == '/' || !slash)
		return strdup(name);
	return asprintf(&path, "%.*s/%s", (int)(slash - config), config, name) < 0 ? NULL : path;
}

static int file_set(struct reading *r, struct web_file *f)
{
	const char *name;
	int err;

	if (f->path)
		return wrong(r, "%s is given twice", r->key);
	err = value_read(r, "the name of a PEM file is wanted", &name);
	if (err)
		return err;
	f->line = r->line;
	f->path = path_of(r->to->path, name);
	return f->path ? 0 : -ENOMEM; /* lint: kept there */
}

static int clients_set(struct reading *r)
{
	static const char allowed[] = CLIENT_TYPES " is wanted";
	const char *name;
	size_t i = 0, n = sizeof(client_types) / sizeof(client_types[0]);
	int err;

	if (r->clients_line)
		return wrong(r, "%s is given twice", r->key);
	err = value_read(r, allowed, &name);
	if (err)
		return err;
	while (i < n && strcmp(name, client_types[i]))
		i++;
	if (i == n)
		return wrong(r, "%s: '%s' is none; %s", r->key, name, allowed);
	r->to->clients = (enum web_clients)i;
	r->clients_line = r->line;
	return 0;
}

static int tls_key(struct reading *r)
{
	for (int i = 0; i < WEB_PEMS; i++)
		if (!strcmp(r->key, web_pem_keys[i]))
			return file_set(r, &r->to->pems[i]);
	if (!strcmp(r->key, "client_auth_type"))
		return clients_set(r);
	return wrong(r,
		     "'%s' of tls_server_config is not served here; allowed are cert_file, key_file, client_auth_type "
		     "and client_ca_file",
		     r->key);
}

static const char *hash_wrong(const char *h)
{
	static const char letters[] = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	int cost;

	if (strlen(h) != WEB_HASH_LEN || strncmp(h, "$2", 2) || !strchr("aby", h[2]) || h[3] != '$' || h[6] != '$' ||
	    strspn(h + 7, letters) != WEB_HASH_LEN - 7 || strspn(h + 4, "0123456789") != 2)
		return "not a bcrypt hash ($2y$10$...); htpasswd -nBC 10 NAME makes one";
	cost = (h[4] - '0') * 10 + h[5] - '0';
	return cost < 4 || cost > WEB_COST_MAX ? "a cost from 04 to 14 is wanted (each more takes twice the time); "
						 "htpasswd -nBC 10 NAME makes one of cost 10"
					       : NULL;
}

static int user_key(struct reading *r)
{
	struct web_config *to = r->to;
	struct web_user *u = &to->users[to->n_users];
	const char *hash, *why;
	int err;

	if (!*r->key || strchr(r->key, ':'))
		return wrong(r, "'%s' of basic_auth_users: a name without ':' is wanted", r->key);
	if (to->n_users == WEB_USERS_MAX)
		return wrong(r, "%s: at most %d users", r->key, WEB_USERS_MAX);
	for (size_t i = 0; i < to->n_users; i++)
		if (!strcmp(to->users[i].name, r->key))
			return wrong(r, "%s of basic_auth_users is given twice", r->key);
	err = value_read(r, "a bcrypt hash is wanted", &hash);
	if (err)
		return err;
	why = hash_wrong(hash);
	if (why)
		return wrong(r, "%s: %s", r->key, why);
	strcpy(u->name, r->key);
	memcpy(u->hash, hash, WEB_HASH_LEN + 1);
	to->n_users++;
	return 0;
}

/* --- structure --- */

/* Of a mapping that has begun: each key goes to `take`, which reads its value. */
static int mapping_read(struct reading *r, int (*take)(struct reading *r))
{
	int err;

	for (;;) {
		err = next(r);
		if (err || r->event.type == YAML_MAPPING_END_EVENT)
			return err;
		if (!text_of(r) || strlen(text_of(r)) >= sizeof(r->key))
			return wrong(r, "a key is wanted: text of at most %zu bytes", sizeof(r->key) - 1);
		strcpy(r->key, text_of(r));
		err = take(r);
		if (err)
			return err;
	}
}

/* What is asked of clients, and by what it is judged, are there together. */
static int clients_check(struct reading *r)
{
	const struct web_file *ca = &r->to->pems[WEB_CLIENT_CA];
	bool verified = r->to->clients >= WEB_CLIENTS_IF_GIVEN;

	r->line = ca->path ? ca->line : r->clients_line;
	if (ca->path && r->to->clients == WEB_CLIENTS_ANY)
		return wrong(r, "client_ca_file alone asks no client for a certificate; give client_auth_type too, as "
				"RequireAndVerifyClientCert");
	if (verified && !ca->path)
		return wrong(r, "client_auth_type: %s takes client_ca_file, the certificates that sign clients'",
			     client_types[r->to->clients]);
	return 0;
}

/* `line`: of its key */
static int tls_read(struct reading *r, unsigned line)
{
	int err = mapping_read(r, tls_key);

	if (err || (r->to->pems[WEB_CERT].path && r->to->pems[WEB_KEY].path))
		return err ? err : clients_check(r);
	r->line = line;
	return wrong(r, "tls_server_config: both cert_file and key_file are wanted");
}

static int top_key(struct reading *r)
{
	bool tls = !strcmp(r->key, "tls_server_config"), users = !strcmp(r->key, "basic_auth_users");
	unsigned line = r->line;
	int err;

	if (!tls && !users)
		return wrong(r, "'%s' is not served here; allowed are tls_server_config and basic_auth_users", r->key);
	if (tls ? r->to->pems[WEB_CERT].path != NULL : r->to->n_users > 0)
		return wrong(r, "%s is given twice", r->key);
	err = next(r);
	if (err)
		return err;
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return wrong(r, "%s: %s", r->key,
			     tls ? "lines 'cert_file: FILE' and 'key_file: FILE' are wanted below it"
				 : "lines 'NAME: BCRYPT_HASH' are wanted below it");
	return tls ? tls_read(r, line) : mapping_read(r, user_key);
}

/* One document, which is a mapping; an empty file asks for nothing. */
static int stream_read(struct reading *r)
{
	int err = next(r); /* the stream's begin */

	err = err ? err : next(r);
	if (err || r->event.type == YAML_STREAM_END_EVENT)
		return err;
	err = next(r);
	if (err)
		return err;
	if (r->event.type != YAML_MAPPING_START_EVENT)
		return wrong(r, "keys are wanted: tls_server_config, basic_auth_users");
	err = mapping_read(r, top_key);
	err = err ? err : next(r); /* the document's end */
	err = err ? err : next(r);
	return err || r->event.type == YAML_STREAM_END_EVENT ? err : wrong(r, "a second document; one is wanted");
}

static bool library_open(struct reading *r)
{
	bool all = (r->library = dlopen(YAML_LIBRARY, RTLD_NOW | RTLD_LOCAL));

#define X(field, symbol) all = all && (*(void **)&r->field = dlsym(r->library, #symbol));
	YAML_FUNCTIONS(X)
#undef X
	return all;
}

static int yaml_read(struct reading *r, const char *text)
{
	int err = -ENOMEM;

	if (!library_open(r)) {
		snprintf(r->error, r->size, "%s: " YAML_LIBRARY " is missing, which reads it; install libyaml-0-2",
			 r->to->path);
		err = -ENOTSUP;
	} else if (r->initialize(&r->parser)) {
		r->input(&r->parser, (const unsigned char *)text, strlen(text));
		err = stream_read(r);
		r->event_free(&r->event);
		r->parser_free(&r->parser);
	}
	if (r->library)
		dlclose(r->library);
	return err;
}

int web_config_read(const char *path, struct web_config *ret, char *error, size_t size)
{
	struct reading r = { .to = ret, .error = error, .size = size };
	char *text = NULL;
	int err;

	memset(ret, 0, sizeof(*ret));
	snprintf(error, size, "%s: out of memory", path);
	ret->path = strdup(path);
	if (!ret->path)
		return -ENOMEM;
	err = web_file_read(path, FILE_MAX, &text);
	if (err)
		snprintf(error, size, "%s: %s", path, web_file_error(err));
	else
		err = yaml_read(&r, text);
	free(text);
	return err;
}
