/*
 * nvtx_late.c - NVTX in a program that has run for a while.
 *
 * Each program and library that uses NVTX carries its own tables. The first call looks for a tool,
 * finds none and clears every function pointer: from then on calls return at once, and no tool is
 * ever asked again. The tables are the only trace of NVTX in a module, so they are found by their
 * shape: the state of the initialisation, then the export table that gives the functions' addresses
 * and the one that gives the version, each preceded by its size and followed by a function of the
 * module. The first export table gives the addresses of all function pointers, as it does to a tool
 * that is loaded in time.
 *
 * A module that has not called NVTX yet is initialised here: functions that are not ours are
 * cleared, as the module would do. Domains and strings that the program made before have no
 * handles: their events come without them.
 */
#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "inject/late.h"
#include "inject/nvtx_state.h"

enum { FRESH = 0, STARTED = 1, COMPLETE = 2, MODULES = 256 };

/* What a module's tables begin with. */
struct nvtx_globals {
	_Atomic uint32_t state;
	uint32_t padding;
	struct nx_callbacks callbacks;
	struct nx_version_info version;
};

static struct nvtx_globals *found[MODULES];
static size_t found_count;

static bool is_code(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t from = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X && address >= from &&
		    address - from < segment->p_memsz)
			return true;
	}
	return false;
}

static bool is_globals(const struct dl_phdr_info *info, const struct nvtx_globals *globals)
{
	return globals->callbacks.size == sizeof(globals->callbacks) &&
	       globals->version.size == sizeof(globals->version) &&
	       atomic_load_explicit(&globals->state, memory_order_relaxed) <= COMPLETE &&
	       !globals->padding && globals->version.version == NX_VERSION &&
	       !globals->version.reserved &&
	       is_code(info, (uintptr_t)globals->callbacks.module_table) &&
	       is_code(info, (uintptr_t)globals->version.set_tool_version);
}

/* Only initialised data, which a module has in its file. */
static void search_segment(const struct dl_phdr_info *info, const ElfW(Phdr) * segment)
{
	uintptr_t at = (info->dlpi_addr + segment->p_vaddr + 7) & ~(uintptr_t)7,
		  end = info->dlpi_addr + segment->p_vaddr + segment->p_filesz;

	for (; at + sizeof(struct nvtx_globals) <= end && found_count < MODULES; at += 8)
		if (is_globals(info, (const struct nvtx_globals *)at))
			found[found_count++] = (struct nvtx_globals *)at;
}

static int search_module(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size, (void)ctx;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_W)
			search_segment(info, &info->dlpi_phdr[i]);
	return 0;
}

static nx_fn find_own_function(int module, unsigned slot)
{
	for (size_t i = 0; i < ws_nvtx_event_slot_count; i++)
		if (ws_nvtx_event_slots[i].module == module && ws_nvtx_event_slots[i].slot == slot)
			return ws_nvtx_get_function(&ws_nvtx_event_slots[i]);
	for (size_t i = 0; i < ws_nvtx_name_slot_count; i++)
		if (ws_nvtx_name_slots[i].module == module && ws_nvtx_name_slots[i].slot == slot)
			return ws_nvtx_name_slots[i].fn;
	return NULL;
}

/* Call `fn` for each function pointer of the module's tables. */
static void each_pointer(struct nvtx_globals *globals,
			 bool (*fn)(_Atomic(nx_fn) *pointer, nx_fn own), bool *all)
{
	for (int module = NX_CORE; module <= NX_SYNC; module++) {
		nx_fn **table = NULL;
		unsigned slots = 0;

		if (!globals->callbacks.module_table(module, &table, &slots) || !table)
			continue;
		for (unsigned slot = 1; slot < slots; slot++)
			if (table[slot] &&
			    !fn((_Atomic(nx_fn) *)table[slot], find_own_function(module, slot)))
				*all = false;
	}
}

/* False when another tool's function is there. */
static bool is_free(_Atomic(nx_fn) *pointer, nx_fn own)
{
	nx_fn now = atomic_load(pointer);

	return !now || now == own;
}

static bool set_pointer(_Atomic(nx_fn) *pointer, nx_fn own)
{
	atomic_store(pointer, own);
	return true;
}

static bool clear_pointer(_Atomic(nx_fn) *pointer, nx_fn own)
{
	if (own && atomic_load(pointer) == own)
		atomic_store(pointer, (nx_fn)NULL);
	return true;
}

static bool attach_module(struct nvtx_globals *globals)
{
	uint32_t state = FRESH;
	bool is_ours = true;

	if (atomic_compare_exchange_strong(&globals->state, &state, STARTED)) {
		each_pointer(globals, set_pointer, &is_ours);
		atomic_store(&globals->state, COMPLETE);
		return true;
	}
	if (state != COMPLETE)
		return false;
	each_pointer(globals, is_free, &is_ours);
	if (!is_ours) {
		ws_late_state.nvtx_foreign++;
		return false;
	}
	each_pointer(globals, set_pointer, &is_ours);
	return true;
}

void ws_nvtx_attach_modules(void)
{
	found_count = 0;
	dl_iterate_phdr(search_module, NULL);
	ws_late_state.nvtx_modules = (uint32_t)found_count;
	for (size_t i = 0; i < found_count; i++)
		ws_late_state.nvtx_attached += attach_module(found[i]);
}

/* Modules may have been unloaded since, so they are searched for again. */
void ws_nvtx_detach_modules(void)
{
	bool all = true;

	found_count = 0;
	dl_iterate_phdr(search_module, NULL);
	for (size_t i = 0; i < found_count; i++)
		each_pointer(found[i], clear_pointer, &all);
}
