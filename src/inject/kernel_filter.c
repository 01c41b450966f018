/*
 * kernel_filter.c - which launches are measured. Whatever depends on a function's name is decided
 * when it is launched for the first time; later launches of an unwanted function cost only a table
 * look-up.
 */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel.h"

enum { FUNCTIONS = 1 << 14, PROBES = 64 };

static struct ws_kernel_function functions[FUNCTIONS];
static _Atomic uint32_t functions_lock;

/* A name that must be equal, or an expression that must match. */
struct pattern {
	const char *text; /* NULL: any name */
	regex_t expression;
	bool is_expression;
};

static struct {
	struct pattern name, id_name;
	uint64_t skip, skip_before, count;
	struct pattern id_nth;		/* of the number in decimal digits */
	uint64_t id_context, id_stream; /* 0 or UINT64_MAX: any */
	uint64_t devices;		/* bits; 0: all */
} filter;

static _Atomic uint64_t seen, matched, taken;
_Atomic bool ws_kernel_active;

static int compile_pattern(struct pattern *pattern, const char *option, const char *text)
{
	char message[256];
	int rc;

	if (!*text)
		return 0;
	pattern->text = text;
	if (strncmp(text, "regex:", 6))
		return 0;
	pattern->is_expression = true;
	rc = regcomp(&pattern->expression, text + 6, REG_EXTENDED | REG_NOSUB);
	if (!rc)
		return 0;
	regerror(rc, &pattern->expression, message, sizeof(message));
	ws_kernel_report(WS_ERROR, "Kernels are not measured: %s: '%s' is no expression: %s.",
			 option, text + 6, message);
	return -1;
}

static bool matches(const struct pattern *pattern, const char *name)
{
	if (!pattern->text)
		return true;
	if (pattern->is_expression)
		return !regexec(&pattern->expression, name, 0, NULL, 0);
	return !strcmp(pattern->text, name);
}

/* A number, or an expression for all of its digits. */
static int compile_number(struct pattern *pattern, const char *option, const char *text)
{
	static char expression[1024];

	if (!text[strspn(text, "0123456789")])
		return compile_pattern(pattern, option, text);
	snprintf(expression, sizeof(expression), "regex:^(%s)$", text);
	return compile_pattern(pattern, option, expression);
}

/* CONTEXT:STREAM:NAME:NTH, in which each part may be empty; the name may contain colons. */
static int parse_kernel_id(const char *text)
{
	static char copy[1024];
	char *stream, *name, *nth;

	filter.id_stream = UINT64_MAX;
	if (!*text)
		return 0;
	strncpy(copy, text, sizeof(copy) - 1);
	stream = strchr(copy, ':');
	name = stream ? strchr(stream + 1, ':') : NULL;
	nth = strrchr(copy, ':');
	if (!name || nth <= name) {
		ws_kernel_report(WS_ERROR,
				 "Kernels are not measured: --kernel-id: '%s' is not of the form "
				 "CONTEXT:STREAM:NAME:NTH.",
				 text);
		return -1;
	}
	*stream = *name = *nth = 0;
	filter.id_context = strtoull(copy, NULL, 10);
	if (stream[1])
		filter.id_stream = strtoull(stream + 1, NULL, 10);
	return compile_number(&filter.id_nth, "--kernel-id", nth + 1) ||
			       compile_pattern(&filter.id_name, "--kernel-id", name + 1)
		       ? -1
		       : 0;
}

static void parse_devices(const char *text)
{
	while (*text) {
		char *end;
		unsigned long device = strtoul(text, &end, 10);

		if (device < 64)
			filter.devices |= UINT64_C(1) << device;
		text = *end ? end + 1 : end;
	}
}

int ws_kernel_prepare_filters(void)
{
	const struct ws_kernel_settings *settings = &ws_kernel_settings;

	filter.skip = strtoull(settings->skip, NULL, 10);
	filter.skip_before = strtoull(settings->skip_before, NULL, 10);
	filter.count = *settings->count ? strtoull(settings->count, NULL, 10) : UINT64_MAX;
	parse_devices(settings->devices);
	atomic_store(&ws_kernel_active, strcmp(settings->from_start, "off") != 0);
	if (compile_pattern(&filter.name, "--kernel-name", settings->kernel_name) ||
	    ws_kernel_prepare_ranges())
		return -1;
	return parse_kernel_id(settings->kernel_id);
}

static bool wants_name(const char *symbol)
{
	static char demangled[WS_KERNEL_NAME_ROOM], name[WS_KERNEL_NAME_ROOM];
	const char *chosen = name;

	if (!filter.name.text && !filter.id_name.text)
		return true;
	ws_kernel_demangle(symbol, demangled, sizeof(demangled));
	ws_kernel_short_name(demangled, name, sizeof(name));
	if (!strcmp(ws_kernel_settings.name_base, "demangled"))
		chosen = demangled;
	else if (!strcmp(ws_kernel_settings.name_base, "mangled"))
		chosen = symbol;
	return matches(&filter.name, chosen) && matches(&filter.id_name, chosen);
}

/* ---- what was launched, for a message where nothing is measured ---- */

static char others[600]; /* names of functions that are not wanted, as far as there is room */
static bool more_others;

