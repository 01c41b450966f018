/* cubin.c - see cubin.h. */
#include "symbols/cubin.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "symbols/bytes.h"

enum { UNPACKED_MOST = 256 << 20, FILES_MOST = 1 << 16, ROWS_MOST = 1 << 20, PTX_MOST = 1 << 20 };
enum { ENDS_SEQUENCE = 1, SETS_ADDRESS = 2, INLINED_CALL = 0x90 };

/* A relocation: at this offset of the table stands the address of a symbol. */
struct relocation {
	uint64_t offset, addend;
	uint32_t symbol;
};

/* A section with line tables, one after another. */
struct ws_gpu_code_table {
	const uint8_t *bytes;
	uint64_t size;
	const char *texts; /* names of inlined functions */
	uint64_t text_size;
	struct relocation *relocations; /* ascending by offset */
	size_t relocation_count;
};

/* ---- sections ---- */

static const uint8_t *unpack_section(struct ws_gpu_code *cubin, const char *name, int slot,
				     uint64_t *size)
{
	Elf64_Shdr section;

	*size = 0;
	if (ws_elf_find_section(&cubin->elf, name, &section) < 0)
		return NULL;
	return ws_elf_unpack(&cubin->elf, &section, UNPACKED_MOST, size, &cubin->owned[slot]);
}

static int compare_relocations(const void *first, const void *second)
{
	const struct relocation *left = first, *right = second;

	return ws_compare(left->offset, right->offset);
}

static void add_relocations(const struct ws_elf *elf, const Elf64_Shdr *section,
			    struct ws_gpu_code_table *table)
{
	bool adds = section->sh_type == SHT_RELA;
	size_t each = adds ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel), capacity = 0;
	const uint8_t *bytes = ws_elf_get_bytes(elf, section);

	for (uint64_t at = 0; bytes && each <= section->sh_size - at; at += each) {
		Elf64_Rela entry = {0};

		memcpy(&entry, bytes + at, each);
		ws_grow(table->relocations, capacity, table->relocation_count + 1);
		table->relocations[table->relocation_count++] = (struct relocation){
			entry.r_offset, (uint64_t)entry.r_addend, ELF64_R_SYM(entry.r_info)};
	}
	if (table->relocation_count)
		qsort(table->relocations, table->relocation_count, sizeof(*table->relocations),
		      compare_relocations);
}

static struct ws_gpu_code_table *open_table(struct ws_gpu_code *cubin, const char *name, int slot)
{
	struct ws_gpu_code_table *table;
	const uint8_t *bytes;
	uint64_t size;
	char *relocations;
	Elf64_Shdr section;

	bytes = unpack_section(cubin, name, slot, &size);
	if (!bytes)
		return NULL;
	table = ws_calloc(1, sizeof(*table));
	table->bytes = bytes;
	table->size = size;
	relocations = ws_format(".rela%s", name);
	if (ws_elf_find_section(&cubin->elf, relocations, &section) >= 0)
		add_relocations(&cubin->elf, &section, table);
	free(relocations);
	relocations = ws_format(".rel%s", name);
	if (!table->relocation_count &&
	    ws_elf_find_section(&cubin->elf, relocations, &section) >= 0)
		add_relocations(&cubin->elf, &section, table);
	free(relocations);
	return table;
}

/* Lines are ended by NUL, in other versions by a line feed. */
static void open_ptx(struct ws_gpu_code *cubin)
{
	uint64_t size, capacity = 0;
	const char *text = (const char *)unpack_section(cubin, ".nv_debug_ptx_txt", 3, &size);

	for (uint64_t at = 0, n; text && at < size && cubin->ptx_count < PTX_MOST; at += n + 1) {
		for (n = 0; at + n < size && text[at + n] && text[at + n] != '\n'; n++)
			;
		ws_grow(cubin->ptx, capacity, cubin->ptx_count + 1);
		cubin->ptx[cubin->ptx_count++] = ws_strndup(text + at, n);
	}
}

