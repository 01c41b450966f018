#!/bin/sh
# Run the tests of a build folder and end with one line that counts them. $1: the folder; further
# words go to `meson test`. Tests wait for programs more than they compute: one more than there are
# cores runs at a time (WS_TEST_PROCESSES), but for those that may only run alone.
set -eu
build=$1
shift
processes=${WS_TEST_PROCESSES:-$(($(nproc) + 1))}
# Configured before the tools of the tests were there: look again, or suites would be missing.
if ! grep -q '"cmocka"' "$build/meson-info/intro-dependencies.json"; then
	meson setup --reconfigure "$build" >/dev/null
	ninja -C "$build"
fi
# Libraries by which tests read exports and drive the browser, by their lock files; without them
# those tests are skipped, and say so.
"$(dirname "$0")/npm.sh" tests/export viewer || echo "check: some tests will be skipped" >&2
logs=$build/meson-logs
count=$(dirname "$0")/count.py
rm -f "$logs/testlog.json" "$logs/second.json"
export CMOCKA_MESSAGE_OUTPUT=TAP LC_ALL=C.UTF-8
status=0
meson test -C "$build" --print-errorlogs --num-processes "$processes" "$@" </dev/null || status=$?
# What a late machine may have failed is looked at once more, alone (count.py says what that is).
if [ $status != 0 ] && again=$(python3 "$count" --second-look "$logs/testlog.json") &&
	[ -n "$again" ]; then
	echo "check: once more, alone:" $again
	# shellcheck disable=SC2086
	meson test -C "$build" --print-errorlogs --no-rebuild --num-processes 1 --logbase second \
		"$@" $again </dev/null || true
fi
exec python3 "$count" "$logs/testlog.json" "$status" "$logs/second.json"
