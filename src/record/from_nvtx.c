/*
 * from_nvtx.c - converts NVTX records into rows.
 *
 * Most records are push/pop ranges, which come whole, so their path is short and keeps the string
 * of the last record. Start/end ranges come as two records, in any order, since they may be in two
 * threads' rings: the first waits in a table of the process. Payload data waits in the stream until
 * its event comes.
 *
 * Records come from memory that the target can overwrite: sizes are checked here, handles and
 * numbers where they are looked up. Whatever else a record holds, at worst it makes a row with odd
 * values.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/choose.h"
#include "base/nvtx_libraries.h"
#include "ring/nvtx_record.h"
#include "record/constant.h"
#include "record/convert.h"
#include "record/chunks.h"
#include "record/from_nccl.h"
#include "record/libraries.h"
#include "record/proc.h"
#include "record/sink.h"

enum {
	PENDING_MOST = 1 << 18, /* start/end ranges of a process waiting for their other half */
	BLOBS_MOST = 1 << 13,	/* payloads of a stream waiting for their event */
	NAMES_MOST = 1 << 16,	/* remembered names of library calls */
};
#define BLOB_BYTES_MOST (UINT64_C(80) << 20)  /* of one event; the hook writes fewer */
#define HELD_BYTES_MOST (UINT64_C(256) << 20) /* all payloads of a process that wait */

struct bytes {
	char *p;
	size_t len, cap;
};

struct blob {
	struct bytes bytes;
	uint32_t number;
};

/* What the conversion of a ring remembers. The process's state owns it too, so it is freed with the
 * process at the latest. */
struct stream_state {
	struct stream_state *next, **self;
	struct proc_state *process;
	uint64_t last_handle; /* with its id in the upper half */
	uint64_t last_start,
		last_key; /* of the last range written: ticks; domain, text and what they are */
	struct blob *blobs;
	size_t blobs_n, blobs_cap;
	/* A call of a library of which no wrapper has recorded anything yet: the record of the
	 * wrapper around it may follow. */
	struct ws_row_slice held;
	uint32_t held_name; /* handle; 0: none */
};

struct pending {
	uint64_t id;
	struct ws_row_nvtx row; /* of an end: `end` and `end_thread` only */
	struct bytes binary;
	uint32_t next; /* in its bucket or in the free list: index + 1 */
	bool is_end;
};

struct proc_state {
	struct stream_state *streams;
	struct pending *pendings;
	size_t n, cap;
	uint32_t free, waiting;
	uint32_t *buckets;
	uint32_t bucket_count; /* a power of two */
	uint64_t ends_alone, crowded_out;
	uint64_t held; /* bytes of payloads that came and have not become part of a row */
	/* by the number of a domain: the library whose domain it is, as index in ws_nvtx_libraries
	 * + 1 */
	uint8_t *libraries;
	size_t library_count, library_capacity;
	struct ws_map wrapped; /* handles of names of calls: enum ws_wrapping + 1, as far as it is
				  known */
};

/* ---- states ---- */

static void free_nvtx_stream(struct proc_state *ps, struct stream_state *st)
{
	for (size_t i = 0; i < st->blobs_n; i++) {
		ps->held -= st->blobs[i].bytes.len;
		free(st->blobs[i].bytes.p);
	}
	free(st->blobs);
	*st->self = st->next;
	if (st->next)
		st->next->self = st->self;
	free(st);
}

static void free_nvtx_process(void *memory)
{
	struct proc_state *ps = memory;

	if (!ps)
		return;
	while (ps->streams)
		free_nvtx_stream(ps, ps->streams);
	for (size_t i = 0; i < ps->n; i++)
		free(ps->pendings[i].binary.p);
	free(ps->pendings);
	free(ps->buckets);
	free(ps->libraries);
	ws_map_free(&ps->wrapped);
	free(ps);
}

static struct proc_state *find_nvtx_process(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_NVTX, free_nvtx_process);

	if (!*slot)
		*slot = ws_calloc(1, sizeof(struct proc_state));
	return *slot;
}

static WS_NOINLINE struct stream_state *add_nvtx_stream(struct ws_stream *stream)
{
	struct proc_state *ps = find_nvtx_process(stream);
	struct stream_state *st = ws_calloc(1, sizeof(*st));

	st->process = ps;
	st->next = ps->streams;
	st->self = &ps->streams;
	if (st->next)
		st->next->self = &st->next;
	ps->streams = st;
	stream->domain_state[WS_SLOT_NVTX] = st;
	return st;
}

