/*
 * busy.c - uses the CPU in ways that are known, for the tests of samples and context switches. How
 * long something runs is counted by the thread's own CPU clock, so that the shares of functions do
 * not depend on what else the machine does.
 *
 *   split MS          three_quarters() and one_quarter() share so many milliseconds; both call
 * burn() threads N US      N threads one after the other, each burning so many microseconds brief N
 * N times: parent() burns 700 us, then child() in a process and thread() in a thread as long, one
 * after the other; between() burns up to a millisecond before each, or samples could keep step with
 * them together N US     N threads at the same time raw N US          N threads made by clone()
 * behind the C library's back, one after the other named             a thread that names itself, by
 * the system call execs N MS        burns, then executes itself N times threadexecs N MS  the same,
 * by a thread while another burns on forks N MS        N children that burn sleeps N sleeps N times
 * for a millisecond pingpong N        two threads wake each other N times touch N           touches
 * N pages for the first time signals MS        burns, with a handler for SIGURG and all signals
 * that are free blocked now and then; says what interrupted it urgent MS         burns, with a
 * handler for SIGURG of its own, and sends itself that signal five times waited MS         burns
 * with all signals blocked, then takes what signals have come, a SIGURG of its own among them deny
 * ERRNO CMD... runs CMD where perf_event_open fails with that number
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

static double cpu_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void burn(double seconds)
{
	double end = cpu_seconds() + seconds;

	while (cpu_seconds() < end)
		for (int i = 0; i < 20000; i++)
			sink += (unsigned long)i;
}

__attribute__((noinline)) static void three_quarters(double seconds)
{
	burn(0.75 * seconds);
	__asm__ volatile(""); /* not a tail call */
}

__attribute__((noinline)) static void one_quarter(double seconds)
{
	burn(0.25 * seconds);
	__asm__ volatile("");
}

static int split(char **a)
{
	double seconds = atof(a[0]) / 1000;

	for (int i = 0; i < 10; i++) {
		three_quarters(seconds / 10);
		one_quarter(seconds / 10);
	}
	return 0;
}

static void *burn_one(void *us)
{
	burn(*(double *)us * 1e-6);
	return NULL;
}

static int threads(char **a)
{
	double us = atof(a[1]);
	pthread_t thread;

	for (int i = 0; i < atoi(a[0]); i++)
		if (pthread_create(&thread, NULL, burn_one, &us) || pthread_join(thread, NULL))
			return 1;
	return 0;
}

__attribute__((noinline)) static void parent(void)
{
	burn(700e-6);
	__asm__ volatile("");
}

__attribute__((noinline)) static void child(void)
{
	burn(700e-6);
	_exit(0);
}

__attribute__((noinline)) static void *thread(void *arg)
{
	burn(700e-6);
	return arg;
}

/* With all signals blocked: what is pending, and that one of the program's own stays so. */
static void look_at_pending(int times)
{
	struct timespec soon = {10, 0};
	sigset_t pending, urgent;

	sigpending(&pending);
	printf("%d pending\n", sigismember(&pending, SIGURG));
	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	for (int i = 0; i < times; i++) {
		kill(getpid(), SIGURG);
		sigpending(&pending);
		printf("%d", sigismember(&pending, SIGURG));
		printf("%d", sigtimedwait(&urgent, NULL, &soon) == SIGURG);
		sigpending(&pending);
		printf("%d\n", sigismember(&pending, SIGURG));
	}
}

