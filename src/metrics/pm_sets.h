/*
 * pm_sets.h - which metrics are sampled: the sets of gpu_metrics.def or a file of names, and which
 * of them one chip can sample at the same time.
 */
#ifndef WS_METRICS_PM_SETS_H
#define WS_METRICS_PM_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "metrics/pm_library.h"

enum { WS_PM_MOST_METRICS = 256 };

struct ws_pm_metric {
	const char *row, *unit; /* as shown; the unit may be "" */
	const char *name;	/* CUPTI's name */
};

/* The wanted metrics, the most important first. Several with one row are alternatives. */
struct ws_pm_wanted {
	struct ws_pm_metric *metrics;
	size_t count;
	bool named; /* named individually in a file: leaving one out is worth a message */
	char *text; /* text of a file, which the names point into */
};

/* The metrics that a chip samples in one pass. */
struct ws_pm_fit {
	struct ws_pm_metric *metrics;
	const char **names; /* the same names, for CUPTI */
	size_t count;
	uint8_t *config; /* configuration image for CUPTI */
	size_t config_bytes;
	char *left_out; /* metrics that were left out, separated by ", "; NULL: none */
	char *too_much; /* metrics that cannot be read as often as wanted, likewise */
};

/* `set`: a set's word, or the path of a file with one metric per line, optionally followed by the
 * name of its row. NULL: the set general. -1 with a message. */
int ws_pm_wanted_read(const char *set, struct ws_pm_wanted *wanted, struct ws_err *err);
/* All metrics of `wanted` but those whose name contains `word`; NULL: all. The result refers to the
 * text of `wanted`, which must outlive it. */
struct ws_pm_wanted ws_pm_wanted_without(const struct ws_pm_wanted *wanted, const char *word);
void ws_pm_wanted_free(struct ws_pm_wanted *wanted);
/* The sets and their rows as text; owned by the caller. */
char *ws_pm_list_sets(void);

/* Going from first to last, choose each metric that fits into one pass with those chosen before.
 * `availability`: CUPTI's image of the available counters, or NULL. Returns -1 with a message when
 * no metric fits. */
int ws_pm_fit(const struct pm_functions *cupti, const char *chip, const uint8_t *availability,
	      const struct ws_pm_wanted *wanted, struct ws_pm_fit *fit, struct ws_err *err);
/* Keep the metrics whose place in `chosen` is true; the rest is too much. */
void ws_pm_fit_choose(struct ws_pm_fit *fit, const bool *chosen);
/* Make these names the configuration of `fit`, unless one is unknown or they need more than one
 * pass. */
bool ws_pm_fit_names(const struct pm_functions *cupti, const char *chip,
		     const uint8_t *availability, const char **names, size_t count,
		     struct ws_pm_fit *fit);
void ws_pm_fit_free(struct ws_pm_fit *fit);
/* A CUPTI host object for this chip; NULL when it cannot be created. */
void *ws_pm_make_host(const struct pm_functions *cupti, const char *chip,
		      const uint8_t *availability);
void ws_pm_free_host(const struct pm_functions *cupti, void *host);

#endif
