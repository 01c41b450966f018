#!/bin/sh
# Install what a goal (build, check, dist, fuzz, ci, format) needs and is not there. As root on
# Debian or a relative of it this runs apt-get; otherwise it says what to run. Nothing is fetched
# when nothing is missing.
set -eu

goal=${1:-build}
build="gcc clang libc6-dev make meson ninja-build pkg-config python3 esbuild libdw-dev libelf-dev
	libiberty-dev libmicrohttpd-dev libsqlite3-dev libxxhash-dev libzstd-dev zlib1g-dev"
check="$build g++ musl-tools sqlite3 libcmocka-dev binutils libhdf5-103-1 python3-h5py
	python3-pandas chromium-headless-shell nodejs npm"
dist="$build binutils tar gzip"
fuzz="$build libclang-rt-14-dev"
format="git clang-format black python3 nodejs npm"
aarch64="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static util-linux"
case $goal in
build) wanted=$build ;;
check) wanted=$check ;;
dist) wanted=$dist ;;
fuzz) wanted=$fuzz ;;
format) wanted=$format ;;
ci) wanted="$check $dist $fuzz $format $aarch64 ccache" ;;
*)
	echo "deps: unknown goal '$goal'" >&2
	exit 2
	;;
esac

# Tools may come from elsewhere than a package (meson from pip, say): what runs is there.
have_tool()
{
	case $1 in
	gcc | g++ | make | meson | python3 | sqlite3 | git | tar | gzip) command -v "$1" ;;
	clang | clang-format | black | ccache) command -v "$1" ;;
	ninja-build) command -v ninja ;;
	pkg-config) command -v pkg-config ;;
	binutils) command -v readelf && command -v strip ;;
	nodejs) command -v node || command -v nodejs ;;
	musl-tools) command -v musl-gcc ;;
	npm | esbuild) command -v "$1" ;;
	chromium-headless-shell) command -v "$1" || command -v chromium ;;
	qemu-user-static) command -v qemu-aarch64-static ;;
	gcc-aarch64-linux-gnu) command -v aarch64-linux-gnu-gcc ;;
	*) return 1 ;;
	esac >/dev/null 2>&1
}

if ! command -v dpkg-query >/dev/null 2>&1; then
	missing=
	for p in $wanted; do
		case $p in
		lib*) continue ;; # meson tells about libraries
		esac
		have_tool "$p" || missing="$missing $p"
	done
	[ -z "$missing" ] && exit 0
	echo "deps: these tools (by their Debian names) are missing:$missing;" \
		"install them with this system's package manager" >&2
	exit 1
fi

# shellcheck disable=SC2086
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
	sed -n 's/^installed //p' | tr '\n' ' ')
missing=
for p in $wanted; do
	case " $installed " in
	*" $p "*) ;;
	*) have_tool "$p" || missing="$missing $p" ;;
	esac
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" != 0 ]; then
	echo "deps: missing:$missing; run this as root and try again:" >&2
	echo "    apt-get update && apt-get install -y --no-install-recommends$missing" >&2
	exit 1
fi
echo "deps: installing$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
if ! apt-get install -y -qq --no-install-recommends $missing </dev/null >/dev/null 2>&1; then
	apt-get update -qq </dev/null >&2
	apt-get install -y -qq --no-install-recommends $missing </dev/null >&2
fi
