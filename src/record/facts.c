/* facts.c - see facts.h. */
#include "record/facts.h"

#include "record/limits.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "record/ranks.h"
#include "text/mask.h"

/* Variables that launchers set. Values are kept of variables that say which rank of a job this is,
 * or how the GPUs are used. For groups that match a pattern with *, only the names are kept, since
 * schedulers put credentials there. */
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
				     "SLURM_ARRAY_JOB_ID\0"
				     "SLURM_ARRAY_TASK_ID\0"
				     "SLURM_CLUSTER_NAME\0"
				     "SLURM_CPUS_ON_NODE\0"
				     "SLURM_CPUS_PER_TASK\0"
				     "SLURM_GPUS_ON_NODE\0"
				     "SLURM_GPUS_PER_NODE\0"
				     "SLURM_GPUS_PER_TASK\0"
				     "SLURM_JOBID\0"
				     "SLURM_JOB_GPUS\0"
				     "SLURM_JOB_ID\0"
				     "SLURM_JOB_NODELIST\0"
				     "SLURM_JOB_NUM_NODES\0"
				     "SLURM_JOB_PARTITION\0"
				     "SLURM_LOCALID\0"
				     "SLURM_NNODES\0"
				     "SLURM_NODEID\0"
				     "SLURM_NODELIST\0"
				     "SLURM_NPROCS\0"
				     "SLURM_NTASKS\0"
				     "SLURM_NTASKS_PER_NODE\0"
				     "SLURM_PROCID\0"
				     "SLURM_STEPID\0"
				     "SLURM_STEP_GPUS\0"
				     "SLURM_STEP_ID\0"
				     "SLURM_STEP_NUM_TASKS\0"
				     "SLURM_TASKS_PER_NODE\0"
				     "SLURM_*\0"
				     "OMPI_COMM_WORLD_LOCAL_RANK\0"
				     "OMPI_COMM_WORLD_LOCAL_SIZE\0"
				     "OMPI_COMM_WORLD_NODE_RANK\0"
				     "OMPI_COMM_WORLD_RANK\0"
				     "OMPI_COMM_WORLD_SIZE\0"
				     "OMPI_COMM_WORLD_*\0"
				     "PMI_RANK\0"
				     "PMI_SIZE\0"
				     "PMI_LOCAL_RANK\0"
				     "PMI_LOCAL_SIZE\0"
				     "PMIX_RANK\0"
				     "PMIX_LOCAL_RANK\0"
				     "PMIX_LOCAL_SIZE\0"
				     "PMIX_HOSTNAME\0"
				     "MPI_LOCALRANKID\0"
				     "MPI_LOCALNRANKS\0"
				     "PALS_RANKID\0"
				     "PALS_LOCAL_RANKID\0"
				     "PALS_LOCAL_SIZE\0"
				     "MV2_COMM_WORLD_LOCAL_RANK\0"
				     "MV2_COMM_WORLD_LOCAL_SIZE\0"
				     "MV2_COMM_WORLD_RANK\0"
				     "MV2_COMM_WORLD_SIZE\0"
				     "MV2_COMM_WORLD_*\0"
				     "MVP_COMM_WORLD_LOCAL_RANK\0"
				     "MVP_COMM_WORLD_LOCAL_SIZE\0"
				     "MVP_COMM_WORLD_RANK\0"
				     "MVP_COMM_WORLD_SIZE\0"
				     "JSM_NAMESPACE_LOCAL_RANK\0"
				     "JSM_NAMESPACE_LOCAL_SIZE\0"
				     "JSM_NAMESPACE_RANK\0"
				     "JSM_NAMESPACE_SIZE\0"
				     "FLUX_JOB_SIZE\0"
				     "FLUX_TASK_LOCAL_ID\0"
				     "FLUX_TASK_RANK\0"
				     "HOROVOD_LOCAL_RANK\0"
				     "HOROVOD_LOCAL_SIZE\0"
				     "HOROVOD_RANK\0"
				     "HOROVOD_SIZE\0"
				     "JOB_COMPLETION_INDEX\0"
				     "POD_NAME\0"
				     "MY_POD_NAME\0"
				     "SLURMD_NODENAME\0"
				     "RAY_JOB_ID\0"
				     "CUDA_VISIBLE_DEVICES\0"
				     "CUDA_DEVICE_ORDER\0"
				     "CUDA_LAUNCH_BLOCKING\0"
				     "CUDA_MODULE_LOADING\0"
				     "NVIDIA_VISIBLE_DEVICES\0"
				     "OMP_NUM_THREADS\0"
				     "NCCL_ALGO\0"
				     "NCCL_BUFFSIZE\0"
				     "NCCL_CROSS_NIC\0"
				     "NCCL_DEBUG\0"
				     "NCCL_IB_DISABLE\0"
				     "NCCL_IB_HCA\0"
				     "NCCL_MAX_CTAS\0"
				     "NCCL_MAX_NCHANNELS\0"
				     "NCCL_MIN_CTAS\0"
				     "NCCL_MIN_NCHANNELS\0"
				     "NCCL_NET\0"
				     "NCCL_NET_GDR_LEVEL\0"
				     "NCCL_NTHREADS\0"
				     "NCCL_NVLS_ENABLE\0"
				     "NCCL_P2P_DISABLE\0"
				     "NCCL_P2P_LEVEL\0"
				     "NCCL_PROTO\0"
				     "NCCL_SHM_DISABLE\0"
				     "NCCL_SOCKET_IFNAME\0"
				     "NCCL_TOPO_FILE\0"
				     "NCCL_*\0"
				     "KUBERNETES_*\0";

