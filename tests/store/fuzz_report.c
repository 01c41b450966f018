/*
 * fuzz_report.c - the report reader against hostile files: it may refuse, leave out and complain,
 * and must not crash, hang or read beyond what is there.
 *
 * The input's first byte chooses a base report (or none: then the rest is the file itself) and what
 * happens to it; what follows are edits of five bytes each: a place, how, and a value. Unless told
 * otherwise, all checksums are put right after that (reseal.h), so that edits reach the code behind
 * them: heads, lengths, codecs, dictionaries, schema, index. A report may come with its journal as
 * a killed recorder leaves it, which is edited likewise.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "query/query.h"
#include "reseal.h"
#include "store/format.h"
#include "../random.h"
#include "../replay.h"

enum { BASES = 4, MOST_ROWS = 4 << 20, MOST_INPUT = 1 << 16 };
enum { KEEP_CHECKS = 0x10, CUT = 0x20, RAW = 0x40, EDIT_JOURNAL = 0x80 };

struct file {
	uint8_t *bytes;
	size_t n;
};

static struct file base[BASES], base_journal[BASES];
static char folder[256], *path, *journal;
static uint64_t state = RANDOM_SEED;

static uint64_t draw_random(void)
{
	return random_star(&state);
}

/* ---- base reports ---- */

static struct file take_file(const char *name)
{
	struct file file = {NULL, 0};
	FILE *s = fopen(name, "rb");

	if (!s)
		return file;
	file.bytes = ws_malloc(1 << 26);
	file.n = fread(file.bytes, 1, 1 << 26, s);
	fclose(s);
	file.bytes = ws_realloc(file.bytes, file.n + 1);
	return file;
}

static void put_file(const char *name, const uint8_t *bytes, size_t n)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || pwrite(fd, bytes, n, 0) != (ssize_t)n || ftruncate(fd, (off_t)n))
		abort();
	close(fd);
}

/* Different codecs in each: gaps and spans; steps; zigzag, dictionaries and wide numbers; many
 * strings. */
static uint64_t step_value(uint64_t steps)
{
	return 1000000 + steps * 10 + steps / 67; /* a clock whose steps are no whole nanoseconds */
}

static void add_ranges(struct ws_writer *writer, int kind, uint32_t n)
{
	uint64_t t = 1000000, steps = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct ws_row_nvtx row = {.thread = 1 + (kind == 2 ? i % 5 : 0),
					  .text = 1 + i % 4,
					  .type = WS_NVTX_PUSHPOP};
		char text[32];

		row.start = t += 20 + draw_random() % 4 * 10;
		row.end = kind == 2 && !(i % 9) ? WS_NO_TIME : (t += 30);
		if (kind == 1) {
			row.start = step_value(steps += 30 + draw_random() % 300 +
							(i % 300 == 299) * 1000000);
			row.end = step_value(steps += 30 + draw_random() % 500);
		}
		if (kind == 2) {
			row.payload = draw_random();
			row.range_id =
				(uint64_t[]){5, 1ull << 40, 77, 1ull << 50}[draw_random() % 4];
		}
		if (kind == 3)
			row.text = ws_writer_string(
				writer, text, (size_t)snprintf(text, sizeof(text), "%u", i * 7919));
		ws_writer_add(writer, WS_TABLE_nvtx, &row);
	}
}

static void add_small_tables(struct ws_writer *writer)
{
	uint32_t s = ws_writer_string(writer, "a name", 6);

	ws_writer_add(writer, WS_TABLE_meta, &(struct ws_row_meta){s, s});
	ws_writer_add(writer, WS_TABLE_collection, &(struct ws_row_collection){1000, 2000});
	for (uint32_t i = 1; i < 4; i++) {
		ws_writer_add(
			writer, WS_TABLE_process,
			&(struct ws_row_process){.id = i, .pid = 10 + i, .start = i, .name = s});
		ws_writer_add(writer, WS_TABLE_thread, &(struct ws_row_thread){i, i, 10 + i, i});
		ws_writer_add(writer, WS_TABLE_thread_name,
			      &(struct ws_row_thread_name){i, i, s, 20});
		ws_writer_add(writer, WS_TABLE_osrt,
			      &(struct ws_row_osrt){.start = i,
						    .end = i + 5,
						    .thread = i,
						    .name = s,
						    .result = -(int)i,
						    .error = -1});
	}
}

