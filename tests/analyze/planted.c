/*
 * planted.c - programs with one fault each, for the tests of `analyze`: planted NAME.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static volatile double sink;

static void compute(long rounds)
{
	double sum = 0;

	for (long i = 0; i < rounds; i++)
		sum += (double)i * 0.5;
	sink = sum;
}

static void __attribute__((noinline)) update_total(void)
{
	pthread_mutex_lock(&lock);
	compute(1000000);
	pthread_mutex_unlock(&lock);
}

static void *take_turns(void *unused)
{
	for (int i = 0; i < 120; i++)
		update_total();
	return unused;
}

static void *share_unevenly(void *number)
{
	for (int i = 0; i < 10; i++) {
		compute(number ? 500000 : 10000000);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void run_threads(int count, void *(*work)(void *))
{
	pthread_t threads[4];

	for (intptr_t i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void __attribute__((noinline)) touch_pages(void)
{
	const size_t size = 32u << 20;

	for (int i = 0; i < 40; i++) {
		char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				    -1, 0);

		for (size_t at = 0; memory != MAP_FAILED && at < size; at += 4096)
			memory[at] = 1;
		munmap(memory, size);
	}
}

/* Each change of one page's protection is a call. */
static void __attribute__((noinline)) protect_page(char *page, int i)
{
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	page[i % 4096] = 1;
	mprotect(page, 4096, PROT_READ);
}

static void protect_pages(void)
{
	char *memory = mmap(NULL, 1u << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; memory != MAP_FAILED && i < 60000; i++)
		protect_page(memory + (size_t)i % 256 * 4096, i);
}

/* Asks for what never comes, each time for a while. */
static void __attribute__((noinline)) ask_descriptor(void)
{
	int ends[2];
	struct pollfd asked = {.events = POLLIN};

	if (pipe(ends))
		abort();
	asked.fd = ends[0];
	for (int i = 0; i < 20; i++)
		poll(&asked, 1, 20);
	close(ends[0]);
	close(ends[1]);
}

/* Where most of the time goes into the page tables of a large process. */
static void __attribute__((noinline)) copy_process(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static void copy_large_process(void)
{
	const size_t size = 256u << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	madvise(memory, size, MADV_NOHUGEPAGE);
	memset(memory, 1, size);
	for (int i = 0; i < 60; i++)
		copy_process();
}

static void __attribute__((noinline)) wait_a_while(void)
{
	struct timespec pause = {0, 10000000};

	for (int i = 0; i < 30; i++) {
		compute(100000);
		nanosleep(&pause, NULL);
	}
}

static pthread_spinlock_t spin;

static void __attribute__((noinline)) hold_spinlock(void)
{
	pthread_spin_lock(&spin);
	compute(20000);
	pthread_spin_unlock(&spin);
}

static void *spin_for_turns(void *unused)
{
	for (int i = 0; i < 5000; i++)
		hold_spinlock();
	return unused;
}

static void spin_threads(void)
{
	pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
	run_threads(4, spin_for_turns);
}

static void __attribute__((noinline)) put_byte(int file, char byte)
{
	if (write(file, &byte, 1) < 0)
		abort();
}

static void write_bytes(void)
{
	int file = open("bytes.out", O_CREAT | O_WRONLY | O_TRUNC, 0600);

	for (int i = 0; i < 300000; i++)
		put_byte(file, (char)i);
	close(file);
	unlink("bytes.out");
}

/* In large pieces, which is as it should be. */
static void write_blocks(void)
{
	const size_t size = 1 << 20;
	char *block = calloc(1, size);
	int file = open("blocks.out", O_CREAT | O_WRONLY | O_TRUNC, 0600);

	for (int i = 0; i < 100; i++)
		if (pwrite(file, block, size, (i & 3) * (off_t)size) < 0)
			abort();
	close(file);
	unlink("blocks.out");
	free(block);
}

static void __attribute__((noinline)) look_at_file(void)
{
	struct stat status;

	stat("/etc/passwd", &status);
}

static void look_at_files(void)
{
	for (int i = 0; i < 300000; i++)
		look_at_file();
}

static void __attribute__((noinline)) append_line(void)
{
	FILE *file = fopen("lines.out", "a");

	fputs("a line\n", file);
	fclose(file);
}

static void append_lines(void)
{
	for (int i = 0; i < 30000; i++)
		append_line();
	unlink("lines.out");
}

static void *do_little(void *unused)
{
	compute(2000);
	return unused;
}

static void __attribute__((noinline)) start_threads(void)
{
	for (int i = 0; i < 3000; i++)
		run_threads(2, do_little);
}

static void __attribute__((noinline)) ask_other(int out, int in)
{
	char byte = 0;

	if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
		abort();
}

static void ask_often(void)
{
	int to[2], from[2];
	char byte;

	if (pipe(to) || pipe(from))
		abort();
	if (!fork()) {
		close(to[1]);
		while (read(to[0], &byte, 1) == 1 && write(from[1], &byte, 1) == 1)
			compute(100);
		_exit(0);
	}
	for (int i = 0; i < 15000; i++)
		ask_other(to[1], from[0]);
	close(to[1]);
	wait(NULL);
}

static void *do_own_share(void *number)
{
	compute(number ? 20000000 : 300000000);
	return NULL;
}

static void *do_part(void *unused)
{
	compute(420000000);
	return unused;
}

static void __attribute__((noinline)) combine_parts(void)
{
	compute(500000000);
}

static long served;

static void *count_served(void *unused)
{
	for (int i = 0; i < 25000000; i++)
		__atomic_fetch_add(&served, 1, __ATOMIC_SEQ_CST);
	return unused;
}

static void count_together(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, count_served, NULL))
		_exit(1);
	count_served(NULL);
	pthread_join(thread, NULL);
}

