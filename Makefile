# SPDX-License-Identifier: Apache-2.0
# ranktrace: `make help` lists the targets. O=dir builds elsewhere, V=1 shows the commands.
O ?= build
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
BPFTOOL ?= bpftool
VMLINUX ?= hand
PREFIX ?= /usr/local
ARCH := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
say = @$(if $(filter 1,$(V)),true,printf '  %-8s %s\n' "$(1)" "$(2)")

WARN := -Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wvla
CFLAGS ?= -O2 -g
# Where the tree and its output lie is no part of what is built: the same bytes from any folder (make reproducible).
PLACE := -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(abspath $(O))=build -ffile-prefix-map=$(O)=build
CFLAGS += -std=gnu11 $(WARN) -D_GNU_SOURCE $(PLACE)
INCLUDES := -Iuser -I. -Ischemas -I$(O)/gen
# ARCHIVES: those of them that become part of the program. Not dw and elf: Debian's archives lack half of themselves
# (libeu), nor the C library: NVIDIA's is opened at run time.
ARCHIVES ?=
libraries = -pthread $(foreach l,bpf dw elf deflate cjson seccomp cap protobuf-c,$(if $(filter \
	$l,$(1)),-l:lib$l.a,-l$l)) $(if $(filter bpf,$(1)),-lz) -lm
LIBS := $(call libraries,$(ARCHIVES))
VMLINUX_DIR := $(if $(filter gen,$(VMLINUX)),$(O)/gen/vmlinux,vmlinux)
BPF_CFLAGS := -g -O2 -Wall -target bpf -D__TARGET_ARCH_$(ARCH) $(PLACE) -I$(VMLINUX_DIR) -I. -Ischemas \
	-I/usr/include/$(shell uname -m)-linux-gnu

