#!/bin/sh
# Profile the bundled example and print what was recorded: the two commands that a newcomer needs.
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
echo "The report stays in $report; 'warpsight info $report' says what it holds."
