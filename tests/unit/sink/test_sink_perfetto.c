/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sink_perfetto.c - the timeline of a job of three ranks, read back by tools/check_pftrace.py, which is written
 * apart from the writer. With PFTRACE_OUT=dir the files stay there, for tests/perfetto/test_perfetto.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include "tests/perfetto/checked.h"

static void p2p(struct fixture *f)
{
	uint64_t ns = f->m.now_ns + 1000000;
	uint32_t pid = f->procs[0].tgid;
	struct op send, recv, ungrouped;

	fixture_event(f, (struct event){ .kind = EV_GROUP_START, .tgid = pid, .tid = pid, .ts_ns = ns });
	send = fixture_call(f, 0, OP_SEND, 0, ns + 1000, 0x10, 1);
	fixture_event(f, (struct event){ .kind = EV_GROUP_END, .tgid = pid, .tid = pid, .ts_ns = ns + 3000 });
	recv = fixture_call(f, 1, OP_RECV, 0, ns + 500, 0x10, 0);
	ungrouped = fixture_call(f, 2, OP_SEND, 0, ns + 700, 0x10, 0);
	send.peer = 1;
	recv.peer = 0;
	ungrouped.peer = 1; /* its Recv never comes */
	send.end_ns = recv.end_ns = ungrouped.end_ns = ns + 900000;
	fixture_op(f, send);
	fixture_op(f, ungrouped);
	fixture_op(f, recv);
}

static void thread_states(struct fixture *f)
{
	uint32_t child = f->procs[f->n_ranks].tgid, pid = f->procs[2].tgid;
	uint64_t ns = f->m.now_ns + 1000;

	fixture_event(f, (struct event){ .kind = EV_TASK_OFF,
					 .tgid = pid,
					 .tid = pid,
					 .ts_ns = ns + 900,
					 .off = { .begin_ns = ns + 100, .state = TASK_SLEEP, .runq_ns = 5000 } });
	fixture_event(f, (struct event){ .kind = EV_TASK_OFF,
					 .tgid = pid,
					 .tid = pid,
					 .ts_ns = ns + 1900,
					 .off = { .begin_ns = ns + 901, .state = TASK_RUNNABLE } });
	fixture_event(f, (struct event){ .kind = EV_BLOCKED,
					 .tgid = child,
					 .tid = child,
					 .ts_ns = ns + 5000000000,
					 .blocked = { .begin_ns = ns,
						      .kernel_stack = "io_schedule\nfolio_wait_bit\nvfs_read",
						      .user_stack = "read\n\xff\xfe not text",
						      .wchan = "folio_wait_bit",
						      .syscall = "read",
						      .file = "/data/shard-3",
						      .mmap_lock_held = true } });
	fixture_event(f, (struct event){ .kind = EV_BLOCKED_END,
					 .tgid = child,
					 .tid = child,
					 .ts_ns = ns + 7000000000,
					 .blocked = { .begin_ns = ns } });
	fixture_event(f, (struct event){ .kind = EV_BLOCKED,
					 .tgid = pid,
					 .tid = pid,
					 .ts_ns = ns + 7100000000,
					 .blocked = { .begin_ns = ns + 2000,
						      .syscall = "write",
						      .kernel_stack = "",
						      .user_stack = "",
						      .wchan = "",
						      .file = "" } });
}

static void generic_events(struct fixture *f)
{
	uint32_t pid = f->procs[0].tgid;
	uint64_t ns = f->m.now_ns + 1000;
	struct event e = { .kind = EV_SPAN,
			   .tgid = pid,
			   .tid = pid,
			   .ts_ns = ns + 500,
			   .generic = { .name = "ibv_post_send",
					.track = "verbs",
					.begin_ns = ns + 100,
					.n_args = 2,
					.args = { { "qp", NULL, 17 }, { "device", "mlx5_0", 0 } } } };

	fixture_event(f, e);
	e.generic.begin_ns = ns; /* the outer one comes second */
	e.ts_ns = ns + 1000;
	fixture_event(f, e);
	e.kind = EV_INSTANT;
	fixture_event(f, e);
	e.kind = EV_COUNTER;
	e.generic.name = "queue depth";
	e.generic.value = -3;
	fixture_event(f, e);
	f->m.lost = 12;
	fixture_event(f,
		      (struct event){ .kind = EV_LOSS, .ts_ns = ns + 2000, .loss = { .lost = 12, .lost_total = 12 } });
}