static void write_base(int kind, bool crash)
{
	struct ws_writer_opts opts = {.overwrite = true, .block_rows = kind == 1 ? 400 : 150};
	struct ws_writer *writer = ws_writer_create(path, &opts, NULL);

	if (!writer)
		abort();
	for (int i = 0; i < 4; i++)
		ws_writer_string(writer, &"wxyz"[i], 1);
	add_ranges(writer, kind, 500);
	add_small_tables(writer);
	if (crash) {
		ws_writer_commit(writer);
		raise(SIGKILL);
	}
	if (ws_writer_close(writer, NULL))
		abort();
}

static void clean_up(void)
{
	unlink(path);
	unlink(journal);
	rmdir(folder);
}

/* The journal is mostly empty space: only its head and what is in use make good targets, but all of
 * it is what a reader gets. */
static void make_bases(void)
{
	for (int k = 0; k < BASES; k++) {
		pid_t pid;

		write_base(k, false);
		base[k] = take_file(path);
		if (k != 3)
			continue;
		pid = fork();
		if (!pid)
			write_base(k, true);
		waitpid(pid, NULL, 0);
		free(base[k].bytes);
		base[k] = take_file(path);
		base_journal[k] = take_file(journal);
		unlink(journal);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *tmp = getenv("TMPDIR");

	(void)argc;
	(void)argv;
	snprintf(folder, sizeof(folder), "%s/ws-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) ? (ws_text_or(tmp, "/tmp")) : "/dev/shm");
	if (!mkdtemp(folder))
		abort();
	path = ws_format("%s/f.wsrep", folder);
	journal = ws_format("%s.journal", path);
	make_bases();
	atexit(clean_up);
	return 0;
}

/* ---- reading everything ---- */

static int touch_batch(void *ctx, const struct ws_batch *batch)
{
	uint64_t sum = 0;

	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		for (size_t i = 0; batch->col[c] && i < batch->rows; i += 97)
			sum += batch->col[c][i];
	__atomic_fetch_add((uint64_t *)ctx, sum, __ATOMIC_RELAXED);
	return 0;
}

static void read_table(const struct ws_report *report, enum ws_table table, uint64_t *sum)
{
	struct ws_scan scan = {
		.table = table, .columns = UINT64_MAX, .time_max = UINT64_MAX, .workers = 1};
	struct ws_rows rows;
	struct ws_cursor *cursor;
	const uint64_t *values;

	for (size_t i = 0; i < ws_report_count_blocks(report, table); i++) {
		struct ws_block_groups groups = ws_report_block_groups(report, table, i);

		for (size_t k = 0; k < groups.count; k++)
			*sum += groups.groups[k].rows + groups.groups[k].key[WS_GROUP_KEYS - 1] +
				groups.groups[k].bins[0] + groups.groups[k].bins[WS_GROUP_BINS - 1];
	}
	if (ws_report_count_rows(report, table) > MOST_ROWS)
		return; /* a few bytes may stand for a million rows; reading them all is right and
			   slow */
	ws_run_scan(report, &scan, touch_batch, sum, NULL);
	scan.time_min = 1000500;
	scan.columns = 1;
	ws_run_scan(report, &scan, touch_batch, sum, NULL);
	scan.time_min = 0;
	ws_rows_load(report, &scan, &rows, NULL);
	ws_rows_free(&rows);
	cursor = ws_cursor_open(report, table, 0, UINT64_MAX);
	for (int i = 0; i < 2000 && ws_cursor_next(cursor, &values); i++)
		*sum += values[0];
	ws_cursor_close(cursor);
}

static void read_report(const struct ws_report *report)
{
	uint64_t sum = 0;
	size_t len;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		read_table(report, (enum ws_table)t, &sum);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t id = i < 100 ? i : ws_report_string_count(report) - (i - 100);
		const char *text = ws_report_string(report, id, &len);

		if (text[len])
			abort();
		sum += ws_report_string_key(report, id);
	}
	ws_report_verify(report, NULL, NULL);
	struct ws_names_by_id *who = ws_who_open(report);

	sum += ws_find_thread(who, 2)->global_tid + (uint64_t)strlen(ws_find_process(who, 1)->name);
	ws_who_close(who);
	ws_find_meta(report, "x");
	sum += ws_find_time_zero(report) + ws_find_time_last(report);
	if (sum == 1)
		puts("");
}

/* ---- one input ---- */

static void edit_file(struct file *file, const uint8_t *data, size_t n)
{
	for (; n >= 5 && file->n; data += 5, n -= 5) {
		uint32_t value = (uint32_t)(data[3] | data[4] << 8);
		size_t at = (size_t)(data[0] | data[1] << 8 | (data[2] & 0x1f) << 16) % file->n;

		switch (data[2] >> 5) {
		case 0:
			file->bytes[at] = (uint8_t)value;
			break;
		case 1:
			file->bytes[at] ^= (uint8_t)(1 << (value & 7));
			break;
		case 2: /* a 32-bit number, small */
			if (at + 4 <= file->n)
				memcpy(file->bytes + at, &value, 4);
			break;
		case 3: /* all ones */
			memset(file->bytes + at, 0xff,
			       file->n - at < (value & 15) ? file->n - at : (value & 15));
			break;
		case 4: /* as is elsewhere */
			memmove(file->bytes + at, file->bytes + value % file->n,
				(file->n - (at > value % file->n ? at : value % file->n)) % 200);
			break;
		default:
			file->bytes[at] += (uint8_t)value;
		}
	}
}

static struct file copy_of(const struct file *file_f)
{
	struct file file_c = {ws_malloc(file_f->n + 1), file_f->n};

	memcpy(file_c.bytes, file_f->bytes, file_f->n);
	return file_c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct ws_report *report;
	struct file file_f, file_j = {NULL, 0};
	uint8_t how;

	if (n < 1 || n > MOST_INPUT)
		return 0;
	how = *data++;
	n--;
	if (how & RAW) {
		put_file(path, data, n);
	} else {
		file_f = copy_of(&base[how % BASES]);
		if (how & EDIT_JOURNAL && base_journal[how % BASES].n)
			file_j = copy_of(&base_journal[how % BASES]);
		edit_file(file_j.bytes ? &file_j : &file_f, data, n);
		if (!(how & KEEP_CHECKS) && !file_j.bytes)
			reseal(file_f.bytes, file_f.n);
		if (how & CUT && n >= 3)
			file_f.n =
				(size_t)(data[0] | data[1] << 8 | data[2] << 16) % (file_f.n + 1);
		put_file(path, file_f.bytes, file_f.n);
		if (file_j.bytes)
			put_file(journal, file_j.bytes, file_j.n);
		free(file_f.bytes);
		free(file_j.bytes);
	}
	report = ws_report_open(path, NULL);
	if (report)
		read_report(report);
	ws_report_close(report);
	unlink(journal);
	return 0;
}

#ifdef FUZZ_REPLAY
/* Edits near what stands at the beginning of things: there are the heads. */
static size_t make_input(uint8_t *bytes, int round)
{
	size_t edits = 1 + draw_random() % 4;
	const struct file *file;

	(void)round;
	bytes[0] = (uint8_t)(draw_random() & (draw_random() % 8 ? 0x03 : 0xbf));
	file = &base[bytes[0] % BASES];
	for (size_t i = 0; i < edits; i++) {
		size_t at = draw_random() % (draw_random() % 2 ? file->n : 6000);

		bytes[1 + i * 5] = (uint8_t)at;
		bytes[2 + i * 5] = (uint8_t)(at >> 8);
		bytes[3 + i * 5] = (uint8_t)((at >> 16 & 0x1f) | (draw_random() & 0xe0));
		bytes[4 + i * 5] = (uint8_t)draw_random();
		bytes[5 + i * 5] = (uint8_t)(draw_random() % 4 ? 0 : draw_random());
	}
	return 1 + edits * 5;
}

int main(int argc, char **argv)
{
	LLVMFuzzerInitialize(&argc, &argv);
	return replay_test(argc, argv, 6000, make_input);
}
#endif
