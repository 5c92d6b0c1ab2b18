/* SPDX-License-Identifier: Apache-2.0
 *
 * stack_native.c - unwinding a sleeping thread of which only pc and sp are known. Rules come from .eh_frame; registers
 * that a function saved come back from the stack, those that no one saved stay unknown. Where a rule needs the frame
 * pointer and it is unknown, the stack is searched for the call that led here; what follows is marked a guess.
 */
#include "inspect/stack/stack_private.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
enum { REG_FP = 6, REG_SP = 7, REG_RA = 16, N_REGS = 17 };
#elif defined(__aarch64__)
enum { REG_FP = 29, REG_SP = 31, REG_RA = 30, N_REGS = 32 };
#else
#error "port stack_native.c: DWARF numbers of the registers"
#endif

#define SEARCH_BYTES 65536u
#define OPS_DEPTH 16
#define ROWS_BACK 64
#define STARTS_MAX 16
#define FRAMES_TRIED 128
#define STACK_BYTES (64u << 20)
#define TRIALS_MAX 64 /* of one search */
#define FP_BEST (FRAMES_TRIED + 2)

struct unwinder {
	const struct stack_process *p;
	uint64_t reg[N_REGS];
	bool known[N_REGS];
	uint64_t pc;
	bool exact; /* pc is an instruction to be executed, not a return address */
	bool guessed;
	bool searching;            /* a guess is being tried: no second one */
	const struct mapping *row; /* of the pc */
	uint64_t begin;            /* of the rules that hold at the pc, in the image; 0 unknown */
};

struct ops_value {
	uint64_t v;
	bool is_value;
};

static bool op_binary(uint8_t atom, uint64_t a, uint64_t b, uint64_t *ret)
{
	switch (atom) {
	case DW_OP_plus: *ret = a + b; return true;
	case DW_OP_minus: *ret = a - b; return true;
	case DW_OP_and: *ret = a & b; return true;
	case DW_OP_or: *ret = a | b; return true;
	case DW_OP_mul: *ret = a * b; return true;
	case DW_OP_shl: *ret = b < 64 ? a << b : 0; return true;
	case DW_OP_shr: *ret = b < 64 ? a >> b : 0; return true;
	case DW_OP_ge: *ret = (int64_t)a >= (int64_t)b; return true;
	case DW_OP_gt: *ret = (int64_t)a > (int64_t)b; return true;
	case DW_OP_le: *ret = (int64_t)a <= (int64_t)b; return true;
	case DW_OP_lt: *ret = (int64_t)a < (int64_t)b; return true;
	case DW_OP_eq: *ret = a == b; return true;
	case DW_OP_ne: *ret = a != b; return true;
	}
	return false;
}

static bool op_register(const struct unwinder *u, uint64_t reg, uint64_t offset, uint64_t *ret)
{
	if (reg >= N_REGS || !u->known[reg])
		return false;
	*ret = u->reg[reg] + offset;
	return true;
}

/* What an operation pushes that takes nothing off the stack. */
static bool op_push(const struct unwinder *u, const Dwarf_Op *op, uint64_t cfa, uint64_t *ret)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31)
		return op_register(u, op->atom - DW_OP_breg0, op->number, ret);
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
		*ret = op->atom - DW_OP_lit0;
		return true;
	}
	switch (op->atom) {
	case DW_OP_bregx: return op_register(u, op->number, op->number2, ret);
	case DW_OP_call_frame_cfa: *ret = cfa; return true;
	case DW_OP_addr:
	case DW_OP_const1u:
	case DW_OP_const2u:
	case DW_OP_const4u:
	case DW_OP_const8u:
	case DW_OP_constu:
	case DW_OP_const1s:
	case DW_OP_const2s:
	case DW_OP_const4s:
	case DW_OP_const8s:
	case DW_OP_consts: *ret = op->number; return true;
	}
	return false;
}

