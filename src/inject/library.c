/*
 * library.c - see library.h: the part that the hooks of all libraries share. It is linked into each
 * of them.
 */
#include "inject/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <time.h>

#include "base/choose.h"
#include "inject/behind.h"
#include "inject/bind.h"
#include "inject/dlsym_jump.h"

__thread struct ws_library_inside ws_library_inside;

/* ---- the functions behind ---- */

/*
 * The library must not be unloaded while wrappers keep addresses in it: a program that closes and
 * opens it again may find it elsewhere.
 */
static void keep_library(const struct link_map *library)
{
	void *(*open)(const char *, int) = ws_find_symbol("dlopen");

	if (open && library->l_name && *library->l_name)
		open(library->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static const char *get_file_name(const struct link_map *library)
{
	const char *base = library->l_name ? strrchr(library->l_name, '/') : NULL;

	if (base)
		return base + 1;
	return ws_text_or(library->l_name, "");
}

static bool is_library_file(const struct link_map *library)
{
	const char *name = get_file_name(library);

	for (const char *const *file = ws_library_files; *file; file++)
		if (!strncmp(name, *file, strlen(*file)))
			return true;
	return false;
}

/* Programs have variables with the names of OpenGL's functions, so its functions are looked for
 * only in its files. */
static void *find_behind(const char *name, const struct link_map **owner)
{
	const struct link_map *map = ws_find_first_behind();
	void *found;

	while ((found = ws_find_from_library(map, name, owner)) && ws_library_pointers &&
	       !is_library_file(*owner))
		map = (*owner)->l_next;
	return found;
}

void *ws_library_resolve(unsigned i)
{
	struct ws_library_behind *behind = &ws_library_behinds[i];
	const struct link_map *owner;
	int error = errno;
	void *real = find_behind(behind->name, &owner);

	if (real) {
		keep_library(owner);
		atomic_store_explicit(&behind->real, real, memory_order_release);
	}
	errno = error;
	return real;
}

void *ws_library_find(const char *name)
{
	const struct link_map *owner;

	return find_behind(name, &owner);
}

bool ws_library_is_in(const char *name, const char *file)
{
	const struct link_map *owner;

	return ws_find_from_library(ws_find_first_behind(), name, &owner) &&
	       !strncmp(get_file_name(owner), file, strlen(file));
}

void *ws_library_find_variable(const char *name)
{
	return ws_find_from_library(_r_debug.r_map, name, NULL);
}

/* ---- dlsym ---- */

static ws_dlsym_fn *real_dlsym;

static ws_dlsym_fn *find_real_dlsym(void)
{
	if (!real_dlsym)
		real_dlsym = ws_find_next_dlsym();
	return real_dlsym;
}

static struct ws_library_behind *find_wrapped(const char *name)
{
	unsigned low = 0, high = ws_library_sorted_count;

	while (low < high) {
		unsigned mid = (low + high) / 2;
		struct ws_library_behind *behind = &ws_library_behinds[ws_library_sorted[mid]];
		int order = strcmp(name, behind->name);

		if (!order)
			return behind;
		if (order < 0)
			high = mid;
		else
			low = mid + 1;
	}
	return NULL;
}

/* The wrapper of a pointer calls only what the pointer was when it was first seen. */
static void *wrap_pointer(struct ws_library_behind *behind, void *theirs)
{
	struct ws_library_behind *pointer = behind + 1;
	void *none = NULL;

	if (!theirs || theirs == behind->own || theirs == pointer->own)
		return theirs;
	if (atomic_compare_exchange_strong(&pointer->real, &none, theirs) || none == theirs)
		return pointer->own;
	return theirs;
}

void *ws_library_wrap_pointer(const char *name, void *theirs)
{
	struct ws_library_behind *behind = NULL;

	if (name && ws_library_pointers)
		behind = find_wrapped(name);
	return behind ? wrap_pointer(behind, theirs) : theirs;
}

/*
 * Programs that look the library's functions up by name get the wrappers, too, unless the function
 * that they found is not the one that the wrapper calls. If the library is not there they find
 * nothing, as they would without us.
 */
__attribute__((used)) static void *find_wrapper(void *handle, const char *name)
{
	struct ws_library_behind *behind = find_wrapped(name);
	void *theirs = find_real_dlsym()(handle, name), *real = NULL;

	if (!theirs)
		return NULL;
	/* ours was found first; theirs is expected in the same scope */
	if (theirs == behind->own)
		return ws_find_next_symbol(name) ? theirs : NULL;
	real = ws_library_find_behind((unsigned)(behind - ws_library_behinds));
	if (theirs == real)
		return behind->own;
	return ws_library_pointers ? wrap_pointer(behind, theirs) : theirs;
}

__attribute__((visibility("hidden"), used)) ws_dlsym_fn *ws_dlsym_whose(void *handle,
									const char *name)
{
	if (name && handle != RTLD_NEXT && find_wrapped(name))
		return find_wrapper;
	return find_real_dlsym();
}

WS_DLSYM_JUMP

/* ---- calls ---- */

/*
 * Whether the frame of the outer call is still there: a longjmp or an exception leaves it behind.
 * The kernel is asked, because the stack it was on may be gone: the futex call compares and returns
 * at once, ETIMEDOUT when equal.
 */
bool ws_library_is_nested(void)
{
	const struct ws_library_call *outer = (const void *)ws_library_inside.stack;
	struct timespec now = {0, 0};

	if (ws_raw_syscall(SYS_futex, (long)&outer->mark, FUTEX_WAIT | FUTEX_PRIVATE_FLAG,
			   (long)(uint32_t)ws_library_inside.start, (long)&now, 0, 0) == -ETIMEDOUT)
		return true;
	ws_library_inside.stack = 0;
	return false;
}

bool ws_library_quiet;

struct ws_ring *ws_library_find_ring(void)
{
	struct ws_thread *thread = ws_rt_enter();

	if (!thread)
		return NULL;
	ws_rt_leave(thread);
	return thread->nest[0].ring;
}

/* Copy values into a record; texts become handles. */
static void copy_values(struct ws_thread *thread, int64_t *to, const int64_t *kept, unsigned count,
			uint32_t texts)
{
	for (unsigned i = 0; i < count; i++) {
		const char *text = (const char *)(uintptr_t)kept[i];

		to[i] = kept[i];
		if (ws_likely(!(texts >> i & 1)))
			continue;
		to[i] = 0;
		if (text)
			to[i] = ws_rt_find_string(thread, text, strnlen(text, WS_STRING_MAX));
	}
}

/* Cleared only after the record is written, so that a kill in between loses nothing. */
static void take_off_note(const struct ws_library_call *call)
{
	__atomic_store_n(&ws_library_slot(call->ring)->start, 0, __ATOMIC_RELEASE);
}

void ws_library_write(const struct ws_library_call *call, const int64_t *kept, unsigned count,
		      uint32_t texts)
{
	size_t bytes = sizeof(struct ws_rec_library) + count * sizeof(*kept);
	struct ws_thread *thread = ws_self;
	struct ws_rec_library *record;
	int64_t values[WS_LIBRARY_MOST_KEPT];

	if (ws_unlikely(ws_library_quiet)) {
		ws_library_drop(call);
		return;
	}
	/* A child forked inside the call has a different state. */
	if (ws_unlikely(!thread || thread->nest[0].ring != call->ring))
		return;
	thread = ws_rt_enter();
	if (!thread)
		return;
	/* before the record is reserved: a string may take a new chunk */
	if (ws_unlikely(texts)) {
		copy_values(thread, values, kept, count, texts);
		kept = values;
	}
	record = ws_rt_reserve(thread, bytes, WS_LOSS_OTHER);
	if (record) {
		record->rec = ws_rec_head(WS_REC_LIBRARY, bytes, (uint16_t)call->function, count);
		record->start = call->start;
		record->end = call->end;
		for (unsigned i = 0; i < count; i++)
			record->kept[i] = kept[i];
		ws_rt_commit(thread, record, bytes);
	}
	take_off_note(call);
	ws_rt_leave(thread);
}

void ws_library_drop(const struct ws_library_call *call)
{
	if (ws_self && ws_self->nest[0].ring == call->ring)
		take_off_note(call);
}

void ws_library_write_row(enum ws_library_table table, const int64_t *kept, unsigned count,
			  uint32_t texts)
{
	size_t bytes = sizeof(struct ws_rec_library_row) + count * sizeof(*kept);
	int64_t values[WS_LIBRARY_MOST_KEPT];
	struct ws_rec_library_row *record;
	struct ws_thread *thread;

	if (!ws_rt->arena || !(thread = ws_rt_enter()))
		return;
	copy_values(thread, values, kept, count, texts);
	record = ws_rt_reserve(thread, bytes, WS_LOSS_OTHER);
	if (record) {
		record->rec = ws_rec_head(WS_REC_LIBRARY_ROW, bytes, (uint16_t)table, count);
		record->time = ws_rt_read_ticks();
		memcpy(record->kept, values, count * sizeof(*values));
		ws_rt_commit(thread, record, bytes);
	}
	ws_rt_leave(thread);
}

uint32_t ws_library_define_text(const char *text, size_t length)
{
	struct ws_thread *thread = ws_rt_enter();
	uint32_t handle = 0;

	if (thread) {
		handle = ws_rt_find_string(thread, text, ws_min(length, WS_STRING_MAX));
		ws_rt_leave(thread);
	}
	return handle;
}

void ws_library_write_span(const struct ws_library_span *span)
{
	size_t bytes = sizeof(struct ws_rec_library_span) + span->count * sizeof(*span->kept);
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_library_span *record;

	if (!thread)
		return;
	record = ws_rt_reserve(thread, bytes, WS_LOSS_OTHER);
	if (record) {
		record->rec =
			ws_rec_head(WS_REC_LIBRARY_SPAN, bytes, (uint16_t)span->table, span->count);
		record->anchor = span->anchor;
		record->start = span->start;
		record->end = span->end;
		record->name = span->name;
		record->track = span->track;
		memcpy(record->kept, span->kept, span->count * sizeof(*span->kept));
		ws_rt_commit(thread, record, bytes);
	}
	ws_rt_leave(thread);
}

void ws_library_write_work(const struct ws_library_call *call, bool begins, const uint64_t *work,
			   unsigned count)
{
	size_t bytes;
	struct ws_rec_library_work *record;
	struct ws_thread *thread;

	count = ws_min(count, WS_LIBRARY_MOST_ENDED);
	bytes = sizeof(*record) + count * sizeof(*work);
	if (!count || !(thread = ws_rt_enter()))
		return;
	record = ws_rt_reserve(thread, bytes, WS_LOSS_OTHER);
	if (record) {
		record->rec = ws_rec_head(WS_REC_LIBRARY_WORK, bytes,
					  (uint16_t)(ws_library_number |
						     ws_bits_if(begins, WS_LIBRARY_BEGINS)),
					  count);
		record->start = call->start;
		memcpy(record->work, work, count * sizeof(*work));
		ws_rt_commit(thread, record, bytes);
	}
	ws_rt_leave(thread);
}
