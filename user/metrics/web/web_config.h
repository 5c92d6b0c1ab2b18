/* SPDX-License-Identifier: Apache-2.0
 *
 * web_config.h - the web configuration file of Prometheus' exporters (YAML): TLS, certificates of clients, users with
 * passwords. Of its keys those that are served: tls_server_config with cert_file, key_file, client_auth_type and
 * client_ca_file; basic_auth_users with bcrypt hashes. Any other key is an error: one that is left out silently
 * (client_allowed_sans) would leave a door open.
 *
 * By libyaml, opened for the time of reading.
 */
#ifndef RANKTRACE_METRICS_WEB_CONFIG_H
#define RANKTRACE_METRICS_WEB_CONFIG_H

#include <stddef.h>

#define WEB_USERS_MAX 64
#define WEB_KEY_MAX 80      /* of a key of the file, so of a user's name; with the zero byte */
#define WEB_HASH_LEN 60     /* of bcrypt: "$2b$", cost, 22 letters of salt, 31 of hash */
#define WEB_COST_MAX 14     /* 2^14 rounds are a second of CPU; the server has one thread */
#define WEB_PASSWORD_MAX 72 /* bytes that bcrypt looks at */

struct web_user {
	char name[WEB_KEY_MAX];
	char hash[WEB_HASH_LEN + 1];
};

enum web_pem { WEB_CERT, WEB_KEY, WEB_CLIENT_CA, WEB_PEMS };
extern const char *const web_pem_keys[WEB_PEMS]; /* "cert_file" and so on */

struct web_file {   /* PEM */
	char *path; /* from the configuration's folder; NULL: none */
	unsigned line;
	char *text; /* once it was loaded: web_config_load() */
};

/* client_auth_type: what a client has to show in the handshake. */
enum web_clients {
	WEB_CLIENTS_ANY,      /* NoClientCert: it is not asked */
	WEB_CLIENTS_ASKED,    /* RequestClientCert: a certificate, or none */
	WEB_CLIENTS_WITH_ANY, /* RequireAnyClientCert: one, by any signer */
	WEB_CLIENTS_IF_GIVEN, /* VerifyClientCertIfGiven: none, or one that client_ca_file vouches for */
	WEB_CLIENTS_KNOWN,    /* RequireAndVerifyClientCert: such a one */
};

struct web_config {
	char *path;
	struct web_file pems[WEB_PEMS]; /* certificate and key: both or none (no TLS) */
	enum web_clients clients;
	struct web_user users[WEB_USERS_MAX];
	size_t n_users; /* 0: no password is asked for */
};

/* Reads the configuration alone. 0, or -errno with file, line, key and what is allowed in `error`; -ENOENT: there is no
 * such file. web_config_free() either way. */
int web_config_read(const char *path, struct web_config *ret, char *error, size_t size);
/* Reads the PEM files, where there is TLS: web_files.c. The same. */
int web_config_load(struct web_config *c, char *error, size_t size);
/* Overwrites what is secret, and frees it; a zeroed one, too. */
void web_config_free(struct web_config *c);

/* web_pack.c: what a server needs of a loaded configuration, into a file in memory that both have open, instead of what
 * was there. 0 or -errno. */
int web_config_pack(const struct web_config *c, int fd);
/* Of such a file; line numbers and paths are not in it. 0 or -errno; web_config_free() either way. */
int web_config_unpack(int fd, struct web_config *ret);

/* A regular file of at most `max` bytes as text, to be freed. 0, or -errno; -EFBIG; -EINVAL: no text, no file. */
int web_file_read(const char *path, size_t max, char **ret);
const char *web_file_error(int err);

#endif