static int waited(char **a)
{
	struct timespec soon = {0, 1000000};
	sigset_t all;
	int sig;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	burn(atof(a[0]) / 1000);
	look_at_pending(3);
	burn(atof(a[0]) / 1000);
	sig = sigtimedwait(&all, NULL, &soon);
	printf("%d %s\n", sig, sig < 0 ? strerror(errno) : "");
	burn(atof(a[0]) / 1000);
	raise(SIGUSR1);
	printf("%d is USR1\n", sigwaitinfo(&all, NULL) == SIGUSR1);
	burn(atof(a[0]) / 1000);
	raise(SIGUSR2);
	printf("%d\n", sigwait(&all, &sig));
	printf("%d is USR2\n", sig == SIGUSR2);
	sig = 0;
	for (int i = 0; i < 50 && sig != SIGURG;
	     i++) { /* two that nobody has taken are one: ours may meet another */
		raise(SIGURG);
		sig = sigtimedwait(&all, NULL, &soon);
	}
	printf("%d is URG\n", sig == SIGURG);
	return 0;
}

__attribute__((noinline)) static void between(unsigned step)
{
	burn((step * 619 % 1000) * 1e-6);
	__asm__ volatile("");
}

static int brief(char **a)
{
	pthread_t owner;

	for (int i = 0; i < atoi(a[0]); i++) {
		pid_t pid;

		between((unsigned)i);
		parent();
		pid = fork();
		if (!pid)
			child();
		if (pid < 0 || waitpid(pid, NULL, 0) < 0 ||
		    pthread_create(&owner, NULL, thread, NULL) || pthread_join(owner, NULL))
			return 1;
	}
	return 0;
}

static int together(char **a)
{
	int n = atoi(a[0]), made = 0;
	double us = atof(a[1]);
	pthread_t *thread = calloc((size_t)n, sizeof(*thread));
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	while (made < n && !pthread_create(&thread[made], &attr, burn_one, &us))
		made++;
	for (int i = 0; i < made; i++)
		pthread_join(thread[i], NULL);
	printf("%s threads\n", made == n ? "all" : "not all");
	free(thread);
	return 0;
}

static int burn_raw(void *us)
{
	double t = *(double *)us * 1e-6, end = cpu_seconds() + t;

	while (cpu_seconds() < end)
		sink++;
	return 0;
}

static int raw(char **a)
{
	double us = atof(a[1]);
	size_t size = 256 << 10;
	char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < atoi(a[0]); i++) {
		int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			    CLONE_SYSVSEM | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;
		static volatile int alive;

		alive = 1;
		if (clone(burn_raw, stack + size, flags, &us, &alive, NULL, &alive) < 0)
			return 1;
		while (alive)
			usleep(500);
	}
	return 0;
}

static void *name_oneself(void *arg)
{
	(void)arg;
	syscall(SYS_prctl, PR_SET_NAME, "quietly-named", 0, 0, 0);
	burn(0.005);
	return NULL;
}

static int named(char **a)
{
	pthread_t thread;

	(void)a;
	return pthread_create(&thread, NULL, name_oneself, NULL) || pthread_join(thread, NULL);
}

static int execs(char **a)
{
	int n = atoi(a[0]);
	char left[16];

	burn(atof(a[1]) / 1000);
	if (!n)
		return 0;
	snprintf(left, sizeof(left), "%d", n - 1);
	execl("/proc/self/exe", "busy", "execs", left, a[1], (char *)NULL);
	return 1;
}

static void *burn_on(void *arg)
{
	for (;;)
		burn(0.001);
	return arg;
}

static void *burn_and_exec(void *arg)
{
	char **a = arg, left[16];

	burn(atof(a[1]) / 1000);
	snprintf(left, sizeof(left), "%d", atoi(a[0]) - 1);
	execl("/proc/self/exe", "busy", "threadexecs", left, a[1], (char *)NULL);
	abort();
}

static int threadexecs(char **a)
{
	pthread_t thread, other;

	burn(atof(a[1]) / 1000);
	if (!atoi(a[0]))
		return 0;
	if (pthread_create(&other, NULL, burn_on, NULL) ||
	    pthread_create(&thread, NULL, burn_and_exec, a))
		return 1;
	return pthread_join(thread, NULL);
}

