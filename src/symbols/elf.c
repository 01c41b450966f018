/* elf.c - see elf.h. */
#include "symbols/elf.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"

#define COMPRESSED_ZSTD 2 /* ELFCOMPRESS_ZSTD, newer than some headers */

/* ---- files that shrink ---- */

/* Mapped files, for the signal handler: a slot is in use while `end` is not 0. A file that finds no
 * slot is mapped unprotected. */
#define GUARDS 8192
static struct {
	_Atomic(uintptr_t) begin, end;
} guard[GUARDS];
static struct sigaction before;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static long page = 4096;

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	int saved = errno;

	for (size_t i = 0; i < GUARDS; i++)
		if (at >= atomic_load(&guard[i].begin) && at < atomic_load(&guard[i].end)) {
			void *memory = (void *)(at & ~(uintptr_t)(page - 1));

			if (mmap(memory, (size_t)page, PROT_READ,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory) {
				errno = saved;
				return;
			}
		}
	if ((before.sa_flags & SA_SIGINFO) && before.sa_sigaction)
		before.sa_sigaction(sig, info, context);
	else
		sigaction(SIGBUS, &before,
			  NULL); /* the access is repeated and ends as it would have without us */
}

static void install(void)
{
	struct sigaction sa = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};

	page = sysconf(_SC_PAGESIZE);
	sigemptyset(&sa.sa_mask);
	sigaction(SIGBUS, &sa, &before);
}

static void watch(const void *data, size_t size)
{
	pthread_once(&once, install);
	for (size_t i = 0; i < GUARDS; i++) {
		uintptr_t free_slot = 0;

		if (atomic_load(&guard[i].end) ||
		    !atomic_compare_exchange_strong(&guard[i].begin, &free_slot, (uintptr_t)data))
			continue;
		atomic_store(&guard[i].end, (uintptr_t)data + WS_ALIGN_UP(size, (size_t)page));
		return;
	}
}

static void unwatch(const void *data)
{
	for (size_t i = 0; i < GUARDS; i++)
		if (atomic_load(&guard[i].begin) == (uintptr_t)data) {
			atomic_store(&guard[i].end, 0);
			atomic_store(&guard[i].begin, 0);
			return;
		}
}

/* ---- headers ---- */

static bool inside(const struct ws_elf *elf, uint64_t offset, uint64_t n)
{
	return offset <= elf->size && n <= elf->size - offset;
}

static int read_header(struct ws_elf *elf, struct ws_err *err)
{
	Elf64_Shdr first;
	uint64_t count;

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
		Elf32_Ehdr h;

		memcpy(&h, elf->data, sizeof(h));
		elf->machine = h.e_machine, elf->type = h.e_type, elf->shoff = h.e_shoff,
		elf->phoff = h.e_phoff;
		elf->sections = h.e_shnum, elf->segments = h.e_phnum, elf->names = h.e_shstrndx;
		if (elf->shoff && h.e_shentsize != sizeof(Elf32_Shdr))
			elf->shoff = 0;
		if (elf->phoff && h.e_phentsize != sizeof(Elf32_Phdr))
			elf->phoff = 0;
	}
	if (!elf->shoff)
		elf->sections = 0;
	if (!elf->phoff)
		elf->segments = 0;
	if (elf->shoff &&
	    (!elf->sections ||
	     elf->names == SHN_XINDEX)) { /* more than 65,279 sections: the first header tells */
		uint32_t names = elf->names;

		elf->sections = 1;
		if (ws_elf_section(elf, 0, &first)) {
			count = first.sh_size;
			elf->sections = count < UINT32_MAX ? (uint32_t)count : 0;
			elf->names = names == SHN_XINDEX ? first.sh_link : names;
		} else {
			elf->sections = 0;
		}
	}
	/* No more than the file has room for: others allocate by it. */
	count = elf->shoff < elf->size ? (elf->size - elf->shoff) / (elf->wide ? sizeof(Elf64_Shdr)
									       : sizeof(Elf32_Shdr))
				       : 0;
	if (elf->sections > count)
		elf->sections = (uint32_t)count;
	return 0;
}

