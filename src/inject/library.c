/*
 * library.c - see library.h: the part that the hooks of all libraries share. It is linked into each
 * of them.
 */
#include "inject/library.h"

#include <errno.h>
#include <linux/futex.h>
#include <time.h>

#include "base/choose.h"

/* ---- names ---- */

struct ws_library_behind *ws_library_find_wrapped(const char *name)
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

/* ---- calls ---- */

/*
 * Whether the frame of the outer call is still there: a longjmp or an exception leaves it behind.
 * The kernel is asked, because the stack it was on may be gone: the futex call compares and returns
 * at once, ETIMEDOUT when equal.
 */
static bool has_frame(const struct ws_open_library_call *note)
{
	const struct ws_library_call *outer = (const void *)(uintptr_t)note->stack;
	struct timespec now = {0, 0};

	return ws_raw_syscall(SYS_futex, (long)&outer->start, FUTEX_WAIT | FUTEX_PRIVATE_FLAG,
			      (long)(uint32_t)note->start, (long)&now, 0, 0) == -ETIMEDOUT;
}

bool ws_library_is_nested(struct ws_open_library_call *note, const struct ws_library_call *call)
{
	if (note->stack > (uintptr_t)call && has_frame(note))
		return true;
	note->start = 0;
	return false;
}

bool ws_library_is_inside(void)
{
	struct ws_thread *thread = ws_self;

	return thread && thread->generation && ws_library_slot(thread->nest[0].ring)->start;
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

/* Cleared only after the record is written, so that a kill in between loses nothing. */
static void take_off_note(const struct ws_library_call *call)
{
	__atomic_store_n(&ws_library_slot(call->ring)->start, 0, __ATOMIC_RELEASE);
}

struct ws_nest *ws_library_reserve_slowly(const struct ws_library_call *call, size_t bytes)
{
	struct ws_thread *thread;

	if (ws_library_quiet) {
		ws_library_drop(call);
		return NULL;
	}
	/* A child forked inside the call has a different state. */
	if (!ws_self || ws_self->nest[0].ring != call->ring)
		return NULL;
	thread = ws_rt_enter();
	if (thread && ws_rt_reserve(thread, bytes, WS_LOSS_OTHER))
		return &thread->nest[thread->busy - 1];
	take_off_note(call);
	if (thread)
		ws_rt_leave(thread);
	return NULL;
}

void ws_library_drop(const struct ws_library_call *call)
{
	if (ws_self && ws_self->nest[0].ring == call->ring)
		take_off_note(call);
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

int64_t ws_library_keep_text(const char *text)
{
	if (!text || ws_library_quiet)
		return 0;
	return ws_library_define_text(text, strnlen(text, WS_STRING_MAX));
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
