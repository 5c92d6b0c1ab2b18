/* SPDX-License-Identifier: Apache-2.0
 *
 * busy_model.h - a model in which every kind of thing that a snapshot has is under way: ranks 0 and 1 call on
 * communicators 7 and 8, rank 2 is sampled; graphs, captures, open groups, waits, creations, queue pairs and GPUs.
 */
#ifndef RANKTRACE_BUSY_MODEL_H
#define RANKTRACE_BUSY_MODEL_H

#include "model/model.h"

struct model *busy_model_new(void); /* at m->now_ns; model_free() it */

#endif
