/* drain.c - see drain.h. Processes are in proc.c, the simple converters in from_process.c. */
#include "record/from_nccl.h"
#include "record/drain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "record/from_cuda.h"
#include "record/perf.h"
#include "record/proc.h"
#include "record/python.h"

#define TEXTS_MOST (1u << 20)
#define COMMIT_NS 20000000u /* between commits in a round */
#define STORM_NS 10000000u  /* after the first look that found a bunch, and no newer one since */
#define PIECES_MOST (64u << 20) /* bytes of a text that comes in several records */

static void (*const converters[WS_REC_COUNT])(struct ws_stream *, const struct ws_rec *) = {
#define X(kind, fn) [WS_REC_##kind] = ws_convert_##fn,
	WS_RECORD_KINDS(X)
#undef X
};

struct ws_drain *ws_drain_new(struct ws_area *area, struct ws_clock *clock,
			      const struct ws_drain_ops *ops)
{
	struct ws_drain *drain = ws_calloc(1, sizeof(*drain));

	drain->area = area;
	drain->arena = area->arena;
	drain->clock = clock;
	drain->ops = *ops;
	drain->epoll = epoll_create1(EPOLL_CLOEXEC);
	drain->keep_from = UINT64_MAX;
	drain->window.to = UINT64_MAX;
	ws_chunks_init(&drain->chunks, area);
	drain->string_ids = ws_calloc(area->chunk_end, sizeof(*drain->string_ids));
	return drain;
}

void ws_drain_perf(struct ws_drain *drain, struct ws_perf *perf)
{
	drain->perf = perf;
}

void ws_drain_collect(struct ws_drain *drain, uint64_t from, uint64_t to)
{
	drain->window = (struct ws_window){from, to ? to : UINT64_MAX};
	if (!to)
		drain->open_done = false;
}

void ws_drain_rest(struct ws_drain *drain)
{
	drain->window = (struct ws_window){UINT64_MAX, 0};
}

uint32_t ws_drain_take_dropped_ranges(struct ws_drain *drain)
{
	uint32_t ranges = drain->dropped_ranges;

	drain->dropped_ranges = 0;
	return ranges;
}

void ws_drain_tell_live(struct ws_drain *drain)
{
	for (struct ws_proc *process = drain->procs; process; process = process->next)
		if (process->slot[WS_SLOT_CUDA])
			ws_cuda_tell_live(process, process->slot[WS_SLOT_CUDA]);
}

bool ws_drain_awaits_gpu(const struct ws_drain *drain)
{
	for (const struct ws_proc *process = drain->procs; process; process = process->next)
		if (process->home && !process->ending &&
		    atomic_load_explicit(&process->home->gpu_flushes, memory_order_acquire))
			return true;
	return false;
}

bool ws_drain_has_late_cuda(const struct ws_drain *drain)
{
	for (const struct ws_proc *process = drain->procs; process; process = process->next)
		if (process->home && !process->ending &&
		    atomic_load_explicit(&process->home->late_cuda, memory_order_acquire))
			return true;
	return false;
}

void ws_drain_target(struct ws_drain *drain, pid_t pid)
{
	drain->target = pid;
}

uint32_t ws_drain_registered(const struct ws_drain *drain)
{
	return drain->registered;
}

void ws_drain_each(struct ws_drain *drain, void (*fn)(void *ctx, int pid), void *ctx)
{
	for (struct ws_proc *process = drain->procs; process; process = process->next)
		if (!process->settled && process->host_pid > 0)
			fn(ctx, process->host_pid);
}

/* ---- finding rings ---- */

static void add_ring(struct ws_drain *drain, uint32_t slot, uint32_t chunk)
{
	struct ws_ring *ring = ws_chunk_at(drain->arena, chunk);
	struct ws_proc *process = ws_drain_process(drain, ws_read_shared(ring->process_home));
	struct ws_ring_state *ring_state;

	if (!process || /* not ready yet: try in the next round */
	    !ws_chunks_claim(&drain->chunks, chunk, process, WS_USE_RING))
		return;
	ring_state = ws_calloc(1, sizeof(*ring_state));
	ring_state->ring = ring;
	ring_state->nest = ws_read_shared(ring->nest);
	ring_state->start = ws_read_shared(ring->start);
	ring_state->home = ring_state->chunk = chunk;
	ring_state->slot = slot;
	ring_state->offset = WS_RING_DATA;
	ring_state->stream = ws_drain_make_stream(drain, process);
	ring_state->stream.ring = ring;
	ring_state->stream.tid = ws_read_shared(ring->tid);
	process->rings++;
	drain->slot[slot] = ring_state;
}

