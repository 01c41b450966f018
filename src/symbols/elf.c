/* elf.c - see elf.h. */
#include "symbols/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/shrink.h"

#define COMPRESSED_ZSTD 2 /* ELFCOMPRESS_ZSTD, newer than some headers */

/* ---- headers ---- */

static bool is_inside(const struct ws_elf *elf, uint64_t offset, uint64_t size)
{
	return offset <= elf->size && size <= elf->size - offset;
}

/* With more than 65,279 sections, the first section header holds what the file's cannot. */
static void read_large_counts(struct ws_elf *elf)
{
	Elf64_Shdr first;

	elf->sections = 1;
	if (!ws_elf_get_section(elf, 0, &first)) {
		elf->sections = 0;
		return;
	}
	elf->sections = 0;
	if (first.sh_size < UINT32_MAX)
		elf->sections = (uint32_t)first.sh_size;
	if (elf->names == SHN_XINDEX)
		elf->names = first.sh_link;
}

static int read_header(struct ws_elf *elf, struct ws_err *err)
{
	uint64_t count = 0;

	if (elf->size < sizeof(Elf64_Ehdr) || memcmp(elf->data, ELFMAG, SELFMAG))
		return ws_fail(err, "it is no ELF file");
	if (elf->data[EI_DATA] != ELFDATA2LSB)
		return ws_fail(err, "it is a big-endian ELF file");
	elf->wide = elf->data[EI_CLASS] == ELFCLASS64;
	if (elf->wide) {
		Elf64_Ehdr header;

		memcpy(&header, elf->data, sizeof(header));
		elf->machine = header.e_machine, elf->type = header.e_type,
		elf->shoff = header.e_shoff, elf->phoff = header.e_phoff;
		elf->sections = header.e_shnum, elf->segments = header.e_phnum,
		elf->names = header.e_shstrndx;
		if (elf->shoff && header.e_shentsize != sizeof(Elf64_Shdr))
			elf->shoff = 0;
		if (elf->phoff && header.e_phentsize != sizeof(Elf64_Phdr))
			elf->phoff = 0;
	} else {
		Elf32_Ehdr header;

		memcpy(&header, elf->data, sizeof(header));
		elf->machine = header.e_machine, elf->type = header.e_type,
		elf->shoff = header.e_shoff, elf->phoff = header.e_phoff;
		elf->sections = header.e_shnum, elf->segments = header.e_phnum,
		elf->names = header.e_shstrndx;
		if (elf->shoff && header.e_shentsize != sizeof(Elf32_Shdr))
			elf->shoff = 0;
		if (elf->phoff && header.e_phentsize != sizeof(Elf32_Phdr))
			elf->phoff = 0;
	}
	if (!elf->shoff)
		elf->sections = 0;
	if (!elf->phoff)
		elf->segments = 0;
	if (elf->shoff && (!elf->sections || elf->names == SHN_XINDEX))
		read_large_counts(elf);
	/* Limit the count to what the file can hold, since it determines an allocation. */
	if (elf->shoff < elf->size)
		count = (elf->size - elf->shoff) / ws_elf_get_header_size(elf);
	if (elf->sections > count)
		elf->sections = (uint32_t)count;
	return 0;
}

int ws_elf_open_memory(struct ws_elf *elf, const void *data, size_t size, struct ws_err *err)
{
	memset(elf, 0, sizeof(*elf));
	elf->data = data;
	elf->size = size;
	return read_header(elf, err);
}

int ws_elf_open_fd(struct ws_elf *elf, int fd, struct ws_err *err)
{
	struct stat st;
	void *memory;

	memset(elf, 0, sizeof(*elf));
	if (fstat(fd, &st))
		return ws_fail_errno(err, "it cannot be read");
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return ws_fail(err, "it is no ELF file");
	memory = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED)
		return ws_fail_errno(err, "it cannot be mapped");
	ws_guard_mapping(memory, (size_t)st.st_size, false);
	elf->data = memory;
	elf->size = (size_t)st.st_size;
	elf->mapped = true;
	if (!read_header(elf, err))
		return 0;
	ws_elf_close(elf);
	return -1;
}

int ws_elf_open(struct ws_elf *elf, const char *path, struct ws_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;

	memset(elf, 0, sizeof(*elf));
	if (fd < 0)
		return ws_fail_errno(err, "it cannot be opened");
	rc = ws_elf_open_fd(elf, fd, err);
	close(fd);
	return rc;
}

