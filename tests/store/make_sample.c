/*
 * make_sample.c - writes a report with every table and codec to the path given, and prints what a
 * reader must find: for each column of each table the sum of (i + 1) * value over all rows as
 * blocks deliver them, and each string's length and sum of (i + 1) * byte; all modulo 2^64.
 * read_report.py, which knows nothing but docs/report-format.md, checks itself against that.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/query.h"
#include "../random.h"

static uint64_t state = RANDOM_SEED;

static uint64_t draw_random(void)
{
	return random_star(&state);
}

/* By table and column, so that plain, delta, dictionary, constant, wide and patched columns all
 * occur. */
static uint64_t any_value(uint32_t t, uint32_t c, uint32_t i)
{
	switch ((t + c) % 7) {
	case 0:
		return 7;
	case 1:
		return draw_random();
	case 2:
		return 1000000 + i;
	case 3:
		return (const uint64_t[]){5, 1ull << 30, 77, UINT64_MAX}[draw_random() % 4];
	case 4:
		return draw_random() % 300 + (i == 55 ? 1ull << 31 : 0);
	case 5:
		return 0;
	default:
		return 0 - draw_random() % 50;
	}
}

static void add_any(struct ws_writer *writer, uint32_t t, uint32_t n)
{
	char *row = ws_calloc(1, ws_tables[t].row_size);

	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t c = 0; c < ws_tables[t].column_count; c++)
			ws_row_set((enum ws_table)t, row, c, any_value(t, c, i));
		ws_writer_add(writer, (enum ws_table)t, row);
	}
	free(row);
}

static uint64_t step_value(uint64_t steps)
{
	return 5000000 + steps * 10 + steps * 15 / 1000;
}

static void add_ranges(struct ws_writer *writer, bool steps, bool nested, uint32_t n)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct ws_row_nvtx row = {.thread = 1 + i * 3 / n,
					  .text = 1 + (uint32_t)(draw_random() % 9),
					  .type = WS_NVTX_PUSHPOP};

		at += 20 + draw_random() % (steps ? 500 : 4);
		row.start = steps ? step_value(at) : at * 10;
		at += nested && i % 4 ? 0 : 30 + draw_random() % (steps ? 700 : 5);
		row.end = steps ? step_value(at + (nested ? 3000 : 0)) : at * 10;
		if (!(draw_random() % 100))
			row.end = WS_NO_TIME;
		ws_writer_add(writer, WS_TABLE_nvtx, &row);
	}
}

static void print_columns(const struct ws_report *report, enum ws_table table)
{
	uint32_t columns = ws_tables[table].column_count;
	uint64_t sum[WS_MAX_COLUMNS] = {0}, *out[WS_MAX_COLUMNS], k = 0;

	for (size_t b = 0; b < ws_report_count_blocks(report, table); b++) {
		uint32_t n = ws_report_block_info(report, table, b).rows;

		for (uint32_t c = 0; c < columns; c++)
			out[c] = ws_malloc((size_t)n * 8);
		if (ws_report_decode_block(report, table, b, UINT64_MAX, out, NULL))
			exit(1);
		for (uint32_t i = 0; i < n; i++, k++)
			for (uint32_t c = 0; c < columns; c++)
				sum[c] += (k + 1) * out[c][i];
		for (uint32_t c = 0; c < columns; c++)
			free(out[c]);
	}
	for (uint32_t c = 0; c < columns; c++)
		printf("%s.%s %llu %llu\n", ws_tables[table].name, ws_tables[table].columns[c].name,
		       (unsigned long long)k, (unsigned long long)sum[c]);
}

static void print_strings(const struct ws_report *report)
{
	for (uint32_t id = 1; id <= ws_report_string_count(report); id++) {
		uint64_t sum = 0;
		size_t len;
		const char *text = ws_report_string(report, id, &len);

		for (size_t i = 0; i < len; i++)
			sum += (i + 1) * (uint8_t)text[i];
		printf("string %u %zu %llu\n", id, len, (unsigned long long)sum);
	}
}

int main(int argc, char **argv)
{
	struct ws_writer_opts opts = {.overwrite = true, .block_rows = 1500};
	struct ws_writer *writer;
	struct ws_report *report;
	struct ws_err err;
	char text[64];

	if (argc != 2 || !(writer = ws_writer_create(argv[1], &opts, &err)))
		return 2;
	ws_writer_string(writer, "", 0);
	ws_writer_string(writer, "n\0ul", 4);
	for (int i = 0; i < 600; i++)
		ws_writer_string(writer, text,
				 (size_t)snprintf(text, sizeof(text), "%*d of the strings", i % 40,
						  i));
	for (int i = 0; i < 4; i++)
		add_ranges(writer, i & 1, i & 2, 3000);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		add_any(writer, t, 700);
	if (ws_writer_close(writer, &err) || !(report = ws_report_open(argv[1], &err)))
		return 2;
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		print_columns(report, (enum ws_table)t);
	print_strings(report);
	ws_report_close(report);
	return 0;
}
