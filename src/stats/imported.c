/*
 * imported.c - reports on what only other tools record: MPI, OpenMP, OpenACC, Vulkan, OpenGL,
 * video, calls of the kernel.
 *
 * There are no tables of ours for these. The import of an SQLite export keeps their spans as rows
 * of `slice`, with the name of the table as category and the other columns as a JSON object. So a
 * report here is a line that says which tables it adds up, and one function makes all summaries.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "text/json.h"
#include "stats/keyed.h"
#include "stats/std8.h"
#include "text/texts.h"

/* A table that a report reads. A name that ends in * stands for all that begin with it. */
struct source {
	const char *table;
	const char *label; /* what a report with a column for it calls these rows */
	const char *field; /* column with the name, where it is not the span's own; rows without it
			      do not count */
	const char *bytes; /* column with what is added up; NULL for the length of the span */
	const char *where; /* column that must have the number `is`; NULL to take all rows */
	int64_t is;
	const char *or_number; /* column with the name of rows without a text */
};

/* Of rows of `slice`: the source of each category, as the last row had it (rows of one table come
 * in runs). */
struct reader {
	const struct ws_stats *stats;
	const struct source *sources; /* ended by an empty one */
	uint64_t category;
	bool known, taken[8];
};

static bool is_table(const char *pattern, const char *name)
{
	size_t n = strlen(pattern);

	return n && pattern[n - 1] == '*' ? !strncmp(pattern, name, n - 1) : !strcmp(pattern, name);
}

/* Which sources a category belongs to, in r->taken: calls with two sizes are in two. */
static void categorise(struct reader *reader, uint64_t category)
{
	size_t len;
	const char *name;

	if (reader->known && reader->category == category)
		return;
	name = ws_report_string(reader->stats->report, (uint32_t)category, &len);
	for (size_t i = 0; reader->sources[i].table; i++)
		reader->taken[i] = is_table(reader->sources[i].table, name);
	reader->category = category;
	reader->known = true;
}

/* One column of the row that a slice was made of; false when it is not there or null. The value
 * points into the report. */
static bool field(const struct ws_stats *stats, uint64_t args, const char *name,
		  struct ws_json_value *out)
{
	struct ws_json_value whole, key;
	struct ws_json_walk walk;
	size_t len;
	const char *json = ws_report_string(stats->report, (uint32_t)args, &len);
	bool more = false;

	if (!len || !ws_json_value(json, json + len, &whole, &more) || whole.type != WS_J_OBJECT)
		return false;
	walk = ws_json_walk(&whole);
	while (ws_json_next(&walk, &key, out))
		if (ws_json_is(&key, name))
			return out->type != WS_J_NULL;
	return false;
}

static struct ws_cell number(const struct ws_stats *stats, uint64_t args, const char *name)
{
	struct ws_json_value value;
	bool ok = false;
	int64_t i = field(stats, args, name, &value) ? ws_json_fixed(&value, 0, &ok) : 0;

	return ok ? ws_cell_int(i) : ws_cell_null();
}

/* ---- summaries ---- */

struct sums {
	struct reader reader;
	struct ws_texts names;
	struct ws_keyed by; /* (number of the source, number of the name) */
	struct ws_text scratch;
	uint64_t unended, backwards;
};

static bool name_of(struct sums *sums, const struct source *from, const struct ws_batch *batch,
		    size_t i, uint64_t *number_out)
{
	const struct ws_stats *stats = sums->reader.stats;
	struct ws_json_value value;
	size_t len;
	const char *name;

	if (!from->field && from->or_number && !batch->col[ws_slice_name][i]) {
		struct ws_cell id = number(stats, batch->col[ws_slice_args][i], from->or_number);

		sums->scratch.len = 0;
		ws_text_printf(&sums->scratch, "%" PRId64, id.type == WS_CELL_INT ? id.i : 0);
		name = sums->scratch.text, len = sums->scratch.len;
	} else if (!from->field) {
		name = ws_report_string(stats->report, (uint32_t)batch->col[ws_slice_name][i],
					&len);
	} else if (field(stats, batch->col[ws_slice_args][i], from->field, &value) &&
		   value.type == WS_J_STRING) {
		sums->scratch.len = 0;
		name = ws_json_text(&value, &sums->scratch, &len);
	} else {
		return false;
	}
	*number_out = ws_texts_number(&sums->names, name, len);
	return true;
}

