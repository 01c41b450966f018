/*
 * fuzz_view.c - what the time line makes of hostile reports: it may show nonsense, and must not
 * crash, hang or read beyond what is there.
 *
 * The input is which of the page's questions is asked, of which row, and edits of six bytes each to
 * a report with some of everything (make_report.c): a place, how, and a value; checksums are put
 * right after that. The report is in memory, and one core is used: both make it faster.
 */
#define main make_report_main
#include "make_report.c"
#undef main

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/choose.h"
#include "serve/api.h"
#include "lanes/tile.h"
#include "../replay.h"
#include "../store/reseal.h"

enum { MOST_ROWS = 1 << 20, MOST_FILE = 1 << 22, ASK_ALL = 255 };

static char path[64];
static int file;
static uint8_t *base;
static size_t base_n;

static void load_base(void)
{
	char *args[] = {"make_report", path, "2", NULL};

	snprintf(path, sizeof(path), "/tmp/fuzz_view.%d.wsrep", getpid());
	if (make_report_main(3, args))
		abort();
	base = malloc(MOST_FILE);
	file = open(path, O_RDONLY | O_CLOEXEC);
	base_n = (size_t)read(file, base, MOST_FILE);
	close(file);
	unlink(path);
	file = memfd_create("fuzz_view", MFD_CLOEXEC);
	if (!base || file < 0)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
}

static const char *get_parameter(void *ctx, const char *name)
{
	const char *const *pairs = ctx;

	for (; *pairs; pairs += 2)
		if (!strcmp(*pairs, name))
			return pairs[1];
	return NULL;
}

static void ask_view(struct ws_view *view, const char *what, const char *const *pairs)
{
	struct ws_params params = {get_parameter, (void *)pairs};
	struct ws_answer answer = {0};

	ws_api(view, what, &params, &answer);
	ws_text_free(&answer.body);
}

/* A question of the page. `each` is what is asked of each row: its number, or with more behind it,
 * is the value of the first parameter. */
struct question {
	const char *what;
	const char *each;
	const char *pairs[12];
};

static const struct question questions[] = {
	{"session", NULL, {NULL}},
	{"tree", NULL, {NULL}},
	{"sum", NULL, {NULL}},
	{"events", NULL, {NULL}},
	{"search", NULL, {NULL}},
	{"step", NULL, {NULL}},
	{"flame", NULL, {NULL}},
	{"names", NULL, {NULL}},
	{"sql", NULL, {NULL}},
	{"progress", NULL, {NULL}},
	{"state", NULL, {NULL}},
	{"diff", NULL, {NULL}},
	{"findings", NULL, {NULL}},
	{"path", NULL, {NULL}},
	{"tree", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"sum", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"events", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"search", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"step", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"flame", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"names", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"sql", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"state", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"findings", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"path", NULL, {"t0", "1000000", "t1", "3000000", "q", "e"}},
	{"events", NULL, {"sort", "name", "down", "1", "limit", "3"}},
	{"events", NULL, {"sort", "row", "exact", "2", "q", "s"}},
	{"step", NULL, {"back", "1", "t", "2000000", "lane", "3", "level", "1", "q", "e"}},
	{"event", "%zu", {"lane", NULL, "event", "1"}},
	{"at", "%zu", {"lane", NULL, "t0", "0", "t1", "2000000"}},
	{"tiles", "%zu.9", {"lanes", NULL, "k", "10", "i", "0", "n", "4"}},
	{"sql", "%zu", {"lane", NULL, "event", "0"}},
	{"sql", "%zu", {"lanes", NULL, "q", "%'_\\", "t0", "0", "t1", "1000"}},
	{"tiles", "%zu.9", {"lanes", NULL, "k", "47", "i", "-1", "n", "2"}},
};

static void ask_question(struct ws_view *view, const struct question *question, size_t row)
{
	const char *pairs[WS_COUNT(question->pairs) + 1] = {NULL};
	char rows[32];

	memcpy(pairs, question->pairs, sizeof(question->pairs));
	if (question->each) {
		snprintf(rows, sizeof(rows), question->each, row);
		pairs[1] = rows;
	}
	ask_view(view, question->what, pairs);
}

/* Every question, of up to 64 rows. */
static void ask_all(struct ws_view *view)
{
	size_t rows = ws_min(view->reports[0].lanes->n, (size_t)64);

	for (size_t i = 0; i < WS_COUNT(questions); i++)
		for (size_t row = 0; row < (questions[i].each ? rows : 1); row++)
			ask_question(view, &questions[i], row);
}

/*
 * Asking everything takes a tenth of a second under the sanitizers, and each input that reaches
 * nearly all of the code tells the fuzzer little. So an input says what is asked of its report:
 * `which` is the number of a question, or ASK_ALL.
 */
static void ask_chosen(struct ws_view *view, uint8_t which, uint8_t row)
{
	if (which == ASK_ALL)
		ask_all(view);
	else
		ask_question(view, &questions[which % WS_COUNT(questions)], row);
}

static bool small_enough(const struct ws_report *report)
{
	uint64_t rows = 0;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		rows += ws_report_count_rows(report, (enum ws_table)t);
	return rows < MOST_ROWS;
}

static void use_one_core(void)
{
	cpu_set_t cores;

	CPU_ZERO(&cores);
	CPU_SET(sched_getcpu(), &cores);
	sched_setaffinity(0, sizeof(cores), &cores);
}

/* The report with the input's edits. */
static void write_report(const uint8_t *data, size_t size)
{
	uint8_t *bytes = malloc(base_n);

	if (!bytes)
		abort();
	memcpy(bytes, base, base_n);
	for (; size >= 6; data += 6, size -= 6) {
		size_t at = (data[0] | data[1] << 8 | (size_t)data[2] << 16) % base_n;
		uint8_t how = data[3] % 4;

		bytes[at] = how == 0   ? data[4]
			    : how == 1 ? bytes[at] ^ data[4]
			    : how == 2 ? (uint8_t)(bytes[at] + data[4])
				       : 0xff;
		if (how == 3 && at + 1 < base_n)
			bytes[at + 1] = data[5];
	}
	reseal(bytes, base_n);
	if (pwrite(file, bytes, base_n, 0) != (ssize_t)base_n || ftruncate(file, (off_t)base_n))
		abort();
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ws_report *report;
	struct ws_view view;

	if (size < 2)
		return 0;
	if (!base) {
		use_one_core();
		load_base();
	}
	write_report(data + 2, size - 2);
	report = ws_report_open(path, NULL);
	if (!report || !small_enough(report)) {
		if (report)
			ws_report_close(report);
		return 0;
	}
	ws_report_close(report);
	if (!ws_view_open(&view, (const char *const[]){path}, 1, NULL, NULL)) {
		ws_lanes_wait(view.reports[0].lanes);
		ask_chosen(&view, data[0], data[1]);
		ws_view_close(&view);
	}
	return 0;
}

#ifdef FUZZ_REPLAY
static size_t make_input(uint8_t *bytes, int round)
{
	size_t n = replay_fill(bytes, round ? 8 + replay_draw() % 66 : 2);

	bytes[0] = ASK_ALL;
	return n;
}

int main(int argc, char **argv)
{
	return replay_test(argc, argv, 150, make_input);
}
#endif
