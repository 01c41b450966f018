/*
 * test_record.c - the recorder's parts without a target: names of reports, the clock, and rings
 * under many writers.
 *
 * The ring test runs both sides in one process, so that the thread sanitizer sees every access of
 * writer and reader: threads record through the hooks' runtime as fast as they can while the drain
 * converts, with plenty of memory, with too little, and waiting for it. What was recorded and what
 * was counted as lost must add up to what was written, exactly.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/arena_name.h"
#include "base/mem.h"
#include "inject/rt.h"
#include "query/query.h"
#include "record/crowd.h"
#include "record/drain.h"
#include "record/name.h"
#include "record/proc.h"
#include "store/store.h"

/* ---- names ---- */

static const char *look_up_variable(void *ctx, const char *name)
{
	(void)ctx;
	return !strcmp(name, "RANK") ? "3" : !strcmp(name, "PATHY") ? "a/../b" : NULL;
}

static void expect_name(const char *template, const char *want)
{
	struct ws_name_context context = {.pid = 42, .number = 7, .variable = look_up_variable};
	struct ws_err err = {""};
	char *got = ws_report_name(template, &context, &err);

	if (want) {
		assert_non_null(got);
		assert_string_equal(got, want);
	} else {
		assert_null(got);
		assert_true(strlen(err.msg) > 10);
	}
	free(got);
}

static void test_names(void **state)
{
	(void)state;
	expect_name("run", "run.wsrep");
	expect_name("run.wsrep", "run.wsrep");
	expect_name("out/run.dat", "out/run.dat");
	expect_name("lr0.001", "lr0.001.wsrep");
	expect_name("a.b/run", "a.b/run.wsrep");
	expect_name(".hidden", ".hidden.wsrep");
	expect_name("r%p-%n%%", "r42-7%.wsrep");
	expect_name("rank%q{RANK}", "rank3.wsrep");
	expect_name("x%q{NONE}y", "xy.wsrep");
	expect_name("x%q{PATHY}", "xa_.._b.wsrep");
	expect_name("/", "/report7.wsrep");
	expect_name("no/such/folder/", "no/such/folder/report7.wsrep");
	expect_name("%q{RANK", NULL);
	expect_name("%z", NULL);
	expect_name("50%", NULL);
	expect_name("", NULL);
	assert_true(ws_name_counts("a%n"));
	assert_false(ws_name_counts("a%%n"));
}

/* ---- the clock ---- */

static void test_clock(void **state)
{
	struct ws_clock clock;
	uint64_t ticks[50], raw_before[50], raw_after[50];

	(void)state;
	ws_clock_init(&clock, ws_clock_choose());
	for (int i = 0; i < 50; i++) {
		usleep(1000);
		raw_before[i] = ws_read_raw_ns();
		ticks[i] = clock.mode == WS_CLOCK_COUNTER ? ws_read_counter() : ws_read_raw_ns();
		raw_after[i] = ws_read_raw_ns();
		if (i % 5 == 4)
			ws_clock_read(&clock);
	}
	ws_clock_read(&clock);
	for (int i = 49; i >= 0; i--) {
		uint64_t ns = ws_clock_ns(&clock, ticks[i]);

		/* between the clock reads around it, give or take what a reading itself may be off
		 */
		assert_true(ns + 2000 >= raw_before[i] && ns <= raw_after[i] + 2000);
		assert_true(!i || ws_clock_ns(&clock, ticks[i - 1]) <= ns);
	}
	/* Nothing outside the readings is extrapolated. */
	assert_true(ws_clock_ns(&clock, UINT64_MAX) == clock.readings[clock.n - 1].raw);
	assert_true(ws_clock_ns(&clock, 0) == clock.readings[0].raw);
	ws_clock_free(&clock);
}

