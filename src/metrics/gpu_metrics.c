/* gpu_metrics.c - see gpu_metrics.h: the recorder's side. */
#include "metrics/gpu_metrics.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/matching.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "metrics/gpu_pipe.h"
#include "metrics/pm_sets.h"

#define SECOND UINT64_C(1000000000)
#define PREPARE_NS (15 * SECOND) /* how long the driver may take to begin */
#define SETTLE_NS (3 * SECOND)	 /* how long to wait for each of the last messages */
#define LONGEST_NS (SECOND / 10) /* a longer value is split */
#define PIPE_BYTES (1 << 20)
#define READ_BYTES (256u << 10)
#define MOST_MESSAGE (64u << 20)
#define MOST_VALUES ((size_t)1 << 22) /* not fetched yet: values beyond this are dropped */
#define MOST_GPUS 64u

/* A value that lasts as long as samples repeat it. */
struct run {
	uint64_t start, end;
	float value;
	bool open;
};

struct gpu {
	struct gpu_device device;
	uint32_t first, count;	 /* indices of its metrics */
	uint64_t last;		 /* end of its last sample; 0: there is none */
	uint64_t known, missing; /* ns of this collection */
};

/* One of the sampling processes; it samples one GPU when the number of GPUs is known. */
struct process {
	pid_t child;
	int commands, messages; /* -1 once closed */
	bool ready, collecting, stopping;
	uint8_t *bytes; /* received, not parsed yet */
	size_t length, capacity;
	struct gpu gpus[MOST_GPUS];
	uint32_t gpu_count;
	struct ws_metric **metrics;
	struct run *runs;
	size_t metric_count, metric_cap, run_cap;
	struct ws_metric_value *values;
	size_t value_count, value_cap;
	char **complaints;
	size_t complaint_count, complaint_cap;
};

struct ws_gpu_sampling {
	struct process *processes;
	uint32_t count;
};

/* ---- options ---- */

static bool is_wanted(const struct ws_gpu_sampling_opts *opts)
{
	return opts->devices && strcmp(opts->devices, "none") != 0;
}

static int check_devices(const char *words, struct ws_err *err)
{
	if (!strcmp(words, "all") || !strcmp(words, "cuda-visible"))
		return 0;
	for (const char *word = words; word;) {
		size_t length = strcspn(word, ","), digits = strspn(word, "0123456789");

		if (!length || length != digits || length > 3)
			return ws_fail(err,
				       "--gpu-metrics-devices: '%.*s' is no GPU: give numbers, "
				       "separated by commas, all, cuda-visible or none; help "
				       "lists the GPUs",
				       (int)ws_min(length, (size_t)100), word);
		word = word[length] ? word + length + 1 : NULL;
	}
	return 0;
}

int ws_gpu_sampling_check(const struct ws_gpu_sampling_opts *opts, struct ws_err *err)
{
	struct ws_pm_wanted wanted;

	if (!is_wanted(opts))
		return 0;
	if (check_devices(opts->devices, err))
		return -1;
	if (opts->hz < WS_GPU_METRICS_HZ_LEAST || opts->hz > WS_GPU_METRICS_HZ_MOST)
		return ws_fail(err, "--gpu-metrics-frequency: %u is not %u to %u", opts->hz,
			       WS_GPU_METRICS_HZ_LEAST, WS_GPU_METRICS_HZ_MOST);
	if (ws_pm_wanted_read(opts->set, &wanted, err))
		return -1;
	ws_pm_wanted_free(&wanted);
	return 0;
}

/* ---- complaints ---- */

static void complain(struct process *process, char *sentence)
{
	ws_grow(process->complaints, process->complaint_cap, process->complaint_count + 1);
	process->complaints[process->complaint_count++] = sentence;
}

static char *take_complaint(struct process *process)
{
	char *first;

	if (!process->complaint_count)
		return NULL;
	first = process->complaints[0];
	memmove(process->complaints, process->complaints + 1,
		--process->complaint_count * sizeof(char *));
	return first;
}

/* ---- the process ---- */

/* In the child: close all descriptors of the recorder but the two pipes and standard error, and
 * keep the driver from loading what another tool set up. */