static inline struct stream_state *find_nvtx_stream(struct ws_stream *stream)
{
	struct stream_state *st = stream->domain_state[WS_SLOT_NVTX];

	return ws_likely(st) ? st : add_nvtx_stream(stream);
}

static void release_held_call(struct ws_stream *stream);

void ws_convert_nvtx_stream_end(struct ws_stream *stream)
{
	release_held_call(stream);
	if (stream->domain_state[WS_SLOT_NVTX])
		free_nvtx_stream(find_nvtx_process(stream), stream->domain_state[WS_SLOT_NVTX]);
	stream->domain_state[WS_SLOT_NVTX] = NULL;
}

/* ---- texts and payloads ---- */

/* Report string of a text whose form is in `small`. */
static inline uint32_t intern_text(struct ws_stream *stream, struct stream_state *st,
				   uint16_t small, uint32_t value)
{
	if (ws_unlikely(small & WS_NVTX_SMALL_LOCAL))
		return ws_stream_text(stream, value, true);
	if ((uint32_t)st->last_handle != value)
		st->last_handle = (uint64_t)ws_stream_string(stream, value) << 32 | value;
	return (uint32_t)(st->last_handle >> 32);
}

static inline uint8_t map_flags(uint16_t small)
{
	return ws_bits_if(small & WS_NVTX_SMALL_REGISTERED, WS_NVTX_REGISTERED);
}

static void add_bytes(struct bytes *bytes, const void *memory, size_t len)
{
	if (!len)
		return;
	ws_grow(bytes->p, bytes->cap, bytes->len + len);
	memcpy(bytes->p + bytes->len, memory, len);
	bytes->len += len;
}

static struct blob *find_blob(struct stream_state *st, uint32_t number)
{
	for (size_t i = st->blobs_n; number && i > 0; i--)
		if (st->blobs[i - 1].number == number)
			return &st->blobs[i - 1];
	return NULL;
}

static void drop_blob(struct stream_state *st, struct blob *blob)
{
	size_t i = (size_t)(blob - st->blobs);

	free(blob->bytes.p);
	memmove(blob, blob + 1, (st->blobs_n - i - 1) * sizeof(*blob));
	st->blobs_n--;
}

/* Drop a payload that nothing will refer to. */
static void forget_blob(struct proc_state *ps, struct stream_state *st, struct blob *blob)
{
	ps->held -= blob->bytes.len;
	drop_blob(st, blob);
}

void ws_convert_nvtx_blob(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_blob *record = (const void *)rec;
	struct stream_state *st = find_nvtx_stream(stream);
	struct proc_state *ps = find_nvtx_process(stream);
	uint32_t bytes = ws_rec_bytes(rec);
	struct blob *blob;

	if (bytes < sizeof(*record) || record->len > bytes - sizeof(*record) || !record->number)
		return;
	blob = find_blob(st, record->number);
	if (!blob) {
		if (st->blobs_n == BLOBS_MOST)
			forget_blob(ps, st, st->blobs); /* of an event that never came */
		ws_grow(st->blobs, st->blobs_cap, st->blobs_n + 1);
		blob = &st->blobs[st->blobs_n++];
		*blob = (struct blob){.number = record->number};
	}
	if (blob->bytes.len + record->len > BLOB_BYTES_MOST || ps->held > HELD_BYTES_MOST)
		return;
	add_bytes(&blob->bytes, record->bytes, record->len);
	ps->held += record->len;
}

/* Append blob `number` to `to` and forget it. */
static void take_blob(struct stream_state *st, uint32_t number, struct bytes *to)
{
	struct blob *blob = find_blob(st, number);

	if (!blob)
		return;
	if (!to->p) {
		*to = blob->bytes;
		blob->bytes.p = NULL;
	} else {
		add_bytes(to, blob->bytes.p, blob->bytes.len);
	}
	drop_blob(st, blob);
}

static void drop_bytes(struct ws_stream *stream, struct bytes *bytes)
{
	if (bytes->len)
		find_nvtx_process(stream)->held -= bytes->len;
	free(bytes->p);
	*bytes = (struct bytes){0};
}

static uint32_t intern_bytes(struct ws_stream *stream, struct bytes *bytes)
{
	uint32_t id =
		bytes->len ? ws_writer_passing_string(stream->writer, bytes->p, bytes->len) : 0;

	drop_bytes(stream, bytes);
	return id;
}

/* ---- libraries ---- */