/* Thinning after many readings must leave them in order and around everything. */
static void test_clock_many(void **state)
{
	struct ws_clock clock;

	(void)state;
	ws_clock_init(&clock, WS_CLOCK_RAW);
	for (int i = 0; i < 200000; i++)
		ws_clock_read(&clock);
	assert_true(clock.n <= 65536);
	for (size_t i = 1; i < clock.n; i++)
		assert_true(clock.readings[i - 1].ticks < clock.readings[i].ticks &&
			    clock.readings[i - 1].raw < clock.readings[i].raw);
	ws_clock_free(&clock);
}

/* ---- rings ---- */

struct load {
	int threads;
	uint32_t each;
	uint64_t budget;
	bool lossless;
};

static struct load load;
static _Atomic int running;

static void *write_records(void *arg)
{
	static const char *const names[] = {"alpha", "beta",
					    "a name that is somewhat longer than the others", ""};

	for (uint32_t i = 0; i < load.each; i++) {
		struct ws_thread *thread;
		struct ws_rec_nvtx_range *record;
		uint64_t start = ws_rt_read_ticks();
		const char *name = names[(i + (uint32_t)(uintptr_t)arg) % 4];

		while (!(thread = ws_rt_enter())) /* no memory for the thread itself yet */
			usleep(100);
		uint32_t handle = ws_rt_find_string(thread, name, strlen(name));

		record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_NVTX);
		if (record) {
			record->rec = ws_rec_head(WS_REC_NVTX_RANGE, sizeof(*record), 0, handle);
			record->start = start;
			record->end = ws_rt_read_ticks();
			ws_rt_commit(thread, record, sizeof(*record));
		}
		ws_rt_leave(thread);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static struct ws_sink *the_sink;

static struct ws_sink *sink_for(void *ctx, int pid, const char *env, size_t n,
				struct ws_sink *parent)
{
	(void)ctx, (void)pid, (void)env, (void)n, (void)parent;
	return the_sink;
}

static uint64_t lost_in(const char *path)
{
	struct ws_err err;
	struct ws_report *report = ws_report_open(path, &err);
	struct ws_cursor *cursor;
	const uint64_t *values;
	uint64_t lost = 0;

	assert_non_null(report);
	cursor = ws_cursor_open(report, WS_TABLE_loss, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values))
		if (!strcmp(ws_report_string(report, (uint32_t)values[ws_loss_kind], NULL), "nvtx"))
			lost += values[ws_loss_events];
	ws_cursor_close(cursor);
	ws_report_close(report);
	return lost;
}

static int open_arena(const char *path)
{
	char link[WS_ARENA_LINK], target[WS_ARENA_LINK];
	struct ws_arena_name name;

	if (!ws_read_arena_name(path, &name))
		return -1;
	if (name.sealed)
		ws_write_arena_link(&name, link, target);
	return open(name.sealed ? link : path, O_RDWR | O_CLOEXEC);
}

static void test_arena_names(void **state)
{
	static const char *const wrong[] = {"/dev/shm/warpsight",
					    "/x/warpsight-0-1",
					    "/x/warpsight-0-1-0123456789abcde",
					    "/x/warpsight-0-1-0123456789abcdef-",
					    "/x/warpsight-0-1-0123456789abcdef-7",
					    "/x/warpsight-0-1-0123456789abcdef-7-0-1",
					    "/x/warpsight-0-4294967296-0123456789abcdef",
					    "/x/warpsight--1-0123456789abcdef",
					    "/warpsight-0-1-0123456789abcdef/x",
					    ""};
	char link[WS_ARENA_LINK], target[WS_ARENA_LINK];
	struct ws_arena_name name;

	(void)state;
	for (size_t i = 0; i < WS_COUNT(wrong); i++)
		assert_false(ws_read_arena_name(wrong[i], &name));
	assert_true(ws_read_arena_name("/x/warpsight-10-234-0123456789abcdef", &name));
	assert_true(name.uid == 10 && name.pid == 234 && !name.sealed);
	assert_true(ws_read_arena_name("warpsight-1-4294967295-0123456789abcdef-7-65", &name));
	assert_true(name.sealed && name.fd == 7 && name.filters == 65);
	ws_write_arena_link(&name, link, target);
	assert_string_equal(link, "/proc/4294967295/fd/7");
	assert_string_equal(target, "/memfd:warpsight-0123456789abcdef (deleted)");
}

