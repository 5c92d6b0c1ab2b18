#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fetches and unpacks one Debian kernel for the guests: tests/vm/kernel.sh 5.10|6.1|6.12 [amd64|arm64]. Prints its
# folder in $VM_CACHE (default build/vm), which holds vmlinuz, release and lib/modules. The lists and packages of apt
# lie there too, so that the machine's own stay untouched; the mirrors are those of the machine's own sources. Exit 77,
# with the reason, where it cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."
kernel=$1 arch=${2:-amd64}
cache=${VM_CACHE:-${O:-build}/vm}

skip() { echo "kernel $kernel ($arch): $*" >&2; exit 77; }

case $kernel in
5.10) suites=bullseye security=bullseye-security key=bullseye ;;
6.1) suites=bookworm security=bookworm-security key=bookworm ;;
6.12) suites="bookworm-backports trixie" security= key= ;;
*) echo "kernel.sh: no such kernel: $kernel (5.10, 6.1 or 6.12)" >&2; exit 2 ;;
esac
mkdir -p "$cache"
cache=$(realpath "$cache")
dir=$cache/$kernel-$arch
exec 9> "$cache/.lock"
flock 9
[[ -e $dir/release ]] && { echo "$dir"; exit 0; }

for tool in apt-get dpkg-deb depmod; do
	command -v "$tool" > /dev/null || skip "$tool is missing (make deps-test)"
done
. /etc/os-release
[[ ${ID:-} = debian ]] || skip "the kernels come from Debian's mirrors and this machine has none (${ID:-unknown})"

site_of() { # suite
	apt-get indextargets --format '$(SITE) $(RELEASE)' 2> /dev/null | awk -v s="$1" '$2 == s { print $1; exit }'
}

apt=$cache/apt-$kernel-$arch
mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts}
ring=/usr/share/keyrings/debian-archive-keyring.gpg
[[ -e $ring ]] || skip "debian-archive-keyring is missing"
main=$(site_of "$VERSION_CODENAME") safe=$(site_of "$VERSION_CODENAME-security")
[[ $main ]] || skip "apt's configuration names no mirror of $VERSION_CODENAME"
{
	for s in $suites; do echo "deb [arch=$arch signed-by=$ring] $main $s main"; done
	[[ -z $security || -z $safe ]] || echo "deb [arch=$arch signed-by=$ring] $safe $security main"
} > "$apt/sources.list"
apt_options=(-o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "Dir::Etc::sourcelist=$apt/sources.list"
	-o "Dir::Etc::sourceparts=$apt/parts" -o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" \
		-o APT::Sandbox::User=root
	-o Acquire::Languages=none -o Acquire::Retries=3 \
		-o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
	-o Acquire::Check-Valid-Until=false)
# A suite that has moved away (an old release) must not stop the others.
apt-get "${apt_options[@]}" -qq update > "$apt/log" 2>&1 || true

names=$(apt-cache "${apt_options[@]}" pkgnames "linux-image-$kernel." |
	grep -E "^linux-image-${kernel//./\\.}\.[0-9+~.a-z]+(-[0-9]+)?-$arch-unsigned\$" | sort -V || true)
[[ $names ]] || skip "no package in ${suites// /, }: $(tail -n 1 "$apt/log")"
package=$(tail -n 1 <<< "$names")
(cd "$apt" && apt-get "${apt_options[@]}" -qq download "$package" >> log 2>&1) ||
	skip "$package: $(tail -n 1 "$apt/log")"

rm -rf "$dir.new"
dpkg-deb -x "$apt/$package"_*.deb "$dir.new"
release=$(basename "$dir.new"/boot/vmlinuz-*)
release=${release#vmlinuz-}
mv "$dir.new/boot/vmlinuz-$release" "$dir.new/vmlinuz"
mkdir -p "$dir.new/lib"
[[ -d $dir.new/usr/lib/modules ]] && mv "$dir.new/usr/lib/modules" "$dir.new/lib/modules"
# no guest has these, and they are most of it
rm -rf "$dir.new/lib/modules/$release/kernel/"{sound,drivers/{gpu,media,staging,iio,usb,hid,input}}
depmod -b "$dir.new" "$release"
rm -rf "$dir" "$apt"
echo "$release" > "$dir.new/release"
mv "$dir.new" "$dir"
echo "$dir"