/* The library in whose domain an event is; NULL: it is the program's own. */
static inline const struct ws_nvtx_library *find_library(const struct stream_state *st,
							 uint16_t small)
{
	uint32_t domain = small & WS_NVTX_SMALL_DOMAIN;

	if (ws_likely(domain >= st->process->library_count) || !st->process->libraries[domain])
		return NULL;
	return &ws_nvtx_libraries[st->process->libraries[domain] - 1];
}

/* Pass a range of NCCL's, which registers the names of its ranges, to the joiner. */
static void note_nccl_call(struct ws_stream *stream, uint32_t name, uint64_t start, uint64_t end,
			   const struct bytes *binary)
{
	struct ws_nccl_call call = {.thread = stream->thread, .start = start, .end = end};

	call.name = ws_stream_string_bytes(stream, name, &call.name_length);
	if (binary) {
		call.payload = binary->p;
		call.payload_size = binary->len;
	}
	if (call.name)
		ws_nccl_add_call(ws_stream_begin_nccl(stream), &call);
}

static void note_library_domain(struct proc_state *ps, uint32_t domain, const char *name)
{
	const struct ws_nvtx_library *library = ws_find_nvtx_library(name);
	size_t had = ps->library_count;

	if (!library && domain >= had)
		return;
	if (domain >= had) {
		ws_grow(ps->libraries, ps->library_capacity, domain + 1);
		memset(ps->libraries + had, 0, domain + 1 - had);
		ps->library_count = domain + 1;
	}
	ps->libraries[domain] = library ? (uint8_t)(library - ws_nvtx_libraries + 1) : 0;
}

/* Note the domains of libraries, and what the entries of NCCL's schemas are. */
static void note_definition(struct ws_stream *stream, const struct ws_rec_nvtx_define *record)
{
	const struct ws_rec_nvtx_schema_entry *entry = (const void *)record;
	const struct ws_nvtx_library *library =
		find_library(find_nvtx_stream(stream), record->rec.small);
	size_t length;
	const char *name = NULL;

	if (!(record->rec.small & WS_NVTX_SMALL_LOCAL))
		name = ws_stream_string_bytes(stream, record->rec.value, &length);
	if (!name)
		return;
	if (record->kind == WS_NVTX_DEF_DOMAIN)
		note_library_domain(find_nvtx_process(stream),
				    record->rec.small & WS_NVTX_SMALL_DOMAIN, name);
	if (record->kind == WS_NVTX_DEF_ENTRY && library &&
	    !strcmp(library->domain, WS_NCCL_DOMAIN) &&
	    ws_rec_bytes(&record->rec) == sizeof(*entry))
		ws_nccl_define_entry(ws_stream_begin_nccl(stream), record->id, name,
				     entry->entry_type, entry->offset);
}

/* Whether a wrapper records the calls of this name, with their arguments. Until the program has
 * made one, nobody knows whether it works: a library may be linked into the program. */
static enum ws_wrapping find_wrapping(struct ws_stream *stream, uint32_t handle)
{
	struct proc_state *ps = find_nvtx_process(stream);
	uint64_t known = ws_map_get(&ps->wrapped, handle, NULL);
	enum ws_wrapping wrapping;
	const char *name;
	size_t length;

	if (known)
		return (enum ws_wrapping)(known - 1);
	name = ws_stream_string_bytes(stream, handle, &length);
	if (!name)
		return WS_NOT_WRAPPED;
	wrapping = ws_library_wraps(stream, name);
	if (wrapping != WS_MAY_BE_WRAPPED && ps->wrapped.count < NAMES_MOST)
		ws_map_set(&ps->wrapped, handle, (uint64_t)wrapping + 1);
	return wrapping;
}

static void write_slice(struct ws_stream *stream, const struct ws_row_slice *row)
{
	*(struct ws_row_slice *)ws_writer_row(stream->writer, WS_TABLE_slice,
					      stream->stage[WS_TABLE_slice]) = *row;
}

/* The call that was held back is written unless it turned out that a wrapper records it. */
static void release_held_call(struct ws_stream *stream)
{
	struct stream_state *st = stream->domain_state[WS_SLOT_NVTX];
	uint32_t name = st ? st->held_name : 0;

	if (!name)
		return;
	st->held_name = 0;
	if (find_wrapping(stream, name) != WS_IS_WRAPPED)
		write_slice(stream, &st->held);
}

