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

static void add_file(struct ws_lines *t, const char *name, const char *folder)
{
	ws_grow(t->files, t->files_cap, t->files_n + 1);
	t->files[t->files_n++] = (struct ws_lines_file){name, folder};
}

/* Versions 2 to 4: lists ended by an empty name. Files and folders count from 1; folder 0 is the
 * unit's. */
static bool old_files(struct ws_lines *t, struct ws_cursor *c)
{
	const char **folders = NULL, *s;
	size_t n = 0, cap = 0;

	ws_grow(folders, cap, 1);
	folders[n++] = "";
	while (*(s = ws_take_text(c)) && !c->bad && n < MOST_FILES) {
		ws_grow(folders, cap, n + 1);
		folders[n++] = s;
	}
	add_file(t, "", "");
	while (!c->bad && *(s = ws_take_text(c)) && t->files_n < MOST_FILES) {
		uint64_t folder = ws_take_uleb(c);

		ws_take_uleb(c); /* time */
		ws_take_uleb(c); /* size */
		add_file(t, s, folder < n ? folders[folder] : "");
	}
	free(folders);
	return !c->bad;
}

/* One field of an entry of version 5: as text or as number. */
static bool field(struct ws_cursor *c, const struct ws_lines_sections *s, uint64_t form, bool wide,
		  const char **text, uint64_t *number)
{
	switch (form) {
	case FORM_STRING:
		*text = ws_take_text(c);
		break;
	case FORM_LINE_STRP:
		*text = text_at(s->line_str, s->line_str_n, ws_take(c, wide ? 8 : 4));
		break;
	case FORM_STRP:
		*text = text_at(s->str, s->str_n, ws_take(c, wide ? 8 : 4));
		break;
	case FORM_DATA1:
		*number = ws_take(c, 1);
		break;
	case FORM_DATA2:
		*number = ws_take(c, 2);
		break;
	case FORM_DATA4:
		*number = ws_take(c, 4);
		break;
	case FORM_DATA8:
		*number = ws_take(c, 8);
		break;
	case FORM_UDATA:
		*number = ws_take_uleb(c);
		break;
	case FORM_DATA16:
		ws_take_bytes(c, 16);
		break;
	case FORM_BLOCK:
		ws_take_bytes(c, ws_take_uleb(c));
		break;
	case FORM_BLOCK1:
		ws_take_bytes(c, ws_take(c, 1));
		break;
	case FORM_BLOCK2:
		ws_take_bytes(c, ws_take(c, 2));
		break;
	case FORM_BLOCK4:
		ws_take_bytes(c, ws_take(c, 4));
		break;
	default:
		return false;
	}
	return !c->bad;
}

struct formats {
	uint64_t content[32], form[32];
	uint8_t n;
};

static bool take_formats(struct ws_cursor *c, struct formats *f)
{
	f->n = (uint8_t)ws_take(c, 1);
	for (unsigned i = 0; i < f->n; i++) {
		uint64_t content = ws_take_uleb(c), form = ws_take_uleb(c);

		if (i >= WS_COUNT(f->content))
			return false;
		f->content[i] = content;
		f->form[i] = form;
	}
	return !c->bad;
}

static bool entry(struct ws_cursor *c, const struct ws_lines_sections *s, const struct formats *f,
		  bool wide, const char **path, uint64_t *folder)
{
	*path = "";
	*folder = 0;
	for (unsigned i = 0; i < f->n; i++) {
		const char *text = "";
		uint64_t number = 0;

		if (!field(c, s, f->form[i], wide, &text, &number))
			return false;
		if (f->content[i] == CONTENT_PATH)
			*path = text;
		else if (f->content[i] == CONTENT_FOLDER)
			*folder = number;
	}
	return true;
}

/* Version 5: entries described by formats. Folder 0 is the unit's, file 0 its main file. */
static bool new_files(struct ws_lines *t, const struct ws_lines_sections *s, struct ws_cursor *c,
		      bool wide)
{
	const char **folders = NULL, *path;
	size_t n = 0, cap = 0;
	uint64_t count, folder;
	struct formats f;
	bool ok = take_formats(c, &f);

	count = ok ? ws_take_uleb(c) : 0;
	for (; ok && n < count && n < MOST_FILES; n++) {
		ok = entry(c, s, &f, wide, &path, &folder) && f.n;
		ws_grow(folders, cap, n + 1);
		folders[n] = path;
	}
	ok = ok && take_formats(c, &f);
	count = ok ? ws_take_uleb(c) : 0;
	for (uint64_t i = 0; ok && i < count && i < MOST_FILES; i++) {
		ok = entry(c, s, &f, wide, &path, &folder) && f.n;
		if (ok)
			add_file(t, path, folder < n ? folders[folder] : "");
	}
	free(folders);
	return ok && !c->bad;
}