static void hang(struct fixture *f)
{
	uint64_t ns = f->m.now_ns + 1000000, now = ns + 2700000000;
	struct incident i = fixture_hang(f, 1, "node-a-1.1", ns, now - ns);

	for (int r = 0; r < 2; r++) {
		uint32_t pid = f->procs[r].tgid;
		struct op op = fixture_call(f, r, OP_ALLREDUCE, 1842, ns, 0x10, 0);

		fixture_event(f, (struct event){ .kind = EV_SYNC_BEGIN,
						 .tgid = pid,
						 .tid = pid,
						 .ts_ns = ns + 5000,
						 .sync = { .kind = SYNC_STREAM, .handle = 0x10 } });
		f->m.now_ns = now;
		fixture_op(f, op);
	}
	finding_add_rank(&i.f, 2, f->procs[2].tgid);
	finding_note(&i.f, EVIDENCE_N_WAITING, 2);
	finding_note_text(&i.f, EVIDENCE_STACK, "nanosleep\nmain \x80\"");
	fixture_incident(f, i);
	i.phase = PHASE_CLOSE;
	i.t_ns = now + 1000;
	fixture_incident(f, i);
}

static void known_phase(struct fixture *f)
{
	struct incident i = { .phase = PHASE_CLOSE, .t_ns = f->m.now_ns + 9 * 1000000000ull };

	i.f = (struct finding){ .kind = FINDING_HANG, .peer = -1, .since_ns = f->m.now_ns + 1000000 };
	finding_add_rank(&i.f, 1, f->procs[1].tgid);
	finding_note_text(&i.f, EVIDENCE_KNOWN_PHASE, "ckpt every 100 steps");
	fixture_incident(f, i);
}

static void test_everything_once(void **state)
{
	const char *path = path_of("small.pftrace");
	struct fixture f;

	(void)state;
	fixture_open(&f, 3, path);
	fixture_steps(&f, 20, 12);
	p2p(&f);
	thread_states(&f);
	generic_events(&f);
	hang(&f);
	known_phase(&f);
	fixture_call(&f, 0, OP_BROADCAST, 7, f.m.now_ns + 10, 0x10, 0); /* its operation never comes */
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	check_or_skip(
		"--expect-tracks 'rank 2 · node-a · GPU 2 · pod 6a1e5c3b,rank 0 · node-a · GPU 0 · container "
		"0123456789ab,rank 1 · dataloader pid 4703,comm 0x72e8… (rank 0 of 3),findings,lost records,D "
		"state,verbs' --expect-slices "
		"'AllReduce,ncclAllReduce,ncclGroup,StreamSynchronize,read,asleep,ibv_post_send,attach,known phase: "
		"ckpt every 100 steps=2' --expect-flows 100",
		path);
}

