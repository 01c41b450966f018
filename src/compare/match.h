/*
 * match.h - the items of several runs side by side: those of one kind and name are one.
 *
 * What only one side has is looked at again. Names that then differ only in their numbers
 * (template arguments, addresses, versions) or in the hash that a compiler put into them are taken
 * for one that was renamed: "gemm<64, 128>" and "gemm<128, 128>" are "gemm<#, #>".
 */
#ifndef WS_COMPARE_MATCH_H
#define WS_COMPARE_MATCH_H

#include "compare/items.h"

enum { WS_SIDES = 2 }; /* base, then new */

struct ws_match {
	enum ws_item_kind kind;
	char *name;		/* as the base has it; of several names the form */
	char *renamed;		/* its only name in the new runs, where that is another; or NULL */
	size_t names[WS_SIDES]; /* that it has there */
	struct ws_series **series; /* by run, those of the base first; NULL: it is not there */
};

struct ws_matches {
	struct ws_match *matches;
	size_t count, cap;
	size_t runs[WS_SIDES];
};

/* Put the items of all runs side by side: `runs` has those of the base first. Series are those of
 * the items, which must outlive the matches and may be added to one another. */
void ws_match_items(struct ws_items *runs, const size_t counts[WS_SIDES],
		    struct ws_matches *matches);
void ws_matches_free(struct ws_matches *matches);

#endif
