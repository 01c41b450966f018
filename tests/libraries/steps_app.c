/*
 * steps_app.c - counts the instructions that the hooks add between two calls of a library, by
 * stepping through them: from the return of the library's MPI_Recv to its MPI_Send (what a message
 * waits for), or for OpenGL, of a whole call. Prints the least of several rounds, because a hook
 * may have something to do in one of them, and of MPI also that after many calls in a short time; 0
 * where the processor does not step.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#ifdef OPENGL
void glBindBuffer(unsigned target, unsigned buffer);
#else
#include "standin_mpi.h"
#endif

enum { MOST_STEPS = 20000, ROUNDS = 20, STORM = 2000 };

static uintptr_t steps[MOST_STEPS];
static volatile int count;

static void note_step(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info;
#if defined(__x86_64__)
	if (count < MOST_STEPS)
		steps[count++] = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
	(void)context;
#endif
}

static inline void set_stepping(int on)
{
#if defined(__x86_64__)
	if (on)
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	else
		__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
#else
	(void)on;
#endif
}

static void call_library(void)
{
#ifdef OPENGL
	glBindBuffer(0x8892, 0);
#else
	char bytes[8] = {0};
	MPI_Status status;

	MPI_Recv(bytes, 8, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status);
	MPI_Send(bytes, 8, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
#endif
}

static int is_in(uintptr_t address, const char *file)
{
	Dl_info info;

	return dladdr((void *)address, &info) && info.dli_fname && strstr(info.dli_fname, file);
}

/* The hooks' steps of the round; of MPI, those between the library's two functions. What these call
 * is neither. */
static int count_added(void)
{
	int in_hooks = 1, times = 0, added = 0;

	for (int i = 0; i < count; i++) {
		if (is_in(steps[i], "libwarpsight"))
			in_hooks = 1;
		else if (is_in(steps[i], "libmpi-") || is_in(steps[i], "libGL"))
			times += in_hooks, in_hooks = 0;
		else
			continue;
#ifndef OPENGL
		if (times != 1)
			continue;
#endif
		added += in_hooks;
	}
	return added;
}

/* Of the rounds, each after so many calls without a pause. */
static int find_least(int calls_before)
{
	int least = MOST_STEPS;

	for (int round = 0; round < ROUNDS; round++) {
		int added;

		for (int i = 0; i < calls_before; i++)
			call_library();
		count = 0;
		set_stepping(1);
		call_library();
		set_stepping(0);
		added = count_added();
		if (added < least)
			least = added;
	}
	return least;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = note_step, .sa_flags = SA_SIGINFO};

#ifndef OPENGL
	MPI_Init(&argc, &argv);
#else
	(void)argc, (void)argv;
#endif
	sigaction(SIGTRAP, &action, NULL);
	printf("%d\n", find_least(0));
#ifndef OPENGL
	printf("%d\n", find_least(STORM));
	MPI_Finalize();
#endif
	return 0;
}
