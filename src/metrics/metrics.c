/* metrics.c - see metrics.h: the thread that reads values, and the queue of values. */
#include "metrics/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ticks.h"
#include "metrics/source.h"

#define SECOND UINT64_C(1000000000)
#define MOST_VALUES ((size_t)1 << 20) /* not fetched yet: values beyond this are dropped */
#define AGAIN_SECONDS 5u
#define BUDGET_NS 170000    /* of processor time for a reading, so that the thread takes 0.2 ms */
#define WHOLE_BYTES 3072    /* largest size of a file that is read in one go */
#define END_NS (SECOND / 4) /* how long to wait for the last reading */

static const struct {
	const char *word, *heading;
} groups[] = {
#define WS_METRIC_GROUP(ID, word, heading) [WS_METRIC_##ID] = {word, heading},
#include "metrics/metrics.def"
};

/* In the order in which their values are shown. */
static const struct ws_metric_source *const sources[] = {&ws_metric_nvml,      &ws_metric_tables,
							 &ws_metric_words,     &ws_metric_files,
							 &ws_metric_processes, &ws_metric_drm};

/* What is remembered of a metric between two readings. */
struct last {
	uint64_t total, total_time; /* of a number that grows; 0: no reading yet */
	double value;		    /* the last value that was handed on */
	bool known;
	bool shown; /* it has had a value other than 0 */
};

struct ws_metrics {
	struct ws_metrics_opts opts;
	void *state[WS_COUNT(sources)];
	uint64_t costs[WS_COUNT(sources)]; /* ns of processor time, about */
	unsigned turns[WS_COUNT(sources)]; /* a source is read once in so many turns */
	bool opened, ending;		   /* ending: this is the last reading */
	uint64_t now, first; /* time of this reading and of the first of the collection, raw ns */
	unsigned turn;
	struct last *last;
	size_t last_cap;

	pthread_t thread;
	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t changed;
	bool collecting, begun, reading, quit;
	uint64_t links_left_out;    /* bits of GPUs */
	struct ws_metric **metrics; /* elements never move */
	size_t metric_count, metric_cap;
	struct ws_metric_value *values;
	size_t value_count, value_cap;
	int *pids;
	size_t pid_count;
	char *complaint;
};

/* ---- for sources ---- */

bool ws_metric_wants(const struct ws_metrics *metrics, enum ws_metric_group group)
{
	return metrics->opts.groups >> group & 1;
}

const char *ws_metric_heading(enum ws_metric_group group)
{
	return groups[group].heading;
}

bool ws_metric_is_worth_more(const struct ws_metrics *metrics)
{
	return metrics->turn >= 2;
}

bool ws_metric_is_slow_turn(const struct ws_metrics *metrics)
{
	return metrics->turn % metrics->opts.hz == 0;
}

unsigned ws_metric_get_turn(const struct ws_metrics *metrics)
{
	return metrics->turn;
}

unsigned ws_metric_get_hz(const struct ws_metrics *metrics)
{
	return metrics->opts.hz;
}

bool ws_metric_is_first_turn(const struct ws_metrics *metrics)
{
	return metrics->turn == 0;
}

bool ws_metric_is_last_turn(const struct ws_metrics *metrics)
{
	return metrics->ending;
}

uint32_t ws_metric_add(struct ws_metrics *metrics, const struct ws_metric *metric)
{
	struct ws_metric *copy = ws_malloc(sizeof(*copy));
	uint32_t index;

	*copy = *metric;
	copy->name = ws_strdup(metric->name);
	copy->identity = metric->identity ? ws_strdup(metric->identity) : NULL;
	if (!copy->heading)
		copy->heading = groups[metric->group].heading;
	pthread_mutex_lock(&metrics->lock);
	index = (uint32_t)metrics->metric_count;
	ws_grow(metrics->metrics, metrics->metric_cap, metrics->metric_count + 1);
	metrics->metrics[metrics->metric_count++] = copy;
	pthread_mutex_unlock(&metrics->lock);
	ws_grow(metrics->last, metrics->last_cap, (size_t)index + 1);
	metrics->last[index] = (struct last){0};
	return index;
}

static void append_value(struct ws_metrics *metrics, struct ws_metric_value value)
{
	pthread_mutex_lock(&metrics->lock);
	if (metrics->value_count < MOST_VALUES) {
		ws_grow(metrics->values, metrics->value_cap, metrics->value_count + 1);
		metrics->values[metrics->value_count++] = value;
	}
	pthread_mutex_unlock(&metrics->lock);
}

