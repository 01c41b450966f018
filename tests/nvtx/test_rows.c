/*
 * test_rows.c - annotated programs under `warpsight profile`, and what is then in the report. TAP
 * on standard output.
 *
 *     test_rows WARPSIGHT ANNOTATED ANNOTATED_CXX [NVTX_REAL NVTX_REAL_CXX]
 *
 * The last two are there where the NVTX headers are.
 */
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ring/nvtx_record.h"
#include "query/query.h"

extern char **environ;

static const char *warpsight, *annotated, *annotated_cxx, *real_c, *real_cxx;
static char folder[200];
static char path[256];
static int number, failures;
static const char *why;
static char why_buf[512];

#define CHECK(cond, ...)                                                                       \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			int n_ = snprintf(why_buf, sizeof(why_buf), "line %d: " #cond ": ",    \
					  __LINE__);                                           \
			snprintf(why_buf + n_, sizeof(why_buf) - (size_t)n_, " " __VA_ARGS__); \
			why = why_buf;                                                         \
			return;                                                                \
		}                                                                              \
	} while (0)

/* ---- the report ---- */

struct rep {
	struct ws_report *report;
	struct ws_names_by_id *who;
	struct ws_rows nvtx;
	int status;
};

static void load_rows(const struct rep *rep, enum ws_table table, struct ws_rows *rows)
{
	struct ws_scan scan = {.table = table,
			       .columns = (UINT64_C(1) << ws_tables[table].column_count) - 1,
			       .time_max = UINT64_MAX};

	memset(rows, 0, sizeof(*rows));
	if (ws_rows_load(rep->report, &scan, rows, NULL))
		why = "rows cannot be read";
}