/* A call of a library that has its own table is a row of that table instead of a range. */
static struct ws_row_slice make_library_row(struct ws_stream *stream,
					    const struct ws_nvtx_library *library,
					    const struct ws_row_slice *call)
{
	unsigned number = (unsigned)(library - ws_nvtx_libraries);
	struct ws_row_slice row = *call;

	row.thread = stream->thread;
	row.category = ws_library_name_nvtx_table(stream, number, library->table);
	return row;
}

static void write_library_call(struct ws_stream *stream, const struct ws_nvtx_library *library,
			       const struct ws_rec *rec, const struct ws_row_slice *call)
{
	bool is_local = rec->small & WS_NVTX_SMALL_LOCAL;
	enum ws_wrapping wrapping = is_local ? WS_NOT_WRAPPED : find_wrapping(stream, rec->value);
	struct ws_row_slice row;

	if (wrapping == WS_IS_WRAPPED)
		return;
	row = make_library_row(stream, library, call);
	if (wrapping == WS_NOT_WRAPPED) {
		write_slice(stream, &row);
		return;
	}
	find_nvtx_stream(stream)->held = row;
	find_nvtx_stream(stream)->held_name = rec->value;
}

/* A call that had not returned when the program ended. */
static void write_open_call(struct ws_stream *stream, const struct ws_nvtx_library *library,
			    const struct ws_row_slice *call)
{
	struct ws_row_slice row = make_library_row(stream, library, call);

	write_slice(stream, &row);
}

/* A push/pop range in a library's domain. Returns whether it was written as a call instead of a
 * range. */
static bool put_library_range(struct ws_stream *stream, const struct ws_nvtx_library *library,
			      const struct ws_rec *rec, const struct ws_row_slice *call,
			      const struct bytes *binary)
{
	stream->sink->announced |= 1u << (library - ws_nvtx_libraries);
	if (!strcmp(library->domain, WS_NCCL_DOMAIN))
		note_nccl_call(stream, rec->value, call->start, call->end, binary);
	release_held_call(stream);
	if (library->table)
		write_library_call(stream, library, rec, call);
	return library->table != NULL;
}

/* ---- rows ---- */

static inline struct ws_row_nvtx *add_nvtx_row(struct ws_stream *stream)
{
	return ws_writer_row(stream->writer, WS_TABLE_nvtx, stream->stage[WS_TABLE_nvtx]);
}

static inline void write_plain_range(struct ws_stream *stream, const struct ws_rec *rec,
				     uint64_t start, uint64_t end)
{
	struct stream_state *st = find_nvtx_stream(stream);
	uint32_t text = intern_text(stream, st, rec->small, rec->value);
	uint64_t start_ns = ws_stream_time(stream, start), end_ns = ws_stream_time(stream, end);
	const struct ws_nvtx_library *library;

	st->last_start = start;
	st->last_key = (uint64_t)rec->small << 32 | rec->value;
	if (!ws_stream_wants(stream, start_ns, end_ns))
		return;
	library = find_library(st, rec->small);
	if (ws_unlikely(library) &&
	    put_library_range(
		    stream, library, rec,
		    &(struct ws_row_slice){.start = start_ns, .end = end_ns, .name = text}, NULL))
		return;
	*add_nvtx_row(stream) = (struct ws_row_nvtx){
		.start = start_ns,
		.end = end_ns,
		.thread = stream->thread,
		.text = text,
		.domain = rec->small & WS_NVTX_SMALL_DOMAIN,
		.type = WS_NVTX_PUSHPOP,
		.flags = map_flags(rec->small),
	};
}

void ws_convert_nvtx_range(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_range *record = (const void *)rec;

	if (ws_likely(rec->words == sizeof(*record) / 8))
		write_plain_range(stream, rec, record->start, record->end);
}

void ws_convert_nvtx_short(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_short *record = (const void *)rec;
	uint64_t end;

	if (ws_unlikely(rec->words != sizeof(*record) / 8))
		return;
	end = stream->base + (record->times >> WS_SHORT_DURATION_BITS);
	write_plain_range(stream, rec, end - (record->times & ((1u << WS_SHORT_DURATION_BITS) - 1)),
			  end);
}

/* ---- start/end ranges ---- */

static uint32_t hash_bucket(const struct proc_state *ps, uint64_t id)
{
	return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (ps->bucket_count - 1);
}

