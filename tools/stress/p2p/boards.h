/* SPDX-License-Identifier: Apache-2.0
 *
 * boards.h - the table of GPUs by how their NVLinks are joined: boards.def.
 */
#ifndef STRESS_P2P_BOARDS_H
#define STRESS_P2P_BOARDS_H

#include "tools/stress/p2p/p2p.h"

enum board_kind { BOARD_UNKNOWN, BOARD_CARD, BOARD_MODULE };

/* BOARD_UNKNOWN: no row fits. */
enum board_kind board_kind_find(const char *device);

#endif
