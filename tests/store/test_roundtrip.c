/*
 * test_roundtrip.c - what goes into a report comes out: every table of tables.def with every kind
 * of column, strings, several blocks, segments, and the codecs by themselves.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/choose.h"
#include "store/codec.h"
#include "store/sort.h"
#include "util.h"

static bool sanitized; /* a fifth of what only chance or the size of a file needs */

static void round_trip(enum ws_table table, uint32_t n, int profile, uint32_t block_rows)
{
	struct ws_writer_opts opts = {.overwrite = true, .block_rows = block_rows};
	char *path = in_folder("round.wsrep"), *rows = random_rows(table, n, profile);
	size_t size = ws_tables[table].row_size;
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, &opts, &err);
	uint32_t at = 0;

	if (!writer)
		fail_msg("%s", err.msg);
	for (uint32_t i = 0; i < n; i++)
		ws_writer_add(writer, table, rows + i * size);
	assert_int_equal(ws_writer_close(writer, &err), 0);

	struct ws_report *report = open_or_fail(path);

	assert_true(ws_report_is_complete(report));
	assert_null(ws_report_get_damage(report, 0));
	assert_int_equal(ws_report_count_rows(report, table), n);
	assert_int_equal(ws_report_columns(report, table),
			 (UINT64_C(1) << ws_tables[table].column_count) - 1);
	for (size_t b = 0; b < ws_report_count_blocks(report, table); b++) {
		uint32_t k = ws_report_block_info(report, table, b).rows;

		assert_true(k <= n - at);
		sort_as_promised(table, rows + at * size, k);
		expect_block(report, table, b, rows + at * size, k);
		at += k;
	}
	assert_int_equal(at, n);
	assert_int_equal(ws_report_verify(report, NULL, NULL), 0);
	ws_report_close(report);
	free(rows);
	free(path);
}

static void tables_by_profile(void **state)
{
	static const uint32_t sizes[] = {1, 2, 3, 33, 200, 777};

	(void)state;
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		for (int p = 0; p < PROFILES; p++)
			round_trip((enum ws_table)t, sizes[(t + (uint32_t)p) % 6], p, 0);
}

static void tables_at_random(void **state)
{
	(void)state;
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		for (int i = 0; i < (sanitized ? 3 : 15); i++)
			round_trip((enum ws_table)t, 1 + (uint32_t)below(3000), -1, 0);
}

static void big_blocks(void **state)
{
	(void)state;
	for (int i = 0; i < (sanitized ? 2 : 6); i++) {
		round_trip(WS_TABLE_nvtx, 65536 * 2 + 5, -1, 0);
		round_trip(WS_TABLE_osrt, 70000, -1, 0);
	}
	for (int p = 0; p < PROFILES; p++)
		round_trip(WS_TABLE_nvtx, 100000, p, 0);
}

static void small_blocks(void **state)
{
	(void)state;
	for (uint32_t n = 1; n < 20; n++)
		round_trip(WS_TABLE_nvtx, 100, -1, n);
	round_trip(WS_TABLE_osrt, 300000, -1, 1 << 20);
}

/* ---- recordings as they are ---- */

/* Ranges of several threads, three deep, written when they close, drained in turns. */
static uint32_t make_nested(struct ws_row_nvtx *rows, uint32_t n)
{
	uint64_t at[4] = {1000000, 1000500, 1000900, 1001400};
	uint32_t k = 0;

	while (k + 8 < n)
		for (uint32_t thread = 1; thread <= 4; thread++) {
			uint64_t start = at[thread - 1], t = start;

			for (int i = 0; i < 3 && k < n; i++) {
				rows[k++] = (struct ws_row_nvtx){.start = t + 20,
								 .end = t + 50 + below(5) * 10,
								 .thread = thread,
								 .text = 1 + (uint32_t)below(7),
								 .type = WS_NVTX_PUSHPOP};
				t = rows[k - 1].end;
			}
			if (k < n && below(10))
				rows[k++] = (struct ws_row_nvtx){
					.start = start, .end = t + 10, .thread = thread, .text = 9};
			if (k < n && !below(20))
				rows[k++] = (struct ws_row_nvtx){.start = t,
								 .end = WS_NO_TIME,
								 .thread = thread,
								 .type = WS_NVTX_MARK};
			at[thread - 1] = t + 30;
		}
	return k;
}

