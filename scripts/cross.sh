#!/bin/sh
# Build for aarch64, check the hooks' symbols, and run by qemu-user the tests of what depends on the
# processor: the hooks, the recorder, what reads their reports, and the tarball. Left out are tests
# that need perf events, a debugger's view of another process or many minutes of emulation. Ends
# with one line that counts the tests. `cross.sh build` only builds, `cross.sh test` only tests what
# was built: an emulated recorder that has to wait for the machine loses events.
set -eu
what=${1:-all}
build=$PWD/build-aarch64
root=$PWD/build-aarch64-root
log=$build/meson-logs/testlog-aarch64-run.sh.json
second=$build/meson-logs/second-aarch64-run.sh.json
tap=$(mktemp)
trap 'rm -rf "$tap"' EXIT
tests="intervals figures store-query store-files store-format-document nvtx-convert nvtx-hook
	nvtx-payload nvtx-rows osrt osrt-forward record cuda-1 cuda-2 cuda-parts symbols-parts
	options python-reader import-kineto fold"

if [ "$what" != test ]; then
	scripts/aarch64-root.sh "$root"
	compiler="'aarch64-linux-gnu-gcc'"
	! command -v ccache >/dev/null 2>&1 || compiler="'ccache', $compiler"
	cat >"$root/cross.new" <<EOF
[constants]
compiler = [$compiler]
root = '$root'
scripts = '$PWD/scripts'
EOF
	cmp -s "$root/cross.new" "$root/cross.ini" || mv "$root/cross.new" "$root/cross.ini"
	[ -e "$build/build.ninja" ] ||
		meson setup "$build" --cross-file cross/aarch64-linux-gnu.ini \
			--cross-file "$root/cross.ini"
	ninja -C "$build"
fi
[ "$what" != build ] || exit 0
scripts/check-hooks.sh aarch64-linux-gnu-readelf "$build"/src/inject/lib*.so | tee "$tap"
scripts/check-hardening.py --readelf=aarch64-linux-gnu-readelf "$build/warpsight" \
	"$build"/src/inject/lib*.so | tee -a "$tap"

if said=$(scripts/aarch64-run.sh --can); then
	rm -f "$log" "$second"
	status=0
	export CMOCKA_MESSAGE_OUTPUT=TAP LC_ALL=C.UTF-8
	# shellcheck disable=SC2086
	meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier 4 \
		--wrapper "$PWD/scripts/aarch64-run.sh" $tests </dev/null || status=$?
	# as in scripts/check.sh
	if [ $status != 0 ] && again=$(python3 scripts/count.py --second-look "$log") &&
		[ -n "$again" ]; then
		echo "aarch64: once more, alone:" $again
		# shellcheck disable=SC2086
		meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier 4 \
			--num-processes 1 --logbase second --wrapper "$PWD/scripts/aarch64-run.sh" \
			$again </dev/null || true
	fi
	counted=$(python3 scripts/count.py "$log" $status "$second" || true)
	echo "$counted"
	counted=$(echo "$counted" | tail -n 1)
	made=$(ARCH=aarch64 CC=aarch64-linux-gnu-gcc STRIP=aarch64-linux-gnu-strip ROOT="$root" \
		RUN=scripts/aarch64-run.sh scripts/dist.sh "$build")
	echo "$made"
	scripts/aarch64-run.sh scripts/dist-test.sh "${made%% *}" | tee -a "$tap" || true
else
	echo "ok - programs of aarch64 run # SKIP $said" | tee -a "$tap"
	counted="0 passed, 0 failed"
fi

# Put the TAP lines of the scripts to the count of the tests.
{ echo "$counted"; cat "$tap"; } | awk '
	NR == 1 { passed = $1; failed = $3; skipped = $5 + 0; next }
	/^ok .*# SKIP/ { skipped++; next }
	/^ok / { passed++ }
	/^not ok / { failed++ }
	END {
		printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
		exit failed > 0
	}'