/*
 * Both sides of one load, on the one mapping that the runtime made when this image started with
 * WARPSIGHT_SESSION set.
 */
static int one_load(const char *path)
{
	struct ws_area area = {.arena = ws_rt->arena};
	struct ws_clock clock;
	struct ws_err err = {""};
	struct ws_writer *writer;
	struct ws_drain *drain;
	struct ws_drain_ops ops = {.sink_for = sink_for};
	pthread_t threads[64];
	uint64_t rows, lost;
	struct ws_report *report;

	area.fd = open_arena(getenv(WS_ENV_SESSION));
	if (!area.arena || area.fd < 0)
		return 10;
	ws_area_adopt(&area);
	ws_clock_init(&clock, area.arena->clock_mode);
	writer = ws_writer_create(path, &(struct ws_writer_opts){.overwrite = true}, &err);
	if (!writer)
		return 11;
	the_sink = ws_sink_new(ws_strdup(path), writer, &clock);
	drain = ws_drain_new(&area, &clock, &ops);
	running = load.threads;
	for (int i = 0; i < load.threads; i++)
		pthread_create(&threads[i], NULL, write_records, (void *)(uintptr_t)i);
	while (atomic_load(&running)) {
		ws_drain_round(drain);
		ws_area_feed(&area);
		usleep(load.lossless ? 100 : 2000);
	}
	for (int i = 0; i < load.threads; i++)
		pthread_join(threads[i], NULL);
	ws_drain_round(drain);
	ws_drain_finish(drain);
	ws_clock_free(&clock);
	if (ws_sink_close(the_sink, &err))
		return 12;
	report = ws_report_open(path, &err);
	if (!report)
		return 13;
	rows = ws_report_count_rows(report, WS_TABLE_nvtx);
	ws_report_close(report);
	lost = lost_in(path);
	printf("# %d threads: %llu recorded, %llu lost\n", load.threads, (unsigned long long)rows,
	       (unsigned long long)lost);
	if (rows + lost != (uint64_t)load.threads * load.each)
		return 14;
	return load.lossless && lost ? 15 : 0;
}

static const char *self;

static void run_load(struct load load)
{
	char path[] = "/tmp/ws-ring-XXXXXX", threads[16], each[16];
	int fd = mkstemp(path), status;
	struct ws_area area;
	struct ws_err err = {""};
	pid_t pid;

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ws_area_create(&area, load.budget, (uid_t)-1, &err), 0);
	area.arena->lossless = load.lossless;
	area.arena->ticks_per_second = 1000000000;
	area.arena->features = WS_FEATURE_NVTX;
	area.arena->clock_mode = ws_clock_choose();
	atomic_store(&area.arena->collecting, 1);
	snprintf(threads, sizeof(threads), "%d", load.threads);
	snprintf(each, sizeof(each), "%u", load.each);
	pid = fork();
	if (!pid) {
		setenv(WS_ENV_SESSION, area.path, 1);
		execl(self, self, "load", path, threads, each, load.lossless ? "1" : "0",
		      (char *)NULL);
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	ws_area_destroy(&area);
	unlink(path);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_ring_plenty(void **state)
{
	(void)state;
	run_load((struct load){.threads = 4, .each = 50000, .budget = 64 << 20});
}

static void test_ring_short_of_memory(void **state)
{
	(void)state;
	run_load((struct load){.threads = 8, .each = 50000, .budget = 1 << 20});
}

static void test_ring_lossless(void **state)
{
	(void)state;
	run_load((struct load){.threads = 4, .each = 50000, .budget = 1 << 20, .lossless = true});
}

/* ---- homes ---- */

static uint32_t some_process(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* none is left by a test that fails */
		for (;;)
			pause();
	}
	return (uint32_t)pid;
}

