/*
 * test_kill.c - a recorder killed at any moment: every report opens, holds exactly the rows up to
 * some moment not before the last commit, with their strings, and recover closes it.
 *
 * The writer is a forked child that adds numbered rows; shared memory says how far it has begun and
 * committed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/ticks.h"
#include "store/follow.h"
#include "store/journal.h"
#include "util.h"

enum { ROUNDS = 400, BUDGET_MS = 10000, MOST_ROWS = 1000000 };

struct progress {
	uint64_t ready, begun[2], committed[2];
};

static struct progress *shared;

static uint32_t text_of(struct ws_writer *writer, uint64_t i)
{
	char text[80];
	/* Some repeat, some never do, some are long: the dictionary is flushed on its own account
	 * now and then. */
	int n = i % 3 ? snprintf(text, sizeof(text), "name %llu", (unsigned long long)(i % 5))
		      : snprintf(text, sizeof(text), "number %llu with a tail to fill the stage",
				 (unsigned long long)i);

	return ws_writer_string(writer, text, (size_t)n);
}

static bool text_is_right(const char *word, uint64_t i)
{
	char text[80];

	if (i % 3)
		snprintf(text, sizeof(text), "name %llu", (unsigned long long)(i % 5));
	else
		snprintf(text, sizeof(text), "number %llu with a tail to fill the stage",
			 (unsigned long long)i);
	return !strcmp(word, text);
}

static void write_until_killed(const char *path, uint32_t block_rows)
{
	struct ws_writer_opts opts = {
		.block_rows = block_rows, .overwrite = true, .segment_ns = 3000000};
	struct ws_writer *writer = ws_writer_create(path, &opts, NULL);
	uint64_t n[2] = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!writer)
		_exit(1);
	__atomic_store_n(&shared->ready, 1, __ATOMIC_SEQ_CST);
	while (n[0] < MOST_ROWS) {
		for (uint64_t k = below(200); k; k--) {
			uint32_t text = text_of(writer, n[0]);

			__atomic_store_n(&shared->begun[0], n[0] + 1, __ATOMIC_SEQ_CST);
			ws_writer_add(writer, WS_TABLE_nvtx,
				      &(struct ws_row_nvtx){.start = 5000 - n[0] % 7 + n[0] * 10,
							    .end = 6000 + n[0] * 10,
							    .thread = 1 + n[0] % 3,
							    .payload = n[0],
							    .text = text});
			n[0]++;
			if (!below(10)) {
				__atomic_store_n(&shared->begun[1], n[1] + 1, __ATOMIC_SEQ_CST);
				ws_writer_add(writer, WS_TABLE_osrt,
					      &(struct ws_row_osrt){.start = n[1],
								    .end = n[1] + 1,
								    .result = (int64_t)n[1]});
				n[1]++;
			}
		}
		ws_writer_commit(writer);
		__atomic_store_n(&shared->committed[0], n[0], __ATOMIC_SEQ_CST);
		__atomic_store_n(&shared->committed[1], n[1], __ATOMIC_SEQ_CST);
	}
	for (;;)
		pause();
}

/* ---- looking at what is left ---- */

struct seen {
	const struct ws_report *report;
	uint8_t *seen;
	uint64_t limit, rows;
	int number; /* column that numbers the rows */
	bool texts, wrong;
};

static int see_batch(void *ctx, const struct ws_batch *batch)
{
	struct seen *seen = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t k = batch->col[seen->number][i];

		if (k >= seen->limit || seen->seen[k]++ ||
		    (seen->texts &&
		     !text_is_right(ws_report_string(seen->report,
						     (uint32_t)batch->col[ws_nvtx_text][i], NULL),
				    k)))
			seen->wrong = true;
	}
	seen->rows += batch->rows;
	return seen->wrong;
}

static uint64_t expect_prefix(const struct ws_report *report, enum ws_table table, int number,
			      uint64_t begun, uint64_t committed)
{
	struct seen seen = {.report = report,
			    .seen = ws_calloc(begun + 1, 1),
			    .limit = begun,
			    .number = number,
			    .texts = table == WS_TABLE_nvtx};
	struct ws_scan scan = {
		.table = table, .columns = UINT64_MAX, .time_max = UINT64_MAX, .workers = 1};
	uint64_t damaged;

	ws_run_scan(report, &scan, see_batch, &seen, &damaged);
	if (seen.wrong)
		fail_msg("%s: a row is wrong or there twice", ws_tables[table].name);
	for (uint64_t i = 0; i < seen.rows; i++)
		if (!seen.seen[i])
			fail_msg("%s: row %llu of %llu is missing", ws_tables[table].name,
				 (unsigned long long)i, (unsigned long long)seen.rows);
	assert_int_equal(damaged, 0);
	assert_true(seen.rows >= committed);
	free(seen.seen);
	return seen.rows;
}

