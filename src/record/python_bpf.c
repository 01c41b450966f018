/*
 * python_bpf.c - loads the program that reads Python's frames in the kernel
 * (bpf/python_frames.bpf.c), attaches it to the event that samples everything, so that one
 * interrupt serves both, and gives it the threads to look at.
 *
 * A signal would cost a second interrupt, which on a virtual machine is the most expensive part of
 * a sample. A thread is found by its number, and a cookie in its memory proves that the number
 * still belongs to the process that announced it. A thread that is not in the table costs one
 * lookup.
 */
#include "record/python_bpf.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "record/bpf.h"

#define THREADS 16384u
#define CODES 32768u
#define LAYOUTS 16u
#define LOG_BYTES (16u << 20)

/* Maps come first among the symbols. */
#define MAPS WS_PY_BPF_const_ns_device
#define TEXT_BYTES WS_ALIGN_UP(sizeof(struct ws_py_kernel_code) + WS_PY_TOLD_TABLE, 8u)

struct ws_py_bpf {
	int maps[MAPS]; /* descriptors; -1 */
	int entry;
	/* every: every n-th sample has frames, and only those are kept */
	uint32_t frequency, every;
	struct ws_py_layout layout[LAYOUTS];
	uint32_t layouts;
};

/* ---- constants of a layout ---- */

struct span { /* bytes of an object that are read at once */
	uint32_t from, bytes;
};

static uint32_t least(uint32_t a, uint32_t b)
{
	return ws_min(a, b);
}

static uint32_t most(uint32_t a, uint32_t b)
{
	return ws_max(a, b);
}

static struct span frame_span(const struct ws_py_layout *layout)
{
	uint32_t at = layout->chain == WS_PY_OBJECTS ? 4 : 8;
	uint32_t from = least(least(layout->frame_previous, layout->frame_code), layout->frame_at);
	uint32_t to = most(most(layout->frame_previous + 8, layout->frame_code + 8),
			   layout->frame_at + at);

	if (layout->chain != WS_PY_OBJECTS) {
		from = least(from, layout->frame_owner);
		to = most(to, layout->frame_owner + 1);
	}
	return (struct span){from & ~7u, WS_ALIGN_UP(to, 8u) - (from & ~7u)};
}

static struct span code_span(const struct ws_py_layout *layout)
{
	uint32_t from = least(least(layout->code_first_line, layout->code_name),
			      least(layout->code_file, layout->code_table));
	uint32_t to = most(most(layout->code_first_line + 4, layout->code_name + 8),
			   most(layout->code_file + 8, layout->code_table + 8));

	return (struct span){from & ~7u, to - (from & ~7u)};
}

/* Whether the programs have room for the offsets; those of 3.13 and later come from the target. */
static bool fits(const struct ws_py_layout *layout)
{
	struct span span_f = frame_span(layout), span_c = code_span(layout);

	return span_f.bytes <= WS_PY_BPF_FRAME && span_c.bytes <= WS_PY_KEY_BYTES &&
	       layout->code_table + 8 <= WS_PY_TOLD_HEAD &&
	       layout->code_qualname + 8 <= WS_PY_TOLD_HEAD &&
	       layout->code_name + 8 <= WS_PY_TOLD_HEAD &&
	       layout->code_file + 8 <= WS_PY_TOLD_HEAD &&
	       layout->bytes_data > layout->bytes_size &&
	       layout->bytes_data - layout->bytes_size <= 64 && !(layout->frame_code & 7) &&
	       !(layout->frame_previous & 7) && !(layout->frame_at & 3) &&
	       !(layout->code_name & 7) && !(layout->code_file & 7) && !(layout->code_table & 7) &&
	       !(layout->code_qualname & 7) && !(layout->code_first_line & 3);
}

#define SET(name, number) values[WS_PY_BPF_const_##name].value = (number)

