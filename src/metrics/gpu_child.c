/*
 * gpu_child.c - the process that samples GPUs: with CUPTI when that is permitted, otherwise with
 * NVML. See gpu_pipe.h for the messages that it sends to the recorder.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "metrics/gpm.h"
#include "metrics/gpu_pipe.h"
#include "metrics/pm_sampler.h"

enum { MOST_SOURCES = 128, SEND_BYTES = 32 << 10, GPM_WAIT_MS = 25 };

struct child;

/* One GPU, sampled in one of two ways. */
struct source {
	struct child *child;
	struct gpu_device device;
	uint32_t number;	       /* its number in messages */
	struct ws_pm_sampler *sampler; /* or NULL... */
	struct ws_gpm *gpm;	       /* ...and this, or neither once it has failed */
	uint32_t metrics;
	bool sampling;
	uint8_t *samples; /* not sent yet */
	size_t length, capacity;
	uint32_t count;
};

struct child {
	const struct ws_gpu_sampling_opts *opts;
	struct ws_gpu_part part;
	struct pm_library library;
	struct ws_pm_wanted wanted;
	int commands, messages;
	struct source sources[MOST_SOURCES];
	uint32_t source_count;
	bool collecting;
};

/* ---- messages ---- */

static void write_whole(int fd, const void *bytes, size_t n)
{
	const char *at = bytes;

	while (n) {
		ssize_t written = write(fd, at, n);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			_exit(0); /* the reader is gone */
		at += written;
		n -= (size_t)written;
	}
}

static void send_message(const struct child *child, struct gpu_head head, const void *body)
{
	static const char padding[8];

	write_whole(child->messages, &head, sizeof(head));
	write_whole(child->messages, body, head.bytes);
	write_whole(child->messages, padding, WS_ALIGN_UP(head.bytes, 8) - head.bytes);
}

/* Takes ownership of `text`. */
static void complain(const struct child *child, char *text)
{
	send_message(child,
		     (struct gpu_head){.kind = GPU_COMPLAINT, .bytes = (uint32_t)strlen(text)},
		     text);
	free(text);
}

static void send_samples(struct source *source)
{
	if (source->count)
		send_message(source->child,
			     (struct gpu_head){GPU_SAMPLES, source->number, source->count,
					       (uint32_t)source->length},
			     source->samples);
	source->count = 0;
	source->length = 0;
}

static void put_sample(void *ctx, uint64_t start, uint64_t end, const float *values)
{
	struct source *source = ctx;
	struct gpu_sample sample = {start, end};
	size_t bytes = source->metrics * sizeof(*values);

	ws_grow(source->samples, source->capacity, source->length + sizeof(sample) + bytes);
	memcpy(source->samples + source->length, &sample, sizeof(sample));
	memcpy(source->samples + source->length + sizeof(sample), values, bytes);
	source->length += sizeof(sample) + bytes;
	source->count++;
	if (source->length >= SEND_BYTES)
		send_samples(source);
}

static void put_gap(void *ctx, uint64_t start, uint64_t end)
{
	struct source *source = ctx;
	struct gpu_sample gap = {start, end};

	send_samples(source);
	send_message(source->child, (struct gpu_head){GPU_GAP, source->number, 1, sizeof(gap)},
		     &gap);
}

/* ---- GPUs ---- */

static struct source *add_source(struct child *child, const struct gpu_device *device,
				 const char *state)
{
	struct source *source = &child->sources[child->source_count];

	if (child->source_count == MOST_SOURCES)
		return NULL;
	*source =
		(struct source){.child = child, .device = *device, .number = child->source_count++};
	snprintf(source->device.state, sizeof(source->device.state), "%s", state);
	send_message(child,
		     (struct gpu_head){GPU_DEVICE, source->number, 1, sizeof(source->device)},
		     &source->device);
	return source;
}

