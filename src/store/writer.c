/*
 * writer.c - a report being written; see store.h for what it promises and journal.c for how it
 * survives a kill.
 *
 * Blocks are appended with one pwrite each, and only when a block is complete does anything else
 * (stage, index, journal) move on: the file always ends with whole blocks, plus at most one torn
 * one that readers leave out.
 *
 * Space is allocated ahead of the end, a reserve beyond the next block included. When the disk is
 * full the reserve is what is left: the two wide tables stop there (their rows are counted as
 * lost), while the small tables, which say what happened and who lost what, and the index still go
 * in.
 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/ticks.h"
#include "store/encode.h"
#include "store/file.h"
#include "store/intern.h"
#include "store/journal.h"
#include "store/overview.h"
#include "store/report.h"

#define DEFAULT_BLOCK_ROWS 65536u
#define RARE_BLOCK_ROWS 512u
#define DEFAULT_SEGMENT_NS UINT64_C(10000000000)
#define SEGMENT_BYTES (UINT64_C(64) << 20)
#define PENDING_STRINGS (128u << 10)
#define PENDING_TEXT (4u << 20)
#define RESERVE (UINT64_C(256) << 10)
#define PENDING_OVERVIEW (1u << 20)
#define FIRST_AHEAD (UINT64_C(1) << 20)
#define MOST_AHEAD (UINT64_C(64) << 20)

struct ws_writer {
	struct ws_stage stage[WS_TABLE_COUNT];
	char *base[WS_TABLE_COUNT];
	uint64_t written[WS_TABLE_COUNT]; /* rows in the report */
	int fd;
	char *path;
	struct ws_journal journal;
	struct ws_encoder encoder;
	struct ws_overview overview;
	struct ws_intern intern;
	uint32_t generation;
	uint64_t next_string;
	uint32_t pending; /* strings not in the report yet */
	uint64_t pending_text;
	uint64_t end;		   /* of the last whole block */
	uint64_t allocated, ahead; /* space reserved in the file, and how much to reserve next;
				      ahead 0 where that is not supported */
	uint64_t sequence;
	uint64_t segment, segment_start, segment_opened, segment_ns;
	bool segment_open;
	struct ws_index_entry *index;
	size_t blocks, index_cap;
	struct ws_err error;
	bool failed;
	uint64_t lost;
	char *replaces;	 /* the report that this copy with additions takes the place of; NULL: it is
			    new */
	int replaces_fd; /* ...which is locked meanwhile */
};

/*
 * Tables with a row for each event, and how many rows of each a recording stages; the others are
 * small and stage RARE_BLOCK_ROWS. The stage of every table has its memory and its place on the
 * disk from the start: tables whose rows are large or seldom many stage fewer, so that a short
 * recording needs little of either. Without a journal all stage as many as a block may have.
 */
static const uint32_t event_rows[WS_TABLE_COUNT] = {
	[WS_TABLE_nvtx] = WS_MAX_BLOCK_ROWS,
	[WS_TABLE_osrt] = WS_MAX_BLOCK_ROWS,
	[WS_TABLE_cuda_api] = 16384,
	[WS_TABLE_cuda_kernel] = 8192,
	[WS_TABLE_cuda_memcpy] = 2048,
	[WS_TABLE_cuda_memset] = 1024,
	[WS_TABLE_cuda_sync] = 1024,
	[WS_TABLE_cuda_event] = 1024,
	[WS_TABLE_cuda_overhead] = 1024,
	[WS_TABLE_cuda_graph_trace] = 1024,
	[WS_TABLE_cuda_graph] = 512,
	[WS_TABLE_cuda_graph_node] = 512,
	[WS_TABLE_cuda_memory] = 512,
	[WS_TABLE_cuda_um_cpu_fault] = 512,
	[WS_TABLE_cuda_um_gpu_fault] = 512,
	[WS_TABLE_cuda_jit] = 512,
	[WS_TABLE_frame] = 2048,
	[WS_TABLE_symbol] = 1024,
	[WS_TABLE_stack] = 8192,
	[WS_TABLE_sample] = 16384,
	[WS_TABLE_python_sample] = 2048,
	[WS_TABLE_gil] = 2048,
	[WS_TABLE_sched] = 16384,
	[WS_TABLE_ftrace] = 1024,
	[WS_TABLE_counter_value] = 8192,
	[WS_TABLE_slice] = 1024,
	[WS_TABLE_flow] = 256,
	[WS_TABLE_op] = 256,
	[WS_TABLE_op_link] = 256,
	[WS_TABLE_op_memory] = 256,
	[WS_TABLE_collective] = 256,
	[WS_TABLE_foreign] = 256,
};

