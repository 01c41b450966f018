/*
 * from_nvtx.c - NVTX records into rows.
 *
 * Push/pop ranges come whole and are most of what there is: their way is short, with the string of
 * the last record at hand. Start/end ranges come as two records, in any order since they may be of
 * two threads' rings: whichever comes first waits in a table of the process. Payload data waits in
 * the stream until the event that it belongs to.
 *
 * Records come from memory that the target can scribble over: sizes are checked here, handles and
 * numbers where they are looked up. Whatever else a record holds at worst makes a row with odd
 * values.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ring/nvtx_record.h"
#include "record/convert.h"

enum {
	PENDING_MOST = 1 << 18, /* start/end ranges of a process waiting for their other half */
	BLOBS_MOST = 1 << 13,	/* payloads of a stream waiting for their event */
};
#define BLOB_BYTES_MOST (UINT64_C(80) << 20) /* one event's payloads; the hook keeps to less */

struct bytes {
	char *p;
	size_t len, cap;
};

struct blob {
	struct bytes b;
	uint32_t number;
};

/* What a ring's conversion remembers. Belongs to the process's state too, so that it goes at the
 * latest with that. */
struct stream_state {
	struct stream_state *next, **self;
	uint64_t last_handle; /* with its id in the upper half */
	uint64_t last_start,
		last_key; /* of the last range written: ticks; domain, text and what they are */
	struct blob *blobs;
	size_t blobs_n, blobs_cap;
};

struct pending {
	uint64_t id;
	struct ws_row_nvtx row; /* of an end: `end` and `end_thread` only */
	struct bytes binary;
	uint32_t next; /* in its bucket, or among the free: index + 1 */
	bool is_end;
};

struct proc_state {
	struct stream_state *streams;
	struct pending *v;
	size_t n, cap;
	uint32_t free, waiting;
	uint32_t *buckets;
	uint32_t bucket_count; /* a power of two */
	uint64_t ends_alone, crowded_out;
};

/* ---- states ---- */

static void free_stream(struct stream_state *st)
{
	for (size_t i = 0; i < st->blobs_n; i++)
		free(st->blobs[i].b.p);
	free(st->blobs);
	*st->self = st->next;
	if (st->next)
		st->next->self = st->self;
	free(st);
}

static void free_proc(void *p)
{
	struct proc_state *ps = p;

	if (!ps)
		return;
	while (ps->streams)
		free_stream(ps->streams);
	for (size_t i = 0; i < ps->n; i++)
		free(ps->v[i].binary.p);
	free(ps->v);
	free(ps->buckets);
	free(ps);
}

static struct proc_state *proc_state(struct ws_stream *s)
{
	void **slot = ws_proc_slot(s->proc, WS_SLOT_NVTX, free_proc);

	if (!*slot)
		*slot = ws_calloc(1, sizeof(struct proc_state));
	return *slot;
}

static WS_NOINLINE struct stream_state *new_stream(struct ws_stream *s)
{
	struct proc_state *ps = proc_state(s);
	struct stream_state *st = ws_calloc(1, sizeof(*st));

	st->next = ps->streams;
	st->self = &ps->streams;
	if (st->next)
		st->next->self = &st->next;
	ps->streams = st;
	s->domain_state[WS_SLOT_NVTX] = st;
	return st;
}

static inline struct stream_state *stream_state(struct ws_stream *s)
{
	struct stream_state *st = s->domain_state[WS_SLOT_NVTX];

	return ws_likely(st) ? st : new_stream(s);
}

void ws_convert_nvtx_stream_end(struct ws_stream *s)
{
	if (s->domain_state[WS_SLOT_NVTX])
		free_stream(s->domain_state[WS_SLOT_NVTX]);
	s->domain_state[WS_SLOT_NVTX] = NULL;
}

/* ---- texts and payloads ---- */

/* Report string of a text, by what `small` says it is. */
static inline uint32_t text_of(struct ws_stream *s, struct stream_state *st, uint16_t small,
			       uint32_t value)
{
	if (ws_unlikely(small & WS_NVTX_SMALL_LOCAL))
		return ws_stream_text(s, value, true);
	if ((uint32_t)st->last_handle != value)
		st->last_handle = (uint64_t)ws_stream_string(s, value) << 32 | value;
	return (uint32_t)(st->last_handle >> 32);
}

static inline uint8_t flags_of(uint16_t small)
{
	return small & WS_NVTX_SMALL_REGISTERED ? WS_NVTX_REGISTERED : 0;
}

