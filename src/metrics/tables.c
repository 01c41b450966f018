/*
 * tables.c - lists of /proc with a line for each core, disk and network. Their numbers only grow,
 * and the growth is the value.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics/source.h"

#define FILE_BYTES ((size_t)256 << 10)
#define MOST_NUMBERS 12u
#define MOST_COLUMNS 4u
#define MOST_ROWS 1024u /* rows per list */
#define AT(place) (1u << (place))

/* The numbers of a line whose summed growth is a value: bits by position, from 0. */
struct column {
	uint32_t places;
	const char *name, *unit;
	double scale;
};

struct list {
	enum ws_metric_group group;
	const char *file;
	/* Cuts the name out of a line; *numbers gets what follows it. Returns NULL when this line
	 * is not wanted. */
	char *(*cut_name)(char *line, char **numbers);
	bool (*is_wanted)(const char *name); /* asked once for each name; NULL: all are wanted */
	struct column columns[MOST_COLUMNS];
};

struct row {
	char *name;
	bool unwanted;
	uint32_t metric[MOST_COLUMNS];
};

struct table {
	int fd;		 /* set in the first list of each file */
	size_t expected; /* the next row, if lines come in the same order as before */
	struct row *rows;
	size_t count, cap;
};

/* ---- names ---- */

/* "cpu3 user nice system idle iowait irq softirq steal ..." */
static char *cut_core(char *line, char **numbers)
{
	if (strncmp(line, "cpu", 3) || line[3] < '0' || line[3] > '9')
		return NULL;
	*numbers = line + strcspn(line, " ");
	if (**numbers)
		*(*numbers)++ = 0;
	return line + 3;
}

/* The same, for the line that sums up all cores. */
static char *cut_total(char *line, char **numbers)
{
	static char none[] = "";

	if (strncmp(line, "cpu ", 4))
		return NULL;
	*numbers = line + 4;
	return none;
}

/* Partitions, and disks that are made of others, would be counted twice. */
static bool is_whole_disk(const char *name)
{
	static const char *const skipped[] = {"loop", "ram", "zram", "dm-", "md", "fd"};
	char *folder, *path;
	bool there;

	for (size_t i = 0; i < WS_COUNT(skipped); i++)
		if (!strncmp(name, skipped[i], strlen(skipped[i])))
			return false;
	folder = ws_format("/sys/block/%s", name);
	path = ws_metric_path(folder);
	there = !access(path, F_OK);
	free(path);
	free(folder);
	return there;
}

/* "major minor name reads ..." */
static char *cut_disk(char *line, char **numbers)
{
	unsigned major, minor;
	int begin = 0, end = 0;

	if (sscanf(line, "%u %u %n%*s%n", &major, &minor, &begin, &end) != 2 || !end || !line[end])
		return NULL;
	line[end] = 0;
	*numbers = line + end + 1;
	return line + begin;
}

/* " eth0: received bytes ..."; the loopback device is left out. */
static char *cut_network(char *line, char **numbers)
{
	char *colon = strchr(line, ':');

	line += strspn(line, " ");
	if (!colon || !strncmp(line, "lo:", 3))
		return NULL;
	*colon = 0;
	*numbers = colon + 1;
	return line;
}

/* A share of one core in %: the scale is set at run time, since there are sysconf(_SC_CLK_TCK)
 * ticks a second. */
#define SHARE 0

static const struct list lists[] = {
	{WS_METRIC_CPU,
	 "/proc/stat",
	 cut_core,
	 NULL,
	 {{AT(0) | AT(1) | AT(2) | AT(5) | AT(6) | AT(7), "Busy, core", "%", SHARE}}},
	{WS_METRIC_CPU,
	 "/proc/stat",
	 cut_total,
	 NULL,
	 {{AT(0) | AT(1), "In programs, all cores", "%", SHARE},
	  {AT(2) | AT(5) | AT(6), "In the kernel, all cores", "%", SHARE},
	  {AT(4), "Idle while I/O is waited for, all cores", "%", SHARE},
	  {AT(7), "Taken by the hypervisor, all cores", "%", SHARE}}},
	{WS_METRIC_DISK,
	 "/proc/diskstats",
	 cut_disk,
	 is_whole_disk,
	 {{AT(2), "Read,", "B/s", 512},
	  {AT(6), "Written,", "B/s", 512},
	  {AT(9), "Busy,", "%", 0.1}}},
	{WS_METRIC_NETWORK,
	 "/proc/net/dev",
	 cut_network,
	 NULL,
	 {{AT(0), "Received,", "B/s", 1},
	  {AT(8), "Sent,", "B/s", 1},
	  {AT(2) | AT(3) | AT(10) | AT(11), "Errors and drops,", "1/s", 1}}},
};

struct tables {
	struct table table[WS_COUNT(lists)];
	double share; /* one tick per second as a share of a core, in % */
	double cores;
	char *text; /* FILE_BYTES */
};

/* ---- reading ---- */

