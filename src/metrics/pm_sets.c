/* pm_sets.c - see pm_sets.h. */
#include "metrics/pm_sets.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

enum { MOST_FILE_BYTES = 1 << 20 };

enum set_number {
#define WS_GPU_SET(ID, word, what) NUMBER_OF_##ID,
#include "metrics/gpu_metrics.def"
	SETS
};

#define WS_GPU_SET_GENERAL (1u << NUMBER_OF_GENERAL)
#define WS_GPU_SET_PIPES (1u << NUMBER_OF_PIPES)
#define WS_GPU_SET_BYTES (1u << NUMBER_OF_BYTES)
#define WS_GPU_SET_LIGHT (1u << NUMBER_OF_LIGHT)
#define WS_GPU_SET_NVLINK (1u << NUMBER_OF_NVLINK)

static const struct {
	const char *word, *what;
} sets[] = {
#define WS_GPU_SET(ID, word, what) {word, what},
#include "metrics/gpu_metrics.def"
};

static const struct {
	unsigned sets;
	struct ws_pm_metric metric;
} known_metrics[] = {
#define WS_GPU_METRIC(sets, row, unit, name) {sets, {row, unit, name}},
#include "metrics/gpu_metrics.def"
};

/* ---- what is wanted ---- */

static void add_wanted(struct ws_pm_wanted *wanted, struct ws_pm_metric metric)
{
	wanted->metrics = ws_realloc(wanted->metrics, (wanted->count + 1) * sizeof(metric));
	wanted->metrics[wanted->count++] = metric;
}

static void take_set(struct ws_pm_wanted *wanted, size_t set)
{
	for (size_t i = 0; i < WS_COUNT(known_metrics); i++)
		if (known_metrics[i].sets >> set & 1)
			add_wanted(wanted, known_metrics[i].metric);
}

/* The unit that the CUPTI name of a metric implies. */
static const char *guess_unit(const char *name)
{
	if (strstr(name, "pct"))
		return "%";
	if (!strstr(name, ".per_second"))
		return "";
	if (strstr(name, "bytes"))
		return "B/s";
	return strstr(name, "cycles") ? "Hz" : "1/s";
}

/* Parse a line of a file: a metric, optionally followed by the name of its row. */
static void take_line(struct ws_pm_wanted *wanted, char *line)
{
	char *end, *row;

	line[strcspn(line, "#")] = 0;
	line += strspn(line, " \t\r");
	end = line + strcspn(line, " \t\r");
	row = end + strspn(end, " \t\r");
	for (char *last = row + strlen(row); last > row && isspace((unsigned char)last[-1]);)
		*--last = 0;
	*end = 0;
	if (*line)
		add_wanted(wanted,
			   (struct ws_pm_metric){*row ? row : line, guess_unit(line), line});
}

static char *read_text(const char *path, struct ws_err *err)
{
	FILE *file = fopen(path, "re");
	char *text;
	size_t n;

	if (!file) {
		ws_fail_errno(err,
			      "--gpu-metrics-set: '%s' is neither a set (help lists them) nor "
			      "a file that can be read",
			      path);
		return NULL;
	}
	text = ws_malloc(MOST_FILE_BYTES + 1);
	n = fread(text, 1, MOST_FILE_BYTES, file);
	fclose(file);
	text[n] = 0;
	return text;
}

static int take_file(struct ws_pm_wanted *wanted, const char *path, struct ws_err *err)
{
	wanted->named = true;
	wanted->text = read_text(path, err);
	if (!wanted->text)
		return -1;
	for (char *line = wanted->text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		take_line(wanted, line);
	}
	if (!wanted->count || wanted->count > WS_PM_MOST_METRICS) {
		ws_fail(err, "--gpu-metrics-set: %s names %zu metrics; give 1 to %d", path,
			wanted->count, WS_PM_MOST_METRICS);
		ws_pm_wanted_free(wanted);
		return -1;
	}
	return 0;
}

int ws_pm_wanted_read(const char *set, struct ws_pm_wanted *wanted, struct ws_err *err)
{
	*wanted = (struct ws_pm_wanted){0};
	for (size_t i = 0; i < SETS; i++)
		if (!strcmp(ws_text_or(set, sets[0].word), sets[i].word)) {
			take_set(wanted, i);
			return 0;
		}
	return take_file(wanted, set, err);
}

struct ws_pm_wanted ws_pm_wanted_without(const struct ws_pm_wanted *wanted, const char *word)
{
	struct ws_pm_wanted rest = {.named = wanted->named};

	for (size_t i = 0; i < wanted->count; i++)
		if (!word || !strstr(wanted->metrics[i].name, word))
			add_wanted(&rest, wanted->metrics[i]);
	return rest;
}

void ws_pm_wanted_free(struct ws_pm_wanted *wanted)
{
	free(wanted->metrics);
	free(wanted->text);
	*wanted = (struct ws_pm_wanted){0};
}

/* Whether a metric is an alternative to an earlier one of its set. */
static bool is_alternative(size_t index)
{
	return index &&
	       !strcmp(known_metrics[index].metric.row, known_metrics[index - 1].metric.row);
}

static char *append_text(char *text, char *more)
{
	char *joined = ws_format("%s%s", ws_text_or(text, ""), more);

	free(text);
	free(more);
	return joined;
}

