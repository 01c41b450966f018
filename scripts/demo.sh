#!/bin/sh
# Profile the bundled examples and print what was recorded: a program of locks, pipes and ranges
# with its statistics, and a training loop whose data come too late with what is found in it.
# $BUILD: the build folder.
set -eu
build=${BUILD:-build}
report=$build/demo.wsrep
warpsight()
{
	echo "\$ warpsight $*"
	"$build/warpsight" "$@"
}
warpsight profile -f -o "$report" "$build/examples/demo"
for name in nvtx_sum osrt_sum; do
	echo
	warpsight stats -r $name "$report"
done
echo
for workers in 0 8; do
	echo
	warpsight profile -f -o "$build/loader$workers.wsrep" \
		python3 -S examples/cpu/data_loader.py --workers=$workers --steps=100
done
echo
warpsight diff "$build/loader0.wsrep" "$build/loader8.wsrep"
echo
echo "The reports stay in $build. 'warpsight analyze $build/loader0.wsrep' says more about the" \
	"training loop, docs/tutorial/data-loader.md what to make of it, and" \
	"'warpsight info REPORT' what a report holds."
