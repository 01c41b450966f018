/* cubin.c - see cubin.h. */
#include "inject/cubin.h"

#include <string.h>

bool ws_cubin_open(const struct cupti_module *module, struct ws_cubin *cubin)
{
	const Elf64_Ehdr *head = (const void *)module->cubin;

	if (!head || module->bytes < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) ||
	    head->e_ident[EI_CLASS] != ELFCLASS64 ||
	    head->e_shentsize != sizeof(*cubin->sections) || head->e_shoff % 8 ||
	    head->e_shoff > module->bytes ||
	    head->e_shnum > (module->bytes - head->e_shoff) / sizeof(*cubin->sections))
		return false;
	cubin->module = module;
	cubin->head = head;
	cubin->sections = (const void *)(module->cubin + head->e_shoff);
	return true;
}

const void *ws_cubin_find_bytes(const struct ws_cubin *cubin, const Elf64_Shdr *section)
{
	if (section->sh_offset > cubin->module->bytes ||
	    section->sh_size > cubin->module->bytes - section->sh_offset)
		return NULL;
	return cubin->module->cubin + section->sh_offset;
}

const char *ws_cubin_find_string(const struct ws_cubin *cubin, const Elf64_Shdr *strings,
				 uint32_t at)
{
	const char *text = ws_cubin_find_bytes(cubin, strings);

	if (!text || at >= strings->sh_size || !memchr(text + at, 0, strings->sh_size - at))
		return "";
	return text + at;
}

const char *ws_cubin_name_section(const struct ws_cubin *cubin, size_t number)
{
	const Elf64_Ehdr *head = cubin->head;

	if (number >= head->e_shnum || head->e_shstrndx >= head->e_shnum)
		return "";
	return ws_cubin_find_string(cubin, &cubin->sections[head->e_shstrndx],
				    cubin->sections[number].sh_name);
}

/* -G describes variables, and which registers hold them; -lineinfo, which leaves code as it is,
 * only lines. With -G -dopt=on, which optimises, there are only lines, too. */
bool ws_cubin_is_for_debugger(const struct cupti_module *module)
{
	struct ws_cubin cubin;

	if (!ws_cubin_open(module, &cubin))
		return false;
	for (size_t i = 0; i < cubin.head->e_shnum; i++) {
		const char *name = ws_cubin_name_section(&cubin, i);

		if (!strcmp(name, ".debug_info") || !strcmp(name, ".nv_debug_info_reg_sass"))
			return true;
	}
	return false;
}
