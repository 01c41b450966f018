/*
 * together.h - ranks, of several reports or of one: which rank the others wait for.
 *
 * Collectives of the reports are brought together by the name of their group and their number in
 * it. On the rank that comes last to one, it takes only as long as the transfer needs; any
 * additional time on the others is waiting. The clocks of the reports need not agree. Messages of
 * MPI between the reports are matched, too.
 */
#ifndef WS_ANALYZE_TOGETHER_H
#define WS_ANALYZE_TOGETHER_H

#include "analyze/analysis.h"
#include "analyze/finding.h"

struct ws_together_rank {
	char *path;	  /* of its report */
	int64_t rank;	  /* -1: not known */
	uint64_t steps;	  /* that count, at least 1 */
	uint64_t step;	  /* ns, on average; the window where there are no steps */
	uint64_t compute; /* ns a step of the busiest GPU, as the following */
	uint64_t exposed; /* communication that nothing hides, calls of MPI included */
	uint64_t waited;  /* for other ranks, in collectives that all ranks have and in messages */
	/* Messages to and from ranks of the other reports, and ns in all that the rank waited in
	 * their calls before the other side came. */
	uint64_t sent, received, waited_senders, waited_receivers;
	bool calls_mpi;
	uint32_t source; /* number of the report, from 0 */
};

struct ws_together {
	struct ws_together_rank *ranks; /* in the order in which they were added */
	size_t count, cap;
	uint32_t sources;		/* reports */
	struct ws_together_part *parts; /* of collectives */
	size_t part_count, part_cap;
	uint64_t collectives; /* that all ranks have, after ws_together_compare */
	uint64_t messages;    /* between the reports */
	size_t late;	      /* the rank that waits least */
	uint64_t cost;	      /* ns a step that the others wait for it, no more than is exposed */
	double share;	      /* of their step, 0 to 1 */
	enum ws_finding_level level;
};

/* Add what an analysis knows of its rank; of the ranks of MPI in its report, where there are
 * several and none uses a GPU. */
void ws_together_add(struct ws_together *together, const struct ws_analysis *analysis,
		     const char *path);
/* Match the messages of MPI between the reports, which are opened again for this, all at once. */
void ws_together_match_messages(struct ws_together *together);
/* Whether two ranks or more meet in collectives or by messages; then all figures are filled in.
 * Called once, after all were added. */
bool ws_together_compare(struct ws_together *together);
void ws_together_free(struct ws_together *together);
/* Append a table of the ranks, and the finding where there is one. */
void ws_put_together_text(const struct ws_together *together, struct ws_text *out);
/* The finding, and what to do about it; for a level other than WS_LEVEL_OK. */
void ws_put_together_title(const struct ws_together *together, struct ws_text *out);
extern const char ws_together_advice[];
/* The table and the finding as an object. */
void ws_put_together_json(const struct ws_together *together, struct ws_text *out);

#endif