static void end_process(uint32_t pid)
{
	kill((pid_t)pid, SIGKILL);
	assert_int_equal(waitpid((pid_t)pid, NULL, 0), (pid_t)pid);
}

/* What a hook does to make its process known. */
static void register_home(struct ws_arena *arena, uint32_t chunk, uint32_t pid, uint32_t parent,
			  uint64_t parent_start)
{
	struct ws_process_home *home = ws_chunk_at(arena, chunk);

	memset((char *)home + sizeof(home->chunk), 0, sizeof(*home) - sizeof(home->chunk));
	home->chunk.kind = WS_CHUNK_PROCESS;
	home->pid = pid;
	home->ppid = (uint32_t)getpid();
	home->origin = parent ? WS_ORIGIN_FORK : WS_ORIGIN_EXEC;
	home->parent_home = parent;
	home->parent_start = parent_start;
	home->pid_ns = arena->recorder_pid_ns;
	home->start = arena->clock_mode == WS_CLOCK_COUNTER ? ws_read_counter() : ws_read_raw_ns();
	atomic_store(&home->string_pos, (uint64_t)chunk << 32 | sizeof(*home));
	atomic_store(&home->ready, 1);
	home->slot = (uint32_t)ws_add_to_directory(arena, chunk);
}

/* A recorder of its own for a test of processes, and the report that it writes. */
struct proc_case {
	char path[32];
	struct ws_area area;
	struct ws_clock clock;
	struct ws_drain *drain;
};

static void begin_proc_case(struct proc_case *test)
{
	struct ws_drain_ops ops = {.sink_for = sink_for};
	struct ws_err err = {""};
	int fd;

	strcpy(test->path, "/tmp/ws-home-XXXXXX");
	fd = mkstemp(test->path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ws_area_create(&test->area, 8 << 20, (uid_t)-1, &err), 0);
	test->area.arena->clock_mode = ws_clock_choose();
	ws_clock_init(&test->clock, test->area.arena->clock_mode);
	the_sink = ws_sink_new(ws_strdup(test->path),
			       ws_writer_create(test->path,
						&(struct ws_writer_opts){.overwrite = true}, &err),
			       &test->clock);
	test->drain = ws_drain_new(&test->area, &test->clock, &ops);
}

static void end_proc_case(struct proc_case *test)
{
	struct ws_err err = {""};

	ws_drain_finish(test->drain);
	assert_int_equal(ws_sink_close(the_sink, &err), 0);
	ws_clock_free(&test->clock);
	ws_area_destroy(&test->area);
	unlink(test->path);
}

/*
 * A child makes itself known when its parent has ended and is settled. The parent's memory, given
 * back, says what it said; believed, it would be given back twice, and two would take it.
 */
static void test_child_of_a_settled_parent(void **state)
{
	struct proc_case test;
	struct ws_arena *arena;
	uint32_t parent = some_process(), child = some_process(), homes[2], taken[3];
	uint64_t start;

	(void)state;
	begin_proc_case(&test);
	arena = test.area.arena;
	homes[0] = ws_take_chunk(arena, UINT32_MAX);
	homes[1] = ws_take_chunk(arena, UINT32_MAX); /* before the parent's is given back */
	register_home(arena, homes[0], parent, 0, 0);
	start = ((struct ws_process_home *)ws_chunk_at(arena, homes[0]))->start;
	ws_drain_round(test.drain);
	assert_int_equal(ws_drain_registered(test.drain), 1);
	end_process(parent);
	ws_drain_round(test.drain);
	assert_int_equal(ws_drain_alive(test.drain), 0);
	register_home(arena, homes[1], child, homes[0], start);
	ws_drain_round(test.drain);
	ws_drain_round(test.drain);
	assert_int_equal(ws_drain_registered(test.drain), 2);
	assert_int_equal(ws_drain_alive(test.drain), 1);
	for (int i = 0; i < 3; i++) {
		taken[i] = ws_take_chunk(arena, UINT32_MAX);
		assert_true(taken[i] >= arena->chunk_first && taken[i] != homes[1]);
		for (int k = 0; k < i; k++)
			assert_true(taken[i] != taken[k]);
	}
	end_process(child);
	end_proc_case(&test);
}