int ws_elf_memory(struct ws_elf *elf, const void *data, size_t size, struct ws_err *err)
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
	watch(memory, (size_t)st.st_size);
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
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), r;

	memset(elf, 0, sizeof(*elf));
	if (fd < 0)
		return ws_fail_errno(err, "it cannot be opened");
	r = ws_elf_open_fd(elf, fd, err);
	close(fd);
	return r;
}

void ws_elf_close(struct ws_elf *elf)
{
	if (elf->mapped) {
		unwatch(elf->data);
		munmap((void *)(uintptr_t)elf->data, elf->size);
	}
	memset(elf, 0, sizeof(*elf));
}

bool ws_elf_section(const struct ws_elf *elf, uint32_t i, Elf64_Shdr *out)
{
	uint64_t each = elf->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr),
		 at = elf->shoff + i * each;
	Elf32_Shdr s;

	if (i >= elf->sections || elf->shoff > elf->size || !inside(elf, at, each))
		return false;
	if (elf->wide) {
		memcpy(out, elf->data + at, sizeof(*out));
		return true;
	}
	memcpy(&s, elf->data + at, sizeof(s));
	*out = (Elf64_Shdr){.sh_name = s.sh_name,
			    .sh_type = s.sh_type,
			    .sh_flags = s.sh_flags,
			    .sh_addr = s.sh_addr,
			    .sh_offset = s.sh_offset,
			    .sh_size = s.sh_size,
			    .sh_link = s.sh_link,
			    .sh_info = s.sh_info,
			    .sh_addralign = s.sh_addralign,
			    .sh_entsize = s.sh_entsize};
	return true;
}

bool ws_elf_segment(const struct ws_elf *elf, uint32_t i, Elf64_Phdr *out)
{
	uint64_t each = elf->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr),
		 at = elf->phoff + i * each;
	Elf32_Phdr p;

	if (i >= elf->segments || elf->phoff > elf->size || !inside(elf, at, each))
		return false;
	if (elf->wide) {
		memcpy(out, elf->data + at, sizeof(*out));
		return true;
	}
	memcpy(&p, elf->data + at, sizeof(p));
	*out = (Elf64_Phdr){.p_type = p.p_type,
			    .p_flags = p.p_flags,
			    .p_offset = p.p_offset,
			    .p_vaddr = p.p_vaddr,
			    .p_paddr = p.p_paddr,
			    .p_filesz = p.p_filesz,
			    .p_memsz = p.p_memsz,
			    .p_align = p.p_align};
	return true;
}

const uint8_t *ws_elf_unpacked(const struct ws_elf *elf, const Elf64_Shdr *section, uint64_t most,
			       uint64_t *size, uint8_t **owned)
{
	const uint8_t *packed = ws_elf_bytes(elf, section);
	uint64_t packed_n = section->sh_size;
	Elf64_Chdr h;
	uLongf n;
	bool ok;

	*owned = NULL;
	*size = packed ? section->sh_size : 0;
	if (!packed || !(section->sh_flags & SHF_COMPRESSED))
		return packed;
	*size = 0;
	if (!elf->wide || packed_n < sizeof(h))
		return NULL;
	memcpy(&h, packed, sizeof(h));
	packed += sizeof(h);
	packed_n -= sizeof(h);
	if (!h.ch_size || h.ch_size > most ||
	    (h.ch_type != ELFCOMPRESS_ZLIB && h.ch_type != COMPRESSED_ZSTD))
		return NULL;
	*owned = ws_malloc(h.ch_size);
	n = h.ch_size;
	if (h.ch_type == ELFCOMPRESS_ZLIB)
		ok = uncompress(*owned, &n, packed, packed_n) == Z_OK && n == h.ch_size;
	else
		ok = ZSTD_decompress(*owned, h.ch_size, packed, packed_n) == h.ch_size;
	if (!ok) {
		free(*owned);
		*owned = NULL;
		return NULL;
	}
	*size = h.ch_size;
	return *owned;
}

const char *ws_elf_text(const struct ws_elf *elf, uint64_t from, uint64_t size, uint64_t offset)
{
	if (!inside(elf, from, size) || offset >= size ||
	    !memchr(elf->data + from + offset, 0, size - offset))
		return "";
	return (const char *)elf->data + from + offset;
}

