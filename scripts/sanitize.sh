#!/bin/sh
# Build with a sanitizer in a folder of its own and run tests there: asan (addresses, leaks and
# undefined behaviour, in one build) or tsan (threads: the tests in which ours run). Further words
# go to `meson test` and choose other tests: `sanitize.sh asan --suite browser`. The hooks are not
# instrumented, because they are loaded into programs without a sanitizer. Instrumented code draws
# false warnings, so warnings are no errors here. Little is optimised and only lines are kept of the
# debugging information: that halves the time to compile and hardly slows the tests.
set -eu
kind=${1:?asan or tsan}
shift
case $kind in
asan)
	sanitize=address,undefined
	# Left out is what runs no more of our code than the rest: docs/testing.md says why.
	[ $# != 0 ] || set -- --no-suite run --no-suite replay --no-suite browser --no-suite plain
	;;
tsan)
	sanitize=thread
	# Tests of what computes with several threads, and of the server, say so by this suite.
	[ $# != 0 ] || set -- --suite threads
	;;
*)
	echo "sanitize: unknown sanitizer '$kind'" >&2
	exit 2
	;;
esac
build=build-$kind
[ -e "$build/build.ninja" ] ||
	meson setup "$build" -Dwerror=false -Db_sanitize=$sanitize -Db_lundef=false \
		-Ddebug=false -Doptimization=1 -Dc_args=-g1 -Dcpp_args=-g1
# meson builds what the chosen tests depend on, and nothing else.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:verify_asan_link_order=0}"
export LSAN_OPTIONS="${LSAN_OPTIONS:-suppressions=$PWD/scripts/lsan.supp:print_suppressions=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:ignore_noninstrumented_modules=1}"
# Tests that link, measure memory or let C++ throw past it know.
export WS_TEST_SANITIZE=$sanitize
exec scripts/check.sh "$build" --timeout-multiplier 5 "$@"
