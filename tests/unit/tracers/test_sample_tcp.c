/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sample_tcp.c - sock_diag's answers whole, cut short and hostile; the connections of this process and of others,
 * in this network namespace and in one of their own; and which records tcp_sampler makes of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pipeline/decode.h"
#include "source.h"
#include "inspect/net/netns.h"
#include "tracers/tcp/tcp_net.h"
#include "tracers/tcp/tcp_table.h"
#include "schemas/collector.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/reader.h"

/* --- answers --- */

struct message { /* one socket, as net/ipv4/inet_diag.c shows it */
	struct nlmsghdr h;
	struct inet_diag_msg m;
	struct rtattr other;
	char name[8];
	struct rtattr info;
	uint8_t bytes[248];
};

static struct message message_new(void)
{
	struct message m = {
		.h = { .nlmsg_len = sizeof(m), .nlmsg_type = SOCK_DIAG_BY_FAMILY },
		.m = { .idiag_family = AF_INET,
		       .idiag_state = 1,
		       .idiag_inode = 77,
		       .idiag_rqueue = 5,
		       .idiag_wqueue = 6 },
		.other = { .rta_len = sizeof(struct rtattr) + 5, .rta_type = INET_DIAG_CONG },
		.name = "bbr",
		.info = { .rta_len = sizeof(struct rtattr) + sizeof(m.bytes), .rta_type = INET_DIAG_INFO },
	};

	for (size_t i = 0; i < sizeof(m.bytes); i++)
		m.bytes[i] = i;
	return m;
}

struct taken {
	int n;
	struct diag_socket last;
	uint64_t counters[TCP_COUNTERS];
};

static void take(void *of, const struct diag_socket *s)
{
	struct taken *t = of;

	t->n++;
	t->last = *s;
	tcp_diag_counters(s, t->counters);
}

static void test_answer(void **state)
{
	struct {
		struct message a, b;
		struct nlmsghdr done;
	} all = { message_new(), message_new(), { .nlmsg_len = 16, .nlmsg_type = NLMSG_DONE } };
	struct taken t = { 0 };

	(void)state;
	all.b.m.idiag_inode = 78;
	assert_int_equal(tcp_diag_parse(&all, sizeof(all.a), take, &t), 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.counters[TCP_IN_QUEUE], 5);
	assert_int_equal(t.counters[TCP_OUT_QUEUE], 6);
	assert_int_equal(t.counters[TCP_BACKOFF], 4);
	assert_int_equal(t.counters[TCP_UNACKED], 0x1b1a1918);
	assert_int_equal(t.counters[TCP_BYTES_ACKED], 0x7f7e7d7c7b7a7978);
	assert_true(t.counters[TCP_NETDEV_SENT] == TCP_NO_VALUE);
	assert_int_equal(tcp_diag_parse(&all, sizeof(all), take, &t), 1);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.last.inode, 78);
}

