/*
 * fuzz_view.c - what the time line makes of hostile reports: it may show nonsense, and must not
 * crash, hang or read beyond what is there.
 *
 * The input is edits of six bytes each to a report with some of everything (make_report.c): a
 * place, how, and a value; checksums are put right after that. The page's questions are then asked
 * of it.
 */
#define main make_report_main
#include "make_report.c"
#undef main

#include <fcntl.h>
#include <unistd.h>

#include "serve/api.h"
#include "lanes/tile.h"
#include "../replay.h"
#include "../store/reseal.h"

enum { MOST_ROWS = 1 << 20, MOST_FILE = 1 << 22 };

static char path[64];
static uint8_t *base;
static size_t base_n;

static void clean_up(void)
{
	unlink(path);
}

static void load_base(void)
{
	char *args[] = {"make_report", path, "2", NULL};
	int fd;

	snprintf(path, sizeof(path), "/tmp/fuzz_view.%d.wsrep", getpid());
	if (make_report_main(3, args))
		abort();
	atexit(clean_up);
	base = malloc(MOST_FILE);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	base_n = (size_t)read(fd, base, MOST_FILE);
	close(fd);
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

static void ask_all(struct ws_view *view)
{
	static const char *const none[] = {NULL}, *const window[] = {"t0",	"1000000", "t1",
								     "3000000", "q",	   "e",
								     NULL};
	static const char *const plain[] = {"session", "tree",	"sum",	    "events", "search",
					    "step",    "flame", "names",    "sql",    "progress",
					    "state",   "diff",	"findings", "path"};
	struct ws_lanes *lanes_l = view->reports[0].lanes;

	for (size_t i = 0; i < WS_COUNT(plain); i++) {
		ask_view(view, plain[i], none);
		ask_view(view, plain[i], window);
	}
	ask_view(view, "events",
		 (const char *const[]){"sort", "name", "down", "1", "limit", "3", NULL});
	ask_view(view, "events",
		 (const char *const[]){"sort", "row", "exact", "2", "q", "s", NULL});
	ask_view(view, "step",
		 (const char *const[]){"back", "1", "t", "2000000", "lane", "3", "level", "1", "q",
				       "e", NULL});
	for (size_t i = 0; i < lanes_l->n && i < 64; i++) {
		char lane[16], lanes[24];

		snprintf(lane, sizeof(lane), "%zu", i);
		snprintf(lanes, sizeof(lanes), "%zu.9", i);
		ask_view(view, "event", (const char *const[]){"lane", lane, "event", "1", NULL});
		ask_view(view, "at",
			 (const char *const[]){"lane", lane, "t0", "0", "t1", "2000000", NULL});
		ask_view(view, "tiles",
			 (const char *const[]){"lanes", lanes, "k", "10", "i", "0", "n", "4",
					       NULL});
		ask_view(view, "sql", (const char *const[]){"lane", lane, "event", "0", NULL});
		ask_view(view, "sql",
			 (const char *const[]){"lanes", lane, "q", "%'_\\", "t0", "0", "t1", "1000",
					       NULL});
		ask_view(view, "tiles",
			 (const char *const[]){"lanes", lanes, "k", "47", "i", "-1", "n", "2",
					       NULL});
	}
}

static bool small_enough(const struct ws_report *report)
{
	uint64_t rows = 0;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		rows += ws_report_count_rows(report, (enum ws_table)t);
	return rows < MOST_ROWS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ws_view view;
	struct ws_report *report;
	uint8_t *bytes;
	int fd;

	if (!base)
		load_base();
	bytes = malloc(base_n + 1);
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
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, bytes, base_n) != (ssize_t)base_n)
		abort();
	close(fd);
	free(bytes);
	report = ws_report_open(path, NULL);
	if (!report || !small_enough(report)) {
		if (report)
			ws_report_close(report);
		return 0;
	}
	ws_report_close(report);
	if (!ws_view_open(&view, (const char *const[]){path}, 1, NULL, NULL)) {
		ws_lanes_wait(view.reports[0].lanes);
		ask_all(&view);
		ws_view_close(&view);
	}
	return 0;
}

#ifdef FUZZ_REPLAY
static size_t make_input(uint8_t *bytes, int round)
{
	return replay_fill(bytes, round ? 6 + replay_draw() % 66 : 0);
}

int main(int argc, char **argv)
{
	return replay_test(argc, argv, 150, make_input);
}
#endif