/*
 * Two images of one pid, the later met first, and then the note about its start: it has answered,
 * and is not waited for.
 */
static void test_note_about_a_known_image(void **state)
{
	struct proc_case test;
	uint32_t pid = some_process(), homes[2];
	struct ws_process_home *first;
	uint64_t between;

	(void)state;
	begin_proc_case(&test);
	for (int i = 0; i < 2; i++)
		homes[i] = ws_take_chunk(test.area.arena, UINT32_MAX);
	register_home(test.area.arena, homes[0], pid, 0, 0);
	first = ws_chunk_at(test.area.arena, homes[0]);
	atomic_store(&test.area.arena->directory[first->slot], 0); /* not to be met yet */
	between = ws_clock_read(&test.clock).raw;
	register_home(test.area.arena, homes[1], pid, 0, 0);
	ws_drain_round(test.drain);
	assert_int_equal(ws_drain_registered(test.drain), 1);
	first->slot = (uint32_t)ws_add_to_directory(test.area.arena, homes[0]);
	ws_drain_process(test.drain, homes[0]);
	ws_drain_note_started(test.drain, test.drain->procs,
			      (struct ws_started){.pid = (int)pid,
						  .time = between,
						  .path = ws_strdup("/bin/true")});
	assert_int_equal(test.drain->started_n, 0);
	end_process(pid);
	end_proc_case(&test);
}

static void note_old_start(struct proc_case *test, const struct ws_proc *by, uint32_t pid)
{
	struct ws_reading now = ws_clock_read(&test->clock);

	ws_drain_note_started(test->drain, by,
			      (struct ws_started){.pid = (int)pid,
						  .time = now.raw - 5000000000u,
						  .path = ws_strdup("/bin/sh")});
}

/* "Its hooks never answered" is said of a process that is there and could have answered: not of one
 * that has ended meanwhile, nor of one that was never let run. */
static void test_who_never_answered(void **state)
{
	struct proc_case test;
	uint32_t by = some_process(), waiting = some_process(), ended = some_process(),
		 stopped = some_process(), home;

	(void)state;
	begin_proc_case(&test);
	home = ws_take_chunk(test.area.arena, UINT32_MAX);
	register_home(test.area.arena, home, by, 0, 0);
	ws_drain_round(test.drain);
	end_process(ended);
	kill((pid_t)stopped, SIGSTOP);
	waitpid((pid_t)stopped, NULL, WUNTRACED);
	note_old_start(&test, test.drain->procs, ended);
	note_old_start(&test, test.drain->procs, stopped);
	ws_drain_check_started(test.drain, false);
	assert_int_equal(the_sink->warning_count, 0);
	note_old_start(&test, test.drain->procs, waiting);
	for (int i = 0; i < 1000 && !the_sink->warning_count; i++) { /* until it waits, indeed */
		usleep(10000);
		ws_drain_check_started(test.drain, false);
	}
	assert_int_equal(the_sink->warning_count, 1);
	end_process(by);
	end_process(waiting);
	end_process(stopped);
	end_proc_case(&test);
}

/* ---- whether a core is free ---- */