static uint64_t expect_report(const char *path)
{
	struct ws_report *report = open_or_fail(path);
	uint64_t rows;

	if (!ws_report_is_complete(report))
		for (size_t i = 0; ws_report_get_damage(report, i); i++)
			if (!strstr(ws_report_get_damage(report, i), "the recorder was killed"))
				fail_msg("%s", ws_report_get_damage(report, i));
	rows = expect_prefix(report, WS_TABLE_nvtx, ws_nvtx_payload, shared->begun[0],
			     shared->committed[0]);
	rows += expect_prefix(report, WS_TABLE_osrt, ws_osrt_result, shared->begun[1],
			      shared->committed[1]);
	ws_report_close(report);
	return rows;
}

static void expect_recovered(const char *path, uint64_t rows)
{
	char *journal = ws_journal_path(path);
	uint64_t recovered = 0;
	struct ws_err err;

	if (ws_report_recover(path, NULL, &recovered, &err)) {
		if (rows || !strstr(err.msg, "nothing of"))
			fail_msg("%s", err.msg);
		free(journal);
		return; /* killed before anything was committed: there is nothing to recover */
	}
	assert_int_equal(recovered, rows);
	assert_int_not_equal(access(journal, F_OK), 0);
	struct ws_report *report = open_or_fail(path);

	assert_true(ws_report_is_complete(report));
	ws_report_close(report);
	assert_int_equal(expect_report(path), rows);
	free(journal);
}

static pid_t start_writer(const char *path, uint32_t block_rows)
{
	pid_t pid;

	memset(shared, 0, sizeof(*shared));
	pid = fork();
	if (!pid) {
		seed((uint64_t)getpid());
		write_until_killed(path, block_rows);
	}
	assert_true(pid > 0);
	while (!__atomic_load_n(&shared->ready, __ATOMIC_SEQ_CST))
		if (waitpid(pid, NULL, WNOHANG) == pid)
			fail_msg("the writer could not start");
	return pid;
}

static void nap_us(uint64_t us)
{
	struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	nanosleep(&time, NULL);
}

static void kill_writer(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void killed_at_random(void **state)
{
	static const uint32_t blocks[] = {7, 50, 300, 4000};
	char *path = in_folder("killed.wsrep");
	uint64_t began = ws_read_raw_ns(), most = 0;
	int i;

	(void)state;
	for (i = 0; i < ROUNDS && (ws_read_raw_ns() - began) / 1000000 < BUDGET_MS; i++) {
		pid_t pid = start_writer(path, blocks[i % 4]);
		uint64_t rows;

		nap_us(below(i % 8 ? 4000 : 20000));
		kill_writer(pid);
		rows = expect_report(path);
		most = ws_max(rows, most);
		if (i % 3 == 0)
			expect_recovered(path, rows);
	}
	print_message("# %d kills, up to %llu rows\n", i, (unsigned long long)most);
	assert_true(most > 1000);
	free(path);
}

/* Reading while the writer runs: always a prefix, and never less than what was committed before. */
static void read_alive(void **state)
{
	char *path = in_folder("alive.wsrep");
	pid_t pid = start_writer(path, 500);
	uint64_t last = 0;
	struct ws_err err;

	(void)state;
	for (int i = 0; i < 60; i++) {
		uint64_t committed = __atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST), rows;
		struct ws_report *report = open_or_fail(path);

		assert_non_null(strstr(ws_report_get_damage(report, 0), "still running"));
		assert_null(ws_report_get_damage(report, 1));
		rows = expect_prefix(report, WS_TABLE_nvtx, ws_nvtx_payload,
				     __atomic_load_n(&shared->begun[0], __ATOMIC_SEQ_CST),
				     committed);
		assert_true(rows >= last);
		last = rows;
		ws_report_close(report);
		nap_us(1000);
	}
	assert_int_equal(ws_report_recover(path, NULL, NULL, &err), -1);
	assert_non_null(strstr(err.msg, "still being recorded"));
	kill_writer(pid);
	free(path);
}

/* What a follower has received of one table. */
struct followed {
	struct ws_follow *follow;
	enum ws_table table;
	int number, text; /* columns */
	uint8_t *seen;	  /* by number */
	uint64_t rows;
};

static void check_next_rows(void *ctx, const struct ws_new_rows *rows)
{
	struct followed *followed = ctx;

	assert_int_equal(rows->table, followed->table);
	assert_null(rows->column[ws_nvtx_thread]); /* not asked for */
	for (size_t i = 0; i < rows->count; i++) {
		uint64_t number = rows->column[followed->number][i];
		size_t len;
		const char *text;

		assert_true(number < MOST_ROWS);
		assert_int_equal(followed->seen[number]++, 0);
		followed->rows++;
		if (number % 64)
			continue;
		text = ws_follow_string(followed->follow, (uint32_t)rows->column[followed->text][i],
					&len);
		assert_int_equal(strlen(text), len);
		assert_true(text_is_right(text, number));
	}
}

