/*
 * test_convert.c - from records to rows, with records made here: pairs in both orders, what stays
 * alone, and rings full of nonsense, which a target that scribbles over shared memory can leave.
 * Runs under the sanitizers where the build has them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ring/nvtx_record.h"
#include "query/query.h"
#include "record/drain.h"
#include "record/proc.h"

#define CHECK(cond, ...)                                            \
	do {                                                        \
		if (!(cond)) {                                      \
			printf("# line %d: " #cond ": ", __LINE__); \
			printf(" " __VA_ARGS__);                    \
			printf("\n");                               \
			failed = true;                              \
			return;                                     \
		}                                                   \
	} while (0)

static bool failed;
static char path[256];
static struct ws_area area;
static struct ws_clock clk;
static struct ws_drain *drain;
static struct ws_sink *sink;
static struct ws_process_home *home;
static uint64_t ticks0;

/* ---- a session without a target ---- */

static struct ws_sink *sink_for(void *ctx, int pid, const char *env, size_t env_len,
				struct ws_sink *parent)
{
	(void)pid, (void)env, (void)env_len, (void)parent;
	return ctx;
}

static void *take_record(uint32_t kind, int *slot)
{
	uint32_t n = ws_take_chunk(area.arena, UINT32_MAX);
	struct ws_chunk *chunk = ws_chunk_at(area.arena, n);

	memset(chunk + 1, 0, WS_CHUNK_SIZE - sizeof(*chunk));
	chunk->kind = kind;
	*slot = ws_add_to_directory(area.arena, n);
	return chunk;
}

static void begin_rows(void)
{
	struct ws_writer_opts opts = {.overwrite = true};
	struct ws_err err = {""};
	struct ws_writer *writer;
	int slot;

	if (ws_area_create(&area, 32u << 20, (uid_t)-1, &err) ||
	    !(writer = ws_writer_create(path, &opts, &err))) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	ws_clock_init(&clk, WS_CLOCK_COUNTER);
	ticks0 = ws_read_counter();
	sink = ws_sink_new(ws_strdup(path), writer, &clk);
	drain = ws_drain_new(&area, &clk,
			     &(struct ws_drain_ops){.ctx = sink, .sink_for = sink_for});
	home = take_record(WS_CHUNK_PROCESS, &slot);
	home->pid = (uint32_t)getpid();
	home->pid_ns = area.arena->recorder_pid_ns;
	home->slot = (uint32_t)slot;
	home->start = ticks0;
	home->origin = 2;
	atomic_store(&home->string_pos, (uint64_t)home->chunk.self << 32 | 4096);
	atomic_store(&home->ready, 1);
}

static struct ws_ring *new_ring(uint32_t tid)
{
	int slot;
	struct ws_ring *ring = take_record(WS_CHUNK_RING, &slot);

	ring->process_home = home->chunk.self;
	ring->pid = home->pid;
	ring->tid = tid;
	ring->slot = (uint32_t)slot;
	ring->start = ticks0;
	atomic_store(&ring->chunk.used, WS_RING_DATA);
	return ring;
}

static void *add_record(struct ws_ring *ring, int kind, size_t bytes)
{
	uint32_t used = atomic_load(&ring->chunk.used);
	struct ws_rec *rec = (void *)((char *)ring + used);

	memset(rec, 0, bytes);
	rec->kind = (uint8_t)kind;
	rec->words = (uint8_t)(bytes / 8);
	atomic_store(&ring->chunk.used, used + (uint32_t)bytes);
	return rec;
}

static void add_event(struct ws_ring *ring, int kind, uint64_t id, uint64_t time)
{
	struct ws_rec_nvtx_event *record = add_record(ring, WS_REC_NVTX_EVENT, sizeof(*record));

	record->kind = (uint8_t)kind;
	record->other = id;
	record->time = ticks0 + time;
}

static void add_blob(struct ws_ring *ring, uint32_t number, const char *text, bool more)
{
	struct ws_rec_nvtx_blob *record =
		add_record(ring, WS_REC_NVTX_BLOB, WS_ALIGN_UP(sizeof(*record) + strlen(text), 8));

	record->rec.small = more;
	record->number = number;
	record->len = (uint32_t)strlen(text);
	memcpy(record->bytes, text, record->len);
}

