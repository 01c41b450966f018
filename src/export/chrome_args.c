/* chrome_args.c - the names and arguments of Chrome's trace events, as schema/events.def declares
 * them. */
#include <inttypes.h>
#include <string.h>

#include "base/choose.h"
#include "export/chrome.h"
#include "export/event_label.h"

void ws_chrome_put_string(struct chrome *chrome, struct ws_text *text, uint64_t id)
{
	size_t n;
	const char *word = ws_report_string(chrome->export->report, (uint32_t)id, &n);

	ws_put_quoted_json(text, word, n);
}

void ws_chrome_put_comma(struct chrome *chrome)
{
	if (chrome->text.text[chrome->text.len - 1] != '{')
		ws_text_add(&chrome->text, ",", 1);
}

void ws_chrome_put_number(struct chrome *chrome, const char *name, uint64_t v)
{
	ws_chrome_put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":%" PRIu64, name, v);
}

void ws_chrome_put_u32(struct chrome *chrome, const char *name, uint64_t v)
{
	if (v != WS_NO_U32)
		ws_chrome_put_number(chrome, name, v);
}

void ws_chrome_put_u64(struct chrome *chrome, const char *name, uint64_t v)
{
	if (v != WS_NO_U64)
		ws_chrome_put_number(chrome, name, v);
}

void ws_chrome_put_real(struct chrome *chrome, const char *name, double v)
{
	ws_chrome_put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":%.6g", name,
		       v - v == 0 ? v : 0.0); /* JSON has no infinities */
}

void ws_chrome_put_text(struct chrome *chrome, const char *name, uint64_t id)
{
	if (!id)
		return;
	ws_chrome_put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":", name);
	ws_chrome_put_string(chrome, &chrome->text, id);
}

/* A share as a whole percentage; 0 for an invalid one. */
static uint64_t share_to_percent(uint64_t bits)
{
	double share = ws_chrome_read_real(bits);

	if (!(share >= 0 && share <= 1))
		return 0;
	return (uint64_t)(share * 100 + 0.5);
}

static const char *arg_name(const struct ws_shown *shown)
{
	return ws_arg_names[shown->arg];
}

typedef void show_arg(struct chrome *chrome, const struct ws_timeline_event *event,
		      const struct ws_shown *shown);

static void show_number(struct chrome *chrome, const struct ws_timeline_event *event,
			const struct ws_shown *shown)
{
	ws_chrome_put_number(chrome, arg_name(shown), event->values[shown->column]);
}

static void show_known(struct chrome *chrome, const struct ws_timeline_event *event,
		       const struct ws_shown *shown)
{
	if (ws_event_is_known(event, shown->column))
		show_number(chrome, event, shown);
}

static void show_not_zero(struct chrome *chrome, const struct ws_timeline_event *event,
			  const struct ws_shown *shown)
{
	if (event->values[shown->column])
		show_number(chrome, event, shown);
}

static void show_signed(struct chrome *chrome, const struct ws_timeline_event *event,
			const struct ws_shown *shown)
{
	if (!event->values[shown->column])
		return;
	ws_chrome_put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":%" PRId64, arg_name(shown),
		       (int64_t)event->values[shown->column]);
}

static void show_real(struct chrome *chrome, const struct ws_timeline_event *event,
		      const struct ws_shown *shown)
{
	ws_chrome_put_real(chrome, arg_name(shown),
			   ws_chrome_read_real(event->values[shown->column]));
}

static void show_positive(struct chrome *chrome, const struct ws_timeline_event *event,
			  const struct ws_shown *shown)
{
	if (ws_chrome_read_real(event->values[shown->column]) > 0)
		show_real(chrome, event, shown);
}

static void show_percent(struct chrome *chrome, const struct ws_timeline_event *event,
			 const struct ws_shown *shown)
{
	uint64_t share = share_to_percent(event->values[shown->column]);

	if (!share)
		share = share_to_percent(event->values[shown->second]);
	ws_chrome_put_number(chrome, arg_name(shown), share);
}

static void show_sum(struct chrome *chrome, const struct ws_timeline_event *event,
		     const struct ws_shown *shown)
{
	ws_chrome_put_number(chrome, arg_name(shown),
			     event->values[shown->column] + event->values[shown->second]);
}

static void show_sizes(struct chrome *chrome, const struct ws_timeline_event *event,
		       const struct ws_shown *shown)
{
	const uint64_t *sizes = &event->values[shown->column];

	ws_chrome_put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
		       arg_name(shown), sizes[0], sizes[1], sizes[2]);
}

static void show_text(struct chrome *chrome, const struct ws_timeline_event *event,
		      const struct ws_shown *shown)
{
	ws_chrome_put_text(chrome, arg_name(shown), event->values[shown->column]);
}

/* A text that should be JSON but is not is written as a string. */
static void show_json(struct chrome *chrome, const struct ws_timeline_event *event,
		      const struct ws_shown *shown)
{
	uint32_t id = (uint32_t)event->values[shown->column];
	size_t n;
	const char *text = ws_report_string(chrome->export->report, id, &n);

	if (!id)
		return;
	ws_chrome_put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":", arg_name(shown));
	if (ws_is_valid_json(text, n))
		ws_text_add(&chrome->text, text, n);
	else
		ws_put_quoted_json(&chrome->text, text, n);
}

static void show_members(struct chrome *chrome, const struct ws_timeline_event *event,
			 const struct ws_shown *shown)
{
	uint32_t id = (uint32_t)event->values[shown->column];
	size_t n, from = 1;
	const char *text = ws_report_string(chrome->export->report, id, &n);

	if (!id)
		return;
	if (n < 2 || *text != '{' || text[n - 1] != '}' || !ws_is_valid_json(text, n)) {
		ws_chrome_put_text(chrome, arg_name(shown), id);
		return;
	}
	while (from < n - 1 && strchr(" \t\r\n", text[from]))
		from++;
	if (from == n - 1)
		return;
	ws_chrome_put_comma(chrome);
	ws_text_add(&chrome->text, text + from, n - 1 - from);
}