static void grow_buckets(struct proc_state *ps)
{
	free(ps->buckets);
	ps->bucket_count = ps->bucket_count ? ps->bucket_count * 4 : 256;
	ps->buckets = ws_calloc(ps->bucket_count, sizeof(*ps->buckets));
	ps->free = 0;
	for (uint32_t i = 0; i < ps->n; i++) {
		uint32_t *head = ps->pendings[i].id
					 ? &ps->buckets[hash_bucket(ps, ps->pendings[i].id)]
					 : &ps->free;

		ps->pendings[i].next = *head;
		*head = i + 1;
	}
}

static struct pending *find_pending(struct proc_state *ps, uint64_t id)
{
	uint32_t i = ps->bucket_count ? ps->buckets[hash_bucket(ps, id)] : 0;

	while (i && ps->pendings[i - 1].id != id)
		i = ps->pendings[i - 1].next;
	return i ? &ps->pendings[i - 1] : NULL;
}

static struct pending *add_pending(struct proc_state *ps, uint64_t id)
{
	uint32_t i, *head;

	if (ps->waiting >= ps->bucket_count)
		grow_buckets(ps);
	i = ps->free;
	if (i) {
		ps->free = ps->pendings[i - 1].next;
	} else {
		ws_grow(ps->pendings, ps->cap, ps->n + 1);
		i = (uint32_t)++ps->n;
	}
	head = &ps->buckets[hash_bucket(ps, id)];
	ps->pendings[i - 1] = (struct pending){.id = id, .next = *head};
	*head = i;
	ps->waiting++;
	return &ps->pendings[i - 1];
}

static void remove_pending(struct proc_state *ps, struct pending *pending)
{
	uint32_t *link = &ps->buckets[hash_bucket(ps, pending->id)],
		 i = (uint32_t)(pending - ps->pendings) + 1;

	while (*link != i)
		link = &ps->pendings[*link - 1].next;
	*link = pending->next;
	pending->id = 0;
	pending->next = ps->free;
	ps->free = i;
	ps->waiting--;
}

static void write_pending(struct ws_stream *stream, struct pending *pending)
{
	if (!ws_stream_wants(stream, pending->row.start, pending->row.end)) {
		drop_bytes(stream, &pending->binary);
		return;
	}
	if (pending->row.end == WS_NO_TIME)
		pending->row.flags |= WS_NVTX_LEFT_OPEN;
	pending->row.binary = intern_bytes(stream, &pending->binary);
	*add_nvtx_row(stream) = pending->row;
}

static void start_range(struct ws_stream *stream, uint64_t id, const struct ws_row_nvtx *row,
			struct bytes *binary)
{
	struct proc_state *ps = find_nvtx_process(stream);
	struct pending *pending = find_pending(ps, id), alone = {.row = *row, .binary = *binary};

	if (pending && pending->is_end) { /* the end came first, through another ring */
		alone.row.end = pending->row.end;
		alone.row.end_thread =
			pending->row.end_thread == stream->thread ? 0 : pending->row.end_thread;
		add_bytes(&alone.binary, pending->binary.p, pending->binary.len);
		free(pending->binary.p);
		remove_pending(ps, pending);
		write_pending(stream, &alone);
		return;
	}
	/* an id used again while its range is open: synchronisation objects do that after their
	 * end was lost */
	if (pending) {
		write_pending(stream, pending);
		remove_pending(ps, pending);
	}
	if (ps->waiting >= PENDING_MOST) {
		ps->crowded_out++;
		write_pending(stream, &alone);
		return;
	}
	pending = add_pending(ps, id);
	pending->row = *row;
	pending->binary = *binary;
}

static void end_range(struct ws_stream *stream, uint64_t id, uint64_t time, struct bytes *binary)
{
	struct proc_state *ps = find_nvtx_process(stream);
	struct pending *pending = find_pending(ps, id);

	if (pending && !pending->is_end) {
		pending->row.end = time;
		pending->row.end_thread =
			pending->row.thread == stream->thread ? 0 : stream->thread;
		add_bytes(&pending->binary, binary->p, binary->len);
		free(binary->p);
		write_pending(stream, pending);
		remove_pending(ps, pending);
		return;
	}
	if (pending || ps->waiting >= PENDING_MOST) {
		ps->ends_alone += id < WS_NVTX_ID_SYNC;
		drop_bytes(stream, binary);
		return;
	}
	pending = add_pending(ps, id);
	pending->is_end = true;
	pending->row.end = time;
	pending->row.end_thread = stream->thread;
	pending->binary = *binary;
}

