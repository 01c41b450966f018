/*
 * sharers.c - children that run in this process's memory and on its thread-local storage
 * (clone with CLONE_VM, without CLONE_SETTLS), several at once and beside their parent, all in
 * calls that are traced: sharers [ROUNDS]. The children keep to system calls that need no memory.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 6, CALLS = 3000, STACK = 64 << 10 };

static void make_calls(int calls)
{
	char byte;

	for (int i = 0; i < calls; i++) {
		int fd = open("/dev/null", O_RDWR);

		if (read(fd, &byte, 1) != 0 || write(fd, "x", 1) != 1)
			_exit(3);
		close(fd);
	}
}

static int run_child(void *status)
{
	make_calls(CALLS);
	_exit((int)(long)status);
}

static int run_round(char *stacks)
{
	int sum = 0, status;
	pid_t pids[CHILDREN];

	for (long i = 0; i < CHILDREN; i++) {
		pids[i] = clone(run_child, stacks + (i + 1) * STACK, CLONE_VM | SIGCHLD,
				(void *)(i + 1));
		if (pids[i] < 0)
			return -1;
	}
	make_calls(CALLS);
	for (int i = 0; i < CHILDREN; i++) {
		if (waitpid(pids[i], &status, 0) != pids[i] || !WIFEXITED(status))
			return -1;
		sum += WEXITSTATUS(status);
	}
	return sum;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	char *stacks = mmap(NULL, CHILDREN * STACK, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stacks == MAP_FAILED)
		return 99;
	for (int i = 0; i < rounds; i++)
		printf("round %d: %d\n", i, run_round(stacks));
	return 5;
}
