/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_python.c - the Python frames of a process, read out of its memory. Everything read is checked against the type
 * it should have and has a limit: the target may be running, and its memory is its own.
 */
#include "inspect/stack/stack_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERPRETERS_MAX 16
#define LINES_MAX 65536u     /* bytes of a line table */
#define NAME_MAX_CHARS 4096u /* of a path or a name; a longer one is none */
#define STR_CHARS 256u       /* of it that are read */
#define OWNED_BY_C 3         /* from 3.12 on: a frame that only marks where C called in */
#define PTHREAD_BYTES 2048u

static bool read_pointer(const struct stack_process *p, uint64_t addr, uint64_t *ret)
{
	return stack_word_read(p->memory, addr, ret) && *ret && *ret % 4 == 0 && *ret < 1ull << 56;
}

/* ---- the interpreter ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "libpython3.9.so.1.0", "python3.10": 0x030900; for versions that do not say it in a symbol. */
static int version_of_name(const char *path)
{
	const char *at = strstr(base_name(path), "python");
	unsigned major, minor;

	if (!at || sscanf(at, "python%u.%u", &major, &minor) != 2 || major > 3 || minor > 255)
		return 0;
	return major << 16 | minor << 8;
}

static const char *const symbol_names[] = { "_PyRuntime", "Py_Version", "PyCode_Type", "PyUnicode_Type",
					    "PyBytes_Type" };
enum { SYM_RUNTIME, SYM_VERSION, SYM_CODE, SYM_STR, SYM_BYTES, N_SYMS };

static int version_in_file(struct stack_file *f, uint64_t vaddr)
{
	uint64_t offset, version = 0;
	const uint8_t *bytes = vaddr && stack_file_offset(f, vaddr, &offset) ? stack_file_bytes(f, offset, 8) : NULL;

	if (bytes)
		memcpy(&version, bytes, sizeof(version));
	return version >> 24 == 3 ? (int)(version >> 8) : 0;
}

/* True: the file holds the runtime. */
static bool runtime_in_file(const struct mapping *row, struct python_runtime *ret)
{
	struct stack_file *f = stack_file_get(row);
	uint64_t sym[N_SYMS], vaddr;

	if (!f || !stack_file_symbols(f, symbol_names, N_SYMS, sym) || !sym[SYM_RUNTIME] ||
	    !stack_file_vaddr(f, row->offset, &vaddr))
		return false;
	uint64_t bias = row->start - vaddr;

	ret->runtime = bias + sym[SYM_RUNTIME];
	ret->code_type = sym[SYM_CODE] ? bias + sym[SYM_CODE] : 0;
	ret->str_type = sym[SYM_STR] ? bias + sym[SYM_STR] : 0;
	ret->bytes_type = sym[SYM_BYTES] ? bias + sym[SYM_BYTES] : 0;
	ret->version = version_in_file(f, sym[SYM_VERSION]);
	if (!ret->version)
		ret->version = version_of_name(row->path);
	return true;
}

static bool layout_find(const struct stack_process *p, struct python_runtime *rt)
{
	uint8_t bytes[1024];

	if (stack_memory_read(p->memory, rt->runtime, bytes, sizeof(bytes)) &&
	    python_layout_debug(bytes, sizeof(bytes), &rt->version, &rt->layout))
		return true;
	return python_layout_table(rt->version, &rt->layout);
}

void python_runtime_find(const struct stack_process *p, struct python_runtime *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < p->maps->n; i++) {
		const struct mapping *row = &p->maps->rows[i];
		bool named = strstr(base_name(row->path), "python"), is_exe = *p->exe && !strcmp(row->path, p->exe);

		if (!row->inode || !(row->prot & MAPPING_EXEC) || !(named || is_exe))
			continue;
		if (runtime_in_file(row, ret)) {
			ret->unknown = !layout_find(p, ret);
			return;
		}
		/* An extension module may be called so too, or the program that only loads libpython. */
		ret->unknown |= !strncmp(base_name(row->path), "libpython", 9) || (is_exe && named);
	}
}