/* Profile `program argument second` and open the report. The options are space-separated. */
static void profile_program(struct rep *rep, const char *options, const char *program,
			    const char *a, const char *b)
{
	char opts[256], *argv[24], *save;
	posix_spawn_file_actions_t fa;
	struct ws_err err = {"the target did not run"};
	pid_t pid;
	int n = 0;

	memset(rep, 0, sizeof(*rep));
	snprintf(path, sizeof(path), "%s/r%d.wsrep", folder, number);
	snprintf(opts, sizeof(opts), "%s", options);
	argv[n++] = (char *)warpsight;
	argv[n++] = "profile";
	argv[n++] = "-q";
	argv[n++] = "-tnvtx";
	argv[n++] = "-fo";
	argv[n++] = path;
	for (char *w = strtok_r(opts, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	argv[n++] = (char *)program;
	argv[n++] = (char *)a;
	argv[a ? n++ : n] = (char *)b;
	argv[n] = NULL;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
	if (!posix_spawn(&pid, warpsight, &fa, NULL, argv, environ)) {
		waitpid(pid, &rep->status, 0);
		rep->report = ws_report_open(path, &err);
	}
	posix_spawn_file_actions_destroy(&fa);
	if (!rep->report) {
		snprintf(why_buf, sizeof(why_buf), "%.500s", err.msg);
		why = why_buf;
		return;
	}
	if (!ws_report_is_complete(rep->report))
		why = "the report is not complete";
	rep->who = ws_who_open(rep->report);
	load_rows(rep, WS_TABLE_nvtx, &rep->nvtx);
}

static void close_rep(struct rep *rep)
{
	if (!rep->report)
		return;
	ws_rows_free(&rep->nvtx);
	ws_who_close(rep->who);
	ws_report_close(rep->report);
}

static uint64_t get_value(const struct rep *rep, size_t row, int column)
{
	return rep->nvtx.col[column][row];
}

static const char *string_of(const struct rep *rep, uint64_t id)
{
	return ws_report_string(rep->report, (uint32_t)id, NULL);
}

static const char *text_of(const struct rep *rep, size_t row)
{
	return string_of(rep, get_value(rep, row, ws_nvtx_text));
}

static bool is(const struct rep *rep, size_t row, int type, const char *want)
{
	return (!type || get_value(rep, row, ws_nvtx_type) == (uint64_t)type) &&
	       (!want || !strcmp(text_of(rep, row), want));
}

/* The i-th row of this type (0 any) and text (NULL any); SIZE_MAX past the last. */
static size_t find_row(const struct rep *rep, int type, const char *want, size_t i)
{
	for (size_t row = 0; row < rep->nvtx.rows; row++)
		if (is(rep, row, type, want) && i-- == 0)
			return row;
	return SIZE_MAX;
}

static size_t count_rows(const struct rep *rep, int type, const char *want)
{
	size_t n = 0;

	for (size_t row = 0; row < rep->nvtx.rows; row++)
		n += is(rep, row, type, want);
	return n;
}

static uint32_t pid_of(const struct rep *rep, size_t row)
{
	return ws_find_thread(rep->who, (uint32_t)get_value(rep, row, ws_nvtx_thread))->pid;
}

static bool lies_inside(const struct rep *rep, size_t inner, size_t outer)
{
	return get_value(rep, inner, ws_nvtx_start) >= get_value(rep, outer, ws_nvtx_start) &&
	       get_value(rep, inner, ws_nvtx_end) <= get_value(rep, outer, ws_nvtx_end);
}

/* Domain number of a domain by name, in the process of `near`. */
static uint64_t domain_of(const struct rep *rep, const char *name, size_t near)
{
	for (size_t i = 0; i < rep->nvtx.rows; i++)
		if (is(rep, i, WS_NVTX_DOMAIN_CREATE, name) && pid_of(rep, i) == pid_of(rep, near))
			return get_value(rep, i, ws_nvtx_domain);
	return UINT64_MAX;
}

static uint64_t count_lost(const struct rep *rep)
{
	struct ws_rows rows;
	uint64_t n = 0;

	load_rows(rep, WS_TABLE_loss, &rows);
	for (size_t i = 0; i < rows.rows; i++)
		n += rows.col[ws_loss_events][i];
	ws_rows_free(&rows);
	return n;
}

/* ---- cases ---- */

static void check_basic_values(struct rep *rep)
{
	size_t range = find_row(rep, WS_NVTX_PUSHPOP, "everything", 0),
	       mark = find_row(rep, WS_NVTX_MARK, "everything", 0);
	size_t se = find_row(rep, WS_NVTX_STARTEND, "everything", 0);
	double d;

	CHECK(range != SIZE_MAX && mark != SIZE_MAX && se != SIZE_MAX);
	CHECK(get_value(rep, range, ws_nvtx_payload) == (uint64_t)-42 &&
	      get_value(rep, range, ws_nvtx_payload_type) == WS_NVTX_PAYLOAD_I64);
	CHECK(get_value(rep, range, ws_nvtx_color) == 0xff8800ff &&
	      get_value(rep, range, ws_nvtx_flags) == WS_NVTX_HAS_COLOR);
	CHECK(get_value(rep, range, ws_nvtx_category) == 3 &&
	      get_value(rep, range, ws_nvtx_domain) == domain_of(rep, "my domain", range));
	memcpy(&d, &rep->nvtx.col[ws_nvtx_payload][mark], sizeof(d));
	CHECK(d == 2.5 && get_value(rep, mark, ws_nvtx_payload_type) == WS_NVTX_PAYLOAD_F64 &&
	      get_value(rep, mark, ws_nvtx_end) == WS_NO_TIME);
	CHECK(get_value(rep, se, ws_nvtx_payload) == UINT64_MAX &&
	      get_value(rep, se, ws_nvtx_payload_type) == WS_NVTX_PAYLOAD_U64);
	CHECK(get_value(rep, se, ws_nvtx_range_id) &&
	      get_value(rep, se, ws_nvtx_end) > get_value(rep, se, ws_nvtx_start) &&
	      !get_value(rep, se, ws_nvtx_end_thread));
}

static void check_basic(struct rep *rep)
{
	size_t outer = find_row(rep, WS_NVTX_PUSHPOP, "outer", 0),
	       inner = find_row(rep, WS_NVTX_PUSHPOP, "inner", 0);
	size_t reg = find_row(rep, WS_NVTX_PUSHPOP, "registered", 0),
	       cat = find_row(rep, WS_NVTX_CATEGORY, "third", 0);

	CHECK(outer != SIZE_MAX && inner != SIZE_MAX && reg != SIZE_MAX && cat != SIZE_MAX);
	CHECK(lies_inside(rep, inner, outer) && lies_inside(rep, reg, outer));
	CHECK(get_value(rep, outer, ws_nvtx_domain) == 0 &&
	      get_value(rep, outer, ws_nvtx_flags) == 0 &&
	      get_value(rep, outer, ws_nvtx_range_id) == 0);
	CHECK(get_value(rep, reg, ws_nvtx_flags) == WS_NVTX_REGISTERED &&
	      get_value(rep, reg, ws_nvtx_domain) == domain_of(rep, "my domain", reg));
	CHECK(get_value(rep, cat, ws_nvtx_category) == 3 &&
	      get_value(rep, cat, ws_nvtx_domain) == domain_of(rep, "my domain", reg));
	CHECK(count_rows(rep, WS_NVTX_MARK, "a mark") == 1 &&
	      count_rows(rep, WS_NVTX_PUSHPOP, "scoped") == 1);
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, NULL) == 6, "%zu",
	      count_rows(rep, WS_NVTX_PUSHPOP, NULL));
	CHECK(count_rows(rep, WS_NVTX_DOMAIN_CREATE, NULL) == 2 &&
	      count_rows(rep, WS_NVTX_DOMAIN_DESTROY, "gone") == 1);
	CHECK(!strcmp(
		ws_find_thread(rep->who, (uint32_t)get_value(rep, outer, ws_nvtx_thread))->name,
		"the main thread"));
	check_basic_values(rep);
}

