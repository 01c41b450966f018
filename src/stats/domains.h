/*
 * domains.h - names of NVTX domains: (process, domain number) to name, gathered while ranges are
 * scanned.
 *
 * Each process numbers its own domains, and the row that names one may be in any block. So each
 * worker numbers the pairs and collects the names that it finds; they are combined when everything
 * has been read.
 */
#ifndef WS_STATS_DOMAINS_H
#define WS_STATS_DOMAINS_H

#include "base/mem.h"
#include "query/query.h"

/* The domains that one worker found. Starts zeroed. */
struct ws_domains {
	uint64_t *pairs; /* process << 32 | domain by the number given to the pair, from 1; number 0
		    is the default domain of any process */
	size_t pair_count, pair_capacity;
	uint64_t *slots; /* base/slots.h */
	size_t mask;
	struct ws_domain_name {
		uint64_t pair;
		uint32_t text;
	} * names;
	size_t name_count, name_capacity;
	uint32_t last_thread, last_domain, last_number; /* the pair of the last row */
	uint32_t last_process;
};

/* ws_domains_get_number for a domain that differs from that of the last row. */
uint32_t ws_domains_look_up(struct ws_domains *domains, const struct ws_names_by_id *who,
			    uint32_t thread, uint32_t domain);
/* Note that according to a row of this thread, the text with the id `text` names the domain. */
void ws_domains_add_name(struct ws_domains *domains, const struct ws_names_by_id *who,
			 uint32_t thread, uint32_t domain, uint32_t text);
void ws_domains_free(struct ws_domains *domains);

/* The number of the domain of a row of this thread. */
static inline uint32_t ws_domains_get_number(struct ws_domains *domains,
					     const struct ws_names_by_id *who, uint32_t thread,
					     uint32_t domain)
{
	if (!domain)
		return 0;
	if (thread == domains->last_thread && domain == domains->last_domain)
		return domains->last_number;
	return ws_domains_look_up(domains, who, thread, domain);
}

/* The domains of all workers together. */
struct ws_domain_table {
	uint32_t **canonical;	  /* by worker and number of the domain: index in `prefixes` */
	struct ws_text *prefixes; /* "name:" of each distinct name; the first, that of the default
				     domain, is empty */
	size_t prefix_count;
	size_t workers;
};
void ws_make_domain_table(struct ws_domain_table *table, const struct ws_report *report,
			  struct ws_domains *workers, size_t worker_count);
void ws_free_domain_table(struct ws_domain_table *table);

/* The names of the two styles of ranges in reports. */
static inline const char *ws_get_range_style_name(bool startend)
{
	return startend ? "StartEnd" : "PushPop";
}

#endif