static void nested_threads(void **state)
{
	enum { N = 150000 };
	struct ws_row_nvtx *rows = ws_calloc(N, sizeof(*rows));
	char *path = in_folder("nested.wsrep");
	uint32_t n = make_nested(rows, N), at = 0;
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, NULL, &err);

	(void)state;
	assert_non_null(writer);
	for (uint32_t i = 0; i < n; i++)
		ws_writer_add(writer, WS_TABLE_nvtx, &rows[i]);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	struct ws_report *report = open_or_fail(path);

	for (size_t b = 0; b < ws_report_count_blocks(report, WS_TABLE_nvtx); b++) {
		struct ws_block_info info = ws_report_block_info(report, WS_TABLE_nvtx, b);
		uint64_t first = UINT64_MAX, last = 0;

		for (uint32_t i = at; i < at + info.rows; i++) {
			uint64_t end = rows[i].end == WS_NO_TIME ? rows[i].start : rows[i].end;

			first = ws_min(rows[i].start, first);
			last = ws_max(end, last);
		}
		assert_int_equal(info.time_min, first);
		assert_int_equal(info.time_max, last);
		assert_int_equal(info.track_min, 1);
		assert_int_equal(info.track_max, 4);
		sort_as_promised(WS_TABLE_nvtx, (char *)(rows + at), info.rows);
		expect_block(report, WS_TABLE_nvtx, b, (char *)(rows + at), info.rows);
		at += info.rows;
	}
	assert_int_equal(at, n);
	ws_report_close(report);
	free(rows);
	free(path);
}

/* Both directions of the size targets: what repeats must cost next to nothing. */
static void storm_is_small(void **state)
{
	const int n = sanitized ? 80000 : 400000;
	char *path = in_folder("storm.wsrep");
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, NULL, &err);
	uint32_t a = ws_writer_string(writer, "a", 1), b = ws_writer_string(writer, "b", 1);
	uint64_t t = 5000000;

	(void)state;
	for (int i = 0; i < n; i++) {
		struct ws_row_nvtx row = {
			.thread = 1, .type = WS_NVTX_PUSHPOP, .text = i & 1 ? a : b};

		row.start = t += 20 + below(4) * 10;
		row.end = t += 20 + below(3) * 10;
		ws_writer_add(writer, WS_TABLE_nvtx, &row);
	}
	assert_int_equal(ws_writer_close(writer, &err), 0);
	struct ws_report *report = open_or_fail(path);

	assert_true(ws_report_file_size(report) <= (uint64_t)n);
	ws_report_close(report);
	free(path);
}

/* A clock whose steps are no whole nanoseconds. */
static uint64_t step_value(uint64_t steps)
{
	return 77000000000u + steps * 10 + steps * 15 / 1000;
}

/* Names at random and work of random length, on such a clock: 22.3 bits of chance a range. */
static void jitter_is_small(void **state)
{
	enum { N = 300000 };
	struct ws_row_nvtx *rows = ws_calloc(N, sizeof(*rows));
	char *path = in_folder("jitter.wsrep");
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, NULL, &err);
	uint64_t at = 0;

	(void)state;
	for (uint32_t i = 0; i < N; i++) {
		rows[i] = (struct ws_row_nvtx){
			.thread = 1, .type = WS_NVTX_PUSHPOP, .text = 1 + (uint32_t)below(64)};
		rows[i].start = step_value(at += 20 + below(200));
		rows[i].end = step_value(at += 30 + below(400));
		ws_writer_add(writer, WS_TABLE_nvtx, &rows[i]);
	}
	assert_int_equal(ws_writer_close(writer, &err), 0);
	struct ws_report *report = open_or_fail(path);
	uint32_t done = 0;

	assert_true(ws_report_file_size(report) <= 3 * N);
	for (size_t b = 0; b < ws_report_count_blocks(report, WS_TABLE_nvtx); b++) {
		uint32_t n = ws_report_block_info(report, WS_TABLE_nvtx, b).rows;

		expect_block(report, WS_TABLE_nvtx, b, (char *)(rows + done), n);
		done += n;
	}
	ws_report_close(report);
	free(rows);
	free(path);
}