static void add(struct sums *sums, size_t source, const struct ws_batch *batch, size_t i)
{
	const struct source *from = &sums->reader.sources[source];
	uint64_t start = batch->col[ws_slice_start][i], end = batch->col[ws_slice_end][i],
		 key[2] = {source}, value = end - start;

	if (from->where) {
		struct ws_cell is =
			number(sums->reader.stats, batch->col[ws_slice_args][i], from->where);

		if (is.type != WS_CELL_INT || is.i != from->is)
			return;
	}
	if (!name_of(sums, from, batch, i, &key[1]))
		return;
	if (from->bytes) {
		struct ws_cell bytes =
			number(sums->reader.stats, batch->col[ws_slice_args][i], from->bytes);

		if (bytes.type == WS_CELL_NULL || bytes.i < 0)
			return;
		value = (uint64_t)bytes.i;
	} else if (end == WS_NO_TIME || end < start) {
		*(end == WS_NO_TIME ? &sums->unended : &sums->backwards) += 1;
		return;
	}
	ws_dist_add(ws_keyed_get(&sums->by, key), value);
}

static int scan(void *ctx, const struct ws_batch *batch)
{
	struct sums *sums = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		categorise(&sums->reader, batch->col[ws_slice_category][i]);
		for (size_t k = 0; sums->reader.sources[k].table; k++)
			if (sums->reader.taken[k])
				add(sums, k, batch, i);
	}
	return 0;
}

static void print_sizes(struct ws_stats *stats, const struct ws_std8_line *lines, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct ws_std8 *summary = lines[i].summary;

		stats->row(stats, (struct ws_cell[]){
					  ws_cell_real(summary->total),
					  ws_cell_int((int64_t)summary->count),
					  ws_cell_real(ws_std8_mean(summary)),
					  ws_cell_real(ws_std8_median(summary)),
					  ws_cell_real(summary->min),
					  ws_cell_real(summary->max),
					  ws_cell_real(summary->stddev),
					  ws_cell_text(lines[i].style, strlen(lines[i].style)),
					  ws_cell_text(lines[i].name, lines[i].name_len),
				  });
	}
}

/* Sources with the same label are one in the table: keys are made the same before they are merged.
 */
static void same_label(void *ctx, size_t table, uint64_t *key)
{
	const struct source *sources = ctx;
	const char *label = sources[key[0]].label;

	(void)table;
	for (size_t i = 0; i < key[0]; i++)
		if (!label ? !sources[i].label
			   : sources[i].label && !strcmp(sources[i].label, label))
			key[0] = i;
}

static void print(struct ws_stats *stats, struct sums *sums)
{
	struct ws_keyed_sums all;
	struct ws_std8_line *lines;

	ws_keyed_merge(&sums->by, 1, same_label, (void *)sums->reader.sources, &all);
	lines = ws_calloc(all.n, sizeof(*lines));
	for (size_t i = 0; i < all.n; i++) {
		lines[i].summary = &all.summary[i];
		lines[i].style = sums->reader.sources[all.keys[2 * i]].label;
		lines[i].name = ws_texts_get(&sums->names, (uint32_t)all.keys[2 * i + 1],
					     &lines[i].name_len);
	}
	if (sums->reader.sources[0].bytes) {
		ws_std8_sort(lines, all.n);
		print_sizes(stats, lines, all.n);
	} else
		ws_std8_print(stats, lines, all.n);
	free(lines);
	ws_keyed_sums_free(&all);
}

/* Is there any row at all? Most reports have none, and may have many slices. */
static int seek(void *ctx, const struct ws_batch *batch)
{
	struct reader reader = *(const struct reader *)ctx; /* one a batch: several threads ask */

	for (size_t i = 0; i < batch->rows; i++) {
		categorise(&reader, batch->col[ws_slice_category][i]);
		for (size_t k = 0; reader.sources[k].table; k++)
			if (reader.taken[k])
				return 1;
	}
	return 0;
}

static int summarise(struct ws_stats *stats, const struct source *sources)
{
	struct ws_scan sc = {
		.table = WS_TABLE_slice,
		.columns = WS_COL(slice, start) | WS_COL(slice, end) | WS_COL(slice, name) |
			   WS_COL(slice, category) | WS_COL(slice, args),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
		.workers = 1, /* texts are numbered in one place; these tables are small */
	};
	struct sums sums = {.reader = {.stats = stats, .sources = sources},
			    .by = {.words = 2, .per = 1}};

	struct ws_scan first = {.table = WS_TABLE_slice,
				.columns = WS_COL(slice, category),
				.time_min = stats->time_min,
				.time_max = stats->time_max};
	uint64_t damaged = 0;

	if (ws_scan_run(stats->report, &first, seek, &sums.reader, &damaged) != 1) {
		stats->damaged += damaged;
		return 0;
	}
	ws_scan_run(stats->report, &sc, scan, &sums, &stats->damaged);
	stats->unended += sums.unended;
	stats->backwards += sums.backwards;
	print(stats, &sums);
	ws_texts_free(&sums.names);
	ws_text_free(&sums.scratch);
	return 0;
}

