/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - see ring.h.
 *
 * A record with a wrong size field is dropped here, so later code can trust the size. Wake-ups are edge-triggered: the
 * BPF programs wake the collector once, when a ring passes its threshold; a ring that merely holds something does not
 * wake it.
 */
#include "attach/ring.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define WAKE_SHARE 4 /* wake at a quarter: the rest has room for what comes until the collector runs */
#define TAKEN_ENOUGH -ECANCELED

struct ring {
	struct ring_source *source;
	int class, node;
	int map_fd;
	size_t taken, bytes; /* records taken in this call; their size */
	int err;             /* of emit */
};

struct ring_source {
	struct ring_cfg cfg;
	struct ring *rings;
	int n;
	struct ring_buffer *consumer;
	struct ring_state *states; /* [RING_SLOTS], shared with the kernel side */
	int epoll_fd;
};

uint64_t ring_nodes_parse(const char *list)
{
	unsigned int first, last;
	uint64_t nodes = 0;
	int n = 0;

	for (; sscanf(list, "%u%n", &first, &n) == 1; list += *list == ',') {
		list += n;
		last = first;
		if (sscanf(list, "-%u%n", &last, &n) == 1)
			list += n;
		for (; first <= last && first < RING_NODES_MAX; first++)
			nodes |= 1ull << first;
	}
	return nodes;
}

uint64_t ring_nodes_read(void)
{
	char list[256] = "";
	FILE *f = fopen("/sys/devices/system/node/has_cpu", "re");
	uint64_t nodes;

	if (f && !fgets(list, sizeof(list), f))
		*list = 0;
	if (f)
		fclose(f);
	nodes = ring_nodes_parse(list);
	return nodes ? nodes : 1;
}

static int ring_record(void *ctx, void *data, size_t size)
{
	struct ring *r = ctx;
	const struct wire_hdr *h = data;

	if (size < sizeof(*h) || h->size < sizeof(*h) || h->size > size)
		return 0;
	r->err = r->source->cfg.emit(r->source->cfg.to, h);
	r->taken += size;
	return r->err ? r->err : r->taken < r->bytes ? 0 : TAKEN_ENOUGH;
}

/* All rings need the same flags, or the array of maps refuses them: with several nodes, each names its own. */
static int map_make(const struct ring_source *s, const struct ring *r)
{
	LIBBPF_OPTS(bpf_map_create_opts, o);
	int fd;

	if (s->cfg.nodes & (s->cfg.nodes - 1)) {
		o.map_flags = BPF_F_NUMA_NODE;
		o.numa_node = r->node;
	}
	fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, r->bytes, &o);
	if (fd < 0 && errno == EINVAL && o.numa_node) { /* a node that went offline */
		o.numa_node = __builtin_ctzll(s->cfg.nodes);
		fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, r->bytes, &o);
	}
	return fd < 0 ? -errno : fd;
}

static int ring_make(struct ring_source *s, int class, int node)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	struct ring *r = &s->rings[s->n];

	*r = (struct ring){ .source = s, .class = class, .node = node, .bytes = s->cfg.bytes[class] };
	r->map_fd = map_make(s, r);
	if (r->map_fd < 0)
		return r->map_fd;
	s->n++;
	if (!s->consumer) {
		s->consumer = ring_buffer__new(r->map_fd, ring_record, r, NULL);
		if (!s->consumer)
			return -errno;
	} else if (ring_buffer__add(s->consumer, r->map_fd, ring_record, r)) {
		return -errno;
	}
	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, r->map_fd, &e) ? -errno : 0;
}

int ring_open(const struct ring_cfg *cfg, struct ring_source **ret)
{
	struct ring_source *s = calloc(1, sizeof(*s));
	int err = 0;

	if (!s)
		return -ENOMEM;
	s->cfg = *cfg;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->rings = calloc(RING_SLOTS, sizeof(*s->rings));
	if (s->epoll_fd < 0 || !s->rings)
		err = -ENOMEM;
	for (int class = 0; !err && class < RING_CLASSES; class ++)
		for (int node = 0; !err && node < RING_NODES_MAX; node++)
			if (cfg->nodes >> node & 1)
				err = ring_make(s, class, node);
	if (err)
		ring_free(s);
	else
		*ret = s;
	return err;
}

