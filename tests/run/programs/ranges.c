/*
 * ranges.c - NVTX ranges in numbers that are known, through warpsight/annotate.h, one case each:
 * ranges CASE [N [THREADS]].
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "warpsight/annotate.h"

static int n = 10, threads = 4;

static void push_in(ws_domain domain, const char *text)
{
	ws_event event = ws_event_text(domain, text);

	ws_range_push_event(&event);
}

static int c_nested(void) /* n of outer, 2n of middle, 6n of leaf */
{
	for (int i = 0; i < n; i++) {
		ws_range_push("outer");
		for (int k = 0; k < 2; k++) {
			ws_range_push("middle");
			for (int l = 0; l < 3; l++) {
				ws_range_push("leaf");
				ws_range_pop();
			}
			ws_range_pop();
		}
		ws_range_pop();
	}
	puts("nested");
	return 0;
}

static int c_domains(void) /* two domains, whose ranges interleave without nesting */
{
	ws_domain left = ws_domain_create("alpha"), right = ws_domain_create("beta");

	for (int i = 0; i < n; i++) {
		push_in(left, "in alpha");
		push_in(right, "in beta");
		ws_range_pop_in(left);
		ws_range_pop_in(right);
		ws_range_push("in neither");
		ws_range_pop();
	}
	puts("domains");
	return 0;
}

static int filter_by_prctl(struct sock_fprog *program)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
}

/* As libraries do that know the calls by their numbers only. */
static int filter_by_number(struct sock_fprog *program)
{
	return syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
}

/* n ranges in a program that is killed by any system call but the few that it needs itself. */
static int shut_in(int (*filter)(struct sock_fprog *program))
{
#define ALLOW(call)                                            \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(write),
		ALLOW(fstat),
		ALLOW(newfstatat),
		ALLOW(exit_group),
		ALLOW(mmap),
		ALLOW(brk),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
	char name[32];

	ws_range_push("open"); /* looks for a tool, which takes system calls */
	ws_range_pop();
	if (filter(&program))
		return 77; /* no such thing here */
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "range %d", i % 1000);
		ws_range_push(name);
		ws_range_pop();
	}
	return write(1, "shut\n", 5) != 5;
}

static int c_shut(void)
{
	return shut_in(filter_by_prctl);
}

