/*
 * nvtx_kern_sum.c - kernels by the NVTX ranges around their launch; a kernel counts for every range
 * that encloses it.
 *
 * To read each kernel once, not once for each range around it, paths of ranges with the same names
 * on the same thread are one "trail". Durations are sorted by trail and kernel, so each pair is a
 * run in one array, and each run is finally added to every "label" (name and thread) on its trail.
 * To count the instances of a range that a kernel ran in, the distinct pairs of (innermost range,
 * kernel) are extended to the ranges around. All grouping is done by sorting numbers: when names
 * never repeat there are millions of groups, and a hash table would miss the cache at each of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/choose.h"
#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {
	{"NVTX Range", WS_KIND_TEXT},  {"Style", WS_KIND_TEXT},	      {"PID", WS_KIND_ID},
	{"TID", WS_KIND_ID},	       {"NVTX Inst", WS_KIND_COUNT},  {"Kern Inst", WS_KIND_COUNT},
	{"Total Time", WS_KIND_TIME},  {"Avg", WS_KIND_MEAN},	      {"Med", WS_KIND_MEAN},
	{"Min", WS_KIND_TIME},	       {"Max", WS_KIND_TIME},	      {"StdDev", WS_KIND_MEAN},
	{"Kernel Name", WS_KIND_TEXT}, {"Helper Ops", WS_KIND_COUNT},
};

enum { RECENT = 1 << 14 };

/* In place of a trail: the trail of a kernel that a helper launched for the trail's thread. */
#define HELPED_TRAIL (UINT32_C(1) << 31)

struct number_pairs { /* node << 32 | kernel, or range << 32 | kernel */
	uint64_t *values;
	size_t count, capacity;
	uint64_t *recent; /* recently added pairs, by hash: most are soon repeated */
};

struct kern_worker {
	struct ws_keyed_value *times; /* trail << 32 | kernel, and nanoseconds */
	size_t time_count, time_capacity;
	struct number_pairs pairs;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

enum { TRAIL_PARENT, TRAIL_RANGE, TRAIL_THREAD, TRAIL_WORDS };
enum { LABEL_RANGE, LABEL_THREAD, LABEL_WORDS }; /* key of the name, and globalTid */

struct kern_sum {
	struct ws_stats *stats;
	struct ws_launches *launches;
	int name_column;
	struct kern_worker *workers;
	uint32_t worker_count;
	struct ws_keyed_dists trails; /* number i is trail i + 1; trail 0 is that of kernels outside
			   all ranges */
	uint32_t *trail;	      /* by node */
	bool *is_helpers_own;	      /* by trail: its range belongs to the helper itself */
	struct ws_keyed_dists labels; /* number 0 stands for no range */
	uint32_t *trail_label;	      /* by trail */
	struct ws_keyed_value *times; /* all, by key: trail << 32 | kernel, and nanoseconds */
	size_t time_count;
	uint32_t *number_of_kernel; /* by string id: place in `kernels` plus 1 */
	uint32_t *kernels;	    /* string keys, in order of arrival */
	size_t kernel_count, kernel_capacity;
	struct kernel_group *groups; /* by label and kernel */
	size_t group_count;
};

struct kernel_group {
	uint32_t label, kernel; /* their numbers */
	uint64_t instances, helped;
	struct ws_summary summary;
};

static void add_pair(struct number_pairs *pairs, uint64_t pair)
{
	uint64_t *seen = &pairs->recent[(pair * UINT64_C(0x9e3779b97f4a7c15)) >> 50];

	if (*seen == pair)
		return;
	*seen = pair;
	ws_grow(pairs->values, pairs->capacity, pairs->count + 1);
	pairs->values[pairs->count++] = pair;
}

/* Where a kernel is counted: the trail of the ranges around its launch, whose innermost is *node.
 */
static uint32_t find_kernel_trail(const struct kern_sum *kern_sum, uint64_t process,
				  uint64_t correlation, uint32_t *node)
{
	const struct ws_enclose *enclose = &kern_sum->launches->enclose;
	uint32_t call = ws_find_launch_call(kern_sum->launches, process, correlation);

	*node = 0;
	if (call == WS_NO_CALL)
		return 0;
	*node = enclose->node_of_call[call];
	if (*node && enclose->helped && enclose->helped[call])
		return kern_sum->trail[*node] | HELPED_TRAIL;
	return kern_sum->trail[*node];
}

static int scan_kernel_times(void *context, const struct ws_batch *batch)
{
	struct kern_sum *kern_sum = context;
	struct kern_worker *worker = &kern_sum->workers[batch->worker];
	const uint64_t *start = batch->col[ws_cuda_kernel_start],
		       *end = batch->col[ws_cuda_kernel_end];

	ws_grow(worker->times, worker->time_capacity, worker->time_count + batch->rows);
	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t name = batch->col[kern_sum->name_column][i];
		uint32_t node, trail;

		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			ws_count_left_out(end[i], &worker->unended, &worker->backwards);
			continue;
		}
		name = ws_choose_kernel_name(name, batch->col[ws_cuda_kernel_demangled][i]);
		trail = find_kernel_trail(kern_sum, batch->col[ws_cuda_kernel_process][i],
					  batch->col[ws_cuda_kernel_correlation][i], &node);
		worker->times[worker->time_count++] =
			(struct ws_keyed_value){(uint64_t)trail << 32 | name, end[i] - start[i]};
		if (node)
			add_pair(&worker->pairs, (uint64_t)node << 32 | name);
	}
	return 0;
}

