/* debugfile.c - see debugfile.h. */
#include "symbols/debugfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SYSTEM_DIR "/usr/lib/debug"

/* The checksum of .gnu_debuglink: CRC-32 as in zlib. */
static uint32_t crc32_of(const uint8_t *bytes, size_t n)
{
	static uint32_t table[256];
	uint32_t crc = ~UINT32_C(0);

	for (uint32_t i = 0; !table[255] && i < 256; i++) {
		uint32_t v = i;

		for (int k = 0; k < 8; k++)
			v = v & 1 ? v >> 1 ^ UINT32_C(0xedb88320) : v >> 1;
		table[i] = v;
	}
	while (n--)
		crc = table[(crc ^ *bytes++) & 0xff] ^ crc >> 8;
	return ~crc;
}

/* Open `path` (freed) when it has the build id, or, without one, the checksum. */
static bool take(char *path, const char *build_id, const uint32_t *crc, struct ws_elf *out)
{
	char have[WS_BUILD_ID_TEXT];
	bool ok = !ws_elf_open(out, path, NULL);

	free(path);
	if (!ok)
		return false;
	ws_elf_build_id(out, have);
	if (build_id && *build_id)
		ok = !strcmp(have, build_id);
	else
		ok = crc && crc32_of(out->data, out->size) == *crc;
	if (!ok)
		ws_elf_close(out);
	return ok;
}

static bool by_build_id(const char *dir, const char *id, struct ws_elf *out)
{
	if (strlen(id) < 6)
		return false;
	return take(ws_format("%s/.build-id/%.2s/%s.debug", dir, id, id + 2), id, NULL, out) ||
	       take(ws_format("%s/%.2s/%s.debug", dir, id, id + 2), id, NULL, out);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool by_link(const struct ws_module *module, const char *const *dirs, size_t n,
		    struct ws_elf *out)
{
	Elf64_Shdr section;
	const uint8_t *bytes =
		module->opened && ws_elf_find(&module->elf, ".gnu_debuglink", &section) >= 0
			? ws_elf_bytes(&module->elf, &section)
			: NULL;
	const char *name =
		bytes ? ws_elf_text(&module->elf, section.sh_offset, section.sh_size, 0) : "";
	uint64_t at = WS_ALIGN_UP(strlen(name) + 1, 4u);
	int folder = (int)(base_name(module->path) - module->path);
	uint32_t crc;

	if (!*name || strchr(name, '/') || at > section.sh_size || section.sh_size - at < 4)
		return false;
	memcpy(&crc, bytes + at, 4);
	for (size_t i = 0; i < n; i++)
		if (take(ws_format("%s/%s", dirs[i], name), module->build_id, &crc, out))
			return true;
	return take(ws_format("%.*s%s", folder, module->path, name), module->build_id, &crc, out) ||
	       take(ws_format("%.*s.debug/%s", folder, module->path, name), module->build_id, &crc,
		    out) ||
	       take(ws_format(SYSTEM_DIR "%.*s%s", folder, module->path, name), module->build_id,
		    &crc, out);
}

bool ws_debugfile_open(const struct ws_module *module, const char *const *dirs, size_t dirs_n,
		       struct ws_elf *out)
{
	const char *id = module->build_id;

	for (size_t i = 0; i < dirs_n && *id; i++)
		if (by_build_id(dirs[i], id, out) ||
		    take(ws_format("%s/%s.debug", dirs[i], base_name(module->path)), id, NULL,
			 out) ||
		    take(ws_format("%s/%s", dirs[i], base_name(module->path)), id, NULL, out) ||
		    take(ws_format("%s/%s", dirs[i], module->path), id, NULL, out))
			return true;
	return (*id && by_build_id(SYSTEM_DIR, id, out)) || by_link(module, dirs, dirs_n, out);
}

bool ws_debugfile_module(struct ws_module *module, const char *const *dirs, size_t dirs_n)
{
	for (size_t i = 0; i < dirs_n && !module->opened && module->build_id[0]; i++)
		module->opened = take(ws_format("%s/%s", dirs[i], base_name(module->path)),
				      module->build_id, NULL, &module->elf) ||
				 take(ws_format("%s/%s", dirs[i], module->path), module->build_id,
				      NULL, &module->elf);
	return module->opened;
}

bool ws_debugfile_shared(const struct ws_elf *elf, const char *const *dirs, size_t dirs_n,
			 struct ws_elf *out)
{
	char id[WS_BUILD_ID_TEXT] = "";
	Elf64_Shdr section;
	const uint8_t *bytes = ws_elf_find(elf, ".gnu_debugaltlink", &section) >= 0
				       ? ws_elf_bytes(elf, &section)
				       : NULL;
	const char *name = bytes ? ws_elf_text(elf, section.sh_offset, section.sh_size, 0) : "";
	size_t at = strlen(name) + 1;

	if (!*name || at >= section.sh_size || section.sh_size - at > 64)
		return false;
	for (size_t i = 0; at + i < section.sh_size; i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[at + i]);
	for (size_t i = 0; i < dirs_n; i++)
		if (by_build_id(dirs[i], id, out) ||
		    take(ws_format("%s/%s", dirs[i], base_name(name)), id, NULL, out))
			return true;
	return by_build_id(SYSTEM_DIR, id, out) ||
	       (*name == '/' && take(ws_strdup(name), id, NULL, out)) ||
	       take(ws_format(SYSTEM_DIR "/.dwz/%s", base_name(name)), id, NULL, out);
}