static void add_bytes(struct bytes *b, const void *p, size_t len)
{
	if (!len)
		return;
	ws_grow(b->p, b->cap, b->len + len);
	memcpy(b->p + b->len, p, len);
	b->len += len;
}

static struct blob *find_blob(struct stream_state *st, uint32_t number)
{
	for (size_t i = st->blobs_n; number && i > 0; i--)
		if (st->blobs[i - 1].number == number)
			return &st->blobs[i - 1];
	return NULL;
}

static void drop_blob(struct stream_state *st, struct blob *b)
{
	size_t i = (size_t)(b - st->blobs);

	free(b->b.p);
	memmove(b, b + 1, (st->blobs_n - i - 1) * sizeof(*b));
	st->blobs_n--;
}

void ws_convert_nvtx_blob(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_blob *r = (const void *)rec;
	struct stream_state *st = stream_state(s);
	uint32_t bytes = ws_rec_bytes(rec);
	struct blob *b;

	if (bytes < sizeof(*r) || r->len > bytes - sizeof(*r) || !r->number)
		return;
	b = find_blob(st, r->number);
	if (!b) {
		if (st->blobs_n == BLOBS_MOST)
			drop_blob(st, st->blobs); /* of an event that never came */
		ws_grow(st->blobs, st->blobs_cap, st->blobs_n + 1);
		b = &st->blobs[st->blobs_n++];
		*b = (struct blob){.number = r->number};
	}
	if (b->b.len + r->len <= BLOB_BYTES_MOST)
		add_bytes(&b->b, r->bytes, r->len);
}

/* Append blob `number` to `to` and forget it. */
static void take_blob(struct stream_state *st, uint32_t number, struct bytes *to)
{
	struct blob *b = find_blob(st, number);

	if (!b)
		return;
	if (!to->p) {
		*to = b->b;
		b->b.p = NULL;
	} else {
		add_bytes(to, b->b.p, b->b.len);
	}
	drop_blob(st, b);
}

static uint32_t intern_bytes(struct ws_stream *s, struct bytes *b)
{
	uint32_t id = b->len ? ws_stream_intern(s, b->p, b->len) : 0;

	free(b->p);
	*b = (struct bytes){0};
	return id;
}

/* ---- rows ---- */

static inline struct ws_row_nvtx *new_row(struct ws_stream *s)
{
	return ws_writer_row(s->writer, WS_TABLE_nvtx, s->stage[WS_TABLE_nvtx]);
}

static inline void plain_range(struct ws_stream *s, const struct ws_rec *rec, uint64_t start,
			       uint64_t end)
{
	struct stream_state *st = stream_state(s);
	uint32_t text = text_of(s, st, rec->small, rec->value);

	st->last_start = start;
	st->last_key = (uint64_t)rec->small << 32 | rec->value;
	*new_row(s) = (struct ws_row_nvtx){
		.start = ws_stream_time(s, start),
		.end = ws_stream_time(s, end),
		.thread = s->thread,
		.text = text,
		.domain = rec->small & WS_NVTX_SMALL_DOMAIN,
		.type = WS_NVTX_PUSHPOP,
		.flags = flags_of(rec->small),
	};
}

void ws_convert_nvtx_range(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_range *r = (const void *)rec;

	if (ws_likely(rec->words == sizeof(*r) / 8))
		plain_range(s, rec, r->start, r->end);
}

void ws_convert_nvtx_short(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_short *r = (const void *)rec;
	uint64_t end;

	if (ws_unlikely(rec->words != sizeof(*r) / 8))
		return;
	end = s->base + (r->times >> WS_SHORT_DURATION_BITS);
	plain_range(s, rec, end - (r->times & ((1u << WS_SHORT_DURATION_BITS) - 1)), end);
}

/* ---- start/end ranges ---- */

static uint32_t bucket_of(const struct proc_state *ps, uint64_t id)
{
	return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (ps->bucket_count - 1);
}

static void rehash(struct proc_state *ps)
{
	free(ps->buckets);
	ps->bucket_count = ps->bucket_count ? ps->bucket_count * 4 : 256;
	ps->buckets = ws_calloc(ps->bucket_count, sizeof(*ps->buckets));
	ps->free = 0;
	for (uint32_t i = 0; i < ps->n; i++) {
		uint32_t *head = ps->v[i].id ? &ps->buckets[bucket_of(ps, ps->v[i].id)] : &ps->free;

		ps->v[i].next = *head;
		*head = i + 1;
	}
}