/* Where this machine's headers have a field, it is where the table says. */
static void test_offsets(void **state)
{
	(void)state;
#define AT(counter, field) \
	do { \
		struct message m = message_new(); \
		struct taken t = { 0 }; \
		uint64_t all = ~0ull; \
		memset(m.bytes, 0, sizeof(m.bytes)); \
		memcpy(m.bytes + offsetof(struct tcp_info, field), &all, sizeof(((struct tcp_info *)0)->field)); \
		assert_int_equal(tcp_diag_parse(&m, sizeof(m), take, &t), 0); \
		assert_true(t.counters[TCP_##counter] == all >> (64 - 8 * sizeof(((struct tcp_info *)0)->field))); \
		for (int c = TCP_BYTES_SENT; c < TCP_NETDEV_SENT; c++) \
			assert_true(c == TCP_##counter || !t.counters[c]); \
	} while (0)
	AT(BYTES_SENT, tcpi_bytes_sent);
	AT(BYTES_ACKED, tcpi_bytes_acked);
	AT(BYTES_RECEIVED, tcpi_bytes_received);
	AT(BYTES_RETRANSMITTED, tcpi_bytes_retrans);
	AT(NOT_SENT, tcpi_notsent_bytes);
	AT(UNACKED, tcpi_unacked);
	AT(LOST, tcpi_lost);
	AT(RETRANSMITS, tcpi_total_retrans);
	AT(DSACKS, tcpi_dsack_dups);
	AT(REORDERED, tcpi_reord_seen);
	AT(OUT_OF_ORDER, tcpi_rcv_ooopack);
	AT(SEGMENTS_SENT, tcpi_segs_out);
	AT(SEGMENTS_RECEIVED, tcpi_segs_in);
	AT(DATA_SEGMENTS_SENT, tcpi_data_segs_out);
	AT(SEND_WINDOW, tcpi_snd_wnd);
	AT(BACKOFF, tcpi_backoff);
	AT(TIMEOUTS, tcpi_retransmits);
	AT(PROBES, tcpi_probes);
	AT(SINCE_SENT, tcpi_last_data_sent);
	AT(SINCE_RECEIVED, tcpi_last_data_recv);
	AT(SINCE_ACKED, tcpi_last_ack_recv);
	AT(RTT, tcpi_rtt);
	AT(RTT_VARIATION, tcpi_rttvar);
	AT(DELIVERED, tcpi_delivered);
	AT(DELIVERED_CE, tcpi_delivered_ce);
	AT(DELIVERY_RATE, tcpi_delivery_rate);
	AT(BUSY, tcpi_busy_time);
	AT(WINDOW_LIMITED, tcpi_rwnd_limited);
	AT(BUFFER_LIMITED, tcpi_sndbuf_limited);
	AT(CONGESTION_WINDOW, tcpi_snd_cwnd);
#undef AT
}

/* An older kernel's: what is past its end is not reported, and never 0. */
static void test_answer_of_an_older_kernel(void **state)
{
	(void)state;
	for (size_t bytes = 0; bytes <= 248; bytes += 4) {
		struct message m = message_new();
		struct taken t = { 0 };

		m.info.rta_len = sizeof(struct rtattr) + bytes;
		m.h.nlmsg_len = offsetof(struct message, bytes) + bytes;
		assert_int_equal(tcp_diag_parse(&m, m.h.nlmsg_len, take, &t), 0);
		assert_int_equal(t.n, 1);
		assert_int_equal(t.counters[TCP_RTT] != TCP_NO_VALUE, bytes >= 72);
		assert_int_equal(t.counters[TCP_BYTES_ACKED] != TCP_NO_VALUE, bytes >= 128);
		assert_int_equal(t.counters[TCP_SEND_WINDOW] != TCP_NO_VALUE, bytes >= 232);
		assert_int_equal(t.counters[TCP_IN_QUEUE], 5);
	}
}

/* No length is believed. Run under valgrind or the fuzzer's sanitizer this finds what is read past the end. */
static void test_hostile_answers(void **state)
{
	struct message m = message_new();
	struct {
		struct nlmsghdr h;
		int error;
	} e = { .h = { .nlmsg_len = sizeof(e), .nlmsg_type = NLMSG_ERROR } };
	struct taken t = { 0 };

	(void)state;
	for (size_t size = 1; size < sizeof(m); size++) { /* the message says more than came */
		void *exact = malloc(size);

		memcpy(exact, &m, size);
		assert_int_equal(tcp_diag_parse(exact, size, take, &t), -EBADMSG);
		free(exact);
	}
	assert_int_equal(t.n, 0);
	for (uint32_t len = 0; len < sizeof(struct nlmsghdr); len++) {
		m.h.nlmsg_len = len;
		assert_int_equal(tcp_diag_parse(&m, sizeof(m), take, &t), -EBADMSG);
	}
	m = message_new();
	m.h.nlmsg_len = sizeof(struct nlmsghdr) + sizeof(struct inet_diag_msg) - 1; /* no room for a socket */
	assert_int_equal(tcp_diag_parse(&m, sizeof(m), take, &t), -EBADMSG);
	assert_int_equal(t.n, 0);
	for (unsigned int len = 0; len < 0x10000; len += len < 300 ? 1 : 1021) { /* attributes of any length */
		m = message_new();
		m.other.rta_len = len;
		assert_int_equal(tcp_diag_parse(&m, sizeof(m), take, &t), 0);
		m = message_new();
		m.info.rta_len = len;
		assert_int_equal(tcp_diag_parse(&m, sizeof(m), take, &t), 0);
		assert_true(t.last.info_bytes <= sizeof(m.bytes));
	}
	e.error = -ENOENT;
	assert_int_equal(tcp_diag_parse(&e, sizeof(e), take, &t), -ENOENT);
	e.error = 1; /* an error that is none */
	assert_int_equal(tcp_diag_parse(&e, sizeof(e), take, &t), -EBADMSG);
	e.error = INT32_MIN;
	assert_int_equal(tcp_diag_parse(&e, sizeof(e), take, &t), -EBADMSG);
	e.h.nlmsg_len = sizeof(e.h);
	assert_int_equal(tcp_diag_parse(&e, sizeof(e.h), take, &t), -EBADMSG);
	assert_int_equal(tcp_diag_parse(NULL, 0, take, &t), 0);
}

static void test_device_lines(void **state)
{
	uint64_t received = 0, sent = 0;
	char name[16];

	(void)state;
	assert_true(tcp_net_line("  eth0: 100 2 0 0 0 0 0 0 300 4 0 0 0 0 0 0\n", name, &received, &sent));
	assert_string_equal(name, "eth0");
	assert_true(received == 100 && sent == 300);
	assert_true(tcp_net_line("bond0.100:18446744073709551615 2 0 0 0 0 0 0 5 4", name, &received, &sent));
	assert_true(received == ~0ull && sent == 5);
	assert_false(tcp_net_line("Inter-|   Receive                                                |  Transmit", name,
				  &received, &sent));
	assert_false(tcp_net_line(" face |bytes    packets errs drop", name, &received, &sent));
	assert_false(tcp_net_line("a-name-of-sixteen: 1 2 3 4 5 6 7 8 9", name, &received, &sent));
	assert_false(tcp_net_line("eth0: 1 2 3", name, &received, &sent));
	assert_false(tcp_net_line(": 1 2 3 4 5 6 7 8 9", name, &received, &sent));
	assert_false(tcp_net_line("", name, &received, &sent));
}

/* --- connections --- */

struct ends {
	int listen, connect, accept;
};

static struct ends ends_open(int family)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr *a = family == AF_INET ? (struct sockaddr *)&a4 : (struct sockaddr *)&a6;
	socklen_t len = family == AF_INET ? sizeof(a4) : sizeof(a6);
	struct ends e = { .listen = socket(family, SOCK_STREAM, 0), .connect = socket(family, SOCK_STREAM, 0) };

	if (bind(e.listen, a, len) || listen(e.listen, 1) || getsockname(e.listen, a, &len) ||
	    connect(e.connect, a, len))
		abort();
	e.accept = accept(e.listen, NULL, NULL);
	return e;
}

static void ends_close(const struct ends *e)
{
	close(e->listen);
	close(e->connect);
	close(e->accept);
}

static uint32_t inode_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_ino;
}

static const struct table_connection *by_inode(const struct tcp_table *t, uint32_t inode)
{
	for (int i = 0; i < TCP_CONNECTIONS_MAX; i++)
		if (tcp_table_list(t)[i].used && tcp_table_list(t)[i].inode == inode)
			return &tcp_table_list(t)[i];
	return NULL;
}

static void check_family(int family, const char *address)
{
	const uint32_t self = getpid();
	struct ends e = ends_open(family);
	const struct table_connection *c, *peer;
	struct tcp_table *t;
	char text[64], bytes[1000] = "";
	uint64_t acked;
	bool changed;

	assert_int_equal(tcp_table_new(&t), 0);
	assert_int_equal(tcp_table_scan(t, &self, 1, &changed), 0);
	assert_true(changed);
	c = by_inode(t, inode_of(e.connect));
	peer = by_inode(t, inode_of(e.accept));
	assert_non_null(c);
	assert_non_null(peer);
	assert_null(by_inode(t, inode_of(e.listen)));
	assert_true(c->tgid == self && c->state == 1 && c->id.idiag_sport == peer->id.idiag_dport);
	tcp_address_text(c->family, c->id.idiag_src, text, sizeof(text));
	assert_string_equal(text, address);
	assert_string_equal(c->netdev, "lo");
	assert_true(c->device_known && c->device_up && c->counters[TCP_NETDEV_SENT] != TCP_NO_VALUE);
	acked = c->counters[TCP_BYTES_ACKED];
	assert_int_equal(send(e.connect, bytes, sizeof(bytes), 0), sizeof(bytes));
	usleep(50000);
	tcp_table_sample(t);
	assert_int_equal(c->counters[TCP_BYTES_ACKED] - acked, sizeof(bytes));
	assert_int_equal(peer->counters[TCP_IN_QUEUE], sizeof(bytes));
	assert_int_equal(tcp_table_scan(t, &self, 1, &changed), 0);
	assert_false(changed);
	ends_close(&e);
	tcp_table_sample(t);
	assert_true(c->gone && peer->gone);
	tcp_table_sample(t); /* emitted by now */
	assert_false(c->used || peer->used);
	tcp_table_free(t);
}

static void test_own_connections(void **state)
{
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	(void)state;
	check_family(AF_INET, "127.0.0.1");
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a)))
		check_family(AF_INET6, "::1");
	close(fd);
}

