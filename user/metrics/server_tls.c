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
	X(request, gnutls_certificate_server_set_request) \
	X(version, gnutls_protocol_get_version) \
	X(alert, gnutls_alert_send)

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

/* --- certificates of clients: other than 0 ends the handshake. libmicrohttpd sends no alert then; without one a client
 * sees a closed connection and no reason --- */

static int refuse(gnutls_session_t session, gnutls_alert_description_t why)
{
	tls.alert(session, GNUTLS_AL_FATAL, why);
	return GNUTLS_E_CERTIFICATE_ERROR;
}

/* The reason for a certificate that `status` is wrong with. */
static gnutls_alert_description_t alert_of(unsigned int status)
{
	if (status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED))
		return GNUTLS_A_CERTIFICATE_EXPIRED;
	if (status & (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNER_NOT_CA))
		return GNUTLS_A_UNKNOWN_CA;
	return status & GNUTLS_CERT_PURPOSE_MISMATCH ? GNUTLS_A_UNSUPPORTED_CERTIFICATE : GNUTLS_A_BAD_CERTIFICATE;
}

/* One is shown; that the client has the key to it, the handshake itself proves. TLS 1.2 has no alert of its own. */
static int any_verify(gnutls_session_t session)
{
	unsigned int n = 0;

	if (tls.peers(session, &n) && n)
		return 0;
	return refuse(session, tls.version(session) >= GNUTLS_TLS1_3 ? GNUTLS_A_CERTIFICATE_REQUIRED
								     : GNUTLS_A_HANDSHAKE_FAILURE);
}

/* It is signed by whom we know, of today, for a client. */
static int known_verify(gnutls_session_t session)
{
	gnutls_typed_vdata_st purpose = { .type = GNUTLS_DT_KEY_PURPOSE_OID,
					  .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT };
	unsigned int wrong = 0;

	if (any_verify(session))
		return GNUTLS_E_CERTIFICATE_ERROR;
	return tls.verify_peers(session, &purpose, 1, &wrong) || wrong ? refuse(session, alert_of(wrong)) : 0;
}

static int given_verify(gnutls_session_t session)
{
	unsigned int n = 0;

	return tls.peers(session, &n) && n ? known_verify(session) : 0;
}

static int (*const verify_of[])(gnutls_session_t) = {
	[WEB_CLIENTS_WITH_ANY] = any_verify,
	[WEB_CLIENTS_IF_GIVEN] = given_verify,
	[WEB_CLIENTS_KNOWN] = known_verify,
};

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
	/* GnuTLS's own GNUTLS_CERT_REQUIRE ends a handshake before it asks us: no alert could be sent. */
	i->request = c->clients == WEB_CLIENTS_ANY ? GNUTLS_CERT_IGNORE : GNUTLS_CERT_REQUEST;
	if (c->pems[WEB_CLIENT_CA].text) {
		ca = datum(&c->pems[WEB_CLIENT_CA]);
		if (tls.trust_set(i->with, &ca, GNUTLS_X509_FMT_PEM) <= 0)
			return SERVER_BAD_CLIENT_CA;
	}
	if (verify_of[c->clients])
		tls.verify_set(i->with, verify_of[c->clients]);
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
