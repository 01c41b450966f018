/*
 * waits.c - waits for one thing after the other, each for at least 40 ms, for the tests of what
 * says why threads waited.
 *
 *   waits [FIFO]   the thread "waiter" waits for a lock that the thread "holder" holds, a
 * condition, a semaphore, a sleep, a pipe, a descriptor (poll), a stream's buffer, and the FIFO if
 * one is named; the main thread waits for its end
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_US = 45000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t held, wanted;
static int ready, turn[2], data[2], state;
static const char *fifo;

/* Told before each step that the other is about to wait; then it waits in the step itself. */
static void next(void)
{
	char letter = 0;

	if (write(turn[1], &letter, 1) != 1)
		_exit(1);
}

/* Whether the kernel has the waiter asleep. Once it has written, what it is to wait in is the first
 * that can put it to sleep. */
static int asleep(void)
{
	char text[512];
	const char *end;
	long n = syscall(SYS_pread64, state, text, sizeof(text) - 1, 0L);

	text[n > 0 ? n : 0] = 0;
	end = strrchr(text, ')');
	return end && !strncmp(end, ") S", 3);
}

/* The pause begins when the other waits, however long it took to get there. By raw calls, which
 * hooks do not see. */
static void pause_while_it_waits(void)
{
	static const struct timespec moment = {0, 200000};

	while (!asleep())
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
	usleep(PAUSE_US);
}

static void await_turn(void)
{
	char letter;

	if (read(turn[0], &letter, 1) != 1)
		_exit(1);
	pause_while_it_waits();
}

__attribute__((noinline)) static void wait_for_lock(void)
{
	next();
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void wait_for_condition(void)
{
	next();
	pthread_mutex_lock(&other);
	while (!ready)
		pthread_cond_wait(&condition, &other);
	pthread_mutex_unlock(&other);
}

static void *waiter(void *arg)
{
	struct pollfd p = {.fd = data[0], .events = POLLIN};
	FILE *stream = fdopen(data[0], "r");
	char letter, path[64];
	int fd;

	prctl(PR_SET_NAME, "waiter");
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)syscall(SYS_gettid));
	state = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	wait_for_lock();
	wait_for_condition();
	next();
	sem_wait(&wanted);
	usleep(PAUSE_US);
	next();
	if (poll(&p, 1, -1) != 1 || read(data[0], &letter, 1) != 1)
		_exit(1);
	next();
	if (!stream ||
	    getc_unlocked(stream) !=
		    'x') /* the inline form, which libc is asked by only when its buffer is empty */
		_exit(1);
	if (fifo) {
		next();
		fd = open(fifo, O_RDONLY);
		if (read(fd, &letter, 1) != 1)
			_exit(1);
		close(fd);
	}
	return arg;
}

static void *holder(void *arg)
{
	int fd;

	prctl(PR_SET_NAME, "holder");
	pthread_mutex_lock(&lock);
	sem_post(&held);
	await_turn();
	pthread_mutex_unlock(&lock);
	await_turn();
	pthread_mutex_lock(&other);
	ready = 1;
	pthread_cond_signal(&condition);
	pthread_mutex_unlock(&other);
	await_turn();
	sem_post(&wanted);
	await_turn();
	if (write(data[1], "x", 1) != 1)
		_exit(1);
	await_turn();
	if (write(data[1], "x", 1) != 1)
		_exit(1);
	if (fifo) {
		await_turn();
		fd = open(fifo,
			  O_WRONLY); /* which has woken it: what it sleeps in now is its read */
		pause_while_it_waits();
		if (write(fd, "x", 1) != 1)
			_exit(1);
		close(fd);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t left, right;

	fifo = argc > 1 ? argv[1] : NULL;
	sem_init(&held, 0, 0);
	sem_init(&wanted, 0, 0);
	if (pipe(turn) || pipe(data))
		return 1;
	pthread_create(&right, NULL, holder, NULL);
	sem_wait(&held); /* here, not in the waiter: on a busy machine this may be a long wait, too
			  */
	pthread_create(&left, NULL, waiter, NULL);
	pthread_join(left, NULL);
	pthread_join(right, NULL);
	puts("done");
	return 0;
}
