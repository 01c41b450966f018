/*
 * fuzz_arena.c - the recorder against shared memory that the target has overwritten: it may lose
 * what was recorded, and must not crash, hang, take memory without bounds or write a report that
 * cannot be read.
 *
 * Each input begins with an arena as two processes leave it while they run: homes, strings, rings
 * with records of every kind over several chunks, open ranges and calls, a buffer of CUPTI's. The
 * input's first byte says whether the edits come between the rounds of the drain or, by a second
 * thread, while it works. What follows are edits of eight bytes each: a region, how, where and a
 * value. The code that drains is the recorder's own, with a writer and its report behind it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/code.h"
#include "record/from_cuda.h"
#include "record/proc.h"
#include "record/python.h"
#include "ring/cuda_record.h"
#include "ring/cupti_abi.h"
#include "ring/nvtx_record.h"
#include "ring/osrt_record.h"
#include "ring/python_record.h"
#include "ring/sample_record.h"
#include "ring/stack_record.h"
#include "store/store.h"
#include "../replay.h"

enum { EDIT = 8, ROUNDS = 4, BUDGET = 2 << 20, MOST_EDITS = 1024 };
enum { WHILE_DRAINING = 1 };
#define RECORDS 54u /* of all kinds, those in a batch of CUPTI's too, added at once */
#define WHOLE_EVENTS (4 * 8 * RECORDS + 17 /* in a buffer */)

struct target { /* what the made-up process has */
	struct ws_arena *arena;
	struct ws_process_home *home;
	uint32_t home_chunk, strings[4];
	struct ws_ring *ring;
	struct ws_chunk *chunk; /* that is being written */
	uint64_t now;		/* ticks */
};

static char folder[64], report[128];
static pid_t ended; /* a process that is gone */
static struct ws_sink *sink;
static uint64_t converted; /* events */

static struct ws_sink *get_sink(void *ctx, int pid, const char *env, size_t env_len,
				struct ws_sink *parent)
{
	(void)ctx;
	(void)pid;
	(void)parent;
	if (env[env_len])
		abort();
	return sink;
}

/* ---- an arena as hooks leave it ---- */

static uint32_t define_string(struct target *target, const char *text)
{
	uint64_t pos = atomic_load(&target->home->string_pos);
	uint32_t len = (uint32_t)strlen(text), chunk = (uint32_t)(pos >> 32),
		 offset = (uint32_t)pos;
	struct ws_shared_string *string =
		(void *)((char *)ws_chunk_at(target->arena, chunk) + offset);

	string->len = len;
	memcpy(string->bytes, text, len + 1);
	atomic_store(&target->home->string_pos, pos + WS_ALIGN_UP(sizeof(*string) + len + 1u, 8u));
	return (uint32_t)(((uint64_t)chunk * WS_CHUNK_SIZE + offset) / 8);
}

/* Further strings go into a chunk of their own, as when the home is full. */
static void add_string_chunk(struct target *target)
{
	uint32_t chunk = ws_take_chunk(target->arena, WS_MAX_CHUNKS);
	struct ws_chunk *shared = ws_chunk_at(target->arena, chunk);

	shared->kind = WS_CHUNK_STRINGS;
	atomic_store(&target->home->string_pos, (uint64_t)chunk << 32 | sizeof(*shared));
}

