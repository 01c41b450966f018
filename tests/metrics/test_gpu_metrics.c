/* test_gpu_metrics.c - metrics that a GPU's performance monitors sample: their form in a report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu_samples.h"
#include "query/query.h"

#define PERIOD UINT64_C(100000)
#define ZERO UINT64_C(1000000000000)

static uint64_t random_state = 1;

static double draw_share(void)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (double)(random_state >> 40) / (double)(1 << 24);
}

/* A program with steps of 30 ms, of which the last third is idle, as the sampler would store it. */
static uint64_t put_steps(const struct gpu_samples *samples, uint32_t count)
{
	uint64_t values = 0;

	for (uint32_t i = 0; i < count; i++)
		for (size_t row = 0; row < 8; row++) {
			double share = i % 300 < 200 ? 40 + (double)row * 5 + draw_share() * 4 : 0;

			put_gpu_sample(samples, gpu_sample_rows[row].row, ZERO + i * PERIOD, 1,
				       (double)(int)(share * 128) / 128);
			values++;
		}
	return values;
}

static char *make_report(uint64_t *values)
{
	char *path = strdup("/tmp/ws-gpu-metrics-XXXXXX");
	struct ws_writer_opts opts = {.overwrite = true};
	struct ws_err err;
	struct gpu_samples samples;
	struct ws_writer *writer;

	close(mkstemp(path));
	writer = ws_writer_create(path, &opts, &err);
	assert_non_null(writer);
	samples = begin_gpu_samples(writer, 1, 0, "GPU-0", PERIOD);
	*values = put_steps(&samples, 20000);
	put_gpu_sample(&samples, "SM Active", ZERO + 20000 * PERIOD, 0, NAN);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	return path;
}

static void samples_take_two_bytes_at_most(void **state)
{
	uint64_t values;
	char *path = make_report(&values);
	struct stat stat_buf;

	(void)state;
	assert_int_equal(stat(path, &stat_buf), 0);
	assert_in_range(stat_buf.st_size, 1000, values * 2);
	unlink(path);
	free(path);
}

static void gaps_have_no_value(void **state)
{
	uint64_t values, rows = 0, unknown = 0;
	char *path = make_report(&values);
	struct ws_err err;
	struct ws_report *report = ws_report_open(path, &err);
	struct ws_cursor *cursor;
	const uint64_t *row;

	(void)state;
	assert_non_null(report);
	cursor = ws_cursor_open(report, WS_TABLE_counter_value, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &row)) {
		double value;

		memcpy(&value, &row[ws_counter_value_value], 8);
		rows++;
		unknown += isnan(value) ? 1 : 0;
	}
	assert_int_equal(rows, values + 1);
	assert_int_equal(unknown, 1);
	ws_cursor_close(cursor);
	ws_report_close(report);
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_take_two_bytes_at_most),
		cmocka_unit_test(gaps_have_no_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
