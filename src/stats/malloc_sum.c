/*
 * malloc_sum.c - memory that programs allocated, by the stack that asked for it: from the sampled
 * blocks in the table heap.
 *
 * A block of s bytes is sampled with the probability p = 1 - exp(-s / interval), and so stands for
 * s / p bytes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "query/stacks.h"
#include "stats/stats.h"

enum { SHOWN_FRAMES = 6 };

static const struct ws_column columns[] = {
	{"Live at Peak", WS_KIND_SIZE}, {"Peak", WS_KIND_PERCENT},  {"Live at End", WS_KIND_SIZE},
	{"Allocated", WS_KIND_SIZE},	{"Samples", WS_KIND_COUNT}, {"PID", WS_KIND_ID},
	{"Allocated by", WS_KIND_TEXT},
};

struct event { /* a sampled block is allocated or freed */
	uint64_t time, key;
	double bytes; /* bytes that the block stands for; negative when it is freed */
	uint32_t stack, process;
	bool counted; /* the block was live at the peak of its process */
};

struct site { /* a stack of a process */
	uint32_t stack, process;
	double peak, end, allocated;
	uint64_t samples;
};

struct heap {
	struct event *events;
	size_t count, capacity;
	struct site *sites;
	size_t site_count, site_capacity;
};

static uint64_t make_block_key(uint32_t process, uint64_t address, uint64_t born)
{
	return (address ^ (uint64_t)process << 48) * UINT64_C(0x9e3779b97f4a7c15) ^ born;
}

static double estimate_bytes(int64_t bytes)
{
	double size = fabs((double)bytes);
	double estimate = size / -expm1(-size / WS_HEAP_INTERVAL);

	if (!size)
		return 0;
	if (bytes < 0)
		return -estimate;
	return estimate;
}

static void load_events(struct ws_stats *stats, struct heap *heap)
{
	struct ws_cursor *cursor =
		ws_cursor_open(stats->report, WS_TABLE_heap, stats->time_min, stats->time_max);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t process =
			ws_find_thread(stats->who, (uint32_t)values[ws_heap_thread])->process;

		ws_grow(heap->events, heap->capacity, heap->count + 1);
		heap->events[heap->count++] =
			(struct event){.time = values[ws_heap_start],
				       .key = make_block_key(process, values[ws_heap_address],
							     values[ws_heap_born]),
				       .bytes = estimate_bytes((int64_t)values[ws_heap_bytes]),
				       .stack = (uint32_t)values[ws_heap_callchain],
				       .process = process};
	}
	ws_cursor_close(cursor);
}

static int compare_events(const void *first, const void *second)
{
	const struct event *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	if (left->time != right->time)
		return ws_compare(left->time, right->time);
	return ws_compare(right->bytes, left->bytes);
}

static struct site *find_site(struct heap *heap, struct ws_map *by_stack, const struct event *event)
{
	uint64_t key = (uint64_t)event->process << 32 | event->stack;
	uint64_t index = ws_map_get(by_stack, key, NULL);

	if (!index) {
		ws_grow(heap->sites, heap->site_capacity, heap->site_count + 1);
		heap->sites[heap->site_count] =
			(struct site){.stack = event->stack, .process = event->process};
		index = ++heap->site_count;
		ws_map_set(by_stack, key, index);
	}
	return &heap->sites[index - 1];
}

/* Index of the event of a process after which most memory is live; frees of unknown blocks are
 * ignored. */
static size_t find_peak(const struct heap *heap, size_t from, size_t to, struct ws_map *live)
{
	double now = 0, most = -1;
	size_t peak = from;

	for (size_t i = from; i < to; i++) {
		const struct event *event = &heap->events[i];

		if (event->bytes < 0 && !ws_map_remove(live, event->key, NULL))
			continue;
		if (event->bytes >= 0)
			ws_map_set(live, event->key, i + 1);
		now += event->bytes;
		if (now > most) {
			most = now;
			peak = i;
		}
	}
	return peak;
}

/* Add the live blocks (block -> index of its event + 1) to the stacks' sums. */
static void add_live(struct heap *heap, struct ws_map *by_stack, const struct ws_map *live,
		     bool at_end)
{
	for (size_t i = 0; i < live->size; i++) {
		const struct event *event;
		struct site *site;

		if (!live->used[i])
			continue;
		event = &heap->events[live->slots[i].value - 1];
		site = find_site(heap, by_stack, event);
		if (at_end)
			site->end += event->bytes;
		else
			site->peak += event->bytes;
	}
}

