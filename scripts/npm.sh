#!/bin/sh
# Install the npm packages of some folders, by their lock files, where they are not there as the
# lock file wants them. Scripts of packages are not run. npm.sh FOLDER...
set -eu
cd "$(dirname "$0")/.."
missing=0
for folder; do
	have=$folder/node_modules/.from
	[ -e "$have" ] && cmp -s "$have" "$folder/package-lock.json" && continue
	if npm --prefix "$folder" ci --no-audit --no-fund --ignore-scripts >/dev/null 2>&1; then
		cp "$folder/package-lock.json" "$have"
	else
		echo "npm.sh: npm ci in $folder failed" >&2
		missing=1
	fi
done
exit $missing
