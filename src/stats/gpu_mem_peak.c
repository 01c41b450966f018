/*
 * gpu_mem_peak.c - who had allocated a GPU's memory when its use was at its peak.
 *
 * Allocations are walked over twice: once to find the peak of each process and GPU, and once for
 * what was allocated then. Host memory and the memory of modules are not counted as allocated; the
 * rest of what the driver reports is a line of its own.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "query/metered_gpu.h"
#include "stats/cuda.h"
#include "stats/launch.h"

static const struct ws_column columns[] = {
	{"GPU", WS_KIND_TEXT},		{"PID", WS_KIND_ID},	   {"Peak At", WS_KIND_TIME},
	{"Peak", WS_KIND_SIZE},		{"Size", WS_KIND_SIZE},	   {"Size", WS_KIND_SHARE},
	{"Allocations", WS_KIND_COUNT}, {"Largest", WS_KIND_SIZE}, {"Call", WS_KIND_TEXT},
	{"Range", WS_KIND_TEXT},
};

enum { PAGEABLE, PINNED }; /* ENUM_CUDA_MEM_KIND of memory of the host */

/* A GPU as a process uses it. */
struct memory_user {
	uint64_t process, device;
	int64_t used, peak;
	uint64_t peak_time;
	uint64_t events, peak_event; /* number of events in all, and up to the peak */
	struct ws_map live;	     /* address: place in `allocations` + 1 */
	struct allocation {
		uint64_t bytes, correlation;
		bool freed;
	} * allocations;
	size_t count, capacity;
};

struct memory_users {
	struct ws_stats *stats;
	struct memory_user *users;
	size_t count, capacity;
	struct ws_launches *launches;
	struct ws_cuda_devices *devices;
	struct ws_map uuids; /* process << 32 | device: string key of the UUID */
	/* The memory of each GPU as reported by the driver: counters, in the order of `series`. */
	uint32_t *identities; /* string keys of the GPUs' UUIDs */
	struct ws_metric_series *series;
	size_t counters;
};

static struct memory_user *find_user(struct memory_users *users, uint64_t process, uint64_t device)
{
	for (size_t i = 0; i < users->count; i++)
		if (users->users[i].process == process && users->users[i].device == device)
			return &users->users[i];
	ws_grow(users->users, users->capacity, users->count + 1);
	users->users[users->count] = (struct memory_user){.process = process, .device = device};
	return &users->users[users->count++];
}

/* ---- allocations ---- */

/* The allocation, new or freed, that an event is about; NULL when it is not known. */
static struct allocation *find_allocation(struct memory_user *user, const uint64_t *row)
{
	uint64_t at, address = row[ws_cuda_memory_address];

	if (row[ws_cuda_memory_operation]) {
		if (!ws_map_remove(&user->live, address, &at) || !at)
			return NULL;
		return &user->allocations[at - 1];
	}
	ws_grow(user->allocations, user->capacity, user->count + 1);
	user->allocations[user->count] = (struct allocation){
		.bytes = row[ws_cuda_memory_bytes], .correlation = row[ws_cuda_memory_correlation]};
	ws_map_set(&user->live, address, ++user->count);
	return &user->allocations[user->count - 1];
}

static void add_event(struct memory_user *user, const uint64_t *row)
{
	struct allocation *allocation = find_allocation(user, row);

	user->events++;
	if (!allocation)
		return;
	allocation->freed = row[ws_cuda_memory_operation] != 0;
	if (allocation->freed)
		user->used -= (int64_t)allocation->bytes;
	else
		user->used += (int64_t)allocation->bytes;
	if (user->used <= user->peak)
		return;
	user->peak = user->used;
	user->peak_time = row[ws_cuda_memory_start];
	user->peak_event = user->events;
}

/* Walk over the events of GPU memory; with `again`, only up to each peak. */
static void walk_events(struct memory_users *users, bool again)
{
	struct ws_cursor *cursor = ws_cursor_open(users->stats->report, WS_TABLE_cuda_memory, 0,
						  users->stats->time_max);
	const uint64_t *row;

	while (ws_cursor_next(cursor, &row)) {
		struct memory_user *user;

		if (row[ws_cuda_memory_kind] <= PINNED)
			continue;
		user = find_user(users, row[ws_cuda_memory_process], row[ws_cuda_memory_device]);
		if (!again || user->events < user->peak_event)
			add_event(user, row);
	}
	ws_cursor_close(cursor);
}

