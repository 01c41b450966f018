/*
 * stats_bench.c - write a report of many NVTX ranges (or calls) straight through the writer, for
 * timing what reads it.
 *
 *   stats_bench FILE [storm|names|million|jitter|threads|calls|gil|um] [COUNT]
 *
 * storm: one thread, two names, ranges of 10 to 40 ns, as a loop that only annotates; names: texts
 * that never repeat; million: a million of them; jitter: 64 names, ranges of 1 us to 20 ms;
 * threads: the storm on 64 threads; calls: OSRT calls of 40 functions; gil: 16 threads that wait
 * for Python's lock and hold it in turn; um: a million pages of unified memory that move to the
 * device and back, or fault. The default is 18 M rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/store.h"

static uint64_t state = 88172645463325252u;

static inline uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

struct kind {
	const char *name;
	unsigned names; /* 0: one a range */
	unsigned threads;
	bool calls;
	void (*fill)(struct ws_writer *writer, uint64_t count); /* NULL: ranges or calls */
};

static void fill_gil(struct ws_writer *writer, uint64_t count);
static void fill_um(struct ws_writer *writer, uint64_t count);

static const struct kind kinds[] = {
	{"storm", 2, 1, false, NULL},	      {"names", 0, 1, false, NULL},
	{"million", 1000000, 4, false, NULL}, {"jitter", 64, 4, false, NULL},
	{"threads", 2, 64, false, NULL},      {"calls", 40, 8, true, NULL},
	{"gil", 0, 16, false, fill_gil},      {"um", 0, 1, false, fill_um},
};

static uint64_t draw_duration(const struct kind *kind)
{
	if (kind->names <= 2)
		return 10 + (next_random() & 15) + (next_random() % 1000 == 0 ? 20000 : 0);
	return 1000 + (next_random() & 0xfff) +
	       (next_random() % 100 == 0 ? next_random() % 20000000 : 0);
}

static void begin_kind(struct ws_writer *writer, const struct kind *kind)
{
	struct ws_row_collection row = {.start = 1000000, .end = WS_NO_TIME};
	struct ws_row_process row_process = {.id = 1,
					     .pid = 4242,
					     .start = 1000000,
					     .origin = WS_ORIGIN_TARGET,
					     .name = ws_writer_string(writer, "bench", 5)};

	ws_writer_add(writer, WS_TABLE_collection, &row);
	ws_writer_add(writer, WS_TABLE_process, &row_process);
	for (unsigned i = 0; i < kind->threads; i++) {
		struct ws_row_thread row_thread = {
			.id = i + 1, .process = 1, .tid = 4242 + i, .start = 1000000};

		ws_writer_add(writer, WS_TABLE_thread, &row_thread);
	}
}

static uint32_t put_text(struct ws_writer *writer, const struct kind *kind, const uint32_t *ids,
			 uint64_t i)
{
	char name[48];

	if (kind->names)
		return ids[kind->names <= 2 ? i / 64 % kind->names
					    : (next_random() >> 40) % kind->names];
	return ws_writer_string(writer, name,
				(size_t)snprintf(name, sizeof(name), "request %llu",
						 (unsigned long long)(i * 2654435761u)));
}

static void fill_report(struct ws_writer *writer, const struct kind *kind, uint64_t count)
{
	uint64_t now[64], d;
	uint32_t *ids = ws_calloc(kind->names + 1, sizeof(*ids));
	struct ws_stage *nvtx = ws_writer_stage(writer, WS_TABLE_nvtx),
			*osrt = ws_writer_stage(writer, WS_TABLE_osrt);

	for (unsigned i = 0; i < kind->names; i++) {
		char name[32];

		ids[i] = ws_writer_string(writer, name,
					  (size_t)snprintf(name, sizeof(name),
							   "work item of kind %u", i));
	}
	for (unsigned i = 0; i < 64; i++)
		now[i] = 1000000 + i;
	for (uint64_t i = 0; i < count; i++) {
		unsigned t = (unsigned)(i / 512 % kind->threads);
		uint32_t id = put_text(writer, kind, ids, i);

		d = draw_duration(kind);
		if (kind->calls)
			*(struct ws_row_osrt *)ws_writer_row(writer, WS_TABLE_osrt, osrt) =
				(struct ws_row_osrt){.start = now[t],
						     .end = now[t] + d,
						     .thread = t + 1,
						     .name = id,
						     .result = 1};
		else
			*(struct ws_row_nvtx *)ws_writer_row(writer, WS_TABLE_nvtx, nvtx) =
				(struct ws_row_nvtx){.start = now[t],
						     .end = now[t] + d,
						     .thread = t + 1,
						     .text = id,
						     .type = WS_NVTX_PUSHPOP,
						     .flags = i & 64 ? WS_NVTX_REGISTERED : 0};
		now[t] += d + 8;
		if (i % 65536 == 0)
			ws_writer_commit(writer);
	}
	free(ids);
}

