/* timeline.c - see timeline.h. */
#include "export/timeline.h"
#include "base/choose.h"

#include <stdlib.h>
#include <string.h>

#include "text/outfile.h"

/* ---- merging ---- */

/* In order of who encloses whom when spans are equal. */
static const enum ws_table sources[] = {
	WS_TABLE_sched,
	WS_TABLE_gil,
	WS_TABLE_op,
	WS_TABLE_nvtx,
	WS_TABLE_slice,
	WS_TABLE_cuda_api,
	WS_TABLE_osrt,
	WS_TABLE_cuda_overhead,
	WS_TABLE_cuda_jit,
	WS_TABLE_cuda_graph_trace,
	WS_TABLE_cuda_kernel,
	WS_TABLE_cuda_memcpy,
	WS_TABLE_cuda_memset,
	WS_TABLE_cuda_sync,
	WS_TABLE_cuda_memory,
	WS_TABLE_op_memory,
	WS_TABLE_counter_value,
	WS_TABLE_cuda_um_gpu_fault,
	WS_TABLE_cuda_um_cpu_fault,
	WS_TABLE_flow,
	WS_TABLE_sample,
	WS_TABLE_ftrace,
};

enum { SOURCES = WS_COUNT(sources), MOST_TOGETHER = 4096 };

struct head {
	struct ws_cursor *cursor;
	const uint64_t *values; /* its next row; NULL at its end */
	uint64_t start;
};

struct held {
	struct ws_event event;
	unsigned rank;
	size_t order;
	uint64_t row[WS_MAX_COLUMNS];
};

struct ws_timeline {
	struct ws_export *export;
	struct head head[SOURCES];
	struct held **held; /* events with one start */
	size_t n, next, cap;
};

static void advance(struct ws_timeline *timeline, unsigned i)
{
	struct head *head = &timeline->head[i];

	if (!ws_cursor_next(head->cursor, &head->values)) {
		head->values = NULL;
		return;
	}
	head->start = head->values[ws_table_start(sources[i])];
}

struct ws_timeline *ws_timeline_open(struct ws_export *export)
{
	struct ws_timeline *timeline = ws_calloc(1, sizeof(*timeline));

	timeline->export = export;
	for (unsigned i = 0; i < SOURCES; i++) {
		timeline->head[i].cursor =
			ws_cursor_open(export->report, sources[i], 0, UINT64_MAX);
		advance(timeline, i);
	}
	return timeline;
}

static int longest_first(const void *first, const void *second)
{
	const struct held *left = *(struct held *const *)first,
			  *right = *(struct held *const *)second;

	if (left->event.end != right->event.end) { /* a moment comes last */
		uint64_t p = left->event.end == WS_NO_TIME ? 0 : left->event.end,
			 q = right->event.end == WS_NO_TIME ? 0 : right->event.end;

		return p > q ? -1 : 1;
	}
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->order < right->order ? -1 : 1;
}

static void hold(struct ws_timeline *timeline, unsigned i)
{
	enum ws_table table = sources[i];
	int end = ws_table_end(table);
	struct held *held;

	if (timeline->n == timeline->cap) {
		ws_grow(timeline->held, timeline->cap, timeline->n + 1);
		for (size_t k = timeline->n; k < timeline->cap; k++)
			timeline->held[k] = ws_malloc(sizeof(*timeline->held[k]));
	}
	held = timeline->held[timeline->n];
	memcpy(held->row, timeline->head[i].values,
	       ws_tables[table].column_count * sizeof(*held->row));
	held->rank = i;
	held->order = timeline->n++;
	held->event = (struct ws_event){table, held->row, timeline->head[i].start,
					end >= 0 ? held->row[end] : WS_NO_TIME};
}

/* Hold all events of the earliest start. */
static bool fill(struct ws_timeline *timeline)
{
	uint64_t first = UINT64_MAX;
	bool any = false;

	timeline->n = timeline->next = 0;
	for (unsigned i = 0; i < SOURCES; i++)
		if (timeline->head[i].values) {
			any = true;
			first = ws_min(timeline->head[i].start, first);
		}
	if (!any)
		return false;
	for (unsigned i = 0; i < SOURCES; i++)
		while (timeline->head[i].values && timeline->head[i].start <= first &&
		       timeline->n < MOST_TOGETHER) {
			hold(timeline, i);
			advance(timeline, i);
		}
	if (timeline->n > 1)
		qsort(timeline->held, timeline->n, sizeof(*timeline->held), longest_first);
	return true;
}

bool ws_timeline_next(struct ws_timeline *timeline, struct ws_event *event)
{
	do {
		if (timeline->next == timeline->n && (ws_outfile_interrupted() || !fill(timeline)))
			return false;
		*event = timeline->held[timeline->next++]->event;
	} while (!ws_export_in_time(timeline->export, event->start, event->end));
	return true;
}

void ws_timeline_close(struct ws_timeline *timeline)
{
	for (unsigned i = 0; i < SOURCES; i++)
		ws_cursor_close(timeline->head[i].cursor);
	for (size_t i = 0; i < timeline->cap; i++)
		free(timeline->held[i]);
	free(timeline->held);
	free(timeline);
}

/* ---- pages ---- */

enum { SET_BITS = 12, MAP_BITS = 8 };

static uint64_t *find_page(const struct ws_pages *pages, uint64_t process, uint64_t number,
			   unsigned bits)
{
	bool found;
	uint64_t at =
		ws_map_get(&pages->map, process << 32 | (number & UINT32_MAX) >> bits, &found);

	return found ? pages->page[at] : NULL;
}

