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
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "metrics/gpu_pipe.h"
#include "metrics/pm_sets.h"

#define SECOND UINT64_C(1000000000)
#define PREPARE_NS (15 * SECOND) /* as long may the driver take to begin */
#define SETTLE_NS (3 * SECOND)	 /* as long is waited for the last samples */
#define LONGEST_NS (SECOND / 10) /* of one value */
#define PIPE_BYTES (1 << 20)
#define READ_BYTES (256u << 10)
#define MOST_MESSAGE (64u << 20)
#define MOST_VALUES ((size_t)1 << 22) /* not fetched yet: those after them are dropped */
#define MOST_GPUS 64u

/* A value that goes on as long as samples repeat it. */
struct run {
	uint64_t start, end;
	float value;
	bool open;
};

struct gpu {
	struct gpu_device device;
	uint32_t first, count;	 /* its metrics */
	uint64_t last;		 /* end of its last sample; 0: there is none */
	uint64_t known, missing; /* ns of this collection */
};

struct ws_gpu_sampling {
	pid_t child;
	int commands, messages; /* -1 once closed */
	bool ready, collecting, stopping;
	uint8_t *bytes; /* received, not understood yet */
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

static void complain(struct ws_gpu_sampling *gpu_metrics, char *sentence)
{
	ws_grow(gpu_metrics->complaints, gpu_metrics->complaint_cap,
		gpu_metrics->complaint_count + 1);
	gpu_metrics->complaints[gpu_metrics->complaint_count++] = sentence;
}

char *ws_gpu_sampling_take_complaint(struct ws_gpu_sampling *gpu_metrics)
{
	char *first;

	if (!gpu_metrics->complaint_count)
		return NULL;
	first = gpu_metrics->complaints[0];
	memmove(gpu_metrics->complaints, gpu_metrics->complaints + 1,
		--gpu_metrics->complaint_count * sizeof(char *));
	return first;
}

/* ---- the process ---- */

/* In the child: nothing of the recorder's but the two pipes and standard error is left open, and
 * nothing that another tool set up is loaded by the driver. */
static _Noreturn void be_child(const struct ws_gpu_sampling_opts *opts, pid_t parent, int commands,
			       int messages)
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
	if (getppid() != parent)
		_exit(0);
	if (dup2(commands, 3) < 0 || dup2(messages, 4) < 0)
		_exit(1);
	close_range(5, ~0u, 0);
	for (size_t i = 0; i < WS_COUNT(foreign); i++)
		unsetenv(foreign[i]);
	ws_gpu_child_serve(opts, 3, 4);
	_exit(0);
}

/* Of a pipe whose making returned `error`: ends that are neither 3 nor 4, where the child has them.
 */
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

static void start_child(struct ws_gpu_sampling *gpu_metrics,
			const struct ws_gpu_sampling_opts *opts)
{
	int commands[2] = {-1, -1}, messages[2] = {-1, -1};
	pid_t self = getpid();

	gpu_metrics->child = -1;
	if (!make_ends(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, commands), commands) &&
	    !make_ends(pipe2(messages, O_CLOEXEC), messages)) {
		fcntl(messages[1], F_SETPIPE_SZ, PIPE_BYTES);
		gpu_metrics->child = fork();
	}
	if (!gpu_metrics->child)
		be_child(opts, self, commands[0], messages[1]);
	if (commands[0] >= 0)
		close(commands[0]);
	if (messages[1] >= 0)
		close(messages[1]);
	gpu_metrics->commands = commands[1];
	gpu_metrics->messages = messages[0];
	if (messages[0] >= 0)
		fcntl(messages[0], F_SETFL, O_NONBLOCK);
	if (gpu_metrics->child < 0)
		complain(gpu_metrics, ws_format("GPU metrics are not recorded: the process that "
						"samples them cannot be started (%s).",
						strerror(errno)));
}

static void close_pipes(struct ws_gpu_sampling *gpu_metrics)
{
	if (gpu_metrics->commands >= 0)
		close(gpu_metrics->commands);
	if (gpu_metrics->messages >= 0)
		close(gpu_metrics->messages);
	gpu_metrics->commands = gpu_metrics->messages = -1;
}

/* One that hangs in the driver may not even be there to be killed: it is not waited for long. */
static void reap_child(struct ws_gpu_sampling *gpu_metrics)
{
	for (int i = 0; i < 100 && gpu_metrics->child > 0; i++) {
		if (waitpid(gpu_metrics->child, NULL, WNOHANG) != 0)
			gpu_metrics->child = -1;
		else if (i == 50)
			kill(gpu_metrics->child, SIGKILL);
		if (gpu_metrics->child > 0)
			usleep(20000);
	}
	gpu_metrics->child = -1;
}

