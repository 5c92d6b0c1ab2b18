/* SPDX-License-Identifier: Apache-2.0
 *
 * detach.h - closes uprobe links beside the loop. A close waits for an RCU grace period (50 ms measured on 6.18, up to
 * 250 ms reported on 6.8): one after the other, the links of 8 ranks would hold the collector for 8 s.
 */
#ifndef RANKTRACE_DETACH_H
#define RANKTRACE_DETACH_H

struct bpf_link;
struct detacher;

struct detacher *detacher_new(void); /* NULL without memory */
/* Take over `n` links and the array, and close them in a thread of their own (here and now without memory). */
void detacher_close(struct detacher *d, struct bpf_link **links, int n);
/* Waits for all of them. */
void detacher_free(struct detacher *d);

#endif
