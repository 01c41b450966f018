/*
 * imported.c - reports on calls of libraries that are slices: MPI, OpenMP, OpenACC, Vulkan, OpenGL,
 * video, system calls.
 *
 * The report file has no tables for most of these. The import of an SQLite export stores their
 * spans as rows of `slice`, with the name of the table as category and the other columns as a JSON
 * object. So each report here is a declaration of the tables that it adds up, and one function
 * makes all summaries.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "views/slice_args.h"
#include "text/json.h"
#include "stats/call_sum.h"
#include "stats/keyed.h"
#include "stats/summary_rows.h"
#include "text/text_numbers.h"

/* A table that a report reads. */
struct slice_source {
	const char *table; /* a name that ends in * stands for all tables that begin with it */
	const char *label; /* name of these rows in reports that have a column for it */
	/* Column with the name, where that is not the span's own; rows without it do not count. */
	const char *name_column;
	/* Column with the size to add up; NULL for the length of the span. */
	const char *size_column;
	/* Count only rows with the number `required` in this column; NULL for all. */
	const char *condition_column;
	int64_t required;
	const char *number_column; /* column with a number that names rows without a text */
};

/* Finds the sources that a row of `slice` belongs to. It keeps those of the last category, since
 * the rows of a table are consecutive. */
struct source_reader {
	const struct ws_stats *stats;
	const struct slice_source *sources; /* ended by an empty one */
	uint64_t category;
	bool has_category, is_source[8];
};

static bool matches_table(const char *pattern, const char *name)
{
	size_t length = strlen(pattern);

	if (length && pattern[length - 1] == '*')
		return !strncmp(pattern, name, length - 1);
	return !strcmp(pattern, name);
}

/* Set `is_source` to the sources that a category belongs to: calls with two sizes belong to two. */
static void find_sources(struct source_reader *reader, uint64_t category)
{
	size_t length;
	const char *name;

	if (reader->has_category && reader->category == category)
		return;
	name = ws_report_string(reader->stats->report, (uint32_t)category, &length);
	for (size_t i = 0; reader->sources[i].table; i++)
		reader->is_source[i] = matches_table(reader->sources[i].table, name);
	reader->category = category;
	reader->has_category = true;
}

static struct ws_cell make_field_cell(const struct ws_stats *stats, uint64_t args, const char *name)
{
	struct ws_json_value value;
	bool ok = false;
	int64_t value_or_zero = 0;

	if (ws_find_slice_arg(stats->report, args, name, &value))
		value_or_zero = ws_parse_json_fixed(&value, 0, &ok);
	return ws_cell_int_if(ok, value_or_zero);
}

/* ---- summaries ---- */

struct slice_sums {
	struct source_reader reader;
	struct ws_text_numbers names;
	struct ws_keyed_dists values; /* (number of the source, number of the name) */
	struct ws_text scratch;
	uint64_t unended, backwards;
};

/* Find the name that row i counts for; *number gets its number. False when the row has none. */
static bool number_row_name(struct slice_sums *sums, const struct slice_source *from,
			    const struct ws_batch *batch, size_t i, uint64_t *number)
{
	const struct ws_stats *stats = sums->reader.stats;
	struct ws_json_value value;
	size_t length;
	const char *name;

	if (!from->name_column && from->number_column && !batch->col[ws_slice_name][i]) {
		struct ws_cell id =
			make_field_cell(stats, batch->col[ws_slice_args][i], from->number_column);

		if (id.type != WS_CELL_INT)
			id.i = 0;
		sums->scratch.len = 0;
		ws_text_printf(&sums->scratch, "%" PRId64, id.i);
		name = sums->scratch.text, length = sums->scratch.len;
	} else if (!from->name_column) {
		name = ws_get_name(stats, (uint32_t)batch->col[ws_slice_name][i], &length);
	} else if (ws_find_slice_arg(stats->report, batch->col[ws_slice_args][i], from->name_column,
				     &value) &&
		   value.type == WS_JSON_STRING) {
		sums->scratch.len = 0;
		name = ws_unescape_json_text(&value, &sums->scratch, &length);
	} else {
		return false;
	}
	*number = ws_number_text(&sums->names, name, length);
	return true;
}