/* Finish the recording and load its NVTX rows. */
static struct ws_report *finish_rows(struct ws_rows *rows)
{
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = (UINT64_C(1) << ws_nvtx_COLUMNS) - 1,
			       .time_max = UINT64_MAX};
	struct ws_err err = {""};
	struct ws_report *report;

	ws_clock_read(&clk);
	ws_drain_finish(drain);
	if (ws_sink_close(sink, &err) || !(report = ws_report_open(path, &err)) ||
	    ws_rows_load(report, &scan, rows, &err)) {
		printf("Bail out! %s\n", err.msg);
		exit(1);
	}
	if (!ws_report_is_complete(report) || ws_report_verify(report, NULL, NULL))
		failed = true;
	ws_clock_free(&clk);
	ws_area_destroy(&area);
	return report;
}

static void free_rows(struct ws_report *report, struct ws_rows *rows)
{
	ws_rows_free(rows);
	ws_report_close(report);
	unlink(path);
}

/* ---- cases ---- */

static void check_pairs(struct ws_rows *rows)
{
	CHECK(rows->rows == 4, "%zu", rows->rows);
	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t id = rows->col[ws_nvtx_range_id][i], end = rows->col[ws_nvtx_end][i];

		CHECK(rows->col[ws_nvtx_type][i] == WS_NVTX_STARTEND);
		CHECK((id == 4) == (end == WS_NO_TIME) &&
		      (id == 4) == (rows->col[ws_nvtx_flags][i] == WS_NVTX_LEFT_OPEN));
		CHECK(id == 4 || end >= rows->col[ws_nvtx_start][i]);
		CHECK((rows->col[ws_nvtx_end_thread][i] != 0) == (id == 1 || id == 2), "range %d",
		      (int)id);
	}
}

/* Starts and ends in two rings: whichever is drained first, they meet. */
static void run_pairs(void)
{
	struct ws_rows rows;
	struct ws_report *report;

	for (int order = 0; order < 2 && !failed; order++) {
		struct ws_ring *left, *right;

		begin_rows();
		left = new_ring(101);
		right = new_ring(102);
		if (order) {
			struct ws_ring *ring = left;

			left = right;
			right = ring;
		}
		add_event(left, WS_NVTX_EV_START, 1, 10);
		add_event(right, WS_NVTX_EV_END, 1, 20);
		add_event(right, WS_NVTX_EV_START, 2, 30);
		add_event(left, WS_NVTX_EV_END, 2, 40);
		add_event(left, WS_NVTX_EV_START, 3, 50);
		add_event(left, WS_NVTX_EV_END, 3, 60);
		add_event(left, WS_NVTX_EV_START, 4, 70);
		add_event(right, WS_NVTX_EV_END, 5, 80);
		add_event(right, WS_NVTX_EV_END, 5, 80);
		add_event(right, WS_NVTX_EV_END, 0, 80);
		report = finish_rows(&rows);
		check_pairs(&rows);
		if (ws_report_count_rows(report, WS_TABLE_diagnostic) < 1)
			failed = true; /* the ends that stayed alone are said */
		free_rows(report, &rows);
	}
}

static void check_blobs(const struct ws_report *report, struct ws_rows *rows)
{
	size_t len;

	CHECK(rows->rows == 3, "%zu", rows->rows);
	for (size_t i = 0; i < rows->rows; i++) {
		const char *text =
			ws_report_string(report, (uint32_t)rows->col[ws_nvtx_binary][i], &len);

		CHECK(rows->col[ws_nvtx_type][i] == WS_NVTX_STARTEND
			      ? !strcmp(text, "begin;end")
			      : !strcmp(text, "one two three"),
		      "'%s'", text);
		CHECK(rows->col[ws_nvtx_payload_type][i] == WS_NVTX_PAYLOAD_EXT);
	}
}

static void add_full(struct ws_ring *ring, int kind, uint64_t id, uint32_t blob, uint32_t blob_end)
{
	struct ws_rec_nvtx_event_full *record =
		add_record(ring, WS_REC_NVTX_EVENT, sizeof(*record));

	record->record.kind = (uint8_t)kind;
	record->record.other = kind == WS_NVTX_EV_RANGE ? ticks0 + 5 : id;
	record->record.time = ticks0 + 1;
	record->record.payload_type = WS_NVTX_PAYLOAD_EXT;
	record->binary = blob;
	record->binary_end = blob_end;
}

