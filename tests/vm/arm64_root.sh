#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks what a build for arm64 links with (Debian's packages of libc, libbpf, elfutils...) into $VM_CACHE/arm64-root,
# and prints that folder. Nothing is installed: apt's lists are our own, the mirrors those of this machine's sources.
# Exit 77 where it cannot be had.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${VM_CACHE:-${O:-build}/vm}
mkdir -p "$cache"
cache=$(realpath "$cache")
root=$cache/arm64-root new=$cache/arm64-root.new
exec 9> "$cache/.lock-arm64"
flock 9

skip() { echo "arm64 libraries: $*" >&2; exit 77; }
command -v apt-get > /dev/null || skip "apt-get is missing"
. /etc/os-release
backported=
[[ $VERSION_CODENAME = bookworm ]] && backported=/bookworm-backports
packages="libc6-dev libgcc-12-dev libdeflate-dev libcjson-dev libmicrohttpd-dev libseccomp-dev libcap-dev zlib1g-dev"
packages+=" uthash-dev busybox-static libprotobuf-c-dev libprotobuf-c1 libnats-dev libncurses-dev"
packages+=" libcurl4-openssl-dev libyaml-dev libcrypt-dev libgnutls28-dev"
for p in linux-libc-dev libbpf-dev libelf-dev libdw-dev libbpf1 libelf1 libdw1; do packages+=" $p$backported"; done
[[ $(cat "$root/ready" 2> /dev/null) = "$packages" ]] && { echo "$root"; exit 0; }
[[ ${ID:-} = debian ]] || skip "they come from Debian's mirrors and this machine has none (${ID:-unknown})"
mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE)' 2> /dev/null |
	awk -v s="$VERSION_CODENAME" '$2 == s { print $1; exit }')
[[ $mirror ]] || skip "apt's configuration names no mirror of $VERSION_CODENAME"
apt=$cache/apt-arm64
mkdir -p "$apt"/{lists/partial,cache/archives/partial,parts}
ring=/usr/share/keyrings/debian-archive-keyring.gpg
for s in "$VERSION_CODENAME" $([[ $VERSION_CODENAME = bookworm ]] && echo bookworm-backports); do
	echo "deb [arch=arm64 signed-by=$ring] $mirror $s main"
done > "$apt/sources.list"
: > "$apt/status"
apt_options=(-o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache" \
	-o "Dir::Etc::sourcelist=$apt/sources.list"
	-o "Dir::Etc::sourceparts=$apt/parts" -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
		-o APT::Sandbox::User=root
	-o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Install-Recommends=false)
apt-get "${apt_options[@]}" -qq update > "$apt/log" 2>&1 || skip "$(tail -n 1 "$apt/log")"
apt-get "${apt_options[@]}" -qq -y --download-only install $packages >> "$apt/log" 2>&1 ||
	skip "$(grep '^E:' "$apt/log" | tail -n 1)"
rm -rf "$new"
mkdir -p "$new"
for deb in "$apt"/cache/archives/*.deb; do
	case $deb in
	*/libc6*|*/lib*|*/uthash*|*/zlib1g*|*/busybox-static*|*/linux-libc-dev*) dpkg-deb -x "$deb" "$new" ;;
	esac
done
for l in lib bin sbin; do # what a merged /usr links
	[[ -d $new/$l && ! -L $new/$l ]] || continue
	mkdir -p "$new/usr/$l"
	cp -a "$new/$l/." "$new/usr/$l/"
	rm -rf "${new:?}/$l"
	ln -s "usr/$l" "$new/$l"
done
rm -rf "$root" "$apt"
echo "$packages" > "$new/ready"
mv "$new" "$root"
echo "$root"
