#!/bin/sh
# Measure what recording costs. $1: the build folder; further words go to bench/run.py. BENCH_ARGS
# may hold some too.
set -eu
build=$1
shift
# shellcheck disable=SC2086
exec python3 bench/run.py --build "$build" ${BENCH_ARGS:-} "$@"