static void make_process(struct target *target, struct ws_arena *arena, uint32_t pid,
			 const struct target *parent)
{
	static const char texts[] = "/usr/bin/program\0program\0-x\0RANK=3";
	struct ws_process_home *home;

	*target = (struct target){.arena = arena, .now = ws_read_counter()};
	target->home_chunk = ws_take_chunk(arena, WS_MAX_CHUNKS);
	target->home = home = ws_chunk_at(arena, target->home_chunk);
	home->chunk.kind = WS_CHUNK_PROCESS;
	home->pid = pid;
	home->ppid = (uint32_t)getppid();
	home->origin = WS_ORIGIN_EXEC;
	home->pid_ns = arena->recorder_pid_ns;
	home->start = target->now;
	if (parent) {
		home->origin = WS_ORIGIN_FORK;
		home->parent_home = parent->home_chunk;
		home->parent_start = parent->home->start;
	}
	home->exe_len = 16;
	home->cmdline_len = 12;
	home->env_len = 7;
	memcpy(home->text, texts, sizeof(texts));
	atomic_store(&home->string_pos,
		     (uint64_t)target->home_chunk << 32 |
			     WS_ALIGN_UP(offsetof(struct ws_process_home, text) + sizeof(texts),
					 8));
	target->strings[0] = define_string(target, "a range");
	add_string_chunk(target);
	target->strings[1] = define_string(target, "_Z6kernelPfi");
	add_string_chunk(target);
	target->strings[2] = define_string(target, "/tmp/file");
	target->strings[3] = define_string(target, "cudaLaunchKernel_v7000");
	atomic_store(&home->ready, 1);
	home->slot = (uint32_t)ws_add_to_directory(arena, target->home_chunk);
}

static void add_ring(struct target *target, uint32_t nest)
{
	uint32_t chunk = ws_take_chunk(target->arena, WS_MAX_CHUNKS);
	struct ws_ring *ring = target->ring = ws_chunk_at(target->arena, chunk);

	target->chunk = &ring->chunk;
	ring->chunk.kind = WS_CHUNK_RING;
	ring->chunk.base = target->now;
	ring->process_home = target->home_chunk;
	ring->pid = ring->tid = target->home->pid;
	ring->nest = nest;
	ring->start = target->now;
	atomic_store(&ring->chunk.used, WS_RING_DATA);
	ring->slot = (uint32_t)ws_add_to_directory(target->arena, chunk);
}

static void *add_record(struct target *target, enum ws_rec_kind kind, size_t bytes, uint16_t small,
			uint32_t value)
{
	uint32_t used = atomic_load(&target->chunk->used);
	struct ws_rec *rec;

	bytes = WS_ALIGN_UP(bytes, (size_t)8);
	if (used + bytes > WS_CHUNK_SIZE) {
		uint32_t next = ws_take_chunk(target->arena, WS_MAX_CHUNKS);
		struct ws_chunk *chunk = ws_chunk_at(target->arena, next);

		chunk->base = target->now;
		atomic_store(&target->chunk->next, next);
		target->chunk = chunk;
		used = sizeof(*chunk);
	}
	rec = (void *)((char *)target->chunk + used);
	memset(rec, 0, bytes);
	*rec = (struct ws_rec){.kind = (uint8_t)kind,
			       .words = (uint8_t)(bytes / 8 < 256 ? bytes / 8 : 0),
			       .small = small,
			       .value = bytes / 8 < 256 ? value : (uint32_t)(bytes / 8)};
	atomic_store(&target->chunk->used, used + (uint32_t)bytes);
	return rec;
}