static uint64_t *need_page(struct ws_pages *pages, uint64_t process, uint64_t number, unsigned bits,
			   size_t bytes)
{
	uint64_t *page = find_page(pages, process, number, bits);

	if (page)
		return page;
	ws_grow(pages->page, pages->cap, pages->n + 1);
	pages->page[pages->n] = ws_calloc(1, bytes);
	ws_map_set(&pages->map, process << 32 | (number & UINT32_MAX) >> bits, pages->n);
	return pages->page[pages->n++];
}

bool ws_pages_has(const struct ws_pages *pages, uint64_t process, uint64_t number)
{
	const uint64_t *page = find_page(pages, process, number, SET_BITS);

	return page && page[number >> 6 & 63] >> (number & 63) & 1;
}

void ws_pages_add(struct ws_pages *pages, uint64_t process, uint64_t number)
{
	need_page(pages, process, number, SET_BITS, 512)[number >> 6 & 63] |= UINT64_C(1)
									      << (number & 63);
}

uint64_t ws_pages_get(const struct ws_pages *pages, uint64_t process, uint64_t number)
{
	const uint64_t *page = find_page(pages, process, number, MAP_BITS);

	return page ? page[number & 255] : 0;
}

void ws_pages_set(struct ws_pages *pages, uint64_t process, uint64_t number, uint64_t value)
{
	need_page(pages, process, number, MAP_BITS, 2048)[number & 255] = value;
}

void ws_pages_free(struct ws_pages *pages)
{
	for (size_t i = 0; i < pages->n; i++)
		free(pages->page[i]);
	free(pages->page);
	ws_map_free(&pages->map);
	memset(pages, 0, sizeof(*pages));
}

/* ---- links ---- */

struct linking {
	struct ws_links *links;
	struct ws_export *export;
	int start, end, process, correlation; /* columns */
};

static int add_calls(void *ctx, const struct ws_batch *batch)
{
	struct linking *linking = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t id = batch->col[ws_cuda_api_correlation][i], process;

		if (id == WS_NO_U32 ||
		    !ws_export_in_time(linking->export, batch->col[ws_cuda_api_start][i],
				       batch->col[ws_cuda_api_end][i]))
			continue;
		process = ws_who_thread(linking->export->who,
					(uint32_t)batch->col[ws_cuda_api_thread][i])
				  ->process;
		ws_pages_add(&linking->links->calls, process, id);
		if (batch->col[ws_cuda_api_class][i] == WS_CUDA_RUNTIME)
			ws_pages_add(&linking->links->runtime, process, id);
	}
	return 0;
}

static int add_work(void *ctx, const struct ws_batch *batch)
{
	struct linking *linking = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t id = batch->col[linking->correlation][i];

		if (id != WS_NO_U32 &&
		    ws_export_in_time(linking->export, batch->col[linking->start][i],
				      batch->col[linking->end][i]))
			ws_pages_add(&linking->links->work, batch->col[linking->process][i], id);
	}
	return 0;
}

static int add_externals(void *ctx, const struct ws_batch *batch)
{
	struct linking *linking = ctx;

	for (size_t i = 0; i < batch->rows; i++)
		ws_pages_set(&linking->links->external, batch->col[ws_op_link_process][i],
			     batch->col[ws_op_link_correlation][i],
			     batch->col[ws_op_link_external][i]);
	return 0;
}

void ws_links_load(struct ws_links *links, struct ws_export *export)
{
	static const enum ws_table work[] = {WS_TABLE_cuda_kernel, WS_TABLE_cuda_memcpy,
					     WS_TABLE_cuda_memset, WS_TABLE_cuda_graph_trace};
	struct linking linking = {.links = links, .export = export};
	struct ws_scan scan = {.table = WS_TABLE_cuda_api,
			       .columns = UINT64_MAX,
			       .time_max = UINT64_MAX,
			       .workers = 1};

	memset(links, 0, sizeof(*links));
	scan.columns = WS_COL(cuda_api, start) | WS_COL(cuda_api, end) | WS_COL(cuda_api, thread) |
		       WS_COL(cuda_api, correlation) | WS_COL(cuda_api, class);
	ws_scan_run(export->report, &scan, add_calls, &linking, NULL);
	for (size_t i = 0; i < WS_COUNT(work); i++) {
		scan.table = work[i];
		linking.start = ws_table_start(work[i]);
		linking.end = ws_table_end(work[i]);
		linking.process = ws_table_track(work[i]);
		linking.correlation = ws_column_find(work[i], "correlation");
		scan.columns = UINT64_C(1) << linking.start | UINT64_C(1) << linking.end |
			       UINT64_C(1) << linking.process | UINT64_C(1) << linking.correlation;
		ws_scan_run(export->report, &scan, add_work, &linking, NULL);
	}
	scan.table = WS_TABLE_op_link;
	scan.columns =
		WS_COL(op_link, process) | WS_COL(op_link, correlation) | WS_COL(op_link, external);
	ws_scan_run(export->report, &scan, add_externals, &linking, NULL);
}

void ws_links_free(struct ws_links *links)
{
	ws_pages_free(&links->calls);
	ws_pages_free(&links->runtime);
	ws_pages_free(&links->work);
	ws_pages_free(&links->external);
}

bool ws_links_from(const struct ws_links *links, uint64_t process, uint64_t api_class,
		   uint64_t correlation)
{
	return correlation != WS_NO_U32 && ws_pages_has(&links->work, process, correlation) &&
	       (api_class == WS_CUDA_RUNTIME ||
		!ws_pages_has(&links->runtime, process, correlation));
}

bool ws_links_to(const struct ws_links *links, uint64_t process, uint64_t correlation)
{
	return correlation != WS_NO_U32 && ws_pages_has(&links->calls, process, correlation);
}