char *ws_pm_list_sets(void)
{
	char *text = NULL;

	for (size_t set = 0; set < SETS; set++) {
		text = append_text(text, ws_format("%s: %s\n", sets[set].word, sets[set].what));
		for (size_t i = 0; i < WS_COUNT(known_metrics); i++)
			if (known_metrics[i].sets >> set & 1 && !is_alternative(i))
				text = append_text(text, ws_format("    %-34s %-4s %s\n",
								   known_metrics[i].metric.row,
								   known_metrics[i].metric.unit,
								   known_metrics[i].metric.name));
	}
	return text;
}

/* ---- what fits ---- */

void *ws_pm_make_host(const struct pm_functions *cupti, const char *chip,
		      const uint8_t *availability)
{
	struct pm_host_initialize init = {.size = PM_SIZE(pm_host_initialize, host),
					  .type = PM_TYPE_SAMPLING,
					  .chip = chip,
					  .availability = availability};

	return cupti->host_initialize(&init) == PM_SUCCESS ? init.host : NULL;
}

void ws_pm_free_host(const struct pm_functions *cupti, void *host)
{
	struct pm_host_deinitialize end = {.size = PM_SIZE(pm_host_deinitialize, host),
					   .host = host};

	if (host)
		cupti->host_deinitialize(&end);
}

/* The configuration of a host object with the metrics that have been added; NULL when there is none
 * or it needs more than one pass. */
static uint8_t *make_config(const struct pm_functions *cupti, void *host, size_t *bytes)
{
	struct pm_host_config_size size = {.size = PM_SIZE(pm_host_config_size, bytes),
					   .host = host};
	struct pm_host_config config = {.size = PM_SIZE(pm_host_config, image), .host = host};
	struct pm_host_passes passes = {.size = PM_SIZE(pm_host_passes, passes)};

	if (cupti->host_config_size(&size) != PM_SUCCESS)
		return NULL;
	config.bytes = passes.bytes = *bytes = size.bytes;
	config.image = passes.image = ws_malloc(size.bytes + 1);
	if (cupti->host_config(&config) == PM_SUCCESS &&
	    cupti->host_passes(&passes) == PM_SUCCESS && passes.passes == 1)
		return config.image;
	free(config.image);
	return NULL;
}

bool ws_pm_fit_names(const struct pm_functions *cupti, const char *chip,
		     const uint8_t *availability, const char **names, size_t count,
		     struct ws_pm_fit *fit)
{
	void *host = ws_pm_make_host(cupti, chip, availability);
	struct pm_host_add_metrics add = {.size = PM_SIZE(pm_host_add_metrics, count),
					  .host = host,
					  .names = names,
					  .count = count};
	uint8_t *config = NULL;
	size_t bytes = 0;

	if (host && cupti->host_add_metrics(&add) == PM_SUCCESS)
		config = make_config(cupti, host, &bytes);
	ws_pm_free_host(cupti, host);
	if (!config)
		return false;
	free(fit->config);
	fit->config = config;
	fit->config_bytes = bytes;
	return true;
}

static bool has_row(const struct ws_pm_fit *fit, const char *row)
{
	for (size_t i = 0; i < fit->count; i++)
		if (!strcmp(fit->metrics[i].row, row))
			return true;
	return false;
}

static void append_name(char **list, const char *name)
{
	*list = append_text(*list, ws_format("%s%s", *list ? ", " : "", name));
}

int ws_pm_fit(const struct pm_functions *cupti, const char *chip, const uint8_t *availability,
	      const struct ws_pm_wanted *wanted, struct ws_pm_fit *fit, struct ws_err *err)
{
	*fit = (struct ws_pm_fit){0};
	fit->metrics = ws_malloc(wanted->count * sizeof(*fit->metrics));
	fit->names = ws_malloc(wanted->count * sizeof(*fit->names));
	for (size_t i = 0; i < wanted->count; i++) {
		if (has_row(fit, wanted->metrics[i].row))
			continue;
		fit->names[fit->count] = wanted->metrics[i].name;
		if (ws_pm_fit_names(cupti, chip, availability, fit->names, fit->count + 1, fit))
			fit->metrics[fit->count++] = wanted->metrics[i];
		else if (wanted->named)
			append_name(&fit->left_out, wanted->metrics[i].name);
	}
	if (fit->count)
		return 0;
	ws_pm_fit_free(fit);
	return ws_fail(err, "none of the metrics of the set can be sampled on this chip (%s)",
		       ws_text_or(chip, "unknown"));
}

void ws_pm_fit_choose(struct ws_pm_fit *fit, const bool *chosen)
{
	size_t kept = 0;

	for (size_t i = 0; i < fit->count; i++) {
		if (!chosen[i]) {
			append_name(&fit->too_much, fit->metrics[i].row);
			continue;
		}
		fit->metrics[kept] = fit->metrics[i];
		fit->names[kept++] = fit->names[i];
	}
	fit->count = kept;
}

void ws_pm_fit_free(struct ws_pm_fit *fit)
{
	free(fit->metrics);
	free(fit->names);
	free(fit->config);
	free(fit->left_out);
	free(fit->too_much);
	*fit = (struct ws_pm_fit){0};
}