static void add_nvtx(struct target *target, uint32_t round)
{
	uint32_t text = target->strings[round % 4];
	struct ws_rec_nvtx_range *range =
		add_record(target, WS_REC_NVTX_RANGE, sizeof(*range), 1, text);
	struct ws_rec_nvtx_short *brief;
	struct ws_rec_text *piece;
	struct ws_rec_nvtx_blob *blob;
	struct ws_rec_nvtx_event_full *event;
	struct ws_rec_nvtx_define *define;

	range->start = target->now;
	range->end = target->now + 100;
	brief = add_record(target, WS_REC_NVTX_SHORT, sizeof(*brief), 1, text);
	brief->times = (uint64_t)200 << WS_SHORT_DURATION_BITS | 50;
	piece = add_record(target, WS_REC_TEXT, sizeof(*piece) + 16, round % 3 == 0, 0);
	piece->number = round + 1;
	piece->len = 11;
	memcpy(piece->bytes, "local text ", 11);
	blob = add_record(target, WS_REC_NVTX_BLOB, sizeof(*blob) + 32, 0, 0);
	blob->number = round + 1;
	blob->len = 32;
	event = add_record(target, WS_REC_NVTX_EVENT, sizeof(*event), WS_NVTX_SMALL_LOCAL | 1,
			   round + 1);
	event->record.kind = (uint8_t)(round % 5 + 1);
	event->record.time = event->record.other = target->now;
	event->binary = round + 1;
	for (uint8_t kind = WS_NVTX_DEF_DOMAIN; kind <= WS_NVTX_DEF_ENTRY; kind++) {
		define = add_record(
			target, WS_REC_NVTX_DEFINE,
			kind == WS_NVTX_DEF_RESOURCE ? sizeof(struct ws_rec_nvtx_resource)
			: kind == WS_NVTX_DEF_SCHEMA ? sizeof(struct ws_rec_nvtx_schema)
			: kind == WS_NVTX_DEF_ENTRY  ? sizeof(struct ws_rec_nvtx_schema_entry)
						     : sizeof(*define),
			1, text);
		define->kind = kind;
		define->id = target->home->pid;
	}
}

static void add_calls(struct target *target, uint32_t round)
{
	struct ws_rec_stack *stack;
	struct ws_rec_osrt *call;
	struct ws_rec_osrt_more *more;
	struct ws_rec_sample *sample;
	struct ws_rec_maps *maps;
	static const char line[] = "7f0000000000-7f0000001000 r-xp 00000000 00:00 1 /bin/true\n";

	maps = add_record(target, WS_REC_MAPS, 400 * 8, 0, 0);
	maps->bytes = sizeof(line) - 1;
	memcpy(maps->text, line, sizeof(line));
	for (unsigned of = WS_STACK_OF_OSRT; of <= WS_STACK_OF_SAMPLE; of++) {
		stack = add_record(target, WS_REC_STACK, 300 * 8, (uint16_t)(of | WS_STACK_LAST),
				   0);
		stack->key = of == WS_STACK_OF_CUDA ? round : target->now;
		stack->time = target->now;
		stack->bytes = 256;
		for (int i = 0; i < WS_STACK_REGS; i++)
			stack->regs[i] = (uint64_t)(uintptr_t)add_calls;
		if (of == WS_STACK_OF_OSRT) {
			call = add_record(target, WS_REC_OSRT, sizeof(*call), 3, 0);
			call->start = target->now;
			call->end = target->now + 10;
		}
	}
	sample = add_record(target, WS_REC_SAMPLE, sizeof(*sample), 0, 1);
	sample->time = target->now;
	sample->weight = 1000;
	more = add_record(target, WS_REC_OSRT_MORE, sizeof(*more), 5, 0);
	more->call.start = more->call.end = target->now;
	more->path = target->strings[2];
}

static void add_notes(struct target *target, uint32_t round)
{
	struct ws_rec_thread_name *name =
		add_record(target, WS_REC_THREAD_NAME, sizeof(*name), 0, target->strings[0]);
	struct ws_rec_process_note *note =
		add_record(target, WS_REC_PROCESS_NOTE, sizeof(*note),
			   (uint16_t)(WS_NOTE_EXEC + round % 4), target->strings[2]);
	struct ws_rec_diagnostic *diagnostic =
		add_record(target, WS_REC_DIAGNOSTIC, sizeof(*diagnostic), 1, target->strings[1]);

	name->time = note->time = diagnostic->time = target->now;
	name->tid = target->home->pid;
	note->pid = 4000000 + (int)round;
	diagnostic->source = target->strings[0];
}