const char *ws_elf_section_name(const struct ws_elf *elf, const Elf64_Shdr *section)
{
	Elf64_Shdr names;

	if (!ws_elf_section(elf, elf->names, &names) || names.sh_type != SHT_STRTAB)
		return "";
	return ws_elf_text(elf, names.sh_offset, names.sh_size, section->sh_name);
}

int ws_elf_find(const struct ws_elf *elf, const char *name, Elf64_Shdr *out)
{
	for (uint32_t i = 1; i < elf->sections && ws_elf_section(elf, i, out); i++)
		if (!strcmp(ws_elf_section_name(elf, out), name))
			return (int)i;
	return -1;
}

const uint8_t *ws_elf_bytes(const struct ws_elf *elf, const Elf64_Shdr *section)
{
	return section->sh_type != SHT_NOBITS && section->sh_size &&
			       inside(elf, section->sh_offset, section->sh_size)
		       ? elf->data + section->sh_offset
		       : NULL;
}

/* ---- addresses ---- */

/*
 * Mappings begin at whole pages, segments need not: where two segments share a page of the file
 * (lld lays files out so), that page is mapped twice, and the code in it belongs to the executable
 * one.
 */
bool ws_elf_address(const struct ws_elf *elf, uint64_t offset, uint64_t *address)
{
	uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	Elf64_Phdr segment;

	for (int code = 1; code >= 0; code--)
		for (uint32_t i = 0; ws_elf_segment(elf, i, &segment); i++) {
			if (segment.p_type != PT_LOAD || !!(segment.p_flags & PF_X) != code)
				continue;
			if (offset < (segment.p_offset & ~(page_size - 1)) ||
			    (offset >= segment.p_offset &&
			     offset - segment.p_offset >= segment.p_filesz))
				continue;
			*address = segment.p_vaddr +
				   (offset - segment.p_offset); /* wraps back when it lies before */
			return true;
		}
	return false;
}

const uint8_t *ws_elf_loaded(const struct ws_elf *elf, uint64_t address, uint64_t *left)
{
	Elf64_Phdr segment;

	for (uint32_t i = 0; ws_elf_segment(elf, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
		    address - segment.p_vaddr < segment.p_filesz &&
		    inside(elf, segment.p_offset, segment.p_filesz)) {
			*left = segment.p_filesz - (address - segment.p_vaddr);
			return elf->data + segment.p_offset + (address - segment.p_vaddr);
		}
	return NULL;
}

/* ---- build ids ---- */

static bool build_id_in(const uint8_t *bytes, uint64_t n, char out[WS_BUILD_ID_TEXT])
{
	while (n >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr h;
		uint64_t name, desc;

		memcpy(&h, bytes, sizeof(h));
		name = WS_ALIGN_UP((uint64_t)h.n_namesz, 4u);
		desc = WS_ALIGN_UP((uint64_t)h.n_descsz, 4u);
		if (name > n - sizeof(h) || desc > n - sizeof(h) - name)
			return false;
		if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 &&
		    !memcmp(bytes + sizeof(h), "GNU", 4) && h.n_descsz && h.n_descsz <= 64) {
			for (uint32_t i = 0; i < h.n_descsz; i++)
				snprintf(out + 2 * i, 3, "%02x", bytes[sizeof(h) + name + i]);
			return true;
		}
		bytes += sizeof(h) + name + desc;
		n -= sizeof(h) + name + desc;
	}
	return false;
}

void ws_elf_build_id(const struct ws_elf *elf, char out[WS_BUILD_ID_TEXT])
{
	Elf64_Phdr ph;
	Elf64_Shdr sh;

	out[0] = 0;
	/* Sections first: in a separate debug file the segments' contents are not there, but the
	 * note's section is. */
	for (uint32_t i = 1; i < elf->sections && ws_elf_section(elf, i, &sh); i++)
		if (sh.sh_type == SHT_NOTE && ws_elf_bytes(elf, &sh) &&
		    build_id_in(ws_elf_bytes(elf, &sh), sh.sh_size, out))
			return;
	for (uint32_t i = 0; ws_elf_segment(elf, i, &ph); i++)
		if (ph.p_type == PT_NOTE && inside(elf, ph.p_offset, ph.p_filesz) &&
		    build_id_in(elf->data + ph.p_offset, ph.p_filesz, out))
			return;
}
