/* constants.c - what src/inject/mpi.c takes for granted of an ABI, as its header says it. */
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int main(void)
{
	printf("proc_null %d\n", MPI_PROC_NULL);
	printf("any_source %d\n", MPI_ANY_SOURCE);
	printf("root %d\n", MPI_ROOT);
	printf("in_place %ld\n", (long)(intptr_t)MPI_IN_PLACE);
	printf("status_ignore %ld\n", (long)(intptr_t)MPI_STATUS_IGNORE);
	printf("source_at %zu\n", offsetof(MPI_Status, MPI_SOURCE));
	printf("tag_at %zu\n", offsetof(MPI_Status, MPI_TAG));
#ifdef OPEN_MPI
	printf("count_at %zu\n", offsetof(MPI_Status, _ucount));
#endif
	printf("named %d\n", MPI_COMBINER_NAMED);
	return sizeof(MPI_Status) > 64 || MPI_SUCCESS;
}
