/*
 * step_finder.c - see step_finder.h.
 *
 * The last launches are compared with themselves now and then. Of the periods that have occurred
 * three times in a row up to now, the outermost is the one whose repetition reaches furthest back,
 * since loops inside it began later. From then on each launch is compared with the one a period
 * before. A launch that differs is a break: the repetition was part of a longer one, which is then
 * searched for.
 *
 * A repetition that has not broken yet may still do so: layers repeat as steps do. It is taken for
 * the steps of the program only when the step before the wanted one begins, the latest time that
 * will do, and then only after enough whole periods:
 * - NESTED, when loops inside it make up a third of it, as layers do of a step;
 * - SIMPLE and SIMPLE_LAUNCHES, when it has no such loops: it may be the layers themselves;
 * - more than twice as many as before an earlier break of the same period.
 * After CERTAIN periods steps stay known whatever comes between them, an evaluation for example.
 *
 * Steps begin with the kernel that comes once in each and was launched first, and are counted by
 * its launches from the start of the program. If there is none, they are counted by their length
 * from where the repetition began.
 *
 * Looking costs time in proportion to the launches that are looked at, and comes after a share of
 * them has been added: the cost for each launch is bounded.
 */
#include "inject/step_finder.h"

#include <stddef.h>

#include "base/choose.h"

enum { WINDOW = WS_FINDER_WINDOW, NAMES = WS_FINDER_NAMES, LOOK_SHARE = 8, LOOK_LEAST = 16 };
enum { NESTED = 12, SIMPLE = 100, SIMPLE_LAUNCHES = 1000, CERTAIN = 64 };

/* ---- the sequence ---- */

/* 1 + the index of the kernel; 0 when there are too many. */
static uint16_t find_kernel(struct ws_step_finder *finder, uint64_t hash)
{
	for (uint32_t i = 0; i < NAMES; i++) {
		uint32_t index = (uint32_t)((hash + i) % NAMES);
		struct ws_finder_kernel *kernel = &finder->kernels[index];

		if (!kernel->hash) {
			kernel->hash = hash;
			kernel->first = finder->launches;
		}
		if (kernel->hash == hash)
			return (uint16_t)(index + 1);
	}
	return 0;
}

static uint16_t read_launch(const struct ws_step_finder *finder, uint64_t launch)
{
	return finder->sequence[launch % WINDOW];
}

/* A kernel without an index equals no other. */
static bool is_same(const struct ws_step_finder *finder, uint64_t a, uint64_t b)
{
	uint16_t kernel = read_launch(finder, a);

	return kernel && kernel == read_launch(finder, b);
}

static uint32_t count_kept(const struct ws_step_finder *finder)
{
	return (uint32_t)ws_min(finder->launches, (uint64_t)WINDOW);
}

/* ---- the outermost period ---- */

/* For each distance back: how many launches up to the last one equal those at that distance before
 * them (the Z function of the reversed sequence). */
static void match_with_itself(struct ws_step_finder *finder, uint32_t count)
{
	uint64_t last = finder->launches - 1;
	uint32_t left = 0, right = 0;

	for (uint32_t i = 1; i < count; i++) {
		uint32_t n = 0;

		if (i < right)
			n = ws_min(right - i, finder->match[i - left]);
		while (i + n < count && is_same(finder, last - n, last - i - n))
			n++;
		if (i + n > right) {
			left = i;
			right = i + n;
		}
		finder->match[i] = n;
	}
}

/* Multiples of a period reach back as far; take the shortest. */
static uint32_t find_outermost(struct ws_step_finder *finder)
{
	uint32_t count = count_kept(finder), best = 0, reach = 0;

	match_with_itself(finder, count);
	for (uint32_t i = 1; i <= count / 3; i++)
		if (finder->match[i] >= 2 * i && i + finder->match[i] > reach) {
			best = i;
			reach = i + finder->match[i];
		}
	finder->start = finder->launches - reach;
	return best;
}

/* ---- when a period is recognised ---- */

static void clear_scratch(struct ws_step_finder *finder)
{
	for (uint32_t i = 0; i < NAMES; i++)
		finder->kernels[i].scratch = 0;
}

/* Launches of the last period that are in loops of three rounds at least. A distance is tried for
 * as long as it fits, then that to the last launch of the same kernel. */
static uint32_t count_in_loops(struct ws_step_finder *finder)
{
	uint64_t begin = finder->launches - finder->period;
	uint32_t distance = 0, fits = 0, covered = 0;

	clear_scratch(finder);
	for (uint32_t i = 0; i <= finder->period; i++) {
		bool inside = i < finder->period;
		uint32_t *last;

		if (inside && distance && is_same(finder, begin + i, begin + i - distance)) {
			fits++;
		} else {
			if (distance && fits >= 2 * distance)
				covered += fits + distance;
			distance = 0;
		}
		if (!inside)
			break;
		last = &finder->kernels[read_launch(finder, begin + i) - 1].scratch;
		if (!distance && *last) {
			distance = i + 1 - *last;
			fits = 1;
		}
		*last = i + 1;
	}
	return covered;
}

/* The largest number of whole periods in a row, at least three, before a break. A repetition that
 * lacks a kernel of the period is something else, such as a shorter loop. */
