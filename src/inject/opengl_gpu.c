/*
 * opengl_gpu.c - how long the GPU took: for debug groups, and for pieces of work, which are the
 * draws, dispatches and copies between two flushes, framebuffers or groups.
 *
 * The GPU is asked to note its time in a query object (ARB_timer_query, EXT_disjoint_timer_query),
 * and what it noted is read later, when it is there. Its clock is related to ours by reading both
 * at once every now and then. No query is made between glBegin and glEnd, where it would be an
 * error, nor while a display list is compiled, which would contain it.
 */
#include <errno.h>

#include "base/choose.h"
#include "inject/opengl.h"

enum {
	GL_VERSION = 0x1f02,
	GL_EXTENSIONS = 0x1f03,
	GL_NUM_EXTENSIONS = 0x821d,
	GL_QUERY_COUNTER_BITS = 0x8864,
	GL_QUERY_RESULT = 0x8866,
	GL_QUERY_RESULT_AVAILABLE = 0x8867,
	GL_TIMESTAMP = 0x8e28,
	GL_QUERY_BUFFER = 0x9192,
	GL_QUERY_BUFFER_BINDING = 0x9193
};

enum { QUERIES_AT_ONCE = 64, MARK_WORK = 1, MARK_EDGE = 2 };
#define ANCHOR_LASTS UINT64_C(50000000) /* ns; clocks drift apart by 1 us in that time */

/* ---- which functions there are ---- */

static void *find_function(const struct ws_opengl_context *context, const char *name)
{
	const char *finder = "glXGetProcAddressARB";
	void *(*find)(const char *), *found = NULL;

	if (context->interface == WS_OPENGL_EGL)
		finder = "eglGetProcAddress";
	find = ws_library_find(finder);
	if (find)
		found = find(name);
	return found ? found : ws_library_find(name);
}

/* Looks for `word` in a list of words. */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; at && (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return true;
	return false;
}

static bool has_extension(const struct ws_opengl_functions *call, int version, const char *name)
{
	int count = 0;

	if (version < 30)
		return has_word(call->get_string(GL_EXTENSIONS), name);
	call->get_integer(GL_NUM_EXTENSIONS, &count);
	for (int i = 0; i < count; i++) {
		const char *extension = call->get_string_at(GL_EXTENSIONS, (unsigned)i);

		if (extension && !strcmp(extension, name))
			return true;
	}
	return false;
}

/* 10 times the version; *embedded says whether it is that of OpenGL ES. */
static int read_version(const char *text, bool *embedded)
{
	*embedded = !strncmp(text, "OpenGL ES", 9);
	while (*text && (*text < '0' || *text > '9'))
		text++;
	if (!*text || text[1] != '.')
		return 0;
	return 10 * (*text - '0') + (text[2] - '0');
}

static bool has_timer_queries(const struct ws_opengl_functions *call, bool *embedded)
{
	const char *text = call->get_string(GL_VERSION);
	int version = text ? read_version(text, embedded) : 0;

	if (!version || (version >= 30 && !call->get_string_at))
		return false;
	if (*embedded)
		return version >= 20 && has_extension(call, version, "GL_EXT_disjoint_timer_query");
	return version >= 33 || has_extension(call, version, "GL_ARB_timer_query");
}

static void *find_timer_function(const struct ws_opengl_context *context, const char *name,
				 bool embedded)
{
	char text[64];

	if (!embedded)
		return find_function(context, name);
	stpcpy(stpcpy(text, name), "EXT");
	return find_function(context, text);
}

static bool find_functions(struct ws_opengl_context *context)
{
	struct ws_opengl_functions *call = &context->call;
	bool embedded = false;
	int bits = 0;

	call->get_string = find_function(context, "glGetString");
	call->get_string_at = find_function(context, "glGetStringi");
	call->get_integer = find_function(context, "glGetIntegerv");
	call->bind_buffer = find_function(context, "glBindBuffer");
	if (!call->get_string || !call->get_integer || !has_timer_queries(call, &embedded))
		return false;
	call->generate = find_timer_function(context, "glGenQueries", embedded);
	call->count = find_timer_function(context, "glQueryCounter", embedded);
	call->get_number = find_timer_function(context, "glGetQueryObjectuiv", embedded);
	call->get_time = find_timer_function(context, "glGetQueryObjectui64v", embedded);
	call->get_bits = find_timer_function(context, "glGetQueryiv", embedded);
	call->get_now = find_timer_function(context, "glGetInteger64v", embedded);
	if (!call->get_now)
		call->get_now = find_function(context, "glGetInteger64v");
	if (!call->generate || !call->count || !call->get_number || !call->get_time ||
	    !call->get_bits || !call->get_now)
		return false;
	call->get_bits(GL_TIMESTAMP, GL_QUERY_COUNTER_BITS, &bits);
	return bits >= 30;
}

