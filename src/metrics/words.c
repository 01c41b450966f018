/* words.c - numbers in files of words: WS_METRIC_WORD in metrics.def. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics/source.h"

enum { VALUE, RATE };
#define FILE_BYTES 16384u

static const struct kind {
	enum ws_metric_group group;
	const char *file, *before, *key, *name, *unit;
	double scale;
	bool rate;
} kinds[] = {
#define WS_METRIC_WORD(GROUP, file, before, key, name, unit, KIND, scale) \
	{WS_METRIC_##GROUP, file, before, key, name, unit, scale, (KIND) == RATE},
#include "metrics/metrics.def"
};

struct words {
	int fd[WS_COUNT(kinds)]; /* set in the first word of each file; -1: in the others, or when
				    there is no file */
	uint32_t metric[WS_COUNT(kinds)];
};

/* The folder of the control group (version 2) of this process; owned by the caller. NULL: none. */
static char *find_cgroup(void)
{
	char text[8192], *line = text, *path = NULL;
	int fd = ws_metric_open("/proc/self/cgroup");

	ws_metric_reread(fd, text, sizeof(text));
	if (fd >= 0)
		close(fd);
	for (char *next; line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (strncmp(line, "0::/", 4))
			continue;
		free(path);
		path = ws_format("/sys/fs/cgroup%s", line + 3);
	}
	return path;
}

static int open_file(const char *file, const char *cgroup)
{
	char *path;
	int fd;

	if (*file != '@')
		return ws_metric_open(file);
	if (!cgroup)
		return -1;
	path = ws_format("%s%s", cgroup, file + 1);
	fd = ws_metric_open(path);
	free(path);
	return fd;
}

static void *open_words(struct ws_metrics *metrics)
{
	struct words *words = ws_malloc(sizeof(*words));
	char *cgroup = find_cgroup();
	bool there = false;

	for (size_t i = 0; i < WS_COUNT(kinds); i++) {
		const struct kind *kind = &kinds[i];
		bool first = !i || strcmp(kinds[i - 1].file, kind->file);

		words->fd[i] = -1;
		words->metric[i] = WS_NO_METRIC;
		if (!ws_metric_wants(metrics, kind->group))
			continue;
		if (first)
			there = (words->fd[i] = open_file(kind->file, cgroup)) >= 0;
		if (there)
			words->metric[i] = ws_metric_add(
				metrics, &(struct ws_metric){.group = kind->group,
							     .name = (char *)kind->name,
							     .unit = kind->unit,
							     .device = -1,
							     .cpu = -1});
	}
	free(cgroup);
	return words;
}

/* The number after the key, in the first line that begins with `before` and a blank. */
static bool find_number(const char *text, const struct kind *kind, unsigned long long *value)
{
	size_t length = strlen(kind->before);
	const char *at = NULL;
	char *end;

	for (const char *line = text; line && !at;) {
		if (!strncmp(line, kind->before, length) &&
		    (!length || line[length] == ' ' || line[length] == '\t'))
			at = line + length;
		line = strchr(line, '\n');
		line += line != NULL;
	}
	if (at && *kind->key) {
		at = strstr(at, kind->key);
		at = at ? at + strlen(kind->key) : NULL;
	}
	if (!at)
		return false;
	errno = 0;
	*value = strtoull(at, &end, 10);
	return end != at && !errno; /* "max": there is no limit */
}

static void read_words(struct ws_metrics *metrics, void *state)
{
	const struct words *words = state;
	char text[FILE_BYTES] = "";
	unsigned long long value;

	for (size_t i = 0; i < WS_COUNT(kinds); i++) {
		const struct kind *kind = &kinds[i];

		if (words->fd[i] >= 0)
			ws_metric_reread(words->fd[i], text, sizeof(text));
		if (words->metric[i] == WS_NO_METRIC || !find_number(text, kind, &value))
			continue;
		if (kind->rate)
			ws_metric_put_total(metrics, words->metric[i], value, kind->scale);
		else
			ws_metric_put(metrics, words->metric[i], (double)value * kind->scale);
	}
}

static void close_words(void *state)
{
	struct words *words = state;

	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (words->fd[i] >= 0)
			close(words->fd[i]);
	free(words);
}

const struct ws_metric_source ws_metric_words = {
#define WS_METRIC_WORD(GROUP, file, before, key, name, unit, KIND, scale) 1u << WS_METRIC_##GROUP |
	.groups =
#include "metrics/metrics.def"
		0,
	.open = open_words,
	.read = read_words,
	.close = close_words};