/* ---- lists ---- */

typedef void trace_row(struct ws_stats *stats, const uint64_t *values, const struct ws_map *ranks);

/* Rank + 1 of processes (global id >> 24), from the rows kept of MPI_RANKS, which has no times. */
static void load_ranks(const struct ws_stats *stats, struct ws_map *ranks)
{
	struct ws_cursor *cursor = ws_cursor_open(stats->report, WS_TABLE_foreign, 0, UINT64_MAX);
	const uint64_t *values;
	size_t len;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_cell who, rank;

		if (strcmp(ws_report_string(stats->report, (uint32_t)values[ws_foreign_table],
					    &len),
			   "MPI_RANKS"))
			continue;
		who = number(stats, values[ws_foreign_row], "globalTid");
		rank = number(stats, values[ws_foreign_row], "rank");
		if (who.type == WS_CELL_INT && rank.type == WS_CELL_INT)
			ws_map_set(ranks, (uint64_t)who.i >> 24, (uint64_t)rank.i + 1);
	}
	ws_cursor_close(cursor);
}

static int trace(struct ws_stats *stats, const struct source *sources, trace_row *row)
{
	struct ws_cursor *cursor =
		ws_cursor_open(stats->report, WS_TABLE_slice, stats->time_min, stats->time_max);
	struct reader reader = {.stats = stats, .sources = sources};
	struct ws_map ranks = {0};
	const uint64_t *values;

	load_ranks(stats, &ranks);
	while (ws_cursor_next(cursor, &values)) {
		bool any = false;

		categorise(&reader, values[ws_slice_category]);
		for (size_t i = 0; sources[i].table; i++)
			any |= reader.taken[i];
		if (any && values[ws_slice_end] < values[ws_slice_start])
			stats->backwards++;
		else if (any)
			row(stats, values, &ranks);
	}
	ws_map_free(&ranks);
	ws_cursor_close(cursor);
	return 0;
}

static struct ws_cell text(const struct ws_stats *stats, uint64_t id)
{
	size_t len;
	const char *t = ws_report_string(stats->report, (uint32_t)id, &len);

	return ws_cell_text(t, len);
}

static struct ws_cell length(const uint64_t *values)
{
	return values[ws_slice_end] == WS_NO_TIME
		       ? ws_cell_null()
		       : ws_cell_int((int64_t)(values[ws_slice_end] - values[ws_slice_start]));
}

static void vulkan_row(struct ws_stats *stats, const uint64_t *values, const struct ws_map *ranks)
{
	const struct ws_thread_info *info =
		ws_who_thread(stats->who, (uint32_t)values[ws_slice_thread]);
	uint64_t args = values[ws_slice_args];
	bool named = *info->name;

	(void)ranks;
	stats->row(stats,
		   (struct ws_cell[]){
			   ws_cell_int((int64_t)(values[ws_slice_start] - stats->zero)),
			   length(values),
			   text(stats, values[ws_slice_name]),
			   number(stats, args, "eventClass"),
			   number(stats, args, "contextId"),
			   number(stats, args, "correlationId"),
			   ws_cell_int(info->pid),
			   ws_cell_int(info->tid),
			   named ? ws_cell_int(info->priority) : ws_cell_null(),
			   named ? ws_cell_text(info->name, strlen(info->name)) : ws_cell_null(),
		   });
}