/* Payloads in pieces, of both ends, in both orders of arrival; and one that nothing asks for. */
static void run_blobs(void)
{
	struct ws_rows rows;
	struct ws_report *report;
	struct ws_ring *left, *right;

	begin_rows();
	left = new_ring(101);
	right = new_ring(102);
	add_blob(left, 1, "one ", true);
	add_blob(left, 2, "of an event that never comes", false);
	add_blob(left, 1, "two ", false);
	add_blob(left, 3, "three", false);
	add_full(left, WS_NVTX_EV_RANGE, 0, 1, 3);
	add_blob(left, 4, "begin;", false);
	add_full(left, WS_NVTX_EV_START, 7, 4, 0);
	add_blob(right, 1, "end", false);
	add_full(right, WS_NVTX_EV_END, 7, 0, 1);
	add_blob(right, 2, "end", false);
	add_full(right, WS_NVTX_EV_END, 8, 0, 2);
	add_blob(left, 5, "begin;", false);
	add_full(left, WS_NVTX_EV_START, 8, 5, 0);
	report = finish_rows(&rows);
	check_blobs(report, &rows);
	free_rows(report, &rows);
}

static void add_text(struct ws_ring *ring, uint32_t number, const char *text, bool more)
{
	add_blob(ring, number, text, more);
	((struct ws_rec *)((char *)ring + atomic_load(&ring->chunk.used) -
			   WS_ALIGN_UP(sizeof(struct ws_rec_text) + strlen(text), 8)))
		->kind = WS_REC_TEXT;
}

static void check_texts(const struct ws_report *report, struct ws_rows *rows)
{
	CHECK(rows->rows == 2, "%zu", rows->rows);
	CHECK(!strcmp(ws_report_string(report, (uint32_t)rows->col[ws_nvtx_text][0], NULL),
		      "in pieces"));
	CHECK(!strcmp(ws_report_string(report, (uint32_t)rows->col[ws_nvtx_text][1], NULL),
		      "whole"));
}

/* A text whose rest found no memory must not run into the next. */
static void cut_texts(void)
{
	struct ws_rows rows;
	struct ws_report *report;
	struct ws_ring *ring;

	begin_rows();
	ring = new_ring(101);
	add_text(ring, 1, "in ", true);
	add_text(ring, 1, "pieces", false);
	add_text(ring, 2, "never finished ", true);
	add_text(ring, 3, "whole", false);
	for (uint32_t number = 1; number <= 3; number += 2) {
		struct ws_rec_nvtx_event *record;

		add_event(ring, WS_NVTX_EV_MARK, 0, number);
		record = (void *)((char *)ring + atomic_load(&ring->chunk.used) - sizeof(*record));
		record->rec.small = WS_NVTX_SMALL_LOCAL;
		record->rec.value = number;
	}
	report = finish_rows(&rows);
	check_texts(report, &rows);
	free_rows(report, &rows);
}

static void add_range(struct ws_ring *ring, uint64_t start, uint64_t end)
{
	struct ws_rec_nvtx_range *rec = add_record(ring, WS_REC_NVTX_RANGE, sizeof(*rec));

	rec->rec.small = 3;
	rec->start = ticks0 + start;
	rec->end = ticks0 + end;
}

static void check_killed(struct ws_rows *rows, size_t want_open)
{
	size_t open = 0;

	for (size_t i = 0; i < rows->rows; i++)
		open += rows->col[ws_nvtx_end][i] == WS_NO_TIME;
	CHECK(rows->rows == 1 + want_open && open == want_open, "%zu rows, %zu open", rows->rows,
	      open);
}

/* Killed between a range's record and its leaving the stack: one row. Not so when a parent began at
 * the same tick. */
static void killed_between(void)
{
	for (int closing = 0; closing < 2; closing++) {
		struct ws_rows rows;
		struct ws_report *report;
		struct ws_ring *ring;

		begin_rows();
		ring = new_ring(101);
		add_range(ring, 5, 9);
		ring->open[0] = (struct ws_open){.start = ticks0 + 5, .domain = 3};
		ring->open[1] = (struct ws_open){
			.start = ticks0 + 5, .domain = 3, .flags = WS_OPEN_CLOSING};
		atomic_store(&ring->open_depth, closing ? 2 : 1);
		report = finish_rows(&rows);
		check_killed(&rows, 1);
		free_rows(report, &rows);
	}
}

static uint64_t seed;