static void find_new_rings(struct ws_drain *drain)
{
	uint32_t used = atomic_load_explicit(&drain->arena->dir_used, memory_order_acquire);

	/* The directory only grows: rings that are known stay known, whatever the arena says. */
	if (used > drain->slots_used)
		drain->slots_used = ws_min(used, WS_DIR_SLOTS);
	for (uint32_t slot = 0; slot < drain->slots_used; slot++) {
		uint32_t chunk =
			atomic_load_explicit(&drain->arena->directory[slot], memory_order_acquire);
		uint32_t kind;

		if (!chunk || drain->slot[slot] || !ws_chunks_has(&drain->chunks, chunk))
			continue;
		kind = ws_read_shared(((struct ws_chunk *)ws_chunk_at(drain->arena, chunk))->kind);
		if (kind == WS_CHUNK_PROCESS)
			ws_drain_process(drain, chunk);
		else if (kind == WS_CHUNK_RING)
			add_ring(drain, slot, chunk);
	}
}

/* ---- how far has it got ---- */

static void mark_ring_broken(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	if (!ring_state->broken)
		ws_sink_diagnostic(ring_state->stream.sink, WS_ERROR, "recorder",
				   ring_state->stream.process,
				   drain->clock->readings[drain->clock->n - 1].raw,
				   "A thread's recorded data was overwritten by the program itself "
				   "(a stray write into shared memory); part of "
				   "it is lost.");
	ring_state->broken = true;
	ring_state->damaged++;
}

static void snapshot_rings(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	uint32_t chunk = ring_state->chunk, next, used;

	for (;;) {
		struct ws_chunk *shared = ws_chunk_at(drain->arena, chunk);

		next = atomic_load_explicit(&shared->next, memory_order_acquire);
		used = atomic_load_explicit(&shared->used, memory_order_acquire);
		if (next == WS_CHUNK_NONE || ring_state->cut)
			break;
		/* A chunk that is met twice, here or elsewhere, has an owner already. */
		if (!ws_chunks_claim(&drain->chunks, next, ring_state->stream.proc, WS_USE_DATA)) {
			ring_state->cut = true;
			mark_ring_broken(drain, ring_state);
			break;
		}
		drain->chunks.entry[chunk].next = next;
		chunk = next;
	}
	ring_state->snap_chunk = chunk;
	ring_state->snap_used = ws_min(used, WS_CHUNK_SIZE);
}

/* ---- converting ---- */
static uint64_t convert_chunk(struct ws_drain *drain, struct ws_ring_state *ring_state,
			      uint32_t used)
{
	const struct ws_chunk *shared = ws_chunk_at(drain->arena, ring_state->chunk);
	uint32_t at = ring_state->offset, from = at;
	uint64_t n = 0;

	used &= ~7u; /* records are whole words */
	if (at >= used)
		return 0;
	ring_state->stream.base = ws_read_shared(shared->base);
	ws_copy_out(drain->chunk + at, (const char *)shared + at, used - at);
	while (at < used) {
		const struct ws_rec *rec = (const void *)(drain->chunk + at);
		uint32_t bytes = ws_rec_bytes(rec);

		if (ws_unlikely(bytes < sizeof(*rec) || bytes > used - at || !rec->kind ||
				rec->kind >= WS_REC_COUNT)) {
			mark_ring_broken(drain, ring_state);
			at = used;
			break;
		}
		converters[rec->kind](&ring_state->stream, rec);
		at += bytes;
		n++;
	}
	ring_state->offset = at;
	ring_state->stream.sink->events += n;
	return at - from;
}

/* A large backlog takes long to convert. A kill in the meantime should not lose more of it than of
 * any other round. */
static void commit_long_round(struct ws_drain *drain)
{
	uint64_t now = ws_read_raw_ns();

	if (!drain->ops.commit || now - drain->last_commit < COMMIT_NS)
		return;
	drain->ops.commit(drain->ops.ctx);
	drain->last_commit = now;
}