static void run_basic(void)
{
	struct rep rep;

	profile_program(&rep, "", annotated, "basic", NULL);
	if (!why)
		check_basic(&rep);
	close_rep(&rep);
}

static void check_threads(struct rep *rep)
{
	char name[32];

	CHECK(count_rows(rep, WS_NVTX_STARTEND, "crosses") == 50 &&
	      count_rows(rep, WS_NVTX_STARTEND, "stays") == 50);
	for (size_t i = 0; i < 50; i++) {
		size_t a = find_row(rep, WS_NVTX_STARTEND, "crosses", i),
		       b = find_row(rep, WS_NVTX_STARTEND, "stays", i);

		CHECK(get_value(rep, a, ws_nvtx_end_thread) &&
		      get_value(rep, a, ws_nvtx_end_thread) != get_value(rep, a, ws_nvtx_thread));
		CHECK(!get_value(rep, b, ws_nvtx_end_thread) &&
		      get_value(rep, b, ws_nvtx_end) != WS_NO_TIME);
	}
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "worker %d", i);
		CHECK(count_rows(rep, WS_NVTX_PUSHPOP, name) == 1000);
		for (size_t k = 0; k < 1000; k += 999)
			CHECK(!strcmp(
				ws_find_thread(rep->who,
					       (uint32_t)get_value(
						       rep, find_row(rep, WS_NVTX_PUSHPOP, name, k),
						       ws_nvtx_thread))
					->name,
				name));
	}
	CHECK(!count_lost(rep));
}

static void run_threads(void)
{
	struct rep rep;

	profile_program(&rep, "", annotated, "threads", NULL);
	if (!why)
		check_threads(&rep);
	close_rep(&rep);
}

