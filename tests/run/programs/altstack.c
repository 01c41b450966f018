/*
 * altstack.c - burns CPU time in a signal handler that stands on an alternate stack.
 *
 * altstack MS: outer calls interrupted, which spins until an alarm's handler has burned MS
 * milliseconds of CPU time. Built with frame pointers and without optimisation, so that each
 * function has its frame.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t done;
static long burn_ms;

static void in_handler(int sig)
{
	clock_t begin = clock();

	(void)sig;
	while (clock() - begin < burn_ms * (CLOCKS_PER_SEC / 1000))
		for (volatile int i = 0; i < 100000; i++)
			;
	done = 1;
}

static void interrupted(void)
{
	volatile long spins = 0;

	while (!done)
		spins++;
}

static void outer(void)
{
	volatile long calls = 0;

	interrupted();
	calls++;
}

int main(int argc, char **argv)
{
	stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
	struct sigaction sa = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
	struct itimerval soon = {.it_value = {.tv_usec = 50000}};

	burn_ms = argc > 1 ? atol(argv[1]) : 500;
	if (!s.ss_sp || sigaltstack(&s, NULL) || sigaction(SIGALRM, &sa, NULL) ||
	    setitimer(ITIMER_REAL, &soon, NULL))
		return 1;
	outer();
	return 0;
}