static void flush_runs(struct ws_gpu_sampling *gpu_metrics, const struct gpu *gpu);
static void mark_gap(struct ws_gpu_sampling *gpu_metrics, struct gpu *gpu,
		     const struct gpu_sample *gap);

/* It is gone, or is to go: what is known of the GPUs ends here. */
static void end_child(struct ws_gpu_sampling *gpu_metrics, const char *why)
{
	bool was_there = gpu_metrics->messages >= 0;

	close_pipes(gpu_metrics);
	for (uint32_t i = 0; was_there && i < gpu_metrics->gpu_count; i++) {
		struct gpu *gpu = &gpu_metrics->gpus[i];

		flush_runs(gpu_metrics, gpu);
		if (gpu->last && gpu_metrics->collecting)
			mark_gap(gpu_metrics, gpu, &(struct gpu_sample){gpu->last, gpu->last});
	}
	gpu_metrics->ready = true;
	gpu_metrics->stopping = false;
	if (was_there && why)
		complain(gpu_metrics, ws_format("GPU metrics are recorded no further: %s.", why));
}

/* ---- values ---- */

static void append_value(struct ws_gpu_sampling *gpu_metrics, struct ws_metric_value value)
{
	if (gpu_metrics->value_count == MOST_VALUES)
		return;
	ws_grow(gpu_metrics->values, gpu_metrics->value_cap, gpu_metrics->value_count + 1);
	gpu_metrics->values[gpu_metrics->value_count++] = value;
}

static void flush_run(struct ws_gpu_sampling *gpu_metrics, uint32_t metric)
{
	struct run *run = &gpu_metrics->runs[metric];

	if (run->open)
		append_value(gpu_metrics,
			     (struct ws_metric_value){run->start, run->end - run->start,
						      (double)run->value, metric});
	run->open = false;
}

static void flush_runs(struct ws_gpu_sampling *gpu_metrics, const struct gpu *gpu)
{
	for (uint32_t i = 0; i < gpu->count; i++)
		flush_run(gpu_metrics, gpu->first + i);
}

static void continue_run(struct ws_gpu_sampling *gpu_metrics, uint32_t metric,
			 const struct gpu_sample *sample, float value)
{
	struct run *run = &gpu_metrics->runs[metric];

	if (run->open && run->value == value && run->end == sample->start &&
	    sample->end - run->start <= LONGEST_NS) {
		run->end = sample->end;
		return;
	}
	flush_run(gpu_metrics, metric);
	if (isfinite(value))
		*run = (struct run){sample->start, sample->end, value, true};
	else
		append_value(gpu_metrics,
			     (struct ws_metric_value){sample->start, sample->end - sample->start,
						      (double)NAN, metric});
}

static void mark_gap(struct ws_gpu_sampling *gpu_metrics, struct gpu *gpu,
		     const struct gpu_sample *gap)
{
	gpu->missing += gap->end - gap->start;
	gpu->last = gap->end;
	for (uint32_t i = 0; i < gpu->count; i++) {
		flush_run(gpu_metrics, gpu->first + i);
		append_value(gpu_metrics,
			     (struct ws_metric_value){gap->start, gap->end - gap->start,
						      (double)NAN, gpu->first + i});
	}
}

/* ---- messages ---- */

static struct gpu *find_gpu(struct ws_gpu_sampling *gpu_metrics, const struct gpu_head *head)
{
	return head->gpu < gpu_metrics->gpu_count ? &gpu_metrics->gpus[head->gpu] : NULL;
}

static void take_device(struct ws_gpu_sampling *gpu_metrics, const struct gpu_device *device)
{
	struct gpu *gpu = &gpu_metrics->gpus[gpu_metrics->gpu_count];

	if (gpu_metrics->gpu_count == MOST_GPUS)
		return;
	gpu_metrics->gpu_count++;
	*gpu = (struct gpu){.device = *device, .first = (uint32_t)gpu_metrics->metric_count};
}

static void take_row(struct ws_gpu_sampling *gpu_metrics, struct gpu *gpu,
		     const struct gpu_row *row)
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
	ws_grow(gpu_metrics->metrics, gpu_metrics->metric_cap, gpu_metrics->metric_count + 1);
	ws_grow(gpu_metrics->runs, gpu_metrics->run_cap, gpu_metrics->metric_count + 1);
	gpu_metrics->runs[gpu_metrics->metric_count] = (struct run){0};
	gpu_metrics->metrics[gpu_metrics->metric_count++] = metric;
	gpu->count++;
}

