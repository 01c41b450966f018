/* files.c - files of /sys that hold one number each: WS_METRIC_FILE in metrics.def. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics/source.h"
#include "base/matching.h"

enum { VALUE, RATE };
enum { EACH, SLOW };
#define MOST_FILES 2048u /* open at the same time */

static const struct kind {
	enum ws_metric_group group;
	const char *folders, *file, *label, *name, *unit;
	double scale;
	bool rate, slow;
} kinds[] = {
#define WS_METRIC_FILE(GROUP, glob, file, label, name, unit, KIND, scale, PACE) \
	{WS_METRIC_##GROUP, glob, file, label, name, unit, scale, (KIND) == RATE, (PACE) == SLOW},
#include "metrics/metrics.def"
};

struct number {
	const struct kind *kind;
	int fd;
	uint32_t metric;
};

struct files {
	struct number *numbers;
	size_t count, cap;
};

/* The first line of a file of the folder; "" when it cannot be read. */
static void read_label(const char *folder, const char *file, char *out, size_t size)
{
	char *path = ws_format("%s/%s", folder, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	ws_metric_reread(fd, out, size);
	out[strcspn(out, "\n")] = 0;
	if (fd >= 0)
		close(fd);
	free(path);
}

/* The component of the path that matches the first wildcard of the pattern: cpu3 or mlx5_0. */
static void copy_wild_part(const char *pattern, const char *path, char *out, size_t size)
{
	size_t depth = 0, wild = strcspn(pattern, "*[");

	for (size_t i = 0; i < wild; i++)
		depth += pattern[i] == '/';
	for (; depth && (path = strchr(path, '/')); depth--)
		path++;
	if (path)
		snprintf(out, size, "%.*s", (int)strcspn(path, "/"), path);
	else
		*out = 0;
}

static void add_number(struct ws_metrics *metrics, struct files *files, const struct kind *kind,
		       const char *folder, const char *part)
{
	char label[128] = "", *file = ws_format("%s/%s", folder, kind->file);
	struct number number = {kind, open(file, O_RDONLY | O_CLOEXEC), 0};
	int core = -1;

	free(file);
	if (number.fd < 0)
		return;
	if (*kind->label)
		read_label(folder, kind->label, label, sizeof(label));
	if (sscanf(part, "cpu%d", &core) != 1)
		core = -1;
	file = core >= 0 ? ws_format("%s, core %d", kind->name, core)
			 : ws_format("%s %s", kind->name, *label ? label : part);
	number.metric = ws_metric_add(metrics, &(struct ws_metric){.group = kind->group,
								   .name = file,
								   .unit = kind->unit,
								   .identity = (char *)part,
								   .device = -1,
								   .cpu = core});
	free(file);
	ws_grow(files->numbers, files->cap, files->count + 1);
	files->numbers[files->count++] = number;
}

static void add_numbers(struct ws_metrics *metrics, struct files *files, const struct kind *kind)
{
	char *pattern = ws_metric_path(kind->folders), part[NAME_MAX + 1];
	struct ws_matching_paths found;

	ws_find_matching_paths(pattern, &found);
	for (size_t i = 0; i < found.count && files->count < MOST_FILES; i++) {
		copy_wild_part(pattern, found.paths[i], part, sizeof(part));
		add_number(metrics, files, kind, found.paths[i], part);
	}
	ws_matching_paths_free(&found);
	free(pattern);
}

static void *open_files(struct ws_metrics *metrics)
{
	struct files *files = ws_calloc(1, sizeof(*files));

	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (ws_metric_wants(metrics, kinds[i].group))
			add_numbers(metrics, files, &kinds[i]);
	return files;
}

static void read_number(struct ws_metrics *metrics, const struct number *number)
{
	char text[64], *end;
	unsigned long long value;

	if (!ws_metric_reread(number->fd, text, sizeof(text)))
		return;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (end == text || errno)
		return;
	if (number->kind->rate)
		ws_metric_put_total(metrics, number->metric, value, number->kind->scale);
	else
		ws_metric_put(metrics, number->metric,
			      (double)(long long)value * number->kind->scale);
}

static void read_files(struct ws_metrics *metrics, void *state)
{
	const struct files *files = state;

	for (size_t i = 0; i < files->count; i++)
		if (!files->numbers[i].kind->slow || ws_metric_is_slow_turn(metrics))
			read_number(metrics, &files->numbers[i]);
}

static void close_files(void *state)
{
	struct files *files = state;

	for (size_t i = 0; i < files->count; i++)
		close(files->numbers[i].fd);
	free(files->numbers);
	free(files);
}

const struct ws_metric_source ws_metric_files = {
#define WS_METRIC_FILE(GROUP, glob, file, label, name, unit, KIND, scale, PACE) \
	1u << WS_METRIC_##GROUP |
	.groups =
#include "metrics/metrics.def"
		0,
	.open = open_files,
	.read = read_files,
	.close = close_files};
