/*
 * test_perf.c - perf's records taken apart, whole and damaged; rings merged in the order of time;
 * formats of tracepoints. Prints TAP.
 */
#include "perf_case.h"

static int number, failed;

#define CHECK(condition)                                                         \
	do {                                                                     \
		if (!(condition)) {                                              \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #condition); \
			ok = false;                                              \
		}                                                                \
	} while (0)

static bool samples_whole(void)
{
	struct ws_perf_rec out;
	struct bytes bytes;
	bool ok = true;

	make_sample(&bytes, ALL_BITS, 77, 123456);
	CHECK(ws_perf_time(bytes.b, bytes.n) == 123456 && ws_perf_id(bytes.b, bytes.n) == 77);
	CHECK(ws_perf_parse(bytes.b, bytes.n, ALL_BITS, REGS, &out));
	CHECK(out.pid == 100 && out.tid == 101 && out.cpu == 3 && out.sample.ip == 0x401000 &&
	      out.sample.period == 1000000);
	CHECK(out.sample.chain_n == 3 && out.sample.chain[2] == 0x402000);
	CHECK(out.sample.raw_size == 12 && !memcmp(out.sample.raw, "abcdabcdefgh", 12));
	CHECK(out.sample.branch_n == 1 && out.sample.branches[0].from == 0x1000);
	CHECK(out.sample.regs && out.sample.regs[REGS - 1] == 0x700 + REGS - 1);
	CHECK(out.sample.stack && out.sample.stack_size == 40 && out.sample.stack[8] == 1);
	make_sample(&bytes, WS_PERF_SAMPLE_BASE, 78, 5);
	CHECK(ws_perf_parse(bytes.b, bytes.n, WS_PERF_SAMPLE_BASE, REGS, &out) &&
	      !out.sample.stack && !out.sample.regs && !out.sample.chain);
	CHECK(!ws_perf_parse(bytes.b, bytes.n, WS_PERF_SAMPLE_BASE | PERF_SAMPLE_ADDR, REGS,
			     &out)); /* a bit that is not understood */
	return ok;
}