/* ---- trails ---- */

static void make_trails(struct kern_sum *kern_sum)
{
	const struct ws_enclose *enclose = &kern_sum->launches->enclose;

	kern_sum->trails = (struct ws_keyed_dists){.words = TRAIL_WORDS};
	kern_sum->trail = ws_malloc(enclose->count * sizeof(*kern_sum->trail));
	kern_sum->trail[0] = 0;
	kern_sum->is_helpers_own = ws_calloc(enclose->count, sizeof(*kern_sum->is_helpers_own));
	for (uint32_t i = 1; i < enclose->count; i++) {
		uint32_t range = enclose->node[i].range;
		uint64_t key[] = {kern_sum->trail[enclose->node[i].parent],
				  ws_make_range_key(kern_sum->launches, range),
				  ws_range_get(&kern_sum->launches->ranges, range, ws_nvtx_thread)};

		ws_keyed_get(&kern_sum->trails, key);
		kern_sum->trail[i] = (uint32_t)kern_sum->trails.last + 1;
		kern_sum->is_helpers_own[kern_sum->trail[i]] = enclose->helped && i >= enclose->own;
	}
}

static uint32_t number_label(struct kern_sum *kern_sum, ws_range_key range, uint64_t thread)
{
	uint64_t key[] = {range, 0};

	if (range)
		key[LABEL_THREAD] =
			ws_find_thread(kern_sum->stats->who, (uint32_t)thread)->global_tid;
	ws_keyed_get(&kern_sum->labels, key);
	return (uint32_t)kern_sum->labels.last;
}

static void make_labels(struct kern_sum *kern_sum)
{
	kern_sum->labels = (struct ws_keyed_dists){.words = LABEL_WORDS};
	kern_sum->trail_label =
		ws_malloc((kern_sum->trails.count + 1) * sizeof(*kern_sum->trail_label));
	kern_sum->trail_label[0] = number_label(kern_sum, 0, 0);
	for (size_t i = 0; i < kern_sum->trails.count; i++) {
		const uint64_t *trail = kern_sum->trails.keys + i * TRAIL_WORDS;

		kern_sum->trail_label[i + 1] =
			number_label(kern_sum, trail[TRAIL_RANGE], trail[TRAIL_THREAD]);
	}
}

/* The number of a kernel's name. Equal names have one number, and numbers are small, so that a
 * label and a kernel fit into few bits. */
static uint32_t number_kernel(struct kern_sum *kern_sum, uint32_t id)
{
	uint32_t key = ws_get_name_key(kern_sum->stats, id), *number;

	if (key > ws_report_string_count(kern_sum->stats->report))
		key = 0; /* the report has no such string: a kernel without a name */
	number = &kern_sum->number_of_kernel[key];
	if (!*number) {
		ws_grow(kern_sum->kernels, kern_sum->kernel_capacity, kern_sum->kernel_count + 1);
		kern_sum->kernels[kern_sum->kernel_count++] = key;
		*number = (uint32_t)kern_sum->kernel_count;
	}
	return *number - 1;
}

/* ---- instances ---- */

