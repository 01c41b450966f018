/*
 * nvtx_kern_sum.c - kernels by the NVTX ranges around their launch; a kernel counts for every range
 * that encloses it.
 *
 * To touch a kernel once and not once for each range around it, paths of ranges that look alike
 * (same names on the same thread) are one "trail". Durations are sorted by trail and kernel, so
 * that each such pair is a run in one array; in the end a run is handed to each "label" (name and
 * thread) on its trail. How many instances of a range a kernel ran in comes from the distinct pairs
 * of (innermost range, kernel), carried outwards. All grouping is by sorting numbers: where names
 * never repeat there are millions of groups, and a hash table would miss the cache at each.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/choose.h"
#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "stats/std8.h"

static const struct ws_column columns[] = {
	{"NVTX Range", WS_KIND_TEXT},  {"Style", WS_KIND_TEXT},	     {"PID", WS_KIND_ID},
	{"TID", WS_KIND_ID},	       {"NVTX Inst", WS_KIND_COUNT}, {"Kern Inst", WS_KIND_COUNT},
	{"Total Time", WS_KIND_TIME},  {"Avg", WS_KIND_MEAN},	     {"Med", WS_KIND_MEAN},
	{"Min", WS_KIND_TIME},	       {"Max", WS_KIND_TIME},	     {"StdDev", WS_KIND_MEAN},
	{"Kernel Name", WS_KIND_TEXT},
};

enum { RECENT = 1 << 14 };

struct pairs { /* node << 32 | kernel, or range << 32 | kernel */
	uint64_t *values;
	size_t n, cap;
	uint64_t *recent; /* pairs that were just added, by their hash: most repeat at once */
};

struct worker {
	struct ws_keyed_value *times; /* trail << 32 | kernel, and nanoseconds */
	size_t n, cap;
	struct pairs pairs;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

enum { TRAIL_PARENT, TRAIL_RANGE, TRAIL_THREAD, TRAIL_WORDS };
enum { LABEL_RANGE, LABEL_THREAD, LABEL_WORDS }; /* key of the name, and globalTid */

struct pass {
	struct ws_stats *stats;
	struct ws_launches *launches;
	int name;
	struct worker *workers;
	uint32_t worker_count;
	struct ws_keyed trails; /* number i is trail i + 1; trail 0 is that of kernels outside of
				   all ranges */
	uint32_t *trail;	/* by node */
	struct ws_keyed labels; /* number 0 is that of no range */
	uint32_t *trail_label;	/* by trail */
	struct ws_keyed_value *times; /* all, by key: trail << 32 | kernel, and nanoseconds */
	size_t time_count;
	uint32_t *kernel_number; /* by string id: place in `kernels` plus 1 */
	uint32_t *kernels;	 /* string keys, as they came */
	size_t kernel_count, kernel_cap;
	struct group *groups; /* by label and kernel */
	size_t group_count;
};

struct group {
	uint32_t label, kernel; /* their numbers */
	uint64_t instances;
	struct ws_std8 summary;
};

static void add_pair(struct pairs *pairs, uint64_t pair)
{
	uint64_t *seen = &pairs->recent[(pair * UINT64_C(0x9e3779b97f4a7c15)) >> 50];

	if (*seen == pair)
		return;
	*seen = pair;
	ws_grow(pairs->values, pairs->cap, pairs->n + 1);
	pairs->values[pairs->n++] = pair;
}

static int scan(void *ctx, const struct ws_batch *batch)
{
	struct pass *pass = ctx;
	struct worker *worker = &pass->workers[batch->worker];
	const uint64_t *start = batch->col[ws_cuda_kernel_start],
		       *end = batch->col[ws_cuda_kernel_end];

	ws_grow(worker->times, worker->cap, worker->n + batch->rows);
	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t name = batch->col[pass->name][i];
		uint32_t node;

		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			*(end[i] == WS_NO_TIME ? &worker->unended : &worker->backwards) += 1;
			continue;
		}
		name = name ? name : batch->col[ws_cuda_kernel_demangled][i];
		node = ws_launches_node(pass->launches, batch->col[ws_cuda_kernel_process][i],
					batch->col[ws_cuda_kernel_correlation][i]);
		worker->times[worker->n++] = (struct ws_keyed_value){
			(uint64_t)pass->trail[node] << 32 | name, end[i] - start[i]};
		if (node)
			add_pair(&worker->pairs, (uint64_t)node << 32 | name);
	}
	return 0;
}