/* ---- threads ---- */

static void thread_add(const struct stack_process *p, const struct python_layout *l, uint64_t state,
		       struct python_thread *ret)
{
	uint64_t tid = 0;

	*ret = (struct python_thread){ .state = state };
	if (l->thread_tid != PYTHON_NONE && stack_word_read(p->memory, state + l->thread_tid, &tid) && tid < UINT32_MAX)
		ret->ns_tid = tid;
	stack_word_read(p->memory, state + l->thread_pthread, &ret->pthread);
	if (!read_pointer(p, state + l->thread_frame, &ret->frame))
		ret->frame = 0; /* lint: either read may fail */
	else if (l->cframe_frame != PYTHON_NONE && !read_pointer(p, ret->frame + l->cframe_frame, &ret->frame))
		ret->frame = 0;
}

size_t python_threads_list(const struct stack_process *p, const struct python_runtime *rt, struct python_thread *ret,
			   size_t max)
{
	const struct python_layout *l = &rt->layout;
	uint64_t interp, state;
	size_t n = 0;

	bool more = read_pointer(p, rt->runtime + l->interpreters_head, &interp);

	for (int i = 0; more && i < INTERPRETERS_MAX; i++) {
		bool thread = read_pointer(p, interp + l->threads_head, &state);

		for (; thread && n < max; n++) {
			thread_add(p, l, state, &ret[n]);
			thread = read_pointer(p, state + l->thread_next, &state);
		}
		more = read_pointer(p, interp + l->interpreter_next, &interp);
	}
	return n;
}

#if defined(__x86_64__)
#define PTHREAD_TID 720u /* struct pthread.tid of glibc, as long as there is one: tried first, as good as any other */
#else
#define PTHREAD_TID 208u
#endif

/* Number of the task with this tid, n where there is none. */
static size_t task_find(const struct stack_task *tasks, size_t n, uint32_t ns_tid)
{
	size_t i = 0;

	while (i < n && tasks[i].ns_tid != ns_tid)
		i++;
	return i;
}

/* How many different tasks' tids the threads have at this offset of their struct pthread. */
static size_t offset_score(const struct stack_process *p, struct python_thread *threads, size_t n,
			   const struct stack_task *tasks, size_t n_tasks, uint32_t offset, bool take)
{
	bool used[STACK_THREADS_MAX + 1] = { false };
	size_t score = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t tid;

		if (!threads[i].pthread ||
		    !stack_memory_read(p->memory, threads[i].pthread + offset, &tid, sizeof(tid)))
			continue;
		size_t task = task_find(tasks, n_tasks, tid);

		if (task == n_tasks || used[task])
			continue;
		used[task] = true;
		score++;
		if (take && task_find(tasks, n_tasks, threads[i].ns_tid) == n_tasks)
			threads[i].ns_tid = tid;
	}
	return score;
}

/* The C library keeps a thread's tid in its struct pthread, whose address the interpreter does keep: the offset is the
 * one at which most threads have a tid of this process. Serves 3.9 and 3.10, and a child after fork. */
void python_threads_match(const struct stack_process *p, struct python_thread *threads, size_t n,
			  const struct stack_task *tasks, size_t n_tasks)
{
	uint32_t best_offset = PTHREAD_TID;
	size_t missing = 0;

	for (size_t i = 0; i < n; i++)
		missing += task_find(tasks, n_tasks, threads[i].ns_tid) == n_tasks;
	if (!missing)
		return;
	size_t best = offset_score(p, threads, n, tasks, n_tasks, best_offset, false);

	for (uint32_t offset = 0; best < n && offset < PTHREAD_BYTES; offset += sizeof(uint32_t)) {
		size_t score = offset_score(p, threads, n, tasks, n_tasks, offset, false);

		if (score > best) {
			best = score;
			best_offset = offset;
		}
	}
	if (best)
		offset_score(p, threads, n, tasks, n_tasks, best_offset, true);
}

/* ---- objects ---- */

