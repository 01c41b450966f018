/* file_sum.c - files by the time spent in calls on them. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "query/file_use.h"
#include "stats/stats.h"

static const struct ws_column columns[] = {
	{"Time", WS_KIND_PERCENT},	{"Total Time", WS_KIND_TIME},
	{"Opens", WS_KIND_COUNT},	{"Reads", WS_KIND_COUNT},
	{"Bytes Read", WS_KIND_SIZE},	{"Small Reads", WS_KIND_COUNT},
	{"Writes", WS_KIND_COUNT},	{"Bytes Written", WS_KIND_SIZE},
	{"Other Calls", WS_KIND_COUNT}, {"In Order", WS_KIND_PERCENT},
	{"Path", WS_KIND_TEXT},
};

static int compare_time(const void *first, const void *second)
{
	const struct ws_file_use *left = first, *right = second;

	if (left->ns != right->ns)
		return ws_compare(right->ns, left->ns);
	return ws_compare(left->path, right->path);
}

/* Add up what several processes did with a file. Returns how many files there are. */
static size_t merge_processes(const struct ws_stats *stats, struct ws_file_use *uses, size_t count)
{
	struct ws_map by_path = {0};
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		struct ws_file_use use = uses[i], *into;
		uint64_t index;

		use.path = ws_get_name_key(stats, use.path);
		index = ws_map_get(&by_path, use.path, NULL);
		if (!index) {
			uses[kept++] = use;
			ws_map_set(&by_path, use.path, kept);
			continue;
		}
		into = &uses[index - 1];
		into->opens += use.opens, into->reads += use.reads, into->writes += use.writes;
		into->others += use.others, into->read_bytes += use.read_bytes;
		into->written_bytes += use.written_bytes, into->small_reads += use.small_reads;
		into->in_order += use.in_order, into->jumps += use.jumps, into->ns += use.ns;
	}
	ws_map_free(&by_path);
	return kept;
}

static void print_use(struct ws_stats *stats, const struct ws_file_use *use, uint64_t total)
{
	uint64_t placed = use->in_order + use->jumps;
	size_t length;
	const char *path = ws_get_name(stats, use->path, &length);

	stats->row(stats, (struct ws_cell[]){
				  ws_cell_real_if(total, 100 * (long double)use->ns / total),
				  ws_cell_int((int64_t)use->ns),
				  ws_cell_int((int64_t)use->opens),
				  ws_cell_int((int64_t)use->reads),
				  ws_cell_real(use->read_bytes),
				  ws_cell_int((int64_t)use->small_reads),
				  ws_cell_int((int64_t)use->writes),
				  ws_cell_real(use->written_bytes),
				  ws_cell_int((int64_t)use->others),
				  ws_cell_real_if(placed, 100 * (long double)use->in_order /
								  ws_max(placed, 1)),
				  ws_cell_text(path, length),
			  });
}

static int make_file_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	uint64_t total = 0;
	size_t count;
	struct ws_file_use *uses = ws_load_file_use(stats->report, stats->who, stats->time_min,
						    stats->time_max, &count);

	(void)err;
	count = merge_processes(stats, uses, count);
	if (count)
		qsort(uses, count, sizeof(*uses), compare_time);
	for (size_t i = 0; i < count; i++)
		total += uses[i].ns;
	for (size_t i = 0; i < count; i++)
		if (uses[i].ns || uses[i].opens + uses[i].reads + uses[i].writes + uses[i].others)
			print_use(stats, &uses[i], total);
	free(uses);
	return 0;
}

const struct ws_stats_report ws_stat_file_sum = {
	.name = "file_sum",
	.title = "File Access Summary",
	.about = "Files by the time in calls about them: how often they were opened, read and "
		 "written, and how much. Small reads are of less than 4 KiB. In order are reads "
		 "and writes that begin where the thread's last one ended, or up to 128 KiB "
		 "behind: of those whose place is known. Calls shorter than --osrt-threshold (1 "
		 "us by default) are not recorded: with 0 all are",
	.what = "calls about files",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_file_sum_rows,
};
