/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tcp_said.c - what detector tcp says of each fault, word for word, on the connections of a ring of hosts: which
 * figures belong to which fault, whose they are, and what is left out where it is not known.
 */
#include "tests/unit/job/tcp_ring.h"

#include "tests/unit/job/finding_text.h"

static struct ring u;

static int begin(void **state)
{
	(void)state;
	u = ring_new();
	return 0;
}

static int end(void **state)
{
	(void)state;
	ring_free(&u);
	return 0;
}

static void said(const char *as)
{
	assert_int_equal(u.list.n, 1);
	assert_string_equal(finding_text_of(&u.list.items[0]), as);
}

static void a_host_that_stalls(void **state)
{
	(void)state;
	steps(&u, 5);
	all_wait(&u);
	silence(&u, 1);
	silence(&u, 2);
	steps(&u, 3);
	said("link  stalled 0.9 #0 in 0 since 106 w 0 c 0 by 0 ranks\ntransport tcp\n"
	     "address 10.0.0.3\nnetdev eth0\nranks_using 2\npaths 2\n"
	     "connection 10.0.0.3 port 40004 to 10.0.0.4 port 5004\nsender_rank 2\n"
	     "receiver_rank 3\nsend_queue_bytes 4000\nunacked_segments 4\nnot_sent_bytes 0\n"
	     "backoff 4\nsend_window_bytes 1e+06\nsince_acked_ms 3000\nother_traffic_percent 0\n"
	     "remedy nothing comes back from the other side: look at the links, the switches and "
	     "firewalls between, and whether that host is alive");
}

static void a_path_that_stalls(void **state)
{
	(void)state;
	steps(&u, 5);
	silence(&u, 1);
	steps(&u, 6);
	said("link  stalled 0.9 #0 in 0 since 106 w 0 c 0 by 0 ranks\ntransport tcp\n"
	     "address_a 10.0.0.2\naddress_b 10.0.0.3\npaths 1\n"
	     "connection 10.0.0.2 port 40002 to 10.0.0.3 port 5002\nsender_rank 1\n"
	     "receiver_rank 2\nsend_queue_bytes 4000\nunacked_segments 4\nnot_sent_bytes 0\n"
	     "backoff 4\nsend_window_bytes 1e+06\nsince_acked_ms 3000\nother_traffic_percent 0\n"
	     "remedy nothing comes back from the other side: look at the links, the switches and "
	     "firewalls between, and whether that host is alive");
}

static void no_carrier(void **state)
{
	(void)state;
	steps(&u, 5);
	u.down[3] = true;
	all_wait(&u);
	silence(&u, 2);
	silence(&u, 3);
	steps(&u, 3);
	said("link  netdev_down 0.95 #0 in 0 since 106 w 0 c 0 by 0 ranks\ntransport tcp\n"
	     "address 10.0.0.4\nnetdev eth0\nranks_using 3\npaths 2\n"
	     "connection 10.0.0.4 port 40006 to 10.0.0.1 port 5006\nsender_rank 3\n"
	     "receiver_rank 0\nsend_queue_bytes 4000\nunacked_segments 4\nnot_sent_bytes 0\n"
	     "backoff 4\nsend_window_bytes 1e+06\nsince_acked_ms 3000\n"
	     "remedy look at cable, transceiver and the switch's port; or somebody set the "
	     "interface down");
}

static void all_over(void **state)
{
	(void)state;
	steps(&u, 5);
	for (int r = 0; r < RANKS; r++)
		silence(&u, r);
	steps(&u, 3);
	said("link  stalled 0.9 #0 in 0 since 106 w 0 c 0 by 0 ranks\ntransport tcp\npaths 4\n"
	     "connection 10.0.0.4 port 40006 to 10.0.0.1 port 5006\nsender_rank 3\n"
	     "receiver_rank 0\nsend_queue_bytes 4000\nunacked_segments 4\nnot_sent_bytes 0\n"
	     "backoff 4\nsend_window_bytes 1e+06\nsince_acked_ms 3000\nother_traffic_percent 0\n"
	     "remedy nothing comes back from the other side: look at the links, the switches and "
	     "firewalls between, and whether that host is alive");
}

