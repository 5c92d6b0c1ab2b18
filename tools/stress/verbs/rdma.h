/* SPDX-License-Identifier: Apache-2.0
 *
 * rdma.h - what `stress rdma` is about: ports of RDMA devices, memory that they reach, and a case: one operation
 * between two ports, measured one way. All of it goes over the wire between hosts of the same binary.
 */
#ifndef STRESS_VERBS_RDMA_H
#define STRESS_VERBS_RDMA_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/stress/verbs/counters.h"

#define RDMA_PORTS_MAX 1024      /* of all hosts together */
#define RDMA_PORTS_HOST_MAX 64   /* of one */
#define RDMA_PLACES_MAX 72       /* memory nodes and GPUs of a host */
#define RDMA_MESSAGE_BYTES 65536 /* perftest's own sizes */
#define RDMA_SMALL_BYTES 2
#define RDMA_DEPTH 128

enum rdma_operation { RDMA_WRITE, RDMA_READ, RDMA_SEND, N_RDMA_OPERATIONS };
enum rdma_measure { RDMA_BANDWIDTH, RDMA_LATENCY, RDMA_RATE, N_RDMA_MEASURES };
/* Which ports have a link: shape.h. */
enum rdma_shape {
#define SHAPE(id, name, help) SHAPE_##id,
#include "tools/stress/verbs/shapes.def"
#undef SHAPE
	N_RDMA_SHAPES
};

extern const char *const rdma_operation_names[N_RDMA_OPERATIONS],
	*const rdma_measure_names[N_RDMA_MEASURES], *const rdma_measure_units[N_RDMA_MEASURES],
							    *const rdma_shape_names[N_RDMA_SHAPES];

/* "write,read" -> bits; "all". 0 or -EINVAL. */
int rdma_operations_parse(const char *text, uint32_t *bits);
int rdma_measures_parse(const char *text, uint32_t *bits);
int rdma_shapes_parse(const char *text, uint32_t *bits);

struct rdma_port {
	int32_t host;                          /* its number in the run */
	int32_t number;                        /* of the port on its device, from 1 */
	int32_t state, phys_state, link_layer; /* as verbs numbers them */
	int32_t mtu, lid, gid_index;           /* gid_index -1: it has none */
	int32_t node;                          /* of memory, -1: unknown */
	int32_t cpus;                          /* that its threads may run on; 0: unknown */
	int32_t soft;                          /* no hardware behind it: its rates are the CPU's */
	int32_t reads;                         /* outstanding ones at most */
	int32_t accepts_local;                 /* of its netdev: packets from an address of this host */
	int32_t has_heard;                     /* it has received something since its driver was loaded */
	uint32_t vendor, part;
	double gbits; /* of the link; 0: unknown */
	char device[64], netdev[16], speed[48], gid_type[24], gid[40], firmware[64];
	char board[32]; /* its maker's name of the card (PSID): cards of one chip differ by it; "": unknown */
	/* what needs no router: "10.0.1.0/24", "subnet fe80:0000:0000:0000, SM at LID 1"; "": unknown */
	char network[64];
	uint8_t apart[RDMA_PLACES_MAX]; /* how far each place of its host is: a memory node's distance, or below */
};

/* Beside distances between memory nodes (node.h). */
enum rdma_apart {
	APART_GPU_NEAR = 1, /* one PCIe switch has both, as GPUDirect is built for */
	APART_GPU_FAR = 255 /* over a root complex: what passes there differs from host to host and GPU to GPU */
};

/* A port that a host has, and that is not under test there: by its own --devices, or as it has no queue pairs of RC. */
struct rdma_left_out {
	char device[64];
	int32_t number; /* of the port; 0: the whole device */
};

/* Where a buffer is. */
struct rdma_place {
	int32_t gpu;    /* CUDA's number, -1: memory of the host */
	int32_t number; /* of the memory node, -1: wherever the kernel puts it */
};

struct rdma_case {
	int32_t operation, measure;
	uint32_t bytes;      /* of a message */
	uint32_t depth;      /* of the send queue */
	uint32_t iterations; /* RDMA_LATENCY: round trips */
	int32_t mtu;         /* of the path at most */
	uint64_t time_ns;    /* of a bandwidth or rate */
	uint64_t limit_ns;   /* without any progress: it hangs */
	uint64_t seed;
	struct rdma_place from, to;
};

enum rdma_status {
	RDMA_DONE,
	RDMA_ABSENT,  /* cannot be here: the memory is not registrable and the like; a note */
	RDMA_STOPPED, /* a signal to this end's process cut it: it says nothing about the link */
	RDMA_FAILED,  /* the link does not carry it; from here on it is bad */
	RDMA_HUNG,
	RDMA_LANE_LOST /* the host does not answer */
};

/* What one end of a case saw. */
struct rdma_result {
	int32_t status;
	int32_t completion;      /* of RDMA_FAILED: the work completion's status, 0: another error */
	double value;            /* Gb/s, us, million messages/s; NAN: this end does not measure */
	double least, p99, most; /* of a latency, us */
	uint64_t messages, checked, wrong;
	uint64_t wrong_at, want, got;     /* the first wrong byte */
	uint64_t counters[PORT_COUNTERS]; /* by how much they rose; PORT_NOT_COUNTED: the provider has none */
	char text[192];
};

/* "write 65536 bytes", "mlx5_0:1" */
const char *rdma_case_name(const struct rdma_case *c, char *text, unsigned int size);
/* "memory of node 1", "GPU 3" */
const char *rdma_place_name(const struct rdma_place *p, char *text, unsigned int size);

#endif
