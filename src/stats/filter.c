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

/* Read digits with an optional fraction and unit as exact nanoseconds; a fraction of a nanosecond
 * is cut off. Returns -1 for anything else. */
static int read_time(const char *text, size_t length, uint64_t *ns)
{
	static const struct {
		const char *name;
		unsigned power;
	} units[] = {{"", 0}, {"ns", 0}, {"us", 3}, {"ms", 6}, {"s", 9}};
	unsigned __int128 value = 0;
	unsigned power = 10, decimals = 0;
	size_t position = 0, digits = 0;

	for (; position < length && isdigit((unsigned char)text[position]) && digits < 24;
	     position++, digits++)
		value = value * 10 + (unsigned)(text[position] - '0');
	if (position < length && text[position] == '.')
		for (position++;
		     position < length && isdigit((unsigned char)text[position]) && digits < 24;
		     position++, digits++, decimals++)
			value = value * 10 + (unsigned)(text[position] - '0');
	if (!digits)
		return -1;
	for (size_t i = 0; i < WS_COUNT(units); i++)
		if (strlen(units[i].name) == length - position &&
		    !memcmp(units[i].name, text + position, length - position))
			power = units[i].power;
	if (power > 9)
		return -1;
	for (; power > decimals; power--)
		value *= 10;
	for (; decimals > power; decimals--)
		value /= 10;
	if (value > INT64_MAX)
		return -1;
	*ns = (uint64_t)value;
	return 0;
}

static int parse_time(const char *spec, uint64_t *from, uint64_t *to, struct ws_err *err)
{
	size_t before = strcspn(spec, "/"), after = 0;
	bool valid = spec[before] == '/' && !strchr(spec + before + 1, '/');

	*from = 0;
	*to = UINT64_MAX;
	if (valid)
		after = strlen(spec + before + 1);
	if (!valid || (before && read_time(spec, before, from) < 0) ||
	    (after && read_time(spec + before + 1, after, to) < 0))
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

int ws_check_time_filter(const char *spec, struct ws_err *err)
{
	uint64_t from, to;

	return parse_time(spec, &from, &to, err);
}

static void narrow_window(struct ws_stats *stats, uint64_t from, uint64_t to)
{
	if (from > stats->time_min)
		stats->time_min = from;
	if (to < stats->time_max)
		stats->time_max = to;
	stats->windowed = true;
}

int ws_apply_time_filter(struct ws_stats *stats, const char *spec, struct ws_err *err)
{
	uint64_t from, to;

	if (parse_time(spec, &from, &to, err) < 0)
		return -1;
	from += stats->zero;
	if (*spec == '/') /* events that began before the collection count too */
		from = 0;
	narrow_window(stats, from, ws_min(to, UINT64_MAX - stats->zero) + stats->zero);
	return 0;
}

/* ---- the range that --filter-nvtx names ---- */

struct wanted_range {
	char *name, *domain; /* domain NULL for the default one; "*" for any */
	size_t name_len;
	uint64_t index;
	bool index_given;
};

struct found_range {
	uint64_t start, end;
	uint32_t worker, number; /* of the domain */
};

struct range_search {
	struct ws_stats *stats;
	uint32_t key; /* of the text */
	struct ws_domains *domains;
	pthread_mutex_t lock;
	struct found_range *found;
	size_t count, capacity;
};

/* Split name[@domain][/index]; a backslash makes the character after it part of the name. */
static int parse_range_spec(const char *spec, struct wanted_range *wanted, struct ws_err *err)
{
	char *unescaped = ws_malloc(strlen(spec) + 1), *end;
	const char *index = NULL;
	size_t length = 0;

	memset(wanted, 0, sizeof(*wanted));
	wanted->name = unescaped;
	for (const char *letter = spec; *letter; letter++) {
		if (*letter == '\\' && letter[1]) {
			unescaped[length++] = *++letter;
		} else if (*letter == '@' && !wanted->domain) {
			unescaped[length++] = 0;
			wanted->domain = unescaped + length;
		} else if (*letter == '/') {
			index = letter + 1;
			break;
		} else {
			unescaped[length++] = *letter;
		}
	}
	unescaped[length] = 0;
	wanted->name_len = strlen(wanted->name);
	if (!index)
		return 0;
	errno = 0;
	wanted->index = strtoull(index, &end, 10);
	wanted->index_given = true;
	if (!isdigit((unsigned char)*index) || *end || errno) {
		free(unescaped);
		return ws_fail(err,
			       "--filter-nvtx: '%s' after the slash is not a number; write "
			       "name[@domain][/index], with a backslash "
			       "before an @ or / "
			       "of the name itself",
			       index);
	}
	return 0;
}

static int find_matching_ranges(void *context, const struct ws_batch *batch)
{
	struct range_search *search = context;
	struct ws_domains *domains = &search->domains[batch->worker];
	const uint64_t *type = batch->col[ws_nvtx_type], *text = batch->col[ws_nvtx_text],
		       *end = batch->col[ws_nvtx_end];

	for (size_t i = 0; i < batch->rows; i++) {
		uint32_t thread = (uint32_t)batch->col[ws_nvtx_thread][i],
			 domain = (uint32_t)batch->col[ws_nvtx_domain][i];

		if (type[i] == WS_NVTX_DOMAIN_CREATE)
			ws_domains_add_name(domains, search->stats->who, thread, domain,
					    (uint32_t)text[i]);
		if ((type[i] != WS_NVTX_PUSHPOP && type[i] != WS_NVTX_STARTEND) ||
		    ws_report_string_key(search->stats->report, (uint32_t)text[i]) != search->key)
			continue;
		pthread_mutex_lock(&search->lock);
		ws_grow(search->found, search->capacity, search->count + 1);
		search->found[search->count++] = (struct found_range){
			batch->col[ws_nvtx_start][i], end[i], batch->worker,
			ws_domains_get_number(domains, search->stats->who, thread, domain)};
		pthread_mutex_unlock(&search->lock);
	}
	return 0;
}

static uint32_t find_text_key(const struct ws_report *report, const struct wanted_range *wanted)
{
	for (uint32_t id = 1; id <= ws_report_string_count(report); id++) {
		size_t length;
		const char *text = ws_report_string(report, id, &length);

		if (length == wanted->name_len && !memcmp(text, wanted->name, length))
			return ws_report_string_key(report, id);
	}
	return 0;
}

static int compare_starts(const void *first, const void *second)
{
	const struct found_range *left = first, *right = second;

	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	return ws_compare(right->end, left->end);
}

/* Keep only the ranges in the wanted domain. Returns the prefix of another domain that has ranges
 * of this name, or NULL. */
static const char *keep_wanted_domain(struct range_search *search,
				      const struct ws_domain_table *table,
				      const struct wanted_range *wanted)
{
	const char *other = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < search->count; i++) {
		const struct found_range *found = &search->found[i];
		const struct ws_text *prefix =
			&table->prefixes[table->canonical[found->worker][found->number]];
		size_t length = prefix->len - (prefix->len > 0); /* without the colon */

		if (wanted->domain && strcmp(wanted->domain, "*") &&
		    (length != strlen(wanted->domain) ||
		     memcmp(prefix->text, wanted->domain, length)))
			other = prefix->text;
		else if (!wanted->domain && length)
			other = prefix->text;
		else
			search->found[kept++] = *found;
	}
	search->count = kept;
	return other;
}

