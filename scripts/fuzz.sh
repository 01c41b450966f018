#!/bin/sh
# Build the fuzzers (option fuzz) with clang in build-fuzz and run each for FUZZ_SECONDS from its
# corpus; what crashes one stays in build-fuzz/crashes. FUZZ_SEED makes inputs the same at each run,
# as far as the time lasts; in CI they are, so that what fails there is the change.
set -eu
build=build-fuzz
seconds=${FUZZ_SECONDS:-20}
seed_of_all=${FUZZ_SEED:-${CI:+1}}
[ -e $build/build.ninja ] ||
	CC=clang meson setup $build -Dfuzz=true -Dwerror=false -Db_sanitize=address,undefined \
		-Db_lundef=false -Ddebug=false -Doptimization=1 -Dc_args=-g1 -Dcpp_args=-g1
ninja -C $build build.ninja
# The fuzzers alone: everything else is tested elsewhere.
# shellcheck disable=SC2046
ninja -C $build $(ninja -C $build -t targets all |
	sed -n 's/^\([^ ]*fuzz_[^ /]*\): c_LINKER.*/\1/p')
mkdir -p $build/crashes
passed=0
failed=0
for f in $(find $build -type f -name 'fuzz_*' -perm -u+x | sort); do
	name=$(basename "$f")
	corpus=$build/corpus/$name
	mkdir -p "$corpus"
	seed=tests/fuzz/corpus/${name#fuzz_}
	[ -d "$seed" ] || seed=
	# An input takes a tenth of a second; a minute is a hang, on a slow machine too.
	# shellcheck disable=SC2086
	if "$f" -max_total_time="$seconds" ${seed_of_all:+-seed="$seed_of_all"} -timeout=60 \
		-rss_limit_mb=2048 -artifact_prefix=$build/crashes/ -print_final_stats=1 \
		"$corpus" $seed >"$build/$name.log" 2>&1; then
		passed=$((passed + 1))
		inputs=$(sed -n 's/stat::number_of_executed_units: *//p' "$build/$name.log")
		echo "$name: $inputs inputs, no crash"
	else
		failed=$((failed + 1))
		tail -40 "$build/$name.log"
		echo "$name: failed; see $build/$name.log and $build/crashes"
	fi
done
[ $((passed + failed)) -gt 0 ] || { echo "fuzz: no fuzzer was built" >&2; exit 1; }
echo "$passed passed, $failed failed"
[ $failed = 0 ]
