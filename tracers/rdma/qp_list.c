/* SPDX-License-Identifier: Apache-2.0
 *
 * qp_list.c - see qp_list.h. Numbers of commands and attributes are those of <rdma/rdma_netlink.h>, which are the
 * kernel's ABI.
 */
#include "tracers/rdma/qp_list.h"

#include <dirent.h>
#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_BYTES (64u << 10)
#define ANSWER_WAIT_S 2    /* of one part: firmware may be slow */
#define GID_FILES_MAX 1024 /* of a port */

struct qp_list *qp_list_new(void)
{
	struct qp_list *l = calloc(1, sizeof(*l));

	if (l)
		l->rows = calloc(QP_LIST_MAX, sizeof(*l->rows));
	if (l && l->rows)
		return l;
	free(l);
	return NULL;
}

void qp_list_free(struct qp_list *l)
{
	if (!l)
		return;
	free(l->rows);
	free(l);
}

/* --- attributes --- */

struct attrs {
	const char *at;
	size_t left;
};

static const struct nlattr *attr_next(struct attrs *a)
{
	const struct nlattr *n = (const void *)a->at;
	size_t step;

	if (a->left < sizeof(*n) || n->nla_len < sizeof(*n) || n->nla_len > a->left)
		return NULL;
	step = NLA_ALIGN(n->nla_len);
	step = step < a->left ? step : a->left;
	a->at += step;
	a->left -= step;
	return n;
}

static struct attrs attr_inside(const struct nlattr *n)
{
	return (struct attrs){ (const char *)(n + 1), n->nla_len - sizeof(*n) };
}

static unsigned int attr_type(const struct nlattr *n)
{
	return n->nla_type & NLA_TYPE_MASK;
}

static uint32_t attr_number(const struct nlattr *n)
{
	size_t len = n->nla_len - sizeof(*n);
	uint32_t v = 0;

	memcpy(&v, n + 1,
	       len < sizeof(v) ? len : sizeof(v)); /* u8 and u32; the machine is little-endian or it is a u32 */
	return v;
}

/* --- messages --- */

/* 0 is the end of an answer without a row; what is no number of an error would be taken for "more is to come". */
static int error_of(const struct nlmsghdr *h)
{
	int err = -EBADMSG;

	if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(err)))
		memcpy(&err, NLMSG_DATA(h), sizeof(err));
	return err <= 0 && err > -4096 ? err : -EBADMSG;
}

/* Calls `each` with the attributes of every message. */
static int messages_take(struct qp_list *l, const void *answer, size_t len,
			 void (*each)(struct qp_list *l, struct attrs a))
{
	const struct nlmsghdr *h;
	size_t at = 0;

	for (; at < len; at += NLMSG_ALIGN(h->nlmsg_len)) {
		h = (const void *)((const char *)answer + at);
		if (len - at < sizeof(*h) || h->nlmsg_len < sizeof(*h) || h->nlmsg_len > len - at)
			return -EBADMSG;
		if (h->nlmsg_type == NLMSG_DONE)
			return 0;
		if (h->nlmsg_type == NLMSG_ERROR)
			return error_of(h);
		each(l, (struct attrs){ NLMSG_DATA(h), h->nlmsg_len - sizeof(*h) });
	}
	return 1;
}

static void device_take(struct qp_list *l, struct attrs a)
{
	struct qp_device d = { 0 };
	const struct nlattr *n;
	bool has_index = false;

	while ((n = attr_next(&a))) {
		size_t len = n->nla_len - sizeof(*n);

		if (attr_type(n) == RDMA_NLDEV_ATTR_DEV_INDEX) {
			d.index = attr_number(n);
			has_index = true;
		} else if (attr_type(n) == RDMA_NLDEV_ATTR_DEV_NAME) {
			memcpy(d.name, n + 1, len < sizeof(d.name) - 1 ? len : sizeof(d.name) - 1);
		}
	}
	if (!has_index || !*d.name)
		return;
	if (l->n_devices == QP_DEVICES_MAX)
		l->cut = true;
	else
		l->devices[l->n_devices++] = d;
}

static void qp_take(struct qp_list *l, struct attrs a, uint32_t device)
{
	struct qp_row r = { .device = device };
	const struct nlattr *n;

	while ((n = attr_next(&a)))
		switch (attr_type(n)) {
		case RDMA_NLDEV_ATTR_RES_LQPN: r.qpn = attr_number(n); break;
		case RDMA_NLDEV_ATTR_RES_RQPN: r.dest_qpn = attr_number(n); break;
		case RDMA_NLDEV_ATTR_RES_PID: r.pid = attr_number(n); break;
		case RDMA_NLDEV_ATTR_RES_STATE: r.state = attr_number(n); break;
		case RDMA_NLDEV_ATTR_RES_TYPE: r.type = attr_number(n); break;
		case RDMA_NLDEV_ATTR_PORT_INDEX: r.port = attr_number(n); break;
		}
	if (!r.qpn || !r.pid)
		return;
	if (l->n == QP_LIST_MAX)
		l->cut = true;
	else
		l->rows[l->n++] = r;
}

