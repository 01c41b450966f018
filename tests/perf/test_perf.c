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
	struct bytes r;
	bool ok = true;

	make_sample(&r, ALL_BITS, 77, 123456);
	CHECK(ws_perf_time(r.b, r.n) == 123456 && ws_perf_id(r.b, r.n) == 77);
	CHECK(ws_perf_parse(r.b, r.n, ALL_BITS, REGS, &out));
	CHECK(out.pid == 100 && out.tid == 101 && out.cpu == 3 && out.sample.ip == 0x401000 &&
	      out.sample.period == 1000000);
	CHECK(out.sample.chain_n == 3 && out.sample.chain[2] == 0x402000);
	CHECK(out.sample.raw_size == 12 && !memcmp(out.sample.raw, "abcdabcdefgh", 12));
	CHECK(out.sample.branch_n == 1 && out.sample.branches[0].from == 0x1000);
	CHECK(out.sample.regs && out.sample.regs[REGS - 1] == 0x700 + REGS - 1);
	CHECK(out.sample.stack && out.sample.stack_size == 40 && out.sample.stack[8] == 1);
	make_sample(&r, WS_PERF_SAMPLE_BASE, 78, 5);
	CHECK(ws_perf_parse(r.b, r.n, WS_PERF_SAMPLE_BASE, REGS, &out) && !out.sample.stack &&
	      !out.sample.regs && !out.sample.chain);
	CHECK(!ws_perf_parse(r.b, r.n, WS_PERF_SAMPLE_BASE | PERF_SAMPLE_ADDR, REGS,
			     &out)); /* a bit that is not understood */
	return ok;
}

static bool others_whole(void)
{
	struct ws_perf_rec out;
	struct bytes r;
	bool ok = true;

	begin(&r, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	put32(&r, 10, 11);
	put64(&r, 0x7f0000000000);
	put64(&r, 0x1000);
	put64(&r, 0x2000);
	put32(&r, 8, 1);
	put64(&r, 4711);
	put64(&r, 0);
	put32(&r, 5, 2);
	put(&r, "/lib/x.so\0\0\0\0\0\0", 16);
	sample_id(&r, 10, 11, 99, 1, 7);
	CHECK(ws_perf_time(r.b, r.n) == 99);
	CHECK(ws_perf_parse(r.b, r.n, 0, 0, &out) && !strcmp(out.mmap.path, "/lib/x.so") &&
	      out.mmap.inode == 4711 && out.mmap.prot == 5);
	begin(&r, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	put32(&r, 20, 21);
	put(&r, "name\0\0\0\0", 8);
	sample_id(&r, 20, 21, 100, 1, 7);
	CHECK(ws_perf_parse(r.b, r.n, 0, 0, &out) && !strcmp(out.comm, "name") && out.tid == 21);
	begin(&r, PERF_RECORD_FORK, 0);
	put32(&r, 31, 30);
	put32(&r, 33, 32);
	put64(&r, 55);
	sample_id(&r, 1, 1, 101, 1, 7);
	CHECK(ws_perf_parse(r.b, r.n, 0, 0, &out) && out.pid == 31 && out.task.ppid == 30 &&
	      out.tid == 33 && out.task.ptid == 32 && out.time == 101);
	begin(&r, PERF_RECORD_SWITCH_CPU_WIDE, PERF_RECORD_MISC_SWITCH_OUT);
	put32(&r, 41, 42);
	sample_id(&r, 40, 40, 102, 2, 7);
	CHECK(ws_perf_parse(r.b, r.n, 0, 0, &out) && out.other.tid == 42 && out.tid == 40 &&
	      out.cpu == 2);
	begin(&r, PERF_RECORD_LOST, 0);
	put64(&r, 7);
	put64(&r, 1234);
	sample_id(&r, 0, 0, 103, 2, 7);
	CHECK(ws_perf_parse(r.b, r.n, 0, 0, &out) && out.lost == 1234);
	return ok;
}

/* Cut short anywhere, with bytes changed anywhere: refused or harmless. In memory of exactly the
 * record's size, for the sanitizer.
 */
static bool damaged(void)
{
	struct bytes r;
	uint64_t seed = 1;
	bool ok = true;

	make_sample(&r, ALL_BITS, 77, 123456);
	for (size_t n = 0; n < r.n; n++) {
		char *cut = malloc(n ? n : 1);

		memcpy(cut, r.b, n);
		if (n >= 8) {
			struct perf_event_header h = {.type = PERF_RECORD_SAMPLE,
						      .size = (uint16_t)n};

			memcpy(cut, &h, sizeof(h));
			CHECK(!look(cut, n, ALL_BITS)); /* everything in it was asked for */
			ws_perf_time(cut, n);
		}
		free(cut);
	}
	for (int round = 0; round < 20000; round++) {
		char *copy = malloc(r.n);

		memcpy(copy, r.b, r.n);
		for (int i = 0; i < 4; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			copy[8 + (seed >> 33) % (r.n - 8)] = (char)(seed >> 17);
		}
		look(copy, r.n, ALL_BITS);
		free(copy);
	}
	return ok;
}

/* ---- rings ---- */

static void ring_put(struct ws_perf_ring *r, const struct bytes *rec)
{
	for (size_t i = 0; i < rec->n; i++)
		((char *)(uintptr_t)r->data)[(r->page->data_head + i) & (r->bytes - 1)] = rec->b[i];
	r->page->data_head += rec->n;
}

static uint64_t last_time, taken, out_of_order;

static void note(void *ctx, struct ws_perf_ring *ring, const void *rec, size_t size)
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
	struct ws_perf_set s = {.rings = rings,
				.rings_n = RINGS,
				.heap = heap,
				.scratch = malloc(WS_PERF_MOST + 1)};
	uint64_t put_n = 0, time = 1000;
	struct bytes r;
	bool ok = true;

	for (int i = 0; i < RINGS; i++) {
		rings[i].page = calloc(1, sizeof(*rings[i].page));
		rings[i].bytes = 4096;
		rings[i].data = malloc(rings[i].bytes);
	}
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 6; i++) {
			make_sample(&r, i % 2 ? WS_PERF_SAMPLE_BASE : ALL_BITS, 1, time++);
			ring_put(&rings[(size_t)(i * 7 + round) % RINGS], &r);
			put_n++;
		}
		ws_perf_take(&s, time - 3, note, NULL); /* all but the last three */
		CHECK(taken == put_n - 3);
		CHECK(ws_perf_fullness(&s) < 256);
	}
	ws_perf_take(&s, UINT64_MAX, note, NULL);
	CHECK(taken == put_n && !out_of_order && !s.bad);
	make_sample(&r, ALL_BITS, 1, time);
	((struct perf_event_header *)r.b)->size = 4; /* no record is so short */
	ring_put(&rings[2], &r);
	ws_perf_take(&s, UINT64_MAX, note, NULL);
	CHECK(s.bad == 1 && taken == put_n && rings[2].tail == rings[2].page->data_head);
	for (int i = 0; i < RINGS; i++) {
		free((void *)(uintptr_t)rings[i].data);
		free(rings[i].page);
	}
	free(s.scratch);
	return ok;
}

