#!/bin/sh
# Compile every C source for aarch64 and link the hooks; check the hooks' symbols. Programs are linked where the arm64 libraries are there.
set -eu
build=build-aarch64
file=cross/aarch64-linux-gnu.ini
[ -e $build/build.ninja ] || meson setup $build --cross-file $file >$build.log 2>&1 || { cat $build.log; exit 1; }
rm -f $build.log
ninja -C $build build.ninja >/dev/null # lists what is there now
objects=$(ninja -C $build -t targets all | sed -n 's/^\(.*\.c\.o\): .*/\1/p')
# shellcheck disable=SC2086
ninja -C $build $objects $(ninja -C $build -t targets all | sed -n 's/^\(src\/inject\/[^:]*\.so\): .*/\1/p')
echo "aarch64: $(echo "$objects" | wc -l) objects compiled"
if [ -e /usr/lib/aarch64-linux-gnu/libzstd.so ]; then
	ninja -C $build
fi
scripts/check-hooks.sh aarch64-linux-gnu-readelf $build/src/inject/lib*.so
