# SPDX-License-Identifier: Apache-2.0
# The simulated cluster: a program of its own, linked to the library that a hub is made of.
SIMCLUSTER_DIR := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
SIMCLUSTER := $(O)/lib/ranktrace/sim/simcluster
SIMCLUSTER_OBJ := $(patsubst %.c,$(O)/obj/%.o,$(wildcard $(SIMCLUSTER_DIR)/*.c))

.PHONY: simcluster eval eval-full
simcluster: $(SIMCLUSTER)

$(SIMCLUSTER): $(SIMCLUSTER_OBJ) $(O)/libranktrace.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) -o $@

eval: deps ## simulated faults at 10,240 ranks, and 5 h of life, against the bars: docs/evaluation.md (15 minutes)
	$(Q)$(MAKE) --no-print-directory simcluster
	$(Q)O=$(O) python3 -B tools/simcluster/eval.py

eval-full: deps ## the same with all counts and a simulated week of ordinary life (3 days of a processor)
	$(Q)$(MAKE) --no-print-directory simcluster
	$(Q)O=$(O) python3 -B tools/simcluster/eval.py --full

-include $(SIMCLUSTER_OBJ:.o=.d)