static int compare_numbers(const void *first, const void *second)
{
	uint64_t left = *(const uint64_t *)first, right = *(const uint64_t *)second;

	return ws_compare(left, right);
}

/* Sort by the bits from `from_bit` on; values that are equal in these keep their order. This is a
 * radix sort with 11 bits per pass, which skips bits in which no values differ. */
static void sort_numbers(uint64_t *values, size_t length, unsigned from_bit)
{
	uint64_t *from = values, *to, differ = 0;
	size_t at[2048];

	if (length < 4096 && !from_bit) {
		if (length)
			qsort(values, length, sizeof(*values), compare_numbers);
		return;
	}
	to = ws_malloc((length + 1) * sizeof(*to));
	for (size_t i = 0; i < length; i++)
		differ |= values[i] ^ values[0];
	for (unsigned shift = from_bit; shift < 64; shift += 11) {
		size_t sum = 0;
		uint64_t *swapped;

		if (!(differ >> shift & 2047))
			continue;
		memset(at, 0, sizeof(at));
		for (size_t i = 0; i < length; i++)
			at[from[i] >> shift & 2047]++;
		for (size_t digit = 0; digit < 2048; digit++) {
			size_t count = at[digit];

			at[digit] = sum;
			sum += count;
		}
		for (size_t i = 0; i < length; i++)
			to[at[from[i] >> shift & 2047]++] = from[i];
		swapped = from;
		from = to;
		to = swapped;
	}
	if (from != values)
		memcpy(values, from, length * sizeof(*values));
	if (from != values)
		free(from);
	else
		free(to);
}

static void sort_unique_pairs(struct number_pairs *pairs)
{
	size_t kept = 0;

	sort_numbers(pairs->values, pairs->count, 0);
	for (size_t i = 0; i < pairs->count; i++)
		if (!i || pairs->values[i] != pairs->values[i - 1])
			pairs->values[kept++] = pairs->values[i];
	pairs->count = kept;
}

/* Join the pairs of all workers into one set; equal names become one. */
static struct number_pairs gather_pairs(struct kern_sum *kern_sum)
{
	struct number_pairs all = {0};

	for (uint32_t worker = 0; worker < kern_sum->worker_count; worker++) {
		const struct number_pairs *from = &kern_sum->workers[worker].pairs;

		ws_grow(all.values, all.capacity, all.count + from->count);
		for (size_t i = 0; i < from->count; i++)
			all.values[all.count++] =
				from->values[i] >> 32 << 32 |
				ws_get_name_key(kern_sum->stats, (uint32_t)from->values[i]);
	}
	sort_unique_pairs(&all);
	return all;
}

static unsigned count_bits(uint64_t value)
{
	if (value <= 1)
		return 0;
	return 64 - (unsigned)__builtin_clzll(value - 1);
}

/* Label and kernel as one number; groups are in the order of these. */
static uint64_t make_group_key(const struct kern_sum *kern_sum, uint32_t label_number,
			       uint32_t kernel)
{
	return (uint64_t)label_number << count_bits(kern_sum->kernel_count) | kernel;
}

static void count_instances(struct kern_sum *kern_sum)
{
	const struct ws_enclose_node *nodes = kern_sum->launches->enclose.node;
	struct number_pairs inner = gather_pairs(kern_sum),
			    ranges = {.recent = ws_calloc(RECENT, sizeof(*ranges.recent))};
	uint32_t *of_range = ws_malloc((kern_sum->launches->ranges.count + 1) * sizeof(*of_range));

	for (size_t i = 0; i < inner.count; i++)
		for (uint32_t node = (uint32_t)(inner.values[i] >> 32); node;
		     node = nodes[node].parent)
			add_pair(&ranges,
				 (uint64_t)nodes[node].range << 32 | (uint32_t)inner.values[i]);
	free(inner.values);
	free(ranges.recent);
	sort_unique_pairs(&ranges);
	for (uint32_t node = 1; node < kern_sum->launches->enclose.count; node++)
		of_range[nodes[node].range] = kern_sum->trail_label[kern_sum->trail[node]];
	for (size_t i = 0; i < ranges.count; i++)
		ranges.values[i] =
			make_group_key(kern_sum, of_range[ranges.values[i] >> 32],
				       number_kernel(kern_sum, (uint32_t)ranges.values[i]));
	free(of_range);
	sort_numbers(ranges.values, ranges.count, 0);
	for (size_t group = 0, i = 0; group < kern_sum->group_count && i < ranges.count; group++) {
		uint64_t key = make_group_key(kern_sum, kern_sum->groups[group].label,
					      kern_sum->groups[group].kernel);

		for (; i < ranges.count && ranges.values[i] <= key; i++)
			kern_sum->groups[group].instances += ranges.values[i] == key;
	}
	free(ranges.values);
}