static uint64_t draw_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* Sizes that suit the kind, mostly, and then any bytes. */
static void write_nonsense(struct ws_ring *ring)
{
	static const struct {
		uint8_t kind;
		uint16_t bytes;
	} shapes[] = {
		{WS_REC_NVTX_RANGE, sizeof(struct ws_rec_nvtx_range)},
		{WS_REC_NVTX_EVENT, sizeof(struct ws_rec_nvtx_event)},
		{WS_REC_NVTX_EVENT, sizeof(struct ws_rec_nvtx_event_full)},
		{WS_REC_NVTX_DEFINE, sizeof(struct ws_rec_nvtx_define)},
		{WS_REC_NVTX_DEFINE, sizeof(struct ws_rec_nvtx_schema)},
		{WS_REC_NVTX_DEFINE, sizeof(struct ws_rec_nvtx_schema_entry)},
		{WS_REC_NVTX_BLOB, 64},
		{WS_REC_TEXT, 64},
	};

	while (atomic_load(&ring->chunk.used) < WS_CHUNK_SIZE - 200) {
		size_t shape = draw_random() % WS_COUNT(shapes),
		       bytes = draw_random() % 8 ? shapes[shape].bytes : 8 + draw_random() % 16 * 8;
		struct ws_rec *rec = add_record(ring, shapes[shape].kind, bytes);

		for (size_t i = 2; i < bytes; i++)
			if (draw_random() % 3)
				((uint8_t *)rec)[i] = draw_random() % 4
							      ? (uint8_t)(draw_random() % 8)
							      : (uint8_t)draw_random();
		if (rec->words != bytes / 8)
			rec->words = (uint8_t)(bytes / 8);
	}
	for (size_t i = 0; i < sizeof(ring->open); i++)
		((uint8_t *)ring->open)[i] =
			(uint8_t)(draw_random() % 3 ? draw_random() % 4 : draw_random());
	atomic_store(&ring->open_depth, (uint32_t)(draw_random() % 70));
}

static void run_scribbled(void)
{
	for (int i = 0; i < 60 && !failed; i++) {
		struct ws_rows rows;
		struct ws_report *report;

		seed = (uint64_t)i * 7919 + 1;
		begin_rows();
		for (uint32_t k = 0; k < 4; k++)
			write_nonsense(new_ring(100 + k));
		ws_clock_read(&clk);
		ws_drain_round(drain);
		report = finish_rows(&rows);
		if (!rows.rows)
			failed = true;
		free_rows(report, &rows);
	}
}

/* More ranges open at once than are kept waiting: the rest show no end, all show. */
static void run_crowd(void)
{
	enum { RANGES = 300000, MOST = 1 << 18 };
	struct ws_rows rows;
	struct ws_report *report;
	struct ws_ring *ring;
	size_t open = 0;

	begin_rows();
	for (int i = 0; i < RANGES * 2;) {
		ring = new_ring(200);
		while (i < RANGES * 2 && atomic_load(&ring->chunk.used) < WS_CHUNK_SIZE - 64) {
			add_event(ring, i < RANGES ? WS_NVTX_EV_START : WS_NVTX_EV_END,
				  (uint64_t)(i % RANGES) + 1, (uint64_t)i);
			i++;
		}
		atomic_store(&ring->closed, 1);
		ws_drain_round(drain);
		ws_area_feed(&area);
	}
	report = finish_rows(&rows);
	for (size_t i = 0; i < rows.rows; i++)
		open += rows.col[ws_nvtx_end][i] == WS_NO_TIME;
	if (rows.rows != RANGES || open != RANGES - MOST) {
		printf("# %zu rows, %zu open\n", rows.rows, open);
		failed = true;
	}
	free_rows(report, &rows);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} cases[] = {{"start/end pairs in any order", run_pairs},
		     {"payloads", run_blobs},
		     {"texts cut off", cut_texts},
		     {"killed between record and stack", killed_between},
		     {"scribbled rings", run_scribbled},
		     {"a crowd of open ranges", run_crowd}};
	const char *tmp = getenv("TMPDIR");
	int bad = 0;

	snprintf(path, sizeof(path), "%s/ws-convert-%d.wsrep", tmp && *tmp ? tmp : "/tmp",
		 (int)getpid());
	printf("1..%zu\n", WS_COUNT(cases));
	for (size_t i = 0; i < WS_COUNT(cases); i++) {
		failed = false;
		cases[i].fn();
		printf("%sok %zu - %s\n", failed ? "not " : "", i + 1, cases[i].name);
		fflush(stdout);
		bad += failed;
	}
	return bad != 0;
}
