/* SPDX-License-Identifier: Apache-2.0
 *
 * host.c - see host.h.
 */
#include "tools/stress/verbs/host.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define BUSY_SHARE 0.05
#define BUSY_WATCH_NS 300000000
#define BUSY_GBITS_UNKNOWN 1.0 /* of a link whose speed is not known */
#define LIST_BYTES 8192        /* more than names of 64 ports have */
#define NODES_MAX 64

static int impossible(char why[LIBRARY_WHY], const char *object, const char *cause, const char *remedy)
{
	snprintf(why, LIBRARY_WHY, "%.100s: %.180s: %.220s", object, cause, remedy);
	return STRESS_IMPOSSIBLE;
}

bool devices_have(const char *list, const char *device, int port)
{
	bool but = list && *list == '^', found = false;
	char copy[LIST_BYTES], *rest = copy, *word, one[96];

	if (!list)
		return true;
	snprintf(copy, sizeof(copy), "%s", list + but);
	snprintf(one, sizeof(one), "%s:%d", device, port);
	while ((word = strsep(&rest, ",")))
		found |= !strcmp(word, device) || !strcmp(word, one);
	return found != but;
}

/* --- devices --- */

static void leave_out(struct rdma_host *host, const char *device, int number)
{
	host->left_out = realloc(host->left_out, (host->n_left_out + 1) * sizeof(*host->left_out));
	if (!host->left_out)
		abort();
	host->left_out[host->n_left_out] = (struct rdma_left_out){ .number = number };
	snprintf(host->left_out[host->n_left_out++].device, sizeof(host->left_out->device), "%s", device);
}

/* A host channel adapter: node type 1. iWARP has no queue pairs that two processes connect by themselves, EFA no
 * reliable ones. */
static bool is_adapter(const char *device)
{
	char path[256];
	FILE *f;
	int type = 1;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/node_type", sysfs_root(), device);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &type) != 1)
		type = 1;
	if (f)
		fclose(f);
	return type == 1;
}

/* "mlx5_0" and "mlx5_0:1" are words about mlx5_0. */
static bool is_about(const char *word, const char *device)
{
	size_t n = strcspn(word, ":");

	return strlen(device) == n && !strncmp(word, device, n);
}

/* "mlx5_0:3" of a device with one port would leave out what was asked for, or nothing. */
static int port_words_check(const struct rdma_host *host, const char *device, int n_ports, char why[LIBRARY_WHY])
{
	const char *list = host->options->rdma.devices;
	char copy[LIST_BYTES], *rest = copy, *word, one[96];

	snprintf(copy, sizeof(copy), "%s", !list ? "" : list + (*list == '^'));
	while ((word = strsep(&rest, ","))) {
		bool found = !is_about(word, device) || !strchr(word, ':');

		for (int i = 1; i <= n_ports && !found; i++) {
			snprintf(one, sizeof(one), "%s:%d", device, i);
			found = !strcmp(word, one);
		}
		if (found)
			continue;
		snprintf(why, LIBRARY_WHY, "--devices: '%.80s' is not on this host: %.80s has %d port%s", word, device,
			 n_ports, n_ports == 1 ? "" : "s");
		return STRESS_USAGE;
	}
	return STRESS_PASSED;
}

static int ports_take(struct rdma_host *host, struct verbs_device_context *context, const char *device,
		      char why[LIBRARY_WHY])
{
	struct verbs_device_attr attr = { .phys_port_cnt = 0 };
	int err = host->verbs.query_device(context, &attr), wanted = 0;

	if (!err && port_words_check(host, device, attr.phys_port_cnt, why)) {
		host->verbs.close(context);
		return STRESS_USAGE;
	}
	for (int i = 1; i <= attr.phys_port_cnt && !err; i++) {
		struct rdma_port *p = &host->ports[host->n_ports];

		if (!devices_have(host->options->rdma.devices, device, i) || host->n_ports == RDMA_PORTS_HOST_MAX) {
			leave_out(host, device, i);
			continue;
		}
		*p = (struct rdma_port){ .number = i };
		snprintf(p->device, sizeof(p->device), "%s", device);
		err = port_read(host, context, p);
		host->contexts[host->n_ports++] = context;
		wanted++;
	}
	if (!wanted)
		host->verbs.close(context);
	return err ? impossible(why, device, strerror(err),
				"it does not answer; look at the kernel log, or leave it out (--devices ^NAME)")
		   : STRESS_PASSED;
}

