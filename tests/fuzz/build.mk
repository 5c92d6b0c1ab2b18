# SPDX-License-Identifier: Apache-2.0
# Fuzz targets (libFuzzer, address sanitizer): one a parser of hostile input. Everything is compiled a second time for
# them, instrumented. `make fuzz` runs each for SECONDS_EACH, AT_ONCE at a time; ONLY='name ...' some of them.
FUZZ_DIR := $(O)/fuzz
FUZZ_OPT := -O1
FUZZ_CFLAGS := -std=gnu11 -D_GNU_SOURCE $(FUZZ_OPT) -gline-tables-only -w -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize=alignment -fno-sanitize-recover=undefined
# Rooms that no target reaches: a quarter of all there is to compile. Should one, its link fails.
FUZZ_WITHOUT := tools/stress/% user/cmd/% user/compare/% user/doctor/% user/notify/% user/top/%
FUZZ_OBJ := $(patsubst %.c,$(FUZZ_DIR)/obj/%.o,$(filter-out $(FUZZ_WITHOUT),$(SRC))) $(FUZZ_DIR)/obj/gen/cluster.pb-c.o
FUZZ_AID := $(patsubst %.c,$(FUZZ_DIR)/obj/%.o,$(filter-out $(wildcard tests/fuzz/fuzz_*.c),$(wildcard tests/fuzz/*.c)))
FUZZERS := $(patsubst tests/fuzz/%.c,$(FUZZ_DIR)/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: fuzz fuzz-pack fuzzers fuzzers-if
.PRECIOUS: $(FUZZ_DIR)/obj/%.o

$(FUZZ_DIR)/obj/gen/%.o: $(O)/gen/%.c
	$(call say,FUZZCC,$<)
	$(Q)mkdir -p $(@D) && $(CLANG) $(FUZZ_CFLAGS) $(INCLUDES) -MMD -MP -c $< -o $@

$(FUZZ_DIR)/obj/%.o: %.c | $(SKEL) $(PROTO)
	$(call say,FUZZCC,$<)
	$(Q)mkdir -p $(@D) && $(CLANG) $(FUZZ_CFLAGS) $(INCLUDES) -MMD -MP -c $< -o $@

$(FUZZ_DIR)/libfuzz.a: $(FUZZ_OBJ)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# What stands in for a part of the program (reader_here.c) comes first, and the first definition counts.
$(FUZZ_DIR)/fuzz_%: $(FUZZ_DIR)/obj/tests/fuzz/fuzz_%.o $(FUZZ_AID) $(FUZZ_DIR)/libfuzz.a
	$(call say,LD,$@)
	$(Q)$(CLANG) -fsanitize=fuzzer,address,undefined -Wl,--allow-multiple-definition $^ $(LIBS) -o $@

fuzzers: $(FUZZERS) ## build the fuzz targets (clang's libFuzzer)

# For tests/fuzz/test_fuzz.sh, in fuzz/quick: two seconds each are no search, and -O0 compiles in a third of the time.
# With a compiler that lacks the runtime that test is skipped, and says why.
fuzzers-if:
	$(Q)if echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
		$(CLANG) -fsanitize=fuzzer,address,undefined -w -x c - -o /dev/null 2> /dev/null; then \
		$(MAKE) --no-print-directory FUZZ_DIR=$(FUZZ_DIR)/quick FUZZ_OPT=-O0 fuzzers; fi

fuzz: deps-test ## run every fuzz target for SECONDS_EACH (60), AT_ONCE (1) at a time
	$(Q)$(MAKE) --no-print-directory build fuzzers
	$(Q)O=$(O) SECONDS_EACH=$(or $(SECONDS_EACH),60) AT_ONCE=$(or $(AT_ONCE),1) ONLY='$(ONLY)' \
		nice -n 19 tests/fuzz/run.sh

fuzz-pack: deps-test ## fuzz targets, corpora and libraries in $(O)/fuzz-pack, to run on another machine
	$(Q)$(MAKE) --no-print-directory build fuzzers
	$(Q)O=$(O) tests/fuzz/pack/pack.sh

-include $(FUZZ_OBJ:.o=.d) $(patsubst tests/fuzz/%.c,$(FUZZ_DIR)/obj/tests/fuzz/%.d,$(wildcard tests/fuzz/*.c))