int ws_gpu_code_open(struct ws_gpu_code *cubin, const void *data, size_t size, struct ws_err *err)
{
	memset(cubin, 0, sizeof(*cubin));
	if (ws_elf_open_memory(&cubin->elf, data, size, err))
		return -1;
	if (!cubin->elf.wide)
		return ws_fail(err, "it is a 32-bit ELF file");
	cubin->lines = open_table(cubin, ".debug_line", 0);
	if (cubin->lines)
		cubin->lines->texts = (const char *)unpack_section(cubin, ".debug_str", 1,
								   &cubin->lines->text_size);
	cubin->ptx_lines = open_table(cubin, ".nv_debug_line_sass", 2);
	open_ptx(cubin);
	return 0;
}

static void free_table(struct ws_gpu_code_table *table)
{
	if (table)
		free(table->relocations);
	free(table);
}

void ws_gpu_code_close(struct ws_gpu_code *cubin)
{
	free_table(cubin->lines);
	free_table(cubin->ptx_lines);
	for (size_t i = 0; i < cubin->ptx_count; i++)
		free(cubin->ptx[i]);
	free(cubin->ptx);
	for (size_t i = 0; i < WS_COUNT(cubin->owned); i++)
		free(cubin->owned[i]);
	ws_elf_close(&cubin->elf);
	memset(cubin, 0, sizeof(*cubin));
}

/* ---- symbols ---- */

/* The symbol of this number; false when there is none. */
static bool find_symbol(const struct ws_elf *elf, uint64_t number, Elf64_Sym *out,
			const char **name)
{
	Elf64_Shdr table, names;
	const uint8_t *bytes;

	if (ws_elf_find_section(elf, ".symtab", &table) < 0 ||
	    !ws_elf_get_section(elf, table.sh_link, &names))
		return false;
	bytes = ws_elf_get_bytes(elf, &table);
	if (!bytes || number >= table.sh_size / sizeof(*out))
		return false;
	memcpy(out, bytes + number * sizeof(*out), sizeof(*out));
	if (name)
		*name = ws_elf_get_text(elf, names.sh_offset, names.sh_size,
					names.sh_offset + out->st_name);
	return true;
}

/* ---- line tables ---- */

struct header {
	uint64_t least, line_base, line_range, opcode_base;
	uint8_t operands[256]; /* how many each standard opcode has */
};

/* A line table being read for one section of code. */
struct reading {
	const struct ws_gpu_code *cubin;
	const struct ws_gpu_code_table *table;
	struct ws_byte_reader in;
	struct header head;
	uint32_t section; /* wanted */
	bool wanted;	  /* the present sequence belongs to it */
	struct ws_gpu_code_row row;
	struct ws_gpu_code_row *rows;
	size_t count, capacity;
	uint32_t first_row;  /* of this sequence */
	uint32_t first_file; /* what is added to the file numbers of this table */
	struct ws_gpu_code_file *files;
	size_t file_count, file_capacity;
};

static const char *find_text(const struct ws_gpu_code_table *table, uint64_t offset)
{
	if (!table->texts || offset >= table->text_size ||
	    !memchr(table->texts + offset, 0, table->text_size - offset))
		return "";
	return table->texts + offset;
}

static void add_file(struct reading *reading, const char *const *folders, size_t folder_count)
{
	const char *name = ws_read_nul_text(&reading->in);
	uint64_t folder = ws_read_uleb(&reading->in);

	ws_read_uleb(&reading->in);
	ws_read_uleb(&reading->in);
	if (reading->file_count >= FILES_MOST)
		return;
	ws_grow(reading->files, reading->file_capacity, reading->file_count + 1);
	reading->files[reading->file_count++] = (struct ws_gpu_code_file){
		folder && folder <= folder_count ? folders[folder - 1] : "", name};
}

