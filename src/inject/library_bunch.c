/*
 * library_bunch.c - calls that follow one another so fast that two readings of the clock for each
 * would slow the program: they are collected in the thread's home chunk (struct ws_library_bunch)
 * and written as one record. Which calls there were, in which order and with which values is exact;
 * the clock is read at the ends of a bunch and of its first call only.
 *
 * A thread's calls are collected while it makes many of them in a short time, and no longer as soon
 * as a bunch has taken too long. The recorder's heartbeat, which costs no reading of the clock,
 * tells that a call or a pause has been long: then the bunch ends there.
 */
#include "inject/library.h"

#include "base/choose.h"

/* Mean period of calls below which they are collected, and of a bunch above which they no longer
 * are. */
#define DENSE_NS 2000u
#define SLOW_NS 5000u
#define SLOW_PERIODS 4u
/* A bunch that ends early because its calls have too many shapes, and for how many calls no other
 * is begun then. */
#define TOO_FEW_CALLS 32u
#define HELD_OFF_CALLS 4096u

static uint64_t make_ticks(uint64_t ns)
{
	return ws_rt->arena->ticks_per_second * ns / 1000000000u;
}

static uint32_t count_calls(const struct ws_library_bunch *bunch)
{
	return atomic_load_explicit(&bunch->calls, memory_order_relaxed);
}

static void forget_shapes(struct ws_library_bunch *bunch)
{
	bunch->shapes = bunch->words = bunch->last = 0;
	bunch->word[0] = 0;
	memset(bunch->at, 0, sizeof(bunch->at));
	memset(bunch->follows, 0, sizeof(bunch->follows));
}

void ws_library_judge_pace(const struct ws_library_call *call)
{
	struct ws_library_bunch *bunch = &call->ring->bunch;
	uint64_t took = call->end - bunch->mark;
	uint32_t calls = bunch->since_mark;
	bool first = !bunch->mark;

	bunch->mark = call->end;
	bunch->since_mark = 0;
	if (bunch->holding_off) {
		bunch->holding_off -= calls < bunch->holding_off ? calls : bunch->holding_off;
		return;
	}
	if (first || ws_rt->arena->lossless || took >= calls * make_ticks(DENSE_NS))
		return;
	bunch->period = took / calls;
	forget_shapes(bunch);
	bunch->dense = 1;
}

static void stop_collecting(struct ws_library_bunch *bunch)
{
	bunch->dense = 0;
	bunch->open = WS_BUNCH_NOT_OPEN;
	bunch->mark = 0;
	bunch->since_mark = 0;
}

/* `last_start`: about when the last call began, where it has taken long; 0 otherwise. */
static WS_APART void write_bunch(struct ws_library_bunch *bunch, uint64_t end, uint64_t last_start)
{
	uint32_t calls = count_calls(bunch);
	struct ws_rec_library_bunch *record;
	size_t bytes = sizeof(*record) + bunch->words * sizeof(*record->word);
	struct ws_thread *thread = ws_rt_enter();

	record = thread ? ws_rt_reserve(thread, bytes, WS_LOSS_OTHER) : NULL;
	if (record) {
		record->rec =
			ws_rec_head(WS_REC_LIBRARY_BUNCH, bytes, (uint16_t)calls, bunch->words);
		record->start = bunch->start;
		record->end = end;
		record->first_end = bunch->first_end;
		record->last_start = last_start;
		memcpy(record->call, bunch->call, sizeof(record->call));
		memcpy(record->word, bunch->word, bunch->words * sizeof(*record->word));
		ws_rt_commit(thread, record, bytes);
	} else if (thread) { /* one of them has been counted */
		ws_rt_count_loss(thread, WS_LOSS_OTHER, calls - 1);
	}
	bunch->open = WS_BUNCH_NOT_OPEN;
	atomic_store_explicit(&bunch->calls, 0, memory_order_release);
	if (thread)
		ws_rt_leave(thread);
}

static void finish_bunch(struct ws_library_bunch *bunch, uint64_t end)
{
	uint32_t calls = count_calls(bunch);
	uint64_t took = end - bunch->start;

	if (took > calls * make_ticks(SLOW_NS)) {
		/* There was a pause, after the last call as far as is known. */
		uint64_t likely = bunch->start + bunch->period * calls;

		stop_collecting(bunch);
		write_bunch(bunch, ws_max(likely, bunch->first_end), 0);
		return;
	}
	bunch->period = took / calls;
	write_bunch(bunch, end, 0);
}

/* Write the bunch after its last call, which has just ended, and seems to have been the reason
 * where the recorder has come meanwhile and the bunch took long. */
static WS_APART void end_bunch(struct ws_library_bunch *bunch)
{
	bool long_call = bunch->heartbeat != ws_library_read_heartbeat(ws_rt->arena);
	uint32_t calls = count_calls(bunch);
	uint64_t now = ws_rt_read_ticks(), took = now - bunch->start;
	uint64_t last_start = bunch->start + bunch->period * (calls - 1);

	if (took > calls * make_ticks(SLOW_NS))
		stop_collecting(bunch);
	if (long_call && calls > 1 && took > SLOW_PERIODS * bunch->period * calls) {
		write_bunch(bunch, now, ws_max(last_start, bunch->first_end));
		return;
	}
	bunch->period = took / calls;
	write_bunch(bunch, now, 0);
}

