/*
 * kernel_batch.c - several launches, pass by pass. What a pass costs is nearly all CUPTI's: 15 to
 * 20 ms to begin and end it, however much runs in between. So a launch is not measured when the
 * program makes it. It is put off, with a copy of its arguments and of the memory that it finds,
 * and the program goes on. When there are enough of them, or before something that they need is
 * taken away, or when the program ends, all are made again, one after the other, once for each
 * pass, each on the memory that it found. Afterwards memory is as the program left it.
 *
 * Graphs and launches that cannot be copied are measured at once (kernel_measure.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "inject/kernel.h"

enum { BATCH_MOST = 32, TRIALS = 2, LONELY_MOST = 4 };
#define ROOM_LEFT (UINT64_C(256) << 20)
#define SLOW UINT64_C(20000000)
#define IMAGE_MOST ((size_t)192 << 20)

struct entry {
	struct ws_kernel_launch launch;
	struct ws_kernel_outcome outcome;
	struct ws_kernel_writes writes;
	bool refused; /* nothing is repeated */
	bool slow;    /* it is tried only once */
};

static struct {
	struct entry entries[BATCH_MOST];
	size_t count;
	_Atomic bool waits; /* there are some */
	struct ws_kernel_counters *counters;
	struct ws_kernel_versions *versions;
	void *context;
	long process;
	uint64_t since; /* by read_tick_ns() */
	bool first;	/* as prepare_caches in kernel_measure.c has it */
	bool leaving;	/* the program ends */
	bool looked;	/* passes that look into the kernels have been made */
} batch;
/* The program has memory that cannot be brought back, or that others write to meanwhile: arrays,
 * which kernels may read as textures, and memory of other processes and of network cards. */
static _Atomic bool forbidden;
static _Atomic bool pointless; /* the program frees memory after each launch */

/* ---- what ends a batch ---- */

/* They take away, or change, what launches need in addition to memory that is copied. */
static const char *const ends[] = {
	"cuModuleUnload",	"cuLibraryUnload",	"cuCtxDestroy",
	"cuDevicePrimaryCtxRe", "cuStreamDestroy",	"cuTexObjectDestroy",
	"cuSurfObjectDestroy",	"cuArrayDestroy",	"cuMipmappedArrayDes",
	"cuMemPoolDestroy",	"cuMemPoolTrimTo",	"cuFuncSetAttribute",
	"cuFuncSetCacheConfig", "cuMemGetInfo",		"cuStreamBeginCapture",
	"cuCtxSetLimit",	"cuKernelSetAttribute", "cuGreenCtxDestroy",
};

bool ws_kernel_ends_batch(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(ends); i++)
		if (!strncmp(name, ends[i], strlen(ends[i])))
			return true;
	return false;
}

bool ws_kernel_forbids_batches(const char *name)
{
	static const char *const calls[] = {
		"cuArrayCreate",	  "cuArray3DCreate",	      "cuMipmappedArrayCreate",
		"cuIpcGetMemHandle",	  "cuIpcOpenMemHandle",	      "cuMemImportFromShareable",
		"cuMemExportToShareable", "cuImportExternalMemory",   "cuGraphicsMapResources",
		"cuMulticastCreate",	  "cuMemGetHandleForAddress",
	};

	for (size_t i = 0; i < WS_COUNT(calls); i++)
		if (!strncmp(name, calls[i], strlen(calls[i])))
			return true;
	return false;
}

void ws_kernel_forbid_batches(void)
{
	atomic_store(&forbidden, true);
}

bool ws_kernel_forbids_waiting(void)
{
	return atomic_load(&forbidden);
}

void ws_kernel_make_room(uint64_t bytes)
{
	size_t free_bytes = 0, total;

	if (!bytes || !atomic_load_explicit(&batch.waits, memory_order_relaxed))
		return;
	ws_kernel_set_inside(true);
	if (ws_kernel_driver.get_free(&free_bytes, &total))
		free_bytes = 0;
	ws_kernel_set_inside(false);
	if (bytes + bytes / 8 + ROOM_LEFT > free_bytes)
		ws_kernel_hurry_batch();
}

