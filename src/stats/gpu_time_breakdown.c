/*
 * gpu_time_breakdown.c - how GPUs spent their time: computing, communicating, moving memory, idle.
 *
 * Work comes in order of start, so every length is that of a union made on the way
 * (query/intervals.h). A part is a GPU, one of its streams, a rank's share of it, a step, or the
 * ranges of a name; work is added to each part that it belongs to:
 *
 *   stream, rank   by what launched it or where it ran; the total is from the first start to the
 * last end in the part step           what ran between the step's start and its end, cut to that;
 * the total is the step range          what was launched inside; the totals of a range's instances,
 * each from the first start to the last end, are added up
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "text/texts.h"

static const struct ws_column columns[] = {
	{"GPU", WS_KIND_TEXT},
	{"Part", WS_KIND_TEXT},
	{"Total", WS_KIND_TIME},
	{"Busy", WS_KIND_TIME},
	{"Busy", WS_KIND_SHARE},
	{"Computation", WS_KIND_TIME},
	{"Computation", WS_KIND_SHARE},
	{"Communication", WS_KIND_TIME},
	{"Communication", WS_KIND_SHARE},
	{"Exposed Comm", WS_KIND_TIME},
	{"Exposed Comm", WS_KIND_SHARE},
	{"Memory", WS_KIND_TIME},
	{"Memory", WS_KIND_SHARE},
	{"Exposed Mem", WS_KIND_TIME},
	{"Exposed Mem", WS_KIND_SHARE},
	{"Idle", WS_KIND_TIME},
	{"Idle", WS_KIND_SHARE},
	{"Ops", WS_KIND_COUNT},
};

enum part_kind { BY_GPU, BY_STREAM, BY_RANK, BY_STEP, BY_RANGE };

/* What a line shows: sums over one or more of ws_work_times. */
struct line {
	uint64_t total, busy, compute, comm, exposed_comm, memory, exposed_memory, ops;
};

struct breakdown {
	struct ws_stats *s;
	struct ws_gpu_work w;
	enum part_kind kind;
	struct ws_launches *launches;
	struct ws_gpu_steps steps;
};

static void add_times(struct line *l, const struct ws_work_times *t, uint64_t total)
{
	l->total += total;
	l->busy += t->busy.length;
	l->compute += t->compute.length;
	l->comm += t->comm.length;
	l->exposed_comm += ws_work_exposed_comm(t);
	l->memory += t->memory.length;
	l->exposed_memory += ws_work_exposed_memory(t);
	l->ops += t->ops;
}

static void print(struct breakdown *b, const struct ws_work_gpu *g, const char *part, size_t len,
		  const struct line *l)
{
	uint64_t idle = l->total > l->busy ? l->total - l->busy : 0;
	const uint64_t times[] = {l->busy,   l->compute,	l->comm, l->exposed_comm,
				  l->memory, l->exposed_memory, idle};
	struct ws_cell cells[WS_COUNT(columns)];
	struct ws_text name = {0};
	size_t n = 0;

	ws_gpu_work_name(&b->w, g, &name);
	cells[n++] = ws_cell_text(name.s, name.len);
	cells[n++] = ws_cell_text(part, len);
	cells[n++] = ws_gpu_work_length(&b->w, l->total);
	for (size_t i = 0; i < WS_COUNT(times); i++) {
		cells[n++] = ws_gpu_work_length(&b->w, times[i]);
		cells[n++] = ws_cell_real(l->total ? (long double)times[i] * 100 / l->total : 0);
	}
	cells[n] = ws_cell_int((int64_t)l->ops);
	b->s->row(b->s, cells);
	ws_text_free(&name);
}

/* ---- whole GPUs, streams and ranks ---- */

struct part {
	uint32_t key; /* stream, or process */
	struct ws_work_times times;
};

struct parts {
	struct part *v;
	size_t n, cap, last;
};

static struct ws_work_times *part_of(struct parts *p, uint32_t key)
{
	if (p->last < p->n && p->v[p->last].key == key)
		return &p->v[p->last].times;
	for (p->last = 0; p->last < p->n && p->v[p->last].key != key;)
		p->last++;
	if (p->last == p->n) {
		ws_grow(p->v, p->cap, p->n + 1);
		p->v[p->n++] = (struct part){.key = key};
	}
	return &p->v[p->last].times;
}

