/* SPDX-License-Identifier: Apache-2.0
 *
 * loader_internal.h - what loader.c (objects and maps) and attach.c (probes on libraries) share. Nobody else
 * includes it.
 */
#ifndef RANKTRACE_LOADER_INTERNAL_H
#define RANKTRACE_LOADER_INTERNAL_H

#include <bpf/libbpf.h>

#include "detach.h"
#include "loader.h"
#include "target/elf_file.h"
#include "tracer.h"

#define LOADER_TRACERS_MAX WIRE_TRACER_MAX
#define LOADER_LIBS_MAX 64

struct tracer_handle { /* one tracer in the kernel */
	struct loader *loader;
	const struct tracer *tracer;
	struct bpf_object *object;  /* NULL: did not load, or closed */
	int err;
	void *state;
	struct bpf_link **samplers;
	int n_samplers;
};

struct lib_probes { /* a library, by build-id, as one tracer sees it */
	uint8_t build_id[ELF_BUILD_ID_MAX];
	uint8_t build_id_len;
	const struct tracer *tracer;
	struct elf_symbol *symbols;  /* [tracer->n_probes] */
	uint32_t n_found;
	size_t n_ambiguous;          /* functions left out: others at their address; 0 once it was told */
	bool shared_attached;        /* attached without a pid filter, once for all processes */
};

struct attached { /* links on one library of one process */
	uint32_t tgid;
	uint64_t start_ns;           /* of the process */
	const struct tracer *tracer;
	uint32_t lib_id;
	uint64_t text_begin;         /* the same file may be mapped anew after dlclose */
	struct bpf_link **links;
	int n_links;
	int n_return_links;          /* the first ones */
	uint32_t n_return_probes;
	uint32_t n_probes;
	struct attached *next;
};

struct loader {
	struct loader_cfg cfg;
	struct bpf_object *life;
	struct bpf_link **life_links;
	int n_life_links;
	struct tracer_handle tracers[LOADER_TRACERS_MAX];
	int n_tracers;
	bool multi;                  /* uprobe.multi */
	bool uretprobe_syscall;      /* return probes trap by a system call that seccomp may deny */
	struct lib_probes libs[LOADER_LIBS_MAX];
	uint32_t n_libs;
	struct attached *attached;
	struct detacher *detacher;
	uint32_t n_probes;
	struct ring_source *rings;
	uint64_t lost[RING_CLASSES];
	uint64_t *drops;             /* as last told: [class][cpu], then one more row to read into */
	int n_cpus;
};

/* attach.c */
void attached_forget(struct loader *l, uint32_t tgid);
void attached_free_all(struct loader *l);
bool attach_multi_works(void);

#endif
