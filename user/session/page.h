/* SPDX-License-Identifier: Apache-2.0
 *
 * page.h - the page of metrics that is due: what the session knows of itself goes beside what the model has.
 */
#ifndef RANKTRACE_SESSION_PAGE_H
#define RANKTRACE_SESSION_PAGE_H

#include <stdint.h>

struct session;

void session_page_write(struct session *s, uint64_t now_ns);

#endif
