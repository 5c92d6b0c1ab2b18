/* SPDX-License-Identifier: Apache-2.0
 *
 * server_auth.h - is it a user's password? In the server's process, whose one thread a bcrypt hash holds for a tenth of
 * a second: so it is computed once for a password that is right, which is known again by a keyed digest, and for wrong
 * ones only within a share of a core.
 */
#ifndef RANKTRACE_METRICS_SERVER_AUTH_H
#define RANKTRACE_METRICS_SERVER_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics/web/web_config.h"

enum auth { AUTH_RIGHT, AUTH_WRONG, AUTH_LATER /* too many were wrong: not checked */ };

/* Hashes take at most a tenth of a core; a second of it may be saved up. */
#define AUTH_SHARE 10
#define AUTH_SAVED_NS 1000000000ll

/* Opens libcrypt and libgnutls, and takes a key: before the process is confined. False: one of them is missing, or has
 * no bcrypt. */
bool auth_open(void);
/* Whose passwords count from now on; they stay the caller's, and as they are. */
void auth_users_set(const struct web_config *users);
/* `name`, `password`: NULL where the request has none. */
enum auth auth_check(const char *name, const char *password, uint64_t now_ns);

#endif