void ws_convert_nvtx_process_end(struct ws_stream *stream)
{
	struct proc_state *ps = find_nvtx_process(stream);

	for (size_t i = 0; i < ps->n; i++) {
		struct pending *pending = &ps->pendings[i];

		if (!pending->id)
			continue;
		if (pending->is_end)
			/* normal for a lock that was taken before the collection */
			ps->ends_alone += pending->id < WS_NVTX_ID_SYNC;
		else
			write_pending(stream, pending);
		drop_bytes(stream, &pending->binary);
	}
	ps->n = ps->waiting = ps->free = 0;
	if (ps->buckets)
		memset(ps->buckets, 0, ps->bucket_count * sizeof(*ps->buckets));
	if (ps->ends_alone)
		ws_stream_diagnostic(stream, WS_INFO, "nvtx",
				     "%llu NVTX ranges were ended whose start was not recorded; "
				     "they are left out.",
				     (unsigned long long)ps->ends_alone);
	if (ps->crowded_out)
		ws_stream_diagnostic(stream, WS_WARNING, "nvtx",
				     "%llu NVTX ranges were started while %d others were open; "
				     "they show no end.",
				     (unsigned long long)ps->crowded_out, PENDING_MOST);
	ps->ends_alone = ps->crowded_out = 0;
}

void ws_convert_nvtx_window_end(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_NVTX, free_nvtx_process);
	const struct proc_state *ps = *slot;

	for (size_t i = 0; ps && i < ps->n; i++) {
		const struct pending *pending = &ps->pendings[i];
		struct ws_row_nvtx row = pending->row;

		if (!pending->id || pending->is_end ||
		    !ws_stream_wants(stream, row.start, UINT64_MAX))
			continue;
		row.flags |= WS_NVTX_LEFT_OPEN;
		if (pending->binary.len)
			row.binary = ws_writer_passing_string(stream->writer, pending->binary.p,
							      pending->binary.len);
		*add_nvtx_row(stream) = row;
	}
}

void ws_nvtx_hold_strings(struct ws_proc *process, struct ws_writer *writer)
{
	void **slot = ws_proc_slot(process, WS_SLOT_NVTX, free_nvtx_process);
	const struct proc_state *ps = *slot;

	for (size_t i = 0; ps && i < ps->n; i++)
		if (ps->pendings[i].id)
			ws_writer_hold_string(writer, ps->pendings[i].row.text);
}

/* ---- other events ---- */

static void write_event(struct ws_stream *stream, const struct ws_rec_nvtx_event *record,
			struct ws_row_nvtx *row, struct bytes *binary)
{
	const struct ws_nvtx_library *library;

	switch (record->kind) {
	case WS_NVTX_EV_RANGE:
		row->end = ws_stream_time(stream, record->other);
		row->type = WS_NVTX_PUSHPOP;
		find_nvtx_stream(stream)->last_start = record->time;
		find_nvtx_stream(stream)->last_key =
			(uint64_t)record->rec.small << 32 | record->rec.value;
		break;
	case WS_NVTX_EV_MARK:
		row->type = WS_NVTX_MARK;
		break;
	case WS_NVTX_EV_START:
		row->type = WS_NVTX_STARTEND;
		row->range_id = record->other;
		if (record->other)
			start_range(stream, record->other, row, binary);
		else
			drop_bytes(stream, binary);
		return;
	case WS_NVTX_EV_END:
		if (record->other)
			end_range(stream, record->other, row->start, binary);
		else
			drop_bytes(stream, binary);
		return;
	default: /* FORGET: the named object is gone */
		drop_bytes(stream, binary);
		return;
	}
	if (!ws_stream_wants(stream, row->start, row->end == WS_NO_TIME ? row->start : row->end)) {
		drop_bytes(stream, binary);
		return;
	}
	library = find_library(find_nvtx_stream(stream), record->rec.small);
	if (library && record->kind == WS_NVTX_EV_RANGE &&
	    put_library_range(
		    stream, library, &record->rec,
		    &(struct ws_row_slice){.start = row->start, .end = row->end, .name = row->text},
		    binary)) {
		drop_bytes(stream, binary);
		return;
	}
	row->binary = intern_bytes(stream, binary);
	*add_nvtx_row(stream) = *row;
}

