/*
 * test_collections.c - many collections of one session, by commands of another thread: each report
 * is whole, has exactly the ranges that lay in it, and leaves nothing behind; what is refused is
 * refused with a sentence.
 *
 * The recorder finds the hooks beside its program: the test runs as a link to itself in a folder
 * where they are.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/ticks.h"
#include "control/mailbox.h"
#include "numbers.h"
#include "query/query.h"
#include "record/record.h"

static char folder[256], target[4096], numbers_path[300];
static struct numbers *numbers;

/* ---- a session in a thread of its own ---- */

struct running {
	struct ws_record_opts options;
	struct ws_record_result result;
	struct ws_err err;
	pthread_t thread;
	char *argv[5];
	int rc;
};

static void *record(void *arg)
{
	struct running *running = arg;

	running->rc = ws_record(&running->options, &running->result, &running->err);
	return NULL;
}

static void begin_session(struct running *running, int threads)
{
	char *words[] = {target, numbers_path, threads == 1 ? "1" : "3", "100", NULL};

	numbers->stop = numbers->ready = 0;
	for (int i = 0; i < NUMBERS_THREADS; i++)
		numbers->thread[i].count = 0;
	memset(running, 0, sizeof(*running));
	memcpy(running->argv, words, sizeof(words));
	running->options =
		(struct ws_record_opts){.argv = running->argv,
					.plan = {.capture = WS_CAPTURE_USER, .interactive = true},
					.nvtx = true,
					.mailbox = ws_mailbox_new(),
					.inherit_environment = true,
					.wait_all = true,
					.quiet = true,
					.ring_bytes = 64 << 20,
					.command_line = running->argv};
	assert_int_equal(pthread_create(&running->thread, NULL, record, running), 0);
	while (!numbers->ready)
		usleep(1000);
}

static void end_session(struct running *running, size_t reports)
{
	numbers->stop = 1;
	pthread_join(running->thread, NULL);
	ws_mailbox_close(running->options.mailbox, "it is over");
	ws_mailbox_free(running->options.mailbox);
	if (running->rc)
		fail_msg("%s", running->err.msg);
	assert_int_equal(running->result.status, 7);
	assert_int_equal(running->result.report_count, reports);
	for (size_t i = 0; i < running->result.report_count; i++)
		free(running->result.reports[i]);
	free(running->result.reports);
}

static struct ws_control_reply send(struct running *running, enum ws_event_kind kind,
				    const char *output)
{
	struct ws_control_request request = {.kind = kind, .output = output, .overwrite = true};
	static uint32_t turn;
	const uint64_t asked[] = {0, ws_read_raw_ns(), 1, UINT64_MAX};
	struct ws_control_reply reply;

	request.asked = asked[turn++ / 2 % 4]; /* when it was is checked */
	ws_mailbox_request(running->options.mailbox, &request, &reply);
	return reply;
}

static struct ws_control_reply send_well(struct running *running, enum ws_event_kind kind,
					 const char *output)
{
	struct ws_control_reply reply = send(running, kind, output);

	if (!reply.done)
		fail_msg("%s", reply.message);
	return reply;
}

/* ---- reports ---- */

static uint64_t *decode(const struct ws_report *report, enum ws_table table, size_t block,
			uint32_t column, uint32_t rows)
{
	uint64_t *out[WS_MAX_COLUMNS] = {0};

	out[column] = ws_calloc(rows + 1, sizeof(uint64_t));
	assert_int_equal(
		ws_report_decode_block(report, table, block, UINT64_C(1) << column, out, NULL), 0);
	return out[column];
}

static struct ws_report *open_whole(const char *path)
{
	struct ws_err err;
	struct ws_report *report = ws_report_open_plain(path, &err);

	if (!report)
		fail_msg("%s", err.msg);
	assert_true(ws_report_is_complete(report));
	assert_int_equal(ws_report_verify(report, NULL, NULL), 0);
	return report;
}