static void add_slice(struct slice_sums *sums, size_t source, const struct ws_batch *batch,
		      size_t i)
{
	const struct slice_source *from = &sums->reader.sources[source];
	uint64_t start = batch->col[ws_slice_start][i], end = batch->col[ws_slice_end][i],
		 key[2] = {source}, value = end - start;

	if (from->condition_column) {
		struct ws_cell is = make_field_cell(
			sums->reader.stats, batch->col[ws_slice_args][i], from->condition_column);

		if (is.type != WS_CELL_INT || is.i != from->required)
			return;
	}
	if (!number_row_name(sums, from, batch, i, &key[1]))
		return;
	if (from->size_column) {
		struct ws_cell bytes = make_field_cell(
			sums->reader.stats, batch->col[ws_slice_args][i], from->size_column);

		if (bytes.type == WS_CELL_NULL || bytes.i < 0)
			return;
		value = (uint64_t)bytes.i;
	} else if (end == WS_NO_TIME || end < start) {
		ws_count_left_out(end, &sums->unended, &sums->backwards);
		return;
	}
	ws_dist_add(ws_keyed_get(&sums->values, key), value);
}

static int scan_slices(void *context, const struct ws_batch *batch)
{
	struct slice_sums *sums = context;

	for (size_t i = 0; i < batch->rows; i++) {
		find_sources(&sums->reader, batch->col[ws_slice_category][i]);
		for (size_t k = 0; sums->reader.sources[k].table; k++)
			if (sums->reader.is_source[k])
				add_slice(sums, k, batch, i);
	}
	return 0;
}

static void print_message_sizes(struct ws_stats *stats, const struct ws_summary_row *lines,
				size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct ws_summary *summary = lines[i].summary;

		stats->row(stats, (struct ws_cell[]){
					  ws_cell_real(summary->total),
					  ws_cell_int((int64_t)summary->count),
					  ws_cell_real(ws_compute_summary_mean(summary)),
					  ws_cell_real(ws_compute_summary_median(summary)),
					  ws_cell_real(summary->min),
					  ws_cell_real(summary->max),
					  ws_cell_real(summary->stddev),
					  ws_cell_text(lines[i].style, strlen(lines[i].style)),
					  ws_cell_text(lines[i].name, lines[i].name_length),
				  });
	}
}

static bool has_same_label(const struct slice_source *left, const struct slice_source *right)
{
	if (!left->label || !right->label)
		return left->label == right->label;
	return !strcmp(left->label, right->label);
}

/* Give sources with the same label the same key: they are one source in the table. */
static void make_canonical_source(void *context, size_t table, uint64_t *key)
{
	const struct slice_source *sources = context;

	(void)table;
	for (size_t i = 0; i < key[0]; i++)
		if (has_same_label(&sources[i], &sources[key[0]]))
			key[0] = i;
}

static void print_imported_sums(struct ws_stats *stats, struct slice_sums *sums)
{
	struct ws_keyed_sums all;
	struct ws_summary_row *lines;

	ws_keyed_merge(&sums->values, 1, make_canonical_source, (void *)sums->reader.sources, &all);
	lines = ws_calloc(all.count, sizeof(*lines));
	for (size_t i = 0; i < all.count; i++) {
		lines[i].summary = &all.summaries[i];
		lines[i].style = sums->reader.sources[all.keys[2 * i]].label;
		lines[i].name = ws_get_numbered_text(&sums->names, (uint32_t)all.keys[2 * i + 1],
						     &lines[i].name_length);
	}
	if (sums->reader.sources[0].size_column) {
		ws_sort_summary_rows(lines, all.count);
		print_message_sizes(stats, lines, all.count);
	} else
		ws_print_summary_rows(stats, lines, all.count);
	free(lines);
	ws_keyed_sums_free(&all);
}

