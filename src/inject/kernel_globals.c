/*
 * kernel_globals.c - finds variables of modules (__device__), which no call allocates. Their names
 * are taken from the symbol table of each cubin as it is loaded; the driver gives their addresses
 * in a module.
 */
#include <stdlib.h>

#include "inject/cubin.h"
#include "inject/kernel.h"

enum { GLOBALS_MOST = 8192, FUNCTIONS_MOST = 512 };

static char *names[GLOBALS_MOST]; /* every name seen, once each */
static _Atomic size_t name_count; /* names stay: they are read without the lock */
static _Atomic uint32_t names_lock;

static void add_name(const char *name)
{
	size_t count = atomic_load(&name_count);

	for (size_t i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return;
	if (count < GLOBALS_MOST && (names[count] = strdup(name)))
		atomic_store(&name_count, count + 1);
}

static void read_symbols(const struct ws_cubin *cubin, const Elf64_Shdr *table)
{
	const Elf64_Sym *symbols = ws_cubin_find_bytes(cubin, table);

	if (!symbols || table->sh_link >= cubin->head->e_shnum)
		return;
	for (size_t i = 0; i < table->sh_size / sizeof(*symbols); i++) {
		const Elf64_Sym *symbol = &symbols[i];
		const char *section;

		if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || !symbol->st_size)
			continue;
		section = ws_cubin_name_section(cubin, symbol->st_shndx);
		/* The program may write to constants before a launch that was put off is made. */
		if (!strncmp(section, ".nv.global", 10) ||
		    (ws_kernel_keeps_memory() && !strncmp(section, ".nv.constant3", 13)))
			add_name(ws_cubin_find_string(cubin, &cubin->sections[table->sh_link],
						      symbol->st_name));
	}
}

void ws_kernel_note_module(const struct cupti_module *module)
{
	struct ws_cubin cubin;

	if (!ws_cubin_open(module, &cubin))
		return;
	ws_kernel_lock(&names_lock);
	for (size_t i = 0; i < cubin.head->e_shnum; i++)
		if (cubin.sections[i].sh_type == SHT_SYMTAB)
			read_symbols(&cubin, &cubin.sections[i]);
	ws_kernel_unlock(&names_lock);
}

/* CUDA loads code when it is launched for the first time, and what variables it has is known only
 * then: too late to save them. */
static void load_code(void *function)
{
	void *real = function;

	if (ws_kernel_driver.get_kernel_function &&
	    ws_kernel_driver.get_kernel_function(&real, function))
		real = function;
	if (ws_kernel_driver.load_function)
		ws_kernel_driver.load_function(real);
	else
		ws_kernel_function_attribute(function, 0);
}

/* Kernels of a graph may be of one module. */
static bool has_variable(const struct ws_kernel_memories *memories, ws_device_address base)
{
	for (size_t i = 0; i < memories->count; i++)
		if (memories->entries[i].base == base)
			return true;
	return false;
}

void ws_kernel_add_globals(struct ws_kernel_memories *memories, void *function)
{
	struct ws_kernel_memory memory = {.kind = WS_KERNEL_DEVICE_MEMORY, .device = -1};
	void *module, *real = NULL;

	load_code(function);
	if (!atomic_load(&name_count) || !ws_kernel_driver.get_module ||
	    !ws_kernel_driver.get_global)
		return;
	if (ws_kernel_driver.get_module(&module, function) &&
	    (!ws_kernel_driver.get_kernel_function ||
	     ws_kernel_driver.get_kernel_function(&real, function) ||
	     ws_kernel_driver.get_module(&module, real)))
		return;
	for (size_t i = 0; i < atomic_load(&name_count); i++)
		if (!ws_kernel_driver.get_global(&memory.base, &memory.bytes, module, names[i]) &&
		    memory.bytes && !has_variable(memories, memory.base))
			ws_kernel_add_memory(memories, &memory);
}