/* A record of each kind that CUPTI writes, as long as the newest one knows it. */
static size_t fill_batch(const struct target *target, char *bytes, uint32_t round)
{
	static const struct {
		uint32_t kind, size;
	} records[] = {{CUPTI_KIND_DEVICE, sizeof(struct cupti_device)},
		       {CUPTI_KIND_CONTEXT, sizeof(struct cupti_context)},
		       {CUPTI_KIND_STREAM, sizeof(struct cupti_stream)},
		       {CUPTI_KIND_RUNTIME, sizeof(struct cupti_api)},
		       {CUPTI_KIND_DRIVER, sizeof(struct cupti_api)},
		       {CUPTI_KIND_CONCURRENT_KERNEL, sizeof(struct cupti_kernel)},
		       {CUPTI_KIND_MEMCPY, sizeof(struct cupti_memcpy)},
		       {CUPTI_KIND_MEMCPY2, sizeof(struct cupti_memcpy_peer)},
		       {CUPTI_KIND_MEMSET, sizeof(struct cupti_memset)},
		       {CUPTI_KIND_OVERHEAD, sizeof(struct cupti_overhead)},
		       {CUPTI_KIND_UNIFIED_MEMORY_COUNTER, sizeof(struct cupti_um)},
		       {CUPTI_KIND_CUDA_EVENT, sizeof(struct cupti_event)},
		       {CUPTI_KIND_SYNCHRONIZATION, sizeof(struct cupti_sync)},
		       {CUPTI_KIND_MEMORY2, sizeof(struct cupti_memory)},
		       {CUPTI_KIND_MEMORY_POOL, sizeof(struct cupti_pool)},
		       {CUPTI_KIND_GRAPH_TRACE, sizeof(struct cupti_graph_trace)},
		       {CUPTI_KIND_JIT, sizeof(struct cupti_jit)}};
	size_t at = 0;

	for (size_t i = 0; i < WS_COUNT(records); i++) {
		uint32_t size = WS_ALIGN_UP(records[i].size, 8u);

		memset(bytes + at, 0, size);
		/* Small numbers in all fields make most of them plausible. */
		for (size_t k = 4; k < size; k += 8)
			bytes[at + k] = (char)(k + round);
		*(uint32_t *)(void *)(bytes + at) = WS_CUPTI_MADE(records[i].kind, size);
		if (records[i].kind == CUPTI_KIND_CONCURRENT_KERNEL) {
			struct cupti_kernel *kernel = (void *)(bytes + at);

			kernel->start = ws_read_raw_ns();
			kernel->end = kernel->start + 100;
			kernel->name =
				(const char *)(uintptr_t)(WS_CUPTI_HANDLE | target->strings[1]);
		}
		at += size;
	}
	return at;
}

static void add_cuda(struct target *target, uint32_t round)
{
	char bytes[8192];
	size_t size = fill_batch(target, bytes, round);
	struct ws_rec_cuda_seen *seen =
		add_record(target, WS_REC_CUDA_SEEN, sizeof(*seen), 0, target->strings[2]);
	struct ws_rec_cuda_name *name =
		add_record(target, WS_REC_CUDA_NAME, sizeof(*name), (uint16_t)(round % 4),
			   round % 4 == 3 ? 96 : target->strings[3]);
	struct ws_rec_cuda_device *device =
		add_record(target, WS_REC_CUDA_DEVICE, sizeof(*device), 0, 0);
	struct ws_rec_cuda_batch *batch =
		add_record(target, WS_REC_CUDA_BATCH, sizeof(*batch) + size, 0, 0);
	struct ws_rec_cuda_resource *resource;
	struct ws_rec_cuda_sync *sync;
	struct ws_rec_cuda_host *host;

	seen->cupti = CUPTI_13_0;
	name->key = round;
	device->bus = target->strings[0];
	batch->time = ws_read_raw_ns();
	memcpy(batch->bytes, bytes, size);
	resource = add_record(target, WS_REC_CUDA_RESOURCE, sizeof(*resource),
			      (uint16_t)(round % 8), 1);
	sync = add_record(target, WS_REC_CUDA_SYNC, sizeof(*sync), (uint16_t)(round % 6), 1);
	host = add_record(target, WS_REC_CUDA_HOST, sizeof(*host), 0, 1);
	resource->time = sync->start = sync->end = host->time = ws_read_raw_ns();
	resource->tid = target->home->pid;
	sync->event = round;
	host->function = (uint64_t)(uintptr_t)fill_batch;
}

