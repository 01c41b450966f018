/*
 * rare.c - more programs that do what few programs do, one case each: rare CASE. `cases` names them
 * and says what each does. Prints what a program can tell without us, and returns 5 when it went
 * as it should, also where the kernel lacks what the case needs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GOOD = 5, MANY = 50 };

static int end_of(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void *touch(void *arg)
{
	usleep(200);
	return arg;
}

/* Threads that make calls; how many came back. */
static int run_threads(int n)
{
	pthread_t threads[MANY];
	int made = 0, joined = 0;

	while (made < n && !pthread_create(&threads[made], NULL, touch, NULL))
		made++;
	for (int i = 0; i < made; i++)
		joined += !pthread_join(threads[i], NULL);
	return joined;
}

static int run_uring(void)
{
	char params[256] = {0};
	long fd = syscall(425, 8, params); /* io_uring_setup */

	if (fd >= 0) {
		syscall(426, fd, 0, 0, 0, NULL, 0);
		close((int)fd);
	}
	return printf("%d\n", run_threads(3)) == 2 ? GOOD : 1;
}

static int run_pidfd(void)
{
	pid_t child = fork();
	struct pollfd wait = {.events = POLLIN};
	siginfo_t info;

	if (!child) {
		usleep(20000);
		_exit(9);
	}
	wait.fd = (int)syscall(434, child, 0); /* pidfd_open */
	if (wait.fd < 0)
		return end_of(child) == 9 ? GOOD : 1;
	poll(&wait, 1, -1);
	waitid((idtype_t)3, (id_t)wait.fd, &info, WEXITED); /* P_PIDFD */
	printf("%d %d\n", info.si_status, wait.revents);
	return GOOD;
}

static int run_closed(void)
{
	syscall(436, 3, ~0u, 0); /* close_range */
	printf("%d %d\n", dup(0), run_threads(20));
	return end_of(fork() ?: (execl("/bin/sh", "sh", "-c", "exit 4", NULL), 1)) == 4 ? GOOD : 1;
}

static int run_hidden(void)
{
	pid_t child;

	prctl(PR_SET_DUMPABLE, 0);
	child = fork();
	if (!child)
		_exit(run_threads(20));
	printf("%d %d\n", run_threads(20), end_of(child));
	child = fork();
	if (!child)
		execl("/bin/sh", "sh", "-c", "sleep 0.01; echo in; exit 3", NULL);
	printf("%d\n", end_of(child));
	return GOOD;
}

static int run_signalfd(void)
{
	struct signalfd_siginfo info[8];
	sigset_t set;
	int fd, n;

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	fd = signalfd(-1, &set, 0);
	for (int i = 0; i < 4; i++)
		sigqueue(getpid(), SIGRTMIN + i, (union sigval){.sival_int = i * 7});
	run_threads(10);
	n = (int)(read(fd, info, sizeof(info)) / (ssize_t)sizeof(*info));
	for (int i = 0; i < n; i++)
		printf("%d:%d ", info[i].ssi_signo, info[i].ssi_int);
	puts("");
	return GOOD;
}

static int run_stopped(void)
{
	int status, seen = 0;
	pid_t child = fork();

	if (!child) {
		raise(SIGSTOP);
		usleep(1000);
		raise(SIGTSTP);
		_exit(6);
	}
	while (waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status)) {
		printf("%d ", WSTOPSIG(status));
		if (++seen < 9)
			kill(child, SIGCONT);
	}
	printf("%d\n", WEXITSTATUS(status));
	return GOOD;
}

static int run_daemon(void)
{
	char text[32] = "";
	int ends[2];

	if (pipe(ends))
		return 1;
	if (!fork()) {
		setsid();
		if (fork())
			_exit(0);
		for (int fd = 0; fd < 64; fd++)
			if (fd != ends[1])
				close(fd);
		usleep(20000);
		_exit(write(ends[1], "from the daemon", 15) != 15);
	}
	close(ends[1]);
	wait(NULL);
	printf("%zd %s\n", read(ends[0], text, sizeof(text) - 1), text);
	return GOOD;
}

