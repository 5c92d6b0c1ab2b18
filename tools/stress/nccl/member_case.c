/* SPDX-License-Identifier: Apache-2.0
 *
 * member_case.c - see member_case.h. Order: operands, operations that are not timed (--skip), an event, the timed ones,
 * an event; all in one go, so that the operations themselves keep the ranks in step and no barrier is timed. These walk
 * over the buffers; what comes behind is where the operands are. Then the check: of the last operation, or, as in place
 * the operands are gone, of one more.
 */
#include "tools/stress/nccl/member_case.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define BLOCK 256
#define BLOCKS_PER_SM 8
#define POISON 0xa5a5a5a5u
#define POLL_NS 20000
#define SPREAD_MAX 64

/* A lost GPU has an XID, which health.c has within half a second, or its driver says it. Nothing waits for it. */
static bool gpu_answers(struct member *m)
{
	const struct cuda *cuda = &m->run->cuda;
	size_t free_bytes, bytes;
	unsigned int celsius;
	int error = cuda->memory(&free_bytes, &bytes);

	error = error ? error : cuda->stream_query(m->gpu->stream);
	if (error && error != CUDA_ERROR_NOT_READY)
		gpu_try(m->gpu, error, "the device, after an error of NCCL's");
	nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
	return !m->gpu->lost && !m->run->n_faults &&
	       m->run->nvml.temperature(m->gpu->nvml, 0, &celsius) != NVML_ERROR_GPU_IS_LOST;
}

enum case_status member_nccl_error(struct member *m, int error, const char *call, char text[FAULT_TEXT])
{
	const char *more = m->nccl.last_error ? m->nccl.last_error(m->comm) : "";

	snprintf(text, FAULT_TEXT, "%s: %s (%d)%s%.200s", call, m->nccl.error_text(error), error,
		 more && *more ? ": " : "", more ? more : "");
	if (error == NCCL_SYSTEM_ERROR && gpu_answers(m))
		return CASE_SYSTEM;
	return error == NCCL_REMOTE_ERROR || error == NCCL_INTERNAL_ERROR ? CASE_PEER : CASE_FAILED;
}

/* --- memory --- */

static int buffers_ensure(struct member *m, uint64_t bytes)
{
	const struct cuda *cuda = &m->run->cuda;
	int err = 0, cache_bytes = 0;

	cuda->device_attribute(&cache_bytes, CU_ATTRIBUTE_L2_BYTES, m->gpu->device); /* 0: not known */
	bytes = collective_room(bytes, (uint64_t)cache_bytes, m->gpu->free_bytes);
	if (!m->errors)
		err = gpu_alloc(m->gpu, (1 + 3 * WRONG_KEPT) * sizeof(uint64_t), &m->errors);
	if (err || bytes <= m->room)
		return err;
	if (m->room) {
		cuda->free(m->send);
		cuda->free(m->recv);
	}
	m->room = 0;
	err = gpu_alloc(m->gpu, bytes, &m->send);
	if (err)
		return err;
	err = gpu_alloc(m->gpu, bytes, &m->recv);
	if (err)
		cuda->free(m->send);
	m->room = err ? 0 : bytes;
	return err;
}

/* --- kernels --- */

struct part {
	struct layout layout;
	struct pattern pattern;
	const struct nccl_type *type;
	cuda_ptr send, recv; /* of this case */
	uint64_t bytes;      /* of each, at one place */
	bool walks;
	uint32_t n_made;
};

static int fill(struct member *m, const struct nccl_case *c, struct part *p)
{
	uint32_t rank = m->rank, is_signed = p->type->is_signed, bytes = p->type->bytes, mantissa = p->type->mantissa,
		 bias = p->type->bias;
	uint64_t base = 0;
	void *params[] = { &p->send,          &p->layout.send, &base,  &p->pattern.seed, &rank, &p->pattern.most,
			   &p->pattern.every, &is_signed,      &bytes, &mantissa,        &bias };
	int err = gpu_try(m->gpu,
			  m->run->cuda.set_words(c->in_place ? m->recv : p->recv, POISON, m->room / 4, m->gpu->stream),
			  "a set of memory");

	if (!err && p->layout.fills)
		err = gpu_launch(m->gpu, KERNEL_PART_FILL, m->gpu->sm_count * BLOCKS_PER_SM, 1, BLOCK, params);
	return err;
}

