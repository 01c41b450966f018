/* timeline.c - see timeline.h. */
#include "export/timeline.h"
#include "base/choose.h"

#include <stdlib.h>
#include <string.h>

#include "text/output_file.h"

/* ---- merging ---- */

enum { MOST_TOGETHER = 4096 };

/* Rows of one kind of event, in order of start. */
struct head {
	const struct ws_event_kind *kind;
	struct ws_cursor *cursor;
	const uint64_t *values; /* its next row; NULL at its end */
	uint64_t start;
};

struct held {
	struct ws_timeline_event event;
	unsigned rank;
	size_t order;
	uint64_t row[WS_MAX_COLUMNS];
};

struct ws_timeline {
	struct ws_cell_context *export;
	struct head head[WS_EVENT_KINDS]; /* by rank */
	unsigned heads;
	struct held **held; /* events with one start */
	size_t n, next, cap;
};

static void advance_head(struct ws_timeline *timeline, unsigned i)
{
	struct head *head = &timeline->head[i];

	if (!ws_cursor_next(head->cursor, &head->values)) {
		head->values = NULL;
		return;
	}
	head->start = head->values[0];
}

/* The order of nesting when spans are equal: kinds that declare no rank come last. */
static int compare_ranks(const void *first, const void *second)
{
	const struct head *left = first, *right = second;
	uint8_t left_rank = (uint8_t)(left->kind->rank - 1), /* 0 is last */
		right_rank = (uint8_t)(right->kind->rank - 1);

	if (left_rank != right_rank)
		return ws_compare(left_rank, right_rank);
	return ws_compare(left->kind, right->kind);
}

struct ws_timeline *ws_timeline_open(struct ws_cell_context *export, uint8_t formats)
{
	struct ws_timeline *timeline = ws_calloc(1, sizeof(*timeline));

	timeline->export = export;
	for (unsigned i = 0; i < WS_EVENT_KINDS; i++)
		if (formats & ~ws_event_kinds[i].not_in)
			timeline->head[timeline->heads++].kind = &ws_event_kinds[i];
	qsort(timeline->head, timeline->heads, sizeof(*timeline->head), compare_ranks);
	for (unsigned i = 0; i < timeline->heads; i++) {
		timeline->head[i].cursor = ws_cursor_open(
			export->report, timeline->head[i].kind->table, 0, UINT64_MAX);
		advance_head(timeline, i);
	}
	return timeline;
}

static int compare_held(const void *first, const void *second)
{
	const struct held *left = *(struct held *const *)first,
			  *right = *(struct held *const *)second;

	if (left->event.end != right->event.end) { /* a moment comes last */
		uint64_t p = left->event.end == WS_NO_TIME ? 0 : left->event.end,
			 q = right->event.end == WS_NO_TIME ? 0 : right->event.end;

		return ws_compare(q, p);
	}
	if (left->rank != right->rank)
		return ws_compare(left->rank, right->rank);
	return ws_compare(left->order, right->order);
}

static void hold_event(struct ws_timeline *timeline, unsigned i)
{
	const struct ws_event_kind *kind = timeline->head[i].kind;
	struct held *held;

	if (timeline->n == timeline->cap) {
		ws_grow(timeline->held, timeline->cap, timeline->n + 1);
		for (size_t k = timeline->n; k < timeline->cap; k++)
			timeline->held[k] = ws_malloc(sizeof(*timeline->held[k]));
	}
	held = timeline->held[timeline->n];
	memcpy(held->row, timeline->head[i].values,
	       ws_tables[kind->table].column_count * sizeof(*held->row));
	held->rank = i;
	held->order = timeline->n++;
	held->event =
		(struct ws_timeline_event){kind, held->row, timeline->head[i].start, WS_NO_TIME};
	if (kind->end)
		held->event.end = held->row[kind->end];
}

/* Collect all events with the earliest start. */
static bool hold_earliest(struct ws_timeline *timeline)
{
	uint64_t first = UINT64_MAX;
	bool any = false;

	timeline->n = timeline->next = 0;
	for (unsigned i = 0; i < timeline->heads; i++)
		if (timeline->head[i].values) {
			any = true;
			first = ws_min(timeline->head[i].start, first);
		}
	if (!any)
		return false;
	for (unsigned i = 0; i < timeline->heads; i++)
		while (timeline->head[i].values && timeline->head[i].start <= first &&
		       timeline->n < MOST_TOGETHER) {
			hold_event(timeline, i);
			advance_head(timeline, i);
		}
	if (timeline->n > 1)
		qsort(timeline->held, timeline->n, sizeof(*timeline->held), compare_held);
	return true;
}

