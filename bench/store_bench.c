/*
 * store_bench.c - what the report file costs: ns a row to write and to read, and bytes a row, for
 * the patterns that recordings are made of.
 *
 *   store_bench [million rows] [directory]
 *
 * Times come from a simulated clock that, like the counters of real processors, advances in steps
 * (here 10.015 ns) which are not whole nanoseconds. One thread writes; reading uses one worker, so
 * that figures are a core's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "query/query.h"

static uint64_t state = 88172645463325252u;

static uint64_t draw_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static double read_clock(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint64_t to_ns(uint64_t steps)
{
	return 1000000000000u + (uint64_t)((unsigned __int128)steps * 43014097u >> 32) +
	       steps * 10; /* 10.010015 ns */
}

enum { TURN = 680 };

struct pattern {
	const char *name, *what;
	/* fills steps for gap and length, and the number of the name */
	void (*next)(uint64_t i, uint32_t *gap, uint32_t *length, uint32_t *name);
	uint32_t names;
	int nested, threads;
};

static void make_storm(uint64_t i, uint32_t *gap, uint32_t *length, uint32_t *name)
{
	uint64_t r = draw_random();

	*gap = 2 + ((r & 15) == 0) - ((r >> 4 & 15) == 0) + (r % 4001 == 0 ? 300 : 0);
	*length = 2 + ((r >> 8 & 7) == 0);
	*name = (uint32_t)i & 1;
}

static void make_64_names(uint64_t i, uint32_t *gap, uint32_t *length, uint32_t *name)
{
	make_storm(i, gap, length, name);
	*name = (uint32_t)(draw_random() >> 20) % 64;
}

static void make_jittered(uint64_t i, uint32_t *gap, uint32_t *length, uint32_t *name)
{
	(void)i;
	*gap = 20 + (uint32_t)(draw_random() >> 20) % 200;
	*length = 30 + (uint32_t)(draw_random() >> 20) % 400;
	*name = (uint32_t)(draw_random() >> 20) % 64;
}

static void make_unique_names(uint64_t i, uint32_t *gap, uint32_t *length, uint32_t *name)
{
	make_storm(i, gap, length, name);
	*name = (uint32_t)i;
}

static const struct pattern patterns[] = {
	{"storm", "one thread, two names in turn, 20-60 ns", make_storm, 2, 0, 1},
	{"names", "the same with 64 names at random", make_64_names, 64, 0, 1},
	{"jitter", "64 names at random, gaps 0.2-2.2 us, lengths 0.3-4.3 us", make_jittered, 64, 0,
	 1},
	{"nested", "the storm as pairs of a parent and three children", make_storm, 2, 1, 1},
	{"unique", "the storm with names that never repeat", make_unique_names, 0, 0, 1},
	{"threads", "the storm of eight threads, drained in turns of 680 rows", make_storm, 2, 0,
	 8},
};

/* Parents are written after their three children, as a recording does. */
static void put_nested(struct ws_row_nvtx *rows, size_t n)
{
	for (size_t i = 3; i < n; i += 4) {
		rows[i].start = rows[i - 3].start - 30;
		rows[i].end = rows[i - 1].end + 20;
	}
}

static struct ws_row_nvtx *make_rows(const struct pattern *pattern, size_t n, const uint32_t *ids)
{
	struct ws_row_nvtx *rows = ws_calloc(n, sizeof(*rows));
	uint64_t at = 0;

	for (size_t i = 0; i < n; i++) {
		uint32_t gap, length, name;

		pattern->next(i, &gap, &length, &name);
		at += gap;
		rows[i] = (struct ws_row_nvtx){
			.start = to_ns(at),
			.thread = 1 + (uint32_t)(i / TURN % (size_t)pattern->threads),
			.type = WS_NVTX_PUSHPOP};
		at += length;
		rows[i].end = to_ns(at);
		rows[i].text = pattern->names ? ids[name] : 0;
	}
	for (size_t i = 0; pattern->threads > 1 && i < n; i++) { /* they ran at the same time */
		uint64_t back = (uint64_t)(i / TURN % (size_t)pattern->threads) *
				(rows[TURN].start - rows[0].start);

		rows[i].start -= back;
		rows[i].end -= back;
	}
	if (pattern->nested)
		put_nested(rows, n);
	return rows;
}

static void die_of(const struct ws_err *err)
{
	fprintf(stderr, "store_bench: %s\n", err->msg);
	exit(1);
}

