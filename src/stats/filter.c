/* filter.c - see filter.h. */
#include "stats/filter.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stats/domains.h"

/* Digits with an optional fraction and unit; whole nanoseconds, exactly. Returns -1 for anything
 * else. */
static int read_time(const char *s, size_t n, uint64_t *ns)
{
	static const struct {
		const char *name;
		unsigned power;
	} units[] = {{"", 0}, {"ns", 0}, {"us", 3}, {"ms", 6}, {"s", 9}};
	unsigned __int128 v = 0;
	unsigned power = 10, decimals = 0;
	size_t at = 0, digits = 0;

	for (; at < n && isdigit((unsigned char)s[at]) && digits < 24; at++, digits++)
		v = v * 10 + (unsigned)(s[at] - '0');
	if (at < n && s[at] == '.')
		for (at++; at < n && isdigit((unsigned char)s[at]) && digits < 24;
		     at++, digits++, decimals++)
			v = v * 10 + (unsigned)(s[at] - '0');
	if (!digits)
		return -1;
	for (size_t i = 0; i < WS_COUNT(units); i++)
		if (strlen(units[i].name) == n - at && !memcmp(units[i].name, s + at, n - at))
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

static int parse_time(const char *spec, uint64_t *from, uint64_t *to, struct ws_err *e)
{
	const char *slash = strchr(spec, '/');
	size_t before = slash ? (size_t)(slash - spec) : 0, after = slash ? strlen(slash + 1) : 0;

	*from = 0;
	*to = UINT64_MAX;
	if (!slash || strchr(slash + 1, '/') || (before && read_time(spec, before, from) < 0) ||
	    (after && read_time(slash + 1, after, to) < 0))
		return ws_fail(e,
			       "--filter-time: '%s' is not start/end; give each in nanoseconds "
			       "from the start of the collection or "
			       "with ns, us, "
			       "ms or s, such as 1.5s/2s, and leave one out for no limit",
			       spec);
	if (*from > *to)
		return ws_fail(e, "--filter-time: '%s' ends before it starts", spec);
	return 0;
}

int ws_filter_time_check(const char *spec, struct ws_err *e)
{
	uint64_t from, to;

	return parse_time(spec, &from, &to, e);
}

static void narrow(struct ws_stats *s, uint64_t from, uint64_t to)
{
	if (from > s->time_min)
		s->time_min = from;
	if (to < s->time_max)
		s->time_max = to;
	s->windowed = true;
}

int ws_filter_time(struct ws_stats *s, const char *spec, struct ws_err *e)
{
	uint64_t from, to;

	if (parse_time(spec, &from, &to, e) < 0)
		return -1;
	from += s->zero;
	narrow(s, strncmp(spec, "/", 1) ? from : 0,
	       to > UINT64_MAX - s->zero ? UINT64_MAX : to + s->zero);
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
	struct ws_stats *s;
	uint32_t key; /* of the text */
	struct ws_domains *domains;
	pthread_mutex_t lock;
	struct found *found;
	size_t count, cap;
};

/* Split name[@domain][/index]; a backslash takes away the meaning of the character after it. */
static int parse_nvtx(const char *spec, struct wanted *w, struct ws_err *e)
{
	char *out = ws_malloc(strlen(spec) + 1), *end;
	const char *index = NULL;
	size_t n = 0;

	memset(w, 0, sizeof(*w));
	w->name = out;
	for (const char *s = spec; *s; s++) {
		if (*s == '\\' && s[1]) {
			out[n++] = *++s;
		} else if (*s == '@' && !w->domain) {
			out[n++] = 0;
			w->domain = out + n;
		} else if (*s == '/') {
			index = s + 1;
			break;
		} else {
			out[n++] = *s;
		}
	}
	out[n] = 0;
	w->name_len = strlen(w->name);
	if (!index)
		return 0;
	errno = 0;
	w->index = strtoull(index, &end, 10);
	w->index_given = true;
	if (!isdigit((unsigned char)*index) || *end || errno) {
		free(out);
		return ws_fail(e,
			       "--filter-nvtx: '%s' after the slash is not a number; write "
			       "name[@domain][/index], with a backslash "
			       "before an @ or / "
			       "of the name itself",
			       index);
	}
	return 0;
}

static int look(void *ctx, const struct ws_batch *b)
{
	struct search *q = ctx;
	struct ws_domains *domains = &q->domains[b->worker];
	const uint64_t *type = b->col[ws_nvtx_type], *text = b->col[ws_nvtx_text],
		       *end = b->col[ws_nvtx_end];

	for (size_t i = 0; i < b->rows; i++) {
		uint32_t thread = (uint32_t)b->col[ws_nvtx_thread][i],
			 domain = (uint32_t)b->col[ws_nvtx_domain][i];

		if (type[i] == WS_NVTX_DOMAIN_CREATE)
			ws_domains_name(domains, q->s->who, thread, domain, (uint32_t)text[i]);
		if ((type[i] != WS_NVTX_PUSHPOP && type[i] != WS_NVTX_STARTEND) ||
		    ws_report_string_key(q->s->r, (uint32_t)text[i]) != q->key)
			continue;
		pthread_mutex_lock(&q->lock);
		ws_grow(q->found, q->cap, q->count + 1);
		q->found[q->count++] =
			(struct found){b->col[ws_nvtx_start][i], end[i], b->worker,
				       ws_domains_number(domains, q->s->who, thread, domain)};
		pthread_mutex_unlock(&q->lock);
	}
	return 0;
}

static uint32_t key_of_text(const struct ws_report *r, const struct wanted *w)
{
	for (uint32_t id = 1; id <= ws_report_string_count(r); id++) {
		size_t len;
		const char *s = ws_report_string(r, id, &len);

		if (len == w->name_len && !memcmp(s, w->name, len))
			return ws_report_string_key(r, id);
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? 1 : x->end > y->end ? -1 : 0;
}

/* Leave only those in the wanted domain; tells the name of another domain that has some. */
static const char *keep_domain(struct search *q, const struct ws_domain_table *t,
			       const struct wanted *w)
{
	const char *other = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < q->count; i++) {
		const struct found *f = &q->found[i];
		const struct ws_text *prefix =
			&t->prefixes[f->number ? t->canonical[f->worker][f->number] : 0];
		size_t len = prefix->len ? prefix->len - 1 : 0; /* less the colon */

		if (w->domain && strcmp(w->domain, "*") &&
		    (len != strlen(w->domain) || memcmp(prefix->s, w->domain, len)))
			other = prefix->s;
		else if (!w->domain && len)
			other = prefix->s;
		else
			q->found[kept++] = *f;
	}
	q->count = kept;
	return other;
}

static int choose(struct search *q, const struct wanted *w, const char *other, bool quiet,
		  struct ws_err *e)
{
	const struct found *f;
	uint64_t end;

	if (!q->count)
		return ws_fail(e, "--filter-nvtx: %s has no range '%s' in %s%s%s%s",
			       ws_report_path(q->s->r), w->name,
			       w->domain ? "domain " : "the default domain",
			       w->domain ? w->domain : "",
			       !other	? ""
			       : *other ? "; there is one in domain "
					: "; there is one in the default domain",
			       other ? other : "");
	if (w->index >= q->count)
		return ws_fail(e, "--filter-nvtx: %s has %zu ranges '%s', so the last index is %zu",
			       ws_report_path(q->s->r), q->count, w->name, q->count - 1);
	qsort(q->found, q->count, sizeof(*q->found), by_start);
	f = &q->found[w->index];
	end = f->end == WS_NO_TIME ? ws_time_last(q->s->r) : f->end;
	if (q->count > 1 && !w->index_given && !quiet)
		ws_say("%s has %zu ranges '%s'; the first is used, '%s/1' is the next",
		       ws_report_path(q->s->r), q->count, w->name, w->name);
	narrow(q->s, f->start, end);
	return 0;
}

int ws_filter_nvtx(struct ws_stats *s, const char *spec, bool quiet, struct ws_err *e)
{
	struct ws_scan sc = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) |
			   WS_COL(nvtx, text) | WS_COL(nvtx, domain) | WS_COL(nvtx, type),
		.time_max = UINT64_MAX,
	};
	uint32_t workers = ws_scan_workers(&sc);
	struct search q = {.s = s, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct ws_domain_table table;
	struct wanted w;
	const char *other;
	int rc;

	if (parse_nvtx(spec, &w, e) < 0)
		return -1;
	q.key = key_of_text(s->r, &w);
	q.domains = ws_calloc(workers, sizeof(*q.domains));
	if (q.key)
		ws_scan_run(s->r, &sc, look, &q, &s->damaged);
	ws_domain_table_make(&table, s->r, q.domains, workers);
	other = keep_domain(&q, &table, &w);
	rc = choose(&q, &w, other, quiet, e);
	for (uint32_t i = 0; i < workers; i++)
		ws_domains_free(&q.domains[i]);
	ws_domain_table_free(&table);
	free(q.domains);
	free(q.found);
	free(w.name);
	return rc;
}
