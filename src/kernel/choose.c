/* choose.c - see choose.h. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/host.h"
#include "kernel/choose.h"
#include "kernel/formula.h"
#include "kernel/sections.h"
#include "text/pattern.h"

#define DEFAULT_SET "basic"
enum { WORD_ROOM = 512, MOST_SECTIONS = 64 };

/* A choice that is being made. */
struct making {
	struct ws_kernel_choice *choice;
	struct ws_gpu_host *host;    /* NULL without the library */
	struct ws_gpu_host *sampler; /* the same, opened when a metric is to be sampled */
	const char *chip;
	uint8_t family;
	struct ws_err *err;
	struct ws_err host_error; /* why there is no host */
};

/* Call `use` with each of the words that commas separate; stops at the first that fails. A comma
 * within braces or parentheses belongs to an expression. */
static int each_word(const char *list, int (*use)(void *context, const char *word), void *context)
{
	char word[WORD_ROOM];
	size_t n = 0;
	int depth = 0;

	for (;; list++) {
		if (*list && (*list != ',' || depth)) {
			depth += (*list == '(' || *list == '{') - (*list == ')' || *list == '}');
			if (n + 1 < sizeof(word))
				word[n++] = *list;
			continue;
		}
		word[n] = 0;
		if (n && use(context, word))
			return -1;
		n = 0;
		if (!*list)
			return 0;
	}
}

static const char *match_prefix(const char *word, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(word, prefix, n) ? NULL : word + n;
}

static int compile(const char *expression, struct ws_pattern *pattern, struct ws_err *err)
{
	struct ws_err why = {0};

	if (!ws_compile_pattern(pattern, expression, REG_EXTENDED, &why))
		return 0;
	return ws_fail(err, "regex:%s is not a regular expression: %s", expression, why.msg);
}

/* ---- sections ---- */

struct picking {
	bool picked[MOST_SECTIONS];
	struct ws_err *err;
};

static int pick_set(void *context, const char *word)
{
	struct picking *picking = context;
	const struct ws_kernel_set *set = ws_kernel_find_set(word);

	if (!strcmp(word, "none"))
		return 0;
	if (!strcmp(word, "default"))
		set = ws_kernel_find_set(DEFAULT_SET);
	if (!set)
		return ws_fail(picking->err, "there is no set '%s'; see --list-sets", word);
	for (size_t i = 0; i < ws_kernel_section_count; i++)
		picking->picked[i] |= (ws_kernel_sections[i].sets & set->bit) != 0;
	return 0;
}

static int pick_matching(struct picking *picking, const char *expression)
{
	struct ws_pattern pattern;
	bool any = false;

	if (compile(expression, &pattern, picking->err))
		return -1;
	for (size_t i = 0; i < ws_kernel_section_count; i++)
		if (ws_match_pattern(&pattern, ws_kernel_sections[i].identifier))
			any = picking->picked[i] = true;
	ws_free_pattern(&pattern);
	if (any)
		return 0;
	return ws_fail(picking->err, "no section matches %s; see --list-sections", expression);
}

static int pick_section(void *context, const char *word)
{
	struct picking *picking = context;
	const char *expression = match_prefix(word, "regex:"), *reason;
	int section;

	if (expression)
		return pick_matching(picking, expression);
	section = ws_kernel_find_section(word, &reason);
	if (section < 0 && reason)
		return ws_fail(picking->err, "the section %s is not measured: %s", word, reason);
	if (section < 0)
		return ws_fail(picking->err, "there is no section '%s'; see --list-sections", word);
	picking->picked[section] = true;
	return 0;
}

static int pick_sections(const struct ws_kernel_request *request, struct picking *picking)
{
	const char *sets = request->sets;

	if (!sets && !request->sections && !request->metrics)
		sets = DEFAULT_SET;
	if (sets && each_word(sets, pick_set, picking))
		return -1;
	if (request->sections)
		return each_word(request->sections, pick_section, picking);
	return 0;
}

/* ---- metrics ---- */

static void add_name(struct ws_kernel_choice *choice, const char *name)
{
	ws_grow(choice->names, choice->capacity, choice->count + 1);
	choice->names[choice->count++] = ws_strdup(name);
}

static bool can_sample(struct making *making, const char *name)
{
	if (!making->host)
		return true;
	if (!making->sampler)
		making->sampler = ws_gpu_host_open_sampler(making->chip, NULL);
	return making->sampler && ws_gpu_host_has(making->sampler, name);
}

static void add_sampled(struct ws_kernel_choice *choice, const char *name)
{
	struct ws_kernel_sampled *sampled = &choice->sampled;

	for (size_t i = 0; i < sampled->count; i++)
		if (!strcmp(sampled->names[i], name))
			return;
	ws_grow(sampled->names, sampled->capacity, sampled->count + 1);
	sampled->names[sampled->count++] = ws_strdup(name);
}