/* Whether any port of it can be one of the list: its ports are compared with the list once it is open. */
static bool is_wanted(const char *list, const char *device)
{
	char copy[LIST_BYTES], *rest = copy, *word;
	bool any = false, whole = false;

	if (!list)
		return true;
	snprintf(copy, sizeof(copy), "%s", list + (*list == '^'));
	while ((word = strsep(&rest, ","))) {
		any |= is_about(word, device);
		whole |= !strcmp(word, device);
	}
	return *list == '^' ? !whole : any;
}

static int device_open(struct rdma_host *host, void *device, char why[LIBRARY_WHY])
{
	const char *name = host->verbs.device_name(device);
	struct verbs_device_context *context;
	char cause[160];

	if (!is_wanted(host->options->rdma.devices, name)) {
		leave_out(host, name, 0);
		return STRESS_PASSED;
	}
	if (!is_adapter(name)) {
		leave_out(host, name, 0);
		snprintf(host->note, sizeof(host->note),
			 "%.60s is not tested: it has no queue pairs of type RC (iWARP, EFA)", name);
		return STRESS_PASSED;
	}
	context = host->verbs.open(device);
	if (context)
		return ports_take(host, context, name, why);
	snprintf(cause, sizeof(cause), "it cannot be opened: %s", strerror(errno));
	return impossible(why, name, cause,
			  "may this process use /dev/infiniband? In a container, give it --device /dev/infiniband; or "
			  "leave it out (--devices ^NAME)");
}

/* Devices that the kernel has; of the library's none. */
static int none_say(char why[LIBRARY_WHY])
{
	char path[256], cause[128];
	int n = 0;
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/class/infiniband", sysfs_root());
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	if (!n)
		return impossible(why, "no RDMA device", "the kernel has none on this host",
				  "look at lspci | grep -i mellanox and at the driver (lsmod | grep -E 'mlx5_ib|rxe')");
	snprintf(cause, sizeof(cause), "the kernel has %d, but libibverbs sees none", n);
	return impossible(
		why, "no RDMA device", cause,
		"load ib_uverbs, install ibverbs-providers; in a container, give it --device /dev/infiniband");
}

static void names_list(const struct verbs *verbs, void **list, int n, char *text, size_t size)
{
	size_t at = 0;

	*text = 0;
	for (int i = 0; i < n && at < size; i++)
		at += snprintf(text + at, size - at, "%s%s", i ? ", " : "", verbs->device_name(list[i]));
}

/* Each word of --devices has to be there: a list with a slip in it would test less than was asked for. */
static int words_check(const struct rdma_host *host, void **list, int n, char why[LIBRARY_WHY])
{
	const char *wanted = host->options->rdma.devices;
	char copy[LIST_BYTES], *rest = copy, *word, all[160];

	if (!wanted)
		return STRESS_PASSED;
	snprintf(copy, sizeof(copy), "%s", wanted + (*wanted == '^'));
	while ((word = strsep(&rest, ","))) {
		bool found = false;

		for (int i = 0; i < n; i++)
			found |= is_about(word, host->verbs.device_name(list[i]));
		if (found)
			continue;
		names_list(&host->verbs, list, n, all, sizeof(all));
		snprintf(why, LIBRARY_WHY, "--devices: '%.60s' is not on this host: it has %s", word, n ? all : "none");
		return STRESS_USAGE;
	}
	return STRESS_PASSED;
}

static int devices_open(struct rdma_host *host, char why[LIBRARY_WHY])
{
	int n = 0, status;
	void **list = host->verbs.device_list(&n);

	if (!list || !n)
		return none_say(why);
	status = words_check(host, list, n, why);
	for (int i = 0; i < n && !status; i++)
		status = device_open(host, list[i], why);
	host->verbs.device_list_free(list);
	if (!status && !host->n_ports)
		status = impossible(why, "no RDMA port", host->note[0] ? host->note : "none is left",
				    "name others with --devices");
	return status;
}

/* --- memory --- */

static void node_add(struct rdma_host *host, int node)
{
	if (host->n_places < RDMA_PLACES_MAX)
		host->places[host->n_places++] = (struct rdma_place){ .gpu = -1, .number = node };
}

static void nodes_find(struct rdma_host *host)
{
	char path[256], text[LIST_BYTES] = "", *at = text;
	FILE *f;

	snprintf(path, sizeof(path), "%s/devices/system/node/has_memory", sysfs_root());
	f = fopen(path, "re");
	if (f && !fgets(text, sizeof(text), f))
		*text = 0;
	if (f)
		fclose(f);
	while (*at >= '0' && *at <= '9') {
		long first = strtol(at, &at, 10), last = *at == '-' ? strtol(at + 1, &at, 10) : first;

		for (long i = first; i <= last && i < NODES_MAX; i++)
			node_add(host, i);
		at += *at == ',';
	}
	if (!host->n_places)
		node_add(host, -1);
}

