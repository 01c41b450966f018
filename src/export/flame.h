/*
 * flame.h - what the formats of call stacks (folded, speedscope, pprof) share: which profiles to
 * make, and names fit for a graph.
 */
#ifndef WS_EXPORT_FLAME_H
#define WS_EXPORT_FLAME_H

#include "export/export.h"
#include "query/profile.h"

enum { WS_FLAMES = 4 }; /* most kinds of profiles */

struct ws_flame {
	enum ws_profile_kind kind;
	struct ws_profile profile;
};

struct ws_flames {
	struct ws_flame flames[WS_FLAMES];
	size_t n;
	bool timed; /* all costs can be told in nanoseconds: then they are, else each profile's own
		       weight is */
};

/*
 * Make the profiles that --show asks for, without those that have nothing in them. `q` has what the
 * format wants of them (unit, by, order); its kind and times are filled in. Returns 0, or -1 with a
 * message, also when there is nothing at all. Free with ws_flames_free in any case.
 */
int ws_flames_make(struct ws_export *export, const struct ws_profile_request *request,
		   struct ws_flames *flames, struct ws_err *err);
void ws_flames_free(struct ws_flames *flames);

/* Is the word in a list of words separated by commas? NULL is an empty list. */
bool ws_flame_has(const char *list, const char *word);

static inline uint64_t ws_flame_value(const struct ws_flames *flames, const struct ws_cost *cost)
{
	return flames->timed ? cost->ns : cost->weight;
}

/* "on-cpu"..., and what one item of it is called: "samples", "waits"... */
const char *ws_flame_kind(enum ws_profile_kind kind);
const char *ws_flame_items(enum ws_profile_kind kind);

/* Units of the node's stack, from the innermost outwards, without `roots` levels at the top.
 * Returns how many; at most `most`. */
size_t ws_flame_path(const struct ws_calltree *calltree, uint32_t node, uint32_t roots,
		     uint32_t *out, size_t most);
/* The node's process and thread: the nodes of the levels below `roots`, from the top. */
void ws_flame_roots(const struct ws_calltree *calltree, uint32_t node, uint32_t roots,
		    uint32_t *out);

#endif
