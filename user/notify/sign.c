/* SPDX-License-Identifier: Apache-2.0
 *
 * sign.c - see sign.h.
 */
#include "notify/sign.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcrypto.so.3"
#define DIGEST 32

typedef unsigned char *hmac_function(const void *kind, const void *key, int key_len, const unsigned char *data,
				     size_t n, unsigned char *to, unsigned int *len);

/* In base64: 32 bytes are ten groups of three, and two bytes. */
static void base64(const unsigned char d[DIGEST], char to[SIGN_MAX])
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (int i = 0; i < DIGEST; i += 3) {
		uint32_t v = (uint32_t)d[i] << 16 | (uint32_t)d[i + 1] << 8 | (i + 2 < DIGEST ? d[i + 2] : 0u);

		*to++ = letters[v >> 18];
		*to++ = letters[v >> 12 & 63];
		*to++ = letters[v >> 6 & 63];
		*to++ = i + 2 < DIGEST ? letters[v & 63] : '=';
	}
	*to = 0;
}

static int hmac(const char *key, const char *text, char to[SIGN_MAX], char *error, size_t size)
{
	void *lib = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	hmac_function *make = lib ? (hmac_function *)dlsym(lib, "HMAC") : NULL;
	const void *(*sha256)(void) = lib ? (const void *(*)(void))dlsym(lib, "EVP_sha256") : NULL;
	unsigned char digest[64] = { 0 };
	unsigned int len = 0;

	if (!make || !sha256) {
		snprintf(error, size, LIBRARY " is missing, which signs messages; install libssl3");
		return -ENOTSUP;
	}
	make(sha256(), key, (int)strlen(key), (const unsigned char *)text, strlen(text), digest, &len);
	base64(digest, to);
	return 0;
}

int sign_feishu(const char *secret, int64_t now_ms, char timestamp[32], char sign[SIGN_MAX], char *error, size_t size)
{
	char key[320];

	snprintf(timestamp, 32, "%" PRId64, now_ms / 1000);
	snprintf(key, sizeof(key), "%s\n%s", timestamp, secret);
	return hmac(key, "", sign, error, size);
}

/* '+', '/' and '=' mean something in a URL. */
static void url_append(char *url, size_t size, const char *sign)
{
	size_t len = strlen(url);

	for (; *sign && len + 4 < size; sign++)
		len += (size_t)snprintf(url + len, size - len, strchr("+/=", *sign) ? "%%%02X" : "%c",
					(unsigned char)*sign);
}

int sign_dingtalk(const char *secret, int64_t now_ms, char *url, size_t url_size, char *error, size_t size)
{
	char text[320], sign[SIGN_MAX];
	size_t len = strlen(url);
	int err;

	snprintf(text, sizeof(text), "%" PRId64 "\n%s", now_ms, secret);
	err = hmac(secret, text, sign, error, size);
	if (err)
		return err;
	snprintf(url + len, url_size - len, "%ctimestamp=%" PRId64 "&sign=", strchr(url, '?') ? '&' : '?', now_ms);
	url_append(url, url_size, sign);
	return 0;
}