void ws_elf_close(struct ws_elf *elf)
{
	if (elf->mapped) {
		ws_unguard_mapping(elf->data);
		munmap((void *)(uintptr_t)elf->data, elf->size);
	}
	memset(elf, 0, sizeof(*elf));
}

bool ws_elf_get_section(const struct ws_elf *elf, uint32_t i, Elf64_Shdr *out)
{
	uint64_t each = ws_elf_get_header_size(elf), at = elf->shoff + i * each;
	Elf32_Shdr narrow;

	if (i >= elf->sections || elf->shoff > elf->size || !is_inside(elf, at, each))
		return false;
	if (elf->wide) {
		memcpy(out, elf->data + at, sizeof(*out));
		return true;
	}
	memcpy(&narrow, elf->data + at, sizeof(narrow));
	*out = (Elf64_Shdr){.sh_name = narrow.sh_name,
			    .sh_type = narrow.sh_type,
			    .sh_flags = narrow.sh_flags,
			    .sh_addr = narrow.sh_addr,
			    .sh_offset = narrow.sh_offset,
			    .sh_size = narrow.sh_size,
			    .sh_link = narrow.sh_link,
			    .sh_info = narrow.sh_info,
			    .sh_addralign = narrow.sh_addralign,
			    .sh_entsize = narrow.sh_entsize};
	return true;
}

bool ws_elf_get_segment(const struct ws_elf *elf, uint32_t i, Elf64_Phdr *out)
{
	uint64_t each = elf->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr),
		 at = elf->phoff + i * each;
	Elf32_Phdr narrow;

	if (i >= elf->segments || elf->phoff > elf->size || !is_inside(elf, at, each))
		return false;
	if (elf->wide) {
		memcpy(out, elf->data + at, sizeof(*out));
		return true;
	}
	memcpy(&narrow, elf->data + at, sizeof(narrow));
	*out = (Elf64_Phdr){.p_type = narrow.p_type,
			    .p_flags = narrow.p_flags,
			    .p_offset = narrow.p_offset,
			    .p_vaddr = narrow.p_vaddr,
			    .p_paddr = narrow.p_paddr,
			    .p_filesz = narrow.p_filesz,
			    .p_memsz = narrow.p_memsz,
			    .p_align = narrow.p_align};
	return true;
}

const uint8_t *ws_elf_unpack(const struct ws_elf *elf, const Elf64_Shdr *section, uint64_t most,
			     uint64_t *size, uint8_t **owned)
{
	const uint8_t *packed = ws_elf_get_bytes(elf, section);
	uint64_t packed_size = section->sh_size;
	Elf64_Chdr header;
	uLongf unpacked_size;
	bool ok;

	*owned = NULL;
	*size = 0;
	if (!packed)
		return NULL;
	if (!(section->sh_flags & SHF_COMPRESSED)) {
		*size = section->sh_size;
		return packed;
	}
	if (!elf->wide || packed_size < sizeof(header))
		return NULL;
	memcpy(&header, packed, sizeof(header));
	packed += sizeof(header);
	packed_size -= sizeof(header);
	if (!header.ch_size || header.ch_size > most ||
	    (header.ch_type != ELFCOMPRESS_ZLIB && header.ch_type != COMPRESSED_ZSTD))
		return NULL;
	*owned = ws_malloc(header.ch_size);
	unpacked_size = header.ch_size;
	if (header.ch_type == ELFCOMPRESS_ZLIB)
		ok = uncompress(*owned, &unpacked_size, packed, packed_size) == Z_OK &&
		     unpacked_size == header.ch_size;
	else
		ok = ZSTD_decompress(*owned, header.ch_size, packed, packed_size) == header.ch_size;
	if (!ok) {
		free(*owned);
		*owned = NULL;
		return NULL;
	}
	*size = header.ch_size;
	return *owned;
}

const char *ws_elf_get_text(const struct ws_elf *elf, uint64_t from, uint64_t size, uint64_t offset)
{
	if (!is_inside(elf, from, size) || offset >= size ||
	    !memchr(elf->data + from + offset, 0, size - offset))
		return "";
	return (const char *)elf->data + from + offset;
}

