/* SPDX-License-Identifier: Apache-2.0
 *
 * loader.c - loads the life object first, shares its maps with all tracers' objects, implements the handle of tracer.h.
 */
#include "attach/loader.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/confine.h"
#include "base/log.h"
#include "source.h"
#include "life.skel.h"
#include "attach/loader_internal.h"
#include "attach/ring.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/reader.h"
#include "inspect/stack/symbolize.h"

static const char *const shared_maps[] = { "targets", "rings", "ring_states", "drops", "probe_cookies", "heartbeat" };
#define N_SHARED_MAPS (sizeof(shared_maps) / sizeof(shared_maps[0]))

static void (*log_line)(const char *line);

static int libbpf_log(enum libbpf_print_level level, const char *format, va_list args)
{
	char line[1024];

	if (level == LIBBPF_DEBUG || !log_line)
		return 0;
	vsnprintf(line, sizeof(line), format, args);
	line[strcspn(line, "\n")] = 0;
	log_line(line);
	return 0;
}

bool program_is_uprobe(const struct bpf_program *p)
{
	return !strncmp(bpf_program__section_name(p), "uprobe", 6);
}

static bool program_is_iterator(const struct bpf_program *p)
{
	return !strncmp(bpf_program__section_name(p), "iter/", 5);
}

/* Without uprobe.multi in the kernel the same programs load as plain uprobes. */
static void programs_type(struct loader *l, struct bpf_object *o)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, o) if (program_is_uprobe(p))
		bpf_program__set_expected_attach_type(p, l->multi ? BPF_TRACE_UPROBE_MULTI : 0);
}

static int maps_lend(struct loader *l, struct bpf_object *o)
{
	for (size_t i = 0; i < N_SHARED_MAPS; i++) {
		struct bpf_map *from = bpf_object__find_map_by_name(l->life, shared_maps[i]);
		struct bpf_map *to = bpf_object__find_map_by_name(o, shared_maps[i]);
		int err = to ? bpf_map__reuse_fd(to, bpf_map__fd(from)) : 0;

		if (err)
			return err;
	}
	return 0;
}

/* Of this session. */
static uint32_t lacks_bits(const struct loader *l)
{
	return l->lacks | (l->cfg.prices ? 0 : KERNEL_UNPRICED);
}

static int life_load(struct loader *l)
{
	size_t size;
	const void *elf = life_bpf__elf_bytes(&size);
	int err;

	l->life = bpf_object__open_mem(elf, size, NULL);
	if (!l->life)
		return -errno;
	err = kernel_lacks_set(l->life, l->lacks);
	if (err)
		return err;
	if (!(l->lacks & KERNEL_BIT(COOKIE)))
		maps_shrink(l->life, "probe_cookies");
	err = bpf_map__set_inner_map_fd(bpf_object__find_map_by_name(l->life, "rings"), ring_template_fd(l->rings));
	return err ? err : bpf_object__load(l->life);
}

static int tracer_load(struct loader *l, struct tracer_handle *h)
{
	size_t size;
	const void *elf = h->tracer->object(&size);
	int err;

	h->object = bpf_object__open_mem(elf, size, NULL);
	if (!h->object)
		return -errno;
	programs_type(l, h->object);
	if (maps_stay_empty(l, h->tracer))
		maps_shrink(h->object, NULL);
	err = kernel_lacks_set(h->object, lacks_bits(l));
	if (!err)
		err = maps_lend(l, h->object);
	if (!err)
		err = bpf_object__load(h->object);
	if (!err && h->tracer->start)
		err = h->tracer->start(h);
	if (err) {
		bpf_object__close(h->object);
		h->object = NULL;
	}
	return err;
}

int tracer_load_late(struct tracer_handle *h)
{
	uint64_t begin_ns = clock_monotonic_ns();

	if (!h->later)
		return 0;
	h->later = false;
	h->err = tracer_load(h->loader, h);
	log_detail("tracer '%s' loaded in %.0f ms", h->tracer->name, (clock_monotonic_ns() - begin_ns) / 1e6);
	return h->err;
}

/* What only probes use costs a daemon nothing until something is probed. */
static void tracer_add(struct loader *l, const struct tracer *t)
{
	struct tracer_handle *h = &l->tracers[l->n_tracers++];

	*h = (struct tracer_handle){ .loader = l, .tracer = t, .later = l->cfg.tier == TIER_WATCH && t->probes };
	if (!h->later)
		h->err = tracer_load(l, h);
}

