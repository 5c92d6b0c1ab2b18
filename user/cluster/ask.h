/* SPDX-License-Identifier: Apache-2.0
 *
 * ask.h - what is asked of agents, and the files that they answer with (schemas/cluster.proto). Whose ranks are
 * meant is a word of the subject, "all" or "u1000": the server says who may ask with which, and the agent hands out
 * nothing of another user's.
 */
#ifndef RANKTRACE_CLUSTER_ASK_H
#define RANKTRACE_CLUSTER_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus/bus.h"

#define ASK_ALL "all"
#define ASK_WHOSE_MAX 16
#define ASK_ANY_USER (-1)
#define ASK_BYTES_MAX 8192u
#define ASK_HOSTS_MAX 64
#define ASK_TEXT_MAX 256
#define ASK_ASKED "=asked" /* in the place of a host: the question itself, stored by who asked */

enum ask_kind { ASK_NOTHING, ASK_WINDOW, ASK_LOOK };

struct ask {
	enum ask_kind kind;
	int64_t user;                             /* whose ranks; ASK_ANY_USER */
	char id[ASK_TEXT_MAX], job[ASK_TEXT_MAX]; /* job "": any */
	char hosts[ASK_HOSTS_MAX][BUS_TOKEN_MAX]; /* none: all */
	size_t n_hosts;
};

struct file_head {
	char host[ASK_TEXT_MAX];
	uint64_t bytes;
	uint32_t pieces;
	char error[ASK_TEXT_MAX]; /* "": it is there */
};

void ask_whose(int64_t user, char to[ASK_WHOSE_MAX]);
/* Into to[ASK_BYTES_MAX]: its bytes; 0: there is no room. */
size_t ask_pack(const struct ask *a, void *to);
/* `whose`: the subject's last word. False: it is no question that this version knows. */
bool ask_unpack(const char *whose, const void *data, size_t len, struct ask *ret);
bool ask_is_for(const struct ask *a, const char *host_token);

size_t file_head_pack(const struct file_head *h, void *to); /* into to[ASK_BYTES_MAX] */
bool file_head_unpack(const void *data, size_t len, struct file_head *ret);
/* The key of a piece: 0 is the head. `host`: a token. */
void file_key(char to[BUS_KEY_MAX], int64_t user, const char *id, const char *host, uint32_t piece);

#endif
