/*
 * network_congestion.c - times in which a network port had something to send and could not, as
 * network cards and switches count it.
 *
 * The counters come from imported exports (NET_NIC_METRIC, NET_IB_SWITCH_METRIC): those whose name
 * has "send wait" in it. A value is the number of ticks that the port waited in its span; where the
 * counter's unit is per time already, it is taken as it is. Ticks are the device's own, about a
 * nanosecond each.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "stats/stats.h"

static const struct ws_column columns[] = {
	{"Start", WS_KIND_TIME},    {"End", WS_KIND_TIME},
	{"Duration", WS_KIND_TIME}, {"Send wait rate (ticks/ms)", WS_KIND_RATIO},
	{"GUID", WS_KIND_TEXT},	    {"Device name", WS_KIND_TEXT},
};

static const char *const args[] = {"ticks_threshold=", NULL};

/* A counter of waits: who counts, and how its values are meant. */
struct port {
	uint32_t group, identity;
	long double per_ms; /* a value times this is the rate; 0 for ticks in a span */
};

struct ports {
	struct port *v;
	size_t n, cap;
	struct ws_map by_id; /* counter -> place in v + 1 */
};

/* "NIC mlx5_0" is the card mlx5_0; switches have no name. */
static struct ws_cell device_name(const struct ws_stats *s, uint32_t group)
{
	size_t len;
	const char *name = ws_report_string(s->r, group, &len);

	return len > 4 && !memcmp(name, "NIC ", 4) ? ws_cell_text(name + 4, len - 4)
						   : ws_cell_null();
}

static void load(const struct ws_stats *s, struct ports *p)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		const char *name = ws_report_string(s->r, (uint32_t)v[ws_counter_name], NULL);
		const char *unit = ws_report_string(s->r, (uint32_t)v[ws_counter_unit], NULL);

		if (!strcasestr(name, "send wait") || !v[ws_counter_identity])
			continue;
		ws_grow(p->v, p->cap, p->n + 1);
		p->v[p->n++] = (struct port){.group = (uint32_t)v[ws_counter_group],
					     .identity = (uint32_t)v[ws_counter_identity],
					     .per_ms = strstr(unit, "/ms")  ? 1.0L
						       : strstr(unit, "/s") ? 0.001L
									    : 0};
		ws_map_set(&p->by_id, v[ws_counter_id], p->n);
	}
	ws_cursor_close(c);
}

static void look(struct ws_stats *s, const struct ports *p, const uint64_t *v,
		 long double threshold)
{
	uint64_t at = ws_map_get(&p->by_id, v[ws_counter_value_counter], NULL),
		 start = v[ws_counter_value_start];
	uint64_t span = v[ws_counter_value_span];
	const struct port *port = at ? &p->v[at - 1] : NULL;
	long double rate;
	double value;

	if (!port || start + span < s->time_min)
		return;
	memcpy(&value, &v[ws_counter_value_value], sizeof(value));
	if (port->per_ms)
		rate = value * port->per_ms;
	else
		rate = span ? (long double)value * 1000000 / span : 0;
	if (!(rate > threshold))
		return;
	s->row(s, (struct ws_cell[]){
			  ws_cell_int((int64_t)(start - s->zero)),
			  ws_cell_int((int64_t)(start + span - s->zero)),
			  ws_cell_int((int64_t)span),
			  ws_cell_real(rate),
			  ws_cell_text(ws_report_string(s->r, port->identity, NULL),
				       strlen(ws_report_string(s->r, port->identity, NULL))),
			  device_name(s, port->group),
		  });
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	const char *least = ws_stats_arg(s, "ticks_threshold=");
	long double threshold = least ? strtold(least, NULL) : 10000;
	struct ports p = {0};
	struct ws_cursor *c;
	const uint64_t *v;

	(void)e;
	load(s, &p);
	if (p.n) { /* a span may have begun before the window: where that is, no block tells */
		c = ws_cursor_open(s->r, WS_TABLE_counter_value, 0, s->time_max);
		while (ws_cursor_next(c, &v))
			look(s, &p, v, threshold);
		ws_cursor_close(c);
	}
	ws_map_free(&p.by_id);
	free(p.v);
	return 0;
}

const struct ws_stat ws_stat_network_congestion = {
	.name = "network_congestion",
	.title = "Network Devices Congestion",
	.about = "Times in which a port of a network card or switch waited to send, at more than "
		 "10000 ticks a millisecond or "
		 ":ticks_threshold=<number>. From imported SQLite exports of Nsight Systems",
	.what = "congestion of network devices",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