static int rings_open(struct loader *l)
{
	struct ring_cfg cfg = { .nodes = ring_nodes_read(), .emit = l->cfg.emit, .to = l->cfg.emit_to };

	memcpy(cfg.bytes, l->cfg.ring_bytes, sizeof(cfg.bytes));
	return ring_open(&cfg, &l->rings);
}

int loader_map_fd(const struct loader *l, const char *name)
{
	return bpf_map__fd(bpf_object__find_map_by_name(l->life, name));
}

/* Do return probes use the uretprobe system call? A seccomp profile older than it kills the caller. */
static bool uretprobe_is_syscall(void)
{
	struct utsname u;
	const struct kernel_quirk *q;

	for (size_t i = 0; (q = kernel_quirk(i)); i++)
		if (!strcmp(q->id, "uretprobe_syscall"))
			return !uname(&u) && kernel_quirk_applies(q, u.release, u.machine);
	return false;
}

static bool lib_is_free(void *to, uint32_t lib_id)
{
	struct loader *l = to;
	struct guard_answer a;

	if (lib_id == LIB_OWN)
		return true;
	a = attach_guard_ask(l->guard, l->libs[lib_id].build_id, l->libs[lib_id].build_id_len);
	return !a.holder && !a.crowd && !a.unfinished;
}

int loader_open(const struct loader_cfg *cfg, struct loader **ret)
{
	struct loader *l = calloc(1, sizeof(*l));
	int err;

	if (!l)
		return -ENOMEM;
	l->cfg = *cfg;
	log_line = cfg->log;
	libbpf_set_print(libbpf_log);
	l->n_cpus = libbpf_num_possible_cpus();
	l->drops = l->n_cpus > 0 ? calloc((RING_CLASSES + 1) * l->n_cpus, sizeof(*l->drops)) : NULL;
	l->guard = attach_guard_new(cfg->reader, cfg->targets);
	l->detacher = detacher_new(lib_is_free, l);
	l->attacher = attacher_new();
	if (!l->guard || !l->detacher || !l->attacher || !l->drops) {
		loader_free(l);
		return -ENOMEM;
	}
	attach_guard_share(l->guard, cfg->shares);
	err = kernel_lacks_read(&l->lacks);
	l->lacks |= cfg->lacks;
	l->multi = !(l->lacks & (KERNEL_BIT(UPROBE_MULTI) | KERNEL_BIT(COOKIE)));
	l->uretprobe_syscall = uretprobe_is_syscall();
	if (!err)
		err = rings_open(l);
	if (!err)
		err = life_load(l);
	if (!err)
		err = target_users_map(l);
	if (!err)
		err = heartbeat_map(l);
	if (!err)
		err = ring_publish(l->rings, loader_map_fd(l, "rings"), loader_map_fd(l, "ring_states"));
	for (const struct source *s = NULL; !err && (s = source_next_tracer(s));)
		tracer_add(l, s->live->tracer);
	if (err)
		loader_free(l);
	else
		*ret = l;
	return err;
}

void links_free(struct bpf_link **links, int n)
{
	for (int i = 0; i < n; i++)
		bpf_link__destroy(links[i]);
	free(links);
}

void loader_free(struct loader *l)
{
	if (!l)
		return;
	attached_free_all(l);
	attacher_free(l->attacher, l->detacher);
	for (struct shed *s; (s = l->shed);) {
		l->shed = s->next;
		free(s);
	}
	detacher_free(l->detacher); /* before the objects: links hold their programs */
	attach_guard_free(l->guard);
	for (int i = 0; i < l->n_tracers; i++) {
		struct tracer_handle *h = &l->tracers[i];

		if (h->state && h->tracer->end)
			h->tracer->end(h);
		links_free(h->samplers, h->n_samplers);
		bpf_link__destroy(h->iter);
		bpf_object__close(h->object);
		free(h->state);
	}
	links_free(l->life_links, l->n_life_links);
	bpf_link__destroy(l->glances);
	ring_free(l->rings);
	target_users_unmap(l);
	heartbeat_unmap(l);
	bpf_object__close(l->life);
	for (uint32_t i = 0; i < l->n_libs; i++)
		free(l->libs[i].symbols), free(l->libs[i].classes);
	learnt_free_all(l);
	free(l->drops);
	free(l);
}

const char *loader_tracer_error(const struct loader *l, int i, int *ret_err)
{
	if (i >= l->n_tracers)
		return NULL;
	*ret_err = l->tracers[i].err;
	return l->tracers[i].tracer->name;
}