static void read_files(struct reading *reading)
{
	const char *folders[256];
	size_t folder_count = 0;

	while (!reading->in.bad && reading->in.bytes < reading->in.end && *reading->in.bytes) {
		const char *folder = ws_read_nul_text(&reading->in);

		if (folder_count < WS_COUNT(folders))
			folders[folder_count++] = folder;
	}
	ws_read_uint(&reading->in, 1);
	while (!reading->in.bad && reading->in.bytes < reading->in.end && *reading->in.bytes)
		add_file(reading, folders, folder_count);
	ws_read_uint(&reading->in, 1);
}

/* Read the head of a table; false when it is of a kind that is not read here. */
static bool read_header(struct reading *reading, uint64_t version)
{
	struct header *head = &reading->head;
	uint64_t bytes = ws_read_uint(&reading->in, 4);
	const uint8_t *program = reading->in.bytes + bytes;

	if (version < 2 || version > 4 || reading->in.bad ||
	    bytes > (uint64_t)(reading->in.end - reading->in.bytes))
		return false;
	memset(head, 0, sizeof(*head));
	head->least = ws_read_uint(&reading->in, 1);
	if (version >= 4)
		ws_read_uint(&reading->in, 1);
	ws_read_uint(&reading->in, 1);
	head->line_base = (uint64_t)(int64_t)(int8_t)ws_read_uint(&reading->in, 1);
	head->line_range = ws_read_uint(&reading->in, 1);
	head->opcode_base = ws_read_uint(&reading->in, 1);
	for (uint64_t i = 1; i < head->opcode_base; i++)
		head->operands[i] = (uint8_t)ws_read_uint(&reading->in, 1);
	reading->first_file = (uint32_t)reading->file_count;
	read_files(reading);
	reading->in.bytes = program;
	return !reading->in.bad && head->line_range && head->opcode_base;
}

static void begin_sequence(struct reading *reading)
{
	reading->row = (struct ws_gpu_code_row){.file = 1, .line = 1, .function = ""};
	reading->wanted = false;
	reading->first_row = (uint32_t)reading->count;
}

static void add_row(struct reading *reading)
{
	struct ws_gpu_code_row row = reading->row;

	if (!reading->wanted || reading->count >= ROWS_MOST)
		return;
	if (row.file)
		row.file += reading->first_file;
	if (row.context)
		row.context += reading->first_row;
	ws_grow(reading->rows, reading->capacity, reading->count + 1);
	reading->rows[reading->count++] = row;
}

/* The address that stands at `offset` of the table: which section it is in, and where there. */
static void set_address(struct reading *reading, uint64_t offset, uint64_t value)
{
	const struct ws_gpu_code_table *table = reading->table;
	struct relocation key = {.offset = offset}, *found = NULL;
	Elf64_Sym symbol;

	if (table->relocation_count)
		found = bsearch(&key, table->relocations, table->relocation_count, sizeof(key),
				compare_relocations);
	reading->wanted = found &&
			  find_symbol(&reading->cubin->elf, found->symbol, &symbol, NULL) &&
			  symbol.st_shndx == reading->section;
	if (reading->wanted)
		value += symbol.st_value + found->addend;
	reading->row.pc = value;
}

static void read_extended(struct reading *reading)
{
	struct ws_byte_reader in = ws_read_block(&reading->in);
	uint64_t opcode = ws_read_uint(&in, 1), offset;

	if (in.bad)
		return;
	switch (opcode) {
	case ENDS_SEQUENCE:
		reading->row.line = 0;
		add_row(reading);
		begin_sequence(reading);
		break;
	case SETS_ADDRESS:
		offset = (uint64_t)(in.bytes - reading->table->bytes);
		set_address(reading, offset, ws_read_uint(&in, 8));
		break;
	case INLINED_CALL:
		reading->row.context = (uint32_t)ws_read_uleb(&in);
		reading->row.function = find_text(reading->table, ws_read_uleb(&in));
		if (!reading->row.context)
			reading->row.function = "";
		break;
	default: /* files are not defined so late by the compilers that are known */
		break;
	}
}