static void set_frame_constants(struct ws_bpf_value *values, const struct ws_py_layout *layout)
{
	struct span span = frame_span(layout);
	uint32_t from = span.from;

	SET(thread_frame, layout->thread_frame);
	SET(cframe_frame, layout->cframe_frame);
	SET(frame_from, span.from);
	SET(frame_bytes, span.bytes);
	SET(window_room, WS_PY_BPF_WINDOW - span.from - span.bytes);
	if (layout->chain == WS_PY_OBJECTS)
		SET(objects, 1);
	else
		from = 0; /* the window holds the frame from its beginning on */
	SET(cframes, layout->chain == WS_PY_CFRAMES);
	SET(shims, layout->version >= 0x030c);
	SET(frame_previous, layout->frame_previous - from);
	SET(frame_code, layout->frame_code - from);
	SET(frame_at, layout->frame_at - from);
	SET(frame_owner, layout->frame_owner);
}

static void set_code_constants(struct ws_bpf_value *values, const struct ws_py_layout *layout)
{
	struct span span = code_span(layout);

	SET(code_from, span.from);
	SET(key_bytes, span.bytes);
	SET(key_first_line, layout->code_first_line - span.from);
	SET(key_name, layout->code_name - span.from);
	SET(key_file, layout->code_file - span.from);
	SET(key_table, layout->code_table - span.from);
	SET(code_name, layout->code_name);
	SET(code_file, layout->code_file);
	SET(code_table, layout->code_table);
	SET(code_start, layout->code_start);
	SET(told_name, layout->code_name);
	if (layout->code_qualname)
		SET(told_name, layout->code_qualname);
	SET(text_length, layout->text_length);
	SET(bytes_size, layout->bytes_size);
	SET(table_before, layout->bytes_data - layout->bytes_size);
}

/* ---- loading ---- */

static void set_maps(const struct ws_py_bpf *bpf, struct ws_bpf_value *values)
{
	for (size_t i = 0; i < MAPS; i++)
		values[i] = (struct ws_bpf_value){(uint64_t)bpf->maps[i], true};
}

/* The descriptor of a program with these values, or -errno. */
static int load(const char *name, const struct ws_bpf_value *values)
{
	const struct ws_bpf_program *program = ws_py_bpf_programs;
	char *log = NULL;
	int fd;

	while (program->name && strcmp(program->name, name))
		program++;
	if (!program->name)
		return -ENOEXEC;
	if (getenv("WARPSIGHT_BPF_LOG")) /* for developers of the programs */
		log = ws_malloc(LOG_BYTES);
	fd = ws_bpf_load(program, BPF_PROG_TYPE_PERF_EVENT, values, log, LOG_BYTES);
	if (fd < 0 && log)
		fprintf(stderr, "%s\n", log);
	free(log);
	return fd;
}

/* Load a program of a layout, which has `index` in the table of programs; its descriptor, or
 * -errno. */
static int load_for(const struct ws_py_bpf *bpf, const char *program, uint32_t index,
		    const struct ws_py_layout *layout)
{
	struct ws_bpf_value values[WS_PY_BPF_SYMBOLS] = {{0}};

	set_maps(bpf, values);
	set_frame_constants(values, layout);
	set_code_constants(values, layout);
	SET(self, index);
	return load(program, values);
}

static int put_program(const struct ws_py_bpf *bpf, const char *program, uint32_t index,
		       const struct ws_py_layout *layout)
{
	int fd = load_for(bpf, program, index, layout), error;

	if (fd < 0)
		return fd;
	error = ws_bpf_map_set(bpf->maps[WS_PY_BPF_map_programs], &index, &fd);
	close(fd); /* the table keeps it */
	return error;
}

static int load_entry(const struct ws_py_bpf *bpf)
{
	struct ws_bpf_value values[WS_PY_BPF_SYMBOLS] = {{0}};
	uint64_t device = 0;

	set_maps(bpf, values);
	SET(ns_inode, ws_bpf_pid_namespace(&device));
	SET(ns_device, device);
	SET(every, bpf->every);
	return load("entry", values);
}

static bool same_layout(const struct ws_py_layout *a, const struct ws_py_layout *b)
{
#define X(field)                  \
	if (a->field != b->field) \
		return false;
	WS_PY_FIELDS(X)
#undef X
	return a->version == b->version && a->chain == b->chain;
}

