/*
 * osrt_late.c - the OS-runtime trace in a running program.
 *
 * Interposition is impossible there: the loader has bound, or will bind, the program's calls to the
 * C library. Calls between modules go through words in memory (the global offset table), one for
 * each function and module; these are redirected to the wrappers and later restored. A word that
 * holds a function other than the one that everybody uses belongs to some other interposer, or to
 * an old version of the function, and is left alone. Calls within the C library, and function
 * pointers that the program has copied, are not seen; nor are calls of libraries that are loaded
 * later.
 */
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "inject/late.h"
#include "inject/osrt.h"

#if defined(__x86_64__)
enum { CALL_SLOT = R_X86_64_JUMP_SLOT, DATA_SLOT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { CALL_SLOT = R_AARCH64_JUMP_SLOT, DATA_SLOT = R_AARCH64_GLOB_DAT };
#endif

static void *wrappers[WS_OSRT_COUNT];
static const char *const names[WS_OSRT_COUNT] = {
#define WS_OSRT_ENTRY(symbol, shown, error, object) #symbol,
#include "ring/osrt_functions.def"
};

/* A module as its program headers and its dynamic section describe it. */
struct module {
	uintptr_t base, relro, relro_end, text, text_end;
	const ElfW(Sym) * symbols;
	const char *texts;
	const ElfW(Rela) * calls, *data;
	size_t calls_bytes, data_bytes;
};

static const void *address_in(const struct module *module, ElfW(Addr) value)
{
	return (const void *)(value < module->base ? module->base + value : value);
}

static void read_dynamic(struct module *module, const ElfW(Dyn) * entry)
{
	ElfW(Sxword) kind = DT_RELA;

	for (; entry->d_tag != DT_NULL; entry++)
		switch (entry->d_tag) {
		case DT_SYMTAB:
			module->symbols = address_in(module, entry->d_un.d_ptr);
			break;
		case DT_STRTAB:
			module->texts = address_in(module, entry->d_un.d_ptr);
			break;
		case DT_JMPREL:
			module->calls = address_in(module, entry->d_un.d_ptr);
			break;
		case DT_PLTRELSZ:
			module->calls_bytes = entry->d_un.d_val;
			break;
		case DT_PLTREL:
			kind = (ElfW(Sxword))entry->d_un.d_val;
			break;
		case DT_RELA:
			module->data = address_in(module, entry->d_un.d_ptr);
			break;
		case DT_RELASZ:
			module->data_bytes = entry->d_un.d_val;
			break;
		}
	if (kind != DT_RELA)
		module->calls_bytes = 0;
}

static bool open_module(const struct dl_phdr_info *info, struct module *module)
{
	const ElfW(Dyn) *dynamic = NULL;

	*module = (struct module){.base = info->dlpi_addr, .text = UINTPTR_MAX};
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)from;
		if (segment->p_type == PT_GNU_RELRO) {
			module->relro = from;
			module->relro_end = from + segment->p_memsz;
		}
		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
			module->text = ws_min(module->text, from);
			module->text_end = ws_max(module->text_end, from + segment->p_memsz);
		}
	}
	if (!dynamic)
		return false;
	read_dynamic(module, dynamic);
	return module->symbols && module->texts;
}

/* ---- words ---- */

/* Words behind PT_GNU_RELRO are read-only by whole pages from its start on. */
static bool is_read_only(const struct module *module, uintptr_t slot, uintptr_t page)
{
	return slot >= (module->relro & ~(page - 1)) && slot < (module->relro_end & ~(page - 1));
}

static bool write_slot(const struct module *module, uintptr_t slot, void *value)
{
	const uintptr_t page = (uintptr_t)getauxval(AT_PAGESZ), from = slot & ~(page - 1);
	bool read_only = is_read_only(module, slot, page);

	if (read_only &&
	    ws_raw_syscall(SYS_mprotect, (long)from, (long)page, PROT_READ | PROT_WRITE, 0, 0, 0))
		return false;
	__atomic_store_n((void **)slot, value, __ATOMIC_RELEASE);
	if (read_only)
		ws_raw_syscall(SYS_mprotect, (long)from, (long)page, PROT_READ, 0, 0, 0);
	return true;
}

