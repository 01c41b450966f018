/* filter.c - see filter.h. */
#include "stats/filter.h"
#include "base/choose.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stats/domains.h"

/* Digits with an optional fraction and unit; whole nanoseconds, exactly. Returns -1 for anything
 * else. */
static int read_time(const char *text, size_t n, uint64_t *ns)
{
	static const struct {
		const char *name;
		unsigned power;
	} units[] = {{"", 0}, {"ns", 0}, {"us", 3}, {"ms", 6}, {"s", 9}};
	unsigned __int128 v = 0;
	unsigned power = 10, decimals = 0;
	size_t at = 0, digits = 0;

	for (; at < n && isdigit((unsigned char)text[at]) && digits < 24; at++, digits++)
		v = v * 10 + (unsigned)(text[at] - '0');
	if (at < n && text[at] == '.')
		for (at++; at < n && isdigit((unsigned char)text[at]) && digits < 24;
		     at++, digits++, decimals++)
			v = v * 10 + (unsigned)(text[at] - '0');
	if (!digits)
		return -1;
	for (size_t i = 0; i < WS_COUNT(units); i++)
		if (strlen(units[i].name) == n - at && !memcmp(units[i].name, text + at, n - at))
			power = units[i].power;
	if (power > 9)
		return -1;
	for (; power > decimals; power--)
		v *= 10;
	for (; decimals > power; decimals--)
		v /= 10;
	if (v > INT64_MAX)
		return -1;
	*ns = (uint64_t)v;
	return 0;
}

static int parse_time(const char *spec, uint64_t *from, uint64_t *to, struct ws_err *err)
{
	const char *slash = strchr(spec, '/');
	size_t before = slash ? (size_t)(slash - spec) : 0, after = slash ? strlen(slash + 1) : 0;

	*from = 0;
	*to = UINT64_MAX;
	if (!slash || strchr(slash + 1, '/') || (before && read_time(spec, before, from) < 0) ||
	    (after && read_time(slash + 1, after, to) < 0))
		return ws_fail(err,
			       "--filter-time: '%s' is not start/end; give each in nanoseconds "
			       "from the start of the collection or "
			       "with ns, us, "
			       "ms or s, such as 1.5s/2s, and leave one out for no limit",
			       spec);
	if (*from > *to)
		return ws_fail(err, "--filter-time: '%s' ends before it starts", spec);
	return 0;
}

int ws_filter_time_check(const char *spec, struct ws_err *err)
{
	uint64_t from, to;

	return parse_time(spec, &from, &to, err);
}

static void narrow(struct ws_stats *stats, uint64_t from, uint64_t to)
{
	if (from > stats->time_min)
		stats->time_min = from;
	if (to < stats->time_max)
		stats->time_max = to;
	stats->windowed = true;
}

int ws_filter_time(struct ws_stats *stats, const char *spec, struct ws_err *err)
{
	uint64_t from, to;

	if (parse_time(spec, &from, &to, err) < 0)
		return -1;
	from += stats->zero;
	narrow(stats, strncmp(spec, "/", 1) ? from : 0,
	       to > UINT64_MAX - stats->zero ? UINT64_MAX : to + stats->zero);
	return 0;
}

/* ---- the range meant by --filter-nvtx ---- */

struct wanted {
	char *name, *domain; /* domain NULL for the default one; "*" for any */
	size_t name_len;
	uint64_t index;
	bool index_given;
};

struct found {
	uint64_t start, end;
	uint32_t worker, number; /* of the domain */
};

struct search {
	struct ws_stats *stats;
	uint32_t key; /* of the text */
	struct ws_domains *domains;
	pthread_mutex_t lock;
	struct found *found;
	size_t count, cap;
};

/* Split name[@domain][/index]; a backslash takes away the meaning of the character after it. */
static int parse_nvtx(const char *spec, struct wanted *wanted, struct ws_err *err)
{
	char *out = ws_malloc(strlen(spec) + 1), *end;
	const char *index = NULL;
	size_t n = 0;

	memset(wanted, 0, sizeof(*wanted));
	wanted->name = out;
	for (const char *text = spec; *text; text++) {
		if (*text == '\\' && text[1]) {
			out[n++] = *++text;
		} else if (*text == '@' && !wanted->domain) {
			out[n++] = 0;
			wanted->domain = out + n;
		} else if (*text == '/') {
			index = text + 1;
			break;
		} else {
			out[n++] = *text;
		}
	}
	out[n] = 0;
	wanted->name_len = strlen(wanted->name);
	if (!index)
		return 0;
	errno = 0;
	wanted->index = strtoull(index, &end, 10);
	wanted->index_given = true;
	if (!isdigit((unsigned char)*index) || *end || errno) {
		free(out);
		return ws_fail(err,
			       "--filter-nvtx: '%s' after the slash is not a number; write "
			       "name[@domain][/index], with a backslash "
			       "before an @ or / "
			       "of the name itself",
			       index);
	}
	return 0;
}

