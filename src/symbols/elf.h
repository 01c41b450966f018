/*
 * elf.h - ELF files on disk, and the vDSO in memory: headers, sections, addresses. Reads nothing
 * that is not asked for.
 *
 * Files are mapped, not read: of a gigabyte of debugging information only the touched pages take
 * memory. A file that shrinks while it is mapped would raise SIGBUS in the recorder; base/shrink.h
 * has zeros there instead, which are refused like any other garbage. Every offset and length in a
 * file is checked before use: files are whatever the target has mapped.
 */
#ifndef WS_SYMBOLS_ELF_H
#define WS_SYMBOLS_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WS_BUILD_ID_TEXT 129 /* bytes of a build id of up to 64 bytes as text */

struct ws_elf {
	const uint8_t *data;
	size_t size;
	bool mapped, wide; /* is from a file; is 64-bit */
	uint16_t machine, type;
	uint64_t shoff, phoff;
	uint32_t sections, segments; /* number of each */
	uint32_t names;		     /* the section that holds the names of sections */
};

/* Map the file behind `fd`, which may be closed afterwards. 0, or -1 with a message that does not
 * name the file. */
int ws_elf_open_fd(struct ws_elf *elf, int fd, struct ws_err *err);
int ws_elf_open(struct ws_elf *elf, const char *path, struct ws_err *err);
/* Open an image in memory, such as the vDSO, which is not copied. */
int ws_elf_open_memory(struct ws_elf *elf, const void *data, size_t size, struct ws_err *err);
void ws_elf_close(struct ws_elf *elf);

/* Section or program header number i in 64-bit form; false when there is none or it is outside the
 * file. */
bool ws_elf_get_section(const struct ws_elf *elf, uint32_t i, Elf64_Shdr *out);
bool ws_elf_get_segment(const struct ws_elf *elf, uint32_t i, Elf64_Phdr *out);
/* Size of a section header in the file, bytes. */
static inline uint64_t ws_elf_get_header_size(const struct ws_elf *elf)
{
	return elf->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
}

/* The section called `name`: its number, or -1. */
int ws_elf_find_section(const struct ws_elf *elf, const char *name, Elf64_Shdr *out);
const char *ws_elf_get_section_name(const struct ws_elf *elf, const Elf64_Shdr *section);
/* The bytes of a section as they are in the file, compressed or not; NULL when it has none or they
 * are outside. */
const uint8_t *ws_elf_get_bytes(const struct ws_elf *elf, const Elf64_Shdr *section);
/*
 * The bytes of a section, unpacked if it is compressed (zlib or zstd): then the caller frees
 * *owned, which is NULL otherwise. *size gets their number. NULL when there are none, they cannot
 * be unpacked, or they would take more than `most`.
 */
const uint8_t *ws_elf_unpack(const struct ws_elf *elf, const Elf64_Shdr *section, uint64_t most,
			     uint64_t *size, uint8_t **owned);
/* NUL-terminated text at `offset` of the file, inside [from, from + size); "" when it is not. */
const char *ws_elf_get_text(const struct ws_elf *elf, uint64_t from, uint64_t size,
			    uint64_t offset);

/* The address at which the byte at file offset `offset` is loaded; false when no segment holds it.
 */
bool ws_elf_find_address(const struct ws_elf *elf, uint64_t offset, uint64_t *address);
/* The bytes loaded at `address`, and how many follow in the segment; NULL when the file has none
 * there. */
const uint8_t *ws_elf_get_loaded(const struct ws_elf *elf, uint64_t address, uint64_t *left);
/* The build id in hexadecimal; "" when there is none. */
void ws_elf_get_build_id(const struct ws_elf *elf, char out[WS_BUILD_ID_TEXT]);

#endif