int loader_private_stacks(const struct loader *l)
{
	struct bpf_program *p;
	int n = 0;

	for (int i = 0; i < l->n_tracers; i++)
		if (l->tracers[i].object)
			bpf_object__for_each_program(p, l->tracers[i].object) n +=
				program_is_uprobe(p) && kernel_private_stack(bpf_program__fd(p));
	return n;
}

int loader_tracer_programs(const struct loader *l, int i)
{
	struct bpf_program *p;
	int n = 0;

	if (i < l->n_tracers && l->tracers[i].object)
		bpf_object__for_each_program(p, l->tracers[i].object) n++;
	return n;
}

/* Attaches every program of the object that belongs to the kernel itself. */
static int kernel_programs_attach(struct bpf_object *o, bool may_lack, struct bpf_link ***ret_links, int *ret_n)
{
	struct bpf_program *p;
	int err = 0;

	bpf_object__for_each_program(p, o)
	{
		struct bpf_link **grown, *link;

		if (err || program_is_uprobe(p) || program_is_iterator(p))
			continue;
		link = bpf_program__attach(p);
		if (!link && errno == ENOENT && may_lack)
			continue;
		if (!link) {
			err = -errno;
			continue;
		}
		grown = realloc(*ret_links, (*ret_n + 1) * sizeof(*grown));
		if (!grown) {
			bpf_link__destroy(link);
			return -ENOMEM;
		}
		grown[(*ret_n)++] = link;
		*ret_links = grown;
	}
	return err;
}

int loader_attach_life(struct loader *l)
{
	return kernel_programs_attach(l->life, false, &l->life_links, &l->n_life_links);
}

int loader_attach_samplers(struct loader *l)
{
	int err = 0;

	for (int i = 0; i < l->n_tracers; i++) {
		struct tracer_handle *h = &l->tracers[i];

		if (!h->object || (l->cfg.tier == TIER_WATCH && !h->tracer->of_machine))
			continue;
		h->err = kernel_programs_attach(h->object, h->tracer->of_machine, &h->samplers, &h->n_samplers);
		err = err ? err : h->err;
	}
	return err;
}

void loader_links_forget(struct loader *l, uint32_t tgid)
{
	attached_forget(l, tgid);
}

void loader_proc_known(struct loader *l, const struct target_proc *proc)
{
	for (int i = 0; i < l->n_tracers; i++)
		if (l->tracers[i].object && l->tracers[i].tracer->on_proc)
			l->tracers[i].tracer->on_proc(&l->tracers[i], proc);
}

static int loss_emit(struct loader *l, uint32_t ring, uint32_t cpu, uint64_t lost, uint64_t now_ns)
{
	struct record_loss f = {
		.hdr = { .size = sizeof(f),
			 .tracer = WIRE_COLLECTOR,
			 .kind = RECORD_LOSS,
			 .cpu = cpu,
			 .ts_ns = now_ns },
		.lost = lost,
		.ring = ring,
	};

	l->lost[ring] += lost;
	f.lost_total = l->lost[ring];
	return l->cfg.emit(l->cfg.emit_to, &f.hdr);
}

/* Emits one record for each class and CPU that lost something since the last tick. */
static int losses_emit(struct loader *l, uint64_t now_ns)
{
	int fd = loader_map_fd(l, "drops"), err = 0;
	uint64_t *now = l->drops + RING_CLASSES * l->n_cpus, *before = l->drops;

	for (uint32_t ring = 0; !err && ring < RING_CLASSES; ring++, before += l->n_cpus) {
		if (bpf_map_lookup_elem(fd, &ring, now))
			return -errno;
		for (int i = 0; !err && i < l->n_cpus; i++) {
			if (now[i] != before[i])
				err = loss_emit(l, ring, i, now[i] - before[i], now_ns);
			before[i] = now[i];
		}
	}
	return err;
}

/* In tier watch no process has probes, and nothing is in flight, until an escalation. */
static bool tick_worth(const struct loader *l, const struct tracer_handle *h)
{
	return l->cfg.tier != TIER_WATCH || !h->tracer->probes || l->n_probes;
}

int loader_tick(struct loader *l, uint64_t now_ns)
{
	int err = losses_emit(l, now_ns);

	detacher_poll(l->detacher);
	for (int i = 0; !err && i < l->n_tracers; i++)
		if (l->tracers[i].object && l->tracers[i].tracer->tick && tick_worth(l, &l->tracers[i]))
			err = l->tracers[i].tracer->tick(&l->tracers[i], now_ns);
	return err;
}

int loader_consume(struct loader *l)
{
	heartbeat_beat(l);
	return ring_consume(l->rings);
}