/* More than are asked for one by one, more than find a place: what does not is counted. */
static void test_many(void **state)
{
	enum { PAIRS = TCP_CONNECTIONS_MAX / 2 + 20 };
	static struct ends ends[PAIRS];
	const uint32_t self = getpid();
	struct tcp_table *t;
	size_t n = 0;
	bool changed;

	(void)state;
	for (int i = 0; i < PAIRS; i++)
		ends[i] = ends_open(AF_INET);
	assert_int_equal(tcp_table_new(&t), 0);
	assert_int_equal(tcp_table_scan(t, &self, 1, &changed), 0);
	tcp_table_sample(t);
	for (int i = 0; i < TCP_CONNECTIONS_MAX; i++)
		n += tcp_table_list(t)[i].used && !tcp_table_list(t)[i].gone;
	assert_int_equal(n, TCP_CONNECTIONS_MAX);
	assert_in_range(tcp_table_left_out(t), 2 * PAIRS - TCP_CONNECTIONS_MAX, 2 * PAIRS);
	for (int i = 0; i < PAIRS; i++)
		ends_close(&ends[i]);
	assert_int_equal(tcp_table_scan(t, &self, 1, &changed), 0);
	assert_int_equal(tcp_table_left_out(t), 0);
	tcp_table_free(t);
}

