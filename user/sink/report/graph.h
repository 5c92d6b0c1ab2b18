/* SPDX-License-Identifier: Apache-2.0
 *
 * graph.h - who waits for whom at the time of a hang, as a drawing needs it: operations that not all ranks entered,
 * ranks that did not enter them, and what these wait in themselves. Reads the model alone, so that it shows what the
 * hang's verdict rests on.
 */
#ifndef RANKTRACE_REPORT_GRAPH_H
#define RANKTRACE_REPORT_GRAPH_H

#include "finding.h"
#include "model/model.h"

struct cJSON;

/* {"nodes": [...], "edges": [...]}: what is connected to the finding. NULL: without memory. */
struct cJSON *graph_object(const struct finding *f, const struct model *m);

#endif