static bool is_full_with(const char *loads, long cores)
{
	struct ws_crowd crowd = {.cores = cores, .fd = memfd_create("loadavg", 0)};
	bool is_full;

	assert_int_equal(write(crowd.fd, loads, strlen(loads)), strlen(loads));
	is_full = ws_crowd_is_full(&crowd);
	ws_crowd_end(&crowd);
	return is_full;
}

static void test_crowd(void **state)
{
	struct ws_crowd crowd;

	(void)state;
	assert_false(is_full_with("0.00 0.01 0.05 2/152 4711\n", 2));
	assert_true(is_full_with("0.00 0.01 0.05 3/152 4711\n", 2));
	assert_false(is_full_with("9.00 9.01 9.05 12/1520 4711\n", 16));
	assert_true(is_full_with("9.00 9.01 9.05 17/1520 4711\n", 16));
	assert_false(is_full_with("", 1));
	assert_false(is_full_with("no numbers", 1));
	assert_false(is_full_with("17/1520", 1));
	ws_crowd_begin(&crowd);
	crowd.cores = 1 << 20;
	assert_false(ws_crowd_is_full(&crowd));
	ws_crowd_end(&crowd);
	assert_false(ws_crowd_is_full(&crowd)); /* it is not known */
}

/* What a hook does to make a thread of its process known. */
static struct ws_ring *register_ring(struct ws_arena *arena, uint32_t home, uint32_t tid)
{
	uint32_t chunk = ws_take_chunk(arena, UINT32_MAX);
	struct ws_ring *ring = ws_chunk_at(arena, chunk);

	memset((char *)ring + sizeof(ring->chunk), 0, sizeof(*ring) - sizeof(ring->chunk));
	ring->chunk.kind = WS_CHUNK_RING;
	atomic_store(&ring->chunk.used, WS_RING_DATA);
	ring->process_home = home;
	ring->pid = ring->tid = tid;
	ring->start = ((struct ws_process_home *)ws_chunk_at(arena, home))->start;
	ring->slot = (uint32_t)ws_add_to_directory(arena, chunk);
	return ring;
}

/* A thread calls a library without pause while one bunch of calls follows another. */
static void test_storm(void **state)
{
	const uint64_t ms = 1000000, begin = ws_read_raw_ns();
	struct ws_library_bunch *bunch;
	struct proc_case test;
	uint32_t pid = some_process(), home;

	(void)state;
	begin_proc_case(&test);
	home = ws_take_chunk(test.area.arena, UINT32_MAX);
	register_home(test.area.arena, home, pid, 0, 0);
	bunch = &register_ring(test.area.arena, home, pid)->bunch;
	ws_drain_round(test.drain);
	bunch->start = 1;
	assert_false(ws_drain_look_for_storms(test.drain, begin));
	bunch->dense = 1;
	bunch->start = 2;
	assert_true(ws_drain_look_for_storms(test.drain, begin));
	assert_true(ws_drain_look_for_storms(test.drain, begin + 4 * ms));
	assert_false(ws_drain_look_for_storms(test.drain, begin + 40 * ms)); /* it rests */
	bunch->start = 3;
	assert_true(ws_drain_look_for_storms(test.drain, begin + 41 * ms));
	bunch->dense = 0;
	assert_false(ws_drain_look_for_storms(test.drain, begin + 42 * ms));
	end_process(pid);
	end_proc_case(&test);
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "load")) {
		load = (struct load){.threads = atoi(argv[3]),
				     .each = (uint32_t)atoi(argv[4]),
				     .lossless = argv[5][0] == '1'};
		return one_load(argv[2]);
	}
	self = argv[0];
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_clock_many),
		cmocka_unit_test(test_arena_names),
		cmocka_unit_test(test_ring_plenty),
		cmocka_unit_test(test_ring_short_of_memory),
		cmocka_unit_test(test_ring_lossless),
		cmocka_unit_test(test_child_of_a_settled_parent),
		cmocka_unit_test(test_note_about_a_known_image),
		cmocka_unit_test(test_who_never_answered),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
