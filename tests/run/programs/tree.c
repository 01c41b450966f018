/*
 * tree.c - ways in which programs start others, end and get in the way of a profiler, one case
 * each: tree CASE [ARG].
 *
 * Output is the same at every run (no pids, no times), so that a recorded run can be compared with
 * a bare one byte by byte. A process that should be seen sleeps 2 ms in usleep, so that it leaves a
 * call behind for the test to find.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/choose.h"

extern char **environ;
static const char *self;
static const char *arg;

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(99);
}

static int die(const char *what)
{
	perror(what);
	return 99;
}

static void work(void)
{
	usleep(2000);
}

/* Wait for one child and pass its status on as a shell would. */
static int child_status(pid_t pid)
{
	int st;

	while (waitpid(pid, &st, 0) < 0)
		if (errno != EINTR)
			return die("waitpid");
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

static int c_work(void)
{
	work();
	say("work\n");
	return arg ? atoi(arg) : 0;
}

static int c_fork(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		work();
		say("child\n");
		exit(7);
	}
	work();
	return child_status(pid);
}

static int c_fork_exit(void) /* the child calls _exit: no exit handlers */
{
	pid_t pid = fork();

	if (pid == 0) {
		work();
		_exit(8);
	}
	return child_status(pid);
}

static int c_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execl(self, self, "work", "9", (char *)NULL);
		_exit(99);
	}
	work();
	return child_status(pid);
}

static int c_vfork_fails(void) /* exec in the vfork child fails; the parent must record on */
{
	volatile int n = 0;

	for (volatile int i = 0; i < 20; i++) {
		pid_t pid = vfork();

		if (pid == 0) {
			execl("/nonexistent/program", "program", (char *)NULL);
			_exit(11);
		}
		work();
		n = n + (child_status(pid) == 11);
	}
	return n;
}

static int c_exec(void)
{
	work();
	execl(self, self, "work", "3", (char *)NULL);
	return die("execl");
}

static int c_exec_fails(void)
{
	execl("/nonexistent/program", "program", (char *)NULL);
	if (errno != ENOENT)
		return die("execl");
	work();
	say("still here\n");
	return 4;
}

static int c_exec_clean(void) /* empty environment */
{
	char *argv[] = {(char *)self, "work", "5", NULL}, *env[] = {NULL};

	work();
	clearenv();
	execve(self, argv, env);
	return die("execve");
}

static int c_clearenv(void)
{
	clearenv();
	return c_fork();
}

static int cloned(void *unused)
{
	(void)unused;
	work();
	say("cloned\n");
	return 6;
}

static int c_clone(void) /* clone() as fork */
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t pid = clone(cloned, stack + sizeof(stack), SIGCHLD, NULL);

	return pid < 0 ? die("clone") : child_status(pid);
}

static int c_clone_raw(void) /* the system call itself: no libc knows of the child */
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0) {
		work();
		say("raw child\n");
		syscall(SYS_exit_group, 12);
	}
	return pid < 0 ? die("clone") : child_status(pid);
}

static int c_clone_vm(void) /* shares memory, as a vfork child does */
{
	static char stack[65536] __attribute__((aligned(16)));
	pid_t pid = clone(cloned, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);

	work();
	return pid < 0 ? die("clone") : child_status(pid);
}

static int c_spawn(void)
{
	char *argv[] = {(char *)self, "work", "13", NULL};
	pid_t pid;
	int err = posix_spawn(&pid, self, NULL, NULL, argv, environ);

	if (err) {
		errno = err;
		return die("posix_spawn");
	}
	work();
	return child_status(pid);
}

static int c_spawn_clean(void) /* posix_spawn with an environment of its own */
{
	char *argv[] = {(char *)self, "work", "13", NULL}, *env[] = {"A=b", NULL};
	pid_t pid;

	if (posix_spawn(&pid, self, NULL, NULL, argv, env))
		return 99;
	return child_status(pid);
}

