/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_table.c - see tcp_table.h. A dump of a namespace costs by the kernel's table, a question for one socket does not:
 * few connections are asked for one by one (docs/measurements/tcp.md has the figures).
 */
#include "tracers/tcp/tcp_table.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inspect/net/netns.h"
#include "tracers/tcp/tcp_net.h"

#define ASK_MAX 80        /* of a namespace: more are dumped */
#define FILES_MAX 65536   /* read of one process */
#define SOCKETS_MAX 16384 /* wanted, of all ranks: TCP or not */
#define NETS_MAX 64

struct wanted {
	uint64_t netns;
	uint32_t inode, tgid;
	int place;
}; /* place: of the connection; -1: none yet, or none of TCP */

struct tcp_table {
	struct table_connection connections[TCP_CONNECTIONS_MAX];
	struct tcp_net nets[NETS_MAX];
	struct wanted *wanted; /* sorted */
	size_t n_wanted, left_out, unlisted;
	int error;
	int net;            /* whose answers come */
	bool adds, changed; /* a scan: what is not known yet is taken */
};

int tcp_table_new(struct tcp_table **ret)
{
	struct tcp_table *t = calloc(1, sizeof(*t));

	if (t)
		t->wanted = calloc(SOCKETS_MAX, sizeof(*t->wanted));
	if (!t || !t->wanted) {
		free(t);
		return -ENOMEM;
	}
	for (int i = 0; i < NETS_MAX; i++)
		tcp_net_close(&t->nets[i]);
	*ret = t;
	return 0;
}

void tcp_table_free(struct tcp_table *t)
{
	for (int i = 0; t && i < NETS_MAX; i++)
		tcp_net_close(&t->nets[i]);
	free(t ? t->wanted : NULL);
	free(t);
}

/* --- whose sockets --- */

