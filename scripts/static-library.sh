#!/bin/sh
# Make a static library in which only public names are visible: all objects of an archive as one,
# its hidden names made local. $1: the library to write, $2: the archive.
set -eu
out=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -r -nostdlib -o "$work/all.o" -Wl,--whole-archive "$2" -Wl,--no-whole-archive
${OBJCOPY:-objcopy} --localize-hidden "$work/all.o"
rm -f "$out"
${AR:-ar} rcsD "$out" "$work/all.o"