/* What a graph launches lies side by side on one lane in its order; a captured call is drawn once, as that. */
static void test_graph(void **state)
{
	const char *path = path_of("graph.pftrace");
	struct fixture f;
	struct event e = { .kind = EV_CAPTURE, .capture = { .kind = CAPTURE_LAUNCH, .exec = 0x60, .stream = 0x10 } };
	char options[200], plain[120];
	struct op op;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 1, path);
	ns = f.m.now_ns + 1000000;
	op = fixture_call(&f, 0, OP_ALLREDUCE, 0, ns, 0x10, 0);
	op.captured = true;
	fixture_op(&f, op);
	e.tgid = e.tid = f.procs[0].tgid;
	e.ts_ns = ns + 2000;
	fixture_event(&f, e);
	op.captured = false;
	op.graph_exec = 0x60;
	op.graph_n = 60;
	op.call_ns = op.enqueue_ns = op.start_bound_ns = ns + 2000;
	op.end_ns = f.m.now_ns = ns + 5000000;
	for (op.seq = 0; op.seq < op.graph_n; op.seq++) {
		op.graph_i = (uint32_t)op.seq;
		fixture_op(&f, op);
	}
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(plain, sizeof(plain), "%s/graph.plain", dir);
	snprintf(options, sizeof(options), "--expect-slices AllReduce --inflate '%s'", plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "spread evenly over the launch"), 1); /* interned */
	assert_int_equal(count_in_file(plain, "comm 0x72e8"), 1);                   /* one lane */
	assert_int_equal(count_in_file(plain, "GraphLaunch"), 1);
	assert_int_equal(count_in_file(plain, "ncclAllReduce"), 1); /* an instant: when it returned is not known */
	assert_int_equal(count_in_file(plain, "drawn_shorter"), 0);
	unlink(plain);
}

/* Driver calls: one that returned, one that was reported twice while it was open, one whose end nobody saw, one that is
 * open when the trace ends; a copy with its bytes; an error. */
static uint64_t driver_calls_play(struct fixture *f)
{
	struct event call = { .kind = EV_CALL, .call = { .class = CALL_ALLOC, .name = "cuMemAlloc", .bytes = 0x7b7b } };
	struct event e;
	uint64_t ns = f->m.now_ns + 1000000;

	call.tgid = call.tid = f->procs[0].tgid;
	call.call.begin_ns = ns;
	call.ts_ns = ns + 500;
	fixture_event(f, call);
	for (int i = 1; i <= 2; i++) {
		e = call;
		e.kind = EV_CALL_OPEN;
		e.call.name = "cuModuleLoad";
		e.call.begin_ns = ns + 1000;
		e.ts_ns = ns + 1000 + i * 1000000000ull;
		fixture_event(f, e);
	}
	e.kind = EV_CALL;
	e.ts_ns += 500000000;
	e.call.result = 209;
	fixture_event(f, e);
	fixture_event(f, (struct event){ .kind = EV_CUDA_ERROR,
					 .tgid = e.tgid,
					 .tid = e.tid,
					 .ts_ns = e.ts_ns,
					 .cuda_error = { .call = "cuModuleLoad",
							 .error = "CUDA_ERROR_NO_BINARY_FOR_GPU",
							 .result = 209 } });
	e = (struct event){ .kind = EV_CALL_OPEN,
			    .tgid = e.tgid,
			    .tid = e.tid,
			    .ts_ns = e.ts_ns + 2000000000ull,
			    .call = { .name = "cuMemFree", .begin_ns = e.ts_ns + 1000 } };
	fixture_event(f, e);
	ns = e.ts_ns + 1000000;
	e = (struct event){ .kind = EV_SYNC_BEGIN,
			    .tgid = e.tgid,
			    .tid = e.tid,
			    .ts_ns = ns,
			    .sync = { .kind = SYNC_COPY, .begin_ns = ns, .bytes = 77 } };
	fixture_event(f, e); /* it did something else: cuMemFree is over */
	e.kind = EV_SYNC_END;
	e.ts_ns += 900000;
	fixture_event(f, e);
	e = (struct event){ .kind = EV_CALL_OPEN,
			    .tgid = e.tgid,
			    .tid = e.tid,
			    .ts_ns = e.ts_ns + 2000000000ull,
			    .call = { .name = "cuLinkComplete", .begin_ns = e.ts_ns + 1000 } };
	fixture_event(f, e);
	return e.ts_ns;
}

