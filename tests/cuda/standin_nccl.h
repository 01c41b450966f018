/*
 * standin_nccl.h - the part of NCCL that talks to a profiler plug-in: loads the one that
 * NCCL_PROFILER_PLUGIN names, takes the version of its interface that STANDIN_NCCL says (by default
 * the newest), and tells it of operations, of the proxy's work on them and of a kernel's channels
 * as that version does. Descriptions are built field by field, in the order of NCCL's interface.
 */
#ifndef STANDIN_NCCL_H
#define STANDIN_NCCL_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GROUP, COLL, P2P, PROXY_OP, PROXY_STEP, PROXY_CONTROL, CHANNEL, NET, GROUP_API };
enum { PLUGIN_CHANNELS = 2, PLUGIN_STEPS = 3 };

struct plugin {
	const char *name;
	void *init;
	int (*start)(void *context, void **handle, void *description);
	int (*stop)(void *handle);
	int (*state)(void *handle, int state, void *details);
	int (*finalize)(void *context);
};

struct plugin_communicator {
	uint64_t hash;
	int ranks, rank;
	void *context;
	uint64_t sequences[8];
};

struct plugin_operation {
	struct plugin_communicator *communicator;
	const char *name;
	size_t count;
	int number; /* peer or root */
};

static struct plugin *plugin;
static int plugin_version, plugin_mask;

struct description {
	_Alignas(16) char bytes[256];
	size_t length;
};

static void put(struct description *out, const void *field, size_t size)
{
	out->length = (out->length + size - 1) / size * size;
	memcpy(out->bytes + out->length, field, size);
	out->length += size;
}

#define PUT(out, type, value)                        \
	do {                                         \
		type field_ = (type)(value);         \
		put((out), &field_, sizeof(field_)); \
	} while (0)

static struct description describe(int event, void *parent, int rank)
{
	struct description out = {.length = 0};

	if (plugin_version == 5)
		PUT(&out, uint64_t, 1u << event);
	else
		PUT(&out, uint8_t, 1u << event);
	PUT(&out, void *, parent);
	PUT(&out, int, rank);
	out.length = 24; /* what follows is a union, which holds numbers of 64 bits */
	return out;
}

static void *plugin_begin(struct plugin_communicator *communicator, struct description *what)
{
	void *handle = (void *)1;

	plugin->start(communicator->context, &handle, what->bytes);
	return handle;
}

static void plugin_end(void *handle)
{
	if (handle)
		plugin->stop(handle);
}

static int plugin_load(void)
{
	const char *file = getenv("NCCL_PROFILER_PLUGIN"), *wanted = getenv("STANDIN_NCCL");
	void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
	char name[32];

	for (int version = 5; library && version >= 1 && !plugin; version--) {
		if (wanted && atoi(wanted) != version)
			continue;
		snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
		plugin = dlsym(library, name);
		plugin_version = version;
	}
	return plugin != NULL;
}

typedef int init_v1(void **context, int *mask);
typedef int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes,
		    int ranks, int rank, void *log);
typedef int init_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes,
		    int ranks, int rank, void *log);

static void plugin_init(struct plugin_communicator *made)
{
	if (plugin_version == 5)
		((init_v5 *)plugin->init)(&made->context, made->hash, &plugin_mask, "world", 1,
					  made->ranks, made->rank, NULL);
	else if (plugin_version == 4)
		((init_v4 *)plugin->init)(&made->context, &plugin_mask, "world", made->hash, 1,
					  made->ranks, made->rank, NULL);
	else
		((init_v1 *)plugin->init)(&made->context, &plugin_mask);
}

/* Numbers that version 1 has for names. */
static int number_of(const char *name)
{
	static const char *const names[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
					    "AllReduce", "SendRecv", "Send",	  "Recv"};
	int i = 0;

	while (strcmp(names[i], name))
		i++;
	return i;
}

/* Up to version 3 the communicator is told here; newer NCCL leaves it out. */
static void put_communicator(struct description *out, const struct plugin_communicator *of)
{
	if (plugin_version >= 4)
		return;
	PUT(out, const char *, NULL);
	PUT(out, uint64_t, plugin_version == 2 ? 0 : of->hash);
}

static void put_text(struct description *out, const char *text, int number)
{
	if (plugin_version == 1)
		PUT(out, uint8_t, number);
	else
		PUT(out, const char *, text);
}

static void *begin_collective(const struct plugin_operation *operation, void *parent)
{
	struct plugin_communicator *of = operation->communicator;
	struct description out = describe(COLL, parent, of->rank);
	int number = number_of(operation->name);

	put_communicator(&out, of);
	PUT(&out, uint64_t, of->sequences[number]++);
	put_text(&out, operation->name, number);
	PUT(&out, void *, NULL);
	PUT(&out, void *, NULL);
	PUT(&out, size_t, operation->count);
	PUT(&out, int, operation->number);
	put_text(&out, "ncclFloat32", 7);
	if (plugin_version == 1)
		PUT(&out, uint32_t, 0);
	if (plugin_version <= 2)
		PUT(&out, size_t, 0);
	PUT(&out, uint8_t, PLUGIN_CHANNELS);
	PUT(&out, uint8_t, 16);
	put_text(&out, "RING", 1);
	put_text(&out, "LL128", 1);
	PUT(&out, void *, NULL);
	return plugin_begin(of, &out);
}