/* The expressions that occur in unwind tables; anything else is a "cannot". */
static bool ops_run(const struct unwinder *u, const Dwarf_Op *ops, size_t n, uint64_t cfa, struct ops_value *ret)
{
	uint64_t stack[OPS_DEPTH];
	size_t top = 0;

	ret->is_value = false;
	for (size_t i = 0; i < n; i++) {
		uint64_t v;

		if (top < OPS_DEPTH && op_push(u, &ops[i], cfa, &v))
			stack[top++] = v;
		else if (ops[i].atom == DW_OP_plus_uconst && top)
			stack[top - 1] += ops[i].number;
		else if (ops[i].atom == DW_OP_deref && top && stack_word_read(u->p->memory, stack[top - 1], &v))
			stack[top - 1] = v;
		else if (ops[i].atom == DW_OP_stack_value && i + 1 == n)
			ret->is_value = true;
		else if (top >= 2 && op_binary(ops[i].atom, stack[top - 2], stack[top - 1], &v))
			stack[--top - 1] = v;
		else
			return false;
	}
	if (!top)
		return false;
	ret->v = stack[top - 1];
	return true;
}

static uint64_t code_place(const struct unwinder *u)
{
	return u->pc - !u->exact;
}

static Dwarf_Frame *frame_find(struct unwinder *u)
{
	struct stack_file *f = stack_file_get(u->row);
	Dwarf_CFI *cfi = f ? stack_file_cfi(f) : NULL;
	Dwarf_Frame *frame = NULL;
	Dwarf_Addr end;
	uint64_t vaddr;
	bool is_signal = false;

	u->begin = 0;
	if (!cfi || !stack_file_vaddr(f, mapping_file_offset(u->row, code_place(u)), &vaddr) ||
	    dwarf_cfi_addrframe(cfi, vaddr, &frame))
		return NULL;
	if (dwarf_frame_info(frame, &u->begin, &end, &is_signal) < 0)
		u->begin = 0;
	/* The frame that a signal interrupted goes on at its pc. */
	u->exact = is_signal;
	return frame;
}

#if defined(__x86_64__)
/* Where the function we are in may begin: the rows of rules before ours at whose start only the return address is on
 * the stack. Addresses in the target. */
static size_t starts_find(const struct unwinder *u, uint64_t begins[STARTS_MAX])
{
	struct stack_file *f = stack_file_get(u->row);
	uint64_t at = u->begin, vaddr = 0;
	size_t n = 0;

	if (!f || !stack_file_vaddr(f, mapping_file_offset(u->row, u->pc - 1), &vaddr))
		return 0;
	for (int rows = 0; at && rows < ROWS_BACK && n < STARTS_MAX; rows++) {
		Dwarf_Frame *frame = NULL;
		Dwarf_Addr begin = 0, end = 0;
		Dwarf_Op *ops;
		size_t n_ops;
		bool is_signal;

		if (dwarf_cfi_addrframe(stack_file_cfi(f), at - 1, &frame))
			break;
		if (dwarf_frame_info(frame, &begin, &end, &is_signal) < 0 || begin >= at)
			begin = 0;
		if (begin && !dwarf_frame_cfa(frame, &ops, &n_ops) && n_ops == 1 && ops[0].atom == DW_OP_bregx &&
		    ops[0].number == REG_SP && ops[0].number2 == 8)
			begins[n++] = begin + (u->pc - 1 - vaddr);
		free(frame);
		at = begin;
	}
	return n;
}

enum call { CALL_NONE, CALL_OTHER, CALL_ANY, CALL_US }; /* to another function, to who knows, to the one we are in */

struct code {
	struct stack_file *file;
	uint64_t offset, addr;
}; /* a place in a mapped file, and in the target */

static enum call call_to(uint64_t addr, const uint64_t *begins, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (addr == begins[i])
			return CALL_US;
	return CALL_OTHER;
}

/* Through the word at this address, as calls into another library go. */
static enum call call_through(const struct unwinder *u, uint64_t addr, const uint64_t *begins, size_t n)
{
	uint64_t to;

