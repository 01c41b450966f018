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

static const char *text_at(const uint8_t *section, uint64_t n, uint64_t offset)
{
	return section && offset < n && memchr(section + offset, 0, n - offset)
		       ? (const char *)section + offset
		       : "";
}

/* ---- the header ---- */

static void add_file(struct ws_lines *lines, const char *name, const char *folder)
{
	ws_grow(lines->files, lines->files_cap, lines->files_n + 1);
	lines->files[lines->files_n++] = (struct ws_lines_file){name, folder};
}

/* Versions 2 to 4: lists ended by an empty name. Files and folders count from 1; folder 0 is the
 * unit's. */
static bool old_files(struct ws_lines *lines, struct ws_cursor *cursor)
{
	const char **folders = NULL, *text;
	size_t n = 0, cap = 0;

	ws_grow(folders, cap, 1);
	folders[n++] = "";
	while (*(text = ws_take_text(cursor)) && !cursor->bad && n < MOST_FILES) {
		ws_grow(folders, cap, n + 1);
		folders[n++] = text;
	}
	add_file(lines, "", "");
	while (!cursor->bad && *(text = ws_take_text(cursor)) && lines->files_n < MOST_FILES) {
		uint64_t folder = ws_take_uleb(cursor);

		ws_take_uleb(cursor); /* time */
		ws_take_uleb(cursor); /* size */
		add_file(lines, text, folder < n ? folders[folder] : "");
	}
	free(folders);
	return !cursor->bad;
}

/* One field of an entry of version 5: as text or as number. */
static bool field(struct ws_cursor *cursor, const struct ws_lines_sections *sections, uint64_t form,
		  bool wide, const char **text, uint64_t *number)
{
	switch (form) {
	case FORM_STRING:
		*text = ws_take_text(cursor);
		break;
	case FORM_LINE_STRP:
		*text = text_at(sections->line_str, sections->line_str_n,
				ws_take(cursor, wide ? 8 : 4));
		break;
	case FORM_STRP:
		*text = text_at(sections->str, sections->str_n, ws_take(cursor, wide ? 8 : 4));
		break;
	case FORM_DATA1:
		*number = ws_take(cursor, 1);
		break;
	case FORM_DATA2:
		*number = ws_take(cursor, 2);
		break;
	case FORM_DATA4:
		*number = ws_take(cursor, 4);
		break;
	case FORM_DATA8:
		*number = ws_take(cursor, 8);
		break;
	case FORM_UDATA:
		*number = ws_take_uleb(cursor);
		break;
	case FORM_DATA16:
		ws_take_bytes(cursor, 16);
		break;
	case FORM_BLOCK:
		ws_take_bytes(cursor, ws_take_uleb(cursor));
		break;
	case FORM_BLOCK1:
		ws_take_bytes(cursor, ws_take(cursor, 1));
		break;
	case FORM_BLOCK2:
		ws_take_bytes(cursor, ws_take(cursor, 2));
		break;
	case FORM_BLOCK4:
		ws_take_bytes(cursor, ws_take(cursor, 4));
		break;
	default:
		return false;
	}
	return !cursor->bad;
}

struct formats {
	uint64_t content[32], form[32];
	uint8_t n;
};

static bool take_formats(struct ws_cursor *cursor, struct formats *formats)
{
	formats->n = (uint8_t)ws_take(cursor, 1);
	for (unsigned i = 0; i < formats->n; i++) {
		uint64_t content = ws_take_uleb(cursor), form = ws_take_uleb(cursor);

		if (i >= WS_COUNT(formats->content))
			return false;
		formats->content[i] = content;
		formats->form[i] = form;
	}
	return !cursor->bad;
}

