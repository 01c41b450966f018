/* domains.c - see domains.h. A domain whose name is not in the report is shown as [domain N]. */
#include "stats/domains.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/slots.h"
#include "base/sort.h"

static uint32_t number_of(struct ws_domains *d, uint64_t pair)
{
	uint32_t h = (uint32_t)ws_hash_word(0, pair), i;
	size_t at;

	if (!d->n) { /* number 0 */
		ws_grow(d->pairs, d->cap, 1);
		d->pairs[d->n++] = 0;
	}
	for (at = ws_slots_begin(&d->slots, &d->mask, d->n, 16, h);
	     (i = ws_slots_next(d->slots, d->mask, h, &at)); at++)
		if (d->pairs[i] == pair)
			return i;
	ws_grow(d->pairs, d->cap, d->n + 1);
	d->pairs[d->n] = pair;
	d->slots[at] = ws_slot(h, (uint32_t)d->n);
	return (uint32_t)d->n++;
}

static uint64_t pair_of(struct ws_domains *d, const struct ws_who *who, uint32_t thread,
			uint32_t domain)
{
	if (thread != d->last_thread || !d->last_process) {
		d->last_process = ws_who_thread(who, thread)->process;
		d->last_thread = thread;
	}
	return (uint64_t)d->last_process << 32 | domain;
}

uint32_t ws_domains_slow(struct ws_domains *d, const struct ws_who *who, uint32_t thread,
			 uint32_t domain)
{
	d->last_number = number_of(d, pair_of(d, who, thread, domain));
	d->last_domain = domain;
	return d->last_number;
}

void ws_domains_name(struct ws_domains *d, const struct ws_who *who, uint32_t thread,
		     uint32_t domain, uint32_t text)
{
	uint64_t pair = pair_of(d, who, thread, domain);

	d->last_domain = 0; /* last_number is not of this pair */
	ws_grow(d->names, d->names_cap, d->name_count + 1);
	d->names[d->name_count++] = (struct ws_domain_name){pair, text};
}

void ws_domains_free(struct ws_domains *d)
{
	free(d->pairs);
	free(d->slots);
	free(d->names);
	memset(d, 0, sizeof(*d));
}

/* ---- together ---- */

static int by_pair(const void *a, const void *b)
{
	const struct ws_domain_name *x = a, *y = b;

	if (x->pair != y->pair)
		return x->pair < y->pair ? -1 : 1;
	return x->text < y->text ? -1 : x->text > y->text;
}

static const struct ws_domain_name *all_names(struct ws_domains *workers, size_t worker_count,
					      size_t *count)
{
	struct ws_domain_name *all;
	size_t n = 0;

	for (size_t w = 0; w < worker_count; w++)
		n += workers[w].name_count;
	all = ws_malloc(n * sizeof(*all));
	*count = n;
	n = 0;
	for (size_t w = 0; w < worker_count; w++) {
		if (workers[w].name_count)
			memcpy(all + n, workers[w].names, workers[w].name_count * sizeof(*all));
		n += workers[w].name_count;
	}
	if (n)
		qsort(all, n, sizeof(*all), by_pair);
	return all;
}

static void make_prefix(struct ws_text *t, const struct ws_report *r, uint64_t pair,
			const struct ws_domain_name *names, size_t count)
{
	size_t lo, len;
	const char *s;

	lo = ws_bisect(count, mid, names[mid].pair < pair);
	if (lo < count && names[lo].pair == pair) {
		s = ws_report_string(r, names[lo].text, &len);
		ws_text_add(t, s, len);
		ws_text_puts(t, ":");
	} else {
		ws_text_printf(t, "[domain %" PRIu32 "]:", (uint32_t)pair);
	}
}

/* Number of a prefix among the distinct ones; there are few, and each pair is looked up once. */
static uint32_t intern(struct ws_domain_table *t, size_t *cap, struct ws_text *prefix)
{
	for (size_t i = 0; i < t->prefix_count; i++) {
		if (t->prefixes[i].len == prefix->len &&
		    !memcmp(t->prefixes[i].s, prefix->s, prefix->len)) {
			ws_text_free(prefix);
			return (uint32_t)i;
		}
	}
	ws_grow(t->prefixes, *cap, t->prefix_count + 1);
	t->prefixes[t->prefix_count] = *prefix;
	return (uint32_t)t->prefix_count++;
}

void ws_domain_table_make(struct ws_domain_table *t, const struct ws_report *r,
			  struct ws_domains *workers, size_t worker_count)
{
	size_t count, cap = 0;
	const struct ws_domain_name *names = all_names(workers, worker_count, &count);
	struct ws_text none = {0};

	memset(t, 0, sizeof(*t));
	t->workers = worker_count;
	t->canonical = ws_calloc(worker_count, sizeof(*t->canonical));
	ws_text_puts(&none, "");
	intern(t, &cap, &none);
	for (size_t w = 0; w < worker_count; w++) {
		t->canonical[w] = ws_calloc(workers[w].n + 1, sizeof(**t->canonical));
		for (size_t i = 1; i < workers[w].n; i++) {
			struct ws_text prefix = {0};

			make_prefix(&prefix, r, workers[w].pairs[i], names, count);
			t->canonical[w][i] = intern(t, &cap, &prefix);
		}
	}
	free((void *)names);
}

void ws_domain_table_free(struct ws_domain_table *t)
{
	for (size_t w = 0; w < t->workers; w++)
		free(t->canonical[w]);
	for (size_t i = 0; i < t->prefix_count; i++)
		ws_text_free(&t->prefixes[i]);
	free(t->canonical);
	free(t->prefixes);
}