static uint64_t convert_ring(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	uint64_t bytes = 0;

	if (!ring_state->stream.thread &&
	    (ring_state->chunk != ring_state->snap_chunk ||
	     ring_state->offset < ring_state->snap_used || ring_state->ending))
		ring_state->stream.thread =
			ws_proc_thread_at(ring_state->stream.proc, ring_state->stream.tid,
					  ws_clock_ns(drain->clock, ring_state->start));
	while (ring_state->chunk != ring_state->snap_chunk) {
		struct ws_chunk *chunk = ws_chunk_at(drain->arena, ring_state->chunk);
		uint32_t used = atomic_load_explicit(&chunk->used, memory_order_acquire),
			 done = ring_state->chunk;

		bytes += convert_chunk(drain, ring_state, ws_min(used, WS_CHUNK_SIZE));
		/* The next chunk is the one that the snapshot found: the number in the chunk may
		 * have changed since. */
		ring_state->chunk = drain->chunks.entry[done].next;
		ring_state->offset = sizeof(struct ws_chunk);
		if (done != ring_state->home)
			ws_chunks_give(&drain->chunks, done, ring_state->stream.proc);
		commit_long_round(drain);
		/* a writer that is faster than this should not have to allocate for itself */
		ws_area_feed(drain->area);
	}
	if (ring_state->offset < ring_state->snap_used)
		bytes += convert_chunk(drain, ring_state, ring_state->snap_used);
	return bytes;
}

/* ---- ends ---- */

/* Ranges open at once in one thread fit into this many chunks. */
#define OPEN_CHUNKS 64u

static void open_events(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	uint32_t depth = atomic_load_explicit(&ring_state->ring->open_depth, memory_order_acquire),
		 level = 0;
	uint32_t more = atomic_load_explicit(&ring_state->ring->open_more, memory_order_acquire);

	for (; level < depth && level < WS_OPEN_DEPTH; level++)
		ws_convert_open(&ring_state->stream, &ring_state->ring->open[level]);
	for (uint32_t n = 0; n < OPEN_CHUNKS && level < depth; n++) {
		const struct ws_open_chunk *chunk;

		if (!ws_chunks_allows(&drain->chunks, more, ring_state->stream.proc))
			break;
		chunk = ws_chunk_at(drain->arena, more);
		for (uint32_t i = 0; i < WS_OPEN_PER_CHUNK && level < depth; i++, level++)
			ws_convert_open(&ring_state->stream, &chunk->open[i]);
		more = atomic_load_explicit(&chunk->chunk.next, memory_order_acquire);
	}
	ws_convert_osrt_open(&ring_state->stream);
	ws_convert_library_open(&ring_state->stream);
}

static const char *const loss_names[WS_LOSS_KINDS] = {[WS_LOSS_NVTX] = "nvtx",
						      [WS_LOSS_OSRT] = "osrt",
						      [WS_LOSS_OTHER] = "other events",
						      [WS_LOSS_DEPTH] = "nvtx",
						      [WS_LOSS_CUDA] = "cuda",
						      [WS_LOSS_SAMPLE] = "CPU samples",
						      [WS_LOSS_PYTHON] = "Python samples"};

/* No thread loses more than one event in a nanosecond: a count above that was overwritten. */
static uint64_t most_losses(const struct ws_drain *drain, const struct ws_ring_state *ring_state)
{
	return drain->clock->readings[drain->clock->n - 1].raw -
	       ws_clock_ns(drain->clock, ring_state->start) + 1000;
}

static void write_losses(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	uint64_t most = most_losses(drain, ring_state), lost[WS_LOSS_KINDS];

	for (int k = 0; k < WS_LOSS_KINDS; k++) {
		uint64_t count =
			atomic_load_explicit(&ring_state->ring->lost[k], memory_order_relaxed);

		lost[k] = count - ring_state->lost[k];
		ring_state->lost[k] = count;
		if (lost[k] > most) {
			lost[k] = 0;
			mark_ring_broken(drain, ring_state);
		}
	}
	lost[WS_LOSS_OTHER] += ring_state->damaged;
	ring_state->damaged = 0;
	ring_state->stream.sink->stacks_left_out += lost[WS_LOSS_STACK];
	ring_state->stream.sink->yields_left_out += lost[WS_LOSS_YIELD];
	ring_state->stream.sink->wakes_left_out += lost[WS_LOSS_WAKE];
	lost[WS_LOSS_STACK] = lost[WS_LOSS_YIELD] = lost[WS_LOSS_WAKE] = 0;
	for (int k = 0; k < WS_LOSS_KINDS; k++)
		if (lost[k])
			ws_sink_loss(ring_state->stream.sink, ring_state->stream.thread,
				     ws_text_or(loss_names[k], "other events"), lost[k],
				     k == WS_LOSS_DEPTH	  ? "ranges nested too deep"
				     : ring_state->broken ? "shared memory was overwritten or full"
							  : "the memory for recording was full");
}