static uint64_t file_bytes;

static double write_rows(const struct pattern *pattern, size_t n, size_t part, const char *path)
{
	struct ws_writer_opts opts = {.overwrite = true};
	uint32_t ids[64];
	char text[40];
	struct ws_err err;
	double cpu = 0;
	struct ws_writer *writer = ws_writer_create(path, &opts, &err);

	if (!writer)
		die_of(&err);
	for (uint32_t i = 0; i < pattern->names; i++)
		ids[i] = ws_writer_string(
			writer, text, (size_t)snprintf(text, sizeof(text), "range number %u", i));
	struct ws_row_nvtx *rows = make_rows(pattern, part, ids);
	struct ws_stage *stage = ws_writer_stage(writer, WS_TABLE_nvtx);
	uint64_t shift = rows[part - 1].end - rows[0].start + 20;

	for (size_t done = 0; done < n; done += part) {
		double t = read_clock(CLOCK_PROCESS_CPUTIME_ID);

		for (size_t i = 0; i < part; i++) {
			struct ws_row_nvtx *row = ws_writer_row(writer, WS_TABLE_nvtx, stage);

			*row = rows[i];
			if (!pattern->names)
				row->text = ws_writer_string(
					writer, text,
					(size_t)snprintf(text, sizeof(text), "step %zu", done + i));
		}
		ws_writer_commit(writer);
		cpu += read_clock(CLOCK_PROCESS_CPUTIME_ID) - t;
		for (size_t i = 0; i < part; i++) {
			rows[i].start += shift;
			rows[i].end += shift;
		}
	}
	double t = read_clock(CLOCK_PROCESS_CPUTIME_ID);

	if (ws_writer_close(writer, &err))
		die_of(&err);
	cpu += read_clock(CLOCK_PROCESS_CPUTIME_ID) - t;
	free(rows);
	return cpu;
}

static int sum_batch(void *ctx, const struct ws_batch *batch)
{
	*(uint64_t *)ctx += batch->col[ws_nvtx_end][batch->rows - 1];
	return 0;
}

static void read_rows(size_t n, const char *path)
{
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
					  WS_COLUMN_BIT(nvtx, text),
			       .time_max = UINT64_MAX,
			       .workers = 1};
	struct ws_rows rows;
	struct ws_err err;
	uint64_t sum = 0, damaged;
	double t = read_clock(CLOCK_MONOTONIC);
	struct ws_report *report = ws_report_open(path, &err);

	if (!report)
		die_of(&err);
	double opened = read_clock(CLOCK_MONOTONIC);

	ws_run_scan(report, &scan, sum_batch, &sum, &damaged);
	double scanned = read_clock(CLOCK_MONOTONIC);

	scan.workers = 0;
	if (ws_rows_load(report, &scan, &rows, &err))
		die_of(&err);
	double loaded = read_clock(CLOCK_MONOTONIC);

	if (damaged || rows.rows != n || ws_report_count_rows(report, WS_TABLE_nvtx) != n) {
		fprintf(stderr, "store_bench: rows went missing\n");
		exit(1);
	}
	file_bytes = ws_report_file_size(report);
	printf("  %6.2f ms %6.2f ns %6.2f ns", (opened - t) * 1e3,
	       (scanned - opened) * 1e9 / (double)n, (loaded - scanned) * 1e9 / (double)n);
	ws_rows_free(&rows);
	ws_report_close(report);
}

int main(int argc, char **argv)
{
	size_t part = 1 << 20, n = (size_t)(argc > 1 ? atoi(argv[1]) : 18) * part;
	char *path = ws_format("%s/store_bench.%d.wsrep", argc > 2 ? argv[2] : ".", (int)getpid());

	printf("%zu rows of table nvtx; reading decodes start, end and text\n", n);
	printf("%-8s %12s %10s %10s %10s %9s %9s\n", "pattern", "write a row", "file a row", "open",
	       "scan a row", "load", "");
	for (size_t i = 0; i < WS_COUNT(patterns); i++) {
		double cpu = write_rows(&patterns[i], n, part, path);

		printf("%-8s %9.2f ns", patterns[i].name, cpu * 1e9 / (double)n);
		read_rows(n, path);
		printf(" %7.3f B  %s\n", (double)file_bytes / (double)n, patterns[i].what);
		fflush(stdout);
	}
	unlink(path);
	free(path);
	return 0;
}