static void add_row(struct source *source, const char *name, const char *unit)
{
	struct gpu_row row = {{0}, {0}};

	snprintf(row.name, sizeof(row.name), "%s", name);
	snprintf(row.unit, sizeof(row.unit), "%s", unit);
	send_message(source->child, (struct gpu_head){GPU_METRIC, source->number, 1, sizeof(row)},
		     &row);
	source->metrics++;
}

/* CUPTI may not sample this GPU: use the metrics of NVML if there are any. */
static void add_fallback(struct child *child, struct gpu_device device, const char *why)
{
	const char *instead = "nothing takes their place on this GPU";
	struct ws_gpm *gpm = ws_gpm_open(device.uuid);
	struct source *source;
	char state[256];

	if (gpm)
		instead = "NVML's means of tenths of seconds take their place";
	complain(child, ws_format("GPU %u: GPU metrics are not sampled, %s: %s.", device.number,
				  instead, why));
	snprintf(state, sizeof(state), "%.200s", why);
	device.period = WS_GPM_PERIOD_NS;
	source = add_source(child, &device, state);
	if (!source)
		return;
	source->gpm = gpm;
	for (unsigned i = 0; gpm && i < WS_GPM_MOST; i++) {
		const char *unit, *name = ws_gpm_name(i, &unit);

		if (name)
			add_row(source, name, unit);
	}
}

static void add_sampler(struct child *child, struct gpu_device *device,
			struct ws_pm_sampler *sampler)
{
	const struct ws_pm_fit *fit = ws_pm_sampler_fit(sampler);
	struct source *source;
	char state[256];

	device->period = UINT64_C(1000000000) / child->opts->hz;
	snprintf(device->chip, sizeof(device->chip), "%s", ws_pm_sampler_chip(sampler));
	snprintf(state, sizeof(state), "can be sampled");
	source = add_source(child, device, state);
	if (!source) {
		ws_pm_sampler_free(sampler);
		return;
	}
	source->sampler = sampler;
	for (size_t i = 0; i < fit->count; i++)
		add_row(source, fit->metrics[i].row, fit->metrics[i].unit);
	if (fit->left_out)
		complain(child, ws_format("GPU %u: these metrics are unknown on the chip or do not "
					  "fit into one pass with the others: %s.",
					  device->number, fit->left_out));
	if (fit->too_much)
		complain(child,
			 ws_format("GPU %u: %u samples a second are too many to read all metrics; "
				   "left out: %s.",
				   device->number, child->opts->hz, fit->too_much));
}

static void describe_device(const struct child *child, int ordinal, struct gpu_device *device)
{
	const struct pm_driver *cuda = &child->library.cuda;
	unsigned char bytes[16] = {0};
	char *at = device->uuid;
	int handle = 0, number;

	*device = (struct gpu_device){.number = (uint32_t)ordinal};
	cuda->get_device(&handle, ordinal);
	if (cuda->get_name)
		cuda->get_name(device->name, sizeof(device->name), handle);
	if (!cuda->get_uuid || cuda->get_uuid(bytes, handle))
		return;
	at += sprintf(at, "GPU-");
	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			      bytes[i]);
	number = ws_gpm_find_number(device->uuid);
	if (number >= 0)
		device->number = (uint32_t)number;
}

/* What is wanted of a GPU: without its NVLinks if none of them is active. */
static struct ws_pm_wanted choose_wanted(const struct child *child, const struct gpu_device *device)
{
	struct ws_pm_wanted rest;

	if (!ws_gpm_has_idle_links(device->uuid))
		return ws_pm_wanted_without(&child->wanted, NULL);
	rest = ws_pm_wanted_without(&child->wanted, "nvl");
	if (child->wanted.named && rest.count < child->wanted.count)
		complain(child, ws_format("GPU %u: none of its NVLinks is active; their metrics "
					  "are not recorded.",
					  device->number));
	return rest;
}

