#!/bin/sh
# Unpack the tarball where no one would (a path with blanks), run it as an ordinary user with an
# empty environment, and from a folder tree that has no C library at all. $1: the tarball. Prints
# TAP.
set -eu
tarball=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
place="$work/a place with blanks"
mkdir "$place" "$work/cwd"
chmod 777 "$work/cwd"
tar -C "$place" -xzf "$tarball"
top=$(echo "$place"/warpsight-*)
run="$top/bin/warpsight"
n=0
bad=0
user=
# Some namespaces have no other user.
if [ "$(id -u)" = 0 ] && setpriv --reuid=65534 --clear-groups true 2>/dev/null; then
	user="setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all"
fi

check() # TEXT STATUS, with the output in $work/out
{
	n=$((n + 1))
	if [ "$2" = 0 ]; then
		echo "ok $n - $1"
	else
		bad=1
		echo "not ok $n - $1"
		sed 's/^/# /' "$work/out"
	fi
}

in_empty() # run as an ordinary user without environment
{
	# shellcheck disable=SC2086
	(cd "$work/cwd" && exec env -i $user "$@") >"$work/out" 2>&1 </dev/null
}

status=0
in_empty "$run" --version || status=$?
check "says its version" $status
status=0
in_empty "$run" doctor || status=$?
check "doctor finds the hooks and that programs can be recorded" $status
if "$run" profile --help >/dev/null 2>&1; then
	status=0
	in_empty "$run" profile -o out.wsrep /bin/sh -c \
		'/bin/cat /proc/self/environ >seen; /bin/sleep 0.01; exit 7' || status=$?
	[ $status = 7 ] && status=0 || status=1
	check "profile records, with the program's exit status" $status
	status=0
	(tr '\0' '\n' <"$work/cwd/seen" |
		grep -E '^(LD_LIBRARY_PATH|WARPSIGHT_KEPT)' >"$work/out") && status=1
	check "the profiled program sees neither LD_LIBRARY_PATH nor what the launcher kept" $status
	status=0
	in_empty "$run" stats -r osrt_sum -f csv out.wsrep || status=$?
	grep -q sleep "$work/out" || status=1
	check "stats sees the program's sleep" $status
	status=0
	(cd "$work/cwd" && env -i LD_PRELOAD=/nonexistent.so \
		"$run" profile -o kept.wsrep /bin/sh -c 'echo "$LD_PRELOAD"') >"$work/out" 2>&1 ||
		status=$?
	grep -q '^/nonexistent.so:' "$work/out" && [ "$(grep -c ERROR "$work/out")" = 1 ] ||
		status=1
	check "the user's own LD_PRELOAD reaches the program, not the bundled loader" $status
fi
if [ "$(id -u)" = 0 ] && chroot / true 2>/dev/null; then
	status=0
	chroot "$top" /bin/warpsight --version >"$work/out" 2>&1 </dev/null || status=$?
	check "runs in a tree that has no C library but its own" $status
else
	n=$((n + 1))
	echo "ok $n - runs in a tree that has no C library but its own # SKIP needs root"
fi
# The line of README: into a folder that others use too.
home=$work/home/.local
mkdir -p "$home/bin"
echo theirs >"$home/bin/other"
chmod -R a+rx "$work/home"
status=0
tar xz -C "$home" --strip-components=1 <"$tarball" || status=$?
if [ $status = 0 ]; then
	in_empty "$(command -v env)" PATH="$home/bin:$PATH" sh -c \
		'warpsight profile -q -f true -o one.wsrep true && warpsight info one.wsrep' ||
		status=$?
fi
[ -e "$home/share/man/man1/warpsight.1" ] && [ -e "$home/share/doc/warpsight/docs/viewer.md" ] &&
	[ -e "$home/share/doc/warpsight/SECURITY.md" ] &&
	[ "$(cat "$home/bin/other")" = theirs ] || status=1
check "is installed by one line, with its manual page and documents" $status
status=0
for f in "$top"/lib/warpsight/*; do
	case $f in */ld-linux* | */libwarpsight*) continue ;; esac
	"$top"/lib/warpsight/ld-linux* --library-path "$top/lib/warpsight" --list "$f" \
		>>"$work/all" 2>&1 || true
done
grep -E '=> (/lib|/usr)|not found' "$work/all" >"$work/out" && status=1
check "no bundled file takes a library from the system" $status
if command -v readelf >/dev/null; then
	status=0
	scripts/check-hardening.py "$run" "$top"/lib/warpsight/warpsight \
		"$top"/lib/warpsight/libwarpsight-*.so "$top"/lib/libwarpsight.so >"$work/out" ||
		status=1
	check "our binaries have what guards memory" $status
else
	n=$((n + 1))
	echo "ok $n - our binaries have what guards memory # SKIP needs readelf"
fi
status=0
ls "$top/lib/warpsight" | grep -E 'gnutls|p11-kit|nettle|tasn1|idn2' >"$work/out" && status=1
check "no library for encryption is bundled" $status
status=0
scripts/sbom.py --check "$top" >"$work/out" 2>&1 || status=1
check "the bill of materials names every bundled file, as it is" $status
if "$run" view --help >/dev/null 2>&1; then
	status=0
	scripts/ask-page.py "$run" "$work/cwd/out.wsrep" >"$work/out" 2>&1 || status=1
	check "the page is served" $status
fi
echo "1..$n"
exit $bad