/* ---- trails ---- */

static void make_trails(struct pass *pass)
{
	const struct ws_enclose *enclose = &pass->launches->enclose;

	pass->trails = (struct ws_keyed){.words = TRAIL_WORDS};
	pass->trail = ws_malloc(enclose->n * sizeof(*pass->trail));
	pass->trail[0] = 0;
	for (uint32_t i = 1; i < enclose->n; i++) {
		uint32_t range = enclose->node[i].range;
		uint64_t key[] = {pass->trail[enclose->node[i].parent],
				  ws_launches_key(pass->launches, range),
				  ws_range_get(&pass->launches->ranges, range, ws_nvtx_thread)};

		ws_keyed_get(&pass->trails, key);
		pass->trail[i] = (uint32_t)pass->trails.last + 1;
	}
}

static uint32_t label(struct pass *pass, ws_range_key range, uint64_t thread)
{
	uint64_t key[] = {
		range, range ? ws_who_thread(pass->stats->who, (uint32_t)thread)->global_tid : 0};

	ws_keyed_get(&pass->labels, key);
	return (uint32_t)pass->labels.last;
}

static void make_labels(struct pass *pass)
{
	pass->labels = (struct ws_keyed){.words = LABEL_WORDS};
	pass->trail_label = ws_malloc((pass->trails.n + 1) * sizeof(*pass->trail_label));
	pass->trail_label[0] = label(pass, 0, 0);
	for (size_t i = 0; i < pass->trails.n; i++) {
		const uint64_t *t = pass->trails.keys + i * TRAIL_WORDS;

		pass->trail_label[i + 1] = label(pass, t[TRAIL_RANGE], t[TRAIL_THREAD]);
	}
}

/* Kernels of equal names have one number, and there are few: so that a label and a kernel fit into
 * few bits. */
static uint32_t kernel_number(struct pass *pass, uint32_t id)
{
	uint32_t key = ws_report_string_key(pass->stats->report, id), *number;

	if (key > ws_report_string_count(pass->stats->report))
		key = 0; /* a number that the report does not have is no name */
	number = &pass->kernel_number[key];
	if (!*number) {
		ws_grow(pass->kernels, pass->kernel_cap, pass->kernel_count + 1);
		pass->kernels[pass->kernel_count++] = key;
		*number = (uint32_t)pass->kernel_count;
	}
	return *number - 1;
}

/* ---- instances ---- */

static int ascending(const void *first, const void *second)
{
	uint64_t x = *(const uint64_t *)first, y = *(const uint64_t *)second;

	return ws_compare(x, y);
}

/* By digits of 11 bits from bit `from` on, those in which values differ only; stable. */
static void sort_numbers(uint64_t *values, size_t n, unsigned from_bit)
{
	uint64_t *from = values, *to, differ = 0;
	size_t at[2048];

	if (n < 4096 && !from_bit) {
		if (n)
			qsort(values, n, sizeof(*values), ascending);
		return;
	}
	to = ws_malloc((n + 1) * sizeof(*to));
	for (size_t i = 0; i < n; i++)
		differ |= values[i] ^ values[0];
	for (unsigned shift = from_bit; shift < 64; shift += 11) {
		size_t sum = 0;
		uint64_t *t;

		if (!(differ >> shift & 2047))
			continue;
		memset(at, 0, sizeof(at));
		for (size_t i = 0; i < n; i++)
			at[from[i] >> shift & 2047]++;
		for (size_t d = 0; d < 2048; d++) {
			size_t count = at[d];

			at[d] = sum;
			sum += count;
		}
		for (size_t i = 0; i < n; i++)
			to[at[from[i] >> shift & 2047]++] = from[i];
		t = from;
		from = to;
		to = t;
	}
	if (from != values)
		memcpy(values, from, n * sizeof(*values));
	free(from != values ? from : to);
}

