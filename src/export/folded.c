/*
 * folded.c - call stacks as lines for flame graphs: "outermost;...;innermost cost", what
 * flamegraph.pl, inferno and others read.
 *
 * Costs are nanoseconds where these are known, else what the event counted. A semicolon in a name
 * becomes a colon, a control character a blank; Python functions have their file behind them, since
 * names like forward are many. Lines are in order of their text.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/flame.h"
#include "export/formats.h"
#include "text/text.h"

struct lines {
	struct ws_text *v;
	size_t n, cap;
};

static void put_name(struct ws_export *x, const struct ws_calltree *t, uint32_t unit,
		     struct ws_text *out)
{
	const struct ws_function *f = ws_stacks_function(t->stacks, t->units[unit].function);
	size_t from = out->len, len;
	const char *file;

	ws_text_utf8(out, f->name, f->len);
	if (f->kind == WS_FRAME_PYTHON && f->file) {
		file = ws_report_string(x->r, f->file, &len);
		ws_text_puts(out, " (");
		ws_text_utf8(out, file, len);
		ws_text_puts(out, ")");
	}
	for (size_t i = from; i < out->len; i++)
		if (out->s[i] == ';')
			out->s[i] = ':';
		else if ((unsigned char)out->s[i] < ' ' || out->s[i] == 0x7f)
			out->s[i] = ' ';
}

static void put_stack(struct ws_export *x, const struct ws_calltree *t, uint32_t node,
		      const struct ws_flames *f, struct ws_text *out)
{
	uint32_t path[WS_STACKS_DEEPEST];
	size_t n = ws_flame_path(t, node, 0, path, WS_STACKS_DEEPEST);

	while (n--) {
		put_name(x, t, path[n], out);
		if (n)
			ws_text_puts(out, ";");
	}
	ws_text_printf(out, " %" PRIu64 "\n", ws_flame_value(f, &t->nodes[node].self));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct ws_text *)a)->s, ((const struct ws_text *)b)->s);
}

static void add_profile(struct ws_export *x, const struct ws_flames *f, const struct ws_profile *p,
			struct lines *l)
{
	for (uint32_t i = 1; i < p->tree.n; i++) {
		if (!p->tree.nodes[i].self.count)
			continue;
		ws_grow(l->v, l->cap, l->n + 1);
		l->v[l->n] = (struct ws_text){0};
		put_stack(x, &p->tree, i, f, &l->v[l->n++]);
	}
}

int ws_xformat_write_folded(struct ws_export *x, FILE *out, struct ws_err *e)
{
	struct ws_profile_request q = {.by_process = ws_flame_has(x->by, "process"),
				       .by_thread = ws_flame_has(x->by, "thread")};
	struct ws_flames f;
	struct lines l = {0};
	int rc = ws_flames_make(x, &q, &f, e);

	for (size_t i = 0; !rc && i < f.n; i++)
		add_profile(x, &f, &f.v[i].p, &l);
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_text);
	for (size_t i = 0; i < l.n; i++) {
		fwrite(l.v[i].s, 1, l.v[i].len, out);
		ws_text_free(&l.v[i]);
	}
	x->rows = l.n;
	free(l.v);
	ws_flames_free(&f);
	return rc;
}
