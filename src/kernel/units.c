/* units.c - see units.h. Prefixes are decimal: a Kbyte has 1,000 bytes. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "kernel/units.h"

static bool has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

void ws_kernel_unit_of(const char *metric, const char *base_unit, char unit[WS_UNIT_ROOM])
{
	const char *base = ws_kernel_plain_unit(base_unit);

	if (has(metric, ".pct"))
		base = "%";
	snprintf(unit, WS_UNIT_ROOM, "%s", base);
	if (!*base || *base == '%')
		return;
	if (has(metric, ".per_second") && !strcmp(base, "cycle"))
		snprintf(unit, WS_UNIT_ROOM, "hz");
	else if (has(metric, ".per_second"))
		snprintf(unit, WS_UNIT_ROOM, "%.40s/s", base);
	else if (has(metric, ".per_cycle") || has(metric, ".peak_sustained"))
		snprintf(unit, WS_UNIT_ROOM, "%.40s/cycle", base);
}

void ws_kernel_tidy_unit(const char *metric, const char *cupti_unit, char unit[WS_UNIT_ROOM])
{
	char counted[WS_UNIT_ROOM];
	const char *per = strchr(cupti_unit, '/');

	snprintf(unit, WS_UNIT_ROOM, "%s", ws_kernel_plain_unit(cupti_unit));
	if (has(metric, ".pct"))
		snprintf(unit, WS_UNIT_ROOM, "%%");
	if (!per || strcmp(unit, cupti_unit) != 0)
		return;
	snprintf(counted, sizeof(counted), "%.*s", (int)(per - cupti_unit), cupti_unit);
	if (!strcmp(per, "/second"))
		snprintf(unit, WS_UNIT_ROOM, "%.40s/s", ws_kernel_plain_unit(counted));
	else if (has(per, "_cycle"))
		snprintf(unit, WS_UNIT_ROOM, "%.40s/cycle", ws_kernel_plain_unit(counted));
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), length = strlen(end);

	return n >= length && !strcmp(text + n - length, end);
}

const char *ws_kernel_plain_unit(const char *unit)
{
	static const struct {
		const char *unit, *plain;
	} words[] = {
		{"nanosecond", "ns"},
		{"percent", "%"},
		{"instruction", "inst"},
		{"instruction/s", "inst/s"},
		{"instruction/cycle", "inst/cycle"},
		{"instruction/warp", "inst/warp"},
		{"instruction/gpc_cycle", "inst/cycle"},
		{"gpc_cycleinstruction/warp", "cycle"},
		{"gpc_cycle/warp", "cycle/warp"},
		{"l2_sector", "sector"},
		{"l2_sector/s", "sector/s"},
		{"lrc_sector", "sector"},
		{"l2_sector/l1tex_request", "sector/request"},
		{"byte/second", "byte/s"},
		{"byte/second/s", "byte/s"},
		{"l2_sector/second", "sector/s"},
		{"l2_sector/second/s", "sector/s"},
		{"byte/l2_sector", "byte/sector"},
		{"byte/l1tex_wavefront", "byte/wavefront"},
		{"l1tex_wavefront", ""},
		{"l1data_bank_conflict", ""},
		{"l1tex_request", "request"},
		{"l2_request", "request"},
		{"math_op", "op"},
		{"math_op/cycle", "op/cycle"},
		{"math_op/s", "op/s"},
		{"cta", "block"},
	};

	for (size_t i = 0; i < WS_COUNT(words); i++)
		if (!strcmp(unit, words[i].unit))
			return words[i].plain;
	if (ends_with(unit, "_cycle/s") || ends_with(unit, "_cycle/second") ||
	    ends_with(unit, "_cycle/second/s"))
		return "hz";
	if (ends_with(unit, "_cycle"))
		return "cycle";
	return unit;
}

static const struct prefix {
	const char *text;
	double factor;
} prefixes[] = {{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3}};

static const struct prefix times[] = {{"s", 1e9},	{"ms", 1e6},	 {"us", 1e3},
				      {"ns", 1},	{"second", 1e9}, {"msecond", 1e6},
				      {"usecond", 1e3}, {"nsecond", 1}};

/* Units that take a prefix. */
static bool takes_prefix(const char *unit)
{
	return !strncmp(unit, "byte", 4) || !strncmp(unit, "hz", 2) || !strncmp(unit, "flop", 4) ||
	       !strncmp(unit, "op/", 3);
}

double ws_kernel_normalise_unit(const char *scaled, char unit[WS_UNIT_ROOM])
{
	snprintf(unit, WS_UNIT_ROOM, "%s", scaled);
	for (size_t i = 0; i < WS_COUNT(times); i++)
		if (!strcmp(scaled, times[i].text)) {
			strcpy(unit, "ns");
			return times[i].factor;
		}
	for (size_t i = 0; i < WS_COUNT(prefixes); i++)
		if (scaled[0] == prefixes[i].text[0] && takes_prefix(scaled + 1)) {
			snprintf(unit, WS_UNIT_ROOM, "%s", scaled + 1);
			return prefixes[i].factor;
		}
	return 1;
}

double ws_kernel_scale_unit(double value, const char *unit, char scaled[WS_UNIT_ROOM])
{
	double size = fabs(value);

	snprintf(scaled, WS_UNIT_ROOM, "%s", unit);
	if (!strcmp(unit, "ns")) {
		for (size_t i = 0; i < 4; i++)
			if (size >= times[i].factor) {
				strcpy(scaled, times[i].text);
				return times[i].factor;
			}
		return 1;
	}
	if (!takes_prefix(unit))
		return 1;
	for (size_t i = 0; i < WS_COUNT(prefixes); i++)
		if (size >= prefixes[i].factor) {
			snprintf(scaled, WS_UNIT_ROOM, "%s%.40s", prefixes[i].text, unit);
			if (!strcmp(unit, "hz"))
				scaled[1] = 'h';
			return prefixes[i].factor;
		}
	return 1;
}

/* Put commas between groups of three digits of the whole part. */
static void group_digits(const char *plain, char text[WS_NUMBER_ROOM])
{
	size_t digits = strspn(plain + (*plain == '-'), "0123456789"), at = 0;
	const char *p = plain;

	if (*p == '-')
		text[at++] = *p++;
	for (size_t left = digits; left && at + 2 < WS_NUMBER_ROOM; left--) {
		text[at++] = *p++;
		if (left > 1 && left % 3 == 1)
			text[at++] = ',';
	}
	snprintf(text + at, WS_NUMBER_ROOM - at, "%s", p);
}

void ws_kernel_print_number(double value, char text[WS_NUMBER_ROOM])
{
	char plain[WS_NUMBER_ROOM];

	if (isnan(value)) {
		snprintf(text, WS_NUMBER_ROOM, "n/a");
		return;
	}
	if (fabs(value) >= 1e15)
		snprintf(plain, sizeof(plain), "%.4g", value);
	else if (value == floor(value))
		snprintf(plain, sizeof(plain), "%.0f", value);
	else if (fabs(value) < 0.01)
		snprintf(plain, sizeof(plain), "%.2g", value);
	else
		snprintf(plain, sizeof(plain), "%.2f", value);
	group_digits(plain, text);
}