static void sort_unique(struct pairs *pairs)
{
	size_t kept = 0;

	sort_numbers(pairs->values, pairs->n, 0);
	for (size_t i = 0; i < pairs->n; i++)
		if (!i || pairs->values[i] != pairs->values[i - 1])
			pairs->values[kept++] = pairs->values[i];
	pairs->n = kept;
}

/* The workers' pairs as one set, with names that are equal under one number. */
static struct pairs gather(struct pass *pass)
{
	struct pairs all = {0};

	for (uint32_t w = 0; w < pass->worker_count; w++) {
		const struct pairs *from = &pass->workers[w].pairs;

		ws_grow(all.values, all.cap, all.n + from->n);
		for (size_t i = 0; i < from->n; i++)
			all.values[all.n++] = from->values[i] >> 32 << 32 |
					      ws_report_string_key(pass->stats->report,
								   (uint32_t)from->values[i]);
	}
	sort_unique(&all);
	return all;
}

static unsigned bits_for(uint64_t n)
{
	return n > 1 ? 64 - (unsigned)__builtin_clzll(n - 1) : 0;
}

/* Label and kernel as one number, in the order of groups. */
static uint64_t group_key(const struct pass *pass, uint32_t label_number, uint32_t kernel)
{
	return (uint64_t)label_number << bits_for(pass->kernel_count) | kernel;
}

static void count_instances(struct pass *pass)
{
	const struct ws_enclose_node *nodes = pass->launches->enclose.node;
	struct pairs inner = gather(pass),
		     ranges = {.recent = ws_calloc(RECENT, sizeof(*ranges.recent))};
	uint32_t *of_range = ws_malloc((pass->launches->ranges.n + 1) * sizeof(*of_range));

	for (size_t i = 0; i < inner.n; i++)
		for (uint32_t node = (uint32_t)(inner.values[i] >> 32); node;
		     node = nodes[node].parent)
			add_pair(&ranges,
				 (uint64_t)nodes[node].range << 32 | (uint32_t)inner.values[i]);
	free(inner.values);
	free(ranges.recent);
	sort_unique(&ranges);
	for (uint32_t node = 1; node < pass->launches->enclose.n; node++)
		of_range[nodes[node].range] = pass->trail_label[pass->trail[node]];
	for (size_t i = 0; i < ranges.n; i++)
		ranges.values[i] = group_key(pass, of_range[ranges.values[i] >> 32],
					     kernel_number(pass, (uint32_t)ranges.values[i]));
	free(of_range);
	sort_numbers(ranges.values, ranges.n, 0);
	for (size_t g = 0, i = 0; g < pass->group_count && i < ranges.n; g++) {
		uint64_t key = group_key(pass, pass->groups[g].label, pass->groups[g].kernel);

		for (; i < ranges.n && ranges.values[i] <= key; i++)
			pass->groups[g].instances += ranges.values[i] == key;
	}
	free(ranges.values);
}

/* ---- durations by trail and kernel ---- */

/* All workers' in one array. */
static void gather_times(struct pass *pass)
{
	size_t at = 0;

	for (uint32_t w = 0; w < pass->worker_count; w++)
		pass->time_count += pass->workers[w].n;
	pass->times =
		ws_realloc(pass->workers[0].times, (pass->time_count + 1) * sizeof(*pass->times));
	for (uint32_t w = 0; w < pass->worker_count; at += pass->workers[w++].n) {
		if (!w)
			continue;
		if (pass->workers[w].n)
			memcpy(pass->times + at, pass->workers[w].times,
			       pass->workers[w].n * sizeof(*pass->times));
		free(pass->workers[w].times);
	}
	pass->times = ws_sort_by_key(pass->times, pass->time_count);
}