static void forget_events(struct memory_user *user)
{
	ws_map_free(&user->live);
	user->live = (struct ws_map){0};
	user->used = 0;
	user->events = user->count = 0;
}

/* ---- what the driver reports ---- */

static void read_driver_memory(struct memory_users *users)
{
	const struct ws_report *report = users->stats->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_counter, 0, UINT64_MAX);
	uint32_t place[4096] = {0};
	size_t capacity = 0;
	const uint64_t *row;

	while (ws_cursor_next(cursor, &row)) {
		const char *name = ws_report_string(report, (uint32_t)row[ws_counter_name], NULL);

		if (row[ws_counter_id] >= WS_COUNT(place) || !ws_is_gpu_counter(report, row) ||
		    strncmp(name, "Memory used", 11))
			continue;
		ws_grow(users->identities, capacity, users->counters + 1);
		users->identities[users->counters++] =
			ws_report_string_key(report, (uint32_t)row[ws_counter_identity]);
		place[row[ws_counter_id]] = (uint32_t)users->counters;
	}
	ws_cursor_close(cursor);
	users->series = ws_calloc(users->counters + 1, sizeof(*users->series));
	users->stats->damaged += ws_metric_series_load(report, place, WS_COUNT(place),
						       users->series, users->counters);
}

/* The memory in use on a GPU at a peak, according to the driver; 0 when it was not recorded.
 * Readings come ten times a second: the next one, if there is one, includes the allocation. */
static double find_driver_memory(const struct memory_users *users, const struct memory_user *user)
{
	uint64_t uuid = ws_map_get(&users->uuids, user->process << 32 | user->device, NULL);

	for (size_t i = 0; i < users->counters; i++) {
		const struct ws_metric_series *series = &users->series[i];
		struct ws_metric_part part;
		size_t near = 0;
		uint64_t at;

		if (!uuid || users->identities[i] != uuid || !series->count)
			continue;
		at = ws_min(user->peak_time + 100000000, series->time[series->count - 1] - 1);
		part = ws_measure_metric(series, &near, at, at + 1);
		if (part.known)
			return part.sum / (double)part.known;
	}
	return 0;
}

/* ---- lines ---- */

struct memory_line {
	uint64_t bytes, count, largest;
	uint32_t call; /* string of the call's name, 0 when not known */
	ws_range_key range;
};

static struct memory_line find_origin(const struct memory_users *users,
				      const struct memory_user *user,
				      const struct allocation *allocation)
{
	struct memory_line line = {
		.bytes = allocation->bytes, .count = 1, .largest = allocation->bytes};
	uint32_t call = WS_NO_CALL;

	if (allocation->correlation != WS_NO_U32)
		call = ws_find_launch_call(users->launches, user->process, allocation->correlation);
	if (call == WS_NO_CALL)
		return line;
	line.call = (uint32_t)users->launches->calls.rows.col[ws_cuda_api_name][call];
	line.range = ws_make_node_range_key(users->launches,
					    users->launches->enclose.node_of_call[call]);
	return line;
}

static int compare_origins(const void *first, const void *second)
{
	const struct memory_line *left = first, *right = second;

	if (left->range != right->range)
		return ws_compare(left->range, right->range);
	return ws_compare(left->call, right->call);
}

static int compare_sizes(const void *first, const void *second)
{
	const struct memory_line *left = first, *right = second;

	if (left->bytes != right->bytes)
		return ws_compare(right->bytes, left->bytes);
	return compare_origins(first, second);
}

/* What was allocated at the peak, by call and range, the largest first; owned by the caller. */
static struct memory_line *list_origins(const struct memory_users *users,
					const struct memory_user *user, size_t *count)
{
	struct memory_line *lines = ws_malloc((user->count + 1) * sizeof(*lines));
	size_t live = 0;

	for (size_t i = 0; i < user->count; i++)
		if (!user->allocations[i].freed)
			lines[live++] = find_origin(users, user, &user->allocations[i]);
	*count = 0;
	if (!live)
		return lines;
	qsort(lines, live, sizeof(*lines), compare_origins);
	for (size_t i = 0; i < live; i++) {
		struct memory_line *last = &lines[*count ? *count - 1 : 0];

		if (!*count || compare_origins(last, &lines[i]) != 0) {
			lines[(*count)++] = lines[i];
			continue;
		}
		last->bytes += lines[i].bytes;
		last->count++;
		last->largest = ws_max(last->largest, lines[i].largest);
	}
	qsort(lines, *count, sizeof(*lines), compare_sizes);
	return lines;
}

