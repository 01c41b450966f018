/* ranks.c - a program of an even number of ranks, for the MPI that is installed: messages between
 * pairs and around a ring, collectives. */
#include <mpi.h>
#include <stdlib.h>

static char text[1024];
static double in[16], out[64];

static void play_ping_pong(int rank, int n)
{
	MPI_Status status;

	for (int i = 0; i < n; i++)
		if (rank % 2 == 0) {
			MPI_Send(text, 8, MPI_CHAR, rank + 1, 7, MPI_COMM_WORLD);
			MPI_Recv(text, 8, MPI_CHAR, rank + 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else {
			MPI_Recv(text, 1024, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
				 &status);
			MPI_Send(text, 8, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG,
				 MPI_COMM_WORLD);
		}
}

static void pass_around(int rank, int size)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];

	MPI_Irecv(text, 100, MPI_CHAR, (rank + size - 1) % size, 9, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(in, 2, MPI_DOUBLE, (rank + 1) % size, 9, MPI_COMM_WORLD, &requests[1]);
	MPI_Waitall(2, requests, statuses);
	MPI_Sendrecv(in, 1, MPI_DOUBLE, (rank + 1) % size, 11, out, 4, MPI_DOUBLE, MPI_ANY_SOURCE,
		     11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
	int rank, size, n = atoi(argv[1]);
	MPI_Comm half;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	play_ping_pong(rank, n);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	for (int i = 0; i < n; i++)
		MPI_Allreduce(in, out, 16, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	MPI_Bcast(in, 16, MPI_DOUBLE, 0, half);
	MPI_Gather(in, 2, MPI_DOUBLE, out, 2, MPI_DOUBLE, 1, MPI_COMM_WORLD);
	pass_around(rank, size);
	MPI_Finalize();
	return 0;
}
