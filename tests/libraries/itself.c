/* itself.c - a rank that sends to itself, N times in a short time; every 100th time another type
 * with other bytes takes the place of the one before. */
#include <mpi.h>
#include <stdlib.h>

static double out[8], in[8];

int main(int argc, char **argv)
{
	MPI_Datatype type = MPI_DATATYPE_NULL;
	int n = atoi(argv[1]);

	MPI_Init(&argc, &argv);
	for (int i = 0; i < n; i++) {
		if (i % 100 == 0) {
			if (i)
				MPI_Type_free(&type);
			MPI_Type_contiguous(i / 100 % 5 + 1, MPI_DOUBLE, &type);
			MPI_Type_commit(&type);
		}
		MPI_Sendrecv(out, 8, MPI_CHAR, 0, 1, in, 8, MPI_CHAR, 0, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		MPI_Sendrecv(out, 1, type, 0, 2, in, 1, type, 0, 2, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		MPI_Allreduce(out, in, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return 0;
}
