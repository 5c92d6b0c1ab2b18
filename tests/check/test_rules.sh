#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every house rule finds a violation planted in a copy of the tree. (That the tree itself has none: `make check`.)
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0

# The copy is a repository: what was planted is taken back without a copy of every file.
(cd "$top" && git ls-files -z -co --exclude-standard | xargs -0 cp --parents -t "$tree" 2> /dev/null)
git -C "$tree" init -q && git -C "$tree" add -A || exit 1
fresh() { git -C "$tree" checkout -q -- . && git -C "$tree" clean -fdq; }

# What one run of a rule has to find: violations that do not touch are planted together, as a run reads all of the tree.
expected=()
also() { expected+=("$1"); }

planted() { # rule, what must be in the output, besides what was expected also; the violations are already there
	local text
	also "$2"
	if TREE=${small:-$tree} RULE=$1 "$top/scripts/check.sh" > "$tree.out"; then
		echo "FAILED: rule $1 did not find: ${expected[*]}"; failed=1
	else
		for text in "${expected[@]}"; do
			if grep -q "$text" "$tree.out"; then
				echo "ok: $1 finds $text"
			else
				echo "FAILED: rule $1 found something else than $text:"; cat "$tree.out"; failed=1
			fi
		done
	fi
	rm -f "$tree.out"
	expected=()
	fresh
}

spdx='/* SPDX-License-Identifier: Apache-2.0 */'
printf '#include "attach/loader.h"\n' >> "$tree/user/model/comm.c"
also 'user/model may not include user/attach'
printf '#include "comm.h"\n' >> "$tree/user/model/comm.c"; also 'which is no path from the root'
printf '#include "pipeline/pipeline.h"\n' >> "$tree/user/pipeline/incident.h"
also 'circle of includes: user/pipeline/incident.h'
printf '#include "detect/host/loss.h"\n' >> "$tree/user/detect/hang/pending.c"
echo "$spdx" > "$tree/user/detect/host/loss.h"; also 'user/detect/hang may not include user/detect/host'
printf '#include "tools/simjob/faults/hogs.h"\n' >> "$tree/tools/simjob/job/step.c"
also 'tools/simjob/job may not include tools/simjob/faults'
printf '#include "event.h"\n' >> "$tree/tracers/gpu/wire/gpu.h"
also 'tracers/gpu/wire may not include user'
printf '#include "tracers/gpu/nvml_child.h"\n' >> "$tree/user/event.h"
also 'user may not include tracers/gpu'
for i in $(seq 31); do echo "$spdx" > "$tree/user/base/f$i.h"; done
also 'user/base: [0-9]* files, more than 30'
for i in $(seq 31); do echo "# $spdx" > "$tree/tests/watch/test_$i.py"; done
planted includes 'tests/watch: [0-9]* files, more than 30'
small=$tree/small # a run over the whole tree is a fifth of all this test took
mkdir -p "$small/user/model" && { cat "$tree/user/model/comm.c"; echo 'int  x;'; } > "$small/user/model/comm.c"
planted format 'user/model/comm.c'
small=
sed -i 's/"ranktrace_steps_total", COUNTER/"ranktrace_steps", COUNTER/' "$tree/schemas/metrics.def"
planted metrics 'ranktrace_steps: _total is of type COUNTER'
sed -i 's/Whole iterations/Iterations/' "$tree/schemas/metrics.def"; planted metrics 'run scripts/metrics.py --write'
sed -i 's/"ranktrace_probes"/"ranktrace_traps"/' "$tree/schemas/metrics.def"
planted metrics 'tracer.json: ranktrace_probes is not in schemas/metrics.def'
sed -i 's/"Power"/"Watts"/' "$tree/dashboards/panels.py"; planted metrics 'run dashboards/panels.py --write'
sed -i '/^METRIC(PROBES/{h;s/PROBES, "ranktrace_probes/NEW, "ranktrace_new/;G}' "$tree/schemas/metrics.def"
planted metrics 'ranktrace_new has no panel, and no reason'
printf '/* "%0200d" */\n' 0 >> "$tree/tests/unit/model/test_clock.c"; also 'test_clock.c:[0-9]*: 208 columns'
printf '# %0200d\n' 0 >> "$tree/tests/aid/job.py"; also 'tests/aid/job.py:[0-9]*: 202 columns'
printf '# %0200d\n' 0 >> "$tree/tests/run.sh"; also 'tests/run.sh:[0-9]*: 202 columns'
printf '# %0200d\n' 0 >> "$tree/Makefile"; also 'Makefile:[0-9]*: 202 columns'
printf '/* %0200d */\n' 0 >> "$tree/user/cause.def"; planted lines 'user/cause.def:[0-9]*: 206 columns'
old=(told Tells retold 'looked at' nobody Whoever 'of late' 'stood still' 'holds up' 'held up' 'in vain' governor warden
	infant patience unborn births jammed stuck stance doing news EV_MARK_WAIT)