static int look(void *ctx, const struct ws_batch *batch)
{
	struct search *search = ctx;
	struct ws_domains *domains = &search->domains[batch->worker];
	const uint64_t *type = batch->col[ws_nvtx_type], *text = batch->col[ws_nvtx_text],
		       *end = batch->col[ws_nvtx_end];

	for (size_t i = 0; i < batch->rows; i++) {
		uint32_t thread = (uint32_t)batch->col[ws_nvtx_thread][i],
			 domain = (uint32_t)batch->col[ws_nvtx_domain][i];

		if (type[i] == WS_NVTX_DOMAIN_CREATE)
			ws_domains_name(domains, search->stats->who, thread, domain,
					(uint32_t)text[i]);
		if ((type[i] != WS_NVTX_PUSHPOP && type[i] != WS_NVTX_STARTEND) ||
		    ws_report_string_key(search->stats->report, (uint32_t)text[i]) != search->key)
			continue;
		pthread_mutex_lock(&search->lock);
		ws_grow(search->found, search->cap, search->count + 1);
		search->found[search->count++] = (struct found){
			batch->col[ws_nvtx_start][i], end[i], batch->worker,
			ws_domains_number(domains, search->stats->who, thread, domain)};
		pthread_mutex_unlock(&search->lock);
	}
	return 0;
}

static uint32_t key_of_text(const struct ws_report *report, const struct wanted *wanted)
{
	for (uint32_t id = 1; id <= ws_report_string_count(report); id++) {
		size_t len;
		const char *text = ws_report_string(report, id, &len);

		if (len == wanted->name_len && !memcmp(text, wanted->name, len))
			return ws_report_string_key(report, id);
	}
	return 0;
}

static int by_start(const void *first, const void *second)
{
	const struct found *left = first, *right = second;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return ws_compare(right->end, left->end);
}

/* Leave only those in the wanted domain; tells the name of another domain that has some. */
static const char *keep_domain(struct search *search, const struct ws_domain_table *table,
			       const struct wanted *wanted)
{
	const char *other = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < search->count; i++) {
		const struct found *found = &search->found[i];
		const struct ws_text *prefix =
			&table->prefixes[found->number
						 ? table->canonical[found->worker][found->number]
						 : 0];
		size_t len = prefix->len ? prefix->len - 1 : 0; /* less the colon */

		if (wanted->domain && strcmp(wanted->domain, "*") &&
		    (len != strlen(wanted->domain) || memcmp(prefix->text, wanted->domain, len)))
			other = prefix->text;
		else if (!wanted->domain && len)
			other = prefix->text;
		else
			search->found[kept++] = *found;
	}
	search->count = kept;
	return other;
}

static int choose(struct search *search, const struct wanted *wanted, const char *other, bool quiet,
		  struct ws_err *err)
{
	const struct found *found;
	uint64_t end;

	if (!search->count)
		return ws_fail(err, "--filter-nvtx: %s has no range '%s' in %s%s%s%s",
			       ws_report_path(search->stats->report), wanted->name,
			       wanted->domain ? "domain " : "the default domain",
			       ws_text_or(wanted->domain, ""),
			       !other	? ""
			       : *other ? "; there is one in domain "
					: "; there is one in the default domain",
			       ws_text_or(other, ""));
	if (wanted->index >= search->count)
		return ws_fail(err,
			       "--filter-nvtx: %s has %zu ranges '%s', so the last index is %zu",
			       ws_report_path(search->stats->report), search->count, wanted->name,
			       search->count - 1);
	qsort(search->found, search->count, sizeof(*search->found), by_start);
	found = &search->found[wanted->index];
	end = found->end == WS_NO_TIME ? ws_time_last(search->stats->report) : found->end;
	if (search->count > 1 && !wanted->index_given && !quiet)
		ws_say("%s has %zu ranges '%s'; the first is used, '%s/1' is the next",
		       ws_report_path(search->stats->report), search->count, wanted->name,
		       wanted->name);
	narrow(search->stats, found->start, end);
	return 0;
}

int ws_filter_nvtx(struct ws_stats *stats, const char *spec, bool quiet, struct ws_err *err)
{
	struct ws_scan sc = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) |
			   WS_COL(nvtx, text) | WS_COL(nvtx, domain) | WS_COL(nvtx, type),
		.time_max = UINT64_MAX,
	};
	uint32_t workers = ws_scan_workers(&sc);
	struct search search = {.stats = stats, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct ws_domain_table table;
	struct wanted wanted;
	const char *other;
	int rc;

	if (parse_nvtx(spec, &wanted, err) < 0)
		return -1;
	search.key = key_of_text(stats->report, &wanted);
	search.domains = ws_calloc(workers, sizeof(*search.domains));
	if (search.key)
		ws_scan_run(stats->report, &sc, look, &search, &stats->damaged);
	ws_domain_table_make(&table, stats->report, search.domains, workers);
	other = keep_domain(&search, &table, &wanted);
	rc = choose(&search, &wanted, other, quiet, err);
	for (uint32_t i = 0; i < workers; i++)
		ws_domains_free(&search.domains[i]);
	ws_domain_table_free(&table);
	free(search.domains);
	free(search.found);
	free(wanted.name);
	return rc;
}