/* The names are the driver's: they are copied while they are there. */
static void note_other(const char *symbol)
{
	static char demangled[WS_KERNEL_NAME_ROOM], name[WS_KERNEL_NAME_ROOM];
	size_t used = strlen(others), n;

	ws_kernel_demangle(symbol, demangled, sizeof(demangled));
	ws_kernel_short_name(demangled, name, sizeof(name));
	n = strlen(name);
	more_others |= used + n + 3 > sizeof(others);
	if (used + n + 3 > sizeof(others))
		return;
	if (used) {
		memcpy(others + used, ", ", 2);
		used += 2;
	}
	memcpy(others + used, name, n + 1);
}

void ws_kernel_say_nothing_chosen(void)
{
	if (atomic_load(&taken))
		return;
	if (*others)
		ws_kernel_report(WS_WARNING,
				 "No kernel was measured: the filters chose none of %llu launches. "
				 "Kernels with other names: %s%s.",
				 (unsigned long long)atomic_load(&seen), others,
				 more_others ? " and more" : "");
	else if (atomic_load(&seen))
		ws_kernel_report(WS_WARNING,
				 "No kernel was measured: the filters chose none of %llu launches.",
				 (unsigned long long)atomic_load(&seen));
	else if (ws_kernel_measures_ranges())
		ws_kernel_report(WS_WARNING,
				 "No range was measured: the program opened none that counts. A "
				 "range lies between cudaProfilerStart and cudaProfilerStop, or is "
				 "one that --nvtx-include names.");
	else
		ws_kernel_report(WS_WARNING, "No kernel was measured: none was launched%s.",
				 atomic_load(&ws_kernel_active)
					 ? ""
					 : " between cudaProfilerStart and cudaProfilerStop");
}

static struct ws_kernel_function *find_entry(void *handle, bool *empty)
{
	size_t at = ((uintptr_t)handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 50;

	for (size_t i = 0; i < PROBES; i++) {
		struct ws_kernel_function *entry = &functions[(at + i) % FUNCTIONS];
		void *there = atomic_load_explicit(&entry->handle, memory_order_acquire);

		*empty = !there;
		if (there == handle || !there)
			return entry;
	}
	return NULL;
}

struct ws_kernel_function *ws_kernel_find_function(void *handle, const char *symbol)
{
	bool empty;
	struct ws_kernel_function *entry = find_entry(handle, &empty);

	if (!entry ||
	    (!empty && atomic_load_explicit(&entry->symbol, memory_order_relaxed) == symbol))
		return entry;
	ws_kernel_lock(&functions_lock);
	entry = find_entry(handle, &empty);
	if (entry && (empty || atomic_load(&entry->symbol) != symbol)) {
		entry->wanted = wants_name(symbol ? symbol : "");
		if (!entry->wanted && symbol && *symbol)
			note_other(symbol);
		atomic_store(&entry->launches, 0);
		atomic_store(&entry->symbol, symbol);
		atomic_store_explicit(&entry->handle, handle, memory_order_release);
	}
	ws_kernel_unlock(&functions_lock);
	return entry;
}

static _Atomic uint32_t modules; /* counts what was unloaded */

void ws_kernel_forget_names(void)
{
	atomic_fetch_add(&modules, 1);
}

const char *ws_kernel_find_name(void *handle)
{
	uint32_t now = atomic_load_explicit(&modules, memory_order_relaxed) + 1;
	bool empty;
	struct ws_kernel_function *entry = find_entry(handle, &empty);
	const char *name = NULL;

	if (entry && !empty && atomic_load_explicit(&entry->seen, memory_order_relaxed) == now)
		return atomic_load_explicit(&entry->symbol, memory_order_relaxed);
	if ((!ws_kernel_driver.name_function || ws_kernel_driver.name_function(&name, handle) ||
	     !name) &&
	    (!ws_kernel_driver.name_kernel || ws_kernel_driver.name_kernel(&name, handle)))
		return NULL;
	entry = ws_kernel_find_function(handle, name);
	if (entry)
		atomic_store(&entry->seen, now);
	return name;
}

static bool is_nth(uint64_t number)
{
	char digits[24];

	if (!filter.id_nth.text)
		return true;
	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	return matches(&filter.id_nth, digits);
}

static bool wants_place(const struct ws_kernel_launch *launch)
{
	if (filter.devices && (launch->device > 63 || !(filter.devices >> launch->device & 1)))
		return false;
	if (filter.id_context && filter.id_context != launch->context_uid)
		return false;
	if (filter.id_stream != UINT64_MAX && filter.id_stream != launch->stream_id)
		return false;
	return is_nth(launch->instance + 1);
}

bool ws_kernel_wants_launch(struct ws_kernel_launch *launch,
			    const struct ws_kernel_function *function)
{
	if (atomic_fetch_add(&seen, 1) < filter.skip_before || !function->wanted ||
	    !wants_place(launch) || !ws_kernel_wants_ranges() ||
	    atomic_fetch_add(&matched, 1) < filter.skip)
		return false;
	return atomic_fetch_add(&taken, 1) < filter.count;
}

bool ws_kernel_wants_range(const struct ws_kernel_launch *range)
{
	return wants_place(range) && atomic_fetch_add(&matched, 1) >= filter.skip &&
	       atomic_fetch_add(&taken, 1) < filter.count;
}

bool ws_kernel_finish_launch(void)
{
	static _Atomic uint64_t finished;

	return atomic_fetch_add(&finished, 1) + 1 >= filter.count;
}

bool ws_kernel_is_done(void)
{
	return atomic_load_explicit(&taken, memory_order_relaxed) >= filter.count;
}