static struct pending *find_pending(struct proc_state *ps, uint64_t id)
{
	uint32_t i = ps->bucket_count ? ps->buckets[bucket_of(ps, id)] : 0;

	while (i && ps->v[i - 1].id != id)
		i = ps->v[i - 1].next;
	return i ? &ps->v[i - 1] : NULL;
}

static struct pending *add_pending(struct proc_state *ps, uint64_t id)
{
	uint32_t i, *head;

	if (ps->waiting >= ps->bucket_count)
		rehash(ps);
	i = ps->free;
	if (i) {
		ps->free = ps->v[i - 1].next;
	} else {
		ws_grow(ps->v, ps->cap, ps->n + 1);
		i = (uint32_t)++ps->n;
	}
	head = &ps->buckets[bucket_of(ps, id)];
	ps->v[i - 1] = (struct pending){.id = id, .next = *head};
	*head = i;
	ps->waiting++;
	return &ps->v[i - 1];
}

static void remove_pending(struct proc_state *ps, struct pending *p)
{
	uint32_t *link = &ps->buckets[bucket_of(ps, p->id)], i = (uint32_t)(p - ps->v) + 1;

	while (*link != i)
		link = &ps->v[*link - 1].next;
	*link = p->next;
	p->id = 0;
	p->next = ps->free;
	ps->free = i;
	ps->waiting--;
}

static void write_pending(struct ws_stream *s, struct pending *p)
{
	if (p->row.end == WS_NO_TIME)
		p->row.flags |= WS_NVTX_LEFT_OPEN;
	p->row.binary = intern_bytes(s, &p->binary);
	*new_row(s) = p->row;
}

static void start_range(struct ws_stream *s, uint64_t id, const struct ws_row_nvtx *row,
			struct bytes *binary)
{
	struct proc_state *ps = proc_state(s);
	struct pending *p = find_pending(ps, id), alone = {.row = *row, .binary = *binary};

	if (p && p->is_end) { /* it was faster, through another ring */
		alone.row.end = p->row.end;
		alone.row.end_thread = p->row.end_thread == s->thread ? 0 : p->row.end_thread;
		add_bytes(&alone.binary, p->binary.p, p->binary.len);
		free(p->binary.p);
		remove_pending(ps, p);
		write_pending(s, &alone);
		return;
	}
	if (p) { /* an id used anew while its range is open: synchronisation objects do that after a
		    lost end */
		write_pending(s, p);
		remove_pending(ps, p);
	}
	if (ps->waiting >= PENDING_MOST) {
		ps->crowded_out++;
		write_pending(s, &alone);
		return;
	}
	p = add_pending(ps, id);
	p->row = *row;
	p->binary = *binary;
}

static void end_range(struct ws_stream *s, uint64_t id, uint64_t time, struct bytes *binary)
{
	struct proc_state *ps = proc_state(s);
	struct pending *p = find_pending(ps, id);

	if (p && !p->is_end) {
		p->row.end = time;
		p->row.end_thread = p->row.thread == s->thread ? 0 : s->thread;
		add_bytes(&p->binary, binary->p, binary->len);
		free(binary->p);
		write_pending(s, p);
		remove_pending(ps, p);
		return;
	}
	if (p || ps->waiting >= PENDING_MOST) {
		ps->ends_alone += id < WS_NVTX_ID_SYNC;
		free(binary->p);
		return;
	}
	p = add_pending(ps, id);
	p->is_end = true;
	p->row.end = time;
	p->row.end_thread = s->thread;
	p->binary = *binary;
}

void ws_convert_nvtx_process_end(struct ws_stream *s)
{
	struct proc_state *ps = proc_state(s);

	for (size_t i = 0; i < ps->n; i++) {
		struct pending *p = &ps->v[i];

		if (!p->id)
			continue;
		if (p->is_end)
			ps->ends_alone += p->id < WS_NVTX_ID_SYNC; /* of a lock taken before the
								      collection: no wonder */
		else
			write_pending(s, p);
		free(p->binary.p);
		p->binary.p = NULL;
	}
	ps->n = ps->waiting = ps->free = 0;
	if (ps->buckets)
		memset(ps->buckets, 0, ps->bucket_count * sizeof(*ps->buckets));
	if (ps->ends_alone)
		ws_stream_diagnostic(s, WS_INFO, "nvtx",
				     "%llu NVTX ranges were ended whose start was not recorded; "
				     "they are left out.",
				     (unsigned long long)ps->ends_alone);
	if (ps->crowded_out)
		ws_stream_diagnostic(s, WS_WARNING, "nvtx",
				     "%llu NVTX ranges were started while %d others were open; "
				     "they show no end.",
				     (unsigned long long)ps->crowded_out, PENDING_MOST);
	ps->ends_alone = ps->crowded_out = 0;
}