static _Noreturn void be_child(const struct ws_gpu_sampling_opts *opts,
			       const struct ws_gpu_part *part, pid_t parent, const int pipes[2])
{
	static const char *const foreign[] = {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
					      "LD_PRELOAD"};
	static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
	sigset_t none;

	for (size_t i = 0; i < WS_COUNT(ignored); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "ws-gpu-metrics");
	setpriority(PRIO_PROCESS, 0, -10); /* as the recorder's; a refusal does not matter */
	if (getppid() != parent)
		_exit(0);
	if (dup2(pipes[0], 3) < 0 || dup2(pipes[1], 4) < 0)
		_exit(1);
	syscall(SYS_close_range, 5u, ~0u, 0u);
	for (size_t i = 0; i < WS_COUNT(foreign); i++)
		unsetenv(foreign[i]);
	ws_gpu_child_serve(opts, part, 3, 4);
	_exit(0);
}

/* Move the ends of a pipe, whose creation returned `error`, away from descriptors 3 and 4, where
 * the child has its own. */
static int make_ends(int error, int ends[2])
{
	int raised[2];

	if (error)
		return -1;
	for (int i = 0; i < 2; i++) {
		raised[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, 10);
		close(ends[i]);
		ends[i] = raised[i];
	}
	return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

static void start_child(struct process *process, const struct ws_gpu_sampling_opts *opts,
			const struct ws_gpu_part *part)
{
	int commands[2] = {-1, -1}, messages[2] = {-1, -1};
	pid_t self = getpid();

	process->child = -1;
	if (!make_ends(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, commands), commands) &&
	    !make_ends(pipe2(messages, O_CLOEXEC), messages)) {
		fcntl(messages[1], F_SETPIPE_SZ, PIPE_BYTES);
		process->child = fork();
	}
	if (!process->child)
		be_child(opts, part, self, (int[2]){commands[0], messages[1]});
	if (commands[0] >= 0)
		close(commands[0]);
	if (messages[1] >= 0)
		close(messages[1]);
	process->commands = commands[1];
	process->messages = messages[0];
	if (messages[0] >= 0)
		fcntl(messages[0], F_SETFL, O_NONBLOCK);
	if (process->child < 0)
		complain(process, ws_format("GPU metrics are not recorded: the process that "
					    "samples them cannot be started (%s).",
					    strerror(errno)));
}

static void close_pipes(struct process *process)
{
	if (process->commands >= 0)
		close(process->commands);
	if (process->messages >= 0)
		close(process->messages);
	process->commands = process->messages = -1;
}

/* A process that hangs in the driver may be impossible to kill, so it is not waited for long. */
static void reap_child(struct process *process)
{
	for (int i = 0; i < 100 && process->child > 0; i++) {
		if (waitpid(process->child, NULL, WNOHANG) != 0)
			process->child = -1;
		else if (i == 50)
			kill(process->child, SIGKILL);
		if (process->child > 0)
			usleep(20000);
	}
	process->child = -1;
}

static void flush_runs(struct process *process, const struct gpu *gpu);
static void mark_gap(struct process *process, struct gpu *gpu, const struct gpu_sample *gap);

/* The process is gone, or is to go: from here on, nothing is known of its GPUs. */
static void end_child(struct process *process, const char *why)
{
	bool was_there = process->messages >= 0;

	close_pipes(process);
	for (uint32_t i = 0; was_there && i < process->gpu_count; i++) {
		struct gpu *gpu = &process->gpus[i];

		flush_runs(process, gpu);
		if (gpu->last && process->collecting)
			mark_gap(process, gpu, &(struct gpu_sample){gpu->last, gpu->last});
	}
	process->ready = true;
	process->stopping = false;
	if (was_there && why)
		complain(process, ws_format("GPU metrics are recorded no further: %s.", why));
}

/* ---- values ---- */

static void append_value(struct process *process, struct ws_metric_value value)
{
	if (process->value_count == MOST_VALUES)
		return;
	ws_grow(process->values, process->value_cap, process->value_count + 1);
	process->values[process->value_count++] = value;
}

static void flush_run(struct process *process, uint32_t metric)
{
	struct run *run = &process->runs[metric];

	if (run->open)
		append_value(process, (struct ws_metric_value){run->start, run->end - run->start,
							       (double)run->value, metric});
	run->open = false;
}

static void flush_runs(struct process *process, const struct gpu *gpu)
{
	for (uint32_t i = 0; i < gpu->count; i++)
		flush_run(process, gpu->first + i);
}

/* A value that is not known is NAN, which is never equal to itself. */
static bool is_same(float one, float other)
{
	return one == other || (isnan(one) && isnan(other));
}

static void continue_run(struct process *process, uint32_t metric, const struct gpu_sample *sample,
			 float value)
{
	struct run *run = &process->runs[metric];

	if (run->open && is_same(run->value, value) && run->end == sample->start &&
	    sample->end - run->start <= LONGEST_NS) {
		run->end = sample->end;
		return;
	}
	flush_run(process, metric);
	*run = (struct run){sample->start, sample->end, value, true};
}

