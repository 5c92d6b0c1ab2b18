/* SPDX-License-Identifier: Apache-2.0
 *
 * sign.h - signatures that chat services ask for where a bot has a secret: HMAC-SHA256, by libcrypto, which is opened
 * when it is needed.
 */
#ifndef RANKTRACE_NOTIFY_SIGN_H
#define RANKTRACE_NOTIFY_SIGN_H

#include <stddef.h>
#include <stdint.h>

#define SIGN_MAX 64

/* Feishu: the key is "SECONDS\nSECRET", the message empty. 0, or -errno with `error`. */
int sign_feishu(const char *secret, int64_t now_ms, char timestamp[32], char sign[SIGN_MAX], char *error, size_t size);
/* DingTalk: of "MILLISECONDS\nSECRET", by the secret; both are put behind the URL. */
int sign_dingtalk(const char *secret, int64_t now_ms, char *url, size_t url_size, char *error, size_t size);

#endif
