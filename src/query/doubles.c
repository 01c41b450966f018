/* doubles.c - see doubles.h. */
#include "query/doubles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In ns: from where a double of microseconds loses digits that a trace writes, and from where it
 * cannot hold nanoseconds any more. */
#define MIN_NS (UINT64_C(1000) << 33)
#define MAX_NS (UINT64_C(1000) << 43)

void ws_doubles_open(struct ws_doubles *doubles, const struct ws_report *report,
		     enum ws_doubles_use use)
{
	static const char fact[] = WS_DOUBLES_FACT;
	struct ws_cursor *cursor;
	const uint64_t *values;

	*doubles = (struct ws_doubles){.use = use, .zero = ws_find_time_zero(report)};
	cursor = ws_cursor_open(report, WS_TABLE_meta, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values)) {
		const char *name = ws_report_string(report, (uint32_t)values[ws_meta_name], NULL);

		if (!strncmp(name, fact, sizeof(fact) - 1))
			ws_map_set(&doubles->clocks, strtoull(name + sizeof(fact) - 1, NULL, 10),
				   (uint64_t)strtoll(
					   ws_report_string(report, (uint32_t)values[ws_meta_value],
							    NULL),
					   NULL, 10));
	}
	ws_cursor_close(cursor);
}

void ws_doubles_close(struct ws_doubles *doubles)
{
	ws_map_free(&doubles->clocks);
}

/* The number that a reader of the trace gets for a decimal of microseconds. Below 2^53 ns both
 * operands are exact, so it is rounded once. */
static double to_microseconds(uint64_t ns)
{
	if (ns < UINT64_C(1) << 53)
		return (double)ns / 1000;
	return (double)((long double)ns / 1000);
}

static int64_t find_shift(double us, uint64_t ns)
{
	long double shift = ((long double)us * 1000 - ns) * WS_DOUBLES_PARTS;

	return (int64_t)(shift + copysignl(0.5L, shift));
}

struct ws_doubles_shift ws_doubles_find_shift(const struct ws_doubles *doubles, uint64_t process,
					      uint64_t start, uint64_t end)
{
	struct ws_doubles_shift none = {0};
	bool found = false;
	uint64_t clock = ws_map_get(&doubles->clocks, process, &found), own = start;
	volatile double from, to; /* rounded here, whatever precision the processor keeps */

	if (doubles->use == WS_DOUBLES_NEVER || end < start ||
	    (!found && doubles->use != WS_DOUBLES_ALWAYS))
		return none;
	if (found)
		own = start - doubles->zero + clock;
	if (own > INT64_MAX ||
	    (doubles->use != WS_DOUBLES_ALWAYS && (own < MIN_NS || own > MAX_NS)))
		return none;
	from = to_microseconds(own);
	to = from + to_microseconds(end - start);
	return (struct ws_doubles_shift){find_shift(from, own),
					 find_shift(to, own + (end - start))};
}
