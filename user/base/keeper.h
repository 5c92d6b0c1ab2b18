/* SPDX-License-Identifier: Apache-2.0
 *
 * keeper.h - a process that a confined one leaves behind for what takes a name: it opens inputs for reading and gives
 * outputs their final names. It can do that with the names it was made with, which come from the command line, and
 * nothing else; of the inputs it reads nothing.
 */
#ifndef RANKTRACE_BASE_KEEPER_H
#define RANKTRACE_BASE_KEEPER_H

#include <stddef.h>

struct keeper;

struct keeper_output {
	const char *name;
	const char *replaces; /* what `name` is renamed to; NULL: it is not renamed */
};

/* For a process with one thread. Borrows nothing. 0 or -errno. */
int keeper_start(const char *const *inputs, size_t n_inputs, const struct keeper_output *outputs, size_t n_outputs,
		 struct keeper **ret);
/* It ends. NULL is fine. */
void keeper_free(struct keeper *k);

/* The i-th input, or output, of keeper_start(). -errno of the call, or -ECHILD where the keeper is gone. */
int keeper_open(const struct keeper *k, size_t input); /* a descriptor */
int keeper_rename(const struct keeper *k, size_t output);
int keeper_unlink(const struct keeper *k, size_t output);

#endif
