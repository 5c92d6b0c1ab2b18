/* SPDX-License-Identifier: Apache-2.0
 *
 * detach.h - closes uprobe links beside the loop. A close waits for an RCU grace period (50 ms measured on 6.18, up to
 * 250 ms reported on 6.8): one after the other, the links of 8 ranks would hold the collector for 8 s. Links on a file
 * that must not be touched now (attach_guard.h) wait; at the end of the collector they are left to a process of ours.
 */
#ifndef RANKTRACE_DETACH_H
#define RANKTRACE_DETACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct bpf_link;
struct detacher;

/* `may_close` says whether links on this library may be closed now. NULL without memory. */
struct detacher *detacher_new(bool (*may_close)(void *to, uint32_t lib_id), void *to);
/* Take over `n` links on a library and the array, and close them in a thread of their own as soon as that may be (here
 * and now without memory). */
void detacher_close(struct detacher *d, struct bpf_link **links, int n, uint32_t lib_id);
/* Closes what waited and may be closed by now: call it a few times a second. */
void detacher_look(struct detacher *d);
int detacher_waiting(const struct detacher *d); /* links */
bool detacher_waits_on(const struct detacher *d, uint32_t lib_id);
/*
 * Leaves what waits to a process of its own, which holds nothing but these links and ends with the last of them;
 * `settle(to)` runs in it first. Waits for all that is closed here. Returns its pid, or -errno: what waits still does.
 */
pid_t detacher_leave(struct detacher *d, int (*settle)(void *to), void *to);
/* Waits for all of them; what still waits is closed here and now. */
void detacher_free(struct detacher *d);

#endif
