/* SPDX-License-Identifier: Apache-2.0
 * provider.h - between the stand-in for libibverbs and the stand-in for a provider. */
#ifndef RANKTRACE_TEST_PROVIDER_H
#define RANKTRACE_TEST_PROVIDER_H

#include <infiniband/verbs.h>

#define PROVIDER_RECV_BYTES 77
#define PROVIDER_FAILS 0xdeadull /* a wr_id whose completion is an error */

struct ibv_context *provider_open(struct ibv_device *device);
struct ibv_cq *provider_cq(struct ibv_context *c);
struct ibv_qp *provider_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint32_t number);

#endif