static uint32_t count_before_break(const struct ws_step_finder *finder)
{
	uint64_t oldest = finder->launches - count_kept(finder);
	uint16_t marker = ws_or(finder->anchor, read_launch(finder, finder->launches - 1));
	uint32_t fits = 0, most = 0;
	bool marked = false;

	for (uint64_t i = oldest + finder->period; i < finder->start + finder->period; i++) {
		if (!is_same(finder, i, i - finder->period)) {
			fits = 0;
			marked = false;
			continue;
		}
		fits++;
		marked |= read_launch(finder, i) == marker;
		if (marked)
			most = ws_max(most, fits);
	}
	if (most < 2 * finder->period)
		return 0;
	return most / finder->period + 1;
}

static void set_needed(struct ws_step_finder *finder)
{
	uint32_t broken = 2 * count_before_break(finder) + 1;
	uint32_t simple = ws_max((uint32_t)SIMPLE, SIMPLE_LAUNCHES / finder->period);

	if (count_in_loops(finder) * UINT64_C(3) >= finder->period) {
		finder->needed = ws_max((uint32_t)NESTED, broken);
		finder->certain = ws_max((uint32_t)CERTAIN, broken);
		return;
	}
	finder->needed = ws_max(simple, broken);
	finder->certain = finder->needed;
}

/* Of the kernels that come once in a period, take the one launched least often, since others have
 * been launched outside the steps as well; of several, take the first. In the current step some
 * have come once more. */
static void choose_anchor(struct ws_step_finder *finder)
{
	uint32_t least = UINT32_MAX;
	const struct ws_finder_kernel *best = NULL;

	clear_scratch(finder);
	for (uint64_t i = finder->launches - finder->period; i < finder->launches; i++)
		finder->kernels[read_launch(finder, i) - 1].scratch++;
	for (uint32_t i = 0; i < NAMES; i++)
		if (finder->kernels[i].scratch == 1)
			least = ws_min(least, finder->kernels[i].uses);
	for (uint32_t i = 0; i < NAMES; i++) {
		const struct ws_finder_kernel *kernel = &finder->kernels[i];

		if (kernel->scratch == 1 && kernel->uses - least <= 1 &&
		    (!best || kernel->first < best->first))
			best = kernel;
	}
	finder->anchor = 0;
	if (best)
		finder->anchor = (uint16_t)(best - finder->kernels + 1);
}

static void look_for_period(struct ws_step_finder *finder)
{
	finder->period = find_outermost(finder);
	finder->next_look = finder->launches + count_kept(finder) / LOOK_SHARE + LOOK_LEAST;
	if (!finder->period)
		return;
	choose_anchor(finder);
	set_needed(finder);
}

/* ---- steps ---- */

/* Number the step that the last launch is in; returns whether that launch begins it. */
static bool number_step(struct ws_step_finder *finder)
{
	uint64_t last = finder->launches - 1, since = last - finder->start;

	if (finder->anchor) {
		finder->number = finder->kernels[finder->anchor - 1].uses - 1;
		return read_launch(finder, last) == finder->anchor;
	}
	finder->number = (uint32_t)(since / finder->period);
	return since % finder->period == 0;
}

/* At the beginning of a step: whether the current repetition is that of steps. */
static void judge_period(struct ws_step_finder *finder)
{
	uint64_t periods = (finder->launches - finder->start) / finder->period;
	uint64_t next = (uint64_t)finder->number + 1;

	if (next < finder->wanted) {
		if (periods >= finder->certain)
			finder->state = WS_FINDER_KNOWS;
		else if (periods >= finder->needed)
			finder->state = WS_FINDER_COUNTS;
	} else if (next == finder->wanted && periods >= finder->needed) {
		finder->state = WS_FINDER_KNOWS;
	} else if (periods >= finder->needed) {
		finder->state = WS_FINDER_LATE;
		finder->final = finder->needed < SIMPLE && periods >= finder->certain;
	} else {
		finder->state = WS_FINDER_UNSURE;
	}
}

/* A period was found in the middle of a step: the next one may be wanted. */
static void judge_new_period(struct ws_step_finder *finder)
{
	number_step(finder);
	if ((uint64_t)finder->number + 1 == finder->wanted)
		judge_period(finder);
}

static bool follow_period(struct ws_step_finder *finder)
{
	uint64_t last = finder->launches - 1;

	if (!is_same(finder, last, last - finder->period)) {
		finder->period = 0;
		return false;
	}
	if (!number_step(finder))
		return false;
	judge_period(finder);
	return true;
}

bool ws_finder_add(struct ws_step_finder *finder, uint64_t hash)
{
	uint16_t kernel = find_kernel(finder, hash);

	if (kernel)
		finder->kernels[kernel - 1].uses++;
	finder->sequence[finder->launches++ % WINDOW] = kernel;
	if (finder->state == WS_FINDER_KNOWS)
		return number_step(finder);
	if (finder->final)
		return false;
	if (finder->period)
		return follow_period(finder);
	if (finder->launches < finder->next_look)
		return false;
	look_for_period(finder);
	if (finder->period)
		judge_new_period(finder);
	return false;
}
