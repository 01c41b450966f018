/*
 * places.c - see places.h. What a rule found in the counters of a whole kernel is looked for in the
 * counts of its instructions, summed up by line.
 */
#include "kernel/places.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"

#define LEAST_SHARE 0.1
#define MUCH 0.02
enum { PLACE_ROOM = 512 };

/* ---- what is counted for which rule ---- */

/* The operation of an instruction, behind its predicate. */
static const char *find_operation(const struct ws_kernel_spot *spot)
{
	const char *sass = spot->sass;

	if (*sass == '@')
		sass += strcspn(sass, " ");
	return sass + strspn(sass, " ");
}

static bool begins_with(const char *text, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!strncmp(text, words[i], strlen(words[i])))
			return true;
	return false;
}

static double count_doubles(const struct ws_kernel_spot *spot)
{
	static const char *const operations[] = {"DFMA", "DADD", "DMUL", "DSETP", "DMNMX", "DMMA"};

	return begins_with(find_operation(spot), operations, WS_COUNT(operations))
		       ? spot->counts[WS_SPOT_executed]
		       : 0;
}

static double count_unfused(const struct ws_kernel_spot *spot)
{
	static const char *const operations[] = {"FADD", "FMUL", "DADD", "DMUL", "HADD", "HMUL"};

	return begins_with(find_operation(spot), operations, WS_COUNT(operations))
		       ? spot->counts[WS_SPOT_executed]
		       : 0;
}

static double count_products(const struct ws_kernel_spot *spot)
{
	static const char *const operations[] = {"FFMA", "HFMA", "DFMA"};

	return begins_with(find_operation(spot), operations, WS_COUNT(operations))
		       ? spot->counts[WS_SPOT_executed]
		       : 0;
}

static const struct place_rule {
	const char *rule;
	double (*count)(const struct ws_kernel_spot *spot);
	const char *what;
} place_rules[] = {
	{"UncoalescedGlobalAccess", ws_spot_excess_sectors, "the sectors that are moved in vain"},
	{"SharedMemoryConflicts", ws_spot_excess_wavefronts, "the repeated wavefronts"},
	{"UncoalescedSharedAccess", ws_spot_excess_wavefronts, "the repeated wavefronts"},
	{"ThreadDivergence", ws_spot_idle_lanes, "the idle lanes"},
	{"LocalMemory", ws_spot_local_sectors, "the sectors of local memory"},
	{"DoublePrecision", count_doubles, "the instructions on doubles"},
	{"FPInstructions", count_unfused, "the sums and products"},
	{"TensorCoresIdle", count_products, "the multiplications"},
	{"CPIStall", ws_spot_samples, "the samples"},
	{"MemoryApertureUsage", ws_spot_samples, "the samples"},
};

/* ---- finding places ---- */

static void describe_place(const struct ws_kernel_spot *spot, char *out, size_t room)
{
	if (spot->line)
		snprintf(out, room, "%s:%u", ws_spot_file_name(spot->file), spot->line);
	else if (*spot->sass)
		snprintf(out, room, "+0x%llx, %s", (unsigned long long)spot->pc, spot->sass);
	else
		snprintf(out, room, "+0x%llx", (unsigned long long)spot->pc);
}

static int compare_places(const void *first, const void *second)
{
	const struct ws_kernel_spot *left = *(struct ws_kernel_spot *const *)first,
				    *right = *(struct ws_kernel_spot *const *)second;
	int by_file = strcmp(left->file, right->file);

	if (by_file)
		return by_file;
	if (left->line != right->line || left->line)
		return ws_compare(left->line, right->line);
	if (left->function_id != right->function_id)
		return ws_compare(left->function_id, right->function_id);
	if (left->cubin != right->cubin)
		return ws_compare(left->cubin, right->cubin);
	return ws_compare(left->pc, right->pc);
}

/* Instructions, and the line that each belongs to. */
struct placed {
	const struct ws_kernel_spots *spots;
	struct ws_kernel_spots lines;
	const struct ws_kernel_spot **order; /* lines by place */
	size_t *line_of;		     /* of each instruction: a number in `order` */
	double *sums;			     /* by number in `order` */
};

static void place_spots(const struct ws_kernel_spots *spots, struct placed *placed)
{
	size_t count;

	placed->spots = spots;
	ws_kernel_sum_lines(spots, &placed->lines);
	count = placed->lines.count;
	placed->order = ws_calloc(count + 1, sizeof(*placed->order));
	placed->sums = ws_calloc(count + 1, sizeof(*placed->sums));
	placed->line_of = ws_calloc(spots->count + 1, sizeof(*placed->line_of));
	for (size_t i = 0; i < count; i++)
		placed->order[i] = &placed->lines.spots[i];
	if (count)
		qsort(placed->order, count, sizeof(*placed->order), compare_places);
	for (size_t i = 0; i < spots->count; i++) {
		const struct ws_kernel_spot *key = &spots->spots[i], **found;

		found = bsearch(&key, placed->order, count, sizeof(*placed->order), compare_places);
		placed->line_of[i] = found ? (size_t)(found - placed->order) : count;
	}
}

