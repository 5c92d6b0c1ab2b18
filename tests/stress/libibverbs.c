// SPDX-License-Identifier: Apache-2.0
/* A stand-in for libibverbs: devices whose queue pairs move data between processes of this machine, at once, in the
 * post itself, and time passes with that alone (it is preloaded, too, for the clock). What a test makes wrong with one
 * of them: verbs_settings.h.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "tests/stress/verbs_addresses.h"
#include "tests/stress/verbs_settings.h"
#include "tools/stress/lib/verbs_abi.h"

#define QPS 4096
#define RING 1024
#define DEVICES 64
#define FLIP_EVERY 40
#define LOSS_EVERY 10
#define MESSAGE_NS 20
#define GBITS 395

struct shared_qp {
	_Atomic int pid; /* 0: free */
	int device, other, mtu;
	struct {
		uint64_t addr;
		uint32_t length;
		uint64_t wr_id;
	} receives[RING];
	_Atomic uint32_t posted, taken;
	struct {
		uint64_t wr_id;
		uint32_t bytes, imm, flags;
	} arrived[RING];
	_Atomic uint32_t came, polled;
};

struct sim_cq {
	struct sim_qp *qp; /* the only one that has it */
	bool sends;
};

struct sim_qp {
	struct verbs_qp qp;
	pthread_mutex_t mutex; /* libibverbs' own fields begin here */
	int number;
	struct {
		uint64_t wr_id;
		int status;
	} done[RING];
	_Atomic uint32_t n_done, n_polled;
};

struct sim_context {
	struct verbs_device_context context;
	int device;
};

static struct shared_qp *qps;
static char names[DEVICES][16];
static _Atomic uint64_t messages, sent_by_lost;
static _Atomic int port_queries;

static _Thread_local uint64_t own_clock_ns; /* 0: the thread has sent nothing yet */

static uint64_t real_ns(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* Preloaded: of a thread that sends, time passes with what it sends. With SIM_VERBS_HANG it does not. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock != CLOCK_MONOTONIC || !own_clock_ns || getenv("SIM_VERBS_HANG"))
		return syscall(SYS_clock_gettime, clock, t);
	t->tv_sec = own_clock_ns / 1000000000;
	t->tv_nsec = own_clock_ns % 1000000000;
	return 0;
}

static void shared_open(void)
{
	const char *path = getenv("SIM_VERBS_SHARED");
	int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;

	if (qps)
		return;
	if (fd >= 0 && ftruncate(fd, QPS * sizeof(*qps)))
		abort();
	qps = mmap(NULL, QPS * sizeof(*qps), PROT_READ | PROT_WRITE, fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS,
		   fd, 0);
	if (qps == MAP_FAILED)
		abort();
}

static bool is_gone(int device)
{
	return number_of("SIM_VERBS_LOSE", -1) == device && sent_by_lost >= (uint64_t)second_of("SIM_VERBS_LOSE");
}

/* --- devices --- */

void **ibv_get_device_list(int *n)
{
	void **list;

	*n = number_of("SIM_VERBS_DEVICES", 2);
	list = calloc(*n + 1, sizeof(*list));
	for (int i = 0; i < *n; i++) {
		snprintf(names[i], sizeof(names[i]), "%s%d", name_of_all(), i);
		list[i] = names[i];
	}
	shared_open();
	return list;
}

void ibv_free_device_list(void **list)
{
	free(list);
}

const char *ibv_get_device_name(void *device)
{
	return device;
}

static int device_of(const struct verbs_device_context *context)
{
	return ((const struct sim_context *)context)->device;
}

static int poll_cq(void *cq, int entries, void *wc);
static int post_send(void *qp, void *wr, void **bad);
static int post_recv(void *qp, void *wr, void **bad);

struct verbs_device_context *ibv_open_device(void *device)
{
	struct sim_context *c = calloc(1, sizeof(*c));

	if (number_of("SIM_VERBS_NO_OPEN", 0)) {
		errno = EACCES;
		return NULL;
	}
	c->device = atoi((const char *)device + 3);
	c->context.poll_cq = poll_cq;
	c->context.post_send = post_send;
	c->context.post_recv = post_recv;
	return &c->context;
}

int ibv_close_device(struct verbs_device_context *context)
{
	free(context);
	return 0;
}