static bool is_chosen(const char *words, long number)
{
	if (!strcmp(words, "all") || !strcmp(words, "cuda-visible"))
		return true;
	for (const char *word = words; word; word = strchr(word, ',')) {
		word += *word == ',';
		if (strtol(word, NULL, 10) == number)
			return true;
	}
	return false;
}

static void add_device(struct child *child, int ordinal)
{
	struct ws_pm_sampler *sampler;
	struct ws_pm_wanted wanted;
	struct gpu_device device;
	struct ws_err err;

	describe_device(child, ordinal, &device);
	if (!is_chosen(child->opts->devices, device.number))
		return;
	wanted = choose_wanted(child, &device);
	sampler = ws_pm_sampler_open(&child->library, (unsigned)ordinal, &wanted, child->opts->hz,
				     &err);
	ws_pm_wanted_free(&wanted);
	if (sampler) {
		ws_pm_sampler_set_links(sampler, ws_gpm_count_links(device.uuid));
		add_sampler(child, &device, sampler);
	} else
		add_fallback(child, device, err.msg);
}

static void say_missing(const struct child *child, int count)
{
	for (const char *word = child->opts->devices; word; word = strchr(word, ',')) {
		word += *word == ',';
		if (*word >= '0' && *word <= '9' && strtol(word, NULL, 10) >= count)
			complain(child, ws_format("--gpu-metrics-devices: there is no GPU %ld: "
						  "this machine has %d.",
						  strtol(word, NULL, 10), count));
	}
}

/* Use the numbers of NVML and nvidia-smi, whichever devices are visible to the program. */
static void show_all_devices(const struct child *child)
{
	if (!strcmp(child->opts->devices, "cuda-visible"))
		return;
	unsetenv("CUDA_VISIBLE_DEVICES");
	setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
}

static int open_libraries(struct child *child, struct ws_err *err)
{
	struct pm_initialize init = {.size = PM_SIZE(pm_initialize, priv)};
	int error;

	if (ws_pm_library_open(&child->library, err))
		return -1;
	show_all_devices(child);
	error = child->library.cuda.init(0);
	if (error)
		return ws_fail(err, "the driver cannot be used (CUDA error %d)", error);
	error = child->library.cupti.initialize(&init);
	if (error)
		return ws_fail(err, "%s (CUPTI error %d)", ws_pm_explain(error), error);
	return 0;
}

static void prepare(struct child *child)
{
	struct ws_err err;
	int count = 0;

	if (ws_pm_wanted_read(child->opts->set, &child->wanted, &err) ||
	    open_libraries(child, &err)) {
		if (!child->part.first) /* only one of the processes complains */
			complain(child, ws_format("GPU metrics are not recorded: %s.", err.msg));
	} else {
		child->library.cuda.count_devices(&count);
		if (!child->part.first)
			say_missing(child, count);
		for (int i = (int)child->part.first;
		     i < count && (child->part.rest || i == (int)child->part.first); i++)
			add_device(child, i);
	}
	send_message(child, (struct gpu_head){.kind = GPU_READY, .count = child->source_count}, "");
}

/* ---- sampling ---- */

static void begin_source(struct source *source)
{
	struct child *child = source->child;
	struct ws_err err;

	if (source->gpm)
		ws_gpm_restart(source->gpm);
	source->sampling = source->gpm != NULL;
	if (!source->sampler)
		return;
	source->sampling = !ws_pm_sampler_begin(source->sampler, &err);
	if (source->sampling)
		return;
	ws_pm_sampler_free(source->sampler);
	source->sampler = NULL;
	add_fallback(child, source->device, err.msg);
}

static void read_gpm(struct source *source)
{
	float values[WS_GPM_MOST];
	uint64_t since, now;

	if (ws_gpm_read(source->gpm, values, &since, &now))
		put_sample(source, since, now, values);
}

