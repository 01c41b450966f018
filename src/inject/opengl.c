/* opengl.c - see opengl.h: contexts, frames, debug groups. */
#include "inject/opengl.h"

#include <sys/mman.h>

#include "base/choose.h"

__thread struct ws_opengl_context *ws_opengl_current;

/* Mapped when they are first needed, and kept: all of them, 20 MiB, would count against the limits
 * of every program. */
static struct ws_opengl_context *_Atomic contexts[WS_OPENGL_CONTEXTS];
static _Atomic unsigned contexts_made;

/* Values of ENUM_NSYS_EVENT_TYPE. */
enum { KHR_DEBUG_MARK = 52, KHR_DEBUG_PUSH_POP = 62, KHR_DEBUG_GPU_PUSH_POP = 63 };
enum { TYPE_MARKER = 0x8268, TYPE_PUSH_GROUP = 0x8269 };
enum { LABEL_MOST = 256 };

__attribute__((constructor)) static void read_options(void)
{
	ws_rt_init();
	ws_library_quiet = ws_rt->arena && !(ws_rt->features & WS_FEATURE_OPENGL_CALLS);
}

static size_t measure_text(int length, const char *text)
{
	if (!text)
		return 0;
	if (length < 0)
		return strnlen(text, WS_STRING_MAX);
	return ws_min((size_t)length, WS_STRING_MAX);
}

