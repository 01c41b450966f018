/* together_private.h - what together.c and together_mpi.c share. */
#ifndef WS_ANALYZE_TOGETHER_PRIVATE_H
#define WS_ANALYZE_TOGETHER_PRIVATE_H

#include "analyze/together.h"

/* What one rank spent in one collective. */
struct ws_together_part {
	uint64_t group, number; /* hash of the group's name; number in the group */
	size_t rank;		/* index in `ranks` */
	uint64_t ns;
	bool is_mpi;
};

void ws_together_add_part(struct ws_together *together, struct ws_together_part part);
/* Add the collectives of MPI, and the time in its calls to what the rank communicates, whose
 * process this is. */
void ws_together_add_mpi(struct ws_together *together, const struct ws_analysis *analysis,
			 size_t rank, uint32_t process);
/* Append the number of the rank, or "-". */
void ws_put_together_number(const struct ws_together_rank *rank, struct ws_text *out);
/* Append the table of messages, where there are any. */
void ws_put_together_messages(const struct ws_together *together, struct ws_text *out);

#endif
