/*
 * top_text.c - see top_text.h. The lists of a page (kernels, ranges, threads, calls) share the
 * lines that the head and the foot leave: a list that needs fewer than its share leaves them to
 * others.
 */
#include "cli/top_text.h"

#include <stdio.h>
#include <string.h>

#include "base/choose.h"
#include "text/text.h"

enum { ROWS_UNBOUNDED = 10, NUMBER_WIDTH = 10, MOST_GPUS = 8 };

/* ---- lines ---- */

struct page {
	struct ws_text *out;
	const struct ws_top_page *wanted;
	const struct ws_activity_look *look;
	const char *line_end;
	int lines;
};

/* One line, cut to the page's width; none once the page is full. */
static void end_line(struct page *page, struct ws_text *line)
{
	size_t len = ws_find_utf8_prefix(ws_text_or(line->text, ""), line->len,
					 (size_t)page->wanted->width);

	if (!page->wanted->height || page->lines < page->wanted->height) {
		ws_text_add(page->out, ws_text_or(line->text, ""), len);
		ws_text_puts(page->out, page->line_end);
		page->lines++;
	}
	line->len = 0;
}

/* `text` in exactly `width` columns. */
static void add_cell(struct ws_text *line, const char *text, int width)
{
	struct ws_text safe = {0};
	size_t len, columns;

	ws_put_terminal_text(&safe, text, strlen(text));
	len = ws_find_utf8_prefix(ws_text_or(safe.text, ""), safe.len, (size_t)ws_max(width, 0));
	columns = ws_measure_utf8_width(ws_text_or(safe.text, ""), len);
	ws_text_add(line, ws_text_or(safe.text, ""), len);
	ws_text_printf(line, "%*s", (int)(ws_max(width, 0) - (int)columns), "");
	ws_text_free(&safe);
}

static void add_number(struct ws_text *line, const char *number)
{
	ws_text_printf(line, "%*s", NUMBER_WIDTH, number);
}

/* ---- numbers ---- */

struct unit {
	double from;
	const char *name;
};

/* Three digits and a suitable unit. `units` descends, and ends with one from 0. */
static const char *format_in_units(char buf[24], double value, const struct unit *units)
{
	int decimals = 2;

	while (value < units->from)
		units++;
	if (units->from > 0)
		value /= units->from;
	if (value >= 9.995)
		decimals = 1;
	if (value >= 99.95 || (units->from <= 0 && value == (double)(long long)value))
		decimals = 0;
	snprintf(buf, 24, "%.*f%s", decimals, value, units->name);
	return buf;
}

static const char *format_time(char buf[24], double ns)
{
	static const struct unit units[] = {{1e9, " s"}, {1e6, " ms"}, {1e3, " us"}, {0, " ns"}};

	return format_in_units(buf, ns, units);
}

static const char *format_count(char buf[24], double count)
{
	static const struct unit units[] = {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {0, ""}};

	return format_in_units(buf, count, units);
}

static const char *format_bytes(char buf[24], double bytes)
{
	static const struct unit units[] = {{1e9, " GB"}, {1e6, " MB"}, {1e3, " kB"}, {0, " B"}};

	return format_in_units(buf, bytes, units);
}

static double per_second(const struct page *page, uint64_t count)
{
	return (double)count / ws_max(page->look->seconds, 1e-3);
}

static void add_percent(struct ws_text *line, const struct page *page, uint64_t ns)
{
	char buf[24];

	snprintf(buf, sizeof(buf), "%.1f %%", per_second(page, ns) / 1e7);
	add_number(line, buf);
}

/* ---- head and foot ---- */

