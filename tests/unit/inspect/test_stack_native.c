/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stack_native.c - native stacks of small programs built here in several ways, against the return addresses that
 * the program itself finds by following its own frames while it is awake; the target is neither stopped, woken nor
 * grown; files that are damaged while they are mapped cost nothing but the answer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "inspect/stack/stack.h"
#include "inspect/stack/stack_private.h"

/*
 * A chain of calls with locals, callee-saved registers in use, a callback through libc and a frame of variable size,
 * at whose end it tells its return addresses and goes to sleep; the other thread never sleeps.
 */
static const char program[] =
	"#define _GNU_SOURCE\n"
	"#include <execinfo.h>\n#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
	"#include <alloca.h>\n#include <unistd.h>\n#include <poll.h>\n#include <signal.h>\n"
	"#define KEEP __attribute__((noinline, noclone))\n"
	"volatile int sink; static volatile int spin = 1;\n"
	"#ifdef OWN_CALL\n"
	"static KEEP long own_poll(void) { long r; register long t __asm__(\"r10\") = 0; (void)t;\n"
	"  __asm__ volatile(\"syscall\" : \"=a\"(r) : \"0\"(34L) : \"rcx\", \"r11\", \"memory\"); sink = r; return r; "
	"}\n"
	"#endif\n"
	/* As in a distribution whose libraries keep frame pointers and a program that does not; old frames in what is
	   not filled. */
	"#ifdef MIXED\n"
	"#define FP __attribute__((optimize(\"no-omit-frame-pointer\"), noinline, noclone))\n"
	"static FP int deep2(int n) { volatile int l[8]; l[n] = n; return l[n] + sink; }\n"
	"static FP int deep1(int n) { volatile int l[8]; l[n] = deep2(n); return l[n] + sink; }\n"
	"static FP long own_poll(void) { long r; char l[400]; __asm__ volatile(\"\" : : \"r\"(l) : \"memory\");\n"
	"  __asm__ volatile(\"syscall\" : \"=a\"(r) : \"0\"(34L) : \"rcx\", \"r11\", \"memory\"); sink = r + l[3]; "
	"return r; }\n"
	"long (*call)(void) = own_poll;\n" /* as through the linker's table */
	"#endif\n"
	"KEEP int innermost(int x) { void *a[64]; int n = backtrace(a, 64); sink = x;\n"
	"  for (int i = 1; i < n; i++) printf(\"%p\\n\", a[i]);\n"
	"  printf(\"end\\n\"); fflush(stdout);\n"
	"#ifdef MIXED\n"
	"  sink = deep1(3); call();\n"
	"#elif defined(OWN_CALL)\n"
	"  own_poll();\n"
	"#else\n"
	"  poll(0, 0, -1);\n"
	"#endif\n"
	"  return sink + x; }\n"
	"KEEP int fourth(int a, int b, int c, int d, int e, int f, int g, int h)\n"
	"{ int l[40]; memset(l, a, sizeof(l)); int r = innermost(b + l[7]) + c * d + e * f + g * h + l[3]; sink = r; "
	"return r + sink; }\n"
	"KEEP int third(int n) { char *p = alloca(n * 16 + sink); memset(p, n, n * 16);\n"
	"  int r = fourth(n, 2, 3, 4, 5, 6, 7, 8) + p[n]; sink = r; return r; }\n"
	"static int compare(const void *a, const void *b) { static int once; if (!once++) sink = third(9);\n"
	"  return *(const int *)a - *(const int *)b; }\n"
	"KEEP int second(int n) { int v[3] = { 3, 1, n }; qsort(v, 3, sizeof(v[0]), compare); return v[0] + sink; }\n"
	"static void handler(int s) { sink = second(s); }\n"
	/* The signal comes at the first instruction of a function, right behind one with other rules. */
	"#ifdef __x86_64__\n"
	"__asm__(\".text\\nbefore: .cfi_startproc\\n.cfi_def_cfa_offset 64\\nret\\n.cfi_endproc\\n\"\n"
	"        \".type trap, @function\\ntrap: .cfi_startproc\\nud2\\nret\\n.cfi_endproc\\n\");\n"
	"void trap(void);\n"
	"#else\n"
	"static void trap(void) { raise(SIGILL); }\n"
	"#endif\n"
	"KEEP int first(int n) { signal(SIGILL, handler); trap(); return sink + n; }\n"
	"static void *spinner(void *a) { while (spin) ; return a; }\n"
	"int main(void) { pthread_t t; pthread_create(&t, 0, spinner, 0); return first(1) + sink; }\n";