/* 0: there are some that CUDA shows. */
static int gpus_look(struct rdma_host *host)
{
	char why[LIBRARY_WHY];
	struct cuda cuda;
	int n = 0, error;

	if (libraries_cuda(&cuda, why)) {
		snprintf(host->note, sizeof(host->note), "GPU memory is not tested: libcuda.so.1 cannot be used");
		return -ENOENT;
	}
	error = cuda.init(0);
	error = error ? error : cuda.device_count(&n);
	if (!error && n)
		return 0;
	snprintf(host->note, sizeof(host->note), "GPU memory is not tested: no GPU (%s)",
		 cuda_error_text(&cuda, error));
	return -ENOENT;
}

static int gpus_open(struct rdma_host *host, char why[LIBRARY_WHY])
{
	static struct stress_options mine;
	int status;

	if (host->options->rdma.no_gpus || gpus_look(host))
		return STRESS_PASSED;
	mine = *host->options;
	mine.measures = 0;
	host->gpus = calloc(1, sizeof(*host->gpus));
	if (!host->gpus)
		abort();
	status = run_open(host->gpus, &mine, why);
	for (int i = 0; !status && i < host->gpus->n_gpus && host->n_places < RDMA_PLACES_MAX; i++)
		host->places[host->n_places++] =
			(struct rdma_place){ .gpu = host->gpus->gpus[i].ordinal, .number = -1 };
	return status;
}

struct stress_gpu *host_gpu(const struct rdma_host *host, int ordinal)
{
	for (int i = 0; host->gpus && i < host->gpus->n_gpus; i++)
		if (host->gpus->gpus[i].ordinal == ordinal)
			return &host->gpus->gpus[i];
	return NULL;
}

/* --- others' traffic --- */

static double gbits_moved(const uint64_t *rose, uint64_t ns)
{
	uint64_t sent = rose[PORT_SENT_BYTES], received = rose[PORT_RECEIVED_BYTES];
	uint64_t most = sent == PORT_NOT_COUNTED ? 0 : sent;

	if (received != PORT_NOT_COUNTED && received > most)
		most = received;
	return 8.0 * most / ns;
}

static int busy_refuse(struct rdma_host *host, char why[LIBRARY_WHY])
{
	uint64_t before[RDMA_PORTS_HOST_MAX][PORT_COUNTERS], now[PORT_COUNTERS], rose[PORT_COUNTERS];
	uint64_t begin_ns = clock_monotonic_ns();
	char object[96], cause[96];

	if (host->options->force)
		return STRESS_PASSED;
	for (int i = 0; i < host->n_ports; i++)
		counters_read(host->ports[i].device, host->ports[i].number, host->ports[i].netdev, before[i]);
	nanosleep(&(struct timespec){ .tv_nsec = BUSY_WATCH_NS }, NULL);
	for (int i = 0; i < host->n_ports; i++) {
		const struct rdma_port *p = &host->ports[i];
		double gbits;

		counters_read(p->device, p->number, p->netdev, now);
		counters_since(before[i], now, rose);
		gbits = gbits_moved(rose, clock_monotonic_ns() - begin_ns);
		if (gbits <= (p->gbits > 0 ? BUSY_SHARE * p->gbits : BUSY_GBITS_UNKNOWN))
			continue;
		snprintf(object, sizeof(object), "port %s:%d is in use", p->device, p->number);
		snprintf(cause, sizeof(cause), "others move %.2f Gb/s over it", gbits);
		return impossible(why, object, cause,
				  "a test would disturb that work, and be disturbed: wait until it is over, leave "
				  "the device out (--devices ^NAME), or --force");
	}
	return STRESS_PASSED;
}

int host_open(struct rdma_host *host, const struct stress_options *options, char why[LIBRARY_WHY])
{
	int status;

	*host = (struct rdma_host){ .options = options };
	if (libraries_verbs(&host->verbs, options->rdma.library, why))
		return STRESS_IMPOSSIBLE;
	status = devices_open(host, why);
	if (!status)
		nodes_find(host);
	status = status ? status : busy_refuse(host, why);
	status = status ? status : gpus_open(host, why);
	if (!status)
		places_measure(host);
	return status;
}

void host_close(struct rdma_host *host)
{
	for (int i = 0; i < host->n_ports; i++)
		if (!i || host->contexts[i] != host->contexts[i - 1])
			host->verbs.close(host->contexts[i]);
	if (host->gpus)
		run_close(host->gpus);
	free(host->gpus);
	free(host->left_out);
	host->gpus = NULL;
	host->left_out = NULL;
	host->n_ports = host->n_left_out = 0;
}
