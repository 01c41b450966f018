/*
 * cuda_buffers.c - gives CUPTI the buffers that it fills, and turns what comes back into ring
 * records.
 *
 * Buffers lie in the session's shared memory: when the process is killed, what CUPTI had written is
 * still there for the recorder. They are handed out zeroed, so that the end of an unfinished one
 * can be recognised and CUPTI need not zero them in the program's threads.
 *
 * Completed buffers are delivered on a thread of CUPTI's or on ours, with CUPTI's locks held, so
 * the walk below only replaces pointers to texts, notes sizes and copies. It makes no call into
 * CUPTI except those meant for this place and takes no lock that anyone else could hold.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "inject/cuda.h"
#include "base/choose.h"
#include "ring/cuda_record.h"
#include "inject/stack.h"

_Atomic bool ws_cuda_context_seen;

/* ---- buffers ---- */

/*
 * Free buffers form a stack of numbers with a tag against ABA. Numbers below WS_BUFFERS are buffers
 * of the arena; the others are private memory, used when the arena has none left, and do not
 * survive a kill.
 */
enum { PRIVATE_MOST = 1024, BUFFERS_MOST = WS_BUFFERS + PRIVATE_MOST };
static _Atomic uint64_t free_head; /* tag << 32 | number + 1 */
static _Atomic uint32_t free_next[BUFFERS_MOST];
static void *private_at[PRIVATE_MOST];
static _Atomic uint32_t private_used;
static uint32_t scanned[WS_BUFFERS]; /* how far ws_cuda_scan_buffers has got */

static void push_free_buffer(uint32_t number)
{
	uint64_t head = atomic_load_explicit(&free_head, memory_order_relaxed);

	do {
		atomic_store_explicit(&free_next[number], (uint32_t)head, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		&free_head, &head, ((head >> 32) + 1) << 32 | (number + 1), memory_order_acq_rel,
		memory_order_relaxed));
}

static bool pop_free_buffer(uint32_t *number)
{
	uint64_t head = atomic_load_explicit(&free_head, memory_order_acquire);

	while ((uint32_t)head) {
		uint32_t next =
			atomic_load_explicit(&free_next[(uint32_t)head - 1], memory_order_relaxed);

		if (atomic_compare_exchange_weak_explicit(
			    &free_head, &head, ((head >> 32) + 1) << 32 | next,
			    memory_order_acq_rel, memory_order_acquire)) {
			*number = (uint32_t)head - 1;
			return true;
		}
	}
	return false;
}

static void *buffer_address(uint32_t number)
{
	return number < WS_BUFFERS ? ws_buffer_at(ws_rt->arena, number)
				   : private_at[number - WS_BUFFERS];
}

static int buffer_number(const void *buffer)
{
	struct ws_arena *arena = ws_rt->arena;
	uint64_t offset = (uint64_t)((const char *)buffer - (const char *)ws_buffer_at(arena, 0));
	uint32_t n = atomic_load_explicit(&private_used, memory_order_acquire);

	if (offset < (uint64_t)arena->buffer_count * WS_BUFFER_SIZE)
		return (int)(offset / WS_BUFFER_SIZE);
	for (uint32_t i = 0; i < n && i < PRIVATE_MOST; i++)
		if (private_at[i] == buffer)
			return (int)(WS_BUFFERS + i);
	return -1;
}

