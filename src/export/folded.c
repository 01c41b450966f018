/*
 * folded.c - call stacks as lines for flame graphs: "outermost;...;innermost cost", for
 * flamegraph.pl, inferno and others.
 *
 * Costs are nanoseconds where these are known, else what the event counted. A semicolon in a name
 * becomes a colon, a control character a blank; Python functions are followed by their file, since
 * many share names like forward. Lines are in order of their text.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/flame.h"
#include "export/formats.h"
#include "text/text.h"

struct lines {
	struct ws_text *text;
	size_t n, cap;
};

static void put_name(struct ws_cell_context *export, const struct ws_calltree *calltree,
		     uint32_t unit, struct ws_text *out)
{
	const struct ws_function *function =
		ws_stacks_get_function(calltree->stacks, calltree->units[unit].function);
	size_t from = out->len, len;
	const char *file;

	ws_put_valid_utf8(out, function->name, function->len);
	if (function->kind == WS_FRAME_PYTHON && function->file) {
		file = ws_report_string(export->report, function->file, &len);
		ws_text_puts(out, " (");
		ws_put_valid_utf8(out, file, len);
		ws_text_puts(out, ")");
	}
	for (size_t i = from; i < out->len; i++)
		if (out->text[i] == ';')
			out->text[i] = ':';
		else if ((unsigned char)out->text[i] < ' ' || out->text[i] == 0x7f)
			out->text[i] = ' ';
}

static void put_stack(struct ws_cell_context *export, const struct ws_calltree *calltree,
		      uint32_t node, const struct ws_flames *flames, struct ws_text *out)
{
	uint32_t path[WS_STACKS_DEEPEST];
	size_t n = ws_find_flame_path(calltree, node, 0, path, WS_STACKS_DEEPEST);

	while (n--) {
		put_name(export, calltree, path[n], out);
		if (n)
			ws_text_puts(out, ";");
	}
	ws_text_printf(out, " %" PRIu64 "\n",
		       ws_choose_flame_value(flames, &calltree->nodes[node].self));
}

static int by_text(const void *first, const void *second)
{
	return strcmp(((const struct ws_text *)first)->text,
		      ((const struct ws_text *)second)->text);
}

static void add_profile(struct ws_cell_context *export, const struct ws_flames *flames,
			const struct ws_profile *profile, struct lines *lines)
{
	for (uint32_t i = 1; i < profile->tree.count; i++) {
		if (ws_cost_is_none(&profile->tree.nodes[i].self))
			continue;
		ws_grow(lines->text, lines->cap, lines->n + 1);
		lines->text[lines->n] = (struct ws_text){0};
		put_stack(export, &profile->tree, i, flames, &lines->text[lines->n++]);
	}
}

int ws_write_format_folded(struct ws_cell_context *export, FILE *out, struct ws_err *err)
{
	struct ws_profile_request request = {.by_process = ws_has_flame_word(export->by, "process"),
					     .by_thread = ws_has_flame_word(export->by, "thread")};
	struct ws_flames flames;
	struct lines lines = {0};
	int rc = ws_make_flames(export, &request, &flames, err);

	for (size_t i = 0; !rc && i < flames.count; i++)
		add_profile(export, &flames, &flames.flames[i].profile, &lines);
	if (lines.n)
		qsort(lines.text, lines.n, sizeof(*lines.text), by_text);
	for (size_t i = 0; i < lines.n; i++) {
		fwrite(lines.text[i].text, 1, lines.text[i].len, out);
		ws_text_free(&lines.text[i]);
	}
	export->rows = lines.n;
	free(lines.text);
	ws_free_flames(&flames);
	return rc;
}
