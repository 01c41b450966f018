/*
 * odd.c - programs that do what few programs do, one case each: odd CASE.
 *
 *   memory     runs a program that is nowhere but in memory, by its descriptor
 *   bare       runs a program with no environment at all
 *   fixed      runs itself anew without random addresses
 *   traced     traces a child of its own, which stops twice
 *   locked     forbids memory that is writable and executable (where the kernel knows that)
 *   files      may write no byte into files, and makes calls
 *   coroutine  two hundred times to another stack and back, with a call on each
 *   timer      a timer whose expiry runs threads
 *   closed     all descriptors closed, the standard ones too
 *   children   two hundred children at once, half of which return 1
 *   full       has no descriptor left, and starts a program, which cannot open its libraries
 *
 * Prints what a program can tell without us: the same with and without a recording.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
#define SHELL "/bin/sh"

extern char **environ;

static void *rest(void *arg)
{
	usleep(1000);
	return arg;
}

static int run_threads(void)
{
	pthread_t threads[20];
	int made = 0, joined = 0;

	while (made < 20 && !pthread_create(&threads[made], NULL, rest, NULL))
		made++;
	for (int i = 0; i < made; i++)
		joined += !pthread_join(threads[i], NULL);
	return joined;
}

static int run_memory(char **argv)
{
	char bytes[65536], *words[] = {"sh", "-c", "echo from memory; exit 3", NULL};
	int from = open(SHELL, O_RDONLY | O_CLOEXEC), to = memfd_create("odd", MFD_CLOEXEC);
	ssize_t n;

	(void)argv;
	while ((n = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)n) != n)
			return 1;
	fexecve(to, words, environ);
	return 1;
}

static int run_bare(char **argv)
{
	char *words[] = {"sh", "-c", "echo \"<$HOME$USER>\"; exit 4", NULL};

	(void)argv;
	syscall(SYS_execve, SHELL, words, NULL);
	return 1;
}

static int run_fixed(char **argv)
{
	int now = personality(0xffffffff);

	if (now >= 0 && !(now & ADDR_NO_RANDOMIZE) && personality(ADDR_NO_RANDOMIZE) >= 0)
		execv("/proc/self/exe", argv);
	printf("%d threads\n", run_threads());
	return 5;
}

static int run_traced(char **argv)
{
	int status = 0, stops = 0, sig;
	pid_t child = fork();

	(void)argv;
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		run_threads();
		raise(SIGSTOP);
		_exit(7);
	}
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		sig = WSTOPSIG(status);
		stops += sig == SIGSTOP;
		ptrace(PTRACE_CONT, child, 0, sig == SIGSTOP ? 0 : sig);
	}
	printf("%d stops, %d\n", stops, WEXITSTATUS(status));
	return 6;
}

static int run_locked(char **argv)
{
	(void)argv;
	printf("%d\n", prctl(PR_SET_MDWE, 1, 0, 0, 0));
	printf("%d threads\n", run_threads());
	return 7;
}

static int run_files(char **argv)
{
	struct rlimit none = {0, 0};

	(void)argv;
	setrlimit(RLIMIT_FSIZE, &none);
	for (int i = 0; i < 500; i++)
		usleep(1);
	return run_threads();
}

static ucontext_t main_context, other_context;
static int steps;

static void step(void)
{
	for (;;) {
		steps++;
		usleep(1);
		swapcontext(&other_context, &main_context);
	}
}

static int run_coroutine(char **argv)
{
	static char stack[32768];

	(void)argv;
	getcontext(&other_context);
	other_context.uc_stack.ss_sp = stack;
	other_context.uc_stack.ss_size = sizeof(stack);
	makecontext(&other_context, step, 0);
	for (int i = 0; i < 200; i++) {
		swapcontext(&main_context, &other_context);
		usleep(1);
	}
	printf("%d steps\n", steps);
	return 8;
}

static int expired;

static void count_expiry(union sigval value)
{
	__atomic_add_fetch((int *)value.sival_ptr, 1, __ATOMIC_SEQ_CST);
}

static int run_timer(char **argv)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD,
				 .sigev_notify_function = count_expiry,
				 .sigev_value.sival_ptr = &expired};
	struct itimerspec each = {{0, 1000000}, {0, 1000000}};
	timer_t timer;

	(void)argv;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &each, NULL))
		return 1;
	while (__atomic_load_n(&expired, __ATOMIC_SEQ_CST) < 20)
		usleep(1000);
	timer_delete(timer);
	return 9;
}

static int run_closed(char **argv)
{
	(void)argv;
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	run_threads();
	return 20 + open("/dev/null", O_RDWR);
}

static int run_children(char **argv)
{
	int status, sum = 0;

	(void)argv;
	for (int i = 0; i < 200; i++)
		if (!fork())
			_exit(i & 1);
	while (wait(&status) > 0)
		sum += WEXITSTATUS(status);
	printf("%d\n", sum);
	return 10;
}

static int run_full(char **argv)
{
	struct rlimit limit = {3, 3};
	int status;
	pid_t child;

	(void)argv;
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return 1; /* there is one */
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 1;
	child = fork();
	if (!child) {
		execl(SHELL, "sh", "-c", "echo started", (char *)NULL);
		_exit(126);
	}
	waitpid(child, &status, 0);
	printf("%d\n", WEXITSTATUS(status));
	return 11;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(char **argv);
	} cases[] = {
		{"memory", run_memory},	    {"bare", run_bare},		  {"fixed", run_fixed},
		{"traced", run_traced},	    {"locked", run_locked},	  {"files", run_files},
		{"timer", run_timer},	    {"coroutine", run_coroutine}, {"closed", run_closed},
		{"children", run_children}, {"full", run_full},
	};

	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(argv[1], cases[i].name))
			return cases[i].run(argv);
	return 99;
}
