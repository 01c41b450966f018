/*
 * standin_mpi.c - a library with the names and the ABI of an MPI, for one process that sends
 * messages to itself: what the wrappers and the tables make of calls is tested where no MPI is
 * installed. Each function has its two names, as there, and MPI_Allreduce is made of messages.
 */
#include "standin_mpi.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define BOTH(name) EXPORT __typeof__(P##name) name __attribute__((weak, alias("P" #name)));

EXPORT void *standin_handler;
EXPORT _Atomic int standin_waits;
#ifdef STANDARD
static char objects[8][64];
#define OBJECT(i) ((void *)objects[i])
#elif defined(POINTERS)
EXPORT char ompi_mpi_comm_world[64], ompi_mpi_comm_null[64], standin_char[64], standin_double[64];
static char objects[8][64];
#define OBJECT(i) ((void *)objects[i])
#else
#define OBJECT(i) (0x2c000000 + (i))
#endif

static struct {
	char bytes[1024];
	int size, tag;
} queue[16];
static _Atomic unsigned sent, taken, requests, comms;

EXPORT int PMPI_Type_size(MPI_Datatype type, int *size)
{
	*size = type == MPI_DOUBLE ? 8 : 1;
	return 0;
}

#ifdef STANDARD
EXPORT int PMPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count)
{
	*count = type == (MPI_Datatype)0x247 ? status->bytes : -1;
	return 0;
}
#endif

EXPORT int PMPI_Comm_rank(MPI_Comm comm, int *rank)
{
	(void)comm;
	*rank = 0;
	return 0;
}

EXPORT int PMPI_Comm_size(MPI_Comm comm, int *size)
{
	const char *world = getenv("STANDIN_WORLD");

	(void)comm;
	*size = world ? atoi(world) : 1;
	return 0;
}

EXPORT int PMPI_Comm_test_inter(MPI_Comm comm, int *is_inter)
{
	(void)comm;
	*is_inter = 0;
	return 0;
}

EXPORT int PMPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
	(void)comm;
	*group = OBJECT(7);
	return 0;
}

EXPORT int PMPI_Group_free(MPI_Group *group)
{
	(void)group;
	return 0;
}

EXPORT int PMPI_Group_translate_ranks(MPI_Group from, int n, const int *ranks, MPI_Group to,
				      int *out)
{
	(void)from, (void)to;
	memcpy(out, ranks, (size_t)n * sizeof(*out));
	return 0;
}

EXPORT int PMPI_Init(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	return 0;
}
BOTH(MPI_Init)

EXPORT int PMPI_Finalize(void)
{
	return 0;
}
BOTH(MPI_Finalize)

EXPORT int PMPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag,
		     MPI_Comm comm)
{
	int size;

	(void)comm;
	if (tag == STANDIN_DIES)
		raise(SIGKILL);
	if (tag == STANDIN_JUMPS)
		longjmp(*(jmp_buf *)standin_handler, 1);
	if (dest == MPI_PROC_NULL)
		return 0;
	if (dest)
		return 6; /* no such rank */
	PMPI_Type_size(type, &size);
	queue[sent % 16].size = count * size;
	queue[sent % 16].tag = tag;
	memcpy(queue[sent % 16].bytes, buf, (size_t)(count * size));
	sent++;
	return 0;
}
BOTH(MPI_Send)

EXPORT int PMPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		     MPI_Status *status)
{
	int from = (int)(taken % 16);

	(void)comm, (void)count, (void)type, (void)tag;
	if (source == MPI_PROC_NULL) {
		memset(status, 0, sizeof(*status));
		status->MPI_SOURCE = MPI_PROC_NULL;
		return 0;
	}
	taken++;
	memcpy(buf, queue[from].bytes, (size_t)queue[from].size);
	if (status == MPI_STATUS_IGNORE)
		return 0;
	status->MPI_SOURCE = 0;
	status->MPI_TAG = queue[from].tag;
#ifdef STANDARD
	status->bytes = queue[from].size;
#elif defined(POINTERS)
	status->bytes = (size_t)queue[from].size + (tag == STANDIN_HUGE ? (size_t)1 << 32 : 0);
#else
	status->count_lo = queue[from].size;
	status->count_hi_and_cancelled = tag == STANDIN_HUGE ? 1 << 1 | 1 : 0;
#endif
	return 0;
}
BOTH(MPI_Recv)

EXPORT int PMPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag,
		      MPI_Comm comm, MPI_Request *request)
{
	*request = OBJECT(1 + requests++ % 3);
	return PMPI_Send(buf, count, type, dest, tag, comm);
}
BOTH(MPI_Isend)

EXPORT int PMPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
		      MPI_Request *request)
{
	(void)buf, (void)count, (void)type, (void)source, (void)tag, (void)comm;
	*request = OBJECT(1 + requests++ % 3);
	return 0;
}
BOTH(MPI_Irecv)

/* Of a receive: it returns once another thread has sent a message. */
EXPORT int PMPI_Wait(MPI_Request *request, MPI_Status *status)
{
	(void)status;
	standin_waits++;
	while (sent == taken)
		sched_yield();
	taken++;
	*request = 0;
	return 0;
}
BOTH(MPI_Wait)

EXPORT int PMPI_Waitall(int count, MPI_Request *handles, MPI_Status *statuses)
{
	(void)statuses;
	for (int i = 0; i < count; i++)
		handles[i] = 0;
	return 0;
}
BOTH(MPI_Waitall)

EXPORT int PMPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	static int asked;

	(void)status;
	*flag = asked++ % 3 == 2;
	if (*flag)
		*request = 0;
	return 0;
}
BOTH(MPI_Test)

EXPORT int PMPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, int op,
			  MPI_Comm comm)
{
	(void)op;
	/* by their public names, as collectives in a library of their own would call them */
	MPI_Send(send == MPI_IN_PLACE ? receive : send, count, type, 0, 1, comm);
	return MPI_Recv(receive, count, type, 0, 1, comm, MPI_STATUS_IGNORE);
}
BOTH(MPI_Allreduce)

EXPORT int PMPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
			  int count, MPI_Datatype type, MPI_Comm comm)
{
	(void)send, (void)send_count, (void)send_type, (void)receive, (void)count, (void)type,
		(void)comm;
	return 0;
}
BOTH(MPI_Allgather)

EXPORT int PMPI_Comm_dup(MPI_Comm comm, MPI_Comm *made)
{
	(void)comm;
	*made = OBJECT(4 + comms++ % 2);
	return 0;
}
BOTH(MPI_Comm_dup)
