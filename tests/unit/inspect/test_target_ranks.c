/* SPDX-License-Identifier: Apache-2.0
 *
 * test_target_ranks.c - ranks of real processes: variables set after the start (dynamic, copied `environ`, static,
 * musl, Python), and the trees that Slurm, torchrun and spawned workers make. The processes are one small program that
 * acts out its arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/discover/discover.h"
#include "inspect/reader/proc_files.h"

#define NCCL 2

static const char actor_source[] =
	"#include <dlfcn.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
	"#include <sys/prctl.h>\n#include <unistd.h>\n"
	"#ifdef COPY\nextern char **environ; char ***volatile keep = &environ;\n#endif\n"
	"#ifdef STATIC\nint ncclAllReduce(void) { return 1; }\n#define dlopen(p, f) ((void *)ncclAllReduce)\n#endif\n"
	"static void on(int sig) { (void)sig; }\n"
	"static char **past_end(char **a) { int n = 1; for (a++; *a; a++) { if (!strcmp(*a, \"run\") || !strcmp(*a, "
	"\"child\"))\n"
	"	n++; if (!strcmp(*a, \"end\") && !--n) return a; } return a - 1; }\n"
	"int main(int argc, char **argv) {\n"
	"	sigset_t usr1; char **a = argv + 1, *v; (void)argc;\n"
	"	prctl(PR_SET_PDEATHSIG, SIGKILL); signal(SIGUSR1, on);\n"
	"	sigemptyset(&usr1); sigaddset(&usr1, SIGUSR1); sigprocmask(SIG_BLOCK, &usr1, 0);\n"
	"	for (; *a; a++) {\n"
	"		if (!strncmp(*a, \"load=\", 5)) { if (!dlopen(*a + 5, RTLD_NOW)) _exit(3); }\n"
	"		else if (!strncmp(*a, \"set=\", 4)) { v = strchr(*a + 4, '='); *v = 0; setenv(*a + 4, v + 1, "
	"1); }\n"
	"		else if (!strncmp(*a, \"put=\", 4)) putenv(*a + 4);\n"
	"		else if (!strncmp(*a, \"many=\", 5)) { for (int i = atoi(*a + 5); i; i--) { char n[300];\n"
	"			snprintf(n, sizeof(n), \"FILL_%d\", i); setenv(n, "
	"\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", 1); } }\n"
	"		else if (!strcmp(*a, \"ready\")) { if (write(1, \"r\", 1) != 1) _exit(1); }\n"
	"		else if (!strcmp(*a, \"wait\")) { int s; sigwait(&usr1, &s); }\n"
	"		else if (!strcmp(*a, \"run\") || !strcmp(*a, \"child\")) { int execs = (*a)[0] == 'r';\n"
	"			char **last = past_end(a); if (fork()) { a = last; continue; }\n"
	"			prctl(PR_SET_PDEATHSIG, SIGKILL); *last = 0;\n"
	"			for (; execs && a[1] && !strncmp(a[1], \"set=\", 4); a++) { v = strchr(a[1] + 4, "
	"'='); *v = 0; setenv(a[1] + 4, v + 1, 1); }\n"
	"			if (execs) { *a = argv[0]; execv(\"/proc/self/exe\", a); _exit(2); } }\n"
	"	}\n"
	"	for (;;) pause();\n}\n";

static const char *const markers[] = { "ncclAllReduce" };
static const struct target_filter filters[] = { { .tracer = NCCL, .markers = markers, .n_markers = 1 } };

static char dir[64];
static struct reader *reader;

struct child {
	pid_t pid;
	int out;
};

static int cc(const char *compiler, const char *options, const char *out, const char *in)
{
	char command[512];

	snprintf(command, sizeof(command), "%s -O1 %s -o %s/%s %s/%s 2>%s/log", compiler, options, dir, out, dir, in,
		 dir);
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
	strcpy(dir, "/tmp/ranktrace-rank-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	put("lib.c", "int ncclAllReduce(void) { return 1; }\n");
	put("actor.c", actor_source);
	if (cc("cc", "-shared -fPIC", "lib.so", "lib.c") || cc("cc", "-fPIE -pie", "actor", "actor.c") ||
	    cc("cc", "-DCOPY -no-pie -fno-pie", "copy", "actor.c") || cc("cc", "-DSTATIC -static", "static", "actor.c"))
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
	return target_set_new(reader, filters, 1, (struct target_set **)state);
}

static int teardown(void **state)
{
	target_set_free(*state);
	return 0;
}

/* `script`: the program's arguments, separated by blanks; LIB stands for the library. `env`: its variables, likewise.
 */
