/*
 * behind.h - finds the functions that a hook library wraps: the next definition in load order, so
 * that another library that interposes the same function is still called. It is compiled into each
 * hook library that wraps functions and private to that library. It allocates nothing and takes no
 * lock.
 */
#ifndef WS_BEHIND_H
#define WS_BEHIND_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* What one library's dynamic section says about its symbols. */
struct ws_symbols {
	const ElfW(Sym) * symtab;
	const char *strtab;
	const uint32_t *gnu_hash, *sysv_hash;
	const ElfW(Half) * versym;
};

/* False when the library has no table of symbols that can be searched. */
bool ws_open_symbols(const struct link_map *map, struct ws_symbols *library);
/* GNU's hash of a name. */
uint32_t ws_hash_symbol(const char *name);
/* The definition of `name`, whose hash is `hash`, in an open library; NULL when the library has no
 * such symbol. */
void *ws_find_in_symbols(const struct link_map *map, const struct ws_symbols *library,
			 const char *name, uint32_t hash);
/* The first definition of `name` in `map` and what follows it in load order, libraries opened with
 * RTLD_LOCAL included; NULL when there is none. `owner` may be NULL. */
void *ws_find_from_library(const struct link_map *map, const char *name,
			   const struct link_map **owner);
/* The library that this is linked into; NULL before the loader knows it. */
const struct link_map *ws_find_own_map(void);
/* The library from which to search for the definitions behind ours. When our library was opened in
 * a running program it comes last, so the search begins with what comes before it. */
const struct link_map *ws_find_first_behind(void);

#pragma GCC visibility pop
#endif
