#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our own declarations of NVML (tracers/gpu/nvml_abi.h) against the real header, where one is installed (NVML_H=path
# names one). The build needs none. What the header of an older version lacks is left out.
cd "$(dirname "$0")/../.." || exit 2
for h in "${NVML_H:-}" /usr/local/cuda/include/nvml.h /usr/local/cuda/targets/*/include/nvml.h /usr/include/nvml.h; do
	[[ -n $h && -e $h ]] && header=$h && break
done
[[ -n ${header:-} ]] || { echo "no nvml.h on this machine"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# The real names would clash with ours: ours live behind a prefix.
sed -E 's/\bNVML_/OUR_NVML_/g' tracers/gpu/nvml_abi.h > "$dir/ours.h"
number() { # OURS THEIRS: equal, where the header has it
	grep -qE "(#define|^[[:space:]]*)[[:space:]]*$2\b" "$header" &&
		echo "_Static_assert(OUR_$1 == (long long)$2, \"$1\");"
}
{
	echo "#include <stddef.h>"
	echo "#include \"$header\""
	echo "#include \"ours.h\""
	for n in SUCCESS ERROR_NOT_SUPPORTED ERROR_INSUFFICIENT_SIZE ERROR_CORRUPTED_INFOROM ERROR_GPU_IS_LOST \
		ERROR_RESET_REQUIRED \
		CLOCK_SM CLOCK_MEM TEMPERATURE_GPU; do
		number "NVML_$n" "NVML_$n"
	done
	number NVML_ECC_CORRECTED NVML_MEMORY_ERROR_TYPE_CORRECTED
	number NVML_ECC_UNCORRECTED NVML_MEMORY_ERROR_TYPE_UNCORRECTED
	number NVML_ECC_VOLATILE NVML_VOLATILE_ECC
	number NVML_ECC_AGGREGATE NVML_AGGREGATE_ECC
	number NVML_NVLINK_REPLAY NVML_NVLINK_ERROR_DL_REPLAY
	number NVML_NVLINK_RECOVERY NVML_NVLINK_ERROR_DL_RECOVERY
	number NVML_NVLINK_CRC_FLIT NVML_NVLINK_ERROR_DL_CRC_FLIT
	number NVML_NVLINK_CRC_DATA NVML_NVLINK_ERROR_DL_CRC_DATA
	number NVML_GPM_SM_UTIL NVML_GPM_METRIC_SM_UTIL
	number NVML_GPM_SM_OCCUPANCY NVML_GPM_METRIC_SM_OCCUPANCY
	number NVML_GPM_ANY_TENSOR_UTIL NVML_GPM_METRIC_ANY_TENSOR_UTIL
	number NVML_GPM_DRAM_UTIL NVML_GPM_METRIC_DRAM_BW_UTIL
	number NVML_FI_NVLINK_CRC_FLIT_TOTAL NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL
	number NVML_FI_NVLINK_CRC_DATA_TOTAL NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL
	number NVML_FI_NVLINK_REPLAY_TOTAL NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL
	number NVML_FI_NVLINK_RECOVERY_TOTAL NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL
	cat <<-'C'
	#define SAME(ours, of, theirs, to) _Static_assert(offsetof(ours, of) == offsetof(theirs, to), #of)
	_Static_assert(sizeof(struct nvml_pci) == sizeof(nvmlPciInfo_t), "pci");
	SAME(struct nvml_pci, domain, nvmlPciInfo_t, domain);
	SAME(struct nvml_pci, device, nvmlPciInfo_t, device);
	SAME(struct nvml_pci, bus_id, nvmlPciInfo_t, busId);
	_Static_assert(sizeof(struct nvml_process) == sizeof(nvmlProcessInfo_t), "process");
	SAME(struct nvml_process, used_memory, nvmlProcessInfo_t, usedGpuMemory);
	_Static_assert(sizeof(struct nvml_utilization) == sizeof(nvmlProcessUtilizationSample_t), "utilization");
	SAME(struct nvml_utilization, timestamp_us, nvmlProcessUtilizationSample_t, timeStamp);
	SAME(struct nvml_utilization, sm, nvmlProcessUtilizationSample_t, smUtil);
	_Static_assert(sizeof(struct nvml_gpm_metric) == sizeof(nvmlGpmMetric_t), "metric");
	SAME(struct nvml_gpm_metric, ret, nvmlGpmMetric_t, nvmlReturn);
	SAME(struct nvml_gpm_metric, value, nvmlGpmMetric_t, value);
	_Static_assert(sizeof(struct nvml_gpm_get) >= sizeof(nvmlGpmMetricsGet_t), "room for every metric");
	SAME(struct nvml_gpm_get, n, nvmlGpmMetricsGet_t, numMetrics);
	SAME(struct nvml_gpm_get, from, nvmlGpmMetricsGet_t, sample1);
	SAME(struct nvml_gpm_get, to, nvmlGpmMetricsGet_t, sample2);
	SAME(struct nvml_gpm_get, metrics, nvmlGpmMetricsGet_t, metrics);
	_Static_assert(sizeof(struct nvml_gpm_support) == sizeof(nvmlGpmSupport_t), "support");
	_Static_assert(sizeof(struct nvml_field) == sizeof(nvmlFieldValue_t), "field");
	SAME(struct nvml_field, scope, nvmlFieldValue_t, scopeId);
	SAME(struct nvml_field, type, nvmlFieldValue_t, valueType);
	SAME(struct nvml_field, ret, nvmlFieldValue_t, nvmlReturn);
	SAME(struct nvml_field, value, nvmlFieldValue_t, value);
	_Static_assert(nvmlClocksThrottleReasonHwSlowdown == 8 && nvmlClocksThrottleReasonHwThermalSlowdown == 0x40 &&
		       nvmlClocksThrottleReasonHwPowerBrakeSlowdown == 0x80, "slowdown");
	C
	grep -oE '"nvml[A-Za-z0-9_]+"' tracers/gpu/nvml_abi.h | tr -d '"' | while read -r f; do
		grep -q "\b$f\b" "$header" || echo "#warning no $f in this version"
	done
} > "$dir/abi.c"
"${CC:-gcc}" -std=gnu11 -w -I"$dir" -fsyntax-only "$dir/abi.c" || exit 1
echo "$header: $(grep -c _Static_assert "$dir/abi.c") numbers and layouts agree," \
	"$(grep -c '#warning' "$dir/abi.c") functions not in it"