const char *ws_elf_get_section_name(const struct ws_elf *elf, const Elf64_Shdr *section)
{
	Elf64_Shdr names;

	if (!ws_elf_get_section(elf, elf->names, &names) || names.sh_type != SHT_STRTAB)
		return "";
	return ws_elf_get_text(elf, names.sh_offset, names.sh_size, section->sh_name);
}

int ws_elf_find_section(const struct ws_elf *elf, const char *name, Elf64_Shdr *out)
{
	for (uint32_t i = 1; i < elf->sections && ws_elf_get_section(elf, i, out); i++)
		if (!strcmp(ws_elf_get_section_name(elf, out), name))
			return (int)i;
	return -1;
}

const uint8_t *ws_elf_get_bytes(const struct ws_elf *elf, const Elf64_Shdr *section)
{
	if (section->sh_type == SHT_NOBITS || !section->sh_size ||
	    !is_inside(elf, section->sh_offset, section->sh_size))
		return NULL;
	return elf->data + section->sh_offset;
}

/* ---- addresses ---- */

/*
 * Mappings begin at whole pages, segments need not: where two segments share a page of the file, as
 * in files of lld, that page is mapped twice, and the code in it belongs to the executable one.
 */
bool ws_elf_find_address(const struct ws_elf *elf, uint64_t offset, uint64_t *address)
{
	uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	Elf64_Phdr segment;

	for (int code = 1; code >= 0; code--)
		for (uint32_t i = 0; ws_elf_get_segment(elf, i, &segment); i++) {
			if (segment.p_type != PT_LOAD || !!(segment.p_flags & PF_X) != code)
				continue;
			if (offset < (segment.p_offset & ~(page_size - 1)) ||
			    (offset >= segment.p_offset &&
			     offset - segment.p_offset >= segment.p_filesz))
				continue;
			/* It wraps around and back where `offset` is before the segment. */
			*address = segment.p_vaddr + (offset - segment.p_offset);
			return true;
		}
	return false;
}

const uint8_t *ws_elf_get_loaded(const struct ws_elf *elf, uint64_t address, uint64_t *left)
{
	Elf64_Phdr segment;

	for (uint32_t i = 0; ws_elf_get_segment(elf, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
		    address - segment.p_vaddr < segment.p_filesz &&
		    is_inside(elf, segment.p_offset, segment.p_filesz)) {
			*left = segment.p_filesz - (address - segment.p_vaddr);
			return elf->data + segment.p_offset + (address - segment.p_vaddr);
		}
	return NULL;
}

/* ---- build ids ---- */

/* The build id in a section or segment of `size` bytes of notes. */
static bool find_build_id(const uint8_t *bytes, uint64_t size, char out[WS_BUILD_ID_TEXT])
{
	while (size >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		uint64_t name, desc;

		memcpy(&note, bytes, sizeof(note));
		name = WS_ALIGN_UP((uint64_t)note.n_namesz, 4u);
		desc = WS_ALIGN_UP((uint64_t)note.n_descsz, 4u);
		if (name > size - sizeof(note) || desc > size - sizeof(note) - name)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(bytes + sizeof(note), "GNU", 4) && note.n_descsz &&
		    note.n_descsz <= 64) {
			for (uint32_t i = 0; i < note.n_descsz; i++)
				snprintf(out + 2 * i, 3, "%02x", bytes[sizeof(note) + name + i]);
			return true;
		}
		bytes += sizeof(note) + name + desc;
		size -= sizeof(note) + name + desc;
	}
	return false;
}

void ws_elf_get_build_id(const struct ws_elf *elf, char out[WS_BUILD_ID_TEXT])
{
	Elf64_Phdr ph;
	Elf64_Shdr sh;

	out[0] = 0;
	/* Sections first: a separate debug file has the note's section, but not the contents of
	 * its segments. */
	for (uint32_t i = 1; i < elf->sections && ws_elf_get_section(elf, i, &sh); i++)
		if (sh.sh_type == SHT_NOTE && ws_elf_get_bytes(elf, &sh) &&
		    find_build_id(ws_elf_get_bytes(elf, &sh), sh.sh_size, out))
			return;
	for (uint32_t i = 0; ws_elf_get_segment(elf, i, &ph); i++)
		if (ph.p_type == PT_NOTE && is_inside(elf, ph.p_offset, ph.p_filesz) &&
		    find_build_id(elf->data + ph.p_offset, ph.p_filesz, out))
			return;
}
