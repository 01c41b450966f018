/*
 * lines.h - source lines of a batch of addresses from a DWARF line table (.debug_line, versions 2
 * to 5), read in one pass that keeps nothing.
 *
 * libdw would make an array of all rows of a unit and sort it, which took most of the time of
 * looking up symbols.
 */
#ifndef WS_SYMBOLS_LINES_H
#define WS_SYMBOLS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_lines_sections { /* unpacked */
	const uint8_t *line, *line_str, *str;
	uint64_t line_size, line_str_size, str_size;
};

struct ws_line { /* of one address */
	bool found;
	uint32_t line;	/* 0: the compiler says that there is none */
	uint64_t file;	/* number in the table, for ws_lines_file */
	uint64_t start; /* private to lines.c: start of the row it is from */
};

/* Texts in the sections; `folder` is "" for none, and may be relative to the unit's. */
struct ws_lines_file {
	const char *name, *folder;
};

/* A line table: its files, and the program that makes its rows. */
struct ws_lines {
	const uint8_t *program, *end;
	struct ws_lines_file *files;
	size_t file_count, files_cap;
	uint8_t min_length, line_range, opcode_base, address_size;
	int8_t line_base;
	uint8_t operands[256];
	uint16_t version;
};

/* Read the header of the table at `offset` of .debug_line. False when there is none of a known
 * form. Call ws_lines_free in any case. */
bool ws_lines_open(struct ws_lines *lines, const struct ws_lines_sections *sections,
		   uint64_t offset);
/* Run the table's program and fill out[i] for address[index[i]], for i below n; these addresses are
 * sorted. */
void ws_lines_find(const struct ws_lines *lines, const uint64_t *address, const size_t *index,
		   size_t n, struct ws_line *out);
/* The file with the number i in rows and in DW_AT_call_file; NULL when there is none. */
const struct ws_lines_file *ws_lines_get_file(const struct ws_lines *lines, uint64_t i);
void ws_lines_free(struct ws_lines *lines);

#endif