static void read_special(struct reading *reading, uint64_t opcode)
{
	uint64_t value = opcode - reading->head.opcode_base;

	reading->row.pc += value / reading->head.line_range * reading->head.least;
	reading->row.line += (uint32_t)(reading->head.line_base + value % reading->head.line_range);
	add_row(reading);
}

static void read_standard(struct reading *reading, uint64_t opcode)
{
	const struct header *head = &reading->head;

	switch (opcode) {
	case 1:
		add_row(reading);
		break;
	case 2:
		reading->row.pc += ws_read_uleb(&reading->in) * head->least;
		break;
	case 3:
		reading->row.line += (uint32_t)ws_read_sleb(&reading->in);
		break;
	case 4:
		reading->row.file = (uint32_t)ws_read_uleb(&reading->in);
		break;
	case 8:
		reading->row.pc += (255 - head->opcode_base) / head->line_range * head->least;
		break;
	case 9:
		reading->row.pc += ws_read_uint(&reading->in, 2);
		break;
	default:
		for (unsigned i = 0; i < head->operands[opcode]; i++)
			ws_read_uleb(&reading->in);
	}
}

static void read_program(struct reading *reading)
{
	begin_sequence(reading);
	while (!reading->in.bad && reading->in.bytes < reading->in.end) {
		uint64_t opcode = ws_read_uint(&reading->in, 1);

		if (!opcode)
			read_extended(reading);
		else if (opcode < reading->head.opcode_base)
			read_standard(reading, opcode);
		else
			read_special(reading, opcode);
	}
}

/* Read the rows of a section of code. */
static void read_table(struct reading *reading)
{
	const struct ws_gpu_code_table *table = reading->table;
	const uint8_t *at = table->bytes, *end = table->bytes + table->size;

	while (end - at > 6) {
		struct ws_byte_reader in = {at, end, false};
		uint64_t size = ws_read_uint(&in, 4);
		const uint8_t *body = ws_skip_bytes(&in, size);

		if (!body)
			return;
		reading->in = (struct ws_byte_reader){body, body + size, false};
		if (read_header(reading, ws_read_uint(&reading->in, 2)))
			read_program(reading);
		at = body + size;
	}
}

/* ---- functions ---- */

bool ws_gpu_code_find_function(const struct ws_gpu_code *cubin, const char *name,
			       struct ws_gpu_code_function *out)
{
	struct reading reading = {.cubin = cubin, .table = cubin->ptx_lines};
	char *section_name = ws_format(".text.%s", name);
	Elf64_Shdr section;
	int number = ws_elf_find_section(&cubin->elf, section_name, &section);

	free(section_name);
	memset(out, 0, sizeof(*out));
	if (number < 0)
		return false;
	out->cubin = cubin;
	out->name = ws_strdup(name);
	out->section = (uint32_t)number;
	out->bytes = section.sh_size;
	reading.section = out->section;
	if (reading.table)
		read_table(&reading);
	free(reading.files);
	out->ptx_rows = reading.rows;
	out->ptx_row_count = reading.count;
	reading = (struct reading){.cubin = cubin, .table = cubin->lines, .section = out->section};
	if (reading.table)
		read_table(&reading);
	out->rows = reading.rows;
	out->row_count = reading.count;
	out->files = reading.files;
	out->file_count = reading.file_count;
	return true;
}