static void check_forks(struct rep *rep, bool followed)
{
	size_t parent = find_row(rep, WS_NVTX_PUSHPOP, "parent", 0),
	       child = find_row(rep, WS_NVTX_PUSHPOP, "child", 0);
	size_t made = SIZE_MAX, kept = SIZE_MAX;

	CHECK(parent != SIZE_MAX && get_value(rep, parent, ws_nvtx_end) != WS_NO_TIME &&
	      count_rows(rep, WS_NVTX_PUSHPOP, "parent") == 1);
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, "outer") == 1, "the exec'd child");
	CHECK(pid_of(rep, find_row(rep, 0, "outer", 0)) != pid_of(rep, parent));
	CHECK(count_rows(rep, 0, "child") == (followed ? 1 : 0));
	if (!followed)
		return;
	CHECK(pid_of(rep, child) != pid_of(rep, parent) &&
	      count_rows(rep, WS_NVTX_MARK, "in the child") == 1);
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, "made before") == 2);
	for (size_t i = 0; i < 2; i++) {
		size_t row = find_row(rep, WS_NVTX_PUSHPOP, "made before", i);

		*(pid_of(rep, row) == pid_of(rep, child) ? &made : &kept) = row;
		CHECK(get_value(rep, row, ws_nvtx_flags) == WS_NVTX_REGISTERED);
		CHECK(get_value(rep, row, ws_nvtx_domain) ==
		      domain_of(rep, "before the fork", row));
	}
	CHECK(made != SIZE_MAX && kept != SIZE_MAX && lies_inside(rep, made, child) &&
	      lies_inside(rep, kept, parent));
}

static void run_forks(void)
{
	struct rep rep;

	profile_program(&rep, "", annotated, "forks", NULL);
	if (!why)
		check_forks(&rep, true);
	close_rep(&rep);
	if (why)
		return;
	profile_program(&rep, "--trace-fork-before-exec=false", annotated, "forks", NULL);
	if (!why)
		check_forks(&rep, false);
	close_rep(&rep);
}

static void check_libraries(struct rep *rep)
{
	static const char *const names[] = {"one", "two"};
	size_t outer = find_row(rep, WS_NVTX_PUSHPOP, "in the program", 0);
	char want[64];

	CHECK(outer != SIZE_MAX);
	for (int i = 0; i < 2; i++) {
		size_t def, own, shared;

		snprintf(want, sizeof(want), "default in %s", names[i]);
		def = find_row(rep, WS_NVTX_PUSHPOP, want, 0);
		snprintf(want, sizeof(want), "registered in %s", names[i]);
		own = find_row(rep, WS_NVTX_PUSHPOP, want, 0);
		snprintf(want, sizeof(want), "shared in %s", names[i]);
		shared = find_row(rep, WS_NVTX_PUSHPOP, want, 0);
		CHECK(def != SIZE_MAX && own != SIZE_MAX && shared != SIZE_MAX);
		CHECK(lies_inside(rep, def, outer) && lies_inside(rep, own, def) &&
		      lies_inside(rep, shared, own));
		snprintf(want, sizeof(want), "own %s", names[i]);
		CHECK(get_value(rep, own, ws_nvtx_domain) == domain_of(rep, want, own) &&
		      get_value(rep, def, ws_nvtx_domain) == 0);
		CHECK(get_value(rep, shared, ws_nvtx_domain) == domain_of(rep, "shared", shared));
	}
}

static void run_libraries(void)
{
	struct rep rep;

	profile_program(&rep, "", annotated, "libraries", NULL);
	if (!why)
		check_libraries(&rep);
	close_rep(&rep);
}

static void check_filter(struct rep *rep, size_t ranges, const char *there, const char *not_there)
{
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, NULL) == ranges, "%zu",
	      count_rows(rep, WS_NVTX_PUSHPOP, NULL));
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, there) == 1 &&
	      count_rows(rep, WS_NVTX_PUSHPOP, not_there) == 0);
}