static void *map_private_buffer(void)
{
	long p = ws_raw_syscall(SYS_mmap, 0, WS_BUFFER_SIZE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t i;

	if (p < 0 && p > -4096)
		return NULL;
	i = atomic_fetch_add(&private_used, 1);
	if (i < PRIVATE_MOST)
		private_at[i] = (void *)p; /* otherwise freed when CUPTI is done with it */
	return (void *)p;
}

void ws_cuda_request_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
{
	uint32_t number;
	int fresh;

	*size = WS_BUFFER_SIZE;
	*max_records = 0;
	if (pop_free_buffer(&number)) {
		*buffer = buffer_address(number);
		return;
	}
	fresh = ws_rt_take_buffer();
	if (fresh >= 0) {
		*buffer = ws_buffer_at(ws_rt->arena, (uint32_t)fresh);
		memset(*buffer, 0, WS_BUFFER_SIZE);
		return;
	}
	*buffer = map_private_buffer();
	if (!*buffer)
		*size = 0;
}

static void give_back(uint8_t *buffer, size_t used)
{
	int number = buffer_number(buffer);

	if (number < 0) {
		ws_raw_syscall(SYS_munmap, (long)buffer, WS_BUFFER_SIZE, 0, 0, 0, 0);
		return;
	}
	memset(buffer, 0, used);
	if (number < (int)WS_BUFFERS)
		__atomic_store_n(&scanned[number], 0, __ATOMIC_RELAXED);
	if (number < (int)WS_BUFFERS)
		atomic_store_explicit(&ws_rt->arena->buffers[number].done, 0, memory_order_relaxed);
	push_free_buffer((uint32_t)number);
}

/* ---- texts ---- */

/*
 * Handles of texts by their address, checked by content: when a module is unloaded, its addresses
 * may be reused. One thread uses the table at a time; a thread that finds it in use uses its own
 * cache of strings instead.
 */
enum { NAMES = 4096 };
static struct {
	const char *pointer;
	uint32_t handle;
} names[NAMES];
static _Atomic bool names_busy;

/* So that the recorder can resolve the pointers it finds in the buffers of a killed process. */
static void write_name_pointer(struct ws_thread *thread, const char *text, uint32_t handle)
{
	struct ws_rec_cuda_name *record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);

	if (!record)
		return;
	record->rec = ws_rec_head(WS_REC_CUDA_NAME, sizeof(*record), WS_CUDA_NAME_POINTER, handle);
	record->key = (uint64_t)(uintptr_t)text;
	ws_rt_commit(thread, record, sizeof(*record));
}

static uint32_t define_name(struct ws_thread *thread, const char *text)
{
	size_t n = strlen(text);
	uint32_t handle = ws_rt_find_string(thread, text, ws_min(n, WS_STRING_MAX));

	if (handle)
		write_name_pointer(thread, text, handle);
	return handle;
}

static _Atomic uint32_t walking; /* completed buffers being walked */

static uint32_t name_handle(struct ws_thread *thread, const char *text)
{
	size_t at = ((uintptr_t)text >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 52;
	uint32_t handle;

	if (!text)
		return 0;
	if (atomic_exchange_explicit(&names_busy, true, memory_order_acquire))
		return define_name(thread, text);
	if (names[at].pointer == text &&
	    !strncmp(ws_string_at(ws_rt->arena, names[at].handle)->bytes, text, WS_STRING_MAX)) {
		handle = names[at].handle;
	} else {
		handle = define_name(thread, text);
		if (handle) {
			names[at].pointer = text;
			names[at].handle = handle;
		}
	}
	atomic_store_explicit(&names_busy, false, memory_order_release);
	return handle;
}

static void name_text(struct ws_thread *thread, const char **field)
{
	if (*field)
		*field = (const char *)(uintptr_t)(WS_CUPTI_HANDLE | name_handle(thread, *field));
}

static bool has_bytes(const void *record, size_t size, const void *field, size_t bytes)
{
	return (size_t)((const char *)field - (const char *)record) + bytes <= size;
}
#define HAS(r, size, field) has_bytes(r, size, &(r)->field, sizeof((r)->field))

static void replace_texts(struct ws_thread *thread, struct cupti_record *rec, size_t size)
{
	switch (rec->kind & 0xff) {
	case CUPTI_KIND_CONCURRENT_KERNEL:
	case CUPTI_KIND_KERNEL:
		if (HAS((struct cupti_kernel *)rec, size, name))
			name_text(thread, &((struct cupti_kernel *)rec)->name);
		break;
	case CUPTI_KIND_DEVICE:
		if (HAS((struct cupti_device *)rec, size, name))
			name_text(thread, &((struct cupti_device *)rec)->name);
		break;
	case CUPTI_KIND_MEMORY2:
		if (HAS((struct cupti_memory *)rec, size, name))
			name_text(thread, &((struct cupti_memory *)rec)->name);
		break;
	case CUPTI_KIND_JIT:
		if (HAS((struct cupti_jit *)rec, size, cache_path))
			name_text(thread, &((struct cupti_jit *)rec)->cache_path);
		break;
	case CUPTI_KIND_OVERHEAD:
		if (HAS((struct cupti_overhead *)rec, size, data)) {
			free(((struct cupti_overhead *)rec)->data); /* CUPTI leaves that to us */
			((struct cupti_overhead *)rec)->data = NULL;
		}
		break;
	case CUPTI_KIND_UNIFIED_MEMORY_COUNTER: /* has the address of an instruction */
		ws_rt_write_maps(thread);
		break;
	case CUPTI_KIND_CONTEXT:
		atomic_store_explicit(&ws_cuda_context_seen, true, memory_order_relaxed);
		break;
	default:
		break;
	}
}

/* ---- from record to record ---- */

/* The size of this CUPTI's records of a kind; 0 for a kind that it does not know. CUPTI looks only
 * at kinds, so it can be asked with a buffer that has this kind wherever the next record might
 * begin.
 */
static uint32_t find_record_size(uint32_t kind)
{
	static _Atomic uint32_t sizes[CUPTI_KIND_COUNT]; /* 1: not known to it */
	uint64_t fake[64];
	void *first = NULL, *second;
	uint32_t size;

	if (kind >= CUPTI_KIND_COUNT)
		return 0;
	size = atomic_load_explicit(&sizes[kind], memory_order_relaxed);
	if (size)
		return size & ~1u;
	for (size_t i = 0; i < WS_COUNT(fake); i++)
		fake[i] = kind;
	size = 1;
	if (!ws_cupti.ActivityGetNextRecord((uint8_t *)fake, sizeof(fake), &first)) {
		second = first;
		if (!ws_cupti.ActivityGetNextRecord((uint8_t *)fake, sizeof(fake), &second))
			size = (uint32_t)((uint8_t *)second - (uint8_t *)first);
	}
	atomic_store_explicit(&sizes[kind], size, memory_order_relaxed);
	return size & ~1u;
}

/* The record after `last`, or the first record if `last` is NULL; NULL at the end. CUPTI itself
 * stops at the first unfinished record. */
static uint8_t *find_next_record(uint8_t *buffer, size_t valid, uint8_t *last)
{
	void *next = last;
	uint8_t *at = buffer;
	uint32_t marked, size;

	if (ws_likely(!ws_cupti.ActivityGetNextRecord(buffer, valid, &next)))
		return next;
	if (last) {
		size = find_record_size(*(const uint32_t *)last & 0xff);
		if (!size)
			return NULL;
		at = last + size;
	}
	if (at + sizeof(marked) > buffer + valid)
		return NULL;
	marked = __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED);
	size = marked & 0x7fffff00 ? 0 : find_record_size(marked & 0xff);
	return size && at + size <= buffer + valid ? at : NULL;
}