/* Give back the chunks with open ranges that did not fit into the home chunk. */
static void give_open_chunks(struct ws_drain *drain, const struct ws_ring_state *ring_state)
{
	uint32_t more = atomic_load(&ring_state->ring->open_more), chunks[OPEN_CHUNKS], n = 0;

	/* All are claimed before the first is given back, so that none is given back twice. */
	while (n < OPEN_CHUNKS &&
	       ws_chunks_claim(&drain->chunks, more, ring_state->stream.proc, WS_USE_DATA)) {
		struct ws_chunk *shared = ws_chunk_at(drain->arena, more);

		chunks[n++] = more;
		more = atomic_load_explicit(&shared->next, memory_order_acquire);
	}
	while (n--)
		ws_chunks_give(&drain->chunks, chunks[n], ring_state->stream.proc);
}

static void settle_ring(struct ws_drain *drain, struct ws_ring_state *ring_state, bool memory_too)
{
	struct ws_proc *process = ring_state->stream.proc;

	if (!drain->open_done)
		open_events(drain, ring_state);
	ws_convert_nvtx_stream_end(&ring_state->stream);
	ws_convert_python_stream_end(&ring_state->stream);
	ws_convert_stack_stream_end(&ring_state->stream);
	write_losses(drain, ring_state);
	if (ring_state->nest == 0)
		ws_proc_thread_ended(process, ring_state->stream.thread);
	if (memory_too) {
		give_open_chunks(drain, ring_state);
		if (ring_state->chunk != ring_state->home)
			ws_chunks_give(&drain->chunks, ring_state->chunk, process);
		atomic_store_explicit(&drain->arena->directory[ring_state->slot], 0,
				      memory_order_release);
		ws_chunks_give(&drain->chunks, ring_state->home, process);
	} else {
		ws_chunks_leave(&drain->chunks, ring_state->chunk, process);
		ws_chunks_leave(&drain->chunks, ring_state->home, process);
	}
	drain->slot[ring_state->slot] = NULL;
	process->rings--;
	free(ring_state->text_number);
	free(ring_state->text_id);
	free(ring_state->piece);
	free(ring_state);
}

/* ---- a round ---- */

void ws_drain_beat(struct ws_drain *drain)
{
	struct ws_arena *arena = drain->arena;
	uint64_t now =
		drain->clock->mode == WS_CLOCK_COUNTER ? ws_read_counter() : ws_read_raw_ns();

	atomic_store_explicit(&arena->heartbeat, now, memory_order_relaxed);
	if (now - atomic_load_explicit(&arena->period, memory_order_relaxed) >=
	    arena->ticks_per_second / WS_PERIODS_A_SECOND)
		atomic_store_explicit(&arena->period, now, memory_order_relaxed);
}

bool ws_drain_has_backlog(const struct ws_drain *drain, uint32_t chunks)
{
	uint32_t full = 0;

	for (uint32_t i = 0; i < drain->slots_used; i++) {
		uint32_t chunk = drain->slot[i] ? drain->slot[i]->chunk : WS_CHUNK_NONE;

		/* A chain that has been overwritten may be a loop, and is followed no further. */
		while (chunk != WS_CHUNK_NONE && ws_chunks_has(&drain->chunks, chunk)) {
			const struct ws_chunk *shared = ws_chunk_at(drain->arena, chunk);

			chunk = atomic_load_explicit(&shared->next, memory_order_relaxed);
			if (chunk != WS_CHUNK_NONE && ++full >= chunks)
				return true;
		}
	}
	return false;
}

/*
 * Whether the thread calls a library without pause: it collects calls in bunches, and has begun
 * one lately. Each sample of such a thread delays those that wait for it, too.
 */
static bool look_for_storm(const struct ws_drain *drain, struct ws_ring_state *ring_state,
			   uint64_t now)
{
	const struct ws_stream *stream = &ring_state->stream;
	uint64_t bunch = ws_read_shared(ring_state->ring->bunch.start);

	if (bunch != ring_state->bunch)
		ring_state->bunch_seen = now;
	ring_state->bunch = bunch;
	if (!ws_read_shared(ring_state->ring->bunch.dense) ||
	    now - ring_state->bunch_seen >= STORM_NS)
		return false;
	if (stream->proc->pid_ns == drain->area->pid_ns)
		ws_perf_note_storm(drain->perf, stream->tid, now);
	return true;
}

