/* SPDX-License-Identifier: Apache-2.0
 *
 * stack.h - where every thread of a process is: kernel wait, native frames, Python frames. No ptrace, no signal,
 * no stop: pc and sp of a sleeping thread come from /proc, the rest from its memory and the files it maps, and only
 * pages that are present are read, so that the target's page tables stay as they are. All unwinding is done in the
 * reader's worker: a hostile file kills that one, not us.
 */
#ifndef RANKTRACE_TARGET_STACK_H
#define RANKTRACE_TARGET_STACK_H

#include "inspect/reader/reader.h"

#define STACK_FRAMES_MAX 96    /* of one thread and kind; deeper ones are cut at the outer end */
#define STACK_THREADS_MAX 512  /* of one process */
#define STACK_DEADLINE_MS 1000 /* suits a cold page cache */

enum stack_end {                   /* why a list of frames ends where it does */
		 STACK_WHOLE,      /* at the outermost frame */
		 STACK_RUNNING,    /* on a CPU: its registers cannot be known from outside */
		 STACK_NO_UNWIND,  /* no unwind information for the last frame, or a register it needs is not known */
		 STACK_BROKEN,     /* what was read makes no sense */
		 STACK_UNREADABLE, /* a page that is not there */
		 STACK_TOO_DEEP,   /* STACK_FRAMES_MAX */
		 STACK_NO_TIME,    /* deadline, or no room in the answer */
		 STACK_BLOCKED,    /* the process' mmap_lock is held: its memory cannot be read */
		 STACK_REFUSED,    /* the kernel refused, or the worker died of it */
		 STACK_NO_PYTHON,  /* not a Python thread */
		 STACK_UNKNOWN,    /* Python, but of an unknown version or without its symbols */
		 STACK_NO_SAMPLE,  /* on a CPU, and the kernel gives no sample of it (perf_event_paranoid, CAP_PERFMON,
				      seccomp) */
};

struct stack_native_frame {
	uint64_t pc;      /* return address, but for the innermost */
	uint32_t delta;   /* pc - start of the function, bytes */
	uint32_t guessed; /* 1: found by frame pointers or by looking for a call, not by unwind information */
	char func[128];   /* mangled as it stands, cut; "" unknown */
	char module[48];  /* file name without its directory, "[vdso]", "" none */
};

struct stack_python_frame {
	int32_t line;      /* 0 unknown */
	uint32_t is_entry; /* 1: called from C, by an interpreter loop of its own */
	char func[96];     /* qualified from 3.11 on */
	char file[152];    /* a longer path loses its front: "...tail" */
};

struct stack_thread {
	uint32_t tid;
	char name[16];
	char state;     /* as in /proc/PID/stat; 0 unknown */
	char wait[64];  /* what it waits for in the kernel: "futex", "openat", "page_fault"; "" running */
	char file[256]; /* behind it; "" none or unknown */
	char *kernel;   /* lines "func+0x1/0x2", innermost first; "" none */
	bool sampled;   /* it ran: the native frames are those of one perf sample */
	enum stack_end native_end, python_end;
	size_t n_native, n_python;
	struct stack_native_frame *native; /* innermost first */
	struct stack_python_frame *python;
};

struct target_stacks {
	uint32_t tgid;
	int python_version;  /* 0x030c01; 0 none or unknown */
	bool python_unknown; /* an interpreter is mapped, but cannot be read */
	struct stack_thread *threads;
	size_t n;
	size_t n_left_out; /* threads beyond STACK_THREADS_MAX */
};

/*
 * Every thread of the process. What cannot be had of one thread is its `*_end`, never a failure of the call; -ESRCH
 * gone, -EPERM or -EACCES not allowed to look at it, -ENOMEM. Takes some deadlines at most. stacks_free() afterwards.
 */
int target_stacks_read(struct reader *r, uint32_t tgid, unsigned deadline_ms, struct target_stacks *ret);
/* The same of one thread alone, without its name: a rank has hundreds of threads, and each is read in five files. */
int target_stack_read_thread(struct reader *r, uint32_t tgid, uint32_t tid, unsigned deadline_ms,
			     struct target_stacks *ret);
void target_stacks_free(struct target_stacks *s);

const char *stack_end_text(enum stack_end end); /* "its registers are not known while it runs"; "" STACK_WHOLE */

/*
 * The thread as one text, a frame a line, innermost first, "func (file:line)" and "func (module)"; Python frames stand
 * where the interpreter's loop stands among the native ones. A line that is a guess begins with "? ". Equal texts are
 * equal stacks: no addresses. Cut to whole lines. Returns the number of lines.
 */
int stack_thread_text(const struct stack_thread *t, char *to, size_t size);

#endif