static bool is_wide(enum ws_table t)
{
	return event_rows[t] != 0;
}

/* ---- the file ---- */

static uint64_t index_bytes(const struct ws_writer *w)
{
	return sizeof(struct ws_block_header) + (w->blocks + 4) * sizeof(struct ws_index_entry) +
	       sizeof(struct ws_trailer);
}

static int fail(struct ws_writer *w)
{
	if (!w->failed)
		ws_fail_errno(&w->error, "cannot write %s", w->path);
	w->failed = true;
	return -1;
}

/* Space up to `need`, reserve included; grows ahead of it in ever larger steps. */
static int reserve(struct ws_writer *w, uint64_t need)
{
	uint64_t step;

	if (need <= w->allocated || !w->ahead)
		return 0;
	step = need - w->allocated;
	step = step > w->ahead ? step : w->ahead;
	if (!ws_guarded_fallocate(w->fd, FALLOC_FL_KEEP_SIZE, w->allocated, step)) {
		w->ahead = w->ahead * 2 < MOST_AHEAD ? w->ahead * 2 : MOST_AHEAD;
	} else if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) {
		w->ahead = 0;
		return 0;
	} else {
		step = need - w->allocated;
		if (ws_guarded_fallocate(w->fd, FALLOC_FL_KEEP_SIZE, w->allocated, step))
			return -1;
	}
	w->allocated += step;
	return 0;
}

static int check_limit(uint64_t need)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    need > limit.rlim_cur) {
		errno = EFBIG;
		return -1;
	}
	return 0;
}

/* Append encoder.out. `keep`: bytes that must remain free after it. On failure the file still ends
 * with its last whole block. */
static int append_bytes(struct ws_writer *w, uint64_t keep)
{
	uint64_t n = w->encoder.out.len;

	if (check_limit(w->end + n + keep) || reserve(w, w->end + n + keep))
		return -1;
	if (ws_pwrite_all(w->fd, w->encoder.out.p, n, w->end)) {
		int saved = errno;

		if (ftruncate(w->fd, (off_t)w->end)) {
			/* the torn block stays, and readers leave it out */
		}
		w->allocated = w->end;
		errno = saved;
		return -1;
	}
	w->end += n;
	return 0;
}

/* -1 with errno when there is no room. */
static int try_block(struct ws_writer *w, bool wide)
{
	uint64_t at = w->end;

	if (append_bytes(w, index_bytes(w) + (wide ? RESERVE : 0)))
		return -1;
	w->sequence++;
	ws_grow(w->index, w->index_cap, w->blocks + 1);
	w->index[w->blocks].offset = at;
	memcpy(&w->index[w->blocks].head, w->encoder.out.p + offsetof(struct ws_block_header, head),
	       sizeof(struct ws_block_head));
	w->blocks++;
	__atomic_store_n(&w->journal.head->report_bytes, w->end, __ATOMIC_RELEASE);
	return 0;
}

