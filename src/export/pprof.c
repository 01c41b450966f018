/*
 * pprof.c - call stacks for pprof: its profile.proto, gzip-compressed.
 *
 * The message is written field by field as protobuf wants it (a tag, then a varint or a length with
 * bytes), without a library: it has five kinds of messages of numbers. Functions at a line are
 * locations, each with its one line; modules are mappings; process and thread are labels of
 * samples. Each kind of profile asked for has two values a sample, how many and how long; the
 * others' are 0.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/map.h"
#include "export/flame.h"
#include "export/formats.h"
#include "export/proto.h"
#include "views/tables.h"
#include "text/text.h"
#include "text/texts.h"

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
	struct ws_export *x;
	FILE *f;
	const struct ws_flames *flames;
	struct ws_texts strings;
	struct ws_map functions,
		mappings; /* by string of name << 32 | file: id; by path << 32 | build id: id */
	uint64_t function_count, mapping_count;
	struct ws_text text, message; /* what goes to the file; the message being made */
	struct ws_text part;	      /* a message in it */
	z_stream z;
	bool failed;
};

/* ---- protobuf ---- */

static void put_number(struct ws_text *t, unsigned field, uint64_t v)
{
	if (v) /* 0 is what a field is that is not there */
		ws_proto_number(t, field, v);
}

/* ---- gzip ---- */

static void compress_text(struct output *o, int flush)
{
	unsigned char buf[65536];
	int rc;

	o->z.next_in = (unsigned char *)o->text.s;
	o->z.avail_in = (unsigned)o->text.len;
	do {
		o->z.next_out = buf;
		o->z.avail_out = sizeof(buf);
		rc = deflate(&o->z, flush);
		o->failed |= rc == Z_STREAM_ERROR;
		fwrite(buf, 1, sizeof(buf) - o->z.avail_out,
		       o->f); /* errors of the file show when it is closed */
	} while (!o->z.avail_out && !o->failed);
	o->text.len = 0;
}

static void add_field(struct output *o, unsigned field)
{
	ws_proto_message(&o->text, field, &o->message);
	if (o->text.len > 1 << 20)
		compress_text(o, Z_NO_FLUSH);
}

/* ---- the profile ---- */

static uint64_t string(struct output *o, const char *s, size_t n)
{
	struct ws_text clean = {0};
	uint64_t id;

	if (ws_utf8_valid(s, n))
		return ws_texts_number(&o->strings, s, n);
	ws_text_utf8(&clean, s, n);
	id = ws_texts_number(&o->strings, clean.s, clean.len);
	ws_text_free(&clean);
	return id;
}

static uint64_t word(struct output *o, const char *s)
{
	return string(o, s, strlen(s));
}

static void put_type(struct output *o, struct ws_text *t, const char *type, const char *unit)
{
	put_number(t, 1, word(o, type));
	put_number(t, 2, word(o, unit));
}

static const char *time_name(enum ws_profile_kind k)
{
	static const char *const names[WS_FLAMES] = {[WS_PROFILE_ON_CPU] = "cpu",
						     [WS_PROFILE_OFF_CPU] = "wait",
						     [WS_PROFILE_PYTHON] = "wall",
						     [WS_PROFILE_GPU] = "gpu"};

	return names[k];
}

static void put_types(struct output *o)
{
	for (size_t i = 0; i < o->flames->n; i++) {
		const struct ws_flame *f = &o->flames->v[i];

		put_type(o, &o->message, ws_flame_items(f->kind), "count");
		add_field(o, P_SAMPLE_TYPE);
		put_type(o, &o->message, o->flames->timed ? time_name(f->kind) : f->p.weight,
			 o->flames->timed ? "nanoseconds" : "count");
		add_field(o, P_SAMPLE_TYPE);
	}
	put_number(&o->text, P_DEFAULT_TYPE,
		   word(o, o->flames->timed ? time_name(o->flames->v[0].kind)
					    : o->flames->v[0].p.weight));
}

