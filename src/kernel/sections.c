/* sections.c - see sections.h. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "kernel/sections.h"

const struct ws_kernel_set ws_kernel_sets[] = {
	{"basic", WS_BASIC, "what is measured by default: the speed of light, launch, occupancy"},
	{"detailed", WS_DETAILED, "also pipes, memory, the roofline, source counters"},
	{"full", WS_FULL, "all sections"},
	{"roofline", WS_ROOFLINE, "the speed of light and all rooflines"},
	{"source", WS_SOURCE, "source counters"},
};
const size_t ws_kernel_set_count = WS_COUNT(ws_kernel_sets);

#define WS_SECTION_ABSENT(identifier, reason)
#define WS_SECTION(identifier, title, sets) SECTION_##identifier,
#define WS_LINE(section, group, label, unit, chips, value)
#define WS_NEED(section, chips, metric)
#define WS_BREAKDOWN_LINES(section, group, throughput)
enum section_number {
#include "kernel/sections.def"
};
#undef WS_SECTION

#define WS_SECTION(identifier, title, sets) {#identifier, title, sets},
const struct ws_kernel_section ws_kernel_sections[] = {
#include "kernel/sections.def"
};
#undef WS_SECTION
#undef WS_SECTION_ABSENT
#undef WS_LINE
#undef WS_NEED
#undef WS_BREAKDOWN_LINES
const size_t ws_kernel_section_count = WS_COUNT(ws_kernel_sections);

#define WS_BREAKDOWN(throughput, metric, chips) {#throughput, #metric, chips},
const struct ws_kernel_breakdown ws_kernel_breakdowns[] = {
#include "kernel/breakdowns.def"
};
#undef WS_BREAKDOWN
const size_t ws_kernel_breakdown_count = WS_COUNT(ws_kernel_breakdowns);

#define WS_SECTION_ABSENT(identifier, reason)
#define WS_SECTION(identifier, title, sets)
#define WS_LINE(section, group, label, unit, chips, value) \
	{SECTION_##section, chips, true, group, label, unit, value},
#define WS_NEED(section, chips, metric) {SECTION_##section, chips, false, "", NULL, "", metric},
#define WS_BREAKDOWN_LINES(section, group, throughput) \
	{SECTION_##section, 0, true, group, NULL, "%", #throughput},
/* A line without chips stands for the lines of a breakdown. */
static const struct ws_kernel_line declared[] = {
#include "kernel/sections.def"
};
#undef WS_SECTION
#undef WS_SECTION_ABSENT
#undef WS_LINE
#undef WS_NEED
#undef WS_BREAKDOWN_LINES

#define WS_DERIVED(name, unit, chips, formula) {#name, unit, formula, chips},
static const struct ws_kernel_derived derived[] = {
#include "kernel/derived.def"
};
#undef WS_DERIVED

#define BREAKDOWN_SUFFIX ".avg.pct_of_peak_sustained_elapsed"

static struct ws_kernel_line lines[WS_COUNT(declared) + WS_COUNT(ws_kernel_breakdowns)];
static char names[WS_COUNT(ws_kernel_breakdowns)][128];
static size_t line_count;

/* Add lines for the parts of a throughput. */
static void add_breakdown(const struct ws_kernel_line *line)
{
	for (size_t i = 0; i < WS_COUNT(ws_kernel_breakdowns); i++) {
		const struct ws_kernel_breakdown *part = &ws_kernel_breakdowns[i];

		if (strcmp(part->throughput, line->value) != 0)
			continue;
		snprintf(names[i], sizeof(names[i]), "%s" BREAKDOWN_SUFFIX, part->metric);
		lines[line_count] = *line;
		lines[line_count].chips = part->chips;
		lines[line_count++].value = names[i];
	}
}

static void make_lines(void)
{
	for (size_t i = 0; i < WS_COUNT(declared); i++)
		if (declared[i].chips)
			lines[line_count++] = declared[i];
		else
			add_breakdown(&declared[i]);
}

const struct ws_kernel_line *ws_kernel_lines(size_t *count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_lines);
	*count = line_count;
	return lines;
}

uint8_t ws_kernel_chip_family(const char *chip)
{
	static const struct {
		const char *prefix;
		uint8_t family;
	} families[] = {{"GA100", WS_GA100}, {"GA10", WS_GA10X}, {"AD10", WS_AD10X},
			{"GH100", WS_GH100}, {"GB10", WS_GB100}, {"GB11", WS_GB100},
			{"GB20", WS_GB20X}};

	for (size_t i = 0; i < WS_COUNT(families); i++)
		if (!strncasecmp(chip, families[i].prefix, strlen(families[i].prefix)))
			return families[i].family;
	return 0;
}

int ws_kernel_find_section(const char *identifier, const char **reason)
{
#define WS_SECTION_ABSENT(identifier, reason) {#identifier, reason},
#define WS_SECTION(identifier, title, sets)
#define WS_LINE(section, group, label, unit, chips, value)
#define WS_NEED(section, chips, metric)
#define WS_BREAKDOWN_LINES(section, group, throughput)
	static const struct {
		const char *identifier, *reason;
	} absent[] = {
#include "kernel/sections.def"
	};

	if (reason)
		*reason = NULL;
	for (size_t i = 0; i < ws_kernel_section_count; i++)
		if (!strcmp(identifier, ws_kernel_sections[i].identifier))
			return (int)i;
	for (size_t i = 0; reason && i < WS_COUNT(absent); i++)
		if (!strcmp(identifier, absent[i].identifier))
			*reason = absent[i].reason;
	return -1;
}

const struct ws_kernel_set *ws_kernel_find_set(const char *name)
{
	for (size_t i = 0; i < ws_kernel_set_count; i++)
		if (!strcmp(name, ws_kernel_sets[i].name))
			return &ws_kernel_sets[i];
	return NULL;
}

const struct ws_kernel_derived *ws_kernel_find_derived(const char *name, size_t n, uint8_t family)
{
	for (size_t i = 0; i < WS_COUNT(derived); i++)
		if (strlen(derived[i].name) == n && !memcmp(derived[i].name, name, n) &&
		    (derived[i].chips & family))
			return &derived[i];
	return NULL;
}

bool ws_kernel_is_computed(const char *name, size_t n)
{
	static const char *const prefixes[] = {
		"launch__",   "sm__maximum_warps_", "derived__", "device__", "roofline__",
		"profiler__", "nvlink__",	    "numa__",	 "c2clink__"};

	for (size_t i = 0; i < WS_COUNT(prefixes); i++)
		if (n > strlen(prefixes[i]) && !memcmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

/* sm__inst_executed_pipe_xu.avg... becomes "SM: Inst Executed Pipe Xu". */
static void make_label(const char *metric, char *text, size_t room)
{
	const char *rest = strstr(metric, "__");
	size_t at = 0;
	bool begins = true;

	for (; rest && metric < rest && at + 3 < room; metric++)
		text[at++] = (char)toupper((unsigned char)*metric);
	at += (size_t)snprintf(text + at, room - at, ": ");
	for (metric = rest ? rest + 2 : metric; *metric && *metric != '.' && at + 1 < room;
	     metric++) {
		if (*metric == '_')
			text[at++] = ' ';
		else
			text[at++] = begins ? (char)toupper((unsigned char)*metric) : *metric;
		begins = *metric == '_';
	}
	text[at] = 0;
}

void ws_kernel_label(const struct ws_kernel_line *line, char *text, size_t room)
{
	if (line->label)
		snprintf(text, room, "%s", line->label);
	else
		make_label(line->value, text, room);
}
