/*
 * kernel_globals.c - finds variables of modules (__device__), which no call allocates. Their names
 * are taken from the symbol table of each cubin as it is loaded; the driver gives their addresses
 * in a module.
 */
#include <elf.h>
#include <stdlib.h>

#include "inject/kernel.h"

enum { GLOBALS_MOST = 8192, FUNCTIONS_MOST = 512 };

static char *names[GLOBALS_MOST]; /* every name seen, once each */
static size_t name_count;
static _Atomic uint32_t names_lock;

static void add_name(const char *name)
{
	for (size_t i = 0; i < name_count; i++)
		if (!strcmp(names[i], name))
			return;
	if (name_count < GLOBALS_MOST && (names[name_count] = strdup(name)))
		name_count++;
}

/* A section of a cubin that lies within it; otherwise NULL. */
static const void *find_section(const struct cupti_module *module, const Elf64_Shdr *section)
{
	if (section->sh_offset > module->bytes ||
	    section->sh_size > module->bytes - section->sh_offset)
		return NULL;
	return module->cubin + section->sh_offset;
}

static const char *name_in(const struct cupti_module *module, const Elf64_Shdr *strings,
			   uint32_t at)
{
	const char *text = find_section(module, strings);

	if (!text || at >= strings->sh_size || !memchr(text + at, 0, strings->sh_size - at))
		return "";
	return text + at;
}

static void read_symbols(const struct cupti_module *module, const Elf64_Ehdr *head,
			 const Elf64_Shdr *sections, const Elf64_Shdr *table)
{
	const Elf64_Sym *symbols = find_section(module, table);

	if (!symbols || table->sh_link >= head->e_shnum || head->e_shstrndx >= head->e_shnum)
		return;
	for (size_t i = 0; i < table->sh_size / sizeof(*symbols); i++) {
		const Elf64_Sym *symbol = &symbols[i];
		const char *section;

		if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT ||
		    symbol->st_shndx >= head->e_shnum || !symbol->st_size)
			continue;
		section = name_in(module, &sections[head->e_shstrndx],
				  sections[symbol->st_shndx].sh_name);
		if (!strncmp(section, ".nv.global", 10))
			add_name(name_in(module, &sections[table->sh_link], symbol->st_name));
	}
}

void ws_kernel_note_module(const struct cupti_module *module)
{
	const Elf64_Ehdr *head = (const void *)module->cubin;
	const Elf64_Shdr *sections;

	if (!head || module->bytes < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) ||
	    head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_shentsize != sizeof(*sections) ||
	    head->e_shoff % 8 || head->e_shoff > module->bytes ||
	    head->e_shnum > (module->bytes - head->e_shoff) / sizeof(*sections))
		return;
	sections = (const void *)(module->cubin + head->e_shoff);
	ws_kernel_lock(&names_lock);
	for (size_t i = 0; i < head->e_shnum; i++)
		if (sections[i].sh_type == SHT_SYMTAB)
			read_symbols(module, head, sections, &sections[i]);
	ws_kernel_unlock(&names_lock);
}

void ws_kernel_add_globals(struct ws_kernel_memories *memories, void *function)
{
	struct ws_kernel_memory memory = {.kind = WS_KERNEL_DEVICE_MEMORY, .device = -1};
	void *module, *real = NULL;

	if (!name_count || !ws_kernel_driver.get_module || !ws_kernel_driver.get_global)
		return;
	if (ws_kernel_driver.get_module(&module, function) &&
	    (!ws_kernel_driver.get_kernel_function ||
	     ws_kernel_driver.get_kernel_function(&real, function) ||
	     ws_kernel_driver.get_module(&module, real)))
		return;
	ws_kernel_lock(&names_lock);
	for (size_t i = 0; i < name_count; i++)
		if (!ws_kernel_driver.get_global(&memory.base, &memory.bytes, module, names[i]) &&
		    memory.bytes)
			ws_kernel_add_memory(memories, &memory);
	ws_kernel_unlock(&names_lock);
}