/* ---- tracepoints ---- */

static bool formats(void)
{
	struct ws_trace_format *f = ws_trace_parse(format_text, sizeof(format_text) - 1);
	_Alignas(8) char raw[72] = {0};
	struct ws_text t = {0};
	int64_t v = 0;
	uint32_t where = 5u << 16 | 64;
	bool ok = true;

	CHECK(f && ws_trace_id(f) == 375);
	if (!f)
		return false;
	raw[2] = 0x10;
	strcpy(raw + 8, "busy");
	memcpy(raw + 24, &(int){-7}, 4);
	memcpy(raw + 32, &(uint64_t){0xffff8000}, 8);
	memcpy(raw + 40, &where, 4);
	memcpy(raw + 64, "file", 5);
	CHECK(ws_trace_number(f, "pid", raw, sizeof(raw), &v) && v == -7);
	CHECK(ws_trace_number(f, "common_flags", raw, sizeof(raw), &v) && v == 0x10);
	CHECK(!ws_trace_number(f, "pid", raw, 26, &v) &&
	      !ws_trace_number(f, "comm", raw, sizeof(raw), &v));
	ws_trace_text(f, raw, sizeof(raw), &t);
	CHECK(t.s && !strcmp(t.s, "comm=busy pid=-7 where=0xffff8000 name=file "
				  "args=00000000000000000000000000000000"));
	if (!ok)
		printf("# it was: %s\n", t.s);
	ws_text_free(&t);
	for (size_t n = 0; n < sizeof(raw); n++) {
		char *cut = malloc(n ? n : 1);

		memcpy(cut, raw, n);
		memset(&t, 0, sizeof(t));
		ws_trace_text(f, cut, n, &t);
		ws_text_free(&t);
		free(cut);
	}
	ws_trace_free(f);
	CHECK(!ws_trace_parse("nothing", 7) && !ws_trace_parse("ID: 5\n", 6));
	return ok;
}

static bool names(void)
{
	struct ws_err e;
	bool ok = true;

	CHECK(!ws_perf_check_events("page-faults,3", false, "os-events", &e));
	CHECK(!ws_perf_check_events(NULL, false, "os-events", &e));
	CHECK(ws_perf_check_events("page-fault", false, "os-events", &e) &&
	      strstr(e.msg, "'page-fault'"));
	CHECK(ws_perf_check_events("99", true, "cpu-core-events", &e));
	CHECK(ws_perf_check_events("", true, "cpu-core-events", &e));
	CHECK(ws_perf_find_event("1", 1, true) == ws_perf_find_event("instructions", 12, true));
	return ok;
}

int main(void)
{
	static const struct {
		const char *name;
		bool (*run)(void);
	} tests[] = {{"samples with everything in them", samples_whole},
		     {"the other records", others_whole},
		     {"damaged records", damaged},
		     {"rings are merged in the order of time", rings_merge},
		     {"formats of tracepoints", formats},
		     {"names of events", names}};

	printf("1..%zu\n", WS_COUNT(tests));
	for (size_t i = 0; i < WS_COUNT(tests); i++) {
		bool ok = tests[i].run();

		failed += !ok;
		printf("%sok %d - %s\n", ok ? "" : "not ", ++number, tests[i].name);
	}
	return failed ? 1 : 0;
}
