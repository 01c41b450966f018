/*
 * app.c - system calls in known numbers: in two threads, in a forked child, and in an image that a
 * vfork child runs (app child). run.py compares them with the report. `app many`: as many as a core
 * can make in a while.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void repeat(long number, int times)
{
	for (int i = 0; i < times; i++)
		syscall(number);
}

static void *run_thread(void *arg)
{
	repeat(SYS_getgid, 7);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc > 1 && !strcmp(argv[1], "many")) {
		repeat(SYS_getuid, 2000000);
		return 0;
	}
	if (argc > 1) {
		repeat(SYS_geteuid, 5);
		return 0;
	}
	repeat(SYS_getuid, 50);
	syscall(SYS_close, -1);
	pthread_create(&thread, NULL, run_thread, NULL);
	pthread_join(thread, NULL);
	if (!fork()) {
		repeat(SYS_getegid, 11);
		_exit(0);
	}
	wait(NULL);
	if (!vfork()) {
		execl(argv[0], argv[0], "child", (char *)NULL);
		_exit(1);
	}
	wait(NULL);
	puts("done");
	return 0;
}
