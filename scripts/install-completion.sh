#!/bin/sh
# Install the bash completion under the name that bash-completion looks for. Run by meson install;
# $1 is the folder under the prefix.
set -eu
to="$MESON_INSTALL_DESTDIR_PREFIX/$1"
mkdir -p "$to"
install -m 644 "$MESON_BUILD_ROOT/warpsight.bash" "$to/warpsight"
