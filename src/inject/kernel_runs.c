/*
 * kernel_runs.c - application replay: the program is run once for each pass, and every run counts
 * one pass of each launch, or of each range of launches, as the program makes them. Nothing is
 * saved or restored. Between the runs, CUPTI's image of the counters of each unit is kept in a file
 * of a folder that the command has made for it. The run that counts the last pass evaluates it.
 *
 * A launch is recognised in the next run by its function, grid and block (--app-replay-match) and
 * by how many such launches the process had made before it. Processes are told apart by their
 * program, their rank where a launcher gives them one, and the order in which they began.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel.h"

extern char **environ;

enum { KEYS = 1 << 16, PATH_ROOM = 1100, RUNS_MOST = 4096, SEEN_MOST = 1000 };
#define MAGIC UINT64_C(0x31657475706d6177)

/* What a file begins with; the image follows. */
struct kept {
	uint64_t magic, run; /* which run wrote it, from 0 */
	uint64_t pass;	     /* that comes next */
	uint64_t complete, passes, bytes;
};

static struct {
	uint64_t run, runs; /* the present one; how many are needed, 0: not known */
	uint64_t process;   /* hash that tells it apart */
} state;

/* How often each key has come, by its hash. */
static struct {
	uint64_t hash, count;
} keys[KEYS];
static _Atomic uint32_t keys_lock;

/* The unit that is being counted. */
static struct {
	struct ws_kernel_launch launch;
	struct ws_kernel_outcome outcome;
	struct ws_kernel_counters *counters;
	char path[PATH_ROOM];
	uint64_t passes; /* counted before */
} unit;

bool ws_kernel_has_runs(void)
{
	return *ws_kernel_settings.folder != 0;
}

/* ---- telling units apart ---- */

static uint64_t add_hash(uint64_t hash, const void *data, size_t bytes)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t add_text(uint64_t hash, const char *text)
{
	return add_hash(hash, text, strlen(text) + 1);
}

static int open_file(const char *path, int flags)
{
	return (int)ws_raw_syscall(SYS_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0600, 0, 0);
}

static void close_file(int fd)
{
	if (fd >= 0)
		ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

/* The program and its rank. */
static uint64_t hash_program(void)
{
	static const char *const ranks[] = {"RANK=",	  "OMPI_COMM_WORLD_RANK=", "PMI_RANK=",
					    "PMIX_RANK=", "SLURM_PROCID=",	   "LOCAL_RANK="};
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	char program[1024] = "";
	long n = ws_raw_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)program,
				sizeof(program) - 1, 0, 0);

	hash = add_hash(hash, program, n > 0 ? (size_t)n : 0);
	for (char **entry = environ; entry && *entry; entry++)
		for (size_t i = 0; i < WS_COUNT(ranks); i++)
			if (!strncmp(*entry, ranks[i], strlen(ranks[i])))
				hash = add_text(hash, *entry);
	return hash;
}

/* Take the next free number among the processes of this program in this run. */
int ws_kernel_prepare_runs(void)
{
	uint64_t program = hash_program();

	if (!ws_kernel_has_runs())
		return 0;
	state.run = strtoull(ws_kernel_settings.run, NULL, 10);
	state.runs = strtoull(ws_kernel_settings.runs, NULL, 10);
	for (uint64_t i = 0; i < SEEN_MOST; i++) {
		char path[PATH_ROOM];
		int fd;

		snprintf(path, sizeof(path), "%s/run-%llu-%016llx-%llu", ws_kernel_settings.folder,
			 (unsigned long long)state.run, (unsigned long long)program,
			 (unsigned long long)i);
		fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
		close_file(fd);
		if (fd == -EEXIST)
			continue;
		state.process = add_hash(program, &i, sizeof(i));
		if (fd >= 0)
			return 0;
		break;
	}
	ws_kernel_report(WS_ERROR,
			 "Kernels are not measured: the folder %s, which keeps counters between "
			 "runs of the program, cannot be used.",
			 ws_kernel_settings.folder);
	return -1;
}

static uint64_t hash_unit(const struct ws_kernel_launch *launch)
{
	const char *match = ws_kernel_settings.match;
	uint64_t hash = state.process;

	hash = add_text(hash, launch->range ? launch->range : launch->symbol);
	hash = add_hash(hash, &launch->call, sizeof(launch->call));
	hash = add_hash(hash, &launch->device, sizeof(launch->device));
	if (!strcmp(match, "name"))
		return hash;
	hash = add_hash(hash, launch->grid, sizeof(launch->grid));
	hash = add_hash(hash, launch->block, sizeof(launch->block));
	if (strcmp(match, "all"))
		return hash;
	hash = add_hash(hash, &launch->context_uid, sizeof(launch->context_uid));
	return add_hash(hash, &launch->stream_id, sizeof(launch->stream_id));
}