bool ws_timeline_next(struct ws_timeline *timeline, struct ws_timeline_event *event)
{
	do {
		if (timeline->next == timeline->n &&
		    (ws_is_interrupted() || !hold_earliest(timeline)))
			return false;
		*event = timeline->held[timeline->next++]->event;
	} while (!ws_is_in_time(timeline->export, event->start, event->end));
	return true;
}

void ws_timeline_close(struct ws_timeline *timeline)
{
	for (unsigned i = 0; i < timeline->heads; i++)
		ws_cursor_close(timeline->head[i].cursor);
	for (size_t i = 0; i < timeline->cap; i++)
		free(timeline->held[i]);
	free(timeline->held);
	free(timeline);
}

/* ---- a row by its descriptor ---- */

bool ws_event_is_known(const struct ws_timeline_event *event, uint8_t column)
{
	enum ws_type type = ws_tables[event->kind->table].columns[column].type;

	if (type == WS_T_NU32)
		return event->values[column] != WS_NO_U32;
	return type != WS_T_NU64 || event->values[column] != WS_NO_U64;
}

uint32_t ws_event_process(const struct ws_cell_context *export,
			  const struct ws_timeline_event *event)
{
	const struct ws_event_kind *kind = event->kind;

	if (kind->process)
		return (uint32_t)event->values[kind->process];
	if (!kind->thread)
		return 0;
	return ws_find_thread(export->who, (uint32_t)event->values[kind->thread])->process;
}

enum ws_event_shape ws_find_row_shape(const struct ws_timeline_event *event)
{
	return ws_event_shape(event->kind, event->values[event->kind->shaped_by]);
}

enum ws_category ws_find_row_category(const struct ws_timeline_event *event)
{
	return ws_find_event_category(event->kind, event->values[event->kind->category_by]);
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
	struct ws_cell_context *export;
	const struct ws_event_kind *kind; /* of the rows that are scanned */
};

/* The row's correlation id, WS_NO_U32 where there is none or the row is not exported. */
static uint64_t correlation_of(const struct linking *linking, const struct ws_batch *batch,
			       size_t i)
{
	const struct ws_event_kind *kind = linking->kind;

	if (!ws_is_in_time(linking->export, batch->col[0][i], batch->col[kind->end][i]))
		return WS_NO_U32;
	return batch->col[kind->correlation][i];
}

static int add_calls(void *ctx, const struct ws_batch *batch)
{
	struct linking *linking = ctx;
	const struct ws_event_kind *kind = linking->kind;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t id = correlation_of(linking, batch, i);
		uint32_t thread = (uint32_t)batch->col[kind->thread][i], process;

		if (id == WS_NO_U32)
			continue;
		process = ws_find_thread(linking->export->who, thread)->process;
		ws_pages_add(&linking->links->calls, process, id);
		if (batch->col[kind->category_by][i] == WS_CUDA_RUNTIME)
			ws_pages_add(&linking->links->runtime, process, id);
	}
	return 0;
}

static int add_work(void *ctx, const struct ws_batch *batch)
{
	struct linking *linking = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t id = correlation_of(linking, batch, i);

		if (id != WS_NO_U32)
			ws_pages_add(&linking->links->work, batch->col[linking->kind->process][i],
				     id);
	}
	return 0;
}

/* The facts about rows that a kind of link needs beforehand. */
static int (*const link_adders[WS_LINKS])(void *ctx, const struct ws_batch *batch) = {
	[WS_LINK_CALL] = add_calls,
	[WS_LINK_WORK] = add_work,
};

static int add_externals(void *ctx, const struct ws_batch *batch)
{
	struct linking *linking = ctx;

	for (size_t i = 0; i < batch->rows; i++)
		ws_pages_set(&linking->links->external, batch->col[ws_op_link_process][i],
			     batch->col[ws_op_link_correlation][i],
			     batch->col[ws_op_link_external][i]);
	return 0;
}

void ws_links_load(struct ws_links *links, struct ws_cell_context *export)
{
	struct linking linking = {.links = links, .export = export};
	struct ws_scan scan = {.time_max = UINT64_MAX, .workers = 1};

	memset(links, 0, sizeof(*links));
	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		const struct ws_event_kind *kind = &ws_event_kinds[i];

		linking.kind = kind;
		scan.table = kind->table;
		scan.columns = 1 | UINT64_C(1) << kind->end | UINT64_C(1) << kind->process |
			       UINT64_C(1) << kind->thread | UINT64_C(1) << kind->category_by |
			       UINT64_C(1) << kind->correlation;
		if (link_adders[kind->link])
			ws_run_scan(export->report, &scan, link_adders[kind->link], &linking, NULL);
	}
	scan.table = WS_TABLE_op_link;
	scan.columns = WS_COLUMN_BIT(op_link, process) | WS_COLUMN_BIT(op_link, correlation) |
		       WS_COLUMN_BIT(op_link, external);
	ws_run_scan(export->report, &scan, add_externals, &linking, NULL);
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
