/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_name.h - which GPU a name means: a UUID, whole, or a PCI address. NVML, CUDA, the kernel and findings write
 * addresses with eight digits of domain or four, with and without the function. Where each GPU is in a PCI domain of
 * its own (GB200: 0008:01:00.0, 0009:01:00.0) bus and device alone name none. And which rows of a table are for a GPU
 * by the name that CUDA gives it. Pure.
 */
#ifndef STRESS_GPU_NAME_H
#define STRESS_GPU_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/stress/lib/library.h"

struct pci_address {
	uint32_t domain, bus, device; /* the function says nothing: a GPU has one */
	bool has_domain;              /* it was given; else `domain` is 0 */
};

/* What one GPU is known by; the strings are the caller's. "": not known. */
struct gpu_id {
	const char *uuid, *pci;
};

enum { GPU_NAME_NONE = -1, GPU_NAME_MANY = -2 };

/* "00000009:0A:00.0", "9:a:0", "0A:00.0". False: it is none. */
bool pci_address_parse(const char *text, struct pci_address *address);
/* The GPU of that name: an address without a domain is one of domain 0. */
bool gpu_is_named(const struct gpu_id *gpu, const char *name);
/* Index of the one of n that the name means: gpu_is_named(), else, by an address without a domain, the only one on that
 * bus. GPU_NAME_NONE, GPU_NAME_MANY. */
int gpu_name_find(const struct gpu_id *gpus, int n, const char *name);
/* Whether a row of a table, whose name is a pattern, is for a GPU of this name. None is for a MIG slice ("NVIDIA
 * A100-SXM4-80GB MIG 1g.10gb"), which has a part of its GPU's rates. */
bool gpu_row_fits(const char *pattern, const char *device);
/* Why a name given by hand is refused, of gpu_name_find()'s two: object, cause, remedy. */
void gpu_name_why(int found, const char *name, char why[LIBRARY_WHY]);

#endif
