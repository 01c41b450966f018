/*
 * doubles.h - GPU times as other tools compute them: a trace's microseconds in doubles, and
 * durations as differences of those.
 *
 * PyTorch's traces write microseconds with three decimals that count from a moment up to three
 * months back. Tools that read them with a JSON library keep `ts` and `ts + dur` as doubles, which
 * resolve only 2^-20 to 2^-10 us at such times: up to a nanosecond for each end. A report has the
 * nanoseconds as they are written; figures that people compare with such tools' tables (operators,
 * GPU time breakdown) are computed from the same doubles, in parts of a nanosecond.
 *
 * This applies to processes of imported PyTorch traces whose times lie between 2^33 us, below which
 * the error is negligible, and 2^43 us. Microseconds since 1970 are beyond that: doubles resolve
 * only a quarter of a microsecond there.
 */
#ifndef WS_QUERY_DOUBLES_H
#define WS_QUERY_DOUBLES_H

#include "base/map.h"
#include "query/query.h"

enum { WS_DOUBLES_PARTS = 1024 }; /* parts of a nanosecond */

enum ws_doubles_use { WS_DOUBLES_AS_TRACED, WS_DOUBLES_NEVER, WS_DOUBLES_ALWAYS };

/*
 * The fact that an import of a PyTorch trace stores for each of its processes: its name is this and
 * the process's id, and its value what the trace's own clock showed, in ns, when the session's time
 * (ws_find_time_zero) was 0.
 */
#define WS_DOUBLES_FACT "trace.clock."

struct ws_doubles {
	enum ws_doubles_use use;
	uint64_t zero;	      /* of the session */
	struct ws_map clocks; /* process -> what the trace's clock showed at `zero` */
};

void ws_doubles_open(struct ws_doubles *doubles, const struct ws_report *report,
		     enum ws_doubles_use use);
void ws_doubles_close(struct ws_doubles *doubles);

/* How far the start and the end of GPU work move when they become doubles, in parts of a
 * nanosecond. */
struct ws_doubles_shift {
	int64_t start, end;
};
struct ws_doubles_shift ws_doubles_find_shift(const struct ws_doubles *doubles, uint64_t process,
					      uint64_t start, uint64_t end);

#endif
