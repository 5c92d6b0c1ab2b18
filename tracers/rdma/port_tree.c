/* SPDX-License-Identifier: Apache-2.0
 *
 * port_tree.c - see port_tree.h. What a provider lacks is not there and is not known: never 0.
 */
#include "tracers/rdma/port_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 512
#define VERBS_MAX 256

enum { FROM_PORT, FROM_NETDEV };

static const struct {
	enum port_counter counter;
	int from;
	uint32_t factor;
	const char *file;
} rows[] = {
#define PORT_FILE(counter, from, factor, file) { PORT_##counter, FROM_##from, factor, file },
#include "tracers/rdma/port_files.def"
#undef PORT_FILE
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

struct port_files { /* -1: there is none */
	int state, phys_state, rate, carrier, speed;
	int counters[PORT_COUNTERS];
	uint32_t factors[PORT_COUNTERS];
};

struct port_tree {
	char root[256];
	struct tree_port ports[PORTS_LISTED_MAX];
	size_t n;
	struct {
		unsigned int number;
		char device[64];
	} verbs[VERBS_MAX];
	size_t n_verbs;
	atomic_int at; /* see port_tree_at(), plus 1 */
};

/* --- files --- */

static int file_open(const char *dir, const char *name)
{
	char path[2 * PATH_SIZE];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The first line, without its end; "" where there is nothing to read. */
static bool line_at(int fd, char *to, size_t size)
{
	ssize_t n = fd >= 0 ? pread(fd, to, size - 1, 0) : -1;

	to[n > 0 ? n : 0] = 0;
	to[strcspn(to, "\n")] = 0;
	return *to;
}

static bool line_read(char *to, size_t size, const char *dir, const char *name)
{
	int fd = file_open(dir, name);
	bool is = line_at(fd, to, size);

	if (fd >= 0)
		close(fd);
	return is;
}

static uint64_t number_at(int fd, uint64_t none)
{
	char text[64], *end;
	uint64_t n;

	if (!line_at(fd, text, sizeof(text)) || !isdigit((unsigned char)*text))
		return none;
	n = strtoull(text, &end, 0);
	return *end ? none : n;
}

static void files_close(struct tree_port *p)
{
	struct port_files *f = p->files;
	const int fds[] = { f->state, f->phys_state, f->rate, f->carrier, f->speed };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	for (int i = 0; i < PORT_COUNTERS; i++)
		if (f->counters[i] >= 0)
			close(f->counters[i]);
	free(f);
	p->files = NULL;
}

/* A provider may keep them at the device (mlx5 in switchdev mode): they are a port's where it is the only one. */
static int device_file_open(const char *port_dir, const char *file)
{
	char above[PATH_SIZE + 48], other[PATH_SIZE + 48];

	snprintf(above, sizeof(above), "%s/../..", port_dir);
	snprintf(other, sizeof(other), "%s/../2", port_dir);
	return strncmp(file, "hw_counters/", 12) || !access(other, F_OK) ? -1 : file_open(above, file);
}

static void files_open(const struct port_tree *t, struct tree_port *p, const char *dir)
{
	struct port_files *f = p->files = malloc(sizeof(*f));
	char net[PATH_SIZE];

	if (!f)
		return;
	snprintf(net, sizeof(net), "%s/class/net/%s", t->root, p->id.netdev);
	f->state = file_open(dir, "state");
	f->phys_state = file_open(dir, "phys_state");
	f->rate = file_open(dir, "rate");
	f->carrier = *p->id.netdev ? file_open(net, "carrier") : -1;
	f->speed = *p->id.netdev ? file_open(net, "speed") : -1;
	for (int i = 0; i < PORT_COUNTERS; i++)
		f->counters[i] = -1;
	for (size_t i = 0; i < ROWS; i++) {
		int *fd = &f->counters[rows[i].counter];

		if (*fd >= 0 || (rows[i].from == FROM_NETDEV && !*p->id.netdev))
			continue;
		*fd = file_open(rows[i].from == FROM_NETDEV ? net : dir, rows[i].file);
		if (*fd < 0 && rows[i].from == FROM_PORT)
			*fd = device_file_open(dir, rows[i].file);
		f->factors[rows[i].counter] = rows[i].factor;
	}
}

/* --- who is there --- */

static void pci_read(const char *dir, struct tree_id *id)
{
	char path[PATH_SIZE + 16], to[PATH_SIZE] = "", *name;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/device", dir);
	n = readlink(path, to, sizeof(to) - 1);
	to[n > 0 ? n : 0] = 0;
	name = strrchr(to, '/');
	name = name ? name + 1 : to;
	if (strchr(name, ':'))
		snprintf(id->pci, sizeof(id->pci), "%.31s", name);
}

/* What can be compared: PCI vendor, device and board. Without those the driver's name in the device's, "rxe" of "rxe0".
 */
static void kind_read(const char *dir, struct tree_id *id)
{
	char vendor[16], device[16], board[48];

	line_read(board, sizeof(board), dir, "board_id");
	if (line_read(vendor, sizeof(vendor), dir, "device/vendor") &&
	    line_read(device, sizeof(device), dir, "device/device"))
		snprintf(id->kind, sizeof(id->kind), "%s:%s%s%s", vendor, device, *board ? ":" : "", board);
	else
		snprintf(id->kind, sizeof(id->kind), "%.*s", (int)strcspn(id->device, "0123456789"), id->device);
}

static void id_read(const char *dir, const char *port_dir, struct tree_id *id)
{
	char numa[16];

	id->numa_node = line_read(numa, sizeof(numa), dir, "device/numa_node") ? atoi(numa) : -1;
	line_read(id->layer, sizeof(id->layer), port_dir, "link_layer");
	line_read(id->netdev, sizeof(id->netdev), port_dir, "gid_attrs/ndevs/0");
	if (strchr(id->netdev, '/'))
		*id->netdev = 0;
	pci_read(dir, id);
	kind_read(dir, id);
}

static struct tree_port *port_of(struct port_tree *t, const char *device, uint32_t number)
{
	struct tree_port *p;

	for (size_t i = 0; i < t->n; i++)
		if (t->ports[i].id.number == number && !strcmp(t->ports[i].id.device, device))
			return &t->ports[i];
	if (t->n == PORTS_LISTED_MAX)
		return NULL;
	p = &t->ports[t->n++];
	snprintf(p->id.device, sizeof(p->id.device), "%.63s", device);
	p->id.number = number;
	return p;
}

/* The device may be another one of that name by now: its state says when the files are a removed one's. */
static bool files_live(const struct tree_port *p)
{
	char text[32];

	return p->files && line_at(p->files->state, text, sizeof(text));
}

static void port_take(struct port_tree *t, const char *device, const char *dir, uint32_t number, bool *present)
{
	struct tree_port *p = port_of(t, device, number);
	struct tree_id id = { .number = number };
	char port_dir[PATH_SIZE + 32];

	if (!p)
		return;
	present[p - t->ports] = true;
	atomic_store(&t->at, p - t->ports + 1);
	snprintf(port_dir, sizeof(port_dir), "%s/ports/%u", dir, number);
	memcpy(id.device, p->id.device, sizeof(id.device));
	id_read(dir, port_dir, &id);
	if (files_live(p) && !memcmp(&id, &p->id, sizeof(id)))
		return;
	if (p->files)
		files_close(p);
	p->id = id;
	files_open(t, p, port_dir);
}

static void device_take(struct port_tree *t, const char *device, bool *present)
{
	char dir[PATH_SIZE], ports[PATH_SIZE + 16];
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/class/infiniband/%.63s", t->root, device);
	snprintf(ports, sizeof(ports), "%s/ports", dir);
	d = opendir(ports);
	while (d && (e = readdir(d)))
		if (isdigit((unsigned char)*e->d_name))
			port_take(t, device, dir, strtoul(e->d_name, NULL, 10), present);
	if (d)
		closedir(d);
}

static void verbs_scan(struct port_tree *t)
{
	char path[PATH_SIZE];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/class/infiniband_verbs", t->root);
	d = opendir(path);
	t->n_verbs = 0;
	while (d && t->n_verbs < VERBS_MAX && (e = readdir(d))) {
		if (sscanf(e->d_name, "uverbs%u", &t->verbs[t->n_verbs].number) != 1)
			continue;
		snprintf(path, sizeof(path), "%s/class/infiniband_verbs/%.64s", t->root, e->d_name);
		t->n_verbs += line_read(t->verbs[t->n_verbs].device, sizeof(t->verbs[0].device), path, "ibdev");
	}
	if (d)
		closedir(d);
}

void port_tree_scan(struct port_tree *t)
{
	bool present[PORTS_LISTED_MAX] = { false };
	char path[PATH_SIZE];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/class/infiniband", t->root);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (*e->d_name != '.')
			device_take(t, e->d_name, present);
	if (d)
		closedir(d);
	for (size_t i = 0; i < t->n; i++)
		if (!present[i] && t->ports[i].files)
			files_close(&t->ports[i]);
	atomic_store(&t->at, 0);
	verbs_scan(t);
}

/* --- how it stands --- */

/* "4: ACTIVE" */
static uint8_t state_at(int fd)
{
	char text[64];

	return line_at(fd, text, sizeof(text)) && isdigit((unsigned char)*text) ? strtoul(text, NULL, 10) : 0;
}

/* "2.5 Gb/sec (1X SDR)" */
static void rate_read(int fd, struct tree_sample *l)
{
	char text[64], *end;
	double gbps;

	l->now.rate_mbps = l->now.lanes = PORT_NO_VALUE;
	if (!line_at(fd, text, sizeof(text)))
		return;
	gbps = strtod(text, &end);
	if (end == text || !(gbps >= 0 && gbps < 1e6))
		return;
	l->now.rate_mbps = gbps * 1000 + 0.5;
	end = strchr(end, '(');
	if (end && isdigit((unsigned char)end[1]))
		l->now.lanes = strtoul(end + 1, NULL, 10);
}

static void counter_read(const struct port_files *f, struct tree_sample *l, int c)
{
	uint64_t n = number_at(f->counters[c], PORT_NOT_COUNTED);

	l->counters[c] = n == PORT_NOT_COUNTED ? n : n * f->factors[c];
}

static void port_read(struct tree_port *p, bool all)
{
	const struct port_files *f = p->files;
	struct tree_sample *l = &p->sample;
	uint64_t carrier;

	l->now.state = state_at(f->state);
	l->now.phys_state = state_at(f->phys_state);
	carrier = number_at(f->carrier, PORT_NOT_COUNTED);
	l->now.flags = carrier > 1 ? 0 : PORT_CARRIER_KNOWN | (carrier ? PORT_CARRIER : 0);
	counter_read(f, l, PORT_SENT_BYTES);
	counter_read(f, l, PORT_RECEIVED_BYTES);
	if (!all)
		return;
	rate_read(f->rate, l);
	l->now.netdev_mbps = number_at(f->speed, PORT_NO_VALUE);
	for (int c = 0; c < PORT_COUNTERS; c++)
		if (c != PORT_SENT_BYTES && c != PORT_RECEIVED_BYTES)
			counter_read(f, l, c);
}

void port_tree_sample(struct port_tree *t, bool all)
{
	for (size_t i = 0; i < t->n; i++) {
		atomic_store(&t->at, i + 1);
		if (t->ports[i].files)
			port_read(&t->ports[i], all);
		else
			t->ports[i].sample.now.flags = PORT_GONE;
	}
	atomic_store(&t->at, 0);
}

int port_tree_at(const struct port_tree *t)
{
	return atomic_load(&t->at) - 1;
}

const struct tree_port *port_tree_list(const struct port_tree *t, size_t *ret_n)
{
	*ret_n = t->n;
	return t->ports;
}

bool port_tree_uverbs(const struct port_tree *t, unsigned int n, char *device, size_t size)
{
	for (size_t i = 0; i < t->n_verbs; i++)
		if (t->verbs[i].number == n) {
			snprintf(device, size, "%s", t->verbs[i].device);
			return true;
		}
	return false;
}

int port_tree_open(const char *root, struct port_tree **ret)
{
	struct port_tree *t;
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%.255s/class/infiniband", root);
	if (access(path, R_OK | X_OK))
		return -ENOTSUP;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	snprintf(t->root, sizeof(t->root), "%s", root);
	*ret = t;
	return 0;
}

void port_tree_free(struct port_tree *t)
{
	for (size_t i = 0; t && i < t->n; i++)
		if (t->ports[i].files)
			files_close(&t->ports[i]);
	free(t);
}
