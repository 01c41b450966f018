/*
 * replay.c - a stand-in for the kernel's buffers: replay REPORT writes the records that it is told
 * on stdin into rings as the kernel would, and has the recorder make a report of them. So what
 * machines with hardware counters do, and what busy ones do, is tested on any.
 *
 * A line is one record; times are nanoseconds, and records of a core come in their order:
 *
 *   event clock|cycles [FREQUENCY]         what paces the samples: once, first
 *   begin TIME | end TIME                  of the collection
 *   exec PID TIME CPU NAME                 fork PID TID PARENT-PID PARENT-TID TIME CPU
 *   map PID TID TIME CPU ADDRESS LENGTH PATH
 *   in PID TID TIME CPU                    out PID TID TIME CPU [preempted]
 *   sample PID TID TIME CPU IP PERIOD      exit PID TID TIME CPU
 *   lost TIME CPU RECORDS                  throttle TIME CPU
 *   held TID TIME PERIOD                   a sample that the thread took of itself
 *   registered PID TIME EXE                its hooks say so; the recorder reads it at once
 *   slow PID                               it has not had the processor, if anyone asks
 *   dead TID                               it exists no more, if anyone asks
 *   pause TIME | resume TIME               switches are not recorded, and are again
 *   sparse TIME CPU | dense TIME CPU       fewer samples are taken there, and all again
 *   round TIME                             the recorder reads what is older
 */
#include "perf_case.h"
#include "record/code.h"

#define CPUS 4
#define RING (8u << 20)
#define EVENT 77u /* the kernel's id of the event */

static struct ws_perf_ring rings[CPUS];
static struct ws_perf perf;
static struct ws_drain drain;
static struct ws_area area;

static void put_record(uint32_t cpu, const struct bytes *rec)
{
	struct ws_perf_ring *ring = &rings[cpu % CPUS];

	if (ring->page->data_head + rec->n - ring->page->data_tail > ring->bytes)
		exit(3);
	for (size_t i = 0; i < rec->n; i++)
		((char *)(uintptr_t)ring->data)[(ring->page->data_head + i) & (ring->bytes - 1)] =
			rec->b[i];
	ring->page->data_head += rec->n;
}

static void put_text(struct bytes *bytes, const char *text)
{
	char padded[256] = "";
	size_t n = strlen(text) + 1;

	memcpy(padded, text, n < sizeof(padded) ? n : sizeof(padded) - 1);
	put(bytes, padded, WS_ALIGN_UP(n, 8u));
}

/* ---- one record each ---- */