/* Returns 1 when the batch has a row for the report: most files have none, but many slices. */
static int find_any_slice(void *context, const struct ws_batch *batch)
{
	struct source_reader reader =
		*(const struct source_reader *)context; /* a copy: several threads use it */

	for (size_t i = 0; i < batch->rows; i++) {
		find_sources(&reader, batch->col[ws_slice_category][i]);
		for (size_t k = 0; reader.sources[k].table; k++)
			if (reader.is_source[k])
				return 1;
	}
	return 0;
}

static int make_slice_sums(struct ws_stats *stats, const struct slice_source *sources)
{
	struct ws_scan scan = {
		.table = WS_TABLE_slice,
		.columns = WS_COLUMN_BIT(slice, start) | WS_COLUMN_BIT(slice, end) |
			   WS_COLUMN_BIT(slice, name) | WS_COLUMN_BIT(slice, category) |
			   WS_COLUMN_BIT(slice, args),
		.time_min = stats->time_min,
		.time_max = stats->time_max,
		.workers = 1, /* all reports share one table of texts; these tables are small */
	};
	struct slice_sums sums = {.reader = {.stats = stats, .sources = sources},
				  .values = {.words = 2, .dists_per_key = 1}};

	struct ws_scan probe = {.table = WS_TABLE_slice,
				.columns = WS_COLUMN_BIT(slice, category),
				.time_min = stats->time_min,
				.time_max = stats->time_max};
	uint64_t damaged = 0;

	if (ws_run_scan(stats->report, &probe, find_any_slice, &sums.reader, &damaged) != 1) {
		stats->damaged += damaged;
		return 0;
	}
	ws_run_scan(stats->report, &scan, scan_slices, &sums, &stats->damaged);
	stats->unended += sums.unended;
	stats->backwards += sums.backwards;
	print_imported_sums(stats, &sums);
	ws_free_text_numbers(&sums.names);
	ws_text_free(&sums.scratch);
	return 0;
}

/* ---- lists ---- */

typedef void trace_row(struct ws_stats *stats, const uint64_t *values, const struct ws_map *ranks);

/* Read the rank + 1 of processes (global id >> 24) from MPI_RANKS, which has no times and is stored
 * as foreign rows. */
static void read_mpi_ranks(const struct ws_stats *stats, struct ws_map *ranks)
{
	struct ws_cursor *cursor = ws_cursor_open(stats->report, WS_TABLE_foreign, 0, UINT64_MAX);
	const uint64_t *values;
	size_t length;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_cell who, rank;

		if (strcmp(ws_report_string(stats->report, (uint32_t)values[ws_foreign_table],
					    &length),
			   "MPI_RANKS"))
			continue;
		who = make_field_cell(stats, values[ws_foreign_row], "globalTid");
		rank = make_field_cell(stats, values[ws_foreign_row], "rank");
		if (who.type == WS_CELL_INT && rank.type == WS_CELL_INT)
			ws_map_set(ranks, (uint64_t)who.i >> 24, (uint64_t)rank.i + 1);
	}
	ws_cursor_close(cursor);
}

static int make_slice_trace(struct ws_stats *stats, const struct slice_source *sources,
			    trace_row *row)
{
	struct ws_cursor *cursor =
		ws_cursor_open(stats->report, WS_TABLE_slice, stats->time_min, stats->time_max);
	struct source_reader reader = {.stats = stats, .sources = sources};
	struct ws_map ranks = {0};
	const uint64_t *values;

	read_mpi_ranks(stats, &ranks);
	while (ws_cursor_next(cursor, &values)) {
		bool any = false;

		find_sources(&reader, values[ws_slice_category]);
		for (size_t i = 0; sources[i].table; i++)
			any |= reader.is_source[i];
		if (any && values[ws_slice_end] < values[ws_slice_start])
			stats->backwards++;
		else if (any)
			row(stats, values, &ranks);
	}
	ws_map_free(&ranks);
	ws_cursor_close(cursor);
	return 0;
}