/* Runs of equal key: where each begins, and after the last the end. */
struct runs {
	size_t *first;
	size_t n, cap;
};

static struct runs find_runs(const struct pass *pass)
{
	struct runs runs = {0};

	for (size_t i = 0; i <= pass->time_count; i++) {
		if (i && i < pass->time_count && pass->times[i].key == pass->times[i - 1].key)
			continue;
		ws_grow(runs.first, runs.cap, runs.n + 1);
		runs.first[runs.n++] = i;
	}
	runs.n--;
	return runs;
}

/* ---- groups ---- */

/* What each run gives to every label on its trail: group << run_bits | run. */
static struct pairs hand_out(struct pass *pass, const struct runs *runs, unsigned run_bits)
{
	struct pairs parts = {0};

	for (size_t i = 0; i < runs->n;
	     i++) /* all numbers of kernels are known before keys are made */
		kernel_number(pass, (uint32_t)pass->times[runs->first[i]].key);
	for (size_t i = 0; i < runs->n; i++) {
		uint64_t key = pass->times[runs->first[i]].key;
		uint32_t trail = (uint32_t)(key >> 32), kernel = kernel_number(pass, (uint32_t)key);

		do {
			ws_grow(parts.values, parts.cap, parts.n + 1);
			parts.values[parts.n++] =
				group_key(pass, pass->trail_label[trail], kernel) << run_bits | i;
			trail = trail ? (uint32_t)pass->trails
						.keys[(size_t)(trail - 1) * TRAIL_WORDS +
						      TRAIL_PARENT]
				      : 0;
		} while (trail);
	}
	sort_numbers(parts.values, parts.n, run_bits);
	return parts;
}

static struct ws_std8 summary(const struct pass *pass, const struct runs *runs,
			      const uint64_t *part, size_t parts, uint64_t run_mask)
{
	struct ws_dist dist = {0}, *all[] = {&dist};
	struct ws_std8 std8;

	for (size_t i = 0; i < parts; i++) {
		size_t run = part[i] & run_mask;

		for (size_t k = runs->first[run]; k < runs->first[run + 1]; k++)
			ws_dist_add(&dist, pass->times[k].value);
	}
	std8 = ws_dist_summary(all, 1);
	ws_dist_free(&dist);
	return std8;
}

static int make_groups(struct pass *pass, struct ws_err *err)
{
	struct runs runs = find_runs(pass);
	unsigned run_bits = bits_for(runs.n), kernel_bits;
	size_t cap = 0;
	struct pairs parts;

	if (run_bits + bits_for(pass->labels.n) +
		    bits_for(ws_min(runs.n, ws_report_string_count(pass->stats->report))) >
	    64) {
		free(runs.first);
		return ws_fail(err,
			       "there are too many different ranges and kernels for one table");
	}
	parts = hand_out(pass, &runs, run_bits);
	kernel_bits = bits_for(pass->kernel_count);
	for (size_t i = 0, next; i < parts.n; i = next) {
		uint64_t key = parts.values[i] >> run_bits;

		for (next = i + 1; next < parts.n && parts.values[next] >> run_bits == key;)
			next++;
		ws_grow(pass->groups, cap, pass->group_count + 1);
		pass->groups[pass->group_count++] = (struct group){
			.label = (uint32_t)(key >> kernel_bits),
			.kernel = (uint32_t)(key & ((UINT64_C(1) << kernel_bits) - 1)),
			.summary = summary(pass, &runs, parts.values + i, next - i,
					   (UINT64_C(1) << run_bits) - 1)};
	}
	free(parts.values);
	free(runs.first);
	free(pass->times);
	pass->times = NULL;
	return 0;
}

/* ---- printing ---- */

/* A label with its groups. Names are made one after the other in `text`. */
struct line {
	size_t text, len;
	size_t first, count; /* groups */
	uint32_t number;
	bool startend;
};

struct output {
	struct pass *pass;
	struct ws_text text;
	struct line *lines;
	struct row *rows;
};