static void add_python(struct target *target, uint32_t round)
{
	struct ws_rec_python_seen *seen = add_record(target, WS_REC_PYTHON_SEEN, sizeof(*seen),
						     0x030b, WS_PYTHON_LOOKED_INTO);
	struct ws_rec_python_thread *thread = add_record(
		target, WS_REC_PYTHON_THREAD, sizeof(*thread), 0x030b, WS_PYTHON_LOOKED_INTO);
	struct ws_rec_python_code *code = add_record(target, WS_REC_PYTHON_CODE, 2048, 0x030b, 0);
	struct ws_rec_python_table *table;
	struct ws_rec_python_frames *frames;
	struct ws_rec_python_sample *sample;
	struct ws_rec_python_range *range;
	struct ws_rec_gil *gil;

	seen->time = thread->time = target->now;
	code->number = round + 1;
	code->name_len = code->file_len = 8;
	memcpy(code->bytes, "functionfile.py_\x80\x01", 18);
	code->table_bytes = 16;
	code->here = 8;
	table = add_record(target, WS_REC_PYTHON_TABLE, 2048, 0, 0);
	table->number = round + 1;
	table->at = table->here = 8;
	frames = add_record(target, WS_REC_PYTHON_FRAMES, 2048, 0, 0);
	frames->count = 2;
	frames->frame[0] = frames->frame[1] = (uint64_t)(round + 1) << 32 | WS_PYTHON_ENTRY | 3;
	sample = add_record(target, WS_REC_PYTHON_SAMPLE, 2048, 0, 0);
	sample->time = target->now;
	sample->stack_bytes = 64;
	range = add_record(target, WS_REC_PYTHON_RANGE, sizeof(*range), 0, round % 2);
	gil = add_record(target, WS_REC_GIL, sizeof(*gil), WS_GIL_HOLDS, 0);
	gil->start = gil->end = range->start = range->end = target->now;
}

static void open_things(struct target *target)
{
	uint32_t chunk = ws_take_chunk(target->arena, WS_MAX_CHUNKS);
	struct ws_open_chunk *open = ws_chunk_at(target->arena, chunk);

	memset(open->open, 0, sizeof(open->open));
	open->chunk.kind = WS_CHUNK_OPEN;
	for (uint32_t i = 0; i < WS_OPEN_DEPTH + 10; i++) {
		struct ws_open *range =
			i < WS_OPEN_DEPTH ? &target->ring->open[i] : &open->open[i - WS_OPEN_DEPTH];

		*range = (struct ws_open){.start = target->now,
					  .text = target->strings[i % 4],
					  .flags = WS_OPEN_EXTENDED,
					  .binary = i};
	}
	atomic_store(&target->ring->open_more, chunk);
	atomic_store(&target->ring->open_depth, WS_OPEN_DEPTH + 10);
	target->ring->calls[0] = (struct ws_open_call){.start = target->now, .function = 7};
	atomic_store(&target->ring->calls_open, 1);
	for (int k = 0; k < WS_LOSS_KINDS; k++)
		atomic_store(&target->ring->lost[k], k);
}

static void fill_rings(struct target *target)
{
	static void (*const add[])(struct target *, uint32_t) = {add_nvtx, add_calls, add_notes,
								 add_cuda, add_python};

	for (uint32_t nest = 0; nest < 2; nest++) {
		add_ring(target, nest);
		for (uint32_t round = 0; round < 8; round++)
			for (size_t i = 0; i < WS_COUNT(add); i++)
				add[i](target, round);
	}
	open_things(target);
}

static void fill_buffer(const struct ws_area *area, const struct target *target)
{
	int number = ws_take_buffer(area->arena, area->fd, target->home_chunk);

	if (number >= 0)
		fill_batch(target, ws_buffer_at(area->arena, (uint32_t)number), 3);
}

