/* charts.c - see charts.h. */
#include "kernel/charts.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "kernel/curves.h"
#include "kernel/formula.h"
#include "kernel/sections.h"
#include "kernel/values.h"
#include "kernel/values.h"
#include "text/json_write.h"

enum chart_kind { BARS, STACK, ROOFLINE, MEMORY, TABLE, CURVES };
static const char *const kind_names[] = {"bars", "stack", "roofline", "memory", "table", "curves"};

enum item_type { CHART, LINES, FIGURE, ROOF, SLOPE, POINT, UNIT, LINK, NOTHING, COLUMN, ROW };

struct item {
	enum item_type type;
	const char *label;	      /* the title of a CHART */
	const char *text, *value;     /* FIGURE: unit, value; LINK: to, busy; UNIT: id */
	const char *more;	      /* CHART: section; FIGURE: group; POINT: bytes */
	int number, number2, number3; /* CHART: kind, most; POINT: roof, slope; UNIT: its place */
};

#define WS_CHART(section, kind, title, most) \
	{.type = CHART, .label = title, .more = WS_NAME(section), .number = kind, .number2 = most},
#define WS_NAME(section) WS_TEXT(section)
#define WS_TEXT(section) #section
#define WS_CHART_LINES(group) {.type = LINES, .label = group},
#define WS_FIGURE(name, unit, formula, group) \
	{.type = FIGURE, .label = name, .text = unit, .value = formula, .more = group},
#define WS_ROOF(name, formula) {.type = ROOF, .label = name, .value = formula},
#define WS_SLOPE(name, formula) {.type = SLOPE, .label = name, .value = formula},
#define WS_POINT(name, roof, slope, operations, bytes) \
	{.type = POINT,                                \
	 .label = name,                                \
	 .value = operations,                          \
	 .more = bytes,                                \
	 .number = roof,                               \
	 .number2 = slope},
#define WS_UNIT(id, name, column, row, rows) \
	{.type = UNIT,                       \
	 .label = name,                      \
	 .text = id,                         \
	 .number = column,                   \
	 .number2 = row,                     \
	 .number3 = rows},
#define WS_LINK(from, to, busy) {.type = LINK, .label = from, .text = to, .value = busy},
#define WS_NOTHING {.type = NOTHING},
#define WS_COLUMN_HEAD(name) {.type = COLUMN, .label = name},
#define WS_TABLE_ROW(name) {.type = ROW, .label = name},
static const struct item items[] = {
#include "kernel/charts.def"
};

struct chart_writer {
	struct ws_text *out;
	const struct ws_kernel_result *result;
	const struct item *chart, *end; /* of its items */
};

/* ---- values ---- */

static double find_value(void *context, const char *name, size_t length)
{
	char metric[200];

	if (length >= sizeof(metric))
		return NAN;
	memcpy(metric, name, length);
	metric[length] = 0;
	return ws_kernel_get(context, metric);
}

double ws_compute_kernel_value(const struct ws_kernel_result *result, const char *value)
{
	return ws_evaluate_formula(value, find_value, (void *)result);
}

void ws_put_json_double(struct ws_text *out, const char *key, double value)
{
	ws_put_json_key(out, key);
	if (isfinite(value))
		ws_text_printf(out, "%.9g", value);
	else
		ws_text_puts(out, "null");
}

/* The first metric of a formula explains it. */
static void put_metric_name(struct ws_text *out, const char *value)
{
	size_t length = 0;

	while (*value && !isalpha((unsigned char)*value))
		value++;
	while (isalnum((unsigned char)value[length]) || value[length] == '_' ||
	       value[length] == '.' || value[length] == ':')
		length++;
	if (length)
		ws_put_json_text(out, "metric", value, length);
}

/* Whether a high share is no warning: of hits, and of warps that fit or are there. */
static bool is_better_high(const char *value)
{
	return strstr(value, "hit_rate") || strstr(value, "maximum_warps") ||
	       strstr(value, "warps_active");
}

/* Append the members of a figure's object. */
static void put_figure(struct ws_text *out, const struct ws_kernel_result *result,
		       const struct ws_kernel_figure *figure)
{
	const char *text = ws_kernel_get_text(result, figure->value);

	ws_put_json_string(out, "label", figure->label);
	put_metric_name(out, figure->value);
	if (text) {
		ws_put_json_string(out, "text", text);
		return;
	}
	ws_put_json_string(out, "unit", figure->unit);
	ws_put_json_double(out, "value", ws_compute_kernel_value(result, figure->value));
	if (is_better_high(figure->value))
		ws_put_json_int(out, "good", 1);
}

void ws_put_kernel_figure(struct ws_text *out, const struct ws_kernel_result *result,
			  const struct ws_kernel_figure *figure)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	put_figure(out, result, figure);
	ws_text_puts(out, "}");
}

/* ---- the parts of charts ---- */