static int forks(char **a)
{
	for (int i = 0; i < atoi(a[0]); i++) {
		pid_t pid = fork();

		if (!pid) {
			burn(atof(a[1]) / 1000);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

static int sleeps(char **a)
{
	struct timespec time = {0, 1000000};

	for (int i = 0; i < atoi(a[0]); i++)
		nanosleep(&time, NULL);
	return 0;
}

static int ping[2], pong[2], rounds;

static void *answer(void *arg)
{
	char letter;

	for (int i = 0; i < rounds; i++)
		if (read(ping[0], &letter, 1) != 1 || write(pong[1], &letter, 1) != 1)
			abort();
	return arg;
}

static int pingpong(char **a)
{
	pthread_t thread;
	char letter = 'x';

	rounds = atoi(a[0]);
	if (pipe(ping) || pipe(pong) || pthread_create(&thread, NULL, answer, NULL))
		return 1;
	for (int i = 0; i < rounds; i++)
		if (write(ping[1], &letter, 1) != 1 || read(pong[0], &letter, 1) != 1)
			return 1;
	return pthread_join(thread, NULL);
}

static int touch(char **a)
{
	size_t n = (size_t)atoi(a[0]);
	char *at = mmap(NULL, n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(at, n * 4096, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < n; i++)
		at[i * 4096] = 1;
	return 0;
}

static volatile sig_atomic_t handled;

static void handler(int sig)
{
	(void)sig;
	handled++;
}

static int signals(char **a)
{
	struct sigaction sa = {.sa_handler = handler}, old;
	double seconds = atof(a[0]) / 1000;
	sigset_t all, before;
	int interrupted = 0;

	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGUSR1, NULL, &old);
	sigfillset(&all);
	for (int i = 0; i < 10; i++) {
		sigprocmask(SIG_SETMASK, &all, &before);
		burn(seconds / 20);
		sigprocmask(SIG_SETMASK, &before, NULL);
		burn(seconds / 20);
		if (poll(NULL, 0, 2) < 0)
			interrupted++;
		raise(SIGUSR1);
	}
	printf("%d handled, %d interrupted, the handler is %s\n", (int)handled, interrupted,
	       old.sa_handler == handler ? "ours" : "another");
	return 0;
}

static int urgent(char **a)
{
	struct sigaction sa = {.sa_handler = handler}, seen, none = {.sa_handler = SIG_DFL};

	sigaction(SIGURG, &sa, NULL);
	sigaction(SIGURG, NULL, &seen);
	burn(atof(a[0]) / 1000);
	for (int i = 0; i < 5; i++)
		raise(SIGURG);
	printf("%d handled, the handler is %s\n", (int)handled,
	       seen.sa_handler == handler ? "ours" : "another");
	printf("signal gives %s\n", signal(SIGURG, SIG_IGN) == handler ? "ours" : "another");
	sigaction(SIGURG, &none, NULL);
	raise(SIGURG);
	return 0;
}

/* What the filters of containers refuse. */
static int deny(char **a)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K,
			 SECCOMP_RET_ERRNO | ((unsigned)atoi(a[0]) & SECCOMP_RET_DATA)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("deny");
		return 77;
	}
	execv(a[1], a + 1);
	perror(a[1]);
	return 127;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int arguments;
		int (*run)(char **a);
	} cases[] = {
		{"split", 1, split},   {"threads", 2, threads},	  {"brief", 1, brief},
		{"waited", 1, waited}, {"together", 2, together}, {"raw", 2, raw},
		{"named", 0, named},   {"execs", 2, execs},	  {"threadexecs", 2, threadexecs},
		{"forks", 2, forks},   {"sleeps", 1, sleeps},	  {"pingpong", 1, pingpong},
		{"touch", 1, touch},   {"signals", 1, signals},	  {"urgent", 1, urgent},
		{"deny", 2, deny}};

	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name) && argc - 2 >= cases[i].arguments) {
			int r = cases[i].run(argv + 2);

			__asm__ volatile(""); /* not a tail call */
			return r;
		}
	fprintf(stderr, "busy: no such case, or too few arguments\n");
	return 2;
}
