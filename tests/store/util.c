/* util.c - see util.h. */
#include "util.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "../random.h"

static uint64_t state = RANDOM_SEED;
static char folder[256];

uint64_t draw(void)
{
	return random_star(&state);
}

void seed(uint64_t s)
{
	state = s * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

uint64_t below(uint64_t n)
{
	return n ? (draw() >> 11) % n : 0;
}

void make_folder(void)
{
	const char *base = getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%s/ws-store-XXXXXX", ws_text_or(base, "/tmp"));
	if (!mkdtemp(folder)) {
		perror(folder);
		exit(1);
	}
}

void end_folder(void)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char *path = in_folder(entry->d_name);

		unlink(path);
		free(path);
	}
	if (dir)
		closedir(dir);
	rmdir(folder);
}

char *in_folder(const char *name)
{
	return ws_format("%s/%s", folder, name);
}

/* ---- rows ---- */

static uint64_t few[8];

static uint64_t profile_value(enum profile profile_p, uint32_t i, uint64_t a, uint64_t b)
{
	switch (profile_p) {
	case P_ZERO:
		return 0;
	case P_SAME:
		return a;
	case P_FEW:
		return few[below(8)];
	case P_STEPS:
		return a + i * (b % 100);
	case P_SMALL:
		return below(200);
	case P_WIDE:
		return draw() >> (8 * (b % 8));
	case P_EXTREME:
		return (const uint64_t[]){0,	      1,
					  UINT64_MAX, UINT64_MAX - 1,
					  INT64_MAX,  (uint64_t)INT64_MIN,
					  INT32_MAX,  0xff}[below(8)];
	case P_TIMES:
		return UINT64_C(50000000000) + i * 70 + below(60) * 10 -
		       (below(20) ? 0 : below(100000));
	default:
		return below(3) ? UINT64_C(50000000000) + i * 70 + 30 + below(1000) : WS_NO_TIME;
	}
}

char *random_rows(enum ws_table table, uint32_t n, int all)
{
	const struct ws_table_desc *desc = &ws_tables[table];
	char *rows = ws_malloc((size_t)n * desc->row_size);

	for (size_t i = 0; i < (size_t)n * desc->row_size; i++)
		rows[i] = (char)draw();
	for (int i = 0; i < 8; i++)
		few[i] = draw();
	for (uint32_t c = 0; c < desc->column_count; c++) {
		enum profile profile_p =
			all >= 0 ? (enum profile)all : (enum profile)below(PROFILES);
		uint64_t a = draw(), b = draw();

		if (all < 0 && (int)c == ws_table_start(table) && below(4))
			profile_p = P_TIMES;
		if (all < 0 && (int)c == ws_table_end(table) && below(4))
			profile_p = P_NULLS;
		for (uint32_t i = 0; i < n; i++)
			ws_row_set(table, rows + (size_t)i * desc->row_size, c,
				   profile_value(profile_p, i, a, b));
	}
	return rows;
}

static enum ws_table sorting;

static int compare_promised(const void *first, const void *second)
{
	int key[3] = {ws_table_track(sorting), ws_table_start(sorting), ws_table_end(sorting)};
	const char *x = *(char *const *)first, *y = *(char *const *)second;

	for (int i = 0; i < 3; i++) {
		if (key[i] < 0 || (i == 2 && key[1] < 0))
			continue;
		uint64_t v = ws_row_get(sorting, x, (uint32_t)key[i]),
			 w = ws_row_get(sorting, y, (uint32_t)key[i]);

		if (v != w)
			return (v < w) == (i < 2) ? -1 : 1;
	}
	return x < y ? -1 : 1;
}

void sort_as_promised(enum ws_table table, char *rows, uint32_t n)
{
	size_t size = ws_tables[table].row_size;
	char **p = ws_malloc(n * sizeof(*p)), *sorted = ws_malloc(n * size);

	for (uint32_t i = 0; i < n; i++)
		p[i] = rows + i * size;
	sorting = table;
	qsort(p, n, sizeof(*p), compare_promised);
	for (uint32_t i = 0; i < n; i++)
		memcpy(sorted + i * size, p[i], size);
	memcpy(rows, sorted, n * size);
	free(sorted);
	free(p);
}

void expect_block(const struct ws_report *report, enum ws_table table, size_t block,
		  const char *rows, uint32_t n)
{
	uint32_t columns = ws_tables[table].column_count;
	uint64_t *out[WS_MAX_COLUMNS], *values = ws_malloc((size_t)n * 8 * columns);
	struct ws_err err;

	assert_int_equal(ws_report_block_info(report, table, block).rows, n);
	for (uint32_t c = 0; c < columns; c++)
		out[c] = values + (size_t)n * c;
	if (ws_report_decode_block(report, table, block, UINT64_MAX, out, &err))
		fail_msg("%s", err.msg);
	for (uint32_t c = 0; c < columns; c++)
		for (uint32_t i = 0; i < n; i++) {
			uint64_t want =
				ws_row_get(table, rows + (size_t)i * ws_tables[table].row_size, c);

			if (out[c][i] != want)
				fail_msg("%s.%s row %u of %u: %llx, not %llx",
					 ws_tables[table].name, ws_tables[table].columns[c].name, i,
					 n, (unsigned long long)out[c][i],
					 (unsigned long long)want);
		}
	/* Each column alone: what another needs must be found without being asked for. */
	for (uint32_t c = 0; c < columns; c++) {
		uint64_t *one[WS_MAX_COLUMNS] = {NULL}, *alone = ws_malloc((size_t)n * 8);

		one[c] = alone;
		assert_int_equal(ws_report_decode_block(report, table, block, UINT64_C(1) << c, one,
							NULL),
				 0);
		assert_memory_equal(alone, out[c], (size_t)n * 8);
		free(alone);
	}
	free(values);
}

/* ---- files ---- */

struct ws_report *open_or_fail(const char *path)
{
	struct ws_err err;
	struct ws_report *report = ws_report_open(path, &err);

	if (!report)
		fail_msg("%s", err.msg);
	return report;
}

char *read_file(const char *path, size_t *n)
{
	FILE *file = fopen(path, "rb");
	char *at;

	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	*n = (size_t)ftell(file);
	rewind(file);
	at = ws_malloc(*n + 1);
	assert_int_equal(fread(at, 1, *n, file), *n);
	fclose(file);
	return at;
}

/* In place: making files anew is what thousands of small ones would mostly cost. */
void write_file(const char *path, const void *memory, size_t n)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, memory, n, 0), n);
	assert_int_equal(ftruncate(fd, (off_t)n), 0);
	close(fd);
}