static void mpi_row(struct ws_stats *stats, const uint64_t *values, const struct ws_map *ranks)
{
	const struct ws_thread_info *info =
		ws_who_thread(stats->who, (uint32_t)values[ws_slice_thread]);
	uint64_t args = values[ws_slice_args], start = values[ws_slice_start],
		 end = values[ws_slice_end];
	uint64_t rank = ws_map_get(ranks, info->global_tid >> 24, NULL);
	size_t len;
	bool all =
		!strcmp(ws_report_string(stats->report, (uint32_t)values[ws_slice_category], &len),
			"MPI_COLLECTIVES_EVENTS");

	stats->row(stats, (struct ws_cell[]){
				  ws_cell_int((int64_t)(start - stats->zero)),
				  end == WS_NO_TIME ? ws_cell_null()
						    : ws_cell_int((int64_t)(end - stats->zero)),
				  length(values),
				  text(stats, values[ws_slice_name]),
				  ws_cell_int(info->pid),
				  ws_cell_int(info->tid),
				  number(stats, args, "tag"),
				  rank ? ws_cell_int((int64_t)rank - 1) : ws_cell_null(),
				  number(stats, args, "remoteRank"),
				  number(stats, args, "rootRank"),
				  all ? ws_cell_null() : number(stats, args, "size"),
				  all ? number(stats, args, "size") : ws_cell_null(),
				  all ? number(stats, args, "recvSize") : ws_cell_null(),
			  });
}

/* ---- the reports ---- */

/* Of ENUM_NSYS_EVENT_TYPE. */
enum { KHR_DEBUG_PUSH_POP = 62, KHR_DEBUG_GPU_PUSH_POP = 63 };

#define REPORT(ID, TITLE, ABOUT, WHAT, DEFAULT, COLUMNS, HOW)                     \
	static int run_##ID(struct ws_stats *s, struct ws_err *e)                 \
	{                                                                         \
		(void)e;                                                          \
		return HOW;                                                       \
	}                                                                         \
	const struct ws_stat ws_stat_##ID = {                                     \
		.name = #ID,                                                      \
		.title = TITLE,                                                   \
		.about = ABOUT " From imported SQLite exports of Nsight Systems", \
		.what = WHAT,                                                     \
		.by_default = DEFAULT,                                            \
		.columns = COLUMNS,                                               \
		.column_count = WS_COUNT(COLUMNS),                                \
		.run = run_##ID,                                                  \
	}
