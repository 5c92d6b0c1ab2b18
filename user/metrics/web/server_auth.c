/* SPDX-License-Identifier: Apache-2.0
 *
 * server_auth.c - see server_auth.h.
 */
#include "metrics/web/server_auth.h"

#include <crypt.h>
#include <dlfcn.h>
#include <gnutls/crypto.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define DIGEST 32 /* SHA-256 */
/* Its result has the cost and the salt in front, where the library has bcrypt: "*0" where not. */
#define TRY_SETTING "$2b$04$......................"

static struct {
	__typeof__(crypt_r) *crypt;
	__typeof__(gnutls_hmac_fast) *hmac;
	const struct web_config *users;
	uint8_t key[DIGEST];
	uint8_t right[WEB_USERS_MAX][DIGEST]; /* of the password that was right last */
	bool known[WEB_USERS_MAX];
	struct crypt_data work;
	int64_t left_ns; /* below 0 after a hash that took more: it is paid back first */
	uint64_t at_ns;
} auth;

/* Takes as long wherever they differ. */
static bool is_equal(const void *a, const void *b, size_t n)
{
	const uint8_t *x = a, *y = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

static bool crypt_open(void)
{
	void *lib = dlopen("libcrypt.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *hash;

	if (!lib)
		lib = dlopen("libcrypt.so.2", RTLD_NOW | RTLD_LOCAL); /* without what glibc once had; Fedora */
	auth.crypt = lib ? (__typeof__(auth.crypt))dlsym(lib, "crypt_r") : NULL;
	hash = auth.crypt ? auth.crypt("", TRY_SETTING, &auth.work) : NULL;
	return hash && !strncmp(hash, TRY_SETTING, 7);
}

bool auth_open(void)
{
	void *lib = dlopen("libgnutls.so.30", RTLD_NOW | RTLD_LOCAL);

	auth.hmac = lib ? (__typeof__(auth.hmac))dlsym(lib, "gnutls_hmac_fast") : NULL;
	auth.left_ns = AUTH_SAVED_NS;
	return auth.hmac && crypt_open() && getrandom(auth.key, DIGEST, 0) == DIGEST;
}

void auth_users_set(const struct web_config *users)
{
	auth.users = users;
	explicit_bzero(auth.right, sizeof(auth.right));
	memset(auth.known, 0, sizeof(auth.known));
}

/* Of user and password: one user's is not another's. */
static bool digest_make(size_t user, const char *password, uint8_t to[DIGEST])
{
	uint8_t key[DIGEST + 1];

	memcpy(key, auth.key, DIGEST);
	key[DIGEST] = (uint8_t)user;
	return !auth.hmac(GNUTLS_MAC_SHA256, key, sizeof(key), password, strlen(password), to);
}

static bool time_left(uint64_t now_ns)
{
	if (auth.at_ns)
		auth.left_ns += (int64_t)((now_ns - auth.at_ns) / AUTH_SHARE);
	auth.at_ns = now_ns;
	if (auth.left_ns > AUTH_SAVED_NS)
		auth.left_ns = AUTH_SAVED_NS;
	return auth.left_ns > 0;
}

static int64_t cpu_ns(void)
{
	struct timespec t = { 0 };

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static bool hash_is(const char *hash, const char *password)
{
	int64_t begin_ns = cpu_ns();
	const char *made = auth.crypt(password, hash, &auth.work);
	bool is = made && strlen(made) == WEB_HASH_LEN && is_equal(made, hash, WEB_HASH_LEN);

	auth.left_ns -= cpu_ns() - begin_ns;
	explicit_bzero(&auth.work, sizeof(auth.work));
	return is;
}

/* A name that is no user's takes as long as one that is: time does not show who is one. */
enum auth auth_check(const char *name, const char *password, uint64_t now_ns)
{
	const struct web_config *c = auth.users;
	uint8_t digest[DIGEST];
	size_t i = 0;

	if (!name || !password)
		return AUTH_WRONG;
	while (i < c->n_users && strcmp(c->users[i].name, name))
		i++;
	if (i < c->n_users && !digest_make(i, password, digest))
		return AUTH_LATER;
	if (i < c->n_users && auth.known[i] && is_equal(auth.right[i], digest, DIGEST))
		return AUTH_RIGHT;
	if (!time_left(now_ns))
		return AUTH_LATER;
	if (strlen(password) > WEB_PASSWORD_MAX) /* bcrypt would look at a part of it */
		return AUTH_WRONG;
	if (!hash_is(c->users[i < c->n_users ? i : 0].hash, password) || i == c->n_users)
		return AUTH_WRONG;
	memcpy(auth.right[i], digest, DIGEST);
	auth.known[i] = true;
	return AUTH_RIGHT;
}