/* ---- edits ---- */

struct edits {
	const struct ws_area *area;
	const uint8_t *bytes;
	size_t n; /* edits */
	uint64_t extent;
	_Atomic int stop;
};

/* Where an edit goes: the regions that hold numbers get more than their share. */
static uint64_t place_edit(const struct edits *edits, uint8_t region, uint32_t where)
{
	const struct ws_area *area = edits->area;
	uint64_t chunk = area->chunk_first +
			 where / 64 % (edits->extent / WS_CHUNK_SIZE - area->chunk_first);

	switch (region % 8) {
	case 0:
		return where % offsetof(struct ws_arena, text);
	case 1:
		return offsetof(struct ws_arena, collecting) +
		       where % (offsetof(struct ws_arena, directory) -
				offsetof(struct ws_arena, collecting));
	case 2:
		return offsetof(struct ws_arena, directory) + where % 64;
	case 3: /* heads of chunks, rings and processes */
		return chunk * WS_CHUNK_SIZE + where % 256;
	case 4:
		return (uint64_t)area->buffer_first * WS_BUFFER_SIZE + where % 8192;
	default: /* anything of the chunks in use */
		return (uint64_t)area->chunk_first * WS_CHUNK_SIZE +
		       where % (edits->extent - (uint64_t)area->chunk_first * WS_CHUNK_SIZE);
	}
}

static void apply_edit(const struct edits *edits, size_t i)
{
	const uint8_t *edit = edits->bytes + i * EDIT;
	uint64_t word, values[8] = {0, UINT64_MAX, INT64_MAX, UINT32_MAX};
	uint32_t where;
	volatile char *at;
	size_t size = (size_t)1 << (edit[1] >> 3 & 3);

	memcpy(&where, edit + 2, sizeof(where));
	memcpy(&word, edit, sizeof(word));
	values[4] = word * UINT64_C(0x9e3779b97f4a7c15);
	values[5] = edits->area->chunk_first + edit[6] % 64;
	values[6] = edit[6];
	values[7] = (uint64_t)1 << (edit[6] % 64);
	at = (volatile char *)edits->area->arena + place_edit(edits, edit[0], where) / size * size;
	if (at + size > (volatile char *)edits->area->arena + edits->area->size)
		return;
	for (size_t k = 0; k < size; k++)
		at[k] = (char)(values[edit[1] & 7] >> (8 * k));
}

static void apply_edits(const struct edits *edits, size_t from, size_t to)
{
	for (size_t i = from; i < to && i < edits->n; i++)
		apply_edit(edits, i);
}

/* What a target that runs wild does while it is recorded. */
static void *overwrite(void *arg)
{
	struct edits *edits = arg;

	while (edits->n && !atomic_load(&edits->stop))
		apply_edits(edits, 0, edits->n);
	return NULL;
}

/* ---- one input ---- */

static void drain_all(struct ws_drain *drain, struct ws_area *area, struct edits *edits,
		      bool at_once)
{
	pthread_t writer;
	bool started = at_once && !pthread_create(&writer, NULL, overwrite, edits);

	for (size_t round = 0; round < ROUNDS; round++) {
		if (!at_once)
			apply_edits(edits, edits->n * round / ROUNDS,
				    edits->n * (round + 1) / ROUNDS);
		ws_drain_round(drain);
		ws_area_feed(area);
		ws_writer_commit(sink->writer);
		if (round == 1)
			ws_drain_open_events(drain);
	}
	ws_drain_finish(drain);
	atomic_store(&edits->stop, 1);
	if (started)
		pthread_join(writer, NULL);
}