/* Following while the writer runs and until it is dead: each row once, none left out, those of a
 * moment not before the last commit. */
static void followed_alive(void **state)
{
	static const uint32_t blocks[] = {500, 5000, 65536};
	char *path = in_folder("followed.wsrep");

	(void)state;
	for (int round = 0; round < 3; round++) {
		pid_t pid = start_writer(path, blocks[round]);
		struct followed followed = {.table = WS_TABLE_nvtx,
					    .number = ws_nvtx_payload,
					    .text = ws_nvtx_text,
					    .seen = ws_calloc(MOST_ROWS, 1)};
		struct ws_follow_opts opts = {.from_start[WS_TABLE_nvtx] = true};
		struct ws_report *report;
		struct ws_err err;
		uint64_t committed;

		opts.columns[WS_TABLE_nvtx] =
			UINT64_C(1) << ws_nvtx_payload | UINT64_C(1) << ws_nvtx_text;
		followed.follow = ws_follow_open(path, &opts, &err);
		assert_non_null(followed.follow);
		for (int i = 0; i < 40; i++) {
			committed = __atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST);
			assert_int_equal(ws_follow_read(followed.follow, check_next_rows, &followed,
							&err),
					 WS_FOLLOW_LIVE);
			assert_true(followed.rows >= committed);
			assert_int_equal(followed.rows,
					 ws_follow_count_rows(followed.follow, WS_TABLE_nvtx));
			nap_us(2000);
		}
		kill_writer(pid);
		assert_int_equal(ws_follow_read(followed.follow, check_next_rows, &followed, &err),
				 WS_FOLLOW_FINISHED);
		for (uint64_t i = 0; i < followed.rows; i++)
			assert_true(followed.seen[i]);
		assert_true(followed.rows >= shared->committed[0]);
		report = open_or_fail(path);
		assert_int_equal(followed.rows, ws_report_count_rows(report, WS_TABLE_nvtx));
		ws_report_close(report);
		free(followed.seen);
		ws_follow_close(followed.follow);
	}
	free(path);
}

static bool says_damage(const struct ws_report *report, const char *word)
{
	for (size_t i = 0; ws_report_get_damage(report, i); i++)
		if (strstr(ws_report_get_damage(report, i), word))
			return true;
	return false;
}

/* Without its journal a killed report is what its blocks say, and it is said that the rest is lost:
 * also where the kill left half a block at the end. */
static void journal_gone(void **state)
{
	char *path = in_folder("gone.wsrep"), *journal = ws_journal_path(path),
	     *to = in_folder("to.wsrep");
	pid_t pid = start_writer(path, 100);
	struct ws_err err;
	uint64_t rows;

	(void)state;
	while (__atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST) < 1000)
		nap_us(100);
	kill_writer(pid);
	unlink(journal);
	struct ws_report *report = open_or_fail(path);

	assert_false(ws_report_is_complete(report));
	assert_true(says_damage(report, "lost"));
	rows = expect_prefix(report, WS_TABLE_nvtx, ws_nvtx_payload, shared->begun[0], 0);
	ws_report_close(report);
	assert_true(rows > 0);
	assert_int_equal(ws_report_recover(path, to, NULL, &err), 0);
	report = open_or_fail(to);
	assert_true(ws_report_is_complete(report));
	assert_int_equal(ws_report_count_rows(report, WS_TABLE_nvtx), rows);
	ws_report_close(report);
	assert_int_equal(ws_report_recover(path, to, NULL, &err), -1); /* does not replace */

	/* the beginning of a block, which a kill in the midst of a write leaves */
	FILE *file = fopen(path, "ab");

	assert_int_equal(fwrite(WS_BLOCK_MAGIC, 1, 8, file), 8);
	assert_int_equal(fclose(file), 0);
	report = open_or_fail(path);
	assert_true(says_damage(report, "an incomplete block"));
	assert_true(says_damage(report, "lost"));
	assert_int_equal(expect_prefix(report, WS_TABLE_nvtx, ws_nvtx_payload, shared->begun[0], 0),
			 rows);
	ws_report_close(report);
	free(path);
	free(journal);
	free(to);
}

