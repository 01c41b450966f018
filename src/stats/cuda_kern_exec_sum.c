/*
 * cuda_kern_exec_sum.c - for each launching thread, device, function and kernel: how long the call
 * took, how long the kernel then waited, how long it ran, and all of it together.
 *
 * The wait is from the return of the call to the start of the kernel and counts only where it is
 * positive. Together is from the start of the call to the end of the kernel or the return of the
 * call, whichever is later. Kernels whose call was not recorded are not here.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/launch.h"
#include "text/texts.h"

#define FIVE(letter)                                                                              \
	{letter "Avg", WS_KIND_MEAN}, {letter "Med", WS_KIND_MEAN}, {letter "Min", WS_KIND_TIME}, \
		{letter "Max", WS_KIND_TIME},                                                     \
	{                                                                                         \
		letter "StdDev", WS_KIND_MEAN                                                     \
	}

static const struct ws_column columns[] = {
	{"PID", WS_KIND_ID},
	{"TID", WS_KIND_ID},
	{"DevId", WS_KIND_ID},
	{"Count", WS_KIND_COUNT},
	{"QCount", WS_KIND_COUNT},
	FIVE("T"),
	FIVE("A"),
	FIVE("Q"),
	FIVE("K"),
	{"API Name", WS_KIND_TEXT},
	{"Kernel Name", WS_KIND_TEXT},
};

enum { TOTAL, CALL, WAIT, KERNEL, DISTS };
enum { KEY_THREAD, KEY_DEVICE, KEY_FUNCTION, KEY_NAME, KEY_RANGE, KEY_WORDS };

struct worker {
	struct ws_keyed keyed;
	uint64_t unended, backwards;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *s;
	struct ws_launches *l;
	int name;
	bool ranges;
	struct worker *workers;
	struct ws_texts functions;
};

static void add(struct ws_dist *d, uint64_t call_start, uint64_t call_end, uint64_t start,
		uint64_t end)
{
	uint64_t last = end > call_end ? end : call_end;

	ws_dist_add(&d[TOTAL], last > call_start ? last - call_start : 0);
	ws_dist_add(&d[CALL], call_end - call_start);
	if (start > call_end)
		ws_dist_add(&d[WAIT], start - call_end);
	ws_dist_add(&d[KERNEL], end - start);
}

static int scan(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];
	uint64_t *const *calls = p->l->calls.rows.col;
	const uint64_t *start = b->col[ws_cuda_kernel_start], *end = b->col[ws_cuda_kernel_end];

	for (size_t i = 0; i < b->rows; i++) {
		uint32_t call = ws_launches_find(p->l, b->col[ws_cuda_kernel_process][i],
						 b->col[ws_cuda_kernel_correlation][i]);
		uint64_t key[KEY_WORDS], call_end;

		if (call == WS_NO_CALL)
			continue;
		call_end = calls[ws_cuda_api_end][call];
		if (ws_unlikely(end[i] == WS_NO_TIME || call_end == WS_NO_TIME ||
				end[i] < start[i] || call_end < calls[ws_cuda_api_start][call])) {
			*(end[i] == WS_NO_TIME || call_end == WS_NO_TIME ? &w->unended
									 : &w->backwards) += 1;
			continue;
		}
		key[KEY_THREAD] = calls[ws_cuda_api_thread][call];
		key[KEY_DEVICE] = b->col[ws_cuda_kernel_device][i];
		key[KEY_FUNCTION] = calls[ws_cuda_api_name][call];
		key[KEY_NAME] = b->col[p->name][i] ? b->col[p->name][i]
						   : b->col[ws_cuda_kernel_demangled][i];
		key[KEY_RANGE] = p->ranges ? p->l->label[p->l->enclose.of[call]] : 0;
		add(ws_keyed_get(&w->keyed, key), calls[ws_cuda_api_start][call], call_end,
		    start[i], end[i]);
	}
	return 0;
}

static void canonical(void *ctx, size_t worker, uint64_t *key)
{
	struct pass *p = ctx;
	size_t len;
	const char *function = ws_cuda_function(p->s->r, (uint32_t)key[KEY_FUNCTION], &len);

	(void)worker;
	key[KEY_THREAD] = ws_who_thread(p->s->who, (uint32_t)key[KEY_THREAD])->global_tid;
	key[KEY_FUNCTION] = ws_texts_number(&p->functions, function, len);
	key[KEY_NAME] = ws_report_string_key(p->s->r, (uint32_t)key[KEY_NAME]);
	key[KEY_RANGE] = p->ranges ? ws_launches_label_key(p->l, key[KEY_RANGE]) : 0;
}

/* ---- printing ---- */

static void put_five(struct ws_cell *c, const struct ws_std8 *s)
{
	bool any = s->count;

	c[0] = any ? ws_cell_real(ws_std8_mean(s)) : ws_cell_null();
	c[1] = any ? ws_cell_real(ws_std8_median(s)) : ws_cell_null();
	c[2] = any ? ws_cell_int((int64_t)s->min) : ws_cell_null();
	c[3] = any ? ws_cell_int((int64_t)s->max) : ws_cell_null();
	c[4] = ws_cell_real(s->stddev);
}

