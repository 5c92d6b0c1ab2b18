# SPDX-License-Identifier: Apache-2.0
# Sanitizers, valgrind, static analysis: a target each, each a build of its own (O/asan, O/tsan; the simulated job is
# the plain build's: its libraries are loaded by anybody's program). Status other than 0: findings.
.PHONY: sanitize sanitize-address sanitize-thread valgrind lint

SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
SANITIZE_THREAD := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
# End to end: a hang found by calls, by counters alone, by an autopsy; all recordings; the parsers' workers, hostile
# files before them. Their filters and limits of memory are the plain build's alone (user/base/confine.h).
SANITIZE_END_TO_END := replay/test_replay.py replay/test_replay_alone.py faults/test_f03_hang.py \
	autopsy/test_autopsy.py watch/test_watch_waits.py hostile/test_costly_files.py hostile/test_planted.py
# Under the thread sanitizer not session_stacks, which names frames of the C library, in whose place the sanitizer's
# are; nor target_reader: workers asleep in the sanitizer's start are what it takes for blocked.
SANITIZE_TESTS_address := unit/* $(SANITIZE_END_TO_END)
SANITIZE_TESTS_thread := $(filter-out unit/test_session_stacks unit/test_target_reader,$(UNIT:$(O)/tests/%=unit/%)) \
	$(SANITIZE_END_TO_END)

# sanitized FOLDER, FLAGS, TESTS
define sanitized
	$(Q)$(MAKE) --no-print-directory build
	$(Q)CFLAGS='$(2)' $(MAKE) --no-print-directory O=$(O)/$(1) $(O)/$(1)/ranktrace $(O)/$(1)/ranktrace-replay unit
	$(Q)rm -rf $(O)/$(1)/lib && cp -a $(O)/lib $(O)/$(1)/lib
	$(Q)O=$(O)/$(1) ONLY='$(or $(ONLY),$(3))' tests/run.sh
endef

SAN ?= address thread
sanitize: ## unit and end-to-end tests under sanitizers: address with undefined, then thread (root; SAN=thread: that)
	$(Q)for s in $(SAN); do $(MAKE) --no-print-directory sanitize-$$s || failed=1; done; [ -z "$$failed" ]

sanitize-address sanitize-thread: export TEST_TIMEOUT ?= 1200
sanitize-address: deps-test
	$(call sanitized,asan,$(SANITIZE),$(SANITIZE_TESTS_address))

sanitize-thread: export TSAN_OPTIONS ?= die_after_fork=0 halt_on_error=1 exitcode=66
sanitize-thread: deps-test
	$(call sanitized,tsan,$(SANITIZE_THREAD),$(SANITIZE_TESTS_thread))

valgrind: deps-lint ## unit programs under memcheck, those of SECONDS_MOST (1) seconds alone; ONLY=pattern
	$(Q)$(MAKE) --no-print-directory unit
	$(Q)O=$(O) ONLY='$(ONLY)' SECONDS_MOST='$(SECONDS_MOST)' nice tests/valgrind.sh

lint: deps-lint $(SKEL) ## static analysis: gcc -fanalyzer, cppcheck, clang-tidy; FILES='a.c b.h' or FILES=changed
	$(Q)O=$(O) FILES='$(FILES)' TOOLS='$(TOOLS)' nice scripts/lint.sh

.PHONY: deps-lint
deps-lint:
	$(Q)scripts/deps.sh lint