static void run_filters(void)
{
	static const struct {
		const char *options;
		size_t ranges;
		const char *there, *not_there;
	} t[] = {
		{"--nvtx-domain-include=shared", 2, "shared in two", "default in one"},
		{"--nvtx-domain-include=default", 3, "in the program", "shared in one"},
		{"--nvtx-domain-exclude=shared", 5, "default in one", "shared in one"},
		{"--nvtx-domain-exclude=default,shared", 2, "registered in one", "in the program"},
	};
	struct rep rep;

	for (size_t i = 0; i < WS_COUNT(t) && !why; i++) {
		profile_program(&rep, t[i].options, annotated, "libraries", NULL);
		if (!why)
			check_filter(&rep, t[i].ranges, t[i].there, t[i].not_there);
		close_rep(&rep);
	}
}

static void check_deep(struct rep *rep)
{
	CHECK(rep->status == 0, "levels came back wrong");
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, "deep") == 4096 && count_lost(rep) == 904,
	      "%zu, %llu", count_rows(rep, 0, "deep"), (unsigned long long)count_lost(rep));
	for (size_t i = 0; i < 4095; i++)
		CHECK(lies_inside(rep, find_row(rep, WS_NVTX_PUSHPOP, "deep", i + 1),
				  find_row(rep, WS_NVTX_PUSHPOP, "deep", i)));
}

static void run_deep(void)
{
	struct rep rep;

	profile_program(&rep, "", annotated, "deep", NULL);
	if (!why)
		check_deep(&rep);
	close_rep(&rep);
}

static void check_open(struct rep *rep)
{
	size_t open = find_row(rep, WS_NVTX_PUSHPOP, "open", 0),
	       with = find_row(rep, WS_NVTX_PUSHPOP, "open with payload", 0);
	size_t started = find_row(rep, WS_NVTX_STARTEND, "started", 0),
	       closed = find_row(rep, WS_NVTX_PUSHPOP, "closed", 0);

	CHECK(open != SIZE_MAX && with != SIZE_MAX && started != SIZE_MAX && closed != SIZE_MAX);
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, NULL) == 3 &&
	      count_rows(rep, WS_NVTX_STARTEND, NULL) == 1);
	CHECK(get_value(rep, open, ws_nvtx_end) == WS_NO_TIME &&
	      get_value(rep, open, ws_nvtx_flags) == WS_NVTX_LEFT_OPEN);
	CHECK(get_value(rep, started, ws_nvtx_end) == WS_NO_TIME &&
	      get_value(rep, started, ws_nvtx_flags) == WS_NVTX_LEFT_OPEN);
	CHECK(get_value(rep, with, ws_nvtx_payload) == 7 &&
	      get_value(rep, with, ws_nvtx_flags) == WS_NVTX_LEFT_OPEN);
	CHECK(get_value(rep, closed, ws_nvtx_end) != WS_NO_TIME &&
	      get_value(rep, closed, ws_nvtx_flags) == 0);
}

static void left_open(void)
{
	static const char *const how[] = {"exit", "kill", "abort"};
	struct rep rep;

	for (size_t i = 0; i < WS_COUNT(how) && !why; i++) {
		profile_program(&rep, "", annotated, "open", how[i]);
		if (!why)
			check_open(&rep);
		close_rep(&rep);
	}
}

static bool starts_with_neighbour(struct rep *rep, size_t row)
{
	uint64_t start = get_value(rep, row, ws_nvtx_start);

	return (row > 0 && get_value(rep, row - 1, ws_nvtx_start) == start) ||
	       (row + 1 < rep->nvtx.rows && get_value(rep, row + 1, ws_nvtx_start) == start);
}