static long pages(void)
{
	long n = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (!file || fscanf(file, "%ld", &n) != 1)
		n = 0;
	if (file)
		fclose(file);
	return n;
}

static int c_clean_often(void) /* 300 children by vfork and by system, without our environment: what
				  they take is given back */
{
	char *argv[] = {"true", NULL}, *env[] = {NULL};
	long before = 0;

	clearenv();
	for (int i = 0; i < 300; i++) {
		pid_t pid = vfork();

		if (!pid) {
			execve("/bin/true", argv, env);
			_exit(1);
		}
		if (child_status(pid) || system("/bin/true"))
			return 99;
		if (i == 50)
			before = pages();
	}
	if (pages() - before > 64)
		printf("grew by %ld pages\n", pages() - before);
	return 0;
}

static int c_system(void)
{
	char line[4096];
	int st;

	snprintf(line, sizeof(line), "'%s' work 14", self);
	st = system(line);
	work();
	return WEXITSTATUS(st);
}

static int c_popen(void)
{
	char line[4096], got[64] = "";
	FILE *file;

	snprintf(line, sizeof(line), "'%s' work 0", self);
	file = popen(line, "r");
	if (!file || !fgets(got, sizeof(got), file))
		return die("popen");
	fputs(got, stdout);
	return WEXITSTATUS(pclose(file));
}

/* Sleeps of 10 ms until there is a file of this name; returns how many. */
static int sleep_until_there(const char *path)
{
	int n = 0;

	for (; access(path, F_OK); n++)
		usleep(10000);
	return n;
}

static int c_daemon(void) /* double fork and setsid; it works on after its parent has gone */
{
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		if (fork())
			_exit(0);
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		if (arg && (*arg < '0' || *arg > '9'))
			sleep_until_there(arg);
		else
			usleep(arg ? (useconds_t)atoi(arg) * 1000 : 300000);
		FILE *file = fopen("daemon.done", "w");

		if (!file)
			_exit(1);
		fclose(file);
		exit(0);
	}
	return child_status(pid);
}

static int c_reparent(void) /* the middle process goes; the grandchild is another's child now */
{
	int fds[2];
	pid_t pid;
	char letter;

	if (pipe(fds))
		return 99;
	pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			usleep(50000);
			work();
			_exit(0);
		}
		_exit(15);
	}
	close(fds[1]);
	if (read(fds[0], &letter, 1) < 0)
		return 99;
	return child_status(pid);
}

static int c_closefds(void)
{
	int out = dup(1);

	for (int fd = 3; fd < 1024; fd++)
		if (fd != out)
			close(fd);
	syscall(SYS_close_range, (unsigned)out + 1, ~0u, 0);
	work();
	if (fork() == 0) {
		work();
		_exit(0);
	}
	wait(NULL);
	say("closed\n");
	return 0;
}

static int c_closefds_exec(void) /* everything shut, environment cleared, then exec */
{
	char *argv[] = {(char *)self, "work", "16", NULL}, *env[] = {NULL};

	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	clearenv();
	execve(self, argv, env);
	return 99;
}

static int c_forks(void) /* ARG children, one after the other */
{
	int n = arg ? atoi(arg) : 10000, good = 0;

	for (int i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(17);
		if (pid < 0)
			return die("fork");
		good += child_status(pid) == 17;
	}
	printf("%d children\n", good);
	return 0;
}

