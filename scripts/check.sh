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
# Libraries by which tests read exports and drive the browser, by their lock files; without them those tests are skipped, and say so.
for folder in tests/export viewer; do
	folder=$(dirname "$0")/../$folder
	if command -v npm >/dev/null 2>&1 && [ ! -d "$folder/node_modules" ]; then
		(cd "$folder" && npm ci --no-audit --no-fund --ignore-scripts --silent >/dev/null 2>&1) ||
			echo "check: npm ci in $folder failed: some tests will be skipped" >&2
	fi
done
rm -f "$build/meson-logs/testlog.json"
status=0
CMOCKA_MESSAGE_OUTPUT=TAP LC_ALL=C.UTF-8 meson test -C "$build" --print-errorlogs "$@" </dev/null || status=$?
exec python3 "$(dirname "$0")/count.py" "$build/meson-logs/testlog.json" "$status"
