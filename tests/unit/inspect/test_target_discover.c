/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_discover.c - finds processes by what they execute: a library under a misleading name, one hidden behind
 * another file of the same path in a private mount namespace, deleted and late ones, a static program; and who
 * belongs to which rank. The targets are small programs compiled here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/discover/discover_private.h"
#include "inspect/stack/symbolize.h"

#define NCCL 2
#define CUDA 4

static const char lib_source[] = "int ncclAllReduce(void) { return 1; }\n"
				 "int pncclAllReduce(void) __attribute__((alias(\"ncclAllReduce\")));\n"
				 "int ncclSend(void) { return 2; }\n";

static const char program_source[] =
	"#include <dlfcn.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include "
	"<string.h>\n#include <unistd.h>\n"
	"#include <sys/prctl.h>\n#include <pthread.h>\n"
	"#ifdef STATIC\nint ncclAllReduce(void) { return 1; }\nint ncclSend(void) { return 2; }\n"
	"#else\nstatic void load(const char *p) { if (!dlopen(p, RTLD_NOW)) puts(dlerror()); }\n#endif\n"
	"static void *run(void *p) { prctl(PR_SET_NAME, \"worker-thread\"); pause(); return p; }\n"
	"static void on(int sig) { (void)sig; }\n"
	"static void ready(void) { if (write(1, \"r\", 1) != 1) _exit(1); }\n"
	"int main(int argc, char **argv) {\n"
	"	prctl(PR_SET_PDEATHSIG, SIGKILL); signal(SIGUSR1, on); (void)argc;\n"
	"#ifdef STATIC\n	(void)argv; ready(); for (;;) pause();\n#else\n"
	"	if (!strcmp(argv[1], \"late\")) { ready(); pause(); load(argv[2]); ready(); for (;;) pause(); }\n"
	"	if (!strcmp(argv[1], \"wrap\")) { if (!fork()) { execv(argv[2], argv + 2); _exit(1); } for (;;) "
	"pause(); }\n"
	"	load(argv[2]);\n"
	"	if (!strcmp(argv[1], \"fork\")) {\n"
	"		if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); pthread_t t; pthread_create(&t, 0, run, 0);\n"
	"			usleep(50000); ready(); for (;;) pause(); }\n"
	"		if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); clearenv(); execl(\"/bin/sleep\", \"sleep\", "
	"\"100\", "
	"NULL); }\n"
	"	}\n"
	"	ready(); for (;;) pause();\n#endif\n}\n";

static const char *const nccl_markers[] = { "ncclAllReduce|pncclAllReduce" }, *const nccl_symbols[] = { "ncclSend",
													"ncclRecv" };
static const char *const cuda_markers[] = { "cuLaunchKernel", "cuInit" };
static const struct target_filter filters[] = {
	{ .tracer = NCCL, .markers = nccl_markers, .n_markers = 1, .symbols = nccl_symbols, .n_symbols = 2 },
	{ .tracer = CUDA, .markers = cuda_markers, .n_markers = 2 },
};

static char dir[64];
static struct reader *reader;

static int cc(const char *options, const char *out, const char *in)
{
	char command[512];

	snprintf(command, sizeof(command), "cc -O1 %s -o %s/%s %s/%s -ldl -lpthread", options, dir, out, dir, in);
	return system(command);
}

static void put(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
}

static int group_setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/ranktrace-find-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	put("lib.c", lib_source);
	put("plain.c", "int plain(void) { return 0; }\n");
	put("program.c", program_source);
	if (cc("-shared -fPIC", "libjpeg.so.8", "lib.c") || cc("-shared -fPIC", "plain.so", "plain.c") ||
	    cc("", "program", "program.c") || cc("-static -DSTATIC", "static", "program.c"))
		return -1;
	return reader_open(&reader);
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	reader_free(reader);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static int setup(void **state)
{
	return target_set_new(reader, filters, 2, (struct target_set **)state);
}

static int teardown(void **state)
{
	target_set_free(*state);
	return 0;
}

struct child {
	pid_t pid;
	int out;
};

struct launch {
	const char *program, *mode, *lib;
	const char *env[6];
	const char *over, *under; /* bind-mounts `over` onto `under` in a private mount namespace */
};

