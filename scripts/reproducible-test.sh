#!/bin/sh
# Build the tarball of the committed tree twice, without a cache, in folders of other names, in
# another language, time zone and file mode, and compare the bytes. Takes minutes: `make nightly`.
# Prints TAP.
set -eu
tree=$(git rev-parse --show-toplevel)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1

build() # FOLDER BUILD-FOLDER
{
	git clone -q "$tree" "$1"
	cd "$1"
	meson setup "$2" >/dev/null
	ninja -C "$2" --quiet for-dist
	scripts/dist.sh "$2"
	cd "$tree"
}

(build "$work/one" build)
(umask 077 && LC_ALL=C.UTF-8 TZ=Asia/Tokyo build "$work/another-folder/of-a-longer-name" out)
echo 1..1
if cmp "$work/one"/dist/*.tar.gz "$work/another-folder/of-a-longer-name"/dist/*.tar.gz; then
	echo "ok 1 - two builds give the same bytes"
else
	echo "not ok 1 - two builds give the same bytes"
	exit 1
fi