static void check_texts(struct rep *rep)
{
	char want[64];
	size_t len = 0, big = 0, marks = count_rows(rep, WS_NVTX_MARK, NULL);

	CHECK(marks == 4, "%zu", marks);
	for (size_t i = 0; i < marks; i++) {
		ws_report_string(rep->report,
				 (uint32_t)get_value(rep, find_row(rep, WS_NVTX_MARK, NULL, i),
						     ws_nvtx_text),
				 &len);
		big += len == (1 << 20) + 12345;
	}
	CHECK(big == 1);
	CHECK(count_rows(rep, WS_NVTX_MARK, "\xe2\x82\xac \xf0\x9f\x9a\x80 unicode") == 1 &&
	      count_rows(rep, WS_NVTX_MARK, "") == 1);
	CHECK(count_rows(rep, WS_NVTX_MARK, "not \xff utf-8") == 1);
	/* Rows are in the order of their starts: the first is the long one, then come the 5,000,
	 * then the 64 again and again. */
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, NULL) == 10001 &&
	      strlen(text_of(rep, find_row(rep, WS_NVTX_PUSHPOP, NULL, 0))) == 9000);
	for (size_t row = find_row(rep, WS_NVTX_PUSHPOP, NULL, 1), i = 0; row < rep->nvtx.rows;
	     row++) {
		if (get_value(rep, row, ws_nvtx_type) != WS_NVTX_PUSHPOP)
			continue;
		if (i < 5000)
			snprintf(want, sizeof(want), "unique name number %zu", i);
		else
			snprintf(want, sizeof(want), "name %zu", (i - 5000) % 64);
		/* Where the clock is coarse, two ranges may start at the same moment: either may
		 * come first. */
		CHECK(!strcmp(text_of(rep, row), want) || starts_with_neighbour(rep, row),
		      "'%s' at %zu", text_of(rep, row), i);
		i++;
	}
	CHECK(!count_lost(rep));
}

static void run_texts(void)
{
	struct rep rep;

	profile_program(&rep, "--lossless", annotated, "texts", NULL);
	if (!why)
		check_texts(&rep);
	close_rep(&rep);
}

static void check_across(struct rep *rep)
{
	size_t early = find_row(rep, WS_NVTX_PUSHPOP, "begins early", 0),
	       never = find_row(rep, WS_NVTX_PUSHPOP, "never ends", 0);

	CHECK(count_rows(rep, WS_NVTX_MARK, NULL) == 1 &&
	      count_rows(rep, WS_NVTX_MARK, "in time") == 1);
	CHECK(early != SIZE_MAX && get_value(rep, early, ws_nvtx_end) != WS_NO_TIME &&
	      count_rows(rep, 0, "begins early") == 1);
	CHECK(get_value(rep, early, ws_nvtx_start) < ws_find_time_zero(rep->report),
	      "it began before the collection");
	CHECK(never != SIZE_MAX && get_value(rep, never, ws_nvtx_end) == WS_NO_TIME &&
	      get_value(rep, never, ws_nvtx_flags) == WS_NVTX_LEFT_OPEN);
	CHECK(count_rows(rep, 0, "never ends") == 1);
}

/* A range over the start of a collection, and one over its end. */
static void run_across(void)
{
	struct rep rep;

	profile_program(&rep, "-y 0.8 -d 1.4 --kill=none", annotated, "across", NULL);
	if (!why)
		check_across(&rep);
	close_rep(&rep);
}

static void check_cxx(struct rep *rep)
{
	size_t outer = find_row(rep, WS_NVTX_PUSHPOP, "outer guard", 0);
	static const char *const in[] = {"registered guard", "left by an exception", "event guard"};

	CHECK(outer != SIZE_MAX && count_rows(rep, WS_NVTX_PUSHPOP, NULL) == 5 &&
	      count_rows(rep, WS_NVTX_PUSHPOP, "on a thread") == 1);
	for (size_t i = 0; i < WS_COUNT(in); i++)
		CHECK(find_row(rep, WS_NVTX_PUSHPOP, in[i], 0) != SIZE_MAX &&
			      lies_inside(rep, find_row(rep, WS_NVTX_PUSHPOP, in[i], 0), outer),
		      "%s", in[i]);
}

static void run_cxx(void)
{
	struct rep rep;

	profile_program(&rep, "", annotated_cxx, NULL, NULL);
	if (!why)
		check_cxx(&rep);
	close_rep(&rep);
}