static void test_driver_calls(void **state)
{
	const char *path = path_of("calls.pftrace");
	struct fixture f;
	char options[300], plain[120];

	(void)state;
	fixture_open(&f, 1, path);
	f.m.now_ns = driver_calls_play(&f) + 3000000000ull;
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(plain, sizeof(plain), "%s/calls.plain", dir);
	snprintf(options, sizeof(options),
		 "--expect-slices cuMemAlloc=1,cuModuleLoad=1,cuMemFree=1,Memcpy=1,"
		 "cuLinkComplete=1 --inflate '%s'",
		 plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "CUDA_ERROR_NO_BINARY_FOR_GPU"), 1);
	assert_int_equal(count_in_file(plain, "unknown"), 1); /* interned: the ends of two */
	assert_int_equal(count_in_file(plain, "bytes"), 1);
	unlink(plain);
}

/* The record of a wait's begin is written a little after it; begin_ns 0: its time. */
static void wait_event(struct fixture *f, enum event_kind kind, uint64_t begin_ns, uint64_t ts_ns)
{
	uint32_t pid = f->procs[0].tgid;

	fixture_event(f, (struct event){ .kind = kind,
					 .tgid = pid,
					 .tid = pid,
					 .ts_ns = ts_ns,
					 .sync = { .kind = SYNC_STREAM, .handle = 0x10, .begin_ns = begin_ns } });
}

static void tier_event(struct fixture *f, int tier, int before, uint64_t ts_ns)
{
	uint32_t pid = f->procs[0].tgid;

	fixture_event(f, (struct event){ .kind = EV_TIER,
					 .tgid = pid,
					 .tid = pid,
					 .ts_ns = ts_ns,
					 .tier = { .tier = tier, .before = before } });
}

/* A wait whose end no probe saw ends where the next begins, or with the probes; one reported after those is a point. */
static void test_ends_not_seen(void **state)
{
	const char *path = path_of("unseen.pftrace");
	struct fixture f;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 1, path);
	ns = f.m.now_ns + 1000000;
	wait_event(&f, EV_SYNC_BEGIN, ns, ns + 300);
	wait_event(&f, EV_SYNC_BEGIN, ns + 50000, ns + 50300);
	wait_event(&f, EV_SYNC_END, ns + 50000, ns + 90000);
	wait_event(&f, EV_SYNC_BEGIN, ns + 100000, ns + 100300);
	tier_event(&f, 0, 1, ns + 200000);
	wait_event(&f, EV_SYNC_BEGIN, ns + 210000, ns + 210300);
	tier_event(&f, 1, 0, ns + 900000000);
	wait_event(&f, EV_SYNC_BEGIN, ns + 900010000, ns + 900010300);
	wait_event(&f, EV_SYNC_END, ns + 900010000, ns + 900090000);
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	check_or_skip("--expect-slices StreamSynchronize=5 --longest-ms 2", path);
}

static void budget_event(struct fixture *f, enum budget_what what, uint64_t ts_ns)
{
	uint32_t pid = f->procs[0].tgid;

	fixture_event(
		f, (struct event){
			   .kind = EV_BUDGET,
			   .tgid = pid,
			   .tid = pid,
			   .ts_ns = ts_ns,
			   .budget = { .what = what, .group = PROBES_CALLS, .hits_per_s = 61000, .cost_ns = 3800 } });
}

/* A call that was open when its probes went ends there, as far as is known; one of later is as long as it is told to
 * be. */
