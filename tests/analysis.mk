# SPDX-License-Identifier: Apache-2.0
# Sanitizers, valgrind, static analysis: a target each, each a build of its own (O/asan, O/tsan; the simulated job is
# the plain build's: its libraries are loaded by anybody's program). Status other than 0: findings.
.PHONY: sanitize sanitize-thread valgrind lint

SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
SANITIZE_THREAD := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
# End to end: a hang found by calls, by counters alone, by an autopsy; all recordings; the parsers' workers.
SANITIZE_TESTS := unit/* replay/test_replay.py replay/test_replay_alone.py faults/test_f03_hang.py \
	autopsy/test_autopsy.py watch/test_watch_waits.py
# What has threads: the side threads of samplers, the stacks' thread, the pool that lists processes, the closer.
# Not session_stacks: it names frames of the C library, in whose place the sanitizer's own are.
SANITIZE_THREAD_UNIT := side_thread sample_ports sample_qps sample_tcp target_reader target_parser stack_group \
	autopsy_gpus
SANITIZE_THREAD_BUILT := $(SANITIZE_THREAD_UNIT:%=$(O)/tsan/tests/test_%)
SANITIZE_THREAD_TESTS := $(SANITIZE_THREAD_UNIT:%=unit/test_%) faults/test_f03_hang.py autopsy/test_autopsy.py \
	watch/test_watch_waits.py

# sanitized FOLDER, FLAGS, UNIT PROGRAMS, TESTS
define sanitized
	$(Q)$(MAKE) --no-print-directory build
	$(Q)CFLAGS='$(2)' $(MAKE) --no-print-directory O=$(O)/$(1) $(O)/$(1)/ranktrace $(O)/$(1)/ranktrace-replay $(3)
	$(Q)rm -rf $(O)/$(1)/lib && cp -a $(O)/lib $(O)/$(1)/lib
	$(Q)O=$(O)/$(1) ONLY='$(or $(ONLY),$(4))' tests/run.sh
endef

sanitize: export TEST_TIMEOUT ?= 1200
sanitize: deps-test ## unit and end-to-end tests under the address and undefined behaviour sanitizers (root)
	$(call sanitized,asan,$(SANITIZE),unit,$(SANITIZE_TESTS))

sanitize-thread: export TEST_TIMEOUT ?= 1200
sanitize-thread: export TSAN_OPTIONS ?= die_after_fork=0 halt_on_error=1 exitcode=66
sanitize-thread: deps-test ## threads, record and watch of the simulated job, under the thread sanitizer (root)
	$(call sanitized,tsan,$(SANITIZE_THREAD),$(SANITIZE_THREAD_BUILT),$(SANITIZE_THREAD_TESTS))

valgrind: deps-lint ## unit programs under memcheck, those of SECONDS_MOST (1) seconds alone; ONLY=pattern
	$(Q)$(MAKE) --no-print-directory unit
	$(Q)O=$(O) ONLY='$(ONLY)' SECONDS_MOST='$(SECONDS_MOST)' nice tests/valgrind.sh

lint: deps-lint $(SKEL) ## static analysis: gcc -fanalyzer, cppcheck, clang-tidy; FILES='a.c b.h' or FILES=changed
	$(Q)O=$(O) FILES='$(FILES)' TOOLS='$(TOOLS)' nice scripts/lint.sh

.PHONY: deps-lint
deps-lint:
	$(Q)scripts/deps.sh lint