/* Nothing is reported about values that were always 0: a machine has many unused devices. */
static void hand_on(struct ws_metrics *metrics, struct ws_metric_value value)
{
	struct last *last = &metrics->last[value.metric];
	bool same = last->known && last->value == value.value;

	/* Rates are repeated, so that their integral is the total growth. */
	if (!isfinite(value.value) || (same && (!value.span || value.value == 0)))
		return;
	if (value.value != 0 && !last->shown && last->known) /* it has been 0 until now */
		append_value(metrics, (struct ws_metric_value){metrics->first, 0, 0, value.metric});
	last->shown |= value.value != 0;
	last->known = true;
	last->value = value.value;
	if (last->shown)
		append_value(metrics, value);
}

void ws_metric_put(struct ws_metrics *metrics, uint32_t index, double value)
{
	hand_on(metrics, (struct ws_metric_value){metrics->now, 0, value, index});
}

void ws_metric_put_total(struct ws_metrics *metrics, uint32_t index, uint64_t total, double scale)
{
	struct last *last = &metrics->last[index];
	uint64_t since = last->total_time, span = metrics->now - since;
	double most = metrics->metrics[index]->most, value;
	bool comparable = since && span && total >= last->total;

	value = comparable ? (double)(total - last->total) * scale * 1e9 / (double)span : 0;
	if (most > 0)
		value = ws_min(value, most);
	last->total = total;
	last->total_time = metrics->now;
	if (comparable)
		hand_on(metrics, (struct ws_metric_value){since, span, value, index});
}

bool ws_metric_leaves_links_out(struct ws_metrics *metrics, unsigned gpu)
{
	bool left_out;

	pthread_mutex_lock(&metrics->lock);
	left_out = gpu < 64 && metrics->links_left_out >> gpu & 1;
	pthread_mutex_unlock(&metrics->lock);
	return left_out;
}

void ws_metrics_leave_links_out(struct ws_metrics *metrics, uint64_t gpus)
{
	pthread_mutex_lock(&metrics->lock);
	metrics->links_left_out = gpus;
	pthread_mutex_unlock(&metrics->lock);
}

int *ws_metric_get_processes(struct ws_metrics *metrics, size_t *n)
{
	int *pids;

	pthread_mutex_lock(&metrics->lock);
	*n = metrics->pid_count;
	pids = ws_malloc((*n + 1) * sizeof(*pids));
	if (*n)
		memcpy(pids, metrics->pids, *n * sizeof(*pids));
	pthread_mutex_unlock(&metrics->lock);
	return pids;
}

void ws_metric_complain(struct ws_metrics *metrics, const char *sentence)
{
	pthread_mutex_lock(&metrics->lock);
	free(metrics->complaint);
	metrics->complaint = ws_strdup(sentence);
	pthread_mutex_unlock(&metrics->lock);
}

char *ws_metric_path(const char *path)
{
	const char *root = getenv("WARPSIGHT_METRICS_ROOT"); /* for tests: a mock tree */

	return ws_format("%s%s", root ? root : "", path);
}

int ws_metric_open(const char *path)
{
	char *real = ws_metric_path(path);
	int fd = open(real, O_RDONLY | O_CLOEXEC);

	free(real);
	return fd;
}

/* The kernel returns such files page by page, and a page that is not the last lacks less than one
 * record, so it has at least WHOLE_BYTES: a shorter read is the last. */
size_t ws_metric_reread(int fd, char *text, size_t size)
{
	size_t have = 0;
	ssize_t n = WHOLE_BYTES;

	while (fd >= 0 && n >= WHOLE_BYTES && have + 1 < size &&
	       (n = pread(fd, text + have, size - 1 - have, (off_t)have)) > 0)
		have += (size_t)n;
	text[have] = 0;
	return have;
}

/* ---- the thread ---- */

static void open_sources(struct ws_metrics *metrics)
{
	for (size_t i = 0; i < WS_COUNT(sources); i++)
		if (sources[i]->groups & metrics->opts.groups)
			metrics->state[i] = sources[i]->open(metrics);
	metrics->opened = true;
}

void ws_metrics_space_out(const uint64_t *costs, size_t n, uint64_t budget, unsigned most,
			  unsigned *turns)
{
	uint64_t sum = 0, dearest = 1;

	for (size_t i = 0; i < n; i++) {
		turns[i] = 1;
		sum += costs[i];
	}
	while (sum > budget && dearest) {
		size_t at = 0;

		dearest = 0;
		for (size_t i = 0; i < n; i++)
			if (turns[i] < most && costs[i] / turns[i] > dearest) {
				dearest = costs[i] / turns[i];
				at = i;
			}
		if (dearest)
			sum -= dearest - costs[at] / ++turns[at];
	}
}