static void take_samples(struct ws_gpu_sampling *gpu_metrics, struct gpu *gpu,
			 const struct gpu_head *head, const uint8_t *at)
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
			continue_run(gpu_metrics, gpu->first + i, &sample, value);
		}
	}
}

static void sum_up(struct ws_gpu_sampling *gpu_metrics)
{
	for (uint32_t i = 0; i < gpu_metrics->gpu_count; i++) {
		struct gpu *gpu = &gpu_metrics->gpus[i];

		flush_runs(gpu_metrics, gpu);
		if (gpu->missing)
			complain(gpu_metrics,
				 ws_format("GPU %u: %.3f s of %.3f s of GPU metrics are missing, "
					   "because samples came faster than they could be read. "
					   "A lower --gpu-metrics-frequency or a smaller "
					   "--gpu-metrics-set avoids that.",
					   gpu->device.number, (double)gpu->missing / 1e9,
					   (double)(gpu->missing + gpu->known) / 1e9));
		gpu->missing = gpu->known = 0;
	}
	gpu_metrics->stopping = false;
}

static void take_message(struct ws_gpu_sampling *gpu_metrics, const struct gpu_head *head,
			 const uint8_t *body)
{
	struct gpu *gpu = find_gpu(gpu_metrics, head);

	if (head->kind == GPU_READY)
		gpu_metrics->ready = true;
	else if (head->kind == GPU_STOPPED)
		sum_up(gpu_metrics);
	else if (head->kind == GPU_COMPLAINT)
		complain(gpu_metrics, ws_format("%.*s", (int)head->bytes, (const char *)body));
	else if (head->kind == GPU_DEVICE && head->bytes == sizeof(struct gpu_device))
		take_device(gpu_metrics, (const struct gpu_device *)body);
	else if (head->kind == GPU_METRIC && gpu && head->bytes == sizeof(struct gpu_row))
		take_row(gpu_metrics, gpu, (const struct gpu_row *)body);
	else if (head->kind == GPU_SAMPLES && gpu)
		take_samples(gpu_metrics, gpu, head, body);
	else if (head->kind == GPU_GAP && gpu && head->bytes == sizeof(struct gpu_sample))
		mark_gap(gpu_metrics, gpu, (const struct gpu_sample *)body);
}

/* Understand the whole messages of what has been received. */
static void take_messages(struct ws_gpu_sampling *gpu_metrics)
{
	size_t at = 0;
	struct gpu_head head;

	while (gpu_metrics->length - at >= sizeof(head)) {
		memcpy(&head, gpu_metrics->bytes + at, sizeof(head));
		if (head.kind >= GPU_MESSAGES || head.bytes > MOST_MESSAGE) {
			end_child(gpu_metrics, "the process that samples them failed");
			gpu_metrics->length = 0;
			return;
		}
		if (gpu_metrics->length - at - sizeof(head) < WS_ALIGN_UP(head.bytes, 8))
			break;
		take_message(gpu_metrics, &head, gpu_metrics->bytes + at + sizeof(head));
		at += sizeof(head) + WS_ALIGN_UP(head.bytes, 8);
	}
	memmove(gpu_metrics->bytes, gpu_metrics->bytes + at, gpu_metrics->length - at);
	gpu_metrics->length -= at;
}

/* Receive what has been sent; false when nothing has. */
static bool receive(struct ws_gpu_sampling *gpu_metrics)
{
	ssize_t n = 0;

	if (gpu_metrics->messages < 0)
		return false;
	ws_grow(gpu_metrics->bytes, gpu_metrics->capacity, gpu_metrics->length + READ_BYTES);
	n = read(gpu_metrics->messages, gpu_metrics->bytes + gpu_metrics->length, READ_BYTES);
	if (n > 0) {
		gpu_metrics->length += (size_t)n;
		take_messages(gpu_metrics);
		return true;
	}
	if (!n || (errno != EAGAIN && errno != EINTR))
		end_child(gpu_metrics, "the process that samples them has ended unexpectedly");
	return false;
}

/* Receive until `*done` or the time is over; whether it is done. */
static bool receive_until(struct ws_gpu_sampling *gpu_metrics, const bool *flag, bool wanted,
			  uint64_t ns)
{
	uint64_t until = ws_read_raw_ns() + ns;

	while (*flag != wanted && gpu_metrics->messages >= 0 && ws_read_raw_ns() < until) {
		struct pollfd pollfd = {gpu_metrics->messages, POLLIN, 0};

		poll(&pollfd, 1, 100);
		receive(gpu_metrics);
	}
	return *flag == wanted;
}

