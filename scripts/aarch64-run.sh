#!/bin/sh
# Run a command as on an aarch64 machine: in the folder of arm64 packages as its root folder
# (scripts/aarch64-root.sh), with this project's folder at its usual path, every program run by
# qemu-user. `aarch64-run.sh --can`: says why that does not work here. WS_AARCH64_ROOT: the
# folder, build-aarch64-root by default.
#
# Since Linux 6.7 a user namespace can register interpreters of its own: nothing changes for
# anybody else. On older kernels that of the system is used, where Debian's qemu-user-static or
# binfmt-support has registered it.
set -eu
# meson puts folders of arm64 programs and libraries before this machine's own
PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset LD_LIBRARY_PATH
[ -n "${WS_TEST_EMULATED:-}" ] && exec "$@"
case ${1:-} in
*/python3*) # the build's may lie where only this machine has one
	shift
	set -- python3 "$@"
	;;
esac
here=$(realpath "$(dirname "$0")/..")
root=$(realpath "${WS_AARCH64_ROOT:-$here/build-aarch64-root}")
emulator=$(command -v qemu-aarch64-static || true)

# What runs inside: $1 root, $2 project, $3 working folder, $4 emulator, further the command.
inside='
set -eu
root=$1 project=$2 folder=$3 emulator=$4
shift 4
misc=/proc/sys/fs/binfmt_misc
if mount -t binfmt_misc none $misc 2>/dev/null && [ ! -e $misc/qemu-aarch64 ]; then
	magic="\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
	mask="\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"
	printf %s ":qemu-aarch64:M::$magic:$mask:$emulator:PF" >$misc/register
fi
for folder_shared in proc sys dev tmp; do
	mount --rbind /$folder_shared "$root/$folder_shared"
done
mkdir -p "$root$project"
mount --bind "$project" "$root$project"
export WS_TEST_EMULATED=1
exec chroot "$root" /bin/sh -c "cd \"\$0\" && exec \"\$@\"" "$folder" "$@"
'

enter()
{
	if [ "$(id -u)" = 0 ] && [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]; then
		exec unshare --mount sh -c "$inside" sh "$root" "$here" "$PWD" "$emulator" "$@"
	fi
	exec unshare --user --map-root-user --mount sh -c "$inside" sh "$root" "$here" "$PWD" \
		"$emulator" "$@"
}

if [ "${1:-}" = --can ]; then
	[ -n "$emulator" ] || { echo "qemu-aarch64-static is not there"; exit 1; }
	said=$( (enter uname -m) 2>&1) || true
	[ "$said" = aarch64 ] || { echo "programs of aarch64 do not run here: $said"; exit 1; }
	exit 0
fi
enter "$@"
