#!/bin/sh
# The hooks are loaded into programs of other systems: they may need nothing but the C library's own
# parts, in a version that glibc 2.28 has. Usage: check-hooks.sh READELF LIBRARY... Prints TAP.
set -eu
readelf=$1
shift
n=0
bad=0
result() # TEXT PROBLEMS
{
	n=$((n + 1))
	if [ -z "$2" ]; then
		echo "ok $n - $1"
	else
		bad=1
		echo "not ok $n - $1"
		echo "$2" | sed 's/^/# /'
	fi
}
own='libc\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux-(x86-64|aarch64)\.so\.[12]'
for lib; do
	name=$(basename "$lib")
	$readelf -h "$lib" >/dev/null || exit 1
	needed=$($readelf -dW "$lib" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -vxE "$own|libwarpsight-hooks\.so" || true)
	result "$name needs only the C library and the other hooks" "$needed"
	newer=$($readelf -VW "$lib" | grep -oE 'Name: GLIBC_[0-9.]+' | sed 's/.*_//' | sort -uV |
		awk -F. '$1 > 2 || ($1 == 2 && $2 > 28)')
	result "$name asks for no version of the C library after 2.28" "$newer"
	# Symbols of the C library without a version would bind to whatever is there.
	loose=$($readelf --dyn-syms -W "$lib" |
		awk '$7 == "UND" && $5 != "WEAK" && $8 != "" && $8 !~ /@|^ws_/ {print $8}')
	result "$name names a version with every symbol it takes from the C library" "$loose"
	# A library with much thread-local memory cannot be opened late.
	tls=$($readelf -lW "$lib" | awk '$1 == "TLS" {print $6}')
	result "$name has at most 64 bytes of thread-local memory" \
		"$([ "$((${tls:-0}))" -le 64 ] || echo "$((tls)) bytes")"
	result "$name has no executable stack and no text relocations" \
		"$($readelf -lW "$lib" | awk '$1 == "GNU_STACK" && $7 ~ /E/'
			$readelf -dW "$lib" | grep TEXTREL || true)"
done
echo "1..$n"
exit $bad
