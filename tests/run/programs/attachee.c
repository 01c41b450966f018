/*
 * attachee.c - a program that notices when something happens to it that would not happen alone:
 * attachee [WORD...]. It ends with status 42 when its standard input does, and prints what it has
 * seen: "as alone", or what was not.
 *
 *   malloc N   N threads that allocate, fill, check and free
 *   waits      threads that wait in calls which must last as long as they were asked to and return
 *              what they must: epoll_wait, poll, nanosleep, select, sigtimedwait, a read with a
 *              time limit
 *   floats     a thread whose vector registers hold values over long stretches
 *   signals    a timer that strikes all the time
 *   traced     it is traced by its parent, as by a debugger
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int over;
static const char *volatile wrong;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- malloc ---- */

static void *allocate(void *arg)
{
	unsigned random = (unsigned)(uintptr_t)arg + 1;
	unsigned char *block[256] = {0};
	size_t size[256] = {0};

	while (!over) {
		unsigned k;

		random = random * 1103515245 + 12345;
		k = random >> 16 & 255;
		for (size_t i = 0; block[k] && i < size[k]; i += 32)
			if (block[k][i] != (unsigned char)k)
				wrong = "memory has changed";
		free(block[k]);
		size[k] = (random >> 8) % 4000 + 1;
		block[k] = malloc(size[k]);
		memset(block[k], (int)k, size[k]);
	}
	for (int k = 0; k < 256; k++)
		free(block[k]);
	return NULL;
}

/* ---- waits ---- */

enum { WAIT_MS = 150 };

static int wait_epoll(void)
{
	struct epoll_event event;
	int fd = epoll_create1(0), result = epoll_wait(fd, &event, 1, WAIT_MS);

	close(fd);
	return result;
}

static int wait_poll(void)
{
	return poll(NULL, 0, WAIT_MS);
}

static int wait_sleep(void)
{
	struct timespec time = {0, WAIT_MS * 1000000};

	return nanosleep(&time, NULL);
}

static int wait_select(void)
{
	struct timeval time = {0, WAIT_MS * 1000};

	return select(0, NULL, NULL, NULL, &time);
}

static int wait_signal(void)
{
	struct timespec time = {0, WAIT_MS * 1000000};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &time) == -1 && errno == EAGAIN ? 0 : -1;
}

static int wait_receive(void)
{
	struct timeval time = {0, WAIT_MS * 1000};
	int pair[2], result;
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -1;
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	result = recv(pair[0], &byte, 1, 0) == -1 && errno == EAGAIN ? 0 : -1;
	close(pair[0]);
	close(pair[1]);
	return result;
}

static const struct wait {
	const char *name;
	int (*fn)(void);
} waits[] = {
	{"epoll_wait failed", wait_epoll},    {"poll failed", wait_poll},
	{"nanosleep failed", wait_sleep},     {"select failed", wait_select},
	{"sigtimedwait failed", wait_signal}, {"recv failed", wait_receive},
};

static void *wait_again(void *arg)
{
	const struct wait *wait = arg;
	sigset_t set;

	sigemptyset(&set); /* a signal would end most of these waits */
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);

	while (!over) {
		double begin = now();

		if (wait->fn())
			wrong = wait->name;
		if (now() - begin < WAIT_MS * 0.99e-3)
			wrong = "a wait was too short";
	}
	return NULL;
}

/* ---- floats ---- */

static void *hold_floats(void *arg)
{
	double a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8;

	(void)arg;
	while (!over) {
		double sum;

		for (int i = 0; i < 1000000; i++)
			__asm__ volatile(""
					 : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f),
					   "+x"(g), "+x"(h));
		sum = a + b + c + d + e + f + g + h;
		if (sum != 36)
			wrong = "vector registers have changed";
	}
	return NULL;
}

/* ---- signals ---- */

static volatile unsigned struck;

static void strike(int sig)
{
	(void)sig;
	struck++;
}

static void strike_often(void)
{
	struct itimerval often = {{0, 2000}, {0, 2000}};
	struct sigaction action = {.sa_handler = strike, .sa_flags = SA_RESTART};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

/* ---- traced ---- */

static void be_traced(void)
{
	pid_t child = fork();
	int status;

	if (!child) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		return;
	}
	printf("%d\n", (int)child);
	fflush(stdout);
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
		ptrace(PTRACE_CONT, child, NULL,
		       (void *)(long)(WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status)));
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static pthread_t threads[64];
static int thread_count;

static void start(void *(*fn)(void *), const void *arg)
{
	pthread_create(&threads[thread_count++], NULL, fn, (void *)(uintptr_t)arg);
}

static void begin(const char *word, const char *number)
{
	if (!strcmp(word, "malloc"))
		for (long i = 0; i < atoi(number); i++)
			start(allocate, (void *)i);
	if (!strcmp(word, "waits"))
		for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
			start(wait_again, &waits[i]);
	if (!strcmp(word, "floats"))
		start(hold_floats, NULL);
	if (!strcmp(word, "signals"))
		strike_often();
}

int main(int argc, char **argv)
{
	sigset_t set;
	char byte;

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "traced"))
			be_traced();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 1; i < argc; i++)
		begin(argv[i], i + 1 < argc ? argv[i + 1] : "1");
	printf("ready\n");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	over = 1;
	for (int i = 0; i < thread_count; i++)
		pthread_join(threads[i], NULL);
	printf("%s\n", wrong ? wrong : "as alone");
	return 42;
}