static void drop_name(struct ws_kernel_choice *choice, const char *name)
{
	if (choice->dropped.len)
		ws_text_puts(&choice->dropped, ", ");
	ws_text_puts(&choice->dropped, name);
}

/* Add a metric of a formula; a derived metric is replaced by the metrics that it is made of. */
static double add_needed(void *context, const char *name, size_t n)
{
	struct making *making = context;
	const struct ws_kernel_derived *derived = ws_kernel_find_derived(name, n, making->family);
	const char *sampled;
	char *own;

	if (derived)
		return ws_evaluate_formula(derived->formula, add_needed, making);
	if (ws_kernel_is_computed(name, n))
		return 1;
	own = ws_strndup(name, n);
	sampled = match_prefix(own, WS_KERNEL_SAMPLED);
	if (sampled ? !can_sample(making, sampled)
		    : making->host && !ws_gpu_host_has(making->host, own))
		drop_name(making->choice, own);
	else if (sampled)
		add_sampled(making->choice, sampled);
	else
		add_name(making->choice, own);
	free(own);
	return 1;
}

static void add_section(struct making *making, size_t section)
{
	size_t count;
	const struct ws_kernel_line *lines = ws_kernel_lines(&count);

	if (making->choice->sections.len)
		ws_text_puts(&making->choice->sections, ",");
	ws_text_puts(&making->choice->sections, ws_kernel_sections[section].identifier);
	for (size_t i = 0; i < count; i++)
		if (lines[i].section == section && (lines[i].chips & making->family))
			ws_evaluate_formula(lines[i].value, add_needed, making);
}

static int require_host(const struct making *making, const char *word)
{
	if (making->host)
		return 0;
	return ws_fail(making->err, "%s cannot be expanded: %s", word, making->host_error.msg);
}

/* Add the forms of a base metric that begin with `begin`, which ends where a word of theirs does
 * ("" for all); returns how many there are. */
static size_t add_forms(struct making *making, const struct ws_gpu_metric *metric,
			const char *begin)
{
	size_t count, added = 0, length = strlen(begin);
	const char *const *suffixes = ws_gpu_host_suffixes(making->host, metric, &count);

	for (size_t i = 0; i < count; i++) {
		char *name;

		if (length &&
		    (strncmp(suffixes[i], begin, length) || !strchr("._", suffixes[i][length])))
			continue;
		name = ws_format("%s%s", metric->name, suffixes[i]);
		add_name(making->choice, name);
		free(name);
		added++;
	}
	return added;
}

static void add_matching_forms(struct making *making, const struct ws_gpu_metric *metric,
			       struct ws_pattern *pattern)
{
	size_t count;
	const char *const *suffixes = ws_gpu_host_suffixes(making->host, metric, &count);

	for (size_t i = 0; i < count; i++) {
		char *name = ws_format("%s%s", metric->name, suffixes[i]);

		if (ws_match_pattern(pattern, name))
			add_name(making->choice, name);
		free(name);
	}
}

/* Add the full names that contain a match of an expression. */
static int add_expression(struct making *making, const char *word, const char *expression)
{
	size_t count, before = making->choice->count;
	const struct ws_gpu_metric *metrics;
	struct ws_pattern pattern;

	if (require_host(making, word) || compile(expression, &pattern, making->err))
		return -1;
	metrics = ws_gpu_host_metrics(making->host, &count);
	for (size_t i = 0; i < count; i++)
		add_matching_forms(making, &metrics[i], &pattern);
	ws_free_pattern(&pattern);
	if (making->choice->count > before)
		return 0;
	return ws_fail(making->err, "no metric of %s matches %s; see --query-metrics", making->chip,
		       expression);
}

static int add_breakdown(struct making *making, const char *metric)
{
	const char *dot = strchr(metric, '.');
	size_t n = dot ? (size_t)(dot - metric) : strlen(metric), found = 0;

	for (size_t i = 0; i < ws_kernel_breakdown_count; i++) {
		const struct ws_kernel_breakdown *part = &ws_kernel_breakdowns[i];
		char *name;

		if (strlen(part->throughput) != n || memcmp(part->throughput, metric, n) != 0 ||
		    !(part->chips & making->family))
			continue;
		name = ws_format("%s%s", part->metric,
				 dot ? dot : ".avg.pct_of_peak_sustained_elapsed");
		add_needed(making, name, strlen(name));
		free(name);
		found++;
	}
	if (found)
		return 0;
	return ws_fail(making->err, "%s has no breakdown on %s", metric, making->chip);
}

static int add_sampled_metric(struct making *making, const char *name)
{
	if (!can_sample(making, name))
		return ws_fail(making->err, "%s has no metric '%s' that can be sampled",
			       making->chip, name);
	add_sampled(making->choice, name);
	return 0;
}