uint64_t ws_metric_read_processor_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static void read_source(struct ws_metrics *metrics, size_t i)
{
	uint64_t before = ws_metric_read_processor_ns(), cost;

	sources[i]->read(metrics, metrics->state[i]);
	cost = ws_metric_read_processor_ns() - before;
	/* The first readings open files; NVML has a budget of its own. */
	if (metrics->turn < 3 || sources[i] == &ws_metric_nvml)
		return;
	if (metrics->costs[i])
		cost = (metrics->costs[i] * 7 + cost) / 8;
	metrics->costs[i] = cost;
}

static bool is_due(const struct ws_metrics *metrics, size_t i)
{
	return metrics->state[i] && (metrics->turn % metrics->turns[i] == 0 || metrics->ending ||
				     ws_metric_is_slow_turn(metrics));
}

static void begin_anew(struct ws_metrics *metrics)
{
	if (!metrics->opened)
		open_sources(metrics);
	metrics->turn = 0;
	for (size_t i = 0; i < WS_COUNT(sources); i++) {
		metrics->turns[i] = 1;
		metrics->costs[i] = 0;
	}
	metrics->first = ws_read_raw_ns();
	for (size_t i = 0; i < metrics->metric_count; i++)
		metrics->last[i] = (struct last){0};
}

static void read_all(struct ws_metrics *metrics)
{
	metrics->now = ws_read_raw_ns();
	/* A flight recorder drops old values, so unchanged values are repeated. */
	if (metrics->turn % (AGAIN_SECONDS * metrics->opts.hz) == 0)
		for (size_t i = 0; i < metrics->metric_count; i++)
			metrics->last[i].known = false;
	for (size_t i = 0; i < WS_COUNT(sources); i++)
		if (is_due(metrics, i))
			read_source(metrics, i);
	if (ws_metric_is_slow_turn(metrics))
		ws_metrics_space_out(metrics->costs, WS_COUNT(sources), BUDGET_NS, metrics->opts.hz,
				     metrics->turns);
	metrics->turn++;
}

static void wait_until(struct ws_metrics *metrics, uint64_t ns_from_now)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns_from_now += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns_from_now / SECOND);
	until.tv_nsec = (long)(ns_from_now % SECOND);
	pthread_cond_timedwait(&metrics->changed, &metrics->lock, &until);
}

/* Called with the lock held; releases it while values are read. */
static void take_reading(struct ws_metrics *metrics)
{
	bool anew = metrics->begun;

	metrics->begun = false;
	metrics->reading = true;
	metrics->ending = !metrics->collecting;
	pthread_mutex_unlock(&metrics->lock);
	if (anew)
		begin_anew(metrics);
	read_all(metrics);
	pthread_mutex_lock(&metrics->lock);
	metrics->reading = false;
	pthread_cond_broadcast(&metrics->changed);
}

static void *follow_machine(void *arg)
{
	struct ws_metrics *metrics = arg;
	uint64_t period = SECOND / metrics->opts.hz, next = 0;
	bool was_collecting = false;

	pthread_mutex_lock(&metrics->lock);
	while (!metrics->quit) {
		uint64_t now = ws_read_raw_ns();

		if (metrics->begun) {
			next = now + period;
			was_collecting = true;
			take_reading(metrics);
		} else if (was_collecting && !metrics->collecting) { /* the last reading */
			was_collecting = false;
			take_reading(metrics);
		} else if (metrics->collecting && now >= next) {
			/* After a delay, do not read twice to catch up. */
			next = now + period - (now - next) % period;
			take_reading(metrics);
		} else if (metrics->collecting) {
			wait_until(metrics, next - now);
		} else {
			pthread_cond_wait(&metrics->changed, &metrics->lock);
		}
	}
	pthread_mutex_unlock(&metrics->lock);
	return NULL;
}

/* ---- for the recorder ---- */

static int find_group(const char *word, size_t length)
{
	for (size_t i = 0; i < WS_COUNT(groups); i++)
		if (strlen(groups[i].word) == length && !memcmp(groups[i].word, word, length))
			return (int)i;
	return -1;
}

int ws_metrics_parse_groups(const char *words, uint32_t *out, struct ws_err *err)
{
	uint32_t wanted = 0;

	if (!strcmp(words, "all") || !strcmp(words, "none")) {
		*out = words[0] == 'a' ? WS_METRICS_ALL : 0;
		return 0;
	}
	for (const char *word = words; word;) {
		size_t length = strcspn(word, ",");
		int group = find_group(word, length);

		if (group < 0)
			return ws_fail(err,
				       "--system-metrics: '%.*s' is no group: all, none, cpu, "
				       "memory, disk, network, pressure, cgroup, power, process "
				       "and gpu are",
				       (int)ws_min(length, (size_t)100), word);
		wanted |= 1u << group;
		word = word[length] ? word + length + 1 : NULL;
	}
	*out = wanted;
	return 0;
}

