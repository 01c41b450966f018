/*
 * lines.c - the three ways in which CPython has kept line numbers: pairs of bytes that step through
 * code and lines (up to 3.9), the same with ranges (3.10), and entries of several forms with
 * columns (from 3.11). All are read from the start up to the wanted instruction.
 */
#include "cpython/cpython.h"

/* 0 for a number that cannot be a line. */
static int32_t check_line(int64_t line)
{
	if (line <= 0 || line >= INT32_MAX)
		return 0;
	return (int32_t)line;
}

/* Up to 3.9 each pair says how far the code advances, and how far the line does. The line is that
 * of the last pair that begins at or before `at`. */
static int32_t find_line_lnotab(int32_t first_line, const uint8_t *table, size_t bytes, int32_t at)
{
	int64_t code = 0, line = first_line;

	for (size_t i = 0; i + 1 < bytes; i += 2) {
		code += table[i];
		if (code > at)
			break;
		line += (int8_t)table[i + 1];
	}
	return check_line(line);
}

/* In 3.10 each pair is a range of code and the step to its line; -128 means that it has none. */
static int32_t find_line_ranges(int32_t first_line, const uint8_t *table, size_t bytes, int32_t at)
{
	int64_t end = 0, line = first_line;

	for (size_t i = 0; i + 1 < bytes; i += 2) {
		int64_t start = end;
		int8_t step = (int8_t)table[i + 1];

		end += table[i];
		if (step != -128)
			line += step;
		if (at < start || at >= end)
			continue;
		if (step == -128)
			return 0;
		return check_line(line);
	}
	return 0;
}

struct table_bytes {
	const uint8_t *bytes, *end;
};

/* A number in groups of six bits. */
static uint32_t read_varint(struct table_bytes *bytes)
{
	uint32_t value = 0;

	for (unsigned shift = 0; bytes->bytes < bytes->end; shift += 6) {
		uint8_t byte = *bytes->bytes++;

		if (shift < 30)
			value |= (uint32_t)(byte & 63) << shift;
		if (!(byte & 64))
			break;
	}
	return value;
}

static int32_t read_signed_varint(struct table_bytes *bytes)
{
	uint32_t value = read_varint(bytes);
	int32_t magnitude = (int32_t)(value >> 1);

	return value & 1 ? -magnitude : magnitude;
}

/* Read the step to an entry's line, and skip its columns. False when the entry has no line. */
static bool read_entry_step(struct table_bytes *bytes, unsigned form, int32_t *step)
{
	*step = 0;
	switch (form) {
	case 15:
		return false;
	case 14:
		*step = read_signed_varint(bytes);
		read_varint(bytes);
		read_varint(bytes);
		read_varint(bytes);
		return true;
	case 13:
		*step = read_signed_varint(bytes);
		return true;
	case 10:
	case 11:
	case 12:
		*step = (int32_t)form - 10;
		bytes->bytes += 2;
		return true;
	default:
		bytes->bytes += 1;
		return true;
	}
}

static int32_t find_line_locations(int32_t first_line, const uint8_t *table, size_t size,
				   int32_t at)
{
	struct table_bytes bytes = {table, table + size};
	int64_t end = 0, line = first_line;

	while (bytes.bytes < bytes.end) {
		uint8_t head = *bytes.bytes++;
		int32_t step;
		bool has = read_entry_step(&bytes, head >> 3 & 15, &step);

		end += 2 * ((head & 7) + 1);
		line += step;
		if (at >= end)
			continue;
		if (!has)
			return 0;
		return check_line(line);
	}
	return 0;
}

int32_t ws_py_find_line(uint16_t version, int32_t first_line, const uint8_t *table, size_t bytes,
			int32_t at)
{
	if (at < 0)
		return first_line;
	if (version >= 0x030b)
		return find_line_locations(first_line, table, bytes, at);
	if (version == 0x030a)
		return find_line_ranges(first_line, table, bytes, at);
	return find_line_lnotab(first_line, table, bytes, at);
}