static int wanted_compare(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	if (x->netns != y->netns)
		return x->netns < y->netns ? -1 : 1;
	return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static struct wanted *wanted_find(struct tcp_table *t, uint64_t netns, uint32_t inode)
{
	const struct wanted key = { .netns = netns, .inode = inode };

	return bsearch(&key, t->wanted, t->n_wanted, sizeof(key), wanted_compare);
}

/* In order, each once: what several processes have open is the first one's. And where those known already are. */
static void wanted_sort(struct tcp_table *t)
{
	size_t n = 0;

	qsort(t->wanted, t->n_wanted, sizeof(*t->wanted), wanted_compare);
	for (size_t i = 0; i < t->n_wanted; i++)
		if (!n || wanted_compare(&t->wanted[n - 1], &t->wanted[i]))
			t->wanted[n++] = t->wanted[i];
	t->n_wanted = n;
	for (int i = 0; i < TCP_CONNECTIONS_MAX; i++) {
		const struct table_connection *c = &t->connections[i];
		struct wanted *w = c->used && !c->gone ? wanted_find(t, c->netns, c->inode) : NULL;

		if (w)
			w->place = i;
	}
}

/* By the names of the open files, which nothing can delay. False: they cannot be listed. */
static bool sockets_read(struct tcp_table *t, uint32_t tgid, uint64_t netns)
{
	char path[64], file[64];
	struct dirent *e;
	uint32_t inode;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%u/fd", tgid);
	d = opendir(path);
	if (!d)
		return errno == ENOENT || errno == ESRCH;
	for (int i = 0; i < FILES_MAX && (e = readdir(d)); i++) {
		ssize_t len = readlinkat(dirfd(d), e->d_name, file, sizeof(file) - 1);

		file[len > 0 ? len : 0] = 0;
		if (sscanf(file, "socket:[%u]", &inode) != 1)
			continue;
		if (t->n_wanted < SOCKETS_MAX)
			t->wanted[t->n_wanted++] = (struct wanted){ netns, inode, tgid, -1 };
	}
	closedir(d);
	return true;
}

/* The place of the namespace, opened; -1: it cannot be. */
static int net_get(struct tcp_table *t, struct reader *r, uint64_t inode, uint32_t tgid)
{
	int free_place = -1, err;

	for (int i = 0; i < NETS_MAX; i++) {
		if (t->nets[i].inode == inode) {
			t->nets[i].used = true;
			t->nets[i].tgid = tgid;
			return t->nets[i].error ? -1 : i;
		}
		if (!t->nets[i].inode && free_place < 0)
			free_place = i;
	}
	if (free_place < 0)
		return -1;
	err = tcp_net_open(&t->nets[free_place], r, inode, tgid);
	t->nets[free_place].used = true;
	if (err)
		t->error = err;
	return err ? -1 : free_place;
}

void tcp_table_enter(struct tcp_table *t, struct reader *r, const uint32_t *tgids, size_t n)
{
	uint64_t netns;

	for (size_t i = 0; i < n; i++)
		if (!netns_of(tgids[i], &netns) && !tcp_net_is_own(netns))
			net_get(t, r, netns, tgids[i]);
}

static void processes_read(struct tcp_table *t, const uint32_t *tgids, size_t n)
{
	uint64_t netns;

	t->n_wanted = t->unlisted = 0;
	for (int i = 0; i < NETS_MAX; i++)
		t->nets[i].used = false;
	for (size_t i = 0; i < n; i++)
		if (netns_of(tgids[i], &netns) || net_get(t, NULL, netns, tgids[i]) < 0 ||
		    !sockets_read(t, tgids[i], netns))
			t->unlisted++;
	for (int i = 0; i < NETS_MAX; i++)
		if (t->nets[i].inode && (!t->nets[i].used || t->nets[i].error)) /* tried again at the next scan */
			tcp_net_close(&t->nets[i]);
	wanted_sort(t);
}

/* --- connections --- */

/* An inode may be given again: then it is another connection. */
static struct table_connection *connection_find(struct tcp_table *t, const struct wanted *w,
						const struct diag_socket *s)
{
	struct table_connection *c = w->place >= 0 ? &t->connections[w->place] : NULL;

	return c && c->used && !c->gone && c->inode == s->inode && c->netns == w->netns &&
			       !memcmp(c->id.idiag_cookie, s->id.idiag_cookie, sizeof(s->id.idiag_cookie))
		       ? c
		       : NULL;
}

static struct table_connection *connection_add(struct tcp_table *t, const struct tcp_net *net, struct wanted *w,
					       const struct diag_socket *s)
{
	struct table_connection *c = t->connections;
	const struct table_connection *end = c + TCP_CONNECTIONS_MAX;

	while (c < end && c->used)
		c++;
	if (c == end) {
		t->left_out++;
		return NULL;
	}
	*c = (struct table_connection){ .used = true,
					.tgid = w->tgid,
					.net = t->net,
					.device = -1,
					.inode = s->inode,
					.netns = net->inode,
					.family = s->family };
	w->place = c - t->connections;
	t->changed = true;
	return c;
}

static void connection_take(struct table_connection *c, const struct diag_socket *s)
{
	c->fresh = true;
	c->id = s->id;
	c->state = s->state;
	tcp_diag_counters(s, c->counters);
}

static void answer_take(void *of, const struct diag_socket *s)
{
	struct tcp_table *t = of;
	const struct tcp_net *net = &t->nets[t->net];
	struct wanted *w = s->inode ? wanted_find(t, net->inode, s->inode) : NULL;
	struct table_connection *c = w ? connection_find(t, w, s) : NULL;

	if (w && !c && t->adds)
		c = connection_add(t, net, w, s);
	if (c)
		connection_take(c, s);
}

static int dump(struct tcp_table *t)
{
	int err = tcp_diag_dump(t->nets[t->net].fd, AF_INET, answer_take, t);

	return err ? err : tcp_diag_dump(t->nets[t->net].fd, AF_INET6, answer_take, t);
}

static bool is_of(const struct tcp_table *t, const struct table_connection *c)
{
	return c->used && !c->gone && c->net == t->net;
}

/* A dump may miss one when the kernel's table changes meanwhile, so that those not seen are asked for. False: the
 * kernel is at odds with us. */
static bool missing_ask(struct tcp_table *t)
{
	for (int i = 0; i < TCP_CONNECTIONS_MAX; i++) {
		struct table_connection *c = &t->connections[i];
		int err;

		if (!is_of(t, c) || c->fresh)
			continue;
		err = tcp_diag_ask(t->nets[t->net].fd, c->family, &c->id, answer_take, t);
		if (err && err != -ENOENT)
			return false;
		c->gone = !c->fresh;
		t->changed |= c->gone;
	}
	return true;
}

static size_t count(const struct tcp_table *t)
{
	size_t n = 0;

	for (int i = 0; i < TCP_CONNECTIONS_MAX; i++)
		n += is_of(t, &t->connections[i]);
	return n;
}

static const void *local_address(const struct table_connection *c, int *ret_family)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const uint8_t *a = (const uint8_t *)c->id.idiag_src;

	*ret_family = c->family;
	if (c->family == AF_INET6 && !memcmp(a, mapped, sizeof(mapped))) {
		*ret_family = AF_INET;
		return a + sizeof(mapped);
	}
	return a;
}

