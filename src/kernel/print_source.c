/*
 * print_source.c - the source page: the lines and instructions where a kernel spends its time, with
 * what its warps wait for there; as CSV all instructions, with the columns that scripts for Nsight
 * Compute read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "kernel/print.h"
#include "kernel/spots.h"
#include "kernel/units.h"
#include "query/query.h"

enum { LINES_SHOWN = 20, INSTRUCTIONS_SHOWN = 20, STALLS_SHOWN = 2, WARP_LANES = 32 };

/* ---- text ---- */

/* "long scoreboard 80 %, wait 12 %" */
static void add_stalls(const struct ws_kernel_spots *spots, const struct ws_kernel_spot *spot,
		       struct ws_text *text)
{
	struct ws_kernel_spot left = *spot;
	double samples, all = spot->counts[WS_SPOT_samples];

	for (int i = 0; i < STALLS_SHOWN; i++) {
		const char *reason = ws_spot_main_stall(spots, &left, &samples);

		if (!reason || samples * 10 < all)
			break;
		ws_text_puts(text, i ? ", " : "");
		for (const char *at = reason; *at; at++)
			ws_text_add(text, *at == '_' ? " " : at, 1);
		ws_text_printf(text, " %.0f%%", 100 * samples / all);
		for (size_t j = 0; j < spots->reason_count; j++)
			if (spots->reasons[j] == reason)
				left.stalls[j] = 0;
	}
}

/* What is out of order about its accesses and branches. */
static void add_faults(const struct ws_kernel_spot *spot, struct ws_text *text)
{
	double sectors = spot->counts[WS_SPOT_sectors], waves = spot->counts[WS_SPOT_wavefronts],
	       lanes = WARP_LANES * spot->counts[WS_SPOT_executed];

	if (sectors > 0 && ws_spot_excess_sectors(spot) > 0)
		ws_text_printf(text, " [%.0f%% of the sectors in vain]",
			       100 * ws_spot_excess_sectors(spot) / sectors);
	if (waves > 0 && ws_spot_excess_wavefronts(spot) > 0)
		ws_text_printf(text, " [%.0f%% of the wavefronts repeated]",
			       100 * ws_spot_excess_wavefronts(spot) / waves);
	if (lanes > 0 && ws_spot_idle_lanes(spot) > lanes / 20)
		ws_text_printf(text, " [%.0f%% of the lanes idle]",
			       100 * ws_spot_idle_lanes(spot) / lanes);
	if (spot->counts[WS_SPOT_local] > 0)
		ws_text_puts(text, " [local memory]");
}

static void add_place(const struct ws_kernel_spot *spot, char *out, size_t room)
{
	if (spot->line)
		snprintf(out, room, "%s:%u", ws_spot_file_name(spot->file), spot->line);
	else
		snprintf(out, room, "-");
}

static bool has_samples(const struct ws_kernel_spots *spots)
{
	return spots->total.counts[WS_SPOT_samples] > 0;
}

/* Where warps were not sampled, the share of the instructions takes the place of that of the
 * samples. */
static void add_figures(const struct ws_kernel_spots *spots, const struct ws_kernel_spot *spot,
			struct ws_text *text)
{
	enum ws_spot_count heat = has_samples(spots) ? WS_SPOT_samples : WS_SPOT_executed;
	double all = spots->total.counts[heat], share = all > 0 ? spot->counts[heat] / all : 0;
	char executed[WS_NUMBER_ROOM];

	ws_kernel_print_number(spot->counts[WS_SPOT_executed], executed);
	if (heat == WS_SPOT_samples)
		ws_text_printf(text, "    %9.0f", spot->counts[heat]);
	else
		ws_text_puts(text, "   ");
	ws_text_printf(text, " %5.1f%% %14s  ", 100 * share, executed);
}

/* The head of a table of places: lines or instructions. */
static void add_head(const struct ws_kernel_spots *spots, const char *places, struct ws_text *text)
{
	if (has_samples(spots))
		ws_text_printf(text,
			       "      Samples  Share   Instructions  %s, what its warps wait for\n",
			       places);
	else
		ws_text_printf(text, "     Share   Instructions  %s\n", places);
}