static void add_head(struct page *page)
{
	const struct ws_activity_look *look = page->look;
	const struct ws_top_page *wanted = page->wanted;
	struct ws_text line = {0}, name = {0};
	uint64_t seconds = look->recording_ns / 1000000000u;
	char rate[24], size[24];

	ws_put_terminal_text(&name, wanted->report, strlen(wanted->report));
	if (wanted->of > 1)
		ws_text_printf(&line, "[%zu/%zu] ", wanted->number, wanted->of);
	ws_text_printf(&line, "%s: %s", name.text,
		       look->state == WS_FOLLOW_FINISHED ? "finished"
		       : look->collecting		 ? "recording"
							 : "waiting, nothing is collected");
	if (look->recording_ns)
		ws_text_printf(&line, " %02llu:%02llu:%02llu", (unsigned long long)(seconds / 3600),
			       (unsigned long long)(seconds / 60 % 60),
			       (unsigned long long)(seconds % 60));
	ws_text_printf(&line, ", %s events/s, %s",
		       format_count(rate, per_second(page, look->events)),
		       format_bytes(size, (double)look->file_size));
	end_line(page, &line);
	if (*look->command) {
		add_cell(&line, look->command, wanted->width);
		end_line(page, &line);
	}
	ws_text_free(&line);
	ws_text_free(&name);
}

static void add_foot(struct page *page)
{
	const struct ws_activity_look *look = page->look;
	struct ws_text line = {0};
	char lost[24];

	if (look->lost) {
		ws_text_printf(&line, "lost %s events, the last of them %s: ",
			       format_count(lost, (double)look->lost), look->lost_what);
		add_cell(&line, look->lost_why, page->wanted->width);
		end_line(page, &line);
	}
	if (look->warning) {
		ws_text_puts(&line, "warning: ");
		add_cell(&line, look->warning, page->wanted->width);
		end_line(page, &line);
	}
	if (page->wanted->keys) {
		ws_text_printf(&line, "q: quit   up, down: scroll%s",
			       page->wanted->of > 1 ? "   left, right: other recordings" : "");
		end_line(page, &line);
	}
	ws_text_free(&line);
}

static int count_foot(const struct page *page)
{
	return (page->look->lost > 0) + (page->look->warning != NULL) + page->wanted->keys;
}

/* ---- GPUs ---- */

static void add_gpus(struct page *page)
{
	struct ws_text line = {0};
	char kernels[24], bytes[24];

	for (size_t i = 0; i < page->look->gpu_count && i < MOST_GPUS; i++) {
		const struct ws_activity_gpu *gpu = &page->look->gpus[i];

		ws_text_printf(&line, "GPU %u ", gpu->device);
		add_cell(&line, gpu->name, 20);
		ws_text_printf(&line, " busy %5.1f %%   %s kernels/s   copies %s/s",
			       ws_min(gpu->busy, 1.0) * 100,
			       format_count(kernels, per_second(page, gpu->kernels)),
			       format_bytes(bytes, per_second(page, gpu->bytes)));
		end_line(page, &line);
	}
	ws_text_free(&line);
}

/* ---- lists ---- */

struct list {
	const char *title, *numbers; /* of the head, the latter right-aligned as add_number does */
	size_t (*count)(const struct ws_activity_look *look);
	void (*add_row)(struct page *page, struct ws_text *line, size_t i, int name_width);
	int number_columns;
};

static void add_item(struct page *page, struct ws_text *line, const struct ws_activity_item *item,
		     int name_width)
{
	char buf[24];

	add_cell(line, item->name, name_width);
	add_number(line, format_count(buf, per_second(page, item->count)));
	add_percent(line, page, item->total);
	add_number(line, format_time(buf, (double)item->total / (double)item->count));
	add_number(line, format_time(buf, (double)item->longest));
}

static size_t count_kernels(const struct ws_activity_look *look)
{
	return look->kernels.count;
}

static void add_kernel(struct page *page, struct ws_text *line, size_t i, int name_width)
{
	add_item(page, line, &page->look->kernels.items[i], name_width);
}

static size_t count_ranges(const struct ws_activity_look *look)
{
	return look->ranges.count;
}

static void add_range(struct page *page, struct ws_text *line, size_t i, int name_width)
{
	add_item(page, line, &page->look->ranges.items[i], name_width);
}

