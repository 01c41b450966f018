/* domains.c - see domains.h. A domain whose name is not in the report is shown as [domain N]. */
#include "stats/domains.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/slots.h"
#include "base/choose.h"
#include "base/sort.h"

static uint32_t number_pair(struct ws_domains *domains, uint64_t pair)
{
	uint32_t hash = (uint32_t)ws_hash_word(0, pair), number;
	size_t at;

	if (!domains->pair_count) { /* number 0 is the default domain */
		ws_grow(domains->pairs, domains->pair_capacity, 1);
		domains->pairs[domains->pair_count++] = 0;
	}
	for (at = ws_begin_slot_search(&domains->slots, &domains->mask, domains->pair_count, 16,
				       hash);
	     (number = ws_next_in_slots(domains->slots, domains->mask, hash, &at)); at++)
		if (domains->pairs[number] == pair)
			return number;
	ws_grow(domains->pairs, domains->pair_capacity, domains->pair_count + 1);
	domains->pairs[domains->pair_count] = pair;
	domains->slots[at] = ws_make_slot(hash, (uint32_t)domains->pair_count);
	return (uint32_t)domains->pair_count++;
}

static uint64_t make_pair(struct ws_domains *domains, const struct ws_names_by_id *who,
			  uint32_t thread, uint32_t domain)
{
	if (thread != domains->last_thread || !domains->last_process) {
		domains->last_process = ws_find_thread(who, thread)->process;
		domains->last_thread = thread;
	}
	return (uint64_t)domains->last_process << 32 | domain;
}

uint32_t ws_domains_look_up(struct ws_domains *domains, const struct ws_names_by_id *who,
			    uint32_t thread, uint32_t domain)
{
	domains->last_number = number_pair(domains, make_pair(domains, who, thread, domain));
	domains->last_domain = domain;
	return domains->last_number;
}

void ws_domains_add_name(struct ws_domains *domains, const struct ws_names_by_id *who,
			 uint32_t thread, uint32_t domain, uint32_t text)
{
	uint64_t pair = make_pair(domains, who, thread, domain);

	domains->last_domain = 0; /* last_number belongs to another pair */
	ws_grow(domains->names, domains->name_capacity, domains->name_count + 1);
	domains->names[domains->name_count++] = (struct ws_domain_name){pair, text};
}

void ws_domains_free(struct ws_domains *domains)
{
	free(domains->pairs);
	free(domains->slots);
	free(domains->names);
	memset(domains, 0, sizeof(*domains));
}

/* ---- all workers together ---- */

static int compare_pairs(const void *first, const void *second)
{
	const struct ws_domain_name *left = first, *right = second;

	if (left->pair != right->pair)
		return ws_compare(left->pair, right->pair);
	return ws_compare(left->text, right->text);
}

static const struct ws_domain_name *gather_names(struct ws_domains *workers, size_t worker_count,
						 size_t *count)
{
	struct ws_domain_name *all;
	size_t all_count = 0;

	for (size_t worker = 0; worker < worker_count; worker++)
		all_count += workers[worker].name_count;
	all = ws_malloc(all_count * sizeof(*all));
	*count = all_count;
	all_count = 0;
	for (size_t worker = 0; worker < worker_count; worker++) {
		if (workers[worker].name_count)
			memcpy(all + all_count, workers[worker].names,
			       workers[worker].name_count * sizeof(*all));
		all_count += workers[worker].name_count;
	}
	if (all_count)
		qsort(all, all_count, sizeof(*all), compare_pairs);
	return all;
}

/* Append "name:" of the domain `pair`; `names` are sorted. */
static void put_prefix(struct ws_text *text, const struct ws_report *report, uint64_t pair,
		       const struct ws_domain_name *names, size_t count)
{
	size_t low, length;
	const char *word;

	low = ws_bisect(count, mid, names[mid].pair < pair);
	if (low < count && names[low].pair == pair) {
		word = ws_report_string(report, names[low].text, &length);
		ws_text_add(text, word, length);
		ws_text_puts(text, ":");
	} else {
		ws_text_printf(text, "[domain %" PRIu32 "]:", (uint32_t)pair);
	}
}

/* The index of a prefix, which is added if it is new and freed otherwise. A linear search suffices:
 * there are few prefixes, and each pair is looked up once. */
static uint32_t intern_prefix(struct ws_domain_table *table, size_t *capacity,
			      struct ws_text *prefix)
{
	for (size_t i = 0; i < table->prefix_count; i++) {
		if (table->prefixes[i].len == prefix->len &&
		    !memcmp(table->prefixes[i].text, prefix->text, prefix->len)) {
			ws_text_free(prefix);
			return (uint32_t)i;
		}
	}
	ws_grow(table->prefixes, *capacity, table->prefix_count + 1);
	table->prefixes[table->prefix_count] = *prefix;
	return (uint32_t)table->prefix_count++;
}

void ws_make_domain_table(struct ws_domain_table *table, const struct ws_report *report,
			  struct ws_domains *workers, size_t worker_count)
{
	size_t count, capacity = 0;
	const struct ws_domain_name *names = gather_names(workers, worker_count, &count);
	struct ws_text none = {0};

	memset(table, 0, sizeof(*table));
	table->workers = worker_count;
	table->canonical = ws_calloc(worker_count, sizeof(*table->canonical));
	ws_text_puts(&none, "");
	intern_prefix(table, &capacity, &none);
	for (size_t worker = 0; worker < worker_count; worker++) {
		table->canonical[worker] =
			ws_calloc(workers[worker].pair_count + 1, sizeof(**table->canonical));
		for (size_t i = 1; i < workers[worker].pair_count; i++) {
			struct ws_text prefix = {0};

			put_prefix(&prefix, report, workers[worker].pairs[i], names, count);
			table->canonical[worker][i] = intern_prefix(table, &capacity, &prefix);
		}
	}
	free((void *)names);
}

void ws_free_domain_table(struct ws_domain_table *table)
{
	for (size_t worker = 0; worker < table->workers; worker++)
		free(table->canonical[worker]);
	for (size_t i = 0; i < table->prefix_count; i++)
		ws_text_free(&table->prefixes[i]);
	free(table->canonical);
	free(table->prefixes);
}