static int by_text(const void *first, const void *second, void *ctx)
{
	const struct output *output = ctx;
	const struct line *left = first, *right = second;
	size_t n = ws_min(left->len, right->len);
	int order =
		n ? memcmp(output->text.text + left->text, output->text.text + right->text, n) : 0;
	const uint64_t *k = output->pass->labels.keys + (size_t)left->number * LABEL_WORDS,
		       *l = output->pass->labels.keys + (size_t)right->number * LABEL_WORDS;

	if (order || left->len != right->len)
		return order ? order : left->len < right->len ? -1 : 1;
	if (left->startend != right->startend)
		return left->startend ? 1 : -1;
	if (k[LABEL_RANGE] != l[LABEL_RANGE])
		return k[LABEL_RANGE] < l[LABEL_RANGE] ? -1 : 1;
	return ws_compare(k[LABEL_THREAD], l[LABEL_THREAD]);
}

static int by_total(const void *first, const void *second, void *ctx)
{
	const struct group *left = first, *right = second;
	const uint32_t *kernels = ctx;

	if (left->summary.total != right->summary.total)
		return left->summary.total > right->summary.total ? -1 : 1;
	return ws_compare(kernels[left->kernel], kernels[right->kernel]);
}

static size_t name_lines(struct output *output)
{
	const struct pass *pass = output->pass;
	size_t n = 0;

	ws_text_puts(&output->text, "");
	for (size_t g = 0, next; g < pass->group_count; g = next, n++) {
		uint32_t number = pass->groups[g].label;
		ws_range_key range = pass->labels.keys[(size_t)number * LABEL_WORDS + LABEL_RANGE];
		struct line *line = &output->lines[n];
		char *text;

		for (next = g + 1; next < pass->group_count && pass->groups[next].label == number;)
			next++;
		*line = (struct line){.text = output->text.len,
				      .first = g,
				      .count = next - g,
				      .number = number,
				      .startend = range & WS_RANGE_STARTEND};
		if (!range)
			continue;
		text = ws_launches_range_name(pass->launches, range, &line->len);
		ws_text_add(&output->text, text, line->len);
		free(text);
	}
	return n;
}

struct row {
	const struct line *line;
	const struct group *group;
};

static size_t make_row(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text)
{
	const struct output *output = ctx;
	const struct line *line = output->rows[i].line;
	const struct group *group = output->rows[i].group;
	const uint64_t *key = output->pass->labels.keys + (size_t)line->number * LABEL_WORDS;
	const char *style = line->startend ? "StartEnd" : "PushPop";
	bool in_range = key[LABEL_RANGE];
	size_t len;
	const char *kernel = ws_report_string(output->pass->stats->report,
					      output->pass->kernels[group->kernel], &len);
	const struct ws_cell row[] = {
		in_range ? ws_cell_text(output->text.text + line->text, line->len) : ws_cell_null(),
		in_range ? ws_cell_text(style, strlen(style)) : ws_cell_null(),
		in_range ? ws_cell_int((int64_t)(key[LABEL_THREAD] >> 24 & 0xffffff))
			 : ws_cell_null(),
		in_range ? ws_cell_int((int64_t)(key[LABEL_THREAD] & 0xffffff)) : ws_cell_null(),
		ws_cell_int((int64_t)group->instances),
		ws_cell_int((int64_t)group->summary.count),
		ws_cell_int((int64_t)group->summary.total),
		ws_std8_mean_cell(&group->summary),
		ws_std8_median_cell(&group->summary),
		ws_cell_int((int64_t)group->summary.min),
		ws_cell_int((int64_t)group->summary.max),
		ws_std8_stddev_cell(&group->summary),
		ws_cell_text(kernel, len),
	};

	(void)text;
	_Static_assert(WS_COUNT(row) == WS_COUNT(columns), "a cell for each column");
	memcpy(cells, row, sizeof(row));
	return 0;
}

