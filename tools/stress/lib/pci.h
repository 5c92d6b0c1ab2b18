/* SPDX-License-Identifier: Apache-2.0
 *
 * pci.h - which bridges are before a device of the PCI bus, as /sys has them.
 */
#ifndef STRESS_LIB_PCI_H
#define STRESS_LIB_PCI_H

#include <limits.h>
#include <stdbool.h>

/* Where /sys is: $RANKTRACE_SYSFS, which tests set. */
const char *sysfs_root(void);
/* And /proc: $RANKTRACE_PROCFS. */
const char *procfs_root(void);

/* "/sys/devices/pci0000:a0/0000:a0:01.0/0000:a1:00.0": the bridges to a device and itself; false: it has none. `below`
 * /sys: "class/infiniband/mlx5_0/device". */
bool pci_bridges(const char *below, char path[PATH_MAX]);
/* Of the device of that address, as CUDA writes it. */
bool pci_bridges_at(const char *address, char path[PATH_MAX]);
/* Behind one switch: below the host bridge ("pci0000:a0") they have at least the root port in common. */
bool pci_is_switched(const char *a, const char *b);
/* There is a root port at all, as on every machine itself; a guest may show none. */
bool pci_has_port(const char *path);

#endif
