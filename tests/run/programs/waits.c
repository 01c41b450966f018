/*
 * waits.c - waits for one thing after the other, each for at least 40 ms, for the tests of what says why threads waited.
 *
 *   waits [FIFO]   the thread "waiter" waits for a lock that the thread "holder" holds, a condition, a semaphore, a sleep, a pipe,
 * a descriptor (poll), a stream's buffer, and the FIFO if one is named; the main thread waits for its end
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAUSE_US = 45000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t held, wanted;
static int ready, turn[2], data[2];
static const char *fifo;

/* Told before each step that the other is about to wait; then it waits in the step itself. */
static void next(void)
{
	char c = 0;

	if (write(turn[1], &c, 1) != 1)
		_exit(1);
}

static void await_turn(void)
{
	char c;

	if (read(turn[0], &c, 1) != 1)
		_exit(1);
	usleep(PAUSE_US);
}

__attribute__((noinline)) static void wait_for_lock(void)
{
	sem_wait(&held);
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
	char c;
	int fd;

	prctl(PR_SET_NAME, "waiter");
	wait_for_lock();
	wait_for_condition();
	next();
	sem_wait(&wanted);
	usleep(PAUSE_US);
	next();
	if (poll(&p, 1, -1) != 1 || read(data[0], &c, 1) != 1)
		_exit(1);
	next();
	if (!stream || getc_unlocked(stream) != 'x') /* the inline form, which libc is asked by only when its buffer is empty */
		_exit(1);
	if (fifo) {
		next();
		fd = open(fifo, O_RDONLY);
		if (read(fd, &c, 1) != 1)
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
		fd = open(fifo, O_WRONLY);
		usleep(PAUSE_US);
		if (write(fd, "x", 1) != 1)
			_exit(1);
		close(fd);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t a, b;

	fifo = argc > 1 ? argv[1] : NULL;
	sem_init(&held, 0, 0);
	sem_init(&wanted, 0, 0);
	if (pipe(turn) || pipe(data))
		return 1;
	pthread_create(&a, NULL, waiter, NULL);
	pthread_create(&b, NULL, holder, NULL);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	puts("done");
	return 0;
}