static void mark_gap(struct process *process, struct gpu *gpu, const struct gpu_sample *gap)
{
	gpu->missing += gap->end - gap->start;
	gpu->last = gap->end;
	for (uint32_t i = 0; i < gpu->count; i++) {
		flush_run(process, gpu->first + i);
		append_value(process, (struct ws_metric_value){gap->start, gap->end - gap->start,
							       (double)NAN, gpu->first + i});
	}
}

/* ---- messages ---- */

static struct gpu *find_gpu(struct process *process, const struct gpu_head *head)
{
	return head->gpu < process->gpu_count ? &process->gpus[head->gpu] : NULL;
}

static void take_device(struct process *process, const struct gpu_device *device)
{
	struct gpu *gpu = &process->gpus[process->gpu_count];

	if (process->gpu_count == MOST_GPUS)
		return;
	process->gpu_count++;
	*gpu = (struct gpu){.device = *device, .first = (uint32_t)process->metric_count};
}

static void take_row(struct process *process, struct gpu *gpu, const struct gpu_row *row)
{
	struct ws_metric *metric = ws_calloc(1, sizeof(*metric));

	metric->group = WS_METRIC_GPU;
	metric->heading = ws_format("GPU metrics, GPU %u", gpu->device.number);
	metric->name = ws_strdup(row->name);
	metric->unit = ws_strdup(row->unit);
	metric->identity = ws_strdup(gpu->device.uuid);
	metric->device = (int)gpu->device.number;
	metric->cpu = -1;
	metric->period = gpu->device.period;
	metric->number = gpu->count;
	ws_grow(process->metrics, process->metric_cap, process->metric_count + 1);
	ws_grow(process->runs, process->run_cap, process->metric_count + 1);
	process->runs[process->metric_count] = (struct run){0};
	process->metrics[process->metric_count++] = metric;
	gpu->count++;
}

static void take_samples(struct process *process, struct gpu *gpu, const struct gpu_head *head,
			 const uint8_t *at)
{
	size_t size = sizeof(struct gpu_sample) + gpu->count * sizeof(float);

	if ((uint64_t)head->count * size != head->bytes)
		return;
	for (uint32_t n = 0; n < head->count; n++, at += size) {
		struct gpu_sample sample;
		float value;

		memcpy(&sample, at, sizeof(sample));
		gpu->last = sample.end;
		gpu->known += sample.end - sample.start;
		for (uint32_t i = 0; i < gpu->count; i++) {
			memcpy(&value, at + sizeof(sample) + i * sizeof(value), sizeof(value));
			continue_run(process, gpu->first + i, &sample, value);
		}
	}
}

static void sum_up(struct process *process)
{
	for (uint32_t i = 0; i < process->gpu_count; i++) {
		struct gpu *gpu = &process->gpus[i];

		flush_runs(process, gpu);
		if (gpu->missing)
			complain(process,
				 ws_format("GPU %u: %.3f s of %.3f s of GPU metrics are missing, "
					   "because samples came faster than they could be read. "
					   "A lower --gpu-metrics-frequency or a smaller "
					   "--gpu-metrics-set avoids that.",
					   gpu->device.number, (double)gpu->missing / 1e9,
					   (double)(gpu->missing + gpu->known) / 1e9));
		gpu->missing = gpu->known = 0;
	}
	process->stopping = false;
}

static void take_message(struct process *process, const struct gpu_head *head, const uint8_t *body)
{
	struct gpu *gpu = find_gpu(process, head);

	if (head->kind == GPU_READY)
		process->ready = true;
	else if (head->kind == GPU_STOPPED)
		sum_up(process);
	else if (head->kind == GPU_COMPLAINT)
		complain(process, ws_format("%.*s", (int)head->bytes, (const char *)body));
	else if (head->kind == GPU_DEVICE && head->bytes == sizeof(struct gpu_device))
		take_device(process, (const struct gpu_device *)body);
	else if (head->kind == GPU_METRIC && gpu && head->bytes == sizeof(struct gpu_row))
		take_row(process, gpu, (const struct gpu_row *)body);
	else if (head->kind == GPU_SAMPLES && gpu)
		take_samples(process, gpu, head, body);
	else if (head->kind == GPU_GAP && gpu && head->bytes == sizeof(struct gpu_sample))
		mark_gap(process, gpu, (const struct gpu_sample *)body);
}