/* ---- durations by trail and kernel ---- */

/* Put the durations of all workers into one array, sorted by key. */
static void gather_times(struct kern_sum *kern_sum)
{
	size_t at = 0;

	for (uint32_t worker = 0; worker < kern_sum->worker_count; worker++)
		kern_sum->time_count += kern_sum->workers[worker].time_count;
	kern_sum->times = ws_realloc(kern_sum->workers[0].times,
				     (kern_sum->time_count + 1) * sizeof(*kern_sum->times));
	for (uint32_t worker = 0; worker < kern_sum->worker_count;
	     at += kern_sum->workers[worker++].time_count) {
		if (!worker)
			continue;
		if (kern_sum->workers[worker].time_count)
			memcpy(kern_sum->times + at, kern_sum->workers[worker].times,
			       kern_sum->workers[worker].time_count * sizeof(*kern_sum->times));
		free(kern_sum->workers[worker].times);
	}
	kern_sum->times = ws_sort_by_key(kern_sum->times, kern_sum->time_count);
}

/* Runs of equal keys: where each begins; one more for the end. */
struct key_runs {
	size_t *first;
	size_t count, capacity;
};

static struct key_runs find_runs(const struct kern_sum *kern_sum)
{
	struct key_runs runs = {0};

	for (size_t i = 0; i <= kern_sum->time_count; i++) {
		if (i && i < kern_sum->time_count &&
		    kern_sum->times[i].key == kern_sum->times[i - 1].key)
			continue;
		ws_grow(runs.first, runs.capacity, runs.count + 1);
		runs.first[runs.count++] = i;
	}
	runs.count--;
	return runs;
}

/* ---- groups ---- */

/* The next trail outwards; 0 after the outermost one. */
static uint32_t get_outer_trail(const struct kern_sum *kern_sum, uint32_t trail)
{
	if (!trail)
		return 0;
	return (uint32_t)kern_sum->trails.keys[(size_t)(trail - 1) * TRAIL_WORDS + TRAIL_PARENT];
}

/* Which runs each group consists of, as group << run_bits | run: a run belongs to every label on
 * its trail. */
static struct number_pairs distribute_runs(struct kern_sum *kern_sum, const struct key_runs *runs,
					   unsigned run_bits)
{
	struct number_pairs parts = {0};

	/* Keys of groups depend on how many kernels there are, so these are numbered first. */
	for (size_t i = 0; i < runs->count; i++)
		number_kernel(kern_sum, (uint32_t)kern_sum->times[runs->first[i]].key);
	for (size_t i = 0; i < runs->count; i++) {
		uint64_t key = kern_sum->times[runs->first[i]].key;
		uint32_t trail = (uint32_t)(key >> 32) & ~HELPED_TRAIL,
			 kernel = number_kernel(kern_sum, (uint32_t)key);

		do {
			ws_grow(parts.values, parts.capacity, parts.count + 1);
			parts.values[parts.count++] =
				make_group_key(kern_sum, kern_sum->trail_label[trail], kernel)
					<< run_bits |
				i;
			trail = get_outer_trail(kern_sum, trail);
		} while (trail);
	}
	sort_numbers(parts.values, parts.count, run_bits);
	return parts;
}

static struct ws_summary summarise_runs(const struct kern_sum *kern_sum,
					const struct key_runs *runs, const uint64_t *part,
					size_t parts, uint64_t run_mask)
{
	struct ws_dist dist = {0}, *all[] = {&dist};
	struct ws_summary result;

	for (size_t i = 0; i < parts; i++) {
		size_t run = part[i] & run_mask;

		for (size_t k = runs->first[run]; k < runs->first[run + 1]; k++)
			ws_dist_add(&dist, kern_sum->times[k].value);
	}
	result = ws_summarise_dists(all, 1);
	ws_dist_free(&dist);
	return result;
}