/* Of the last tick of the kernel: each launch of the program reads it. */
static uint64_t read_tick_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void ws_kernel_hurry_old_batch(uint64_t age)
{
	if (atomic_load_explicit(&batch.waits, memory_order_relaxed) &&
	    read_tick_ns() - batch.since > age)
		ws_kernel_hurry_batch();
}

/* ---- passes ---- */

static bool restore_entry(const struct entry *entry, const char **why)
{
	*why = "the memory that it found could not be restored: the driver failed";
	return ws_kernel_restore_version(batch.versions, entry->launch.stream);
}

/* As prepare_caches in kernel_measure.c. */
static bool prepare_caches(const struct entry *entry, const char **why)
{
	const struct ws_kernel_launch *launch = &entry->launch;
	bool cold = ws_kernel_flushes_caches();

	if (cold && !ws_kernel_empties_versions(batch.versions, entry->outcome.duration))
		return ws_kernel_flush_versions(batch.versions, launch, why);
	*why = "it could not be run again";
	if (!ws_kernel_runs(launch))
		return false;
	ws_kernel_mark_written(batch.versions, &entry->writes);
	if (!restore_entry(entry, why))
		return false;
	if (cold)
		ws_kernel_empty_versions(batch.versions);
	else if (batch.first)
		ws_kernel_save_versions_in_vain(batch.versions);
	return true;
}

/* CUPTI's sampler comes before its other records. */
static bool run_launch(struct entry *entry, bool counted)
{
	uint64_t began = ws_read_raw_ns(), took;

	if (!counted && ws_kernel_lacks_shared(&entry->launch) &&
	    (batch.looked || !ws_kernel_looks_into(&entry->launch)))
		return ws_kernel_run_for_shared(&entry->launch);
	if (!ws_kernel_runs(&entry->launch))
		return false;
	took = ws_read_raw_ns() - began;
	if (!entry->outcome.duration || took < entry->outcome.duration)
		entry->outcome.duration = took;
	return true;
}

static bool run_entry(struct entry *entry, size_t version, bool counted, const char **why)
{
	uint64_t began;

	ws_kernel_choose_version(batch.versions, version);
	if (entry->refused || (!counted && entry->slow && !batch.looked))
		return true;
	if (!restore_entry(entry, why) || (counted && !prepare_caches(entry, why)))
		return false;
	*why = "it could not be run again";
	began = ws_read_raw_ns();
	if (!run_launch(entry, counted))
		return false;
	entry->slow = ws_read_raw_ns() - began > SLOW;
	*why = "what the kernel changed could not be found: the driver failed";
	if (!counted && !ws_kernel_find_writes(batch.versions, &entry->writes))
		return false;
	ws_kernel_mark_written(batch.versions, &entry->writes);
	return true;
}

/* Make the launches from `from` on, `count` of them; the others are passed over. */
static bool run_entries(size_t from, size_t count, bool counted, const char **why)
{
	for (size_t i = 0; i < batch.count; i++)
		if (i < from || i >= from + count)
			ws_kernel_choose_version(batch.versions, i);
		else if (!run_entry(&batch.entries[i], i, counted, why))
			return false;
	return true;
}

static bool make_pass(size_t from, size_t count, bool *more, const char **why)
{
	int rc = ws_kernel_begin_pass(batch.counters), ended;
	bool ran;

	*more = false;
	if (rc) {
		*why = ws_kernel_explain(rc);
		return false;
	}
	ran = run_entries(from, count, true, why);
	ended = ws_kernel_end_pass(batch.counters, more);
	if (ended && ran)
		*why = ws_kernel_explain(ended);
	return ran && !ended;
}

