/* SPDX-License-Identifier: Apache-2.0
 *
 * stand_ins.h - probes on PyTorch that are of use only where its ranges are not seen (PROBES_STAND_INS): taken from the
 * processes whose steps the model sees by ranges alone.
 */
#ifndef RANKTRACE_STAND_INS_H
#define RANKTRACE_STAND_INS_H

#include "model/model.h"
#include "session/targets.h"

/* Call it at every tick. */
void stand_ins_tick(struct session_targets *t, const struct model *m);

#endif
