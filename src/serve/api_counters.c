/* api_counters.c - what counters were like in a window: mean, least and greatest value of each. */
#include <math.h>
#include <stdlib.h>

#include "base/choose.h"
#include "serve/api.h"

/* A counter's values in a window, weighted by how long each held. */
struct window_sums {
	double sum;
	uint64_t known; /* ns */
	double low, high;
};

static struct window_sums sum_window(const struct ws_lanes *lanes, const struct ws_level *level,
				     int64_t t0, int64_t t1)
{
	struct window_sums sums = {.low = NAN, .high = NAN};
	uint32_t from, to;

	ws_level_range(level, t0, t1, &from, &to);
	for (uint32_t i = from; i < to; i++) {
		int64_t start = ws_max((int64_t)level->start[i], t0), end = (int64_t)lanes->last;

		if (i + 1 < level->n)
			end = (int64_t)level->start[i + 1];
		end = ws_min(end, t1);
		if (isnan(level->value[i]) || end <= start)
			continue;
		sums.sum += level->value[i] * (double)(end - start);
		sums.known += (uint64_t)(end - start);
		sums.low = fmin(sums.low, level->value[i]);
		sums.high = fmax(sums.high, level->value[i]);
	}
	return sums;
}

static void put_number(struct ws_text *text, const char *key, double number)
{
	ws_put_json_key(text, key);
	if (fabs(number) < 1e300)
		ws_text_printf(text, "%.9g", number);
	else
		ws_text_puts(text, "null");
}

static void put_counter(const struct ws_api_call *call, uint32_t lane, int64_t t0, int64_t t1)
{
	struct window_sums sums =
		sum_window(call->lanes, &call->lanes->lane[lane]->level[0], t0, t1);

	if (!sums.known)
		return;
	ws_put_json_comma(call->out);
	ws_text_puts(call->out, "{");
	ws_put_json_int(call->out, "lane", lane);
	put_number(call->out, "mean", sums.sum / (double)sums.known);
	put_number(call->out, "low", sums.low);
	put_number(call->out, "high", sums.high);
	ws_text_puts(call->out, "}");
}

int ws_api_counters(struct ws_api_call *call, struct ws_err *err)
{
	int64_t t0, t1;
	uint32_t *lanes;
	size_t count, unread = 0;

	if (!ws_param_window(call, &t0, &t1, err) ||
	    !ws_param_lanes(call, WS_LANES_ORIGINAL, &lanes, &count, err))
		return 400;
	ws_text_puts(call->out, "{\"counters\":[");
	for (size_t i = 0; i < count; i++) {
		const struct ws_lane *lane = call->lanes->lane[lanes[i]];

		if (!ws_lane_descs[lane->kind].counter)
			continue;
		ws_lanes_want(call->lanes, lanes[i]);
		if (!ws_lane_ready(lane))
			unread++;
		else if (lane->levels)
			put_counter(call, lanes[i], t0, t1);
	}
	ws_text_puts(call->out, "]");
	ws_put_json_int(call->out, "unread", (int64_t)unread);
	ws_text_puts(call->out, "}");
	free(lanes);
	return 0;
}