static bool others_whole(void)
{
	struct ws_perf_rec out;
	struct bytes bytes;
	bool ok = true;

	begin(&bytes, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	put32(&bytes, 10, 11);
	put64(&bytes, 0x7f0000000000);
	put64(&bytes, 0x1000);
	put64(&bytes, 0x2000);
	put32(&bytes, 8, 1);
	put64(&bytes, 4711);
	put64(&bytes, 0);
	put32(&bytes, 5, 2);
	put(&bytes, "/lib/x.so\0\0\0\0\0\0", 16);
	sample_id(&bytes, 10, 11, 99, 1, 7);
	CHECK(ws_perf_time(bytes.b, bytes.n) == 99);
	CHECK(ws_perf_parse(bytes.b, bytes.n, 0, 0, &out) && !strcmp(out.mmap.path, "/lib/x.so") &&
	      out.mmap.inode == 4711 && out.mmap.prot == 5);
	begin(&bytes, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	put32(&bytes, 20, 21);
	put(&bytes, "name\0\0\0\0", 8);
	sample_id(&bytes, 20, 21, 100, 1, 7);
	CHECK(ws_perf_parse(bytes.b, bytes.n, 0, 0, &out) && !strcmp(out.comm, "name") &&
	      out.tid == 21);
	begin(&bytes, PERF_RECORD_FORK, 0);
	put32(&bytes, 31, 30);
	put32(&bytes, 33, 32);
	put64(&bytes, 55);
	sample_id(&bytes, 1, 1, 101, 1, 7);
	CHECK(ws_perf_parse(bytes.b, bytes.n, 0, 0, &out) && out.pid == 31 && out.task.ppid == 30 &&
	      out.tid == 33 && out.task.ptid == 32 && out.time == 101);
	begin(&bytes, PERF_RECORD_SWITCH_CPU_WIDE, PERF_RECORD_MISC_SWITCH_OUT);
	put32(&bytes, 41, 42);
	sample_id(&bytes, 40, 40, 102, 2, 7);
	CHECK(ws_perf_parse(bytes.b, bytes.n, 0, 0, &out) && out.other.tid == 42 && out.tid == 40 &&
	      out.cpu == 2);
	begin(&bytes, PERF_RECORD_LOST, 0);
	put64(&bytes, 7);
	put64(&bytes, 1234);
	sample_id(&bytes, 0, 0, 103, 2, 7);
	CHECK(ws_perf_parse(bytes.b, bytes.n, 0, 0, &out) && out.lost == 1234);
	return ok;
}

/* Cut short anywhere, with bytes changed anywhere: refused or harmless. In memory of exactly the
 * record's size, for the sanitizer.
 */
static bool check_damaged(void)
{
	struct bytes bytes;
	uint64_t seed = 1;
	bool ok = true;

	make_sample(&bytes, ALL_BITS, 77, 123456);
	for (size_t n = 0; n < bytes.n; n++) {
		char *cut = malloc(n ? n : 1);

		memcpy(cut, bytes.b, n);
		if (n >= 8) {
			struct perf_event_header header = {.type = PERF_RECORD_SAMPLE,
							   .size = (uint16_t)n};

			memcpy(cut, &header, sizeof(header));
			CHECK(!look(cut, n, ALL_BITS)); /* everything in it was asked for */
			ws_perf_time(cut, n);
		}
		free(cut);
	}
	for (int round = 0; round < 20000; round++) {
		char *copy = malloc(bytes.n);

		memcpy(copy, bytes.b, bytes.n);
		for (int i = 0; i < 4; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			copy[8 + (seed >> 33) % (bytes.n - 8)] = (char)(seed >> 17);
		}
		look(copy, bytes.n, ALL_BITS);
		free(copy);
	}
	return ok;
}

/* ---- rings ---- */

static void ring_put(struct ws_perf_ring *ring, const struct bytes *rec)
{
	for (size_t i = 0; i < rec->n; i++)
		((char *)(uintptr_t)ring->data)[(ring->page->data_head + i) & (ring->bytes - 1)] =
			rec->b[i];
	ring->page->data_head += rec->n;
}

static uint64_t last_time, taken, out_of_order;

static void note_record(void *ctx, struct ws_perf_ring *ring, const void *rec, size_t size)
{
	uint64_t time = ws_perf_time(rec, size);

	(void)ctx;
	(void)ring;
	out_of_order += time < last_time;
	last_time = time;
	taken++;
}

static bool rings_merge(void)
{
	enum { RINGS = 5, ROUNDS = 400 };
	struct ws_perf_ring rings[RINGS] = {0};
	struct ws_perf_ring *heap[RINGS];
	struct ws_perf_set set = {.rings = rings,
				  .rings_n = RINGS,
				  .heap = heap,
				  .scratch = malloc(WS_PERF_MOST + 1)};
	uint64_t put_n = 0, time = 1000;
	struct bytes bytes;
	bool ok = true;

	for (int i = 0; i < RINGS; i++) {
		rings[i].page = calloc(1, sizeof(*rings[i].page));
		rings[i].bytes = 4096;
		rings[i].data = malloc(rings[i].bytes);
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 6; i++) {
			make_sample(&bytes, i % 2 ? WS_PERF_SAMPLE_BASE : ALL_BITS, 1, time++);
			ring_put(&rings[(size_t)(i * 7 + round) % RINGS], &bytes);
			put_n++;
		}
		ws_perf_take(&set, time - 3, note_record, NULL); /* all but the last three */
		CHECK(taken == put_n - 3);
		CHECK(ws_perf_fullness(&set) < 256);
	}
	ws_perf_take(&set, UINT64_MAX, note_record, NULL);
	CHECK(taken == put_n && !out_of_order && !set.bad);
	make_sample(&bytes, ALL_BITS, 1, time);
	((struct perf_event_header *)bytes.b)->size = 4; /* no record is so short */
	ring_put(&rings[2], &bytes);
	ws_perf_take(&set, UINT64_MAX, note_record, NULL);
	CHECK(set.bad == 1 && taken == put_n && rings[2].tail == rings[2].page->data_head);
	for (int i = 0; i < RINGS; i++) {
		free((void *)(uintptr_t)rings[i].data);
		free(rings[i].page);
	}
	free(set.scratch);
	return ok;
}

/* ---- tracepoints ---- */

static bool check_formats(void)
{
	struct ws_trace_format *format = ws_trace_parse(format_text, sizeof(format_text) - 1);
	_Alignas(8) char raw[72] = {0};
	struct ws_text text = {0};
	int64_t v = 0;
	uint32_t where = 5u << 16 | 64;
	bool ok = true;

	CHECK(format && ws_trace_id(format) == 375);
	if (!format)
		return false;
	raw[2] = 0x10;
	strcpy(raw + 8, "busy");
	memcpy(raw + 24, &(int){-7}, 4);
	memcpy(raw + 32, &(uint64_t){0xffff8000}, 8);
	memcpy(raw + 40, &where, 4);
	memcpy(raw + 64, "file", 5);
	CHECK(ws_trace_number(format, "pid", raw, sizeof(raw), &v) && v == -7);
	CHECK(ws_trace_number(format, "common_flags", raw, sizeof(raw), &v) && v == 0x10);
	CHECK(!ws_trace_number(format, "pid", raw, 26, &v) &&
	      !ws_trace_number(format, "comm", raw, sizeof(raw), &v));
	ws_trace_text(format, raw, sizeof(raw), &text);
	CHECK(text.text && !strcmp(text.text, "comm=busy pid=-7 where=0xffff8000 name=file "
					      "args=00000000000000000000000000000000"));
	if (!ok)
		printf("# it was: %s\n", text.text);
	ws_text_free(&text);
	for (size_t n = 0; n < sizeof(raw); n++) {
		char *cut = malloc(n ? n : 1);

		memcpy(cut, raw, n);
		memset(&text, 0, sizeof(text));
		ws_trace_text(format, cut, n, &text);
		ws_text_free(&text);
		free(cut);
	}
	ws_trace_free(format);
	CHECK(!ws_trace_parse("nothing", 7) && !ws_trace_parse("ID: 5\n", 6));
	return ok;
}

static bool check_names(void)
{
	struct ws_err err;
	bool ok = true;

	CHECK(!ws_perf_check_events("page-faults,3", false, "os-events", &err));
	CHECK(!ws_perf_check_events(NULL, false, "os-events", &err));
	CHECK(ws_perf_check_events("page-fault", false, "os-events", &err) &&
	      strstr(err.msg, "'page-fault'"));
	CHECK(ws_perf_check_events("99", true, "cpu-core-events", &err));
	CHECK(ws_perf_check_events("", true, "cpu-core-events", &err));
	CHECK(ws_perf_find_event("1", 1, true) == ws_perf_find_event("instructions", 12, true));
	return ok;
}

struct switching {
	double recorded; /* share of the time */
	bool shifted;	 /* to samples taken on cores */
	bool sparse[2];	 /* samples of a core are to be */
};

/* Threads switch `rate` times a second on one core of two for `ms`, looked at every 10 ms. */
static struct switching record_switching(unsigned rate, unsigned ms, bool all)
{
	struct ws_perf_ring rings[2] = {{.cpu = 0}, {.cpu = 1}};
	struct ws_perf_event events[] = {
		{.role = WS_PERF_TRACK}, {.role = WS_PERF_SAMPLE}, {.role = WS_PERF_STANDBY}};
	struct ws_drain drain = {.python = NULL};
	struct ws_perf perf = {.active = true, .from = 1, .drain = &drain};
	unsigned on = 0, looks = ms / 10;

	perf.set.wide = true;
	perf.set.events = events;
	perf.set.events_n = WS_COUNT(events);
	perf.set.rings = rings;
	perf.set.rings_n = WS_COUNT(rings);
	perf.options.switches = WS_SCOPE_TREE;
	perf.options.all_switches = all;
	for (unsigned i = 1; i <= looks; i++) {
		ws_perf_pace_switches(&perf, i * UINT64_C(10000000));
		if (perf.resume)
			continue;
		on++;
		rings[1].switches += 2u * rate / 100;
	}
	free(perf.pauses.span);
	return (struct switching){(double)on / looks,
				  perf.shifted,
				  {rings[0].sparse_until > looks * UINT64_C(10000000),
				   rings[1].sparse_until > looks * UINT64_C(10000000)}};
}

static double share_recorded(unsigned rate, unsigned ms, bool all)
{
	return record_switching(rate, ms, all).recorded;
}

static bool check_pauses(void)
{
	bool ok = true;

	CHECK(share_recorded(12000, 5000, false) == 1);
	CHECK(share_recorded(100000, 30, false) == 1);	 /* a burst */
	CHECK(share_recorded(100000, 300, false) < 0.4); /* after which a short program is spared */
	CHECK(share_recorded(200000, 5000, true) == 1);
	CHECK(share_recorded(25000, 20000, false) > 0.15); /* 5,400 of them */
	CHECK(share_recorded(25000, 20000, false) < 0.3);
	CHECK(share_recorded(40000, 20000, false) > 0.04); /* 2,110 */
	CHECK(share_recorded(40000, 20000, false) < 0.08);
	CHECK(share_recorded(200000, 20000, false) > 0.003); /* 1,000 */
	CHECK(share_recorded(200000, 20000, false) < 0.02);
	CHECK(share_recorded(200000000, 20000, false) > 0.005); /* it is looked at again */
	CHECK(!record_switching(4000, 5000, false).shifted);
	CHECK(!record_switching(9000, 10, false).shifted);
	CHECK(record_switching(9000, 100, false).shifted);
	CHECK(!record_switching(9000, 100, true).shifted);
	return ok;
}

static bool check_crowds(void)
{
	bool ok = true;

	CHECK(!record_switching(6000, 500, false).sparse[1]);
	CHECK(record_switching(12000, 500, false).sparse[1]);
	CHECK(!record_switching(12000, 500, false).sparse[0]); /* a core by itself */
	CHECK(!record_switching(12000, 500, true).sparse[1]);
	CHECK(record_switching(200000, 500, false).sparse[1]); /* in a pause */
	return ok;
}

/* A thread that calls MPI without pause makes the core sparse on which it was seen last. */
static bool check_storms(void)
{
	struct ws_perf_thread thread = {.tid = 77, .cpu = 1};
	struct ws_perf_ring rings[2] = {{.cpu = 0}, {.cpu = 1}};
	struct ws_perf perf = {.active = true, .from = 1};
	bool ok = true;

	perf.set.rings = rings;
	perf.set.rings_n = WS_COUNT(rings);
	ws_map_set(&perf.threads, 77, (uint64_t)(uintptr_t)&thread);
	ws_perf_note_storm(&perf, 78, 1000);
	ws_perf_note_storm(NULL, 77, 1000);
	CHECK(!rings[0].sparse_until && !rings[1].sparse_until);
	ws_perf_note_storm(&perf, 77, 1000);
	CHECK(!rings[0].sparse_until && rings[1].sparse_until > 1000);
	perf.options.all_switches = true;
	rings[1].sparse_until = 0;
	ws_perf_note_storm(&perf, 77, 2000);
	CHECK(!rings[1].sparse_until);
	ws_map_free(&perf.threads);
	return ok;
}

int main(void)
{
	static const struct {
		const char *name;
		bool (*run)(void);
	} tests[] = {{"samples with everything in them", samples_whole},
		     {"the other records", others_whole},
		     {"damaged records", check_damaged},
		     {"rings are merged in the order of time", rings_merge},
		     {"formats of tracepoints", check_formats},
		     {"names of events", check_names},
		     {"switches that come too fast are paused", check_pauses},
		     {"samples of crowded cores are sparse", check_crowds},
		     {"and those of cores that call MPI without pause", check_storms}};

	printf("1..%zu\n", WS_COUNT(tests));
	for (size_t i = 0; i < WS_COUNT(tests); i++) {
		bool ok = tests[i].run();

		failed += !ok;
		printf("%sok %d - %s\n", ok ? "" : "not ", ++number, tests[i].name);
	}
	return failed ? 1 : 0;
}
