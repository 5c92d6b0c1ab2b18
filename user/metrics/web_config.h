/* SPDX-License-Identifier: Apache-2.0
 *
 * web_config.h - the web configuration file of Prometheus' exporters (YAML): TLS and users with passwords. Of its keys
 * those that are served: tls_server_config with cert_file and key_file, basic_auth_users with bcrypt hashes. Any other
 * key is an error: one that is left out silently (client_ca_file) would leave a door open.
 *
 * By libyaml, opened for the time of reading.
 */
#ifndef RANKTRACE_METRICS_WEB_CONFIG_H
#define RANKTRACE_METRICS_WEB_CONFIG_H

#include <stddef.h>

#define WEB_USERS_MAX 64
#define WEB_HASH_LEN 60     /* of bcrypt: "$2b$", cost, 22 letters of salt, 31 of hash */
#define WEB_COST_MAX 14     /* 2^14 rounds are a second of CPU; the server has one thread */
#define WEB_PASSWORD_MAX 72 /* bytes that bcrypt looks at */

struct web_user {
	char *name;
	char hash[WEB_HASH_LEN + 1];
};

struct web_file {   /* PEM */
	char *path; /* from the configuration's folder; NULL: no TLS */
	unsigned line;
	char *text; /* once it was loaded */
};

struct web_config {
	char *path;
	struct web_file cert, key; /* both or none */
	struct web_user users[WEB_USERS_MAX];
	size_t n_users; /* 0: no password is asked for */
};

/* Reads the configuration alone. 0, or -errno with file, line, key and what is allowed in `error`; -ENOENT: there is no
 * such file. web_config_free() either way. */
int web_config_read(const char *path, struct web_config *ret, char *error, size_t size);
/* Reads certificate and key, where there is TLS: web_files.c. The same. */
int web_config_load(struct web_config *c, char *error, size_t size);
/* Overwrites what is secret, and frees it; a zeroed one, too. */
void web_config_free(struct web_config *c);

/* A regular file of at most `max` bytes as text, to be freed. 0, or -errno; -EFBIG; -EINVAL: no text, no file. */
int web_file_read(const char *path, size_t max, char **ret);
const char *web_file_error(int err);

#endif