/* Steps of every length, with what disturbs them: other threads, nesting, nulls, long pauses, times
 * off the grid, huge and backward ones. */
static void step_block(uint64_t num, uint64_t den, uint32_t n, int trouble)
{
	struct ws_row_nvtx *rows = ws_calloc(n, sizeof(*rows));
	char *path = in_folder("steps.wsrep");
	struct ws_writer_opts opts = {.overwrite = true};
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, &opts, &err);
	uint64_t at = 1000000000;
	bool close = trouble & 64; /* every step fits such times about as well, and the search must
				      end all the same */

	for (uint32_t i = 0; i < n; i++) {
		rows[i].thread = 1 + (trouble & 1 ? i * 5 / n : 0);
		at += (close ? 2 + below(2) : 20 + below(500)) +
		      (trouble & 2 && !below(1000) ? below(1000000000) : 0);
		rows[i].start = at * num / den;
		at += close ? 2 + below(2) : 20 + below(600);
		rows[i].end = at * num / den;
		if (trouble & 4 && !below(300))
			rows[i].end = WS_NO_TIME;
		if (trouble & 8 && i > 8 && !below(10))
			rows[i].start = rows[i - 3 - below(5)].start - below(100);
		if (trouble & 16 && !below(50))
			rows[i].end += below(1000);
		if (trouble & 32 && !below(400))
			rows[i].end = draw();
	}
	sort_as_promised(WS_TABLE_nvtx, (char *)rows, n);
	for (uint32_t i = 0; i < n; i++)
		ws_writer_add(writer, WS_TABLE_nvtx, &rows[i]);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	struct ws_report *report = open_or_fail(path);

	expect_block(report, WS_TABLE_nvtx, 0, (char *)rows, n);
	ws_report_close(report);
	free(rows);
	free(path);
}

static void stepped_clocks(void **state)
{
	static const uint64_t ratio[][2] = {{10010015, 1000000}, {10, 1},    {1000, 54}, {32, 1},
					    {625, 12},		 {385, 100}, {1, 1},	 {100, 1}};

	(void)state;
	for (int trouble = 0; trouble < 64; trouble++)
		step_block(ratio[trouble % 8][0], ratio[trouble % 8][1],
			   300 + (uint32_t)below(4000), trouble);
	for (int i = 0; i < (sanitized ? 6 : 16); i++)
		step_block(ratio[i % 8][0], ratio[i % 8][1], 60000, 1 << i % 6);
	for (uint32_t n = 100; n < 30000; n *= 3)
		step_block(1, 1, n, 64);
}

/* ---- strings ---- */

static void strings_come_back(void **state)
{
	char *path = in_folder("strings.wsrep"), *big = ws_malloc(9 << 20);
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, NULL, &err);
	uint32_t empty, nuls, long_id, id[3000];
	char text[64];
	size_t len;

	(void)state;
	for (size_t i = 0; i < 9 << 20; i++)
		big[i] = (char)draw();
	empty = ws_writer_string(writer, "", 0);
	nuls = ws_writer_string(writer, "a\0b", 3);
	for (int i = 0; i < 3000; i++)
		id[i] = ws_writer_string(writer, text,
					 (size_t)snprintf(text, sizeof(text), "name %d", i));
	long_id = ws_writer_string(writer, big, 9 << 20);
	for (int i = 0; i < 3000; i++)
		assert_int_equal(id[i], ws_writer_string(writer, text,
							 (size_t)snprintf(text, sizeof(text),
									  "name %d", i)));
	assert_int_equal(empty, 1);
	assert_int_equal(ws_writer_string(writer, "", 0), empty);
	assert_int_equal(ws_writer_string(writer, "a\0b", 3), nuls);
	assert_int_not_equal(ws_writer_string(writer, "a\0c", 3), nuls);
	assert_int_equal(ws_writer_close(writer, &err), 0);

	struct ws_report *report = open_or_fail(path);

	for (int i = 0; i < 3000; i++) {
		snprintf(text, sizeof(text), "name %d", i);
		assert_string_equal(ws_report_string(report, id[i], &len), text);
		assert_int_equal(len, strlen(text));
		assert_int_equal(ws_report_string_key(report, id[i]), id[i]);
	}
	assert_memory_equal(ws_report_string(report, long_id, &len), big, 9 << 20);
	assert_int_equal(len, 9 << 20);
	assert_memory_equal(ws_report_string(report, nuls, &len), "a\0b", 4);
	assert_int_equal(len, 3);
	assert_string_equal(ws_report_string(report, empty, &len), "");
	assert_int_equal(len, 0);
	assert_string_equal(ws_report_string(report, 0, &len), "");
	assert_string_equal(ws_report_string(report, 4000000000u, NULL), "");
	assert_int_equal(ws_report_string_count(report), 3004);
	ws_report_close(report);
	free(big);
	free(path);
}

