/* SPDX-License-Identifier: Apache-2.0
 *
 * stress_inventory.c - `stress inventory`: versions of what a GPU node consists of, and whether they fit together: the
 * driver's module and libraries, and CUDA's libraries with what the driver supports.
 */
#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/stress/inventory/inventory.h"
#include "tools/stress/report_json.h"

void inventory_say(struct inventory *v, const char *part, const char *format, ...)
{
	char text[INVENTORY_TEXT];
	va_list args;
	cJSON *line;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (v->mode == REPORT_JSON) {
		line = json_line_begin("inventory");
		cJSON_AddStringToObject(line, "part", part);
		cJSON_AddStringToObject(line, "text", text);
		json_line_end(line);
	} else if (v->mode != REPORT_NONE) {
		printf("  %-14s %s\n", part, text);
	}
}

void inventory_fault(struct inventory *v, enum fault_kind kind, int gpu, const char *format, ...)
{
	struct fault fault = { .kind = kind, .gpu = gpu, .measure = -1 };
	va_list args;

	va_start(args, format);
	vsnprintf(fault.text, sizeof(fault.text), format, args);
	va_end(args);
	if (v->result->n_faults < STRESS_FAULTS_MAX)
		v->result->faults[v->result->n_faults++] = fault;
	if (v->mode == REPORT_JSON) {
		cJSON *line = json_fault_begin(&fault), *subject = json_subject_add(line, gpu < 0 ? "node" : "gpu");

		if (gpu >= 0)
			cJSON_AddNumberToObject(subject, "gpu", gpu);
		json_line_end(line);
	} else if (v->mode != REPORT_NONE) {
		printf("FAULT %s: %s\n      do: %s\n", fault_kind_name(kind), fault.text, fault_remedy(kind));
	}
}

bool first_line(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(text, (int)size, f);

	if (f)
		fclose(f);
	if (ok)
		text[strcspn(text, "\n")] = 0;
	else
		text[0] = 0;
	return ok;
}

/* --- the driver --- */

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159  ...": the first word with a digit and a dot. */
static void module_read(char version[VERSION_MAX])
{
	const char *path = getenv("RANKTRACE_NVIDIA_PROC");
	char line[256], *rest = line, *word;

	version[0] = 0;
	if (!first_line(path ? path : "/proc/driver/nvidia/version", line, sizeof(line)))
		return;
	while (!version[0] && (word = strsep(&rest, " ")))
		if (word[0] >= '0' && word[0] <= '9' && strchr(word, '.'))
			snprintf(version, VERSION_MAX, "%s", word);
}

static const char *or_none(const char *text, const char *none)
{
	return text[0] ? text : none;
}

/* The library's version is another than the module's: an update without a reboot, or a library of a container's own. */
static void driver_judge(struct inventory *v, int error)
{
	if (error == NVML_ERROR_LIB_RM_VERSION_MISMATCH)
		inventory_fault(v, FAULT_VERSIONS, -1,
				"the driver in the kernel (%s) and its library are of two versions: nothing can use "
				"the GPUs",
				or_none(v->module, "version not known"));
	else if (v->module[0] && v->library[0] && strcmp(v->module, v->library))
		inventory_fault(v, FAULT_VERSIONS, -1, "the driver in the kernel is version %s, its library %s",
				v->module, v->library);
}

static int driver_open(struct inventory *v, char why[LIBRARY_WHY])
{
	struct cuda cuda = { 0 };
	int error;

	module_read(v->module);
	if (libraries_nvml(&v->nvml, why) || libraries_cuda(&cuda, why))
		return STRESS_IMPOSSIBLE;
	error = v->nvml.init();
	if (!error && v->nvml.driver && v->nvml.driver(v->library, sizeof(v->library)))
		v->library[0] = 0;
	cuda.driver_version(&v->cuda);
	inventory_say(v, "driver", "module %s, library %s, CUDA %d.%d", or_none(v->module, "not known"),
		      or_none(v->library, "not known"), v->cuda / 1000, v->cuda % 1000 / 10);
	driver_judge(v, error);
	if (!error || error == NVML_ERROR_LIB_RM_VERSION_MISMATCH)
		return error ? STRESS_FAILED : STRESS_PASSED;
	snprintf(why, LIBRARY_WHY,
		 "no GPU can be used: NVML error %d: look at nvidia-smi, and at dmesg for why the driver does not "
		 "load",
		 error);
	return STRESS_IMPOSSIBLE;
}

/* --- CUDA's libraries --- */

static void cublaslt_say(struct inventory *v)
{
	struct cublaslt lt = { 0 };
	char why[LIBRARY_WHY];
	size_t version, major;

	if (libraries_cublaslt(&lt, v->options->cublaslt, why)) {
		inventory_say(v, "cuBLASLt", "%s", why);
		return;
	}
	version = lt.version();
	major = version / 10000;
	inventory_say(v, "cuBLASLt", "%zu.%zu.%zu", major, version % 10000 / 100, version % 100);
	if (v->cuda && major > (size_t)v->cuda / 1000)
		inventory_fault(v, FAULT_VERSIONS, -1,
				"cuBLASLt %zu needs a driver for CUDA %zu, and this one supports CUDA %d.%d", major,
				major, v->cuda / 1000, v->cuda % 1000 / 10);
}

static void nccl_say(struct inventory *v)
{
	struct nccl nccl = { 0 };
	char why[LIBRARY_WHY];
	int version = 0;

	if (libraries_nccl(&nccl, v->options->nccl.library, why)) {
		inventory_say(v, "NCCL", "%s", why);
		return;
	}
	nccl.version(&version);
	inventory_say(v, "NCCL", "%d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
}

/* --- the end --- */

static void inventory_end(const struct inventory *v, int status, double elapsed_s)
{
	static const char *const words[] = { "passed", "FAILED", "usage", "not possible here" };

	if (v->mode == REPORT_JSON)
		json_end_line(status, "", elapsed_s, &(struct notes){ .n = 0 });
	else if (v->mode != REPORT_NONE)
		printf("stress inventory: %s\n", words[status]);
	fflush(stdout);
}

int stress_inventory(const struct stress_options *options, enum report_mode mode, struct stress_result *result)
{
	struct inventory v = { .mode = mode, .options = options, .result = result };
	uint64_t begin_ns = clock_monotonic_ns();
	int status;

	memset(result, 0, sizeof(*result));
	inventory_host(&v);
	inventory_nics(&v);
	status = driver_open(&v, result->why);
	if (status != STRESS_IMPOSSIBLE) {
		cublaslt_say(&v);
		nccl_say(&v);
	}
	if (!status) {
		status = inventory_gpus(&v);
		if (v.nvml.shutdown)
			v.nvml.shutdown();
	}
	if (result->n_faults)
		status = STRESS_FAILED;
	inventory_end(&v, status, (clock_monotonic_ns() - begin_ns) * 1e-9);
	return status;
}