static void fill_gil(struct ws_writer *writer, uint64_t count)
{
	struct ws_stage *gil = ws_writer_stage(writer, WS_TABLE_gil);
	uint64_t now = 1000000, asked[16];

	for (unsigned i = 0; i < 16; i++)
		asked[i] = now;
	for (uint64_t i = 0; i < count; i += 2) {
		unsigned t = (unsigned)(next_random() >> 40) % 16;
		uint64_t held = 500 + (next_random() & 0xfff);

		*(struct ws_row_gil *)ws_writer_row(writer, WS_TABLE_gil,
						    gil) = (struct ws_row_gil){
			.start = asked[t], .end = now, .thread = t + 1, .state = WS_GIL_WAITS};
		*(struct ws_row_gil *)ws_writer_row(writer, WS_TABLE_gil,
						    gil) = (struct ws_row_gil){
			.start = now, .end = now + held, .thread = t + 1, .state = WS_GIL_HOLDS};
		now += held + 20;
		asked[t] = now;
		if (i % 65536 == 0)
			ws_writer_commit(writer);
	}
}

enum { PAGES = 1 << 20, PAGE = 65536 };

/* Runs of 64 pages. Of eight events six move a page, one is a fault on the CPU and one on the GPU.
 */
static void fill_um(struct ws_writer *writer, uint64_t count)
{
	uint64_t now = 1000000, page = 0;

	for (uint64_t i = 0; i < count; i++, now += 700, page++) {
		uint64_t address;

		if (i % 64 == 0)
			page = (next_random() >> 30) % PAGES;
		address = UINT64_C(0x7f0000000000) + page % PAGES * PAGE;
		if (i % 8 == 6)
			ws_writer_add(writer, WS_TABLE_cuda_um_cpu_fault,
				      &(struct ws_row_cuda_um_cpu_fault){
					      .start = now, .process = 1, .address = address});
		else if (i % 8 == 7)
			ws_writer_add(writer, WS_TABLE_cuda_um_gpu_fault,
				      &(struct ws_row_cuda_um_gpu_fault){
					      .start = now,
					      .end = now + 300,
					      .process = 1,
					      .address = address,
					      .faults = 1 + (next_random() & 15)});
		else
			ws_writer_add(writer, WS_TABLE_cuda_memcpy,
				      &(struct ws_row_cuda_memcpy){
					      .start = now,
					      .end = now + 400 + (next_random() & 255),
					      .process = 1,
					      .bytes = PAGE,
					      .kind = i & 1 ? WS_COPY_UM_HTOD : WS_COPY_UM_DTOH,
					      .correlation = WS_NO_U32,
					      .address = address});
		if (i % 65536 == 0)
			ws_writer_commit(writer);
	}
}

int main(int argc, char **argv)
{
	const struct kind *kind = kinds;
	struct ws_writer_opts options = {.overwrite = true};
	struct ws_writer *writer;
	struct ws_err err;
	uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 10) : 18000000;

	while (argc > 2 && kind < kinds + WS_COUNT(kinds) && strcmp(kind->name, argv[2]))
		kind++;
	if (argc < 2 || kind == kinds + WS_COUNT(kinds)) {
		fprintf(stderr, "usage: stats_bench FILE "
				"[storm|names|million|jitter|threads|calls|gil|um] [COUNT]\n");
		return 2;
	}
	writer = ws_writer_create(argv[1], &options, &err);
	if (!writer) {
		ws_say("%s", err.msg);
		return 1;
	}
	begin_kind(writer, kind);
	if (kind->fill)
		kind->fill(writer, count);
	else
		fill_report(writer, kind, count);
	if (ws_writer_close(writer, &err) < 0) {
		ws_say("%s", err.msg);
		return 1;
	}
	return 0;
}
