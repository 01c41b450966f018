/*
 * cpu_gap_sum.c - what each thread did while a resource was idle: the time of its states that lies
 * in the gaps of a GPU, a stream, a thread or all cores.
 *
 * States of a thread and gaps both come in order, so each resource is walked along with each
 * thread. What a running thread did comes from its samples in gaps: the innermost function of
 * Python of each, or the innermost function where there is none.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sort.h"
#include "query/gaps.h"
#include "query/profile.h"
#include "stats/cuda.h"
#include "stats/keyed.h"
#include "stats/stats.h"

enum { RESOURCE, SHARE, TIME, COUNT, PID, TID, THREAD, STATE, REASON, FUNCTION, DOING, COLUMNS };

static const struct ws_column columns[COLUMNS] = {
	[RESOURCE] = {"Idle Resource", WS_KIND_TEXT},
	[SHARE] = {"Of Idle", WS_KIND_PERCENT},
	[TIME] = {"Time", WS_KIND_TIME},
	[COUNT] = {"Spans", WS_KIND_COUNT},
	[PID] = {"PID", WS_KIND_ID},
	[TID] = {"TID", WS_KIND_ID},
	[THREAD] = {"Thread", WS_KIND_TEXT},
	[STATE] = {"State", WS_KIND_TEXT},
	[REASON] = {"Reason", WS_KIND_TEXT},
	[FUNCTION] = {"Call", WS_KIND_TEXT},
	[DOING] = {"Sampled In", WS_KIND_TEXT},
};

static const char *const args[] = {"gpu=", "stream=", "thread=", "cpu", "min=", NULL};

enum { K_RESOURCE, K_THREAD, K_DOING, K_WAIT, K_FUNCTION, KEY_WORDS };

struct entry {
	uint64_t key[KEY_WORDS];
	uint64_t time, count;
};

struct worker {
	struct ws_keyed keys; /* numbers only */
	struct entry *v;
	size_t n, cap;
	size_t *at; /* by resource: where the current thread is in its gaps */
	uint32_t thread;
	/* samples in gaps: number of (resource, thread, function) */
	struct ws_keyed sampled;
	uint64_t *samples;
	size_t samples_n, samples_cap;
} __attribute__((aligned(128)));

struct pass {
	struct ws_stats *s;
	struct ws_gaps gaps;
	struct ws_stacks *stacks;
	struct ws_samples samples;
	struct worker *workers;
	uint32_t count;
};

/* ---- states in gaps ---- */

static void add(struct worker *w, const uint64_t *key, uint64_t time, uint64_t count)
{
	ws_keyed_get(&w->keys, key);
	if (w->keys.last == w->n) {
		ws_grow(w->v, w->cap, w->n + 1);
		memset(&w->v[w->n], 0, sizeof(*w->v));
		memcpy(w->v[w->n++].key, key, sizeof(w->v->key));
	}
	w->v[w->keys.last].time += time;
	w->v[w->keys.last].count += count;
}

static void take(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[worker];

	if (w->thread != st->thread) {
		w->thread = st->thread;
		memset(w->at, 0, p->gaps.n * sizeof(*w->at));
	}
	for (size_t i = 0; i < p->gaps.n; i++) {
		uint64_t pieces = 0, time = ws_gaps_overlap(&p->gaps.v[i], st->start, st->end,
							    &w->at[i], &pieces);
		uint64_t key[KEY_WORDS] = {i, st->thread, st->doing, st->wait,
					   ws_report_string_key(p->s->r, st->function)};

		if (time)
			add(w, key, time, pieces);
	}
}

/* ---- samples in gaps ---- */

static bool in_gap(const struct ws_gap_list *l, uint64_t at)
{
	/* the first gap that ends after `at` */
	size_t low = ws_bisect(l->gaps.n, mid, l->gaps.v[mid].end <= at);

	return low < l->gaps.n && l->gaps.v[low].start <= at;
}

/* The function to name: Python's innermost, else the innermost of all. */
static uint32_t doing(const struct ws_stacks *s, uint32_t frame, uint32_t stack)
{
	uint32_t first = 0;

	for (size_t steps = 0; (frame || stack) && steps < WS_STACKS_DEEPEST; steps++) {
		const struct ws_frame_info *f;

		if (!frame)
			frame = ws_stacks_step(s, stack, &stack);
		f = ws_stacks_frame(s, frame);
		if (f->kind == WS_FRAME_PYTHON)
			return ws_stacks_places(s, f)->function;
		if (!first && frame)
			first = ws_stacks_places(s, f)->function;
		frame = 0;
	}
	return first;
}