int loader_poll(struct loader *l, uint64_t now_ns)
{
	int err = 0;

	attach_made_take(l, 0);
	attacher_poll(l->attacher, l->detacher);
	for (int i = 0; !err && i < l->n_tracers; i++)
		if (l->tracers[i].object && l->tracers[i].tracer->sample)
			err = l->tracers[i].tracer->sample(&l->tracers[i], now_ns);
	return err;
}

int loader_confine(struct loader *l)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	bool admin = !l->multi;
	int err;

	setrlimit(RLIMIT_MEMLOCK, &all); /* kernels before 5.11 count maps as locked memory */
	err = confine_collector(&admin);
	if (!err && confine_collector_calls())
		log_detail("no filter of system calls is allowed here: the session goes on without its own");
	if (!err && admin)
		log_detail(
			"CAP_SYS_ADMIN stays: CAP_BPF, CAP_PERFMON, uprobe-multi, which replace it, are not all there");
	return err;
}

bool loader_attaches_per_process(const struct loader *l)
{
	return l->multi;
}

uint64_t loader_lost(const struct loader *l, enum ring_class ring)
{
	return l->lost[ring];
}

uint64_t loader_ring_bytes_mapped(const struct loader *l)
{
	return ring_bytes_mapped(l->rings);
}

int loader_wake_fd(const struct loader *l)
{
	return ring_wake_fd(l->rings);
}

uint32_t loader_probes(const struct loader *l)
{
	return l->n_probes;
}

/* --- the handle of tracer.h --- */

static int map_fd(struct tracer_handle *h, const char *name)
{
	struct bpf_map *m = bpf_object__find_map_by_name(h->object, name);

	return m ? bpf_map__fd(m) : -ENOENT;
}

static int map_update(struct tracer_handle *h, const char *map, const void *key, const void *value, uint64_t flags)
{
	int fd = map_fd(h, map);

	if (fd < 0)
		return fd;
	return bpf_map_update_elem(fd, key, value, flags) ? -errno : 0;
}

int tracer_map_put(struct tracer_handle *h, const char *map, const void *key, const void *value)
{
	return map_update(h, map, key, value, BPF_ANY);
}

int tracer_map_put_new(struct tracer_handle *h, const char *map, const void *key, const void *value)
{
	return map_update(h, map, key, value, BPF_NOEXIST);
}

int tracer_map_get(struct tracer_handle *h, const char *map, const void *key, void *ret_value)
{
	int fd = map_fd(h, map);

	if (fd < 0)
		return fd;
	return bpf_map_lookup_elem(fd, key, ret_value) ? -errno : 0;
}

int tracer_map_delete(struct tracer_handle *h, const char *map, const void *key)
{
	int fd = map_fd(h, map);

	if (fd < 0)
		return fd;
	return bpf_map_delete_elem(fd, key) ? -errno : 0;
}

int tracer_map_next(struct tracer_handle *h, const char *map, const void *prev, void *ret_key)
{
	int fd = map_fd(h, map);

	if (fd < 0)
		return fd;
	return bpf_map_get_next_key(fd, prev, ret_key) ? -errno : 0;
}

int tracer_emit(struct tracer_handle *h, const struct wire_hdr *rec)
{
	return h->loader->cfg.emit(h->loader->cfg.emit_to, rec);
}

enum tier tracer_tier(const struct tracer_handle *h)
{
	return h->loader->cfg.tier;
}

void loader_dstate_limit(struct loader *l, uint64_t ns)
{
	l->cfg.dstate_limit_ns = ns;
}

uint64_t tracer_dstate_limit_ns(const struct tracer_handle *h)
{
	return h->loader->cfg.dstate_limit_ns;
}

void *tracer_state(struct tracer_handle *h, size_t bytes)
{
	if (!h->state)
		h->state = calloc(1, bytes);
	return h->state;
}

struct reader *tracer_reader(struct tracer_handle *h)
{
	return h->loader->cfg.reader;
}

void tracer_user_stack(struct tracer_handle *h, uint32_t tgid, const uint64_t *addrs, size_t n, char *to, size_t size)
{
	const struct target_proc *p = target_set_find(h->loader->cfg.targets, tgid);
	size_t mapped = 0;

	*to = 0;
	if (!p)
		return;
	/* Code without frame pointers ends the kernel's walk in garbage: an address outside of all mappings is not a
	 * frame. */
	while (mapped < n && maps_find(&p->maps, addrs[mapped]))
		mapped++;
	if (mapped)
		symbolizer_stack(h->loader->cfg.symbols, p, addrs, mapped, to, size);
}
