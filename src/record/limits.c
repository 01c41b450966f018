/* limits.c - see limits.h. The target begins in our control group, so the group's quota applies to
 * the target. */
#include "record/limits.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool read_text(const char *folder, const char *name, char *text, size_t size)
{
	char path[1024];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	n = fread(text, 1, size - 1, file);
	fclose(file);
	while (n && text[n - 1] == '\n')
		n--;
	text[n] = 0;
	return n > 0;
}

/* The number after a word at the beginning of a line; 0 when there is none. */
static uint64_t find_number(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, word, length) && line[length] == ' ')
			return strtoull(line + length, NULL, 10);
	}
	return 0;
}

/* ---- control groups ---- */

/* How many processors a group may use; 0 where it has no quota. */
static double read_quota(const char *folder)
{
	char text[128], period_text[64];
	double quota = 0, period = 0;

	if (read_text(folder, "cpu.max", text, sizeof(text))) {
		if (sscanf(text, "%lf %lf", &quota, &period) != 2)
			return 0;
	} else if (read_text(folder, "cpu.cfs_quota_us", text, sizeof(text)) &&
		   read_text(folder, "cpu.cfs_period_us", period_text, sizeof(period_text))) {
		quota = strtod(text, NULL);
		period = strtod(period_text, NULL);
	}
	if (quota <= 0 || period <= 0)
		return 0;
	return quota / period;
}

/* Find the first group with a quota, from the group's own folder outwards. */
static double find_quota(const char *root, const char *group, char *found, size_t size)
{
	double quota = 0;
	char *slash;

	snprintf(found, size, "%s%s", root, group);
	while (!quota && strlen(found) >= strlen(root)) {
		quota = read_quota(found);
		if (quota)
			return quota;
		slash = strrchr(found, '/');
		if (!slash || slash < found + strlen(root))
			break;
		*slash = 0;
	}
	*found = 0;
	return 0;
}

/* Find our quota, in the unified hierarchy or in that of the cpu controller. */
static double find_own_quota(char *found, size_t size)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[600];
	double quota = 0;

	*found = 0;
	while (file && !quota && fgets(line, sizeof(line), file)) {
		char *group = strrchr(line, ':');

		if (!group)
			continue;
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "0::", 3))
			quota = find_quota("/sys/fs/cgroup", group + 1, found, size);
		else if (strstr(line, ":cpu:") || strstr(line, ":cpu,"))
			quota = find_quota("/sys/fs/cgroup/cpu", group + 1, found, size);
	}
	if (file)
		fclose(file);
	return quota;
}

static void read_throttling(struct ws_throttling *throttling)
{
	char text[2048];

	if (!*throttling->group || !read_text(throttling->group, "cpu.stat", text, sizeof(text)))
		return;
	throttling->periods = find_number(text, "nr_throttled");
	throttling->us = find_number(text, "throttled_usec");
	if (!throttling->us)
		throttling->us = find_number(text, "throttled_time") / 1000;
}

/* ---- heat ---- */

static uint64_t count_heat(void)
{
	char folder[128], text[64];
	uint64_t sum = 0;

	for (int core = 0; core < 4096; core++) {
		snprintf(folder, sizeof(folder), "/sys/devices/system/cpu/cpu%d/thermal_throttle",
			 core);
		if (!read_text(folder, "core_throttle_count", text, sizeof(text)))
			break;
		sum += strtoull(text, NULL, 10);
	}
	return sum;
}

/* ---- nodes ---- */

static void write_nodes(struct ws_sink *sink)
{
	struct ws_text text = {0};
	char folder[64], cores[1024];
	int node = 0;

	for (; node < 1024; node++) {
		snprintf(folder, sizeof(folder), "/sys/devices/system/node/node%d", node);
		if (!read_text(folder, "cpulist", cores, sizeof(cores)))
			break;
		ws_text_printf(&text, "%s%s", node ? ";" : "", cores);
	}
	if (node > 1)
		ws_sink_meta(sink, "cpu.nodes", "%s", text.text);
	ws_text_free(&text);
}

static void write_gpu_nodes(struct ws_sink *sink)
{
	static const char drivers[] = "/sys/bus/pci/drivers/nvidia";
	DIR *folder = opendir(drivers);
	struct ws_text text = {0};
	struct dirent *entry;
	char path[512], node[32];

	while (folder && (entry = readdir(folder))) {
		if (!isxdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/%.64s", drivers, entry->d_name);
		if (read_text(path, "numa_node", node, sizeof(node)) && node[0] != '-')
			ws_text_printf(&text, "%s%s=%s", text.len ? ";" : "", entry->d_name, node);
	}
	if (folder)
		closedir(folder);
	if (text.len)
		ws_sink_meta(sink, "gpu.nodes", "%s", text.text);
	ws_text_free(&text);
}

void ws_limits_begin(struct ws_sink *sink, struct ws_throttling *begun)
{
	double quota = find_own_quota(begun->group, sizeof(begun->group));

	if (quota)
		ws_sink_meta(sink, "cpu.quota", "%.2f", quota);
	read_throttling(begun);
	begun->heat = count_heat();
	write_nodes(sink);
	write_gpu_nodes(sink);
}

void ws_limits_end(struct ws_sink *sink, const struct ws_throttling *begun)
{
	struct ws_throttling now = *begun;

	read_throttling(&now);
	if (*now.group) {
		ws_sink_meta(sink, "cpu.throttled_us", "%llu",
			     (unsigned long long)(now.us - begun->us));
		ws_sink_meta(sink, "cpu.throttled", "%llu",
			     (unsigned long long)(now.periods - begun->periods));
	}
	now.heat = count_heat();
	if (now.heat > begun->heat)
		ws_sink_meta(sink, "cpu.heat_throttles", "%llu",
			     (unsigned long long)(now.heat - begun->heat));
}