static int append_block(struct ws_writer *w, bool wide)
{
	return try_block(w, wide) ? fail(w) : 0;
}

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int open_segment(struct ws_writer *w)
{
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_SEGMENT, w->sequence);
	struct ws_segment_body body = {.fingerprint = w->journal.head->fingerprint,
				       .raw = ws_raw_ns(),
				       .realtime = realtime_ns()};

	if (w->segment_open)
		return 0;
	w->segment_start = w->end;
	w->segment_opened = body.raw;
	memcpy(body.uuid, w->journal.head->uuid, 16);
	head.first = w->segment;
	ws_block_begin(&w->encoder.out);
	ws_bytes_add(&w->encoder.out, &body, sizeof(body));
	ws_block_end(&w->encoder.out, &head);
	if (append_block(w, false))
		return -1;
	ws_encode_schema(&w->encoder, w->sequence);
	if (append_block(w, false))
		return -1;
	w->segment++;
	w->segment_open = true;
	return 0;
}

/* ---- stages ---- */

/* Tell readers of the live journal that what it says is about to move. */
static void change(struct ws_writer *w)
{
	__atomic_fetch_add(&w->journal.head->change, 1, __ATOMIC_ACQ_REL);
}

static void empty_strings(struct ws_writer *w)
{
	struct ws_journal_head *h = w->journal.head;

	change(w);
	__atomic_store_n(&h->strings, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&h->text_bytes, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&h->string_first, w->next_string, __ATOMIC_RELEASE);
	change(w);
	w->pending = 0;
	w->pending_text = 0;
}

static int flush_strings(struct ws_writer *w, bool wide)
{
	if (!w->pending)
		return 0;
	/* Not again for every string of a full disk: compressing what cannot be written takes its
	 * time. */
	if ((wide && w->failed) || open_segment(w))
		return -1;
	ws_encode_strings(&w->encoder, w->next_string - w->pending, w->pending,
			  ws_journal_lengths(&w->journal), ws_journal_text(&w->journal),
			  w->pending_text, w->generation, w->sequence);
	if (append_block(w, wide))
		return -1;
	empty_strings(w);
	return 0;
}

static uint32_t staged(const struct ws_writer *w, enum ws_table t)
{
	return (uint32_t)((size_t)(w->stage[t].next - w->base[t]) / w->stage[t].row_size);
}

static void empty_stage(struct ws_writer *w, enum ws_table t)
{
	struct ws_journal_table *j = &w->journal.head->table[t];

	change(w);
	__atomic_store_n(&j->bytes, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&j->first, w->written[t], __ATOMIC_RELEASE);
	change(w);
	w->stage[t].next = w->base[t];
}

static int write_stage(struct ws_writer *w, enum ws_table t, uint32_t n)
{
	bool wide = is_wide(t);

	if ((wide && w->failed) || flush_strings(w, wide) || open_segment(w))
		return -1;
	ws_encode_rows(&w->encoder, t, w->base[t], n, w->written[t], w->sequence);
	if (append_block(w, wide))
		return -1;
	ws_overview_add(&w->overview, t, w->base[t], n, w->written[t]);
	return 0;
}

/* Sums can be made again from the rows: where there is no room for them, they are left out. */
static void flush_overview(struct ws_writer *w)
{
	if (!w->failed && ws_overview_encode(&w->overview, &w->encoder, w->sequence))
		try_block(w, true);
}

static void flush_stage(struct ws_writer *w, enum ws_table t)
{
	uint32_t n = staged(w, t);

	if (!n)
		return;
	if (write_stage(w, t, n))
		w->lost += n;
	else
		w->written[t] += n;
	empty_stage(w, t);
	if (w->overview.pending.len > PENDING_OVERVIEW)
		flush_overview(w);
}

static void flush_all(struct ws_writer *w)
{
	/* Small tables last: after a failure of the wide ones they have the reserve. */
	for (int small = 0; small < 2; small++)
		for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
			if (is_wide((enum ws_table)t) != (bool)small)
				flush_stage(w, (enum ws_table)t);
}

/* ---- the interface ---- */