/* Not exact: the innermost function's own rules need the frame pointer, which no one outside knows, so that the call
 * which led there is searched for; all beyond it is marked a guess. */
static const struct {
	const char *flags;
	bool exact;
	const char *wait;
} builds[] = {
	{ "-O2 -fomit-frame-pointer", true, "poll" },
	{ "-O2 -fno-omit-frame-pointer", false, "poll" },
	{ "-O0", false, "poll" },
	{ "-O3 -static", true, "poll" },
	{ "-O2 -fPIE -pie -s", true, "poll" },
	{ "-O1 -fno-omit-frame-pointer -DOWN_CALL", false, "pause" }, /* the sleeper has a frame pointer, too */
#ifdef __x86_64__
	{ "-O2 -fomit-frame-pointer -DMIXED", false, "pause" }, /* the sleeper alone has one */
#endif
};

static char dir[64];
static struct reader *reader;

struct target {
	pid_t pid;
	size_t n;
	uint64_t said[64]; /* return addresses, innermost first */
};

static int sh(const char *format, const char *a, const char *b)
{
	char command[512];

	snprintf(command, sizeof(command), format, a, b);
	return system(command);
}

static void write_file(const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/ranktrace-stack-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	write_file("chain.c", program);
	return reader_open(&reader);
}

static int teardown(void **state)
{
	(void)state;
	reader_free(reader);
	return sh("rm -rf %s%s", dir, "");
}

/* Between its last word and its sleep it still runs. */
static void wait_asleep(pid_t pid)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	for (int asleep = 0, i = 0; asleep < 3 && i < 1000; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		close(fd);
		asleep = n > 0 && text[0] >= '0' && text[0] <= '9' ? asleep + 1 : 0;
		usleep(20000);
	}
}

static void target_start(struct target *t, const char *name)
{
	char path[128], line[64];
	int out[2];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(pipe(out), 0);
	t->n = 0;
	t->pid = fork();
	if (!t->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves no spinning thread behind */
		dup2(out[1], 1);
		execl(path, path, NULL);
		_exit(127);
	}
	close(out[1]);
	FILE *f = fdopen(out[0], "r");

	while (fgets(line, sizeof(line), f) && strcmp(line, "end\n") && t->n < 64)
		t->said[t->n++] = strtoull(line, NULL, 16);
	fclose(f);
	wait_asleep(t->pid);
}

static void target_stop(struct target *t)
{
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
}

static const struct stack_thread *thread_of(const struct target_stacks *s, uint32_t tid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->threads[i].tid == tid)
			return &s->threads[i];
	return NULL;
}

/* The sleeper's frames end with what the program said, whole. */
static void check_chain(const struct target *t, const struct stack_thread *th, bool exact, const char *flags)
{
	size_t from = th->n_native - t->n;

	assert_true(t->n >= 8);
	if (th->native_end != STACK_WHOLE || th->n_native < t->n + 1 || th->n_native > t->n + 4)
		fail_msg("%s: %zu frames, it says %zu; %s", flags, th->n_native, t->n, stack_end_text(th->native_end));
	for (size_t i = 0; i < t->n; i++)
		if (th->native[from + i].pc != t->said[i])
			fail_msg("%s: frame %zu of %zu at %#lx, it says %#lx", flags, i, t->n,
				 (long)th->native[from + i].pc, (long)t->said[i]);
	assert_int_equal(th->native[0].guessed, 0);
	assert_int_equal(th->native[th->n_native - 1].guessed, !exact);
	if (!strstr(flags, " -s")) {
		const char *names[] = { "innermost", "fourth", "third", "compare" };

		for (int i = 0; i < 4; i++)
			assert_string_equal(th->native[from - 1 + i].func, names[i]);
	}
}

