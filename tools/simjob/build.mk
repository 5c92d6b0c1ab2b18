# SPDX-License-Identifier: Apache-2.0
# The simulated job: two stand-in libraries and the binary, in one folder, found relative to each other.
# SIM_LAYOUT=0|1|2 chooses the layout of struct ncclComm; layoutN/libnccl.so.2 has each of the others (simjob
# --nccl-lib).
SIM_DIR := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
SIM_OUT := $(O)/lib/ranktrace/sim
SIM_OBJ := $(O)/obj/sim
SIM_LAYOUT ?= 0
SIM_OTHER_LAYOUTS := $(filter-out $(SIM_LAYOUT),0 1 2)

# -g whatever CFLAGS say: a tracer learns the structs from the DWARF. Frame pointers are left to CFLAGS, too.
SIM_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra $(CFLAGS) -I. -g
SIM_LIB_CFLAGS := $(SIM_CFLAGS) -fPIC -fvisibility=hidden

SIM_CUDA_OBJ := $(patsubst $(SIM_DIR)/%.c,$(SIM_OBJ)/%.o,$(wildcard $(SIM_DIR)/libcuda/*.c))
SIM_NCCL_SRC := $(wildcard $(SIM_DIR)/libnccl/*.c)
SIM_JOB_SRC := $(wildcard $(SIM_DIR)/job/*.c $(SIM_DIR)/faults/*.c $(SIM_DIR)/life/*.c $(SIM_DIR)/libpython/*.c)
SIM_JOB_OBJ := $(SIM_JOB_SRC:$(SIM_DIR)/%.c=$(SIM_OBJ)/%.o)
SIM_LIBS := $(SIM_OUT)/libcuda.so.1 $(SIM_OUT)/libnvidia-ml.so.1 $(SIM_OUT)/libcublasLt.so.13 \
	$(SIM_OUT)/libtorch_cpu.so $(SIM_OUT)/libtorch_cuda.so $(SIM_OUT)/libnccl.so.2 \
	$(SIM_OTHER_LAYOUTS:%=$(SIM_OUT)/layout%/libnccl.so.2)

.PHONY: simjob
SIM_PROGRAMS := $(SIM_OUT)/simjob $(SIM_OUT)/simjob-static $(SIM_OUT)/simjob-static-symtab
simjob: $(SIM_LIBS) $(SIM_PROGRAMS) ## the simulated job and its stand-ins for libnccl and libcuda

$(SIM_OBJ)/lib%.o: $(SIM_DIR)/lib%.c
	$(Q)mkdir -p $(@D) && $(CC) $(SIM_LIB_CFLAGS) -MMD -MP -c $< -o $@

$(SIM_OBJ)/%.o: $(SIM_DIR)/%.c
	$(Q)mkdir -p $(@D) && $(CC) $(SIM_CFLAGS) -MMD -MP -c $< -o $@

$(SIM_OUT)/libnvidia-ml.so.1: $(SIM_OBJ)/libnvml/nvml.o $(SIM_OBJ)/libnvml/links.o
	$(Q)mkdir -p $(@D) && $(CC) -shared -Wl,-soname,libnvidia-ml.so.1 -Wl,-z,defs $^ -o $@

$(SIM_OUT)/libcublasLt.so.13: $(SIM_OBJ)/libcublaslt/cublaslt.o
	$(Q)mkdir -p $(@D) && $(CC) -shared -Wl,-soname,libcublasLt.so.13 -Wl,-z,defs $^ -o $@ -ldl -lm

# Stripped, as wheels are: what has no name in .dynsym has none.
$(SIM_OUT)/libtorch_cpu.so: $(SIM_OBJ)/libtorch/torch.o
	$(Q)mkdir -p $(@D) && $(CC) -shared -s -Wl,-soname,libtorch_cpu.so -Wl,-z,defs $^ -o $@

$(SIM_OUT)/libtorch_cuda.so: $(SIM_OBJ)/libtorch/torch_cuda.o
	$(Q)mkdir -p $(@D) && $(CC) -shared -s -Wl,-soname,libtorch_cuda.so -Wl,-z,defs $^ -o $@

$(SIM_OUT)/libcuda.so.1: $(SIM_CUDA_OBJ)
	$(Q)mkdir -p $(@D) && $(CC) -shared -Wl,-soname,libcuda.so.1 -Wl,-z,defs $^ -o $@ -pthread -ldl

# A layout is a set of objects of its own.
define sim_nccl_layout
$(SIM_OBJ)/libnccl$(1)/%.o: $(SIM_DIR)/libnccl/%.c
	$$(Q)mkdir -p $$(@D) && $$(CC) $$(SIM_LIB_CFLAGS) -DSIM_LAYOUT=$(1) -MMD -MP -c $$< -o $$@

$(2): $(SIM_NCCL_SRC:$(SIM_DIR)/libnccl/%.c=$(SIM_OBJ)/libnccl$(1)/%.o)
	$$(Q)mkdir -p $$(@D) && $$(CC) -shared -Wl,-soname,libnccl.so.2 -Wl,-z,defs -Wl,-rpath,'$$$$ORIGIN' $$^ -o $$@ \
		-pthread -ldl
endef
$(eval $(call sim_nccl_layout,$(SIM_LAYOUT),$(SIM_OUT)/libnccl.so.2))
$(foreach n,$(SIM_OTHER_LAYOUTS),$(eval $(call sim_nccl_layout,$(n),$(SIM_OUT)/layout$(n)/libnccl.so.2)))

$(SIM_OUT)/simjob: $(SIM_JOB_OBJ)
	$(Q)mkdir -p $(@D) && $(CC) $^ -o $@ -pthread -ldl -lm

# With the libnccl stand-in inside, as in a user's binary; its names in .dynsym and .symtab, or in .symtab only.
SIM_STATIC_OBJ := $(SIM_JOB_OBJ:$(SIM_OBJ)/job/api.o=$(SIM_OBJ)/job-static/api.o) \
	$(SIM_NCCL_SRC:$(SIM_DIR)/libnccl/%.c=$(SIM_OBJ)/libnccl$(SIM_LAYOUT)/%.o)

$(SIM_OBJ)/job-static/api.o: $(SIM_DIR)/job/api.c
	$(Q)mkdir -p $(@D) && $(CC) $(SIM_CFLAGS) -DSIM_NCCL_LINKED -MMD -MP -c $< -o $@

$(SIM_OUT)/simjob-static: $(SIM_STATIC_OBJ)
	$(Q)mkdir -p $(@D) && $(CC) -rdynamic $^ -o $@ -pthread -ldl -lm

$(SIM_OUT)/simjob-static-symtab: $(SIM_STATIC_OBJ)
	$(Q)mkdir -p $(@D) && $(CC) $^ -o $@ -pthread -ldl -lm

-include $(wildcard $(SIM_OBJ)/*/*.d)