/* ---- buffers that CUPTI is still filling ---- */

static uint16_t reported_size[CUPTI_KIND_COUNT];

/* Tell the recorder the sizes of this CUPTI's records, because it cannot ask CUPTI. */
static void write_record_size(struct ws_thread *thread, uint32_t kind, size_t size)
{
	struct ws_rec_cuda_name *record;

	if (kind >= CUPTI_KIND_COUNT || reported_size[kind] == size || size > 0x7ff * 8)
		return;
	reported_size[kind] = (uint16_t)size;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);
	if (!record)
		return;
	record->rec =
		ws_rec_head(WS_REC_CUDA_NAME, sizeof(*record), WS_CUDA_NAME_SIZE, (uint32_t)size);
	record->key = kind;
	ws_rt_commit(thread, record, sizeof(*record));
}

static void scan_buffer(struct ws_thread *thread, uint32_t i)
{
	uint8_t *b = ws_buffer_at(ws_rt->arena, i), *last = NULL,
		*next = scanned[i] ? b + scanned[i] : NULL;
	uint32_t last_kind = 0;

	/* CUPTI completes a record's kind and name before its times; where it has not written yet,
	 * the kind is 0, which ends the loop. */
	while ((next = find_next_record(b, WS_BUFFER_SIZE, next))) {
		struct cupti_kernel *kernel = (void *)next;
		uint32_t kind = kernel->kind & 0xff;
		const char *name;

		if (next < b + scanned[i] + !!scanned[i] ||
		    next > b + WS_BUFFER_SIZE - sizeof(*kernel) || !kind ||
		    kernel->kind & 0x7fffff00)
			return;
		if (last)
			write_record_size(thread, last_kind, (size_t)(next - last));
		last = next;
		last_kind = kind;
		name = __atomic_load_n(&kernel->name, __ATOMIC_RELAXED);
		if (kind == CUPTI_KIND_CONCURRENT_KERNEL && name &&
		    !((uintptr_t)name & WS_CUPTI_HANDLE))
			name_handle(thread, name);
		scanned[i] = (uint32_t)(next - b);
	}
}

