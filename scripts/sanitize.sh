#!/bin/sh
# Build with a sanitizer (asan, tsan, ubsan) in a folder of its own and run the tests there. The hooks stay as they are, for they are
# loaded into programs that have no sanitizer in them. Instrumented code draws false warnings, so warnings are no errors here.
set -eu
kind=${1:?asan, tsan or ubsan}
shift
case $kind in
asan) sanitize=address ;;
tsan) sanitize=thread ;;
ubsan) sanitize=undefined ;;
*)
	echo "sanitize: unknown sanitizer '$kind'" >&2
	exit 2
	;;
esac
build=build-$kind
[ -e "$build/build.ninja" ] || meson setup "$build" -Dwerror=false -Db_sanitize=$sanitize -Db_lundef=false -Dbuildtype=debugoptimized
ninja -C "$build"
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:verify_asan_link_order=0}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-suppressions=$PWD/scripts/lsan.supp:print_suppressions=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:ignore_noninstrumented_modules=1}"
export WS_TEST_SANITIZE=$sanitize # tests that link, measure memory or let C++ throw past it know
exec scripts/check.sh "$build" --timeout-multiplier 5 "$@"
