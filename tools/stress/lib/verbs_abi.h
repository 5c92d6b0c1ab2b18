/* SPDX-License-Identifier: Apache-2.0
 *
 * verbs_abi.h - the part of libibverbs' interface that the tests call, declared anew from rdma-core's
 * <infiniband/verbs.h> (version 44). It is libibverbs' ABI towards applications and cannot move: the build needs no
 * rdma-core. A unit test compares sizes, offsets and numbers with the header where it is installed.
 */
#ifndef STRESS_VERBS_ABI_H
#define STRESS_VERBS_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { VERBS_PORT_DOWN = 1, VERBS_PORT_INIT = 2, VERBS_PORT_ACTIVE = 4 };
enum { VERBS_PHYS_POLLING = 2, VERBS_PHYS_LINK_UP = 5 };
enum { VERBS_LINK_INFINIBAND = 1, VERBS_LINK_ETHERNET = 2 };
enum { VERBS_QP_RC = 2 };
enum { VERBS_QPS_INIT = 1, VERBS_QPS_RTR = 2, VERBS_QPS_RTS = 3 };
enum { VERBS_MTU_256 = 1, VERBS_MTU_4096 = 5 };
enum { VERBS_LOCAL_WRITE = 1, VERBS_REMOTE_WRITE = 2, VERBS_REMOTE_READ = 4 };
enum { VERBS_WR_WRITE = 0, VERBS_WR_SEND = 2, VERBS_WR_SEND_IMM = 3, VERBS_WR_READ = 4 };
enum { VERBS_SEND_SIGNALED = 2, VERBS_SEND_INLINE = 8 };
enum { VERBS_WC_SUCCESS = 0, VERBS_WC_FLUSHED = 5, VERBS_WC_RETRY_EXCEEDED = 12, VERBS_WC_RNR_EXCEEDED = 13 };
enum { VERBS_WC_WITH_IMM = 2 };
enum { /* ibv_qp_attr_mask */
       VERBS_QP_STATE = 1 << 0,
       VERBS_QP_ACCESS_FLAGS = 1 << 3,
       VERBS_QP_PKEY_INDEX = 1 << 4,
       VERBS_QP_PORT = 1 << 5,
       VERBS_QP_AV = 1 << 7,
       VERBS_QP_PATH_MTU = 1 << 8,
       VERBS_QP_TIMEOUT = 1 << 9,
       VERBS_QP_RETRY_CNT = 1 << 10,
       VERBS_QP_RNR_RETRY = 1 << 11,
       VERBS_QP_RQ_PSN = 1 << 12,
       VERBS_QP_MAX_QP_RD_ATOMIC = 1 << 13,
       VERBS_QP_MIN_RNR_TIMER = 1 << 15,
       VERBS_QP_SQ_PSN = 1 << 16,
       VERBS_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
       VERBS_QP_DEST_QPN = 1 << 20,
};

union verbs_gid {
	uint8_t raw[16];
	uint64_t words[2]; /* it is aligned as these */
};

struct verbs_device_attr {
	char fw_ver[64];
	uint64_t node_guid, sys_image_guid, max_mr_size, page_size_cap;
	uint32_t vendor_id, vendor_part_id, hw_ver;
	int max_qp, max_qp_wr;
	unsigned int device_cap_flags;
	int max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom,
		max_qp_init_rd_atom;
	int rest[16];
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay, phys_port_cnt;
};

struct verbs_port_attr {
	int state, max_mtu, active_mtu, gid_tbl_len;
	uint32_t port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr;
	uint16_t pkey_tbl_len, lid, sm_lid;
	uint8_t lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width, active_speed, phys_state,
		link_layer, flags;
	uint16_t port_cap_flags2;
};

struct verbs_device_context {
	void *device;
	void *ops_before_poll[11];
	int (*poll_cq)(void *cq, int entries, void *wc);
	void *ops_between[13];
	int (*post_send)(void *qp, void *wr, void **bad);
	int (*post_recv)(void *qp, void *wr, void **bad);
	/* and more that is libibverbs' own */
};