static int by_key(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static void print_part(struct breakdown *b, const struct ws_work_gpu *g, const struct part *p)
{
	struct ws_text name = {0};
	struct line l = {0};

	if (b->kind == BY_GPU)
		ws_text_puts(&name, "all");
	else if (b->kind == BY_STREAM)
		ws_text_printf(&name, "stream %" PRIu32, p->key);
	else
		ws_gpu_work_process(&b->w, p->key, &name);
	add_times(&l, &p->times, p->times.last - p->times.first);
	print(b, g, name.s, name.len, &l);
	ws_text_free(&name);
}

static void by_place(struct breakdown *b, const struct ws_work_gpu *g)
{
	struct parts p = {0};
	uint64_t start, end;

	for (size_t i = 0; i < g->n; i++)
		if (ws_gpu_work_cut(&b->w, &g->op[i], &start, &end))
			ws_work_times_add(part_of(&p, b->kind == BY_GPU	     ? 0
						      : b->kind == BY_STREAM ? g->op[i].stream
									     : g->op[i].process),
					  g->op[i].class, start, end);
	if (p.n)
		qsort(p.v, p.n, sizeof(*p.v), by_key);
	for (size_t i = 0; i < p.n; i++)
		print_part(b, g, &p.v[i]);
	free(p.v);
}

/* ---- steps ---- */

static void add_to_steps(struct breakdown *b, const struct ws_work_op *op,
			 struct ws_work_times *times)
{
	const struct ws_step *v = b->steps.steps.v;
	size_t i, last;

	ws_gpu_steps_from(&b->steps, op->process, op->start, &i, &last);
	for (; i < last && (v[i].start < op->end || v[i].start == op->start); i++) {
		uint64_t start = op->start > v[i].start ? op->start : v[i].start,
			 end = op->end < v[i].end ? op->end : v[i].end;

		/* Work without length is work all the same; that at the end of a step belongs to
		 * what comes next. */
		if (end > start || (op->start == op->end && start < v[i].end && end == start))
			ws_work_times_add(&times[i], op->class, start, end);
	}
}

static void by_step(struct breakdown *b, const struct ws_work_gpu *g)
{
	const struct ws_steps *steps = &b->steps.steps;
	struct ws_work_times *times = ws_calloc(steps->n + 1, sizeof(*times));

	ws_gpu_steps_begin(&b->steps);
	for (size_t i = 0; i < g->n; i++)
		add_to_steps(b, &g->op[i], times);
	for (size_t i = 0; i < steps->n; i++) {
		const struct ws_step *s = &steps->v[i];
		struct ws_text name = {0};
		struct line l = {0};

		if (!times[i].ops || s->end < b->w.time_min || s->start > b->w.time_max)
			continue;
		add_times(&l, &times[i], s->end - s->start);
		ws_gpu_steps_name(&b->w, s, &name);
		print(b, g, name.s, name.len, &l);
		ws_text_free(&name);
	}
	free(times);
}

/* ---- ranges ---- */

struct named {
	struct line line;
	ws_range_key key;
};

static int by_total(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->line.total != y->line.total)
		return x->line.total > y->line.total ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static void by_range(struct breakdown *b, const struct ws_work_gpu *g)
{
	const struct ws_enclose_node *node = b->launches->enclose.node;
	struct ws_work_times *times = ws_calloc((size_t)b->launches->ranges.n + 1, sizeof(*times));
	struct ws_keyed keys = {.words = 1};
	struct named *named;

	for (size_t i = 0; i < g->n; i++) {
		uint32_t n = ws_launches_node(b->launches, g->op[i].process, g->op[i].correlation);
		uint64_t start, end;

		for (; n && ws_gpu_work_cut(&b->w, &g->op[i], &start, &end); n = node[n].parent)
			ws_work_times_add(&times[node[n].range], g->op[i].class, start, end);
	}
	for (uint32_t i = 0; i < b->launches->ranges.n; i++)
		if (times[i].ops)
			ws_keyed_get(&keys, &(ws_range_key){ws_launches_key(b->launches, i) &
							    ~WS_RANGE_STARTEND});
	named = ws_calloc(keys.n + 1, sizeof(*named));
	for (uint32_t i = 0; i < b->launches->ranges.n; i++) {
		if (!times[i].ops)
			continue;
		ws_keyed_get(&keys,
			     &(ws_range_key){ws_launches_key(b->launches, i) & ~WS_RANGE_STARTEND});
		named[keys.last].key = keys.keys[keys.last];
		add_times(&named[keys.last].line, &times[i], times[i].last - times[i].first);
	}
	if (keys.n)
		qsort(named, keys.n, sizeof(*named), by_total);
	for (size_t i = 0; i < keys.n; i++) {
		size_t len;
		char *name = ws_launches_range_name(b->launches, named[i].key, &len);

		print(b, g, name, len, &named[i].line);
		free(name);
	}
	ws_keyed_free(&keys);
	free(named);
	free(times);
}

/* ---- the report ---- */

/* Memory sets as computation, memory as copies alone: as other tools have it. */
static void take_sets(struct breakdown *b)
{
	for (size_t g = 0; g < b->w.work.gpus; g++)
		for (size_t i = 0; i < b->w.work.gpu[g].n; i++)
			if (b->w.work.gpu[g].op[i].set)
				b->w.work.gpu[g].op[i].class = WS_WORK_COMPUTE;
}

static void in_doubles(struct breakdown *b)
{
	ws_gpu_work_in_doubles(&b->w);
	for (size_t i = 0; i < b->steps.steps.n && b->w.parts > 1; i++) {
		struct ws_step *step = &b->steps.steps.v[i];

		step->start = ws_gpu_work_moment(&b->w, step->start);
		step->end = ws_gpu_work_moment(&b->w, step->end);
		b->steps.latest[i] = ws_gpu_work_moment(&b->w, b->steps.latest[i]);
	}
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	static const char *const words[] = {[BY_STREAM] = "stream",
					    [BY_RANK] = "rank",
					    [BY_STEP] = "step",
					    [BY_RANGE] = "range"};
	struct breakdown b = {.s = s};
	int rc;

	for (int i = BY_STREAM; i <= BY_RANGE; i++)
		if (ws_stats_arg(s, words[i]))
			b.kind = (enum part_kind)i;
	if (ws_stats_arg(s, "step=*"))
		b.kind = BY_STEP;
	rc = ws_gpu_work_open(s, &b.w, e);
	if (!rc && b.kind == BY_STEP)
		rc = ws_gpu_steps_open(s, ws_stats_arg(s, "step=*"), &b.steps, e);
	if (!rc && !ws_stats_arg(s, "exact"))
		in_doubles(&b);
	if (!rc && ws_stats_arg(s, "copies"))
		take_sets(&b);
	if (!rc && b.kind == BY_RANGE)
		rc = (b.launches = ws_launches_open(s, WS_ANY_RANGES, e)) ? 0 : -1;
	for (size_t i = 0; !rc && i < b.w.work.gpus; i++) {
		if (b.kind == BY_STEP)
			by_step(&b, &b.w.work.gpu[i]);
		else if (b.kind == BY_RANGE)
			by_range(&b, &b.w.work.gpu[i]);
		else
			by_place(&b, &b.w.work.gpu[i]);
	}
	ws_launches_close(b.launches);
	ws_gpu_steps_close(&b.steps);
	ws_gpu_work_close(&b.w);
	return rc;
}

static const char *const args[] = {"stream", "rank",   "step",	"step=*",
				   "range",  "copies", "exact", NULL};

const struct ws_stat ws_stat_gpu_time_breakdown = {
	.name = "gpu_time_breakdown",
	.title = "GPU Time Breakdown",
	.about = "How each GPU spent the time from its first work to its last: busy, computing, "
		 "communicating (NCCL), moving memory, idle; "
		 "exposed "
		 "is what no computation hides (and, for memory, no communication either). "
		 ":stream, :rank, :step or :range show the parts; "
		 ":step=NAME takes NVTX ranges of that name as steps. Memory is copies and sets; "
		 ":copies counts sets as computation, as "
		 "TraceLens does. Times of PyTorch's traces are those that doubles of its "
		 "microseconds give, "
		 "to compare with other tools' tables; :exact has the nanoseconds as they are "
		 "written",
	.what = "CUDA work on GPUs",
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
