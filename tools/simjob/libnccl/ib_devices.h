/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices as NCCL uses them: libibverbs is opened at run time, a device once a process, with a thread that waits
 * for its asynchronous events. NCCL opens all that NCCL_IB_HCA names and uses those near the GPU, this only the rank's
 * one. Without libibverbs' header at the build there is no such transport.
 */
#ifndef SIMJOB_NCCL_IB_DEVICES_H
#define SIMJOB_NCCL_IB_DEVICES_H

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>

/* Exported functions of libibverbs; posts and polls are the header's inlines, through the provider's tables. */
struct ib_verbs {
	struct ibv_device **(*get_device_list)(int *);
	void (*free_device_list)(struct ibv_device **);
	const char *(*get_device_name)(struct ibv_device *);
	struct ibv_context *(*open_device)(struct ibv_device *);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *, void *, size_t, int);
	int (*dereg_mr)(struct ibv_mr *);
	struct ibv_cq *(*create_cq)(struct ibv_context *, int, void *, struct ibv_comp_channel *, int);
	int (*destroy_cq)(struct ibv_cq *);
	struct ibv_qp *(*create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*destroy_qp)(struct ibv_qp *);
	int (*query_port)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *);
	int (*query_gid)(struct ibv_context *, uint8_t, int, union ibv_gid *);
	int (*get_async_event)(struct ibv_context *, struct ibv_async_event *);
	void (*ack_async_event)(struct ibv_async_event *);
};

struct ib_device {
	struct ibv_device *is;
	const char *name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index, lid;
	enum ibv_mtu mtu;
};

extern struct ib_verbs ib_verbs;

/* The @nth device of NCCL_IB_HCA, round and round. NULL, with the reason on stderr: there is none. */
const struct ib_device *ib_device_get(int nth);

#endif
#endif