static void in_child(const struct launch *l, int out)
{
	char program[128], lib[128], over[128], under[128];

	snprintf(program, sizeof(program), "%s/%s", dir, l->program);
	snprintf(lib, sizeof(lib), "%s/%s", dir, l->lib ? l->lib : "");
	snprintf(over, sizeof(over), "%s/%s", dir, l->over ? l->over : "");
	snprintf(under, sizeof(under), "%s/%s", dir, l->under ? l->under : "");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, 1);
	if (l->over && (unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
			mount(over, under, NULL, MS_BIND, NULL)))
		_exit(77);
	char *argv[] = { program, (char *)l->mode, lib, lib, NULL },
	     *wrapped[] = { program, "wrap", program, "load", lib, NULL };

	execve(program, strcmp(l->mode, "wrap") ? argv : wrapped, (char **)l->env);
	_exit(1);
}

static void wait_ready(const struct child *c)
{
	char r = 0;

	assert_int_equal(read(c->out, &r, 1), 1);
	assert_int_equal(r, 'r');
}

static struct child launch(const struct launch *l)
{
	int out[2];
	struct child c;

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	c.pid = fork();
	if (!c.pid)
		in_child(l, out[1]);
	close(out[1]);
	c.out = out[0];
	return c;
}

static void finish(const struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->out);
}

static const struct target_proc *listed(struct target_set *s, uint32_t tgid)
{
	size_t n;
	const struct target_proc *const *list = target_set_list(s, &n);

	for (size_t i = 0; i < n; i++)
		if (list[i]->tgid == tgid)
			return list[i];
	return NULL;
}

static const struct target_proc *expect_nccl(struct target_set *s, uint32_t tgid)
{
	const struct target_proc *p = listed(s, tgid);

	assert_non_null(p);
	assert_int_equal(p->n_libs, 1);
	assert_int_equal(p->libs[0].tracers, 1 << NCCL);
	assert_true(p->libs[0].file->fd >= 0);
	const struct elf_symbol *send = target_file_symbol(s, p->libs[0].file, "ncclSend");

	assert_non_null(send);
	assert_true(elf_facts_in_text(&p->libs[0].file->facts, send->offset));
	assert_null(target_file_symbol(s, p->libs[0].file, "ncclRecv"));
	return p;
}

