/*
 * behind.c - see behind.h.
 *
 * It reads the loader's list of libraries and their hash tables itself. dlsym would do the same,
 * but allocates (calloc, which may be the program's own and may call a wrapper), takes the loader's
 * lock (which a forked child can find held), overwrites the message that the program's dlerror
 * would give, and does not see libraries that were opened with RTLD_LOCAL. For a function with
 * several versions it takes the default version, or an old one if only old ones exist.
 */
#include "inject/behind.h"

#include <elf.h>
#include <string.h>

#include "inject/bind.h"
#include "inject/rt.h"

/* The loader has relocated the addresses in a dynamic section in place, except in the few sections
 * that are read-only. */
static const void *dynamic_address(const struct link_map *map, ElfW(Addr) v)
{
	return (const void *)(v < map->l_addr ? map->l_addr + v : v);
}

bool ws_open_symbols(const struct link_map *map, struct ws_symbols *library)
{
	memset(library, 0, sizeof(*library));
	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
		switch (d->d_tag) {
		case DT_SYMTAB:
			library->symtab = dynamic_address(map, d->d_un.d_ptr);
			break;
		case DT_STRTAB:
			library->strtab = dynamic_address(map, d->d_un.d_ptr);
			break;
		case DT_GNU_HASH:
			library->gnu_hash = dynamic_address(map, d->d_un.d_ptr);
			break;
		case DT_HASH:
			library->sysv_hash = dynamic_address(map, d->d_un.d_ptr);
			break;
		case DT_VERSYM:
			library->versym = dynamic_address(map, d->d_un.d_ptr);
			break;
		}
	return library->symtab && library->strtab && (library->gnu_hash || library->sysv_hash);
}

/* How well symbol `i` matches `name`: 2 default version, 1 older version, 0 no match. */
static int is_symbol_match(const struct ws_symbols *library, uint32_t i, const char *name)
{
	const ElfW(Sym) *symbol = &library->symtab[i];
	unsigned type = ELF64_ST_TYPE(symbol->st_info),
		 version = library->versym ? library->versym[i] : 1;

	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value ||
	    (type > STT_FUNC && type != STT_GNU_IFUNC) ||
	    (ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL &&
	     ELF64_ST_BIND(symbol->st_info) != STB_WEAK) ||
	    !(version & 0x7fff) || strcmp(library->strtab + symbol->st_name, name))
		return 0;
	return version & 0x8000 ? 1 : 2;
}

static uint32_t find_gnu_symbol(const struct ws_symbols *library, const char *name, uint32_t hash)
{
	uint32_t buckets = library->gnu_hash[0], first = library->gnu_hash[1],
		 words = library->gnu_hash[2], shift = library->gnu_hash[3], i, best = 0;
	const ElfW(Addr) *bloom = (const void *)(library->gnu_hash + 4);
	const uint32_t *bucket = (const void *)(bloom + words), *chain = bucket + buckets;
	const unsigned bits = 8 * sizeof(*bloom);
	ElfW(Addr) want = (ElfW(Addr))1 << hash % bits | (ElfW(Addr))1 << (hash >> shift) % bits;
	int best_match = 0;

	if (!buckets || (bloom[hash / bits % words] & want) != want)
		return 0;
	i = bucket[hash % buckets];
	if (i < first)
		return 0;
	for (;; i++) {
		uint32_t h = chain[i - first];

		if ((h | 1) == (hash | 1)) {
			int m = is_symbol_match(library, i, name);

			if (m > best_match) {
				best_match = m;
				best = i;
			}
		}
		if (h & 1)
			return best;
	}
}

static uint32_t find_sysv_symbol(const struct ws_symbols *library, const char *name)
{
	uint32_t buckets = library->sysv_hash[0], count = library->sysv_hash[1], hash = 0, best = 0;
	const uint32_t *bucket = library->sysv_hash + 2, *chain = bucket + buckets;
	int best_match = 0;

	for (const unsigned char *bytes = (const unsigned char *)name; *bytes; bytes++) {
		uint32_t high;

		hash = (hash << 4) + *bytes;
		high = hash & 0xf0000000u;
		hash = (hash ^ high >> 24) & ~high;
	}
	if (!buckets)
		return 0;
	for (uint32_t i = bucket[hash % buckets]; i && i < count; i = chain[i]) {
		int m = is_symbol_match(library, i, name);

		if (m > best_match) {
			best_match = m;
			best = i;
		}
	}
	return best;
}

const struct link_map *ws_find_own_map(void)
{
	const struct link_map *map = _r_debug.r_map;

	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	return map;
}

const struct link_map *ws_find_first_behind(void)
{
	const struct link_map *own = ws_find_own_map();

	if (ws_rt_late && own && !own->l_next)
		return _r_debug.r_map;
	return own ? own->l_next : NULL;
}

uint32_t ws_hash_symbol(const char *name)
{
	uint32_t hash = 5381;

	for (const unsigned char *bytes = (const unsigned char *)name; *bytes; bytes++)
		hash = hash * 33 + *bytes;
	return hash;
}

void *ws_find_in_symbols(const struct link_map *map, const struct ws_symbols *library,
			 const char *name, uint32_t hash)
{
	uint32_t i = library->gnu_hash ? find_gnu_symbol(library, name, hash)
				       : find_sysv_symbol(library, name);

	if (!i)
		return NULL;
	/* Chosen at run time by a resolver, which only the loader knows how to call. So far no
	 * function of glibc is chosen that way. */
	if (ELF64_ST_TYPE(library->symtab[i].st_info) == STT_GNU_IFUNC)
		return ws_find_next_symbol(name);
	return (void *)(map->l_addr + library->symtab[i].st_value);
}

void *ws_find_from_library(const struct link_map *map, const char *name,
			   const struct link_map **owner)
{
	uint32_t hash = ws_hash_symbol(name);

	for (; map; map = map->l_next) {
		struct ws_symbols library;
		void *memory;

		if (!ws_open_symbols(map, &library) ||
		    !(memory = ws_find_in_symbols(map, &library, name, hash)))
			continue;
		if (owner)
			*owner = map;
		return memory;
	}
	return NULL;
}
