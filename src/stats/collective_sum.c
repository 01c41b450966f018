/*
 * collective_sum.c - collectives by communicator, operation, size, type of elements and rank, with
 * the bytes they should move.
 *
 * A trace says how many elements went in and came out on each rank. What comes out follows from
 * what went in, the operation and the number of ranks; where the two differ, ranks disagree about
 * the message, or pieces are of unequal size. Traffic is what a rank sends at least when the ranks
 * form a ring, as NCCL's documentation of its tests reckons bus bandwidth: 2(n-1)/n of the data for
 * an all-reduce, (n-1)/n of the larger side for all-gather, reduce-scatter and all-to-all, all of
 * it otherwise.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "stats/keyed.h"
#include "stats/std8.h"

static const struct ws_column columns[] = {
	WS_STD8("Instances"),
	{"Operation", WS_KIND_TEXT},
	{"Type", WS_KIND_TEXT},
	{"In", WS_KIND_SIZE},
	{"Out", WS_KIND_SIZE},
	{"Expected Out", WS_KIND_SIZE},
	{"Expected Traffic", WS_KIND_SIZE},
	{"Bandwidth", WS_KIND_RATE},
	{"Communicator", WS_KIND_TEXT},
	{"Ranks", WS_KIND_ID},
	{"Rank", WS_KIND_TEXT},
};

enum word { GROUP, NAME, TYPE, PROCESS, IN, OUT, WORDS };

struct group {
	uint64_t ranks; /* WS_NO_U32 when not known */
	uint32_t description;
};

struct sums {
	struct ws_keyed by;
	struct group *groups; /* of each key */
	size_t groups_cap;
};

static void load(struct ws_stats *s, struct sums *m)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_collective, s->time_min, s->time_max);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		uint64_t start = v[ws_collective_start], end = v[ws_collective_end];
		uint64_t key[WORDS] = {
			ws_report_string_key(s->r, (uint32_t)v[ws_collective_group]),
			ws_report_string_key(s->r, (uint32_t)v[ws_collective_name]),
			ws_report_string_key(s->r, (uint32_t)v[ws_collective_dtype]),
			v[ws_collective_process],
			v[ws_collective_in_elements],
			v[ws_collective_out_elements],
		};
		size_t had = m->by.n;
		struct ws_dist *d;

		if (end == WS_NO_TIME || end < start) {
			*(end == WS_NO_TIME ? &s->unended : &s->backwards) += 1;
			continue;
		}
		d = ws_keyed_get(&m->by, key);
		ws_dist_add(d, end - start);
		ws_grow(m->groups, m->groups_cap, m->by.n);
		if (m->by.n != had)
			m->groups[had] = (struct group){v[ws_collective_group_size],
							(uint32_t)v[ws_collective_description]};
	}
	ws_cursor_close(c);
}

/* Bytes of an element by the framework's name for its type; 0 when it is not known. */
static unsigned type_size(const char *name)
{
	static const struct {
		const char *name;
		unsigned size;
	} types[] = {{"Float", 4}, {"Double", 8}, {"Half", 2},	       {"BFloat16", 2},
		     {"Int", 4},   {"Long", 8},	  {"Short", 2},	       {"Byte", 1},
		     {"Char", 1},  {"Bool", 1},	  {"ComplexFloat", 8}, {"ComplexDouble", 16}};

	for (size_t i = 0; i < WS_COUNT(types); i++)
		if (!strcmp(name, types[i].name))
			return types[i].size;
	return strncmp(name, "Float8", 6) ? 0 : 1;
}

enum pattern { OTHER, SAME /* out as in */, ALL_REDUCE, ALL_TO_ALL, ALL_GATHER, REDUCE_SCATTER };

/* allreduce, all_reduce, _allgather_base: frameworks write them in several ways. */
static enum pattern pattern_of(const char *name)
{
	static const struct {
		const char *word;
		enum pattern pattern;
	} known[] = {{"allreduce", ALL_REDUCE},
		     {"allgather", ALL_GATHER},
		     {"reducescatter", REDUCE_SCATTER},
		     {"alltoall", ALL_TO_ALL},
		     {"broadcast", SAME}};
	char plain[64];
	size_t n = 0;

	for (; *name && n + 1 < sizeof(plain); name++)
		if (*name != '_')
			plain[n++] = *name >= 'A' && *name <= 'Z' ? (char)(*name + 32) : *name;
	plain[n] = 0;
	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (strstr(plain, known[i].word))
			return known[i].pattern;
	return OTHER;
}

struct sizes {
	long double in, out, expected, traffic; /* bytes; negative when not known */
};