/* Of syscall() itself: the most arguments, a result, and an error. */
static int is_syscall_whole(void)
{
	long page = syscall(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	errno = 0;
	return page != -1 && !munmap((void *)page, 4096) && syscall(SYS_getpid) == getpid() &&
	       syscall(SYS_close, -1) == -1 && errno == EBADF &&
	       syscall(SYS_prctl, PR_GET_DUMPABLE) == prctl(PR_GET_DUMPABLE) &&
	       syscall(SYS_seccomp, 77, 0, NULL) == -1 && errno == EINVAL;
}

static int c_shutbynumber(void)
{
	return is_syscall_whole() ? shut_in(filter_by_number) : 1;
}

static ws_range_id handed[100000];

static void *ends(void *unused)
{
	(void)unused;
	for (int i = 0; i < n; i++)
		ws_range_end(handed[i]);
	return NULL;
}

static int c_startend(void) /* started on one thread, ended on another */
{
	pthread_t thread;

	for (int i = 0; i < n; i++)
		handed[i] = ws_range_start(i % 2 ? "odd" : "even");
	pthread_create(&thread, NULL, ends, NULL);
	pthread_join(thread, NULL);
	puts("started and ended");
	return 0;
}

static void *pushes(void *name)
{
	for (int i = 0; i < n; i++) {
		ws_range_push(name);
		ws_range_pop();
	}
	return NULL;
}

static int c_threads(void)
{
	pthread_t thread[64];
	char names[64][24];

	for (int i = 0; i < threads; i++) {
		snprintf(names[i], sizeof(names[i]), "thread %d", i);
		pthread_create(&thread[i], NULL, pushes, names[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	puts("threads");
	return 0;
}

static int c_open(void) /* ends with three ranges pushed and one started */
{
	ws_range_push("left open 1");
	ws_range_push("left open 2");
	ws_range_push("closed");
	ws_range_pop();
	ws_range_push("left open 3");
	ws_range_start("never ended");
	puts("open");
	return 0;
}

static int c_open_killed(void) /* the same, by SIGKILL */
{
	ws_range_push("left open 1");
	ws_range_push("left open 2");
	ws_range_push("closed");
	ws_range_pop();
	ws_range_start("never ended");
	fflush(stdout);
	kill(getpid(), SIGKILL);
	return 0;
}

static int c_marks(void)
{
	for (int i = 0; i < n; i++)
		ws_mark("here");
	puts("marks");
	return 0;
}

static int c_mixed(void) /* ranges and calls */
{
	for (int i = 0; i < n; i++) {
		ws_range_push("sleeping");
		usleep(1000);
		ws_range_pop();
	}
	puts("mixed");
	return 0;
}

static int c_strings(void) /* plain, registered, from a reused buffer, unique, long, odd */
{
	ws_string r = ws_string_register(NULL, "registered");
	char buf[64], *longer = malloc(100001);

	for (int i = 0; i < n; i++) {
		ws_range_push("plain");
		ws_range_pop();
		ws_range_push_in(NULL, r);
		ws_range_pop();
		snprintf(buf, sizeof(buf), "reused %d", i % 4);
		ws_range_push(buf);
		ws_range_pop();
		snprintf(buf, sizeof(buf), "unique %d", i);
		ws_range_push(buf);
		ws_range_pop();
	}
	memset(longer, 'l', 100000);
	longer[100000] = 0;
	ws_range_push(longer);
	ws_range_pop();
	ws_range_push("");
	ws_range_pop();
	ws_range_push("quotes \" and, commas; t\tb \\ \xc3\xa9\xe2\x82\xac");
	ws_range_pop();
	free(longer);
	puts("strings");
	return 0;
}

static int c_fork(
	void) /* parent and child both have ranges; one of the parent's is open at the fork */
{
	int st;
	pid_t pid;

	ws_range_push("around the fork");
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < n; i++) {
			ws_range_push("in the child");
			ws_range_pop();
		}
		_exit(0);
	}
	for (int i = 0; i < n; i++) {
		ws_range_push("in the parent");
		ws_range_pop();
	}
	waitpid(pid, &st, 0);
	ws_range_pop();
	puts("forked");
	return st;
}

static int c_vfork(void) /* ranges around vfork children; none may be lost or doubled */
{
	for (volatile int i = 0; i < n; i++) {
		int st;
		pid_t pid;

		ws_range_push("around vfork");
		pid = vfork();
		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		ws_range_push("after vfork");
		ws_range_pop();
		waitpid(pid, &st, 0);
		ws_range_pop();
	}
	puts("vforked");
	return 0;
}

static jmp_buf back;

static void leave(int depth)
{
	ws_range_push("left by longjmp");
	if (depth == 0)
		longjmp(back, n);
	if (depth < 10)
		leave(depth - 1);
	ws_range_pop();
}

static int c_longjmp(void) /* ranges left open by longjmp stay on the stack, as NVTX says: the
			      program pops them */
{
	for (volatile int i = 0; i < n; i++) {
		if (setjmp(back) == 0)
			leave(2);
		for (int k = 0; k < 3; k++)
			ws_range_pop();
	}
	ws_range_push("after");
	ws_range_pop();
	puts("jumped");
	return 0;
}

static int c_deep(void) /* n levels of nesting */
{
	for (int i = 0; i < n; i++)
		ws_range_push("deep");
	for (int i = 0; i < n; i++)
		ws_range_pop();
	puts("deep");
	return 0;
}

static int c_pops(void) /* pops without a push must do no harm */
{
	for (int i = 0; i < n; i++)
		ws_range_pop();
	ws_range_push("one");
	ws_range_pop();
	ws_range_pop();
	puts("popped");
	return 0;
}

static volatile sig_atomic_t in_child, forks;

static void fork_in_handler(int sig)
{
	pid_t pid = in_child || forks >= n
			    ? -1
			    : fork(); /* the timer may go off once more before it is turned off */

	(void)sig;
	if (!pid)
		in_child = 1;
	else
		forks += pid > 0;
}

static int c_handler_forks(void) /* n children, forked wherever a timer interrupts the recording, go
				    on with it for a while */
{
	struct sigaction sa = {.sa_handler = fork_in_handler, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
	int status, ended = 0, failed = 0, more = 0;
	char name[32];

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	for (unsigned i = 0; forks < n && more < 5000; i++) {
		snprintf(name, sizeof(name), "range %u", i % 1000);
		ws_range_push(name);
		ws_range_pop();
		more += in_child;
	}
	if (in_child)
		_exit(0);
	setitimer(ITIMER_REAL, &never, NULL);
	while (wait(&status) > 0) {
		ended++;
		failed += status != 0;
	}
	printf("%d children, %d failed\n", ended, failed);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{"nested", c_nested},
	{"domains", c_domains},
	{"shut", c_shut},
	{"shutbynumber", c_shutbynumber},
	{"startend", c_startend},
	{"threads", c_threads},
	{"open", c_open},
	{"open-killed", c_open_killed},
	{"marks", c_marks},
	{"mixed", c_mixed},
	{"strings", c_strings},
	{"fork", c_fork},
	{"vfork", c_vfork},
	{"longjmp", c_longjmp},
	{"deep", c_deep},
	{"pops", c_pops},
	{"handler-forks", c_handler_forks},
};

int main(int argc, char **argv)
{
	if (argc > 2)
		n = atoi(argv[2]);
	if (argc > 3)
		threads = atoi(argv[3]);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, argv[1]))
			return cases[i].run();
	fprintf(stderr, "ranges: no such case\n");
	return 98;
}
