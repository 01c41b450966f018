/*
 * osrt_bench.c - what the OS-runtime hook adds, beyond calls_bench: osrt_bench MODE N; prints
 * nanoseconds each, the best of five parts.
 *
 *   mutex        lock and unlock without contention, in a process of one thread     mutex-mt   the
 * same while another thread exists rwlock sem spin trylock cond-signal   likewise, with another
 * thread pipe         a byte written and read     ping-pong   two threads waking each other through
 * a condition variable, one round getc putc fwrite   stream calls that the buffer can serve getpid
 * a system call that no hook touches file-write   4 KiB written into a file, which is recorded
 * yield   sched_yield
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/choose.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t sem;
static int fds[2], file, turn;
static char block[4096];
static FILE *stream;

static double read_clock(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void require_ok(int ok)
{
	if (!ok) {
		perror("osrt_bench");
		exit(1);
	}
}

static void *sleep_thread(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void wait_turn(int mine)
{
	pthread_mutex_lock(&mutex);
	while (turn != mine)
		pthread_cond_wait(&cond, &mutex);
	turn = !mine;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
}

static void *answer_pipe(void *unused)
{
	for (;;)
		wait_turn(1);
	return unused;
}

static void one_mutex(void)
{
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void one_rwlock(void)
{
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
}

static void one_sem(void)
{
	sem_wait(&sem);
	sem_post(&sem);
}

static void one_spin(void)
{
	pthread_spin_lock(&spin);
	pthread_spin_unlock(&spin);
}

static void one_trylock(void)
{
	pthread_mutex_trylock(&mutex);
	pthread_mutex_unlock(&mutex);
}

static void one_signal(void)
{
	pthread_cond_signal(&cond);
}

static void one_pipe(void)
{
	char letter = 'x';

	require_ok(write(fds[1], &letter, 1) == 1 && read(fds[0], &letter, 1) == 1);
}

static void one_round(void)
{
	wait_turn(0);
}

static void one_getc(void)
{
	if (getc(stream) == EOF)
		rewind(stream);
}

static void one_putc(void)
{
	if (putc('x', stream) == EOF)
		exit(1);
}

static void one_fwrite(void)
{
	require_ok(fwrite(block, 16, 1, stream) == 1);
}

static void one_getpid(void)
{
	syscall(SYS_getpid);
}

static void one_file_write(void)
{
	require_ok(pwrite(file, block, sizeof(block), 0) == (ssize_t)sizeof(block));
}

static void one_yield(void)
{
	sched_yield();
}

static const struct mode {
	const char *name;
	void (*one)(void);
	void *(*thread)(void *);
	const char *stream, *how;
} modes[] = {
	{"mutex", one_mutex},
	{"mutex-mt", one_mutex, sleep_thread},
	{"rwlock", one_rwlock, sleep_thread},
	{"sem", one_sem, sleep_thread},
	{"spin", one_spin, sleep_thread},
	{"trylock", one_trylock, sleep_thread},
	{"cond-signal", one_signal, sleep_thread},
	{"pipe", one_pipe},
	{"ping-pong", one_round, answer_pipe},
	{"getc", one_getc, NULL, "/proc/self/exe", "r"},
	{"putc", one_putc, NULL, "/dev/null", "w"},
	{"fwrite", one_fwrite, NULL, "/dev/null", "w"},
	{"getpid", one_getpid},
	{"file-write", one_file_write},
	{"yield", one_yield},
};

static double best_of(const struct mode *mode, uint64_t n)
{
	double best = 1e18;

	for (int part = 0; part < 5; part++) {
		double begin = read_clock(), took;

		for (uint64_t i = 0; i < n / 5; i++)
			mode->one();
		took = (read_clock() - begin) / (double)(n / 5);
		best = ws_min(took, best);
	}
	return best;
}

int main(int argc, char **argv)
{
	uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
	char name[] = "osrt-bench-XXXXXX";
	pthread_t thread;

	for (size_t i = 0; argc > 1 && n >= 5 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		const struct mode *mode = &modes[i];

		if (strcmp(argv[1], mode->name))
			continue;
		require_ok(!pipe(fds) && !sem_init(&sem, 0, 1) && !pthread_spin_init(&spin, 0) &&
			   (file = mkstemp(name)) >= 0 && !unlink(name));
		require_ok(!mode->stream || (stream = fopen(mode->stream, mode->how)));
		require_ok(!mode->thread || !pthread_create(&thread, NULL, mode->thread, NULL));
		best_of(mode, 5000);
		printf("%.2f\n", best_of(mode, n));
		return 0;
	}
	fprintf(stderr, "usage: osrt_bench MODE N\n");
	return 2;
}
