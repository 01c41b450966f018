/* lines.c - see lines.h. Section 6.2 of the DWARF standard. */
#include "symbols/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "base/sort.h"
#include "symbols/bytes.h"

#define MOST_FILES 1000000u

enum {
	FORM_BLOCK2 = 3,
	FORM_BLOCK4 = 4,
	FORM_DATA2 = 5,
	FORM_DATA4 = 6,
	FORM_DATA8 = 7,
	FORM_STRING = 8,
	FORM_BLOCK = 9,
	FORM_BLOCK1 = 10,
	FORM_DATA1 = 11,
	FORM_STRP = 14,
	FORM_UDATA = 15,
	FORM_DATA16 = 30,
	FORM_LINE_STRP = 31
};
enum { CONTENT_PATH = 1, CONTENT_FOLDER = 2 };

/* The NUL-terminated text at `offset` of a section of `size` bytes; "" when it is not there. */
static const char *get_text(const uint8_t *section, uint64_t size, uint64_t offset)
{
	if (!section || offset >= size || !memchr(section + offset, 0, size - offset))
		return "";
	return (const char *)section + offset;
}

/* ---- the header ---- */

static const char *get_folder(const char *const *folders, size_t count, uint64_t number)
{
	return number < count ? folders[number] : "";
}

static void add_file(struct ws_lines *lines, const char *name, const char *folder)
{
	ws_grow(lines->files, lines->files_cap, lines->file_count + 1);
	lines->files[lines->file_count++] = (struct ws_lines_file){name, folder};
}

/* Versions 2 to 4: lists that an empty name ends. Files and folders count from 1; folder 0 is the
 * unit's. */
static bool read_files_v2(struct ws_lines *lines, struct ws_byte_reader *reader)
{
	const char **folders = NULL, *text;
	size_t folder_count = 0, capacity = 0;

	ws_grow(folders, capacity, 1);
	folders[folder_count++] = "";
	while (*(text = ws_read_nul_text(reader)) && !reader->bad && folder_count < MOST_FILES) {
		ws_grow(folders, capacity, folder_count + 1);
		folders[folder_count++] = text;
	}
	add_file(lines, "", "");
	while (!reader->bad && *(text = ws_read_nul_text(reader)) &&
	       lines->file_count < MOST_FILES) {
		uint64_t folder = ws_read_uleb(reader);

		ws_read_uleb(reader); /* time */
		ws_read_uleb(reader); /* size */
		add_file(lines, text, get_folder(folders, folder_count, folder));
	}
	free(folders);
	return !reader->bad;
}

/* Read a field of an entry of version 5, a text or a number. */
static bool read_field(struct ws_byte_reader *reader, const struct ws_lines_sections *sections,
		       uint64_t form, bool wide, const char **text, uint64_t *number)
{
	unsigned offset_size = wide ? 8 : 4;

	switch (form) {
	case FORM_STRING:
		*text = ws_read_nul_text(reader);
		break;
	case FORM_LINE_STRP:
		*text = get_text(sections->line_str, sections->line_str_size,
				 ws_read_uint(reader, offset_size));
		break;
	case FORM_STRP:
		*text = get_text(sections->str, sections->str_size,
				 ws_read_uint(reader, offset_size));
		break;
	case FORM_DATA1:
		*number = ws_read_uint(reader, 1);
		break;
	case FORM_DATA2:
		*number = ws_read_uint(reader, 2);
		break;
	case FORM_DATA4:
		*number = ws_read_uint(reader, 4);
		break;
	case FORM_DATA8:
		*number = ws_read_uint(reader, 8);
		break;
	case FORM_UDATA:
		*number = ws_read_uleb(reader);
		break;
	case FORM_DATA16:
		ws_skip_bytes(reader, 16);
		break;
	case FORM_BLOCK:
		ws_skip_bytes(reader, ws_read_uleb(reader));
		break;
	case FORM_BLOCK1:
		ws_skip_bytes(reader, ws_read_uint(reader, 1));
		break;
	case FORM_BLOCK2:
		ws_skip_bytes(reader, ws_read_uint(reader, 2));
		break;
	case FORM_BLOCK4:
		ws_skip_bytes(reader, ws_read_uint(reader, 4));
		break;
	default:
		return false;
	}
	return !reader->bad;
}

struct entry_formats {
	uint64_t content[32], form[32];
	uint8_t count;
};