static void choose_sizes(struct ws_journal_sizes *s, const struct ws_writer_opts *o)
{
	uint32_t rows = o && o->block_rows ? o->block_rows : DEFAULT_BLOCK_ROWS;
	bool bulk = o && o->no_journal;

	if (rows > WS_MAX_BLOCK_ROWS)
		rows = WS_MAX_BLOCK_ROWS;
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		uint32_t most = !event_rows[t] ? RARE_BLOCK_ROWS : bulk ? rows : event_rows[t];

		s->rows[t] = rows < most ? rows : most;
	}
	s->strings = PENDING_STRINGS;
	s->text = PENDING_TEXT;
}

static void make_uuid(uint8_t uuid[16])
{
	uint64_t fallback[2] = {ws_raw_ns(), realtime_ns() ^ (uint64_t)getpid() << 40};

	if (getrandom(uuid, 16, GRND_NONBLOCK) != 16)
		memcpy(uuid, fallback, 16);
}

static void make_header(struct ws_file_header *h)
{
	*h = (struct ws_file_header){.major = WS_FORMAT_MAJOR,
				     .minor = WS_FORMAT_MINOR,
				     .bytes = sizeof(*h),
				     .created = realtime_ns(),
				     .fingerprint = ws_schema_fingerprint()};
	memcpy(h->magic, WS_FILE_MAGIC, 8);
	make_uuid(h->uuid);
	h->check = XXH3_64bits(h, offsetof(struct ws_file_header, check));
}

static void make_stages(struct ws_writer *w, const struct ws_writer_opts *opts,
			const uint8_t uuid[16])
{
	struct ws_journal_sizes sizes;
	char *path = opts && opts->no_journal ? NULL : ws_journal_path(w->path);
	uint32_t most = 0;

	choose_sizes(&sizes, opts);
	ws_journal_create(&w->journal, path, uuid, &sizes);
	free(path);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		char *p = ws_journal_rows(&w->journal, (enum ws_table)t);

		w->base[t] = p;
		w->stage[t] =
			(struct ws_stage){p, p + (size_t)sizes.rows[t] * ws_tables[t].row_size,
					  ws_tables[t].row_size};
		most = sizes.rows[t] > most ? sizes.rows[t] : most;
	}
	ws_encoder_init(&w->encoder, most);
	w->next_string = 1;
	w->journal.head->string_first = 1;
}

static void free_writer(struct ws_writer *w)
{
	close(w->fd);
	if (w->replaces)
		close(w->replaces_fd);
	free(w->replaces);
	ws_journal_remove(&w->journal);
	ws_encoder_free(&w->encoder);
	ws_overview_free(&w->overview);
	ws_intern_free(&w->intern);
	free(w->index);
	free(w->path);
	free(w);
}

struct ws_writer *ws_writer_create(const char *path, const struct ws_writer_opts *opts,
				   struct ws_err *e)
{
	struct ws_file_header header;
	struct ws_writer *w;
	int fd;

	make_header(&header);
	fd = ws_file_create(path, opts && opts->overwrite, &header, sizeof(header), e);
	if (fd < 0)
		return NULL;
	w = ws_calloc(1, sizeof(*w));
	w->fd = fd;
	w->path = ws_strdup(path);
	w->end = w->allocated = sizeof(header);
	w->ahead = FIRST_AHEAD;
	w->segment_ns = opts && opts->segment_ns ? opts->segment_ns : DEFAULT_SEGMENT_NS;
	make_stages(w, opts, header.uuid);
	w->journal.head->report_bytes = w->end;
	if (open_segment(w)) {
		*e = w->error;
		ws_writer_discard(w);
		return NULL;
	}
	return w;
}

/* A string too long for the stage: a block of its own. What even a block cannot take is cut off and
 * counted. */
static uint32_t add_long_string(struct ws_writer *w, const void *bytes, size_t len)
{
	uint32_t length = (uint32_t)(len > WS_MAX_TEXT ? WS_MAX_TEXT : len);

	w->lost += len > WS_MAX_TEXT;
	if (flush_strings(w, true) || open_segment(w))
		return 0;
	ws_encode_strings(&w->encoder, w->next_string, 1, &length, bytes, length, w->generation,
			  w->sequence);
	if (append_block(w, false))
		return 0;
	w->next_string++;
	empty_strings(w);
	return (uint32_t)(w->next_string - 1);
}

