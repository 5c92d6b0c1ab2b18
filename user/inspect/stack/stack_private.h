/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_private.h - what the parts of a stack reading share: the job as it travels to the worker and back, and what
 * the parser has at hand there: the target's present pages, its mappings, the files behind them.
 */
#ifndef RANKTRACE_TARGET_STACK_PRIVATE_H
#define RANKTRACE_TARGET_STACK_PRIVATE_H

#include "inspect/elf/elf_file.h"
#include "inspect/reader/memory.h"
#include "inspect/stack/stack.h"

#include <libelf.h>
#include <elfutils/libdw.h>

struct stack_task {           /* as seen in /proc, before the worker looks */
	uint32_t tid, ns_tid; /* ns_tid: as the process itself knows it */
	uint64_t pc, sp;      /* 0: running, no user stack */
};

struct stack_arg {
	uint32_t pid, n;
	uint32_t want_native; /* 0 after the worker died of a file */
	uint32_t budget_ms;
	char exe[512]; /* path of the program */
	struct stack_task tasks[STACK_THREADS_MAX];
};

/* The answer: this, then for each task a row, its native frames and its Python frames. */
struct stack_out {
	int32_t python_version;
	uint32_t python_unknown;
};
struct stack_row {
	uint32_t tid;
	uint16_t n_native, n_python;
	uint16_t native_end, python_end;
	uint32_t sampled;
};

/* ---- stack_memory.c: the target's memory, page by page, only what is present ---- */
struct stack_memory;
int stack_memory_open(const struct memory *of, struct stack_memory **ret); /* `of` is borrowed. 0 or -errno */
void stack_memory_free(struct stack_memory *m);
void stack_memory_renew(struct stack_memory *m); /* pages are read afresh */
bool stack_memory_read(struct stack_memory *m, uint64_t addr, void *to, size_t len);
/* What was there at another moment stands in for the memory from `addr` on. `bytes` is borrowed; len 0: nothing any
 * more. */
void stack_memory_overlay(struct stack_memory *m, uint64_t addr, const void *bytes, size_t len);
static inline bool stack_word_read(struct stack_memory *m, uint64_t addr, uint64_t *ret)
{
	return stack_memory_read(m, addr, ret, sizeof(*ret));
}

/* ---- stack_files.c: mapped files, opened once in a worker's life ---- */
struct stack_file;
/* The file behind a mapping of the process at work, NULL where there is none or it cannot be used. */
struct stack_file *stack_file_get(const struct mapping *row);
/* Begin of a process: files that no one asked for lately may be closed. */
void stack_files_trim(void);
/* Unwind information, NULL none. */
Dwarf_CFI *stack_file_cfi(struct stack_file *f);
/* Between offsets in the file and addresses in the image. */
bool stack_file_vaddr(const struct stack_file *f, uint64_t offset, uint64_t *ret);
bool stack_file_offset(const struct stack_file *f, uint64_t vaddr, uint64_t *ret);
/* Bytes of the file, NULL beyond its end. */
const uint8_t *stack_file_bytes(const struct stack_file *f, uint64_t offset, size_t len);
/* Names of functions at offsets, as elf_file_name(). */
int stack_file_names(struct stack_file *f, const uint64_t offsets[], size_t n, struct elf_name *ret);
/* Addresses of data symbols in the image; 0 where not defined. Returns how many. */
size_t stack_file_symbols(struct stack_file *f, const char *const names[], size_t n, uint64_t *ret);

/* ---- stack_native.c ---- */
struct stack_process {
	const char *exe; /* path of its program; "" not known */
	const struct maps *maps;
	struct stack_memory *memory;
};
struct stack_pc {
	uint64_t pc;
	bool guessed;
};
struct stack_regs { /* by DWARF's numbers */
	uint64_t pc, value[34];
	uint64_t known; /* bits */
};
struct stack_regs stack_regs_of(uint64_t pc, uint64_t sp); /* of a sleeping thread nothing more is known */
/* Fills pcs (innermost first); *ret_n frames. Says why it ended. */
enum stack_end stack_unwind(const struct stack_process *p, const struct stack_regs *from, struct stack_pc pcs[],
			    size_t max, size_t *ret_n);

/* ---- stack_sample.c: threads that run; sampled in a reader, unwound in the parser ---- */
#define STACK_SAMPLES_MAX 64 /* threads of one process */
struct stack_sample {
	uint32_t tid, asleep;   /* asleep: by the time of its sample; only pc and sp are known */
	int64_t err;            /* errno of the kernel's refusal, 0 */
	struct stack_regs regs; /* pc 0: no sample came */
	uint64_t sp, stack_len;
	const uint8_t *stack; /* from sp on */
};
struct stack_samples {
	size_t n;
	struct stack_sample row[STACK_SAMPLES_MAX];
	uint8_t *bytes; /* of all stacks */
};
/* Those of the threads of `a` that ran, as a new file. 0, -errno; -ENODATA: none ran. */
int stack_samples_fetch(struct reader *r, const struct stack_arg *a, unsigned deadline_ms, int *ret_fd);
/* Out of that file. What does not fit together is left out. */
void stack_samples_load(int fd, struct stack_samples *ret);
void stack_samples_free(struct stack_samples *s);

/* ---- stack_python.c, python_layout.c ---- */
struct python_layout { /* offsets in bytes; python_layout.def says what each is */
#define PYTHON_FIELD(name) uint32_t name;
#include "inspect/stack/python_layout.def"
#undef PYTHON_FIELD
};
#define PYTHON_NONE UINT32_MAX /* this version has no such field */

struct python_runtime {
	int version;                              /* 0x030c01, 0 no interpreter found */
	bool unknown;                             /* one was found, but nothing can be read of it */
	uint64_t runtime;                         /* address of _PyRuntime in the process */
	uint64_t code_type, str_type, bytes_type; /* addresses of the types; 0 not known */
	struct python_layout layout;
};
void python_runtime_find(const struct stack_process *p, struct python_runtime *ret);
/* From what stands at the start of _PyRuntime; false: it is not of that version, or no sense. */
bool python_layout_debug(const uint8_t *bytes, size_t len, int *ret_version, struct python_layout *ret);
/* From the table. */
bool python_layout_table(int version, struct python_layout *ret);

struct python_thread {
	uint64_t state, frame;
	uint32_t ns_tid;
	uint64_t pthread;
};
/* Threads of all interpreters. Returns how many (at most max). */
size_t python_threads_list(const struct stack_process *p, const struct python_runtime *rt, struct python_thread *ret,
			   size_t max);
/* Learns tids from struct pthread where the interpreter does not keep them. */
void python_threads_match(const struct stack_process *p, struct python_thread *threads, size_t n,
			  const struct stack_task *tasks, size_t n_tasks);
enum stack_end python_frames_read(const struct stack_process *p, const struct python_runtime *rt, uint64_t frame,
				  struct stack_python_frame *ret, size_t max, size_t *ret_n);

/* ---- python_lines.c: pure ---- */
/* The line of the instruction at byte `at` of a code object (3.9: co_lnotab; later: co_linetable); 0 unknown. */
int python_line(int version, const uint8_t *table, size_t len, int first_line, int64_t at);

/* ---- stack_worker.c ---- */
int stack_op(struct reader_job *job);

#endif
