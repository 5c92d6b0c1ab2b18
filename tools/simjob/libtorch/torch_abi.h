/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a training loop has of PyTorch, for C: each function goes through the function of libtorch that the real one
 * goes through, by its mangled name. See torch.c.
 */
#ifndef SIM_TORCH_ABI_H
#define SIM_TORCH_ABI_H

#include <stddef.h>

struct sim_range;

/* record_function(name).__enter__(); the range ends with sim_torch_leave(). Ranges nest. */
struct sim_range *sim_torch_enter(const char *name);
void sim_torch_leave(struct sim_range *range);
/* loss.backward(): the engine runs @graph, with DDP's gradients reduced at its end. */
void sim_torch_backward(void (*graph)(void *), void *arg);
/* An optimizer that updates all parameters at once: counts its steps, prepares, changes the parameters by @update. */
void sim_torch_optimizer_begin(void);
void sim_torch_optimizer_update(void (*update)(void *), void *arg);
/* DistributedDataParallel goes into its module's forward, and is out of it. */
void sim_torch_ddp_forward(void);
void sim_torch_ddp_backward(void);
/* The process group @name, described as @desc, is about to call NCCL: by its own count of collectives, or of Sends and
 * Recvs, the @seq'th or @p2p_seq'th time, from 1. In libtorch_cuda.so. */
void sim_torch_group(const char *name, const char *desc, size_t seq, size_t p2p_seq, const char *title);

#endif
