/*
 * network_congestion.c - times in which a network port had something to send but could not, as
 * counted by network cards and switches.
 *
 * The counters come from imported exports (NET_NIC_METRIC, NET_IB_SWITCH_METRIC): those with "send
 * wait" in their names. A value is the number of ticks that the port waited during its span, unless
 * the counter's unit says that it is a rate already. A tick is defined by the device and lasts
 * about a nanosecond.
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

/* A counter of waits: the port it belongs to, and how its values give rates. */
struct counted_port {
	uint32_t group, identity;
	long double per_ms; /* factor from a value to the rate; 0: values are ticks in a span */
};

struct counted_ports {
	struct counted_port *ports;
	size_t count, capacity;
	struct ws_map by_id; /* id of the counter -> index in `ports` + 1 */
};

/* "NIC mlx5_0" is the card mlx5_0; switches have no names. */
static struct ws_cell make_device_cell(const struct ws_stats *stats, uint32_t group)
{
	size_t length;
	const char *name = ws_report_string(stats->report, group, &length);

	if (length <= 4 || memcmp(name, "NIC ", 4))
		return ws_cell_null();
	return ws_cell_text(name + 4, length - 4);
}

/* The factor from a value to the rate in ticks per ms; 0 when values are ticks. */
static long double get_rate_factor(const char *unit)
{
	if (strstr(unit, "/ms"))
		return 1.0L;
	if (strstr(unit, "/s"))
		return 0.001L;
	return 0;
}

static void read_wait_counters(const struct ws_stats *stats, struct counted_ports *ports)
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
		ws_grow(ports->ports, ports->capacity, ports->count + 1);
		ports->ports[ports->count++] =
			(struct counted_port){.group = (uint32_t)values[ws_counter_group],
					      .identity = (uint32_t)values[ws_counter_identity],
					      .per_ms = get_rate_factor(unit)};
		ws_map_set(&ports->by_id, values[ws_counter_id], ports->count);
	}
	ws_cursor_close(cursor);
}

static void print_congestion(struct ws_stats *stats, const struct counted_ports *ports,
			     const uint64_t *values, long double threshold)
{
	uint64_t at = ws_map_get(&ports->by_id, values[ws_counter_value_counter], NULL),
		 start = values[ws_counter_value_start];
	uint64_t span = values[ws_counter_value_span];
	const struct counted_port *port;
	long double rate = 0;
	double value;

	if (!at || start + span < stats->time_min)
		return;
	port = &ports->ports[at - 1];
	memcpy(&value, &values[ws_counter_value_value], sizeof(value));
	if (port->per_ms)
		rate = value * port->per_ms;
	else if (span)
		rate = (long double)value * 1000000 / span;
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
			make_device_cell(stats, port->group),
		});
}

static int make_network_congestion_rows(struct ws_stats *stats, struct ws_err *err)
{
	const char *least = ws_get_stats_arg(stats, "ticks_threshold=");
	long double threshold = 10000; /* ticks per ms */
	struct counted_ports ports = {0};
	struct ws_cursor *cursor;
	const uint64_t *values;

	(void)err;
	if (least)
		threshold = strtold(least, NULL);
	read_wait_counters(stats, &ports);
	if (ports.count) { /* a span that touches the window may be in any earlier block */
		cursor = ws_cursor_open(stats->report, WS_TABLE_counter_value, 0, stats->time_max);
		while (ws_cursor_next(cursor, &values))
			print_congestion(stats, &ports, values, threshold);
		ws_cursor_close(cursor);
	}
	ws_map_free(&ports.by_id);
	free(ports.ports);
	return 0;
}

const struct ws_stats_report ws_stat_network_congestion = {
	.name = "network_congestion",
	.title = "Network Devices Congestion",
	.about = "Times in which a port of a network card or switch waited to send, at more than "
		 "10000 ticks a millisecond or "
		 ":ticks_threshold=<number>. From imported SQLite exports of Nsight Systems",
	.what = "congestion of network devices",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_network_congestion_rows,
};
