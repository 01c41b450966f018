/*
 * flame.h - what the formats of call stacks (folded, speedscope, pprof) share: which profiles they
 * make, and the units on a stack.
 */
#ifndef WS_EXPORT_FLAME_H
#define WS_EXPORT_FLAME_H

#include "export/export.h"
#include "query/profile.h"

enum { WS_FLAMES = 4 }; /* kinds of profiles */

struct ws_flame {
	enum ws_profile_kind kind;
	struct ws_profile profile;
};

struct ws_flames {
	struct ws_flame flames[WS_FLAMES];
	size_t count;
	bool timed; /* all costs are known in ns, and values are ns; otherwise values are weights */
};

/*
 * Make the profiles that --show asks for, except for those that would be empty. `request` has what
 * the format wants of them (unit, by, order); its kind and times are set here. Returns 0, or -1
 * with a message, also when all would be empty. Free with ws_free_flames in any case.
 */
int ws_make_flames(struct ws_cell_context *export, const struct ws_profile_request *request,
		   struct ws_flames *flames, struct ws_err *err);
void ws_free_flames(struct ws_flames *flames);

/* Whether the word is in a list of words separated by commas. NULL is an empty list. */
bool ws_has_flame_word(const char *list, const char *word);

/* The cost to show: ns, or the weight of the profile. */
static inline uint64_t ws_choose_flame_value(const struct ws_flames *flames,
					     const struct ws_cost *cost)
{
	if (flames->timed)
		return cost->ns;
	return cost->weight;
}

/* The name of a kind, "on-cpu"..., and of the items it counts, "samples", "waits"... */
const char *ws_name_flame_kind(enum ws_profile_kind kind);
const char *ws_name_flame_items(enum ws_profile_kind kind);

/* Store the units of the node's stack, from the innermost outwards, without `roots` levels at the
 * top. Returns their number, at most `most`. */
size_t ws_find_flame_path(const struct ws_calltree *calltree, uint32_t node, uint32_t roots,
			  uint32_t *out, size_t most);
/* Store the units of the upper `roots` levels above the node (its process and thread), from the
 * top. */
void ws_find_flame_roots(const struct ws_calltree *calltree, uint32_t node, uint32_t roots,
			 uint32_t *out);

#endif