static bool has_type(const struct stack_process *p, const struct python_layout *l, uint64_t object, uint64_t type)
{
	uint64_t found;

	return object && stack_word_read(p->memory, object + l->object_type, &found) && (!type || found == type);
}

static size_t utf8_put(uint32_t c, char *to)
{
	if (c < 0x80) {
		to[0] = c < ' ' || c == 0x7f ? '?' : (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = 0xc0 | c >> 6;
		to[1] = 0x80 | (c & 63);
		return 2;
	}
	if (c < 0x10000) {
		to[0] = 0xe0 | c >> 12;
		to[1] = 0x80 | (c >> 6 & 63);
		to[2] = 0x80 | (c & 63);
		return 3;
	}
	to[0] = 0xf0 | (c >> 18 & 7);
	to[1] = 0x80 | (c >> 12 & 63);
	to[2] = 0x80 | (c >> 6 & 63);
	to[3] = 0x80 | (c & 63);
	return 4;
}

/* The bits that say how a str is stored: behind 2, 8 or 16 bits of "interned", by version and build. */
static bool str_kind(uint32_t state, unsigned *ret_width, bool *ret_ascii)
{
	static const unsigned shifts[] = { 2, 8, 16 };

	for (int i = 0; i < 3; i++) {
		uint32_t s = state >> shifts[i];
		unsigned width = s & 7;

		if (width == 1 || width == 2 || width == 4) {
			*ret_width = width;
			*ret_ascii = s >> 4 & 1;
			return s >> 3 & 1; /* compact: the characters follow */
		}
	}
	return false;
}

/* n characters of `width` bytes as UTF-8; returns its length. */
static size_t utf8_make(const uint8_t *data, size_t n, unsigned width, char *to)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t c = 0;

		memcpy(&c, data + i * width, width);
		used += utf8_put(c, to + used);
	}
	return used;
}

/* Whole characters that fit: of a longer text the beginning, or with `tail` "..." and the end. */
static void text_fit(const char *text, size_t len, bool cut, bool tail, char *to, size_t size)
{
	cut |= len >= size;
	size_t skip = 0, keep = len;

	if (cut && tail) {
		skip = len > size - 4 ? len - (size - 4) : 0;
		while (skip < len && (text[skip] & 0xc0) == 0x80)
			skip++;
		keep = len - skip;
	} else if (len >= size) {
		keep = size - 1;
		while (keep && (text[keep] & 0xc0) == 0x80)
			keep--;
	}
	snprintf(to, size, "%s%.*s", cut && tail ? "..." : "", (int)keep, text + skip);
}

/* At most size - 1 bytes of a str. */
static bool str_read(const struct stack_process *p, const struct python_runtime *rt, uint64_t object, bool tail,
		     char *to, size_t size)
{
	const struct python_layout *l = &rt->layout;
	uint8_t data[4 * STR_CHARS];
	char text[4 * STR_CHARS];
	uint64_t length, skip = 0;
	uint32_t state;
	unsigned width;
	bool ascii;

	if (!has_type(p, l, object, rt->str_type) || !stack_word_read(p->memory, object + l->str_length, &length) ||
	    !stack_memory_read(p->memory, object + l->str_state, &state, sizeof(state)) || length > NAME_MAX_CHARS ||
	    !str_kind(state, &width, &ascii))
		return false;
	bool cut = length > STR_CHARS;

	if (cut) {
		skip = tail ? length - STR_CHARS : 0;
		length = STR_CHARS;
	}
	if (!stack_memory_read(p->memory, object + (ascii ? l->str_ascii : l->str_compact) + skip * width, data,
			       length * width))
		return false;
	text_fit(text, utf8_make(data, length, width, text), cut, tail, to, size);
	return true;
}