/* ---- other events ---- */

static void write_event(struct ws_stream *s, const struct ws_rec_nvtx_event *e,
			struct ws_row_nvtx *row, struct bytes *binary)
{
	switch (e->kind) {
	case WS_NVTX_EV_RANGE:
		row->end = ws_stream_time(s, e->other);
		row->type = WS_NVTX_PUSHPOP;
		stream_state(s)->last_start = e->time;
		stream_state(s)->last_key = (uint64_t)e->rec.small << 32 | e->rec.value;
		break;
	case WS_NVTX_EV_MARK:
		row->type = WS_NVTX_MARK;
		break;
	case WS_NVTX_EV_START:
		row->type = WS_NVTX_STARTEND;
		row->range_id = e->other;
		if (e->other)
			start_range(s, e->other, row, binary);
		return;
	case WS_NVTX_EV_END:
		if (e->other)
			end_range(s, e->other, row->start, binary);
		return;
	default: /* FORGET: what it named is gone now */
		free(binary->p);
		return;
	}
	row->binary = intern_bytes(s, binary);
	*new_row(s) = *row;
}

void ws_convert_nvtx_event(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_event_full *r = (const void *)rec;
	struct stream_state *st = stream_state(s);
	uint32_t bytes = ws_rec_bytes(rec);
	struct bytes binary = {0};
	struct ws_row_nvtx row;

	if (bytes != sizeof(r->e) && bytes != sizeof(*r))
		return;
	row = (struct ws_row_nvtx){
		.start = ws_stream_time(s, r->e.time),
		.end = WS_NO_TIME,
		.thread = s->thread,
		.category = r->e.category,
		.text = text_of(s, st, rec->small, rec->value),
		.domain = rec->small & WS_NVTX_SMALL_DOMAIN,
		.flags = flags_of(rec->small),
	};
	if (bytes == sizeof(*r)) {
		row.payload = r->payload;
		row.payload_type = r->e.payload_type;
		row.color = r->color;
		row.flags |= r->e.has_color ? WS_NVTX_HAS_COLOR : 0;
		take_blob(st, r->binary, &binary);
		take_blob(st, r->binary_end, &binary);
		if (binary.len)
			row.payload_type = WS_NVTX_PAYLOAD_EXT;
	}
	write_event(s, &r->e, &row, &binary);
}

/*
 * A kill may come after the record of a range was written and before it left the stack. (Times
 * alone do not tell: counters of some machines step by 10 ns, so that a range and the one inside it
 * can begin at the same tick.)
 */
static bool written_already(const struct stream_state *st, const struct ws_open *o)
{
	uint32_t small = o->domain | (o->flags & WS_OPEN_LOCAL_TEXT ? WS_NVTX_SMALL_LOCAL : 0) |
			 (o->flags & WS_OPEN_REGISTERED ? WS_NVTX_SMALL_REGISTERED : 0);

	return o->flags & WS_OPEN_CLOSING && o->start == st->last_start &&
	       ((uint64_t)small << 32 | o->text) == st->last_key;
}

void ws_convert_open(struct ws_stream *s, const struct ws_open *shared)
{
	struct ws_open o = *shared; /* the target may still be writing it */
	struct stream_state *st = stream_state(s);
	struct ws_row_nvtx row;
	struct blob *b;

	if (!o.start || o.flags & WS_OPEN_LOST || written_already(st, &o))
		return;
	row = (struct ws_row_nvtx){
		.start = ws_stream_time(s, o.start),
		.end = WS_NO_TIME,
		.thread = s->thread,
		.text = o.flags & WS_OPEN_LOCAL_TEXT ? ws_stream_text(s, o.text, false)
						     : ws_stream_string(s, o.text),
		.domain = o.domain & WS_NVTX_SMALL_DOMAIN,
		.type = WS_NVTX_PUSHPOP,
		.flags =
			WS_NVTX_LEFT_OPEN | (o.flags & WS_OPEN_REGISTERED ? WS_NVTX_REGISTERED : 0),
	};
	if (o.flags & WS_OPEN_EXTENDED) {
		row.category = o.category;
		row.color = o.color;
		row.flags |= o.flags & WS_OPEN_HAS_COLOR ? WS_NVTX_HAS_COLOR : 0;
		row.payload = o.payload;
		row.payload_type = o.payload_type;
		b = find_blob(st, o.binary);
		if (b)
			row.binary = ws_stream_intern(s, b->b.p, b->b.len);
	}
	*new_row(s) = row;
}