/* Parse all complete messages in what has been received. */
static void take_messages(struct process *process)
{
	size_t at = 0;
	struct gpu_head head;

	while (process->length - at >= sizeof(head)) {
		memcpy(&head, process->bytes + at, sizeof(head));
		if (head.kind >= GPU_MESSAGES || head.bytes > MOST_MESSAGE) {
			end_child(process, "the process that samples them failed");
			process->length = 0;
			return;
		}
		if (process->length - at - sizeof(head) < WS_ALIGN_UP(head.bytes, 8))
			break;
		take_message(process, &head, process->bytes + at + sizeof(head));
		at += sizeof(head) + WS_ALIGN_UP(head.bytes, 8);
	}
	memmove(process->bytes, process->bytes + at, process->length - at);
	process->length -= at;
}

/* Receive what has been sent; false when nothing has. */
static bool receive(struct process *process)
{
	ssize_t n = 0;

	if (process->messages < 0)
		return false;
	ws_grow(process->bytes, process->capacity, process->length + READ_BYTES);
	n = read(process->messages, process->bytes + process->length, READ_BYTES);
	if (n > 0) {
		process->length += (size_t)n;
		take_messages(process);
		return true;
	}
	if (!n || (errno != EAGAIN && errno != EINTR))
		end_child(process, "the process that samples them has ended unexpectedly");
	return false;
}

/* Receive until `*flag` is as wanted, or nothing has come for `ns`; returns whether it is. */
static bool receive_until(struct process *process, const bool *flag, bool wanted, uint64_t ns)
{
	uint64_t until = ws_read_raw_ns() + ns;

	while (*flag != wanted && process->messages >= 0 && ws_read_raw_ns() < until) {
		struct pollfd pollfd = {process->messages, POLLIN, 0};

		poll(&pollfd, 1, 100);
		if (receive(process))
			until = ws_read_raw_ns() + ns;
	}
	return *flag == wanted;
}

static void send_command(struct process *process, char command)
{
	if (process->commands >= 0 && send(process->commands, &command, 1, MSG_NOSIGNAL) != 1)
		end_child(process, "the process that samples them has ended unexpectedly");
}

/* ---- the interface ---- */

/* How many GPUs the driver reports; 0 when that is not known. */
static uint32_t count_gpus(void)
{
	struct ws_matching_paths found;
	uint32_t count;

	if (getenv("WARPSIGHT_PM")) /* for tests: a stand-in */
		return 2;
	ws_find_matching_paths("/proc/driver/nvidia/gpus/*", &found);
	count = (uint32_t)ws_min(found.count, (size_t)MOST_GPUS);
	ws_matching_paths_free(&found);
	return count;
}

/* Decoding the samples of one GPU may take a core: each GPU has a process. */
struct ws_gpu_sampling *ws_gpu_sampling_new(const struct ws_gpu_sampling_opts *opts)
{
	struct ws_gpu_sampling *sampling;

	if (!is_wanted(opts))
		return NULL;
	sampling = ws_calloc(1, sizeof(*sampling));
	sampling->count = ws_max(count_gpus(), 1u);
	sampling->processes = ws_calloc(sampling->count, sizeof(*sampling->processes));
	for (uint32_t i = 0; i < sampling->count; i++) {
		bool last = i + 1 == sampling->count;

		start_child(&sampling->processes[i], opts, &(struct ws_gpu_part){i, last});
	}
	return sampling;
}

void ws_gpu_sampling_await(struct ws_gpu_sampling *sampling)
{
	for (uint32_t i = 0; sampling && i < sampling->count; i++)
		if (!receive_until(&sampling->processes[i], &sampling->processes[i].ready, true,
				   PREPARE_NS))
			end_child(&sampling->processes[i], "the driver does not answer");
}

void ws_gpu_sampling_begin(struct ws_gpu_sampling *sampling)
{
	for (uint32_t i = 0; sampling && i < sampling->count; i++) {
		sampling->processes[i].collecting = true;
		send_command(&sampling->processes[i], GPU_BEGIN);
	}
}

void ws_gpu_sampling_stop(struct ws_gpu_sampling *sampling)
{
	for (uint32_t i = 0; sampling && i < sampling->count; i++) {
		struct process *process = &sampling->processes[i];

		if (!process->collecting)
			continue;
		process->collecting = false;
		process->stopping = process->messages >= 0;
		send_command(process, GPU_END);
	}
}

void ws_gpu_sampling_settle(struct ws_gpu_sampling *sampling)
{
	for (uint32_t i = 0; sampling && i < sampling->count; i++) {
		struct process *process = &sampling->processes[i];

		if (process->stopping &&
		    !receive_until(process, &process->stopping, false, SETTLE_NS))
			end_child(process, "CUPTI does not answer at the end");
	}
}

