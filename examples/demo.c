/*
 * demo.c - the program that `make demo` profiles: a little of everything that warpsight records, in
 * numbers that are the same at every run. It takes one to two seconds.
 *
 *   queue    four workers take 400 jobs from a queue guarded by a mutex and a condition; each job
 * is a range with two ranges nested in it, and a start/end range measures how long it was on its
 * way from the producer to the worker's end convoy   four threads want one lock and hold it too
 * long: the contended pthread_mutex_lock calls are what to look for files    a file written, synced
 * and read back in blocks, in a domain of its own ("storage") pipes    a forked child answers 2,000
 * messages through a pair of pipes workers  three forked workers, without exec, that have their own
 * ranges
 *
 * Ranges come through warpsight/annotate.h, so they show under any NVTX tool, and cost nothing when
 * there is none.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "warpsight/annotate.h"

enum {
	JOBS = 400,
	QUEUE_WORKERS = 4,
	CONVOY_THREADS = 4,
	CONVOY_TURNS = 50,
	FILE_BLOCKS = 48,
	BLOCK_BYTES = 256 * 1024,
	MESSAGES = 2000,
	SHARDS = 3,
	SHARD_ITEMS = 40,
};

static ws_domain storage;
static ws_string compute_name;

static void fail_for(const char *what)
{
	fprintf(stderr, "demo: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* A range in the default domain that carries a number and a colour. */
static void push_numbered(const char *text, int number)
{
	ws_event event = ws_event_text(NULL, text);

	event.color = 0xff3070b0;
	event.has_color = 1;
	ws_event_int(&event, number);
	ws_range_push_event(&event);
}

static void storage_push(const char *text)
{
	ws_event event = ws_event_text(storage, text);

	ws_range_push_event(&event);
}

/* Keep the processor busy for about `us` microseconds of its time. */
static void compute_for(unsigned us)
{
	struct timespec time;
	unsigned long begin, now;
	volatile double x = 1;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	begin = (unsigned long)time.tv_sec * 1000000 + (unsigned long)time.tv_nsec / 1000;
	do {
		for (int i = 0; i < 500; i++)
			x = x * 1.0000001 + 1e-9;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
		now = (unsigned long)time.tv_sec * 1000000 + (unsigned long)time.tv_nsec / 1000;
	} while (now - begin < us);
}

/* ---- a queue of jobs ---- */