static void *open_tables(struct ws_metrics *metrics)
{
	struct tables *tables = ws_calloc(1, sizeof(*tables));

	tables->text = ws_malloc(FILE_BYTES);
	tables->share = 100.0 / (double)sysconf(_SC_CLK_TCK);
	tables->cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
	for (size_t i = 0; i < WS_COUNT(lists); i++) {
		bool first = !i || strcmp(lists[i - 1].file, lists[i].file) != 0;

		tables->table[i].fd = first && ws_metric_wants(metrics, lists[i].group)
					      ? ws_metric_open(lists[i].file)
					      : -1;
	}
	return tables;
}

static void add_metrics(struct ws_metrics *metrics, const struct list *list, struct row *row)
{
	for (size_t i = 0; i < MOST_COLUMNS && list->columns[i].name; i++) {
		char *name = ws_format("%s%s%s", list->columns[i].name, *row->name ? " " : "",
				       row->name);

		row->metric[i] = ws_metric_add(
			metrics, &(struct ws_metric){
					 .group = list->group,
					 .name = name,
					 .unit = list->columns[i].unit,
					 /* Ticks and milliseconds are coarse. */
					 .most = list->columns[i].unit[0] == '%' ? 100 : 0,
					 .identity = *row->name ? row->name : NULL,
					 .device = -1,
					 .cpu = list->cut_name == cut_core ? atoi(row->name) : -1});
		free(name);
	}
}

/* Lines come in the same order each time, so the search usually succeeds at its first look. NULL:
 * too many rows. */
static struct row *find_row(struct ws_metrics *metrics, const struct list *list,
			    struct table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++) {
		size_t at = (table->expected + i) % table->count;

		if (!strcmp(table->rows[at].name, name)) {
			table->expected = at + 1;
			return &table->rows[at];
		}
	}
	if (table->count >= MOST_ROWS)
		return NULL;
	ws_grow(table->rows, table->cap, table->count + 1);
	table->rows[table->count] = (struct row){
		.name = ws_strdup(name), .unwanted = list->is_wanted && !list->is_wanted(name)};
	if (!table->rows[table->count].unwanted)
		add_metrics(metrics, list, &table->rows[table->count]);
	return &table->rows[table->count++];
}

static void put_row(struct ws_metrics *metrics, const struct list *list, const struct row *row,
		    char *numbers, double share)
{
	unsigned long long number[MOST_NUMBERS] = {0};
	char *end;

	for (size_t i = 0; i < MOST_NUMBERS; i++) {
		number[i] = strtoull(numbers, &end, 10);
		if (end == numbers)
			break;
		numbers = end;
	}
	for (size_t i = 0; i < MOST_COLUMNS && list->columns[i].name; i++) {
		const struct column *column = &list->columns[i];
		uint64_t total = 0;

		for (size_t place = 0; place < MOST_NUMBERS; place++)
			total += column->places >> place & 1 ? number[place] : 0;
		ws_metric_put_total(metrics, row->metric[i], total,
				    column->scale == SHARE ? share : column->scale);
	}
}

/* Lists of the same file are adjacent: it is read once for all of them. */
static size_t count_lists_of_file(size_t first)
{
	size_t end = first + 1;

	while (end < WS_COUNT(lists) && !strcmp(lists[end].file, lists[first].file))
		end++;
	return end - first;
}

static bool read_line(struct ws_metrics *metrics, struct tables *tables, size_t which, char *line)
{
	const struct list *list = &lists[which];
	struct table *table = &tables->table[which];
	double share = list->cut_name == cut_total ? tables->share / tables->cores : tables->share;
	char *numbers, *name = list->cut_name(line, &numbers);
	const struct row *row = name ? find_row(metrics, list, table, name) : NULL;

	if (row && !row->unwanted)
		put_row(metrics, list, row, numbers, share);
	return name != NULL;
}

static void read_file(struct ws_metrics *metrics, struct tables *tables, size_t first, size_t count)
{
	for (size_t i = 0; i < count; i++)
		tables->table[first + i].expected = 0;
	ws_metric_reread(tables->table[first].fd, tables->text, FILE_BYTES);
	for (char *line = tables->text, *next; line && *line; line = next) {
		size_t i = 0;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		while (i < count && !read_line(metrics, tables, first + i, line))
			i++;
	}
}

static void read_tables(struct ws_metrics *metrics, void *state)
{
	struct tables *tables = state;

	for (size_t i = 0, count; i < WS_COUNT(lists); i += count) {
		count = count_lists_of_file(i);
		if (tables->table[i].fd >= 0)
			read_file(metrics, tables, i, count);
	}
}

static void close_tables(void *state)
{
	struct tables *tables = state;

	for (size_t i = 0; i < WS_COUNT(lists); i++) {
		struct table *table = &tables->table[i];

		if (table->fd >= 0)
			close(table->fd);
		for (size_t k = 0; k < table->count; k++)
			free(table->rows[k].name);
		free(table->rows);
	}
	free(tables->text);
	free(tables);
}

const struct ws_metric_source ws_metric_tables = {
	.groups = 1u << WS_METRIC_CPU | 1u << WS_METRIC_DISK | 1u << WS_METRIC_NETWORK,
	.open = open_tables,
	.read = read_tables,
	.close = close_tables};
