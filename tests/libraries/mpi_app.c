/*
 * mpi_app.c - calls of MPI with known arguments, by a program that is linked to it, or that opens
 * it for itself alone and looks the functions up (with LOOKS_UP). What it does is its argument.
 */
#include "standin_mpi.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef LOOKS_UP
#include <dlfcn.h>
static void *library;
#define CALL(name) ((__typeof__(&name))dlsym(library, #name))
#ifdef POINTERS
#undef MPI_COMM_WORLD
#undef MPI_CHAR
#undef MPI_DOUBLE
#define MPI_COMM_WORLD ((MPI_Comm)dlsym(library, "ompi_mpi_comm_world"))
#define MPI_CHAR ((MPI_Datatype)dlsym(library, "standin_char"))
#define MPI_DOUBLE ((MPI_Datatype)dlsym(library, "standin_double"))
#endif
#else
#define CALL(name) name
#endif

static char text[256];
static double numbers[16];

static int count_message(void)
{
	MPI_Status status;

	memset(&status, 0, sizeof(status));
	CALL(MPI_Recv)(text, 200, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
	return status.MPI_TAG;
}

static void send_messages(void)
{
	MPI_Request requests[2];
	int done = 0;

	CALL(MPI_Send)(text, 8, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
	CALL(MPI_Recv)(text, 200, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	CALL(MPI_Send)(numbers, 3, MPI_DOUBLE, 0, 9, MPI_COMM_WORLD);
	printf("tag %d\n", count_message());
	CALL(MPI_Send)(text, 8, MPI_CHAR, MPI_PROC_NULL, 7, MPI_COMM_WORLD);
	printf("error %d\n", CALL(MPI_Send)(text, 8, MPI_CHAR, 5, 7, MPI_COMM_WORLD));
	CALL(MPI_Isend)(text, 5, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[0]);
	CALL(MPI_Isend)(text, 6, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[1]);
	CALL(MPI_Waitall)(2, requests, MPI_STATUS_IGNORE);
	CALL(MPI_Isend)(text, 7, MPI_CHAR, 0, 3, MPI_COMM_WORLD, &requests[0]);
	while (!done)
		CALL(MPI_Test)(&requests[0], &done, MPI_STATUS_IGNORE);
	for (int i = 0; i < 3; i++)
		count_message();
}

static void receive_huge(void)
{
	MPI_Status status;

	CALL(MPI_Send)(text, 8, MPI_CHAR, 0, STANDIN_HUGE, MPI_COMM_WORLD);
	CALL(MPI_Recv)(text, 200, MPI_CHAR, 0, STANDIN_HUGE, MPI_COMM_WORLD, &status);
	CALL(MPI_Recv)(text, 200, MPI_CHAR, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &status);
}

static void call_collectives(void)
{
	MPI_Comm copy;

	CALL(MPI_Comm_dup)(MPI_COMM_WORLD, &copy);
	CALL(MPI_Allreduce)(MPI_IN_PLACE, numbers, 16, MPI_DOUBLE, 0, copy);
	CALL(MPI_Allgather)(MPI_IN_PLACE, 0, MPI_CHAR, numbers, 4, MPI_DOUBLE, copy);
}

/* More messages after a call that was left by a jump. */
static void jump_out(void)
{
	static jmp_buf here;

#ifndef LOOKS_UP
	standin_handler = &here;
	if (!setjmp(here))
		CALL(MPI_Send)(text, 1, MPI_CHAR, 0, STANDIN_JUMPS, MPI_COMM_WORLD);
#else
	(void)here;
#endif
	CALL(MPI_Send)(text, 2, MPI_CHAR, 0, 8, MPI_COMM_WORLD);
}

#ifndef LOOKS_UP
static void *send_late(void *tag)
{
	while (!standin_waits)
		sched_yield();
	MPI_Send(text, 4, MPI_CHAR, 0, *(int *)tag, MPI_COMM_WORLD);
	return NULL;
}

/* A receive that MPI_Wait waits for until another thread sends, and one whose message is there. */
static void wait_for_messages(void)
{
	static int tag = 21;
	MPI_Request request;
	pthread_t thread;

	MPI_Irecv(text, 200, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &request);
	pthread_create(&thread, NULL, send_late, &tag);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	pthread_join(thread, NULL);
	MPI_Irecv(text, 200, MPI_CHAR, 0, tag + 1, MPI_COMM_WORLD, &request);
	MPI_Send(text, 4, MPI_CHAR, 0, tag + 1, MPI_COMM_WORLD);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}
#endif

/* Messages with their receives: i / 4 % 5 + 1 bytes each. Each 40th has a tag of its own, each
 * 1,000th is followed by an MPI_Allreduce (which is made of messages). */
static void storm(int from, int to)
{
	for (int i = from; i < to; i++) {
		int tag = i % 40 ? 5 : i;

		CALL(MPI_Send)(text, i / 4 % 5 + 1, MPI_CHAR, 0, tag, MPI_COMM_WORLD);
		CALL(MPI_Recv)(text, 200, MPI_CHAR, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!(i % 1000))
			CALL(MPI_Allreduce)
		(MPI_IN_PLACE, numbers, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
	}
}

/* So many messages, a pause, and as many again; then what the word says. */
static void storm_and_pause(const char *what, int messages)
{
	storm(0, messages);
	usleep(300000);
	storm(messages, 2 * messages);
	if (!strcmp(what, "storm-forks") && !fork()) {
		storm(0, messages);
		exit(0);
	}
	if (!strcmp(what, "storm-dies"))
		raise(SIGKILL);
	if (!strcmp(what, "storm-hangs"))
		CALL(MPI_Send)(text, 8, MPI_CHAR, 0, STANDIN_DIES, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

#ifdef LOOKS_UP
	library = dlopen(LOOKS_UP, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		printf("%s\n", dlerror());
		return 1;
	}
	printf("%s\n", dlsym(RTLD_DEFAULT, "MPI_Init") ? "found" : "not found");
#endif
	CALL(MPI_Init)(&argc, &argv);
	if (!strcmp(what, "dies"))
		CALL(MPI_Send)(text, 8, MPI_CHAR, 0, STANDIN_DIES, MPI_COMM_WORLD);
	if (!strcmp(what, "jumps"))
		jump_out();
	if (!strcmp(what, "huge"))
		receive_huge();
#ifndef LOOKS_UP
	if (!strcmp(what, "waits"))
		wait_for_messages();
#endif
	if (!strncmp(what, "storm", strlen("storm"))) {
		storm_and_pause(what, atoi(argv[2]));
	} else {
		send_messages();
		call_collectives();
	}
	CALL(MPI_Finalize)();
	return 0;
}