static void qps_take(struct qp_list *l, struct attrs a)
{
	const struct nlattr *n, *entry;
	uint32_t device = 0;

	while ((n = attr_next(&a))) {
		struct attrs table = attr_inside(n);

		if (attr_type(n) == RDMA_NLDEV_ATTR_DEV_INDEX)
			device = attr_number(n);
		if (attr_type(n) != RDMA_NLDEV_ATTR_RES_QP)
			continue;
		while ((entry = attr_next(&table)))
			if (attr_type(entry) == RDMA_NLDEV_ATTR_RES_QP_ENTRY)
				qp_take(l, attr_inside(entry), device);
	}
}

int qp_list_devices_take(struct qp_list *l, const void *answer, size_t len)
{
	return messages_take(l, answer, len, device_take);
}

int qp_list_qps_take(struct qp_list *l, const void *answer, size_t len)
{
	return messages_take(l, answer, len, qps_take);
}

/* --- the kernel --- */

static int ask(int fd, int command, uint32_t device, bool has_device)
{
	struct {
		struct nlmsghdr h;
		struct nlattr a;
		uint32_t index;
	} req = {
		.h = { .nlmsg_len = has_device ? sizeof(req) : sizeof(req.h),
		       .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command),
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.a = { .nla_len = sizeof(req.a) + sizeof(req.index), .nla_type = RDMA_NLDEV_ATTR_DEV_INDEX },
		.index = device,
	};

	return send(fd, &req, req.h.nlmsg_len, 0) < 0 ? -errno : 0;
}

static int answers_take(struct qp_list *l, int fd, char *answer,
			int (*take)(struct qp_list *l, const void *answer, size_t len))
{
	int more = 1;

	while (more == 1) {
		ssize_t n = recv(fd, answer, ANSWER_BYTES, 0);

		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		more = take(l, answer, n);
	}
	return more;
}

static int all_read(struct qp_list *l, int fd, char *answer)
{
	int err = ask(fd, RDMA_NLDEV_CMD_GET, 0, false);

	if (!err)
		err = answers_take(l, fd, answer, qp_list_devices_take);
	for (size_t i = 0; !err && i < l->n_devices; i++) {
		err = ask(fd, RDMA_NLDEV_CMD_RES_QP_GET, l->devices[i].index, true);
		if (!err)
			err = answers_take(l, fd, answer, qp_list_qps_take);
		if (err == -ENODEV ||
		    err == -EINVAL) { /* gone meanwhile; the others go on, but what is not listed may be there */
			l->cut = true;
			err = 0;
		}
	}
	return err;
}

int qp_list_read(struct qp_list *l)
{
	const struct timeval wait = { .tv_sec = ANSWER_WAIT_S };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA), err;
	char *answer = malloc(ANSWER_BYTES);

	l->n = l->n_devices = 0;
	l->cut = false;
	if (fd < 0)
		err = errno == EPROTONOSUPPORT ? -ENOTSUP : -errno;
	else if (!answer)
		err = -ENOMEM;
	else
		err = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) ? -errno : all_read(l, fd, answer);
	free(answer);
	if (fd >= 0)
		close(fd);
	return err;
}

/* --- addresses --- */

static bool text_read(const char *path, char *to, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(to, size, f); /* an empty place of the table answers EINVAL */

	if (f)
		fclose(f);
	return ok;
}

static bool gid_parse(const char *text, uint8_t gid[16])
{
	bool any = false;

	for (int i = 0; i < 8; i++, text += 5) {
		unsigned int hi, lo;

		if (sscanf(text, "%2x%2x", &hi, &lo) != 2 || (i < 7 && text[4] != ':'))
			return false;
		gid[2 * i] = hi;
		gid[2 * i + 1] = lo;
		any |= hi || lo;
	}
	return any;
}

static void gid_add(struct qp_list *l, struct gid_row *r, const uint8_t gid[16])
{
	for (int i = 0; i < r->n; i++)
		if (!memcmp(r->gids[i], gid, 16)) /* RoCE lists each for v1 and v2 */
			return;
	if (r->n == RECORD_GIDS_MAX)
		l->cut = true;
	else
		memcpy(r->gids[r->n++], gid, 16);
}

static void port_read(struct qp_list *l, const char *dir, uint32_t device, uint32_t port)
{
	struct gid_row *r = &l->gids[l->n_gids++];
	char path[512], text[64];
	unsigned int lid = 0;
	uint8_t gid[16];

	memset(r, 0, sizeof(*r));
	r->device = device;
	r->port = port;
	snprintf(path, sizeof(path), "%s/%u/lid", dir, port);
	if (text_read(path, text, sizeof(text)) && sscanf(text, "%x", &lid) == 1)
		r->lid = lid;
	for (int i = 0; i < GID_FILES_MAX; i++) {
		snprintf(path, sizeof(path), "%s/%u/gids/%d", dir, port, i);
		if (access(path, F_OK))
			break;
		if (text_read(path, text, sizeof(text)) && strlen(text) >= 39 && gid_parse(text, gid))
			gid_add(l, r, gid);
	}
}

void qp_list_gids(struct qp_list *l, const char *root)
{
	char dir[384];

	l->n_gids = 0;
	for (size_t i = 0; i < l->n_devices; i++) {
		struct dirent *e;
		DIR *d;

		snprintf(dir, sizeof(dir), "%s/class/infiniband/%s/ports", root, l->devices[i].name);
		d = opendir(dir);
		while (d && (e = readdir(d)) && l->n_gids < GID_LIST_MAX)
			if (atoi(e->d_name) > 0)
				port_read(l, dir, i, atoi(e->d_name));
		if (d)
			closedir(d);
	}
}
