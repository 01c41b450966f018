/*
 * pprof.c - call stacks for pprof: its profile.proto, gzip-compressed.
 *
 * The message is written field by field in protobuf's encoding (a tag, then a varint or a length
 * with bytes). It needs no library, since there are only five kinds of messages. Functions at a
 * line are locations, each with its one line; modules are mappings; process and thread are labels
 * of samples. Each requested kind of profile has two values per sample, a count and a duration;
 * those of the other kinds are 0.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/map.h"
#include "base/choose.h"
#include "export/flame.h"
#include "export/formats.h"
#include "export/proto.h"
#include "views/tables.h"
#include "text/text.h"
#include "text/text_numbers.h"

/* Fields of profile.proto. */
enum {
	P_SAMPLE_TYPE = 1,
	P_SAMPLE,
	P_MAPPING,
	P_LOCATION,
	P_FUNCTION,
	P_STRINGS,
	P_TIME = 9,
	P_DURATION,
	P_PERIOD_TYPE,
	P_PERIOD,
	P_COMMENT,
	P_DEFAULT_TYPE
};

struct output {
	struct ws_cell_context *export;
	FILE *file;
	const struct ws_flames *flames;
	struct ws_text_numbers strings;
	struct ws_map functions,
		mappings; /* by string of name << 32 | file: id; by path << 32 | build id: id */
	uint64_t function_count, mapping_count;
	struct ws_text text, message; /* what goes to the file; the message being made */
	struct ws_text part;	      /* a message in it */
	z_stream zip;
	bool failed;
};

/* ---- protobuf ---- */

static void put_number(struct ws_text *text, unsigned field, uint64_t v)
{
	if (v) /* 0 is the value of a missing field */
		ws_put_proto_number(text, field, v);
}

/* ---- gzip ---- */

static void compress_text(struct output *output, int flush)
{
	unsigned char buf[65536];
	int rc;

	output->zip.next_in = (unsigned char *)output->text.text;
	output->zip.avail_in = (unsigned)output->text.len;
	do {
		output->zip.next_out = buf;
		output->zip.avail_out = sizeof(buf);
		rc = deflate(&output->zip, flush);
		output->failed |= rc == Z_STREAM_ERROR;
		fwrite(buf, 1, sizeof(buf) - output->zip.avail_out,
		       output->file); /* errors are reported when the file is closed */
	} while (!output->zip.avail_out && !output->failed);
	output->text.len = 0;
}

static void add_field(struct output *output, unsigned field)
{
	ws_put_proto_message(&output->text, field, &output->message);
	if (output->text.len > 1 << 20)
		compress_text(output, Z_NO_FLUSH);
}

/* ---- the profile ---- */

static uint64_t string(struct output *output, const char *text, size_t n)
{
	struct ws_text clean = {0};
	uint64_t id;

	if (ws_is_valid_utf8(text, n))
		return ws_number_text(&output->strings, text, n);
	ws_put_valid_utf8(&clean, text, n);
	id = ws_number_text(&output->strings, clean.text, clean.len);
	ws_text_free(&clean);
	return id;
}

static uint64_t word(struct output *output, const char *text)
{
	return string(output, text, strlen(text));
}

static void put_type(struct output *output, struct ws_text *text, const char *type,
		     const char *unit)
{
	put_number(text, 1, word(output, type));
	put_number(text, 2, word(output, unit));
}

static const char *time_name(enum ws_profile_kind kind)
{
	static const char *const names[WS_FLAMES] = {[WS_PROFILE_ON_CPU] = "cpu",
						     [WS_PROFILE_OFF_CPU] = "wait",
						     [WS_PROFILE_PYTHON] = "wall",
						     [WS_PROFILE_GPU] = "gpu"};

	return names[kind];
}

static void put_types(struct output *output)
{
	for (size_t i = 0; i < output->flames->count; i++) {
		const struct ws_flame *flame = &output->flames->flames[i];

		put_type(output, &output->message, ws_name_flame_items(flame->kind), "count");
		add_field(output, P_SAMPLE_TYPE);
		put_type(output, &output->message,
			 output->flames->timed ? time_name(flame->kind) : flame->profile.weight,
			 output->flames->timed ? "nanoseconds" : "count");
		add_field(output, P_SAMPLE_TYPE);
	}
	put_number(&output->text, P_DEFAULT_TYPE,
		   word(output, output->flames->timed ? time_name(output->flames->flames[0].kind)
						      : output->flames->flames[0].profile.weight));
}