static bool read_formats(struct ws_byte_reader *reader, struct entry_formats *formats)
{
	formats->count = (uint8_t)ws_read_uint(reader, 1);
	for (unsigned i = 0; i < formats->count; i++) {
		uint64_t content = ws_read_uleb(reader), form = ws_read_uleb(reader);

		if (i >= WS_COUNT(formats->content))
			return false;
		formats->content[i] = content;
		formats->form[i] = form;
	}
	return !reader->bad;
}

static bool read_entry(struct ws_byte_reader *reader, const struct ws_lines_sections *sections,
		       const struct entry_formats *formats, bool wide, const char **path,
		       uint64_t *folder)
{
	*path = "";
	*folder = 0;
	for (unsigned i = 0; i < formats->count; i++) {
		const char *text = "";
		uint64_t number = 0;

		if (!read_field(reader, sections, formats->form[i], wide, &text, &number))
			return false;
		if (formats->content[i] == CONTENT_PATH)
			*path = text;
		else if (formats->content[i] == CONTENT_FOLDER)
			*folder = number;
	}
	return true;
}

/* Version 5: entries whose fields are described. Folder 0 is the unit's, file 0 its main file. */
static bool read_files_v5(struct ws_lines *lines, const struct ws_lines_sections *sections,
			  struct ws_byte_reader *reader, bool wide)
{
	const char **folders = NULL, *path;
	size_t folder_count = 0, capacity = 0;
	uint64_t count = 0, folder;
	struct entry_formats formats;
	bool ok = read_formats(reader, &formats);

	if (ok)
		count = ws_read_uleb(reader);
	for (; ok && folder_count < count && folder_count < MOST_FILES; folder_count++) {
		ok = read_entry(reader, sections, &formats, wide, &path, &folder) && formats.count;
		ws_grow(folders, capacity, folder_count + 1);
		folders[folder_count] = path;
	}
	ok = ok && read_formats(reader, &formats);
	if (ok)
		count = ws_read_uleb(reader);
	for (uint64_t i = 0; ok && i < count && i < MOST_FILES; i++) {
		ok = read_entry(reader, sections, &formats, wide, &path, &folder) && formats.count;
		if (ok)
			add_file(lines, path, get_folder(folders, folder_count, folder));
	}
	free(folders);
	return ok && !reader->bad;
}

bool ws_lines_open(struct ws_lines *lines, const struct ws_lines_sections *sections,
		   uint64_t offset)
{
	struct ws_byte_reader reader, files;
	uint64_t length, header;
	bool wide;

	memset(lines, 0, sizeof(*lines));
	if (!sections->line || offset >= sections->line_size)
		return false;
	reader = (struct ws_byte_reader){sections->line + offset,
					 sections->line + sections->line_size, false};
	length = ws_read_uint(&reader, 4);
	wide = length == 0xffffffff;
	if (wide)
		length = ws_read_uint(&reader, 8);
	if (reader.bad || length > (uint64_t)(reader.end - reader.bytes))
		return false;
	reader.end = reader.bytes + length;
	lines->end = reader.end;
	lines->version = (uint16_t)ws_read_uint(&reader, 2);
	if (lines->version < 2 || lines->version > 5)
		return false;
	if (lines->version >= 5) {
		lines->address_size = (uint8_t)ws_read_uint(&reader, 1);
		if (ws_read_uint(&reader, 1)) /* segment selectors */
			return false;
	}
	header = ws_read_uint(&reader, wide ? 8 : 4);
	if (reader.bad || header > (uint64_t)(reader.end - reader.bytes))
		return false;
	lines->program = reader.bytes + header;
	files = (struct ws_byte_reader){reader.bytes, lines->program, false};
	lines->min_length = (uint8_t)ws_read_uint(&files, 1);
	if (lines->version >= 4 &&
	    ws_read_uint(&files, 1) > 1) /* several operations in an instruction */
		return false;
	ws_read_uint(&files, 1); /* whether rows begin statements */
	lines->line_base = (int8_t)ws_read_uint(&files, 1);
	lines->line_range = (uint8_t)ws_read_uint(&files, 1);
	lines->opcode_base = (uint8_t)ws_read_uint(&files, 1);
	for (unsigned i = 1; i < lines->opcode_base; i++)
		lines->operands[i] = (uint8_t)ws_read_uint(&files, 1);
	if (files.bad || !lines->line_range || !lines->opcode_base)
		return false;
	if (lines->version >= 5)
		return read_files_v5(lines, sections, &files, wide);
	return read_files_v2(lines, &files);
}