/* --- other processes --- */

static pid_t traced;

static bool is_ours(const void *of, const struct target_proc *p)
{
	(void)of;
	return (pid_t)p->tgid == traced;
}

/* A rank with both ends of a connection open; in a network namespace of its own if asked for. 0: that cannot be here.
 */
static pid_t rank_start(bool own_net)
{
	char *argv[] = { "sleep", "60", NULL }, *env[] = { "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=3", NULL };
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (own_net && (unshare(CLONE_NEWNET) || ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &r)))
			_exit(77);
		ends_open(AF_INET);
		execve("/bin/sleep", argv, env);
		_exit(1);
	}
	usleep(300000);
	return waitpid(pid, &status, WNOHANG) ? 0 : pid;
}

struct seen {
	int n_ids, n_samples, n_gone;
	struct record_tcp_sample sample;
	uint64_t counters[TCP_COUNTERS];
	union {
		struct record_tcp f;
		char bytes[256];
	} id;
};

static int emitted(void *to, const struct wire_hdr *h)
{
	struct seen *s = to;

	assert_true(h->tracer == WIRE_COLLECTOR && h->size % 8 == 0 && h->ts_ns);
	if (h->kind == RECORD_TCP) {
		assert_true(h->size <= sizeof(s->id));
		memcpy(&s->id, h, h->size);
		s->n_ids++;
		return 0;
	}
	assert_int_equal(h->kind, RECORD_TCP_SAMPLE);
	assert_int_equal(h->size, sizeof(s->sample) + sizeof(s->counters));
	memcpy(&s->sample, h, sizeof(s->sample) + sizeof(s->counters));
	s->n_samples++;
	s->n_gone += s->sample.body.flags & TCP_GONE ? 1 : 0;
	return 0;
}

static void sample_until(void *s, const struct seen *seen, struct target_set *set, int n_samples, int n_gone)
{
	uint64_t end = clock_monotonic_ns() + 30000000000ull;

	while ((seen->n_samples < n_samples || seen->n_gone < n_gone) && clock_monotonic_ns() < end) {
		assert_int_equal(target_set_scan(set), 0);
		assert_int_equal(source_tcp.sampler->sample(s, clock_monotonic_ns()), 0);
		usleep(50000);
	}
	assert_true(seen->n_samples >= n_samples && seen->n_gone >= n_gone);
}