static int compare_group_keys(const void *first, const void *second)
{
	const struct kernel_group *left = first, *right = second;

	if (left->label != right->label)
		return ws_compare(left->label, right->label);
	return ws_compare(left->kernel, right->kernel);
}

/* Count the kernels of the runs that helpers launched in the groups of the ranges that they worked
 * for. */
static void count_helped(struct kern_sum *kern_sum, const struct key_runs *runs)
{
	for (size_t i = 0; i < runs->count; i++) {
		uint64_t key = kern_sum->times[runs->first[i]].key;
		uint32_t trail = (uint32_t)(key >> 32);
		struct kernel_group wanted = {.kernel = number_kernel(kern_sum, (uint32_t)key)},
				    *group;

		if (!(trail & HELPED_TRAIL))
			continue;
		for (trail &= ~HELPED_TRAIL; trail; trail = get_outer_trail(kern_sum, trail)) {
			if (kern_sum->is_helpers_own[trail])
				continue;
			wanted.label = kern_sum->trail_label[trail];
			group = bsearch(&wanted, kern_sum->groups, kern_sum->group_count,
					sizeof(*group), compare_group_keys);
			if (group)
				group->helped += runs->first[i + 1] - runs->first[i];
		}
	}
}

static int make_kernel_groups(struct kern_sum *kern_sum, struct ws_err *err)
{
	struct key_runs runs = find_runs(kern_sum);
	unsigned run_bits = count_bits(runs.count), kernel_bits;
	size_t capacity = 0;
	struct number_pairs parts;

	if (run_bits + count_bits(kern_sum->labels.count) +
		    count_bits(
			    ws_min(runs.count, ws_report_string_count(kern_sum->stats->report))) >
	    64) {
		free(runs.first);
		return ws_fail(err,
			       "there are too many different ranges and kernels for one table");
	}
	parts = distribute_runs(kern_sum, &runs, run_bits);
	kernel_bits = count_bits(kern_sum->kernel_count);
	for (size_t i = 0, next; i < parts.count; i = next) {
		uint64_t key = parts.values[i] >> run_bits;

		for (next = i + 1; next < parts.count && parts.values[next] >> run_bits == key;)
			next++;
		ws_grow(kern_sum->groups, capacity, kern_sum->group_count + 1);
		kern_sum->groups[kern_sum->group_count++] = (struct kernel_group){
			.label = (uint32_t)(key >> kernel_bits),
			.kernel = (uint32_t)(key & ((UINT64_C(1) << kernel_bits) - 1)),
			.summary = summarise_runs(kern_sum, &runs, parts.values + i, next - i,
						  (UINT64_C(1) << run_bits) - 1)};
	}
	count_helped(kern_sum, &runs);
	free(parts.values);
	free(runs.first);
	free(kern_sum->times);
	kern_sum->times = NULL;
	return 0;
}

/* ---- printing ---- */

/* A label with its groups. */
struct label_line {
	size_t text, len;    /* its name in the text that has all names */
	size_t first, count; /* its groups */
	uint32_t number;
	bool startend;
};

struct kern_output {
	struct kern_sum *pass;
	struct ws_text text;
	struct label_line *lines;
	struct kernel_row *rows;
	size_t columns; /* groups that are shown: the table has no more cells */
};

static int compare_labels(const void *first, const void *second, void *context)
{
	const struct kern_output *output = context;
	const struct label_line *left = first, *right = second;
	int order = ws_compare_texts(output->text.text + left->text, left->len,
				     output->text.text + right->text, right->len);
	const uint64_t *left_key = output->pass->labels.keys + (size_t)left->number * LABEL_WORDS,
		       *right_key = output->pass->labels.keys + (size_t)right->number * LABEL_WORDS;

	if (order)
		return order;
	if (left->startend != right->startend)
		return ws_compare(left->startend, right->startend);
	if (left_key[LABEL_RANGE] != right_key[LABEL_RANGE])
		return ws_compare(left_key[LABEL_RANGE], right_key[LABEL_RANGE]);
	return ws_compare(left_key[LABEL_THREAD], right_key[LABEL_THREAD]);
}

static int compare_group_totals(const void *first, const void *second, void *context)
{
	const struct kernel_group *left = first, *right = second;
	const uint32_t *kernels = context;

	if (left->summary.total != right->summary.total)
		return ws_compare(right->summary.total, left->summary.total);
	return ws_compare(kernels[left->kernel], kernels[right->kernel]);
}

