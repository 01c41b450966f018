/*
 * fuzz_symbols.c - what reads ELF files, call frame information, DWARF, perf maps, jitdump files,
 * /proc/PID/maps and /proc/kallsyms against hostile bytes: it may find nothing, and must not crash,
 * hang or read beyond what is there.
 *
 * The input's first byte chooses a reader. Texts and expressions are the rest as it is; for ELF
 * files the rest is a list of edits of five bytes (a place, how, a value) to this program's own
 * file, with libdw or without.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "symbols/cfi.h"
#include "symbols/demangle.h"
#include "symbols/dwarf_apart.h"
#include "symbols/jit.h"
#include "symbols/kallsyms.h"
#include "symbols/lines.h"
#include "symbols/symtab.h"
#include "symbols/unwind.h"
#include "../replay.h"

enum { MOST_FILE = 8 << 20 };

static uint8_t *base;
static size_t base_n;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	FILE *file = fopen("/proc/self/exe", "rb");

	(void)argc;
	(void)argv;
	base = ws_malloc(MOST_FILE);
	if (!file || !(base_n = fread(base, 1, MOST_FILE, file)))
		abort();
	fclose(file);
	return 0;
}

static bool read_any(void *ctx, uint64_t address, unsigned bytes, uint64_t *value)
{
	(void)ctx;
	*value = address * 3;
	return bytes <= 8 && !(address & 1);
}

static void on_kernel(void *ctx, size_t i, const char *name, uint64_t begin)
{
	*(uint64_t *)ctx += i + strlen(name) + begin;
}

static void on_dwarf(void *ctx, size_t i, const struct ws_dwarf_call *calls, size_t n)
{
	for (size_t k = 0; k < n; k++)
		*(uint64_t *)ctx += i + calls[k].line +
				    (calls[k].name ? strlen(calls[k].name) : 0) +
				    (calls[k].file ? strlen(calls[k].file) : 0);
}

/* ---- readers ---- */

static void read_elf(const struct ws_elf *elf, uint64_t seed, bool dwarf)
{
	struct ws_symbol_hit hit[16] = {{0}};
	struct ws_cfi *cfi = ws_cfi_new(elf);
	char id[WS_BUILD_ID_TEXT];
	struct ws_cfi_row row;
	uint64_t address[16], sum = 0;
	Elf64_Shdr text;

	if (ws_elf_find_section(elf, ".text", &text) < 0)
		text = (Elf64_Shdr){.sh_addr = seed, .sh_size = 1 << 20};
	for (uint64_t i = 0; i < 16; i++)
		address[i] = text.sh_addr + (text.sh_size / 16) * i;
	for (int i = 0; cfi && i < 16; i++)
		if (ws_cfi_find(cfi, address[i], &row) && row.cfa_kind == WS_CFI_VALUE_EXPRESSION) {
			struct ws_regs regs = {.known = UINT64_MAX};

			ws_cfi_evaluate(row.cfa.code, row.cfa.size,
					&(struct ws_cfi_thread){&regs, read_any, NULL}, NULL, &sum);
		}
	if (cfi)
		ws_cfi_keeps_fp(cfi);
	ws_cfi_free(cfi);
	ws_elf_get_build_id(elf, id);
	for (int i = 1; i < 16; i++)
		if (address[i] <
		    address[i - 1]) /* a size that wraps around: symbols want them sorted */
			return;
	ws_symtab_find(elf, address, 16, hit);
	for (int i = 0; i < 16; i++)
		sum += hit[i].name ? strlen(hit[i].name) : 0;
	if (dwarf)
		ws_dwarf_find(
			elf,
			&(struct ws_dwarf_query){
				.address = address, .count = 16, .found = on_dwarf, .ctx = &sum},
			NULL, NULL);
}

static void edited_elf(const uint8_t *data, size_t n, bool dwarf)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct ws_elf elf;
	uint8_t *bytes;

	if (fd < 0 || ftruncate(fd, (off_t)base_n))
		abort();
	bytes = mmap(NULL, base_n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		abort();
	memcpy(bytes, base, base_n);
	for (; n >= 5; data += 5, n -= 5) {
		uint32_t at;

		memcpy(&at, data, 4);
		/* The headers and tables decide what is read: half of all edits go to the first and
		 * last bytes of the file. */
		if (data[4] & 1)
			at = at & 2 ? at / 4 % 1024 : (uint32_t)base_n - 1 - at / 4 % 4096;
		bytes[at % base_n] =
			(uint8_t)(data[4] & 2 ? bytes[at % base_n] ^ 1u << (data[4] >> 5)
					      : data[4]);
	}
	munmap(bytes, base_n);
	if (!ws_elf_open_fd(&elf, fd, NULL)) {
		read_elf(&elf, 4096, dwarf);
		ws_elf_close(&elf);
	}
	close(fd);
}

static void raw_elf(const uint8_t *data, size_t n)
{
	struct ws_elf elf;
	uint8_t *copy = ws_malloc(n + 1); /* so that reading beyond is seen */

	memcpy(copy, data, n);
	if (!ws_elf_open_memory(&elf, copy, n, NULL))
		read_elf(&elf, n, false);
	free(copy);
}

