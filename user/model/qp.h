/* SPDX-License-Identifier: Apache-2.0
 *
 * qp.h - RDMA queue pairs of the traced processes as the model knows them: state, peer, totals, errors. Included by
 * node.h.
 *
 * A queue pair is reported by probes on libibverbs (tier trace; totals in tier burst), by a walk through the memory of
 * a process that was attached to late, and by the kernel's RDMA netlink in every tier; what is reported by several is
 * one struct qp. Its peer: gid, dlid, dest_qpn   address and number of the far end, as far as known (netlink shows the
 * number only) peer                  the far end where it is a queue pair of a traced process of this host Go through
 * m->qps.newest, with qp_alive() and qp_peer_proc(); keep no pointer from tick to tick.
 */
#ifndef RANKTRACE_MODEL_QP_H
#define RANKTRACE_MODEL_QP_H

#include "event.h"

#define QPS_KEPT \
	8192 /* of all processes; those that are gone make room first, what is more is counted in m->qps.cut \
	      */
#define OWN_GIDS_MAX 16
#define QP_OF_COMM \
	2 /* seen so often to carry operations of one communicator, and never of another: it is that one's \
	   */
#define QP_OF_MANY (~0u)
#define QP_GID_TEXT 46 /* bytes of qp_gid_text(): INET6_ADDRSTRLEN */

enum qp_peer_how {
	QP_PEER_NONE,       /* not of this host, or not known */
	QP_PEER_BY_NUMBERS, /* each names the other's number, and no other fits; no address was seen: it may be a
			       namesake's */
	QP_PEER_BY_ADDRESS, /* the address is that of its device's port, too */
};

struct qp {
	struct proc *proc;         /* who made it */
	uint64_t context;          /* in its memory; 0: only the kernel reported of it */
	const char *device;        /* "" unknown */
	uint32_t qpn, dest_qpn;    /* dest_qpn 0 unknown */
	uint8_t state, type, port; /* QP_STATE_UNKNOWN; 0 unknown */
	bool gone, has_gid;
	bool closing;                         /* in error because its program put it there, unless it had failed */
	bool failed;                          /* a completion or its device said so since it last worked */
	uint8_t gid[16];                      /* the peer's port */
	uint16_t dlid;                        /* the same on InfiniBand; 0 unknown */
	uint64_t first_ns, state_ns, gone_ns; /* seen; in `state` since, as far as seen */
	struct qp_totals totals;              /* tier burst */
	uint64_t totals_ns;                   /* 0 never */
	uint32_t error_status;                /* first completion that was no success (tier burst); 0 none */
	const char *error_name;               /* "transport retry exceeded" */
	uint64_t error_ns;
	const char *async_name; /* newest asynchronous event about it, "QP fatal error"; NULL none */
	uint64_t async_ns;
	const struct qp *peer; /* as of the last tick */
	enum qp_peer_how peer_how;
	uint64_t comm; /* tier burst: address of the one communicator of its process whose operations it was seen to
			  carry; 0 none yet */
	unsigned int n_of_comm; /* times; QP_OF_MANY: of more than one, or not of NCCL alone */
	struct qp *next;        /* of the model, newest first */
	struct qp *next_same;   /* private: of the same process and number */
	bool is_peer;           /* private: of some other */
};

struct own_gids { /* addresses of a port of this host */
	const char *device;
	uint32_t port, lid, n;
	uint8_t gids[OWN_GIDS_MAX][16];
	struct own_gids *next;
};

struct qps { /* of the model */
	struct qp *newest;
	size_t n;
	uint64_t cut; /* reported beyond QPS_KEPT, and not kept */
};

/* What a rank's own queue pairs posted for an operation (burst tier), where no other of that rank's could have been
 * meant: from its enqueue on. Work that is still in flight at its end is not in it. Not snapshot in the middle of a
 * session. */
struct op_net {
	uint64_t posts, bytes;      /* 0: not known */
	uint64_t first_ns, last_ns; /* first and last post of all its queue pairs; to the probe's own delay */
	uint64_t
		done_ns; /* when all of it was seen to be completed: a poll's time, so true end in [last_ns, done_ns] */
	bool shared; /* there were other posts, of this operation or of another that ran beside it: these are not all */
};

struct model;
struct port;
struct node;
struct proc;

bool qp_alive(const struct qp *q); /* not destroyed, its process neither */
/* The process has it open and, as far as its queue pairs are known, one of them there: NCCL opens each device that has
 * a port up, that of the storage too. A queue pair that is gone counts: a device that is lost takes all of them. */
bool port_carries(const struct model *m, const struct port *port, const struct proc *p);
/* The rank at the far end, where it is one of this host; NULL elsewhere or unknown. */
const struct proc *qp_peer_proc(const struct qp *q);
/* A queue pair of the process; context 0: whichever has that number. The newest; NULL none. */
const struct qp *qp_find(const struct model *m, const struct proc *p, uint64_t context, uint32_t qpn);
/* "10.0.0.2" for RoCE over IPv4, else as an IPv6 address. Returns `to`. */
const char *qp_gid_text(const uint8_t gid[16], char to[QP_GID_TEXT]);
const char *qp_state_name(uint8_t state); /* "ready to send" */

/* For the model's own files. 0, -ENOMEM, -EINVAL. */
int qp_apply(struct model *m, const struct event *e);
void qps_tick(struct model *m);                              /* peers are found, what is long gone is freed */
void qps_gone_proc(struct model *m, const struct proc *p);   /* its program is over */
void qps_forget_proc(struct model *m, const struct proc *p); /* it is about to be freed */
void qps_free(struct model *m);
void own_gids_free(struct node *n);

#endif
