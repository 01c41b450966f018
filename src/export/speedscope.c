/*
 * speedscope.c - call stacks as JSON for speedscope.app: a profile for each thread.
 *
 * Samples are in order of time, as "Time Order" requires, and consecutive samples of one stack are
 * merged; waits and GPU work are in order of stacks. Weights are nanoseconds where these are known.
 * Functions are listed once, at the start; a stack is a list of their numbers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/flame.h"
#include "base/choose.h"
#include "export/formats.h"
#include "text/text.h"

struct output {
	struct ws_cell_context *export;
	FILE *file;
	const struct ws_flames *flames;
	struct ws_text text;
	bool first; /* no comma before the next profile */
};

static void flush(struct output *output)
{
	fwrite(output->text.text, 1, output->text.len, output->file);
	output->text.len = 0;
}

static void put_frame(struct output *output, const struct ws_calltree *calltree, uint32_t unit)
{
	const struct ws_unit_info *unit_info = &calltree->units[unit];
	const struct ws_function *function =
		ws_stacks_get_function(calltree->stacks, unit_info->function);
	size_t len;
	const char *file = ws_report_string(output->export->report, function->file, &len);

	ws_text_puts(&output->text, "{\"name\":");
	ws_put_quoted_json(&output->text, function->name, function->len);
	if (!len) {
		file = ws_stacks_get_origin(calltree->stacks, function);
		len = strlen(file);
	}
	if (len) {
		ws_text_puts(&output->text, ",\"file\":");
		ws_put_quoted_json(&output->text, file, len);
	}
	ws_text_puts(&output->text, "}");
}

/* Each profile's units follow one another in the list of frames; returns where they begin. */
static size_t put_frames(struct output *output, size_t *first)
{
	size_t n = 0;

	ws_text_puts(&output->text, "\"shared\":{\"frames\":[");
	for (size_t i = 0; i < output->flames->count; i++) {
		const struct ws_calltree *calltree = &output->flames->flames[i].profile.tree;

		first[i] = n;
		for (uint32_t u = 1; u < calltree->unit_count; u++, n++) {
			ws_text_puts(&output->text, n ? ",\n" : "\n");
			put_frame(output, calltree, u);
			flush(output);
		}
	}
	ws_text_puts(&output->text, "]},\n");
	return n;
}

static void put_path(struct output *output, const struct ws_profile *profile, uint32_t node,
		     size_t first)
{
	uint32_t path[WS_STACKS_DEEPEST];
	size_t n =
		ws_find_flame_path(&profile->tree, node, profile->roots, path, WS_STACKS_DEEPEST);

	ws_text_puts(&output->text, "[");
	while (n--)
		ws_text_printf(&output->text, "%zu%s", first + path[n] - 1, n ? "," : "");
	ws_text_puts(&output->text, "]");
}

/* One profile: `n` steps of one thread. */
static void put_profile(struct output *output, const struct ws_flame *flame, size_t first,
			const struct ws_profile_step *step, size_t n)
{
	const struct ws_profile *profile = &flame->profile;
	uint32_t roots[2] = {0, 0};
	struct ws_text name = {0};
	uint64_t sum = 0;

	ws_find_flame_roots(&profile->tree, step[0].node, profile->roots, roots);
	ws_calltree_add_unit_name(&profile->tree, roots[0], &name);
	ws_text_puts(&name, " ");
	ws_calltree_add_unit_name(&profile->tree, roots[1], &name);
	if (flame->kind != WS_PROFILE_ON_CPU)
		ws_text_printf(&name, " %s", ws_name_flame_kind(flame->kind));
	ws_text_printf(&output->text,
		       "%s{\"type\":\"sampled\",\"name\":", output->first ? "" : ",\n");
	output->first = false;
	ws_put_quoted_json(&output->text, name.text, name.len);
	for (size_t i = 0; i < n; i++)
		sum += ws_choose_flame_value(output->flames, &step[i].cost);
	ws_text_printf(&output->text,
		       ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n\"samples\":[",
		       output->flames->timed ? "nanoseconds" : "none", sum);
	for (size_t i = 0; i < n; i++) {
		put_path(output, profile, step[i].node, first);
		ws_text_puts(&output->text, i + 1 < n ? ",\n" : "],\n\"weights\":[");
		flush(output);
	}
	for (size_t i = 0; i < n; i++) {
		ws_text_printf(&output->text, "%" PRIu64 "%s",
			       ws_choose_flame_value(output->flames, &step[i].cost),
			       i + 1 < n ? "," : "]}");
		flush(output);
	}
	output->export->rows += n;
	ws_text_free(&name);
}

static int by_root(const void *first, const void *second)
{
	const struct ws_profile_step *left = first, *right = second;

	return left->thread != right->thread ? (left->thread < right->thread ? -1 : 1)
					     : ws_compare(left->node, right->node);
}

/* Profiles that are not in order of time: a step for each node, by its root, which represents the
 * thread. */
static void make_steps(struct ws_profile *profile)
{
	uint32_t *root = ws_calloc(profile->tree.count, sizeof(*root)),
		 *depth = ws_calloc(profile->tree.count, sizeof(*depth));
	size_t cap = 0;

	for (uint32_t i = 1; i < profile->tree.count; i++) {
		const struct ws_node *node = &profile->tree.nodes[i];

		depth[i] = depth[node->parent] + 1;
		root[i] = depth[i] <= profile->roots ? i : root[node->parent];
		if (ws_cost_is_none(&node->self))
			continue;
		ws_grow(profile->steps, cap, profile->step_count + 1);
		profile->steps[profile->step_count++] =
			(struct ws_profile_step){root[i], i, node->self};
	}
	if (profile->step_count)
		qsort(profile->steps, profile->step_count, sizeof(*profile->steps), by_root);
	free(root);
	free(depth);
}

static void put_flame(struct output *output, struct ws_flame *flame, size_t first)
{
	struct ws_profile *profile = &flame->profile;

	if (!profile->steps)
		make_steps(profile);
	for (size_t i = 0, end; i < profile->step_count; i = end) {
		for (end = i + 1; end < profile->step_count &&
				  profile->steps[end].thread == profile->steps[i].thread;)
			end++;
		put_profile(output, flame, first, profile->steps + i, end - i);
	}
}

int ws_write_format_speedscope(struct ws_cell_context *export, FILE *file, struct ws_err *err)
{
	struct ws_profile_request request = {
		.by_process = true, .by_thread = true, .ordered = true};
	struct ws_flames flames;
	struct output output = {.export = export, .file = file, .flames = &flames, .first = true};
	size_t first[WS_FLAMES];
	const char *name =
		strrchr(export->input, '/') ? strrchr(export->input, '/') + 1 : export->input;

	if (ws_make_flames(export, &request, &flames, err) < 0) {
		ws_free_flames(&flames);
		return -1;
	}
	ws_text_puts(&output.text, "{\"$schema\":\"https://www.speedscope.app/"
				   "file-format-schema.json\",\"exporter\":\"warpsight " WS_VERSION
				   "\",\"name\":");
	ws_put_quoted_json(&output.text, name, strlen(name));
	ws_text_puts(&output.text, ",\"activeProfileIndex\":0,\n");
	put_frames(&output, first);
	ws_text_puts(&output.text, "\"profiles\":[");
	for (size_t i = 0; i < flames.count; i++)
		put_flame(&output, &flames.flames[i], first[i]);
	ws_text_puts(&output.text, "]}\n");
	flush(&output);
	ws_text_free(&output.text);
	ws_free_flames(&flames);
	return 0;
}