static int scan_samples(void *ctx, const struct ws_batch *b)
{
	struct pass *p = ctx;
	struct worker *w = &p->workers[b->worker];

	for (size_t i = 0; i < b->rows; i++)
		for (size_t g = 0; g < p->gaps.n; g++) {
			uint64_t key[3] = {g, b->col[ws_sample_thread][i], 0};

			if (!ws_samples_wanted(&p->samples, b->col[ws_sample_event][i],
					       b->col[ws_sample_flags][i]) ||
			    !in_gap(&p->gaps.v[g], b->col[ws_sample_start][i]))
				continue;
			key[2] = doing(p->stacks, (uint32_t)b->col[ws_sample_frame][i],
				       (uint32_t)b->col[ws_sample_callers][i]);
			ws_keyed_get(&w->sampled, key);
			if (w->sampled.last == w->samples_n) {
				ws_grow(w->samples, w->samples_cap, w->samples_n + 1);
				w->samples[w->samples_n++] = 0;
			}
			w->samples[w->sampled.last]++;
		}
	return 0;
}

/* ---- printing ---- */

struct sampled {
	uint64_t resource, thread, function, samples;
};

static int by_samples(const void *a, const void *b)
{
	const struct sampled *x = a, *y = b;

	if (x->resource != y->resource)
		return x->resource < y->resource ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

struct output {
	struct pass *p;
	struct entry *v;
	size_t n;
	struct sampled *samples;
	size_t sample_count;
	struct ws_map ran; /* resource << 32 | thread: time that it ran in gaps */
};

enum { NAMED = 3 }; /* functions in the column of what was sampled */

static void put_sampled(const struct output *o, const uint64_t *key, struct ws_text *t)
{
	struct sampled want = {key[K_RESOURCE], key[K_THREAD], 0, UINT64_MAX};
	size_t low, high;
	uint64_t sum = 0;

	low = ws_bisect(o->sample_count, mid, by_samples(&o->samples[mid], &want) < 0);
	for (high = low; high < o->sample_count && o->samples[high].resource == want.resource &&
			 o->samples[high].thread == want.thread;
	     high++)
		sum += o->samples[high].samples;
	for (size_t i = low; i < high && i < low + NAMED; i++) {
		const struct ws_function *f =
			ws_stacks_function(o->p->stacks, (uint32_t)o->samples[i].function);

		ws_text_puts(t, t->len ? ", " : "");
		ws_text_add(t, f->name, f->len);
		ws_text_printf(t, " (%" PRIu64 "%%)",
			       (o->samples[i].samples * 100 + sum / 2) / sum);
	}
}

/* By resource, then the threads that ran most first, then the states that lasted longest. */
static int by_importance(const void *a, const void *b, void *ctx)
{
	const struct output *o = ctx;
	const struct entry *x = a, *y = b;
	uint64_t i, k;

	if (x->key[K_RESOURCE] != y->key[K_RESOURCE])
		return x->key[K_RESOURCE] < y->key[K_RESOURCE] ? -1 : 1;
	i = ws_map_get(&o->ran, x->key[K_RESOURCE] << 32 | x->key[K_THREAD], NULL);
	k = ws_map_get(&o->ran, y->key[K_RESOURCE] << 32 | y->key[K_THREAD], NULL);
	if (i != k)
		return i > k ? -1 : 1;
	if (x->key[K_THREAD] != y->key[K_THREAD])
		return x->key[K_THREAD] < y->key[K_THREAD] ? -1 : 1;
	if (x->time != y->time)
		return x->time > y->time ? -1 : 1;
	return memcmp(x->key, y->key, sizeof(x->key));
}

static struct ws_cell text(const char *s)
{
	return ws_cell_text(s, strlen(s));
}

static void print_entry(const struct output *o, const struct entry *v, struct ws_text *sampled)
{
	static const char *const states[WS_DOINGS] = {"not known", "running", "runnable",
						      "waiting"};
	const struct ws_gap_list *l = &o->p->gaps.v[v->key[K_RESOURCE]];
	const struct ws_thread_info *t = ws_who_thread(o->p->s->who, (uint32_t)v->key[K_THREAD]);
	struct ws_cell c[COLUMNS];
	const char *function;
	size_t len;

	sampled->len = 0;
	ws_text_puts(sampled, "");
	if (v->key[K_DOING] == WS_DOING_RUN && !v->key[K_WAIT])
		put_sampled(o, v->key, sampled);
	c[RESOURCE] = text(l->name);
	c[SHARE] = ws_cell_real(l->total ? (long double)v->time * 100 / l->total : 0);
	c[TIME] = ws_cell_int((int64_t)v->time);
	c[COUNT] = ws_cell_int((int64_t)v->count);
	c[PID] = ws_cell_int(t->pid);
	c[TID] = ws_cell_int(t->tid);
	c[THREAD] = text(t->name);
	c[STATE] = text(states[v->key[K_DOING]]);
	c[REASON] = v->key[K_WAIT] || v->key[K_DOING] == WS_DOING_WAIT
			    ? text(ws_wait_name((enum ws_wait)v->key[K_WAIT]))
			    : text("");
	function = ws_cuda_function(o->p->s->r, (uint32_t)v->key[K_FUNCTION], &len);
	c[FUNCTION] = ws_cell_text(function, len);
	c[DOING] = ws_cell_text(sampled->s, sampled->len);
	o->p->s->row(o->p->s, c);
}

static int by_key(const void *a, const void *b)
{
	return memcmp(((const struct entry *)a)->key, ((const struct entry *)b)->key,
		      sizeof(((const struct entry *)a)->key));
}

/* All workers' entries and samples, the same keys together. */
static void collect(struct output *o)
{
	size_t cap = 0, sample_cap = 0;

	for (uint32_t k = 0; k < o->p->count; k++) {
		struct worker *w = &o->p->workers[k];

		ws_grow(o->v, cap, o->n + w->n);
		if (w->n)
			memcpy(o->v + o->n, w->v, w->n * sizeof(*w->v));
		o->n += w->n;
		for (size_t i = 0; i < w->sampled.n; i++) {
			const uint64_t *key = w->sampled.keys + i * 3;

			ws_grow(o->samples, sample_cap, o->sample_count + 1);
			o->samples[o->sample_count++] =
				(struct sampled){key[0], key[1], key[2], w->samples[i]};
		}
	}
	if (o->n)
		qsort(o->v, o->n, sizeof(*o->v), by_key);
	for (size_t i = 0; i < o->n; i++) { /* a thread's states are one worker's: keys differ */
		uint64_t key = o->v[i].key[K_RESOURCE] << 32 | o->v[i].key[K_THREAD];

		if (o->v[i].key[K_DOING] == WS_DOING_RUN)
			ws_map_set(&o->ran, key, ws_map_get(&o->ran, key, NULL) + o->v[i].time);
	}
}

static int by_function(const void *a, const void *b)
{
	const struct sampled *x = a, *y = b;

	if (x->resource != y->resource)
		return x->resource < y->resource ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static void merge_samples(struct output *o)
{
	size_t kept = 0;

	if (o->sample_count)
		qsort(o->samples, o->sample_count, sizeof(*o->samples), by_function);
	for (size_t i = 0; i < o->sample_count; i++) {
		if (kept && !by_function(&o->samples[kept - 1], &o->samples[i]))
			o->samples[kept - 1].samples += o->samples[i].samples;
		else
			o->samples[kept++] = o->samples[i];
	}
	o->sample_count = kept;
	if (kept)
		qsort(o->samples, kept, sizeof(*o->samples), by_samples);
}

static void print(struct pass *p)
{
	struct output o = {.p = p};
	struct ws_text sampled = {0};

	collect(&o);
	merge_samples(&o);
	if (o.n)
		qsort_r(o.v, o.n, sizeof(*o.v), by_importance, &o);
	for (size_t i = 0; i < o.n; i++)
		print_entry(&o, &o.v[i], &sampled);
	ws_text_free(&sampled);
	ws_map_free(&o.ran);
	free(o.v);
	free(o.samples);
}

/* ---- the whole ---- */

static uint32_t number(const struct ws_stats *s, const char *name)
{
	const char *arg = ws_stats_arg(s, name);

	return arg ? (uint32_t)strtoull(arg, NULL, 10) : WS_NO_U32;
}

static bool any_gpu(const struct ws_report *r)
{
	for (int k = WS_CUDA_KERNEL; k < WS_CUDA_SOURCES; k++)
		if (ws_report_rows(r, ws_cuda_columns[k].table))
			return true;
	return false;
}

static struct ws_gaps_request request(const struct ws_stats *s)
{
	const char *shortest = ws_stats_arg(s, "min=");
	struct ws_gaps_request q = {
		.gpu = number(s, "gpu="),
		.stream = number(s, "stream="),
		.thread = number(s, "thread="),
		.shortest = shortest ? strtoull(shortest, NULL, 10) : 0,
		.time_min = s->time_min,
		.time_max = s->time_max,
	};

	q.resource = q.thread != WS_NO_U32		   ? WS_RESOURCE_THREAD
		     : ws_stats_arg(s, "cpu")		   ? WS_RESOURCE_CPU
		     : q.stream != WS_NO_U32		   ? WS_RESOURCE_STREAM
		     : q.gpu != WS_NO_U32 || any_gpu(s->r) ? WS_RESOURCE_GPU
							   : WS_RESOURCE_CPU;
	return q;
}

static int walk(struct pass *p, const struct ws_states *states, struct ws_err *e)
{
	struct ws_stats *s = p->s;
	struct ws_scan sc = {
		.table = WS_TABLE_sample,
		.columns = WS_COL(sample, start) | WS_COL(sample, thread) | WS_COL(sample, frame) |
			   WS_COL(sample, callers) | WS_COL(sample, event) | WS_COL(sample, flags),
		.time_min = s->time_min,
		.time_max = s->time_max,
	};
	uint64_t damaged = 0;

	p->count = ws_scan_workers(&sc);
	if (p->count < ws_states_workers(states))
		p->count = ws_states_workers(states);
	p->workers = aligned_alloc(128, p->count * sizeof(*p->workers));
	if (!p->workers)
		return ws_fail(e, "out of memory");
	memset(p->workers, 0, p->count * sizeof(*p->workers));
	for (uint32_t i = 0; i < p->count; i++) {
		p->workers[i].keys.words = KEY_WORDS;
		p->workers[i].sampled.words = 3;
		p->workers[i].at = ws_calloc(p->gaps.n, sizeof(*p->workers[i].at));
	}
	ws_states_run(states, s->time_min, s->time_max, take, p);
	ws_samples_choose(s->r, NULL, &p->samples, e);
	p->stacks = ws_stacks_open(s->r, &s->damaged);
	ws_scan_run(s->r, &sc, scan_samples, p, &damaged);
	s->damaged += damaged;
	print(p);
	for (uint32_t i = 0; i < p->count; i++) {
		ws_keyed_free(&p->workers[i].keys);
		ws_keyed_free(&p->workers[i].sampled);
		free(p->workers[i].v);
		free(p->workers[i].at);
		free(p->workers[i].samples);
	}
	free(p->workers);
	ws_stacks_close(p->stacks);
	return 0;
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_gaps_request q = request(s);
	struct pass p = {.s = s};
	struct ws_states *states;
	int rc;

	if (q.resource == WS_RESOURCE_CPU && !ws_stats_arg(s, "cpu") &&
	    !ws_report_rows(s->r, WS_TABLE_sched))
		return 0; /* neither GPUs nor scheduling: nothing to show, and nothing in particular
			     was asked for */
	states = ws_states_open_part(s->r, s->who,
				     &(struct ws_states_part){.to = UINT64_MAX, .brief = true},
				     &s->damaged);
	rc = ws_gaps_find(s->r, s->who, states, &q, &p.gaps, e);
	s->damaged += p.gaps.damaged;
	if (!rc)
		rc = walk(&p, states, e);
	ws_gaps_free(&p.gaps);
	ws_states_close(states);
	return rc;
}

const struct ws_stat ws_stat_cpu_gap_sum = {
	.name = "cpu_gap_sum",
	.title = "What Threads Did While a Resource Was Idle",
	.about = "Of the time in which a resource did nothing, between its first and its last "
		 "work: how long each thread ran, was "
		 "runnable or "
		 "waited, and for what; for running threads, the functions that were sampled most. "
		 "The resource is each GPU, or all "
		 "cores where "
		 "there is none; :gpu=<n>, :stream=<n>, :thread=<tid> and :cpu choose one; "
		 ":min=<ns> leaves out shorter gaps.",
	.what = "gaps",
	.args = args,
	.columns = columns,
	.column_count = COLUMNS,
	.run = run,
};