/* Index of the programs of a layout, loaded when it is new; or -errno. */
static int programs_of(struct ws_py_bpf *bpf, const struct ws_py_layout *layout)
{
	uint32_t i = 0;
	int error;

	while (i < bpf->layouts && !same_layout(&bpf->layout[i], layout))
		i++;
	if (i < bpf->layouts)
		return (int)(2 * i);
	if (i == LAYOUTS || !fits(layout))
		return -EINVAL;
	error = put_program(bpf, "tell", 2 * i + 1, layout);
	if (error >= 0)
		error = put_program(bpf, "walk", 2 * i, layout);
	if (error < 0)
		return error;
	bpf->layout[bpf->layouts++] = *layout;
	return (int)(2 * i);
}

/* Older kernels count maps as locked memory. The target was forked before and keeps its own limit.
 */
static bool allow_memory(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	return !setrlimit(RLIMIT_MEMLOCK, &limit);
}

static int make_maps(struct ws_py_bpf *bpf)
{
	const struct {
		enum bpf_map_type type;
		uint32_t key, value, entries;
	} kinds[MAPS] = {
		[WS_PY_BPF_map_threads] = {BPF_MAP_TYPE_HASH, 4, sizeof(struct ws_py_bpf_thread),
					   THREADS},
		[WS_PY_BPF_map_codes] = {BPF_MAP_TYPE_LRU_HASH, 8, 4, CODES},
		[WS_PY_BPF_map_scratch] = {BPF_MAP_TYPE_PERCPU_ARRAY, 4,
					   sizeof(struct ws_py_bpf_scratch), 1},
		[WS_PY_BPF_map_text] = {BPF_MAP_TYPE_PERCPU_ARRAY, 4, TEXT_BYTES, 1},
		[WS_PY_BPF_map_output] = {BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4,
					  (uint32_t)sysconf(_SC_NPROCESSORS_CONF)},
		[WS_PY_BPF_map_programs] = {BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 2 * LAYOUTS},
	};

	for (size_t i = 0; i < MAPS; i++) {
		int map = ws_bpf_map_new(kinds[i].type, kinds[i].key, kinds[i].value,
					 kinds[i].entries);

		if (map == -EPERM && !i && allow_memory()) /* before Linux 5.11 */
			map = ws_bpf_map_new(kinds[i].type, kinds[i].key, kinds[i].value,
					     kinds[i].entries);
		if (map < 0)
			return map;
		bpf->maps[i] = map;
	}
	return 0;
}

/* Maps, and proof that the kernel takes such programs: hooks are informed before any interpreter is
 * seen, so it must be certain by then. */
static int make_maps_and_try(struct ws_py_bpf *bpf)
{
	struct ws_py_layout layout;
	int error = make_maps(bpf);

	if (error)
		return error;
	ws_py_get_layout(0x030c, &layout);
	error = load_for(bpf, "tell", 0, &layout);
	if (error < 0)
		return error;
	close(error);
	return 0;
}

static struct ws_py_bpf *make_empty(void)
{
	struct ws_py_bpf *bpf = ws_calloc(1, sizeof(*bpf));

	bpf->entry = -1;
	for (size_t i = 0; i < MAPS; i++)
		bpf->maps[i] = -1;
	return bpf;
}

void ws_py_bpf_free(struct ws_py_bpf *bpf)
{
	if (bpf->entry >= 0)
		close(bpf->entry);
	for (size_t i = 0; i < MAPS; i++)
		if (bpf->maps[i] >= 0)
			close(bpf->maps[i]);
	free(bpf);
}

bool ws_python_bpf_is_built(void)
{
	return ws_py_bpf_programs[0].name;
}

struct ws_py_bpf_loading {
	pthread_t thread;
	bool threaded;
	struct ws_py_bpf *bpf;
	int error; /* -errno */
};

static void *load_beside(void *arg)
{
	struct ws_py_bpf_loading *loading = arg;

	loading->error = make_maps_and_try(loading->bpf);
	return NULL;
}

void ws_python_bpf_start(struct ws_python *py)
{
	const char *test = getenv("WARPSIGHT_PYTHON");
	struct ws_py_bpf_loading *loading;

	if (!py || !py->options.sampling || py->options.timers ||
	    (test && !strcmp(test, "signals")))
		return;
	if (!ws_python_bpf_is_built()) {
		py->bpf_error = ENOEXEC;
		return;
	}
	loading = py->loading = ws_calloc(1, sizeof(*loading));
	loading->bpf = make_empty();
	loading->threaded = !pthread_create(&loading->thread, NULL, load_beside, loading);
	if (!loading->threaded)
		load_beside(loading);
}

