/* flame.c - see flame.h. */
#include "export/flame.h"
#include "base/choose.h"

#include <inttypes.h>
#include <string.h>

static const struct {
	const char *name, *items;
} flame_kinds[WS_FLAMES] = {[WS_PROFILE_ON_CPU] = {"on-cpu", "samples"},
			    [WS_PROFILE_OFF_CPU] = {"off-cpu", "waits"},
			    [WS_PROFILE_PYTHON] = {"python", "samples"},
			    [WS_PROFILE_GPU] = {"gpu", "operations"}};

const char *ws_name_flame_kind(enum ws_profile_kind kind)
{
	return flame_kinds[kind].name;
}

const char *ws_name_flame_items(enum ws_profile_kind kind)
{
	return flame_kinds[kind].items;
}

bool ws_has_flame_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *entry = list; entry && *entry;
	     entry += strcspn(entry, ","), entry += *entry == ',')
		if (strcspn(entry, ",") == length && !memcmp(entry, word, length))
			return true;
	return false;
}

/* The one range of --times as a window of the session clock. Its colons make no difference: samples
 * are moments, and waits are cut at the ends. */
static int set_time_window(const struct ws_cell_context *export, struct ws_profile_request *request,
			   struct ws_err *err)
{
	request->time_min = 0;
	request->time_max = UINT64_MAX;
	if (!export->span_count)
		return 0;
	if (export->span_count > 1)
		return ws_fail(err, "--times: the type %s takes one range, but %zu are given",
			       export->type, export->span_count);
	if (export->spans[0].from > 0)
		request->time_min = export->zero + (uint64_t) export->spans[0].from;
	if (export->spans[0].to < 0)
		request->time_max = 0;
	else if (export->spans[0].to != INT64_MAX)
		request->time_max = export->zero + (uint64_t) export->spans[0].to;
	return 0;
}

static int make_flame(struct ws_cell_context *export, const struct ws_profile_request *request,
		      struct ws_flames *flames, struct ws_err *err)
{
	struct ws_flame *flame = &flames->flames[flames->count];

	flame->kind = request->kind;
	if (ws_profile_make(export->report, export->who, request, &flame->profile, err) < 0) {
		ws_profile_free(&flame->profile);
		return -1;
	}
	export->damaged += flame->profile.damaged;
	if (ws_profile_empty(&flame->profile)) {
		ws_profile_free(&flame->profile);
		return 0;
	}
	if (flame->profile.truncated && !export->quiet)
		ws_say("%s: the stacks of %" PRIu64 " of %" PRIu64 " samples are incomplete",
		       export->input, flame->profile.truncated, flame->profile.total.count);
	flames->timed &= flame->profile.timed;
	flames->count++;
	return 0;
}

static enum ws_frames choose_frames(const char *word)
{
	if (ws_has_flame_word(word, "python"))
		return WS_FRAMES_PYTHON;
	if (ws_has_flame_word(word, "native"))
		return WS_FRAMES_NATIVE;
	return WS_FRAMES_ALL;
}

static int fail_without_samples(const struct ws_cell_context *export, const char *show,
				struct ws_err *err)
{
	const char *window = "";

	if (export->span_count)
		window = " in the time asked for";
	return ws_fail(err, "%s has nothing of %s%s", export->input, show, window);
}

int ws_make_flames(struct ws_cell_context *export, const struct ws_profile_request *request,
		   struct ws_flames *flames, struct ws_err *err)
{
	const char *show = ws_text_or(export->show, "on-cpu");
	struct ws_profile_request kind_request = *request;

	*flames = (struct ws_flames){.timed = true};
	kind_request.frames = choose_frames(export->frames);
	if (set_time_window(export, &kind_request, err) < 0)
		return -1;
	for (int kind = 0; kind < WS_FLAMES; kind++) {
		kind_request.kind = (enum ws_profile_kind)kind;
		if (ws_has_flame_word(show, flame_kinds[kind].name) &&
		    make_flame(export, &kind_request, flames, err) < 0)
			return -1;
	}
	if (!flames->count)
		return fail_without_samples(export, show, err);
	if (!flames->timed && flames->count > 1)
		return ws_fail(err,
			       "the time of CPU samples of the event %s is not known, so they "
			       "cannot stand beside others; export "
			       "each by itself",
			       flames->flames[0].profile.weight);
	return 0;
}

void ws_free_flames(struct ws_flames *flames)
{
	for (size_t i = 0; i < flames->count; i++)
		ws_profile_free(&flames->flames[i].profile);
	flames->count = 0;
}

void ws_find_flame_roots(const struct ws_calltree *calltree, uint32_t node, uint32_t roots,
			 uint32_t *out)
{
	uint32_t depth = 0;

	for (uint32_t ancestor = node; ancestor; ancestor = calltree->nodes[ancestor].parent)
		depth++;
	for (; node; node = calltree->nodes[node].parent, depth--)
		if (depth <= roots)
			out[depth - 1] = calltree->nodes[node].unit;
}

size_t ws_find_flame_path(const struct ws_calltree *calltree, uint32_t node, uint32_t roots,
			  uint32_t *out, size_t most)
{
	size_t count = 0, depth = 0;

	for (uint32_t ancestor = node; ancestor; ancestor = calltree->nodes[ancestor].parent)
		depth++;
	for (; node && depth > roots && count < most; node = calltree->nodes[node].parent, depth--)
		out[count++] = calltree->nodes[node].unit;
	return count;
}
