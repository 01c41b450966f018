/* launch.c - see launch.h. */
#include "stats/launch.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"

/* Set `prefix` of all ranges. */
static void number_domains(struct ws_launches *launches)
{
	const uint64_t *const *col = (const uint64_t *const *)launches->ranges.rows.col;

	for (size_t i = 0; i < launches->ranges.rows.rows; i++)
		if (col[ws_nvtx_type][i] == WS_NVTX_DOMAIN_CREATE)
			ws_domains_add_name(&launches->domains, launches->stats->who,
					    (uint32_t)col[ws_nvtx_thread][i],
					    (uint32_t)col[ws_nvtx_domain][i],
					    (uint32_t)col[ws_nvtx_text][i]);
	launches->prefix = ws_malloc(launches->ranges.count * sizeof(*launches->prefix));
	for (uint32_t i = 0; i < launches->ranges.count; i++)
		launches->prefix[i] = ws_domains_get_number(
			&launches->domains, launches->stats->who,
			(uint32_t)ws_range_get(&launches->ranges, i, ws_nvtx_thread),
			(uint32_t)ws_range_get(&launches->ranges, i, ws_nvtx_domain));
	ws_make_domain_table(&launches->table, launches->stats->report, &launches->domains, 1);
	for (uint32_t i = 0; i < launches->ranges.count; i++)
		launches->prefix[i] = launches->table.canonical[0][launches->prefix[i]];
}

struct ws_launches *ws_launches_open(struct ws_stats *stats, int ranges, struct ws_err *err)
{
	struct ws_launches *launches = ws_calloc(1, sizeof(*launches));
	int status;

	launches->stats = stats;
	status = ws_calls_load(stats->report, stats->who, 0, &launches->calls, err);
	if (!status && ranges == WS_ANY_RANGES &&
	    !ws_report_count_rows(stats->report, WS_TABLE_nvtx))
		status = ws_ranges_load_annotations(stats->report, &launches->ranges, err);
	else if (!status && ranges)
		status = ws_ranges_load(stats->report, &launches->ranges, err);
	if (!status && ranges) {
		number_domains(launches);
		status = ws_enclose_calls(&launches->ranges, &launches->calls, &launches->enclose,
					  err);
	}
	stats->damaged += launches->calls.rows.damaged + launches->ranges.rows.damaged;
	stats->backwards += launches->ranges.backwards;
	if (!status)
		return launches;
	ws_launches_close(launches);
	return NULL;
}

int ws_put_helper_launches(struct ws_stats *stats, struct ws_launches *launches, struct ws_err *err)
{
	struct ws_helpers *helpers;
	int status;

	if (!ws_get_stats_arg(stats, WS_HELPER_ARG))
		return 0;
	helpers = ws_find_range_helpers(stats->report, stats->who, &launches->ranges, err);
	if (!helpers)
		return -1;
	status = ws_enclose_helpers(&launches->ranges, &launches->calls, helpers,
				    &launches->enclose, err);
	ws_helpers_close(helpers);
	return status;
}

void ws_launches_close(struct ws_launches *launches)
{
	if (!launches)
		return;
	ws_calls_free(&launches->calls);
	ws_ranges_free(&launches->ranges);
	ws_enclose_free(&launches->enclose);
	ws_free_domain_table(&launches->table);
	ws_domains_free(&launches->domains);
	free(launches->prefix);
	free(launches->label);
	ws_keyed_free(&launches->labels);
	free(launches);
}

ws_range_key ws_make_range_key(const struct ws_launches *launches, uint32_t range)
{
	uint32_t text = (uint32_t)ws_range_get(&launches->ranges, range, ws_nvtx_text);
	ws_range_key key = WS_RANGE_THERE |
			   (uint64_t)(launches->prefix[range] & (INT32_MAX >> 1)) << 32 |
			   ws_fold_key(launches->fold, launches->stats->report, text);

	if (ws_range_get(&launches->ranges, range, ws_nvtx_type) == WS_NVTX_STARTEND)
		key |= WS_RANGE_STARTEND;
	return key;
}

ws_range_key ws_make_node_range_key(const struct ws_launches *launches, uint32_t node)
{
	if (!node)
		return 0;
	return ws_make_range_key(launches, launches->enclose.node[node].range) & ~WS_RANGE_STARTEND;
}

enum { AHEAD = 16 }; /* keys that are prefetched before they are looked up */

void ws_label_launches(struct ws_launches *launches)
{
	launches->labels = (struct ws_keyed_dists){.words = 1};
	launches->label = ws_calloc(launches->enclose.count, sizeof(*launches->label));
	for (uint32_t i = 1, count; i < launches->enclose.count; i += count) {
		uint64_t keys[AHEAD];

		count = ws_min(launches->enclose.count - i, AHEAD);
		for (uint32_t k = 0; k < count; k++) {
			keys[k] = ws_make_node_range_key(launches, i + k);
			ws_keyed_prefetch(&launches->labels, &keys[k]);
		}
		for (uint32_t k = 0; k < count; k++) {
			ws_keyed_get(&launches->labels, &keys[k]);
			launches->label[i + k] = (uint32_t)launches->labels.last + 1;
		}
	}
}

ws_range_key ws_get_launch_label_key(const struct ws_launches *launches, uint64_t label)
{
	if (!label)
		return 0;
	return launches->labels.keys[label - 1];
}

char *ws_make_range_name(const struct ws_launches *launches, ws_range_key key, size_t *length)
{
	const struct ws_text *prefix =
		&launches->table.prefixes[(uint32_t)(key >> 32) & (INT32_MAX >> 1)];
	const char *text =
		ws_fold_name(launches->fold, launches->stats->report, (uint32_t)key, length);
	char *word = ws_malloc(prefix->len + *length + 1);

	if (prefix->len)
		memcpy(word, prefix->text, prefix->len);
	memcpy(word + prefix->len, text, *length);
	*length += prefix->len;
	return word;
}

char *ws_make_prefixed_name(const struct ws_launches *launches, ws_range_key key, const char *name,
			    size_t *length)
{
	size_t name_length = *length, range_len;
	char *text;

	if (!key) {
		text = ws_malloc(name_length + 1);
		memcpy(text, name, name_length);
		return text;
	}
	text = ws_make_range_name(launches, key, &range_len);
	text = ws_realloc(text, range_len + name_length + 2);
	text[range_len] = '/';
	memcpy(text + range_len + 1, name, name_length);
	*length = range_len + 1 + name_length;
	return text;
}

const char *ws_get_range_name_text(const struct ws_launches *launches, ws_range_key key,
				   size_t *length, char **owned)
{
	if (!launches->table.prefixes[(uint32_t)(key >> 32) & (INT32_MAX >> 1)].len)
		return ws_fold_name(launches->fold, launches->stats->report, (uint32_t)key, length);
	return *owned = ws_make_range_name(launches, key, length);
}
