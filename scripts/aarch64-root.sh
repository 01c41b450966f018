#!/bin/sh
# Make a folder of Debian's arm64 packages: what the cross compiler links with, and the few
# programs that the tests need, to be run by qemu-user (scripts/aarch64-run.sh). Nothing is
# installed: apt-get downloads with lists of its own, and the packages are unpacked. $1: the
# folder. Made again only when the list of packages changes.
set -eu
root=$(realpath -m "$1")
packages="libc6-dev libgcc-s1 libcmocka-dev libdw-dev libelf-dev libiberty-dev libmicrohttpd-dev
	libsqlite3-dev libxxhash-dev libzstd-dev zlib1g-dev coreutils dash grep gzip
	libpython3-stdlib python3-minimal sed tar util-linux"
if [ -e "$root/.packages" ] && [ "$(cat "$root/.packages")" = "$packages" ]; then
	exit 0
fi
command -v dpkg-deb >/dev/null 2>&1 || {
	echo "aarch64-root: this needs Debian's apt-get and dpkg-deb" >&2
	exit 1
}
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
: >"$apt/status"

get() # apt-get for arm64, as on a machine where nothing is installed
{
	apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
		-o APT::Sandbox::User=root -o Dir::State::lists="$apt/lists" \
		-o Dir::State::status="$apt/status" -o Dir::Cache="$apt" \
		-o Dir::Cache::archives="$apt/archives" "$@" </dev/null
}

get update
# shellcheck disable=SC2086
get install -y --download-only --no-install-recommends $packages
rm -rf "$root"
# As on an installed system, where these are links and programs name their loader by the short path.
for folder in usr/bin usr/lib usr/sbin etc proc sys dev tmp var/lib/dpkg/info; do
	mkdir -p "$root/$folder"
done
for folder in bin lib sbin; do
	ln -s "usr/$folder" "$root/$folder"
done
echo 1 >"$root/var/lib/dpkg/info/format" # files are named PACKAGE:ARCHITECTURE.list
for package in "$apt"/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$package" |
		tar -C "$root" --keep-directory-symlink --no-same-owner -xf - \
			--exclude './usr/share/locale/*' --exclude './usr/share/man/*'
	# What dpkg-query --admindir reads: which package a file is of, and its version.
	name=$(dpkg-deb -f "$package" Package)
	[ "$(dpkg-deb -f "$package" Multi-Arch)" != same ] ||
		name=$name:$(dpkg-deb -f "$package" Architecture)
	dpkg-deb --fsys-tarfile "$package" | tar -tf - | sed 's/^\.//; s/\/$//; s/^$/\/./' \
		>"$root/var/lib/dpkg/info/$name.list"
	dpkg-deb -f "$package" | sed '1a Status: install ok installed' \
		>>"$root/var/lib/dpkg/status"
	echo >>"$root/var/lib/dpkg/status"
done
ln -sf dash "$root/usr/bin/sh"
# Links to absolute paths lead out of the folder for who looks from outside, as the linker does.
find "$root/usr/lib" -type l -lname '/*' | while read -r link; do
	ln -sfr "$root$(readlink "$link")" "$link"
done
printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' \
	'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin' >"$root/etc/passwd"
echo "$packages" >"$root/.packages"