bool ws_python_bpf_suits(const struct ws_python *py, uint32_t frequency)
{
	return py && py->loading && frequency && py->options.frequency <= frequency &&
	       frequency % py->options.frequency == 0;
}

/* Wait for the loading thread and take its result; NULL with *error when it failed. */
static struct ws_py_bpf *await_loading(struct ws_python *py, int *error)
{
	struct ws_py_bpf_loading *loading = py->loading;
	struct ws_py_bpf *bpf;

	if (loading->threaded)
		pthread_join(loading->thread, NULL);
	py->loading = NULL;
	bpf = loading->bpf;
	*error = loading->error;
	free(loading);
	if (!*error)
		return bpf;
	ws_py_bpf_free(bpf);
	return NULL;
}

int ws_python_bpf_open(struct ws_python *py, uint32_t frequency)
{
	struct ws_py_bpf *bpf;
	int error;

	if (!ws_python_bpf_suits(py, frequency))
		return -ENOTSUP;
	bpf = await_loading(py, &error);

	if (bpf) {
		bpf->frequency = frequency;
		bpf->every = frequency / py->options.frequency;
		bpf->entry = load_entry(bpf);
		error = ws_min(bpf->entry, 0);
	}
	if (bpf && error) {
		ws_py_bpf_free(bpf);
		bpf = NULL;
	}
	py->bpf = bpf;
	py->bpf_error = -error;
	return error;
}

int ws_python_bpf_attach(struct ws_python *py, int sampler, int output, uint32_t cpu)
{
	int error = ws_bpf_map_set(py->bpf->maps[WS_PY_BPF_map_output], &cpu, &output);

	if (error)
		return error;
	return ioctl(sampler, PERF_EVENT_IOC_SET_BPF, py->bpf->entry) ? -errno : 0;
}

uint32_t ws_python_bpf_every(const struct ws_python *py)
{
	return py && py->bpf ? py->bpf->every : 1;
}

bool ws_python_bpf_any_ns(void)
{
	uint64_t device;

	return !ws_bpf_pid_namespace(&device);
}

bool ws_python_bpf_is_on(const struct ws_python *py)
{
	return py && py->bpf;
}

void ws_python_bpf_close(struct ws_python *py)
{
	int error;

	if (py && py->loading) {
		struct ws_py_bpf *bpf = await_loading(py, &error);

		if (bpf)
			ws_py_bpf_free(bpf);
	}
	if (py && py->bpf) {
		ws_py_bpf_free(py->bpf);
		py->bpf = NULL;
	}
}

/* ---- threads and codes ---- */

static int watch_thread(struct ws_py_bpf *bpf, uint32_t tid, const struct ws_py_layout *layout,
			struct ws_py_bpf_thread watched)
{
	int program = programs_of(bpf, layout);

	if (program < 0)
		return program;
	watched.walk = (uint32_t)program;
	return ws_bpf_map_set(bpf->maps[WS_PY_BPF_map_threads], &tid, &watched);
}

int ws_py_bpf_watch(struct ws_py_bpf *bpf, uint32_t tid, uint32_t inner,
		    const struct ws_py_layout *layout, uint64_t cookie, uint64_t beacon)
{
	return watch_thread(bpf, tid, layout,
			    (struct ws_py_bpf_thread){.cookie = cookie,
						      .mark = ws_python_cookie(cookie, inner),
						      .beacon = beacon});
}

int ws_py_bpf_watch_state(struct ws_py_bpf *bpf, uint32_t tid, const struct ws_py_layout *layout,
			  uint64_t cookie, uint64_t state)
{
	return watch_thread(bpf, tid, layout,
			    (struct ws_py_bpf_thread){.cookie = cookie, .state = state});
}

void ws_py_bpf_leave(struct ws_py_bpf *bpf, uint32_t tid)
{
	ws_bpf_map_take(bpf->maps[WS_PY_BPF_map_threads], &tid);
}