static struct child act(const char *program, const char *env, const char *script)
{
	static char words[2][1024], lib[96], path[96];
	char *argv[64] = { path }, *envp[64] = { NULL };
	int out[2], n = 1, e = 0;
	struct child c;

	snprintf(path, sizeof(path), "%s%s%s", program[0] == '/' ? "" : dir, program[0] == '/' ? "" : "/", program);
	snprintf(lib, sizeof(lib), "load=%s/lib.so", dir);
	snprintf(words[0], sizeof(words[0]), "%s", script);
	snprintf(words[1], sizeof(words[1]), "%s", env);
	for (char *w = strtok(words[0], " "); w; w = strtok(NULL, " "))
		argv[n++] = strcmp(w, "LIB") ? w : lib;
	for (char *w = strtok(words[1], " "); w; w = strtok(NULL, " "))
		envp[e++] = w;
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	c.pid = fork();
	if (!c.pid) {
		dup2(out[1], 1);
		execve(path, argv, envp);
		_exit(1);
	}
	close(out[1]);
	c.out = out[0];
	return c;
}

static void wait_ready(const struct child *c, int n)
{
	char r = 0;

	for (int i = 0; i < n; i++) {
		assert_int_equal(read(c->out, &r, 1), 1);
		assert_int_equal(r, 'r');
	}
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

static uint32_t child_of(uint32_t parent, int index)
{
	char text[256];
	unsigned pids[16] = { 0 };

	assert_true(proc_read(text, sizeof(text), "/proc/%u/task/%u/children", parent, parent) >= 0);
	for (char *p = text; index >= 0 && *p; index--)
		pids[0] = strtoul(p, &p, 10);
	return pids[0];
}

/* Unknown at first, known soon after the program has set it, without a look being asked for. */
static void expect_late(struct target_set *s, const struct child *c, const char *what)
{
	uint32_t tgid = c->pid;
	uint64_t end;

	wait_ready(c, 1);
	assert_int_equal(target_set_scan(s), 0);
	const struct target_proc *p = listed(s, tgid);

	if (!p || p->rank != -1 || p->rank_source != RANK_UNKNOWN)
		fail_msg("%s: %s", what, p ? "has a rank too early" : "not found");
	kill(c->pid, SIGUSR1);
	wait_ready(c, 1);
	end = clock_monotonic_ns() + 2000000000ull;
	do {
		usleep(20000);
		assert_int_equal(target_set_rescan(s, &tgid, 1), 0);
		p = listed(s, tgid);
	} while (p && p->rank < 0 && clock_monotonic_ns() < end);
	if (!p || p->rank != 3 || p->world_size != 4 || p->local_rank != 1 || !p->rank_late ||
	    p->rank_source != RANK_ENV || strcmp(p->job, "h:1"))
		fail_msg("%s: rank %d of %d, local %d, late %d, job '%s'", what, p ? p->rank : -2,
			 p ? p->world_size : 0, p ? p->local_rank : 0, p && p->rank_late, p ? p->job : "");
	finish(c);
}

#define SET "set=RANK=3 set=WORLD_SIZE=4 set=MASTER_ADDR=h set=MASTER_PORT=1 put=LOCAL_RANK=1"

static void reads_what_was_set_late(void **state)
{
	static const char *const programs[] = { "actor", "copy", "static" };

	for (int i = 0; i < 3; i++) {
		struct child c = act(programs[i], "HOME=/", "LIB ready wait many=700 " SET " ready wait");

		expect_late(*state, &c, programs[i]);
	}
	if (cc("musl-gcc", "", "musl", "actor.c") || cc("musl-gcc", "-shared -fPIC", "lib.so", "lib.c")) {
		print_message("no musl-gcc here: musl is left out\n");
		return;
	}
	struct child c = act("musl", "", "LIB ready wait " SET " ready wait");

	expect_late(*state, &c, "musl");
	assert_int_equal(cc("cc", "-shared -fPIC", "lib.so", "lib.c"), 0);
}

static void reads_what_python_set_late(void **state)
{
	char script[1024];
	int out[2];
	struct child c;

	snprintf(script, sizeof(script),
		 "import ctypes,os,signal\n"
		 "signal.pthread_sigmask(signal.SIG_BLOCK,[signal.SIGUSR1])\n"
		 "ctypes.CDLL('%s/lib.so')\n"
		 "os.write(1,b'r'); signal.sigwait([signal.SIGUSR1])\n"
		 "os.environ['RANK']='3'; "
		 "os.environ.update(WORLD_SIZE='4',LOCAL_RANK='1',MASTER_ADDR='h',MASTER_PORT='1')\n"
		 "os.write(1,b'r'); signal.pause()\n",
		 dir);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	c.pid = fork();
	if (!c.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		unsetenv("RANK");
		execlp("python3", "python3", "-c", script, NULL);
		_exit(1);
	}
	close(out[1]);
	c.out = out[0];
	expect_late(*state, &c, "python3");
}

/* Asked at once when its first communicator shows, also where it was started with a RANK of its own. */
static void asks_again_at_the_first_communicator(void **state)
{
	struct child c = act("actor", "RANK=0 WORLD_SIZE=2", "LIB ready wait set=RANK=6 set=WORLD_SIZE=16 ready wait");
	uint32_t tgid = c.pid;

	wait_ready(&c, 1);
	assert_int_equal(target_set_scan(*state), 0);
	assert_int_equal(listed(*state, tgid)->rank, 0);
	kill(c.pid, SIGUSR1);
	wait_ready(&c, 1);
	assert_int_equal(target_set_rescan(*state, &tgid, 1), 0);
	assert_int_equal(listed(*state, tgid)->rank, 0); /* it said so, and that is enough until it matters */
	target_set_has_comm(*state, tgid);
	assert_int_equal(target_set_rescan(*state, &tgid, 1), 0);
	assert_int_equal(listed(*state, tgid)->rank, 6);
	assert_true(listed(*state, tgid)->rank_late);
	finish(&c);
}

#define SLURM "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_JOB_ID=77 SLURM_STEP_ID=0"

/* srun bash train.sh: neither the script nor its sleeping sibling is a rank, the program in it is. */
static void finds_the_rank_in_a_slurm_task(void **state)
{
	struct child c =
		act("actor", SLURM, "run wait LIB ready child ready wait end wait end run wait end ready wait");
	uint32_t program, sibling;

	wait_ready(&c, 1);
	usleep(50000);
	program = child_of(c.pid, 0);
	sibling = child_of(c.pid, 1);
	assert_int_equal(target_set_scan(*state), 0);
	assert_null(listed(*state, c.pid));
	assert_null(listed(*state, program));
	kill(program, SIGUSR1);
	wait_ready(&c, 2);
	/* A candidate: found by the next short look, though no rank named it */
	assert_int_equal(target_set_rescan(*state, NULL, 0), 0);
	const struct target_proc *p = listed(*state, program);

	assert_non_null(p);
	assert_true(p->rank == 1 && p->world_size == 2 && p->local_rank == 0 && !p->is_child);
	assert_int_equal(p->rank_source, RANK_SLURM);
	assert_string_equal(p->job, "slurm-77.0");
	assert_int_equal(target_set_scan(*state), 0);
	assert_null(listed(*state, c.pid));
	assert_null(listed(*state, sibling));
	p = listed(*state, child_of(program, 0));
	assert_true(p && p->is_child && p->rank == 1 && p->rank_tgid == program && p->rank_source == RANK_INHERITED);
	finish(&c);
}

/* srun torchrun, one task a node: SLURM_PROCID is the node's number, and the agent has NCCL mapped as well. */
static void torchrun_under_srun(void **state)
{
	struct child c = act("actor", SLURM,
			     "LIB run set=RANK=8 set=WORLD_SIZE=16 set=LOCAL_RANK=0 LIB ready wait end "
			     "run set=RANK=1 set=WORLD_SIZE=2 set=LOCAL_RANK=1 LIB ready wait end wait");
	const struct target_proc *p;

	wait_ready(&c, 2);
	assert_int_equal(target_set_scan(*state), 0);
	p = listed(*state, c.pid);
	assert_true(p && p->rank == -1); /* it maps the library, so it is listed, and it is no rank */
	p = listed(*state, child_of(c.pid, 0));
	assert_true(p && p->rank == 8 && p->world_size == 16 && p->local_rank == 0 && p->rank_source == RANK_ENV &&
		    !p->is_child);
	assert_true(p->other_source == RANK_SLURM && p->other_rank == 1 && p->other_size == 2);
	/* even where both happen to say the same */
	p = listed(*state, child_of(c.pid, 1));
	assert_true(p && p->rank == 1 && p->world_size == 2 && !p->is_child && p->rank_source == RANK_ENV);
	assert_int_equal(p->other_source, RANK_UNKNOWN);
	finish(&c);
}

/* One task of Slurm spawns workers that tell nobody their rank: the task's number is not theirs. */
static void workers_of_one_slurm_task(void **state)
{
	struct child c =
		act("actor", SLURM, "LIB run LIB ready wait end run LIB ready child ready wait end wait end wait");
	const struct target_proc *p;
	uint32_t worker[2];

	wait_ready(&c, 3);
	for (int i = 0; i < 2; i++)
		worker[i] = child_of(c.pid, i);
	assert_int_equal(target_set_scan(*state), 0);
	/* Nothing shows yet which of them works: the topmost with the library */
	p = listed(*state, worker[0]);
	assert_true(p && p->is_child && p->rank_tgid == (uint32_t)c.pid);
	target_set_has_comm(*state, worker[0]);
	assert_int_equal(target_set_scan(*state), 0);
	p = listed(*state, worker[0]);
	assert_true(p && !p->is_child && p->rank == 1 && !p->rank_ambiguous);
	target_set_has_comm(*state, worker[1]);
	assert_int_equal(target_set_scan(*state), 0);
	for (int i = 0; i < 2; i++) {
		p = listed(*state, worker[i]);
		assert_true(p && !p->is_child && p->rank == -1 && p->rank_ambiguous && p->rank_source == RANK_UNKNOWN);
		assert_string_equal(p->job, "slurm-77.0");
	}
	p = listed(*state, child_of(worker[1], 0));
	assert_true(p && p->is_child && p->rank == -1 && p->rank_tgid == worker[1]);
	assert_int_equal(listed(*state, c.pid)->rank, -1);
	finish(&c);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reads_what_was_set_late),
		TEST(reads_what_python_set_late),
		TEST(asks_again_at_the_first_communicator),
		TEST(finds_the_rank_in_a_slurm_task),
		TEST(torchrun_under_srun),
		TEST(workers_of_one_slurm_task),
	};

	if (system("cc --version >/dev/null 2>&1") || geteuid()) {
		fprintf(stderr, "skipped: needs a C compiler (cc) and root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
