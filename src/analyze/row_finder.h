/*
 * row_finder.h - in which row of the time line the work of a thread or of a stream is shown.
 */
#ifndef WS_ANALYZE_ROW_FINDER_H
#define WS_ANALYZE_ROW_FINDER_H

#include "analyze/path.h"
#include "base/map.h"
#include "lanes/lane.h"

struct ws_row_finder {
	const struct ws_lanes *lanes;
	struct ws_map threads; /* by id: the lane's number + 1 */
	struct ws_map streams; /* by process and stream: the same, of the first GPU that has it */
};
#define WS_NO_ROW UINT32_MAX

/* The lanes' census must be complete. Free with ws_row_finder_close. */
void ws_row_finder_open(const struct ws_lanes *lanes, struct ws_row_finder *finder);
void ws_row_finder_close(struct ws_row_finder *finder);
/* Numbers of lanes, WS_NO_ROW where none shows it. For a thread, the lane of its states, else of
 * its calls. */
uint32_t ws_find_thread_row(const struct ws_row_finder *finder, uint32_t thread);
uint32_t ws_find_stream_row(const struct ws_row_finder *finder, uint64_t device, uint32_t process,
			    uint32_t stream);
/* The row of a piece of the path: the stream of work on a GPU, else the thread. */
uint32_t ws_find_piece_row(const struct ws_row_finder *finder, const struct ws_model *model,
			   const struct ws_piece *piece);

#endif