static void *begin_p2p(const struct plugin_operation *operation, void *parent)
{
	struct plugin_communicator *of = operation->communicator;
	struct description out = describe(P2P, parent, of->rank);

	put_communicator(&out, of);
	put_text(&out, operation->name, number_of(operation->name));
	PUT(&out, void *, NULL);
	put_text(&out, "ncclFloat32", 7);
	PUT(&out, size_t, operation->count);
	PUT(&out, int, operation->number);
	PUT(&out, uint8_t, PLUGIN_CHANNELS);
	PUT(&out, void *, NULL);
	return plugin_begin(of, &out);
}

/* A clock of its own. With STANDIN_NCCL_EARLY, operations but the first are told the times of one
 * seconds before. */
static uint64_t read_gpu_timer(void)
{
	static int told;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (told++ && getenv("STANDIN_NCCL_EARLY"))
		now.tv_sec -= 5;
	return (uint64_t)(now.tv_sec + 100) * 1000000000 + (uint64_t)now.tv_nsec;
}

static void change(void *handle, int state, uint64_t value)
{
	uint64_t details[2] = {value, 0};

	if (handle)
		plugin->state(handle, state, details);
}

static void transfer(struct plugin_communicator *of, void *op, int step, int sends)
{
	struct description out = describe(PROXY_STEP, op, of->rank), event;
	uint64_t bytes = plugin_version < 4 ? 0 : 4096;
	struct {
		uint8_t type;
		size_t descriptor_and_operation, length;
	} on_socket = {1, 7, 4000};
	void *handle, *net = NULL;

	PUT(&out, int, step);
	handle = plugin_begin(of, &out);
	change(handle, sends ? 8 : 10, 99); /* the size of an earlier step */
	if (plugin_version >= 4 && sends)
		change(handle, 20, 99);
	change(handle, sends ? 9 : 11, bytes);
	if (plugin_version >= 3) {
		event = describe(NET, handle, of->rank);
		PUT(&event, int64_t, 2 << 16 | 1);
		PUT(&event, void *, &on_socket);
		net = plugin_begin(of, &event);
	}
	usleep(100);
	plugin_end(net);
	if (!sends)
		change(handle, 12, bytes);
	plugin_end(handle);
}

struct proxy_work {
	const struct plugin_operation *operation;
	void *handle;
};

static void *progress(void *argument)
{
	uint64_t timer;
	const struct proxy_work *work = argument;
	struct plugin_communicator *of = work->operation->communicator;
	struct description out = describe(PROXY_CONTROL, NULL, 0);
	void *control = plugin_begin(of, &out), *op, *kernel;

	change(control, 15, 0);
	change(control, 16, 0);
	plugin_end(control);
	for (int i = 0; i < 2 * PLUGIN_CHANNELS; i++) {
		out = describe(PROXY_OP, work->handle, of->rank);
		PUT(&out, int, getpid());
		PUT(&out, uint8_t, i / 2);
		PUT(&out, int, 1);
		PUT(&out, int, PLUGIN_STEPS);
		PUT(&out, int, 1 << 16);
		PUT(&out, int, i % 2);
		op = plugin_begin(of, &out);
		if (plugin_version < 4)
			change(op, i % 2 ? 0 : 4, 0);
		for (int step = 0; step < PLUGIN_STEPS; step++) {
			transfer(of, op, step, i % 2);
			if (plugin_version < 4)
				change(op, i % 2 ? 2 : 5, 4096u * ((unsigned)step + 1));
		}
		if (plugin_version < 4)
			change(op, i % 2 ? 3 : 7, 4096 * PLUGIN_STEPS);
		plugin_end(op);
	}
	timer = read_gpu_timer();
	for (int i = 0; i < PLUGIN_CHANNELS && plugin_version >= 3; i++) {
		out = describe(CHANNEL, work->handle, 0);
		PUT(&out, uint8_t, i);
		PUT(&out, uint64_t, timer);
		kernel = plugin_begin(of, &out);
		if (plugin_version >= 4)
			change(kernel, 22, timer + 2000);
		plugin_end(kernel);
	}
	return NULL;
}

/* As at the launch of a plan with these operations. */
static void plugin_operations(const struct plugin_operation *operations, int count)
{
	struct plugin_communicator *of = operations[0].communicator;
	struct description out = describe(GROUP_API, NULL, of->rank);
	struct proxy_work work;
	void *api = NULL, *group;
	pthread_t thread;

	if (plugin_version == 5)
		api = plugin_begin(of, &out);
	out = describe(GROUP, NULL, of->rank);
	group = plugin_begin(of, &out);
	for (int i = 0; i < count; i++) {
		work.operation = &operations[i];
		if (strstr("SendRecv", operations[i].name))
			work.handle = begin_p2p(&operations[i], group);
		else
			work.handle = begin_collective(&operations[i], group);
		plugin_end(work.handle);
		if (!pthread_create(&thread, NULL, progress, &work))
			pthread_join(thread, NULL);
	}
	plugin_end(group);
	plugin_end(api);
}

#endif