/* Strings and keys asked for by several threads at once, none of which are there yet. */
static void *ask_report(void *r)
{
	uintptr_t wrong = 0;

	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t id = 1 + i * 199 % ws_report_string_count(r);
		const char *text = ws_report_string(r, id, NULL),
			   *t = ws_report_string(r, ws_report_string_key(r, id), NULL);

		wrong += *text != 's' || strcmp(text, t);
	}
	return (void *)wrong;
}

static void read_together(struct ws_report *report)
{
	pthread_t thread[6];
	void *wrong;

	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ask_report, report), 0);
	for (int i = 0; i < 6; i++) {
		pthread_join(thread[i], &wrong);
		assert_null(wrong);
	}
}

/* More distinct strings than the writer remembers: some get a second id, and keys bring them
 * together. */
static void dictionary_starts_over(void **state)
{
	enum { MANY = 600000 };
	char *path = in_folder("over.wsrep"), text[32];
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, NULL, &err);
	uint32_t first[100], second[100];

	(void)state;
	for (int i = 0; i < MANY; i++) {
		uint32_t id = ws_writer_string(writer, text,
					       (size_t)snprintf(text, sizeof(text), "s%d", i));

		if (i < 100)
			first[i] = id;
	}
	for (int i = 0; i < 100; i++)
		second[i] = ws_writer_string(writer, text,
					     (size_t)snprintf(text, sizeof(text), "s%d", i));
	assert_int_equal(ws_writer_close(writer, &err), 0);
	assert_int_not_equal(first[7], second[7]);

	struct ws_report *report = open_or_fail(path);

	read_together(report);

	for (int i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "s%d", i);
		assert_string_equal(ws_report_string(report, first[i], NULL), text);
		assert_string_equal(ws_report_string(report, second[i], NULL), text);
		assert_int_equal(ws_report_string_key(report, first[i]),
				 ws_report_string_key(report, second[i]));
		assert_int_equal(ws_report_string_key(report, first[i]) ==
					 ws_report_string_key(report, first[(i + 1) % 100]),
				 0);
	}
	ws_report_close(report);
	free(path);
}

/* ---- segments ---- */

static void segments_roll(void **state)
{
	struct ws_writer_opts opts = {.overwrite = true, .segment_ns = 2000000};
	char *path = in_folder("segments.wsrep");
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, &opts, &err);
	struct timespec pause = {0, 3000000};

	(void)state;
	for (uint64_t i = 0; i < 20; i++) {
		struct ws_row_nvtx row = {.start = 100 + i, .end = 105 + i, .thread = 1};

		ws_writer_add(writer, WS_TABLE_nvtx, &row);
		nanosleep(&pause, NULL);
		ws_writer_commit(writer);
	}
	assert_int_equal(ws_writer_close(writer, &err), 0);
	struct ws_report *report = open_or_fail(path);

	assert_int_equal(ws_report_count_rows(report, WS_TABLE_nvtx), 20);
	assert_true(ws_report_count_blocks(report, WS_TABLE_nvtx) >= 10);
	assert_true(ws_report_is_complete(report));
	ws_report_close(report);
	free(path);
}