/* Which launches are repeated. */
static size_t count_repeated(size_t from, size_t count)
{
	size_t repeated = 0;

	for (size_t i = from; i < from + count; i++)
		repeated += !batch.entries[i].refused;
	return repeated;
}

static bool make_passes(size_t from, size_t count, uint32_t *passes, const char **why)
{
	struct ws_kernel_passes how = {.ranges = WS_KERNEL_RANGES * count_repeated(from, count)};
	bool more = true;
	int rc = ws_kernel_begin_passes(batch.counters, &how);

	*why = ws_kernel_explain(rc);
	if (rc)
		return false;
	for (*passes = 0; more; ++*passes) {
		*why = "CUPTI asks for more and more passes";
		batch.first = !*passes && ws_kernel_counts_first(&batch.entries[from].launch);
		if (*passes == WS_KERNEL_PASSES_MOST || !make_pass(from, count, &more, why))
			return false;
	}
	rc = ws_kernel_decode(batch.counters);
	*why = ws_kernel_explain(rc);
	return !rc;
}

/* ---- results ---- */

static void write_entries(size_t from, size_t count, uint32_t passes, const char *why)
{
	size_t range = WS_KERNEL_RANGES - 1, bytes;

	for (size_t i = from; i < from + count; i++) {
		struct entry *entry = &batch.entries[i];

		if (!entry->refused && why)
			entry->outcome.error = why;
		if (!entry->outcome.error) {
			entry->outcome.passes += passes;
			ws_kernel_take_values(batch.counters,
					      ws_kernel_get_image(batch.counters, &bytes), range,
					      &entry->outcome);
		}
		if (!entry->refused)
			range += WS_KERNEL_RANGES;
		if (entry->outcome.error)
			entry->outcome.passes = entry->outcome.duration = 0;
		ws_kernel_write_result(&entry->launch, &entry->outcome);
	}
}

static void keep_entries(size_t from, size_t count)
{
	struct ws_kernel_image_entry kept[BATCH_MOST];
	size_t n = 0, bytes;
	const uint8_t *image = ws_kernel_get_image(batch.counters, &bytes);

	for (size_t i = from; i < from + count; i++)
		if (!batch.entries[i].refused) {
			kept[n].launch = batch.entries[i].launch.number;
			kept[n].range = WS_KERNEL_RANGES * (n + 1) - 1;
			n++;
		}
	ws_kernel_keep_image(image, bytes, batch.entries[from].launch.device, kept, n);
}

/* Measure some of the launches. CUPTI may find other ranges than those expected (a kernel that
 * launches kernels): then false. */
static bool measure_entries(size_t from, size_t count, const char **why)
{
	uint32_t passes = 0;
	bool made;

	if (!count_repeated(from, count)) {
		write_entries(from, count, 0, NULL);
		return true;
	}
	made = make_passes(from, count, &passes, why);

	if (made && ws_kernel_count_ranges(batch.counters) !=
			    WS_KERNEL_RANGES * count_repeated(from, count)) {
		*why = "CUPTI gives no values for it";
		return false;
	}
	if (!made)
		return false;
	write_entries(from, count, passes, NULL);
	keep_entries(from, count);
	return true;
}

/* ---- the batch ---- */

/* A launch that the driver refuses, as it refuses the program's, leaves the others alone. False
 * when nothing can be launched any more. */
static bool try_entry(struct entry *entry, size_t version, const char **why)
{
	if (run_entry(entry, version, false, why))
		return true;
	if (ws_kernel_driver.synchronize())
		return false;
	entry->outcome.error = *why;
	entry->refused = true;
	return true;
}

static bool try_launches(const char **why)
{
	for (int trial = 0; trial < TRIALS; trial++)
		for (size_t i = 0; i < batch.count; i++)
			if (!try_entry(&batch.entries[i], i, why))
				return false;
	return true;
}