	return stack_word_read(u->p->memory, addr, &to) ? call_to(to, begins, n) : CALL_ANY;
}

/* Straight to a function, or to a stub of the linker that jumps on. */
static enum call call_direct(const struct unwinder *u, const struct code *to, const uint64_t *begins, size_t n)
{
	const uint8_t *b = stack_file_bytes(to->file, to->offset, 16);
	size_t at = b && !memcmp(b, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0; /* endbr64 */
	int32_t step;

	if (!b || call_to(to->addr, begins, n) == CALL_US)
		return b ? CALL_US : CALL_ANY;
	at += b[at] == 0xf2; /* bnd */
	memcpy(&step, b + at + 2, sizeof(step));
	if (b[at] == 0xff && b[at + 1] == 0x25)
		return call_through(u, to->addr + at + 6 + step, begins, n);
	return b[at] == 0xe9 || b[at] == 0xeb ? CALL_ANY : CALL_OTHER;
}

/* Is the word a return address, and where does its call lead? */
static enum call call_before(const struct unwinder *u, uint64_t addr, const uint64_t *begins, size_t n)
{
	const struct mapping *row = maps_find(u->p->maps, addr);
	struct stack_file *f = row && (row->prot & MAPPING_EXEC) ? stack_file_get(row) : NULL;
	uint64_t offset = f ? mapping_file_offset(row, addr) : 0;
	const uint8_t *b = f && offset >= 7 ? stack_file_bytes(f, offset - 7, 7) : NULL;
	int32_t step;