static void test_probes_shed(void **state)
{
	const char *path = path_of("shed.pftrace");
	struct fixture f;
	uint32_t pid;
	uint64_t ns;

	(void)state;
	fixture_open(&f, 1, path);
	pid = f.procs[0].tgid;
	ns = f.m.now_ns + 1000000;
	fixture_event(&f, (struct event){ .kind = EV_CALL_OPEN,
					  .tgid = pid,
					  .tid = pid,
					  .ts_ns = ns + 1000000,
					  .call = { .name = "cuMemAlloc", .begin_ns = ns } });
	budget_event(&f, BUDGET_SHED, ns + 1500000);
	budget_event(&f, BUDGET_KEPT, ns + 1600000);
	budget_event(&f, BUDGET_BACK, ns + 900000000);
	fixture_event(&f, (struct event){ .kind = EV_CALL,
					  .tgid = pid,
					  .tid = pid,
					  .ts_ns = ns + 900010000,
					  .call = { .name = "cuMemAlloc", .begin_ns = ns + 900005000 } });
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	check_or_skip("--expect-slices cuMemAlloc=2 --longest-ms 2", path);
}

static void test_size(void **state)
{
	const char *path = path_of("large.pftrace");
	struct fixture f;

	(void)state;
	fixture_open(&f, 8, path);
	fixture_steps(&f, 100, 25);
	assert_int_equal(f.n_ops, 20000);
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	check_or_skip("--max-bytes-per-slice 48 --expect-flows 20000", path);
}

/* What kill -9 leaves: the file is only ever appended to, in whole batches. */
static void test_killed(void **state)
{
	const char *path = path_of("killed.pftrace");
	struct fixture f;
	pid_t child = fork();

	(void)state;
	if (!child) {
		fixture_open(&f, 8, path);
		fixture_steps(&f, 100, 25);
		_exit(0); /* no close: what is buffered is lost */
	}
	assert_int_equal(waitpid(child, NULL, 0), child);
	check_or_skip("--expect-flows 10000", path);
}

static void test_dev_full(void **state)
{
	struct fixture f;

	(void)state;
	if (access("/dev/full", W_OK))
		skip();
	fixture_init(&f, 8);
	assert_int_equal(sink_perfetto.open("/dev/full", &f.sink), 0);
	fixture_start(&f);
	fixture_steps(&f, 100, 25);
	assert_int_equal(f.err, -ENOSPC);
	f.err = 0; /* reported once */
	fixture_steps(&f, 100, 25);
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
}

static void test_disk_full(void **state)
{
	char command[700], path[128];
	struct fixture f;

	(void)state;
	snprintf(command, sizeof(command), "mkdir -p %s/full && mount -t tmpfs -o size=128k none %s/full 2>/dev/null",
		 dir, dir);
	if (system(command))
		skip(); /* needs root */
	snprintf(path, sizeof(path), "%s/full/full.pftrace", dir);
	fixture_open(&f, 8, path);
	fixture_steps(&f, 200, 25);
	assert_int_equal(f.err, -ENOSPC);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(command, sizeof(command), "cp %s/full/full.pftrace %s/ && umount %s/full && rmdir %s/full", dir, dir,
		 dir, dir);
	assert_int_equal(system(command), 0);
	check_or_skip("--expect-flows 800", path_of("full.pftrace"));
}

static void test_unwritable(void **state)
{
	struct sink *sink = NULL;

	(void)state;
	assert_int_equal(sink_perfetto.open("/nonexistent/x.pftrace", &sink), -ENOENT);
	assert_null(sink);
}

/* Ports of RDMA devices: bytes a second each way, whether it is up, and errors once there are some. */
static void test_ports(void **state)
{
	static struct port port = { .id = { .index = 5, .number = 1 }, .device = "mlx5_7", .netdev = "eth9" };
	const char *path = path_of("ports.pftrace");
	char options[300], plain[120];
	struct fixture f;

	(void)state;
	snprintf(plain, sizeof(plain), "%s/ports.plain", dir);
	fixture_open(&f, 1, path);
	port.node = &f.node;
	f.node.ports = &port;
	for (uint64_t i = 0; i < 3; i++) {
		struct port_sample *l = &port.samples[port.n_samples++];
		struct event e = { .kind = EV_PORT_SAMPLE, .ts_ns = f.m.now_ns + i * 100000000ull };

		*l = (struct port_sample){ .ts_ns = e.ts_ns, .now = { .taken_ns = e.ts_ns, .state = i == 1 ? 1 : 4 } };
		memset(l->counters, 0xff, sizeof(l->counters));
		l->counters[PORT_SENT_BYTES] = i * 1000;
		l->counters[PORT_SYMBOL_ERRORS] = i == 2 ? 7 : 0;
		port.first = port.samples[0];
		e.port.index = 5;
		fixture_event(&f, e);
	}
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(options, sizeof(options),
		 "--expect-tracks 'mlx5_7 port 1 · eth9,sent bytes/s,up,symbol_errors' --inflate '%s'", plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "received bytes/s"), 0); /* not counted: not drawn */
	assert_int_equal(count_in_file(plain, "link_downed"), 0);
	unlink(plain);
}

