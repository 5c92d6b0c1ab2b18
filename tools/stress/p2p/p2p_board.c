/* SPDX-License-Identifier: Apache-2.0
 *
 * p2p_board.c - whether a GPU has the NVLinks that it should have. As many as others of its kind; where none of all has
 * one, it counts what joins them: a board always does, a card has a bridge or none. What nothing shows is not judged.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/stress/lib/gpu_name.h"
#include "tools/stress/lib/pci.h"
#include "tools/stress/p2p/boards.h"

#define BOARD_GPUS 8 /* of the boards with switches */

static const struct {
	const char *device;
	enum board_kind kind;
} boards[] = {
#define BOARD(...) { __VA_ARGS__ },
#include "tools/stress/p2p/boards.def"
#undef BOARD
};

enum board_kind board_kind_find(const char *device)
{
	for (size_t i = 0; i < sizeof(boards) / sizeof(boards[0]); i++)
		if (gpu_row_fits(boards[i].device, device))
			return boards[i].kind;
	return BOARD_UNKNOWN;
}

static bool file_begins(const char *folder, const char *device, const char *name, const char *text)
{
	char path[400], line[16] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%.200s/%.100s/%s", folder, device, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	return !strncmp(line, text, strlen(text));
}

/* Bridges of NVIDIA's. From the fifth generation on they are not on the PCI bus. */
static int switches_count(void)
{
	struct dirent *entry;
	char folder[256];
	int n = 0;
	DIR *d;

	snprintf(folder, sizeof(folder), "%.200s/bus/pci/devices", sysfs_root());
	d = opendir(folder);
	while (d && (entry = readdir(d)))
		n += file_begins(folder, entry->d_name, "vendor", "0x10de") &&
		     file_begins(folder, entry->d_name, "class", "0x0680");
	if (d)
		closedir(d);
	return n;
}

/* x86 alone says so there; another machine counts as itself. */
static bool cpu_is_virtual(void)
{
	const char *given = getenv("RANKTRACE_CPUINFO");
	FILE *f = fopen(given ? given : "/proc/cpuinfo", "re");
	bool is_virtual = false;
	char *line = NULL;
	size_t room = 0;

	while (f && !is_virtual && getline(&line, &room, f) > 0)
		is_virtual = !strncmp(line, "flags", 5) && strstr(line, " hypervisor");
	free(line);
	if (f)
		fclose(f);
	return is_virtual;
}

void p2p_board_look(struct p2p *p)
{
	unsigned int n;

	p->n_switches = switches_count();
	p->is_virtual = cpu_is_virtual();
	p->n_gpus_host = p->run->nvml.count && !p->run->nvml.count(&n) ? (int)n : p->run->n_gpus;
}

/* On the PCI bus, at the end of a link, by the fabric. */
static bool sees_switch(const struct p2p *p, int gpu)
{
	for (int i = 0; i < p->run->n_gpus; i++)
		if (p->run->gpus[i].class == p->run->gpus[gpu].class &&
		    (p->gpus[i].links_switch || p->gpus[i].fabric != NVML_FABRIC_NOT_SUPPORTED))
			return true;
	return p->n_switches > 0;
}

/* By its name; else by what is seen of a switch. */
static enum board_kind board_kind_of(const struct p2p *p, int gpu)
{
	enum board_kind kind = board_kind_find(p->run->gpus[gpu].name);

	return kind == BOARD_UNKNOWN && sees_switch(p, gpu) ? BOARD_MODULE : kind;
}

static void not_judged(struct p2p *p, int gpu, const char *why)
{
	p->gpus[gpu].links_not_judged = true;
	snprintf(p->not_judged, sizeof(p->not_judged), "the NVLinks of %s are not judged: %s", p->run->gpus[gpu].name,
		 why);
	run_note(p->run, "%s", p->not_judged);
}

/* GPUs of a board that a hypervisor passes one by one have their NVLinks off by design. It keeps the switches, gives
 * less than a board, and no partition of the fabric. */
static bool is_off_by_design(const struct p2p *p, int gpu)
{
	return p->is_virtual && !p->n_switches && p->n_gpus_host < BOARD_GPUS &&
	       p->gpus[gpu].fabric != NVML_FABRIC_COMPLETED;
}

/* None is active on any GPU of this kind. */
static void board_down(struct p2p *p, int gpu)
{
	struct fault fault = { .kind = FAULT_LINK, .gpu = gpu, .measure = -1 };

	if (!p->gpus[gpu].links) {
		not_judged(p, gpu,
			   "NVML shows none, and their board joins them by NVLinks: look at nvidia-smi nvlink -s, and "
			   "at NVreg_NvLinkDisable among the options of the module nvidia");
		return;
	}
	if (is_off_by_design(p, gpu)) {
		not_judged(p, gpu,
			   "all are off in this virtual machine, as a hypervisor does that passes GPUs one by one: if "
			   "they should be on, look at the partitions of the fabric manager on its host");
		return;
	}
	snprintf(fault.text, sizeof(fault.text),
		 "none of its %d NVLinks is active, nor of others of its kind: look at the fabric manager "
		 "(systemctl status nvidia-fabricmanager) and at nvidia-smi nvlink -s",
		 p->gpus[gpu].links);
	run_fault(p->run, &fault);
}

static void nvlinks_down(struct p2p *p, int gpu)
{
	enum board_kind kind = board_kind_of(p, gpu);
	int links = p->gpus[gpu].links;

	if (kind == BOARD_MODULE)
		board_down(p, gpu);
	else if (links && kind == BOARD_CARD)
		run_note(p->run, "%s: none of its %d NVLinks is active: if a bridge joins these GPUs, look at it",
			 p->run->gpus[gpu].name, links);
	else if (links)
		not_judged(
			p, gpu,
			"none is active, and nothing shows whether a board or a bridge joins these GPUs (their name, a "
			"switch, a fabric): look at nvidia-smi nvlink -s");
}

/* Fewer than others of its kind. Of cards some have a bridge and some have none; a bridge that is not whole is a fault.
 */
static void nvlinks_fewer(struct p2p *p, int gpu, int most)
{
	struct fault fault = { .kind = FAULT_LINK, .gpu = gpu, .measure = -1 };
	enum board_kind kind = board_kind_of(p, gpu);
	int active = p->gpus[gpu].links_active;

	snprintf(fault.text, sizeof(fault.text), "%d of its NVLinks are active, of others of its kind %d", active,
		 most);
	if (active || kind == BOARD_MODULE)
		run_fault(p->run, &fault);
	else if (kind == BOARD_CARD)
		run_note(p->run, "GPU %d: %s: if a bridge joins it to another, look at it", p->run->gpus[gpu].ordinal,
			 fault.text);
	else
		not_judged(p, gpu,
			   "some of these GPUs have active ones and some have none, and nothing shows whether a board "
			   "joins all (their name, a switch, a fabric): look at nvidia-smi nvlink -s");
}

void p2p_nvlinks_judge(struct p2p *p, int gpu)
{
	int most = 0;

	for (int i = 0; i < p->run->n_gpus; i++)
		if (p->run->gpus[i].class == p->run->gpus[gpu].class && p->gpus[i].links_active > most)
			most = p->gpus[i].links_active;
	if (!most)
		nvlinks_down(p, gpu);
	else if (p->gpus[gpu].links_active < most)
		nvlinks_fewer(p, gpu, most);
}
