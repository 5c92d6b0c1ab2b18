#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Whatever the stand-in's cuGetProcAddress hands out for a probed function is probed; and the check that says so, which
# is meant for the real driver, does find an address that is not, one of another function, and one of another tier.
cd "$(dirname "$0")/../.." || exit 2
O=${O:-build}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
check() { python3 -B tests/gpu/proc_address.py "$O/ranktrace" "$1"; }
fail() { echo "$*"; exit 1; }

check "$O/lib/ranktrace/sim/libcuda.so.1" || fail "the stand-in hands out addresses that are not probed"

# stub NAME ANSWER: a driver that answers NAME with ANSWER and nothing else
stub() {
	cat > "$dir/stub.c" << C
#include <string.h>
int cuInit(unsigned f) { return 0; }
int cuMemAlloc_v2(void *p, unsigned long n) { return 1; }
int cuLaunchKernel(void) { return 2; }
int cuStreamSynchronize(void *s) { return 3; }
static int hidden(void *s) { return 4; }
int cuGetProcAddress_v2(const char *name, void **at, int version, unsigned long flags, int *status)
{
	*at = strcmp(name, "$1") ? 0 : (void *)$2;
	*status = !*at;
	return *at ? 0 : 500;
}
C
	"${CC:-cc}" -w -shared -fPIC -o "$dir/stub.so" "$dir/stub.c"
}
stub cuStreamSynchronize cuStreamSynchronize
check "$dir/stub.so" > "$dir/log" || fail "a probed address is called outside: $(cat "$dir/log")"
stub cuStreamSynchronize hidden
check "$dir/stub.so" > "$dir/log" && fail "an address that is not probed is not found"
grep -q 'OUTSIDE cuStreamSynchronize -> not probed' "$dir/log" || fail "said: $(cat "$dir/log")"
stub cuStreamSynchronize cuMemAlloc_v2
check "$dir/stub.so" > "$dir/log" && fail "another function's address is not found"
stub cuMemAlloc cuLaunchKernel
check "$dir/stub.so" > "$dir/log" && fail "another tier's address is not found"
stub cuNothing cuLaunchKernel
check "$dir/stub.so" > "$dir/log" && fail "a driver without answers passes"
exit 0