static bool entry(struct ws_cursor *cursor, const struct ws_lines_sections *sections,
		  const struct formats *formats, bool wide, const char **path, uint64_t *folder)
{
	*path = "";
	*folder = 0;
	for (unsigned i = 0; i < formats->n; i++) {
		const char *text = "";
		uint64_t number = 0;

		if (!field(cursor, sections, formats->form[i], wide, &text, &number))
			return false;
		if (formats->content[i] == CONTENT_PATH)
			*path = text;
		else if (formats->content[i] == CONTENT_FOLDER)
			*folder = number;
	}
	return true;
}

/* Version 5: entries described by formats. Folder 0 is the unit's, file 0 its main file. */
static bool new_files(struct ws_lines *lines, const struct ws_lines_sections *sections,
		      struct ws_cursor *cursor, bool wide)
{
	const char **folders = NULL, *path;
	size_t n = 0, cap = 0;
	uint64_t count, folder;
	struct formats formats;
	bool ok = take_formats(cursor, &formats);

	count = ok ? ws_take_uleb(cursor) : 0;
	for (; ok && n < count && n < MOST_FILES; n++) {
		ok = entry(cursor, sections, &formats, wide, &path, &folder) && formats.n;
		ws_grow(folders, cap, n + 1);
		folders[n] = path;
	}
	ok = ok && take_formats(cursor, &formats);
	count = ok ? ws_take_uleb(cursor) : 0;
	for (uint64_t i = 0; ok && i < count && i < MOST_FILES; i++) {
		ok = entry(cursor, sections, &formats, wide, &path, &folder) && formats.n;
		if (ok)
			add_file(lines, path, folder < n ? folders[folder] : "");
	}
	free(folders);
	return ok && !cursor->bad;
}

bool ws_lines_open(struct ws_lines *lines, const struct ws_lines_sections *sections,
		   uint64_t offset)
{
	struct ws_cursor cursor, files;
	uint64_t n, header;
	bool wide;

	memset(lines, 0, sizeof(*lines));
	if (!sections->line || offset >= sections->line_n)
		return false;
	cursor = (struct ws_cursor){sections->line + offset, sections->line + sections->line_n,
				    false};
	n = ws_take(&cursor, 4);
	wide = n == 0xffffffff;
	if (wide)
		n = ws_take(&cursor, 8);
	if (cursor.bad || n > (uint64_t)(cursor.end - cursor.bytes))
		return false;
	cursor.end = cursor.bytes + n;
	lines->end = cursor.end;
	lines->version = (uint16_t)ws_take(&cursor, 2);
	if (lines->version < 2 || lines->version > 5)
		return false;
	lines->address_size = lines->version >= 5 ? (uint8_t)ws_take(&cursor, 1) : 0;
	if (lines->version >= 5 && ws_take(&cursor, 1)) /* segment selectors */
		return false;
	header = ws_take(&cursor, wide ? 8 : 4);
	if (cursor.bad || header > (uint64_t)(cursor.end - cursor.bytes))
		return false;
	lines->program = cursor.bytes + header;
	files = (struct ws_cursor){cursor.bytes, lines->program, false};
	lines->min_length = (uint8_t)ws_take(&files, 1);
	if (lines->version >= 4 &&
	    ws_take(&files, 1) > 1) /* several operations in an instruction */
		return false;
	ws_take(&files, 1); /* whether rows begin statements */
	lines->line_base = (int8_t)ws_take(&files, 1);
	lines->line_range = (uint8_t)ws_take(&files, 1);
	lines->opcode_base = (uint8_t)ws_take(&files, 1);
	for (unsigned i = 1; i < lines->opcode_base; i++)
		lines->operands[i] = (uint8_t)ws_take(&files, 1);
	if (files.bad || !lines->line_range || !lines->opcode_base)
		return false;
	return lines->version >= 5 ? new_files(lines, sections, &files, wide)
				   : old_files(lines, &files);
}

void ws_lines_free(struct ws_lines *lines)
{
	free(lines->files);
	memset(lines, 0, sizeof(*lines));
}

