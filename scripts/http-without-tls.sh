#!/bin/sh
# Link libmicrohttpd as a shared library that needs no TLS library, for the tarball: from its static
# library, with functions in place of those of GnuTLS that refuse. The page's server speaks plain
# HTTP on the loopback interface and never calls them; GnuTLS, p11-kit and what they need would have
# to be kept patched all the same. $1: the library to write, $2: the static library. The environment
# says CC, NM and OBJCOPY for a cross build.
set -eu
out=$1
static=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Debian builds the static library for programs: code that is part of a shared library can't reach
# the C library's `stderr` as such code does, so that it reads a copy of our own.
${OBJCOPY:-objcopy} --redefine-sym stderr=own_stderr "$static" "$work/http.a"
{
	cat <<'EOF'
#include <stddef.h>
#include <stdio.h>

#define OWN __attribute__((visibility("hidden")))
#define REFUSE(name) OWN int name(void); int name(void) { return -1250; } /* unimplemented */

extern FILE *own_stderr OWN;
extern void *(*gnutls_malloc)(size_t) OWN;
FILE *own_stderr;
void *(*gnutls_malloc)(size_t);
OWN int gnutls_global_init(void);
int gnutls_global_init(void) { return 0; }
__attribute__((constructor)) static void copy_stderr(void) { own_stderr = stderr; }
EOF
	${NM:-nm} "$static" 2>/dev/null | sed -n 's/.* U \(gnutls_.*\)/\1/p' | sort -u |
		grep -vx -e gnutls_malloc -e gnutls_global_init | sed 's/.*/REFUSE(&)/'
} >"$work/refuse.c"
${CC:-cc} -O2 -fPIC -shared -Wl,-soname,libmicrohttpd.so.12 -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,relro \
	-Wl,-z,noexecstack -Wl,-z,defs -o "$out" "$work/refuse.c" \
	-Wl,--whole-archive "$work/http.a" -Wl,--no-whole-archive -lpthread