/* Not bound yet: it points back into the module, to the code that calls the loader. */
static bool is_unbound(const struct module *module, uintptr_t value)
{
	return value >= module->text && value < module->text_end;
}

typedef void change_fn(const struct module *module, uintptr_t slot, unsigned fn);

static void lead_to_wrapper(const struct module *module, uintptr_t slot, unsigned fn)
{
	void *now = __atomic_load_n((void **)slot, __ATOMIC_ACQUIRE);

	if (!wrappers[fn] || now == wrappers[fn] || !ws_osrt_real[fn] ||
	    (now != ws_osrt_real[fn] && !is_unbound(module, (uintptr_t)now)))
		return;
	if (write_slot(module, slot, wrappers[fn]))
		ws_late_state.slots++;
	else
		ws_late_state.slots_refused++;
}

static void lead_back(const struct module *module, uintptr_t slot, unsigned fn)
{
	if (wrappers[fn] && __atomic_load_n((void **)slot, __ATOMIC_ACQUIRE) == wrappers[fn])
		write_slot(module, slot, ws_osrt_real_of(fn));
}

/* ---- modules ---- */

/* Names of functions, in slots of a hash table: number + 1. */
enum { NAME_SLOTS = 2048 };
static uint16_t name_slots[NAME_SLOTS];
_Static_assert(WS_OSRT_COUNT < NAME_SLOTS / 2, "the table of names has room");

static uint32_t hash_name(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

static void enter_names(void)
{
	memset(name_slots, 0, sizeof(name_slots));
	for (unsigned fn = 0; fn < WS_OSRT_COUNT; fn++) {
		uint32_t at = hash_name(names[fn]) % NAME_SLOTS;

		while (name_slots[at])
			at = (at + 1) % NAME_SLOTS;
		name_slots[at] = (uint16_t)(fn + 1);
	}
}

/* Number of the function with this name, or WS_OSRT_COUNT. */
static unsigned find_name(const char *name)
{
	for (uint32_t at = hash_name(name) % NAME_SLOTS; name_slots[at]; at = (at + 1) % NAME_SLOTS)
		if (!strcmp(names[name_slots[at] - 1], name))
			return name_slots[at] - 1u;
	return WS_OSRT_COUNT;
}

static void change_slots(const struct module *module, const ElfW(Rela) * entry, size_t bytes,
			 change_fn *change)
{
	for (size_t i = 0; entry && i < bytes / sizeof(*entry); i++) {
		unsigned type = ELF64_R_TYPE(entry[i].r_info), fn;

		if (type != CALL_SLOT && type != DATA_SLOT)
			continue;
		fn = find_name(module->texts +
			       module->symbols[ELF64_R_SYM(entry[i].r_info)].st_name);
		if (fn < WS_OSRT_COUNT)
			change(module, module->base + entry[i].r_offset, fn);
	}
}

/* Skip our libraries, which call the functions behind them, and the C library and the loader, which
 * call themselves. */
static bool is_left_alone(const char *path)
{
	static const char *const prefixes[] = {"libwarpsight-", "libc.so", "libc-",
					       "ld-linux",	"ld-2",	   "libpthread",
					       "libdl.so",	"libdl-",  "linux-vdso"};
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	for (size_t i = 0; i < WS_COUNT(prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

static int change_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct module module;

	(void)size;
	if (is_left_alone(info->dlpi_name) || !open_module(info, &module))
		return 0;
	change_slots(&module, module.calls, module.calls_bytes, *(change_fn **)ctx);
	change_slots(&module, module.data, module.data_bytes, *(change_fn **)ctx);
	return 0;
}

static void change_modules(change_fn *change)
{
	dl_iterate_phdr(change_module, &change);
}

WS_EXPORT void ws_late_begin(void);
void ws_late_begin(void)
{
	if (!(ws_rt->features & WS_FEATURE_OSRT))
		return;
	enter_names();
	for (unsigned fn = 0; fn < WS_OSRT_COUNT; fn++)
		wrappers[fn] = ws_osrt_find_own_function(names[fn]);
	ws_osrt_resolve_all();
	change_modules(lead_to_wrapper);
}

WS_EXPORT void ws_late_end(void);
void ws_late_end(void)
{
	change_modules(lead_back);
}