/* ---- codecs alone ---- */

static void ints_come_back(void **state)
{
	struct ws_packer packer;
	struct ws_unpacker unpacker;
	static uint64_t in[5000], out[5000], scratch[5000];

	(void)state;
	ws_packer_init(&packer, 5000);
	ws_unpacker_init(&unpacker);
	ws_unpacker_reserve(&unpacker, 5000);
	for (int round = 0; round < (sanitized ? 120 : 600); round++) {
		uint32_t n = 1 + (uint32_t)below(5000), shift = (uint32_t)below(64),
			 rare = 1 + (uint32_t)below(400);
		struct ws_column_head head = {0};
		struct ws_bytes bytes = {0};

		for (uint32_t i = 0; i < n; i++)
			in[i] = below(rare) ? draw() >> shift : draw() >> below(64);
		memcpy(scratch, in, n * 8);
		ws_ints_put(&packer, &bytes, &head, scratch, n, 0);
		struct ws_cut cut = {bytes.bytes, bytes.bytes + bytes.len};

		assert_true(ws_ints_get(&unpacker, &cut, &head, out, n));
		assert_ptr_equal(cut.bytes, cut.end);
		assert_memory_equal(in, out, n * 8);
		for (size_t k = 0; k < bytes.len && k < 40;
		     k++) { /* cut short: refused, and nothing beyond the end is touched */
			cut = (struct ws_cut){bytes.bytes, bytes.bytes + k};
			assert_false(ws_ints_get(&unpacker, &cut, &head, out, n));
		}
		ws_bytes_free(&bytes);
	}
	ws_packer_free(&packer);
	ws_unpacker_free(&unpacker);
}

static void test_sorting(void **state)
{
	struct ws_sorter sorter = {0};
	uint64_t track[3000], start[3000], end[3000];

	(void)state;
	for (int round = 0; round < (sanitized ? 80 : 400); round++) {
		uint32_t n = 1 + (uint32_t)below(3000), tracks = 1 + (uint32_t)below(4),
			 spread = 1 + (uint32_t)below(5000);
		bool wild = !below(4), nearly = below(2);

		for (uint32_t i = 0; i < n; i++) {
			track[i] = wild ? draw() : below(tracks);
			start[i] = wild ? draw() : nearly ? i * 3 + below(8) : below(spread);
			end[i] = below(5) ? start[i] + below(4) : WS_NO_TIME;
		}
		const uint32_t *o = ws_find_row_order(&sorter, track, start, end, n);

		for (uint32_t i = 1; i < n; i++) {
			uint32_t a = o ? o[i - 1] : i - 1, b = o ? o[i] : i;

			assert_true(track[a] < track[b] ||
				    (track[a] == track[b] &&
				     (start[a] < start[b] ||
				      (start[a] == start[b] &&
				       (end[a] > end[b] || (end[a] == end[b] && a < b))))));
		}
	}
	ws_sorter_free(&sorter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ints_come_back),	  cmocka_unit_test(test_sorting),
		cmocka_unit_test(tables_by_profile),	  cmocka_unit_test(tables_at_random),
		cmocka_unit_test(small_blocks),		  cmocka_unit_test(big_blocks),
		cmocka_unit_test(nested_threads),	  cmocka_unit_test(storm_is_small),
		cmocka_unit_test(strings_come_back),	  cmocka_unit_test(segments_roll),
		cmocka_unit_test(jitter_is_small),	  cmocka_unit_test(stepped_clocks),
		cmocka_unit_test(dictionary_starts_over),
	};
	const char *sanitize = getenv("WS_TEST_SANITIZE");
	int rc;

	sanitized = sanitize;
	/* Only strings are read by several threads; the thread sanitizer has nothing to find in the
	 * others, and makes them some twenty times slower. */
	if (sanitize && !strcmp(sanitize, "thread"))
		cmocka_set_test_filter("strings*");
	make_folder();
	rc = cmocka_run_group_tests_name("store-roundtrip", tests, NULL, NULL);
	end_folder();
	return rc;
}