static int line_read(const struct stack_process *p, const struct python_runtime *rt, uint64_t code, int first_line,
		     int64_t at)
{
	const struct python_layout *l = &rt->layout;
	uint64_t table, size;
	int line = 0;

	if (!read_pointer(p, code + l->code_lines, &table) || !has_type(p, l, table, rt->bytes_type) ||
	    !stack_word_read(p->memory, table + l->bytes_size, &size) || size > LINES_MAX)
		return 0;
	uint8_t *bytes = malloc(size + 1);

	if (bytes && stack_memory_read(p->memory, table + l->bytes_data, bytes, size))
		line = python_line(rt->version, bytes, size, first_line, at);
	free(bytes);
	return line;
}

/* ---- frames ---- */

/* Byte of the instruction in the code; negative: not begun. */
static bool instruction_at(const struct stack_process *p, const struct python_runtime *rt, uint64_t frame,
			   uint64_t code, int64_t *ret)
{
	const struct python_layout *l = &rt->layout;
	uint64_t instr;
	int32_t last;

	if (rt->version < 0x030b00) {
		if (!stack_memory_read(p->memory, frame + l->frame_instr, &last, sizeof(last)))
			return false;
		*ret = rt->version >= 0x030a00 ? 2 * (int64_t)last : last;
		return true;
	}
	if (!stack_word_read(p->memory, frame + l->frame_instr, &instr))
		return false;
	*ret = (int64_t)(instr - (code + l->code_bytes));
	return true;
}

/* 1: filled, 0: a frame without code (a mark of the interpreter's own), -1: no sense. */
static int frame_read(const struct stack_process *p, const struct python_runtime *rt, uint64_t frame,
		      struct stack_python_frame *ret)
{
	const struct python_layout *l = &rt->layout;
	uint64_t code, file, name;
	int32_t first_line;
	int64_t at;
	uint8_t owner = 0, entry = 0;

	if (l->frame_owner != PYTHON_NONE && !stack_memory_read(p->memory, frame + l->frame_owner, &owner, 1))
		return -1;
	if (rt->version >= 0x030c00 && owner >= OWNED_BY_C)
		return 0;
	if (!stack_word_read(p->memory, frame + l->frame_code, &code))
		return -1;
	code &= ~3ull; /* 3.14: tag bits of a stack reference */
	if (!has_type(p, l, code, rt->code_type) || !read_pointer(p, code + l->code_file, &file) ||
	    !read_pointer(p, code + l->code_name, &name) ||
	    !stack_memory_read(p->memory, code + l->code_first_line, &first_line, sizeof(first_line)))
		return -1;
	if (!str_read(p, rt, name, false, ret->func, sizeof(ret->func)) ||
	    !str_read(p, rt, file, true, ret->file, sizeof(ret->file)))
		return -1;
	ret->line = instruction_at(p, rt, frame, code, &at) ? line_read(p, rt, code, first_line, at) : 0;
	/* Before 3.11 every call runs a loop of its own; from 3.12 on a mark follows instead. */
	if (rt->version < 0x030b00)
		ret->is_entry = 1;
	else if (l->frame_entry != PYTHON_NONE && stack_memory_read(p->memory, frame + l->frame_entry, &entry, 1))
		ret->is_entry = entry == 1;
	return 1;
}

enum stack_end python_frames_read(const struct stack_process *p, const struct python_runtime *rt, uint64_t frame,
				  struct stack_python_frame *ret, size_t max, size_t *ret_n)
{
	const struct python_layout *l = &rt->layout;
	size_t n = 0;

	*ret_n = 0;
	/* Marks and frames alternate at worst. */
	for (size_t steps = 0; frame && steps < 2 * max + 2; steps++) {
		struct stack_python_frame row = { 0 };
		int got = frame_read(p, rt, frame, &row);

		if (got < 0)
			return STACK_BROKEN;
		if (got && n == max)
			return STACK_TOO_DEEP;
		if (got)
			ret[n++] = row;
		else if (n)
			ret[n - 1].is_entry = 1;
		*ret_n = n;
		if (!stack_word_read(p->memory, frame + l->frame_previous, &frame))
			return STACK_UNREADABLE;
	}
	return frame ? STACK_TOO_DEEP : STACK_WHOLE;
}