int ibv_query_device(struct verbs_device_context *context, struct verbs_device_attr *attr)
{
	if (is_gone(device_of(context)))
		return EIO;
	*attr = (struct verbs_device_attr){ .vendor_id = 0x2c9,
					    .vendor_part_id = 4129,
					    .max_qp_rd_atom = 16,
					    .max_qp_init_rd_atom = 16,
					    .phys_port_cnt = 1,
					    .fw_ver = "28.1" };
	return 0;
}

int ibv_query_port(struct verbs_device_context *context, uint8_t port, struct verbs_port_attr *attr)
{
	int device = device_of(context),
	    mtu = number_of("SIM_VERBS_MTU", -1) == device ? second_of("SIM_VERBS_MTU") : 4096;
	bool is_down = is_listed("SIM_VERBS_DOWN", device), is_ib = is_infiniband(device);

	(void)port;
	if (is_gone(device) ||
	    (number_of("SIM_VERBS_MUTE", -1) == device && ++port_queries >= second_of("SIM_VERBS_MUTE")))
		return EIO;
	*attr = (struct verbs_port_attr){ .state = is_down ? VERBS_PORT_DOWN : VERBS_PORT_ACTIVE,
					  .phys_state = is_down ? number_of("SIM_VERBS_PHYS", 2) : 5,
					  .gid_tbl_len = 4,
					  .lid = is_ib ? 1 + device : 0,
					  .sm_lid = digit_of("SIM_VERBS_SM", device),
					  .link_layer = is_ib ? VERBS_LINK_INFINIBAND : VERBS_LINK_ETHERNET };
	for (attr->active_mtu = VERBS_MTU_256; 128 << attr->active_mtu < mtu; attr->active_mtu++)
		;
	return 0;
}

int ibv_query_gid(struct verbs_device_context *context, uint8_t port, int index, union verbs_gid *gid)
{
	(void)port;
	*gid = (union verbs_gid){ .words = { 0, 0 } };
	if (index > 1 || (index && is_infiniband(device_of(context))))
		return 0;
	gid->raw[index ? 10 : 0] = index ? 0xff : 0xfe;
	gid->raw[index ? 11 : 1] = index ? 0xff : 0x80;
	gid->raw[12] = 10;
	gid->raw[15] = 1 + device_of(context);
	if (number_of("SIM_VERBS_SUBNET", -1) == device_of(context))
		gid->raw[7] = second_of("SIM_VERBS_SUBNET");
	return 0;
}

/* --- memory, queues --- */

void *ibv_alloc_pd(struct verbs_device_context *context)
{
	return context;
}

int ibv_dealloc_pd(void *pd)
{
	(void)pd;
	return 0;
}

/* By the driver of this process, as nvidia-peermem asks; -1: no GPU's. */
static int gpu_at(uint64_t address)
{
	static int (*ask)(void *to, int attribute, unsigned long long at);
	void *cuda = ask ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	int gpu;

	if (cuda)
		ask = (int (*)(void *, int, unsigned long long))dlsym(cuda, "cuPointerGetAttribute");
	return ask && !ask(&gpu, 9, address) ? gpu : -1;
}

static struct verbs_mr *mr_new(void *pd, void *at, size_t bytes)
{
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	*mr = (struct verbs_mr){ .context = pd, .pd = pd, .addr = at, .length = bytes, .lkey = 1, .rkey = 1 };
	return mr;
}

struct verbs_mr *ibv_reg_mr(void *pd, void *at, size_t bytes, int access)
{
	(void)access;
	errno = number_of("SIM_VERBS_NO_MR", 0)                                    ? ENOMEM
		: gpu_at((uintptr_t)at) >= 0 && !number_of("SIM_VERBS_PEERMEM", 0) ? EFAULT
										   : 0;
	return errno ? NULL : mr_new(pd, at, bytes);
}

/* The stand-in of the driver writes into the file what it is of. */
struct verbs_mr *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access)
{
	uint64_t of[2];

	(void)access;
	errno = number_of("SIM_VERBS_NO_DMABUF", 0) ? EOPNOTSUPP : 0;
	if (!errno && pread(fd, of, sizeof(of), 0) != sizeof(of))
		errno = EBADF;
	if (!errno && (iova != of[0] + offset || bytes > of[1] - offset))
		errno = EINVAL;
	return errno ? NULL : mr_new(pd, (void *)(uintptr_t)iova, bytes);
}