static void a_host_that_loses(void **state)
{
	(void)state;
	steps(&u, 5);
	lose(&u, 0, 50);
	lose(&u, 1, 50);
	steps(&u, 3);
	said("link  retransmits 0.85 #0 in 0 since 106 w 0 c 0 by 0 ranks\ntransport tcp\n"
	     "address 10.0.0.2\nnetdev eth0\nranks_using 1\npaths 2\n"
	     "connection 10.0.0.2 port 40002 to 10.0.0.3 port 5002\nsender_rank 1\n"
	     "receiver_rank 2\nround_trip_ms 0.204\nquickest_path_ms 0.2\n"
	     "lost_segments_per_s 100\nlost_percent 5\nother_traffic_percent 0\n"
	     "remedy segments are lost between here and the far ends: look at cable and "
	     "transceiver, the switches' drops, the MTU");
}

static void a_slow_host(void **state)
{
	(void)state;
	steps(&u, 20);
	slow(&u, 0, 100000);
	slow(&u, 3, 100000);
	steps(&u, 6);
	said("link  slow_path 0.8 #0 in 0 since 121 w 0 c 0 by 0 ranks\ntransport tcp\n"
	     "address 10.0.0.1\nnetdev eth0\nranks_using 0\npaths 2\n"
	     "connection 10.0.0.4 port 40006 to 10.0.0.1 port 5006\nsender_rank 3\n"
	     "receiver_rank 0\nround_trip_ms 100\nquickest_path_ms 0.204\n"
	     "round_trip_before_ms 0.212\nbusy_ms_per_mb 100\nbusy_ms_per_mb_before 100\n"
	     "lost_segments_per_s 0\nlost_percent 0\nother_traffic_percent 0\n"
	     "remedy far slower than the others' paths: look at the link's speed and duplex, rate "
	     "limits, the route that it takes");
}

static void a_slow_path_beside_others(void **state)
{
	(void)state;
	u.others = 1e8;
	steps(&u, 10);
	slow(&u, 1, 50000);
	steps(&u, 8);
	said("observation  congestion 0.6 #0 in 0 since 111 w 0 c 0 by 0 ranks\ntransport tcp\n"
	     "address_a 10.0.0.2\naddress_b 10.0.0.3\npaths 1\n"
	     "connection 10.0.0.2 port 40002 to 10.0.0.3 port 5002\nsender_rank 1\n"
	     "receiver_rank 2\nround_trip_ms 50\nquickest_path_ms 0.2\nlost_segments_per_s 0\n"
	     "lost_percent 0\nother_traffic_percent 97.7861\n"
	     "remedy other traffic shares the path, or more is sent than it carries: no fault of "
	     "one host by these counters");
}

static void not_read(void **state)
{
	(void)state;
	steps(&u, 5);
	all_wait(&u);
	for (int i = 0; i < 2 * CHANNELS; i += 2) {
		u.counters[i][TCP_SEND_WINDOW] = 0;
		u.counters[i][TCP_NOT_SENT] = 100000;
		u.counters[i][TCP_OUT_QUEUE] = 100000;
		u.counters[i][TCP_BACKOFF] = 6;
		u.counters[i][TCP_PROBES] = 1;
	}
	steps(&u, 7);
	said("observation  receiver_does_not_read 0.8 #0 in 0 since 106 w 0 c 0 by 0 ranks\n"
	     "transport tcp\naddress_a 10.0.0.1\naddress_b 10.0.0.2\npaths 1\n"
	     "connection 10.0.0.1 port 40000 to 10.0.0.2 port 5000\nsender_rank 0\n"
	     "receiver_rank 1\nsend_queue_bytes 100000\nunacked_segments 0\n"
	     "not_sent_bytes 100000\nbackoff 6\nsend_window_bytes 0\nsince_acked_ms 0\n"
	     "remedy the receiving process does not read what has come: another finding says why, "
	     "where that is known");
}

static void a_small_buffer(void **state)
{
	(void)state;
	steps(&u, 5);
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < 2 * CHANNELS; k += 2)
			u.counters[k][TCP_BUFFER_LIMITED] += 800000;
		step(&u);
	}
	said("observation  send_buffer 0.8 #0 in 0 since 106 w 0 c 0 by 0 ranks\ntransport tcp\n"
	     "address_a 10.0.0.1\naddress_b 10.0.0.2\npaths 1\n"
	     "connection 10.0.0.1 port 40000 to 10.0.0.2 port 5000\nsender_rank 0\n"
	     "receiver_rank 1\n"
	     "remedy the sender's socket buffer is too small for this path: see net.ipv4.tcp_wmem "
	     "and NCCL_SOCKET_NTHREADS");
}