void ws_cuda_scan_buffers(void)
{
	struct ws_arena *arena = ws_rt->arena;
	struct ws_thread *thread;

	if (!ws_rt_is_collecting())
		return;
	for (uint32_t i = 0; i < arena->buffer_count && i < WS_BUFFERS; i++) {
		if (!ws_rt_is_buffer_mapped(i) ||
		    atomic_load_explicit(&arena->buffers[i].owner, memory_order_relaxed) !=
			    ws_rt->home->chunk.self)
			continue;
		thread = ws_rt_enter();
		if (!thread)
			return;
		scan_buffer(thread, i);
		ws_rt_leave(thread);
	}
}

/* ---- work that has not ended ---- */

/* Where records of work on the GPU have their ends. */
static const uint16_t work_ends[CUPTI_KIND_COUNT] = {
	[CUPTI_KIND_CONCURRENT_KERNEL] = offsetof(struct cupti_kernel, end),
	[CUPTI_KIND_MEMCPY] = offsetof(struct cupti_memcpy, end),
	[CUPTI_KIND_MEMCPY2] = offsetof(struct cupti_memcpy_peer, end),
	[CUPTI_KIND_MEMSET] = offsetof(struct cupti_memset, end),
	[CUPTI_KIND_GRAPH_TRACE] = offsetof(struct cupti_graph_trace, end),
};

/* For each buffer that CUPTI is filling: how full it was at the last check. */
static uint32_t filled[WS_BUFFERS];

static bool is_held(uint32_t i)
{
	struct ws_arena *arena = ws_rt->arena;

	return ws_rt_is_buffer_mapped(i) &&
	       atomic_load_explicit(&arena->buffers[i].owner, memory_order_relaxed) ==
		       ws_rt->home->chunk.self;
}

static bool is_unfinished(const uint8_t *record)
{
	uint32_t marked = __atomic_load_n((const uint32_t *)record, __ATOMIC_RELAXED),
		 kind = marked & 0xff;

	if (marked & WS_CUPTI_UNFINISHED)
		return true;
	return kind < CUPTI_KIND_COUNT && work_ends[kind] &&
	       !__atomic_load_n((const uint64_t *)(record + work_ends[kind]), __ATOMIC_RELAXED);
}

void ws_cuda_note_work(void)
{
	for (uint32_t i = 0; i < ws_rt->arena->buffer_count && i < WS_BUFFERS; i++) {
		uint8_t *b = ws_buffer_at(ws_rt->arena, i), *last = NULL, *next = NULL;

		filled[i] = 0;
		while (is_held(i) && (next = find_next_record(b, WS_BUFFER_SIZE, next)))
			last = next;
		if (last)
			filled[i] = (uint32_t)(last - b) + 1;
	}
}

bool ws_cuda_has_unfinished_work(void)
{
	for (uint32_t i = 0; i < ws_rt->arena->buffer_count && i < WS_BUFFERS; i++) {
		uint8_t *b = ws_buffer_at(ws_rt->arena, i), *next = NULL;

		while (filled[i] && is_held(i) &&
		       (next = find_next_record(b, WS_BUFFER_SIZE, next)) && next < b + filled[i])
			if (is_unfinished(next))
				return true;
	}
	return false;
}

