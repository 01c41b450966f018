/*
 * cubin.h - GPU code as a driver loads it: an ELF file in memory, whose sections have names.
 *
 * Modules are what the program hands to the driver, so their tables may be damaged.
 */
#ifndef WS_INJECT_CUBIN_H
#define WS_INJECT_CUBIN_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/cupti_abi.h"

struct ws_cubin {
	const struct cupti_module *module;
	const Elf64_Ehdr *head;
	const Elf64_Shdr *sections; /* head->e_shnum */
};

/* False when the module is no ELF file whose sections lie within it. */
bool ws_cubin_open(const struct cupti_module *module, struct ws_cubin *cubin);
/* The bytes of a section; NULL when it does not lie within the module. */
const void *ws_cubin_find_bytes(const struct ws_cubin *cubin, const Elf64_Shdr *section);
/* The string at this place in a section of strings; "" when there is none. */
const char *ws_cubin_find_string(const struct ws_cubin *cubin, const Elf64_Shdr *strings,
				 uint32_t at);
/* The name of a section, by its number; "" when there is none. */
const char *ws_cubin_name_section(const struct ws_cubin *cubin, size_t number);
/* Whether the code was compiled without optimisation, for a debugger (nvcc -G). */
bool ws_cubin_is_for_debugger(const struct cupti_module *module);

#endif