static bool has_links(const struct process *process, const struct gpu *gpu)
{
	for (uint32_t i = 0; i < gpu->count; i++) {
		const struct ws_metric *metric = process->metrics[gpu->first + i];

		if (!strncmp(metric->name, "NVLink", 6) && !strcmp(metric->unit, "B/s"))
			return true;
	}
	return false;
}

/* A GPU that cannot be sampled after all appears again, with other metrics. */
uint64_t ws_gpu_sampling_find_links(const struct ws_gpu_sampling *sampling)
{
	uint64_t found = 0;

	for (uint32_t i = 0; sampling && i < sampling->count; i++) {
		const struct process *process = &sampling->processes[i];

		for (uint32_t k = 0; k < process->gpu_count; k++) {
			uint64_t bit = UINT64_C(1) << (process->gpus[k].device.number & 63);

			found &= ~bit;
			if (has_links(process, &process->gpus[k]))
				found |= bit;
		}
	}
	return found;
}

/* Numbers of metrics are interleaved: each process has every n-th number. */
static void move_values(struct ws_gpu_sampling *sampling, uint32_t index,
			struct ws_metric_value **values, size_t *n)
{
	struct process *process = &sampling->processes[index];
	size_t count;

	while (receive(process))
		;
	count = process->value_count;
	*values = ws_realloc(*values, (*n + count + 1) * sizeof(**values));
	for (size_t i = 0; i < count; i++) {
		(*values)[*n + i] = process->values[i];
		(*values)[*n + i].metric = process->values[i].metric * sampling->count + index;
	}
	*n += count;
	process->value_count = 0;
}

struct ws_metric_value *ws_gpu_sampling_take(struct ws_gpu_sampling *sampling, size_t *n)
{
	struct ws_metric_value *values = NULL;

	*n = 0;
	for (uint32_t i = 0; i < sampling->count; i++)
		move_values(sampling, i, &values, n);
	return values;
}

const struct ws_metric *ws_gpu_sampling_describe(const struct ws_gpu_sampling *sampling,
						 uint32_t index)
{
	return sampling->processes[index % sampling->count].metrics[index / sampling->count];
}

char *ws_gpu_sampling_take_complaint(struct ws_gpu_sampling *sampling)
{
	char *complaint = NULL;

	for (uint32_t i = 0; i < sampling->count && !complaint; i++)
		complaint = take_complaint(&sampling->processes[i]);
	return complaint;
}

static void free_process(struct process *process)
{
	reap_child(process);
	for (size_t i = 0; i < process->metric_count; i++) {
		free((char *)process->metrics[i]->heading);
		free(process->metrics[i]->name);
		free((char *)process->metrics[i]->unit);
		free(process->metrics[i]->identity);
		free(process->metrics[i]);
	}
	for (size_t i = 0; i < process->complaint_count; i++)
		free(process->complaints[i]);
	free(process->complaints);
	free(process->metrics);
	free(process->runs);
	free(process->values);
	free(process->bytes);
}

void ws_gpu_sampling_free(struct ws_gpu_sampling *sampling)
{
	if (!sampling)
		return;
	for (uint32_t i = 0; i < sampling->count; i++)
		close_pipes(&sampling->processes[i]);
	for (uint32_t i = 0; i < sampling->count; i++)
		free_process(&sampling->processes[i]);
	free(sampling->processes);
	free(sampling);
}

char *ws_gpu_sampling_list_sets(void)
{
	return ws_pm_list_sets();
}

static char *list_process(struct process *process, char *text)
{
	char *longer, *complaint;

	for (uint32_t i = 0; i < process->gpu_count; i++) {
		const struct gpu_device *device = &process->gpus[i].device;

		longer = ws_format("%s%u: %s, %s, %s: %s\n", text, device->number, device->name,
				   device->chip, device->uuid, device->state);
		free(text);
		text = longer;
	}
	while ((complaint = take_complaint(process))) {
		longer = ws_format("%s%s\n", text, complaint);
		free(complaint);
		free(text);
		text = longer;
	}
	return text;
}

char *ws_gpu_sampling_list_devices(void)
{
	const struct ws_gpu_sampling_opts opts = {"all", NULL, WS_GPU_METRICS_HZ};
	struct ws_gpu_sampling *sampling = ws_gpu_sampling_new(&opts);
	char *text = ws_strdup("");

	ws_gpu_sampling_await(sampling);
	for (uint32_t i = 0; i < sampling->count; i++)
		text = list_process(&sampling->processes[i], text);
	ws_gpu_sampling_free(sampling);
	return text;
}
