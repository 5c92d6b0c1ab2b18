/* SPDX-License-Identifier: Apache-2.0
 *
 * send.h - channels: webhooks that notices are posted to, by libcurl, all at a time and each one message at a time. One
 * that cannot be reached is tried again, later and later, up to every five minutes, and delays no other.
 */
#ifndef RANKTRACE_NOTIFY_SEND_H
#define RANKTRACE_NOTIFY_SEND_H

#include "notify/payload.h"

struct sender;

/* NULL and the message in `error`: libcurl is missing. */
struct sender *sender_new(char *error, size_t size);
void sender_free(struct sender *s);
/* "FORMAT=FILE": FILE's first line is the webhook's URL, its second, where there is one, the secret that messages are
 * signed with (DingTalk, Feishu), or a header (OTLP). It is read again for each message. 0, or -errno with `error`. */
int sender_add(struct sender *s, const char *text, char *error, size_t size);
/* Of all channels, that of health events too; NULL where there is none. */
const char *const *sender_names(const struct sender *s, int *ret_n);
/* Begins what is due, ends what was answered. `also`: payload_extra's, of a notice; its text is not kept. */
void sender_turn(struct sender *s, struct notices *all, int64_t now_ms,
		 const char *(*also)(void *of, const struct notice *n), void *of);
/* Until something moves, `fd` (-1: none) has something to read, or `ms` passed. */
void sender_wait(struct sender *s, int fd, int ms);
/* No message is under way. */
bool sender_idle(const struct sender *s);

#endif
