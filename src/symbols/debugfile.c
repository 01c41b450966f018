/* debugfile.c - see debugfile.h. */
#include "symbols/debugfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SYSTEM_DIR "/usr/lib/debug"

/* The checksum of .gnu_debuglink: CRC-32 as in zlib. */
static uint32_t compute_crc32(const uint8_t *bytes, size_t size)
{
	static uint32_t table[256];
	uint32_t crc = ~UINT32_C(0);

	for (uint32_t i = 0; !table[255] && i < 256; i++) {
		uint32_t value = i;

		for (int k = 0; k < 8; k++)
			value = value >> 1 ^ ((0 - (value & 1)) & UINT32_C(0xedb88320));
		table[i] = value;
	}
	while (size--)
		crc = table[(crc ^ *bytes++) & 0xff] ^ crc >> 8;
	return ~crc;
}

/* Open the file at `path`, which is freed, if it has the build id; where that is not known, if it
 * has the checksum. */
static bool open_matching(char *path, const char *build_id, const uint32_t *crc, struct ws_elf *out)
{
	char have[WS_BUILD_ID_TEXT];
	bool ok = !ws_elf_open(out, path, NULL);

	free(path);
	if (!ok)
		return false;
	ws_elf_get_build_id(out, have);
	if (build_id && *build_id)
		ok = !strcmp(have, build_id);
	else
		ok = crc && compute_crc32(out->data, out->size) == *crc;
	if (!ok)
		ws_elf_close(out);
	return ok;
}

static bool open_by_build_id(const char *dir, const char *id, struct ws_elf *out)
{
	if (strlen(id) < 6)
		return false;
	return open_matching(ws_format("%s/.build-id/%.2s/%s.debug", dir, id, id + 2), id, NULL,
			     out) ||
	       open_matching(ws_format("%s/%.2s/%s.debug", dir, id, id + 2), id, NULL, out);
}

static const char *get_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		path = slash + 1;
	return path;
}

/* The file name at the start of a section that links to another file; "" when there is none. */
static const char *read_file_link(const struct ws_elf *elf, const char *section_name,
				  Elf64_Shdr *section, const uint8_t **bytes)
{
	*bytes = NULL;
	if (ws_elf_find_section(elf, section_name, section) >= 0)
		*bytes = ws_elf_get_bytes(elf, section);
	if (!*bytes)
		return "";
	return ws_elf_get_text(elf, section->sh_offset, section->sh_size, 0);
}

static bool open_by_debuglink(const struct ws_module *module, const char *const *dirs,
			      size_t dir_count, struct ws_elf *out)
{
	Elf64_Shdr section;
	const uint8_t *bytes = NULL;
	const char *name = "";
	int folder = (int)(get_base_name(module->path) - module->path);
	uint64_t at;
	uint32_t crc;

	if (module->opened)
		name = read_file_link(&module->elf, ".gnu_debuglink", &section, &bytes);
	at = WS_ALIGN_UP(strlen(name) + 1, 4u);
	if (!*name || strchr(name, '/') || at > section.sh_size || section.sh_size - at < 4)
		return false;
	memcpy(&crc, bytes + at, 4);
	for (size_t i = 0; i < dir_count; i++)
		if (open_matching(ws_format("%s/%s", dirs[i], name), module->build_id, &crc, out))
			return true;
	return open_matching(ws_format("%.*s%s", folder, module->path, name), module->build_id,
			     &crc, out) ||
	       open_matching(ws_format("%.*s.debug/%s", folder, module->path, name),
			     module->build_id, &crc, out) ||
	       open_matching(ws_format(SYSTEM_DIR "%.*s%s", folder, module->path, name),
			     module->build_id, &crc, out);
}

bool ws_debugfile_open(const struct ws_module *module, const char *const *dirs, size_t dir_count,
		       struct ws_elf *out)
{
	const char *id = module->build_id;

	for (size_t i = 0; i < dir_count && *id; i++)
		if (open_by_build_id(dirs[i], id, out) ||
		    open_matching(ws_format("%s/%s.debug", dirs[i], get_base_name(module->path)),
				  id, NULL, out) ||
		    open_matching(ws_format("%s/%s", dirs[i], get_base_name(module->path)), id,
				  NULL, out) ||
		    open_matching(ws_format("%s/%s", dirs[i], module->path), id, NULL, out))
			return true;
	return (*id && open_by_build_id(SYSTEM_DIR, id, out)) ||
	       open_by_debuglink(module, dirs, dir_count, out);
}

bool ws_debugfile_open_module(struct ws_module *module, const char *const *dirs, size_t dir_count)
{
	for (size_t i = 0; i < dir_count && !module->opened && module->build_id[0]; i++)
		module->opened =
			open_matching(ws_format("%s/%s", dirs[i], get_base_name(module->path)),
				      module->build_id, NULL, &module->elf) ||
			open_matching(ws_format("%s/%s", dirs[i], module->path), module->build_id,
				      NULL, &module->elf);
	return module->opened;
}

bool ws_debugfile_open_shared(const struct ws_elf *elf, const char *const *dirs, size_t dir_count,
			      struct ws_elf *out)
{
	char id[WS_BUILD_ID_TEXT] = "";
	Elf64_Shdr section;
	const uint8_t *bytes;
	const char *name = read_file_link(elf, ".gnu_debugaltlink", &section, &bytes);
	size_t at = strlen(name) + 1;

	if (!*name || at >= section.sh_size || section.sh_size - at > 64)
		return false;
	for (size_t i = 0; at + i < section.sh_size; i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[at + i]);
	for (size_t i = 0; i < dir_count; i++)
		if (open_by_build_id(dirs[i], id, out) ||
		    open_matching(ws_format("%s/%s", dirs[i], get_base_name(name)), id, NULL, out))
			return true;
	return open_by_build_id(SYSTEM_DIR, id, out) ||
	       (*name == '/' && open_matching(ws_strdup(name), id, NULL, out)) ||
	       open_matching(ws_format(SYSTEM_DIR "/.dwz/%s", get_base_name(name)), id, NULL, out);
}