/* TCP: what all connections of a pair of ranks carry together, once a look. */
static void test_tcp(void **state)
{
	static struct tcp_connection c[4] = { { .index = 0, .proc = 1000, .local = "10.0.0.1", .remote = "10.0.0.2" },
					      { .index = 1, .proc = 1001, .local = "10.0.0.2", .remote = "10.0.0.1" },
					      { .index = 2, .proc = 1000, .local = "10.0.0.1", .remote = "10.0.0.2" },
					      { .index = 3, .proc = 1000, .local = "10.0.0.1", .remote = "10.9.9.9" } };
	static struct tcp_places places;
	struct tcp_connection *at[4] = { NULL };
	const char *path = path_of("tcp.pftrace");
	char options[300], plain[120];
	struct fixture f;

	(void)state;
	snprintf(plain, sizeof(plain), "%s/tcp.plain", dir);
	fixture_open(&f, 2, path);
	c[0].peer = c[2].peer = &c[1];
	c[1].peer = &c[0];
	f.m.tcp.at = at;
	f.m.tcp.n = 4;
	f.node.tcp = &places;
	for (uint64_t look = 0; look < 3; look++)
		for (int i = 0; i < 4; i++) {
			struct tcp_sample *l = &c[i].samples[c[i].n_samples++];
			struct event e = { .kind = EV_TCP_SAMPLE, .ts_ns = f.m.now_ns + look * 1000000000ull };

			*l = (struct tcp_sample){ .ts_ns = e.ts_ns, .now.taken_ns = e.ts_ns };
			l->counters[TCP_BYTES_ACKED] = look * look * look * 1000; /* nothing else changes */
			c[i].proc = f.procs[i % 2 ? i == 1 : 0].tgid;
			at[i] = &c[i];
			places.at[i] = 1 + i;
			e.tcp.index = i;
			fixture_event(&f, e);
		}
	assert_int_equal(f.err, 0);
	assert_int_equal(sink_perfetto.close(f.sink, &f.m), 0);
	snprintf(options, sizeof(options), "--expect-tracks 'TCP rank 0 → rank 1,acknowledged bytes/s' --inflate '%s'",
		 plain);
	check_or_skip(options, path);
	assert_int_equal(count_in_file(plain, "retransmits/s"), 0); /* a constant line says nothing */
	assert_int_equal(count_in_file(plain, "TCP rank 0 → 10.9.9.9"), 1);
	assert_int_equal(count_in_file(plain, "TCP rank 1 → rank 0"), 1);
	assert_int_equal(count_in_file(plain, "TCP rank 0 → rank 1"), 1);
	unlink(plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_once), cmocka_unit_test(test_graph),

		cmocka_unit_test(test_driver_calls),    cmocka_unit_test(test_ends_not_seen),
		cmocka_unit_test(test_probes_shed),     cmocka_unit_test(test_size),
		cmocka_unit_test(test_killed),          cmocka_unit_test(test_dev_full),
		cmocka_unit_test(test_disk_full),       cmocka_unit_test(test_unwritable),
		cmocka_unit_test(test_ports),           cmocka_unit_test(test_tcp),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