static bool look_into_entry(struct entry *entry, size_t pass, const char **why)
{
	const struct ws_kernel_launch *launch = &entry->launch;

	if (!restore_entry(entry, why) || !prepare_caches(entry, why) ||
	    ws_kernel_driver.synchronize())
		return false;
	*why = "it could not be run again";
	if (!ws_kernel_look(launch, pass, &entry->outcome))
		return false;
	ws_kernel_mark_written(batch.versions, &entry->writes);
	return true;
}

/* As in kernel_measure.c, before the range profiler is enabled. */
static bool look_into_launches(const char **why)
{
	if (!*ws_kernel_settings.source || ws_kernel_pause_counters(batch.counters))
		return true;
	for (size_t pass = 0; pass < WS_KERNEL_LOOKS; pass++)
		for (size_t i = 0; i < batch.count; i++) {
			if (!ws_kernel_wants_look(pass))
				break;
			batch.first = ws_kernel_is_first_look(pass);
			ws_kernel_choose_version(batch.versions, i);
			if (!batch.entries[i].refused &&
			    !look_into_entry(&batch.entries[i], pass, why))
				return false;
		}
	return true;
}

/* How the driver divides the cache for kernels that have been looked into. */
static bool find_shared(const char **why)
{
	batch.looked = true;
	for (size_t i = 0; i < batch.count; i++)
		if (!ws_kernel_lacks_shared(&batch.entries[i].launch))
			ws_kernel_choose_version(batch.versions, i);
		else if (!try_entry(&batch.entries[i], i, why))
			return false;
	return true;
}

/* So many launches that CUPTI's image of their counters does not become too large. */
static size_t choose_part(void)
{
	size_t most = batch.count;

	if (ws_kernel_resume_counters(batch.counters))
		return most;
	while (most > 1 &&
	       ws_kernel_image_bytes(batch.counters, WS_KERNEL_RANGES * most) > IMAGE_MOST)
		most = (most + 1) / 2;
	return most;
}

/* The launches together, or one by one where that fails. */
static void measure_part(size_t from, size_t count)
{
	const char *why = NULL;

	if (measure_entries(from, count, &why))
		return;
	for (size_t i = from; i < from + count; i++)
		if (batch.entries[i].refused || !measure_entries(i, 1, &why))
			write_entries(i, 1, 0, why);
}

static void measure_launches(void)
{
	const char *why = NULL;
	size_t part;

	if (!try_launches(&why) || !look_into_launches(&why) || !find_shared(&why)) {
		write_entries(0, batch.count, 0, why);
		return;
	}
	part = choose_part();
	for (size_t i = 0; i < batch.count; i += part)
		measure_part(i, ws_min(part, batch.count - i));
}

static void free_batch(void)
{
	for (size_t i = 0; i < batch.count; i++) {
		free(batch.entries[i].writes.pieces);
		ws_kernel_free_launch(&batch.entries[i].launch);
	}
	if (batch.versions)
		ws_kernel_free_versions(batch.versions);
	memset(batch.entries, 0, sizeof(batch.entries));
	batch.versions = NULL;
	batch.context = NULL;
	batch.count = 0;
	batch.looked = false;
	atomic_store(&batch.waits, false);
}

void ws_kernel_measure_batch(void)
{
	size_t count = batch.count;
	void *context = NULL;
	const char *why;
	bool pushed;

	if (!count)
		return;
	pushed = ws_kernel_driver.push_context && ws_kernel_driver.pop_context &&
		 !ws_kernel_driver.push_context(batch.context);
	batch.counters =
		ws_kernel_find_counters(batch.context, (int)batch.entries[0].launch.device, &why);
	if (!batch.counters) {
		write_entries(0, count, 0, why);
	} else if (ws_kernel_driver.synchronize()) {
		write_entries(0, count, 0, "work of the program after it failed");
	} else if (!ws_kernel_keep_end(batch.versions)) {
		write_entries(0, count, 0,
			      "there is no memory left to save what the kernel may write");
	} else {
		measure_launches();
		ws_kernel_return_to_end(batch.versions);
		if (!batch.leaving)
			ws_kernel_leave_counters(batch.counters, batch.context);
	}
	free_batch();
	if (pushed)
		ws_kernel_driver.pop_context(&context);
	for (size_t i = 0; i < count; i++)
		ws_kernel_finish_unit();
	if (!batch.leaving)
		ws_kernel_rest();
}