static void build(const char *flags, const char *name)
{
	char command[512];

	snprintf(command, sizeof(command), "cc %s -pthread -o %s/%s %s/chain.c", flags, dir, name, dir);
	assert_int_equal(system(command), 0);
}

/* A sample of it, whole up to the thread's begin; none on a machine so busy that it did not run meanwhile. */
static bool check_runner(const struct stack_thread *t)
{
	assert_int_equal(t->state, 'R');
	if (t->native_end == STACK_RUNNING || t->native_end == STACK_NO_SAMPLE) {
		assert_int_equal(t->n_native, 0);
		return false;
	}
	assert_true(t->sampled);
	assert_int_equal(t->native_end, STACK_WHOLE);
	assert_true(t->n_native >= 2);
	if (*t->native[0].func) /* some builds have no symbols */
		assert_string_equal(t->native[0].func, "spinner");
	return true;
}

/* On a busy machine the first sample may run out of its time: that is reported, and asked again. */
static void stacks_read(pid_t pid, struct target_stacks *s)
{
	bool late = true;

	for (int i = 0; late && i < 20; i++) {
		if (i)
			target_stacks_free(s);
		assert_int_equal(target_stacks_read(reader, pid, STACK_DEADLINE_MS, s), 0);
		late = false;
		for (size_t k = 0; k < s->n; k++)
			late |= s->threads[k].native_end == STACK_NO_TIME || s->threads[k].python_end == STACK_NO_TIME;
	}
}

static void chains(void **state)
{
	size_t n_sampled = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
		struct target t;
		struct target_stacks s;

#ifndef __x86_64__
		if (!builds[i].exact)
			continue;
#endif
		build(builds[i].flags, "chain");
		target_start(&t, "chain");
		stacks_read(t.pid, &s);
		assert_int_equal(s.n, 2);
		const struct stack_thread *sleeper = thread_of(&s, t.pid), *runner = &s.threads[sleeper == s.threads];

		check_chain(&t, sleeper, builds[i].exact, builds[i].flags);
		assert_int_equal(sleeper->state, 'S');
		assert_string_equal(sleeper->wait, builds[i].wait);
		assert_non_null(sleeper->kernel);
		assert_int_equal(sleeper->python_end, STACK_NO_PYTHON);
		n_sampled += check_runner(runner);
		target_stacks_free(&s);
		target_stop(&t);
	}
	print_message("running threads: %zu of %zu sampled\n", n_sampled, sizeof(builds) / sizeof(builds[0]));
}

static void status_of(pid_t pid, char *to, size_t size)
{
	char path[64], line[256];
	size_t used = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "r");

	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmPTE", 5) || !strncmp(line, "VmRSS", 5) || !strncmp(line, "VmSwap", 6) ||
		    !strncmp(line, "TracerPid", 9) || !strncmp(line, "voluntary", 9))
			used += snprintf(to + used, size - used, "%s", line);
	fclose(f);
}

/* Its page tables, its memory and the number of times it went to sleep stay the same. */
static void leaves_it_alone(void **state)
{
	char before[1024], after[1024];
	struct target t;
	struct target_stacks s;

	(void)state;
	build("-O2", "alone");
	target_start(&t, "alone");
	status_of(t.pid, before, sizeof(before));
	for (int i = 0; i < 50; i++) {
		assert_int_equal(target_stacks_read(reader, t.pid, STACK_DEADLINE_MS, &s), 0);
		target_stacks_free(&s);
	}
	status_of(t.pid, after, sizeof(after));
	assert_string_equal(before, after);
	target_stop(&t);
	assert_int_equal(target_stacks_read(reader, t.pid, STACK_DEADLINE_MS, &s), -ESRCH);
}