void ws_cuda_settle_buffers(uint32_t ms)
{
	struct timespec pause = {0, 50000};

	for (uint32_t i = 0; i < ms * 20 && atomic_load(&walking); i++)
		ws_raw_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

/* Buffers of the arena before went with it; the private ones that are free stay. */
void ws_cuda_forget_buffers(void)
{
	uint32_t number, kept[PRIVATE_MOST], n = 0;

	while (pop_free_buffer(&number))
		if (number >= WS_BUFFERS && n < PRIVATE_MOST)
			kept[n++] = number;
	while (n)
		push_free_buffer(kept[--n]);
	memset(names, 0, sizeof(names));
	memset(scanned, 0, sizeof(scanned));
	memset(filled, 0, sizeof(filled));
	memset(reported_size, 0, sizeof(reported_size));
}

/* ---- the walk ---- */

struct walk {
	struct ws_thread *thread;
	uint8_t *buffer, *from, *to; /* the run of records still to be copied */
	uint64_t time;
	uint32_t records; /* in it */
	_Atomic uint32_t *done;
};

static void copy_run(struct walk *walk)
{
	size_t n = (size_t)(walk->to - walk->from),
	       bytes = WS_ALIGN_UP(sizeof(struct ws_rec_cuda_batch) + n, 8);
	struct ws_rec_cuda_batch *record;

	if (walk->records) {
		record = ws_rt_reserve(walk->thread, bytes, WS_LOSS_CUDA);
		if (record) {
			record->rec =
				ws_rec_head(WS_REC_CUDA_BATCH, bytes, 0, (uint32_t)(bytes / 8));
			if (bytes / 8 > 255)
				record->rec.words = 0;
			record->time = walk->time;
			memcpy(record->bytes, walk->from, n);
			ws_rt_commit(walk->thread, record, bytes);
		} else {
			ws_rt_count_loss(walk->thread, WS_LOSS_CUDA, walk->records - 1);
		}
	}
	if (walk->done)
		atomic_store_explicit(walk->done, (uint32_t)(walk->to - walk->buffer),
				      memory_order_release);
	walk->records = 0;
}

static bool is_own_record(const struct cupti_record *rec)
{
	uint32_t kind = rec->kind & 0xff;

	if (kind == CUPTI_KIND_RUNTIME || kind == CUPTI_KIND_DRIVER) {
		const struct cupti_api *api = (const void *)rec;

		/* While an inner profiler has asked for more, other records than ours arrive; with
		 * an old CUPTI none of them are ours. */
		return ws_likely(ws_cuda_is_api_wanted(kind, api->cbid)) &&
		       api->thread != ws_cuda_is_own_thread() && !ws_cuda_api_by_callback;
	}
	return !atomic_load_explicit(&ws_inner_there, memory_order_relaxed) ||
	       !ws_inner_is_only_reader(kind);
}

static void walk_record(struct walk *walk, uint8_t *rec, size_t size)
{
	struct cupti_record *record = (void *)rec;

	if (size > 0x7ff * 8 || !is_own_record(record)) {
		copy_run(walk);
		walk->from = walk->to = rec + size;
		return;
	}
	if ((size_t)(walk->to - walk->from) + size > WS_CUDA_BATCH_BYTES) {
		copy_run(walk);
		walk->from = rec;
	}
	replace_texts(walk->thread, record, size);
	record->kind =
		(record->kind & WS_CUPTI_UNFINISHED) | WS_CUPTI_MADE(record->kind & 0xff, size);
	walk->to = rec + size;
	walk->records++;
}

static void walk_buffer(struct ws_thread *thread, uint8_t *buffer, size_t valid)
{
	int number = buffer_number(buffer);
	struct walk walk = {.thread = thread,
			    .buffer = buffer,
			    .from = buffer,
			    .to = buffer,
			    .time = ws_read_raw_ns(),
			    .done = number >= 0 && number < (int)WS_BUFFERS
					    ? &ws_rt->arena->buffers[number].done
					    : NULL};
	uint8_t *last = NULL, *next;

	/* A record's kind may be changed only after the next record has been found from it. */
	while ((next = find_next_record(buffer, valid, last))) {
		if (last)
			walk_record(&walk, last, (size_t)(next - last));
		last = next;
	}
	if (last)
		walk_record(&walk, last, (size_t)(buffer + valid - last));
	copy_run(&walk);
}

static void count_dropped_records(struct ws_thread *thread, void *context, uint32_t stream)
{
	size_t dropped = 0;

	if (!ws_cupti.ActivityGetNumDroppedRecords(context, stream, &dropped) && dropped)
		ws_rt_count_loss(thread, WS_LOSS_CUDA, dropped);
}

void ws_cuda_complete_buffer(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			     size_t valid)
{
	struct ws_thread *thread;

	(void)size;
	if (!buffer || ws_cuda_reset_after_fork())
		return;
	atomic_fetch_add(&walking, 1);
	if (valid > WS_BUFFER_SIZE)
		valid = WS_BUFFER_SIZE;
	if (valid && atomic_load_explicit(&ws_inner_there, memory_order_acquire))
		ws_inner_give_record(buffer, valid);
	thread = ws_rt_enter();
	if (thread) {
		if (valid)
			walk_buffer(thread, buffer, valid);
		count_dropped_records(thread, context, stream);
		ws_rt_leave(thread);
	}
	give_back(buffer, WS_BUFFER_SIZE);
	atomic_fetch_sub(&walking, 1);
}