static int check(struct member *m, struct part *p)
{
	uint32_t rank = p->layout.first_rank, n = p->layout.ranks_summed, is_signed = p->type->is_signed,
		 bytes = p->type->bytes, mantissa = p->type->mantissa, bias = p->type->bias;
	uint64_t room = WRONG_KEPT;
	void *params[] = { &p->recv,
			   &p->layout.recv,
			   &p->layout.segment,
			   &p->layout.base,
			   &p->pattern.seed,
			   &rank,
			   &n,
			   &p->pattern.most,
			   &p->pattern.every,
			   &is_signed,
			   &bytes,
			   &mantissa,
			   &bias,
			   &m->errors,
			   &room };

	return gpu_launch(m->gpu, KERNEL_PART_CHECK, m->gpu->sm_count * BLOCKS_PER_SM, 1, BLOCK, params);
}

/* --- operations --- */

/* The library's own call where it has one, as nccl-tests does: what 2 n calls cost the host shows at 1 MiB. */
static int exchange(struct member *m, const struct part *p)
{
	const struct nccl *nccl = &m->nccl;
	uint64_t bytes = p->layout.count * p->type->bytes;
	int error;

	if (nccl->all_to_all)
		return nccl->all_to_all((void *)(uintptr_t)p->send, (void *)(uintptr_t)p->recv, p->layout.count,
					p->type->code, m->comm, m->gpu->stream);
	error = nccl->group_start();
	for (int i = 0; !error && i < m->n; i++) {
		error = nccl->send((void *)(uintptr_t)(p->send + i * bytes), p->layout.count, p->type->code, i, m->comm,
				   m->gpu->stream);
		if (!error)
			error = nccl->recv((void *)(uintptr_t)(p->recv + i * bytes), p->layout.count, p->type->code, i,
					   m->comm, m->gpu->stream);
	}
	return error ? error : nccl->group_end();
}

static int pass_on(struct member *m, const struct part *p)
{
	const struct nccl *nccl = &m->nccl;
	int error = nccl->group_start();

	if (!error)
		error = nccl->send((void *)(uintptr_t)p->send, p->layout.count, p->type->code, (m->rank + 1) % m->n,
				   m->comm, m->gpu->stream);
	if (!error)
		error = nccl->recv((void *)(uintptr_t)p->recv, p->layout.count, p->type->code,
				   (m->rank + m->n - 1) % m->n, m->comm, m->gpu->stream);
	return error ? error : nccl->group_end();
}

static int operation(struct member *m, const struct nccl_case *c, const struct part *p)
{
	const struct nccl *nccl = &m->nccl;
	const void *send = (void *)(uintptr_t)p->send;
	void *recv = (void *)(uintptr_t)p->recv, *stream = m->gpu->stream;
	uint64_t count = p->layout.count;
	int type = p->type->code;

	switch (c->collective) {
	case COLLECTIVE_all_reduce: return nccl->all_reduce(send, recv, count, type, NCCL_SUM, m->comm, stream);
	case COLLECTIVE_all_gather: return nccl->all_gather(send, recv, count, type, m->comm, stream);
	case COLLECTIVE_reduce_scatter: return nccl->reduce_scatter(send, recv, count, type, NCCL_SUM, m->comm, stream);
	case COLLECTIVE_broadcast: return nccl->broadcast(send, recv, count, type, c->root, m->comm, stream);
	case COLLECTIVE_reduce: return nccl->reduce(send, recv, count, type, NCCL_SUM, c->root, m->comm, stream);
	case COLLECTIVE_alltoall: return exchange(m, p);
	default: return pass_on(m, p);
	}
}