static uint64_t put_mapping(struct output *o, const struct ws_module_info *m)
{
	uint64_t path = word(o, m->path), build_id = word(o, m->build_id),
		 key = path << 32 | build_id;
	uint64_t id = ws_map_get(&o->mappings, key, NULL);

	if (id)
		return id;
	id = ++o->mapping_count;
	ws_map_set(&o->mappings, key, id);
	put_number(&o->message, 1, id);
	put_number(&o->message, 2,
		   id << 32); /* somewhere: addresses of many processes do not fit one map */
	put_number(&o->message, 3, (id << 32) + (m->size ? m->size : 1));
	put_number(&o->message, 5, path);
	put_number(&o->message, 6, build_id);
	put_number(&o->message, 7, 1);
	put_number(&o->message, 8, 1);
	put_number(&o->message, 9, 1);
	put_number(&o->message, 10, 1);
	add_field(o, P_MAPPING);
	return id;
}

/* The mapping of a function's module, 0 for none. */
static uint64_t mapping(struct output *o, const struct ws_stacks *s, const struct ws_function *f)
{
	const struct ws_module_info *m = ws_stacks_module(s, f->module);

	return f->module && *m->path ? put_mapping(o, m) : 0;
}

/* The program that was recorded: of several images in the target's process, the last. "" when that
 * is not known. */
static const char *program(const struct ws_export *x)
{
	const char *target = ws_meta(x->r, "target.pid"), *exe = "";
	uint64_t pid = target ? strtoull(target, NULL, 10) : 0, start = 0;

	for (uint32_t i = 1; pid && i <= ws_who_processes(x->who); i++) {
		const struct ws_process_info *p = ws_who_process(x->who, i);

		if (p->pid == pid && *p->exe && p->start >= start) {
			exe = p->exe;
			start = p->start;
		}
	}
	return exe;
}

/* pprof takes the first mapping for the program ("File:"), so that goes first, also when no sample
 * lies in it. */
static void put_program(struct output *o)
{
	struct ws_module_info m = {.path = program(o->x), .build_id = ""};
	const struct ws_stacks *s = o->flames->v[0].p.stacks;

	for (uint32_t i = 1; *m.path && i <= ws_stacks_functions(s); i++) {
		const struct ws_module_info *of =
			ws_stacks_module(s, ws_stacks_function(s, i)->module);

		if (!strcmp(of->path, m.path)) {
			put_mapping(o, of);
			return;
		}
	}
	if (*m.path)
		put_mapping(o, &m);
}

static uint64_t function(struct output *o, const struct ws_function *f)
{
	size_t len;
	const char *file = ws_report_string(o->x->r, f->file, &len);
	uint64_t name = string(o, f->name, f->len), source = string(o, file, len),
		 key = name << 32 | source;
	uint64_t id = ws_map_get(&o->functions, key, NULL);

	if (id)
		return id;
	id = ++o->function_count;
	ws_map_set(&o->functions, key, id);
	put_number(&o->message, 1, id);
	put_number(&o->message, 2, name);
	put_number(&o->message, 4, source); /* no system_name: pprof would take templates, and
					       Python's <module>, out of names */
	add_field(o, P_FUNCTION);
	return id;
}

/* Units are locations: unit u of profile i has the number first[i] + u. */
static void put_locations(struct output *o, uint64_t *first)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < o->flames->n; i++) {
		const struct ws_calltree *t = &o->flames->v[i].p.tree;

		first[i] = sum;
		for (uint32_t u = 1; u < t->unit_count; u++) {
			const struct ws_function *f =
				ws_stacks_function(t->stacks, t->units[u].function);
			uint64_t in = mapping(o, t->stacks, f), fn = function(o, f);

			put_number(&o->message, 1, sum + u);
			put_number(&o->message, 2, in);
			put_number(&o->part, 1, fn);
			put_number(&o->part, 2, t->units[u].line);
			ws_proto_message(&o->message, 4, &o->part);
			add_field(o, P_LOCATION);
		}
		sum += t->unit_count;
	}
}

