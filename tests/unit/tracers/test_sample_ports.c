/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sample_ports.c - port_tree and ports_sampler on a made /sys: what is read of three providers' ports, what a
 * provider lacks, devices that go and come, files with nonsense in them, and which records the sampler makes of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "pipeline/decode.h"
#include "tracers/rdma/port_tree.h"
#include "source.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/reader.h"

static char root[64];

static void put(const char *file, const char *text)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, file);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		mkdir(path, 0755);
		*at = '/';
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644); /* in place: the sampler keeps files open */
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void removed(const char *what)
{
	char command[200];

	snprintf(command, sizeof(command), "rm -rf %s/%s", root, what);
	assert_int_equal(system(command), 0);
}

static void mlx5_make(const char *device)
{
	static const struct {
		const char *file, *text;
	} files[] = {
		{ "board_id", "MT_0000000838\n" },
		{ "ports/1/state", "4: ACTIVE\n" },
		{ "ports/1/phys_state", "5: LinkUp\n" },
		{ "ports/1/rate", "400 Gb/sec (4X NDR)\n" },
		{ "ports/1/link_layer", "InfiniBand\n" },
		{ "ports/1/counters/port_xmit_data", "1000\n" },
		{ "ports/1/counters/port_rcv_data", "250\n" },
		{ "ports/1/counters/symbol_error", "7\n" },
		{ "ports/1/counters/link_downed", "1\n" },
		{ "ports/1/hw_counters/out_of_sequence", "11\n" },
		{ "ports/1/hw_counters/local_ack_timeout_err", "3\n" },
	};
	char path[200];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "class/infiniband/%s/%s", device, files[i].file);
		put(path, files[i].text);
	}
	snprintf(path, sizeof(path), "devices/pci0000:1a/0000:1b:00.%c/vendor", device[strlen(device) - 1]);
	put(path, "0x15b3\n");
	strcpy(strrchr(path, '/'), "/device");
	put(path, "0x1021\n");
	strcpy(strrchr(path, '/'), "/numa_node");
	put(path, "1\n");
	*strrchr(path, '/') = 0;
	{
		char to[300], link[300];

		snprintf(to, sizeof(to), "../../../%s", path);
		snprintf(link, sizeof(link), "%s/class/infiniband/%s/device", root, device);
		assert_int_equal(symlink(to, link), 0);
	}
}