static int fail_not_found(const struct range_search *search, const struct wanted_range *wanted,
			  const char *other, struct ws_err *err)
{
	const char *place = "domain ", *hint = "";

	if (!wanted->domain)
		place = "the default domain";
	if (other && *other)
		hint = "; there is one in domain ";
	else if (other)
		hint = "; there is one in the default domain";
	return ws_fail(err, "--filter-nvtx: %s has no range '%s' in %s%s%s%s",
		       ws_report_path(search->stats->report), wanted->name, place,
		       ws_text_or(wanted->domain, ""), hint, ws_text_or(other, ""));
}

/* Set the window to the range with the index asked for, by start. */
static int choose_range(struct range_search *search, const struct wanted_range *wanted,
			const char *other, bool quiet, struct ws_err *err)
{
	const struct found_range *found;
	uint64_t end;

	if (!search->count)
		return fail_not_found(search, wanted, other, err);
	if (wanted->index >= search->count)
		return ws_fail(err,
			       "--filter-nvtx: %s has %zu ranges '%s', so the last index is %zu",
			       ws_report_path(search->stats->report), search->count, wanted->name,
			       search->count - 1);
	qsort(search->found, search->count, sizeof(*search->found), compare_starts);
	found = &search->found[wanted->index];
	end = found->end;
	if (end == WS_NO_TIME)
		end = ws_find_time_last(search->stats->report);
	if (search->count > 1 && !wanted->index_given && !quiet)
		ws_say("%s has %zu ranges '%s'; the first is used, '%s/1' is the next",
		       ws_report_path(search->stats->report), search->count, wanted->name,
		       wanted->name);
	narrow_window(search->stats, found->start, end);
	return 0;
}

int ws_apply_nvtx_filter(struct ws_stats *stats, const char *spec, bool quiet, struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
			   WS_COLUMN_BIT(nvtx, thread) | WS_COLUMN_BIT(nvtx, text) |
			   WS_COLUMN_BIT(nvtx, domain) | WS_COLUMN_BIT(nvtx, type),
		.time_max = UINT64_MAX,
	};
	uint32_t workers = ws_count_scan_workers(&scan);
	struct range_search search = {.stats = stats, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct ws_domain_table table;
	struct wanted_range wanted;
	const char *other;
	int status;

	if (parse_range_spec(spec, &wanted, err) < 0)
		return -1;
	search.key = find_text_key(stats->report, &wanted);
	search.domains = ws_calloc(workers, sizeof(*search.domains));
	if (search.key)
		ws_run_scan(stats->report, &scan, find_matching_ranges, &search, &stats->damaged);
	ws_make_domain_table(&table, stats->report, search.domains, workers);
	other = keep_wanted_domain(&search, &table, &wanted);
	status = choose_range(&search, &wanted, other, quiet, err);
	for (uint32_t i = 0; i < workers; i++)
		ws_domains_free(&search.domains[i]);
	ws_free_domain_table(&table);
	free(search.domains);
	free(search.found);
	free(wanted.name);
	return status;
}