#define SUM(ID, TITLE, ABOUT, WHAT, DEFAULT, COLUMNS, ...)           \
	static const struct source from_##ID[] = {__VA_ARGS__, {0}}; \
	REPORT(ID, TITLE, ABOUT, WHAT, DEFAULT, COLUMNS, summarise(s, from_##ID))
#define TRACE(ID, TITLE, ABOUT, WHAT, COLUMNS, ROW, ...)             \
	static const struct source from_##ID[] = {__VA_ARGS__, {0}}; \
	REPORT(ID, TITLE, ABOUT, WHAT, false, COLUMNS, trace(s, from_##ID, ROW))

static const struct ws_column of_calls[] = {WS_STD8("Num Calls"), {"Name", WS_KIND_TEXT}};
static const struct ws_column of_counts[] = {WS_STD8("Count"), {"Name", WS_KIND_TEXT}};
static const struct ws_column of_ranges[] = {WS_STD8("Instances"), {"Range", WS_KIND_TEXT}};
static const struct ws_column of_mpi[] = {
	WS_STD8("Instances"), {"Source", WS_KIND_TEXT}, {"Name", WS_KIND_TEXT}};
static const struct ws_column of_video[] = {
	WS_STD8("Num Calls"), {"Event Type", WS_KIND_TEXT}, {"Name", WS_KIND_TEXT}};
static const struct ws_column of_messages[] = {
	{"Total Message Volume", WS_KIND_SIZE},
	{"Instances", WS_KIND_COUNT},
	{"Avg", WS_KIND_SIZE},
	{"Med", WS_KIND_SIZE},
	{"Min", WS_KIND_SIZE},
	{"Max", WS_KIND_SIZE},
	{"StdDev", WS_KIND_SIZE},
	{"Source", WS_KIND_TEXT},
	{"Name", WS_KIND_TEXT},
};
static const struct ws_column of_vulkan[] = {
	{"Start", WS_KIND_TIME},       {"Duration", WS_KIND_TIME}, {"Name", WS_KIND_TEXT},
	{"Event Class", WS_KIND_ID},   {"Context", WS_KIND_ID},	   {"CorrID", WS_KIND_ID},
	{"Pid", WS_KIND_ID},	       {"Tid", WS_KIND_ID},	   {"T-Pri", WS_KIND_ID},
	{"Thread Name", WS_KIND_TEXT},
};
static const struct ws_column of_events[] = {
	{"Start", WS_KIND_TIME},
	{"End", WS_KIND_TIME},
	{"Duration", WS_KIND_TIME},
	{"Event", WS_KIND_TEXT},
	{"Pid", WS_KIND_ID},
	{"Tid", WS_KIND_ID},
	{"Tag", WS_KIND_ID},
	{"Rank", WS_KIND_ID},
	{"PeerRank", WS_KIND_ID},
	{"RootRank", WS_KIND_ID},
	{"Size", WS_KIND_SIZE},
	{"CollSendSize", WS_KIND_SIZE},
	{"CollRecvSize", WS_KIND_SIZE},
};

SUM(openmp_sum, "OpenMP Summary", "OpenMP's events by name.", "OpenMP events", true, of_counts,
    {.table = "OPENMP_EVENT_KIND_*"});
SUM(openacc_sum, "OpenACC Summary", "OpenACC's events by name.", "OpenACC events", true, of_calls,
    {.table = "CUPTI_ACTIVITY_KIND_OPENACC_*"});
SUM(opengl_khr_range_sum, "OpenGL KHR_debug Range Summary",
    "OpenGL's debug groups on the CPU by text, or by number where they have none.",
    "OpenGL debug groups", true, of_ranges,
    {.table = "KHR_DEBUG_EVENTS",
     .where = "eventClass",
     .is = KHR_DEBUG_PUSH_POP,
     .or_number = "id"});
SUM(opengl_khr_gpu_range_sum, "OpenGL KHR_debug GPU Range Summary",
    "OpenGL's debug groups on GPUs by text, or by number where they have none.",
    "OpenGL debug groups on GPUs", true, of_ranges,
    {.table = "KHR_DEBUG_EVENTS",
     .where = "eventClass",
     .is = KHR_DEBUG_GPU_PUSH_POP,
     .or_number = "id"});
SUM(vulkan_marker_sum, "Vulkan Range Summary", "Vulkan's debug markers on the CPU by text.",
    "Vulkan markers", true, of_ranges, {.table = "VULKAN_DEBUG_API", .field = "textId"});
SUM(vulkan_gpu_marker_sum, "Vulkan GPU Range Summary", "Vulkan's debug markers on GPUs by text.",
    "Vulkan markers on GPUs", true, of_ranges, {.table = "VULKAN_WORKLOAD", .field = "textId"});
SUM(vulkan_api_sum, "Vulkan API Summary", "Calls of the Vulkan API by function.", "Vulkan calls",
    false, of_calls, {.table = "VULKAN_API"});
SUM(nvvideo_api_sum, "NVIDIA Video API Summary", "Calls of the video APIs by function.",
    "calls of the video APIs", false, of_video, {.table = "NVVIDEO_ENCODER_*", .label = "Encoder"},
    {.table = "NVVIDEO_DECODER_*", .label = "Decoder"},
    {.table = "NVVIDEO_JPEG_*", .label = "JPEG"});
SUM(syscall_sum, "System Call Summary", "Calls of the kernel by name.", "system calls", false,
    of_calls, {.table = "SYSCALL*"});
SUM(mpi_event_sum, "MPI Event Summary", "Calls of MPI by kind and function.", "MPI calls", false,
    of_mpi, {.table = "MPI_P2P_EVENTS", .label = "p2p"},
    {.table = "MPI_COLLECTIVES_EVENTS", .label = "coll"},
    {.table = "MPI_START_WAIT_EVENTS", .label = "start_wait"},
    {.table = "MPI_OTHER_EVENTS", .label = "other"});
SUM(mpi_msg_size_sum, "MPI Message Size Summary",
    "Bytes that calls of MPI sent and received, by kind and function.", "MPI messages", false,
    of_messages, {.table = "MPI_P2P_EVENTS", .label = "p2p", .bytes = "size"},
    {.table = "MPI_COLLECTIVES_EVENTS", .label = "coll_send", .bytes = "size"},
    {.table = "MPI_COLLECTIVES_EVENTS", .label = "coll_recv", .bytes = "recvSize"});
TRACE(mpi_event_trace, "MPI Event Trace", "Every call of MPI by start, with its ranks and sizes.",
      "MPI calls", of_events, mpi_row, {.table = "MPI_P2P_EVENTS"},
      {.table = "MPI_COLLECTIVES_EVENTS"}, {.table = "MPI_START_WAIT_EVENTS"},
      {.table = "MPI_OTHER_EVENTS"});
TRACE(vulkan_api_trace, "Vulkan API Trace", "Every call of the Vulkan API by start.",
      "Vulkan calls", of_vulkan, vulkan_row, {.table = "VULKAN_API"});