static void rxe_make(void)
{
	put("class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
	put("class/infiniband/rxe0/ports/1/phys_state", "5: LinkUp\n");
	put("class/infiniband/rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
	put("class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n");
	put("class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "veth1\n");
	put("class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", "77\n");
	put("class/infiniband/rxe0/ports/1/hw_counters/rcvd_seq_err", "5\n");
	put("class/net/veth1/carrier", "1\n");
	put("class/net/veth1/speed", "10000\n");
	put("class/net/veth1/statistics/tx_bytes", "123456\n");
	put("class/net/veth1/carrier_down_count", "2\n");
}

static int setup(void **state)
{
	(void)state;
	log_quiet = true;
	strcpy(root, "/tmp/ranktrace-ports-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	removed("");
	return 0;
}

static const struct tree_port *port_named(const struct port_tree *t, const char *device)
{
	size_t n;
	const struct tree_port *p = port_tree_list(t, &n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(p[i].id.device, device))
			return &p[i];
	return NULL;
}

static struct port_tree *tree_here(void)
{
	struct port_tree *t = NULL;

	assert_int_equal(port_tree_open(root, &t), 0);
	port_tree_scan(t);
	port_tree_sample(t, true);
	return t;
}

static void test_what_is_read(void **state)
{
	struct port_tree *t;
	const struct tree_port *p;
	char device[64];

	(void)state;
	mlx5_make("mlx5_0");
	rxe_make();
	put("class/infiniband_verbs/uverbs3/ibdev", "mlx5_0\n");
	put("class/infiniband_verbs/abi_version", "6\n");
	t = tree_here();
	p = port_named(t, "mlx5_0");
	assert_non_null(p);
	assert_string_equal(p->id.pci, "0000:1b:00.0");
	assert_string_equal(p->id.kind, "0x15b3:0x1021:MT_0000000838");
	assert_string_equal(p->id.layer, "InfiniBand");
	assert_string_equal(p->id.netdev, "");
	assert_int_equal(p->id.numa_node, 1);
	assert_int_equal(p->sample.now.state, 4);
	assert_int_equal(p->sample.now.phys_state, 5);
	assert_int_equal(p->sample.now.rate_mbps, 400000);
	assert_int_equal(p->sample.now.lanes, 4);
	assert_int_equal(p->sample.counters[PORT_SENT_BYTES], 4000); /* words of 4 bytes */
	assert_int_equal(p->sample.counters[PORT_RECEIVED_BYTES], 1000);
	assert_int_equal(p->sample.counters[PORT_SYMBOL_ERRORS], 7);
	assert_int_equal(p->sample.counters[PORT_OUT_OF_SEQUENCE], 11);
	assert_int_equal(p->sample.counters[PORT_TIMEOUTS], 3);
	assert_true(p->sample.counters[PORT_CNP_SENT] == PORT_NOT_COUNTED); /* InfiniBand has none: not 0 */
	assert_int_equal(p->sample.now.flags, 0);
	p = port_named(t, "rxe0");
	assert_string_equal(p->id.kind, "rxe");
	assert_string_equal(p->id.netdev, "veth1");
	assert_int_equal(p->id.numa_node, -1);
	assert_int_equal(p->sample.now.rate_mbps, 2500);
	assert_int_equal(p->sample.now.netdev_mbps, 10000);
	assert_int_equal(p->sample.now.flags, PORT_CARRIER_KNOWN | PORT_CARRIER);
	assert_int_equal(p->sample.counters[PORT_SENT_BYTES], 123456); /* the netdev's: it counts none itself */
	assert_int_equal(p->sample.counters[PORT_SENT_PACKETS], 77);
	assert_int_equal(p->sample.counters[PORT_SEQUENCE_NAKS], 5);
	assert_int_equal(p->sample.counters[PORT_NETDEV_CARRIER_DOWNS], 2);
	assert_true(p->sample.counters[PORT_RECEIVED_BYTES] == PORT_NOT_COUNTED);
	assert_true(port_tree_uverbs(t, 3, device, sizeof(device)));
	assert_string_equal(device, "mlx5_0");
	assert_false(port_tree_uverbs(t, 0, device, sizeof(device)));
	port_tree_free(t);
	port_tree_free(NULL);
}

/* mlx5 in switchdev mode. Of a device with two ports they are of both. */
static void test_counters_of_the_device(void **state)
{
	struct port_tree *t;

	(void)state;
	put("class/infiniband/mlx5_7/ports/1/state", "4: ACTIVE\n");
	put("class/infiniband/mlx5_7/hw_counters/out_of_sequence", "19\n");
	put("class/infiniband/mlx5_7/counters/symbol_error", "3\n"); /* there is no such place */
	t = tree_here();
	assert_int_equal(port_named(t, "mlx5_7")->sample.counters[PORT_OUT_OF_SEQUENCE], 19);
	assert_true(port_named(t, "mlx5_7")->sample.counters[PORT_SYMBOL_ERRORS] == PORT_NOT_COUNTED);
	port_tree_free(t);
	put("class/infiniband/mlx5_7/ports/2/state", "4: ACTIVE\n");
	t = tree_here();
	assert_true(port_named(t, "mlx5_7")->sample.counters[PORT_OUT_OF_SEQUENCE] == PORT_NOT_COUNTED);
	port_tree_free(t);
	removed("class/infiniband/mlx5_7");
}

static void test_what_changes(void **state)
{
	struct port_tree *t;

	(void)state;
	mlx5_make("mlx5_0");
	t = tree_here();
	put("class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	put("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "2000\n");
	put("class/infiniband/mlx5_0/ports/1/counters/symbol_error", "9\n");
	port_tree_sample(t, false);
	assert_int_equal(port_named(t, "mlx5_0")->sample.now.state, 1);
	assert_int_equal(port_named(t, "mlx5_0")->sample.counters[PORT_SENT_BYTES], 8000);
	assert_int_equal(port_named(t, "mlx5_0")->sample.counters[PORT_SYMBOL_ERRORS], 7); /* not at every sample */
	port_tree_sample(t, true);
	assert_int_equal(port_named(t, "mlx5_0")->sample.counters[PORT_SYMBOL_ERRORS], 9);
	port_tree_free(t);
}

static void test_devices_go_and_come(void **state)
{
	struct port_tree *t;
	const struct tree_port *p, *other;

	(void)state;
	mlx5_make("mlx5_0");
	t = tree_here();
	p = port_named(t, "mlx5_0");
	removed("class/infiniband/mlx5_0");
	mlx5_make("mlx5_1");
	port_tree_scan(t);
	port_tree_sample(t, true);
	assert_int_equal(p->sample.now.flags, PORT_GONE);
	other = port_named(t, "mlx5_1");
	assert_int_equal(other->sample.now.flags, 0);
	assert_ptr_not_equal(other, p);
	mlx5_make("mlx5_0");
	put("class/infiniband/mlx5_0/ports/1/counters/symbol_error", "1\n");
	port_tree_scan(t);
	port_tree_sample(t, true);
	assert_ptr_equal(port_named(t, "mlx5_0"), p); /* its number is its own */
	assert_int_equal(p->sample.now.flags, 0);
	assert_int_equal(p->sample.counters[PORT_SYMBOL_ERRORS], 1);
	port_tree_free(t);
}

static void test_nonsense(void **state)
{
	static const char *const texts[] = { "",  "\n",         "x",  "-1",   "99999999999999999999999",
					     "4", "1e9 Gb/sec", " (", "12 34" };
	struct port_tree *t = NULL;

	(void)state;
	assert_int_equal(port_tree_open(root, &t), -ENOTSUP);
	put("class/infiniband/mlx5_0/ports/x", "");
	put("class/infiniband/mlx5_9/nothing", "");
	rxe_make();
	t = tree_here();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const struct tree_port *p = port_named(t, "rxe0");

		put("class/infiniband/rxe0/ports/1/rate", texts[i]);
		put("class/infiniband/rxe0/ports/1/hw_counters/sent_pkts", texts[i]);
		put("class/net/veth1/carrier", texts[i]);
		put("class/net/veth1/speed", texts[i]);
		port_tree_sample(t, true);
		if (strcmp(texts[i], "4"))
			assert_true(p->sample.counters[PORT_SENT_PACKETS] == PORT_NOT_COUNTED || i == 4);
		assert_int_equal(p->sample.now.flags, 0);
	}
	assert_null(port_named(t, "mlx5_0"));
	assert_null(port_named(t, "mlx5_9"));
	port_tree_free(t);
}

/* What the model gets of the records, and of ones that are cut short. */
static void decode_check(const struct record_port *id, const struct record_port_sample *look)
{
	struct intern *strings = intern_new();
	union {
		struct record_port_sample f;
		char bytes[512];
	} cut;
	struct event e[DECODE_EVENTS_MAX];

	assert_int_equal(decode_record(&id->hdr, strings, e), 1);
	assert_int_equal(e->kind, EV_PORT);
	assert_string_equal(e->port.device, "mlx5_0");
	assert_string_equal(e->port.netdev, "");
	assert_string_equal(e->port.pci, "0000:1b:00.0");
	assert_string_equal(e->port.kind, "0x15b3:0x1021:MT_0000000838");
	assert_string_equal(e->port.layer, "InfiniBand");
	assert_int_equal(e->port.id.number, 1);
	assert_int_equal(e->port.id.numa_node, 1);
	assert_int_equal(decode_record(&look->hdr, strings, e), 1);
	assert_int_equal(e->kind, EV_PORT_SAMPLE);
	assert_int_equal(e->port.sample.rate_mbps, 400000);
	assert_int_equal(e->port.sample.flags, 0);
	assert_int_equal(e->port.sample.n_counters, PORT_COUNTERS);
	assert_int_equal(e->port.counters[PORT_SYMBOL_ERRORS], 7);
	memcpy(&cut, look, look->hdr.size);
	cut.f.hdr.size -= 8; /* a counter less than it says */
	assert_int_equal(decode_record(&cut.f.hdr, strings, e), -EINVAL);
	cut.f.hdr.size = sizeof(cut.f) - 8;
	assert_int_equal(decode_record(&cut.f.hdr, strings, e), -EINVAL);
	intern_free(strings);
}

struct seen {
	int n_ids, n_samples, n_users;
	struct record_port_users users;
	struct record_port_sample sample;
	uint64_t counters[PORT_COUNTERS];
	char id[256];
};

static int take(void *to, const struct wire_hdr *h)
{
	struct seen *s = to;

	assert_true(h->tracer == WIRE_COLLECTOR && h->size % 8 == 0 && h->ts_ns);
	if (h->kind == RECORD_PORT) {
		assert_true(h->size <= sizeof(s->id));
		memcpy(s->id, h, h->size);
		s->n_ids++;
	} else if (h->kind == RECORD_PORT_USERS) {
		memcpy(&s->users, h, sizeof(s->users));
		s->n_users++;
	} else {
		assert_int_equal(h->kind, RECORD_PORT_SAMPLE);
		assert_int_equal(h->size, sizeof(s->sample) + sizeof(s->counters));
		memcpy(&s->sample, h, sizeof(s->sample) + sizeof(s->counters));
		s->n_samples++;
	}
	return 0;
}

/* Looks, as the session does, until the sampler's thread has emitted what it read. */
static void sample_until(void *s, struct seen *seen, int n_samples)
{
	uint64_t end = clock_monotonic_ns() + 20000000000ull;

	while (seen->n_samples < n_samples && clock_monotonic_ns() < end) {
		assert_int_equal(source_ports.sampler->sample(s, clock_monotonic_ns()), 0);
		usleep(20000);
	}
	assert_true(seen->n_samples >= n_samples);
}

static void test_records(void **state)
{
	struct seen seen = { 0 };
	struct sampler_ctx ctx = { .emit = take, .emit_to = &seen };
	const struct record_port *id = (const void *)seen.id;
	void *s = NULL;

	(void)state;
	setenv("RANKTRACE_SYSFS", root, 1);
	assert_int_equal(source_ports.sampler->open(&ctx, &s), -ENOTSUP); /* no RDMA here */
	mlx5_make("mlx5_0");
	assert_int_equal(source_ports.sampler->open(&ctx, &s), 0);
	sample_until(s, &seen, 1);
	assert_int_equal(seen.n_ids, 1);
	assert_string_equal(id->text, "mlx5_0");
	assert_string_equal(id->text + id->body.device_len + id->body.netdev_len, "0000:1b:00.0");
	assert_int_equal(seen.sample.body.state, 4);
	assert_int_equal(seen.sample.body.n_counters, PORT_COUNTERS);
	assert_int_equal(seen.counters[PORT_SENT_BYTES], 4000);
	assert_true(seen.sample.body.taken_ns && seen.sample.body.taken_ns <= seen.sample.hdr.ts_ns);
	decode_check(id, &seen.sample);
	put("class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	sample_until(s, &seen, 3);
	assert_int_equal(seen.sample.body.state, 1);
	assert_int_equal(seen.n_ids, 1); /* nothing of it changed */
	source_ports.sampler->close(s);
	source_ports.sampler->close(NULL);
	unsetenv("RANKTRACE_SYSFS");
}

static pid_t traced;

static bool is_ours(const void *of, const struct target_proc *p)
{
	(void)of;
	return (pid_t)p->tgid == traced;
}

/* A process with a rank, that has the file open, twice. */
static pid_t rank_start(const char *file)
{
	char *argv[] = { "sleep", "60", NULL }, *env[] = { "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=3", NULL };
	pid_t pid = fork();

	if (!pid) {
		if (dup(open(file, O_RDONLY)) >= 0)
			execve("/bin/sleep", argv, env);
		_exit(1);
	}
	return pid;
}

/* Who has a device open is reported once, with its process, and it is sampled more often from then on. */
static void test_users(void **state)
{
	struct seen seen = { 0 };
	struct reader *r = NULL;
	struct target_set *set = NULL;
	struct sampler_ctx ctx = { .emit = take, .emit_to = &seen, .is_traced = is_ours };
	char file[128];
	void *s = NULL;
	int n;

	(void)state;
	mlx5_make("mlx5_0");
	put("class/infiniband_verbs/uverbs2/ibdev", "mlx5_0\n");
	put("infiniband/uverbs2", "");
	snprintf(file, sizeof(file), "%s/infiniband/uverbs2", root);
	traced = rank_start(file);
	usleep(300000);
	assert_int_equal(reader_open(&r), 0);
	assert_int_equal(target_set_new(r, NULL, 0, &set), 0);
	assert_int_equal(target_set_scan(set), 0);
	ctx.reader = r;
	ctx.targets = set;
	setenv("RANKTRACE_SYSFS", root, 1);
	assert_int_equal(source_ports.sampler->open(&ctx, &s), 0);
	sample_until(s, &seen, 1);
	assert_int_equal(seen.n_users, 1);
	assert_true(seen.users.body.known && seen.users.body.n == 1 && seen.users.body.pids[0] == (uint32_t)traced);
	n = seen.n_samples;
	for (uint64_t end = clock_monotonic_ns() + 3000000000ull; clock_monotonic_ns() < end; usleep(20000)) {
		static uint64_t words;
		char text[32];

		snprintf(text, sizeof(text), "%llu\n", (unsigned long long)++words);
		put("class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", text);
		assert_int_equal(source_ports.sampler->sample(s, clock_monotonic_ns()), 0);
	}
	assert_in_range(seen.n_samples - n, 8, 40); /* 30 on a quiet machine; 3 while nobody has it open */
	assert_int_equal(seen.n_users, 1);
	source_ports.sampler->close(s);
	unsetenv("RANKTRACE_SYSFS");
	target_set_free(set);
	reader_free(r);
	kill(traced, SIGKILL);
	waitpid(traced, NULL, 0);
}

/* Holds the file so that whoever opens it waits: as a firmware that does not answer. */
static pid_t file_hold(const char *name)
{
	char path[256];
	pid_t pid;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	pid = fork();
	if (pid)
		return pid;
	signal(SIGIO, SIG_IGN);
	fd = open(path, O_RDWR);
	if (fcntl(fd, F_SETLEASE, F_WRLCK))
		_exit(77);
	pause();
	_exit(0);
}

/* The thread waits, the collector does not; it shows which port it is, and the answer when there is one. */
static void test_no_answer(void **state)
{
	struct seen seen = { 0 };
	struct sampler_ctx ctx = { .emit = take, .emit_to = &seen };
	uint64_t now = 1000000000, longest = 0;
	void *s = NULL;
	pid_t held;
	int status;

	(void)state;
	mlx5_make("mlx5_0");
	setenv("RANKTRACE_SYSFS", root, 1);
	assert_int_equal(source_ports.sampler->open(&ctx, &s), 0);
	for (int i = 0; i < 500 && !seen.n_samples; i++, usleep(10000))
		assert_int_equal(source_ports.sampler->sample(s, now += 100000000), 0);
	held = file_hold("class/infiniband/mlx5_0/board_id");
	usleep(300000);
	if (waitpid(held, &status, WNOHANG) == held) {
		print_message("no leases here\n");
		source_ports.sampler->close(s);
		skip();
	}
	for (int i = 0; i < 400 && !(seen.sample.body.flags & PORT_SILENT); i++, usleep(10000)) {
		uint64_t begin = clock_monotonic_ns();

		assert_int_equal(source_ports.sampler->sample(s, now += 100000000), 0);
		longest = clock_monotonic_ns() - begin > longest ? clock_monotonic_ns() - begin : longest;
	}
	assert_int_equal(seen.sample.body.flags, PORT_SILENT);
	assert_int_equal(seen.sample.body.state, 4);
	assert_true(seen.sample.body.taken_ns + 10000000000ull <= now);
	assert_true(longest < 1000000000ull);
	kill(held, SIGKILL);
	waitpid(held, NULL, 0);
	for (int i = 0; i < 500 && seen.sample.body.flags & PORT_SILENT; i++, usleep(10000))
		assert_int_equal(source_ports.sampler->sample(s, now += 100000000), 0);
	assert_int_equal(seen.sample.body.flags, 0);
	source_ports.sampler->close(s);
	unsetenv("RANKTRACE_SYSFS");
}

#define on_a_tree(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		on_a_tree(test_what_is_read),
		on_a_tree(test_counters_of_the_device),
		on_a_tree(test_devices_go_and_come),
		on_a_tree(test_what_is_read),
		on_a_tree(test_what_changes),
		on_a_tree(test_devices_go_and_come),
		on_a_tree(test_nonsense),
		on_a_tree(test_records),
		on_a_tree(test_users),
		on_a_tree(test_no_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