/* Append the lines of a section's group that exist on this chip, as figures. */
static void put_group(const struct chart_writer *writer, const char *group)
{
	int section = ws_kernel_find_section(writer->chart->more, NULL);
	uint8_t family = ws_kernel_chip_family(writer->result->chip);
	const struct ws_kernel_line *lines;
	size_t count;
	char label[128];

	lines = ws_kernel_lines(&count);
	for (size_t i = 0; i < count; i++) {
		struct ws_kernel_figure figure = {label, lines[i].unit, lines[i].value};

		if (lines[i].section != section || !lines[i].shown || !(lines[i].chips & family) ||
		    strcmp(lines[i].group, group) != 0)
			continue;
		ws_kernel_label(&lines[i], label, sizeof(label));
		ws_put_kernel_figure(writer->out, writer->result, &figure);
	}
}

static void begin_array(const struct chart_writer *writer, const char *key)
{
	ws_put_json_key(writer->out, key);
	ws_text_puts(writer->out, "[");
}

static void put_item_figure(const struct chart_writer *writer, const struct item *item)
{
	struct ws_kernel_figure figure = {item->label, item->text, item->value};

	ws_put_json_comma(writer->out);
	if (item->type == NOTHING) {
		ws_text_puts(writer->out, "null");
		return;
	}
	ws_text_puts(writer->out, "{");
	put_figure(writer->out, writer->result, &figure);
	if (*item->more) {
		begin_array(writer, "parts");
		put_group(writer, item->more);
		ws_text_puts(writer->out, "]");
	}
	ws_text_puts(writer->out, "}");
}

static void put_bars(const struct chart_writer *writer, const char *key)
{
	begin_array(writer, key);
	for (const struct item *item = writer->chart + 1; item < writer->end; item++)
		if (item->type == LINES)
			put_group(writer, item->label);
		else
			put_item_figure(writer, item);
	ws_text_puts(writer->out, "]");
}

/* ---- rooflines ---- */

static void put_limits(const struct chart_writer *writer, const char *key, enum item_type type,
		       const char *member)
{
	begin_array(writer, key);
	for (const struct item *item = writer->chart + 1; item < writer->end; item++) {
		if (item->type != type)
			continue;
		ws_put_json_comma(writer->out);
		ws_text_puts(writer->out, "{");
		ws_put_json_string(writer->out, "label", item->label);
		ws_put_json_string(writer->out, "metric", item->value);
		ws_put_json_double(writer->out, member,
				   ws_compute_kernel_value(writer->result, item->value));
		ws_text_puts(writer->out, "}");
	}
	ws_text_puts(writer->out, "]");
}

static void put_points(const struct chart_writer *writer)
{
	begin_array(writer, "points");
	for (const struct item *item = writer->chart + 1; item < writer->end; item++) {
		if (item->type != POINT)
			continue;
		ws_put_json_comma(writer->out);
		ws_text_puts(writer->out, "{");
		ws_put_json_string(writer->out, "label", item->label);
		ws_put_json_int(writer->out, "roof", item->number);
		ws_put_json_int(writer->out, "slope", item->number2);
		ws_put_json_double(writer->out, "flops",
				   ws_compute_kernel_value(writer->result, item->value));
		ws_put_json_double(writer->out, "bytes",
				   ws_compute_kernel_value(writer->result, item->more));
		ws_text_puts(writer->out, "}");
	}
	ws_text_puts(writer->out, "]");
}

static void put_roofline(const struct chart_writer *writer)
{
	put_limits(writer, "roofs", ROOF, "flops");
	put_limits(writer, "slopes", SLOPE, "bytes");
	put_points(writer);
}

/* ---- the memory system ---- */

static void put_unit_figures(const struct chart_writer *writer, const struct item *unit)
{
	begin_array(writer, "figures");
	for (const struct item *item = unit + 1; item < writer->end && item->type == FIGURE; item++)
		put_item_figure(writer, item);
	ws_text_puts(writer->out, "]");
}

static void put_unit(const struct chart_writer *writer, const struct item *unit)
{
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "id", unit->text);
	ws_put_json_string(writer->out, "label", unit->label);
	ws_put_json_int(writer->out, "column", unit->number);
	ws_put_json_int(writer->out, "row", unit->number2);
	ws_put_json_int(writer->out, "rows", unit->number3);
	put_unit_figures(writer, unit);
	ws_text_puts(writer->out, "}");
}

static void put_way(const struct chart_writer *writer, const char *key, const struct item *item)
{
	struct ws_kernel_figure figure = {item->label, item->text, item->value};

	ws_put_json_key(writer->out, key);
	if (item->type == NOTHING) {
		ws_text_puts(writer->out, "null");
		return;
	}
	ws_text_puts(writer->out, "{");
	put_figure(writer->out, writer->result, &figure);
	ws_text_puts(writer->out, "}");
}