/* Bytes of the payloads of a row: how many payloads, and the i-th's bytes. */
static size_t run_blobs(const struct rep *rep, size_t row, size_t i, const char **bytes,
			size_t *size)
{
	size_t len, n = 0;
	const char *from =
		ws_report_string(rep->report, (uint32_t)get_value(rep, row, ws_nvtx_binary), &len);
	struct ws_nvtx_blob head;

	for (size_t at = 0; at + sizeof(head) <= len;
	     at += sizeof(head) + WS_ALIGN_UP(head.size, 8)) {
		memcpy(&head, from + at, sizeof(head));
		if (n++ == i) {
			*bytes = from + at + sizeof(head);
			*size = head.size;
		}
	}
	return n;
}

static void check_real_payloads(struct rep *rep)
{
	size_t range = find_row(rep, WS_NVTX_PUSHPOP, "with payload", 0),
	       mark = find_row(rep, WS_NVTX_MARK, "step", 0);
	size_t se = find_row(rep, WS_NVTX_STARTEND, "step", 0), size = 0;
	const char *bytes = NULL;
	struct ws_rows schema, entry;
	int32_t epoch;

	CHECK(range != SIZE_MAX && mark != SIZE_MAX && se != SIZE_MAX);
	CHECK(get_value(rep, range, ws_nvtx_payload_type) == WS_NVTX_PAYLOAD_EXT);
	CHECK(run_blobs(rep, mark, 0, &bytes, &size) == 1 && size == 24);
	CHECK(run_blobs(rep, se, 1, &bytes, &size) == 2 && size == 24, "given at start and end");
	CHECK(run_blobs(rep, range, 1, &bytes, &size) == 2 && size == 24, "given at push and pop");
	memcpy(&epoch, bytes, sizeof(epoch));
	CHECK(epoch == 7);
	load_rows(rep, WS_TABLE_nvtx_schema, &schema);
	load_rows(rep, WS_TABLE_nvtx_schema_entry, &entry);
	CHECK(schema.rows == 1 &&
	      !strcmp(string_of(rep, schema.col[ws_nvtx_schema_name][0]), "step") &&
	      schema.col[ws_nvtx_schema_size][0] == 24);
	CHECK(entry.rows == 3 && schema.col[ws_nvtx_schema_entries][0] == 3);
	CHECK(!strcmp(string_of(rep, entry.col[ws_nvtx_schema_entry_description][0]),
		      "which pass"));
	CHECK(entry.col[ws_nvtx_schema_entry_offset][1] == 8 &&
	      entry.col[ws_nvtx_schema_entry_detail][2] == 3);
	ws_rows_free(&schema);
	ws_rows_free(&entry);
}

static void check_real(struct rep *rep)
{
	size_t py = find_row(rep, WS_NVTX_PUSHPOP, "annotate", 0),
	       torch = find_row(rep, WS_NVTX_PUSHPOP, "as PyTorch does", 0);
	struct ws_rows res;

	CHECK(torch != SIZE_MAX && py != SIZE_MAX &&
	      find_row(rep, WS_NVTX_PUSHPOP, "wide \xe2\x82\xac", 0) != SIZE_MAX);
	CHECK(lies_inside(rep, find_row(rep, WS_NVTX_PUSHPOP, "wide \xe2\x82\xac", 0), torch));
	CHECK(count_rows(rep, WS_NVTX_PUSHPOP, "annotate") == 2 &&
	      count_rows(rep, WS_NVTX_STARTEND, "annotate") == 1 &&
	      count_rows(rep, WS_NVTX_MARK, "annotate") == 1);
	CHECK(get_value(rep, py, ws_nvtx_flags) == (WS_NVTX_REGISTERED | WS_NVTX_HAS_COLOR) &&
	      get_value(rep, py, ws_nvtx_category) == 1);
	CHECK(get_value(rep, py, ws_nvtx_domain) == domain_of(rep, "NVTX", py) &&
	      count_rows(rep, WS_NVTX_CATEGORY, "loading") == 1);
	CHECK(!strcmp(ws_find_thread(rep->who, (uint32_t)get_value(rep, py, ws_nvtx_thread))->name,
		      "named by NVTX"));
	CHECK(count_rows(rep, WS_NVTX_STARTEND, "spinlock (acquire)") == 1 &&
	      count_rows(rep, WS_NVTX_STARTEND, "spinlock (held)") == 1);
	CHECK(count_rows(rep, WS_NVTX_STARTEND, "start/end") == 1 &&
	      count_rows(rep, WS_NVTX_MARK, "mark") == 1);
	load_rows(rep, WS_TABLE_nvtx_resource, &res);
	CHECK(res.rows == 2 &&
	      !strcmp(string_of(rep, res.col[ws_nvtx_resource_name][0]), "a resource"));
	ws_rows_free(&res);
	check_real_payloads(rep);
}