/* ---- definitions ---- */

static void define_event(struct ws_stream *s, const struct ws_rec_nvtx_define *r, uint8_t type,
			 uint32_t name)
{
	*new_row(s) = (struct ws_row_nvtx){
		.start = ws_stream_time(s, r->time),
		.end = WS_NO_TIME,
		.thread = s->thread,
		.text = name,
		.type = type,
		.domain = r->rec.small & WS_NVTX_SMALL_DOMAIN,
		.category = type == WS_NVTX_CATEGORY ? (uint32_t)r->id : 0,
	};
}

static void define_thread(struct ws_stream *s, const struct ws_rec_nvtx_define *r, uint32_t name)
{
	struct ws_row_thread_name row = {
		.start = ws_stream_time(s, r->time), .name = name, .priority = 30};

	if (!r->id || r->id > INT32_MAX)
		return;
	row.thread = ws_stream_thread(s, (uint32_t)r->id);
	ws_writer_add(s->writer, WS_TABLE_thread_name, &row);
	define_event(s, r, WS_NVTX_THREAD, name);
}

static void define_resource(struct ws_stream *s, const struct ws_rec_nvtx_resource *r,
			    uint32_t name)
{
	struct ws_row_nvtx_resource row = {
		.process = s->process,
		.start = ws_stream_time(s, r->d.time),
		.domain = r->d.rec.small & WS_NVTX_SMALL_DOMAIN,
		.type = r->d.type,
		.identifier = r->d.id,
		.name = name,
		.device = r->device,
		.context = r->context,
		.stream = r->stream,
	};

	if (ws_rec_bytes(&r->d.rec) == sizeof(*r))
		ws_writer_add(s->writer, WS_TABLE_nvtx_resource, &row);
}

static void define_schema(struct ws_stream *s, const struct ws_rec_nvtx_schema *r, uint32_t name)
{
	struct ws_row_nvtx_schema row = {
		.process = s->process,
		.domain = r->d.rec.small & WS_NVTX_SMALL_DOMAIN,
		.id = r->d.id,
		.name = name,
		.type = r->d.type,
		.flags = r->flags,
		.entries = r->entries,
		.size = r->size,
		.align = r->align,
	};

	if (ws_rec_bytes(&r->d.rec) == sizeof(*r))
		ws_writer_add(s->writer, WS_TABLE_nvtx_schema, &row);
}

static void define_entry(struct ws_stream *s, const struct ws_rec_nvtx_schema_entry *r,
			 uint32_t name)
{
	struct ws_row_nvtx_schema_entry row = {
		.process = s->process,
		.domain = r->d.rec.small & WS_NVTX_SMALL_DOMAIN,
		.schema = r->d.id,
		.index = r->index,
		.flags = r->flags,
		.type = r->entry_type,
		.name = name,
		.detail = r->detail,
		.offset = r->offset,
	};

	if (ws_rec_bytes(&r->d.rec) != sizeof(*r))
		return;
	row.description = ws_stream_string(s, r->description);
	ws_writer_add(s->writer, WS_TABLE_nvtx_schema_entry, &row);
}

void ws_convert_nvtx_define(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_nvtx_define *r = (const void *)rec;
	uint32_t name;

	if (ws_rec_bytes(rec) < sizeof(*r))
		return;
	name = text_of(s, stream_state(s), rec->small, rec->value);
	switch (r->kind) {
	case WS_NVTX_DEF_DOMAIN:
		define_event(s, r, WS_NVTX_DOMAIN_CREATE, name);
		break;
	case WS_NVTX_DEF_DESTROY:
		define_event(s, r, WS_NVTX_DOMAIN_DESTROY, name);
		break;
	case WS_NVTX_DEF_CATEGORY:
		define_event(s, r, WS_NVTX_CATEGORY, name);
		break;
	case WS_NVTX_DEF_THREAD:
		define_thread(s, r, name);
		break;
	case WS_NVTX_DEF_RESOURCE:
		define_resource(s, (const void *)r, name);
		break;
	case WS_NVTX_DEF_SCHEMA:
		define_schema(s, (const void *)r, name);
		break;
	case WS_NVTX_DEF_ENTRY:
		define_entry(s, (const void *)r, name);
		break;
	}
}