/* The last row of the collection has its end. */
static void read_window(const struct ws_report *report, uint64_t *from, uint64_t *to)
{
	uint32_t rows = ws_report_block_info(report, WS_TABLE_collection, 0).rows;
	uint64_t *start = decode(report, WS_TABLE_collection, 0, ws_collection_start, rows),
		 *end = decode(report, WS_TABLE_collection, 0, ws_collection_end, rows);

	assert_int_equal(ws_report_count_blocks(report, WS_TABLE_collection), 1);
	*from = start[0];
	*to = 0;
	for (uint32_t i = 0; i < rows; i++) {
		assert_int_equal(start[i], *from);
		if (end[i] != WS_NO_TIME)
			*to = end[i];
	}
	assert_true(*to > *from);
	free(start);
	free(end);
}

/* Each range that must be in the report is there once, and none that must not. Those that were cut
 * by its ends may have no end. */
static uint32_t check_ranges(const char *path)
{
	struct ws_report *report = open_whole(path);
	uint8_t *found[NUMBERS_THREADS];
	uint32_t inside = 0;
	uint64_t from, to;

	read_window(report, &from, &to);
	for (int i = 0; i < NUMBERS_THREADS; i++)
		found[i] = ws_calloc(NUMBERS_MOST, 1);
	for (size_t b = 0; b < ws_report_count_blocks(report, WS_TABLE_nvtx); b++) {
		uint32_t rows = ws_report_block_info(report, WS_TABLE_nvtx, b).rows;
		uint64_t *text = decode(report, WS_TABLE_nvtx, b, ws_nvtx_text, rows);

		for (uint32_t i = 0; i < rows; i++) {
			unsigned thread, number;

			assert_int_equal(sscanf(ws_report_string(report, (uint32_t)text[i], NULL),
						"%u %u", &thread, &number),
					 2);
			found[thread][number]++;
		}
		free(text);
	}
	for (int i = 0; i < NUMBERS_THREADS; i++) {
		uint32_t count = __atomic_load_n(&numbers->thread[i].count, __ATOMIC_ACQUIRE);

		for (uint32_t n = 0; n < count; n++) {
			uint64_t first = numbers->thread[i].range[n].before_begin,
				 begun = numbers->thread[i].range[n].after_begin,
				 last = numbers->thread[i].range[n].before_end,
				 ended = numbers->thread[i].range[n].after_end;

			if (last >= from && begun <= to && found[i][n] != 1)
				fail_msg("range %d %u is there %u times: %llu to %llu, not %llu to "
					 "%llu",
					 i, n, found[i][n], (unsigned long long)begun,
					 (unsigned long long)last, (unsigned long long)from,
					 (unsigned long long)to);
			if ((ended < from || first > to) && found[i][n])
				fail_msg("range %d %u does not belong there", i, n);
			inside += found[i][n];
		}
		free(found[i]);
	}
	assert_true(ws_report_count_rows(report, WS_TABLE_process) == 1);
	assert_true(ws_report_count_rows(report, WS_TABLE_thread) >= 1);
	ws_report_close(report);
	return inside;
}

static int count_entries(const char *where, const char *part)
{
	DIR *dir = opendir(where);
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir)))
		n += strstr(entry->d_name, part) != NULL;
	closedir(dir);
	return n;
}

/* Until something of the collection that runs has been read: on a busy machine the target may not
 * have had a core so far. */
static void await_events(struct running *running)
{
	struct ws_control_status status = {.events = 0};

	for (int i = 0; status.events < 100 && i < 60000; i++) {
		usleep(1000);
		ws_mailbox_status(running->options.mailbox, &status);
	}
	assert_true(status.events >= 100);
}

/* ---- tests ---- */

static void fifty_collections(void **state)
{
	struct running running;
	uint32_t inside = 0;
	int files = 0;
	char *path = ws_format("%s/again.wsrep", folder);

	(void)state;
	begin_session(&running, 3);
	for (int i = 0; i < 50; i++) {
		struct ws_control_reply reply = send_well(&running, WS_CONTROL_START, path);

		assert_string_equal(reply.report, path);
		usleep((useconds_t)(i % 5) * 3000);
		reply = send_well(&running, WS_CONTROL_STOP, NULL);
		assert_string_equal(reply.report, path);
		inside += check_ranges(path);
		if (i == 5)
			files = count_entries("/proc/self/fd", "");
	}
	assert_int_equal(count_entries("/proc/self/fd", ""), files);
	assert_true(inside > 1000);
	end_session(&running, 50);
	assert_int_equal(count_entries(folder, "wsrep"), 1);
	unlink(path);
	free(path);
}

