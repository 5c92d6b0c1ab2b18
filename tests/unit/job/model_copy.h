/* SPDX-License-Identifier: Apache-2.0
 *
 * model_copy.h - a model snapshot into a fresh one, through the records of a recording.
 */
#ifndef RANKTRACE_MODEL_COPY_H
#define RANKTRACE_MODEL_COPY_H

#include "base/intern.h"
#include "model/model.h"

struct model_copy {
	struct model *m;
	struct intern *strings;
	size_t n_records, n_bytes;
};

void model_copy(struct model *from, struct model_copy *ret); /* ret->m is the caller's to free */
void model_copy_free(struct model_copy *c);                  /* the texts it uses: after the model */

#endif
