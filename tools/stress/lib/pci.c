/* SPDX-License-Identifier: Apache-2.0
 *
 * pci.c - see pci.h.
 */
#include "tools/stress/lib/pci.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sysfs_root(void)
{
	const char *root = getenv("RANKTRACE_SYSFS");

	return root && *root ? root : "/sys";
}

const char *procfs_root(void)
{
	const char *root = getenv("RANKTRACE_PROCFS");

	return root && *root ? root : "/proc";
}

bool pci_bridges(const char *below, char path[PATH_MAX])
{
	char link[256];

	snprintf(link, sizeof(link), "%s/%s", sysfs_root(), below);
	return realpath(link, path) && strstr(path, "/pci");
}

bool pci_bridges_at(const char *address, char path[PATH_MAX])
{
	unsigned int domain, bus, device, function;
	char below[64];

	/* CUDA writes capitals */
	if (sscanf(address, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
		return false;
	snprintf(below, sizeof(below), "bus/pci/devices/%04x:%02x:%02x.%x", domain, bus, device, function);
	return pci_bridges(below, path);
}

/* "/0000:a0:01.0/0000:a1:00.0" */
static const char *below_host_bridge(const char *path)
{
	return strchr(strstr(path, "/pci") + 1, '/');
}

bool pci_is_switched(const char *a, const char *b)
{
	const char *port = below_host_bridge(a);
	size_t bytes = port ? port + 1 + strcspn(port + 1, "/") + 1 - a : 0;

	return port && port[1] && !strncmp(a, b, bytes);
}

bool pci_has_port(const char *path)
{
	const char *port = below_host_bridge(path);

	return port && strchr(port + 1, '/');
}