static bool is_timed(struct ws_opengl_context *context)
{
	if (ws_likely(context->timing == WS_OPENGL_TIMED))
		return true;
	if (context->timing == WS_OPENGL_UNTIMED)
		return false;
	context->timing = WS_OPENGL_UNTIMED;
	if (ws_rt->features & WS_FEATURE_OPENGL_GPU && find_functions(context))
		context->timing = WS_OPENGL_TIMED;
	return context->timing == WS_OPENGL_TIMED;
}

/* ---- queries ---- */

void ws_opengl_set_between(bool on)
{
	if (ws_opengl_current)
		ws_opengl_current->in_between = on;
}

void ws_opengl_set_list(bool on)
{
	if (ws_opengl_current)
		ws_opengl_current->in_list = on;
}

void ws_opengl_note_buffer(unsigned target)
{
	if (target == GL_QUERY_BUFFER && ws_opengl_current)
		ws_opengl_current->uses_query_buffer = true;
}

static void make_queries(struct ws_opengl_context *context)
{
	if (context->made_count + QUERIES_AT_ONCE > WS_OPENGL_QUERIES)
		return;
	context->call.generate(QUERIES_AT_ONCE, context->free_queries);
	context->free_count = QUERIES_AT_ONCE;
	context->made_count += QUERIES_AT_ONCE;
}

/* The GPU is so far behind that there is no memory for more spans. */
static void count_loss(void)
{
	if (ws_self)
		ws_rt_count_loss(ws_self, WS_LOSS_OTHER, 1);
}

uint32_t ws_opengl_note_time(struct ws_opengl_context *context)
{
	int error = errno;
	uint32_t query = 0;

	if (context->in_between || context->in_list || !is_timed(context))
		return 0;
	if (!context->free_count)
		make_queries(context);
	if (context->free_count) {
		query = context->free_queries[--context->free_count];
		context->call.count(query, GL_TIMESTAMP);
	} else {
		count_loss();
	}
	errno = error;
	return query;
}

void ws_opengl_free_query(struct ws_opengl_context *context, uint32_t query)
{
	if (query && context->free_count < WS_OPENGL_QUERIES)
		context->free_queries[context->free_count++] = query;
}

void ws_opengl_end_span(struct ws_opengl_context *context, const struct ws_opengl_span *span)
{
	struct ws_opengl_span *place;
	uint32_t end = 0;

	if (!span->begin)
		return;
	if (context->span_count == WS_OPENGL_SPANS)
		ws_opengl_read_times();
	if (context->span_count == WS_OPENGL_SPANS)
		count_loss();
	else
		end = ws_opengl_note_time(context);
	if (!end) {
		ws_opengl_free_query(context, span->begin);
		return;
	}
	place = &context->spans[(context->first_span + context->span_count++) % WS_OPENGL_SPANS];
	*place = *span;
	place->end = end;
}

/* ---- pieces of work ---- */

static _Atomic int64_t batches; /* of the process, so far */

void ws_library_note_mark(unsigned mark, unsigned function)
{
	struct ws_opengl_context *context = ws_opengl_current;

	if (!context || ws_library_quiet || context->in_list ||
	    context->timing == WS_OPENGL_UNTIMED)
		return;
	if (mark == MARK_EDGE || context->batch_calls >= WS_OPENGL_BATCH) {
		ws_opengl_end_batch(context);
		if (mark == MARK_EDGE)
			return;
	}
	if (!context->batch_calls) {
		context->batch_begin = ws_opengl_note_time(context);
		context->batch_first = function;
		context->batch_number = atomic_fetch_add(&batches, 1) + 1;
		context->begun_batch = context->batch_number;
	}
	context->batch_last = function;
	context->batch_calls++;
}

