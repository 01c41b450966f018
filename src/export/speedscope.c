/*
 * speedscope.c - call stacks as JSON for speedscope.app: a profile for each thread.
 *
 * Samples are in order of time, consecutive ones of one stack as one, so that "Time Order" shows
 * what came after what; waits and work on GPUs are in order of stacks. Weights are nanoseconds
 * where these are known. Functions are listed once, in front; a stack is a list of their numbers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/flame.h"
#include "export/formats.h"
#include "text/text.h"

struct output {
	struct ws_export *x;
	FILE *f;
	const struct ws_flames *flames;
	struct ws_text text;
	bool first; /* no comma before the next profile */
};

static void flush(struct output *o)
{
	fwrite(o->text.s, 1, o->text.len, o->f);
	o->text.len = 0;
}

static void put_frame(struct output *o, const struct ws_calltree *t, uint32_t unit)
{
	const struct ws_unit_info *u = &t->units[unit];
	const struct ws_function *f = ws_stacks_function(t->stacks, u->function);
	size_t len;
	const char *file = ws_report_string(o->x->r, f->file, &len);

	ws_text_puts(&o->text, "{\"name\":");
	ws_text_json(&o->text, f->name, f->len);
	if (!len) {
		file = ws_stacks_origin(t->stacks, f);
		len = strlen(file);
	}
	if (len) {
		ws_text_puts(&o->text, ",\"file\":");
		ws_text_json(&o->text, file, len);
	}
	ws_text_puts(&o->text, "}");
}

/* Each profile's units follow one another in the list of frames; returns where they begin. */
static size_t put_frames(struct output *o, size_t *first)
{
	size_t n = 0;

	ws_text_puts(&o->text, "\"shared\":{\"frames\":[");
	for (size_t i = 0; i < o->flames->n; i++) {
		const struct ws_calltree *t = &o->flames->v[i].p.tree;

		first[i] = n;
		for (uint32_t u = 1; u < t->unit_count; u++, n++) {
			ws_text_puts(&o->text, n ? ",\n" : "\n");
			put_frame(o, t, u);
			flush(o);
		}
	}
	ws_text_puts(&o->text, "]},\n");
	return n;
}

static void put_path(struct output *o, const struct ws_profile *p, uint32_t node, size_t first)
{
	uint32_t path[WS_STACKS_DEEPEST];
	size_t n = ws_flame_path(&p->tree, node, p->roots, path, WS_STACKS_DEEPEST);

	ws_text_puts(&o->text, "[");
	while (n--)
		ws_text_printf(&o->text, "%zu%s", first + path[n] - 1, n ? "," : "");
	ws_text_puts(&o->text, "]");
}

/* One profile: `n` steps of one thread. */
static void put_profile(struct output *o, const struct ws_flame *flame, size_t first,
			const struct ws_profile_step *s, size_t n)
{
	const struct ws_profile *p = &flame->p;
	uint32_t roots[2] = {0, 0};
	struct ws_text name = {0};
	uint64_t sum = 0;

	ws_flame_roots(&p->tree, s[0].node, p->roots, roots);
	ws_calltree_name(&p->tree, roots[0], &name);
	ws_text_puts(&name, " ");
	ws_calltree_name(&p->tree, roots[1], &name);
	if (flame->kind != WS_PROFILE_ON_CPU)
		ws_text_printf(&name, " %s", ws_flame_kind(flame->kind));
	ws_text_printf(&o->text, "%s{\"type\":\"sampled\",\"name\":", o->first ? "" : ",\n");
	o->first = false;
	ws_text_json(&o->text, name.s, name.len);
	for (size_t i = 0; i < n; i++)
		sum += ws_flame_value(o->flames, &s[i].cost);
	ws_text_printf(&o->text,
		       ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n\"samples\":[",
		       o->flames->timed ? "nanoseconds" : "none", sum);
	for (size_t i = 0; i < n; i++) {
		put_path(o, p, s[i].node, first);
		ws_text_puts(&o->text, i + 1 < n ? ",\n" : "],\n\"weights\":[");
		flush(o);
	}
	for (size_t i = 0; i < n; i++) {
		ws_text_printf(&o->text, "%" PRIu64 "%s", ws_flame_value(o->flames, &s[i].cost),
			       i + 1 < n ? "," : "]}");
		flush(o);
	}
	o->x->rows += n;
	ws_text_free(&name);
}

static int by_root(const void *a, const void *b)
{
	const struct ws_profile_step *x = a, *y = b;

	return x->thread != y->thread ? (x->thread < y->thread ? -1 : 1)
	       : x->node < y->node    ? -1
				      : x->node > y->node;
}

/* What is not in order of time: a step for each node, by its root, which stands in for the thread.
 */
static void make_steps(struct ws_profile *p)
{
	uint32_t *root = ws_calloc(p->tree.n, sizeof(*root)),
		 *depth = ws_calloc(p->tree.n, sizeof(*depth));
	size_t cap = 0;

	for (uint32_t i = 1; i < p->tree.n; i++) {
		const struct ws_node *node = &p->tree.nodes[i];

		depth[i] = depth[node->parent] + 1;
		root[i] = depth[i] <= p->roots ? i : root[node->parent];
		if (!node->self.count)
			continue;
		ws_grow(p->steps, cap, p->step_count + 1);
		p->steps[p->step_count++] = (struct ws_profile_step){root[i], i, node->self};
	}
	if (p->step_count)
		qsort(p->steps, p->step_count, sizeof(*p->steps), by_root);
	free(root);
	free(depth);
}

static void put_flame(struct output *o, struct ws_flame *flame, size_t first)
{
	struct ws_profile *p = &flame->p;

	if (!p->steps)
		make_steps(p);
	for (size_t i = 0, end; i < p->step_count; i = end) {
		for (end = i + 1;
		     end < p->step_count && p->steps[end].thread == p->steps[i].thread;)
			end++;
		put_profile(o, flame, first, p->steps + i, end - i);
	}
}

int ws_xformat_write_speedscope(struct ws_export *x, FILE *f, struct ws_err *e)
{
	struct ws_profile_request q = {.by_process = true, .by_thread = true, .ordered = true};
	struct ws_flames flames;
	struct output o = {.x = x, .f = f, .flames = &flames, .first = true};
	size_t first[WS_FLAMES];
	const char *name = strrchr(x->input, '/') ? strrchr(x->input, '/') + 1 : x->input;

	if (ws_flames_make(x, &q, &flames, e) < 0) {
		ws_flames_free(&flames);
		return -1;
	}
	ws_text_puts(&o.text, "{\"$schema\":\"https://www.speedscope.app/"
			      "file-format-schema.json\",\"exporter\":\"warpsight " WS_VERSION
			      "\",\"name\":");
	ws_text_json(&o.text, name, strlen(name));
	ws_text_puts(&o.text, ",\"activeProfileIndex\":0,\n");
	put_frames(&o, first);
	ws_text_puts(&o.text, "\"profiles\":[");
	for (size_t i = 0; i < flames.n; i++)
		put_flame(&o, &flames.v[i], first[i]);
	ws_text_puts(&o.text, "]}\n");
	flush(&o);
	ws_text_free(&o.text);
	ws_flames_free(&flames);
	return 0;
}