int ibv_dereg_mr(struct verbs_mr *mr)
{
	free(mr);
	return 0;
}

void *ibv_create_cq(struct verbs_device_context *context, int entries, void *cq_context, void *channel, int vector)
{
	(void)context, (void)entries, (void)cq_context, (void)channel, (void)vector;
	return calloc(1, sizeof(struct sim_cq));
}

int ibv_destroy_cq(void *cq)
{
	free(cq);
	return 0;
}

struct verbs_qp *ibv_create_qp(void *pd, struct verbs_qp_init_attr *init)
{
	struct sim_qp *q = calloc(1, sizeof(*q));
	int free_one = 0;

	for (q->number = 1; q->number < QPS; q->number++, free_one = 0)
		if (atomic_compare_exchange_strong(&qps[q->number].pid, &free_one, getpid()))
			break;
	qps[q->number].device = device_of(pd);
	qps[q->number].posted = qps[q->number].taken = qps[q->number].came = qps[q->number].polled = 0;
	q->qp = (struct verbs_qp){
		.context = pd, .pd = pd, .send_cq = init->send_cq, .recv_cq = init->recv_cq, .qp_num = q->number
	};
	*(struct sim_cq *)init->send_cq = (struct sim_cq){ q, true };
	*(struct sim_cq *)init->recv_cq = (struct sim_cq){ q, false };
	return &q->qp;
}

/* Another port, or one of another process, that the kernel finds no neighbour for. */
static bool is_unreached(const struct shared_qp *own, const struct shared_qp *other)
{
	const char *what = getenv("SIM_VERBS_NO_WAY");

	if (!what || (own->pid == other->pid && own->device == other->device))
		return false;
	return !strcmp(what, "all") || own->pid == other->pid;
}

int ibv_modify_qp(struct verbs_qp *qp, struct verbs_qp_attr *attr, int mask)
{
	struct shared_qp *own = &qps[qp->qp_num];

	if (mask & VERBS_QP_DEST_QPN && is_unreached(own, &qps[attr->dest_qp_num]))
		return ETIMEDOUT;
	if (mask & VERBS_QP_DEST_QPN)
		own->other = attr->dest_qp_num;
	if (mask & VERBS_QP_PATH_MTU)
		own->mtu = 128 << attr->path_mtu;
	return 0;
}

int ibv_destroy_qp(struct verbs_qp *qp)
{
	qps[qp->qp_num].pid = 0;
	free(qp);
	return 0;
}

const char *ibv_wc_status_str(int status)
{
	return status == VERBS_WC_RETRY_EXCEEDED ? "transport retry counter exceeded" : status ? "error" : "success";
}

/* --- traffic --- */

static bool is_between(const char *variable, int a, int b)
{
	int first = number_of(variable, -1), second = second_of(variable);

	return first >= 0 && ((a == first && b == second) || (a == second && b == first));
}

/* Not a port to itself. */
static bool is_far(const struct shared_qp *own)
{
	return own->pid != qps[own->other].pid || own->device != qps[own->other].device;
}

static bool is_lost(const struct shared_qp *own, uint32_t bytes)
{
	int a = own->device, b = qps[own->other].device, dead = number_of("SIM_VERBS_DEAD", -1);

	return is_far(own) && (a == dead || b == dead || is_gone(b) || is_between("SIM_VERBS_DEAD_LINK", a, b) ||
			       digit_of("SIM_VERBS_FABRICS", a) != digit_of("SIM_VERBS_FABRICS", b) ||
			       (is_between("SIM_VERBS_SMALL", a, b) && own->mtu > 256 && bytes > 256));
}

static void counter_add(int device, const char *counter)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	char path[512];
	long n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s%d/ports/1/hw_counters/%s", getenv("RANKTRACE_SYSFS"),
		 name_of_all(), device, counter);
	pthread_mutex_lock(&lock);
	f = fopen(path, "r+");
	if (f && fscanf(f, "%ld", &n) == 1) {
		rewind(f);
		fprintf(f, "%ld\n", n + 1);
	}
	if (f)
		fclose(f);
	pthread_mutex_unlock(&lock);
}

