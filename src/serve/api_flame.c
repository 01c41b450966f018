/*
 * api_flame.c - where the time of a window went, by call stack: as a tree (top-down, or bottom-up
 * from the innermost) and as a flat list. What there is to count, and how, is query/profile.h's:
 * CPU samples, waits, Python samples, work on GPUs by range; of work by operator or call stack,
 * flame_gpu.c's.
 *
 * Subtrees below a two-thousandth of the total are left out, since a page cannot show them; when
 * there are still too many, the smallest are left out first.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/text.h"
#include "base/choose.h"
#include "query/profile.h"
#include "serve/flame.h"

enum { MOST_FLAT = 500, MOST_NODES = 20000, MOST_DEPTH = 600 };

struct flame {
	struct ws_api_call *call;
	const struct ws_profile *profile;
	const struct ws_calltree *tree;
	struct ws_cost *total;
	uint32_t *first, *next;
	uint64_t least; /* what takes no more is left out */
};

/* Shares are computed from time where that is known for all. */
static uint64_t value(const struct flame *flame, const struct ws_cost *cost)
{
	return flame->profile->timed ? cost->ns : cost->weight;
}

static int compare_sizes(const void *first, const void *second, void *ctx)
{
	const struct flame *flame = ctx;
	uint64_t m = value(flame, &flame->total[*(const uint32_t *)first]),
		 n = value(flame, &flame->total[*(const uint32_t *)second]);

	return ws_compare(n, m);
}

static void put_unit(const struct flame *flame, uint32_t unit)
{
	struct ws_text name = {0};

	ws_text_puts(&name, "");
	ws_calltree_add_unit_name(flame->tree, unit, &name);
	ws_put_json_text(flame->call->out, "name", name.text, ws_min(name.len, 16384));
	ws_text_free(&name);
}

static void put_node(struct flame *flame, uint32_t at, uint32_t depth)
{
	struct ws_text *text = flame->call->out;
	uint32_t *kids = NULL;
	size_t n = 0, cap = 0;

	ws_put_json_comma(text);
	ws_text_puts(text, "{");
	if (at)
		put_unit(flame, flame->tree->nodes[at].unit);
	ws_put_json_int(text, "total", (int64_t)value(flame, &flame->total[at]));
	ws_put_json_int(text, "self", (int64_t)value(flame, &flame->tree->nodes[at].self));
	ws_put_json_key(text, "children");
	ws_text_puts(text, "[");
	for (uint32_t i = flame->first[at]; i && depth < MOST_DEPTH; i = flame->next[i]) {
		if (value(flame, &flame->total[i]) <= flame->least)
			continue;
		ws_grow(kids, cap, n + 1);
		kids[n++] = i;
	}
	if (n)
		qsort_r(kids, n, sizeof(*kids), compare_sizes, flame);
	for (size_t i = 0; i < n; i++)
		put_node(flame, kids[i], depth + 1);
	free(kids);
	ws_text_puts(text, "]}");
}

/* No node has more than its parent, so the nodes above this limit form a tree, of at most
 * MOST_NODES nodes. */
static uint64_t least_shown(const struct flame *flame)
{
	uint64_t least = value(flame, &flame->total[0]) / 2000;

	for (;; least += least / 4 + 1) {
		size_t n = 0;

		for (uint32_t i = 1; i < flame->tree->count; i++)
			n += value(flame, &flame->total[i]) > least;
		if (n <= MOST_NODES)
			return least;
	}
}

static int compare_self(const void *first, const void *second, void *ctx)
{
	const struct flame *flame = ctx;
	const struct ws_flat *left = first, *right = second;
	uint64_t m = value(flame, &left->self), n = value(flame, &right->self);

	if (m == n) {
		m = value(flame, &left->total);
		n = value(flame, &right->total);
	}
	return ws_compare(n, m);
}

static int compare_all(const void *first, const void *second, void *ctx)
{
	const struct flame *flame = ctx;
	const struct ws_flat *left = first, *right = second;
	uint64_t m = value(flame, &left->total), n = value(flame, &right->total);

	return ws_compare(n, m);
}

