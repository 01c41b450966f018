/*
 * match.h - matches the items of several runs: those with the same kind and name are one.
 *
 * Items that only one side has are compared again. Names that differ only in their numbers
 * (template arguments, addresses, versions) or in the hash that a compiler put into them are taken
 * for one that was renamed: "gemm<64, 128>" and "gemm<128, 128>" are "gemm<#, #>".
 */
#ifndef WS_COMPARE_MATCH_H
#define WS_COMPARE_MATCH_H

#include "compare/items.h"

enum { WS_SIDES = 2 }; /* base, then new */

struct ws_match {
	enum ws_item_kind kind;
	char *name;		   /* the base's name; the form where there are several names */
	char *renamed;		   /* its only name in the new runs, if different; or NULL */
	size_t names[WS_SIDES];	   /* number of names that it has there */
	struct ws_series **series; /* by run, those of the base first; NULL: it is not there */
};

struct ws_matches {
	struct ws_match *matches;
	size_t count, cap;
	size_t runs[WS_SIDES];
};

/* Match the items of all runs: `runs` has those of the base first. The series belong to the items,
 * which must outlive the matches, and may be added to one another. */
void ws_match_items(struct ws_items *runs, const size_t counts[WS_SIDES],
		    struct ws_matches *matches);
void ws_matches_free(struct ws_matches *matches);

#endif