static int c_forks_working(
	void) /* ARG children that each make a call worth recording, eight at a time */
{
	int n = arg ? atoi(arg) : 100;

	for (int i = 0; i < n; i++) {
		if (i >= 8)
			wait(NULL);
		if (fork() == 0) {
			work();
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	printf("%d children\n", n);
	return 0;
}

static pthread_mutex_t locks[4] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
				   PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static volatile int stop;

static void *lock_user(void *memory)
{
	pthread_mutex_t *mutex = memory;

	while (!stop) {
		pthread_mutex_lock(mutex);
		free(malloc(100));
		usleep(50);
		pthread_mutex_unlock(mutex);
	}
	return NULL;
}

static int c_fork_locks(void) /* forks while other threads hold locks, the allocator's among them */
{
	pthread_t thread[8];
	int good = 0;

	for (int i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, lock_user, &locks[i / 2]);
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			usleep(1);
			free(malloc(1000));
			exit(0);
		}
		good += child_status(pid) == 0;
	}
	stop = 1;
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	printf("%d children\n", good);
	return 0;
}

static int c_threads_exec(void) /* exec while other threads are in calls */
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, lock_user, &locks[i]);
	usleep(20000);
	execl(self, self, "work", "18", (char *)NULL);
	return 99;
}

static int c_crash(void)
{
	volatile int *p = NULL;

	work();
	say("before\n");
	signal(SIGSEGV, SIG_DFL);
	*p = 1;
	return 0;
}

static int c_abort(void)
{
	work();
	abort();
}

static int c_kill(void) /* ends itself by signal ARG */
{
	work();
	kill(getpid(), atoi(arg));
	pause();
	return 99;
}

static int c_empty(void)
{
	return 0;
}

static int c_exit_quick(void)
{
	_exit(19);
}

static int c_cat(void) /* standard input to standard output */
{
	char buf[65536];
	ssize_t n;

	while ((n = read(0, buf, sizeof(buf))) > 0)
		if (write(1, buf, (size_t)n) != n)
			return 20;
	return 0;
}

static int c_flood(void) /* writes until the reader goes */
{
	static char buf[4096];

	memset(buf, 'x', sizeof(buf));
	for (;;)
		if (write(1, buf, sizeof(buf)) < 0)
			return 21;
}

static int c_both(void) /* standard output and error, by turns */
{
	for (int i = 0; i < 3; i++) {
		printf("out %d\n", i);
		fflush(stdout);
		fprintf(stderr, "err %d\n", i);
	}
	return 0;
}

static int c_tty(void)
{
	printf("%d%d%d\n", isatty(0), isatty(1), isatty(2));
	return 0;
}

static void on_signal(int sig)
{
	char s[] = "signal 00\n";

	s[7] += (char)(sig / 10);
	s[8] += (char)(sig % 10);
	say(s);
}

__attribute__((noreturn)) static int c_signals(
	void) /* says READY, then each signal, until SIGQUIT */
{
	sigset_t none;

	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	signal(SIGUSR1, on_signal);
	signal(SIGHUP, on_signal);
	sigemptyset(&none);
	say("READY\n");
	for (;;)
		sigsuspend(&none);
}

static int c_wait(void) /* says READY and sleeps ARG seconds; dies of any signal */
{
	say("READY\n");
	for (int i = 0; i < 100 * (arg ? atoi(arg) : 30); i++)
		usleep(10000);
	say("DONE\n");
	return 0;
}

static int c_until(void) /* says READY, sleeps until there is a file ARG, says how often */
{
	char text[32];

	say("READY\n");
	snprintf(text, sizeof(text), "%d sleeps\n", sleep_until_there(arg));
	say(text);
	return 0;
}

static int c_env(void) /* prints variable ARG */
{
	const char *v = getenv(arg);

	printf("%s=%s\n", arg, ws_text_or(v, "(unset)"));
	return 0;
}

static int c_ours(void) /* names of variables that look like a profiler's, sorted by nature; for
			   checks of what children see */
{
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, "LD_PRELOAD=", 11))
			puts(*e);
	return 0;
}

static int c_ranks(void) /* children with RANK=0..ARG-1, as a launcher makes them */
{
	int n = arg ? atoi(arg) : 3, bad = 0;

	for (int i = 0; i < n; i++)
		if (fork() == 0) {
			char rank[16];

			snprintf(rank, sizeof(rank), "%d", i);
			setenv("RANK", rank, 1);
			execl(self, self, "work", "0", (char *)NULL);
			_exit(99);
		}
	for (int st; wait(&st) > 0;)
		bad += st != 0;
	return bad;
}

