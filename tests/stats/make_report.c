/*
 * make_report.c - write a report of known rows: make_report KIND FILE.
 *
 * basic    two processes, domains, push/pop and start/end ranges, marks, calls, everything the exports have columns for
 * empty    a collection in which nothing happened
 * hostile  names with quotes, markup, controls, broken UTF-8, 10 kB
 * many     200,000 ranges of 3,000 names on 5 threads, in several blocks
 * deep     2,500 ranges one inside the other, and on another thread as many that overlap without nesting
 * wild     3,000 rows in every table, all columns arbitrary: what only a broken or malicious writer makes
 *
 * The session clock starts at 1,000,000,000,000 ns, so that a time that was not made relative is seen at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

#define ZERO UINT64_C(1000000000000)

static struct ws_writer *w;

static uint32_t str(const char *s)
{
	return s ? ws_writer_string(w, s, strlen(s)) : 0;
}

#define ADD(table, ...) ws_writer_add(w, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static void session(uint64_t length)
{
	ADD(collection, .start = ZERO, .end = WS_NO_TIME);
	if (length)
		ADD(collection, .start = ZERO, .end = ZERO + length); /* as the recorder does when it ends */
	ADD(clock, .raw = ZERO - 500, .realtime = UINT64_C(1700000000000000000), .ticks = 1);
	ADD(clock, .raw = ZERO + 1000000, .realtime = UINT64_C(1700000000001000500), .ticks = 3000000);
	ADD(meta, .name = str("host.name"), .value = str("testhost"));
	ADD(meta, .name = str("host.machine"), .value = str("x86_64"));
	ADD(meta, .name = str("cpu.count"), .value = str("8"));
	ADD(meta, .name = str("session.start_local"), .value = str("2023-11-15T00:13:20+0200"));
	ADD(meta, .name = str("env.RANK"), .value = str("3"));
}

static void process(uint32_t id, uint32_t pid, uint32_t parent, int origin, uint64_t start, const char *name)
{
	char exe[64], cmdline[64];

	snprintf(exe, sizeof(exe), "/usr/bin/%s", name);
	snprintf(cmdline, sizeof(cmdline), "%s --run 'all of it'", name);
	ADD(process, .id = id, .pid = pid, .parent = parent, .ppid = parent ? 100 : 1, .start = ZERO + start,
	    .origin = (uint8_t)origin, .exe = str(exe), .cmdline = str(cmdline), .name = str(name));
}

static void thread(uint32_t id, uint32_t in, uint32_t tid, const char *name, int priority)
{
	ADD(thread, .id = id, .process = in, .tid = tid, .start = ZERO);
	if (name)
		ADD(thread_name, .thread = id, .start = ZERO + id, .name = str(name), .priority = priority);
}

static void range(uint32_t id, uint32_t domain, const char *text, uint64_t start, uint64_t end)
{
	ADD(nvtx, .start = ZERO + start, .end = ZERO + end, .thread = id, .text = str(text), .domain = domain,
	    .type = WS_NVTX_PUSHPOP);
}

static void call(uint32_t id, const char *name, uint64_t start, uint64_t end, int64_t result)
{
	ADD(osrt, .start = ZERO + start, .end = end ? ZERO + end : WS_NO_TIME, .thread = id, .name = str(name), .result = result,
	    .error = result < 0 ? 11 : 0, .nesting = start % 2 ? 1 : 0, .object = 5, .path = str("/tmp/file"));
}

static void payload(uint64_t at, int type, uint64_t bits)
{
	ADD(nvtx, .start = ZERO + at, .end = WS_NO_TIME, .thread = 1, .text = str("payload"), .type = WS_NVTX_MARK, .payload = bits,
	    .payload_type = (uint8_t)type);
}

static uint64_t bits_of(const void *v, size_t size)
{
	uint64_t bits = 0;

	memcpy(&bits, v, size);
	return bits;
}

static void payloads(void)
{
	double d = 2.5;
	float f = -0.25f;

	payload(9000, WS_NVTX_PAYLOAD_U64, UINT64_MAX);
	payload(9001, WS_NVTX_PAYLOAD_I64, (uint64_t)-7);
	payload(9002, WS_NVTX_PAYLOAD_F64, bits_of(&d, sizeof(d)));
	payload(9003, WS_NVTX_PAYLOAD_U32, UINT32_MAX);
	payload(9004, WS_NVTX_PAYLOAD_I32, (uint32_t)-9);
	payload(9005, WS_NVTX_PAYLOAD_F32, bits_of(&f, sizeof(f)));
	ADD(nvtx, .start = ZERO + 9006, .end = ZERO + 9007, .thread = 1, .text = str("extended"), .type = WS_NVTX_PUSHPOP,
	    .payload_type = WS_NVTX_PAYLOAD_EXT, .binary = ws_writer_string(w, "\0\1\xff\"", 4));
	ADD(nvtx_schema, .process = 1, .domain = 1, .id = 17, .name = str("point"), .type = 1, .entries = 1, .size = 8, .align = 4);
	ADD(nvtx_schema_entry, .process = 1, .domain = 1, .schema = 17, .index = 0, .type = 7, .name = str("x"),
	    .description = str("across"), .offset = 4);
	ADD(nvtx_resource, .process = 1, .start = ZERO + 5, .domain = 1, .type = 3, .identifier = UINT64_MAX,
	    .name = str("stream of work"));
}

