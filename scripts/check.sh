#!/bin/sh
# Run the tests of a build folder and end with one line that counts them. $1: the folder; further words go to `meson test`.
set -eu
build=$1
shift
# Configured before the tools of the tests were there: look again, or suites would be missing.
if ! grep -q '"cmocka"' "$build/meson-info/intro-dependencies.json"; then
	meson setup --reconfigure "$build" >/dev/null
	ninja -C "$build"
fi
# Libraries by which tests read exports; without them those tests are skipped, and say so.
exports=$(dirname "$0")/../tests/export
if command -v npm >/dev/null 2>&1 && [ ! -d "$exports/node_modules" ]; then
	(cd "$exports" && npm ci --no-audit --no-fund --ignore-scripts --silent >/dev/null 2>&1) ||
		echo "check: npm ci in tests/export failed: some tests of exports will be skipped" >&2
fi
rm -f "$build/meson-logs/testlog.json"
status=0
CMOCKA_MESSAGE_OUTPUT=TAP LC_ALL=C.UTF-8 meson test -C "$build" --print-errorlogs "$@" </dev/null || status=$?
exec python3 "$(dirname "$0")/count.py" "$build/meson-logs/testlog.json" "$status"
