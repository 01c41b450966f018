/*
 * calls.c - calls of libc and pthread functions in numbers that are known, one case each: calls
 * CASE [ARG].
 *
 * Every call counted by a test either sleeps for at least a millisecond or is counted under
 * --osrt-threshold=0. Where a lock must be contended, the program looks at the kernel's word that
 * the other thread sleeps before it goes on, so that counts are exact.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/choose.h"

static const char *arg;

#define CHECK(x)                                                               \
	do {                                                                   \
		if (!(x)) {                                                    \
			fprintf(stderr, "calls: line %d: %s\n", __LINE__, #x); \
			exit(99);                                              \
		}                                                              \
	} while (0)

static struct timespec after_ms(clockid_t clock, long ms)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_nsec += ms * 1000000;
	time.tv_sec += time.tv_nsec / 1000000000;
	time.tv_nsec %= 1000000000;
	return time;
}

/* Wait until thread `tid` of this process sleeps, by raw system calls only (nothing a profiler
 * would count). */
static void until_asleep(_Atomic int *tid)
{
	for (;;) {
		char path[64], buf[512];
		const char *at;
		long fd, n;

		if (*tid) {
			snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *tid);
			fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
			n = syscall(SYS_read, fd, buf, sizeof(buf) - 1);
			syscall(SYS_close, fd);
			buf[ws_max(n, 0)] = 0;
			at = strrchr(buf, ')');
			if (at && at[2] == 'S')
				return;
		}
		syscall(SYS_sched_yield);
	}
}

static int c_sleeps(void)
{
	struct timespec ms = {0, 1000000};
	struct timeval tv = {0, 1000};
	fd_set none;

	FD_ZERO(&none);
	for (int i = 0; i < 5; i++)
		usleep(1000);
	for (int i = 0; i < 4; i++)
		nanosleep(&ms, NULL);
	for (int i = 0; i < 3; i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
	for (int i = 0; i < 6; i++)
		poll(NULL, 0, 1);
	for (int i = 0; i < 2; i++)
		ppoll(NULL, 0, &ms, NULL);
	for (int i = 0; i < 7; i++, tv.tv_usec = 1000)
		select(0, &none, NULL, NULL, &tv);
	for (int i = 0; i < 8; i++)
		pselect(0, &none, NULL, NULL, &ms, NULL);
	return 0;
}

static int c_files(void)
{
	char buf[4096];
	int fd = open("data.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
	FILE *file;

	CHECK(fd >= 0);
	memset(buf, 'a', sizeof(buf));
	for (int i = 0; i < 100; i++)
		CHECK(write(fd, buf, sizeof(buf)) == sizeof(buf));
	for (int i = 0; i < 50; i++)
		CHECK(pread(fd, buf, sizeof(buf), i * 4096) == sizeof(buf));
	for (int i = 0; i < 10; i++)
		CHECK(pwrite(fd, buf, sizeof(buf), 0) == sizeof(buf));
	CHECK(!fsync(fd) && !fdatasync(fd));
	CHECK(!ftruncate(fd, 10));
	close(fd);
	file = fopen("text.txt", "w");
	CHECK(file);
	for (int i = 0; i < 20; i++)
		fputs("line\n", file);
	CHECK(!fflush(file));
	fclose(file);
	file = fopen("text.txt", "r");
	int lines = 0;
	while (fgets(buf, sizeof(buf), file))
		lines++;
	fclose(file);
	errno = 0;
	CHECK(open("no/such/file", O_RDONLY) < 0 && errno == ENOENT);
	printf("%d lines\n", lines);
	unlink("data.bin");
	unlink("text.txt");
	return 0;
}

static int pipes[2][2];

static void *echo(void *n)
{
	char letter;

	for (long i = 0; i < (long)n; i++)
		CHECK(read(pipes[0][0], &letter, 1) == 1 && write(pipes[1][1], &letter, 1) == 1);
	return NULL;
}

static int c_pipes(void)
{
	long n = arg ? atol(arg) : 200;
	pthread_t thread;
	char letter = 'x';

	CHECK(!pipe(pipes[0]) && !pipe(pipes[1]));
	CHECK(!pthread_create(&thread, NULL, echo, (void *)n));
	for (long i = 0; i < n; i++)
		CHECK(write(pipes[0][1], &letter, 1) == 1 && read(pipes[1][0], &letter, 1) == 1);
	pthread_join(thread, NULL);
	printf("%ld turns\n", n);
	return 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t sem;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static _Atomic int tid, ready;

static void *waits_mutex(void *unused)
{
	(void)unused;
	tid = (int)syscall(SYS_gettid);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void *waits_rwlock(void *writer)
{
	tid = (int)syscall(SYS_gettid);
	if (writer)
		pthread_rwlock_wrlock(&rwlock);
	else
		pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
	return NULL;
}

static void *waits_sem(void *unused)
{
	(void)unused;
	tid = (int)syscall(SYS_gettid);
	while (sem_wait(&sem))
		;
	return NULL;
}

static int c_locks(void) /* each kind of lock contended 10 times, and taken 100,000 times without */
{
	pthread_t thread;

	pthread_spin_init(&spin, 0);
	sem_init(&sem, 0, 0);
	for (int i = 0; i < 10; i++) {
		tid = 0;
		pthread_mutex_lock(&mutex);
		CHECK(!pthread_create(&thread, NULL, waits_mutex, NULL));
		until_asleep(&tid);
		pthread_mutex_unlock(&mutex);
		pthread_join(thread, NULL);
	}
	for (long i = 0; i < 20; i++) {
		tid = 0;
		pthread_rwlock_wrlock(&rwlock);
		CHECK(!pthread_create(&thread, NULL, waits_rwlock, (void *)(i % 2)));
		until_asleep(&tid);
		pthread_rwlock_unlock(&rwlock);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < 10; i++) {
		tid = 0;
		CHECK(!pthread_create(&thread, NULL, waits_sem, NULL));
		until_asleep(&tid);
		sem_post(&sem);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < 100000; i++) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
		pthread_spin_lock(&spin);
		pthread_spin_unlock(&spin);
		pthread_rwlock_rdlock(&rwlock);
		pthread_rwlock_unlock(&rwlock);
		sem_post(&sem);
		sem_wait(&sem);
	}
	puts("locked");
	return 0;
}

static int c_waits(
	void) /* timed waits that all run out, among them those that newer programs import */
{
	enum { WAIT_MS = 20 }; /* busy machines make the program wait before it calls, too */
	struct timespec time;

	CHECK(!sem_init(&sem, 0, 0));
	pthread_mutex_lock(&mutex);
	for (int i = 0; i < 3; i++) {
		time = after_ms(CLOCK_REALTIME, WAIT_MS);
		CHECK(pthread_cond_timedwait(&cond, &mutex, &time) == ETIMEDOUT);
		time = after_ms(CLOCK_MONOTONIC, WAIT_MS);
		CHECK(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &time) == ETIMEDOUT);
		time = after_ms(CLOCK_REALTIME, WAIT_MS);
		CHECK(sem_timedwait(&sem, &time) && errno == ETIMEDOUT);
		time = after_ms(CLOCK_MONOTONIC, WAIT_MS);
		CHECK(sem_clockwait(&sem, CLOCK_MONOTONIC, &time) && errno == ETIMEDOUT);
	}
	pthread_mutex_unlock(&mutex);
	puts("waited");
	return 0;
}

/* What programs compiled with -D_FORTIFY_SOURCE call. */
extern ssize_t __read_chk(int fd, void *buf, size_t n, size_t buflen);
extern int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t len);
extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);