static int c_ids(
	void) /* process group, session and parentage are those of a program that runs alone */
{
	printf("%d %d\n", getpgrp() == getpid() || getpgrp() == getppid() || getpgrp() > 0,
	       getsid(0) > 0);
	return 0;
}

static int c_sigstate(void) /* inherited signal dispositions and mask */
{
	sigset_t mask;
	struct sigaction sa;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int i = 1; i < 65; i++) {
		if (sigaction(i, NULL, &sa))
			continue;
		printf("%d%c%c ", i,
		       sa.sa_handler == SIG_IGN	  ? 'i'
		       : sa.sa_handler == SIG_DFL ? 'd'
						  : 'h',
		       sigismember(&mask, i) ? 'b' : '-');
	}
	putchar('\n');
	return 0;
}

static int c_fds(void) /* how many descriptors beside 0, 1, 2 are open, and the lowest free one */
{
	int fd = open("/dev/null", O_RDONLY);

	printf("lowest free %d\n", fd);
	return 0;
}

static void fork_at_exit(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		work();
		_exit(0);
	}
	child_status(pid);
	say("at exit\n");
}

static int c_atexit_fork(void)
{
	atexit(fork_at_exit);
	return 23;
}

static int c_zombie(void) /* leaves a child that it never waits for */
{
	if (fork() == 0) {
		work();
		_exit(0);
	}
	usleep(20000);
	return 0;
}

static int c_tree(void) /* a binary tree of processes ARG levels deep */
{
	int depth = arg ? atoi(arg) : 4;

	for (; depth > 0; depth--) {
		pid_t left = fork(), right = left ? fork() : 1;

		if (left && right) {
			child_status(left);
			child_status(right);
			break;
		}
	}
	work();
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{"work", c_work},
	{"fork", c_fork},
	{"fork-exit", c_fork_exit},
	{"vfork", c_vfork},
	{"vfork-fails", c_vfork_fails},
	{"exec", c_exec},
	{"exec-fails", c_exec_fails},
	{"exec-clean", c_exec_clean},
	{"clearenv", c_clearenv},
	{"clone", c_clone},
	{"clone-raw", c_clone_raw},
	{"clone-vm", c_clone_vm},
	{"spawn", c_spawn},
	{"spawn-clean", c_spawn_clean},
	{"system", c_system},
	{"clean-often", c_clean_often},
	{"popen", c_popen},
	{"daemon", c_daemon},
	{"reparent", c_reparent},
	{"closefds", c_closefds},
	{"closefds-exec", c_closefds_exec},
	{"forks", c_forks},
	{"forks-working", c_forks_working},
	{"fork-locks", c_fork_locks},
	{"threads-exec", c_threads_exec},
	{"crash", c_crash},
	{"abort", c_abort},
	{"kill", c_kill},
	{"empty", c_empty},
	{"exit-quick", c_exit_quick},
	{"cat", c_cat},
	{"flood", c_flood},
	{"both", c_both},
	{"tty", c_tty},
	{"signals", c_signals},
	{"wait", c_wait},
	{"until", c_until},
	{"env", c_env},
	{"ours", c_ours},
	{"ranks", c_ranks},
	{"ids", c_ids},
	{"sigstate", c_sigstate},
	{"fds", c_fds},
	{"atexit-fork", c_atexit_fork},
	{"zombie", c_zombie},
	{"tree", c_tree},
};

int main(int argc, char **argv)
{
	static char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	self = n > 0 ? path : argv[0];
	arg = argc > 2 ? argv[2] : NULL;
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1]))
			return cases[i].run();
	fprintf(stderr, "tree: no such case\n");
	return 98;
}