static void issued_add(const struct member *m, const struct nccl_case *c, struct wire_result *r)
{
	if (c->collective == COLLECTIVE_sendrecv)
		r->transfers += 2;
	else if (c->collective == COLLECTIVE_alltoall && !m->nccl.all_to_all)
		r->transfers += 2 * (uint64_t)m->n;
	else
		r->calls++;
}

static int operations(struct member *m, const struct nccl_case *c, struct part *p, uint32_t n, struct wire_result *r)
{
	struct part at = *p;
	uint64_t place;
	int error = 0;

	for (uint32_t i = 0; i < n && !error; i++) {
		place = p->walks ? collective_place(m->room, p->bytes, p->n_made++) : 0;
		at.send = p->send + place;
		at.recv = p->recv + place;
		error = operation(m, c, &at);
		if (!error)
			issued_add(m, c, r);
	}
	r->call_bytes = p->layout.count * p->type->bytes;
	if (!error)
		return 0;
	r->status = member_nccl_error(m, error, collectives[c->collective].name, r->text);
	return -EIO;
}

/* Until the stream is through. The coordinator speaks before only to end the run, by a signal: a hang is left then. */
static int stream_wait(struct member *m, uint64_t end_ns, uint64_t limit_ns, struct wire_result *r)
{
	int error, nccl_error = 0;

	while ((error = m->run->cuda.stream_query(m->gpu->stream)) == CUDA_ERROR_NOT_READY && !nccl_error &&
	       clock_monotonic_ns() < end_ns && !wire_waits(m->place.fd)) {
		m->nccl.async_error(m->comm, &nccl_error);
		nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	if (nccl_error) {
		r->status = member_nccl_error(m, nccl_error, "the communicator", r->text);
		if (r->status == CASE_SYSTEM) /* what it needs of the host it had already */
			r->status = CASE_FAILED;
		return -EIO;
	}
	if (error == CUDA_ERROR_NOT_READY) {
		r->status = CASE_HUNG;
		snprintf(r->text, sizeof(r->text), "has not ended for %.3g s", limit_ns * 1e-9);
		return -EIO;
	}
	return gpu_try(m->gpu, error, "work on the device");
}

static int timed(struct member *m, const struct nccl_case *c, struct part *p, cuda_handle events[2],
		 struct wire_result *r)
{
	const struct cuda *cuda = &m->run->cuda;
	uint64_t end_ns = clock_monotonic_ns() + c->limit_ns;
	float ms = 0;
	int err;

	p->walks = true;
	err = operations(m, c, p, c->skip, r);
	err = err ? err : gpu_try(m->gpu, cuda->event_record(events[0], m->gpu->stream), "an event");
	err = err ? err : operations(m, c, p, c->iterations, r);
	p->walks = false;
	err = err ? err : gpu_try(m->gpu, cuda->event_record(events[1], m->gpu->stream), "an event");
	err = err ? err : stream_wait(m, end_ns, c->limit_ns, r);
	err = err ? err : gpu_try(m->gpu, cuda->event_elapsed(&ms, events[0], events[1]), "an event's time");
	r->seconds = ms * 1e-3 / c->iterations;
	return err;
}

/* The times of single operations, for what is rare: an event behind each, so not part of what is timed above. */
static int spread(struct member *m, const struct nccl_case *c, struct part *p, struct wire_result *r)
{
	const struct cuda *cuda = &m->run->cuda;
	uint32_t n = c->iterations < SPREAD_MAX ? c->iterations : SPREAD_MAX, made = 0;
	uint64_t end_ns = clock_monotonic_ns() + c->limit_ns;
	cuda_handle events[SPREAD_MAX + 1];
	double times[SPREAD_MAX];
	float ms = 0;
	int err = 0;

	for (; made <= n && !err; made += !err)
		err = gpu_try(m->gpu, cuda->event_create(&events[made], 0), "an event");
	for (uint32_t i = 0; i <= n && !err; i++) {
		err = gpu_try(m->gpu, cuda->event_record(events[i], m->gpu->stream), "an event");
		err = err || i == n ? err : operations(m, c, p, 1, r);
	}
	err = err ? err : stream_wait(m, end_ns, c->limit_ns, r);
	for (uint32_t i = 0; i < n && !err; i++) {
		err = gpu_try(m->gpu, cuda->event_elapsed(&ms, events[i], events[i + 1]), "an event's time");
		times[i] = ms * 1e-3;
	}
	r->p99 = err ? 0 : values_quantile(times, (int)n, 0.99);
	for (uint32_t i = 0; i < made && !err; i++)
		cuda->event_destroy(events[i]);
	return err;
}

static int errors_take(struct member *m, struct wire_result *r)
{
	uint64_t found[1 + 3 * WRONG_KEPT];
	int err = gpu_try(m->gpu, m->run->cuda.to_host(found, m->errors, sizeof(found)), "a copy to the host");

	if (err)
		return err;
	r->wrong = found[0];
	r->n_kept = found[0] < WRONG_KEPT ? found[0] : WRONG_KEPT;
	memcpy(r->kept, found + 1, sizeof(r->kept));
	return 0;
}

static int checked(struct member *m, const struct nccl_case *c, struct part *p, struct wire_result *r)
{
	uint64_t end_ns = clock_monotonic_ns() + c->limit_ns;
	int err = 0;

	if (c->in_place)
		err = fill(m, c, p);
	err = err || !c->in_place ? err : operations(m, c, p, 1, r);
	err = err ? err : gpu_try(m->gpu, m->run->cuda.set_words(m->errors, 0, 2, m->gpu->stream), "a set of memory");
	if (!err && p->layout.checks)
		err = check(m, p);
	err = err ? err : stream_wait(m, end_ns, c->limit_ns, r);
	r->checked = p->layout.checks ? p->layout.recv : 0;
	return err ? err : errors_take(m, r);
}

static int measure(struct member *m, const struct nccl_case *c, struct wire_result *r)
{
	const struct cuda *cuda = &m->run->cuda;
	struct part p = { .type = &nccl_types[c->type] };
	cuda_handle events[2] = { NULL, NULL };
	int err;

	collective_layout(c, m->n, m->rank, &p.layout);
	collective_pattern(c, m->n, &p.pattern);
	p.bytes = (p.layout.send > p.layout.recv ? p.layout.send : p.layout.recv) * p.type->bytes;
	err = buffers_ensure(m, p.bytes);
	if (err == -ENOMEM) {
		r->status = CASE_NO_MEMORY;
		snprintf(r->text, sizeof(r->text),
			 "its memory has no room for two buffers of %llu bytes: a smaller --bytes",
			 (unsigned long long)p.layout.bytes);
		return 0;
	}
	p.send = c->in_place ? m->recv + p.layout.send_at * p.type->bytes : m->send;
	p.recv = c->in_place ? m->recv + p.layout.recv_at * p.type->bytes : m->recv;
	for (int i = 0; i < 2 && !err; i++)
		err = gpu_try(m->gpu, cuda->event_create(&events[i], 0), "an event");
	err = err ? err : fill(m, c, &p);
	err = err ? err : timed(m, c, &p, events, r);
	err = err ? err : spread(m, c, &p, r);
	err = err ? err : checked(m, c, &p, r);
	for (int i = 0; i < 2 && !err; i++)
		cuda->event_destroy(events[i]);
	return err;
}

void member_case(struct member *m, const struct nccl_case *c)
{
	struct wire_result r = { .status = CASE_DONE };
	int version = 0;

	m->nccl.version(&version);
	if (version < nccl_types[c->type].version_min)
		r.status = CASE_UNSUPPORTED;
	else if (!m->comm || (measure(m, c, &r) && r.status == CASE_DONE))
		r.status = CASE_FAILED;
	if (m->gpu->lost) {
		r.status = CASE_LOST;
		if (m->run->n_faults)
			memcpy(r.text, m->run->faults[m->run->n_faults - 1].text, sizeof(r.text));
	}
	m->broken = case_is_broken(r.status);
	wire_send(m->place.fd, WIRE_RESULT, &r, sizeof(r));
}
