/*
 * explain.c - see explain.h. A metric that has a text of its own is explained by it. For other
 * metrics, the explanations of the unit, of the known words of the name (the longest match first)
 * and of the suffixes are joined.
 */
#include <stdbool.h>
#include <string.h>

#include "base/choose.h"
#include "base/compiler.h"
#include "kernel/explain.h"
#include "schema/kernel_sampled.h"

struct entry {
	const char *key, *words[2]; /* by language */
};

#define ENTRY(key, english, chinese) {#key, {english, chinese}},
#define SKIP(key, english, chinese)
#define WS_METRIC ENTRY
#define WS_UNIT SKIP
#define WS_WORD SKIP
#define WS_SUFFIX SKIP
static const struct entry metrics[] = {
#include "kernel/glossary.def"
};
#undef WS_METRIC
#undef WS_UNIT
#define WS_METRIC SKIP
#define WS_UNIT ENTRY
static const struct entry units[] = {
#include "kernel/glossary.def"
};
#undef WS_UNIT
#undef WS_WORD
#define WS_UNIT SKIP
#define WS_WORD ENTRY
static const struct entry words[] = {
#include "kernel/glossary.def"
};
#undef WS_WORD
#undef WS_SUFFIX
#define WS_WORD SKIP
#define WS_SUFFIX ENTRY
static const struct entry suffixes[] = {
#include "kernel/glossary.def"
};

static const struct entry *find_entry(const struct entry *entries, size_t count, const char *key,
				      size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(entries[i].key) == n && !memcmp(entries[i].key, key, n))
			return &entries[i];
	return NULL;
}

/* The longest entry that matches the text at `at`, which ends at `end`. */
static const struct entry *find_longest(const char *at, const char *end)
{
	const struct entry *found = NULL;
	size_t longest = 0;

	for (size_t i = 0; i < WS_COUNT(words); i++) {
		size_t n = strlen(words[i].key);

		if (n <= longest || n > (size_t)(end - at) || memcmp(at, words[i].key, n) != 0 ||
		    (at + n < end && at[n] != '_'))
			continue;
		longest = n;
		found = &words[i];
	}
	return found;
}

static void add_part(struct ws_text *text, const char *separator, const char *part)
{
	ws_text_puts(text, separator);
	ws_text_puts(text, part);
}

/* Find the known words of the name between the unit and the suffixes; returns how many there
 * are. */
static size_t add_words(const char *at, const char *end, enum ws_kernel_language language,
			struct ws_text *text)
{
	const char *const separators[] = {", ", ","};
	size_t found = 0;

	while (at < end) {
		const struct entry *entry = find_longest(at, end);
		const char *next = memchr(at, '_', (size_t)(end - at));

		if (entry) {
			add_part(text, found++ ? separators[language] : "", entry->words[language]);
			next = at + strlen(entry->key);
		}
		at = next ? next + 1 : end;
	}
	return found;
}

static void add_suffixes(const char *at, enum ws_kernel_language language, struct ws_text *text)
{
	const char *const separators[] = {"; ", ";"};

	while (*at == '.') {
		size_t n = strcspn(++at, ".");
		const struct entry *entry = find_entry(suffixes, WS_COUNT(suffixes), at, n);

		if (entry)
			add_part(text, separators[language], entry->words[language]);
		at += n;
	}
}

static bool explain_counted(const char *metric, enum ws_kernel_language language,
			    struct ws_text *text)
{
	static const char *const counted[] = {"Counted at ", "计数单元:"},
				 *const colons[] = {": ", "。"}, *const stops[] = {".", "。"};
	const char *rest = strstr(metric, "__"), *name = rest ? rest + 2 : metric,
		   *end = name + strcspn(name, ".");
	const struct entry *whole = find_entry(metrics, WS_COUNT(metrics), metric,
					       (size_t)(end - metric)),
			   *unit = NULL;
	struct ws_text known = {0};

	if (whole) {
		ws_text_puts(text, whole->words[language]);
		return true;
	}
	if (rest)
		unit = find_entry(units, WS_COUNT(units), metric, (size_t)(rest - metric));
	if (!unit)
		return false;
	add_part(text, counted[language], unit->words[language]);
	if (add_words(name, end, language, &known))
		add_part(text, colons[language], known.text);
	ws_text_free(&known);
	add_suffixes(end, language, text);
	ws_text_puts(text, stops[language]);
	return true;
}

/* A metric that is sampled may name the group of counters that it is sampled with, before its unit:
 * TPC.TriageCompute.sm__cycles_active. */
bool ws_kernel_explain(const char *metric, enum ws_kernel_language language, struct ws_text *text)
{
	static const char group[] = ".TriageCompute.";
	static const char *const sampled[] = {
		" Sampled over the time of the kernel, of the whole GPU.",
		"在内核运行期间对整个 GPU 周期性采样。"};
	size_t prefix = strlen(WS_KERNEL_SAMPLED);
	const char *in_group;

	if (strncmp(metric, WS_KERNEL_SAMPLED, prefix) != 0)
		return explain_counted(metric, language, text);
	metric += prefix;
	in_group = strstr(metric, group);
	if (!explain_counted(in_group ? in_group + strlen(group) : metric, language, text))
		return false;
	ws_text_puts(text, sampled[language]);
	return true;
}
