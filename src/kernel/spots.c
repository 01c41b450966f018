/* spots.c - see spots.h. */
#include "kernel/spots.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "query/query.h"
#include "schema/kernel_sass.h"

#define STALLED "smsp__pcsamp_warps_issue_stalled_"
#define NOT_ISSUED "_not_issued"
enum { WARP = 32, REASON_ROOM = 128 };

const struct ws_spot_metric ws_spot_metrics[WS_SPOT_COUNTS] = {
#define WS_SPOT(identifier, metric, label, title) {metric, label, title},
#include "kernel/spots.def"
#undef WS_SPOT
};

/* ---- reading ---- */

static int compare_spots(const void *first, const void *second)
{
	const struct ws_kernel_spot *left = first, *right = second;

	if (left->function_id != right->function_id)
		return ws_compare(left->function_id, right->function_id);
	if (left->cubin != right->cubin)
		return ws_compare(left->cubin, right->cubin);
	return ws_compare(left->pc, right->pc);
}

/* The number of a reason; -1 when there are too many. */
static int find_reason(struct ws_kernel_spots *spots, const char *name, size_t length)
{
	char text[REASON_ROOM];
	size_t i = 0;

	while (i < spots->reason_count &&
	       (strncmp(spots->reasons[i], name, length) != 0 || spots->reasons[i][length] != 0))
		i++;
	if (i < spots->reason_count)
		return (int)i;
	if (i == WS_SPOT_STALLS || length >= sizeof(text))
		return -1;
	spots->reasons[spots->reason_count++] = ws_strndup(name, length);
	return (int)i;
}

/* Some tools add how the values of the units were combined. */
static bool is_metric(const char *name, const char *metric)
{
	size_t n = strlen(metric);

	return !strncmp(name, metric, n) && (!name[n] || !strcmp(name + n, ".sum"));
}

static void add_value(struct ws_kernel_spots *spots, struct ws_kernel_spot *spot,
		      const char *metric, double value)
{
	size_t length;
	int reason;
	bool idle;

	for (int i = 0; i < WS_SPOT_COUNTS; i++)
		if (is_metric(metric, ws_spot_metrics[i].metric))
			spot->counts[i] += value;
	if (strncmp(metric, STALLED, strlen(STALLED)) != 0)
		return;
	metric += strlen(STALLED);
	length = strlen(metric);
	idle = length > strlen(NOT_ISSUED) &&
	       !strcmp(metric + length - strlen(NOT_ISSUED), NOT_ISSUED);
	if (idle)
		length -= strlen(NOT_ISSUED);
	reason = find_reason(spots, metric, length);
	if (reason >= 0 && idle)
		spot->not_issued[reason] += value;
	else if (reason >= 0)
		spot->stalls[reason] += value;
}

static struct ws_kernel_spot *add_spot(struct ws_kernel_spots *spots,
				       const struct ws_kernel_spot *spot)
{
	ws_grow(spots->spots, spots->capacity, spots->count + 1);
	spots->spots[spots->count] = *spot;
	return &spots->spots[spots->count++];
}

static void read_values(const struct ws_report *report, uint32_t result,
			struct ws_kernel_spots *spots)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_kernel_source, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_kernel_spot *spot;
		double value;

		if (values[ws_kernel_source_result] != result)
			continue;
		spot = add_spot(
			spots,
			&(struct ws_kernel_spot){
				.function_id = (uint32_t)values[ws_kernel_source_function],
				.cubin = values[ws_kernel_source_cubin],
				.pc = values[ws_kernel_source_pc],
				.line = (uint32_t)values[ws_kernel_source_line],
				.sass = ws_report_string(
					report, (uint32_t)values[ws_kernel_source_sass], NULL),
				.file = ws_report_string(
					report, (uint32_t)values[ws_kernel_source_file], NULL),
				.inlined = "",
				.callers = ""});
		memcpy(&value, &values[ws_kernel_source_value], sizeof(value));
		add_value(spots, spot,
			  ws_report_string(report, (uint32_t)values[ws_kernel_source_metric], NULL),
			  value);
	}
	ws_cursor_close(cursor);
}