enum variable_kind { VARIABLE_OTHER, VARIABLE_NAMED, VARIABLE_KEPT };

static enum variable_kind find_variable_kind(const char *entry)
{
	size_t len = strcspn(entry, "=");

	for (const char *v = ws_launcher_variables; *v; v += strlen(v) + 1) {
		size_t n = strlen(v);

		if (v[n - 1] == '*' && !strncmp(entry, v, n - 1))
			return VARIABLE_NAMED;
		if (n == len && !strncmp(entry, v, n))
			return VARIABLE_KEPT;
	}
	return VARIABLE_OTHER;
}

/* `shared`: the variables come from one of several ranks, and those that differ by rank are left
 * out. */
static void add_environment(struct ws_sink *sink, char **env, bool all, bool shared)
{
	for (char **e = env; *e; e++) {
		const char *eq = strchr(*e, '='), *value = "(not stored)";
		enum variable_kind kind = VARIABLE_KEPT;
		char *name;

		if (!all)
			kind = find_variable_kind(*e);
		if (!eq || kind == VARIABLE_OTHER ||
		    (shared && ws_is_rank_variable(*e, (size_t)(eq - *e))))
			continue;
		if (kind == VARIABLE_KEPT)
			value = eq + 1;
		name = ws_format("env.%.*s", (int)(eq - *e), *e);
		ws_sink_meta(sink, name, "%s", value);
		free(name);
	}
}

/* The value after "<key> ... : " in a file like /proc/cpuinfo; "" when absent. */
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

/* Append the words, each ended by a NUL. The target's words are masked separately from ours, since
 * options of its program mean something else. */
static void add_words(struct ws_text *out, char **words, size_t count, bool masked)
{
	struct ws_text all = {0};

	for (size_t i = 0; i < count; i++)
		ws_text_add(&all, words[i], strlen(words[i]) + 1);
	if (masked && all.len)
		ws_mask_words(out, all.text, all.len);
	else if (all.len)
		ws_text_add(out, all.text, all.len);
	ws_text_free(&all);
}

static size_t count_words(char **words)
{
	size_t count = 0;

	while (words[count])
		count++;
	return count;
}

/* How many words at the end of our command line belong to the target. */
static size_t count_target_words(char **line, char **target)
{
	size_t words = count_words(line), count = count_words(target);

	if (count > words)
		return 0;
	for (size_t i = 0; i < count; i++)
		if (strcmp(line[words - count + i], target[i]))
			return 0;
	return count;
}

static void add_command(struct ws_sink *sink, const char *name, char **line, char **target)
{
	size_t ours = count_words(line), theirs = count_target_words(line, target);
	struct ws_text text = {0};

	add_words(&text, line, ours - theirs, !sink->keep_command_lines);
	add_words(&text, line + ours - theirs, theirs, !sink->keep_command_lines);
	for (size_t i = 0; i + 1 < text.len; i++)
		if (!text.text[i])
			text.text[i] = ' ';
	ws_sink_meta(sink, name, "%s", ws_text_or(text.text, ""));
	ws_text_free(&text);
}

static void add_machine(struct ws_sink *sink)
{
	cpu_set_t allowed;
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
	CPU_ZERO(&allowed); /* the target begins with the recorder's */
	if (!sched_getaffinity(0, sizeof(allowed), &allowed))
		ws_sink_meta(sink, "cpu.allowed", "%d", CPU_COUNT(&allowed));
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

/* What is traced, as in ",cuda,nvtx"; owned by the caller. */
static char *list_domains(const struct ws_record_opts *options)
{
	const struct {
		const char *name;
		bool on;
	} domains[] = {
		{"cuda", options->cuda},       {"nvtx", options->nvtx},
		{"osrt", options->osrt},       {"openmp", options->openmp},
		{"openacc", options->openacc}, {"nccl-trace", options->nccl_events != 0},
		{"malloc", options->malloc},   {"syscall", options->perf.syscalls},
	};
	struct ws_text list = {0};

	ws_text_add(&list, "", 0);
	for (size_t i = 0; i < WS_COUNT(domains); i++)
		if (domains[i].on)
			ws_text_printf(&list, ",%s", domains[i].name);
	return list.text;
}

void ws_facts_write(struct ws_sink *sink, const struct ws_record_opts *options, int target_pid,
		    char **target_env)
{
	char cwd[PATH_MAX];
	struct timespec ts;
	struct tm tm;
	char when[64], *domains;

	ws_sink_meta(sink, "warpsight.version", "%s", WS_VERSION);
	add_command(sink, "session.command_line", options->command_line, options->argv);
	add_command(sink, "target.command_line", options->argv, options->argv);
	if (target_pid)
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
	domains = list_domains(options);
	ws_sink_meta(sink, "session.trace", "%s", *domains ? domains + 1 : "none");
	free(domains);
	ws_sink_meta(sink, "session.delay_s", "%g", options->delay);
	ws_sink_meta(sink, "session.duration_s", "%g", options->duration);
	ws_sink_meta(sink, "session.osrt_threshold_ns", "%.0f", options->osrt_threshold * 1e9);
	ws_sink_meta(sink, "clock.session", "CLOCK_MONOTONIC_RAW");
	add_machine(sink);
	ws_limits_begin(sink, &sink->throttling);
	add_left_out(sink, options);
	add_environment(sink, target_env, options->store_environment, options->gather);
}