	if (!b)
		return CALL_NONE;
	memcpy(&step, b + 3, sizeof(step));
	if (b[2] == 0xe8)
		return call_direct(u, &(struct code){ f, offset + step, addr + step }, begins, n);
	if (b[1] == 0xff && b[2] == 0x15)
		return call_through(u, addr + step, begins, n);
	/* call through a register or memory: ff /2, of 2, 3, 4, 6 and 7 bytes */
	for (int at = 0; at <= 5; at++)
		if (b[at] == 0xff && (b[at + 1] >> 3 & 7) == 2 && at != 2)
			return CALL_ANY;
	return CALL_NONE;
}

static enum stack_end step_rules(struct unwinder *u, Dwarf_Frame *frame, bool *ret_done);

/* With this frame pointer, do the rules of our caller lead to a call as well, or to the outermost frame? */
static bool fp_holds(const struct unwinder *u, Dwarf_Frame *frame, uint64_t fp)
{
	struct unwinder try = *u;
	bool done = false;

	try.reg[REG_FP] = fp;
	try.known[REG_FP] = try.searching = true;
	if (step_rules(&try, frame, &done) != STACK_WHOLE || done)
		return false;
	try.row = maps_find(u->p->maps, try.pc - 1);
	Dwarf_Frame *caller = try.row ? frame_find(&try) : NULL;
	bool holds = caller && step_rules(&try, caller, &done) == STACK_WHOLE &&
		     (done || call_before(&try, try.pc, NULL, 0) != CALL_NONE);

	free(caller);
	return holds;
}

/* With this frame pointer, how many callers do the rules lead through to the outermost frame, by calls and signals
 * alone? 0: they do not. */
static int fp_leads_out(const struct unwinder *u, Dwarf_Frame *frame, uint64_t fp)
{
	struct unwinder try = *u;
	bool done = false;
	int n = 0;

	try.reg[REG_FP] = fp;
	try.known[REG_FP] = try.searching = true;
	enum stack_end end = step_rules(&try, frame, &done);

	for (; end == STACK_WHOLE && !done && n < FRAMES_TRIED; n++) {
		bool interrupted = try.exact;

		try.row = maps_find(u->p->maps, code_place(&try));
		Dwarf_Frame *caller = try.row && (try.row->prot & MAPPING_EXEC) ? frame_find(&try) : NULL;
		bool called = caller && (interrupted || try.exact || call_before(&try, try.pc, NULL, 0) != CALL_NONE);

		end = called && try.reg[REG_SP] - u->reg[REG_SP] < STACK_BYTES ? step_rules(&try, caller, &done)
									       : STACK_NO_UNWIND;
		free(caller);
	}
	return end == STACK_WHOLE && done && try.pc ? n : 0; /* pc 0 is no rule's word */
}

/*
 * How much speaks for this frame pointer of the function we are in, whose rule is CFA = fp + offset. Best: at CFA - 8
 * there is the return address of a call to this very function. Else that of a call to who knows, from which all rules
 * lead to the outermost frame (a caller that keeps no frame pointer may have saved anything), through the more callers
 * the better: live frames further out lead through fewer, and so do lists of return addresses. Least: the frame pointer
 * saved there leads on, or the call leads out, but to another function. Old words on the stack look like all of these.
 */
static int fp_worth(const struct unwinder *u, Dwarf_Frame *frame, uint64_t fp, uint64_t offset, const uint64_t *begins,
		    size_t n, int *trials)
{
	uint64_t addr, saved;
	enum call call;

	if (!stack_word_read(u->p->memory, fp + offset - 8, &addr) || !stack_word_read(u->p->memory, fp, &saved))
		return -1;
	call = call_before(u, addr, begins, n);
	if (call == CALL_US && fp_holds(u, frame, fp))
		return FP_BEST;
	if (call == CALL_NONE || call == CALL_US)
		return 0;
	bool leads_on = offset == 16 && saved > fp && saved - fp < SEARCH_BYTES;

	int callers = ++*trials <= TRIALS_MAX ? fp_leads_out(u, frame, fp) : 0;

	if (callers && call == CALL_ANY)
		return 1 + callers;
	return callers || (leads_on && fp_holds(u, frame, fp));
}

/* The lowest of those that most speaks for. */
static bool fp_search(struct unwinder *u, Dwarf_Frame *frame, uint64_t offset)
{
	uint64_t sp = u->reg[REG_SP], begins[STARTS_MAX], found = 0;
	size_t n = u->searching ? 0 : starts_find(u, begins);
	int trials = 0, best = 0;

	for (uint64_t fp = sp; !u->searching && fp < sp + SEARCH_BYTES && best < FP_BEST; fp += 8) {
		int worth = fp_worth(u, frame, fp, offset, begins, n, &trials);

		if (worth < 0)
			break;
		if (worth <= best)
			continue;
		best = worth;
		found = fp;
	}
	if (!found)
		return false;
	u->reg[REG_FP] = found;
	u->known[REG_FP] = u->guessed = true;
	return true;
}
#else
static bool fp_search(struct unwinder *u, Dwarf_Frame *frame, uint64_t offset)
{
	(void)u;
	(void)frame;
	(void)offset;
	return false;
}
#endif

static bool cfa_find(struct unwinder *u, Dwarf_Frame *frame, uint64_t *ret)
{
	struct ops_value v;
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) || !n)
		return false;
	bool by_fp = n == 1 && ((ops[0].atom == DW_OP_bregx && ops[0].number == REG_FP) ||
				ops[0].atom == DW_OP_breg0 + (REG_FP < 32 ? REG_FP : 0));

	if (by_fp && !u->known[REG_FP] &&
	    !fp_search(u, frame, ops[0].atom == DW_OP_bregx ? ops[0].number2 : ops[0].number))
		return false;
	if (!ops_run(u, ops, n, 0, &v))
		return false;
	*ret = v.v;
	return true;
}

