/* launch.c - see launch.h. */
#include "stats/launch.h"

#include <stdlib.h>
#include <string.h>

static void number_domains(struct ws_launches *l)
{
	const uint64_t *const *col = (const uint64_t *const *)l->ranges.rows.col;

	for (size_t i = 0; i < l->ranges.rows.rows; i++)
		if (col[ws_nvtx_type][i] == WS_NVTX_DOMAIN_CREATE)
			ws_domains_name(&l->domains, l->s->who, (uint32_t)col[ws_nvtx_thread][i],
					(uint32_t)col[ws_nvtx_domain][i],
					(uint32_t)col[ws_nvtx_text][i]);
	l->prefix = ws_malloc(l->ranges.n * sizeof(*l->prefix));
	for (uint32_t i = 0; i < l->ranges.n; i++)
		l->prefix[i] =
			ws_domains_number(&l->domains, l->s->who,
					  (uint32_t)ws_range_get(&l->ranges, i, ws_nvtx_thread),
					  (uint32_t)ws_range_get(&l->ranges, i, ws_nvtx_domain));
	ws_domain_table_make(&l->table, l->s->r, &l->domains, 1);
	for (uint32_t i = 0; i < l->ranges.n; i++)
		l->prefix[i] = l->prefix[i] ? l->table.canonical[0][l->prefix[i]] : 0;
}

struct ws_launches *ws_launches_open(struct ws_stats *s, int ranges, struct ws_err *e)
{
	struct ws_launches *l = ws_calloc(1, sizeof(*l));
	int rc;

	l->s = s;
	rc = ws_calls_load(s->r, s->who, &l->calls, e);
	if (!rc && ranges == WS_ANY_RANGES && !ws_report_rows(s->r, WS_TABLE_nvtx))
		rc = ws_ranges_load_annotations(s->r, &l->ranges, e);
	else if (!rc && ranges)
		rc = ws_ranges_load(s->r, &l->ranges, e);
	if (!rc && ranges) {
		number_domains(l);
		rc = ws_enclose_calls(&l->ranges, &l->calls, &l->enclose, e);
	}
	s->damaged += l->calls.rows.damaged + l->ranges.rows.damaged;
	s->backwards += l->ranges.backwards;
	if (!rc)
		return l;
	ws_launches_close(l);
	return NULL;
}

void ws_launches_close(struct ws_launches *l)
{
	if (!l)
		return;
	ws_calls_free(&l->calls);
	ws_ranges_free(&l->ranges);
	ws_enclose_free(&l->enclose);
	ws_domain_table_free(&l->table);
	ws_domains_free(&l->domains);
	free(l->prefix);
	free(l->label);
	ws_keyed_free(&l->labels);
	free(l);
}

ws_range_key ws_launches_key(const struct ws_launches *l, uint32_t range)
{
	uint64_t style = ws_range_get(&l->ranges, range, ws_nvtx_type) == WS_NVTX_STARTEND
				 ? WS_RANGE_STARTEND
				 : 0;
	uint32_t text = (uint32_t)ws_range_get(&l->ranges, range, ws_nvtx_text);

	return style | WS_RANGE_THERE | (uint64_t)(l->prefix[range] & (INT32_MAX >> 1)) << 32 |
	       ws_report_string_key(l->s->r, text);
}

ws_range_key ws_launches_node_key(const struct ws_launches *l, uint32_t node)
{
	return node ? ws_launches_key(l, l->enclose.node[node].range) & ~WS_RANGE_STARTEND : 0;
}

enum { AHEAD = 16 }; /* keys that are made before they are looked up */

void ws_launches_label(struct ws_launches *l)
{
	l->labels = (struct ws_keyed){.words = 1};
	l->label = ws_calloc(l->enclose.n, sizeof(*l->label));
	for (uint32_t i = 1, n; i < l->enclose.n; i += n) {
		uint64_t keys[AHEAD];

		n = l->enclose.n - i < AHEAD ? l->enclose.n - i : AHEAD;
		for (uint32_t k = 0; k < n; k++) {
			keys[k] = ws_launches_node_key(l, i + k);
			ws_keyed_prefetch(&l->labels, &keys[k]);
		}
		for (uint32_t k = 0; k < n; k++) {
			ws_keyed_get(&l->labels, &keys[k]);
			l->label[i + k] = (uint32_t)l->labels.last + 1;
		}
	}
}

ws_range_key ws_launches_label_key(const struct ws_launches *l, uint64_t label)
{
	return label ? l->labels.keys[label - 1] : 0;
}

char *ws_launches_range_name(const struct ws_launches *l, ws_range_key key, size_t *len)
{
	const struct ws_text *prefix = &l->table.prefixes[(uint32_t)(key >> 32) & (INT32_MAX >> 1)];
	const char *text = ws_report_string(l->s->r, (uint32_t)key, len);
	char *s = ws_malloc(prefix->len + *len + 1);

	if (prefix->len)
		memcpy(s, prefix->s, prefix->len);
	memcpy(s + prefix->len, text, *len);
	*len += prefix->len;
	return s;
}

char *ws_launches_prefixed(const struct ws_launches *l, ws_range_key key, const char *name,
			   size_t *len)
{
	size_t name_len = *len, range_len;
	char *s;

	if (!key) {
		s = ws_malloc(name_len + 1);
		memcpy(s, name, name_len);
		return s;
	}
	s = ws_launches_range_name(l, key, &range_len);
	s = ws_realloc(s, range_len + name_len + 2);
	s[range_len] = '/';
	memcpy(s + range_len + 1, name, name_len);
	*len = range_len + 1 + name_len;
	return s;
}

const char *ws_launches_range_text(const struct ws_launches *l, ws_range_key key, size_t *len,
				   char **owned)
{
	if (!l->table.prefixes[(uint32_t)(key >> 32) & (INT32_MAX >> 1)].len)
		return ws_report_string(l->s->r, (uint32_t)key, len);
	return *owned = ws_launches_range_name(l, key, len);
}