printf '/* %s */\n' "${old[@]}" >> "$tree/user/model/comm.c"
for word in "${old[@]}"; do also "user/model/comm.c:[0-9]*: $word: "; done
echo "int is_told, fine;" >> "$tree/tracers/nccl/nccl.h"; also 'tracers/nccl/nccl.h:[0-9]*: told: emit, report'
echo 'It holds up the job.' >> "$tree/docs/limits.md"; planted words 'docs/limits.md:[0-9]*: holds up: blocks'
printf '#include "tracers/cuda/cuda.h"\n' >> "$tree/tracers/nccl/nccl.c"; planted tracers_apart 'tracers/nccl/nccl.c'
printf '#include "tracers/gpu/wire/gpu.h"\n' >> "$tree/tracers/nccl/nccl.c"
planted tracers_apart 'tracers/nccl/nccl.c'
printf '#include <bpf/libbpf.h>\n' >> "$tree/user/session/session.c"; planted libbpf 'user/session/session.c'
printf '#include <time.h>\n' >> "$tree/user/detect/hang/hang.c"; planted pure 'user/detect/hang/hang.c'
{ echo "$spdx"; seq 700 | sed 's/^/int v/; s/$/;/'; } > "$tree/user/long.c"; also 'user/long.c: 701 lines'
{ printf '%s\nvoid f(void)\n{\n' "$spdx"; seq 70 | sed 's/^/int v/; s/$/;/'; echo '}'; } > "$tree/user/func.c"
planted sizes 'function of 71 lines'
echo "$spdx" > "$tree/user/utils.c"; also 'user/utils.c'
printf '%s\ntypedef struct foo foo_t;\n' "$spdx" > "$tree/user/foo.h"; planted names 'user/foo.h'
echo 'int x;' > "$tree/user/bare.c"; also 'user/bare.c: no SPDX'
echo "$spdx" > "$tree/bpf/wrong.bpf.h"; planted licences 'bpf/wrong.bpf.h: kernel side'
{ seq -s ' ' 60; } >> "$tree/docs/limits.md"; also 'docs/limits.md:[0-9]*: 170 characters'
seq 250 >> "$tree/README.md"; also 'README.md: [0-9]* lines, more than 250'
printf 'see [this](nowhere.md)\n' >> "$tree/docs/limits.md"; also 'link to nowhere.md: no such file'
printf 'see [this](findings.md#nothing)\n' >> "$tree/docs/limits.md"
also 'link to findings.md#nothing: no such heading'
printf 'and `user/nowhere.c`\n' >> "$tree/docs/architecture.md"
also 'names user/nowhere.c, which does not exist'
sed -i '/^| the record becomes EV_TCP/s/$/\n| and back | `user\/session\/session.c` |/' "$tree/docs/architecture.md"
also 'returns to user/session'
sed -i 's/^## mismatch$//' "$tree/docs/playbook/findings.md"
also 'docs/playbook/findings.md: no heading mismatch'
sed -i '0,/^- ..Do[.]../s///' "$tree/docs/playbook/findings.md"
also "docs/playbook/findings.md: hang has .'Symptom', 'Command', 'Reading'., not"
sed -i 's/`unusual_value`//' "$tree/docs/findings.md"; planted docs 'docs/findings.md: unusual_value is not in it'
echo 'DETECTOR(nobody, "nobody", "none")' >> "$tree/user/detect/detectors.def"; also 'no detector_nobody'
echo 'FAULT(ghost, "ghost", "none")' >> "$tree/tools/simjob/faults/faults.def"; also 'fault ghost has no test'
echo 'SOURCE(ghost, "ghost", "none")' >> "$tree/tracers/sources.def"; also 'ghost: no source_ghost'
sed -i '/^SOURCE(klog,/d' "$tree/tracers/sources.def"; planted tables 'sources.def: no line of klog'
echo 'EVIDENCE(GHOST, "ghost", NUMBER, NONE, "nothing")' >> "$tree/user/evidence.def"
also 'evidence ghost is not in it'
echo 'CAUSE(GHOST, "ghost", "nothing")' >> "$tree/user/cause.def"; also 'cause ghost is not in it'
sed -i '/^EVIDENCE(POD,/d' "$tree/user/evidence.def"; planted schema 'evidence pod is in no table'
sed -i 's/^EVIDENCE(POD, "pod", TEXT/EVIDENCE(POD, "pod", NUMBER/' "$tree/user/evidence.def"
planted schema 'not as the tables have it'
sed -i 's/X(GPU, "gpu"/X(GPU, "accelerator"/' "$tree/user/subject.h"; planted schema 'subject accelerator is not in it'
printf 'see .%s/x\n' './shared' >> "$tree/README.md"; planted citations 'README.md'
exit $failed