static void check_report(void)
{
	struct ws_err err = {""};
	struct ws_report *opened = ws_report_open(report, &err);

	if (!opened) {
		fprintf(stderr, "%s\n", err.msg);
		abort();
	}
	if (ws_report_verify(opened, NULL, NULL))
		abort();
	ws_report_close(opened);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	strcpy(folder, "/tmp/ws-fuzz-arena-XXXXXX");
	if (!mkdtemp(folder))
		return 1;
	snprintf(report, sizeof(report), "%s/fuzz.wsrep", folder);
	ended = fork();
	if (!ended)
		_exit(0);
	return waitpid(ended, NULL, 0) == ended ? 0 : 1;
}

static void make_targets(const struct ws_area *area)
{
	struct target first, second;

	make_process(&first, area->arena, (uint32_t)getpid(), NULL);
	make_process(&second, area->arena, (uint32_t)ended, &first);
	fill_rings(&first);
	fill_rings(&second);
	fill_buffer(area, &second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static char module[] = "module", name[] = "name";
	struct ws_python_function functions[2] = {{.module = module, .name = name},
						  {.module = module, .name = name}};
	struct ws_python_opts python_opts = {
		.sampling = true, .frequency = 100, .functions = functions, .function_n = 2};
	struct ws_err err = {""};
	struct ws_area area;
	struct ws_clock clock;
	struct ws_code *code;
	struct ws_drain *drain;
	struct ws_python *python;
	struct ws_drain_ops ops = {.sink_for = get_sink, .stack_depth = 50};
	struct edits edits = {.area = &area, .bytes = data + 1, .n = n ? (n - 1) / EDIT : 0};

	edits.n = ws_min(edits.n, (size_t)MOST_EDITS);
	if (!folder[0] || ws_area_create(&area, BUDGET, (uid_t)-1, &err))
		return 0;
	ws_clock_init(&clock, ws_clock_choose());
	sink = ws_sink_new(ws_strdup(report),
			   ws_writer_create(report,
					    &(struct ws_writer_opts){.overwrite = true,
								     .no_journal = true,
								     .block_rows = 1024},
					    &err),
			   &clock);
	area.arena->clock_mode = clock.mode;
	ops.code = code = ws_code_new();
	make_targets(&area);
	edits.extent = (uint64_t)atomic_load(&area.arena->chunk_next) * WS_CHUNK_SIZE;
	drain = ws_drain_new(&area, &clock, &ops);
	python = ws_python_new(drain, &python_opts);
	ws_drain_collect(drain, clock.readings[0].raw, 0);
	drain_all(drain, &area, &edits, n && data[0] & WHILE_DRAINING);
	ws_python_free(python);
	converted += sink->events;
	if (sink->lost > UINT64_C(1000000000000))
		abort(); /* more than fits into the time of a test */
	ws_code_end(code);
	if (ws_sink_close(sink, &err))
		abort();
	ws_code_free(code);
	ws_clock_free(&clock);
	ws_area_destroy(&area);
	check_report();
	unlink(report);
	return 0;
}

#ifdef FUZZ_REPLAY
static size_t edits_made;

static size_t make_input(uint8_t *bytes, int round)
{
	size_t n = replay_draw() % MOST_EDITS;

	replay_fill(bytes, 1 + n * EDIT);
	bytes[0] = round % 4 == 3 ? WHILE_DRAINING : 0;
	edits_made += n;
	return 1 + n * EDIT;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	int inputs;

	printf("1..3\n");
	if (LLVMFuzzerInitialize(&argc, &argv))
		return 1;
	/* Without edits all records are converted: what is edited below is what the drain reads. */
	replay_bytes((const uint8_t *)"", 1);
	printf("%s 1 - %llu events of an arena that is whole\n",
	       converted == WHOLE_EVENTS ? "ok" : "not ok", (unsigned long long)converted);
	inputs = replay(argc, argv, 200, make_input);
	printf("ok 2 - %d inputs, %zu overwrites\n", inputs, edits_made);
	rmdir(folder);
	getrusage(RUSAGE_SELF, &usage);
	printf("%s 3 - %ld MiB of memory at most\n", usage.ru_maxrss < 1 << 20 ? "ok" : "not ok",
	       usage.ru_maxrss >> 10);
	return 0;
}
#endif