static void replay_exec(const char *a)
{
	unsigned long pid, time, cpu;
	char name[64];
	struct bytes bytes;

	if (sscanf(a, "%lu %lu %lu %63s", &pid, &time, &cpu, name) != 4)
		exit(2);
	begin(&bytes, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	put32(&bytes, (uint32_t)pid, (uint32_t)pid);
	put_text(&bytes, name);
	sample_id(&bytes, (uint32_t)pid, (uint32_t)pid, time, (uint32_t)cpu, EVENT);
	put_record((uint32_t)cpu, &bytes);
}

static void replay_fork(const char *a)
{
	unsigned long pid, tid, ppid, ptid, time, cpu;
	struct bytes bytes;

	if (sscanf(a, "%lu %lu %lu %lu %lu %lu", &pid, &tid, &ppid, &ptid, &time, &cpu) != 6)
		exit(2);
	begin(&bytes, PERF_RECORD_FORK, 0);
	put32(&bytes, (uint32_t)pid, (uint32_t)ppid);
	put32(&bytes, (uint32_t)tid, (uint32_t)ptid);
	put64(&bytes, time);
	sample_id(&bytes, (uint32_t)ppid, (uint32_t)ptid, time, (uint32_t)cpu, EVENT);
	put_record((uint32_t)cpu, &bytes);
}

static void replay_exit(const char *a)
{
	unsigned long pid, tid, time, cpu;
	struct bytes bytes;

	if (sscanf(a, "%lu %lu %lu %lu", &pid, &tid, &time, &cpu) != 4)
		exit(2);
	begin(&bytes, PERF_RECORD_EXIT, 0);
	put32(&bytes, (uint32_t)pid, 1);
	put32(&bytes, (uint32_t)tid, 1);
	put64(&bytes, time);
	sample_id(&bytes, (uint32_t)pid, (uint32_t)tid, time, (uint32_t)cpu, EVENT);
	put_record((uint32_t)cpu, &bytes);
}

static void replay_map(const char *a)
{
	unsigned long pid, tid, time, cpu, at, length;
	char path[128];
	struct bytes bytes;

	if (sscanf(a, "%lu %lu %lu %lu %lx %lx %127s", &pid, &tid, &time, &cpu, &at, &length,
		   path) != 7)
		exit(2);
	begin(&bytes, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	put32(&bytes, (uint32_t)pid, (uint32_t)tid);
	put64(&bytes, at);
	put64(&bytes, length);
	put64(&bytes, 0);
	put32(&bytes, 8, 1);
	put64(&bytes, at);
	put64(&bytes, 0);
	put32(&bytes, 5, 2);
	put_text(&bytes, path);
	sample_id(&bytes, (uint32_t)pid, (uint32_t)tid, time, (uint32_t)cpu, EVENT);
	put_record((uint32_t)cpu, &bytes);
}

static void replay_switch(const char *a, uint16_t misc)
{
	unsigned long pid, tid, time, cpu;
	char word[16] = "";
	struct bytes bytes;

	if (sscanf(a, "%lu %lu %lu %lu %15s", &pid, &tid, &time, &cpu, word) < 4)
		exit(2);
	if (!strcmp(word, "preempted"))
		misc |= PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
	begin(&bytes, PERF_RECORD_SWITCH, misc);
	sample_id(&bytes, (uint32_t)pid, (uint32_t)tid, time, (uint32_t)cpu, EVENT);
	put_record((uint32_t)cpu, &bytes);
}

static void replay_in(const char *a)
{
	replay_switch(a, 0);
}

static void replay_out(const char *a)
{
	replay_switch(a, PERF_RECORD_MISC_SWITCH_OUT);
}

static void replay_sample(const char *a)
{
	unsigned long pid, tid, time, cpu, ip, period;
	struct bytes bytes;

	if (sscanf(a, "%lu %lu %lu %lu %lx %lu", &pid, &tid, &time, &cpu, &ip, &period) != 6)
		exit(2);
	begin(&bytes, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	put64(&bytes, EVENT);
	put64(&bytes, ip);
	put32(&bytes, (uint32_t)pid, (uint32_t)tid);
	put64(&bytes, time);
	put32(&bytes, (uint32_t)cpu, 0);
	put64(&bytes, period);
	finish(&bytes);
	put_record((uint32_t)cpu, &bytes);
}

static void replay_lost(const char *a)
{
	unsigned long time, cpu, n;
	struct bytes bytes;

	if (sscanf(a, "%lu %lu %lu", &time, &cpu, &n) != 3)
		exit(2);
	begin(&bytes, PERF_RECORD_LOST, 0);
	put64(&bytes, EVENT);
	put64(&bytes, n);
	sample_id(&bytes, 0, 0, time, (uint32_t)cpu, EVENT);
	put_record((uint32_t)cpu, &bytes);
}

static void replay_throttle(const char *a)
{
	unsigned long time, cpu;
	struct bytes bytes;

	if (sscanf(a, "%lu %lu", &time, &cpu) != 2)
		exit(2);
	begin(&bytes, PERF_RECORD_THROTTLE, 0);
	put64(&bytes, time);
	put64(&bytes, EVENT);
	put64(&bytes, EVENT);
	sample_id(&bytes, 0, 0, time, (uint32_t)cpu, EVENT);
	put_record((uint32_t)cpu, &bytes);
}

static void replay_held(const char *a)
{
	unsigned long tid, time, period;
	struct ws_row_sample row = {.state = WS_STATE_RUNNING,
				    .event = 1000000,
				    .flags = WS_SAMPLE_CLOCK | WS_SAMPLE_SIGNAL};
	const struct ws_perf_thread *thread;

	if (sscanf(a, "%lu %lu %lu", &tid, &time, &period) != 3)
		exit(2);
	thread = (void *)(uintptr_t)ws_map_get(&perf.threads, tid, NULL);
	if (!thread)
		exit(4);
	row.start = time;
	row.thread = thread->id;
	row.weight = row.time = period;
	if (!ws_perf_hold_sample(&perf, (uint32_t)tid, perf.main, &row))
		exit(5);
}

static uint32_t dead[64];
static size_t dead_n;

static void replay_dead(const char *a)
{
	if (dead_n == WS_COUNT(dead))
		exit(2);
	dead[dead_n++] = (uint32_t)strtoul(a, NULL, 10);
}

static bool is_dead(uint32_t pid, uint32_t tid)
{
	(void)pid;
	for (size_t i = 0; i < dead_n; i++)
		if (dead[i] == tid)
			return true;
	return false;
}

static uint32_t slow[64];
static size_t slow_n;

static void replay_slow(const char *a)
{
	if (slow_n == WS_COUNT(slow))
		exit(2);
	slow[slow_n++] = (uint32_t)strtoul(a, NULL, 10);
}

static bool had_time(uint32_t pid)
{
	for (size_t i = 0; i < slow_n; i++)
		if (slow[i] == pid)
			return false;
	return true;
}

/* As drain.c and proc.c do it with what they find in the arena. Ticks are nanoseconds here. */
static void replay_registered(const char *a)
{
	struct ws_proc *process = ws_calloc(1, sizeof(*process));
	struct ws_row_process row = {.origin = WS_ORIGIN_EXEC};
	unsigned long pid, time;
	char exe[64];

	if (sscanf(a, "%lu %lu %63s", &pid, &time, exe) != 3)
		exit(2);
	process->drain = &drain;
	process->sink = perf.main;
	process->pid = (uint32_t)pid;
	process->host_pid = (int)pid;
	process->start_ticks = time;
	process->exe = ws_strdup(exe);
	process->id = ws_perf_adopt(&perf, process);
	process->next = drain.procs;
	drain.procs = process;
	if (process->id)
		return;
	row.id = process->id = ++perf.main->processes;
	row.pid = row.ppid = (uint32_t)pid;
	row.start = time;
	row.exe = row.cmdline = row.name = ws_sink_string(perf.main, exe);
	ws_writer_add(perf.main->writer, WS_TABLE_process, &row);
}

static void free_processes(void)
{
	while (drain.procs) {
		struct ws_proc *process = drain.procs;

		drain.procs = process->next;
		process->held = false;
		ws_proc_free(process);
	}
}

/* ---- the recorder ---- */

/* The event in the state in which perf.c leaves it behind. */
static void replay_event(const char *a)
{
	char word[16] = "";
	unsigned frequency = 1000;
	struct ws_perf_event *ev;

	if (sscanf(a, "%15s %u", word, &frequency) < 1)
		exit(2);
	ws_grow(perf.set.events, perf.set.events_cap, 1);
	ev = perf.set.events;
	perf.set.events_n = 1;
	*ev = (struct ws_perf_event){.role = WS_PERF_SAMPLE, .row = 1, .time = true};
	ev->clock = !strcmp(word, "clock");
	ws_perf_attr(&ev->attr, ev->clock ? PERF_TYPE_SOFTWARE : PERF_TYPE_HARDWARE,
		     PERF_COUNT_SW_CPU_CLOCK, false);
	ev->attr.freq = 1;
	ev->attr.sample_freq = perf.options.frequency = perf.wanted_frequency = frequency;
	strcpy(ev->name, ev->clock ? "cpu-clock" : "cpu-cycles");
	perf.timer_row = 1;
	perf.timer_is_clock = ev->clock;
	perf.timer_ns = 1000000000u / frequency;
	ws_map_set(&perf.set.by_id, EVENT, 1);
}

static void replay_begin(const char *a)
{
	ws_perf_begin(&perf, strtoull(a, NULL, 10));
}

static void replay_end(const char *a)
{
	ws_perf_finish(&perf, strtoull(a, NULL, 10));
}

static void replay_pause(const char *a)
{
	ws_perf_pause_switches(&perf, strtoull(a, NULL, 10));
}

static void replay_sparse(const char *a)
{
	char *end;
	uint64_t time = strtoull(a, &end, 10);
	struct ws_perf_ring *ring = &rings[strtoul(end, NULL, 10) % CPUS];

	ws_perf_begin_span(&ring->sparse, time);
	ring->sparse_until = UINT64_MAX; /* rounds leave it alone */
}

static void replay_dense(const char *a)
{
	char *end;
	uint64_t time = strtoull(a, &end, 10);
	struct ws_perf_ring *ring = &rings[strtoul(end, NULL, 10) % CPUS];

	ws_perf_end_span(&ring->sparse, time);
	ring->sparse_until = 0;
}

static void replay_resume(const char *a)
{
	ws_perf_resume_switches(&perf, strtoull(a, NULL, 10));
}

static void replay_round(const char *a)
{
	ws_perf_round(&perf, strtoull(a, NULL, 10) + 2000000);
}

static void replay_line(const char *line)
{
	static const struct {
		const char *word;
		void (*replay)(const char *a);
	} records[] = {{"event", replay_event},	  {"begin", replay_begin},
		       {"end", replay_end},	  {"exec", replay_exec},
		       {"fork", replay_fork},	  {"exit", replay_exit},
		       {"map", replay_map},	  {"in", replay_in},
		       {"out", replay_out},	  {"sample", replay_sample},
		       {"lost", replay_lost},	  {"throttle", replay_throttle},
		       {"held", replay_held},	  {"dead", replay_dead},
		       {"round", replay_round},	  {"registered", replay_registered},
		       {"slow", replay_slow},	  {"pause", replay_pause},
		       {"resume", replay_resume}, {"sparse", replay_sparse},
		       {"dense", replay_dense}};
	size_t n = strcspn(line, " \n");

	for (size_t i = 0; i < WS_COUNT(records); i++)
		if (strlen(records[i].word) == n && !strncmp(records[i].word, line, n)) {
			records[i].replay(line + n);
			return;
		}
	fprintf(stderr, "replay: what is this? %s", line);
	exit(2);
}

static void make_rings(void)
{
	for (size_t i = 0; i < CPUS; i++) {
		rings[i].cpu = (uint32_t)i;
		rings[i].page = ws_calloc(1, sizeof(*rings[i].page));
		rings[i].bytes = RING;
		rings[i].data = ws_malloc(RING);
	}
	perf.set.rings = rings;
	perf.set.rings_n = CPUS;
	perf.set.heap = ws_calloc(CPUS, sizeof(*perf.set.heap));
	perf.set.scratch = ws_malloc(WS_PERF_MOST + 1);
	perf.set.ring_bytes = RING;
}

static void free_all(void)
{
	ws_perf_tree_free(&perf);
	for (size_t i = 0; i < CPUS; i++) {
		free(rings[i].page);
		free((void *)(uintptr_t)rings[i].data);
		free(rings[i].sparse.span);
	}
	free(perf.set.heap);
	free(perf.set.scratch);
	free(perf.set.events);
	free(perf.held);
	free(perf.gaps);
	free(perf.pauses.span);
	ws_map_free(&perf.set.by_id);
}

int main(int argc, char **argv)
{
	static char line[1024];
	struct ws_writer_opts opts = {.overwrite = true};
	struct ws_clock clock;
	struct ws_err err;
	struct ws_writer *writer = argc == 2 ? ws_writer_create(argv[1], &opts, &err) : NULL;
	int rc;

	if (!writer)
		return 1;
	ws_clock_init(&clock, WS_CLOCK_RAW);
	clock.readings[0].ticks = clock.readings[0].raw = 1; /* every time of a line is between */
	ws_clock_read(&clock);
	perf.main = ws_sink_new(ws_strdup(argv[1]), writer, &clock);
	drain.ops.code = ws_code_new();
	drain.clock = &clock;
	perf.drain = &drain;
	perf.options.sample = perf.options.switches = WS_SCOPE_TREE;
	perf.options.samples_per_backtrace = 1;
	perf.active = true;
	perf.has_ended = is_dead;
	perf.had_time = had_time;
	drain.area = &area;
	perf.target = 4190000; /* beyond what a kernel gives, so that nobody is asked about it */
	make_rings();
	ws_perf_tree_init(&perf);
	((struct ws_perf_thread *)(uintptr_t)ws_map_get(&perf.threads, 4190000, NULL))->start = 1;
	((struct ws_perf_image *)(uintptr_t)ws_map_get(&perf.images, 4190000, NULL))->start = 1;
	while (fgets(line, sizeof(line), stdin))
		replay_line(line);
	ws_code_end(drain.ops.code);
	free_all();
	free_processes();
	rc = ws_sink_close(perf.main, &err);
	ws_code_free(drain.ops.code);
	ws_clock_free(&clock);
	return rc ? 6 : 0;
}