/* What the model gets of the records, and of ones that are cut short. */
static void decode_check(const struct seen *seen)
{
	union {
		struct record_tcp f;
		struct record_tcp_sample sample;
		char bytes[512];
	} cut;
	struct intern *strings = intern_new();
	struct event e[DECODE_EVENTS_MAX];

	assert_int_equal(decode_record(&seen->id.f.hdr, strings, e), 1);
	assert_int_equal(e->kind, EV_TCP);
	assert_int_equal(e->tgid, traced);
	assert_string_equal(e->tcp.local, "127.0.0.1");
	assert_string_equal(e->tcp.remote, "127.0.0.1");
	assert_string_equal(e->tcp.netdev, "lo");
	assert_true(e->tcp.id.local_port && e->tcp.id.inode && e->tcp.id.cookie && e->tcp.id.netns);
	memcpy(&cut, &seen->id, sizeof(seen->id));
	cut.f.body.remote_len = 200;
	assert_int_equal(decode_record(&cut.f.hdr, strings, e), -EINVAL);
	cut.f.hdr.size = sizeof(cut.f) - 8;
	assert_int_equal(decode_record(&cut.f.hdr, strings, e), -EINVAL);
	assert_int_equal(decode_record(&seen->sample.hdr, strings, e), 1);
	assert_int_equal(e->kind, EV_TCP_SAMPLE);
	assert_int_equal(e->tcp.sample.n_counters, TCP_COUNTERS);
	assert_int_equal(e->tcp.sample.flags, TCP_NETDEV_KNOWN | TCP_NETDEV_UP);
	assert_int_equal(e->tcp.sample.state, 1);
	memcpy(&cut, &seen->sample, sizeof(seen->sample) + sizeof(seen->counters));
	cut.sample.hdr.size -= 8; /* a counter less than it says */
	assert_int_equal(decode_record(&cut.sample.hdr, strings, e), -EINVAL);
	cut.sample.hdr.size = sizeof(cut.sample) - 8;
	assert_int_equal(decode_record(&cut.sample.hdr, strings, e), -EINVAL);
	intern_free(strings);
}

static void check_rank(bool own_net)
{
	struct seen seen = { 0 };
	struct reader *r = NULL;
	struct target_set *set = NULL;
	struct sampler_ctx ctx = { .emit = emitted, .emit_to = &seen, .is_traced = is_ours };
	uint64_t here;
	void *s = NULL;

	traced = rank_start(own_net);
	if (!traced) {
		print_message("no network namespaces of one's own here: not tried\n");
		return;
	}
	assert_int_equal(reader_open(&r), 0);
	assert_int_equal(target_set_new(r, NULL, 0, &set), 0);
	assert_int_equal(target_set_scan(set), 0);
	ctx.reader = r;
	ctx.targets = set;
	assert_int_equal(source_tcp.sampler->open(&ctx, &s), 0);
	sample_until(s, &seen, set, 4, 0);
	assert_int_equal(seen.n_ids, 2);
	assert_int_equal(netns_of(getpid(), &here), 0);
	assert_int_equal(seen.id.f.body.netns != here, own_net);
	decode_check(&seen);
	kill(traced, SIGKILL);
	waitpid(traced, NULL, 0);
	sample_until(s, &seen, set, 4, 2); /* both are told to be gone */
	source_tcp.sampler->close(s);
	source_tcp.sampler->close(NULL);
	target_set_free(set);
	reader_free(r);
}

static void test_rank(void **state)
{
	(void)state;
	check_rank(false);
}

static void test_rank_elsewhere(void **state)
{
	uint64_t before, after;

	(void)state;
	assert_int_equal(netns_of(getpid(), &before), 0);
	check_rank(true);
	assert_int_equal(netns_of(getpid(), &after), 0);
	assert_true(before == after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_answer_of_an_older_kernel),
		cmocka_unit_test(test_hostile_answers),
		cmocka_unit_test(test_device_lines),
		cmocka_unit_test(test_own_connections),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_rank),
		cmocka_unit_test(test_rank_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
