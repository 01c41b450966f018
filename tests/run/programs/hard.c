/*
 * hard.c - burns CPU time where call stacks are hard to follow. Built with optimisation and without
 * frame pointers.
 *
 *   deep N MS      in the innermost of N calls of a function by itself
 *   longjmp MS     after jumps out of functions that had called on
 *   coroutine MS   on stacks of coroutines, by turns with the thread's own
 *   plt MS         in calls of a tiny function of a library, through the procedure linkage table
 *   vdso MS        in the kernel's code that every process has mapped
 *   tail MS        in a function to which its caller's callee has jumped
 *   jit MS         in code that it made itself, with a perf map
 *   dlclose MS A B in spin_here of library A, which it then unloads, and in that of B
 *   altstack MS    in a signal handler on an alternate stack, which interrupted a function
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
#define HERE() \
	__asm__ volatile("") /* after a call: it is none that the compiler could make a jump */

__attribute__((visibility("default"))) void tiny(void); /* spinlib.c */

static long ms;
static volatile unsigned long sink;

static clock_t from_now(long milliseconds)
{
	return clock() + milliseconds * (CLOCKS_PER_SEC / 1000);
}

static NOINLINE void burn(long milliseconds)
{
	clock_t end = from_now(milliseconds);

	while (clock() < end)
		for (int i = 0; i < 20000; i++)
			sink += (unsigned long)i;
}

static NOINLINE int recurse(int n)
{
	volatile char room[40];

	room[n % 40] = (char)n;
	if (n > 1)
		n = recurse(n - 1);
	else
		burn(ms);
	HERE();
	return n + room[0];
}

static jmp_buf back;

static NOINLINE void thrower(int depth)
{
	if (depth == ms + 1000000) /* never */
		return;
	if (depth)
		thrower(depth - 1);
	else
		longjmp(back, 1);
	HERE();
}

static NOINLINE void after_jumps(void)
{
	for (volatile long i = 0; i < ms; i++) {
		if (!setjmp(back))
			thrower(50);
		burn(1);
	}
}

static ucontext_t thread_own, coroutine[2];

static NOINLINE void co_inner(long milliseconds)
{
	burn(milliseconds);
	HERE();
}

static void co_body(void)
{
	for (;;) {
		co_inner(2);
		swapcontext(&coroutine[0], &thread_own);
	}
}

static NOINLINE void coroutines(void)
{
	char *stack = malloc(65536);

	getcontext(&coroutine[0]);
	coroutine[0].uc_stack.ss_sp = stack;
	coroutine[0].uc_stack.ss_size = 65536;
	makecontext(&coroutine[0], co_body, 0);
	for (long i = 0; i < ms / 4; i++) {
		swapcontext(&thread_own, &coroutine[0]);
		burn(2);
	}
	free(stack);
}

static NOINLINE void calls_plt(void)
{
	clock_t end = from_now(ms);

	while (clock() < end)
		for (int i = 0; i < 20000; i++)
			tiny();
}

static NOINLINE void calls_vdso(void)
{
	clock_t end = from_now(ms);
	struct timespec time;

	while (clock() < end)
		for (int i = 0; i < 20000; i++)
			clock_gettime(CLOCK_MONOTONIC, &time);
}

static NOINLINE void tail_callee(long milliseconds)
{
	sink++; /* so that it is not the same code as co_inner */
	burn(milliseconds);
	HERE();
}

static NOINLINE void jumps_on(long milliseconds)
{
	sink++;
	tail_callee(milliseconds);
}

static NOINLINE void outer_of_tail(void)
{
	jumps_on(ms);
	HERE();
}

#if defined(__x86_64__)
/* push rbp; mov rbp, rsp; mov ecx, 1000000; dec ecx; jnz -2; pop rbp; ret */
static const uint8_t spin_code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x42, 0x0f,
				    0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
#elif defined(__aarch64__)
/* stp x29, x30, [sp, #-16]!; mov x29, sp; mov w0, #0xf0000; subs w0, w0, #1; b.ne -4; ldp x29, x30,
 * [sp], #16; ret */
static const uint8_t spin_code[] = {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0xe0, 0x01,
				    0xa0, 0x52, 0x00, 0x04, 0x00, 0x71, 0xe1, 0xff, 0xff, 0x54,
				    0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
#endif

static NOINLINE void calls_generated(void)
{
	clock_t end = from_now(ms);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     path[64];
	FILE *file;

	memcpy(page + 64, spin_code, sizeof(spin_code));
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache(page, page + 4096);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	file = fopen(path, "w");
	fprintf(file, "%llx %zx generated_spin\n", (unsigned long long)(uintptr_t)page + 64,
		sizeof(spin_code));
	fclose(file);
	while (clock() < end)
		((void (*)(void))(uintptr_t)(page + 64))();
}

static NOINLINE void in_library(const char *path)
{
	void *h = dlopen(path, RTLD_NOW);
	void (*spin)(clock_t) = h ? (void (*)(clock_t))dlsym(h, "spin_here") : NULL;

	if (!spin) {
		fprintf(stderr, "hard: %s\n", dlerror());
		exit(3);
	}
	spin(from_now(ms));
	dlclose(h);
}

static volatile sig_atomic_t done;

static NOINLINE void in_handler(int sig)
{
	(void)sig;
	burn(ms);
	done = 1;
}

static NOINLINE void interrupted(void)
{
	while (!done)
		sink++;
}

static NOINLINE void under_handler(void)
{
	stack_t s = {.ss_sp = malloc(65536), .ss_size = 65536};
	struct sigaction sa = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};
	struct itimerval soon = {.it_value = {.tv_usec = 20000}};

	sigaltstack(&s, NULL);
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	interrupted();
	HERE();
}

int main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	ms = argc > 2 ? atol(argv[argc > 3 && !strcmp(what, "deep") ? 3 : 2]) : 0;
	if (!strcmp(what, "deep") && argc > 3)
		recurse(atoi(argv[2]));
	else if (!strcmp(what, "longjmp"))
		after_jumps();
	else if (!strcmp(what, "coroutine"))
		coroutines();
	else if (!strcmp(what, "plt"))
		calls_plt();
	else if (!strcmp(what, "vdso"))
		calls_vdso();
	else if (!strcmp(what, "tail"))
		outer_of_tail();
	else if (!strcmp(what, "jit"))
		calls_generated();
	else if (!strcmp(what, "dlclose") && argc > 4) {
		in_library(argv[3]);
		in_library(argv[4]);
	} else if (!strcmp(what, "altstack"))
		under_handler();
	else
		return 2;
	return 0;
}