static uint32_t name_function(unsigned function)
{
	const char *name = ws_library_behinds[2 * (function - WS_CALL_opengl_eglMakeCurrent)].name;

	return ws_library_define_text(name, strlen(name));
}

void ws_opengl_end_batch(struct ws_opengl_context *context)
{
	struct ws_opengl_span span = {.table = WS_LIBRARY_TABLE_OPENGL_WORKLOAD, .count = 4};

	if (context->in_between || context->in_list)
		return;
	span.begin = context->batch_begin;
	context->batch_begin = 0;
	context->batch_calls = 0;
	if (!span.begin)
		return;
	span.name = name_function(context->batch_first);
	span.kept[0] = context->batch_number;
	span.kept[1] = name_function(context->batch_last);
	span.kept[2] = context->frame + 1;
	span.kept[3] = context->number;
	ws_opengl_end_span(context, &span);
}

/* ---- times ---- */

/* Relate the GPU's clock to ours: of several readings the one that took least time. */
static void read_anchor(struct ws_opengl_context *context)
{
	uint64_t now = ws_read_raw_ns(), best = UINT64_MAX;

	if (context->anchor_ticks && now - context->anchor_read < ANCHOR_LASTS)
		return;
	for (int i = 0; i < 3; i++) {
		uint64_t from = ws_rt_read_ticks(), to;
		int64_t time = 0;

		context->call.get_now(GL_TIMESTAMP, &time);
		to = ws_rt_read_ticks();
		if (to - from >= best)
			continue;
		best = to - from;
		context->anchor_ticks = from + (to - from) / 2;
		context->anchor_time = time;
	}
	context->anchor_read = now;
}

static void write_times(struct ws_opengl_context *context, const struct ws_opengl_span *span)
{
	uint64_t begin = 0, end = 0;
	const char track[] = "OpenGL GPU, context ";

	context->call.get_time(span->begin, GL_QUERY_RESULT, &begin);
	context->call.get_time(span->end, GL_QUERY_RESULT, &end);
	if (!context->gpu_track)
		context->gpu_track = ws_opengl_name_track(track, context->number);
	ws_library_write_span(&(struct ws_library_span){
		.table = span->table,
		.name = span->name,
		.track = context->gpu_track,
		.anchor = context->anchor_ticks,
		.start = (int64_t)begin - context->anchor_time,
		.end = (int64_t)ws_max(begin, end) - context->anchor_time,
		.kept = span->kept,
		.count = span->count,
	});
}

static void read_spans(struct ws_opengl_context *context, bool wait)
{
	while (context->span_count) {
		const struct ws_opengl_span *span = &context->spans[context->first_span];
		unsigned there = 0;

		if (!wait)
			context->call.get_number(span->end, GL_QUERY_RESULT_AVAILABLE, &there);
		if (!wait && !there)
			return;
		read_anchor(context);
		write_times(context, span);
		ws_opengl_free_query(context, span->begin);
		ws_opengl_free_query(context, span->end);
		context->first_span = (context->first_span + 1) % WS_OPENGL_SPANS;
		context->span_count--;
	}
}

/* With a buffer for the results of queries bound, they would be written there. */
static void read_spans_into_memory(struct ws_opengl_context *context, bool wait)
{
	int buffer = 0, error = errno;

	if (context->uses_query_buffer)
		context->call.get_integer(GL_QUERY_BUFFER_BINDING, &buffer);
	if (buffer)
		context->call.bind_buffer(GL_QUERY_BUFFER, 0);
	read_spans(context, wait);
	if (buffer)
		context->call.bind_buffer(GL_QUERY_BUFFER, (unsigned)buffer);
	errno = error;
}

void ws_opengl_read_times(void)
{
	struct ws_opengl_context *context = ws_opengl_current;

	if (context && context->span_count && !context->in_between)
		read_spans_into_memory(context, false);
}

void ws_opengl_read_last(void *handle)
{
	struct ws_opengl_context *context = ws_opengl_current;

	if (!context || context->in_between || atomic_load(&context->handle) != (uintptr_t)handle)
		return;
	ws_opengl_end_batch(context);
	if (context->span_count)
		read_spans_into_memory(context, true);
}