static void refused_and_discarded(void **state)
{
	struct running running;
	struct ws_control_status status;
	struct ws_control_reply reply;
	char *first = ws_format("%s/first", folder), *second = ws_format("%s/second", folder),
	     *bad = ws_format("%s/none/x", folder);

	(void)state;
	begin_session(&running, 1);
	assert_false(send(&running, WS_CONTROL_STOP, NULL).done);
	assert_false(send(&running, WS_CONTROL_CANCEL, NULL).done);
	reply = send(&running, WS_CONTROL_START, bad);
	assert_false(reply.done);
	assert_non_null(strstr(reply.message, "none/x"));
	send_well(&running, WS_CONTROL_START, first);
	assert_non_null(
		strstr(send(&running, WS_CONTROL_START, second).message, "running already"));
	assert_int_equal(count_entries(folder, "second"), 0);
	ws_mailbox_status(running.options.mailbox, &status);
	reply = send_well(&running, WS_CONTROL_CANCEL, NULL);
	assert_string_equal(reply.report, "");
	assert_int_equal(count_entries(folder, "first"), 0);
	send_well(&running, WS_CONTROL_START, first);
	await_events(&running);
	ws_mailbox_status(running.options.mailbox, &status);
	assert_int_equal(status.state, WS_MACHINE_COLLECTING);
	assert_non_null(strstr(status.report, "first.wsrep"));
	reply = send_well(&running, WS_CONTROL_STOP, NULL);
	assert_true(check_ranges(reply.report) > 0);
	unlink(reply.report);
	/* The target ends in a collection. */
	reply = send_well(&running, WS_CONTROL_START, second);
	await_events(&running);
	end_session(&running, 2);
	assert_true(check_ranges(reply.report) > 0);
	unlink(reply.report);
	assert_int_equal(count_entries(folder, "wsrep"), 0);
	assert_int_equal(count_entries(folder, "journal"), 0);
	free(first);
	free(second);
	free(bad);
}

/* ---- set-up ---- */

static void make_numbers(void)
{
	int fd;

	snprintf(numbers_path, sizeof(numbers_path), "%s/numbers", folder);
	fd = open(numbers_path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*numbers)))
		exit(1);
	numbers = mmap(NULL, sizeof(*numbers), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
}

static void link_into(const char *from, const char *name)
{
	char *path = ws_format("%s/%s", folder, name), *whole = realpath(from, NULL);

	if (!whole || symlink(whole, path))
		perror(from);
	free(whole);
	free(path);
}

/* Run again from a folder where the hooks are: argv is PROGRAM HOOKS TARGET. */
static int run_beside_hooks(char **argv)
{
	char *hooks = ws_format("%s/libwarpsight-hooks.so", argv[1]),
	     *cuda = ws_format("%s/libwarpsight-cuda.so", argv[1]), self[4096] = "",
	     *copy = ws_format("%s/test", folder);
	char *words[] = {copy, argv[2], folder, NULL};
	int status;

	link_into(hooks, "libwarpsight-hooks.so");
	link_into(cuda, "libwarpsight-cuda.so");
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 1;
	status = link(self, copy);
	if (status) {
		char *command = ws_format("cp '%s' '%s'", self, copy);

		status = system(command);
		free(command);
	}
	if (!status)
		execv(copy, words);
	perror(copy);
	return 1;
}

static void remove_folder(void)
{
	char *command = ws_format("rm -rf '%s'", folder);

	if (system(command))
		perror(folder);
	free(command);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fifty_collections),
		cmocka_unit_test(refused_and_discarded),
	};
	char *whole;
	int rc;

	if (argc != 3)
		return 2;
	if (strncmp(argv[2], "/tmp/ws-collections-", 20)) {
		snprintf(folder, sizeof(folder), "/tmp/ws-collections-XXXXXX");
		if (!mkdtemp(folder))
			return 1;
		return run_beside_hooks(argv);
	}
	snprintf(folder, sizeof(folder), "%s", argv[2]);
	whole = realpath(argv[1], NULL);
	snprintf(target, sizeof(target), "%s", whole);
	free(whole);
	make_numbers();
	rc = cmocka_run_group_tests_name("control-collections", tests, NULL, NULL);
	remove_folder();
	return rc;
}
