/*
 * filtered.c - what a program does under a filter that ends it for system calls which the C library
 * does not make for that, one case each: filtered CASE [syscall].
 *
 *   threads  a hundred threads, ten at a time, that rest
 *   fork     children, the last of which starts threads
 *   clone    children in the same memory, on their parent's thread storage
 *   spawn    a program by posix_spawn
 *   system   a shell
 *   exec     another program in its place
 *   compute  nothing but computing: not even handlers of signals may return
 *   control  a shell, where only fcntl is forbidden
 *   end      nothing, where only openat is forbidden
 *
 * The filter is installed by prctl, or by syscall(). Ends with 5; 77 where there are no filters.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALSO_OWN_NUMBERS 1
#define ALSO_HANDLERS 2

extern char **environ;

static const int forbidden[] = {SYS_timer_create, SYS_timer_settime, SYS_timer_delete,
				SYS_prctl,	  SYS_readlinkat,    SYS_mremap,
				SYS_munlock,	  SYS_fallocate,     SYS_sigaltstack,
				SYS_flock,	  SYS_gettid,	     SYS_process_vm_readv};
static const int own_numbers[] = {SYS_getpid, SYS_getppid};

static int forbid(struct sock_filter *to, int n, int call)
{
	to[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1);
	to[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	return n;
}

/* `only`: the one call that is forbidden; 0: those above. */
static int install(int also, int only, int by_syscall)
{
	struct sock_filter filter[64] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	struct sock_fprog program = {0, filter};
	int n = 1;

	for (size_t i = 0; !only && i < sizeof(forbidden) / sizeof(*forbidden); i++)
		n = forbid(filter, n, forbidden[i]);
	if (only)
		n = forbid(filter, n, only);
	for (size_t i = 0; also & ALSO_OWN_NUMBERS && i < 2; i++)
		n = forbid(filter, n, own_numbers[i]);
	if (also & ALSO_HANDLERS)
		n = forbid(filter, n, SYS_rt_sigreturn);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	if (by_syscall)
		return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *rest(void *arg)
{
	usleep(100);
	return arg;
}

static int run_threads(void)
{
	pthread_t threads[10];
	int joined = 0;

	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 10; i++)
			if (pthread_create(&threads[i], NULL, rest, NULL))
				return 1;
		for (int i = 0; i < 10; i++)
			joined += !pthread_join(threads[i], NULL);
	}
	printf("%d threads\n", joined);
	return 5;
}

static int run_fork(void)
{
	int status, sum = 0;

	for (int i = 0; i < 10; i++) {
		pid_t child = fork();

		if (!child) {
			usleep(100);
			if (i == 9)
				run_threads();
			fflush(stdout);
			_exit(i);
		}
		if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
			return 1;
		sum += WEXITSTATUS(status);
	}
	printf("%d\n", sum);
	return 5;
}

static int rest_on_other_stack(void *arg)
{
	rest(arg);
	return 3;
}

static int run_clone(void)
{
	static char stacks[4][65536] __attribute__((aligned(16)));
	pid_t children[4];
	int status, sum = 0;

	for (int i = 0; i < 4; i++)
		children[i] = clone(rest_on_other_stack, stacks[i] + sizeof(stacks[i]),
				    CLONE_VM | SIGCHLD, NULL);
	for (int i = 0; i < 4; i++)
		if (waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status))
			sum += WEXITSTATUS(status);
	printf("%d\n", sum);
	return 5;
}

static int run_spawn(void)
{
	char *words[] = {"echo", "spawned", NULL};
	int status;
	pid_t child;

	if (posix_spawnp(&child, "echo", NULL, NULL, words, environ) ||
	    waitpid(child, &status, 0) != child)
		return 1;
	printf("%d\n", status);
	return 5;
}

static int run_system(void)
{
	printf("%d\n", system("echo in; exit 3"));
	return 5;
}

static int run_exec(void)
{
	execl("/bin/sh", "sh", "-c", "echo in place; exit 5", (char *)NULL);
	return 1;
}

static int run_compute(void)
{
	clock_t end = clock() + CLOCKS_PER_SEC / 10;
	unsigned long steps = 0;

	while (clock() < end)
		steps++;
	puts(steps ? "computed" : "");
	return 5;
}

static int run_end(void)
{
	puts("ends");
	return 5;
}

static const struct {
	const char *name;
	int (*run)(void);
	int also, only;
} cases[] = {
	{"threads", run_threads, ALSO_OWN_NUMBERS},
	{"fork", run_fork, ALSO_OWN_NUMBERS},
	{"clone", run_clone, ALSO_OWN_NUMBERS},
	{"spawn", run_spawn, 0},
	{"system", run_system, 0},
	{"exec", run_exec, 0},
	{"compute", run_compute, ALSO_HANDLERS},
	{"control", run_system, 0, SYS_fcntl},
	{"end", run_end, 0, SYS_openat},
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		return install(cases[i].also, cases[i].only, argc > 2) ? 77 : cases[i].run();
	}
	return 98;
}