/* Whether values were found of a function. */
static bool has_function(const struct ws_kernel_spots *spots, size_t count, uint32_t function,
			 uint64_t cubin)
{
	struct ws_kernel_spot key = {.function_id = function, .cubin = cubin};
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare_spots(&spots->spots[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && spots->spots[low].function_id == function &&
	       spots->spots[low].cubin == cubin;
}

/* Add the instructions of the same functions: those that were not executed too. */
static void read_instructions(const struct ws_report *report, struct ws_kernel_spots *spots)
{
	struct ws_cursor *cursor =
		ws_cursor_open(report, WS_TABLE_kernel_instruction, 0, UINT64_MAX);
	size_t count = spots->count;
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		struct ws_row_kernel_instruction row = {0};

		for (uint32_t i = 0; i < ws_tables[WS_TABLE_kernel_instruction].column_count; i++)
			ws_row_set(WS_TABLE_kernel_instruction, &row, i, values[i]);
		if (!has_function(spots, count, row.function, row.cubin))
			continue;
		add_spot(spots, &(struct ws_kernel_spot){
					.function_id = row.function,
					.cubin = row.cubin,
					.pc = row.pc,
					.line = row.line,
					.ptx = row.ptx,
					.sass = ws_report_string(report, row.sass, NULL),
					.file = ws_report_string(report, row.file, NULL),
					.inlined = ws_report_string(report, row.inlined, NULL),
					.callers = ws_report_string(report, row.callers, NULL)});
	}
	ws_cursor_close(cursor);
}

static void add_counts(struct ws_kernel_spot *to, const struct ws_kernel_spot *from)
{
	for (int i = 0; i < WS_SPOT_COUNTS; i++)
		to->counts[i] += from->counts[i];
	for (int i = 0; i < WS_SPOT_STALLS; i++) {
		to->stalls[i] += from->stalls[i];
		to->not_issued[i] += from->not_issued[i];
	}
}

/* Values of one instruction become one spot. */
static void join_spots(struct ws_kernel_spots *spots)
{
	size_t to = 0;

	if (spots->count)
		qsort(spots->spots, spots->count, sizeof(*spots->spots), compare_spots);
	for (size_t i = 0; i < spots->count; i++) {
		struct ws_kernel_spot *from = &spots->spots[i], *last = &spots->spots[to - !!to];

		if (!to || compare_spots(last, from)) {
			spots->spots[to++] = *from;
			continue;
		}
		add_counts(last, from);
		if (!*last->inlined)
			last->inlined = from->inlined;
		if (!*last->callers)
			last->callers = from->callers;
		last->ptx = ws_max(last->ptx, from->ptx);
	}
	spots->count = to;
}

/* Samples that are known by their reasons only. */
static void sum_samples(struct ws_kernel_spots *spots)
{
	for (size_t i = 0; i < spots->count; i++)
		if (spots->spots[i].counts[WS_SPOT_samples] > 0)
			return;
	for (size_t i = 0; i < spots->count; i++)
		for (size_t j = 0; j < spots->reason_count; j++)
			spots->spots[i].counts[WS_SPOT_samples] += spots->spots[i].stalls[j];
}

void ws_kernel_load_spots(const struct ws_report *report, uint32_t result,
			  struct ws_kernel_spots *spots)
{
	*spots = (struct ws_kernel_spots){0};
	if (!ws_report_count_rows(report, WS_TABLE_kernel_source))
		return;
	read_values(report, result, spots);
	join_spots(spots);
	if (spots->count)
		read_instructions(report, spots);
	join_spots(spots);
	sum_samples(spots);
	for (size_t i = 0; i < spots->count; i++) {
		struct ws_kernel_spot *spot = &spots->spots[i];

		spot->function = ws_report_string(report, spot->function_id, NULL);
		spot->instructions = 1;
		add_counts(&spots->total, spot);
	}
}

void ws_kernel_free_spots(struct ws_kernel_spots *spots)
{
	for (size_t i = 0; i < spots->reason_count; i++)
		free((char *)spots->reasons[i]);
	free(spots->spots);
	*spots = (struct ws_kernel_spots){0};
}

/* ---- lines ---- */

static int compare_lines(const void *first, const void *second)
{
	const struct ws_kernel_spot *left = first, *right = second;
	int by_file = strcmp(left->file, right->file);

	if (by_file)
		return by_file;
	if (left->line != right->line)
		return ws_compare(left->line, right->line);
	return compare_spots(left, right);
}

static int compare_heat(const void *first, const void *second)
{
	const struct ws_kernel_spot *left = first, *right = second;

	if (left->counts[WS_SPOT_samples] != right->counts[WS_SPOT_samples])
		return ws_compare(right->counts[WS_SPOT_samples], left->counts[WS_SPOT_samples]);
	if (left->counts[WS_SPOT_executed] != right->counts[WS_SPOT_executed])
		return ws_compare(right->counts[WS_SPOT_executed], left->counts[WS_SPOT_executed]);
	return compare_lines(left, right);
}

void ws_kernel_sum_lines(const struct ws_kernel_spots *spots, struct ws_kernel_spots *lines)
{
	size_t to = 0;

	*lines = (struct ws_kernel_spots){.total = spots->total,
					  .reason_count = spots->reason_count};
	for (size_t i = 0; i < spots->reason_count; i++)
		lines->reasons[i] = ws_strdup(spots->reasons[i]);
	for (size_t i = 0; i < spots->count; i++)
		add_spot(lines, &spots->spots[i]);
	if (lines->count)
		qsort(lines->spots, lines->count, sizeof(*lines->spots), compare_lines);
	for (size_t i = 0; i < lines->count; i++) {
		struct ws_kernel_spot *from = &lines->spots[i], *last = &lines->spots[to - !!to];

		if (!to || !from->line || from->line != last->line ||
		    strcmp(from->file, last->file) != 0) {
			lines->spots[to++] = *from;
			continue;
		}
		add_counts(last, from);
		last->instructions++;
	}
	lines->count = to;
	if (to)
		qsort(lines->spots, to, sizeof(*lines->spots), compare_heat);
}

/* ---- figures ---- */

double ws_spot_not_issued(const struct ws_kernel_spots *spots, const struct ws_kernel_spot *spot)
{
	double sum = 0;

	for (size_t i = 0; i < spots->reason_count; i++)
		sum += spot->not_issued[i];
	return sum;
}

const char *ws_spot_main_stall(const struct ws_kernel_spots *spots,
			       const struct ws_kernel_spot *spot, double *samples)
{
	const char *best = NULL;

	*samples = 0;
	for (size_t i = 0; i < spots->reason_count; i++)
		if (spot->stalls[i] > *samples && strcmp(spots->reasons[i], "selected") != 0) {
			*samples = spot->stalls[i];
			best = spots->reasons[i];
		}
	return best;
}

/* What is above an ideal; 0 when the ideal was not measured. */
static double find_excess(double count, double ideal)
{
	return ideal > 0 ? count - ideal : 0;
}

double ws_spot_excess_sectors(const struct ws_kernel_spot *spot)
{
	return find_excess(spot->counts[WS_SPOT_sectors], spot->counts[WS_SPOT_sectors_ideal]);
}

double ws_spot_excess_wavefronts(const struct ws_kernel_spot *spot)
{
	return find_excess(spot->counts[WS_SPOT_wavefronts],
			   spot->counts[WS_SPOT_wavefronts_ideal]);
}

double ws_spot_idle_lanes(const struct ws_kernel_spot *spot)
{
	return find_excess(WARP * spot->counts[WS_SPOT_executed], spot->counts[WS_SPOT_threads]);
}

double ws_spot_local_sectors(const struct ws_kernel_spot *spot)
{
	return spot->counts[WS_SPOT_local];
}

double ws_spot_samples(const struct ws_kernel_spot *spot)
{
	return spot->counts[WS_SPOT_samples];
}

/* The recorder's message that instructions of these functions have no text; NULL when there is
 * none. */
static const char *find_complaint(const struct ws_report *report, const char *functions)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_diagnostic, 0, UINT64_MAX);
	char *beginning = ws_format(WS_KERNEL_NO_SASS, functions);
	const char *found = NULL, *text;
	const uint64_t *values;

	while (!found && ws_cursor_next(cursor, &values)) {
		text = ws_report_string(report, (uint32_t)values[ws_diagnostic_text], NULL);
		if (!strncmp(text, beginning, strlen(beginning)))
			found = text;
	}
	ws_cursor_close(cursor);
	free(beginning);
	return found;
}

const char *ws_spot_why_no_text(const struct ws_report *report, const struct ws_kernel_spot *spots,
				size_t count)
{
	const char *of[] = {spots->function, WS_KERNEL_ALL_FUNCTIONS, WS_KERNEL_FURTHER_FUNCTIONS},
		   *complaint = NULL;

	for (size_t i = 0; i < count; i++)
		if (*spots[i].sass)
			return NULL;
	for (size_t i = 0; i < WS_COUNT(of) && !complaint; i++)
		complaint = find_complaint(report, of[i]);
	return complaint ? complaint
			 : "No instruction has a text: the CUDA toolkit's nvdisasm gives it, "
			   "where --import-source is yes.";
}

const char *ws_spot_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}