BPF_SRC := $(wildcard tracers/*/*.bpf.c)
BPF_OBJ := $(BPF_SRC:%.bpf.c=$(O)/bpf/%.bpf.o)
SKEL := $(foreach s,$(BPF_SRC),$(O)/gen/$(notdir $(s:%.bpf.c=%.skel.h))) $(O)/gen/gen_report.h \
	$(O)/gen/gen_stress.h
SRC := $(shell find user tools/stress -name '*.c' | sort) $(filter-out %.bpf.c,$(wildcard tracers/*/*.c))
PROTO := $(O)/gen/cluster.pb-c.c # messages between agents and hub: schemas/cluster.proto
OBJ := $(SRC:%.c=$(O)/obj/%.o) $(O)/obj/gen/cluster.pb-c.o
LIB_OBJ := $(filter-out $(O)/obj/user/cmd/main.o,$(OBJ))
UNIT_SRC := $(wildcard tests/unit/*/test_*.c)
UNIT := $(foreach s,$(UNIT_SRC),$(O)/tests/$(notdir $(s:.c=)))
UNIT_AID := $(patsubst %.c,$(O)/obj/%.o,$(filter-out $(UNIT_SRC),$(wildcard tests/unit/*/*.c)))
BENCH_OBJ := $(patsubst %.c,$(O)/obj/%.o,$(wildcard tools/bench/*.c))

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all build help deps deps-test demo quick test test-long test-vm arm64 check unit mutate clean install
.PHONY: man install-man reproducible sbom deb dist pack simjob bench bench-budget test-life

# As many at once as there are processors, unless the caller says how many: make -j1 is one.
PARALLEL = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

all: deps ## install what is missing, then build
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build

build: $(O)/ranktrace simjob simcluster ## build only

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

deps: ## install the packages the build lacks (root; Debian, Ubuntu)
	$(Q)scripts/deps.sh

deps-test: ## the same for the tests
	$(Q)scripts/deps.sh test

-include tools/simjob/build.mk
-include tools/simcluster/build.mk
-include tests/fuzz/build.mk
include tests/analysis.mk

$(O)/gen/vmlinux/vmlinux.h:
	$(call say,BTF,$@)
	$(Q)mkdir -p $(@D) && $(BPFTOOL) btf dump file /sys/kernel/btf/vmlinux format c > $@

$(O)/bpf/%.bpf.o: %.bpf.c $(if $(filter gen,$(VMLINUX)),$(O)/gen/vmlinux/vmlinux.h)
	$(call say,BPF,$<)
	$(Q)mkdir -p $(@D) && $(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

define skeleton
$(O)/gen/$(notdir $(1:%.bpf.c=%.skel.h)): $(O)/bpf/$(1:%.bpf.c=%.bpf.o)
	$$(call say,SKEL,$$@)
	$$(Q)mkdir -p $$(@D) && $(BPFTOOL) gen skeleton $$< name $(notdir $(1:%.bpf.c=%))_bpf > $$@
endef
$(foreach s,$(BPF_SRC),$(eval $(call skeleton,$(s))))

$(PROTO): schemas/cluster.proto
	$(call say,PROTO,$<)
	$(Q)mkdir -p $(@D) && protoc-c --proto_path=$(<D) --c_out=$(@D) $<

$(O)/obj/gen/%.o: $(O)/gen/%.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(INCLUDES) -MMD -MP -c $< -o $@

$(O)/obj/%.o: %.c | $(SKEL) $(PROTO)
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(INCLUDES) -MMD -MP -c $< -o $@

# The assembler reads the kernels' text (.incbin), which no -MMD sees.
$(O)/obj/tools/stress/kernels/kernels.o: tools/stress/kernels/stress.ptx
$(O)/obj/release/tools/stress/kernels/kernels.o: tools/stress/kernels/stress.ptx

# A page: its script in one piece, and the hash by which the page allows that and no other. What begins with 1 in the
# report's folder is of all pages.
REPORT_JS := $(sort $(wildcard user/sink/report/page/*.js))
STRESS_JS := $(sort $(wildcard user/sink/report/page/1*.js)) $(sort $(wildcard tools/stress/all/page/*.js))
define page
$(O)/gen/gen_$(1).h: $(2) $(3)
	$$(call say,PAGE,$$@)
	$$(Q)mkdir -p $$(@D) && cat $(2) > $(O)/gen/$(1).js
	$$(Q)hash=$$$$(sha256sum < $(O)/gen/$(1).js | cut -c1-64 | tr a-f A-F | basenc --base16 -d | base64 -w0) && \
		printf '#define $(4)_SCRIPT "%s"\n#define $(4)_SCRIPT_SHA256 "sha256-%s"\n' \
		'$(O)/gen/$(1).js' "$$$$hash" > $$@
endef
$(eval $(call page,report,$(REPORT_JS),$(wildcard user/sink/report/page/*),REPORT))
$(eval $(call page,stress,$(STRESS_JS),$(wildcard tools/stress/all/page/* user/sink/report/page/*),STRESS))
$(O)/obj/user/sink/report/page.o: $(O)/gen/gen_report.h
$(O)/obj/tools/stress/all/all_page.o: $(O)/gen/gen_stress.h

$(O)/ranktrace: $(OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

# An archive: a test that stands in for a part of the program (a fixture's model) keeps that part out.
$(O)/libranktrace.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(O)/libtests.a: $(UNIT_AID)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# What is installed goes on where what is tested ends at an assertion.
RELEASE_OBJ := $(patsubst $(O)/obj/user/finding.o,$(O)/obj/release/user/finding.o,$(OBJ))
$(O)/obj/release/%.o: %.c
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -DNDEBUG $(INCLUDES) -MMD -MP -c $< -o $@

$(O)/release/ranktrace: $(RELEASE_OBJ)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

# Replay alone: the link fails if what decodes, models, detects or shows needs libbpf or libelf (tests/replay). What
# agents of several hosts report is merged, too (protobuf-c).
$(O)/ranktrace-replay: $(O)/obj/tests/replay/replay_main.o $(O)/libranktrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ -pthread -ldeflate -lcjson -lseccomp -lcap -lprotobuf-c -lm -o $@

define unit_program
$(O)/tests/$(notdir $(1:.c=)): $(O)/obj/$(1:.c=.o) $(O)/libtests.a $(O)/libranktrace.a
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(CFLAGS) $$^ $$(LIBS) -lcmocka -o $$@
endef
$(foreach s,$(UNIT_SRC),$(eval $(call unit_program,$(s))))

$(BENCH_OBJ): CFLAGS += -DO='"$(O)"'

$(O)/bench: $(BENCH_OBJ) $(O)/libranktrace.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

bench: deps ## speed and memory of the collector on this machine (the probe's cost too, as root)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build $(O)/bench
	$(Q)$(O)/bench $(ONLY)

unit: $(UNIT) $(O)/ranktrace-replay ## build the unit tests

mutate: deps-test ## how many of COUNT small mutations (SEED, FILES, ONLY) the unit tests kill: an hour, tests/mutate
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) unit
	$(Q)CFLAGS='-O0 --coverage' $(MAKE) --no-print-directory $(PARALLEL) O=$(O)/covered unit
	$(Q)O='$(O)' COVERED='$(O)/covered' CC='$(CC)' CFLAGS='$(CFLAGS)' INCLUDES='$(INCLUDES)' LIBS='$(LIBS)' \
		SEED='$(SEED)' COUNT='$(COUNT)' FILES='$(FILES)' ONLY='$(ONLY)' nice python3 -B tests/mutate/mutate.py

demo: deps ## simulated 8-rank job with faults under the real tracer (root)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build
	$(Q)O=$(O) tools/demo.sh

QUICK := unit/* replay/* faults/test_f03_hang.py faults/test_f08_dstate.py faults/test_healthy.py
quick: deps-test ## in three minutes: unit tests, house rules, replays, three end-to-end tests (root)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build unit
	$(Q)$(MAKE) --no-print-directory check
	$(Q)O=$(O) TRIALS=1 ONLY='$(QUICK)' tests/run.sh

test: deps-test ## all tests that need no GPU (root)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build unit fuzzers-if
	$(Q)O=$(O) tests/run.sh

test-long: deps-test ## all tests, then the fault matrix with its full counts (hours; JOBS=n trials at once)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build unit fuzzers-if
	$(Q)O=$(O) LONG=1 TEST_TIMEOUT=7200 tests/run.sh
	$(Q)O=$(O) python3 -B tests/faults/matrix.py

test-life: deps-test ## ordinary life of a job: 30 minutes live under record and watch, 200 scripted hours
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build unit
	$(Q)O=$(O) LONG=1 TEST_TIMEOUT=3600 ONLY='*/test_*_life.py unit/test_hours' tests/run.sh

soak: deps-test ## jobs come and go under watch and record for MINUTES (120): flat, each fault reported once (root)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build
	$(Q)O=$(O) MINUTES=$(or $(MINUTES),120) TEST_TIMEOUT=86400 RETRY_S=0 ONLY='own/test_soak.py' tests/run.sh

bench-budget: deps ## a job of 20,000 CUDA events a step: cost of its probes against the budget, its step time (root)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build
	$(Q)O=$(O) python3 -B tools/bench/budget.py $(ARGS)

.PHONY: bench-overhead
bench-overhead: deps ## the simulated job with each tier on and off in turns: steps, price, our CPU, memory (root)
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build
	$(Q)O=$(O) python3 -B tools/bench/overhead.py $(ARGS)

check: ## house rules: layers, sizes, names, licences
	$(Q)scripts/check.sh

reproducible: deps ## build twice, in two folders, without a cache: the same bytes (two minutes)
	$(Q)tests/check/reproducible.sh

sbom: deps ## bill of materials (SPDX 2.3) of what is installed: $(O)/ranktrace.spdx.json
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) $(O)/release/ranktrace
	$(Q)python3 -B scripts/sbom.py $(O)/release/ranktrace > $(O)/ranktrace.spdx.json

DEB := $(abspath $(O))/deb
DEB_NAMES := --changes-file=$(DEB)/ranktrace.changes --buildinfo-file=$(DEB)/ranktrace.buildinfo
deb: ## Debian packages (ranktrace, ranktrace-simjob) in $(O)/deb
	$(Q)scripts/deps.sh packages
	$(Q)rm -rf $(DEB) && mkdir -p $(DEB)
	$(Q)KEEP_BUILT=1 DEB_OUT=$(DEB) dpkg-buildpackage -b -us -uc -j2 --changes-option=-u$(DEB) \
		--buildinfo-option=-u$(DEB) $(DEB_NAMES) > $(DEB)/log 2>&1 || { tail -n 20 $(DEB)/log; exit 1; }
	@ls $(DEB)/*.deb

# For hosts of other distributions: most of what it needs is in the program, the rest comes along. It finds that by
# DT_RPATH, which holds for the needs of these, too. GNU tar, the same bytes from the same tree.
DIST_NAME := ranktrace-$(shell sed -n 's/.*RANKTRACE_VERSION "\(.*\)"/\1/p' user/command.h)-linux-$(if $(filter \
	x86,$(ARCH)),x86_64,$(ARCH))
$(O)/dist/ranktrace: $(RELEASE_OBJ)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) -s -Wl,-rpath,'$$ORIGIN/../lib/ranktrace/libs' \
		-Wl,--disable-new-dtags $^ $(call libraries,bpf deflate seccomp cap protobuf-c) -o $@

$(O)/dist/simcluster: $(SIMCLUSTER_OBJ) $(O)/libranktrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) -s -Wl,-rpath,'$$ORIGIN/../libs' -Wl,--disable-new-dtags $^ \
		$(call libraries,deflate seccomp cap protobuf-c) -o $@

.PHONY: dist-of
dist-of: simjob $(O)/dist/ranktrace $(O)/dist/simcluster
	$(Q)scripts/dist.sh $(O) $(MAN) $(O)/dist/$(DIST_NAME)

dist: build man ## tarball for x86-64 hosts of any distribution with glibc 2.34: $(O)/dist
	$(Q)$(MAKE) --no-print-directory dist-of MAN=$(O)/man

dist-arm64: build man ## the same for arm64: $(O)/arm64/dist
	$(Q)root=$$(tests/vm/arm64_root.sh) && SYSROOT=$$root $(MAKE) --no-print-directory O=$(O)/arm64 ARCH=arm64 \
		dist-of MAN=$(O)/man \
		CC="clang --target=aarch64-linux-gnu --sysroot=$$root -fuse-ld=lld -Wno-unused-command-line-argument"

pack: build $(O)/release/ranktrace ## binary and its libraries in $(O)/gpu, for a GPU machine without them
	$(Q)rm -rf $(O)/gpu && mkdir -p $(O)/gpu
	$(Q)$(CC) $(CFLAGS) -s -Wl,-rpath,'$$ORIGIN' -Wl,--disable-new-dtags $(RELEASE_OBJ) $(LIBS) \
		-o $(O)/gpu/ranktrace
	$(Q)mkdir -p $(O)/gpu/lib/ranktrace && cp -r $(O)/lib/ranktrace/sim $(O)/gpu/lib/ranktrace/
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -s -Wl,-rpath,'$$ORIGIN/../../..' -Wl,--disable-new-dtags $(SIMCLUSTER_OBJ) \
		$(O)/libranktrace.a $(LIBS) -o $(O)/gpu/lib/ranktrace/sim/simcluster
	$(Q)ldd $(O)/ranktrace | awk '$$3 ~ /^\// { print $$3 }' | grep -vE '/(libc|libm|libpthread)\.so' | \
		xargs -I{} cp -L {} $(O)/gpu/

arm64: ## build for arm64 into $(O)/arm64, with Debian's libraries for it unpacked into $(O)/vm (nothing is installed)
	$(Q)root=$$(tests/vm/arm64_root.sh) && $(MAKE) --no-print-directory O=$(O)/arm64 ARCH=arm64 build \
		CC="clang --target=aarch64-linux-gnu --sysroot=$$root -fuse-ld=lld -Wno-unused-command-line-argument"

test-vm: ## load, count and find faults on Debian's 5.10, 6.1, 6.12 in guests, on this kernel, and on arm64 (root)
	$(Q)scripts/deps.sh vm
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) arm64
	$(Q)O=$(O) tests/vm/run.sh all

$(O)/man/made: $(O)/ranktrace scripts/manuals.sh user/commands.def
	$(call say,MAN,$(O)/man)
	$(Q)scripts/manuals.sh $(O)/ranktrace $(O)/man && touch $@

man: $(O)/man/made ## man page of each command, completion for bash, zsh and fish: $(O)/man

SHARE = $(DESTDIR)$(PREFIX)/share
install-man: man
	install -d $(SHARE)/man/man1
	install -m644 $(O)/man/man1/*.1 $(SHARE)/man/man1/
	install -D -m644 $(O)/man/bash/ranktrace $(SHARE)/bash-completion/completions/ranktrace
	install -D -m644 $(O)/man/zsh/_ranktrace $(SHARE)/zsh/site-functions/_ranktrace
	install -D -m644 $(O)/man/fish/ranktrace.fish $(SHARE)/fish/vendor_completions.d/ranktrace.fish

install: build install-man $(O)/release/ranktrace ## to DESTDIR/PREFIX
	install -D -m755 $(O)/release/ranktrace $(DESTDIR)$(PREFIX)/bin/ranktrace
	install -d $(DESTDIR)$(PREFIX)/lib/ranktrace/sim
	cd $(O)/lib/ranktrace/sim && find . -type f -exec \
		install -D -m755 {} "$(abspath $(DESTDIR)$(PREFIX))/lib/ranktrace/sim/{}" \;

clean: ## remove what was built
	rm -rf $(O)

-include $(BPF_OBJ:.o=.d) $(OBJ:.o=.d) $(RELEASE_OBJ:.o=.d) $(BENCH_OBJ:.o=.d)
-include $(UNIT_SRC:%.c=$(O)/obj/%.d) $(UNIT_AID:.o=.d)