static void device_note(struct tcp_net *net, struct table_connection *c)
{
	const struct net_device *d;
	const void *address;
	int family;

	if (c->device < 0) {
		address = local_address(c, &family);
		c->device = tcp_net_device(net, family, address);
		c->device = c->device < 0 ? NET_DEVICES_MAX : c->device; /* not looked for again and again */
	}
	if (c->device >= net->n_devices)
		return;
	d = &net->devices[c->device];
	memcpy(c->netdev, d->name, sizeof(c->netdev));
	c->device_known = d->known;
	c->device_up = d->up;
	c->counters[TCP_NETDEV_SENT] = d->sent;
	c->counters[TCP_NETDEV_RECEIVED] = d->received;
}

static void net_scan(struct tcp_table *t, bool all)
{
	struct tcp_net *net = &t->nets[t->net];
	size_t n = count(t);
	int err = all || n > ASK_MAX ? dump(t) : 0;

	if (!all && !n) /* a job without TCP costs the scans alone */
		return;
	if (err || !missing_ask(t)) { /* what is left of its answer is not to be taken for another's */
		t->error = err ? err : -EPROTO;
		tcp_net_close(net);
		return;
	}
	tcp_net_scan(net);
	for (int i = 0; i < TCP_CONNECTIONS_MAX; i++)
		if (is_of(t, &t->connections[i]))
			device_note(net, &t->connections[i]);
}

/* Connections of a namespace that went with its last process, or cannot be asked any more. */
static void orphans_end(struct tcp_table *t)
{
	for (int i = 0; i < TCP_CONNECTIONS_MAX; i++) {
		struct table_connection *c = &t->connections[i];

		if (c->used && !c->gone && t->nets[c->net].inode != c->netns)
			c->gone = t->changed = true;
	}
}

static void scan(struct tcp_table *t, bool all)
{
	for (int i = 0; i < TCP_CONNECTIONS_MAX; i++) {
		struct table_connection *c = &t->connections[i];

		c->used &= !c->gone;
		c->fresh = false;
	}
	for (t->net = 0; t->net < NETS_MAX; t->net++)
		if (t->nets[t->net].inode)
			net_scan(t, all);
	orphans_end(t);
}

int tcp_table_scan(struct tcp_table *t, const uint32_t *tgids, size_t n, bool *ret_changed)
{
	t->changed = false;
	t->left_out = 0;
	t->error = 0;
	processes_read(t, tgids, n);
	t->adds = true;
	scan(t, true);
	t->adds = false;
	*ret_changed = t->changed;
	return 0;
}

void tcp_table_sample(struct tcp_table *t)
{
	scan(t, false);
}

const struct table_connection *tcp_table_list(const struct tcp_table *t)
{
	return t->connections;
}
struct table_connection *tcp_table_at(struct tcp_table *t, size_t i)
{
	return &t->connections[i];
}
size_t tcp_table_left_out(const struct tcp_table *t)
{
	return t->left_out;
}
size_t tcp_table_unlisted(const struct tcp_table *t)
{
	return t->unlisted;
}
int tcp_table_error(const struct tcp_table *t)
{
	return t->error;
}