struct job {
	int number;
	ws_range_id on_its_way;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct job jobs[JOBS];
	int head, tail, done;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

static void run_job(const struct job *job)
{
	push_numbered("job", job->number);
	ws_range_push("parse");
	compute_for(300);
	ws_range_pop();
	ws_range_push_in(NULL, compute_name);
	compute_for(700 + (unsigned)(job->number % 7) * 200);
	ws_range_pop();
	ws_range_pop();
	ws_range_end(job->on_its_way);
}

static void *queue_worker(void *number)
{
	char name[16];

	snprintf(name, sizeof(name), "worker-%ld", (long)number);
	ws_name_thread(name);
	for (;;) {
		struct job job;

		pthread_mutex_lock(&queue.lock);
		while (queue.head == queue.tail && !queue.done)
			pthread_cond_wait(&queue.filled, &queue.lock);
		if (queue.head == queue.tail)
			break;
		job = queue.jobs[queue.head++];
		pthread_mutex_unlock(&queue.lock);
		run_job(&job);
	}
	pthread_mutex_unlock(&queue.lock);
	return NULL;
}

static void run_queue(void)
{
	pthread_t thread[QUEUE_WORKERS];

	ws_range_push("phase: queue");
	for (long i = 0; i < QUEUE_WORKERS; i++)
		if (pthread_create(&thread[i], NULL, queue_worker, (void *)i))
			fail_for("pthread_create");
	for (int i = 0; i < JOBS; i++) {
		pthread_mutex_lock(&queue.lock);
		queue.jobs[queue.tail++] =
			(struct job){.number = i, .on_its_way = ws_range_start("request")};
		pthread_cond_signal(&queue.filled);
		pthread_mutex_unlock(&queue.lock);
		usleep(1000);
	}
	pthread_mutex_lock(&queue.lock);
	queue.done = 1;
	pthread_cond_broadcast(&queue.filled);
	pthread_mutex_unlock(&queue.lock);
	for (int i = 0; i < QUEUE_WORKERS; i++)
		pthread_join(thread[i], NULL);
	ws_range_pop();
	ws_mark("queue drained");
}

/* ---- a lock convoy ---- */

static pthread_mutex_t convoy_lock = PTHREAD_MUTEX_INITIALIZER;

static void *convoy_thread(void *number)
{
	char name[16];

	snprintf(name, sizeof(name), "convoy-%ld", (long)number);
	ws_name_thread(name);
	for (int i = 0; i < CONVOY_TURNS; i++) {
		ws_range_push("turn");
		pthread_mutex_lock(&convoy_lock);
		ws_range_push("holding the lock");
		usleep(1500); /* too long for a lock that everyone wants */
		ws_range_pop();
		pthread_mutex_unlock(&convoy_lock);
		compute_for(200);
		ws_range_pop();
	}
	return NULL;
}

static void run_convoy(void)
{
	pthread_t thread[CONVOY_THREADS];

	ws_range_push("phase: convoy");
	for (long i = 0; i < CONVOY_THREADS; i++)
		if (pthread_create(&thread[i], NULL, convoy_thread, (void *)i))
			fail_for("pthread_create");
	for (int i = 0; i < CONVOY_THREADS; i++)
		pthread_join(thread[i], NULL);
	ws_range_pop();
}

/* ---- file input and output ---- */

static void run_files(void)
{
	const char *folder = getenv("TMPDIR");
	char path[4096], *block = calloc(1, BLOCK_BYTES);
	int fd;

	snprintf(path, sizeof(path), "%s/warpsight-demo-XXXXXX",
		 folder && *folder ? folder : "/tmp");
	fd = mkstemp(path);
	if (!block || fd < 0)
		fail_for(path);
	unlink(path);
	ws_range_push("phase: files");
	storage_push("write");
	for (int i = 0; i < FILE_BLOCKS; i++) {
		storage_push("write block");
		if (write(fd, block, BLOCK_BYTES) != BLOCK_BYTES)
			fail_for("write");
		ws_range_pop_in(storage);
	}
	storage_push("sync");
	if (fdatasync(fd))
		fail_for("fdatasync");
	ws_range_pop_in(storage);
	ws_range_pop_in(storage);
	storage_push("read back");
	for (int i = 0; i < FILE_BLOCKS; i++)
		if (pread(fd, block, BLOCK_BYTES, (off_t)i * BLOCK_BYTES) != BLOCK_BYTES)
			fail_for("pread");
	ws_range_pop_in(storage);
	ws_range_pop();
	close(fd);
	free(block);
}

/* ---- pipes and forked children ---- */

static void wait_child(void)
{
	int status;

	if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
		fail_for("a child");
}

static void answer_request(int in, int out)
{
	char letter;

	while (read(in, &letter, 1) == 1)
		if (write(out, &letter, 1) != 1)
			_exit(1);
	_exit(0);
}

static void run_pipes(void)
{
	int to[2], from[2];
	char letter = 'x';
	pid_t pid;

	if (pipe(to) || pipe(from))
		fail_for("pipe");
	pid = fork();
	if (pid < 0)
		fail_for("fork");
	if (pid == 0) {
		close(to[1]);
		close(from[0]);
		answer_request(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	ws_range_push("phase: pipes");
	for (int i = 0; i < MESSAGES; i++)
		if (write(to[1], &letter, 1) != 1 || read(from[0], &letter, 1) != 1)
			fail_for("pipe");
	ws_range_pop();
	close(to[1]);
	close(from[0]);
	wait_child();
}

static void run_shard(int number)
{
	push_numbered("shard", number);
	for (int i = 0; i < SHARD_ITEMS; i++) {
		ws_range_push("item");
		compute_for(1500);
		if (i % 10 == 9)
			usleep(5000);
		ws_range_pop();
	}
	ws_range_pop();
	_exit(0); /* as many workers end; nothing recorded may depend on exit handlers */
}

static void run_workers(void)
{
	ws_range_push("phase: workers");
	for (int i = 0; i < SHARDS; i++) {
		pid_t pid = fork();

		if (pid < 0)
			fail_for("fork");
		if (pid == 0)
			run_shard(i);
	}
	for (int i = 0; i < SHARDS; i++)
		wait_child();
	ws_range_pop();
}

int main(void)
{
	storage = ws_domain_create("storage");
	compute_name = ws_string_register(NULL, "compute");
	ws_name_thread("main");
	run_queue();
	run_convoy();
	run_files();
	run_pipes();
	run_workers();
	printf("demo: %d jobs, %d turns at the lock, %d blocks, %d messages, %d shards of %d "
	       "items\n",
	       JOBS, CONVOY_THREADS * CONVOY_TURNS, FILE_BLOCKS, MESSAGES, SHARDS, SHARD_ITEMS);
	return 0;
}