static uint32_t add_string(struct ws_writer *w, const void *bytes, size_t len)
{
	if (w->next_string > UINT32_MAX)
		return 0;
	if (len > PENDING_TEXT)
		return add_long_string(w, bytes, len);
	if ((w->pending == PENDING_STRINGS || w->pending_text + len > PENDING_TEXT) &&
	    flush_strings(w, true))
		return 0;
	ws_journal_lengths(&w->journal)[w->pending++] = (uint32_t)len;
	if (len)
		memcpy(ws_journal_text(&w->journal) + w->pending_text, bytes, len);
	w->pending_text += len;
	return (uint32_t)w->next_string++;
}

uint32_t ws_writer_string(struct ws_writer *w, const void *bytes, size_t len)
{
	uint64_t hash;
	uint32_t id;

	if (len > WS_INTERN_LONGEST)
		return add_string(w, bytes, len);
	hash = ws_intern_hash(bytes, len);
	id = ws_intern_find(&w->intern, hash, bytes, len);
	if (id)
		return id;
	if (ws_intern_full(&w->intern, len)) {
		if (flush_strings(w, true))
			return 0;
		ws_intern_clear(&w->intern);
		w->generation++;
	}
	id = add_string(w, bytes, len);
	if (id) /* else the disk is full: the row that wanted it is counted when it finds no room
		   itself */
		ws_intern_add(&w->intern, hash, bytes, len, id);
	return id;
}

void ws_writer_string_from(struct ws_writer *w, uint32_t id)
{
	while (w->next_string < id && add_string(w, "", 0))
		;
}

struct ws_stage *ws_writer_stage(struct ws_writer *w, enum ws_table t)
{
	return &w->stage[t];
}

void *ws_writer_row_slow(struct ws_writer *w, enum ws_table t)
{
	char *p;

	flush_stage(w, t);
	p = w->stage[t].next;
	w->stage[t].next += w->stage[t].row_size;
	return p;
}

void ws_writer_add(struct ws_writer *w, enum ws_table t, const void *row)
{
	memcpy(ws_writer_row(w, t, &w->stage[t]), row, ws_tables[t].row_size);
}

void ws_writer_commit(struct ws_writer *w)
{
	struct ws_journal_head *h = w->journal.head;

	if (w->end - w->segment_start > SEGMENT_BYTES ||
	    ws_raw_ns() - w->segment_opened > w->segment_ns) {
		flush_all(w);
		flush_overview(w);
		w->segment_open = false; /* the next block opens one */
		w->segment_start = w->end;
		w->segment_opened = ws_raw_ns();
	}
	/* Strings first: whoever sees a row must find its strings. */
	__atomic_store_n(&h->text_bytes, w->pending_text, __ATOMIC_RELEASE);
	__atomic_store_n(&h->strings, w->pending, __ATOMIC_RELEASE);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		uint64_t bytes = (uint64_t)(w->stage[t].next - w->base[t]);

		if (h->table[t].bytes != bytes)
			__atomic_store_n(&h->table[t].bytes, bytes, __ATOMIC_RELEASE);
	}
}

int ws_writer_error(struct ws_writer *w, struct ws_err *e)
{
	if (w->failed && e)
		*e = w->error;
	return w->failed ? -1 : 0;
}

bool ws_writer_journaled(const struct ws_writer *w)
{
	return w->journal.is_file;
}

uint64_t ws_writer_lost(struct ws_writer *w)
{
	return w->lost;
}

const char *ws_writer_path(struct ws_writer *w)
{
	return w->path;
}

static int write_index(struct ws_writer *w)
{
	uint64_t rows = 0;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		rows += w->written[t];
	ws_encode_index(&w->encoder.out, w->index, w->blocks, w->end, rows, w->sequence);
	return append_bytes(w, 0) ? fail(w) : 0;
}