/* The text of a source line as it was kept; "" when it was not. Owned by the report. */
static const char *find_line(const struct ws_report *report, const struct ws_kernel_spot *spot)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_kernel_text, 0, UINT64_MAX);
	const char *text = "";
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		if (!values[ws_kernel_text_cubin] && values[ws_kernel_text_line] == spot->line &&
		    !strcmp(ws_report_string(report, (uint32_t)values[ws_kernel_text_file], NULL),
			    spot->file))
			text = ws_report_string(report, (uint32_t)values[ws_kernel_text_text],
						NULL);
	ws_cursor_close(cursor);
	return text;
}

static void add_line(const struct ws_report *report, const struct ws_kernel_spots *lines,
		     const struct ws_kernel_spot *spot, struct ws_text *text)
{
	const char *source = spot->line ? find_line(report, spot) : "";
	char place[200];

	add_place(spot, place, sizeof(place));
	add_figures(lines, spot, text);
	if (spot->line)
		ws_text_puts(text, place);
	else
		ws_text_printf(text, "+0x%04llx %s", (unsigned long long)spot->pc, spot->sass);
	ws_text_puts(text, "  ");
	add_stalls(lines, spot, text);
	add_faults(spot, text);
	ws_text_puts(text, "\n");
	source += strspn(source, " \t");
	if (*source)
		ws_text_printf(text, "%*s%.100s\n", 38, "", source);
}

static void add_instruction(const struct ws_kernel_spots *spots, const struct ws_kernel_spot *spot,
			    struct ws_text *text)
{
	char place[200];

	add_place(spot, place, sizeof(place));
	add_figures(spots, spot, text);
	ws_text_printf(text, "+0x%04llx %-40s %s  ", (unsigned long long)spot->pc, spot->sass,
		       place);
	add_stalls(spots, spot, text);
	add_faults(spot, text);
	ws_text_puts(text, "\n");
}

static int compare_heat(const void *first, const void *second)
{
	const struct ws_kernel_spot *left = *(struct ws_kernel_spot *const *)first,
				    *right = *(struct ws_kernel_spot *const *)second;

	if (left->counts[WS_SPOT_samples] != right->counts[WS_SPOT_samples])
		return ws_compare(right->counts[WS_SPOT_samples], left->counts[WS_SPOT_samples]);
	if (left->counts[WS_SPOT_executed] != right->counts[WS_SPOT_executed])
		return ws_compare(right->counts[WS_SPOT_executed], left->counts[WS_SPOT_executed]);
	return ws_compare(left->pc, right->pc);
}

static bool is_cold(const struct ws_kernel_spot *spot)
{
	return spot->counts[WS_SPOT_samples] + spot->counts[WS_SPOT_executed] <= 0;
}

static void add_instructions(const struct ws_kernel_spots *spots, struct ws_text *text)
{
	const struct ws_kernel_spot **order = ws_calloc(spots->count + 1, sizeof(*order));

	for (size_t i = 0; i < spots->count; i++)
		order[i] = &spots->spots[i];
	qsort(order, spots->count, sizeof(*order), compare_heat);
	for (size_t i = 0; i < spots->count && i < INSTRUCTIONS_SHOWN && !is_cold(order[i]); i++)
		add_instruction(spots, order[i], text);
	free(order);
}

static bool has_lines(const struct ws_kernel_spots *spots)
{
	for (size_t i = 0; i < spots->count; i++)
		if (spots->spots[i].line)
			return true;
	return false;
}

static void add_lines(const struct ws_report *report, const struct ws_kernel_spots *spots,
		      struct ws_text *text)
{
	struct ws_kernel_spots lines;

	if (!has_lines(spots)) {
		ws_text_puts(text, "    No line of source is known: nvcc writes them with "
				   "-lineinfo.\n\n");
		return;
	}
	ws_kernel_sum_lines(spots, &lines);
	add_head(spots, "Line", text);
	for (size_t i = 0; i < lines.count && i < LINES_SHOWN && !is_cold(&lines.spots[i]); i++)
		add_line(report, &lines, &lines.spots[i], text);
	ws_text_puts(text, "\n");
	ws_kernel_free_spots(&lines);
}