static void send_command(struct ws_gpu_sampling *gpu_metrics, char command)
{
	if (gpu_metrics->commands >= 0 &&
	    send(gpu_metrics->commands, &command, 1, MSG_NOSIGNAL) != 1)
		end_child(gpu_metrics, "the process that samples them has ended unexpectedly");
}

/* ---- the interface ---- */

struct ws_gpu_sampling *ws_gpu_sampling_new(const struct ws_gpu_sampling_opts *opts)
{
	struct ws_gpu_sampling *gpu_metrics;

	if (!is_wanted(opts))
		return NULL;
	gpu_metrics = ws_calloc(1, sizeof(*gpu_metrics));
	start_child(gpu_metrics, opts);
	return gpu_metrics;
}

void ws_gpu_sampling_await(struct ws_gpu_sampling *gpu_metrics)
{
	if (gpu_metrics && !receive_until(gpu_metrics, &gpu_metrics->ready, true, PREPARE_NS))
		end_child(gpu_metrics, "the driver does not answer");
}

void ws_gpu_sampling_begin(struct ws_gpu_sampling *gpu_metrics)
{
	if (!gpu_metrics)
		return;
	gpu_metrics->collecting = true;
	send_command(gpu_metrics, GPU_BEGIN);
}

void ws_gpu_sampling_stop(struct ws_gpu_sampling *gpu_metrics)
{
	if (!gpu_metrics || !gpu_metrics->collecting)
		return;
	gpu_metrics->collecting = false;
	gpu_metrics->stopping = gpu_metrics->messages >= 0;
	send_command(gpu_metrics, GPU_END);
}

void ws_gpu_sampling_settle(struct ws_gpu_sampling *gpu_metrics)
{
	if (gpu_metrics && gpu_metrics->stopping &&
	    !receive_until(gpu_metrics, &gpu_metrics->stopping, false, SETTLE_NS))
		end_child(gpu_metrics, "CUPTI does not answer at the end");
}

struct ws_metric_value *ws_gpu_sampling_take(struct ws_gpu_sampling *gpu_metrics, size_t *n)
{
	struct ws_metric_value *values;

	while (receive(gpu_metrics))
		;
	values = gpu_metrics->values;
	*n = gpu_metrics->value_count;
	gpu_metrics->values = NULL;
	gpu_metrics->value_count = gpu_metrics->value_cap = 0;
	return values;
}

const struct ws_metric *ws_gpu_sampling_describe(const struct ws_gpu_sampling *gpu_metrics,
						 uint32_t index)
{
	return gpu_metrics->metrics[index];
}

void ws_gpu_sampling_free(struct ws_gpu_sampling *gpu_metrics)
{
	if (!gpu_metrics)
		return;
	close_pipes(gpu_metrics);
	reap_child(gpu_metrics);
	for (size_t i = 0; i < gpu_metrics->metric_count; i++) {
		free((char *)gpu_metrics->metrics[i]->heading);
		free(gpu_metrics->metrics[i]->name);
		free((char *)gpu_metrics->metrics[i]->unit);
		free(gpu_metrics->metrics[i]->identity);
		free(gpu_metrics->metrics[i]);
	}
	for (size_t i = 0; i < gpu_metrics->complaint_count; i++)
		free(gpu_metrics->complaints[i]);
	free(gpu_metrics->complaints);
	free(gpu_metrics->metrics);
	free(gpu_metrics->runs);
	free(gpu_metrics->values);
	free(gpu_metrics->bytes);
	free(gpu_metrics);
}

char *ws_gpu_sampling_list_sets(void)
{
	return ws_pm_list_sets();
}

char *ws_gpu_sampling_list_devices(void)
{
	const struct ws_gpu_sampling_opts opts = {"all", NULL, WS_GPU_METRICS_HZ};
	struct ws_gpu_sampling *gpu_metrics = ws_gpu_sampling_new(&opts);
	char *text = ws_strdup(""), *longer;

	ws_gpu_sampling_await(gpu_metrics);
	for (uint32_t i = 0; i < gpu_metrics->gpu_count; i++) {
		const struct gpu_device *device = &gpu_metrics->gpus[i].device;

		longer = ws_format("%s%u: %s, %s, %s: %s\n", text, device->number, device->name,
				   device->chip, device->uuid, device->state);
		free(text);
		text = longer;
	}
	for (char *complaint; (complaint = ws_gpu_sampling_take_complaint(gpu_metrics));) {
		longer = ws_format("%s%s\n", text, complaint);
		free(complaint);
		free(text);
		text = longer;
	}
	ws_gpu_sampling_free(gpu_metrics);
	return text;
}
