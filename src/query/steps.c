/* steps.c - see steps.h. */
#include "query/steps.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/choose.h"

/* Without a number at the end and what joins it to the name. */
static size_t stem(const char *text, size_t len)
{
	size_t n = len;

	while (n && isdigit((unsigned char)text[n - 1]))
		n--;
	if (n == len)
		return len;
	while (n && strchr(" _#:=-.", text[n - 1]))
		n--;
	return n;
}

bool ws_step_is(const char *text, size_t len, const char *name)
{
	static const char *const known[] = {"step",	     "iteration",   "iter",
					    "train step",    "train_step",  "training step",
					    "training_step", "profilerstep"};
	size_t n = stem(text, len);

	if (name)
		return (len == strlen(name) && !memcmp(text, name, len)) ||
		       (n == strlen(name) && n && !memcmp(text, name, n));
	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (n == strlen(known[i]) && !strncasecmp(text, known[i], n))
			return true;
	return false;
}

static void add(struct ws_steps *steps, const struct ws_who *who, uint64_t thread, uint64_t start,
		uint64_t end, uint64_t text)
{
	ws_grow(steps->steps, steps->cap, steps->n + 1);
	steps->steps[steps->n++] =
		(struct ws_step){.start = start,
				 .end = end,
				 .process = ws_who_thread(who, (uint32_t)thread)->process,
				 .thread = (uint32_t)thread,
				 .text = (uint32_t)text};
}

struct looking {
	const struct ws_report *report;
	const struct ws_who *who;
	const char *name;
	struct ws_steps *steps;
	uint8_t *is; /* by string id: 1 a step's name, 2 not */
};

static bool named(struct looking *looking, uint64_t id)
{
	size_t len;
	const char *text;

	if (id > ws_report_string_count(looking->report))
		return false;
	if (!looking->is[id]) {
		text = ws_report_string(looking->report, (uint32_t)id, &len);
		looking->is[id] = ws_step_is(text, len, looking->name) ? 1 : 2;
	}
	return looking->is[id] == 1;
}

static int from_ops(struct looking *looking, struct ws_err *err)
{
	struct ws_scan sc = {.table = WS_TABLE_op,
			     .columns = WS_COL(op, start) | WS_COL(op, end) | WS_COL(op, thread) |
					WS_COL(op, kind) | WS_COL(op, name),
			     .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(looking->report, &sc, &rows, err) < 0)
		return -1;
	looking->steps->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++)
		if (rows.col[ws_op_kind][i] == WS_OP_ANNOTATION &&
		    rows.col[ws_op_end][i] != WS_NO_TIME &&
		    rows.col[ws_op_end][i] > rows.col[ws_op_start][i] &&
		    named(looking, rows.col[ws_op_name][i]))
			add(looking->steps, looking->who, rows.col[ws_op_thread][i],
			    rows.col[ws_op_start][i], rows.col[ws_op_end][i],
			    rows.col[ws_op_name][i]);
	ws_rows_free(&rows);
	return 0;
}

static int from_ranges(struct looking *looking, struct ws_err *err)
{
	struct ws_scan sc = {.table = WS_TABLE_nvtx,
			     .columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) |
					WS_COL(nvtx, thread) | WS_COL(nvtx, type) |
					WS_COL(nvtx, text),
			     .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(looking->report, &sc, &rows, err) < 0)
		return -1;
	looking->steps->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		uint64_t type = rows.col[ws_nvtx_type][i], start = rows.col[ws_nvtx_start][i],
			 end = rows.col[ws_nvtx_end][i];

		if ((type == WS_NVTX_PUSHPOP || type == WS_NVTX_STARTEND) && end != WS_NO_TIME &&
		    end > start && named(looking, rows.col[ws_nvtx_text][i]))
			add(looking->steps, looking->who, rows.col[ws_nvtx_thread][i], start, end,
			    rows.col[ws_nvtx_text][i]);
	}
	ws_rows_free(&rows);
	return 0;
}

/* Rows came by (thread, start, longer first): leave out those inside of the one before on their
 * thread. */
static void keep_outermost(struct ws_steps *steps)
{
	size_t n = 0;

	for (size_t i = 0; i < steps->n; i++)
		if (!n || steps->steps[i].thread != steps->steps[n - 1].thread ||
		    steps->steps[i].end > steps->steps[n - 1].end)
			steps->steps[n++] = steps->steps[i];
	steps->n = n;
}

static int by_process(const void *first, const void *second)
{
	const struct ws_step *left = first, *right = second;

	if (left->process != right->process)
		return left->process < right->process ? -1 : 1;
	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return ws_compare(left->thread, right->thread);
}

int ws_steps_load(const struct ws_report *report, const struct ws_who *who, const char *name,
		  struct ws_steps *steps, struct ws_err *err)
{
	struct looking looking = {.report = report, .who = who, .name = name, .steps = steps};
	int rc;

	memset(steps, 0, sizeof(*steps));
	looking.is = ws_calloc((size_t)ws_report_string_count(report) + 1, 1);
	rc = from_ops(&looking, err);
	if (!rc && !steps->n)
		rc = from_ranges(&looking, err);
	free(looking.is);
	keep_outermost(steps);
	if (steps->n)
		qsort(steps->steps, steps->n, sizeof(*steps->steps), by_process);
	for (size_t i = 0; i < steps->n; i++)
		steps->steps[i].number = i && steps->steps[i].process == steps->steps[i - 1].process
						 ? steps->steps[i - 1].number + 1
						 : 0;
	return rc;
}

void ws_steps_free(struct ws_steps *steps)
{
	free(steps->steps);
	memset(steps, 0, sizeof(*steps));
}
