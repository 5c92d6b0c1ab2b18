# SPDX-License-Identifier: Apache-2.0
# Sanitizers, valgrind, static analysis: a target each, each a build of its own (O/asan, O/tsan; the simulated job is
# the plain build's: its libraries are loaded by anybody's program). Status other than 0: findings.
.PHONY: sanitize sanitize-e2e valgrind lint
.PHONY: sanitize-address sanitize-thread sanitize-e2e-address sanitize-e2e-thread

SANITIZE_FLAGS_address := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
SANITIZE_FLAGS_thread := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
SANITIZE_DIR_address := asan
SANITIZE_DIR_thread := tsan
# End to end, some of each kind: a hang found by calls, by counters alone, by an autopsy; recordings made and read;
# hosts together; the parsers' workers, hostile files before them. Their filters and limits of memory are the plain
# build's alone (user/base/confine.h). None that judges how long something takes.
SANITIZE_END_TO_END := replay/test_replay.py replay/test_replay_alone.py faults/test_f03_hang.py \
	faults/test_f05_mismatch.py autopsy/test_autopsy.py autopsy/test_autopsy_merge.py \
	watch/test_watch_reload.py watch/test_watch_metrics.py watch/test_watch_stacks.py record/test_nccl_calls.py \
	record/test_outputs_of_days.py record/test_flight.py hostile/test_costly_files.py hostile/test_planted.py \
	hostile/test_recording.py hostile/test_forged_job.py hostile/test_kernel_log.py hostile/test_foreign_text.py \
	cluster/test_node_findings.py command/test_bad_input.py
# Under the thread sanitizer not session_stacks, which names frames of the C library, in whose place the sanitizer's
# are; nor target_reader: workers asleep in the sanitizer's start are what it takes for blocked.
SANITIZE_UNIT_address := unit/*
SANITIZE_UNIT_thread := $(filter-out unit/test_session_stacks unit/test_target_reader,$(UNIT:$(O)/tests/%=unit/%))

# sanitized KIND, TARGETS: a build with that sanitizer, beside the plain build's simulated job.
define sanitized
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) build
	$(Q)CFLAGS='$(SANITIZE_FLAGS_$(1))' $(MAKE) --no-print-directory $(PARALLEL) \
		O=$(O)/$(SANITIZE_DIR_$(1)) $(2) \
		$(O)/$(SANITIZE_DIR_$(1))/ranktrace $(O)/$(SANITIZE_DIR_$(1))/ranktrace-replay
	$(Q)rm -rf $(O)/$(SANITIZE_DIR_$(1))/lib && cp -a $(O)/lib $(O)/$(SANITIZE_DIR_$(1))/lib
endef

SAN ?= address thread
sanitize: ## unit and end-to-end tests under sanitizers: address with undefined, then thread (root; SAN=thread: that)
	$(Q)for s in $(SAN); do $(MAKE) --no-print-directory sanitize-$$s || failed=1; done; \
		[ -n '$(ONLY)' ] || $(MAKE) --no-print-directory sanitize-e2e || failed=1; [ -z "$$failed" ]

sanitize-e2e: ## the end-to-end tests of that alone (root; SAN=thread, ONLY='watch/*')
	$(Q)for s in $(SAN); do $(MAKE) --no-print-directory sanitize-e2e-$$s || failed=1; done; [ -z "$$failed" ]

sanitize-address sanitize-thread sanitize-e2e: export TEST_TIMEOUT ?= 1200
sanitize-thread sanitize-e2e: export TSAN_OPTIONS ?= die_after_fork=0 halt_on_error=1 exitcode=66
sanitize-address sanitize-thread: sanitize-%: deps-test
	$(call sanitized,$*,unit)
	$(Q)O=$(O)/$(SANITIZE_DIR_$*) ONLY='$(or $(ONLY),$(SANITIZE_UNIT_$*))' tests/run.sh

sanitize-e2e-address sanitize-e2e-thread: sanitize-e2e-%: deps-test
	$(call sanitized,$*)
	$(Q)O=$(O)/$(SANITIZE_DIR_$*) ONLY='$(or $(ONLY),$(SANITIZE_END_TO_END))' tests/sanitize.sh

valgrind: deps-lint ## unit programs under memcheck, those of SECONDS_MOST (1) seconds alone; ONLY=pattern
	$(Q)$(MAKE) --no-print-directory $(PARALLEL) unit
	$(Q)O=$(O) ONLY='$(ONLY)' SECONDS_MOST='$(SECONDS_MOST)' nice tests/valgrind.sh

lint: deps-lint $(SKEL) ## static analysis: gcc -fanalyzer, cppcheck, clang-tidy; FILES='a.c b.h' or FILES=changed
	$(Q)O=$(O) FILES='$(FILES)' TOOLS='$(TOOLS)' nice scripts/lint.sh

.PHONY: deps-lint
deps-lint:
	$(Q)scripts/deps.sh lint