static void put_link(const struct chart_writer *writer, const struct item *link)
{
	double busy = NAN;

	if (*link->value)
		busy = ws_compute_kernel_value(writer->result, link->value);
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "from", link->label);
	ws_put_json_string(writer->out, "to", link->text);
	ws_put_json_double(writer->out, "busy", busy);
	put_way(writer, "there", link + 1);
	put_way(writer, "back", link + 2);
	ws_text_puts(writer->out, "}");
}

static void put_memory(const struct chart_writer *writer)
{
	begin_array(writer, "units");
	for (const struct item *item = writer->chart + 1; item < writer->end; item++)
		if (item->type == UNIT)
			put_unit(writer, item);
	ws_text_puts(writer->out, "]");
	begin_array(writer, "links");
	for (const struct item *item = writer->chart + 1; item < writer->end; item++)
		if (item->type == LINK)
			put_link(writer, item);
	ws_text_puts(writer->out, "]");
}

/* ---- tables ---- */

static void put_table_row(const struct chart_writer *writer, const struct item *row)
{
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "label", row->label);
	begin_array(writer, "cells");
	for (const struct item *item = row + 1; item < writer->end && item->type != ROW; item++)
		put_item_figure(writer, item);
	ws_text_puts(writer->out, "]}");
}

static void put_table(const struct chart_writer *writer)
{
	begin_array(writer, "columns");
	for (const struct item *item = writer->chart + 1; item < writer->end; item++) {
		if (item->type != COLUMN)
			continue;
		ws_put_json_comma(writer->out);
		ws_text_puts(writer->out, "{");
		ws_put_json_string(writer->out, "label", item->label);
		ws_text_puts(writer->out, "}");
	}
	ws_text_puts(writer->out, "]");
	begin_array(writer, "rows");
	for (const struct item *item = writer->chart + 1; item < writer->end; item++)
		if (item->type == ROW)
			put_table_row(writer, item);
	ws_text_puts(writer->out, "]");
}

/* ---- charts ---- */

static void put_chart(const struct chart_writer *writer)
{
	ws_put_json_comma(writer->out);
	ws_text_puts(writer->out, "{");
	ws_put_json_string(writer->out, "kind", kind_names[writer->chart->number]);
	ws_put_json_string(writer->out, "title", writer->chart->label);
	switch ((enum chart_kind)writer->chart->number) {
	case BARS:
		ws_put_json_int(writer->out, "most", writer->chart->number2);
		put_bars(writer, "bars");
		break;
	case STACK:
		put_bars(writer, "parts");
		break;
	case ROOFLINE:
		put_roofline(writer);
		break;
	case MEMORY:
		put_memory(writer);
		break;
	case TABLE:
		put_table(writer);
		break;
	case CURVES:
		ws_put_occupancy_curves(writer->out, writer->result);
		break;
	}
	ws_text_puts(writer->out, "}");
}

static bool is_group_measured(const struct chart_writer *writer, const char *group)
{
	int section = ws_kernel_find_section(writer->chart->more, NULL);
	const struct ws_kernel_line *lines;
	size_t count;

	lines = ws_kernel_lines(&count);
	for (size_t i = 0; i < count; i++)
		if (lines[i].section == section && !strcmp(lines[i].group, group) &&
		    !isnan(ws_compute_kernel_value(writer->result, lines[i].value)))
			return true;
	return false;
}

static bool is_item_measured(const struct chart_writer *writer, const struct item *item)
{
	if (item->type == LINES)
		return is_group_measured(writer, item->label);
	if (item->type != FIGURE && item->type != POINT)
		return false;
	return !isnan(ws_compute_kernel_value(writer->result, item->value));
}

static bool is_chart_measured(const struct chart_writer *writer)
{
	if (writer->chart->number == CURVES)
		return ws_has_occupancy_curves(writer->result);
	for (const struct item *item = writer->chart + 1; item < writer->end; item++)
		if (is_item_measured(writer, item))
			return true;
	return false;
}

static const struct item *find_chart_end(const struct item *chart)
{
	const struct item *at = chart + 1;

	while (at < items + WS_COUNT(items) && at->type != CHART)
		at++;
	return at;
}

void ws_put_kernel_charts(struct ws_text *out, const struct ws_kernel_result *result,
			  const char *section)
{
	for (const struct item *at = items; at < items + WS_COUNT(items);) {
		struct chart_writer writer = {out, result, at, find_chart_end(at)};

		if (!strcmp(at->more, section) && is_chart_measured(&writer))
			put_chart(&writer);
		at = writer.end;
	}
}

bool ws_is_group_charted(const char *section, const char *group)
{
	const char *of = "";

	for (size_t i = 0; i < WS_COUNT(items); i++) {
		if (items[i].type == CHART)
			of = items[i].more;
		if (strcmp(of, section) != 0)
			continue;
		if (items[i].type == LINES && !strcmp(items[i].label, group))
			return true;
		if (items[i].type == FIGURE && *items[i].more && !strcmp(items[i].more, group))
			return true;
		if (items[i].type == CHART && !strcmp(items[i].label, group))
			return true;
	}
	return false;
}