/* How many units with this hash came before; UINT64_MAX when there are too many different ones. */
static uint64_t count_key(uint64_t hash)
{
	uint64_t count = UINT64_MAX;

	ws_kernel_lock(&keys_lock);
	for (size_t i = 0; i < KEYS; i++) {
		size_t at = (hash + i) % KEYS;

		if (keys[at].count && keys[at].hash != hash)
			continue;
		keys[at].hash = hash;
		count = keys[at].count++;
		break;
	}
	ws_kernel_unlock(&keys_lock);
	return count;
}

static bool name_file(const struct ws_kernel_launch *launch, char *path)
{
	uint64_t hash = hash_unit(launch), nth = count_key(hash);

	snprintf(path, PATH_ROOM, "%s/unit-%016llx", ws_kernel_settings.folder,
		 (unsigned long long)add_hash(hash, &nth, sizeof(nth)));
	return nth != UINT64_MAX;
}

/* ---- files ---- */

static bool move_bytes(int number, int fd, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes) {
		ssize_t n = ws_raw_syscall(number, fd, (long)at, (long)bytes, 0, 0, 0);

		if (n <= 0)
			return false;
		at += n;
		bytes -= (size_t)n;
	}
	return true;
}

static uint8_t *read_kept(const char *path, struct kept *kept, size_t bytes)
{
	int fd = open_file(path, O_RDONLY);
	uint8_t *image = fd >= 0 ? malloc(bytes + 1) : NULL;

	if (image && (!move_bytes(SYS_read, fd, kept, sizeof(*kept)) || kept->magic != MAGIC ||
		      kept->bytes != bytes || !move_bytes(SYS_read, fd, image, bytes))) {
		free(image);
		image = NULL;
	}
	close_file(fd);
	return image;
}

static bool write_kept(const char *path, const struct kept *kept, const uint8_t *image)
{
	int fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
	bool ok = fd >= 0 && move_bytes(SYS_write, fd, kept, sizeof(*kept)) &&
		  move_bytes(SYS_write, fd, image, kept->bytes);

	close_file(fd);
	return ok;
}

/* Tell the command how many runs this chip needs: it adds up nothing, it takes the most. */
static void write_pass_count(size_t passes)
{
	static size_t most;
	char path[PATH_ROOM], text[32];
	int fd, n;

	if (passes <= most)
		return;
	most = passes;
	snprintf(path, sizeof(path), "%s/passes", ws_kernel_settings.folder);
	n = snprintf(text, sizeof(text), "%zu\n", passes);
	fd = open_file(path, O_WRONLY | O_CREAT | O_APPEND);
	if (fd >= 0)
		move_bytes(SYS_write, fd, text, (size_t)n);
	close_file(fd);
}

/* ---- one unit ---- */

static bool is_last_run(void)
{
	if (!state.runs) /* the first run: the last one as well if this chip needs one pass */
		return unit.counters && ws_kernel_pass_count(unit.counters) == 1;
	return state.run + 1 >= state.runs;
}

/* What the runs before have counted, NULL for nothing; false with a reason. */
static bool read_earlier(struct kept *kept, uint8_t **image)
{
	static char text[160];
	size_t bytes;

	ws_kernel_get_image(unit.counters, &bytes);
	memset(kept, 0, sizeof(*kept));
	*image = NULL;
	if (!state.run)
		return true;
	*image = read_kept(unit.path, kept, bytes);
	if (*image && (kept->complete || kept->run + 1 == state.run))
		return true;
	snprintf(text, sizeof(text),
		 "run %llu of the program did not launch it: its passes are made in several runs, "
		 "which must launch the same",
		 (unsigned long long)(*image ? kept->run + 2 : 1));
	unit.outcome.error = text;
	free(*image);
	*image = NULL;
	return false;
}

static bool flush_caches(void)
{
	struct ws_kernel_saved *saved;
	bool ok;

	if (!ws_kernel_flushes_caches())
		return true;
	saved = ws_kernel_save_nothing(&unit.launch, &unit.outcome.error);
	ok = saved && ws_kernel_flush_caches(saved, &unit.outcome.error);
	if (saved)
		ws_kernel_free_saved(saved);
	if (ok)
		unit.outcome.error = NULL;
	return ok;
}

static bool begin_pass(const struct kept *kept, const uint8_t *image)
{
	struct ws_kernel_passes passes = {.own_range = unit.launch.call == WS_KERNEL_LAUNCH_GRAPH ||
						       unit.launch.call == WS_KERNEL_RANGE,
					  .other_runs = true,
					  .image = image,
					  .pass = kept->pass};
	int rc = ws_kernel_begin_passes(unit.counters, &passes);

	if (!rc)
		rc = ws_kernel_begin_pass(unit.counters);
	if (rc)
		unit.outcome.error = ws_kernel_explain(rc);
	return !rc;
}