/* Set the lines, one for each label that has groups, and their names. Returns how many there are.
 */
static size_t name_label_lines(struct kern_output *output)
{
	const struct kern_sum *kern_sum = output->pass;
	size_t count = 0;

	ws_text_puts(&output->text, "");
	for (size_t group = 0, next; group < kern_sum->group_count; group = next, count++) {
		uint32_t number = kern_sum->groups[group].label;
		ws_range_key range =
			kern_sum->labels.keys[(size_t)number * LABEL_WORDS + LABEL_RANGE];
		struct label_line *line = &output->lines[count];
		char *text;

		for (next = group + 1;
		     next < kern_sum->group_count && kern_sum->groups[next].label == number;)
			next++;
		*line = (struct label_line){.text = output->text.len,
					    .first = group,
					    .count = next - group,
					    .number = number,
					    .startend = range & WS_RANGE_STARTEND};
		if (!range)
			continue;
		text = ws_make_range_name(kern_sum->launches, range, &line->len);
		ws_text_add(&output->text, text, line->len);
		free(text);
	}
	return count;
}

struct kernel_row {
	const struct label_line *line;
	const struct kernel_group *group;
};

static size_t make_kernel_row(const void *context, size_t i, struct ws_cell *cells,
			      struct ws_text *text)
{
	const struct kern_output *output = context;
	const struct label_line *line = output->rows[i].line;
	const struct kernel_group *group = output->rows[i].group;
	const uint64_t *key = output->pass->labels.keys + (size_t)line->number * LABEL_WORDS;
	const char *style = ws_get_range_style_name(line->startend);
	bool in_range = key[LABEL_RANGE];
	size_t length;
	const char *kernel =
		ws_get_name(output->pass->stats, output->pass->kernels[group->kernel], &length);
	const struct ws_cell row[] = {
		ws_cell_text_if(in_range, output->text.text + line->text, line->len),
		ws_cell_text_if(in_range, style, strlen(style)),
		ws_cell_int_if(in_range, (int64_t)(key[LABEL_THREAD] >> 24 & 0xffffff)),
		ws_cell_int_if(in_range, (int64_t)(key[LABEL_THREAD] & 0xffffff)),
		ws_cell_int((int64_t)group->instances),
		ws_cell_int((int64_t)group->summary.count),
		ws_cell_int((int64_t)group->summary.total),
		ws_make_mean_cell(&group->summary),
		ws_make_median_cell(&group->summary),
		ws_cell_int((int64_t)group->summary.min),
		ws_cell_int((int64_t)group->summary.max),
		ws_make_stddev_cell(&group->summary),
		ws_cell_text(kernel, length),
		ws_cell_int((int64_t)group->helped),
	};

	(void)text;
	_Static_assert(WS_COUNT(row) == WS_COUNT(columns), "a cell for each column");
	memcpy(cells, row, output->columns * sizeof(*row));
	return 0;
}

static void print_kernel_rows(struct kern_sum *kern_sum)
{
	struct kern_output output = {
		.pass = kern_sum,
		.lines = ws_malloc((kern_sum->labels.count + 1) * sizeof(*output.lines)),
		.columns = WS_COUNT(columns)};
	size_t count = name_label_lines(&output), rows = 0;

	if (!ws_get_stats_arg(kern_sum->stats, WS_HELPER_ARG))
		output.columns--;
	output.rows = ws_malloc(kern_sum->group_count * sizeof(*output.rows));
	if (count)
		qsort_r(output.lines, count, sizeof(*output.lines), compare_labels, &output);
	for (size_t i = 0; i < count; i++) {
		struct kernel_group *group = kern_sum->groups + output.lines[i].first;

		if (output.lines[i].count > 1)
			qsort_r(group, output.lines[i].count, sizeof(*group), compare_group_totals,
				kern_sum->kernels);
		for (size_t k = 0; k < output.lines[i].count; k++)
			output.rows[rows++] = (struct kernel_row){&output.lines[i], &group[k]};
	}
	kern_sum->stats->rows(kern_sum->stats, rows, make_kernel_row, &output);
	ws_text_free(&output.text);
	free(output.lines);
	free(output.rows);
}

