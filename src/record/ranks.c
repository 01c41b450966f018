/*
 * ranks.c - see ranks.h.
 *
 * A process may have the variables of several launchers: a script of Slurm's starts mpirun, each of
 * mpirun's ranks starts torchrun. The table lists the launchers from the usually innermost to the
 * outermost, and the first whose variables are set counts.
 */
#include "record/ranks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"

enum { MOST_ENVIRONMENT = 1 << 20 };

/* A launcher's variables; of the alternatives that a space separates the first that is set counts.
 */
static const struct launcher {
	const char *name;
	const char *needs; /* must be set too, because the rank alone may mean anything; or NULL */
	const char *rank, *world, *local, *local_world;
	bool apart;
} launchers[] = {
	{"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
	{"torch.distributed", "WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
	{"Horovod", NULL, "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK",
	 "HOROVOD_LOCAL_SIZE"},
	{"Open MPI", NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
	{"MVAPICH", NULL, "MV2_COMM_WORLD_RANK MVP_COMM_WORLD_RANK",
	 "MV2_COMM_WORLD_SIZE MVP_COMM_WORLD_SIZE",
	 "MV2_COMM_WORLD_LOCAL_RANK MVP_COMM_WORLD_LOCAL_RANK",
	 "MV2_COMM_WORLD_LOCAL_SIZE MVP_COMM_WORLD_LOCAL_SIZE"},
	{"jsrun", NULL, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK",
	 "JSM_NAMESPACE_LOCAL_SIZE"},
	{"Flux", NULL, "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", ""},
	{"srun", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS SLURM_NTASKS SLURM_NPROCS",
	 "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
	{"MPI", NULL, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID PMI_LOCAL_RANK PALS_LOCAL_RANKID",
	 "MPI_LOCALNRANKS PMI_LOCAL_SIZE PALS_LOCAL_SIZE"},
	{"PALS", NULL, "PALS_RANKID", "", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
	{"PMIx", NULL, "PMIX_RANK", "", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"},
	{"Kubernetes", NULL, "JOB_COMPLETION_INDEX", "", "", "", true},
};

/* Variables that name a rank's host better than the host's own name does, and those that list the
 * GPUs that it sees. */
static const char host_variables[] = "SLURMD_NODENAME POD_NAME MY_POD_NAME PMIX_HOSTNAME";
static const char gpu_variables[] = "CUDA_VISIBLE_DEVICES SLURM_STEP_GPUS NVIDIA_VISIBLE_DEVICES";

static const char *find_entry(struct ws_variables variables, const char *name, size_t length)
{
	size_t at = 0;

	while (at < variables.length) {
		const char *entry = variables.text + at;

		if (variables.length - at > length && !strncmp(entry, name, length) &&
		    entry[length] == '=')
			return entry + length + 1;
		at += strnlen(entry, variables.length - at) + 1;
	}
	return NULL;
}

const char *ws_find_variable(struct ws_variables variables, const char *name)
{
	return find_entry(variables, name, strlen(name));
}

struct ws_variables ws_copy_variables(char *const *env)
{
	struct ws_text text = {0};

	for (; env && *env; env++)
		ws_text_add(&text, *env, strlen(*env) + 1);
	return (struct ws_variables){text.text, text.len};
}

/* The first of the names, separated by spaces, that is set and not empty. */
static const char *find_first(struct ws_variables variables, const char *names)
{
	const char *value = NULL;

	while (*names && !(value && *value)) {
		size_t length = strcspn(names, " ");

		value = find_entry(variables, names, length);
		names += length + (names[length] == ' ');
	}
	return value && *value ? value : NULL;
}

/* Slurm writes "4(x2)" for 4 on each of 2 hosts, and "4(x2),3" where not all have as many. */
static bool is_for_all(const char *after)
{
	if (strncmp(after, "(x", 2))
		return !*after;
	after += 2 + strspn(after + 2, "0123456789");
	return !strcmp(after, ")");
}

/* The number in the first of the variables that is set, or `missing`. */
static uint32_t read_number(struct ws_variables variables, const char *names, uint32_t missing)
{
	const char *value = find_first(variables, names);
	unsigned long number;
	char *end;

	if (!value || *value < '0' || *value > '9')
		return missing;
	number = strtoul(value, &end, 10);
	if (!is_for_all(end) || number >= WS_NO_U32)
		return missing;
	return (uint32_t)number;
}

static bool has_word(const char *words, const char *name, size_t length)
{
	while (*words) {
		size_t n = strcspn(words, " ");

		if (n == length && !strncmp(words, name, n))
			return true;
		words += n + (words[n] == ' ');
	}
	return false;
}

bool ws_is_rank_variable(const char *name, size_t length)
{
	for (size_t i = 0; i < WS_COUNT(launchers); i++)
		if (has_word(launchers[i].rank, name, length) ||
		    has_word(launchers[i].local, name, length))
			return true;
	return false;
}

bool ws_read_rank(struct ws_variables variables, struct ws_rank *rank)
{
	for (size_t i = 0; i < WS_COUNT(launchers); i++) {
		const struct launcher *launcher = &launchers[i];

		if (launcher->needs && !ws_find_variable(variables, launcher->needs))
			continue;
		*rank = (struct ws_rank){
			.launcher = launcher->name,
			.rank = read_number(variables, launcher->rank, WS_NO_U32),
			.world = read_number(variables, launcher->world, 0),
			.local = read_number(variables, launcher->local, WS_NO_U32),
			.local_world = read_number(variables, launcher->local_world, 0),
			.apart = launcher->apart,
		};
		if (rank->rank != WS_NO_U32 && (!rank->world || rank->rank < rank->world))
			return true;
	}
	return false;
}

void ws_name_rank(struct ws_variables variables, char *out, size_t size)
{
	struct ws_rank rank;

	*out = 0;
	if (ws_read_rank(variables, &rank) && rank.world != 1 && !rank.apart)
		snprintf(out, size, ".rank%u", rank.rank);
}

void ws_name_node(struct ws_variables variables, char *out, size_t size)
{
	char host[256] = "";
	struct ws_rank rank;

	*out = 0;
	if (!ws_read_rank(variables, &rank) || rank.apart ||
	    (rank.world && rank.world == rank.local_world))
		return;
	gethostname(host, sizeof(host) - 1);
	snprintf(out, size, ".%s", host);
}

/* The host's name, or that of the pod. */
static uint32_t add_host(struct ws_sink *sink, struct ws_variables variables)
{
	const char *given = find_first(variables, host_variables);
	char name[256] = "";

	if (given)
		return ws_sink_string(sink, given);
	gethostname(name, sizeof(name) - 1);
	return ws_sink_string(sink, name);
}

bool ws_rank_write(struct ws_sink *sink, uint32_t process, struct ws_variables variables)
{
	const char *gpus = find_first(variables, gpu_variables);
	struct ws_row_rank row = {.process = process};
	struct ws_rank rank;

	if (!ws_read_rank(variables, &rank))
		return false;
	row.rank = rank.rank;
	row.world = rank.world;
	row.local = rank.local;
	row.local_world = rank.local_world;
	row.host = add_host(sink, variables);
	row.launcher = ws_sink_string(sink, rank.launcher);
	if (gpus)
		row.gpus = ws_sink_string(sink, gpus);
	ws_writer_add(sink->writer, WS_TABLE_rank, &row);
	return true;
}

void ws_rank_write_of_mpi(struct ws_sink *sink, uint32_t process, uint32_t rank, uint32_t world)
{
	struct ws_row_rank row = {.process = process,
				  .rank = rank,
				  .world = world,
				  .local = WS_NO_U32,
				  .host = add_host(sink, (struct ws_variables){0}),
				  .launcher = ws_sink_string(sink, "MPI")};

	ws_writer_add(sink->writer, WS_TABLE_rank, &row);
}

void ws_rank_write_of(struct ws_sink *sink, uint32_t process, uint32_t pid)
{
	struct ws_text text = {0};
	char path[64], part[4096];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && text.len < MOST_ENVIRONMENT && (got = read(fd, part, sizeof(part))) > 0)
		ws_text_add(&text, part, (size_t)got);
	if (fd >= 0)
		close(fd);
	ws_rank_write(sink, process, (struct ws_variables){text.text, text.len});
	ws_text_free(&text);
}
