/*
 * ranks.h - which rank of a job a process is, by the variables that launchers set: torchrun, MPI's
 * mpirun and mpiexec, srun, Flux, jsrun, Horovod, Kubernetes' indexed jobs.
 */
#ifndef WS_RECORD_RANKS_H
#define WS_RECORD_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/sink.h"

/* Variables of a process: entries NAME=VALUE, each ended by a NUL. */
struct ws_variables {
	const char *text;
	size_t length;
};

struct ws_rank {
	const char *launcher; /* its name, a literal */
	uint32_t rank;	      /* in the whole job */
	uint32_t world;	      /* ranks of the job; 0: not known */
	uint32_t local;	      /* number on its host; WS_NO_U32: not known */
	uint32_t local_world; /* ranks on its host; 0: not known */
	bool apart; /* it has its own file system, as pods do unless they share a volume */
};

/* The value of a variable, NULL when it is not set; it lies within the entries. */
const char *ws_find_variable(struct ws_variables variables, const char *name);
/* The variables of a NULL-terminated environment, in memory for the caller to free. */
struct ws_variables ws_copy_variables(char *const *env);

/* Whether a variable says which rank a process is: it differs among the ranks of a host. */
bool ws_is_rank_variable(const char *name, size_t length);
/* False when the variables come from no launcher that we know. */
bool ws_read_rank(struct ws_variables variables, struct ws_rank *rank);
/* Write the suffix that distinguishes the files of a job's ranks, such as ".rank3"; "" when there
 * is only one rank, when each has its own file system, or when there is no job. */
void ws_name_rank(struct ws_variables variables, char *out, size_t size);
/* The same for a report of all ranks of a host, such as ".node7"; "" when all ranks of the job are
 * on this host. */
void ws_name_node(struct ws_variables variables, char *out, size_t size);
/* Write which rank a process of the report is; false, writing nothing, when it is none. */
bool ws_rank_write(struct ws_sink *sink, uint32_t process, struct ws_variables variables);
/* The same from what MPI reports, for a process whose launcher did not say. */
void ws_rank_write_of_mpi(struct ws_sink *sink, uint32_t process, uint32_t rank, uint32_t world);
/* The same for a process whose variables nobody has reported; `pid` as seen from here. */
void ws_rank_write_of(struct ws_sink *sink, uint32_t process, uint32_t pid);

#endif