static WS_ALWAYS_INLINE bool is_alike(const int64_t *word, int64_t head, const int64_t *kept,
				      unsigned count)
{
	int64_t differs = 0;

	if (word[0] != head)
		return false;
	for (unsigned i = 0; i < count; i++)
		differs |= word[1 + i] ^ kept[i];
	return !differs;
}

/* The shape with this first word and these values; bunch->shapes if there is none. */
static unsigned find_shape(const struct ws_library_bunch *bunch, int64_t head, const int64_t *kept,
			   unsigned count)
{
	unsigned shape = 0;

	while (shape < bunch->shapes &&
	       !is_alike(bunch->word + bunch->at[shape], head, kept, count))
		shape++;
	return shape;
}

/* There is no room for the shape of the call that has ended last: it begins the next bunch. */
static WS_NOINLINE void begin_anew(struct ws_library_bunch *bunch)
{
	uint64_t now = ws_rt_read_ticks();
	uint32_t calls = count_calls(bunch);

	if (calls) {
		now = ws_max(now - ws_min(bunch->period, now - bunch->start), bunch->first_end);
		finish_bunch(bunch, now);
		bunch->start = now;
	}
	forget_shapes(bunch);
	if (calls < TOO_FEW_CALLS) {
		stop_collecting(bunch);
		bunch->holding_off = HELD_OFF_CALLS;
	}
}

static WS_NOINLINE unsigned find_or_add_shape(struct ws_library_bunch *bunch, int64_t head,
					      const int64_t *kept, unsigned count)
{
	unsigned shape = find_shape(bunch, head, kept, count);

	if (shape == bunch->shapes) {
		if (shape == WS_BUNCH_SHAPES || bunch->words + 1 + count > WS_BUNCH_WORDS)
			begin_anew(bunch);
		shape = bunch->shapes++;
		bunch->at[shape] = (uint16_t)bunch->words;
		bunch->word[bunch->words++] = head;
		memcpy(bunch->word + bunch->words, kept, count * sizeof(*kept));
		bunch->words += count;
	}
	bunch->follows[bunch->last] = (uint8_t)shape;
	return shape;
}

static WS_ALWAYS_INLINE void add_call(struct ws_library_bunch *bunch, int64_t head,
				      const int64_t *kept)
{
	/* Mostly it is the shape that followed the one before last time. */
	unsigned shape = bunch->follows[bunch->last], count = (uint8_t)head;
	uint32_t calls;

	if (ws_unlikely(!is_alike(bunch->word + bunch->at[shape], head, kept, count)))
		shape = find_or_add_shape(bunch, head, kept, count);
	calls = count_calls(bunch);
	if (ws_unlikely(!calls)) {
		bunch->first_end = ws_rt_read_ticks();
		bunch->open = bunch->dense ? bunch->heartbeat : WS_BUNCH_NOT_OPEN;
	}
	if (ws_unlikely(calls + 1 >= WS_BUNCH_FULL))
		bunch->open = WS_BUNCH_NOT_OPEN;
	bunch->call[calls] = (uint8_t)shape;
	bunch->last = shape;
	atomic_store_explicit(&bunch->calls, calls + 1, memory_order_release);
}

static WS_ALWAYS_INLINE void collect_pending(struct ws_library_bunch *bunch)
{
	uint32_t pending = atomic_load_explicit(&bunch->pending, memory_order_relaxed);

	if (pending)
		add_call(bunch, bunch->pending_word[0], bunch->pending_word + 1);
	atomic_store_explicit(&bunch->pending, 0, memory_order_release);
}

void ws_library_close_bunch(struct ws_library_bunch *bunch, uint64_t end)
{
	collect_pending(bunch);
	finish_bunch(bunch, end);
}

/* Begin a bunch with the next call, after the end of the one before; false: the thread's calls are
 * no longer collected. */
static bool begin_bunch(struct ws_library_bunch *bunch)
{
	uint64_t now = ws_rt_read_ticks();

	if (count_calls(bunch))
		ws_library_close_bunch(bunch, now);
	if (bunch->shapes > WS_BUNCH_SHAPES / 2)
		forget_shapes(bunch);
	bunch->start = now;
	bunch->heartbeat = ws_library_read_heartbeat(ws_rt->arena);
	return bunch->dense && ws_self->generation;
}

bool ws_library_make_room(const struct ws_library_call *call, struct ws_ring *ring, bool waits)
{
	struct ws_open_library_call *note = ws_library_slot(ring);
	struct ws_library_bunch *bunch = &ring->bunch;

	if (!ws_rt_is_collecting() || (note->start && ws_library_is_nested(note, call)))
		return false;
	if (waits)
		collect_pending(bunch);
	return bunch->open == ws_library_read_heartbeat(ws_rt->arena) || begin_bunch(bunch);
}

void ws_library_collect(struct ws_library_bunch *bunch, int64_t head, const int64_t *kept)
{
	struct ws_ring *ring = (void *)((char *)bunch - offsetof(struct ws_ring, bunch));

	if (atomic_load_explicit(&bunch->pending, memory_order_relaxed))
		collect_pending(bunch);
	add_call(bunch, head, kept);
	if (ws_unlikely(bunch->open != ws_library_read_heartbeat(ws_rt->arena)))
		end_bunch(bunch);
	__atomic_store_n(&ws_library_slot(ring)->start, 0, __ATOMIC_RELEASE);
}
