/* flight.c - see flight.h. */
#include "control/flight.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"

#define DEFAULT_BYTES (UINT64_C(256) << 20)
#define LEAST_BYTES (UINT64_C(16) << 20)
#define MOST_BYTES (UINT64_C(1) << 40)
#define LEAST_KEEP UINT64_C(1000000000)
#define MOST_KEEP (UINT64_C(86400) * 1000000000)

struct unit {
	const char *name;
	double factor;
};

static const struct unit times[] = {{"ns", 1},	 {"us", 1e3}, {"ms", 1e6},  {"min", 60e9},
				    {"m", 60e9}, {"s", 1e9},  {"h", 3600e9}};
static const struct unit sizes[] = {{"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30},
				    {"kb", 0x1p10},  {"mb", 0x1p20},  {"gb", 0x1p30},
				    {"k", 0x1p10},   {"m", 0x1p20},   {"g", 0x1p30}};

/* Read a number with one of these units; -1 when `text` is none. */
static int read_quantity(const char *text, const struct unit *units, size_t count, uint64_t *out,
			 const char **end)
{
	size_t digits = strspn(text, "0123456789.");
	char *behind;
	double value = strtod(text, &behind);

	if (!digits || behind != text + digits)
		return -1;
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(units[i].name);

		if (strncasecmp(behind, units[i].name, length) || value * units[i].factor >= 0x1p63)
			continue;
		*out = (uint64_t)(value * units[i].factor);
		*end = behind + length;
		return 0;
	}
	return -1;
}

int ws_flight_read_time(const char *text, uint64_t *ns, const char **end)
{
	return read_quantity(text, times, WS_COUNT(times), ns, end);
}

int ws_flight_read(const char *text, struct ws_flight_plan *plan, struct ws_err *err)
{
	const char *end;

	*plan = (struct ws_flight_plan){.on = true, .bytes = DEFAULT_BYTES};
	if (ws_flight_read_time(text, &plan->keep, &end) || (*end && *end != ',') ||
	    (*end && (read_quantity(end + 1, sizes, WS_COUNT(sizes), &plan->bytes, &end) || *end)))
		return ws_fail(err,
			       "--flight-recorder: '%s' is not a time, with the most memory behind "
			       "a comma, such as 30s or 2m,512M",
			       text);
	if (plan->keep < LEAST_KEEP || plan->keep > MOST_KEEP)
		return ws_fail(err, "--flight-recorder: '%s': give a time from 1s to 24h", text);
	if (plan->bytes < LEAST_BYTES || plan->bytes > MOST_BYTES)
		return ws_fail(err, "--flight-recorder: '%s': give memory from 16M to 1024G", text);
	return 0;
}