/* A journal with any byte wrong: never a wrong row. */
static void journal_damaged(void **state)
{
	char *path = in_folder("jd.wsrep"), *journal = ws_journal_path(path), *good, *from;
	pid_t pid = start_writer(path, 50);
	size_t n;

	(void)state;
	while (__atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST) < 2000)
		nap_us(100);
	kill_writer(pid);
	good = read_file(journal, &n);
	from = ws_malloc(n);
	for (int i = 0; i < 200; i++) {
		size_t at = i < 150 ? below(sizeof(struct ws_journal_head)) : below(n),
		       cut = i % 10 ? n : below(n);
		struct ws_report *report;

		memcpy(from, good, n);
		from[at] ^= (char)(1 << below(8));
		write_file(journal, from, cut);
		report = open_or_fail(path);
		assert_non_null(ws_report_get_damage(report, 0));
		ws_report_close(report);
	}
	free(from);
	free(good);
	free(journal);
	free(path);
}

/* How many rows of the storm are in the report at `path`. */
static uint64_t count_storm(const char *path)
{
	struct ws_report *report = open_or_fail(path);
	uint64_t rows = ws_report_count_rows(report, WS_TABLE_nvtx);

	ws_report_close(report);
	return rows;
}

/* What a journal that was cut still holds is read: the stages before the cut, and of the one that
 * was cut the rows before it. */
static void journal_cut(void **state)
{
	char *path = in_folder("cut.wsrep"), *journal = ws_journal_path(path), *good;
	pid_t pid = start_writer(path, 50);
	uint64_t whole, last;
	size_t n;

	(void)state;
	while (__atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST) < 2000)
		nap_us(100);
	kill_writer(pid);
	good = read_file(journal, &n);
	whole = last = count_storm(path);
	assert_true(whole >= 2000);
	write_file(journal, good, n - n / 100);
	assert_true(count_storm(path) == whole);
	for (size_t part = 8; part-- > 0;) {
		uint64_t rows;

		write_file(journal, good, n / 8 * part);
		rows = count_storm(path);
		assert_true(rows <= last);
		last = rows;
	}
	free(good);
	free(journal);
	free(path);
}

/* A journal that is made shorter while it is written loses nothing: it is written anew. */
static void journal_truncated(void **state)
{
	char *path = in_folder("short.wsrep"), *journal = ws_journal_path(path);
	pid_t pid = start_writer(path, 50);
	uint64_t committed;

	(void)state;
	for (int i = 0; i < 5; i++) {
		committed = __atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST);
		assert_int_equal(truncate(journal, i * 3000), 0);
		while (__atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST) < committed + 500)
			nap_us(100);
	}
	committed = __atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST);
	kill_writer(pid);
	assert_true(count_storm(path) >= committed);
	free(journal);
	free(path);
}

/* Where no event is left, nothing is written, and that is an error. */
static void nothing_to_recover(void **state)
{
	char *path = in_folder("hopeless.wsrep"), *journal = ws_journal_path(path),
	     *to = in_folder("recovered.wsrep"), *good;
	pid_t pid = start_writer(path, 50);
	struct ws_err err = {""};
	size_t n;

	(void)state;
	while (__atomic_load_n(&shared->committed[0], __ATOMIC_SEQ_CST) < 2000)
		nap_us(100);
	kill_writer(pid);
	unlink(journal);
	good = read_file(path, &n);
	write_file(path, good, 200);
	assert_int_not_equal(ws_report_recover(path, to, NULL, &err), 0);
	assert_non_null(strstr(err.msg, "recovered"));
	assert_int_not_equal(access(to, F_OK), 0);
	assert_int_not_equal(ws_report_recover(path, NULL, NULL, &err), 0);
	free(good);
	free(journal);
	free(path);
	free(to);
}

/* What was synced needs no journal. */
static void synced(void **state)
{
	char *path = in_folder("synced.wsrep"), *journal = ws_journal_path(path);
	struct ws_writer_opts opts = {.overwrite = true, .durable = true};
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		struct ws_writer *writer = ws_writer_create(path, &opts, NULL);

		for (uint64_t i = 0; writer && i < 700; i++) {
			ws_writer_add(writer, WS_TABLE_nvtx,
				      &(struct ws_row_nvtx){.start = i, .end = i + 1});
			if (i == 499)
				ws_writer_sync(writer);
		}
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(count_storm(path) == 500);
	unlink(journal);
	assert_true(count_storm(path) == 500);
	free(journal);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_at_random),
		cmocka_unit_test(read_alive),
		cmocka_unit_test(followed_alive),
		cmocka_unit_test(journal_gone),
		cmocka_unit_test(journal_damaged),
		cmocka_unit_test(journal_cut),
		cmocka_unit_test(journal_truncated),
		cmocka_unit_test(nothing_to_recover),
		cmocka_unit_test(synced),
	};
	int rc;

	make_folder();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	rc = cmocka_run_group_tests_name("store-kill", tests, NULL, NULL);
	end_folder();
	return rc;
}
