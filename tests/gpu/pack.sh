#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts the binary and the libraries it needs (but libc's own) into $O/gpu, for a GPU machine without them:
# LD_LIBRARY_PATH=gpu gpu/ranktrace ...
set -eu
O=${O:-build}
rm -rf "$O/gpu" && mkdir -p "$O/gpu"
strip -o "$O/gpu/ranktrace" "$O/ranktrace"
ldd "$O/ranktrace" | awk '$3 ~ /^\// { print $3 }' | grep -vE '/(libc|libm|libpthread|ld-linux[^/]*)\.so' | xargs -I{} cp -L {} "$O/gpu/"
ls -la "$O/gpu"
