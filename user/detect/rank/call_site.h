/* SPDX-License-Identifier: Apache-2.0
 *
 * call_site.h - where a rank is, by its main thread's stack as it was read from outside: the Python line, the
 * native frame, the kernel's wait. An autopsy reads stacks before its verdict, a live session those of a hang once it
 * is reported; without them nothing here says anything.
 */
#ifndef RANKTRACE_CALL_SITE_H
#define RANKTRACE_CALL_SITE_H

#include "detect/detect.h"
#include "model/ahead.h"

/* The main thread, with a stack; NULL: none was read since the process last moved. */
const struct task *call_site_task(const struct proc *p);
/* The same of any thread, 0: the main one. Where the process is several ranks, each thread moves by its own calls. */
const struct task *call_site_thread(const struct proc *p, uint32_t tid);
/* It waits for its GPU: a synchronising call of the driver or the runtime is among its frames. */
bool call_site_gpu_wait(const struct proc *p);
/* It launches something: where that takes long, the GPU does not get on, and the queue in front of it is full. */
bool call_site_launches(const struct proc *p);
/* Its main thread is in NCCL: a frame of its file, or a function of it elsewhere; or in NCCL or the driver. */
bool call_site_in_nccl(const struct proc *p);
bool call_site_in_nccl_or_driver(const struct proc *p);
/* Its main thread was on its way as the stack was read, neither in NCCL nor waiting for its GPU, and that is some time
 * ago: by now it may be anywhere. asleep_ns: since when it sleeps; 0: it does not. */
bool call_site_passed(const struct proc *p, uint64_t asleep_ns, uint64_t now_ns);
/* Both stacks are known and of now, and they wait for the same: 1; for different things: 0; not known: -1. */
int call_site_same(const struct task *a, const struct task *b);
/* What it sleeps for is a process of a rank of its own host. */
bool call_site_waits_for_rank(const struct model *m, const struct proc *p);
/* It waits for peers by other means than NCCL: Gloo, MPI, the store; torch.distributed's collectives, whichever of them
 * it uses. */
bool call_site_meets_peers(const struct proc *p);
/* What it sleeps for; NULL: it could not be read, or it was read before it last moved. */
const struct waits_for *call_site_wait(const struct proc *p, uint32_t tid);
/* Evidence python, native_frame, kernel_wait, waits_for, stack of this thread of the rank, 0: the main one; or why
 * there is none. */
void call_site_note(struct finding *f, struct finding_list *found, const struct proc *p, uint32_t tid);
/* "function (file), file:line function" of a thread, 0 the main one, appended to a text; nothing where no stack was
 * read. */
void call_site_line(char *buf, size_t cap, const struct proc *p, uint32_t tid);
/* Which place in the program that is, appended to a text: the innermost Python line of the program's own code
 * ("/job/real.py:31 ckpt"), else of any, else the native frame. The same from pause to pause. */
void call_site_name(char *buf, size_t cap, const struct task *t);
/* Evidence waiting_in: where most of the other ranks are. */
void call_site_note_others(struct finding *f, struct finding_list *found, const struct model *m);

#endif