static int add_metric(void *context, const char *word)
{
	struct making *making = context;
	const char *expression = match_prefix(word, "regex:"),
		   *throughput = match_prefix(word, "breakdown:"),
		   *sampled = match_prefix(word, WS_KERNEL_SAMPLED);
	const struct ws_gpu_metric *metric;

	if (expression)
		return add_expression(making, word, expression);
	if (throughput)
		return add_breakdown(making, throughput);
	if (sampled)
		return add_sampled_metric(making, sampled);
	if (ws_kernel_is_computed(word, strlen(word))) {
		add_needed(making, word, strlen(word));
		return 0;
	}
	if (!strchr(word, '.') && require_host(making, word))
		return -1;
	metric = making->host ? ws_gpu_host_find(making->host, word) : NULL;
	if (making->host && !metric)
		return ws_fail(making->err, "%s has no metric '%s'; see --query-metrics",
			       making->chip, word);
	if (making->host && ws_gpu_host_has(making->host, word))
		add_name(making->choice, word);
	else if (metric && !add_forms(making, metric, word + strlen(metric->name)))
		return ws_fail(making->err,
			       "the metric %s of %s has no form '%s'; see "
			       "--query-metrics-mode suffix",
			       metric->name, making->chip, word + strlen(metric->name));
	else if (!metric)
		add_name(making->choice, word);
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_names(struct ws_kernel_choice *choice)
{
	size_t kept = 0;

	if (choice->count)
		qsort(choice->names, choice->count, sizeof(*choice->names), compare_names);
	for (size_t i = 0; i < choice->count; i++)
		if (kept && !strcmp(choice->names[kept - 1], choice->names[i]))
			free(choice->names[i]);
		else
			choice->names[kept++] = choice->names[i];
	choice->count = kept;
}

/* ---- passes ---- */

/*
 * CUPTI fills the first pass with what comes first. With --cache-control none that pass finds empty
 * caches (inject/kernel_measure.c), as Nsight Compute's does, which counts the time and the DRAM in
 * it, but nothing of the level-2 cache that depends on what the cache holds. So metrics that do not
 * take what the pass can count there. On GH100 this leaves none of the others in it.
 */
static int rank_name(const char *name)
{
	static const struct {
		const char *beginning;
		int rank;
	} ranks[] = {
		{"gpu__time_duration.sum", -4},
		{"lts__d_sectors_fill_sysmem.", -3},
		{"lts__d_decomp_input_sectors.", -2},
		{"lts__d_atomic_input_cycles_active.", -1},
		{"lts__d_sectors.", 1},
		{"lts__t_sectors.", 2},
	};

	for (size_t i = 0; i < WS_COUNT(ranks); i++)
		if (!strncmp(name, ranks[i].beginning, strlen(ranks[i].beginning)))
			return ranks[i].rank;
	return 0;
}

static int compare_ranks(const void *a, const void *b)
{
	int order = rank_name(*(char *const *)a) - rank_name(*(char *const *)b);

	return order ? order : compare_names(a, b);
}

void ws_kernel_order_passes(struct ws_kernel_choice *choice)
{
	if (choice->count)
		qsort(choice->names, choice->count, sizeof(*choice->names), compare_ranks);
}

/* ---- requests ---- */

static int check_metric(void *context, const char *word)
{
	const char *expression = match_prefix(word, "regex:");
	struct ws_pattern pattern;

	if (!expression)
		return 0;
	if (compile(expression, &pattern, context))
		return -1;
	ws_free_pattern(&pattern);
	return 0;
}

int ws_kernel_check_request(const struct ws_kernel_request *request, struct ws_err *err)
{
	struct picking picking = {.err = err};

	if (pick_sections(request, &picking))
		return -1;
	if (request->metrics)
		return each_word(request->metrics, check_metric, err);
	return 0;
}

int ws_kernel_choose(const struct ws_kernel_request *request, const char *chip,
		     struct ws_kernel_choice *choice, struct ws_err *err)
{
	struct making making = {
		.choice = choice, .chip = chip, .family = ws_kernel_chip_family(chip), .err = err};
	struct picking picking = {.err = err};
	int rc = 0;

	if (pick_sections(request, &picking))
		return -1;
	making.host = ws_gpu_host_open(chip, &making.host_error);
	choice->checked = making.host != NULL;
	for (size_t i = 0; i < ws_kernel_section_count; i++)
		if (picking.picked[i])
			add_section(&making, i);
	if (request->metrics)
		rc = each_word(request->metrics, add_metric, &making);
	sort_names(choice);
	ws_gpu_host_close(making.host);
	ws_gpu_host_close(making.sampler);
	return rc;
}

void ws_kernel_choice_free(struct ws_kernel_choice *choice)
{
	for (size_t i = 0; i < choice->count; i++)
		free(choice->names[i]);
	for (size_t i = 0; i < choice->sampled.count; i++)
		free(choice->sampled.names[i]);
	free(choice->sampled.names);
	free(choice->names);
	ws_text_free(&choice->sections);
	ws_text_free(&choice->dropped);
	*choice = (struct ws_kernel_choice){0};
}