/* The GPU of this process in whose memory the other end's buffer is; -1: none, or no test wants to know. */
static int gpu_reached(const struct shared_qp *own, const struct verbs_send_wr *wr)
{
	const struct shared_qp *other = &qps[own->other];
	bool is_send = wr->opcode != VERBS_WR_READ && wr->opcode != VERBS_WR_WRITE;

	if (!getenv("SIM_VERBS_FAR_US") && !getenv("SIM_VERBS_GPU_SLOW") && !getenv("SIM_VERBS_GPU_FLIP"))
		return -1;
	return gpu_at(is_send ? other->receives[other->taken % RING].addr : wr->remote_addr);
}

static uint64_t gpu_us(const struct shared_qp *own, int gpu)
{
	return (gpu >= 0 && gpu != own->device ? number_of("SIM_VERBS_FAR_US", 0) : 0) +
	       (gpu >= 0 && gpu == number_of("SIM_VERBS_GPU_SLOW", -1) ? second_of("SIM_VERBS_GPU_SLOW") : 0);
}

static bool is_elsewhere(int cpu)
{
	cpu_set_t may;

	if (cpu < 0)
		return false;
	sched_getaffinity(0, sizeof(may), &may);
	return CPU_COUNT(&may) > 1 || !CPU_ISSET(cpu, &may);
}

/* What a message takes passes on the thread's own clock alone: rates are exact on a busy machine. */
static void spend(const struct shared_qp *own, uint32_t bytes, int gpu)
{
	const char *only_while = getenv("SIM_SLOW_WHILE");
	int slow = only_while && access(only_while, F_OK) ? -1 : number_of("SIM_VERBS_SLOW", -1);

	if (!own_clock_ns)
		own_clock_ns = real_ns();
	own_clock_ns += MESSAGE_NS + bytes * 8ull / GBITS + 1000 * gpu_us(own, gpu);
	if (is_elsewhere(number_of("SIM_VERBS_CPU_US", -1)))
		own_clock_ns += 1000ull * second_of("SIM_VERBS_CPU_US");
	if (is_far(own) && (own->device == slow || qps[own->other].device == slow))
		own_clock_ns += 1000ull * second_of("SIM_VERBS_SLOW");
}

static void faults_do(struct shared_qp *own, uint8_t *data, uint32_t bytes, bool is_read, int gpu)
{
	const char *flip = getenv("SIM_VERBS_FLIP");
	struct shared_qp *other = &qps[own->other];
	int receiver = is_read ? own->device : other->device, loss = number_of("SIM_VERBS_LOSS", -1);
	uint64_t n = ++messages;

	if (((flip && atoi(flip) == receiver && is_far(own)) ||
	     (gpu >= 0 && gpu == number_of("SIM_VERBS_GPU_FLIP", -1))) &&
	    n % FLIP_EVERY == 0 && bytes)
		data[bytes / 2] ^= 4;
	if (is_far(own) && (own->device == loss || other->device == loss) && n % LOSS_EVERY == 0)
		counter_add(other->device, "out_of_sequence");
}

static bool move(int pid, uint64_t to, uint64_t from, uint32_t bytes, bool is_read)
{
	struct iovec own = { (void *)(uintptr_t)(is_read ? to : from), bytes };
	struct iovec other = { (void *)(uintptr_t)(is_read ? from : to), bytes };
	ssize_t n;

	if (pid == getpid()) {
		memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
		return true;
	}
	n = is_read ? process_vm_readv(pid, &own, 1, &other, 1, 0) : process_vm_writev(pid, &own, 1, &other, 1, 0);
	return n == (ssize_t)bytes;
}

/* A process that was killed leaves its queue pairs, and may be there as a zombie. */
static bool is_there(const struct shared_qp *qp)
{
	char path[64], to[1];

	snprintf(path, sizeof(path), "/proc/%d/exe", qp->pid);
	return qp->pid && readlink(path, to, sizeof(to)) > 0;
}