uint32_t ws_opengl_name_track(const char *what, unsigned number)
{
	char digits[12], text[64], *from = digits + sizeof(digits) - 1, *to;

	*from = 0;
	do {
		*--from = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	to = stpcpy(text, what);
	to = stpcpy(to, from);
	return ws_library_define_text(text, (size_t)(to - text));
}

/* ---- contexts ---- */

static struct ws_opengl_context *find_context(uintptr_t handle)
{
	for (unsigned i = 0; i < WS_OPENGL_CONTEXTS; i++) {
		struct ws_opengl_context *context = atomic_load(&contexts[i]);

		if (context && atomic_load(&context->handle) == handle &&
		    !atomic_load(&context->is_destroyed))
			return context;
	}
	return NULL;
}

/* Entry `i` with memory behind it; NULL when there is none. */
static struct ws_opengl_context *map_context(unsigned i)
{
	struct ws_opengl_context *context = atomic_load(&contexts[i]), *none = NULL;
	long p;

	if (context)
		return context;
	p = ws_raw_syscall(SYS_mmap, 0, sizeof(*context), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p < 0 && p > -4096)
		return NULL;
	context = (struct ws_opengl_context *)p;
	if (atomic_compare_exchange_strong(&contexts[i], &none, context))
		return context;
	ws_raw_syscall(SYS_munmap, p, sizeof(*context), 0, 0, 0, 0); /* another thread was faster */
	return none;
}

/* What was noted of the context that had the entry before is gone with it; its queries, too. */
static void clear_context(struct ws_opengl_context *context)
{
	size_t from = offsetof(struct ws_opengl_context, interface);

	memset((char *)context + from, 0, sizeof(*context) - from);
	context->number = atomic_fetch_add(&contexts_made, 1) + 1;
}

static struct ws_opengl_context *add_context(uintptr_t handle)
{
	for (unsigned i = 0; i < WS_OPENGL_CONTEXTS; i++) {
		struct ws_opengl_context *context = map_context(i);
		uintptr_t none = 0;

		if (!context)
			break;
		if (!atomic_compare_exchange_strong(&context->handle, &none, handle))
			continue;
		clear_context(context);
		return context;
	}
	return NULL;
}

static void free_context(struct ws_opengl_context *context)
{
	atomic_store(&context->is_destroyed, false);
	atomic_store(&context->handle, 0);
}

static void release_context(struct ws_opengl_context *context)
{
	if (atomic_fetch_sub(&context->threads, 1) == 1 && atomic_load(&context->is_destroyed))
		free_context(context);
}

void ws_opengl_destroy(void *handle)
{
	struct ws_opengl_context *context = handle ? find_context((uintptr_t)handle) : NULL;

	if (!context)
		return;
	atomic_store(&context->is_destroyed, true);
	if (!atomic_load(&context->threads))
		free_context(context);
}

void ws_opengl_create(void *handle)
{
	ws_opengl_destroy(handle);
}

void ws_opengl_leave(void)
{
	if (!ws_opengl_current)
		return;
	ws_opengl_end_batch(ws_opengl_current);
	ws_opengl_read_times();
}

void ws_opengl_enter(bool done, void *handle, enum ws_opengl_interface interface)
{
	struct ws_opengl_context *old = ws_opengl_current, *context = NULL;

	if (!done || (old && handle && atomic_load(&old->handle) == (uintptr_t)handle &&
		      !atomic_load(&old->is_destroyed)))
		return;
	ws_opengl_current = NULL;
	if (old)
		release_context(old);
	if (!handle)
		return;
	context = find_context((uintptr_t)handle);
	if (!context)
		context = add_context((uintptr_t)handle);
	if (!context)
		return;
	context->interface = interface;
	atomic_fetch_add(&context->threads, 1);
	ws_opengl_current = context;
}

/* ---- frames ---- */

int64_t ws_opengl_frame(void)
{
	return ws_opengl_current ? ws_opengl_current->frame : WS_LIBRARY_NONE;
}

static void write_frame(struct ws_opengl_context *context, uint64_t end)
{
	int64_t kept[] = {context->frame, context->number};

	if (!context->frame_track)
		context->frame_track =
			ws_opengl_name_track("OpenGL frames, context ", context->number);
	ws_library_write_span(&(struct ws_library_span){
		.table = WS_LIBRARY_TABLE_OPENGL_FRAMES,
		.name = ws_library_define_text("frame", 5),
		.track = context->frame_track,
		.start = (int64_t)context->frame_start,
		.end = (int64_t)end,
		.kept = kept,
		.count = WS_COUNT(kept),
	});
}

void ws_opengl_swap(void)
{
	if (!ws_opengl_current)
		return;
	ws_opengl_end_batch(ws_opengl_current);
	ws_opengl_current->frame++;
}

/* A frame lasts from the end of a swap to that of the next. Nobody says when the first one began.
 */
void ws_opengl_end_frame(uint64_t time)
{
	struct ws_opengl_context *context = ws_opengl_current;

	if (!context)
		return;
	ws_opengl_read_times();
	if (context->frame_start)
		write_frame(context, time);
	context->frame_start = time;
}

/* ---- debug groups ---- */

/* source, khrdType, id, severity, context: in the order of the table's columns, after the class */
static void fill_event(int64_t *kept, int64_t class, int64_t source, int64_t type, int64_t id)
{
	kept[0] = class;
	kept[1] = source;
	kept[2] = type;
	kept[3] = id;
	kept[4] = 0x826b; /* GL_DEBUG_SEVERITY_NOTIFICATION, which groups have */
	kept[5] = ws_opengl_number();
}

static void write_event(uint64_t start, uint64_t end, uint32_t name, const int64_t *kept)
{
	ws_library_write_span(&(struct ws_library_span){
		.table = WS_LIBRARY_TABLE_KHR_DEBUG_EVENTS,
		.name = name,
		.start = (int64_t)start,
		.end = (int64_t)end,
		.kept = kept,
		.count = 6,
	});
}

void ws_opengl_push(unsigned source, unsigned id, int length, const char *text)
{
	struct ws_opengl_context *context = ws_opengl_current;
	struct ws_opengl_group *group;

	if (!context || context->depth++ >= WS_OPENGL_GROUPS)
		return;
	group = &context->groups[context->depth - 1];
	memset(group, 0, sizeof(*group));
	if (!ws_rt_is_collecting())
		return;
	ws_opengl_end_batch(context);
	group->name = ws_library_define_text(ws_text_or(text, ""), measure_text(length, text));
	group->source = source;
	group->id = id;
	group->begin = ws_opengl_note_time(context);
	group->start = ws_rt_read_ticks();
}

void ws_opengl_pop(void)
{
	struct ws_opengl_context *context = ws_opengl_current;
	struct ws_opengl_span span = {.table = WS_LIBRARY_TABLE_KHR_DEBUG_EVENTS, .count = 6};
	struct ws_opengl_group *group;

	if (!context || !context->depth || --context->depth >= WS_OPENGL_GROUPS)
		return;
	group = &context->groups[context->depth];
	if (!group->start || !ws_rt_is_collecting()) {
		ws_opengl_free_query(context, group->begin);
		return;
	}
	ws_opengl_end_batch(context);
	fill_event(span.kept, KHR_DEBUG_PUSH_POP, group->source, TYPE_PUSH_GROUP, group->id);
	write_event(group->start, ws_rt_read_ticks(), group->name, span.kept);
	span.kept[0] = KHR_DEBUG_GPU_PUSH_POP;
	span.name = group->name;
	span.begin = group->begin;
	ws_opengl_end_span(context, &span);
}

void ws_opengl_mark(unsigned source, unsigned id, int length, const char *text)
{
	uint64_t now = ws_rt_read_ticks();
	int64_t kept[6];

	if (!ws_opengl_current)
		return;
	fill_event(kept, KHR_DEBUG_MARK, source, TYPE_MARKER, id);
	write_event(now, now,
		    ws_library_define_text(ws_text_or(text, ""), measure_text(length, text)), kept);
}

void ws_opengl_label(unsigned type, unsigned object, int length, const char *text)
{
	char label[LABEL_MOST];
	size_t n = ws_min(measure_text(length, text), sizeof(label) - 1);
	int64_t kept[] = {ws_opengl_number(), type, object, (int64_t)(uintptr_t)label};

	if (!text)
		return;
	memcpy(label, text, n);
	label[n] = 0;
	ws_library_write_row(WS_LIBRARY_TABLE_OPENGL_OBJECT_LABELS, kept, WS_COUNT(kept), 1u << 3);
}
