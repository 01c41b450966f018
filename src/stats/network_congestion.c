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
	struct port *ports;
	size_t n, cap;
	struct ws_map by_id; /* counter -> place in v + 1 */
};

/* "NIC mlx5_0" is the card mlx5_0; switches have no name. */
static struct ws_cell device_name(const struct ws_stats *stats, uint32_t group)
{
	size_t len;
	const char *name = ws_report_string(stats->report, group, &len);

	return len > 4 && !memcmp(name, "NIC ", 4) ? ws_cell_text(name + 4, len - 4)
						   : ws_cell_null();
}

static void load(const struct ws_stats *stats, struct ports *ports)
{
	struct ws_cursor *cursor = ws_cursor_open(stats->report, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		const char *name =
			ws_report_string(stats->report, (uint32_t)values[ws_counter_name], NULL);
		const char *unit =
			ws_report_string(stats->report, (uint32_t)values[ws_counter_unit], NULL);

		if (!strcasestr(name, "send wait") || !values[ws_counter_identity])
			continue;
		ws_grow(ports->ports, ports->cap, ports->n + 1);
		ports->ports[ports->n++] =
			(struct port){.group = (uint32_t)values[ws_counter_group],
				      .identity = (uint32_t)values[ws_counter_identity],
				      .per_ms = strstr(unit, "/ms")  ? 1.0L
						: strstr(unit, "/s") ? 0.001L
								     : 0};
		ws_map_set(&ports->by_id, values[ws_counter_id], ports->n);
	}
	ws_cursor_close(cursor);
}

static void look(struct ws_stats *stats, const struct ports *ports, const uint64_t *values,
		 long double threshold)
{
	uint64_t at = ws_map_get(&ports->by_id, values[ws_counter_value_counter], NULL),
		 start = values[ws_counter_value_start];
	uint64_t span = values[ws_counter_value_span];
	const struct port *port = at ? &ports->ports[at - 1] : NULL;
	long double rate;
	double value;

	if (!port || start + span < stats->time_min)
		return;
	memcpy(&value, &values[ws_counter_value_value], sizeof(value));
	if (port->per_ms)
		rate = value * port->per_ms;
	else
		rate = span ? (long double)value * 1000000 / span : 0;
	if (!(rate > threshold))
		return;
	stats->row(
		stats,
		(struct ws_cell[]){
			ws_cell_int((int64_t)(start - stats->zero)),
			ws_cell_int((int64_t)(start + span - stats->zero)),
			ws_cell_int((int64_t)span),
			ws_cell_real(rate),
			ws_cell_text(ws_report_string(stats->report, port->identity, NULL),
				     strlen(ws_report_string(stats->report, port->identity, NULL))),
			device_name(stats, port->group),
		});
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	const char *least = ws_stats_arg(stats, "ticks_threshold=");
	long double threshold = least ? strtold(least, NULL) : 10000;
	struct ports ports = {0};
	struct ws_cursor *cursor;
	const uint64_t *values;

	(void)err;
	load(stats, &ports);
	if (ports.n) { /* a span may have begun before the window: where that is, no block tells
			*/
		cursor = ws_cursor_open(stats->report, WS_TABLE_counter_value, 0, stats->time_max);
		while (ws_cursor_next(cursor, &values))
			look(stats, &ports, values, threshold);
		ws_cursor_close(cursor);
	}
	ws_map_free(&ports.by_id);
	free(ports.ports);
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