static struct sizes sizes_of(const struct ws_stats *s, const uint64_t *key, uint64_t ranks)
{
	size_t len;
	unsigned size = type_size(ws_report_string(s->r, (uint32_t)key[TYPE], &len));
	enum pattern p = pattern_of(ws_report_string(s->r, (uint32_t)key[NAME], &len));
	long double n = ranks == WS_NO_U32 ? 0 : ranks, most;
	struct sizes z = {-1, -1, -1, -1};

	if (size && key[IN] != WS_NO_U64)
		z.in = (long double)key[IN] * size;
	if (size && key[OUT] != WS_NO_U64)
		z.out = (long double)key[OUT] * size;
	if (z.in < 0 || p == OTHER)
		return z;
	if (p == ALL_GATHER || p == REDUCE_SCATTER) {
		if (n < 1)
			return z;
		z.expected = p == ALL_GATHER ? z.in * n : z.in / n;
	} else {
		z.expected = z.in;
	}
	most = z.expected > z.in ? z.expected : z.in;
	if (p == SAME)
		z.traffic = most;
	else if (n >= 1)
		z.traffic = most * (n - 1) / n * (p == ALL_REDUCE ? 2 : 1);
	return z;
}

static struct ws_cell bytes(long double v)
{
	return v < 0 ? ws_cell_null() : ws_cell_real(v);
}

static struct ws_cell string(const struct ws_stats *s, uint64_t id)
{
	size_t len;
	const char *t = ws_report_string(s->r, (uint32_t)id, &len);

	return len ? ws_cell_text(t, len) : ws_cell_null();
}

static void print(const struct ws_gpu_work *w, const struct ws_std8 *v, const uint64_t *key,
		  const struct group *g, unsigned __int128 sum)
{
	struct ws_stats *s = w->s;
	struct sizes z = sizes_of(s, key, g->ranks);
	long double mean = ws_std8_mean(v);
	struct ws_text rank = {0};

	ws_gpu_work_process(w, (uint32_t)key[PROCESS], &rank);
	s->row(s, (struct ws_cell[]){
			  ws_cell_real(sum ? (long double)v->total * 100 / (long double)sum : 0),
			  ws_cell_int((int64_t)v->total),
			  ws_cell_int((int64_t)v->count),
			  ws_cell_real(mean),
			  ws_cell_real(ws_std8_median(v)),
			  ws_cell_int((int64_t)v->min),
			  ws_cell_int((int64_t)v->max),
			  ws_cell_real(v->stddev),
			  string(s, key[NAME]),
			  string(s, key[TYPE]),
			  bytes(z.in),
			  bytes(z.out),
			  bytes(z.expected),
			  bytes(z.traffic),
			  z.traffic < 0 || mean <= 0 ? ws_cell_null()
						     : ws_cell_real(z.traffic * 1000000000 / mean),
			  string(s, ws_report_string_key(s->r, g->description) ? g->description
									       : key[GROUP]),
			  g->ranks == WS_NO_U32 ? ws_cell_null() : ws_cell_int((int64_t)g->ranks),
			  ws_cell_text(rank.s, rank.len),
		  });
	ws_text_free(&rank);
}

static void print_all(const struct ws_gpu_work *w, const struct sums *m,
		      const struct ws_keyed_sums *all)
{
	struct ws_std8_line *lines = ws_calloc(all->n, sizeof(*lines));
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < all->n; i++) {
		lines[i].s = &all->s[i];
		lines[i].name = ws_report_string(w->s->r, (uint32_t)all->keys[i * WORDS + NAME],
						 &lines[i].name_len);
		sum += all->s[i].total;
	}
	ws_std8_sort(lines, all->n);
	for (size_t i = 0; i < all->n; i++) {
		size_t at = (size_t)(lines[i].s - all->s);

		print(w, lines[i].s, all->keys + at * WORDS, &m->groups[at], sum);
	}
	free(lines);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_stats unsaid = *s; /* what is wrong with other work on GPUs is not said here */
	struct sums m = {.by = {.words = WORDS, .per = 1}};
	struct ws_keyed_sums all;
	struct ws_gpu_work w;
	int rc = ws_gpu_work_open(&unsaid, &w, e);

	w.s = s;
	load(s, &m);
	ws_keyed_merge(&m.by, 1, NULL, NULL, &all);
	if (!rc)
		print_all(&w, &m, &all);
	ws_keyed_sums_free(&all);
	free(m.groups);
	ws_gpu_work_close(&w);
	return rc;
}

const struct ws_stat ws_stat_collective_sum = {
	.name = "collective_sum",
	.title = "Collective Communication Summary",
	.about = "Collectives by communicator, operation, size, type and rank, with the bytes that "
		 "went in and came out, those that should "
		 "come out, and what each rank sends at least in a ring",
	.what = "collectives",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