/* A program that frees memory after each launch gains nothing. */
static void note_size(void)
{
	static unsigned lonely; /* batches of one launch that followed each other */

	lonely = batch.count == 1 ? lonely + 1 : 0;
	if (lonely == LONELY_MOST)
		atomic_store(&pointless, true);
}

void ws_kernel_hurry_batch(void)
{
	int mode = WS_KERNEL_RELAXED;
	bool was;

	/* A forked child has no CUDA. */
	if (!atomic_load_explicit(&batch.waits, memory_order_relaxed) ||
	    batch.process != ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0))
		return;
	was = ws_kernel_set_inside(true);
	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_begin_call();
	if (ws_kernel_begin_measuring()) {
		note_size();
		ws_kernel_measure_batch();
	}
	ws_kernel_end_call();
	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_set_inside(was);
}

/* ---- putting off ---- */

static bool is_full(void)
{
	return batch.count >=
	       ws_min((size_t)strtoull(ws_kernel_settings.batch, NULL, 10), (size_t)BATCH_MOST);
}

static void measure_at_exit(void)
{
	batch.leaving = true;
	ws_kernel_hurry_batch();
}

/* Registered after those of the driver and of CUPTI, it is called before them. */
static void register_exit(void)
{
	static bool registered;

	if (!registered)
		atexit(measure_at_exit);
	registered = true;
}

static bool add_entry(struct ws_kernel_launch *launch)
{
	struct entry *entry = &batch.entries[batch.count];

	if (!ws_kernel_copy_launch(&entry->launch, launch))
		return false;
	if (!batch.versions)
		batch.versions = ws_kernel_make_versions(launch);
	if (!batch.versions || !ws_kernel_keep_version(batch.versions, launch)) {
		ws_kernel_free_launch(&entry->launch);
		return false;
	}
	entry->outcome.start = ws_read_raw_ns();
	entry->outcome.error = ws_kernel_find_refusal(launch);
	entry->refused = entry->outcome.error != NULL;
	if (!batch.count)
		batch.since = read_tick_ns();
	batch.context = launch->context;
	batch.process = ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	batch.count++;
	register_exit();
	atomic_store(&batch.waits, true);
	return true;
}

static bool can_wait(const struct ws_kernel_launch *launch)
{
	return launch->call != WS_KERNEL_LAUNCH_GRAPH && *ws_kernel_settings.batch &&
	       !atomic_load(&forbidden) && !atomic_load(&pointless) &&
	       !ws_kernel_shares_memory((int)launch->device) && ws_kernel_driver.push_context &&
	       !ws_kernel_lacks_counters(launch->context);
}

/*
 * CUPTI's profiler delays launches from when it is initialised: not before there is something to
 * measure. But it does not begin any more where program counters have been sampled since, which
 * delays launches as much.
 */
bool ws_kernel_put_off(struct ws_kernel_launch *launch)
{
	const char *why;

	if (batch.count && (batch.context != launch->context || !can_wait(launch)))
		ws_kernel_measure_batch();
	if (!can_wait(launch))
		return false;
	if (ws_kernel_looks_into(launch) &&
	    !ws_kernel_find_counters(launch->context, (int)launch->device, &why))
		return false;
	if (ws_kernel_driver.synchronize())
		return false;
	if (!add_entry(launch)) {
		/* Perhaps there is room without the others. */
		ws_kernel_measure_batch();
		free_batch();
		if (!add_entry(launch)) {
			free_batch();
			return false;
		}
	}
	if (is_full() || !ws_kernel_awaits_more())
		ws_kernel_measure_batch();
	return true;
}