/* Of very many the first by what they did themselves, and then, of the others, by all that they
 * took. */
static void put_flat(struct flame *flame)
{
	struct ws_text *text = flame->call->out;
	size_t n;
	struct ws_flat *flat = ws_calltree_make_rows(flame->tree, 0, &n);

	if (n)
		qsort_r(flat, n, sizeof(*flat), compare_self, flame);
	ws_put_json_key(text, "flat");
	ws_text_puts(text, "[");
	if (n > MOST_FLAT)
		qsort_r(flat + MOST_FLAT, n - MOST_FLAT, sizeof(*flat), compare_all, flame);
	for (size_t i = 0; i < n && i < 2 * MOST_FLAT; i++) {
		const char *module = ws_calltree_get_module(flame->tree, flat[i].unit);

		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		put_unit(flame, flat[i].unit);
		ws_put_json_text(text, "module", module, strnlen(module, 4096));
		ws_put_json_int(text, "self", (int64_t)value(flame, &flat[i].self));
		ws_put_json_int(text, "total", (int64_t)value(flame, &flat[i].total));
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
	free(flat);
}

static void put_profile(struct ws_api_call *call, const struct ws_profile *profile, bool up,
			uint32_t unread)
{
	struct flame flame = {.call = call, .profile = profile, .tree = &profile->tree};
	struct ws_calltree turned;

	ws_text_puts(call->out, "{");
	ws_put_json_int(call->out, "samples", (int64_t)profile->total.count);
	ws_put_json_int(call->out, "unread", unread);
	ws_put_json_string(call->out, "unit", profile->timed ? "ns" : profile->weight);
	put_flat(&flame);
	if (up) {
		ws_calltree_invert(&profile->tree, 0, &turned);
		flame.tree = &turned;
	}
	flame.total = ws_calltree_sum_totals(flame.tree);
	ws_calltree_list_children(flame.tree, &flame.first, &flame.next);
	flame.least = least_shown(&flame);
	ws_put_json_key(call->out, "root");
	put_node(&flame, 0, 0);
	ws_text_puts(call->out, "}");
	free(flame.total);
	free(flame.first);
	free(flame.next);
	if (up)
		ws_calltree_free(&turned);
}

/* Kinds beyond those of query/profile.h. */
enum { BY_LAUNCH_STACK = WS_PROFILE_GPU + 1 };

int ws_api_flame(struct ws_api_call *call, struct ws_err *err)
{
	struct ws_profile_request request = {0};
	struct ws_profile profile;
	int64_t t0, t1, up, kind;
	uint32_t unread = 0;
	bool fold;
	int rc;

	if (!ws_param_window(call, &t0, &t1, err) ||
	    !ws_param_int(call, "up", ws_make_range(0, 1, 0), &up, err) ||
	    !ws_param_int(call, "kind",
			  ws_make_range(WS_PROFILE_ON_CPU, BY_LAUNCH_STACK, WS_PROFILE_ON_CPU),
			  &kind, err) ||
	    !ws_param_fold(call, &fold, err))
		return 400;
	request.fold = fold ? call->lanes->fold : NULL;
	request.kind = (enum ws_profile_kind)kind;
	request.time_min = t0 < 0 ? 0 : (uint64_t)t0;
	request.time_max = t1 < 0 ? 0 : (uint64_t)t1;
	if (kind == BY_LAUNCH_STACK ||
	    (kind == WS_PROFILE_GPU && ws_report_count_rows(call->rep->report, WS_TABLE_op)))
		rc = ws_flame_gpu(call, &(struct ws_flame_window){t0, t1, kind == BY_LAUNCH_STACK},
				  &profile, &unread, err);
	else
		rc = ws_profile_make(call->rep->report, call->lanes->who, &request, &profile, err);
	if (!rc)
		put_profile(call, &profile, up, unread);
	ws_profile_free(&profile);
	return rc ? WS_API_SAY : 0;
}