static uint32_t find_symbol_in(const struct ws_elf *elf, const Elf64_Shdr *table, uint32_t section)
{
	const uint8_t *bytes = ws_elf_get_bytes(elf, table);
	uint64_t count = table->sh_size / sizeof(Elf64_Sym);

	for (uint64_t i = 1; bytes && i < count && i <= UINT32_MAX; i++) {
		Elf64_Sym symbol;

		memcpy(&symbol, bytes + i * sizeof(symbol), sizeof(symbol));
		if (symbol.st_shndx == section && !symbol.st_value &&
		    ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
			return (uint32_t)i;
	}
	return 0;
}

uint32_t ws_gpu_code_find_symbol(const struct ws_gpu_code_function *function)
{
	const struct ws_elf *elf = &function->cubin->elf;
	uint32_t found = 0;
	Elf64_Shdr table;

	for (uint32_t i = 0; i < elf->sections && elf->wide && !found; i++)
		if (ws_elf_get_section(elf, i, &table) && table.sh_type == SHT_SYMTAB)
			found = find_symbol_in(elf, &table, function->section);
	return found;
}

void ws_gpu_code_free_function(struct ws_gpu_code_function *function)
{
	free(function->name);
	free(function->rows);
	free(function->ptx_rows);
	free(function->files);
	memset(function, 0, sizeof(*function));
}

/* Of several rows at one address the last one counts. */
static const struct ws_gpu_code_row *find_row(const struct ws_gpu_code_row *rows, size_t count,
					      uint64_t pc)
{
	const struct ws_gpu_code_row *best = NULL;

	for (size_t i = 0; i < count; i++)
		if (rows[i].pc <= pc && (!best || rows[i].pc >= best->pc))
			best = &rows[i];
	return best && best->line ? best : NULL;
}

const struct ws_gpu_code_row *ws_gpu_code_find_row(const struct ws_gpu_code_function *function,
						   uint64_t pc)
{
	return find_row(function->rows, function->row_count, pc);
}

const struct ws_gpu_code_row *ws_gpu_code_find_caller(const struct ws_gpu_code_function *function,
						      const struct ws_gpu_code_row *row)
{
	/* A caller stands before what it inlines, so chains end. */
	if (!row->context || row->context > (size_t)(row - function->rows))
		return NULL;
	return &function->rows[row->context - 1];
}

uint32_t ws_gpu_code_find_ptx(const struct ws_gpu_code_function *function, uint64_t pc)
{
	const struct ws_gpu_code_row *row =
		find_row(function->ptx_rows, function->ptx_row_count, pc);

	return row && row->line <= function->cubin->ptx_count ? row->line : 0;
}

char *ws_gpu_code_file_name(const struct ws_gpu_code_function *function,
			    const struct ws_gpu_code_row *row)
{
	const struct ws_gpu_code_file *file;

	if (!row->file || row->file > function->file_count)
		return ws_strdup("");
	file = &function->files[row->file - 1];
	if (*file->name == '/' || !*file->folder)
		return ws_strdup(file->name);
	return ws_format("%s/%s", file->folder, file->name);
}

/* ---- PTX ---- */

/* Whether the line begins the function: .entry or .func, and its name as a whole word. */
static bool begins_function(const char *line, const char *name)
{
	const char *at = strstr(line, name);
	size_t n = strlen(name);

	return at && (strstr(line, ".entry") || strstr(line, ".func")) &&
	       (at[n] == '(' || at[n] == ' ' || !at[n]) && at > line && at[-1] == ' ' && n;
}

bool ws_gpu_code_find_ptx_range(const struct ws_gpu_code *cubin, const char *name, uint32_t *first,
				uint32_t *last)
{
	size_t i = 0, depth = 0;

	while (i < cubin->ptx_count && !begins_function(cubin->ptx[i], name))
		i++;
	if (i == cubin->ptx_count)
		return false;
	*first = (uint32_t)i + 1;
	for (; i < cubin->ptx_count; i++) {
		bool ends = false;

		for (const char *at = cubin->ptx[i]; *at; at++) {
			depth += *at == '{';
			ends |= *at == '}' && depth && !--depth;
		}
		*last = (uint32_t)i + 1;
		if (ends)
			break;
	}
	return true;
}