void ws_convert_nvtx_event(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_event_full *record = (const void *)rec;
	struct stream_state *st = find_nvtx_stream(stream);
	uint32_t bytes = ws_rec_bytes(rec);
	struct bytes binary = {0};
	struct ws_row_nvtx row;

	if (bytes != sizeof(record->record) && bytes != sizeof(*record))
		return;
	row = (struct ws_row_nvtx){
		.start = ws_stream_time(stream, record->record.time),
		.end = WS_NO_TIME,
		.thread = stream->thread,
		.category = record->record.category,
		.text = intern_text(stream, st, rec->small, rec->value),
		.domain = rec->small & WS_NVTX_SMALL_DOMAIN,
		.flags = map_flags(rec->small),
	};
	if (bytes == sizeof(*record)) {
		row.payload = record->payload;
		row.payload_type = record->record.payload_type;
		row.color = record->color;
		row.flags |= ws_bits_if(record->record.has_color, WS_NVTX_HAS_COLOR);
		take_blob(st, record->binary, &binary);
		take_blob(st, record->binary_end, &binary);
		if (binary.len)
			row.payload_type = WS_NVTX_PAYLOAD_EXT;
	}
	write_event(stream, &record->record, &row, &binary);
}

/*
 * A kill may come after the record of a range was written and before the range left the stack.
 * (Times alone do not show it: counters of some machines step by 10 ns, so a range and the one
 * inside it can begin at the same tick.)
 */
static bool is_written(const struct stream_state *st, const struct ws_open *open)
{
	uint32_t small = open->domain |
			 (ws_bits_if(open->flags & WS_OPEN_LOCAL_TEXT, WS_NVTX_SMALL_LOCAL)) |
			 (ws_bits_if(open->flags & WS_OPEN_REGISTERED, WS_NVTX_SMALL_REGISTERED));

	return open->flags & WS_OPEN_CLOSING && open->start == st->last_start &&
	       ((uint64_t)small << 32 | open->text) == st->last_key;
}

/* The text of a range that was pushed before the collection began, as far as it is known. */
static uint32_t intern_idle_text(struct ws_stream *stream, const struct ws_open *open)
{
	char head[WS_OPEN_HEAD_ROOM], text[4096];
	size_t length = 0;

	if (!ws_read_open_head(open, head) && stream->proc->host_pid > 0)
		length =
			ws_read_constant(stream->proc->host_pid, open->address, text, sizeof(text));
	if (length > sizeof(open->head) && !memcmp(text, open->head, sizeof(open->head)))
		return ws_stream_intern(stream, text, length);
	return ws_stream_intern(stream, head, strlen(head));
}

static uint32_t intern_open_text(struct ws_stream *stream, const struct ws_open *open)
{
	if (open->flags & WS_OPEN_IDLE)
		return intern_idle_text(stream, open);
	if (open->flags & WS_OPEN_LOCAL_TEXT)
		return ws_stream_text(stream, open->text, false);
	return ws_stream_string(stream, open->text);
}

void ws_convert_open(struct ws_stream *stream, const struct ws_open *shared)
{
	struct stream_state *st = find_nvtx_stream(stream);
	struct ws_open open;
	struct ws_row_nvtx row;
	struct blob *blob;
	const struct ws_nvtx_library *library;

	ws_copy_out(&open, shared, sizeof(open)); /* the target may still be writing it */
	if (!open.start || open.flags & WS_OPEN_LOST || is_written(st, &open))
		return;
	row = (struct ws_row_nvtx){
		.start = ws_stream_time(stream, open.start),
		.end = WS_NO_TIME,
		.thread = stream->thread,
		.text = intern_open_text(stream, &open),
		.domain = open.domain & WS_NVTX_SMALL_DOMAIN,
		.type = WS_NVTX_PUSHPOP,
		.flags = WS_NVTX_LEFT_OPEN |
			 (ws_bits_if(open.flags & WS_OPEN_REGISTERED, WS_NVTX_REGISTERED)),
	};
	library = find_library(st, open.domain);
	if (library && library->table) {
		if (ws_stream_wants(stream, row.start, UINT64_MAX))
			write_open_call(stream, library,
					&(struct ws_row_slice){.start = row.start,
							       .end = WS_NO_TIME,
							       .name = row.text,
							       .flags = WS_SLICE_LEFT_OPEN});
		return;
	}
	if (open.flags & WS_OPEN_EXTENDED) {
		row.category = open.category;
		row.color = open.color;
		row.flags |= ws_bits_if(open.flags & WS_OPEN_HAS_COLOR, WS_NVTX_HAS_COLOR);
		row.payload = open.payload;
		row.payload_type = open.payload_type;
		blob = find_blob(st, open.binary);
		if (blob)
			row.binary = ws_writer_passing_string(stream->writer, blob->bytes.p,
							      blob->bytes.len);
	}
	if (ws_stream_wants(stream, row.start, UINT64_MAX))
		*add_nvtx_row(stream) = row;
}