static void run_real(void)
{
	struct rep rep;

	profile_program(&rep, "", real_c, NULL, NULL);
	if (!why)
		check_real(&rep);
	close_rep(&rep);
}

static void check_real_cxx(struct rep *rep)
{
	size_t r = find_row(rep, WS_NVTX_PUSHPOP, "registered in C++", 0),
	       f = find_row(rep, WS_NVTX_PUSHPOP, "traced", 0);

	CHECK(r != SIZE_MAX && f != SIZE_MAX && lies_inside(rep, r, f) &&
	      lies_inside(rep, f, find_row(rep, WS_NVTX_PUSHPOP, "outer in C++", 0)));
	CHECK(get_value(rep, r, ws_nvtx_payload) == (uint64_t)-5 &&
	      get_value(rep, r, ws_nvtx_payload_type) == WS_NVTX_PAYLOAD_I64);
	CHECK((get_value(rep, r, ws_nvtx_color) & 0xffffff) == 0x010203 &&
	      get_value(rep, r, ws_nvtx_domain) == domain_of(rep, "cxx domain", r));
	CHECK(count_rows(rep, WS_NVTX_MARK, "mark in C++") == 1 &&
	      count_rows(rep, WS_NVTX_STARTEND, "unique range") == 1);
}

static void real_in_cxx(void)
{
	struct rep rep;

	profile_program(&rep, "", real_cxx, NULL, NULL);
	if (!why)
		check_real_cxx(&rep);
	close_rep(&rep);
}

/* ---- running ---- */

static void run_check(const char *name, void (*fn)(void), bool possible)
{
	number++;
	if (!possible) {
		printf("ok %d - %s # SKIP the NVTX headers are not on this machine\n", number,
		       name);
		return;
	}
	why = NULL;
	fn();
	if (why) {
		failures++;
		printf("not ok %d - %s\n# %s\n", number, name, why);
	} else {
		printf("ok %d - %s\n", number, name);
		unlink(path);
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(folder, sizeof(folder), "%s/ws-nvtx-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (argc < 4 || !mkdtemp(folder)) {
		fprintf(stderr, "usage: test_rows WARPSIGHT ANNOTATED ANNOTATED_CXX [NVTX_REAL "
				"NVTX_REAL_CXX]\n");
		return 2;
	}
	warpsight = argv[1];
	annotated = argv[2];
	annotated_cxx = argv[3];
	real_c = argc > 4 ? argv[4] : NULL;
	real_cxx = argc > 5 ? argv[5] : NULL;
	printf("1..12\n");
	run_check("annotate.h: every kind of event", run_basic, true);
	run_check("start/end across threads, eight threads", run_threads, true);
	run_check("forked and exec'd children", run_forks, true);
	run_check("several libraries", run_libraries, true);
	run_check("domain filters", run_filters, true);
	run_check("5,000 levels", run_deep, true);
	run_check("ranges left open by exit, kill and abort", left_open, true);
	run_check("texts of all lengths and kinds", run_texts, true);
	run_check("ranges across the start and the end of a collection", run_across, true);
	run_check("annotate.h in C++", run_cxx, *annotated_cxx);
	run_check("NVTX in C", run_real, real_c);
	run_check("NVTX in C++", real_in_cxx, real_cxx);
	if (!failures)
		rmdir(folder);
	return failures != 0;
}
