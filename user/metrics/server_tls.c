/* SPDX-License-Identifier: Apache-2.0
 *
 * server_tls.c - see server_tls.h.
 */
#include "metrics/server_tls.h"

#include <dlfcn.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/web/web_config.h"

#define TLS_FUNCTIONS(X) \
	X(allocate, gnutls_certificate_allocate_credentials) \
	X(release, gnutls_certificate_free_credentials) \
	X(key_set, gnutls_certificate_set_x509_key_mem) \
	X(trust_set, gnutls_certificate_set_x509_trust_mem) \
	X(verify_set, gnutls_certificate_set_verify_function) \
	X(verify_peers, gnutls_certificate_verify_peers) \
	X(peers, gnutls_certificate_get_peers) \
	X(use, gnutls_credentials_set) \
	X(request, gnutls_certificate_server_set_request)

struct tls_identity {
	gnutls_certificate_credentials_t with;
	gnutls_certificate_request_t request;
	unsigned int used; /* by connections, and by new ones to come */
};

static struct {
#define X(field, symbol) __typeof__(symbol) *field;
	TLS_FUNCTIONS(X)
#undef X
	struct tls_identity *now;
} tls;

bool tls_open(void)
{
	void *lib = dlopen("libgnutls.so.30", RTLD_NOW | RTLD_LOCAL);
	bool all = lib;

#define X(field, symbol) all = all && (*(void **)&tls.field = dlsym(lib, #symbol));
	TLS_FUNCTIONS(X)
#undef X
	return all;
}

/* --- certificates of clients: other than 0 ends the handshake --- */

/* That it has the key to it, the handshake itself proves; here: signed by whom we know, of today, for a client. */
static int known_verify(gnutls_session_t session)
{
	gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
					  .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT };
	unsigned int wrong = ~0u;

	return tls.verify_peers(session, &purpose, 1, &wrong) || wrong ? GNUTLS_E_CERTIFICATE_ERROR : 0;
}

static int given_verify(gnutls_session_t session)
{
	unsigned int n = 0;

	return tls.peers(session, &n) && n ? known_verify(session) : 0;
}

static gnutls_certificate_request_t request_of(enum web_clients clients)
{
	switch (clients) {
	case WEB_CLIENTS_ANY: return GNUTLS_CERT_IGNORE;
	case WEB_CLIENTS_ASKED:
	case WEB_CLIENTS_IF_GIVEN: return GNUTLS_CERT_REQUEST;
	case WEB_CLIENTS_WITH_ANY:
	case WEB_CLIENTS_KNOWN: break;
	}
	return GNUTLS_CERT_REQUIRE;
}

/* --- what is in force --- */

static gnutls_datum_t datum(const struct web_file *f)
{
	return (gnutls_datum_t){ .data = (unsigned char *)f->text, .size = (unsigned int)strlen(f->text) };
}

static enum server_status identity_fill(struct tls_identity *i, const struct web_config *c)
{
	gnutls_datum_t cert = datum(&c->pems[WEB_CERT]), key = datum(&c->pems[WEB_KEY]), ca;

	if (tls.key_set(i->with, &cert, &key, GNUTLS_X509_FMT_PEM))
		return SERVER_BAD_PAIR;
	i->request = request_of(c->clients);
	if (c->pems[WEB_CLIENT_CA].text) {
		ca = datum(&c->pems[WEB_CLIENT_CA]);
		if (tls.trust_set(i->with, &ca, GNUTLS_X509_FMT_PEM) <= 0)
			return SERVER_BAD_CLIENT_CA;
	}
	if (c->clients >= WEB_CLIENTS_IF_GIVEN)
		tls.verify_set(i->with, c->clients == WEB_CLIENTS_KNOWN ? known_verify : given_verify);
	return SERVER_READY;
}

enum server_status tls_set(const struct web_config *c)
{
	struct tls_identity *i = calloc(1, sizeof(*i));
	enum server_status status;

	if (!i || tls.allocate(&i->with)) {
		free(i);
		return SERVER_FAILED;
	}
	i->used = 1;
	status = identity_fill(i, c);
	if (status == SERVER_READY) {
		struct tls_identity *before = tls.now;

		tls.now = i;
		i = before;
	}
	tls_end(i);
	return status;
}

struct tls_identity *tls_begin(void *session)
{
	struct tls_identity *i = tls.now;

	if (!i || tls.use(session, GNUTLS_CRD_CERTIFICATE, i->with))
		return NULL;
	tls.request(session, i->request);
	i->used++;
	return i;
}

void tls_end(struct tls_identity *i)
{
	if (!i || --i->used)
		return;
	tls.release(i->with);
	free(i);
}