static int run_clone3(void)
{
	uint64_t args[11] = {[4] = SIGCHLD};
	long child = syscall(435, args, sizeof(args));

	if (!child)
		syscall(SYS_exit_group, 8);
	printf("%d\n", child > 0 ? end_of((pid_t)child) : 8);
	return GOOD;
}

static int run_landlock(void)
{
	uint64_t rights[2] = {3};
	long rules = syscall(444, rights, 8, 0);

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (rules >= 0 && syscall(446, rules, 0))
		return 1;
	printf("%d\n", run_threads(20));
	return GOOD;
}

static int go_deep(int left)
{
	volatile char room[64 << 10];

	room[0] = (char)left;
	room[sizeof(room) - 1] = 1;
	return left ? go_deep(left - 1) + room[0] * 0 : room[sizeof(room) - 1];
}

static void *run_deep(void *arg)
{
	usleep(100);
	return go_deep(4000) ? arg : NULL;
}

static int run_stack(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	void *got = NULL;
	int here;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, (size_t)512 << 20);
	if (pthread_create(&thread, &attr, run_deep, &here))
		return GOOD;
	pthread_join(thread, &got);
	printf("%d\n", got == &here);
	return GOOD;
}

static sigjmp_buf back;

static void jump_back(int sig)
{
	siglongjmp(back, sig);
}

static int overflow(int n)
{
	volatile char room[4096];

	room[n % 4096] = 1;
	return n < 0 ? 0 : overflow(n + 1) + room[0];
}

static int run_overflow(void)
{
	static char other[64 << 10];
	struct sigaction action = {.sa_handler = jump_back, .sa_flags = SA_ONSTACK};
	stack_t stack = {.ss_sp = other, .ss_size = sizeof(other)};
	volatile int times = 0;

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigsetjmp(back, 1);
	if (times++ < 3)
		overflow(0);
	sigaltstack(NULL, &stack);
	printf("%d %d %d\n", times, stack.ss_sp == (void *)other, run_threads(5));
	return GOOD;
}

static int run_grown(void)
{
	size_t size = 1 << 16;
	char *low = mmap(NULL, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *at;

	munmap(low, 64 << 20);
	at = mmap(low + (60 << 20), size, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
	if (at == MAP_FAILED)
		return GOOD;
	for (size_t i = 0; i < 1 << 20; i += 4096)
		at[-(ptrdiff_t)i] = 1;
	printf("%d\n", run_threads(5));
	return GOOD;
}

static int run_rseq(void)
{
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");

	if (offset && size && *size)
		syscall(SYS_rseq, (char *)__builtin_thread_pointer() + *offset, 32, 1, 0x53053053);
	printf("%d %d\n", run_threads(20), sched_getcpu() >= 0);
	return GOOD;
}

static int run_listed(void)
{
	char text[1 << 16];
	int found = 0, fds = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(text, sizeof(text), maps)) {
		uintptr_t from, to;

		found += sscanf(text, "%lx-%lx", &from, &to) == 2 &&
			 (uintptr_t)&run_listed >= from && (uintptr_t)&run_listed < to;
	}
	if (maps)
		fclose(maps);
	for (int fd = 0; fd < 1024; fd++)
		fds += fcntl(fd, F_GETFD) >= 0;
	printf("%d %d %lu %s\n", found, fds, getauxval(AT_SECURE),
	       strrchr((const char *)getauxval(AT_EXECFN), '/'));
	return GOOD;
}

static volatile sig_atomic_t alarms;

static void count_alarm(int sig)
{
	alarms += sig != 0;
}

static int run_profiled(void)
{
	static const int kinds[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
	static const int signals[] = {SIGALRM, SIGVTALRM, SIGPROF};
	const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};

	for (int i = 0; i < 3; i++) {
		alarms = 0;
		signal(signals[i], count_alarm);
		setitimer(kinds[i], &often, NULL);
		while (alarms < 20)
			;
		setitimer(kinds[i], &never, NULL);
		printf("%d ", alarms >= 20);
	}
	puts("");
	return GOOD;
}

static pthread_mutex_t robust;

static void *die_holding(void *arg)
{
	pthread_mutex_lock(&robust);
	return arg;
}

static int run_robust(void)
{
	pthread_mutexattr_t attr;
	pthread_t thread;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &attr);
	pthread_create(&thread, NULL, die_holding, NULL);
	pthread_join(thread, NULL);
	printf("%d\n", pthread_mutex_lock(&robust) == EOWNERDEAD);
	return GOOD;
}

