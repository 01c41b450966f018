#!/bin/sh
# Pack the built program into dist/warpsight-VERSION-linux-ARCH.tar.gz: it runs unpacked on any
# Linux of the architecture, for it brings its loader, its C library and every other library. The
# hooks in it are loaded into programs that use the system's C library, which must be glibc 2.28 or
# newer. $1: the build folder. For a cross build the environment says ARCH, CC, STRIP, ROOT (the
# folder that is the root folder of that architecture's libraries) and RUN (a command that runs its
# programs).
#
# lib/warpsight holds the program, its libraries and the hooks together: run by the bundled loader,
# /proc/self/exe is that loader, and the hooks are found beside it.
set -eu
build=$1
refuse()
{
	echo "dist: $*" >&2
	exit 1
}
arch=${ARCH:-$(uname -m)}
cc=${CC:-cc}
strip=${STRIP:-strip}
root=${ROOT:-}
run=${RUN:-}
version=$($run "$build/warpsight" --version | sed 's/.* //')
name=warpsight-$version-linux-$arch
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
top=$work/$name
lib=$top/lib/warpsight
doc=$top/share/doc/warpsight
mkdir -p "$top/bin" "$lib" "$doc/licenses" "$top/include/warpsight"

loader=$(readelf -lW "$build/warpsight" | sed -n 's/.*program interpreter: \(.*\)]/\1/p')
[ -n "$loader" ] || refuse "$build/warpsight names no loader"
[ -e "$build/src/inject/libwarpsight-hooks.so" ] || refuse "the hooks are not built"

cp "$build/warpsight" "$lib/warpsight"
cp "$build"/src/inject/libwarpsight-*.so "$build/src/inject/vulkan_layer.json" "$lib/"
$strip "$lib/warpsight"
$strip --strip-unneeded "$lib"/libwarpsight-*.so

# The reading library, for programs of the system's C library, and the Python module that finds it
# there.
cp -L "$build/src/lib/libwarpsight.so.1" "$top/lib/libwarpsight.so.1"
ln -s libwarpsight.so.1 "$top/lib/libwarpsight.so"
cp "$build/src/lib/libwarpsight.a" "$top/lib/"
$strip --strip-unneeded "$top/lib/libwarpsight.so.1"
mkdir -p "$top/lib/python"
cp -r python/warpsight "$top/lib/python/"
find "$top/lib/python" -name __pycache__ -prune -exec rm -rf {} +

# What the program links, and the parts of the C library that libraries opened at run time (CUDA's)
# may ask for: those must match ours.
libraries_of() # the paths of what a file loads, without $root
{
	$run "$loader" --list "$1" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
}
bundled="$loader $(libraries_of "$build/warpsight")"
# What is opened at run time: the library of the page's server, without TLS.
http=$(cd "$root/usr/lib" && ls "$PWD"/*/libmicrohttpd.a | grep -F "$arch" | head -1)
http=${http#"$root"}
[ -n "$http" ] || refuse "libmicrohttpd.a is not installed"
tools=${strip%strip}
CC="$cc" NM="${tools}nm" OBJCOPY="${tools}objcopy" scripts/http-without-tls.sh \
	"$lib/libmicrohttpd.so.12" "$root$http"
libc=$(echo "$bundled" | tr ' ' '\n' | grep '/libc\.so\.6$')
for part in libdl.so.2 libpthread.so.0 librt.so.1 libm.so.6 libutil.so.1 libresolv.so.2 \
	libgcc_s.so.1; do
	[ -e "$root$(dirname "$libc")/$part" ] && bundled="$bundled $(dirname "$libc")/$part"
done
add_package() # FILE-IN-THE-TARBALL PATH-ON-THIS-MACHINE
{
	real=$(realpath "$root$2")
	package=$(dpkg-query --admindir="$root/var/lib/dpkg" -S "${real#"$root"}" "$2" 2>/dev/null |
		sed -n '1s/:.*//p')
	[ -z "$package" ] || echo "$package${1:+ $1}" >>"$work/packages"
}
add_package libmicrohttpd.so.12 "$http"
# linked into the program
iberty=$(dirname "$http")/libiberty.a
[ ! -e "$root$iberty" ] || add_package "" "$iberty"
for f in $(echo "$bundled" | tr ' ' '\n' | sort -u); do
	case $f in */libasan.so* | */libtsan.so* | */libubsan.so*)
		refuse "$build is built with a sanitizer"
		;;
	esac
	cp -L "$root$f" "$lib/$(basename "$f")"
	add_package "$(basename "$f")" "$f"
done
find "$lib" -name 'lib*.so*' ! -name 'libwarpsight*' \
	-exec $strip --strip-unneeded {} + 2>/dev/null || true

$cc -O2 -D_GNU_SOURCE -Isrc -Wall -Wextra -Werror -static-pie -fPIE -fstack-protector-strong \
	-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Wl,-z,relro -Wl,-z,now \
	-DWS_LOADER="\"$(basename "$loader")\"" -o "$top/bin/warpsight" src/launcher/launcher.c
$strip "$top/bin/warpsight"

# Licences of what is bundled, with the versions: the sources are Debian's of that version.
for p in $(cut -d' ' -f1 "$work/packages" | sort -u); do
	cp -L "$root/usr/share/doc/$p/copyright" "$doc/licenses/$p"
	source='${source:Package} ${source:Version}'
	files=$(sed -n "s/^$p / /p" "$work/packages" | sort | tr -d '\n')
	dpkg-query --admindir="$root/var/lib/dpkg" -W \
		-f "\${Package} \${Version} (source package $source)$files\\n" "$p" |
		head -1 >>"$doc/BUNDLED"
done
for l in $(grep -oh '/usr/share/common-licenses/[A-Za-z0-9.-]*' "$doc"/licenses/* |
	sed 's/\.$//' | sort -u); do
	[ -f "$l" ] && cp -L "$l" "$doc/licenses/"
done
[ -s "$doc/BUNDLED" ] ||
	refuse "the packages of the bundled libraries are unknown; build on Debian"
cp LICENSE README.md CHANGELOG.md SECURITY.md "$doc/"
cp -r docs "$doc/docs"
cp -r examples "$doc/examples"
rm -rf "$doc/examples/meson.build" "$doc/examples/cuda/build" "$doc"/examples/*/__pycache__
cp include/warpsight/*.h "$top/include/warpsight/"
mkdir -p "$top/share/man/man1" "$top/share/bash-completion/completions"
cp "$build/warpsight.1" "$top/share/man/man1/"
cp "$build/warpsight.bash" "$top/share/bash-completion/completions/warpsight"

epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
scripts/sbom.py "$top" "$version" "$epoch" >"$doc/sbom.spdx.json"
mkdir -p dist
tar -C "$work" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner \
	--mode=u+w,go+rX,go-w -cf - "$name" | gzip -9n >"$work/$name.tar.gz"
mv "$work/$name.tar.gz" "dist/$name.tar.gz"
echo "dist/$name.tar.gz ($(wc -c <"dist/$name.tar.gz") bytes)"