struct ws_metrics *ws_metrics_new(const struct ws_metrics_opts *opts)
{
	struct ws_metrics *metrics;
	pthread_condattr_t attr;
	sigset_t all, old;
	int error;

	if (!opts->groups)
		return NULL;
	metrics = ws_calloc(1, sizeof(*metrics));
	metrics->opts = *opts;
	pthread_mutex_init(&metrics->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&metrics->changed, &attr);
	pthread_condattr_destroy(&attr);
	sigfillset(&all); /* signals are left to the recording thread */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&metrics->thread, NULL, follow_machine, metrics);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error) {
		free(metrics);
		return NULL;
	}
	return metrics;
}

void ws_metrics_begin(struct ws_metrics *metrics)
{
	if (!metrics)
		return;
	pthread_mutex_lock(&metrics->lock);
	metrics->collecting = metrics->begun = true;
	pthread_cond_broadcast(&metrics->changed);
	pthread_mutex_unlock(&metrics->lock);
}

void ws_metrics_stop(struct ws_metrics *metrics)
{
	if (!metrics)
		return;
	pthread_mutex_lock(&metrics->lock);
	if (metrics->collecting) {
		metrics->collecting = false;
		metrics->reading = true; /* until the thread has made its last reading */
		pthread_cond_broadcast(&metrics->changed);
	}
	pthread_mutex_unlock(&metrics->lock);
}

bool ws_metrics_settle(struct ws_metrics *metrics)
{
	uint64_t until = ws_read_raw_ns() + END_NS;
	bool done;

	if (!metrics)
		return true;
	pthread_mutex_lock(&metrics->lock);
	while (metrics->reading && ws_read_raw_ns() < until)
		wait_until(metrics, END_NS / 8);
	done = !metrics->reading;
	pthread_mutex_unlock(&metrics->lock);
	return done;
}

void ws_metrics_set_processes(struct ws_metrics *metrics, const int *pids, size_t n)
{
	int *copy = ws_malloc((n + 1) * sizeof(*copy));

	if (n)
		memcpy(copy, pids, n * sizeof(*copy));
	pthread_mutex_lock(&metrics->lock);
	free(metrics->pids);
	metrics->pids = copy;
	metrics->pid_count = n;
	pthread_mutex_unlock(&metrics->lock);
}

struct ws_metric_value *ws_metrics_take(struct ws_metrics *metrics, size_t *n)
{
	struct ws_metric_value *values;

	pthread_mutex_lock(&metrics->lock);
	values = metrics->values;
	*n = metrics->value_count;
	metrics->values = NULL;
	metrics->value_count = metrics->value_cap = 0;
	pthread_mutex_unlock(&metrics->lock);
	return values;
}

const struct ws_metric *ws_metrics_describe(struct ws_metrics *metrics, uint32_t index)
{
	const struct ws_metric *metric;

	pthread_mutex_lock(&metrics->lock);
	metric = metrics->metrics[index];
	pthread_mutex_unlock(&metrics->lock);
	return metric;
}

char *ws_metrics_take_complaint(struct ws_metrics *metrics)
{
	char *complaint;

	pthread_mutex_lock(&metrics->lock);
	complaint = metrics->complaint;
	metrics->complaint = NULL;
	pthread_mutex_unlock(&metrics->lock);
	return complaint;
}

void ws_metrics_free(struct ws_metrics *metrics)
{
	if (!metrics)
		return;
	pthread_mutex_lock(&metrics->lock);
	metrics->quit = true;
	pthread_cond_broadcast(&metrics->changed);
	pthread_mutex_unlock(&metrics->lock);
	pthread_join(metrics->thread, NULL);
	for (size_t i = 0; i < WS_COUNT(sources); i++)
		if (metrics->state[i])
			sources[i]->close(metrics->state[i]);
	for (size_t i = 0; i < metrics->metric_count; i++) {
		free(metrics->metrics[i]->name);
		free(metrics->metrics[i]->identity);
		free(metrics->metrics[i]);
	}
	free(metrics->metrics);
	free(metrics->values);
	free(metrics->last);
	free(metrics->pids);
	free(metrics->complaint);
	pthread_cond_destroy(&metrics->changed);
	pthread_mutex_destroy(&metrics->lock);
	free(metrics);
}