static void say_end(void)
{
	(void)!write(1, "at exit\n", 8);
}

static void *exit_there(void *arg)
{
	usleep(10000);
	exit(arg ? 1 : GOOD);
}

/* The first thread has gone before the process ends. */
static int run_headless(void)
{
	pthread_t thread;

	atexit(say_end);
	pthread_create(&thread, NULL, exit_there, NULL);
	pthread_exit(NULL);
}

static int run_quick(void)
{
	atexit(say_end);
	at_quick_exit(say_end);
	run_threads(5);
	quick_exit(GOOD);
}

static int run_space(void)
{
	void *other = dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW | RTLD_LOCAL);
	double (*cosine)(double) = NULL;

	if (other)
		*(void **)&cosine = dlsym(other, "cos");
	printf("%d %d\n", !cosine || cosine(0) == 1, run_threads(10));
	return GOOD;
}

static int run_reaper(void)
{
	int ends = 0, sum = 0, status;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int i = 0; i < 5; i++)
		if (!fork()) {
			if (!fork()) {
				/* Harmless: the parent may end just now. */
				prctl(PR_SET_PDEATHSIG, SIGCHLD);
				prctl(PR_SET_PDEATHSIG, 0);
				usleep(5000);
				_exit(10);
			}
			_exit(1);
		}
	while (wait(&status) > 0) {
		ends++;
		sum += WEXITSTATUS(status);
	}
	printf("%d %d\n", ends, sum);
	return GOOD;
}

static int run_passed(void)
{
	char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int ends[2], fd = open("/dev/null", O_RDONLY), got = -1;

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(int));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) || sendmsg(ends[0], &message, 0) != 1 ||
	    recvmsg(ends[1], &message, 0) != 1)
		return 1;
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	printf("%d %d\n", fd, got);
	return GOOD;
}

static char *page;
static volatile sig_atomic_t faults;

static void open_page(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	faults++;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

/* As collectors of garbage do. */
static int run_guarded(void)
{
	struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
	char text[16] = "";
	int fd = open("/proc/self/stat", O_RDONLY);

	sigaction(SIGSEGV, &action, NULL);
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 100; i++) {
		mprotect(page, 4096, PROT_NONE);
		page[i] = 1;
	}
	mprotect(page, 4096, PROT_NONE);
	printf("%d %d\n", (int)faults, read(fd, page, 16) < 0 && errno == EFAULT);
	return read(fd, text, 1) == 1 ? GOOD : 1;
}

static void end_at_abort(int sig)
{
	(void)!write(1, "aborted\n", 8);
	(void)sig;
}

static int run_abort(void)
{
	struct rlimit none = {0, 0};
	pid_t child;

	setrlimit(RLIMIT_CORE, &none);
	child = fork();
	if (!child) {
		signal(SIGABRT, end_at_abort);
		abort();
	}
	printf("%d\n", end_of(child));
	return GOOD;
}

static int run_spied(void)
{
	static int value = 4711;
	int seen = 0;
	pid_t child = fork();
	struct iovec here = {&seen, sizeof(seen)}, there = {&value, sizeof(value)};

	if (!child) {
		pause();
		_exit(0);
	}
	usleep(5000);
	process_vm_readv(child, &here, 1, &there, 1, 0);
	kill(child, SIGKILL);
	printf("%d %d\n", seen, end_of(child));
	return GOOD;
}

