/*
 * elf.h - ELF files as they lie on disk, and the vDSO as it lies in memory: headers, sections,
 * addresses. Reads nothing that is not asked for.
 *
 * Files are mapped, not read: of a gigabyte of debugging information only the touched pages count.
 * A file that shrinks while it is mapped would raise SIGBUS in the recorder; a handler puts a page
 * of zeros there instead, and zeros are then refused like any other garbage. Every offset and
 * length of a file is checked before use: files are whatever the target had mapped.
 */
#ifndef WS_SYMBOLS_ELF_H
#define WS_SYMBOLS_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WS_BUILD_ID_TEXT 129 /* room for a build id of 64 bytes as text */

struct ws_elf {
	const uint8_t *data;
	size_t size;
	bool mapped, wide; /* from a file; 64-bit */
	uint16_t machine, type;
	uint64_t shoff, phoff;
	uint32_t sections, segments, names; /* counts; names: the section that holds the names */
};

/* Map the file behind `fd` (which may be closed afterwards). 0, or -1 with a message that does not
 * name the file. */
int ws_elf_open_fd(struct ws_elf *elf, int fd, struct ws_err *err);
int ws_elf_open(struct ws_elf *elf, const char *path, struct ws_err *err);
/* An image in memory, such as the vDSO; not copied. */
int ws_elf_memory(struct ws_elf *elf, const void *data, size_t size, struct ws_err *err);
void ws_elf_close(struct ws_elf *elf);

/* Section or program header number i in 64-bit form; false when there is none or it lies outside
 * the file. */
bool ws_elf_section(const struct ws_elf *elf, uint32_t i, Elf64_Shdr *out);
bool ws_elf_segment(const struct ws_elf *elf, uint32_t i, Elf64_Phdr *out);
/* The section called `name`: its number, or -1. */
int ws_elf_find(const struct ws_elf *elf, const char *name, Elf64_Shdr *out);
const char *ws_elf_section_name(const struct ws_elf *elf, const Elf64_Shdr *section);
/* Bytes of a section as they lie in the file (compressed ones stay so); NULL when it has none or
 * they lie outside. */
const uint8_t *ws_elf_bytes(const struct ws_elf *elf, const Elf64_Shdr *section);
/*
 * Bytes of a section, unpacked where it is compressed (zlib or zstd): then *owned is what the
 * caller frees, else NULL. *size gets their number. NULL when there are none, they cannot be
 * unpacked, or would take more than `most`.
 */
const uint8_t *ws_elf_unpacked(const struct ws_elf *elf, const Elf64_Shdr *section, uint64_t most,
			       uint64_t *size, uint8_t **owned);
/* NUL-terminated text at `offset` of the file, inside [from, from + size); "" when it is not. */
const char *ws_elf_text(const struct ws_elf *elf, uint64_t from, uint64_t size, uint64_t offset);

/* The address at which the byte at file offset `offset` is loaded; false when no segment holds it.
 */
bool ws_elf_address(const struct ws_elf *elf, uint64_t offset, uint64_t *address);
/* The bytes loaded at `address`, and how many follow in the segment; NULL when the file has none
 * there. */
const uint8_t *ws_elf_loaded(const struct ws_elf *elf, uint64_t address, uint64_t *left);
/* The build id in hexadecimal; "" when there is none. */
void ws_elf_build_id(const struct ws_elf *elf, char out[WS_BUILD_ID_TEXT]);

#endif