static void read_source(struct source *source)
{
	const struct ws_pm_sink sink = {put_sample, put_gap, source};
	struct ws_err err;
	uint64_t now;

	if (source->gpm) {
		read_gpm(source);
	} else if (ws_pm_sampler_read(source->sampler, &sink, &err)) {
		send_samples(source);
		ws_pm_sampler_end(source->sampler, &sink);
		now = ws_read_raw_ns();
		put_gap(source, now, now);
		complain(source->child, ws_format("GPU %u: GPU metrics end early: %s.",
						  source->device.number, err.msg));
		source->sampling = false;
	}
	send_samples(source);
}

static void say_what_lacks(const struct source *source)
{
	uint64_t period = ws_pm_sampler_period(source->sampler);

	if (period > source->device.period)
		complain(source->child,
			 ws_format("GPU %u: %u samples a second are more than could be read of "
				   "this set; it was sampled %.0f times a second in the end.",
				   source->device.number, source->child->opts->hz,
				   1e9 / (double)period));
	if (ws_pm_sampler_count_links(source->sampler))
		complain(source->child,
			 ws_format("GPU %u: only %u of its active NVLinks are counted; rates of "
				   "NVLink traffic are those of all, if all carry the same.",
				   source->device.number,
				   ws_pm_sampler_count_links(source->sampler)));
	if (ws_pm_sampler_lacks_warps(source->sampler))
		complain(source->child,
			 ws_format("GPU %u: warps in flight could not be counted together with the "
				   "other metrics: they are not known.",
				   source->device.number));
}

static void end_source(struct source *source)
{
	const struct ws_pm_sink sink = {put_sample, put_gap, source};

	if (source->sampler && source->sampling)
		ws_pm_sampler_end(source->sampler, &sink);
	else if (source->gpm)
		read_gpm(source);
	send_samples(source);
	source->sampling = false;
	if (source->sampler)
		say_what_lacks(source);
}

static void obey(struct child *child, char command)
{
	if (command == GPU_BEGIN && !child->collecting) {
		child->collecting = true;
		/* Fallback sources are appended, so this loop also reaches them. */
		for (uint32_t i = 0; i < child->source_count; i++)
			begin_source(&child->sources[i]);
	} else if (command == GPU_END && child->collecting) {
		child->collecting = false;
		for (uint32_t i = 0; i < child->source_count; i++)
			if (child->sources[i].sampling)
				end_source(&child->sources[i]);
		send_message(child, (struct gpu_head){.kind = GPU_STOPPED}, "");
	}
}

/* How many milliseconds may pass until something is to be read; -1: any time. */
static int choose_wait(const struct child *child)
{
	int wait = -1;

	for (uint32_t i = 0; i < child->source_count && child->collecting; i++) {
		const struct source *source = &child->sources[i];
		int ms = GPM_WAIT_MS;

		if (!source->sampling)
			continue;
		if (source->sampler)
			ms = (int)ws_pm_sampler_choose_interval(source->sampler);
		if (wait < 0 || ms < wait)
			wait = ms;
	}
	return wait;
}

/* Wait for a command, but while something is sampled, only until the next reading is due. False
 * when no more commands can come. */
static bool follow_commands(struct child *child)
{
	struct pollfd pollfd = {child->commands, POLLIN, 0};
	char command;

	if (poll(&pollfd, 1, choose_wait(child)) <= 0)
		return true;
	if (read(child->commands, &command, 1) != 1)
		return false;
	obey(child, command);
	return true;
}

void ws_gpu_child_serve(const struct ws_gpu_sampling_opts *opts, const struct ws_gpu_part *part,
			int commands, int messages)
{
	struct child *child = ws_calloc(1, sizeof(*child));

	child->opts = opts;
	child->part = *part;
	child->commands = commands;
	child->messages = messages;
	prepare(child);
	while (follow_commands(child))
		for (uint32_t i = 0; i < child->source_count && child->collecting; i++)
			if (child->sources[i].sampling)
				read_source(&child->sources[i]);
	for (uint32_t i = 0; i < child->source_count; i++)
		ws_pm_sampler_free(child->sources[i].sampler);
}