/* The line, or the instruction whose line is not known, with the most of something. Instructions
 * count one by one: what is counted may depend on the operation. */
static const struct ws_kernel_spot *find_most(const struct placed *placed,
					      double (*count)(const struct ws_kernel_spot *),
					      double *share)
{
	size_t best = 0, lines = placed->lines.count;
	double sum = 0;

	memset(placed->sums, 0, (lines + 1) * sizeof(*placed->sums));
	for (size_t i = 0; i < placed->spots->count; i++) {
		double here = ws_max(count(&placed->spots->spots[i]), 0.0);

		placed->sums[placed->line_of[i]] += here;
		sum += here;
	}
	for (size_t i = 0; i < lines; i++)
		if (placed->sums[i] > placed->sums[best])
			best = i;
	*share = sum > 0 ? placed->sums[best] / sum : 0;
	return lines ? placed->order[best] : NULL;
}

static void place_finding(const struct placed *placed, const struct place_rule *rule,
			  struct ws_kernel_finding *finding)
{
	char place[PLACE_ROOM];
	double share;
	const struct ws_kernel_spot *spot = find_most(placed, rule->count, &share);
	char *advice;

	if (!spot || share < LEAST_SHARE)
		return;
	describe_place(spot, place, sizeof(place));
	advice = ws_format("%s %.0f %% of %s are at %s.", finding->advice ? finding->advice : "",
			   100 * share, rule->what, place);
	free(finding->advice);
	finding->advice = advice;
	if (spot->line) {
		finding->file = spot->file;
		finding->line = spot->line;
	}
}

/* A note of the line with most samples, and what its warps wait for. */
static void add_hottest(const struct ws_kernel_spots *lines, struct ws_kernel_findings *findings)
{
	const struct ws_kernel_spot *hottest = lines->count ? &lines->spots[0] : NULL;
	double all = lines->total.counts[WS_SPOT_samples], stalled;
	struct ws_kernel_finding *finding;
	const char *reason, *words;
	char place[PLACE_ROOM];

	if (!hottest || hottest->counts[WS_SPOT_samples] < MUCH * all || all <= 0)
		return;
	reason = ws_spot_main_stall(lines, hottest, &stalled);
	words = reason ? ws_kernel_stall_words(reason) : NULL;
	describe_place(hottest, place, sizeof(place));
	ws_grow(findings->findings, findings->capacity, findings->count + 1);
	finding = &findings->findings[findings->count++];
	*finding = (struct ws_kernel_finding){.rule = "HottestInstruction",
					      .section = "SourceCounters",
					      .kind = WS_KERNEL_NOTE,
					      .estimate = NAN};
	finding->title = ws_format("%.0f %% of the samples are at %s",
				   100 * hottest->counts[WS_SPOT_samples] / all, place);
	finding->advice = words ? ws_format("In %.0f %% of them the warp waits for %s.",
					    100 * stalled / hottest->counts[WS_SPOT_samples], words)
				: ws_strdup("Its warps wait for nothing in particular.");
	if (hottest->line) {
		finding->file = hottest->file;
		finding->line = hottest->line;
	}
}

void ws_kernel_place_findings(const struct ws_kernel_spots *spots,
			      struct ws_kernel_findings *findings)
{
	struct placed placed = {0};

	if (!spots->count)
		return;
	place_spots(spots, &placed);
	for (size_t i = 0; i < findings->count; i++)
		for (size_t j = 0; j < WS_COUNT(place_rules); j++)
			if (!strcmp(findings->findings[i].rule, place_rules[j].rule))
				place_finding(&placed, &place_rules[j], &findings->findings[i]);
	add_hottest(&placed.lines, findings);
	ws_kernel_free_spots(&placed.lines);
	free(placed.order);
	free(placed.sums);
	free(placed.line_of);
}

void ws_kernel_judge_placed(const struct ws_report *report, const struct ws_kernel_result *result,
			    struct ws_kernel_findings *findings)
{
	struct ws_kernel_spots spots;

	ws_kernel_judge(result, findings);
	ws_kernel_load_spots(report, result->row.id, &spots);
	ws_kernel_place_findings(&spots, findings);
	ws_kernel_free_spots(&spots);
}
