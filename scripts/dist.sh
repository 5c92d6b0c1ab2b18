#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Packs what `make dist` built: scripts/dist.sh BUILD MAN NAME leaves NAME.tar.gz, which unpacks to a folder bin/, lib/,
# share/ as below /usr/local, and NAME.tar.gz.sha256. SYSROOT: where libraries are, if not on this machine. Libraries
# that are linked come along, but for the C library; those that are opened at run time (libmicrohttpd, libyaml, libnats,
# libcurl, libcrypto, ncurses, NVIDIA's) are the host's: most bring TLS, which has to get the host's updates.
set -euo pipefail
export LC_ALL=C
build=$1 man=$2 name=$3
root=$(cd "$(dirname "$0")/.." && pwd)
tree=$name
rm -rf "$tree" && mkdir -p "$tree"/{bin,lib/ranktrace/libs,share/ranktrace/systemd,share/doc/ranktrace}

# Where the loader of that machine would find it.
library() {
	local triplet=x86_64-linux-gnu dir
	[[ -z ${SYSROOT:-} ]] || triplet=aarch64-linux-gnu
	for dir in "${SYSROOT:-}"{/usr,}/lib/$triplet; do
		[[ -e $dir/$1 ]] && { echo "$dir/$1"; return; }
	done
	echo "dist: $1 is not in ${SYSROOT:-this machine}" >&2
	exit 1
}

needs() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

collect() { # file: what it needs, and what that needs
	local so path
	for so in $(needs "$1"); do
		case $so in
		libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux*) continue ;;
		esac
		[[ -e $tree/lib/ranktrace/libs/$so ]] && continue
		path=$(library "$so")
		install -m644 "$(readlink -f "$path")" "$tree/lib/ranktrace/libs/$so"
		collect "$path"
	done
}

install -m755 "$build/dist/ranktrace" "$tree/bin/ranktrace"
cp -r "$build/lib/ranktrace/sim" "$tree/lib/ranktrace/"
install -m755 "$build/dist/simcluster" "$tree/lib/ranktrace/sim/simcluster"
collect "$tree/bin/ranktrace"
collect "$tree/lib/ranktrace/sim/simcluster"
cp -r "$man/man1" "$tree/share/" && mkdir "$tree/share/man" && mv "$tree/share/man1" "$tree/share/man/"
install -D -m644 "$man/bash/ranktrace" "$tree/share/bash-completion/completions/ranktrace"
install -D -m644 "$man/zsh/_ranktrace" "$tree/share/zsh/site-functions/_ranktrace"
install -D -m644 "$man/fish/ranktrace.fish" "$tree/share/fish/vendor_completions.d/ranktrace.fish"
cp -r "$root/tools/deploy/slurm" "$root/tools/deploy/kubernetes" "$root/dashboards" "$tree/share/ranktrace/"
install -m644 "$root/tools/deploy/ranktrace.conf" "$tree/share/ranktrace/"
sed 's,/usr/bin/ranktrace,/usr/local/bin/ranktrace,' "$root/debian/ranktrace.service" \
	> "$tree/share/ranktrace/systemd/ranktrace.service"
cp -r "$root/LICENSES" "$root/README.md" "$root/SECURITY.md" "$root/docs" "$tree/share/doc/ranktrace/"
find "$tree" -name __pycache__ -prune -exec rm -rf {} +
chmod -R u=rwX,go=rX "$tree"

at=$(git -C "$root" log -1 --format=%ct 2> /dev/null || echo 0)
tar -C "$(dirname "$tree")" --sort=name --mtime="@${SOURCE_DATE_EPOCH:-$at}" --owner=0 --group=0 --numeric-owner \
	--use-compress-program='gzip -n -9' -cf "$name.tar.gz" "$(basename "$tree")"
rm -rf "$tree"
(cd "$(dirname "$name")" && sha256sum "$(basename "$name").tar.gz" > "$(basename "$name").tar.gz.sha256")
echo "$name.tar.gz: $(du -h "$name.tar.gz" | cut -f1)"