struct verbs_mr {
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

struct verbs_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct verbs_qp_init_attr {
	void *qp_context, *send_cq, *recv_cq, *srq;
	struct verbs_cap cap;
	int qp_type, sq_sig_all;
};

struct verbs_qp { /* its begin; the rest is libibverbs' own */
	struct verbs_device_context *context;
	void *qp_context, *pd, *send_cq, *recv_cq, *srq;
	uint32_t handle, qp_num;
};

struct verbs_ah_attr {
	union verbs_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index, hop_limit, traffic_class;
	uint16_t dlid;
	uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};

struct verbs_qp_attr {
	int qp_state, cur_qp_state, path_mtu, path_mig_state;
	uint32_t qkey, rq_psn, sq_psn, dest_qp_num;
	unsigned int qp_access_flags;
	struct verbs_cap cap;
	struct verbs_ah_attr ah, alt_ah;
	uint16_t pkey_index, alt_pkey_index;
	uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout,
		retry_cnt, rnr_retry, alt_port_num, alt_timeout;
	uint32_t rate_limit;
};

struct verbs_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

struct verbs_send_wr {
	uint64_t wr_id;
	struct verbs_send_wr *next;
	struct verbs_sge *sg_list;
	int num_sge, opcode;
	unsigned int send_flags;
	uint32_t imm_data;
	uint64_t remote_addr;
	uint32_t rkey;
	uint64_t rest[9]; /* of other kinds of operations */
};

struct verbs_recv_wr {
	uint64_t wr_id;
	struct verbs_recv_wr *next;
	struct verbs_sge *sg_list;
	int num_sge;
};

struct verbs_wc {
	uint64_t wr_id;
	int status, opcode;
	uint32_t vendor_err, byte_len, imm_data, qp_num, src_qp;
	unsigned int wc_flags;
	uint16_t pkey_index, slid;
	uint8_t sl, dlid_path_bits;
};

/* X(field, symbol, required, type, arguments) */
/* clang-format off */
#define VERBS_FUNCTIONS(X) \
	X(device_list, "ibv_get_device_list", true, void **, (int *n)) \
	X(device_list_free, "ibv_free_device_list", true, void, (void **list)) \
	X(device_name, "ibv_get_device_name", true, const char *, (void *device)) \
	X(open, "ibv_open_device", true, struct verbs_device_context *, (void *device)) \
	X(close, "ibv_close_device", true, int, (struct verbs_device_context *context)) \
	X(query_device, "ibv_query_device", true, int, \
	  (struct verbs_device_context *context, struct verbs_device_attr *attr)) \
	X(query_port, "ibv_query_port", true, int, \
	  (struct verbs_device_context *context, uint8_t port, struct verbs_port_attr *attr)) \
	X(query_gid, "ibv_query_gid", true, int, \
	  (struct verbs_device_context *context, uint8_t port, int index, union verbs_gid *gid)) \
	X(pd_alloc, "ibv_alloc_pd", true, void *, (struct verbs_device_context *context)) \
	X(pd_free, "ibv_dealloc_pd", true, int, (void *pd)) \
	X(mr_reg, "ibv_reg_mr", true, struct verbs_mr *, (void *pd, void *at, size_t bytes, int access)) \
	X(mr_reg_dmabuf, "ibv_reg_dmabuf_mr", false, struct verbs_mr *, \
	  (void *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access)) \
	X(mr_dereg, "ibv_dereg_mr", true, int, (struct verbs_mr *mr)) \
	X(cq_create, "ibv_create_cq", true, void *, \
	  (struct verbs_device_context *context, int entries, void *cq_context, void *channel, int vector)) \
	X(cq_destroy, "ibv_destroy_cq", true, int, (void *cq)) \
	X(qp_create, "ibv_create_qp", true, struct verbs_qp *, (void *pd, struct verbs_qp_init_attr *attr)) \
	X(qp_modify, "ibv_modify_qp", true, int, (struct verbs_qp *qp, struct verbs_qp_attr *attr, int mask)) \
	X(qp_destroy, "ibv_destroy_qp", true, int, (struct verbs_qp *qp)) \
	X(status_text, "ibv_wc_status_str", true, const char *, (int status))
/* clang-format on */

struct verbs {
#define X(field, symbol, required, type, args) type(*field) args;
	VERBS_FUNCTIONS(X)
#undef X
};

#endif
