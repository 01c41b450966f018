/*
 * pm_sets.h - which metrics are sampled: the sets of gpu_metrics.def or a file of names, and what
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
	const char *name;	/* CUPTI's */
};

/* Those that are wanted, the most important first. Several of one row are alternatives. */
struct ws_pm_wanted {
	struct ws_pm_metric *metrics;
	size_t count;
	bool named; /* one by one, in a file: that one is left out is worth a word */
	char *text; /* what the names of a file point into */
};

/* What a chip samples in one pass. */
struct ws_pm_fit {
	struct ws_pm_metric *metrics;
	const char **names; /* the same, for CUPTI */
	size_t count;
	uint8_t *config; /* image for CUPTI */
	size_t config_bytes;
	char *left_out; /* names, separated by ", "; NULL: none */
};

/* `set`: a set's word, or the path of a file with a metric a line and, if anything follows it, the
 * name of its row. NULL: the set general. -1 with a message. */
int ws_pm_wanted_read(const char *set, struct ws_pm_wanted *wanted, struct ws_err *err);
void ws_pm_wanted_free(struct ws_pm_wanted *wanted);
/* The sets and their rows as text; owned by the caller. */
char *ws_pm_list_sets(void);

/* Choose from the first to the last whatever fits into one pass with those before. `availability`:
 * CUPTI's image of what counters there are, or NULL. -1 with a message where nothing is left. */
int ws_pm_fit(const struct pm_functions *cupti, const char *chip, const uint8_t *availability,
	      const struct ws_pm_wanted *wanted, struct ws_pm_fit *fit, struct ws_err *err);
void ws_pm_fit_free(struct ws_pm_fit *fit);
/* A host object of CUPTI for this chip; NULL when it cannot be had. */
void *ws_pm_make_host(const struct pm_functions *cupti, const char *chip,
		      const uint8_t *availability);
void ws_pm_free_host(const struct pm_functions *cupti, void *host);

#endif