void ring_free(struct ring_source *s)
{
	if (!s)
		return;
	ring_buffer__free(s->consumer);
	for (int i = 0; i < s->n; i++)
		/* lint: a consumer comes with its rings */
		close(s->rings[i].map_fd);
	if (s->states)
		munmap(s->states, RING_SLOTS * sizeof(*s->states));
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	free(s->rings);
	free(s);
}

int ring_template_fd(const struct ring_source *s)
{
	return s->rings[0].map_fd;
}

/* A node without a ring uses the first ring of the class, so every CPU has one. */
static const struct ring *ring_for(const struct ring_source *s, int class, int node)
{
	const struct ring *first = NULL;

	for (const struct ring *r = s->rings; r < s->rings + s->n; r++) {
		if (r->class != class)
			continue;
		if (r->node == node)
			return r;
		first = first ? first : r;
	}
	return first;
}

/* Sets all slots in one system call: each call waits for an RCU grace period, 20 ms of the start. */
static int slots_put(int rings_fd, uint32_t *slots, int *fds)
{
	LIBBPF_OPTS(bpf_map_batch_opts, opts);
	uint32_t n = RING_SLOTS;

	if (!bpf_map_update_batch(rings_fd, slots, fds, &n, &opts))
		return 0;
	for (n = 0; n < RING_SLOTS; n++) /* for a kernel without batch updates of this kind of map */
		if (bpf_map_update_elem(rings_fd, &slots[n], &fds[n], BPF_ANY))
			return -errno;
	return 0;
}

int ring_publish(struct ring_source *s, int rings_fd, int states_fd)
{
	uint32_t slots[RING_SLOTS];
	int fds[RING_SLOTS];

	s->states = mmap(NULL, RING_SLOTS * sizeof(*s->states), PROT_READ | PROT_WRITE, MAP_SHARED, states_fd, 0);
	if (s->states == MAP_FAILED) {
		s->states = NULL;
		return -errno;
	}
	for (uint32_t slot = 0; slot < RING_SLOTS; slot++) {
		const struct ring *r = ring_for(s, slot / RING_NODES_MAX, slot % RING_NODES_MAX);

		s->states[slot].wake_bytes = r->bytes / WAKE_SHARE; /* lint: every class has a ring */
		slots[slot] = slot;
		fds[slot] = r->map_fd;
	}
	return slots_put(rings_fd, slots, fds);
}

int ring_wake_fd(const struct ring_source *s)
{
	return s->epoll_fd;
}

uint64_t ring_bytes_mapped(const struct ring_source *s)
{
	uint64_t sum = 0;

	for (int i = 0; i < s->n;
	     i++) /* the data is mapped twice, so that a record at the end is contiguous; two pages of positions */
		sum += 2 * s->rings[i].bytes + 2 * sysconf(_SC_PAGESIZE);
	return sum;
}

/* Rearm before emptying: a ring that fills from here on wakes again. */
static void wakes_clear(struct ring_source *s)
{
	struct epoll_event events[16];

	while (epoll_wait(s->epoll_fd, events, 16, 0) == 16)
		;
	for (int slot = 0; slot < RING_SLOTS; slot++)
		if (__atomic_load_n(&s->states[slot].woken, __ATOMIC_RELAXED))
			__atomic_store_n(&s->states[slot].woken, 0, __ATOMIC_SEQ_CST);
}

int ring_consume(struct ring_source *s)
{
	int err = 0, more = 0;

	wakes_clear(s);
	for (int i = 0; !err && i < s->n; i++) {
		s->rings[i].taken = s->rings[i].err = 0;
		ring__consume(ring_buffer__ring(s->consumer, i));
		err = s->rings[i].err;
		more |= s->rings[i].taken >= s->rings[i].bytes;
	}
	return err ? err : more;
}