static int c_fortified(void)
{
	struct pollfd poll = {.fd = 0};
	char buf[16];
	int fd;

	for (int i = 0; i < 4; i++) {
		fd = __open_2("/dev/zero", O_RDONLY);
		CHECK(fd >= 0);
		CHECK(__read_chk(fd, buf, 8, sizeof(buf)) == 8);
		close(fd);
		fd = __open64_2("/dev/zero", O_RDONLY);
		CHECK(fd >= 0);
		close(fd);
		CHECK(__poll_chk(&poll, 0, 2, sizeof(poll)) == 0);
	}
	puts("fortified");
	return 0;
}

static sigjmp_buf back;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

static int c_longjmp(
	void) /* leaves a blocking read by siglongjmp, ARG times, then makes calls of nesting 0 */
{
	int fds[2];
	volatile int n = arg ? atoi(arg) : 100;
	struct itimerval it = {.it_value = {0, 2000}};
	char letter;

	CHECK(!pipe(fds));
	signal(SIGALRM, jump);
	for (volatile int i = 0; i < n; i++) {
		if (sigsetjmp(back, 1) == 0) {
			setitimer(ITIMER_REAL, &it, NULL);
			CHECK(read(fds[0], &letter, 1) == 12345);
		}
	}
	for (int i = 0; i < 3; i++)
		usleep(1000);
	puts("jumped");
	return 0;
}

static void *cancelled(void *how)
{
	int fds[2];
	char letter;

	CHECK(!pipe(fds));
	ready = 1;
	switch ((long)how) {
	case 0:
		CHECK(read(fds[0], &letter, 1) == 12345);
		break;
	case 1:
		sem_wait(&sem);
		break;
	case 2:
		pause();
		break;
	default:
		sleep(100);
	}
	return NULL;
}

