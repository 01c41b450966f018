/*
 * osrt_next.c - finds the functions behind ours: the next definition in load order, so that another
 * library that interposes the same function is still called.
 *
 * It reads the loader's list of libraries and their hash tables itself. dlsym would do the same,
 * but allocates (calloc, which may be the program's own and may call a wrapper), takes the loader's
 * lock (which a forked child can find held), and overwrites the message that the program's dlerror
 * would give. Of a function with several versions it takes the default one, or an old one where
 * only old ones are left. Nothing is remembered for a name that nobody defines: a library that has
 * it may still come.
 */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "inject/bind.h"
#include "inject/osrt.h"

void *ws_osrt_real[WS_OSRT_COUNT];

static const char *const symbols[WS_OSRT_COUNT] = {
#define WS_OSRT_ENTRY(symbol, shown, error, object) #symbol,
#include "ring/osrt_functions.def"
};

/* What one library's dynamic section says about its symbols. */
struct library {
	const ElfW(Sym) * symtab;
	const char *strtab;
	const uint32_t *gnu_hash, *sysv_hash;
	const ElfW(Half) * versym;
};

/* Addresses in the dynamic section have been relocated in place, except in the few that are
 * read-only. */
static const void *dynamic_address(const struct link_map *map, ElfW(Addr) v)
{
	return (const void *)(v < map->l_addr ? map->l_addr + v : v);
}

static bool open_library(const struct link_map *map, struct library *library)
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

/* How well symbol `i` answers to `name`: 2 its default version, 1 an older version, 0 not at all.
 */
static int is_symbol_match(const struct library *library, uint32_t i, const char *name)
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

static uint32_t find_gnu_symbol(const struct library *library, const char *name, uint32_t hash)
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

static uint32_t find_sysv_symbol(const struct library *library, const char *name)
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

static const struct link_map *find_own_map(void)
{
	const struct link_map *map = _r_debug.r_map;

	while (map && map->l_ld != _DYNAMIC)
		map = map->l_next;
	return map;
}

/* Where the definitions behind ours begin. When opened in a running program we come last, and what
 * the program uses comes before us. */
static const struct link_map *is_behind_hook(void)
{
	const struct link_map *own = find_own_map();

	if (ws_rt_late && own && !own->l_next)
		return _r_debug.r_map;
	return own ? own->l_next : NULL;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (const unsigned char *bytes = (const unsigned char *)name; *bytes; bytes++)
		hash = hash * 33 + *bytes;
	return hash;
}

static void *find_in_library(const struct link_map *map, const struct library *library,
			     const char *name, uint32_t hash)
{
	uint32_t i = library->gnu_hash ? find_gnu_symbol(library, name, hash)
				       : find_sysv_symbol(library, name);

	if (!i)
		return NULL;
	/* Chosen at run time by a resolver, which only the loader knows how to call. None of
	 * glibc's is, so far. */
	if (ELF64_ST_TYPE(library->symtab[i].st_info) == STT_GNU_IFUNC)
		return ws_find_next_symbol(name);
	return (void *)(map->l_addr + library->symtab[i].st_value);
}

static void *find_from_library(const struct link_map *map, const char *name,
			       const struct link_map **owner)
{
	uint32_t hash = gnu_hash(name);

	for (; map; map = map->l_next) {
		struct library library;
		void *memory;

		if (!open_library(map, &library) ||
		    !(memory = find_in_library(map, &library, name, hash)))
			continue;
		if (owner)
			*owner = map;
		return memory;
	}
	return NULL;
}

static void *find_next_function(const char *name, const struct link_map **owner)
{
	return find_from_library(is_behind_hook(), name, owner);
}

void *ws_osrt_find_function(const char *name)
{
	return find_next_function(name, NULL);
}

void *ws_osrt_find_first_function(const char *name)
{
	return find_from_library(_r_debug.r_map, name, NULL);
}

static bool is_c_library(const struct link_map *map)
{
	const char *base = strrchr(map->l_name, '/');

	base = base ? base + 1 : map->l_name;
	return !strncmp(base, "libc.so", 7) || !strncmp(base, "libpthread.so", 13);
}

void *ws_osrt_find_own_function(const char *name)
{
	const struct link_map *own = find_own_map();
	struct library library;

	if (!own || !open_library(own, &library))
		return NULL;
	return find_in_library(own, &library, name, gnu_hash(name));
}

int ws_osrt_is_same_library(const char *a, const char *b)
{
	const struct link_map *of_a = NULL, *of_b = NULL;

	if (!find_next_function(a, &of_a) || !find_next_function(b, &of_b))
		return 0;
	return of_a == of_b || (is_c_library(of_a) && is_c_library(of_b));
}

/* ---- functions that this C library does not have ---- */

static long missing_errno(void)
{
	errno = ENOSYS;
	return -1;
}

static int missing_number(void)
{
	return ENOSYS;
}

static void *missing_pointer(void)
{
	errno = ENOSYS;
	return NULL;
}

static int fail_with(long ret)
{
	if (ret >= 0)
		return (int)ret;
	errno = (int)-ret;
	return -1;
}

static int missing_tgkill(pid_t group, pid_t tid, int sig)
{
	return fail_with(ws_raw_syscall(SYS_tgkill, group, tid, sig, 0, 0, 0));
}

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
static int missing_epoll_pwait2(int ep, struct epoll_event *events, int n,
				const struct timespec *limit, const sigset_t *mask)
{
	return fail_with(ws_raw_syscall(SYS_epoll_pwait2, ep, (long)events, n, (long)limit,
					(long)mask, 8 /* bytes of a kernel sigset */));
}

static void *missing_function(unsigned fn)
{
	static const uint8_t errors[WS_OSRT_COUNT] = {
#define IS_ERRNO 0
#define IS_STREAM 0
#define IS_NONE 0
#define IS_NUMBER 1
#define IS_POINTER 2
#define WS_OSRT_ENTRY(symbol, shown, error, object) IS_##error,
#include "ring/osrt_functions.def"
	};

	if (fn == WS_OSRT_tgkill)
		return missing_tgkill;
	if (fn == WS_OSRT_epoll_pwait2)
		return missing_epoll_pwait2;
	return errors[fn] == 1	 ? (void *)missing_number
	       : errors[fn] == 2 ? (void *)missing_pointer
				 : (void *)missing_errno;
}

void *ws_osrt_resolve_function(unsigned fn)
{
	void *memory = find_next_function(symbols[fn], NULL);

	if (!memory)
		return missing_function(fn);
	__atomic_store_n(&ws_osrt_real[fn], memory, __ATOMIC_RELEASE);
	return memory;
}

/* Library by library, since every program that starts waits for this. */
void ws_osrt_resolve_all(void)
{
	uint32_t hashes[WS_OSRT_COUNT];

	for (unsigned fn = 0; fn < WS_OSRT_COUNT; fn++)
		hashes[fn] = gnu_hash(symbols[fn]);
	for (const struct link_map *map = is_behind_hook(); map; map = map->l_next) {
		struct library library;

		if (!open_library(map, &library))
			continue;
		for (unsigned fn = 0; fn < WS_OSRT_COUNT; fn++)
			if (!ws_osrt_real[fn])
				ws_osrt_real[fn] =
					find_in_library(map, &library, symbols[fn], hashes[fn]);
	}
}