static void finds_a_misleading_name(void **state)
{
	struct child c = launch(&(struct launch){
		"program",
		"load",
		"libjpeg.so.8",
		{ "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "TORCHELASTIC_RUN_ID=job7", "CUDA_VISIBLE_DEVICES=0,1" },
		NULL,
		NULL });

	wait_ready(&c);
	assert_int_equal(target_set_scan(*state), 0);
	const struct target_proc *p = expect_nccl(*state, c.pid);

	assert_non_null(strstr(p->libs[0].path, "/libjpeg.so.8"));
	assert_false(p->libs[0].deleted);
	assert_int_equal(p->rank, 3);
	assert_int_equal(p->local_rank, 1);
	assert_int_equal(p->world_size, 4);
	assert_string_equal(p->job, "job7");
	assert_string_equal(p->visible_devices, "0,1");
	assert_int_equal(p->ns_pid, c.pid);
	assert_int_equal(p->rank_tgid, c.pid);
	assert_int_equal(p->parent_tgid, getpid());
	assert_int_equal(p->seccomp, 0);
	assert_int_equal(p->status, TARGET_OK);
	assert_string_equal(p->name, "program");
	assert_non_null(strstr(p->exe, "/program"));
	/* Nothing new, and nothing is said to have changed (other processes of this host may come and go meanwhile). */
	uint64_t revision = p->revision;

	assert_int_equal(target_set_scan(*state), 0);
	assert_int_equal(expect_nccl(*state, c.pid)->revision, revision);
	finish(&c);
	assert_int_equal(target_set_scan(*state), 0);
	assert_null(listed(*state, c.pid));
	assert_true(target_set_revision(*state) > revision);
}

static void sees_through_mount_namespaces(void **state)
{
	/* The host's plain.so is harmless; what this process has under that path is not. */
	struct child c =
		launch(&(struct launch){ "program", "load", "plain.so", { NULL }, "libjpeg.so.8", "plain.so" });
	/* And the other way round: the host's file has the symbols, the process' has not. */
	struct child d =
		launch(&(struct launch){ "program", "load", "libjpeg.so.8", { NULL }, "plain.so", "libjpeg.so.8" });
	char r;

	if (read(c.out, &r, 1) != 1 || read(d.out, &r, 1) != 1) {
		finish(&c);
		finish(&d);
		print_message("skipped: no private mount namespace here\n");
		skip();
	}
	assert_int_equal(target_set_scan(*state), 0);
	const struct target_proc *p = expect_nccl(*state, c.pid);

	assert_non_null(strstr(p->libs[0].path, "plain.so"));
	assert_int_equal(p->rank, -1);
	assert_null(listed(*state, d.pid));
	finish(&c);
	finish(&d);
}

static void finds_deleted_and_replaced_files(void **state)
{
	char from[128], to[128], command[512];

	snprintf(from, sizeof(from), "%s/libjpeg.so.8", dir);
	snprintf(to, sizeof(to), "%s/gone.so", dir);
	snprintf(command, sizeof(command), "cp %s %s", from, to);
	assert_int_equal(system(command), 0);
	struct child c = launch(&(struct launch){ "program", "load", "gone.so", { NULL }, NULL, NULL });

	wait_ready(&c);
	/* Another file under the same name: the process still runs the old one. */
	snprintf(command, sizeof(command), "cp %s/plain.so %s/new.so && mv %s/new.so %s", dir, dir, dir, to);
	assert_int_equal(system(command), 0);
	assert_int_equal(target_set_scan(*state), 0);
	const struct target_proc *p = expect_nccl(*state, c.pid);

	assert_true(p->libs[0].deleted);
	assert_non_null(strstr(p->libs[0].path, "gone.so"));
	finish(&c);
}

static void finds_a_late_library(void **state)
{
	struct child c = launch(&(struct launch){ "program", "late", "libjpeg.so.8", { NULL }, NULL, NULL });
	uint32_t tgid = c.pid;

	wait_ready(&c);
	assert_int_equal(target_set_scan(*state), 0);
	assert_null(listed(*state, tgid));
	assert_int_equal(target_set_rescan(*state, &tgid, 1), 0);
	assert_null(listed(*state, tgid));
	kill(c.pid, SIGUSR1);
	wait_ready(&c);
	uint64_t begin = clock_monotonic_ns();

	assert_int_equal(target_set_rescan(*state, &tgid, 1), 0);
	assert_in_range(clock_monotonic_ns() - begin, 0, 500000000);
	expect_nccl(*state, tgid);
	finish(&c);
	assert_int_equal(target_set_rescan(*state, &tgid, 1), 0);
	assert_null(target_set_find(*state, tgid));
}

/* The host's processes, of which this one's child is among the last. */
static void a_scan_that_is_cut_goes_on(void **state)
{
	struct child c = launch(&(struct launch){ "program", "load", "libjpeg.so.8", { NULL }, NULL, NULL });

	wait_ready(&c);
	target_set_until(*state, 1);
	assert_int_equal(target_set_scan(*state), 0);
	assert_true(target_set_scan_cut(*state));
	assert_null(listed(*state, c.pid));
	assert_int_equal(target_set_scan_more(*state), 0);
	assert_true(target_set_scan_cut(*state));
	assert_null(listed(*state, c.pid));
	target_set_until(*state, UINT64_MAX);
	assert_int_equal(target_set_scan_more(*state), 0);
	assert_false(target_set_scan_cut(*state));
	assert_false(target_set_scan_left(*state));
	expect_nccl(*state, c.pid);
	finish(&c);
}

static void closes_the_files_of_the_dead(void **state)
{
	int before = dup(0), after;

	close(before);
	for (int i = 0; i < 3; i++) {
		struct child c = launch(&(struct launch){ "static", "", NULL, { NULL }, NULL, NULL });

		wait_ready(&c);
		assert_int_equal(target_set_scan(*state), 0);
		expect_nccl(*state, c.pid);
		finish(&c);
	}
	target_set_free(*state);
	assert_int_equal(setup(state), 0);
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
}

static void finds_a_static_program(void **state)
{
	struct child c = launch(&(struct launch){ "static", "", NULL, { NULL }, NULL, NULL });

	wait_ready(&c);
	assert_int_equal(target_set_scan(*state), 0);
	const struct target_proc *p = expect_nccl(*state, c.pid);

	assert_non_null(strstr(p->libs[0].path, "/static"));
	finish(&c);
}

static const struct target_proc *child_named(struct target_set *s, uint32_t parent, const char *name)
{
	size_t n;
	const struct target_proc *const *list = target_set_list(s, &n);

	for (size_t i = 0; i < n; i++)
		if (list[i]->parent_tgid == parent && !strcmp(list[i]->name, name))
			return list[i];
	return NULL;
}

static int job_wait(struct reader_job *job)
{
	char c;

	return read(job->fds[0], &c, 1) < 0 ? -errno : 0;
}

/* Another file's parser has taken what a second has for waiting: this one's is not asked. Who looks once waits for it.
 */
static void waits_for_parsers(void **state)
{
	struct child c = launch(&(struct launch){ "program", "load", "libjpeg.so.8", { NULL }, NULL, NULL });
	int other[2];

	assert_int_equal(pipe(other), 0);
	wait_ready(&c);
	reader_set_timeout(reader, READER_TIMEOUT_MS);
	assert_int_equal(parser_run(reader, 0, job_wait, NULL, 0, &other[0], 1, 1000, NULL, 0, NULL), -EAGAIN);
	assert_int_equal(target_set_scan_settled(*state), 0);
	expect_nccl(*state, c.pid);
	reader_set_timeout(reader, 0);
	close(other[0]);
	close(other[1]);
	finish(&c);
}

static void gives_children_to_their_rank(void **state)
{
	struct child c = launch(&(struct launch){ "program",
						  "fork",
						  "libjpeg.so.8",
						  { "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1" },
						  NULL,
						  NULL });

	wait_ready(&c);
	wait_ready(&c);
	usleep(100000); /* the exec of sleep */
	assert_int_equal(target_set_scan(*state), 0);
	const struct target_proc *rank = expect_nccl(*state, c.pid);
	const struct target_proc *worker = child_named(*state, c.pid, "program"),
				 *sleeper = child_named(*state, c.pid, "sleep");

	assert_false(rank->is_child);
	assert_non_null(worker);
	assert_true(worker->is_child);
	assert_int_equal(worker->rank, 1);
	assert_int_equal(worker->rank_source, RANK_INHERITED);
	assert_int_equal(worker->rank_tgid, c.pid);
	/* It neither has the library nor says a rank, but it descends from one; and its maps are kept. */
	assert_non_null(sleeper);
	assert_true(sleeper->is_child);
	assert_int_equal(sleeper->rank, 1);
	assert_string_equal(sleeper->job, "a:1");
	assert_int_equal(sleeper->n_libs, 0);
	assert_true(sleeper->maps.n > 0 && sleeper->n_files > 0);
	struct target_thread *threads = NULL;
	size_t n;

	assert_int_equal(target_threads_read_some(worker->tgid, 0, 1, &threads, &n), 0);
	assert_int_equal(n, 1);
	free(threads);
	assert_int_equal(target_threads_read_some(worker->tgid, 1000, 1, &threads, &n), 0);
	assert_int_equal(n, 0);
	free(threads);
	assert_int_equal(target_threads_read(worker->tgid, &threads, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(threads[0].tid == worker->tgid ? threads[1].name : threads[0].name, "worker-thread");
	free(threads);
	finish(&c);
	assert_int_equal(target_threads_read(c.pid, &threads, &n), -ESRCH);
}

static void goes_past_a_wrapper(void **state)
{
	struct child c =
		launch(&(struct launch){ "program", "wrap", "libjpeg.so.8", { "RANK=0", "WORLD_SIZE=2" }, NULL, NULL });

	wait_ready(&c);
	assert_int_equal(target_set_scan(*state), 0);
	const struct target_proc *p = child_named(*state, c.pid, "program");

	assert_non_null(p);
	assert_int_equal(p->rank, 0);
	assert_false(p->is_child);
	assert_null(listed(*state, c.pid));
	finish(&c);
}

static void names_stacks_from_the_snapshot(void **state)
{
	struct child c = launch(&(struct launch){ "program", "load", "libjpeg.so.8", { NULL }, NULL, NULL });
	struct symbolizer *sym = NULL;
	char text[512];

	wait_ready(&c);
	assert_int_equal(target_set_scan(*state), 0);
	const struct target_proc *p = expect_nccl(*state, c.pid);
	const struct elf_symbol *send = target_file_symbol(*state, p->libs[0].file, "ncclSend");
	uint64_t addr = p->libs[0].bias + send->vaddr;
	uint64_t addrs[] = { addr, addr + 2, 16, p->libs[0].bias + 64 }; /* the last: in the ELF header */

	finish(&c); /* nothing below may need it */
	assert_int_equal(symbolizer_new(reader, &sym), 0);
	for (int i = 0; i < 2; i++) { /* the second time from the cache */
		assert_int_equal(symbolizer_stack(sym, p, addrs, 4, text, sizeof(text)), 4);
		assert_non_null(strstr(
			text, "ncclSend+0x0 (libjpeg.so.8)\nncclSend+0x2 (libjpeg.so.8)\n0x10 (?)\nlibjpeg.so.8+0x"));
	}
	assert_int_equal(symbolizer_stack(sym, p, addrs, 4, text, 40), 1);
	assert_string_equal(text, "ncclSend+0x0 (libjpeg.so.8)");
	symbolizer_free(sym);
}

/* The program lies in front of them in memory. */
static void begins_with_usual_names(void **state)
{
	struct target_filter usual[] = { filters[0], filters[1] };
	struct child c = launch(&(struct launch){ "program", "load", "libjpeg.so.8", { "RANK=1", NULL }, NULL, NULL });
	const struct target_proc *p;
	struct target_set *s;

	(void)state;
	usual[1].files = "libcuda.|ld-linux";
	usual[0].files = "libjpeg";
	wait_ready(&c);
	assert_int_equal(target_set_new(reader, usual, 2, &s), 0);
	assert_int_equal(target_set_scan(s), 0);
	p = expect_nccl(s, c.pid);
	assert_true(p->n_files > 3);
	assert_non_null(strstr(p->libs[1].path, "/ld-linux"));
	assert_non_null(strstr(p->libs[2].path, "/program"));
	target_set_free(s);
	finish(&c);
}

/* Loads it, with a new process. Was it a file of the first queue that became known? */
static bool is_among_the_first(struct target_set *s, const char *lib)
{
	struct child c = launch(&(struct launch){ "program", "load", lib, { "RANK=1", NULL }, NULL, NULL });

	wait_ready(&c);
	s->first_ns = 0;
	assert_int_equal(target_set_scan(s), 0);
	expect_nccl(s, c.pid);
	finish(&c);
	return s->first_ns;
}

/* Its owner can write to it again and again: it does not delay the libraries of others each time. Another file in its
 * place is a new one, as after an update. */
static void one_written_to_in_place_is_not_among_the_first(void **state)
{
	struct target_filter usual[] = { filters[0], filters[1] };
	struct target_set *s;
	char command[256];

	(void)state;
	usual[0].files = "libgrows";
	usual[0].vital = true;
	snprintf(command, sizeof(command), "cp %s/libjpeg.so.8 %s/libgrows.so", dir, dir);
	assert_int_equal(system(command), 0);
	assert_int_equal(target_set_new(reader, usual, 2, &s), 0);
	assert_true(is_among_the_first(s, "libgrows.so"));
	assert_false(is_among_the_first(s, "libgrows.so")); /* it is known */
	snprintf(command, sizeof(command), "echo >>%s/libgrows.so", dir);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(system(command), 0);
		assert_false(is_among_the_first(s, "libgrows.so"));
	}
	snprintf(command, sizeof(command), "cd %s && cp libgrows.so new.so && mv new.so libgrows.so", dir);
	assert_int_equal(system(command), 0);
	assert_true(is_among_the_first(s, "libgrows.so"));
	target_set_free(s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(finds_a_misleading_name),
		TEST(sees_through_mount_namespaces),
		TEST(finds_deleted_and_replaced_files),
		TEST(finds_a_late_library),
		TEST(finds_a_static_program),
		TEST(waits_for_parsers),
		TEST(closes_the_files_of_the_dead),
		TEST(gives_children_to_their_rank),
		TEST(goes_past_a_wrapper),
		TEST(names_stacks_from_the_snapshot),
		TEST(a_scan_that_is_cut_goes_on),
		cmocka_unit_test(begins_with_usual_names),
		cmocka_unit_test(one_written_to_in_place_is_not_among_the_first),
	};

	if (system("cc --version >/dev/null 2>&1") || geteuid()) {
		fprintf(stderr, "skipped: needs a C compiler (cc) and root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
