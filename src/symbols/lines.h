/*
 * lines.h - source lines of a batch of addresses from a DWARF line table (.debug_line, versions 2
 * to 5), read in one pass that keeps nothing.
 *
 * libdw makes an array of all rows of a unit and sorts it, which took most of the time that symbols
 * take.
 */
#ifndef WS_SYMBOLS_LINES_H
#define WS_SYMBOLS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_lines_sections { /* unpacked */
	const uint8_t *line, *line_str, *str;
	uint64_t line_n, line_str_n, str_n;
};

struct ws_line { /* of one address */
	bool found;
	uint32_t line;	/* 0: the compiler says that none belongs there */
	uint64_t file;	/* number in the table, for ws_lines_file */
	uint64_t start; /* private: of the row it is from */
};

struct ws_lines_file {
	const char *name,
		*folder; /* in the sections; folder "" for none, possibly relative to the unit's */
};

/* A table at `offset`: its files, and the program behind. */
struct ws_lines {
	const uint8_t *program, *end;
	struct ws_lines_file *files;
	size_t files_n, files_cap;
	uint8_t min_length, line_range, opcode_base, address_size;
	int8_t line_base;
	uint8_t operands[256];
	uint16_t version;
};

/* Read the table's header. False when there is none of a known form there. Free with ws_lines_free
 * in any case. */
bool ws_lines_open(struct ws_lines *lines, const struct ws_lines_sections *sections,
		   uint64_t offset);
/* Run the table and fill out[i] for address[i] (n of them, sorted, each through `index`: the
 * address is address[index[i]]). */
void ws_lines_find(const struct ws_lines *lines, const uint64_t *address, const size_t *index,
		   size_t n, struct ws_line *out);
/* File number i as rows and DW_AT_call_file give it; NULL when there is none. */
const struct ws_lines_file *ws_lines_file(const struct ws_lines *lines, uint64_t i);
void ws_lines_free(struct ws_lines *lines);

#endif