bool ws_drain_look_for_storms(struct ws_drain *drain, uint64_t now)
{
	bool found = false;

	for (uint32_t i = 0; i < drain->slots_used; i++)
		found |= drain->slot[i] && look_for_storm(drain, drain->slot[i], now);
	return found;
}

static uint64_t drain_round(struct ws_drain *drain, bool last)
{
	uint64_t bytes = 0;

	ws_drain_beat(drain);
	ws_drain_poll_ends(drain);
	/*
	 * A process known to have ended before the directory is read has all its rings in it. One
	 * that is found dead while it is read may have put a ring into a slot that was already
	 * passed: it is settled a round later, when its rings have been seen.
	 */
	for (struct ws_proc *process = drain->procs; process; process = process->next)
		process->complete = process->ending;
	find_new_rings(drain);
	if (last)
		find_new_rings(drain);
	for (uint32_t i = 0; i < drain->slots_used; i++)
		if (drain->slot[i]) {
			struct ws_ring_state *ring_state = drain->slot[i];

			ring_state->ending = ring_state->stream.proc->ending ||
					     atomic_load_explicit(&ring_state->ring->closed,
								  memory_order_acquire);
			snapshot_rings(drain, ring_state);
		}
	ws_clock_read(drain->clock);
	ws_drain_look_for_storms(drain, drain->clock->readings[drain->clock->n - 1].raw);
	drain->last_commit = drain->clock->readings[drain->clock->n - 1].raw;
	if (drain->ops.before_convert)
		drain->ops.before_convert(drain->ops.ctx);
	/* Convert first what other threads wrote: what CUPTI hands back on its own threads refers
	 * to it. */
	for (uint32_t k = 0; k < 2 * drain->slots_used; k++) {
		struct ws_ring_state *ring_state = drain->slot[k % drain->slots_used];

		if (!ring_state || ring_state->stream.late != (k >= drain->slots_used))
			continue;
		bytes += convert_ring(drain, ring_state);
		if (ring_state->ending || last)
			settle_ring(drain, ring_state,
				    ring_state->ending && (ring_state->stream.proc->host_pid ||
							   atomic_load(&ring_state->ring->closed)));
	}
	for (struct ws_proc *process = drain->procs, *next; process; process = next) {
		next = process->next;
		if ((process->complete || last) && !process->rings) {
			if (!process->ending)
				process->reason = WS_END_RUNNING;
			/* A process that we cannot see may have threads that go on writing after it
			 * announced its end, so its memory stays. */
			ws_drain_settle_process(drain, process,
						process->ending && process->host_pid);
		}
	}
	ws_drain_write_ends(drain, last);
	if (drain->started_n)
		ws_drain_check_started(drain, last);
	ws_python_round(drain->python, drain->clock->readings[drain->clock->n - 1].raw);
	return bytes;
}

uint64_t ws_drain_round(struct ws_drain *drain)
{
	return drain_round(drain, false);
}

void ws_drain_settle_window(struct ws_drain *drain)
{
	for (uint32_t i = 0; i < drain->slots_used; i++)
		if (drain->slot[i])
			write_losses(drain, drain->slot[i]);
	ws_drain_write_ends(drain, true);
}

static void write_open_ranges(struct ws_drain *drain)
{
	for (struct ws_proc *process = drain->procs; process; process = process->next) {
		struct ws_stream stream = ws_drain_make_stream(drain, process);

		ws_convert_nvtx_window_end(&stream);
		if (process->slot[WS_SLOT_CUDA])
			ws_cuda_settle_late(&stream, process->slot[WS_SLOT_CUDA]);
		ws_stream_put_collectives(&stream, true);
	}
}

void ws_drain_open_events(struct ws_drain *drain)
{
	for (uint32_t i = 0; i < drain->slots_used; i++)
		if (drain->slot[i]) {
			if (!drain->slot[i]->stream.thread)
				drain->slot[i]->stream.thread = ws_proc_thread(
					drain->slot[i]->stream.proc, drain->slot[i]->stream.tid,
					ws_clock_ns(drain->clock, drain->slot[i]->start));
			open_events(drain, drain->slot[i]);
		}
	write_open_ranges(drain);
	drain->open_done = true;
}