static void print_line(struct pass *p, const uint64_t *key, const struct ws_std8 *s)
{
	struct ws_cell c[WS_COUNT(columns)];
	size_t function_len, len;
	const char *function =
		ws_texts_get(&p->functions, (uint32_t)key[KEY_FUNCTION], &function_len);
	const char *kernel = ws_report_string(p->s->r, (uint32_t)key[KEY_NAME], &len);
	char *name = ws_launches_prefixed(p->l, key[KEY_RANGE], kernel, &len);

	c[0] = ws_cell_int((int64_t)(key[KEY_THREAD] >> 24 & 0xffffff));
	c[1] = ws_cell_int((int64_t)(key[KEY_THREAD] & 0xffffff));
	c[2] = ws_cell_int((int64_t)key[KEY_DEVICE]);
	c[3] = ws_cell_int((int64_t)s[TOTAL].count);
	c[4] = ws_cell_int((int64_t)s[WAIT].count);
	for (int i = 0; i < DISTS; i++)
		put_five(c + 5 + i * 5, &s[i]);
	c[25] = ws_cell_text(function, function_len);
	c[26] = ws_cell_text(name, len);
	p->s->row(p->s, c);
	free(name);
}

static int by_total(const void *a, const void *b, void *ctx)
{
	const struct ws_keyed_sums *sums = ctx;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	long double m = ws_std8_mean(&sums->s[x * DISTS]), n = ws_std8_mean(&sums->s[y * DISTS]);

	if (m != n)
		return m > n ? -1 : 1;
	return memcmp(sums->keys + x * KEY_WORDS, sums->keys + y * KEY_WORDS,
		      KEY_WORDS * sizeof(*sums->keys));
}

static void print(struct pass *p, struct ws_keyed_sums *sums)
{
	size_t *order = ws_malloc(sums->n * sizeof(*order));

	for (size_t i = 0; i < sums->n; i++)
		order[i] = i;
	if (sums->n)
		qsort_r(order, sums->n, sizeof(*order), by_total, sums);
	for (size_t i = 0; i < sums->n; i++)
		print_line(p, sums->keys + order[i] * KEY_WORDS, sums->s + order[i] * DISTS);
	free(order);
}

static void scan_kernels(struct pass *p)
{
	struct ws_scan sc = {
		.table = WS_TABLE_cuda_kernel,
		.columns = WS_COL(cuda_kernel, start) | WS_COL(cuda_kernel, end) |
			   WS_COL(cuda_kernel, device) | WS_COL(cuda_kernel, process) |
			   WS_COL(cuda_kernel, correlation) | WS_COL(cuda_kernel, demangled) |
			   UINT64_C(1) << p->name,
		.time_min = p->s->time_min,
		.time_max = p->s->time_max,
	};
	uint32_t workers = ws_scan_workers(&sc);
	struct ws_keyed *tables = ws_calloc(workers, sizeof(*tables));
	struct ws_keyed_sums sums;
	uint64_t damaged = 0;

	memset(p->workers, 0, workers * sizeof(*p->workers));
	for (uint32_t w = 0; w < workers; w++)
		p->workers[w].keyed = (struct ws_keyed){.words = KEY_WORDS, .per = DISTS};
	ws_scan_run(p->s->r, &sc, scan, p, &damaged);
	p->s->damaged += damaged;
	for (uint32_t w = 0; w < workers; w++) {
		tables[w] = p->workers[w].keyed;
		p->s->unended += p->workers[w].unended;
		p->s->backwards += p->workers[w].backwards;
	}
	ws_keyed_merge(tables, workers, canonical, p, &sums);
	print(p, &sums);
	ws_keyed_sums_free(&sums);
	free(tables);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_scan any = {.table = WS_TABLE_cuda_kernel};
	struct pass p = {
		.s = s, .name = ws_cuda_name_column(s), .ranges = ws_stats_arg(s, "nvtx-name")};

	p.l = ws_launches_open(s, p.ranges, e);
	if (!p.l)
		return -1;
	if (p.ranges)
		ws_launches_label(p.l);
	p.workers = aligned_alloc(128, ws_scan_workers(&any) * sizeof(*p.workers));
	if (!p.workers) {
		ws_launches_close(p.l);
		return ws_fail(e, "out of memory");
	}
	scan_kernels(&p);
	free(p.workers);
	ws_texts_free(&p.functions);
	ws_launches_close(p.l);
	return 0;
}

const struct ws_stat ws_stat_cuda_kern_exec_sum = {
	.name = "cuda_kern_exec_sum",
	.title = "CUDA Kernel Launch & Exec Time Summary",
	.about = "Kernels by launching thread, device, function and name: times of the call (A), "
		 "of the wait between its return and the "
		 "kernel (Q, where there was one), of the kernel (K) and of all together (T). "
		 "Arguments as for cuda_gpu_kern_sum",
	.what = "CUDA kernels with their calls",
	.unended = "had no end or no times",
	.args = ws_cuda_args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