/* Into the next receive of the other end. */
static bool arrive(struct shared_qp *other, const struct verbs_send_wr *wr, const uint8_t *data)
{
	uint32_t i = other->taken;

	while (i == other->posted && is_there(other))
		sched_yield();
	if (i == other->posted ||
	    !move(other->pid, other->receives[i % RING].addr, (uintptr_t)data, wr->sg_list->length, false))
		return false;
	other->taken = i + 1;
	while (other->came - other->polled >= RING && is_there(other))
		sched_yield();
	i = other->came;
	other->arrived[i % RING].wr_id = other->receives[i % RING].wr_id;
	other->arrived[i % RING].bytes = wr->sg_list->length;
	other->arrived[i % RING].imm = wr->imm_data;
	other->arrived[i % RING].flags = wr->opcode == VERBS_WR_SEND_IMM ? VERBS_WC_WITH_IMM : 0;
	other->came = i + 1;
	return true;
}

static bool carry(struct shared_qp *own, const struct verbs_send_wr *wr)
{
	struct shared_qp *other = &qps[own->other];
	uint32_t bytes = wr->sg_list->length;
	int gpu = gpu_reached(own, wr);
	uint8_t *copy = malloc(bytes + 1);
	bool ok = true;

	spend(own, bytes, gpu);
	if (wr->opcode == VERBS_WR_READ) {
		ok = move(other->pid, (uintptr_t)copy, wr->remote_addr, bytes, true);
		faults_do(own, copy, bytes, true, gpu);
		memcpy((void *)(uintptr_t)wr->sg_list->addr, copy, bytes);
	} else {
		memcpy(copy, (void *)(uintptr_t)wr->sg_list->addr, bytes);
		faults_do(own, copy, bytes, false, gpu);
		ok = wr->opcode == VERBS_WR_WRITE ? move(other->pid, wr->remote_addr, (uintptr_t)copy, bytes, false)
						  : arrive(other, wr, copy);
	}
	free(copy);
	return ok;
}

static int post_send(void *qp, void *post, void **bad)
{
	struct sim_qp *q = qp;
	struct verbs_send_wr *wr = post;
	struct shared_qp *own = &qps[q->number];
	uint32_t i = q->n_done;
	int status = VERBS_WC_SUCCESS;

	(void)bad;
	sent_by_lost += number_of("SIM_VERBS_LOSE", -1) == own->device;
	if (is_gone(own->device))
		return EIO;
	if (number_of("SIM_VERBS_HANG", -1) == own->device && is_far(own))
		return 0;
	if (is_lost(own, wr->sg_list->length) || !carry(own, wr))
		status = VERBS_WC_RETRY_EXCEEDED;
	if (status)
		counter_add(own->device, "req_transport_retries_exceeded");
	if (!status && !(wr->send_flags & VERBS_SEND_SIGNALED))
		return 0;
	q->done[i % RING].wr_id = wr->wr_id;
	q->done[i % RING].status = status;
	q->n_done = i + 1;
	return 0;
}

static int post_recv(void *qp, void *post, void **bad)
{
	struct verbs_recv_wr *wr = post;
	struct shared_qp *own = &qps[((struct sim_qp *)qp)->number];
	uint32_t i = own->posted;

	(void)bad;
	own->receives[i % RING].addr = wr->sg_list->addr;
	own->receives[i % RING].length = wr->sg_list->length;
	own->receives[i % RING].wr_id = wr->wr_id;
	own->posted = i + 1;
	return 0;
}

static int poll_cq(void *queue, int entries, void *to)
{
	struct sim_cq *cq = queue;
	struct sim_qp *q = cq->qp;
	struct verbs_wc *wc = to;
	struct shared_qp *own = &qps[q->number];
	uint32_t i = cq->sends ? q->n_polled : own->polled;

	(void)entries;
	if (i == (cq->sends ? q->n_done : own->came)) {
		sched_yield(); /* both ends may be on one CPU */
		return 0;
	}
	*wc = (struct verbs_wc){ .qp_num = q->number };
	if (cq->sends) {
		wc->wr_id = q->done[i % RING].wr_id;
		wc->status = q->done[i % RING].status;
		q->n_polled = i + 1;
		return 1;
	}
	wc->wr_id = own->arrived[i % RING].wr_id;
	wc->byte_len = own->arrived[i % RING].bytes;
	wc->imm_data = own->arrived[i % RING].imm;
	wc->wc_flags = own->arrived[i % RING].flags;
	own->polled = i + 1;
	return 1;
}