static void ranges(void)
{
	/* thread 1: outer 1000-5000 holds two inner, the second of which holds leaf; another outer */
	range(1, 0, "leaf", 3200, 3300);
	range(1, 0, "inner", 1500, 2500);
	range(1, 0, "inner", 3000, 4000);
	range(1, 0, "outer", 1000, 5000);
	range(1, 0, "outer", 6000, 6500);
	/* thread 2, same moments; a domain that overlaps without nesting; the same domain name in the other process */
	range(2, 0, "inner", 1500, 1600);
	range(2, 1, "overlap", 2000, 3000);
	range(2, 0, "plain", 2500, 3500);
	range(3, 2, "overlap", 100, 101);
	ADD(nvtx, .start = ZERO + 10, .end = WS_NO_TIME, .thread = 1, .text = str("lib"), .domain = 1,
	    .type = WS_NVTX_DOMAIN_CREATE);
	ADD(nvtx, .start = ZERO + 20, .end = WS_NO_TIME, .thread = 3, .text = str("lib"), .domain = 2,
	    .type = WS_NVTX_DOMAIN_CREATE);
	ADD(nvtx, .start = ZERO + 30, .end = WS_NO_TIME, .thread = 1, .text = str("loading"), .domain = 1, .category = 4,
	    .type = WS_NVTX_CATEGORY);
	ADD(nvtx, .start = ZERO + 40, .end = WS_NO_TIME, .thread = 1, .text = str("hello"), .category = 4, .color = 0xff112233,
	    .flags = WS_NVTX_HAS_COLOR, .type = WS_NVTX_MARK);
	ADD(nvtx, .start = ZERO + 7000, .end = ZERO + 7800, .thread = 1, .end_thread = 2, .text = str("request"), .range_id = 77,
	    .type = WS_NVTX_STARTEND);
	ADD(nvtx, .start = ZERO + 7100, .end = ZERO + 7200, .thread = 2, .text = str("request"), .range_id = 78, .domain = 1,
	    .flags = WS_NVTX_REGISTERED, .type = WS_NVTX_STARTEND);
	ADD(nvtx, .start = ZERO + 7300, .end = WS_NO_TIME, .thread = 2, .text = str("never ends"), .flags = WS_NVTX_LEFT_OPEN,
	    .type = WS_NVTX_PUSHPOP);
	ADD(nvtx, .start = ZERO + 7400, .end = ZERO + 7500, .thread = 2, .text = str("in the open"), .type = WS_NVTX_PUSHPOP);
}

static void basic(void)
{
	session(10000000);
	process(1, 100, 0, WS_ORIGIN_TARGET, 0, "sh");
	process(2, 200, 1, WS_ORIGIN_FORK, 50, "sh");
	process(3, 100, 0, WS_ORIGIN_EXEC, 60, "app");
	ADD(process_end, .process = 2, .end = ZERO + 9999, .reason = WS_END_EXIT, .status = -9);
	ADD(process_end, .process = 1, .end = ZERO + 60, .reason = WS_END_EXEC, .status = WS_NO_STATUS);
	thread(1, 3, 100, "kernel", 10);
	thread(2, 3, 101, "worker", 20);
	thread(3, 2, 200, NULL, 0);
	ADD(thread_name, .thread = 1, .start = ZERO + 5, .name = str("main loop"), .priority = 30);
	ADD(thread_name, .thread = 1, .start = ZERO + 4, .name = str("older"), .priority = 30);
	ranges();
	payloads();
	call(1, "read", 2000, 2400, 1);
	call(1, "read", 3001, 3101, -1);
	call(1, "read", 4000, 4050, 5);
	call(2, "pthread_mutex_lock", 1000, 9000, 0);
	call(2, "poll", 9500, 0, 0);
	ADD(output, .start = ZERO + 3, .stream = 1, .bytes = str("one\n"));
	ADD(output, .start = ZERO + 4, .stream = 2, .bytes = str("oops\n"));
	ADD(output, .start = ZERO + 5, .stream = 1, .bytes = str("two\n"));
	ADD(loss, .thread = 2, .kind = str("nvtx"), .events = 12, .reason = str("memory budget"));
	ADD(loss, .thread = 0, .kind = str("osrt"), .events = 1, .reason = str("full disk"));
	ADD(diagnostic, .start = ZERO + 7, .severity = WS_WARNING, .source = str("nvtx"), .process = 3,
	    .text = str("two libraries embed NVTX"));
	ADD(diagnostic, .start = ZERO + 8, .severity = WS_INFO, .source = str("recorder"), .text = str("all is well"));
}