/* ---- the report ---- */

static int combine_workers(struct kern_sum *kern_sum, struct ws_err *err)
{
	int status;

	ws_calls_free(&kern_sum->launches->calls); /* no longer needed, and memory peaks here */
	kern_sum->number_of_kernel =
		ws_calloc((size_t)ws_report_string_count(kern_sum->stats->report) + 1,
			  sizeof(*kern_sum->number_of_kernel));
	make_labels(kern_sum);
	gather_times(kern_sum);
	status = make_kernel_groups(kern_sum, err);
	if (!status) {
		count_instances(kern_sum);
		print_kernel_rows(kern_sum);
	}
	free(kern_sum->times);
	free(kern_sum->groups);
	free(kern_sum->kernels);
	free(kern_sum->number_of_kernel);
	free(kern_sum->trail_label);
	ws_keyed_free(&kern_sum->labels);
	return status;
}

static void scan_kernels_by_trail(struct kern_sum *kern_sum)
{
	struct ws_scan scan = {
		.table = WS_TABLE_cuda_kernel,
		.columns = WS_COLUMN_BIT(cuda_kernel, start) | WS_COLUMN_BIT(cuda_kernel, end) |
			   WS_COLUMN_BIT(cuda_kernel, process) |
			   WS_COLUMN_BIT(cuda_kernel, correlation) |
			   WS_COLUMN_BIT(cuda_kernel, demangled) |
			   UINT64_C(1) << kern_sum->name_column,
		.time_min = kern_sum->stats->time_min,
		.time_max = kern_sum->stats->time_max,
	};
	uint64_t damaged = 0;

	kern_sum->worker_count = ws_count_scan_workers(&scan);
	memset(kern_sum->workers, 0, kern_sum->worker_count * sizeof(*kern_sum->workers));
	for (uint32_t i = 0; i < kern_sum->worker_count; i++) {
		kern_sum->workers[i].pairs.recent = ws_calloc(RECENT, sizeof(uint64_t));
	}
	ws_run_scan(kern_sum->stats->report, &scan, scan_kernel_times, kern_sum, &damaged);
	kern_sum->stats->damaged += damaged;
	for (uint32_t worker = 0; worker < kern_sum->worker_count; worker++) {
		kern_sum->stats->unended += kern_sum->workers[worker].unended;
		kern_sum->stats->backwards += kern_sum->workers[worker].backwards;
	}
}

static int make_nvtx_kern_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	struct kern_sum kern_sum = {.stats = stats,
				    .name_column = ws_choose_kernel_name_column(stats)};
	int status;

	kern_sum.launches = ws_launches_open(stats, true, err);
	if (!kern_sum.launches)
		return -1;
	kern_sum.launches->fold = stats->fold;
	kern_sum.workers =
		aligned_alloc(128, ws_count_scan_workers(&any) * sizeof(*kern_sum.workers));
	if (!kern_sum.workers) {
		ws_launches_close(kern_sum.launches);
		return ws_fail(err, "out of memory");
	}
	status = ws_put_helper_launches(stats, kern_sum.launches, err);
	if (!status) {
		make_trails(&kern_sum);
		scan_kernels_by_trail(&kern_sum);
		status = combine_workers(&kern_sum, err);
	}
	for (uint32_t i = 0; i < kern_sum.worker_count; i++) {
		free(kern_sum.workers[i].pairs.values);
		free(kern_sum.workers[i].pairs.recent);
	}
	free(kern_sum.workers);
	free(kern_sum.trail);
	free(kern_sum.is_helpers_own);
	ws_keyed_free(&kern_sum.trails);
	ws_launches_close(kern_sum.launches);
	return status;
}

static const char *const args[] = {"base", "mangled", WS_HELPER_ARG, NULL};

const struct ws_stats_report ws_stat_nvtx_kern_sum = {
	.name = "nvtx_kern_sum",
	.title = "NVTX Range Kernel Summary",
	.about = "Kernels by the NVTX ranges of the launching thread that enclose the call; a "
		 "kernel counts for every range around it, "
		 "and without a range in those lines that show none. :base names functions only, "
		 ":mangled as the compiler does" WS_HELPER_HELP,
	.what = "CUDA kernels",
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.last_column_arg = WS_HELPER_ARG,
	.run = make_nvtx_kern_sum_rows,
};