static void add_process(struct heap *heap, size_t from, size_t to, struct ws_map *by_stack)
{
	struct ws_map live = {0}, at_peak = {0};
	size_t peak = find_peak(heap, from, to, &live);

	add_live(heap, by_stack, &live, true);
	for (size_t i = from; i <= peak && i < to; i++) {
		const struct event *event = &heap->events[i];

		if (event->bytes < 0)
			ws_map_remove(&at_peak, event->key, NULL);
		else
			ws_map_set(&at_peak, event->key, i + 1);
	}
	add_live(heap, by_stack, &at_peak, false);
	for (size_t i = from; i < to; i++) {
		struct site *site;

		if (heap->events[i].bytes < 0)
			continue;
		site = find_site(heap, by_stack, &heap->events[i]);
		site->allocated += heap->events[i].bytes;
		site->samples++;
	}
	ws_map_free(&live);
	ws_map_free(&at_peak);
}

static int compare_sites(const void *first, const void *second)
{
	const struct site *left = first, *right = second;

	if (left->peak != right->peak)
		return ws_compare(right->peak, left->peak);
	if (left->allocated != right->allocated)
		return ws_compare(right->allocated, left->allocated);
	return ws_compare(left->stack, right->stack);
}

/* "inner < caller < its caller", by functions. */
static void put_stack(const struct ws_stacks *stacks, uint32_t stack, struct ws_text *out)
{
	uint32_t frames[SHOWN_FRAMES];
	size_t count = 0;

	out->len = 0;
	ws_text_add(out, "", 0);
	if (stack != WS_NO_U32)
		count = ws_stacks_list_frames(stacks, 0, stack, frames, SHOWN_FRAMES);
	for (size_t i = 0; i < count; i++) {
		const struct ws_frame_info *frame = ws_stacks_get_frame(stacks, frames[i]);
		const struct ws_function *function = ws_stacks_get_function(
			stacks, ws_stacks_get_places(stacks, frame)[0].function);

		if (i)
			ws_text_puts(out, " < ");
		ws_text_add(out, function->name, function->len);
	}
	if (!count)
		ws_text_puts(out, "[unknown]");
}

static void print_sites(struct ws_stats *stats, struct heap *heap)
{
	struct ws_stacks *stacks = ws_stacks_open(stats->report, &stats->damaged);
	struct ws_text text = {0};
	double all = 0;

	qsort(heap->sites, heap->site_count, sizeof(*heap->sites), compare_sites);
	for (size_t i = 0; i < heap->site_count; i++)
		all += heap->sites[i].peak;
	for (size_t i = 0; i < heap->site_count; i++) {
		const struct site *site = &heap->sites[i];
		const struct ws_process_info *process = ws_find_process(stats->who, site->process);

		put_stack(stacks, site->stack, &text);
		stats->row(stats, (struct ws_cell[]){
					  ws_cell_real(site->peak),
					  ws_cell_real_if(all > 0, 100 * site->peak / all),
					  ws_cell_real(site->end),
					  ws_cell_real(site->allocated),
					  ws_cell_int((int64_t)site->samples),
					  ws_cell_int(process->pid),
					  ws_cell_text(text.text, text.len),
				  });
	}
	ws_text_free(&text);
	ws_stacks_close(stacks);
}

static int make_malloc_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_map by_stack = {0};
	struct heap heap = {0};

	(void)err;
	load_events(stats, &heap);
	if (heap.count)
		qsort(heap.events, heap.count, sizeof(*heap.events), compare_events);
	for (size_t from = 0, to; from < heap.count; from = to) {
		for (to = from; to < heap.count; to++)
			if (heap.events[to].process != heap.events[from].process)
				break;
		add_process(&heap, from, to, &by_stack);
	}
	if (heap.site_count)
		print_sites(stats, &heap);
	ws_map_free(&by_stack);
	free(heap.events);
	free(heap.sites);
	return 0;
}

const struct ws_stats_report ws_stat_malloc_sum = {
	.name = "malloc_sum",
	.title = "Heap Summary",
	.about = "Memory by the stack that allocated it: how much of it was live when the process "
		 "had most, how much at the end (what was never freed), how much was allocated at "
		 "all. Estimated from a sample of the blocks; recorded with --trace=malloc",
	.what = "allocations of memory",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_malloc_sum_rows,
};