static void hold_texts(const struct ws_ring_state *ring_state)
{
	for (uint32_t i = 0; i < ring_state->text_cap; i++)
		if (ring_state->text_number[i])
			ws_writer_hold_string(ring_state->stream.writer, ring_state->text_id[i]);
}

void ws_drain_hold_strings(struct ws_drain *drain)
{
	for (uint32_t i = 0; i < drain->slots_used; i++)
		if (drain->slot[i])
			hold_texts(drain->slot[i]);
	for (struct ws_proc *process = drain->procs; process; process = process->next)
		ws_nvtx_hold_strings(process, process->sink->writer);
}

void ws_drain_go_on(struct ws_drain *drain)
{
	drain->open_done = false;
}

void ws_drain_finish(struct ws_drain *drain)
{
	drain_round(drain, true);
	for (uint32_t i = 0; i < GONE_BUCKETS; i++)
		while (drain->gone[i]) {
			struct ws_proc *process = drain->gone[i];

			drain->gone[i] = process->next;
			ws_proc_free(process);
		}
	for (uint32_t i = 0; i < drain->area->chunk_end; i++)
		free(drain->string_ids[i]);
	free(drain->string_ids);
	ws_chunks_free(&drain->chunks);
	free(drain->ends);
	free(drain->started);
	ws_map_free(&drain->looked_into);
	close(drain->epoll);
	free(drain);
}

/* ---- strings, for converters ---- */

static uint32_t get_string_chunk(uint32_t handle)
{
	return (uint32_t)((uint64_t)handle * 8 / WS_CHUNK_SIZE);
}

/* Whether the process defines strings in this chunk. */
static bool has_strings(struct ws_proc *process, uint32_t chunk)
{
	const struct ws_chunk_owner *entry;

	if (!process->home || !ws_chunks_has(&process->drain->chunks, chunk))
		return false;
	if (chunk == process->home_chunk)
		return true;
	entry = &process->drain->chunks.entry[chunk];
	if (entry->use == WS_USE_UNKNOWN)
		ws_proc_claim_strings(process);
	return entry->use == WS_USE_STRINGS && entry->owner == process;
}

/* Copy the string behind a handle of the process, and a NUL, into `copy`; false when there is none.
 */
static bool copy_string(struct ws_proc *process, uint32_t handle, char copy[WS_CHUNK_SIZE],
			size_t *len)
{
	uint64_t offset = (uint64_t)handle * 8 % WS_CHUNK_SIZE;
	const struct ws_shared_string *shared;

	if (!handle || offset < sizeof(struct ws_chunk) ||
	    !has_strings(process, get_string_chunk(handle)))
		return false;
	shared = ws_string_at(process->drain->arena, handle);
	*len = ws_read_shared(shared->len);
	if (offset + sizeof(*shared) + *len >= WS_CHUNK_SIZE)
		return false;
	ws_copy_out(copy, shared->bytes, *len);
	copy[*len] = 0;
	return true;
}

uint32_t ws_stream_string(struct ws_stream *stream, uint32_t handle)
{
	struct ws_drain *drain = stream->proc->drain;
	uint32_t chunk = get_string_chunk(handle), *ids;
	char *copy = drain->text[drain->text_turn & 1];
	size_t len;

	if (!handle || !has_strings(stream->proc, chunk))
		return 0;
	ids = drain->string_ids[chunk];
	if (ids && ids[handle % (WS_CHUNK_SIZE / 8)])
		return ids[handle % (WS_CHUNK_SIZE / 8)];
	if (!copy_string(stream->proc, handle, copy, &len))
		return 0;
	if (!ids)
		ids = drain->string_ids[chunk] = ws_calloc(WS_CHUNK_SIZE / 8, sizeof(*ids));
	ids += handle % (WS_CHUNK_SIZE / 8);
	*ids = ws_writer_string(stream->writer, copy, len);
	return *ids;
}

const char *ws_stream_string_bytes(struct ws_stream *stream, uint32_t handle, size_t *len)
{
	struct ws_drain *drain = stream->proc->drain;
	char *copy = drain->text[drain->text_turn++ & 1];

	return copy_string(stream->proc, handle, copy, len) ? copy : NULL;
}

uint32_t ws_stream_intern(struct ws_stream *stream, const void *bytes, size_t len)
{
	return ws_writer_string(stream->writer, bytes, len);
}