bool ws_lines_open(struct ws_lines *t, const struct ws_lines_sections *s, uint64_t offset)
{
	struct ws_cursor c, files;
	uint64_t n, header;
	bool wide;

	memset(t, 0, sizeof(*t));
	if (!s->line || offset >= s->line_n)
		return false;
	c = (struct ws_cursor){s->line + offset, s->line + s->line_n, false};
	n = ws_take(&c, 4);
	wide = n == 0xffffffff;
	if (wide)
		n = ws_take(&c, 8);
	if (c.bad || n > (uint64_t)(c.end - c.p))
		return false;
	c.end = c.p + n;
	t->end = c.end;
	t->version = (uint16_t)ws_take(&c, 2);
	if (t->version < 2 || t->version > 5)
		return false;
	t->address_size = t->version >= 5 ? (uint8_t)ws_take(&c, 1) : 0;
	if (t->version >= 5 && ws_take(&c, 1)) /* segment selectors */
		return false;
	header = ws_take(&c, wide ? 8 : 4);
	if (c.bad || header > (uint64_t)(c.end - c.p))
		return false;
	t->program = c.p + header;
	files = (struct ws_cursor){c.p, t->program, false};
	t->min_length = (uint8_t)ws_take(&files, 1);
	if (t->version >= 4 && ws_take(&files, 1) > 1) /* several operations in an instruction */
		return false;
	ws_take(&files, 1); /* whether rows begin statements */
	t->line_base = (int8_t)ws_take(&files, 1);
	t->line_range = (uint8_t)ws_take(&files, 1);
	t->opcode_base = (uint8_t)ws_take(&files, 1);
	for (unsigned i = 1; i < t->opcode_base; i++)
		t->operands[i] = (uint8_t)ws_take(&files, 1);
	if (files.bad || !t->line_range || !t->opcode_base)
		return false;
	return t->version >= 5 ? new_files(t, s, &files, wide) : old_files(t, &files);
}

void ws_lines_free(struct ws_lines *t)
{
	free(t->files);
	memset(t, 0, sizeof(*t));
}

const struct ws_lines_file *ws_lines_file(const struct ws_lines *t, uint64_t i)
{
	return i < t->files_n && (i || t->version >= 5) ? &t->files[i] : NULL;
}

/* ---- the program ---- */

struct run {
	const struct ws_lines *t;
	const uint64_t *address;
	const size_t *index;
	size_t n;
	struct ws_line *out;
	uint64_t at, file, line;		   /* registers */
	uint64_t before, before_file, before_line; /* the row that has not ended yet */
	bool open;
};

static size_t first_at(const struct run *r, uint64_t address)
{
	return ws_bisect(r->n, mid, r->address[r->index[mid]] < address);
}

/* A row ends the one before: that covers the addresses up to here. */
static void row(struct run *r, bool end)
{
	if (r->open && r->at > r->before)
		for (size_t i = first_at(r, r->before); i < r->n && r->address[r->index[i]] < r->at;
		     i++)
			if (!r->out[i].found || r->before >= r->out[i].start)
				r->out[i] = (struct ws_line){true,
							     (uint32_t)(r->before_line <= UINT32_MAX
										? r->before_line
										: 0),
							     r->before_file, r->before};
	r->open = !end;
	r->before = r->at;
	r->before_file = r->file;
	r->before_line = r->line;
}

static void extended(struct run *r, struct ws_cursor *c)
{
	uint64_t n = ws_take_uleb(c);
	const uint8_t *p = ws_take_bytes(c, n);
	struct ws_cursor e = {p, p ? p + n : p, !p};

	if (!p || !n)
		return;
	switch (ws_take(&e, 1)) {
	case 1: /* end_sequence */
		row(r, true);
		r->at = 0;
		r->file = r->line = 1;
		break;
	case 2: /* set_address */
		r->at = n - 1 <= 8 ? ws_take(&e, (unsigned)(n - 1)) : 0;
		break;
	default:
		break;
	}
}

static void standard(struct run *r, struct ws_cursor *c, uint8_t op)
{
	const struct ws_lines *t = r->t;

	switch (op) {
	case 1: /* copy */
		row(r, false);
		break;
	case 2: /* advance_pc */
		r->at += ws_take_uleb(c) * t->min_length;
		break;
	case 3: /* advance_line */
		r->line += (uint64_t)ws_take_sleb(c);
		break;
	case 4: /* set_file */
		r->file = ws_take_uleb(c);
		break;
	case 8: /* const_add_pc */
		r->at += (uint64_t)((255 - t->opcode_base) / t->line_range) * t->min_length;
		break;
	case 9: /* fixed_advance_pc */
		r->at += ws_take(c, 2);
		break;
	default: /* column, statement, block, prologue, epilogue, isa, and what is not known */
		for (unsigned i = 0; i < t->operands[op]; i++)
			ws_take_uleb(c);
	}
}

void ws_lines_find(const struct ws_lines *t, const uint64_t *address, const size_t *index, size_t n,
		   struct ws_line *out)
{
	struct run r = {.t = t,
			.address = address,
			.index = index,
			.n = n,
			.out = out,
			.file = 1,
			.line = 1};
	struct ws_cursor c = {t->program, t->end, false};

	memset(out, 0, n * sizeof(*out));
	while (c.p < c.end && !c.bad) {
		uint8_t op = (uint8_t)ws_take(&c, 1);

		if (op >= t->opcode_base) {
			unsigned v = op - t->opcode_base;

			r.at += (uint64_t)(v / t->line_range) * t->min_length;
			r.line += (uint64_t)(int64_t)(t->line_base + (int)(v % t->line_range));
			row(&r, false);
		} else if (op) {
			standard(&r, &c, op);
		} else {
			extended(&r, &c);
		}
	}
}