static size_t count_calls(const struct ws_activity_look *look)
{
	return look->calls.count;
}

static void add_call(struct page *page, struct ws_text *line, size_t i, int name_width)
{
	add_item(page, line, &page->look->calls.items[i], name_width);
}

static size_t count_threads(const struct ws_activity_look *look)
{
	return look->thread_count;
}

static void add_thread(struct page *page, struct ws_text *line, size_t i, int name_width)
{
	const struct ws_activity_thread *thread = &page->look->threads[i];
	struct ws_text name = {0};

	ws_text_printf(&name, "%u ", thread->tid);
	ws_text_puts(&name, *thread->name ? thread->name : thread->process);
	if (*thread->name && *thread->process && strcmp(thread->name, thread->process))
		ws_text_printf(&name, " (%s)", thread->process);
	add_cell(line, name.text, name_width);
	if (page->look->knows_cpu)
		add_percent(line, page, thread->cpu);
	else
		add_number(line, "-");
	add_percent(line, page, thread->waited);
	ws_text_puts(line, "  ");
	add_cell(line, thread->call, 2 * NUMBER_WIDTH - 2);
	ws_text_free(&name);
}

static const struct list lists[] = {
	{"KERNELS", "      /s      busy   average   longest", count_kernels, add_kernel, 4},
	{"NVTX RANGES", "      /s      time   average   longest", count_ranges, add_range, 4},
	{"THREADS", "     CPU  in calls  mostly in          ", count_threads, add_thread, 4},
	{"OS RUNTIME CALLS", "      /s      time   average   longest", count_calls, add_call, 4},
};

static void add_list(struct page *page, const struct list *list, size_t rows)
{
	struct ws_text line = {0};
	size_t count = list->count(page->look),
	       from = ws_min(page->wanted->scroll, count - ws_min(count, rows));
	int name_width = page->wanted->width - list->number_columns * NUMBER_WIDTH;

	add_cell(&line, list->title, name_width);
	ws_text_printf(&line, "%*s", list->number_columns * NUMBER_WIDTH, list->numbers);
	end_line(page, &line);
	for (size_t i = from; i < count && i - from < rows; i++) {
		list->add_row(page, &line, i, name_width);
		end_line(page, &line);
	}
	ws_text_free(&line);
}

/* How many rows each list gets: an equal share of the lines, and what others leave. */
static void share_lines(const struct page *page, size_t rows[WS_COUNT(lists)])
{
	size_t want[WS_COUNT(lists)], shown = 0, left;
	int free_lines = page->wanted->height - page->lines - count_foot(page);

	for (size_t i = 0; i < WS_COUNT(lists); i++) {
		want[i] = lists[i].count(page->look);
		shown += want[i] > 0;
		rows[i] = page->wanted->height ? 0 : ws_min(want[i], (size_t)ROWS_UNBOUNDED);
	}
	if (!page->wanted->height)
		return;
	left = (size_t)ws_max(free_lines - (int)shown, 0);
	for (size_t given = 1; given && left;) {
		given = 0;
		for (size_t i = 0; i < WS_COUNT(lists) && left; i++)
			if (rows[i] < want[i]) {
				rows[i]++;
				left--;
				given++;
			}
	}
}

void ws_add_top_page(struct ws_text *out, const struct ws_top_page *wanted,
		     const struct ws_activity_look *look, const char *line_end)
{
	struct page page = {.out = out, .wanted = wanted, .look = look, .line_end = line_end};
	size_t rows[WS_COUNT(lists)];
	struct ws_text line = {0};

	add_head(&page);
	add_gpus(&page);
	share_lines(&page, rows);
	for (size_t i = 0; i < WS_COUNT(lists); i++)
		if (rows[i])
			add_list(&page, &lists[i], rows[i]);
	while (wanted->height && page.lines < wanted->height - count_foot(&page))
		end_line(&page, &line);
	add_foot(&page);
	ws_text_free(&line);
}