static void put_label(struct output *o, const struct ws_calltree *t, const char *key, uint32_t unit)
{
	struct ws_text name = {0};

	ws_calltree_name(t, unit, &name);
	put_number(&o->part, 1, word(o, key));
	put_number(&o->part, 2, string(o, name.s ? name.s : "", name.len));
	ws_proto_message(&o->message, 3, &o->part);
	ws_text_free(&name);
}

static void put_sample(struct output *o, size_t which, uint64_t first, uint32_t node)
{
	const struct ws_profile *p = &o->flames->v[which].p;
	const struct ws_cost *c = &p->tree.nodes[node].self;
	uint32_t path[WS_STACKS_DEEPEST], roots[2] = {0, 0};
	size_t n = ws_flame_path(&p->tree, node, p->roots, path, WS_STACKS_DEEPEST);

	for (size_t i = 0; i < n; i++)
		ws_proto_varint(&o->part, first + path[i]);
	ws_proto_message(&o->message, 1, &o->part);
	for (size_t i = 0; i < o->flames->n; i++) {
		ws_proto_varint(&o->part, i == which ? c->count : 0);
		ws_proto_varint(&o->part, i == which ? ws_flame_value(o->flames, c) : 0);
	}
	ws_proto_message(&o->message, 2, &o->part);
	ws_flame_roots(&p->tree, node, p->roots, roots);
	put_label(o, &p->tree, "process", roots[0]);
	put_label(o, &p->tree, "thread", roots[1]);
	add_field(o, P_SAMPLE);
	o->x->rows++;
}

static void put_samples(struct output *o, const uint64_t *first)
{
	for (size_t i = 0; i < o->flames->n; i++) {
		const struct ws_calltree *t = &o->flames->v[i].p.tree;

		for (uint32_t node = 1; node < t->n; node++)
			if (t->nodes[node].self.count)
				put_sample(o, i, first[i], node);
	}
}

static void put_strings(struct output *o)
{
	for (uint32_t i = 0; i < o->strings.n; i++) {
		size_t len;
		const char *s = ws_texts_get(&o->strings, i, &len);

		ws_proto_bytes(&o->text, P_STRINGS, s, len);
		if (o->text.len > 1 << 20)
			compress_text(o, Z_NO_FLUSH);
	}
}

static void free_output(struct output *o)
{
	deflateEnd(&o->z);
	ws_texts_free(&o->strings);
	ws_map_free(&o->functions);
	ws_map_free(&o->mappings);
	ws_text_free(&o->text);
	ws_text_free(&o->message);
	ws_text_free(&o->part);
}

int ws_xformat_write_pprof(struct ws_export *x, FILE *f, struct ws_err *e)
{
	struct ws_profile_request q = {.by_process = true, .by_thread = true, .unit = WS_UNIT_LINE};
	struct ws_flames flames;
	struct output o = {.x = x, .f = f, .flames = &flames};
	uint64_t first[WS_FLAMES], epoch = ws_export_epoch(x);

	if (ws_flames_make(x, &q, &flames, e) < 0) {
		ws_flames_free(&flames);
		return -1;
	}
	if (deflateInit2(&o.z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
		ws_flames_free(&flames);
		return ws_fail(e, "out of memory");
	}
	word(&o, ""); /* number 0 */
	put_types(&o);
	put_number(&o.text, P_TIME, epoch);
	put_number(&o.text, P_DURATION, x->last > x->zero ? x->last - x->zero : 0);
	put_program(&o);
	put_locations(&o, first);
	put_samples(&o, first);
	put_strings(&o);
	compress_text(&o, Z_FINISH);
	free_output(&o);
	ws_flames_free(&flames);
	return o.failed ? ws_fail(e, "the profile could not be compressed") : 0;
}