void ws_chrome_put_label(struct chrome *chrome, const struct ws_timeline_event *event)
{
	struct ws_text label = {0};
	uint32_t id;

	if (ws_event_name_string(event, &id)) {
		ws_chrome_put_string(chrome, &chrome->text, id);
		return;
	}
	ws_event_put_label(chrome->export, event, &label);
	ws_put_quoted_json(&chrome->text, ws_text_or(label.text, ""), label.len);
	ws_text_free(&label);
}

static void show_label(struct chrome *chrome, const struct ws_timeline_event *event,
		       const struct ws_shown *shown)
{
	ws_chrome_put_comma(chrome);
	ws_text_printf(&chrome->text, "\"%s\":", arg_name(shown));
	ws_chrome_put_label(chrome, event);
}

static void show_rate(struct chrome *chrome, const struct ws_timeline_event *event,
		      const struct ws_shown *shown)
{
	if (event->end != WS_NO_TIME && event->end > event->start)
		ws_chrome_put_real(chrome, arg_name(shown),
				   (double)event->values[shown->column] /
					   (double)(event->end - event->start));
}

static void show_external(struct chrome *chrome, const struct ws_timeline_event *event,
			  const struct ws_shown *shown)
{
	uint64_t correlation = event->values[shown->column], id;

	if (correlation == WS_NO_U32)
		return;
	id = ws_pages_get(&chrome->links.external, ws_event_process(chrome->export, event),
			  correlation);
	if (id)
		ws_chrome_put_number(chrome, arg_name(shown), id);
}

static void show_process(struct chrome *chrome, const struct ws_timeline_event *event,
			 const struct ws_shown *shown)
{
	uint32_t process = (uint32_t)event->values[shown->column];

	if (chrome->several)
		ws_chrome_put_number(chrome, arg_name(shown),
				     (uint64_t)ws_chrome_number_process(
					     chrome,
					     ws_find_process(chrome->export->who, process)));
}

static void show_domain(struct chrome *chrome, const struct ws_timeline_event *event,
			const struct ws_shown *shown)
{
	uint64_t process = ws_event_process(chrome->export, event),
		 domain = event->values[shown->column];

	if (domain)
		ws_chrome_put_text(chrome, arg_name(shown),
				   ws_map_get(&chrome->domains, process << 32 | domain, NULL));
}

/* The data that a kernel of a collective moved, in Kineto's terms. */
static void show_collective(struct chrome *chrome, const struct ws_timeline_event *event,
			    const struct ws_shown *shown)
{
	uint64_t process = ws_event_process(chrome->export, event),
		 correlation = event->values[shown->column], at = 0;
	const struct ws_row_collective *row;

	if (correlation != WS_NO_U32)
		at = ws_map_get(&chrome->collectives, process << 32 | correlation, NULL);
	if (!at)
		return;
	row = &chrome->collective[at - 1];
	ws_chrome_put_text(chrome, "Collective name", row->name);
	ws_chrome_put_u64(chrome, "In msg nelems", row->in_elements);
	ws_chrome_put_u64(chrome, "Out msg nelems", row->out_elements);
	ws_chrome_put_text(chrome, "dtype", row->dtype);
	ws_chrome_put_u32(chrome, "Group size", row->group_size);
	ws_chrome_put_text(chrome, "Process Group Name", row->group);
	ws_chrome_put_text(chrome, "Process Group Description", row->description);
	ws_chrome_put_text(chrome, "Process Group Ranks", row->ranks);
	if (row->source >= 0)
		ws_chrome_put_number(chrome, "Src Rank", (uint64_t)row->source);
	if (row->destination >= 0)
		ws_chrome_put_number(chrome, "Dst Rank", (uint64_t)row->destination);
	ws_chrome_put_u64(chrome, "Seq", row->sequence);
}

static show_arg *const arg_writers[WS_SHOW_FORMS] = {
	[WS_SHOW_NUMBER] = show_number,
	[WS_SHOW_IF_KNOWN] = show_known,
	[WS_SHOW_IF_NOT_ZERO] = show_not_zero,
	[WS_SHOW_SIGNED_IF_NOT_ZERO] = show_signed,
	[WS_SHOW_REAL] = show_real,
	[WS_SHOW_IF_POSITIVE] = show_positive,
	[WS_SHOW_PERCENT] = show_percent,
	[WS_SHOW_SUM] = show_sum,
	[WS_SHOW_SIZES] = show_sizes,
	[WS_SHOW_TEXT] = show_text,
	[WS_SHOW_JSON] = show_json,
	[WS_SHOW_MEMBERS] = show_members,
	[WS_SHOW_LABEL] = show_label,
	[WS_SHOW_RATE] = show_rate,
	[WS_SHOW_EXTERNAL] = show_external,
	[WS_SHOW_PROCESS] = show_process,
	[WS_SHOW_DOMAIN] = show_domain,
	[WS_SHOW_COLLECTIVE] = show_collective,
};

static void put_arg_list(struct chrome *chrome, const struct ws_timeline_event *event,
			 const struct ws_shown *shown)
{
	for (; shown && shown->form != WS_SHOW_END; shown++)
		if (shown->exports & WS_IN_CHROME)
			arg_writers[shown->form](chrome, event, shown);
}

void ws_chrome_put_args(struct chrome *chrome, const struct ws_timeline_event *event)
{
	put_arg_list(chrome, event, event->kind->common);
	put_arg_list(chrome, event, event->kind->shown);
}