/* Reading never makes a page. */
static void only_what_is_there(void **state)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *area = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte[16];
	struct stack_memory *m = NULL;
	struct memory memory;
	int fds[MEMORY_FILES];
	unsigned char in[4];

	(void)state;
	area[page] = 7;
	assert_int_equal(memory_files_open(getpid(), fds), 0);
	assert_int_equal(memory_open(fds, &memory), 0);
	assert_int_equal(stack_memory_open(&memory, &m), 0);
	assert_true(stack_memory_read(m, (uintptr_t)area + page, byte, 1) && byte[0] == 7);
	assert_false(stack_memory_read(m, (uintptr_t)area, byte, 1));
	assert_false(stack_memory_read(m, (uintptr_t)area + 2 * page - 8, byte, 16));
	assert_false(stack_memory_read(m, 0, byte, 1));
	assert_false(stack_memory_read(m, UINT64_MAX - 8, byte, 16));
	assert_int_equal(mincore(area, 4 * page, in), 0);
	assert_true(!(in[0] & 1) && (in[1] & 1) && !(in[2] & 1) && !(in[3] & 1));
	stack_memory_free(m);
	memory_free(&memory);
	for (int i = 0; i < MEMORY_FILES; i++)
		close(fds[i]);
	munmap(area, 4 * page);
}

/* ---- files that are damaged while they are mapped ---- */

static uint64_t random_next(uint64_t *s)
{
	*s = *s * 6364136223846793005ull + 1442695040888963407ull;
	return *s >> 33;
}

static void damage(const char *path, const char *original, size_t size, uint64_t seed)
{
	int fd = open(path, O_WRONLY);
	char byte;

	assert_int_equal(pwrite(fd, original, size, 0), size);
	/* The program's own code stays: it is asleep in libc, and what is read of it here is headers and tables. */
	for (int i = 0; i < 40; i++) {
		byte = random_next(&seed);
		pwrite(fd, &byte, 1, i < 4 ? random_next(&seed) % 4096 : random_next(&seed) % size);
	}
	close(fd);
}

static void damaged_files(void **state)
{
	static const char library[] = "#include <unistd.h>\n"
				      "int l2(int x) { char b[64]; b[x] = x; pause(); return b[x + 1]; }\n"
				      "int (*volatile p2)(int) = l2; int l1(int x) { return p2(x) + 1; }\n";
	static const char user[] = "#include <stdio.h>\nint l1(int);\n"
				   "int main(void) { puts(\"end\"); fflush(stdout); return l1(3); }\n";
	char path[128], copy[128 * 1024];
	unsigned whole = 0, other = 0;
	struct target t;
	struct target_stacks s;

	(void)state;
	write_file("lib.c", library);
	write_file("user.c", user);
	assert_int_equal(
		sh("cd %s && cc -O2 -shared -fPIC -o lib.so lib.c && cc -O2 -o user user.c %s/lib.so", dir, dir), 0);
	snprintf(path, sizeof(path), "%s/lib.so", dir);
	int fd = open(path, O_RDONLY);
	ssize_t size = read(fd, copy, sizeof(copy));

	close(fd);
	target_start(&t, "user");
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct reader *r;
		uint64_t begin = clock_monotonic_ns();

		damage(path, copy, size, seed);
		assert_int_equal(reader_open(&r), 0);
		assert_int_equal(target_stacks_read(r, t.pid, STACK_DEADLINE_MS, &s), 0);
		assert_true(clock_monotonic_ns() - begin < 6000000000ull);
		assert_true(s.n == 1 && s.threads[0].n_native <= STACK_FRAMES_MAX && s.threads[0].kernel);
		*(s.threads[0].native_end == STACK_WHOLE ? &whole : &other) += 1;
		target_stacks_free(&s);
		reader_free(r);
	}
	printf("damaged files: %u stacks whole, %u cut\n", whole, other);
	assert_true(whole && other);
	/* Cut short: the worker dies of it, the kernel's part remains. */
	assert_int_equal(truncate(path, 4096), 0);
	assert_int_equal(target_stacks_read(reader, t.pid, STACK_DEADLINE_MS, &s), 0);
	assert_true(s.n == 1 && s.threads[0].kernel && s.threads[0].native_end != STACK_WHOLE);
	target_stacks_free(&s);
	target_stop(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains),
		cmocka_unit_test(leaves_it_alone),
		cmocka_unit_test(only_what_is_there),
		cmocka_unit_test(damaged_files),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