static void try_jitdump(const uint8_t *data, size_t n)
{
	uint8_t *copy = ws_malloc(n + 1);
	struct ws_jit jit = {0};
	uint64_t begin;
	const char *file;
	uint32_t line;

	memcpy(copy, data, n);
	ws_jit_read_memory(&jit, copy, n);
	free(copy);
	ws_jit_sort(&jit);
	for (size_t i = 0; i < jit.count && i < 64; i++)
		ws_jit_find(&jit, jit.codes[i].begin + jit.codes[i].size / 2, &begin, &file, &line);
	ws_jit_free(&jit);
}

static void line_table(const uint8_t *data, size_t n)
{
	static const uint64_t address[4] = {0, 0x1000, 0x10000, UINT64_MAX};
	static const size_t index[4] = {0, 1, 2, 3};
	uint8_t *copy = ws_malloc(n + 1);
	struct ws_lines_sections sections = {copy, copy, copy, n, n, n};
	struct ws_line out[4];
	struct ws_lines lines;

	memcpy(copy, data, n);
	if (ws_lines_open(&lines, &sections, 0)) {
		ws_lines_find(&lines, address, index, 4, out);
		for (uint64_t i = 0; i < 4; i++)
			if (ws_lines_get_file(&lines, out[i].file))
				copy[n] = (uint8_t)strlen(
					ws_lines_get_file(&lines, out[i].file)->name);
	}
	ws_lines_free(&lines);
	free(copy);
}

static void address_map(const uint8_t *data, size_t n)
{
	struct ws_modules *modules = ws_modules_new();
	struct ws_maps *maps = ws_maps_new(modules);
	struct ws_maps_process *process;
	size_t half = n / 2;

	ws_maps_scan_text(maps, -1, 0, 10, (const char *)data, half);
	ws_maps_scan_text(maps, -1, 20, 20, (const char *)data + half, n - half);
	ws_maps_record_fork(maps, -1, -2, 30);
	process = ws_maps_find_process(maps, -1);
	for (uint64_t i = 0; process && i < 64; i++)
		ws_maps_find_mapping(process, i, i << 58 | i << 12);
	ws_maps_free(maps);
	ws_modules_free(modules);
}

/* As from a reader of debugging information that its file has taken over. */
static void receive_finds(const uint8_t *data, size_t n)
{
	const uint64_t address[4] = {0};
	uint64_t sum = 0;
	struct ws_dwarf_query query = {
		.address = address, .count = 4, .found = on_dwarf, .ctx = &sum};
	struct ws_dwarf_missing missing = {0};
	struct ws_dwarf_reader reader = {0};
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET))
		abort();
	ws_dwarf_receive(fd, &query, &missing, &reader);
	free(missing.file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const uint64_t address[4] = {0x1000, 0xffffffff81000010, 0xffffffff81001000,
					    0xffffffffc0000000};
	struct ws_regs regs = {.known = 0xff};
	uint64_t out = 0, first = 77;
	char *text;

	if (n < 2)
		return 0;
	switch (data[0] % 8) {
	case 0:
		edited_elf(data + 1, n - 1, data[0] & 8);
		break;
	case 1:
		raw_elf(data + 1, n - 1);
		break;
	case 2:
		line_table(data + 1, n - 1);
		break;
	case 3:
		try_jitdump(data + 1, n - 1);
		break;
	case 4:
		if (data[0] & 8)
			receive_finds(data + 1, n - 1);
		else
			address_map(data + 1, n - 1);
		break;
	case 5:
		ws_kallsyms_find_text((const char *)data + 1, n - 1, address, 4, on_kernel, &out);
		break;
	case 6:
		text = ws_strndup((const char *)data + 1, n - 1 < 200 ? n - 1 : 200);
		free(ws_demangle(text));
		free(text);
		break;
	default:
		ws_cfi_evaluate(data + 1, n - 1, &(struct ws_cfi_thread){&regs, read_any, NULL},
				data[0] & 8 ? &first : NULL, &out);
	}
	return 0;
}

#ifdef FUZZ_REPLAY
/* Small numbers, as heads of what is found have: eight bytes each. */
static void fill_finds(uint8_t *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (replay_draw() % 8)
			data[i] = i % 4 || replay_draw() % 4 ? 0 : (uint8_t)(replay_draw() % 6);
}

/* Bytes that begin as what each reader takes. */
static size_t make_input(uint8_t *data, int round)
{
	static const char *const starts[] = {
		"",
		"\x7f"
		"ELF\2\1\1",
		"\x40\0\0\0\4\0\30\0\0\0\1\1\1\373\16\15\0\1\1\1\1\0\0\0\1",
		"DTiJ\1\0\0\0\50\0\0\0",
		"1000-3000 r-xp 00000000 08:01 11 /no/a\n",
		"ffffffff81000000 T _text\n",
		"_ZN3abc",
		"\x33\x34\x22"};
	static const uint8_t lengths[] = {0, 7, 25, 12, 39, 25, 7, 3};
	unsigned kind = replay_draw() % 8, most = round % 3 ? 200 : 4096;
	size_t n = 1 + lengths[kind] + replay_draw() % (most - 64);

	data[0] = (uint8_t)(kind | (replay_draw() & 0xf8));
	for (size_t i = 1; i < n; i++)
		data[i] = (uint8_t)replay_draw();
	memcpy(data + 1, starts[kind], lengths[kind]);
	if (kind == 4 && data[0] & 8)
		fill_finds(data + 1, n - 1);
	return n;
}

int main(int argc, char **argv)
{
	LLVMFuzzerInitialize(&argc, &argv);
	return replay_test(argc, argv, 1500, make_input);
}
#endif