static void *exec_there(void *arg)
{
	execl("/bin/sh", "sh", "-c", "echo instead; exit 5", NULL);
	return arg;
}

static int run_replaced(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, touch, NULL);
	pthread_create(&threads[2], NULL, exec_there, NULL);
	sleep(60);
	return 1;
}

static int run_reserved(void)
{
	size_t size = (size_t)1 << 42;
	char *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int joined = run_threads(5);
	char *end = sbrk(1 << 20);

	printf("%d %d %d\n", at != MAP_FAILED, sbrk(0) == end + (1 << 20), joined);
	return GOOD;
}

static int run_events(void)
{
	struct itimerspec soon = {.it_value = {0, 1000000}};
	struct epoll_event event = {.events = EPOLLIN}, got[4];
	int all = epoll_create1(0), counter = eventfd(3, 0),
	    timer = timerfd_create(CLOCK_MONOTONIC, 0), seen = 0;
	uint64_t n;

	timerfd_settime(timer, 0, &soon, NULL);
	event.data.fd = counter;
	epoll_ctl(all, EPOLL_CTL_ADD, counter, &event);
	event.data.fd = timer;
	epoll_ctl(all, EPOLL_CTL_ADD, timer, &event);
	while (seen < 2) {
		int ready = epoll_wait(all, got, 4, 5000);

		if (ready <= 0)
			return 1;
		for (int i = 0; i < ready; i++) {
			if (read(got[i].data.fd, &n, 8) != 8)
				return 1;
			seen++;
		}
	}
	printf("%d %d\n", counter, timer);
	return GOOD;
}

static int run_sealed(void)
{
	void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	syscall(462, at, 4096, 0); /* mseal */
	mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
	printf("%d\n", run_threads(5));
	return GOOD;
}

static const struct {
	const char *name;
	int (*run)(void);
	const char *what;
} cases[] = {
	{"uring", run_uring, "a ring of io_uring"},
	{"pidfd", run_pidfd, "waits for a child by its descriptor"},
	{"closed", run_closed, "closes all descriptors but three"},
	{"hidden", run_hidden, "may not be looked at (PR_SET_DUMPABLE)"},
	{"signalfd", run_signalfd, "reads its signals"},
	{"stopped", run_stopped, "a child that stops itself"},
	{"daemon", run_daemon, "forks twice, closes all, writes later"},
	{"clone3", run_clone3, "a child by clone3"},
	{"landlock", run_landlock, "may open no file"},
	{"stack", run_stack, "uses 250 MiB of a thread's stack"},
	{"overflow", run_overflow, "survives that its stack overflows"},
	{"grown", run_grown, "memory that grows down"},
	{"rseq", run_rseq, "gives restartable sequences back"},
	{"listed", run_listed, "looks at its maps, descriptors and auxiliary vector"},
	{"profiled", run_profiled, "every interval timer"},
	{"robust", run_robust, "a mutex whose owner has ended"},
	{"headless", run_headless, "its first thread ends first"},
	{"quick", run_quick, "ends by quick_exit"},
	{"space", run_space, "a library in a name space of its own"},
	{"reaper", run_reaper, "waits for its children's children"},
	{"passed", run_passed, "sends itself a descriptor"},
	{"guarded", run_guarded, "faults on its own pages, and has the kernel do so"},
	{"abort", run_abort, "catches SIGABRT and ends all the same"},
	{"spied", run_spied, "reads a child's memory"},
	{"replaced", run_replaced, "a thread starts another program"},
	{"reserved", run_reserved, "reserves 4 TiB"},
	{"events", run_events, "epoll, eventfd and timerfd"},
	{"sealed", run_sealed, "sealed and locked memory"},
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(argv[1], cases[i].name))
			return cases[i].run();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		printf("%-10s %s\n", cases[i].name, cases[i].what);
	return 99;
}
