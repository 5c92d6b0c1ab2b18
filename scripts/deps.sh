#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian/Ubuntu packages the build needs and the machine lacks; with the argument "test" the tests' too,
# with "lint" those of make lint and make valgrind, with "vm" those of make test-vm, with "packages" those of make deb
# and its tests. On Debian 12 libbpf-dev, bpftool and elfutils come from backports; the mirror is the one the machine's
# own apt sources name.
set -eu

BUILD="gcc make clang llvm libdeflate-dev libcjson-dev libmicrohttpd-dev libseccomp-dev libcap-dev uthash-dev"
BUILD="$BUILD libc6-dev e2fsprogs util-linux libprotobuf-c-dev protobuf-c-compiler libnats-dev"
BUILD="$BUILD libncurses-dev libcurl4-openssl-dev libyaml-dev libcrypt-dev libgnutls28-dev"
TESTS="libcmocka-dev python3 protobuf-compiler jq procps chromium mandoc man-db musl-tools libibverbs-dev"
TESTS="$TESTS nats-server openssl python3-torch tmux"
# without what they recommend: desktops
GUESTS="qemu-system-x86 busybox-static kmod xz-utils iproute2 perftest ibverbs-utils ibverbs-providers"
GUESTS="$GUESTS prometheus prometheus-alertmanager"
# of make deb and make test-packages
PACKAGES="debhelper dpkg-dev lintian debootstrap libcap2-bin python3-yaml"
SLURM="slurmctld slurmd slurm-client munge"
LINT="clang-tidy-14 cppcheck valgrind"
# libFuzzer's runtime comes in a package of the compiler's version
FUZZ="libclang-rt-$(clang --version 2>/dev/null | sed -n 's/.*clang version \([0-9]*\)\..*/\1/p')-dev"
[ "$FUZZ" = libclang-rt--dev ] && FUZZ=libclang-rt-14-dev
case ${1:-} in
test) BUILD="$BUILD $TESTS $FUZZ" ;;
lint) BUILD="$BUILD $TESTS $LINT" GUESTS= ;;
packages) BUILD="$BUILD $TESTS $PACKAGES" GUESTS="qemu-system-x86 busybox-static kmod xz-utils buildah $SLURM" ;;
vm) BUILD="$BUILD $TESTS $FUZZ" GUESTS="$GUESTS qemu-system-arm lld" ;;
*) GUESTS= ;;
esac
BACKPORTED="libbpf-dev bpftool libelf-dev libdw-dev"

missing() {
	for p in "$@"; do
		dpkg-query -W -f='${Status}\n' "$p" 2>/dev/null | grep -q '^install ok installed' || printf '%s ' "$p"
	done
}

# libbpf before 1.3 does not know uprobe.multi
libbpf_old() {
	v=$(dpkg-query -W -f='${Version}' libbpf-dev 2>/dev/null | sed 's/^[0-9]*://')
	[ -n "$v" ] && dpkg --compare-versions "$v" lt 1.3
}

as_root() {
	[ "$(id -u)" = 0 ] || { echo "deps: packages are missing ($*): run 'make deps' as root once" >&2; exit 1; }
}

command -v dpkg-query >/dev/null ||
	{ echo "deps: not a Debian or Ubuntu system; needed: $BUILD $BACKPORTED" >&2; exit 0; }
. /etc/os-release
# make check compares with this version's layout; where there is another it leaves that out
[ "${1:-}" != "" ] && [ "${VERSION_CODENAME:-}" = bookworm ] && BUILD="$BUILD clang-format-14"
plain=$(missing $BUILD)
new=$(missing $BACKPORTED)
guests=$(missing $GUESTS)
libbpf_old && new="$BACKPORTED"
[ -z "$plain$new$guests" ] && exit 0
as_root $plain $new $guests
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
if [ -n "$new" ] && [ "${VERSION_CODENAME:-}" = bookworm ]; then
	if ! apt-cache policy | grep -q bookworm-backports; then
		mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME)' 2>/dev/null |
			awk '$2 == "bookworm" { print $1; exit }')
		[ -n "$mirror" ] || { echo "deps: no bookworm source found in apt's configuration" >&2; exit 1; }
		echo "deb $mirror bookworm-backports main" > /etc/apt/sources.list.d/ranktrace-backports.list
		apt-get update -qq
	fi
	apt-get install -y -qq -t bookworm-backports $BACKPORTED > /dev/null 2>&1
	new=
fi
[ -z "$plain$new" ] || apt-get install -y -qq $plain $new > /dev/null
[ -z "$guests" ] || apt-get install -y -qq --no-install-recommends $guests > /dev/null ||
	echo "deps: without $guests no test runs in a guest" >&2
echo "deps: installed $plain$new$guests"