static struct ws_cell make_slice_text_cell(const struct ws_stats *stats, uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(stats->report, (uint32_t)id, &length);

	return ws_cell_text(text, length);
}

static struct ws_cell make_slice_length_cell(const uint64_t *values)
{
	return ws_cell_int_if(values[ws_slice_end] != WS_NO_TIME,
			      (int64_t)(values[ws_slice_end] - values[ws_slice_start]));
}

static void print_vulkan_row(struct ws_stats *stats, const uint64_t *values,
			     const struct ws_map *ranks)
{
	const struct ws_thread_info *info =
		ws_find_thread(stats->who, (uint32_t)values[ws_slice_thread]);
	uint64_t args = values[ws_slice_args];
	bool named = *info->name;

	(void)ranks;
	stats->row(stats, (struct ws_cell[]){
				  ws_cell_int((int64_t)(values[ws_slice_start] - stats->zero)),
				  make_slice_length_cell(values),
				  make_slice_text_cell(stats, values[ws_slice_name]),
				  make_field_cell(stats, args, "eventClass"),
				  make_field_cell(stats, args, "contextId"),
				  make_field_cell(stats, args, "correlationId"),
				  ws_cell_int(info->pid),
				  ws_cell_int(info->tid),
				  ws_cell_int_if(named, info->priority),
				  ws_cell_text_if(named, info->name, strlen(info->name)),
			  });
}

static void print_mpi_row(struct ws_stats *stats, const uint64_t *values,
			  const struct ws_map *ranks)
{
	const struct ws_thread_info *info =
		ws_find_thread(stats->who, (uint32_t)values[ws_slice_thread]);
	uint64_t args = values[ws_slice_args], start = values[ws_slice_start],
		 end = values[ws_slice_end];
	uint64_t rank = ws_map_get(ranks, info->global_tid >> 24, NULL);
	struct ws_cell size = make_field_cell(stats, args, "size"), sent = ws_cell_null(),
		       received = ws_cell_null();

	if (!strcmp(ws_report_string(stats->report, (uint32_t)values[ws_slice_category], NULL),
		    "MPI_COLLECTIVES_EVENTS")) {
		sent = size;
		size = ws_cell_null();
		received = make_field_cell(stats, args, "recvSize");
	}
	stats->row(stats, (struct ws_cell[]){
				  ws_cell_int((int64_t)(start - stats->zero)),
				  ws_cell_int_if(end != WS_NO_TIME, (int64_t)(end - stats->zero)),
				  make_slice_length_cell(values),
				  make_slice_text_cell(stats, values[ws_slice_name]),
				  ws_cell_int(info->pid),
				  ws_cell_int(info->tid),
				  make_field_cell(stats, args, "tag"),
				  ws_cell_int_if(rank, (int64_t)rank - 1),
				  make_field_cell(stats, args, "remoteRank"),
				  make_field_cell(stats, args, "rootRank"),
				  size,
				  sent,
				  received,
			  });
}

/* ---- the reports ---- */

/* Our own recordings take precedence over imported data of the same kind. */
static int make_sums_of(struct ws_stats *stats, const struct ws_call_columns *own,
			const struct slice_source *sources, struct ws_err *err)
{
	if (ws_report_count_rows(stats->report, own->table))
		return ws_make_call_sums(stats, own, err);
	return make_slice_sums(stats, sources);
}

/* Values of ENUM_NSYS_EVENT_TYPE. */
enum { KHR_DEBUG_PUSH_POP = 62, KHR_DEBUG_GPU_PUSH_POP = 63 };

#define FROM_IMPORTS " From imported SQLite exports of Nsight Systems"
#define REPORT(ID, TITLE, ABOUT, WHAT, DEFAULT, COLUMNS, HOW)                   \
	static int make_##ID##_rows(struct ws_stats *stats, struct ws_err *err) \
	{                                                                       \
		(void)err;                                                      \
		return HOW;                                                     \
	}                                                                       \
	const struct ws_stats_report ws_stat_##ID = {                           \
		.name = #ID,                                                    \
		.title = TITLE,                                                 \
		.about = ABOUT,                                                 \
		.what = WHAT,                                                   \
		.by_default = DEFAULT,                                          \
		.columns = COLUMNS,                                             \
		.column_count = WS_COUNT(COLUMNS),                              \
		.run = make_##ID##_rows,                                        \
	}