static void marks(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++) {
		for (int k = 0; k < CHANNELS; k++)
			u.counters[2 * k][TCP_DELIVERED_CE] += 100;
		step(&u);
	}
	said("observation  congestion 0.9 #0 in 0 since 102 w 0 c 0 by 0 ranks\ntransport tcp\n"
	     "address_a 10.0.0.1\naddress_b 10.0.0.2\npaths 1\n"
	     "connection 10.0.0.1 port 40000 to 10.0.0.2 port 5000\nsender_rank 0\n"
	     "receiver_rank 1\n"
	     "remedy the fabric asks senders to slow down: other traffic shares the path, or many "
	     "send to one");
}

/* --- what is not known --- */

static const struct finding *the_one(void)
{
	assert_int_equal(u.list.n, 1);
	return &u.list.items[0];
}

/* Counters that a kernel does not have are not said; nor a netdev, nor ranks that are no ranks. */
static void figures_that_are_not_there(void **state)
{
	static const struct {
		enum tcp_counter counter;
		enum evidence_id id;
	} figures[] = {
		{ TCP_OUT_QUEUE, EVIDENCE_SEND_QUEUE_BYTES }, { TCP_UNACKED, EVIDENCE_UNACKED_SEGMENTS },
		{ TCP_NOT_SENT, EVIDENCE_NOT_SENT_BYTES },    { TCP_SEND_WINDOW, EVIDENCE_SEND_WINDOW_BYTES },
		{ TCP_SINCE_ACKED, EVIDENCE_SINCE_ACKED_MS },
	};

	(void)state;
	steps(&u, 5);
	u.down[3] = true;
	all_wait(&u);
	silence(&u, 3);
	steps(&u, 2);
	for (int k = 0; k < 5; k++)
		assert_non_null(finding_evidence(the_one(), figures[k].id));
	for (int i = 0; i < CONNECTIONS; i++)
		for (int k = 1; k < 5; k++)
			u.counters[i][figures[k].counter] = TCP_NO_VALUE;
	steps(&u, 1);
	for (int k = 0; k < 5; k++)
		assert_int_equal(!finding_evidence(the_one(), figures[k].id), k > 0);
}

static void ranks_that_are_not_known(void **state)
{
	const struct finding *f;

	(void)state;
	steps(&u, 5);
	for (int i = 0; i < CONNECTIONS; i++)
		((struct tcp_connection *)tcp_connection_of(u.m, 0, i))->netdev = i % 3 ? "" : "eth7";
	((struct proc *)model_proc(u.m, job_pid(3)))->rank = -1;
	u.down[3] = true;
	all_wait(&u);
	silence(&u, 3);
	steps(&u, 2);
	f = the_one();
	assert_null(finding_evidence(f, EVIDENCE_SENDER_RANK));
	assert_string_equal(finding_text(f, EVIDENCE_RANKS_USING), "?");
	assert_string_equal(finding_text(f, EVIDENCE_NETDEV), "eth7");
	assert_string_equal(f->job, "job");
}

/* Two processes of one host: both are named, each once, in the order of their connections. */
static void ranks_of_one_host(void **state)
{
	(void)state;
	for (int i = 0; i < CONNECTIONS; i++) {
		struct tcp_connection *c = (struct tcp_connection *)tcp_connection_of(u.m, 0, i);

		if (owner(i) == 3 && i % 4 == 2)
			c->proc = proc_key(0, job_pid(0));
	}
	steps(&u, 5);
	u.down[3] = true;
	all_wait(&u);
	silence(&u, 3);
	steps(&u, 2);
	assert_string_equal(finding_text(the_one(), EVIDENCE_RANKS_USING), "3,0");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_host_that_stalls),
		TEST(a_path_that_stalls),
		TEST(no_carrier),
		TEST(all_over),
		TEST(a_host_that_loses),
		TEST(a_slow_host),
		TEST(a_slow_path_beside_others),
		TEST(not_read),
		TEST(a_small_buffer),
		TEST(marks),
		TEST(figures_that_are_not_there),
		TEST(ranks_that_are_not_known),
		TEST(ranks_of_one_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
