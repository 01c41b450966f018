/* launches.c - see launches.h. */
#include "kernel/launches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "query/command_line.h"
#include "query/query.h"

struct search {
	const struct ws_report *report;
	const struct ws_kernel_results *results;
	struct ws_kernel_launches *launches;
	uint8_t *wanted; /* by name: 0 not looked at yet, else an enum */
	uint32_t names;
	uint64_t busy_ns;
};

enum { UNKNOWN, WANTED, OTHER };

bool ws_is_same_kernel_name(const char *left, const char *right)
{
	if (!*left || !*right)
		return true;
	for (;;) {
		while (*left == ' ')
			left++;
		while (*right == ' ')
			right++;
		if (*left != *right)
			return false;
		if (!*left)
			return true;
		left++;
		right++;
	}
}

static uint8_t look_at_name(const struct search *search, uint32_t name)
{
	const char *text = ws_report_string(search->report, name, NULL);

	for (size_t i = 0; i < search->results->count; i++)
		if (!strcmp(text, search->results->results[i].name))
			return WANTED;
	return OTHER;
}

static bool has_shape(const struct ws_row_kernel_result *row, const uint64_t *const *columns,
		      size_t i)
{
	return row->grid_x == columns[ws_cuda_kernel_grid_x][i] &&
	       row->grid_y == columns[ws_cuda_kernel_grid_y][i] &&
	       row->grid_z == columns[ws_cuda_kernel_grid_z][i] &&
	       row->block_x == columns[ws_cuda_kernel_block_x][i] &&
	       row->block_y == columns[ws_cuda_kernel_block_y][i] &&
	       row->block_z == columns[ws_cuda_kernel_block_z][i];
}

static void count_launch(struct search *search, const uint64_t *const *columns, size_t i,
			 uint64_t ns)
{
	uint32_t name = (uint32_t)columns[ws_cuda_kernel_name][i],
		 demangled = (uint32_t)columns[ws_cuda_kernel_demangled][i];
	const char *text = ws_report_string(search->report, name, NULL),
		   *full = ws_report_string(search->report, demangled, NULL);

	for (size_t r = 0; r < search->results->count; r++) {
		const struct ws_kernel_result *result = &search->results->results[r];

		if (!has_shape(&result->row, columns, i) || strcmp(text, result->name) ||
		    !ws_is_same_kernel_name(full, result->demangled))
			continue;
		search->launches[r].count++;
		search->launches[r].total_ns += ns;
	}
}

static int count_batch(void *context, const struct ws_batch *batch)
{
	struct search *search = context;

	for (size_t i = 0; i < batch->rows; i++) {
		uint32_t name = (uint32_t)batch->col[ws_cuda_kernel_name][i];
		uint64_t start = batch->col[ws_cuda_kernel_start][i],
			 end = batch->col[ws_cuda_kernel_end][i], ns = 0;

		if (end != WS_NO_TIME && end > start)
			ns = end - start;
		search->busy_ns += ns;
		if (name > search->names)
			continue;
		if (search->wanted[name] == UNKNOWN)
			search->wanted[name] = look_at_name(search, name);
		if (search->wanted[name] == WANTED)
			count_launch(search, batch->col, i, ns);
	}
	return 0;
}

uint64_t ws_count_kernel_launches(const struct ws_report *report,
				  const struct ws_kernel_results *results,
				  struct ws_kernel_launches *launches)
{
	struct search search = {.report = report, .results = results, .launches = launches};
	struct ws_scan scan = {.table = WS_TABLE_cuda_kernel, .time_max = UINT64_MAX, .workers = 1};

	memset(launches, 0, results->count * sizeof(*launches));
	if (!results->count)
		return 0;
	scan.columns = WS_COLUMN_BIT(cuda_kernel, start) | WS_COLUMN_BIT(cuda_kernel, end) |
		       WS_COLUMN_BIT(cuda_kernel, name) | WS_COLUMN_BIT(cuda_kernel, demangled) |
		       WS_COLUMN_BIT(cuda_kernel, grid_x) | WS_COLUMN_BIT(cuda_kernel, grid_y) |
		       WS_COLUMN_BIT(cuda_kernel, grid_z) | WS_COLUMN_BIT(cuda_kernel, block_x) |
		       WS_COLUMN_BIT(cuda_kernel, block_y) | WS_COLUMN_BIT(cuda_kernel, block_z);
	search.names = ws_report_string_count(report);
	search.wanted = ws_calloc((size_t)search.names + 1, 1);
	ws_run_scan(report, &scan, count_batch, &search, NULL);
	free(search.wanted);
	return search.busy_ns;
}

/* ---- the command that measures a launch ---- */

struct earlier {
	const struct ws_report *report;
	const struct ws_kernel_launch *launch;
	uint32_t *processes; /* with its pid */
	size_t process_count, capacity;
	uint64_t count;
};

static void list_processes(struct earlier *earlier)
{
	struct ws_cursor *cursor = ws_cursor_open(earlier->report, WS_TABLE_process, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		if (values[ws_process_pid] != earlier->launch->pid)
			continue;
		ws_grow(earlier->processes, earlier->capacity, earlier->process_count + 1);
		earlier->processes[earlier->process_count++] = (uint32_t)values[ws_process_id];
	}
	ws_cursor_close(cursor);
}

static bool is_of_process(const struct earlier *earlier, uint64_t process)
{
	for (size_t i = 0; i < earlier->process_count; i++)
		if (earlier->processes[i] == process)
			return true;
	return false;
}

static int count_earlier(void *context, const struct ws_batch *batch)
{
	struct earlier *earlier = context;

	for (size_t i = 0; i < batch->rows; i++) {
		uint32_t name = (uint32_t)batch->col[ws_cuda_kernel_name][i];

		if (batch->col[ws_cuda_kernel_correlation][i] >= earlier->launch->correlation ||
		    !is_of_process(earlier, batch->col[ws_cuda_kernel_process][i]))
			continue;
		if (!strcmp(ws_report_string(earlier->report, name, NULL), earlier->launch->name))
			earlier->count++;
	}
	return 0;
}

static uint64_t count_launches_before(const struct ws_report *report,
				      const struct ws_kernel_launch *launch)
{
	struct earlier earlier = {.report = report, .launch = launch};
	struct ws_scan scan = {.table = WS_TABLE_cuda_kernel, .time_max = UINT64_MAX, .workers = 1};

	scan.columns = WS_COLUMN_BIT(cuda_kernel, process) |
		       WS_COLUMN_BIT(cuda_kernel, correlation) | WS_COLUMN_BIT(cuda_kernel, name);
	list_processes(&earlier);
	ws_run_scan(report, &scan, count_earlier, &earlier, NULL);
	free(earlier.processes);
	return earlier.count;
}

char *ws_write_kernel_command(const struct ws_report *report, const struct ws_kernel_launch *launch)
{
	uint64_t before = count_launches_before(report, launch);
	struct ws_text text = {0};

	ws_text_puts(&text, "warpsight kernel --set full -k ");
	ws_put_shell_word(&text, launch->name);
	if (before)
		ws_text_printf(&text, " --launch-skip %" PRIu64, before);
	ws_text_printf(&text, " --launch-count 1 %s", ws_find_program_line(report));
	return text.text;
}
