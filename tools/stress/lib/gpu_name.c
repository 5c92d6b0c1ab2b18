/* SPDX-License-Identifier: Apache-2.0
 *
 * gpu_name.c - see gpu_name.h.
 */
#include "tools/stress/lib/gpu_name.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PARTS_MAX 3 /* domain, bus, device */
#define DOMAIN_DIGITS 8
#define BUS_DIGITS 2
#define BUS_MAX 0xff
#define DEVICE_MAX 0x1f

/* The text behind its hexadecimal digits; NULL: these are none, or more than `most`. */
static const char *hex_take(const char *text, size_t most, uint32_t *value)
{
	size_t n = strspn(text, "0123456789abcdefABCDEF");

	*value = (uint32_t)strtoul(text, NULL, 16);
	return n && n <= most ? text + n : NULL;
}

bool pci_address_parse(const char *text, struct pci_address *address)
{
	uint32_t parts[PARTS_MAX], function;
	int n = 0;

	do {
		text = hex_take(text, n ? BUS_DIGITS : DOMAIN_DIGITS, &parts[n]);
		n++;
	} while (text && *text == ':' && text++ && n < PARTS_MAX);
	if (text && *text == '.')
		text = hex_take(text + 1, 1, &function);
	if (!text || *text || n < PARTS_MAX - 1)
		return false;
	*address = (struct pci_address){ .bus = parts[n - 2], .device = parts[n - 1], .has_domain = n == PARTS_MAX };
	if (address->has_domain)
		address->domain = parts[0];
	return address->bus <= BUS_MAX && address->device <= DEVICE_MAX;
}

static bool is_on_bus(const struct gpu_id *gpu, const struct pci_address *address)
{
	struct pci_address own;

	return pci_address_parse(gpu->pci, &own) && own.bus == address->bus && own.device == address->device;
}

bool gpu_is_named(const struct gpu_id *gpu, const char *name)
{
	struct pci_address address, own;

	if (*name && !strcasecmp(name, gpu->uuid))
		return true;
	return pci_address_parse(name, &address) && is_on_bus(gpu, &address) && pci_address_parse(gpu->pci, &own) &&
	       own.domain == address.domain;
}

int gpu_name_find(const struct gpu_id *gpus, int n, const char *name)
{
	struct pci_address address;
	int found = GPU_NAME_NONE;

	for (int i = 0; i < n; i++)
		if (gpu_is_named(&gpus[i], name))
			return i;
	if (!pci_address_parse(name, &address) || address.has_domain)
		return GPU_NAME_NONE;
	for (int i = 0; i < n; i++)
		if (is_on_bus(&gpus[i], &address))
			found = found == GPU_NAME_NONE ? i : GPU_NAME_MANY;
	return found;
}

bool gpu_row_fits(const char *pattern, const char *device)
{
	return !strstr(device, " MIG ") && !fnmatch(pattern, device, 0);
}

void gpu_name_why(int found, const char *name, char why[LIBRARY_WHY])
{
	if (found == GPU_NAME_MANY)
		snprintf(why, LIBRARY_WHY,
			 "--gpus: several GPUs of this host are %.96s, in PCI domains of their own: give the domain, "
			 "too, as nvidia-smi does (Bus-Id)",
			 name);
	else if (!strncasecmp(name, "MIG-", 4))
		snprintf(why, LIBRARY_WHY,
			 "--gpus: no GPU of this host is %.96s: nvidia-smi -L lists them; a MIG device is "
			 "tested with CUDA_VISIBLE_DEVICES=UUID in place of --gpus",
			 name);
	else
		snprintf(why, LIBRARY_WHY,
			 "--gpus: no GPU of this host is %.96s: nvidia-smi -L lists them, by whole UUIDs, nvidia-smi "
			 "by PCI address (Bus-Id)",
			 name);
}
