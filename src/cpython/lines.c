/*
 * lines.c - the three ways in which CPython has kept line numbers: pairs of bytes that step through
 * code and lines (to 3.9), the same with ranges (3.10), and entries of several forms with columns
 * (from 3.11). All are read from the start up to the instruction asked for.
 */
#include "cpython/cpython.h"

/* To 3.9: how far the code goes on, how far the line does. The line is that of the last pair that
 * begins at or before `at`. */
static int32_t line_lnotab(int32_t line, const uint8_t *t, size_t n, int32_t at)
{
	int64_t code = 0, l = line;

	for (size_t i = 0; i + 1 < n; i += 2) {
		code += t[i];
		if (code > at)
			break;
		l += (int8_t)t[i + 1];
	}
	return l > 0 && l < INT32_MAX ? (int32_t)l : 0;
}

/* 3.10: each pair is a range of code and the step to its line; -128: it has none. */
static int32_t line_ranges(int32_t line, const uint8_t *t, size_t n, int32_t at)
{
	int64_t end = 0, l = line;

	for (size_t i = 0; i + 1 < n; i += 2) {
		int64_t start = end;
		int8_t step = (int8_t)t[i + 1];

		end += t[i];
		if (step != -128)
			l += step;
		if (at >= start && at < end)
			return step == -128 || l <= 0 || l > INT32_MAX ? 0 : (int32_t)l;
	}
	return 0;
}

struct bytes {
	const uint8_t *bytes, *end;
};

static uint32_t varint(struct bytes *bytes)
{
	uint32_t v = 0;

	for (unsigned shift = 0; bytes->bytes < bytes->end; shift += 6) {
		uint8_t c = *bytes->bytes++;

		if (shift < 30)
			v |= (uint32_t)(c & 63) << shift;
		if (!(c & 64))
			break;
	}
	return v;
}

static int32_t signed_varint(struct bytes *bytes)
{
	uint32_t v = varint(bytes);

	return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

/* The step of one entry's line; reads over its columns. False: the entry has no line. */
static bool entry_step(struct bytes *bytes, unsigned form, int32_t *step)
{
	*step = 0;
	switch (form) {
	case 15:
		return false;
	case 14:
		*step = signed_varint(bytes);
		varint(bytes);
		varint(bytes);
		varint(bytes);
		return true;
	case 13:
		*step = signed_varint(bytes);
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

static int32_t line_locations(int32_t line, const uint8_t *t, size_t n, int32_t at)
{
	struct bytes bytes = {t, t + n};
	int64_t end = 0, l = line;

	while (bytes.bytes < bytes.end) {
		uint8_t head = *bytes.bytes++;
		int32_t step;
		bool has = entry_step(&bytes, head >> 3 & 15, &step);

		end += 2 * ((head & 7) + 1);
		l += step;
		if (at < end)
			return has && l > 0 && l < INT32_MAX ? (int32_t)l : 0;
	}
	return 0;
}

int32_t ws_py_line(uint16_t version, int32_t first_line, const uint8_t *table, size_t bytes,
		   int32_t at)
{
	int32_t line;

	if (at < 0)
		return first_line;
	if (version >= 0x030b)
		line = line_locations(first_line, table, bytes, at);
	else
		line = version == 0x030a ? line_ranges(first_line, table, bytes, at)
					 : line_lnotab(first_line, table, bytes, at);
	return line;
}