#define SUM(ID, TITLE, ABOUT, WHAT, DEFAULT, COLUMNS, ...)                 \
	static const struct slice_source from_##ID[] = {__VA_ARGS__, {0}}; \
	REPORT(ID, TITLE, ABOUT, WHAT, DEFAULT, COLUMNS, make_slice_sums(stats, from_##ID))
/* The same for kinds that recordings also have, in a table of their own. */
#define OWN_SUM(ID, TITLE, ABOUT, WHAT, DEFAULT, COLUMNS, OWN, ...)        \
	static const struct slice_source from_##ID[] = {__VA_ARGS__, {0}}; \
	static const struct ws_call_columns own_##ID = OWN;                \
	REPORT(ID, TITLE, ABOUT, WHAT, DEFAULT, COLUMNS,                   \
	       make_sums_of(stats, &own_##ID, from_##ID, err))
#define TRACE(ID, TITLE, ABOUT, WHAT, COLUMNS, ROW, ...)                   \
	static const struct slice_source from_##ID[] = {__VA_ARGS__, {0}}; \
	REPORT(ID, TITLE, ABOUT, WHAT, false, COLUMNS, make_slice_trace(stats, from_##ID, ROW))

static const struct ws_column of_calls[] = {WS_SUMMARY_COLUMNS("Num Calls"),
					    {"Name", WS_KIND_TEXT}};
static const struct ws_column of_counts[] = {WS_SUMMARY_COLUMNS("Count"), {"Name", WS_KIND_TEXT}};
static const struct ws_column of_ranges[] = {WS_SUMMARY_COLUMNS("Instances"),
					     {"Range", WS_KIND_TEXT}};
static const struct ws_column of_frames[] = {
	WS_SUMMARY_COLUMNS("Instances"), {"Source", WS_KIND_TEXT}, {"Name", WS_KIND_TEXT}};
static const struct ws_column of_mpi[] = {
	WS_SUMMARY_COLUMNS("Instances"), {"Source", WS_KIND_TEXT}, {"Name", WS_KIND_TEXT}};
static const struct ws_column of_video[] = {
	WS_SUMMARY_COLUMNS("Num Calls"), {"Event Type", WS_KIND_TEXT}, {"Name", WS_KIND_TEXT}};
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

OWN_SUM(openmp_sum, "OpenMP Summary",
	"OpenMP's events by what they are and the function they are in: parallel regions, tasks, "
	"barriers, work sharing, locks. Recorded with --trace=openmp",
	"OpenMP events", true, of_counts, WS_CALL_COLUMNS(openmp),
	{.table = "OPENMP_EVENT_KIND_*"});
OWN_SUM(openacc_sum, "OpenACC Summary",
	"OpenACC's events by what they are and where their directive stands: data, launches, "
	"waits. Recorded with --trace=openacc",
	"OpenACC events", true, of_calls, WS_CALL_COLUMNS(openacc),
	{.table = "CUPTI_ACTIVITY_KIND_OPENACC_*"});
SUM(opengl_khr_range_sum, "OpenGL KHR_debug Range Summary",
    "OpenGL's debug groups on the CPU by text, or by number where they have none. "
    "Recorded with --trace=opengl",
    "OpenGL debug groups", true, of_ranges,
    {.table = "KHR_DEBUG_EVENTS",
     .condition_column = "eventClass",
     .required = KHR_DEBUG_PUSH_POP,
     .number_column = "id"});
SUM(opengl_khr_gpu_range_sum, "OpenGL KHR_debug GPU Range Summary",
    "OpenGL's debug groups on GPUs by text, or by number where they have none. "
    "Recorded with --trace=opengl",
    "OpenGL debug groups on GPUs", true, of_ranges,
    {.table = "KHR_DEBUG_EVENTS",
     .condition_column = "eventClass",
     .required = KHR_DEBUG_GPU_PUSH_POP,
     .number_column = "id"});
SUM(opengl_api_sum, "OpenGL API Summary",
    "Calls of OpenGL, GLX and EGL by function. Recorded with --trace=opengl", "OpenGL calls", false,
    of_calls, {.table = "OPENGL_API"});
SUM(graphics_frame_sum, "Graphics Frame Summary",
    "Frames by interface: how long from one swap or presentation to the next. Recorded with "
    "--trace=opengl,vulkan",
    "frames", false, of_frames, {.table = "OPENGL_FRAMES", .label = "OpenGL"},
    {.table = "VULKAN_FRAMES", .label = "Vulkan"});
SUM(vulkan_marker_sum, "Vulkan Range Summary",
    "Vulkan's debug labels on the CPU by text. Recorded with --trace=vulkan", "Vulkan markers",
    true, of_ranges, {.table = "VULKAN_DEBUG_API", .name_column = "textId"});
SUM(vulkan_gpu_marker_sum, "Vulkan GPU Range Summary",
    "Vulkan's debug labels on GPUs by text. Recorded with --trace=vulkan", "Vulkan markers on GPUs",
    true, of_ranges, {.table = "VULKAN_WORKLOAD", .name_column = "textId"});
SUM(vulkan_api_sum, "Vulkan API Summary",
    "Calls of Vulkan by function. Recorded with --trace=vulkan", "Vulkan calls", false, of_calls,
    {.table = "VULKAN_API"});
SUM(nvvideo_api_sum, "NVIDIA Video API Summary",
    "Calls of the video APIs by function." FROM_IMPORTS, "calls of the video APIs", false, of_video,
    {.table = "NVVIDEO_ENCODER_*", .label = "Encoder"},
    {.table = "NVVIDEO_DECODER_*", .label = "Decoder"},
    {.table = "NVVIDEO_JPEG_*", .label = "JPEG"});
OWN_SUM(syscall_sum, "System Call Summary",
	"Calls of the kernel by name. Recorded with --trace=syscall", "system calls", false,
	of_calls, WS_CALL_COLUMNS(syscall), {.table = "SYSCALL*"});
SUM(mpi_event_sum, "MPI Event Summary", "Calls of MPI by kind and function.", "MPI calls", false,
    of_mpi, {.table = "MPI_P2P_EVENTS", .label = "p2p"},
    {.table = "MPI_COLLECTIVES_EVENTS", .label = "coll"},
    {.table = "MPI_START_WAIT_EVENTS", .label = "start_wait"},
    {.table = "MPI_OTHER_EVENTS", .label = "other"});
SUM(mpi_msg_size_sum, "MPI Message Size Summary",
    "Bytes that calls of MPI sent and received, by kind and function.", "MPI messages", false,
    of_messages, {.table = "MPI_P2P_EVENTS", .label = "p2p", .size_column = "size"},
    {.table = "MPI_COLLECTIVES_EVENTS", .label = "coll_send", .size_column = "size"},
    {.table = "MPI_COLLECTIVES_EVENTS", .label = "coll_recv", .size_column = "recvSize"});
TRACE(mpi_event_trace, "MPI Event Trace", "Every call of MPI by start, with its ranks and sizes.",
      "MPI calls", of_events, print_mpi_row, {.table = "MPI_P2P_EVENTS"},
      {.table = "MPI_COLLECTIVES_EVENTS"}, {.table = "MPI_START_WAIT_EVENTS"},
      {.table = "MPI_OTHER_EVENTS"});
TRACE(vulkan_api_trace, "Vulkan API Trace",
      "Every call of Vulkan by start. Recorded with --trace=vulkan", "Vulkan calls", of_vulkan,
      print_vulkan_row, {.table = "VULKAN_API"});
