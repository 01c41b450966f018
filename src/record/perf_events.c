/*
 * perf_events.c - names of the events that the processor and the kernel count, as --cpu-core-events
 * and --os-events take them.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "record/perf_private.h"
#include "base/choose.h"

static const struct ws_perf_name core_events[] = {
	{"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "Cycles of the core", true},
	{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, "Instructions retired",
	 true},
	{"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES,
	 "Accesses to the last level of cache, mostly", true},
	{"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES,
	 "Misses of the last level of cache, mostly", true},
	{"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
	 "Branches retired", true},
	{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES,
	 "Branches that were predicted wrongly", true},
	{"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, "Cycles of the bus", true},
	{"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND,
	 "Cycles in which no instruction was issued", true},
	{"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND,
	 "Cycles in which none was retired", true},
	{"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES,
	 "Cycles that do not depend on the clock's frequency", true},
};

static const struct ws_perf_name os_events[] = {
	{"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, "Page faults", false},
	{"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN,
	 "Page faults without reading a device", false},
	{"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ,
	 "Page faults that read a device", false},
	{"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES,
	 "Changes of the thread that runs", false},
	{"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS,
	 "Threads that went to another core", false},
	{"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS,
	 "Accesses that the kernel had to align", false},
	{"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS,
	 "Instructions that the kernel had to emulate", false},
};

static const struct ws_perf_name *list_of(bool core, size_t *n)
{
	*n = core ? WS_COUNT(core_events) : WS_COUNT(os_events);
	return core ? core_events : os_events;
}

/* Why this process cannot have the event on itself, or NULL. */
static const char *refused(const struct ws_perf_name *name)
{
	struct perf_event_attr attr;
	int error;

	ws_perf_attr(&attr, name->type, name->config, true);
	error = ws_perf_try(&attr, 0, -1);
	return !error ? NULL
	       : error == ENOENT || error == ENODEV || error == EOPNOTSUPP
		       ? "this machine does not have it"
		       : strerror(error);
}

void ws_perf_list_events(struct ws_text *text, bool core)
{
	size_t n;
	const struct ws_perf_name *name = list_of(core, &n);

	ws_text_printf(text, "%s",
		       core ? "Events of the processor, by number or name.\n"
			    : "Events of the kernel, by number or name.\n");
	for (size_t i = 0; i < n; i++) {
		const char *why = refused(&name[i]);

		ws_text_printf(text, "  %2zu  %-24s %s%s%s%s\n", i, name[i].name, name[i].doc,
			       why ? " (" : "", ws_text_or(why, ""), why ? ")" : "");
	}
}

const struct ws_perf_name *ws_perf_find_event(const char *word, size_t len, bool core)
{
	size_t n;
	const struct ws_perf_name *name = list_of(core, &n);
	char *end;
	unsigned long number = strtoul(word, &end, 10);

	if (len && end == word + len && *word >= '0' && *word <= '9')
		return number < n ? &name[number] : NULL;
	for (size_t i = 0; i < n; i++)
		if (strlen(name[i].name) == len && !memcmp(name[i].name, word, len))
			return &name[i];
	return NULL;
}

int ws_perf_check_events(const char *list, bool core, const char *option, struct ws_err *err)
{
	size_t count = 0;

	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");

		if (!ws_perf_find_event(at, n, core))
			return ws_fail(err, "--%s: '%.*s' is no event; --%s=help lists them",
				       option, (int)n, at, option);
		if (++count > WS_PERF_MORE_EVENTS)
			return ws_fail(err, "--%s: at most %d events", option, WS_PERF_MORE_EVENTS);
		at += n + (at[n] == ',');
	}
	return list && !count ? ws_fail(err, "--%s: no event is named; --%s=help lists them",
					option, option)
			      : 0;
}
