/* SPDX-License-Identifier: Apache-2.0
 *
 * finding_id.h - what a finding is called in all outputs: SESSION-NUMBER, "node-a-20261123-140812-3f9c-7". The session
 * is its host, the UTC second of its start and four digits of a hash of host and start to the nanosecond: no two hosts,
 * and no two runs on one, give the same. A replay gives what the live run gave. A merge is a session of its own,
 * "merge-...", and so is a stream that begins in the middle of a session: "...-from95s", with the seconds before its
 * begin.
 */
#ifndef RANKTRACE_FINDING_ID_H
#define RANKTRACE_FINDING_ID_H

#include "finding.h"
#include "model/model.h"

/* `to` has FINDING_ID_MAX bytes. */
void finding_id(char *to, const struct model *m, uint64_t number);

#endif