static uint64_t put_mapping(struct output *output, const struct ws_module_info *module_info)
{
	uint64_t path = word(output, module_info->path),
		 build_id = word(output, module_info->build_id), key = path << 32 | build_id;
	uint64_t id = ws_map_get(&output->mappings, key, NULL);

	if (id)
		return id;
	id = ++output->mapping_count;
	ws_map_set(&output->mappings, key, id);
	put_number(&output->message, 1, id);
	put_number(&output->message, 2,
		   id << 32); /* arbitrary: addresses of many processes do not fit into one map */
	put_number(&output->message, 3, (id << 32) + (module_info->size ? module_info->size : 1));
	put_number(&output->message, 5, path);
	put_number(&output->message, 6, build_id);
	put_number(&output->message, 7, 1);
	put_number(&output->message, 8, 1);
	put_number(&output->message, 9, 1);
	put_number(&output->message, 10, 1);
	add_field(output, P_MAPPING);
	return id;
}

/* The mapping of a function's module, 0 for none. */
static uint64_t mapping(struct output *output, const struct ws_stacks *stacks,
			const struct ws_function *function)
{
	const struct ws_module_info *module_info = ws_stacks_get_module(stacks, function->module);

	return function->module && *module_info->path ? put_mapping(output, module_info) : 0;
}

/* The program that was recorded: the last image of the target's process. "" when not known. */
static const char *program(const struct ws_cell_context *export)
{
	const char *target = ws_find_meta(export->report, "target.pid"), *exe = "";
	uint64_t pid = target ? strtoull(target, NULL, 10) : 0, start = 0;

	for (uint32_t i = 1; pid && i <= ws_highest_process_id(export->who); i++) {
		const struct ws_process_info *info = ws_find_process(export->who, i);

		if (info->pid == pid && *info->exe && info->start >= start) {
			exe = info->exe;
			start = info->start;
		}
	}
	return exe;
}

/* pprof takes the first mapping for the program ("File:"), so the program goes first, even when no
 * sample lies in it. */
static void put_program(struct output *output)
{
	struct ws_module_info module_info = {.path = program(output->export), .build_id = ""};
	const struct ws_stacks *stacks = output->flames->flames[0].profile.stacks;

	for (uint32_t i = 1; *module_info.path && i <= ws_stacks_count_functions(stacks); i++) {
		const struct ws_module_info *of =
			ws_stacks_get_module(stacks, ws_stacks_get_function(stacks, i)->module);

		if (!strcmp(of->path, module_info.path)) {
			put_mapping(output, of);
			return;
		}
	}
	if (*module_info.path)
		put_mapping(output, &module_info);
}

static uint64_t function(struct output *output, const struct ws_function *function_f)
{
	size_t len;
	const char *file = ws_report_string(output->export->report, function_f->file, &len);
	uint64_t name = string(output, function_f->name, function_f->len),
		 source = string(output, file, len), key = name << 32 | source;
	uint64_t id = ws_map_get(&output->functions, key, NULL);

	if (id)
		return id;
	id = ++output->function_count;
	ws_map_set(&output->functions, key, id);
	put_number(&output->message, 1, id);
	put_number(&output->message, 2, name);
	put_number(&output->message, 4, source); /* no system_name: pprof would take templates,
					       and Python's <module>, out of names */
	add_field(output, P_FUNCTION);
	return id;
}

/* Units are locations: unit u of profile i has the number first[i] + u. */
static void put_locations(struct output *output, uint64_t *first)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < output->flames->count; i++) {
		const struct ws_calltree *calltree = &output->flames->flames[i].profile.tree;

		first[i] = sum;
		for (uint32_t u = 1; u < calltree->unit_count; u++) {
			const struct ws_function *function_f = ws_stacks_get_function(
				calltree->stacks, calltree->units[u].function);
			uint64_t in = mapping(output, calltree->stacks, function_f),
				 fn = function(output, function_f);

			put_number(&output->message, 1, sum + u);
			put_number(&output->message, 2, in);
			put_number(&output->part, 1, fn);
			put_number(&output->part, 2, calltree->units[u].line);
			ws_put_proto_message(&output->message, 4, &output->part);
			add_field(output, P_LOCATION);
		}
		sum += calltree->unit_count;
	}
}