/* ---- definitions ---- */

static void define_event(struct ws_stream *stream, const struct ws_rec_nvtx_define *record,
			 uint8_t type, uint32_t name)
{
	struct ws_row_nvtx row = {
		.start = ws_stream_time(stream, record->time),
		.end = WS_NO_TIME,
		.thread = stream->thread,
		.text = name,
		.type = type,
		.domain = record->rec.small & WS_NVTX_SMALL_DOMAIN,
		.category = type == WS_NVTX_CATEGORY ? (uint32_t)record->id : 0,
	};

	/* A flight recorder drops rows but keeps definitions. */
	if (!ws_sink_keep_definition(stream->sink, &row) || !stream->sink->flight)
		*add_nvtx_row(stream) = row;
}

static void define_thread(struct ws_stream *stream, const struct ws_rec_nvtx_define *record,
			  uint32_t name)
{
	struct ws_row_thread_name row = {
		.start = ws_stream_time(stream, record->time), .name = name, .priority = 30};

	if (!record->id || record->id > INT32_MAX)
		return;
	row.thread = ws_stream_thread(stream, (uint32_t)record->id);
	ws_writer_add(stream->writer, WS_TABLE_thread_name, &row);
	define_event(stream, record, WS_NVTX_THREAD, name);
}

static void define_resource(struct ws_stream *stream, const struct ws_rec_nvtx_resource *record,
			    uint32_t name)
{
	struct ws_row_nvtx_resource row = {
		.process = stream->process,
		.start = ws_stream_time(stream, record->record.time),
		.domain = record->record.rec.small & WS_NVTX_SMALL_DOMAIN,
		.type = record->record.type,
		.identifier = record->record.id,
		.name = name,
		.device = record->device,
		.context = record->context,
		.stream = record->stream,
	};

	if (ws_rec_bytes(&record->record.rec) == sizeof(*record))
		ws_writer_add(stream->writer, WS_TABLE_nvtx_resource, &row);
}

static void define_schema(struct ws_stream *stream, const struct ws_rec_nvtx_schema *record,
			  uint32_t name)
{
	struct ws_row_nvtx_schema row = {
		.process = stream->process,
		.domain = record->record.rec.small & WS_NVTX_SMALL_DOMAIN,
		.id = record->record.id,
		.name = name,
		.type = record->record.type,
		.flags = record->flags,
		.entries = record->entries,
		.size = record->size,
		.align = record->align,
	};

	if (ws_rec_bytes(&record->record.rec) == sizeof(*record))
		ws_writer_add(stream->writer, WS_TABLE_nvtx_schema, &row);
}

static void define_entry(struct ws_stream *stream, const struct ws_rec_nvtx_schema_entry *record,
			 uint32_t name)
{
	struct ws_row_nvtx_schema_entry row = {
		.process = stream->process,
		.domain = record->record.rec.small & WS_NVTX_SMALL_DOMAIN,
		.schema = record->record.id,
		.index = record->index,
		.flags = record->flags,
		.type = record->entry_type,
		.name = name,
		.detail = record->detail,
		.offset = record->offset,
	};

	if (ws_rec_bytes(&record->record.rec) != sizeof(*record))
		return;
	row.description = ws_stream_string(stream, record->description);
	ws_writer_add(stream->writer, WS_TABLE_nvtx_schema_entry, &row);
}

void ws_convert_nvtx_define(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_define *record = (const void *)rec;
	uint32_t name;

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	note_definition(stream, record);
	name = intern_text(stream, find_nvtx_stream(stream), rec->small, rec->value);
	switch (record->kind) {
	case WS_NVTX_DEF_DOMAIN:
		define_event(stream, record, WS_NVTX_DOMAIN_CREATE, name);
		break;
	case WS_NVTX_DEF_DESTROY:
		define_event(stream, record, WS_NVTX_DOMAIN_DESTROY, name);
		break;
	case WS_NVTX_DEF_CATEGORY:
		define_event(stream, record, WS_NVTX_CATEGORY, name);
		break;
	case WS_NVTX_DEF_THREAD:
		define_thread(stream, record, name);
		break;
	case WS_NVTX_DEF_RESOURCE:
		define_resource(stream, (const void *)record, name);
		break;
	case WS_NVTX_DEF_SCHEMA:
		define_schema(stream, (const void *)record, name);
		break;
	case WS_NVTX_DEF_ENTRY:
		define_entry(stream, (const void *)record, name);
		break;
	}
}