uint32_t ws_stream_thread(struct ws_stream *stream, uint32_t tid)
{
	if (stream->ring && tid == stream->tid)
		return stream->thread;
	return ws_proc_thread(stream->proc, tid, stream->clock->readings[stream->clock->n - 1].raw);
}

/*
 * Local texts: numbers count up and are mostly forgotten in order, so a table indexed by their low
 * bits seldom has collisions. A text that stays for long (of an outer range) is skipped; the table
 * is doubled only when many stay.
 */
#define TEXTS_FIRST 64
#define TEXTS_STEPS 64

static bool put_text(struct ws_ring_state *ring_state, uint32_t number, uint32_t id)
{
	for (uint32_t k = 0; ring_state->text_cap && k < TEXTS_STEPS; k++) {
		uint32_t i = (number + k) & (ring_state->text_cap - 1);

		if (!ring_state->text_number[i]) {
			ring_state->text_number[i] = number;
			ring_state->text_id[i] = id;
			return true;
		}
	}
	return false;
}

static void grow_texts(struct ws_ring_state *ring_state)
{
	uint32_t old_cap = ring_state->text_cap, *number = ring_state->text_number,
		 *id = ring_state->text_id;

	ring_state->text_cap = old_cap ? old_cap * 2 : TEXTS_FIRST;
	ring_state->text_number = ws_calloc(ring_state->text_cap, sizeof(*number));
	ring_state->text_id = ws_calloc(ring_state->text_cap, sizeof(*id));
	for (uint32_t i = 0; i < old_cap; i++)
		if (number[i] && !put_text(ring_state, number[i],
					   id[i])) { /* too many whose low bits are alike */
			ring_state->text_number[number[i] & (ring_state->text_cap - 1)] = number[i];
			ring_state->text_id[number[i] & (ring_state->text_cap - 1)] = id[i];
		}
	free(number);
	free(id);
}

static void keep_whole_text(struct ws_ring_state *ring_state, uint32_t number, uint32_t id)
{
	while (!put_text(ring_state, number, id)) {
		if (ring_state->text_cap >= TEXTS_MOST) {
			ring_state->text_number[number & (ring_state->text_cap - 1)] =
				0; /* the oldest is forgotten */
			continue;
		}
		grow_texts(ring_state);
	}
}

uint32_t ws_stream_text(struct ws_stream *stream, uint32_t number, bool last)
{
	struct ws_ring_state *ring_state = (struct ws_ring_state *)stream;

	if (!stream->ring || !number)
		return 0;
	for (uint32_t k = 0; ring_state->text_cap && k < TEXTS_STEPS; k++) {
		uint32_t i = (number + k) & (ring_state->text_cap - 1);

		if (ring_state->text_number[i] != number)
			continue;
		if (last)
			ring_state->text_number[i] = 0;
		return ring_state->text_id[i];
	}
	return 0;
}

void ws_convert_text(struct ws_stream *stream, const struct ws_rec *rec)
{
	struct ws_ring_state *ring_state = (struct ws_ring_state *)stream;
	const struct ws_rec_text *record = (const void *)rec;
	uint32_t bytes = ws_rec_bytes(rec);

	if (bytes < sizeof(*record) || record->len > bytes - sizeof(*record) || !record->number)
		return;
	if (ws_unlikely(ring_state->piece_len && ring_state->piece_number != record->number))
		ring_state->piece_len = 0; /* there was no memory for the rest of that text */
	if (ws_likely(!rec->small && !ring_state->piece_len)) {
		keep_whole_text(ring_state, record->number,
				ws_writer_passing_string(stream->writer, record->bytes,
							 record->len));
		return;
	}
	if (ring_state->piece_len + record->len > PIECES_MOST) {
		ring_state->piece_len = 0;
		return;
	}
	ws_grow(ring_state->piece, ring_state->piece_cap, ring_state->piece_len + record->len + 1);
	memcpy(ring_state->piece + ring_state->piece_len, record->bytes, record->len);
	ring_state->piece_len += record->len;
	ring_state->piece_number = record->number;
	if (rec->small)
		return;
	keep_whole_text(ring_state, record->number,
			ws_writer_passing_string(stream->writer, ring_state->piece,
						 ring_state->piece_len));
	ring_state->piece_len = 0;
	if (ring_state->piece_cap > 1 << 20) {
		free(ring_state->piece);
		ring_state->piece = NULL;
		ring_state->piece_cap = 0;
	}
}