static int c_cancel(void) /* threads cancelled in calls that are cancellation points */
{
	void *got;
	int n = 0;

	sem_init(&sem, 0, 0);
	for (long i = 0; i < 40; i++) {
		pthread_t thread;

		ready = 0;
		CHECK(!pthread_create(&thread, NULL, cancelled, (void *)(i % 4)));
		while (!ready)
			usleep(1000);
		pthread_cancel(thread);
		CHECK(!pthread_join(thread, &got));
		n += got == PTHREAD_CANCELED;
	}
	printf("%d cancelled\n", n);
	return 0;
}

static void in_handler(int sig)
{
	(void)sig;
	usleep(1000);
	ready++;
}

static int c_handler(void) /* traced calls in a signal handler that interrupts a traced call */
{
	signal(SIGUSR1, in_handler);
	for (int i = 0; i < 5; i++)
		raise(SIGUSR1);
	CHECK(ready == 5);
	puts("handled");
	return 0;
}

static int early;
__attribute__((constructor(101))) static void first(void)
{
	const char *v = getenv("CALLS_EARLY");

	early = v && *v == '1';
	if (early)
		usleep(1500);
}
__attribute__((destructor(101))) static void last(void)
{
	if (early)
		usleep(1500);
}

static void at_exit(void)
{
	usleep(1500);
}

static int c_edges(void) /* calls in a constructor, main, an exit handler and a destructor: 4 sleeps
			    when CALLS_EARLY=1 */
{
	atexit(at_exit);
	usleep(1500);
	return 0;
}

static int c_errno(void) /* errno and return values as without a profiler */
{
	struct stat st;

	errno = 77;
	usleep(1000);
	CHECK(errno == 77);
	CHECK(!stat("/", &st) && !fstat(0, &st) && !lstat("/", &st));
	CHECK(read(-1, &st, 1) == -1 && errno == EBADF);
	CHECK(write(-1, &st, 1) == -1 && errno == EBADF);
	CHECK(close(-1) == -1 && errno == EBADF);
	errno = 78;
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	CHECK(errno == 78);
	CHECK(pthread_mutex_trylock(&mutex) == 0 && pthread_mutex_trylock(&mutex) == EBUSY);
	CHECK(errno == 78);
	CHECK(open("/nonexistent", O_RDONLY) == -1 && errno == ENOENT);
	CHECK(connect(-1, NULL, 0) == -1 && errno == EBADF);
	puts("errno kept");
	return 0;
}

static void *named(void *n)
{
	char name[16];

	snprintf(name, sizeof(name), "named-%ld", (long)n);
	pthread_setname_np(pthread_self(), name);
	usleep(2000);
	return NULL;
}

static int c_names(void)
{
	pthread_t thread[4];

	for (long i = 0; i < 4; i++)
		CHECK(!pthread_create(&thread[i], NULL, named, (void *)i));
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

static void *sleeper(void *unused)
{
	(void)unused;
	usleep(1000);
	return NULL;
}

static int c_threads(void) /* ARG threads, 50 at a time, one sleep each */
{
	int n = arg ? atoi(arg) : 1000;
	pthread_t thread[50];
	pthread_attr_t a;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 65536);
	for (int i = 0; i < n; i += 50) {
		for (int k = 0; k < 50; k++)
			CHECK(!pthread_create(&thread[k], &a, sleeper, NULL));
		for (int k = 0; k < 50; k++)
			pthread_join(thread[k], NULL);
	}
	printf("%d threads\n", n);
	return 0;
}

static int c_minstack(void) /* a thread on the smallest stack there is */
{
	pthread_attr_t a;
	pthread_t thread;

	pthread_attr_init(&a);
	CHECK(!pthread_attr_setstacksize(&a, 16384));
	CHECK(!pthread_create(&thread, &a, sleeper, NULL));
	pthread_join(thread, NULL);
	puts("small");
	return 0;
}

static int c_sockets(void)
{
	int sv[2];
	char letter = 'x';
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = epoll_create1(0);

	CHECK(ep >= 0 && !socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, sv[1], &ev));
	for (int i = 0; i < 30; i++) {
		CHECK(send(sv[0], &letter, 1, 0) == 1);
		CHECK(epoll_wait(ep, &ev, 1, -1) == 1);
		CHECK(recv(sv[1], &letter, 1, 0) == 1);
	}
	puts("30 messages");
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{"sleeps", c_sleeps},	{"files", c_files},	  {"pipes", c_pipes},
	{"locks", c_locks},	{"waits", c_waits},	  {"fortified", c_fortified},
	{"longjmp", c_longjmp}, {"cancel", c_cancel},	  {"handler", c_handler},
	{"edges", c_edges},	{"errno", c_errno},	  {"names", c_names},
	{"threads", c_threads}, {"minstack", c_minstack}, {"sockets", c_sockets},
};

int main(int argc, char **argv)
{
	arg = argc > 2 ? argv[2] : NULL;
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1]))
			return cases[i].run();
	fprintf(stderr, "calls: no such case\n");
	return 98;
}