void ws_lines_free(struct ws_lines *lines)
{
	free(lines->files);
	memset(lines, 0, sizeof(*lines));
}

const struct ws_lines_file *ws_lines_get_file(const struct ws_lines *lines, uint64_t i)
{
	if (i >= lines->file_count || (!i && lines->version < 5))
		return NULL;
	return &lines->files[i];
}

/* ---- the program ---- */

struct line_machine {
	const struct ws_lines *lines;
	const uint64_t *address;
	const size_t *index;
	size_t count;
	struct ws_line *out;
	uint64_t pc, file, line;			 /* registers */
	uint64_t previous, previous_file, previous_line; /* the row before, */
	bool has_previous;				 /* if there is one */
};

static size_t find_first(const struct line_machine *machine, uint64_t address)
{
	return ws_bisect(machine->count, mid, machine->address[machine->index[mid]] < address);
}

/* Give the row before to the addresses that it covers, which are those before this one. */
static void cover_addresses(struct line_machine *machine)
{
	struct ws_line line = {
		.found = true, .file = machine->previous_file, .start = machine->previous};

	if (machine->previous_line <= UINT32_MAX)
		line.line = (uint32_t)machine->previous_line;
	for (size_t i = find_first(machine, machine->previous);
	     i < machine->count && machine->address[machine->index[i]] < machine->pc; i++)
		if (!machine->out[i].found || machine->previous >= machine->out[i].start)
			machine->out[i] = line;
}

/* A row ends the one before. */
static void append_row(struct line_machine *machine, bool end)
{
	if (machine->has_previous && machine->pc > machine->previous)
		cover_addresses(machine);
	machine->has_previous = !end;
	machine->previous = machine->pc;
	machine->previous_file = machine->file;
	machine->previous_line = machine->line;
}

static void run_extended(struct line_machine *machine, struct ws_byte_reader *reader)
{
	struct ws_byte_reader operands = ws_read_block(reader);
	size_t size;

	if (operands.bytes == operands.end)
		return;
	size = (size_t)(operands.end - operands.bytes) - 1; /* of the operand */
	switch (ws_read_uint(&operands, 1)) {
	case 1: /* end_sequence */
		append_row(machine, true);
		machine->pc = 0;
		machine->file = machine->line = 1;
		break;
	case 2: /* set_address */
		machine->pc = 0;
		if (size <= 8)
			machine->pc = ws_read_uint(&operands, (unsigned)size);
		break;
	default:
		break;
	}
}

static void run_standard(struct line_machine *machine, struct ws_byte_reader *reader, uint8_t op)
{
	const struct ws_lines *lines = machine->lines;

	switch (op) {
	case 1: /* copy */
		append_row(machine, false);
		break;
	case 2: /* advance_pc */
		machine->pc += ws_read_uleb(reader) * lines->min_length;
		break;
	case 3: /* advance_line */
		machine->line += (uint64_t)ws_read_sleb(reader);
		break;
	case 4: /* set_file */
		machine->file = ws_read_uleb(reader);
		break;
	case 8: /* const_add_pc */
		machine->pc += (uint64_t)((255 - lines->opcode_base) / lines->line_range) *
			       lines->min_length;
		break;
	case 9: /* fixed_advance_pc */
		machine->pc += ws_read_uint(reader, 2);
		break;
	default: /* column, statement, block, prologue, epilogue, isa, and unknown ones */
		for (unsigned i = 0; i < lines->operands[op]; i++)
			ws_read_uleb(reader);
	}
}

void ws_lines_find(const struct ws_lines *lines, const uint64_t *address, const size_t *index,
		   size_t n, struct ws_line *out)
{
	struct line_machine machine = {.lines = lines,
				       .address = address,
				       .index = index,
				       .count = n,
				       .out = out,
				       .file = 1,
				       .line = 1};
	struct ws_byte_reader reader = {lines->program, lines->end, false};

	memset(out, 0, n * sizeof(*out));
	while (reader.bytes < reader.end && !reader.bad) {
		uint8_t op = (uint8_t)ws_read_uint(&reader, 1);

		if (op >= lines->opcode_base) {
			unsigned steps = op - lines->opcode_base;

			machine.pc += (uint64_t)(steps / lines->line_range) * lines->min_length;
			machine.line += (uint64_t)(int64_t)(lines->line_base +
							    (int)(steps % lines->line_range));
			append_row(&machine, false);
		} else if (op) {
			run_standard(&machine, &reader, op);
		} else {
			run_extended(&machine, &reader);
		}
	}
}