static void *do_turn(void *unused)
{
	compute(150000000);
	return unused;
}

static void *do_short_turn(void *unused)
{
	compute(2000000);
	return unused;
}

static void __attribute__((noinline)) start_and_join(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, do_short_turn, NULL))
		_exit(1);
	pthread_join(thread, NULL);
}

static void do_short_turns(void)
{
	for (int i = 0; i < 300; i++)
		start_and_join();
}

/* One of many pipes is written to; poll asks them all. */
static void __attribute__((noinline)) find_written(struct pollfd *pipes, nfds_t count)
{
	if (poll(pipes, count, -1) < 1)
		_exit(1);
}

static void ask_many_pipes(void)
{
	enum { PIPES = 900, ROUNDS = 20000 };
	static struct pollfd pipes[PIPES];
	static int ends[PIPES][2];
	struct rlimit limit = {2 * PIPES + 100, 2 * PIPES + 100};
	char byte = 0;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		_exit(1);
	for (int i = 0; i < PIPES; i++) {
		if (pipe(ends[i]))
			_exit(1);
		pipes[i] = (struct pollfd){.fd = ends[i][0], .events = POLLIN};
	}
	for (int i = 0; i < ROUNDS; i++) {
		if (write(ends[i % PIPES][1], &byte, 1) != 1)
			_exit(1);
		find_written(pipes, PIPES);
		if (read(ends[i % PIPES][0], &byte, 1) != 1)
			_exit(1);
	}
}

/* Each thread is waited for before the next is started. */
static void do_turns(void)
{
	for (int i = 0; i < 4; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, do_turn, NULL))
			_exit(1);
		pthread_join(thread, NULL);
	}
}

static void do_parts(void)
{
	run_threads(2, do_part);
	combine_parts();
}