/* One register of the caller. False: it cannot be known. */
static bool register_find(const struct unwinder *u, Dwarf_Frame *frame, int reg, uint64_t cfa, uint64_t *ret,
			  bool *ret_undefined)
{
	Dwarf_Op mem[3], *ops;
	struct ops_value v;
	size_t n;

	*ret_undefined = false;
	if (dwarf_frame_register(frame, reg, mem, &ops, &n))
		return false;
	if (!n && ops) {
		*ret_undefined = true;
		return false;
	}
	if (!n) {
		*ret = u->reg[reg];
		return u->known[reg];
	}
	if (!ops_run(u, ops, n, cfa, &v))
		return false;
	*ret = v.v;
	return v.is_value || stack_word_read(u->p->memory, v.v, ret);
}

/* To the caller by the frame's rules. STACK_WHOLE with *ret_done: this was the outermost. */
static enum stack_end step_rules(struct unwinder *u, Dwarf_Frame *frame, bool *ret_done)
{
	struct unwinder next = *u;
	uint64_t cfa, sp = u->reg[REG_SP];
	bool undefined = false;

	if (!cfa_find(u, frame, &cfa))
		return STACK_NO_UNWIND;
	next.guessed = u->guessed;
	for (int i = 0; i < N_REGS; i++) {
		bool gone;

		next.known[i] = register_find(u, frame, i, cfa, &next.reg[i], &gone);
		if (i == REG_RA && gone)
			undefined = true;
	}
	if (undefined) {
		*ret_done = true;
		return STACK_WHOLE;
	}
	if (!next.known[REG_RA])
		return STACK_NO_UNWIND;
	next.pc = next.reg[REG_RA];
	next.known[REG_RA] = false;
	if (!u->exact || !next.known[REG_SP]) {
		next.reg[REG_SP] = cfa;
		next.known[REG_SP] = true;
	}
	/* Up, or nowhere: a signal may have been handled on a stack of its own. */
	if (!u->exact && (cfa <= sp || cfa % 8))
		return STACK_BROKEN;
	*ret_done = !next.pc;
	*u = next;
	return STACK_WHOLE;
}

/* Code without unwind information, with a known frame pointer: the usual chain. */
static enum stack_end step_fp(struct unwinder *u)
{
	uint64_t fp = u->reg[REG_FP], words[2];

	if (!u->known[REG_FP] || fp % 8 || fp < u->reg[REG_SP] || fp - u->reg[REG_SP] > (1u << 20) ||
	    !stack_memory_read(u->p->memory, fp, words, sizeof(words)))
		return STACK_NO_UNWIND;
	memset(u->known, 0, sizeof(u->known));
	u->reg[REG_FP] = words[0];
	u->reg[REG_SP] = fp + sizeof(words);
	u->known[REG_FP] = u->known[REG_SP] = true;
	u->pc = words[1];
	u->exact = false;
	u->guessed = true;
	return STACK_WHOLE;
}

struct stack_regs stack_regs_of(uint64_t pc, uint64_t sp)
{
	struct stack_regs r = { .pc = pc, .known = 1ull << REG_SP };

	r.value[REG_SP] = sp;
	return r;
}

enum stack_end stack_unwind(const struct stack_process *p, const struct stack_regs *from, struct stack_pc pcs[],
			    size_t max, size_t *ret_n)
{
	struct unwinder u = { .p = p, .pc = from->pc, .exact = true };
	enum stack_end end = STACK_WHOLE;
	bool done = false;
	size_t n = 0;

	for (int i = 0; i < N_REGS; i++) {
		u.reg[i] = from->value[i];
		u.known[i] = from->known >> i & 1;
	}
	while (!done && end == STACK_WHOLE) {
		u.row = maps_find(p->maps, code_place(&u));
		if (!u.row || !(u.row->prot & MAPPING_EXEC)) {
			end = n ? STACK_BROKEN : STACK_NO_UNWIND;
			break;
		}
		if (n == max) {
			end = STACK_TOO_DEEP;
			break;
		}
		pcs[n++] = (struct stack_pc){ u.pc, u.guessed };
		Dwarf_Frame *frame = frame_find(&u);

		end = frame ? step_rules(&u, frame, &done) : step_fp(&u);
		free(frame);
	}
	*ret_n = n;
	return end;
}