const struct ws_lines_file *ws_lines_file(const struct ws_lines *lines, uint64_t i)
{
	return i < lines->files_n && (i || lines->version >= 5) ? &lines->files[i] : NULL;
}

/* ---- the program ---- */

struct run {
	const struct ws_lines *lines;
	const uint64_t *address;
	const size_t *index;
	size_t n;
	struct ws_line *out;
	uint64_t at, file, line;		   /* registers */
	uint64_t before, before_file, before_line; /* the row that has not ended yet */
	bool open;
};

static size_t first_at(const struct run *run, uint64_t address)
{
	return ws_bisect(run->n, mid, run->address[run->index[mid]] < address);
}

/* A row ends the one before: that covers the addresses up to here. */
static void row(struct run *run, bool end)
{
	if (run->open && run->at > run->before)
		for (size_t i = first_at(run, run->before);
		     i < run->n && run->address[run->index[i]] < run->at; i++)
			if (!run->out[i].found || run->before >= run->out[i].start)
				run->out[i] = (struct ws_line){
					true,
					(uint32_t)(run->before_line <= UINT32_MAX ? run->before_line
										  : 0),
					run->before_file, run->before};
	run->open = !end;
	run->before = run->at;
	run->before_file = run->file;
	run->before_line = run->line;
}

static void extended(struct run *run, struct ws_cursor *cursor)
{
	uint64_t n = ws_take_uleb(cursor);
	const uint8_t *bytes = ws_take_bytes(cursor, n);
	struct ws_cursor cursor_e = {bytes, bytes ? bytes + n : bytes, !bytes};

	if (!bytes || !n)
		return;
	switch (ws_take(&cursor_e, 1)) {
	case 1: /* end_sequence */
		row(run, true);
		run->at = 0;
		run->file = run->line = 1;
		break;
	case 2: /* set_address */
		run->at = n - 1 <= 8 ? ws_take(&cursor_e, (unsigned)(n - 1)) : 0;
		break;
	default:
		break;
	}
}

static void standard(struct run *run, struct ws_cursor *cursor, uint8_t op)
{
	const struct ws_lines *lines = run->lines;

	switch (op) {
	case 1: /* copy */
		row(run, false);
		break;
	case 2: /* advance_pc */
		run->at += ws_take_uleb(cursor) * lines->min_length;
		break;
	case 3: /* advance_line */
		run->line += (uint64_t)ws_take_sleb(cursor);
		break;
	case 4: /* set_file */
		run->file = ws_take_uleb(cursor);
		break;
	case 8: /* const_add_pc */
		run->at += (uint64_t)((255 - lines->opcode_base) / lines->line_range) *
			   lines->min_length;
		break;
	case 9: /* fixed_advance_pc */
		run->at += ws_take(cursor, 2);
		break;
	default: /* column, statement, block, prologue, epilogue, isa, and what is not known */
		for (unsigned i = 0; i < lines->operands[op]; i++)
			ws_take_uleb(cursor);
	}
}

void ws_lines_find(const struct ws_lines *lines, const uint64_t *address, const size_t *index,
		   size_t n, struct ws_line *out)
{
	struct run run = {.lines = lines,
			  .address = address,
			  .index = index,
			  .n = n,
			  .out = out,
			  .file = 1,
			  .line = 1};
	struct ws_cursor cursor = {lines->program, lines->end, false};

	memset(out, 0, n * sizeof(*out));
	while (cursor.bytes < cursor.end && !cursor.bad) {
		uint8_t op = (uint8_t)ws_take(&cursor, 1);

		if (op >= lines->opcode_base) {
			unsigned v = op - lines->opcode_base;

			run.at += (uint64_t)(v / lines->line_range) * lines->min_length;
			run.line += (uint64_t)(int64_t)(lines->line_base +
							(int)(v % lines->line_range));
			row(&run, false);
		} else if (op) {
			standard(&run, &cursor, op);
		} else {
			extended(&run, &cursor);
		}
	}
}
