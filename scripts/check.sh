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
# What drives the browser, by its lock file; without a network the tests of the page are skipped and say so.
viewer=$(dirname "$0")/../viewer
[ -e "$viewer/node_modules/playwright-core" ] || ! command -v npm >/dev/null || (cd "$viewer" && npm ci --silent --no-audit --no-fund </dev/null >/dev/null 2>&1) || true
rm -f "$build/meson-logs/testlog.json"
status=0
CMOCKA_MESSAGE_OUTPUT=TAP LC_ALL=C.UTF-8 meson test -C "$build" --print-errorlogs "$@" </dev/null || status=$?
exec python3 "$(dirname "$0")/count.py" "$build/meson-logs/testlog.json" "$status"
