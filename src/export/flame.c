/* flame.c - see flame.h. */
#include "export/flame.h"

#include <inttypes.h>
#include <string.h>

static const struct {
	const char *name, *items;
} kinds[WS_FLAMES] = {[WS_PROFILE_ON_CPU] = {"on-cpu", "samples"},
		      [WS_PROFILE_OFF_CPU] = {"off-cpu", "waits"},
		      [WS_PROFILE_PYTHON] = {"python", "samples"},
		      [WS_PROFILE_GPU] = {"gpu", "operations"}};

const char *ws_flame_kind(enum ws_profile_kind k)
{
	return kinds[k].name;
}

const char *ws_flame_items(enum ws_profile_kind k)
{
	return kinds[k].items;
}

bool ws_flame_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *s = list; s && *s; s += strcspn(s, ","), s += *s == ',')
		if (strcspn(s, ",") == n && !memcmp(s, word, n))
			return true;
	return false;
}

/* The one range of --times as a window of the session clock; its colons make no difference to
 * moments and to waits, which are cut.
 */
static int set_times(const struct ws_export *x, struct ws_profile_request *q, struct ws_err *e)
{
	q->time_min = 0;
	q->time_max = UINT64_MAX;
	if (!x->span_count)
		return 0;
	if (x->span_count > 1)
		return ws_fail(e, "--times: the type %s takes one range, but %zu are given",
			       x->type, x->span_count);
	if (x->spans[0].from > 0)
		q->time_min = x->zero + (uint64_t)x->spans[0].from;
	if (x->spans[0].to < 0)
		q->time_max = 0;
	else if (x->spans[0].to != INT64_MAX)
		q->time_max = x->zero + (uint64_t)x->spans[0].to;
	return 0;
}

static int make(struct ws_export *x, const struct ws_profile_request *q, struct ws_flames *f,
		struct ws_err *e)
{
	struct ws_flame *v = &f->v[f->n];

	v->kind = q->kind;
	if (ws_profile_make(x->r, x->who, q, &v->p, e) < 0) {
		ws_profile_free(&v->p);
		return -1;
	}
	x->damaged += v->p.damaged;
	if (!v->p.total.count) {
		ws_profile_free(&v->p);
		return 0;
	}
	if (v->p.truncated && !x->quiet)
		ws_say("%s: the stacks of %" PRIu64 " of %" PRIu64 " samples are incomplete",
		       x->input, v->p.truncated, v->p.total.count);
	f->timed &= v->p.timed;
	f->n++;
	return 0;
}

int ws_flames_make(struct ws_export *x, const struct ws_profile_request *q, struct ws_flames *f,
		   struct ws_err *e)
{
	const char *show = x->show ? x->show : "on-cpu";
	struct ws_profile_request one = *q;

	*f = (struct ws_flames){.timed = true};
	if (set_times(x, &one, e) < 0)
		return -1;
	for (int k = 0; k < WS_FLAMES; k++) {
		one.kind = (enum ws_profile_kind)k;
		if (ws_flame_has(show, kinds[k].name) && make(x, &one, f, e) < 0)
			return -1;
	}
	if (!f->n)
		return ws_fail(e, "%s has nothing of %s%s", x->input, show,
			       x->span_count ? " in the time asked for" : "");
	if (!f->timed && f->n > 1)
		return ws_fail(e,
			       "the time of CPU samples of the event %s is not known, so they "
			       "cannot stand beside others; export "
			       "each by itself",
			       f->v[0].p.weight);
	return 0;
}

void ws_flames_free(struct ws_flames *f)
{
	for (size_t i = 0; i < f->n; i++)
		ws_profile_free(&f->v[i].p);
	f->n = 0;
}

void ws_flame_roots(const struct ws_calltree *t, uint32_t node, uint32_t roots, uint32_t *out)
{
	uint32_t depth = 0;

	for (uint32_t n = node; n; n = t->nodes[n].parent)
		depth++;
	for (; node; node = t->nodes[node].parent, depth--)
		if (depth <= roots)
			out[depth - 1] = t->nodes[node].unit;
}

size_t ws_flame_path(const struct ws_calltree *t, uint32_t node, uint32_t roots, uint32_t *out,
		     size_t most)
{
	size_t n = 0, depth = 0;

	for (uint32_t i = node; i; i = t->nodes[i].parent)
		depth++;
	for (; node && depth > roots && n < most; node = t->nodes[node].parent, depth--)
		out[n++] = t->nodes[node].unit;
	return n;
}
