/* SPDX-License-Identifier: Apache-2.0
 *
 * server_tls.h - with which certificate the server's process answers, and what it asks of clients. A connection keeps
 * what was in force when it began; new ones get what was set last. By GnuTLS, which libmicrohttpd brings along.
 */
#ifndef RANKTRACE_METRICS_SERVER_TLS_H
#define RANKTRACE_METRICS_SERVER_TLS_H

#include <stdbool.h>

#include "metrics/server.h"

struct tls_identity;

/* Opens the library: before the process is confined. False: it is missing. */
bool tls_open(void);
/* Takes certificate, key, and what clients have to show, of a loaded configuration; copies all. SERVER_READY, or why
 * not: then what was set before stays. */
enum server_status tls_set(const struct web_config *c);
/* For a connection that begins; `session`: GnuTLS's. NULL: it cannot go on. Each is to be given back at its end. */
struct tls_identity *tls_begin(void *session);
void tls_end(struct tls_identity *i);

#endif