static void write_outcome(void)
{
	if (unit.outcome.error)
		unit.outcome.passes = 0;
	ws_kernel_write_result(&unit.launch, &unit.outcome);
}

/* The unit was complete before this run: other units need more passes. */
static void finish_complete(const struct kept *kept, const uint8_t *image)
{
	if (!is_last_run())
		return;
	unit.outcome.passes = (uint32_t)kept->passes;
	ws_kernel_take_values(unit.counters, image, 0, &unit.outcome);
	ws_kernel_keep_one(unit.counters, &unit.launch, image, 0);
	if (state.runs)
		ws_raw_syscall(SYS_unlinkat, AT_FDCWD, (long)unit.path, 0, 0, 0, 0);
	write_outcome();
}

/* True when a pass has begun. */
static bool begin_unit(void)
{
	struct kept kept;
	uint8_t *image;
	bool begun = false;

	unit.counters = ws_kernel_get_counters(unit.launch.context, (int)unit.launch.device,
					       &unit.outcome.error);
	if (!unit.counters)
		return false;
	write_pass_count(ws_kernel_pass_count(unit.counters));
	unit.outcome.error = "there are too many different kernels";
	if (!name_file(&unit.launch, unit.path))
		return false;
	unit.outcome.error = "work of the program before it failed";
	if (ws_kernel_driver.synchronize())
		return false;
	if (!read_earlier(&kept, &image))
		return false;
	unit.outcome.error = NULL;
	unit.passes = kept.passes;
	if (kept.complete)
		finish_complete(&kept, image);
	else
		begun = flush_caches() && begin_pass(&kept, image);
	free(image);
	return begun;
}

bool ws_kernel_begin_unit(const struct ws_kernel_launch *launch)
{
	bool begun;

	memset(&unit.outcome, 0, sizeof(unit.outcome));
	unit.launch = *launch;
	unit.outcome.start = ws_read_raw_ns();
	if (launch->call != WS_KERNEL_RANGE)
		unit.outcome.error = ws_kernel_find_refusal(launch);
	begun = !unit.outcome.error && begin_unit();
	/* Before the last run, what fails is not yet said: it will fail again. When no run
	 * follows, because nothing was measured, the first one says it. */
	if (!begun && unit.outcome.error && (is_last_run() || !state.run))
		write_outcome();
	return begun;
}

static bool wait_for_unit(void)
{
	if (unit.launch.call == WS_KERNEL_RANGE)
		return !ws_kernel_driver.synchronize();
	return !ws_kernel_driver.wait_stream(unit.launch.stream);
}

static void keep_unit(bool more)
{
	struct kept kept = {.magic = MAGIC, .run = state.run, .complete = !more};
	const uint8_t *image;
	size_t bytes;

	image = ws_kernel_get_image(unit.counters, &bytes);
	kept.pass = ws_kernel_next_pass(unit.counters);
	kept.passes = unit.passes + 1;
	kept.bytes = bytes;
	if (!write_kept(unit.path, &kept, image))
		ws_kernel_report(WS_ERROR,
				 "%s: the counters could not be kept for the next run: %s cannot "
				 "be written.",
				 unit.launch.range ? unit.launch.range : unit.launch.symbol,
				 unit.path);
}

static void take_image(const uint8_t *image)
{
	ws_kernel_take_values(unit.counters, image, 0, &unit.outcome);
	ws_kernel_keep_one(unit.counters, &unit.launch, image, 0);
}

void ws_kernel_end_unit(void)
{
	bool more = false, ran = wait_for_unit();
	int rc = ws_kernel_end_pass(unit.counters, &more);
	size_t bytes;

	if (!rc)
		rc = ws_kernel_decode(unit.counters);
	if (!ran)
		unit.outcome.error = "it failed";
	else if (rc)
		unit.outcome.error = ws_kernel_explain(rc);
	else if (more || !state.runs || !is_last_run())
		keep_unit(more);
	if (unit.outcome.error || !is_last_run()) {
		if (unit.outcome.error && is_last_run())
			write_outcome();
		return;
	}
	unit.outcome.passes = (uint32_t)unit.passes + 1;
	if (more)
		unit.outcome.error = "CUPTI asks for more and more passes";
	else
		take_image(ws_kernel_get_image(unit.counters, &bytes));
	if (state.runs)
		ws_raw_syscall(SYS_unlinkat, AT_FDCWD, (long)unit.path, 0, 0, 0, 0);
	write_outcome();
}