static void print(struct pass *pass)
{
	struct output output = {.pass = pass,
				.lines = ws_malloc((pass->labels.n + 1) * sizeof(*output.lines))};
	size_t n = name_lines(&output), rows = 0;

	output.rows = ws_malloc(pass->group_count * sizeof(*output.rows));
	if (n)
		qsort_r(output.lines, n, sizeof(*output.lines), by_text, &output);
	for (size_t i = 0; i < n; i++) {
		struct group *group = pass->groups + output.lines[i].first;

		if (output.lines[i].count > 1)
			qsort_r(group, output.lines[i].count, sizeof(*group), by_total,
				pass->kernels);
		for (size_t k = 0; k < output.lines[i].count; k++)
			output.rows[rows++] = (struct row){&output.lines[i], &group[k]};
	}
	pass->stats->rows(pass->stats, rows, make_row, &output);
	ws_text_free(&output.text);
	free(output.lines);
	free(output.rows);
}

/* ---- the report ---- */

static int together(struct pass *pass, struct ws_err *err)
{
	int rc;

	ws_calls_free(&pass->launches->calls); /* memory peaks here: of the launches, ranges and
					nodes are all that is needed now */
	pass->kernel_number = ws_calloc((size_t)ws_report_string_count(pass->stats->report) + 1,
					sizeof(*pass->kernel_number));
	make_labels(pass);
	gather_times(pass);
	rc = make_groups(pass, err);
	if (!rc) {
		count_instances(pass);
		print(pass);
	}
	free(pass->times);
	free(pass->groups);
	free(pass->kernels);
	free(pass->kernel_number);
	free(pass->trail_label);
	ws_keyed_free(&pass->labels);
	return rc;
}

static void scan_kernels(struct pass *pass)
{
	struct ws_scan sc = {
		.table = WS_TABLE_cuda_kernel,
		.columns = WS_COL(cuda_kernel, start) | WS_COL(cuda_kernel, end) |
			   WS_COL(cuda_kernel, process) | WS_COL(cuda_kernel, correlation) |
			   WS_COL(cuda_kernel, demangled) | UINT64_C(1) << pass->name,
		.time_min = pass->stats->time_min,
		.time_max = pass->stats->time_max,
	};
	uint64_t damaged = 0;

	pass->worker_count = ws_scan_workers(&sc);
	memset(pass->workers, 0, pass->worker_count * sizeof(*pass->workers));
	for (uint32_t w = 0; w < pass->worker_count; w++) {
		pass->workers[w].pairs.recent = ws_calloc(RECENT, sizeof(uint64_t));
	}
	ws_scan_run(pass->stats->report, &sc, scan, pass, &damaged);
	pass->stats->damaged += damaged;
	for (uint32_t w = 0; w < pass->worker_count; w++) {
		pass->stats->unended += pass->workers[w].unended;
		pass->stats->backwards += pass->workers[w].backwards;
	}
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	struct pass pass = {.stats = stats, .name = ws_cuda_name_column(stats)};
	int rc;

	pass.launches = ws_launches_open(stats, true, err);
	if (!pass.launches)
		return -1;
	pass.workers = aligned_alloc(128, ws_scan_workers(&any) * sizeof(*pass.workers));
	if (!pass.workers) {
		ws_launches_close(pass.launches);
		return ws_fail(err, "out of memory");
	}
	make_trails(&pass);
	scan_kernels(&pass);
	rc = together(&pass, err);
	for (uint32_t w = 0; w < pass.worker_count; w++) {
		free(pass.workers[w].pairs.values);
		free(pass.workers[w].pairs.recent);
	}
	free(pass.workers);
	free(pass.trail);
	ws_keyed_free(&pass.trails);
	ws_launches_close(pass.launches);
	return rc;
}

const struct ws_stat ws_stat_nvtx_kern_sum = {
	.name = "nvtx_kern_sum",
	.title = "NVTX Range Kernel Summary",
	.about = "Kernels by the NVTX ranges of the launching thread that enclose the call; a "
		 "kernel counts for every range around it, "
		 "and without a range in those lines that show none. :base names functions only, "
		 ":mangled as the compiler does",
	.what = "CUDA kernels",
	.unended = "had no times",
	.args = ws_cuda_name_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