static void put_label(struct output *output, const struct ws_calltree *calltree, const char *key,
		      uint32_t unit)
{
	struct ws_text name = {0};

	ws_calltree_add_unit_name(calltree, unit, &name);
	put_number(&output->part, 1, word(output, key));
	put_number(&output->part, 2, string(output, ws_text_or(name.text, ""), name.len));
	ws_put_proto_message(&output->message, 3, &output->part);
	ws_text_free(&name);
}

static void put_sample(struct output *output, size_t which, uint64_t first, uint32_t node)
{
	const struct ws_profile *profile = &output->flames->flames[which].profile;
	const struct ws_cost *cost = &profile->tree.nodes[node].self;
	uint32_t path[WS_STACKS_DEEPEST], roots[2] = {0, 0};
	size_t n =
		ws_find_flame_path(&profile->tree, node, profile->roots, path, WS_STACKS_DEEPEST);

	for (size_t i = 0; i < n; i++)
		ws_put_proto_varint(&output->part, first + path[i]);
	ws_put_proto_message(&output->message, 1, &output->part);
	for (size_t i = 0; i < output->flames->count; i++) {
		ws_put_proto_varint(&output->part, i == which ? cost->count : 0);
		ws_put_proto_varint(&output->part,
				    i == which ? ws_choose_flame_value(output->flames, cost) : 0);
	}
	ws_put_proto_message(&output->message, 2, &output->part);
	ws_find_flame_roots(&profile->tree, node, profile->roots, roots);
	put_label(output, &profile->tree, "process", roots[0]);
	put_label(output, &profile->tree, "thread", roots[1]);
	add_field(output, P_SAMPLE);
	output->export->rows++;
}

static void put_samples(struct output *output, const uint64_t *first)
{
	for (size_t i = 0; i < output->flames->count; i++) {
		const struct ws_calltree *calltree = &output->flames->flames[i].profile.tree;

		for (uint32_t node = 1; node < calltree->count; node++)
			if (!ws_cost_is_none(&calltree->nodes[node].self))
				put_sample(output, i, first[i], node);
	}
}

static void put_strings(struct output *output)
{
	for (uint32_t i = 0; i < output->strings.count; i++) {
		size_t len;
		const char *text = ws_get_numbered_text(&output->strings, i, &len);

		ws_put_proto_bytes(&output->text, P_STRINGS, text, len);
		if (output->text.len > 1 << 20)
			compress_text(output, Z_NO_FLUSH);
	}
}

static void free_output(struct output *output)
{
	deflateEnd(&output->zip);
	ws_free_text_numbers(&output->strings);
	ws_map_free(&output->functions);
	ws_map_free(&output->mappings);
	ws_text_free(&output->text);
	ws_text_free(&output->message);
	ws_text_free(&output->part);
}

int ws_write_format_pprof(struct ws_cell_context *export, FILE *file, struct ws_err *err)
{
	struct ws_profile_request request = {
		.by_process = true, .by_thread = true, .unit = WS_UNIT_LINE};
	struct ws_flames flames;
	struct output output = {.export = export, .file = file, .flames = &flames};
	uint64_t first[WS_FLAMES], epoch = ws_find_start_epoch(export);

	if (ws_make_flames(export, &request, &flames, err) < 0) {
		ws_free_flames(&flames);
		return -1;
	}
	if (deflateInit2(&output.zip, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		ws_free_flames(&flames);
		return ws_fail(err, "out of memory");
	}
	word(&output, ""); /* number 0 */
	put_types(&output);
	put_number(&output.text, P_TIME, epoch);
	put_number(&output.text, P_DURATION,
		   export->last > export->zero ? export->last - export->zero : 0);
	put_program(&output);
	put_locations(&output, first);
	put_samples(&output, first);
	put_strings(&output);
	compress_text(&output, Z_FINISH);
	free_output(&output);
	ws_free_flames(&flames);
	return output.failed ? ws_fail(err, "the profile could not be compressed") : 0;
}
