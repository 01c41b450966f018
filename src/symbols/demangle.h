/* demangle.h - names of C++ and Rust functions as people write them. */
#ifndef WS_SYMBOLS_DEMANGLE_H
#define WS_SYMBOLS_DEMANGLE_H

/* The name with its template and function arguments; `mangled` itself when it is not mangled. Owned
 * by the caller. */
char *ws_demangle(const char *mangled);
/*
 * The function's own name, without namespaces, return type, template and function arguments, as
 * tables of kernels show it. `mangled` itself when it is not mangled. Owned by the caller.
 */
char *ws_demangle_short(const char *mangled);

#endif