static void add_result(const struct ws_report *report, const struct ws_kernel_result *result,
		       const struct ws_kernel_spots *spots, struct ws_text *text)
{
	const char *complaint = ws_spot_why_no_text(report, spots->spots, spots->count);

	ws_text_puts(text, "  ");
	ws_kernel_add_headline(text, result);
	if (has_samples(spots))
		ws_text_printf(text, "\n    %.0f samples of program counters, %zu instructions\n\n",
			       spots->total.counts[WS_SPOT_samples], spots->count);
	else
		ws_text_printf(text,
			       "\n    %zu instructions; program counters were not sampled\n\n",
			       spots->count);
	add_lines(report, spots, text);
	if (complaint)
		ws_text_printf(text, "    %s\n\n", complaint);
	add_head(spots, "Instruction, line", text);
	add_instructions(spots, text);
	ws_text_puts(text, "\n");
}

/* ---- CSV ---- */

static void add_field(struct ws_text *text, const char *word)
{
	ws_text_puts(text, "\"");
	for (; *word; word++) {
		if (*word == '"')
			ws_text_puts(text, "\"");
		ws_text_add(text, word, 1);
	}
	ws_text_puts(text, "\"");
}

static void add_number(struct ws_text *text, double value)
{
	ws_text_printf(text, ",\"%.15g\"", value);
}

static void add_csv_head(const struct ws_kernel_spots *spots, struct ws_text *text)
{
	ws_text_puts(text, "\"Address\",\"Source\",\"File\",\"Line\",\"Function\","
			   "\"Warp Stall Sampling (All Samples)\","
			   "\"Warp Stall Sampling (Not-issued Samples)\"");
	for (int i = 0; i < WS_SPOT_COUNTS; i++)
		ws_text_printf(text, ",\"%s\"", ws_spot_metrics[i].title);
	ws_text_puts(text, ",\"L2 Theoretical Sectors Global Excessive\","
			   "\"L1 Wavefronts Shared Excessive\"");
	for (size_t i = 0; i < spots->reason_count; i++)
		ws_text_printf(text, ",\"stall_%s\",\"stall_%s (Not Issued)\"", spots->reasons[i],
			       spots->reasons[i]);
	ws_text_puts(text, "\n");
}

static void add_csv_spot(const struct ws_kernel_spots *spots, const struct ws_kernel_spot *spot,
			 struct ws_text *text)
{
	ws_text_printf(text, "\"0x%llx\",", (unsigned long long)spot->pc);
	add_field(text, spot->sass);
	ws_text_puts(text, ",");
	add_field(text, spot->file);
	ws_text_printf(text, ",\"%u\",", spot->line);
	add_field(text, spot->function);
	add_number(text, spot->counts[WS_SPOT_samples]);
	add_number(text, ws_spot_not_issued(spots, spot));
	for (int i = 0; i < WS_SPOT_COUNTS; i++)
		add_number(text, spot->counts[i]);
	add_number(text, ws_spot_excess_sectors(spot));
	add_number(text, ws_spot_excess_wavefronts(spot));
	for (size_t i = 0; i < spots->reason_count; i++) {
		add_number(text, spot->stalls[i]);
		add_number(text, spot->not_issued[i]);
	}
	ws_text_puts(text, "\n");
}

/* As Nsight Compute prints it: the kernel's name, then a table for each result. */
static void add_csv_result(const struct ws_kernel_result *result,
			   const struct ws_kernel_spots *spots, struct ws_text *text)
{
	ws_text_puts(text, "\"Kernel Name\",");
	add_field(text, *result->demangled ? result->demangled : result->name);
	ws_text_puts(text, "\n");
	add_csv_head(spots, text);
	for (size_t i = 0; i < spots->count; i++)
		add_csv_spot(spots, &spots->spots[i], text);
	ws_text_puts(text, "\n");
}

int ws_kernel_print_source(const struct ws_kernel_results *results, bool csv, struct ws_text *text,
			   struct ws_err *err)
{
	size_t shown = 0;

	for (size_t i = 0; i < results->count; i++) {
		struct ws_kernel_spots spots;

		ws_kernel_load_spots(results->report, results->results[i].row.id, &spots);
		if (spots.count && csv)
			add_csv_result(&results->results[i], &spots, text);
		else if (spots.count)
			add_result(results->report, &results->results[i], &spots, text);
		shown += spots.count != 0;
		ws_kernel_free_spots(&spots);
	}
	if (!shown)
		return ws_fail(err, "these results have no metrics of single instructions: they "
				    "are measured with --section SourceCounters or --set source");
	return 0;
}
