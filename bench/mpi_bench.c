/*
 * mpi_bench.c - times calls of MPI from inside the program: mpi_bench MODE N; prints nanoseconds.
 *
 *   send      processor time of MPI_Send, each (the build makes it with a stand-in, whose call
 * takes next to nothing) clocks    two readings of the processor's counter, which is the least that
 * a wrapper takes pingpong  one way of 8 bytes between two ranks, twice: through the library's own
 * functions, and as the program's calls go. Blocks of both are run by turns in one process, so that
 * a few nanoseconds show where runs of a whole program differ by a hundred. Medians of N blocks.
 *   pairs     one way of 8 bytes between each two ranks, all pairs at once, over N messages
 *   warm-pairs the same after a tenth as many that are not timed, as osu_latency does it
 *   allreduce an MPI_Allreduce of 8 bytes by all ranks, the mean of N
 *
 * bench/run.py compiles it with mpicc where there is one.
 */
#ifdef STANDIN
#include "../tests/libraries/standin_mpi.h"
#else
#include <link.h>
#include <mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../src/base/ticks.h"

enum { BYTES = 8, WINDOW = 100, WARM_UP = 20 };

/* Nanoseconds of a clock. */
static double read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double time_sends(long n)
{
	char bytes[BYTES] = {0};
	double begin = read_clock(CLOCK_THREAD_CPUTIME_ID);

	for (long i = 0; i < n; i++)
		MPI_Send(bytes, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	return (read_clock(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)n;
}

static double time_clocks(long n)
{
	double begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
	uint64_t sum = 0;

	for (long i = 0; i < n; i++)
		sum += ws_read_counter() + ws_read_counter();
	if (sum == 1)
		puts("");
	return (read_clock(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)n;
}

#ifndef STANDIN
static int compare_times(const void *first, const void *second)
{
	const double *left = first, *right = second;

	return (*left > *right) - (*left < *right);
}

struct functions {
	int (*send)(const void *, int, MPI_Datatype, int, int, MPI_Comm);
	int (*receive)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
};

/* A function as the file of the library has it, whatever has been preloaded. */
struct wanted {
	const char *name;
	void *found;
};

static int look_into(struct dl_phdr_info *info, size_t size, void *context)
{
	const ElfW(Sym) *symbol = NULL;
	struct wanted *wanted = context;
	const char *texts = NULL, *file = strrchr(info->dlpi_name, '/');

	(void)size;
	if (!file || strncmp(file, "/libmpi", strlen("/libmpi")) != 0)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		const ElfW(Dyn) *entry = (const void *)(info->dlpi_addr + part->p_vaddr);

		for (; part->p_type == PT_DYNAMIC && entry->d_tag != DT_NULL; entry++) {
			if (entry->d_tag == DT_SYMTAB)
				symbol = (const void *)entry->d_un.d_ptr;
			if (entry->d_tag == DT_STRTAB)
				texts = (const char *)entry->d_un.d_ptr;
		}
	}
	/* Linkers put the texts behind the symbols. */
	for (; symbol && (const char *)symbol < texts; symbol++)
		if (symbol->st_value && !strcmp(texts + symbol->st_name, wanted->name))
			wanted->found = (void *)(info->dlpi_addr + symbol->st_value);
	return wanted->found != NULL;
}

static void *find_in_library(const char *name)
{
	struct wanted wanted = {name, NULL};

	dl_iterate_phdr(look_into, &wanted);
	if (!wanted.found) {
		fprintf(stderr, "no file libmpi* with %s\n", name);
		exit(1);
	}
	return wanted.found;
}

static double time_window(int rank, const struct functions *functions)
{
	char bytes[BYTES] = {0};
	double begin = read_clock(CLOCK_MONOTONIC);

	for (int i = 0; i < WINDOW; i++) {
		if (!rank)
			functions->send(bytes, BYTES, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
		functions->receive(bytes, BYTES, MPI_CHAR, !rank, 1, MPI_COMM_WORLD,
				   MPI_STATUS_IGNORE);
		if (rank)
			functions->send(bytes, BYTES, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
	}
	return (read_clock(CLOCK_MONOTONIC) - begin) / WINDOW / 2;
}

/* The mean of N round trips of each pair of ranks, one way, or of N collectives; of all ranks. */
static double time_all_ranks(int rank, const char *mode, long n)
{
	char bytes[BYTES] = {0};
	double begin = 0, ns, sum = 0, in = 0, out = 0;
	int ranks = 1, peer = rank ^ 1, first = !(rank & 1), pairs = strcmp(mode, "allreduce");
	long warm_up = strcmp(mode, "warm-pairs") ? 0 : n / 10;

	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Barrier(MPI_COMM_WORLD);
	for (long i = -warm_up; i < n; i++) {
		if (!i)
			begin = read_clock(CLOCK_MONOTONIC);
		if (!pairs) {
			MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
			continue;
		}
		if (first)
			MPI_Send(bytes, BYTES, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
		MPI_Recv(bytes, BYTES, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		if (!first)
			MPI_Send(bytes, BYTES, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
	}
	ns = (read_clock(CLOCK_MONOTONIC) - begin) / (double)n / (pairs ? 2 : 1);
	MPI_Reduce(&ns, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	return sum / ranks;
}

/* Both medians: of the library's own functions, and of those that the program calls. */
static void time_messages(int rank, long n, double medians[2])
{
	struct functions functions[2] = {
		{find_in_library("MPI_Send"), find_in_library("MPI_Recv")},
		{MPI_Send, MPI_Recv},
	};
	double *times[2] = {calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double))};

	for (long i = -WARM_UP; times[0] && times[1] && i < n; i++)
		for (long turn = 0; turn < 2; turn++) {
			long which = (turn + i) & 1;

			times[which][i < 0 ? 0 : i] = time_window(rank, &functions[which]);
		}
	for (int which = 0; which < 2; which++) {
		if (times[which])
			qsort(times[which], (size_t)n, sizeof(double), compare_times);
		medians[which] = times[which] ? times[which][n / 2] : 0;
		free(times[which]);
	}
}
#endif

int main(int argc, char **argv)
{
	long n = argc > 2 ? atol(argv[2]) : 1000;
	const char *mode = argc > 1 ? argv[1] : "";
	double ns = 0;
	int rank = 0;

	MPI_Init(&argc, &argv);
	if (!strcmp(mode, "send"))
		ns = time_sends(n);
	if (!strcmp(mode, "clocks"))
		ns = time_clocks(n);
#ifndef STANDIN
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (!strcmp(mode, "pairs") || !strcmp(mode, "warm-pairs") || !strcmp(mode, "allreduce"))
		ns = time_all_ranks(rank, mode, n);
	if (!strcmp(mode, "pingpong")) {
		double medians[2];

		time_messages(rank, n, medians);
		ns = medians[1];
		if (!rank)
			printf("%.3f ", medians[0]);
	}
#endif
	if (!rank)
		printf("%.3f\n", ns);
	MPI_Finalize();
	return 0;
}