static void print_line(const struct memory_users *users, const struct memory_user *user,
		       const struct memory_line *line, const char *what)
{
	struct ws_stats *stats = users->stats;
	size_t length = strlen(what), range_length = 0;
	const char *call = what;
	char gpu[128], *range = NULL;

	ws_format_cuda_device(users->devices, user->process, user->device, gpu, sizeof(gpu));
	if (line->call)
		call = ws_get_cuda_function_name(stats->report, line->call, &length);
	if (line->range)
		range = ws_make_range_name(users->launches, line->range, &range_length);
	stats->row(stats,
		   (struct ws_cell[]){
			   ws_cell_text(gpu, strlen(gpu)),
			   ws_cell_int(ws_find_process(stats->who, (uint32_t)user->process)->pid),
			   ws_cell_int((int64_t)(user->peak_time - stats->zero)),
			   ws_cell_int(user->peak), ws_cell_int((int64_t)line->bytes),
			   ws_cell_real(ws_compute_percent(line->bytes, user->peak)),
			   ws_cell_int_if(line->count > 0, (int64_t)line->count),
			   ws_cell_int_if(line->count > 0, (int64_t)line->largest),
			   ws_cell_text(call, length),
			   ws_cell_text_if(range != NULL, ws_text_or(range, ""), range_length)});
	free(range);
}

static void print_user(const struct memory_users *users, const struct memory_user *user)
{
	double driver = find_driver_memory(users, user);
	struct memory_line rest = {0}, *lines;
	size_t count;

	if (user->peak <= 0 || user->peak_time < users->stats->time_min)
		return;
	lines = list_origins(users, user, &count);
	for (size_t i = 0; i < count; i++)
		print_line(users, user, &lines[i], "[a call that was not recorded]");
	if (driver > (double)user->peak) {
		rest.bytes = (uint64_t)(driver - (double)user->peak);
		print_line(users, user, &rest, "[contexts, code and other programs]");
	}
	free(lines);
}

static void read_uuids(struct memory_users *users)
{
	const struct ws_report *report = users->stats->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *row;

	while (ws_cursor_next(cursor, &row))
		ws_map_set(&users->uuids,
			   row[ws_cuda_device_process] << 32 | row[ws_cuda_device_id],
			   ws_report_string_key(report, (uint32_t)row[ws_cuda_device_uuid]));
	ws_cursor_close(cursor);
}

static void free_users(struct memory_users *users)
{
	for (size_t i = 0; i < users->count; i++) {
		ws_map_free(&users->users[i].live);
		free(users->users[i].allocations);
	}
	for (size_t i = 0; i < users->counters; i++)
		ws_metric_series_free(&users->series[i]);
	free(users->users);
	free(users->series);
	free(users->identities);
	ws_map_free(&users->uuids);
	ws_cuda_devices_close(users->devices);
	ws_launches_close(users->launches);
}

static int make_gpu_mem_peak_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct memory_users users = {.stats = stats};
	int status = 0;

	users.launches = ws_launches_open(stats, WS_ANY_RANGES, err);
	if (!users.launches)
		status = -1;
	users.devices = ws_cuda_devices_open(stats->report);
	if (!status) {
		read_uuids(&users);
		read_driver_memory(&users);
		walk_events(&users, false);
		for (size_t i = 0; i < users.count; i++)
			forget_events(&users.users[i]);
		walk_events(&users, true);
	}
	for (size_t i = 0; i < users.count && !status; i++)
		print_user(&users, &users.users[i]);
	free_users(&users);
	return status;
}

const struct ws_stats_report ws_stat_gpu_mem_peak = {
	.name = "gpu_mem_peak",
	.title = "GPU Memory at its Peak",
	.about = "When most memory of each GPU was in use, and who had allocated it: by call and "
		 "innermost NVTX range. What the driver says beyond that (--system-metrics) is a "
		 "line of its own: contexts, code, other programs. Recorded with "
		 "--cuda-memory-usage=true",
	.what = "allocations of GPU memory",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_gpu_mem_peak_rows,
};