void ws_writer_flush(struct ws_writer *w)
{
	flush_all(w);
	flush_strings(w, false);
}

/* ---- adding to a report ---- */

/* The numbering of everything goes on where the report ended. */
static void continue_report(struct ws_writer *w, const struct ws_report *r, uint64_t end)
{
	w->end = w->allocated = end;
	for (size_t i = 0; i < r->all.n; i++) {
		const struct ws_block_head *h = &r->all.v[i].head;

		ws_grow(w->index, w->index_cap, w->blocks + 1);
		w->index[w->blocks++] =
			(struct ws_index_entry){.offset = r->all.v[i].offset, .head = *h};
		w->sequence = h->sequence >= w->sequence ? h->sequence + 1 : w->sequence;
		if (h->type == WS_BLOCK_SEGMENT && h->first >= w->segment)
			w->segment = h->first + 1;
		if (h->type == WS_BLOCK_STRINGS && h->table >= w->generation)
			w->generation = h->table + 1;
		if (h->type == WS_BLOCK_STRINGS && h->first + h->rows > w->next_string)
			w->next_string = h->first + h->rows;
	}
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		const struct ws_block_list *l = &r->table[t];

		w->written[t] = l->n ? l->v[l->n - 1].head.first + l->v[l->n - 1].head.rows : 0;
		w->journal.head->table[t].first = w->written[t];
	}
	w->journal.head->string_first = w->next_string;
}

static struct ws_writer *append_to(const struct ws_report *r, const char *path, int lock,
				   struct ws_err *e)
{
	struct ws_writer_opts opts = {.no_journal = true};
	struct ws_writer *w;
	uint64_t end;
	char *temp = ws_format("%s.%d.added.tmp", path, (int)getpid());
	int fd = ws_report_copy_blocks(r, temp, &end, e);

	if (fd < 0) {
		free(temp);
		return NULL;
	}
	w = ws_calloc(1, sizeof(*w));
	w->fd = fd;
	w->path = temp;
	w->replaces = ws_strdup(path);
	w->replaces_fd = lock;
	w->ahead = FIRST_AHEAD;
	w->segment_ns = UINT64_MAX;
	make_stages(w, &opts, r->header.uuid);
	continue_report(w, r, end);
	return w;
}

struct ws_writer *ws_writer_append(const char *path, struct ws_err *e)
{
	struct ws_writer *w = NULL;
	struct ws_report *r = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), locked;

	if (fd < 0) {
		ws_fail_errno(e, "cannot open %s", path);
		return NULL;
	}
	locked = ws_file_lock(fd);
	if (locked < 0)
		ws_fail_errno(e, "cannot lock %s", path);
	else if (!locked)
		ws_fail(e, "%s is being written: nothing can be added before that ends", path);
	else if ((r = ws_report_open(path, e)))
		w = append_to(r, path, fd, e);
	ws_report_close(r);
	if (!w)
		close(fd);
	return w;
}

/* The copy is whole and on the disk before it takes the report's name: whatever happens, one of the
 * two stands there. */
static int take_place(struct ws_writer *w, struct ws_err *e)
{
	if (fsync(w->fd) || rename(w->path, w->replaces))
		return ws_fail_errno(e, "cannot replace %s", w->replaces);
	return 0;
}

int ws_writer_close(struct ws_writer *w, struct ws_err *e)
{
	int rc;

	ws_writer_flush(w);
	flush_overview(w);
	write_index(w);
	if (ftruncate(w->fd, (off_t)w->end) && !w->failed) /* gives back what was allocated ahead */
		fail(w);
	rc = ws_writer_error(w, e);
	if (w->replaces && (rc || (rc = take_place(w, e))))
		unlink(w->path);
	free_writer(w);
	return rc;
}

void ws_writer_discard(struct ws_writer *w)
{
	unlink(w->path);
	free_writer(w);
}