static void hostile(void)
{
	static const char *const names[] = {
	    "comma, here",
	    "quote \" here",
	    "line\nbreak",
	    "carriage\rreturn",
	    "tab\there",
	    "<script>alert('x')</script>",
	    "a&b",
	    "pipe|pipe",
	    "back\\slash",
	    "\x1b[31mred",
	    "\xe2\x80\xae"
	    "desrever",
	    "broken \xff\xc3 utf-8",
	    "=cmd()",
	    "*bold* _it_ `c`",
	    "\xe6\xbc\xa2\xe5\xad\x97",
	    "",
	    " padded ",
	    "%s%n",
	    "'; DROP TABLE StringIds; --",
	};
	char long_name[10001];

	session(1000000);
	process(1, 300, 0, WS_ORIGIN_TARGET, 0, "bad\n\"name\"");
	thread(1, 1, 300, "\x1b]0;pwned\x07", 30);
	for (uint32_t i = 0; i < WS_COUNT(names); i++)
		range(1, 0, names[i], i * 1000, i * 1000 + 100 - i);
	memset(long_name, 'L', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = 0;
	range(1, 0, long_name, 90000, 90010);
	ADD(nvtx, .start = ZERO + 91000, .end = ZERO + 91005, .thread = 1, .text = ws_writer_string(w, "nul\0inside", 10),
	    .type = WS_NVTX_PUSHPOP);
	ADD(nvtx, .start = ZERO + 92000, .end = ZERO + 92002, .thread = 99, .text = 4000000, .domain = 9, .type = WS_NVTX_PUSHPOP);
	ADD(nvtx, .start = ZERO + 93000, .end = ZERO + 92999, .thread = 1, .text = str("backwards"), .type = WS_NVTX_PUSHPOP);
	ADD(meta, .name = str("target.command_line"), .value = str("sh -c 'echo \"\x1b[2J\"\n'"));
}

static void many(void)
{
	session(0);
	process(1, 400, 0, WS_ORIGIN_TARGET, 0, "many");
	for (uint32_t t = 1; t <= 5; t++)
		thread(t, 1, 400 + t, NULL, 0);
	for (uint64_t i = 0; i < 200000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "name %llu", (unsigned long long)(i * 7919 % 3000));
		range((uint32_t)(i % 5) + 1, 0, name, i / 5 * 100, i / 5 * 100 + i * i % 97);
	}
}

static void deep(void)
{
	enum { LEVELS = 2500 };

	session(0);
	process(1, 500, 0, WS_ORIGIN_TARGET, 0, "deep");
	thread(1, 1, 501, NULL, 0);
	thread(2, 1, 502, NULL, 0);
	for (uint64_t i = 0; i < LEVELS; i++) {
		range(1, 0, "level", i, 10000 - i);
		range(2, (uint32_t)i, "stair", i, 5000 + i);
	}
	/* inside the whole staircase; its parent is the last step */
	range(2, 0, "landing", 3000, 4000);
}

static uint64_t next_random(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Extremes, small numbers (which hit real ids and enumerations) and anything else. */
static uint64_t wild_value(void)
{
	static const uint64_t extremes[] = {0,		1,	   UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
					    UINT32_MAX, INT32_MAX, ZERO,       ZERO - 1,  ZERO + 1000000};
	uint64_t r = next_random() >> 20;

	switch (r % 4) {
	case 0:
		return extremes[r / 4 % WS_COUNT(extremes)];
	case 1:
		return r / 4 % 80;
	case 2:
		return ZERO + r / 4 % 1000000;
	default:
		return next_random() >> (r / 4 % 64);
	}
}

static void wild(void)
{
	static const uint8_t types[] = {WS_NVTX_PUSHPOP, WS_NVTX_STARTEND, WS_NVTX_DOMAIN_CREATE, WS_NVTX_MARK};

	for (int i = 0; i < 60; i++) {
		char name[16];

		snprintf(name, sizeof(name), "wild %d\xff", i);
		str(name);
	}
	for (int t = 0; t < WS_TABLE_COUNT; t++) {
		for (int i = 0; i < 3000; i++) {
			uint64_t row[WS_MAX_COLUMNS] = {0}; /* large enough for any row struct, and aligned */

			for (uint32_t c = 0; c < ws_tables[t].column_count; c++)
				ws_row_set(t, row, c, wild_value());
			if (t == WS_TABLE_nvtx && i % 8)
				((struct ws_row_nvtx *)row)->type = types[i % WS_COUNT(types)];
			ws_writer_add(w, t, row);
		}
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fill)(void);
	} kinds[] = {{"basic", basic}, {"hostile", hostile}, {"many", many}, {"deep", deep}, {"wild", wild}, {"empty", NULL}};
	struct ws_writer_opts o = {.overwrite = true, .block_rows = 16384};
	struct ws_err e;
	size_t k = 0;

	while (argc == 3 && k < WS_COUNT(kinds) && strcmp(kinds[k].name, argv[1]))
		k++;
	if (argc != 3 || k == WS_COUNT(kinds))
		return 2;
	w = ws_writer_create(argv[2], &o, &e);
	if (!w) {
		ws_say("%s", e.msg);
		return 1;
	}
	if (kinds[k].fill)
		kinds[k].fill();
	else
		session(5);
	if (ws_writer_close(w, &e) < 0) {
		ws_say("%s", e.msg);
		return 1;
	}
	return 0;
}
