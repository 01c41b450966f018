/*
 * format_tables.c - the tables of docs/report-format.md, made from tables.def.
 *
 *   format_tables DOCUMENT
 *       checks that the part of DOCUMENT between the two marks is what tables.def says (prints TAP)
 *   format_tables --update DOCUMENT
 *       writes it there
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "schema/schema.h"

#define WIDTH 120 /* of docs/, as scripts/format-check.py has it */

static const char begin_mark[] = "<!-- from tables.def; `format_tables --update` writes it -->\n";
static const char end_mark[] = "<!-- end of what comes from tables.def -->\n";

static const char *role_of_column(enum ws_table table, uint32_t c)
{
	return (int)c == ws_table_track(table) ? " Rows are sorted by it first."
	       : (int)c == ws_table_start(table) && ws_table_track(table) >= 0
		       ? " Rows are sorted by it next."
	       : (int)c == ws_table_start(table) ? " Rows are sorted by it."
						 : "";
}

/* Text up to the last blank before the column WIDTH, line by line, as docs are wrapped. */
static void put_wrapped(struct ws_text *out, const char *text)
{
	size_t left = strlen(text);

	while (left > WIDTH) {
		size_t end = WIDTH;

		while (end > 0 && text[end] != ' ')
			end--;
		if (end == 0)
			break;
		ws_text_printf(out, "%.*s\n", (int)end, text);
		text += end + 1;
		left -= end + 1;
	}
	ws_text_printf(out, "%s\n\n", text);
}

static void put_table(struct ws_text *out, enum ws_table table)
{
	const struct ws_table_desc *desc = &ws_tables[table];
	char text[1000];

	ws_text_printf(out, "\n### %u: %s\n\n", table, desc->name);
	snprintf(text, sizeof(text), "%s. In the SQLite export: `%s`.", desc->doc, desc->sqlite);
	put_wrapped(out, text);
	ws_text_puts(out, "| Column | Name | Type | SQLite | Meaning |\n|---|---|---|---|---|\n");
	for (uint32_t c = 0; c < desc->column_count; c++) {
		const struct ws_column_desc *column_desc = &desc->columns[c];

		ws_text_printf(out, "| %u | %s | %s | %s | %s.%s |\n", c, column_desc->name,
			       ws_types[column_desc->type].name, column_desc->sqlite,
			       column_desc->doc, role_of_column(table, c));
	}
}

static void put_all(struct ws_text *out)
{
	static const char *const sizes[] = {"", "8 bits", "", "", "32 bits", "", "", "", "64 bits"};

	ws_text_puts(out, begin_mark);
	ws_text_puts(out, "\n| Type | Size | Meaning |\n|---|---|---|\n");
#define WS_TYPE(name, ctype, is_signed, doc)                                     \
	ws_text_printf(out, "| %s | %s%s | %s |\n", #name, sizes[sizeof(ctype)], \
		       is_signed ? ", signed" : "", doc);
	WS_TYPES(WS_TYPE)
#undef WS_TYPE
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		put_table(out, (enum ws_table)t);
	ws_text_puts(out, "\n");
	ws_text_puts(out, end_mark);
}

static void read_all(const char *path, struct ws_text *text)
{
	FILE *file = fopen(path, "rb");
	char buffer[4096];
	size_t n;

	if (!file) {
		perror(path);
		exit(2);
	}
	while ((n = fread(buffer, 1, sizeof(buffer), file)) > 0)
		ws_text_add(text, buffer, n);
	fclose(file);
}

static int update_section(const char *path, const struct ws_text *doc, const char *from,
			  const char *to, const struct ws_text *tables)
{
	FILE *file = fopen(path, "wb");
	int bad;

	if (!file) {
		perror(path);
		return 2;
	}
	bad = fwrite(doc->text, 1, (size_t)(from - doc->text), file) != (size_t)(from - doc->text);
	bad |= fwrite(tables->text, 1, tables->len, file) != tables->len;
	bad |= fputs(to, file) < 0;
	bad |= fclose(file) != 0;
	return bad ? 2 : 0;
}

int main(int argc, char **argv)
{
	struct ws_text doc = {0}, tables = {0};
	const char *path = argc > 1 ? argv[argc - 1] : "", *from, *to;
	int rc;

	if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[1], "--update"))) {
		fprintf(stderr, "usage: format_tables [--update] DOCUMENT\n");
		return 2;
	}
	read_all(path, &doc);
	put_all(&tables);
	from = doc.text ? strstr(doc.text, begin_mark) : NULL;
	to = from ? strstr(from, end_mark) : NULL;
	if (!to) {
		fprintf(stderr, "format_tables: the marks are not in %s\n", path);
		return 2;
	}
	to += strlen(end_mark);
	if (argc == 3) {
		rc = update_section(path, &doc, from, to, &tables);
	} else {
		bool same =
			(size_t)(to - from) == tables.len && !memcmp(from, tables.text, tables.len);

		printf("1..1\n%sok 1 - the tables in the document are those of tables.def\n",
		       same ? "" : "not ");
		if (!same)
			printf("# run format_tables --update docs/report-format.md in the build "
			       "folder's tests/store\n");
		rc = !same;
	}
	ws_text_free(&doc);
	ws_text_free(&tables);
	return rc;
}
