/*
 * standin_mpi.h - as much of MPI as the tests call, in either ABI: with POINTERS that of Open MPI,
 * with STANDARD that of MPI 5, else that of MPICH.
 */
#ifndef STANDIN_MPI_H
#define STANDIN_MPI_H

#include <stddef.h>

#ifdef STANDARD
typedef struct standin_object *MPI_Comm, *MPI_Datatype, *MPI_Request, *MPI_Group;
typedef struct {
	int MPI_SOURCE, MPI_TAG, MPI_ERROR, bytes, others[4];
} MPI_Status;
#define MPI_COMM_WORLD ((MPI_Comm)0x101)
#define MPI_COMM_NULL ((MPI_Comm)0x100)
#define MPI_CHAR ((MPI_Datatype)0x243)
#define MPI_DOUBLE ((MPI_Datatype)0x214)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_IN_PLACE ((void *)1)
#define MPI_ANY_SOURCE -1
#define MPI_PROC_NULL -3
#elif defined(POINTERS)
typedef struct standin_object *MPI_Comm, *MPI_Datatype, *MPI_Request, *MPI_Group;
typedef struct {
	int MPI_SOURCE, MPI_TAG, MPI_ERROR, cancelled;
	size_t bytes;
} MPI_Status;
extern char ompi_mpi_comm_world[64], ompi_mpi_comm_null[64], standin_char[64], standin_double[64];
#define MPI_COMM_WORLD ((MPI_Comm)(void *)ompi_mpi_comm_world)
#define MPI_COMM_NULL ((MPI_Comm)(void *)ompi_mpi_comm_null)
#define MPI_CHAR ((MPI_Datatype)(void *)standin_char)
#define MPI_DOUBLE ((MPI_Datatype)(void *)standin_double)
#define MPI_STATUS_IGNORE ((MPI_Status *)0)
#define MPI_IN_PLACE ((void *)1)
#define MPI_ANY_SOURCE -1
#define MPI_PROC_NULL -2
#else
typedef int MPI_Comm, MPI_Datatype, MPI_Request, MPI_Group;
typedef struct {
	int count_lo, count_hi_and_cancelled, MPI_SOURCE, MPI_TAG, MPI_ERROR;
} MPI_Status;
#define MPI_COMM_WORLD 0x44000000
#define MPI_COMM_NULL 0x04000000
#define MPI_CHAR 0x4c000101
#define MPI_DOUBLE 0x4c00080b
#define MPI_STATUS_IGNORE ((MPI_Status *)1)
#define MPI_IN_PLACE ((void *)-1)
#define MPI_ANY_SOURCE -2
#define MPI_PROC_NULL -1
#endif
#define MPI_ANY_TAG -1

/* Tags that have the stand-in do something special. */
#define STANDIN_DIES 666  /* it kills the process inside the call */
#define STANDIN_JUMPS 667 /* it leaves the call by a longjmp to standin_handler */
#define STANDIN_HUGE 668  /* 4 GiB more than it is; cancelled where a size has a bit for that */
extern void *standin_handler;
extern _Atomic int standin_waits; /* MPI_Wait calls that wait for a message */

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	     MPI_Status *status);
int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
	      MPI_Request *request);
int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
	      MPI_Request *request);
int MPI_Wait(MPI_Request *request, MPI_Status *status);
int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses);
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status);
int MPI_Allreduce(const void *send, void *receive, int count, MPI_Datatype type, int op,
		  MPI_Comm comm);
int MPI_Allgather(const void *send, int send_count, MPI_Datatype send_type, void *receive,
		  int count, MPI_Datatype type, MPI_Comm comm);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *made);

#endif
