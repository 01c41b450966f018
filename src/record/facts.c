/* facts.c - see facts.h. */
#include "record/facts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"

const char ws_launcher_variables[] = "RANK\0"
				     "LOCAL_RANK\0"
				     "WORLD_SIZE\0"
				     "LOCAL_WORLD_SIZE\0"
				     "GROUP_RANK\0"
				     "ROLE_RANK\0"
				     "NODE_RANK\0"
				     "MASTER_ADDR\0"
				     "MASTER_PORT\0"
				     "TORCHELASTIC_RUN_ID\0"
				     "SLURM_*\0"
				     "OMPI_COMM_WORLD_*\0"
				     "PMI_RANK\0"
				     "PMI_SIZE\0"
				     "PMIX_RANK\0"
				     "MV2_COMM_WORLD_*\0"
				     "FLUX_TASK_RANK\0"
				     "CUDA_VISIBLE_DEVICES\0"
				     "CUDA_DEVICE_ORDER\0"
				     "CUDA_LAUNCH_BLOCKING\0"
				     "CUDA_MODULE_LOADING\0"
				     "NVIDIA_VISIBLE_DEVICES\0"
				     "OMP_NUM_THREADS\0"
				     "NCCL_*\0"
				     "KUBERNETES_*\0";

static bool is_launcher_variable(const char *entry)
{
	size_t len = strcspn(entry, "=");

	for (const char *v = ws_launcher_variables; *v; v += strlen(v) + 1) {
		size_t n = strlen(v);

		if (v[n - 1] == '*' ? !strncmp(entry, v, n - 1) : n == len && !strncmp(entry, v, n))
			return true;
	}
	return false;
}

static void add_environment(struct ws_sink *sink, char **env, bool all)
{
	for (char **e = env; *e; e++) {
		const char *eq = strchr(*e, '=');
		char *name;

		if (!eq || !(all || is_launcher_variable(*e)))
			continue;
		name = ws_format("env.%.*s", (int)(eq - *e), *e);
		ws_sink_meta(sink, name, "%s", eq + 1);
		free(name);
	}
}

/* The value behind "<key> ... : " in a file like /proc/cpuinfo; "" when absent. */
static char *read_line_value(const char *path, const char *key, char *out, size_t size)
{
	FILE *file = fopen(path, "re");
	char line[4096];

	out[0] = 0;
	while (file && fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');

		if (!strncmp(line, key, strlen(key)) && colon) {
			snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
			out[strcspn(out, "\n")] = 0;
			break;
		}
	}
	if (file)
		fclose(file);
	return out;
}

static char *read_first_line(const char *path, char *out, size_t size)
{
	FILE *file = fopen(path, "re");

	if (!file || !fgets(out, (int)size, file))
		out[0] = 0;
	if (file)
		fclose(file);
	out[strcspn(out, "\n")] = 0;
	return out;
}

static void add_command(struct ws_sink *sink, const char *name, char **argv)
{
	struct ws_text text = {0};

	for (; *argv; argv++)
		ws_text_printf(&text, "%s%s", text.len ? " " : "", *argv);
	ws_sink_meta(sink, name, "%s", ws_text_or(text.text, ""));
	ws_text_free(&text);
}

static void add_machine(struct ws_sink *sink)
{
	struct utsname utsname;
	char text[512];
	struct sysinfo si;

	gethostname(text, sizeof(text) - 1);
	ws_sink_meta(sink, "host.name", "%s", text);
	if (!uname(&utsname)) {
		ws_sink_meta(sink, "host.kernel", "%s %s", utsname.release, utsname.version);
		ws_sink_meta(sink, "host.machine", "%s", utsname.machine);
	}
	ws_sink_meta(sink, "host.boot_id", "%s",
		     read_first_line("/proc/sys/kernel/random/boot_id", text, sizeof(text)));
	ws_sink_meta(
		sink, "host.clocksource", "%s",
		read_first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
				text, sizeof(text)));
	ws_sink_meta(sink, "cpu.model", "%s",
		     read_line_value("/proc/cpuinfo", "model name", text, sizeof(text)));
	ws_sink_meta(sink, "cpu.count", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	if (!sysinfo(&si))
		ws_sink_meta(sink, "host.memory_bytes", "%llu",
			     (unsigned long long)si.totalram * si.mem_unit);
	FILE *file = fopen("/etc/os-release", "re");
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "PRETTY_NAME=", 12)) {
			char *v = line + 12 + (line[12] == '"');

			v[strcspn(v, "\"\n")] = 0;
			ws_sink_meta(sink, "host.os", "%s", v);
		}
	if (file)
		fclose(file);
	if (read_first_line("/proc/driver/nvidia/version", text, sizeof(text))[0])
		ws_sink_meta(sink, "gpu.driver", "%s", text);
}

static void add_left_out(struct ws_sink *sink, const struct ws_record_opts *options)
{
	for (size_t i = 0; i < options->left_out_count; i++)
		ws_sink_diagnostic(sink, WS_INFO, "options", 0, ws_read_raw_ns(),
				   options->left_out[i]);
	if (options->consequence)
		ws_sink_diagnostic(sink, WS_WARNING, "options", 0, ws_read_raw_ns(),
				   options->consequence);
}

void ws_facts_write(struct ws_sink *sink, const struct ws_record_opts *options, int target_pid,
		    char **target_env)
{
	char cwd[PATH_MAX];
	struct timespec ts;
	struct tm tm;
	char when[64], *domains;

	ws_sink_meta(sink, "warpsight.version", "%s", WS_VERSION);
	add_command(sink, "session.command_line", options->command_line);
	add_command(sink, "target.command_line", options->argv);
	ws_sink_meta(sink, "target.pid", "%d", target_pid);
	if (getcwd(cwd, sizeof(cwd)))
		ws_sink_meta(sink, "session.directory", "%s", cwd);
	clock_gettime(CLOCK_REALTIME, &ts);
	ws_sink_meta(sink, "session.start_epoch_ns", "%lld",
		     (long long)ts.tv_sec * 1000000000LL + ts.tv_nsec);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	ws_sink_meta(sink, "session.start_utc", "%s", when);
	localtime_r(&ts.tv_sec, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S%z", &tm);
	ws_sink_meta(sink, "session.start_local", "%s", when);
	domains = ws_format("%s%s%s", options->cuda ? ",cuda" : "", options->nvtx ? ",nvtx" : "",
			    options->osrt ? ",osrt" : "");
	ws_sink_meta(sink, "session.trace", "%s", *domains ? domains + 1 : "none");
	free(domains);
	ws_sink_meta(sink, "session.delay_s", "%g", options->delay);
	ws_sink_meta(sink, "session.duration_s", "%g", options->duration);
	ws_sink_meta(sink, "session.osrt_threshold_ns", "%.0f", options->osrt_threshold * 1e9);
	ws_sink_meta(sink, "clock.session", "CLOCK_MONOTONIC_RAW");
	add_machine(sink);
	add_left_out(sink, options);
	add_environment(sink, target_env, options->store_environment);
}
