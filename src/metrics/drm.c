/*
 * drm.c - what recorded processes do on GPUs of other vendors (AMD, Intel), as the drivers report
 * in /proc/PID/fdinfo: how long each engine worked for them, and how much GPU memory they use.
 *
 * It is read once a second, and only on machines with such a GPU: a process may have thousands of
 * descriptors. Descriptors of the same driver client report the same values, so only one of them
 * counts.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/matching.h"
#include "metrics/source.h"

enum { MOST_ENGINES = 8, MOST_CLIENTS = 64, MOST_PROCESSES = 64, MOST_FILES = 1024 };

struct engine {
	char name[32];
	unsigned long long ns; /* sum over all clients, in this reading */
	uint32_t metric;
	bool seen;
};

struct user { /* per process */
	int pid;
	struct engine engines[MOST_ENGINES];
	size_t engine_count;
	unsigned long long clients[MOST_CLIENTS]; /* in this reading */
	size_t client_count;
	double memory; /* bytes */
	uint32_t memory_metric;
};

struct drm {
	struct user *users;
	size_t count, capacity;
};

/* Whether the machine has a GPU whose driver writes fdinfo; NVIDIA's does not. */
static bool has_other_gpu(void)
{
	char *pattern = ws_metric_path("/sys/class/drm/renderD*/device/vendor");
	struct ws_matching_paths found;
	bool any = false;

	ws_find_matching_paths(pattern, &found);
	for (size_t i = 0; i < found.count && !any; i++) {
		char text[32] = "";
		int fd = open(found.paths[i], O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue;
		any = ws_metric_reread(fd, text, sizeof(text)) && strncmp(text, "0x10de", 6) != 0;
		close(fd);
	}
	ws_matching_paths_free(&found);
	free(pattern);
	return any;
}

static void *open_drm(struct ws_metrics *metrics)
{
	(void)metrics;
	if (!has_other_gpu())
		return NULL;
	return ws_calloc(1, sizeof(struct drm));
}

static struct user *find_user(struct drm *drm, int pid)
{
	for (size_t i = 0; i < drm->count; i++)
		if (drm->users[i].pid == pid)
			return &drm->users[i];
	if (drm->count == MOST_PROCESSES)
		return NULL;
	ws_grow(drm->users, drm->capacity, drm->count + 1);
	drm->users[drm->count] = (struct user){.pid = pid, .memory_metric = WS_NO_METRIC};
	return &drm->users[drm->count++];
}

static uint32_t add_metric(struct ws_metrics *metrics, const char *name, const char *unit, int pid)
{
	return ws_metric_add(metrics, &(struct ws_metric){.group = WS_METRIC_GPU,
							  .name = (char *)name,
							  .unit = unit,
							  .device = -1,
							  .cpu = -1,
							  .pid = pid});
}

static void add_engine_time(struct ws_metrics *metrics, struct user *user, const char *name,
			    size_t length, unsigned long long ns)
{
	struct engine *engine = NULL;
	char text[64];

	length = ws_min(length, sizeof(engine->name) - 1);
	for (size_t i = 0; i < user->engine_count; i++)
		if (strlen(user->engines[i].name) == length &&
		    !memcmp(user->engines[i].name, name, length))
			engine = &user->engines[i];
	if (!engine && user->engine_count == MOST_ENGINES)
		return;
	if (!engine) {
		engine = &user->engines[user->engine_count++];
		*engine = (struct engine){.seen = false};
		memcpy(engine->name, name, length);
		snprintf(text, sizeof(text), "GPU engine %s", engine->name);
		engine->metric = add_metric(metrics, text, "%", user->pid);
	}
	engine->ns += ns;
	engine->seen = true;
}

static bool is_new_client(struct user *user, const char *text)
{
	const char *at = strstr(text, "drm-client-id:");
	unsigned long long id;

	if (!at || sscanf(at, "drm-client-id: %llu", &id) != 1)
		return false;
	for (size_t i = 0; i < user->client_count; i++)
		if (user->clients[i] == id)
			return false;
	if (user->client_count == MOST_CLIENTS)
		return false;
	user->clients[user->client_count++] = id;
	return true;
}

/* The bytes of a line such as "drm-memory-vram: 12 KiB". */
static double read_bytes(const char *at)
{
	unsigned long long number;
	char unit[8] = "";

	if (sscanf(at, "%llu %7s", &number, unit) < 1)
		return 0;
	if (!strcmp(unit, "KiB"))
		return (double)number * 1024;
	if (!strcmp(unit, "MiB"))
		return (double)number * 1048576;
	return (double)number;
}

static void add_client(struct ws_metrics *metrics, struct user *user, const char *text)
{
	static const char engine[] = "drm-engine-", capacity[] = "capacity-";
	const char *memory = strstr(text, "drm-memory-vram:");

	if (!is_new_client(user, text))
		return;
	if (!memory)
		memory = strstr(text, "drm-total-vram0:");
	if (memory)
		user->memory += read_bytes(strchr(memory, ':') + 1);
	for (const char *at = text; (at = strstr(at, engine));) {
		size_t length;

		at += sizeof(engine) - 1;
		length = strcspn(at, ":\n");
		if (at[length] == ':' && strncmp(at, capacity, sizeof(capacity) - 1) != 0)
			add_engine_time(metrics, user, at, length,
					strtoull(at + length + 1, NULL, 10));
	}
}

/* Whether a descriptor belongs to a GPU. */
static bool is_of_gpu(const char *folder, const char *number)
{
	char path[512], target[64];
	ssize_t length;

	snprintf(path, sizeof(path), "%s/../fd/%s", folder, number);
	length = readlink(path, target, sizeof(target) - 1);
	if (length <= 0)
		return false;
	target[length] = 0;
	return !strncmp(target, "/dev/dri/", 9);
}

static void read_clients(struct ws_metrics *metrics, struct user *user)
{
	char path[64], text[4096], *folder, *file;
	struct dirent *entry;
	int left = MOST_FILES;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", user->pid);
	folder = ws_metric_path(path);
	dir = opendir(folder);
	while (dir && left-- > 0 && (entry = readdir(dir))) {
		int fd;

		if (!is_of_gpu(folder, entry->d_name))
			continue;
		file = ws_format("%s/%s", folder, entry->d_name);
		fd = open(file, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && ws_metric_reread(fd, text, sizeof(text)))
			add_client(metrics, user, text);
		if (fd >= 0)
			close(fd);
		free(file);
	}
	if (dir)
		closedir(dir);
	free(folder);
}

static void read_user(struct ws_metrics *metrics, struct user *user)
{
	user->client_count = 0;
	user->memory = 0;
	for (size_t i = 0; i < user->engine_count; i++) {
		user->engines[i].ns = 0;
		user->engines[i].seen = false;
	}
	read_clients(metrics, user);
	for (size_t i = 0; i < user->engine_count; i++)
		if (user->engines[i].seen)
			ws_metric_put_total(metrics, user->engines[i].metric, user->engines[i].ns,
					    1e-7);
	if (user->memory > 0 && user->memory_metric == WS_NO_METRIC)
		user->memory_metric = add_metric(metrics, "GPU memory", "B", user->pid);
	if (user->memory_metric != WS_NO_METRIC)
		ws_metric_put(metrics, user->memory_metric, user->memory);
}

static void read_drm(struct ws_metrics *metrics, void *state)
{
	struct drm *drm = state;
	size_t count;
	int *pids;

	if (!ws_metric_is_slow_turn(metrics))
		return;
	pids = ws_metric_get_processes(metrics, &count);
	for (size_t i = 0; i < count; i++) {
		struct user *user = find_user(drm, pids[i]);

		if (user)
			read_user(metrics, user);
	}
	free(pids);
}

static void close_drm(void *state)
{
	struct drm *drm = state;

	free(drm->users);
	free(drm);
}

const struct ws_metric_source ws_metric_drm = {
	.groups = 1u << WS_METRIC_GPU, .open = open_drm, .read = read_drm, .close = close_drm};