static void __attribute__((noinline)) start_process(void)
{
	pid_t child = fork();

	if (!child) {
		compute(1000);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void start_processes(void)
{
	for (int i = 0; i < 300; i++)
		start_process();
}

/* Processes that work side by side are not waited for one by one. They begin together, so that they
 * are side by side on a busy machine as well. */
static void start_workers(void)
{
	int start[2];
	char byte;

	if (pipe(start))
		abort();
	for (int i = 0; i < 12; i++)
		if (!fork()) {
			close(start[1]);
			if (read(start[0], &byte, 1) < 0)
				abort();
			compute(5000000);
			_exit(0);
		}
	close(start[1]);
	while (wait(NULL) > 0)
		;
}

static pthread_cond_t never_signalled = PTHREAD_COND_INITIALIZER;

static void __attribute__((noinline)) wait_for_limit(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 30000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&lock);
	pthread_cond_timedwait(&never_signalled, &lock, &until);
	pthread_mutex_unlock(&lock);
}

static void wait_for_limits(void)
{
	for (int i = 0; i < 12; i++)
		wait_for_limit();
}

static void take_lock_in_turns(void)
{
	run_threads(4, take_turns);
}

static void share_work_unevenly(void)
{
	pthread_barrier_init(&barrier, NULL, 2);
	run_threads(2, share_unevenly);
}

static void do_own_shares(void)
{
	run_threads(4, do_own_share);
}

static void compute_only(void)
{
	compute(200000000);
}

static sem_t turns;

/* A semaphore that is used as a lock. */
static void __attribute__((noinline)) use_in_turns(void)
{
	sem_wait(&turns);
	compute(300000);
	sem_post(&turns);
}

static void *take_semaphore(void *unused)
{
	for (int i = 0; i < 120; i++)
		use_in_turns();
	return unused;
}

static void take_semaphore_in_turns(void)
{
	sem_init(&turns, 0, 1);
	run_threads(4, take_semaphore);
}

static void __attribute__((noinline)) use_file_in_turns(int file)
{
	flock(file, LOCK_EX);
	compute(3000000);
	flock(file, LOCK_UN);
}

/* A list whose items are allocated one by one. */
static void __attribute__((noinline)) make_list(void)
{
	struct item {
		struct item *next;
		char text[40];
	} *first = NULL;

	for (int i = 0; i < 100000; i++) {
		struct item *item = malloc(sizeof(*item));

		item->next = first;
		first = item;
	}
	while (first) {
		struct item *next = first->next;

		free(first);
		first = next;
	}
}

static void make_lists(void)
{
	for (int i = 0; i < 60; i++)
		make_list();
}

/* Three processes, which begin at the same time. */
static void lock_file_in_turns(void)
{
	pthread_barrier_t *start = mmap(NULL, sizeof(*start), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t shared;

	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(start, &shared, 3);
	for (int i = 0; i < 3; i++)
		if (!fork()) {
			int file = open("planted.lock", O_CREAT | O_RDWR, 0600);

			pthread_barrier_wait(start);
			for (int k = 0; k < 50; k++)
				use_file_in_turns(file);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
}

/* All threads allocate from one arena. */
static void *__attribute__((noinline)) allocate_pieces(void *unused)
{
	for (int round = 0; round < 120; round++) {
		void *pieces[3000];

		for (int i = 0; i < 3000; i++)
			pieces[i] = malloc(2000 + (size_t)(i * 37 % 3000));
		for (int i = 0; i < 3000; i++)
			free(pieces[i]);
	}
	return unused;
}

static void share_an_arena(void)
{
	mallopt(M_ARENA_MAX, 1);
	run_threads(4, allocate_pieces);
}

static long __attribute__((noinline)) read_number_at(int file, long at)
{
	long number = 0;

	if (lseek(file, at, SEEK_SET) < 0 || read(file, &number, sizeof(number)) < 0)
		abort();
	return number;
}

static void read_numbers(void)
{
	int file = open("/proc/self/exe", O_RDONLY);

	for (long i = 0; i < 400000; i++)
		sink += (double)read_number_at(file, i * 7919 % 16000);
	close(file);
}

/* Waits for what a shell prints, not for its end. */
static void __attribute__((noinline)) ask_shell(void)
{
	FILE *answer = popen("echo 5", "r");
	char line[16];

	if (!answer || !fgets(line, sizeof(line), answer))
		abort();
	pclose(answer);
}

static void ask_shells(void)
{
	for (int i = 0; i < 100; i++)
		ask_shell();
}

/* For 0.4 s on a core, however fast that is. */
static void *compute_part(void *unused)
{
	struct timespec spent = {0};

	while (spent.tv_sec == 0 && spent.tv_nsec < 400000000) {
		compute(1000000);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	}
	return unused;
}

/* The program is bound to the core that it runs on. */
static void stay_on_one_core(void)
{
	cpu_set_t cores;

	CPU_ZERO(&cores);
	CPU_SET(sched_getcpu(), &cores);
	sched_setaffinity(0, sizeof(cores), &cores);
	run_threads(4, compute_part);
}

static char spin_taken;

static void __attribute__((noinline)) take_spin_lock(void)
{
	while (__atomic_test_and_set(&spin_taken, __ATOMIC_ACQUIRE)) {
	}
}

static void *compute_with_spin_lock(void *unused)
{
	(void)unused;
	for (int i = 0; i < 100; i++) {
		take_spin_lock();
		compute(1000000);
		__atomic_clear(&spin_taken, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void hold_own_spin_lock(void)
{
	run_threads(4, compute_with_spin_lock);
}

static void __attribute__((noinline)) answer_slowly(int peer)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	char byte;

	while (read(peer, &byte, 1) == 1) {
		nanosleep(&pause, NULL);
		if (send(peer, &byte, 1, MSG_NOSIGNAL) != 1)
			break;
	}
	close(peer);
}

static void *serve(void *listener)
{
	int peer = accept(*(int *)listener, NULL, NULL);

	if (peer >= 0)
		answer_slowly(peer);
	return NULL;
}

/* A client and its server, which sleeps, over the loopback interface. */
static void ask_slow_server(void)
{
	struct sockaddr_in place = {.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(place);
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t server;
	char byte = 0;

	if (bind(listener, (struct sockaddr *)&place, sizeof(place)) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&place, &size) ||
	    pthread_create(&server, NULL, serve, &listener) ||
	    connect(client, (struct sockaddr *)&place, sizeof(place)))
		_exit(1);
	for (int i = 0; i < 30; i++)
		if (send(client, &byte, 1, 0) != 1 || recv(client, &byte, 1, 0) != 1)
			_exit(1);
	close(client);
	pthread_join(server, NULL);
	close(listener);
}

static void __attribute__((noinline)) filter_block(int in, int out)
{
	static char block[16384];

	while (read(in, block, sizeof(block)) > 0) {
		compute(3000000);
		if (write(out, block, sizeof(block)) < 0)
			_exit(1);
	}
}

static void __attribute__((noinline)) write_all(int out)
{
	static char block[16384];

	for (int i = 0; i < 200; i++)
		if (write(out, block, sizeof(block)) < 0)
			_exit(1);
}

/* Three processes, of which the second one is the slowest. */
static void run_stages(void)
{
	static char block[16384];
	int first[2], second[2];

	if (pipe(first) || pipe(second))
		_exit(1);
	if (!fork()) {
		close(first[1]);
		close(second[0]);
		filter_block(first[0], second[1]);
		_exit(0);
	}
	close(first[0]);
	close(second[1]);
	if (!fork()) {
		close(first[1]);
		while (read(second[0], block, sizeof(block)) > 0)
			continue;
		_exit(0);
	}
	close(second[0]);
	write_all(first[1]);
	close(first[1]);
	while (wait(NULL) > 0)
		continue;
}

static unsigned int drawn;

static void *draw_numbers(void *unused)
{
	unsigned int sum = 0;

	(void)unused;
	for (int i = 0; i < 12000000; i++)
		sum += (unsigned int)rand();
	__atomic_fetch_add(&drawn, sum, __ATOMIC_RELAXED);
	return NULL;
}

static void draw_together(void)
{
	run_threads(2, draw_numbers);
}

enum { MATRIX = 3000 };

static long __attribute__((noinline)) count_ways(int rows, int columns)
{
	if (!rows || !columns)
		return 1;
	return count_ways(rows - 1, columns) + count_ways(rows, columns - 1);
}

/* Without a table of what is known, each is computed again and again. */
static void count_recursively(void)
{
	sink = (double)count_ways(14, 15);
}

static double __attribute__((noinline)) add_columns(const double *matrix)
{
	double sum = 0;

	for (int column = 0; column < MATRIX; column++)
		for (int row = 0; row < MATRIX; row++)
			sum += matrix[(size_t)row * MATRIX + (size_t)column];
	return sum;
}

static void walk_columns(void)
{
	double *matrix = calloc((size_t)MATRIX * MATRIX, sizeof(*matrix));

	if (!matrix)
		_exit(1);
	memset(matrix, 1, (size_t)MATRIX * MATRIX * sizeof(*matrix));
	for (int i = 0; i < 8; i++)
		sink = add_columns(matrix);
	free(matrix);
}

static long *shared_count;

static void __attribute__((noinline)) count_up(long *count)
{
	for (int i = 0; i < 20000000; i++)
		__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static void *count_by_pointer(void *unused)
{
	(void)unused;
	count_up(shared_count);
	return NULL;
}

static void count_by_pointers(void)
{
	shared_count = calloc(1, sizeof(*shared_count));
	if (!shared_count)
		_exit(1);
	run_threads(2, count_by_pointer);
	free(shared_count);
}

/* Three threads with queues of a few places between them, of which the second one is slowest. */
struct stage_queue {
	pthread_mutex_t lock;
	pthread_cond_t not_full, not_empty;
	int count;
};

static struct stage_queue raw = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
				 PTHREAD_COND_INITIALIZER, 0},
			  done = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
				  PTHREAD_COND_INITIALIZER, 0};
enum { STAGE_ITEMS = 200 };

static void put_item(struct stage_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->count == 4)
		pthread_cond_wait(&queue->not_full, &queue->lock);
	queue->count++;
	pthread_cond_signal(&queue->not_empty);
	pthread_mutex_unlock(&queue->lock);
}

static void take_item(struct stage_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	while (!queue->count)
		pthread_cond_wait(&queue->not_empty, &queue->lock);
	queue->count--;
	pthread_cond_signal(&queue->not_full);
	pthread_mutex_unlock(&queue->lock);
}

static void *make_items(void *unused)
{
	for (int i = 0; i < STAGE_ITEMS; i++) {
		compute(20000);
		put_item(&raw);
	}
	return unused;
}

static void *change_items(void *unused)
{
	for (int i = 0; i < STAGE_ITEMS; i++) {
		take_item(&raw);
		compute(3000000);
		put_item(&done);
	}
	return unused;
}

static void run_queues(void)
{
	pthread_t threads[2];

	pthread_create(&threads[0], NULL, make_items, NULL);
	pthread_create(&threads[1], NULL, change_items, NULL);
	for (int i = 0; i < STAGE_ITEMS; i++)
		take_item(&done);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

static void *sleep_with_lock(void *unused)
{
	const struct timespec pause = {.tv_nsec = 4000000};

	for (int i = 0; i < 20; i++) {
		pthread_mutex_lock(&lock);
		nanosleep(&pause, NULL);
		pthread_mutex_unlock(&lock);
		compute(100000);
	}
	return unused;
}

static void wait_with_lock(void)
{
	run_threads(3, sleep_with_lock);
}

static pthread_rwlock_t shared_lock = PTHREAD_RWLOCK_INITIALIZER;

static void *read_as_writer(void *unused)
{
	for (int i = 0; i < 100; i++) {
		pthread_rwlock_wrlock(&shared_lock);
		compute(1000000);
		pthread_rwlock_unlock(&shared_lock);
	}
	return unused;
}

static void read_as_writers(void)
{
	run_threads(3, read_as_writer);
}

static const struct {
	const char *name;
	void (*run)(void);
} faults[] = {
	{"writers", read_as_writers},
	{"queues", run_queues},
	{"held", wait_with_lock},
	{"columns", walk_columns},
	{"recursion", count_recursively},
	{"pointers", count_by_pointers},
	{"stages", run_stages},
	{"draws", draw_together},
	{"lock", take_lock_in_turns},
	{"imbalance", share_work_unevenly},
	{"pages", touch_pages},
	{"sleep", wait_a_while},
	{"healthy", compute_only},
	{"spin", spin_threads},
	{"bytes", write_bytes},
	{"stat", look_at_files},
	{"files", append_lines},
	{"threads", start_threads},
	{"pipe", ask_often},
	{"crew", do_own_shares},
	{"serial", do_parts},
	{"processes", start_processes},
	{"sequence", do_turns},
	{"short-sequence", do_short_turns},
	{"descriptors", ask_many_pipes},
	{"atomics", count_together},
	{"workers", start_workers},
	{"limit", wait_for_limits},
	{"blocks", write_blocks},
	{"semaphore", take_semaphore_in_turns},
	{"flock", lock_file_in_turns},
	{"arena", share_an_arena},
	{"seek", read_numbers},
	{"popen", ask_shells},
	{"bound", stay_on_one_core},
	{"lists", make_lists},
	{"protect", protect_pages},
	{"polls", ask_descriptor},
	{"fork", copy_large_process},
	{"server", ask_slow_server},
	{"ownspin", hold_own_spin_lock},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(faults) / sizeof(*faults); i++)
		if (!strcmp(faults[i].name, argv[1])) {
			faults[i].run();
			return 0;
		}
	return 2;
}
