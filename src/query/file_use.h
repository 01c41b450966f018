/*
 * file_use.h - how a program uses its files, from the calls of the OS runtime that were recorded:
 * what it opened, read and wrote, how long that took, and whether it goes through a file in order.
 */
#ifndef WS_QUERY_FILE_USE_H
#define WS_QUERY_FILE_USE_H

#include "query/query.h"

/* A shorter read is small: the call costs more than the bytes. */
#define WS_SMALL_READ 4096u

struct ws_file_use {
	uint32_t process, path; /* id in the table process; string id */
	uint64_t opens, reads, writes, others;
	uint64_t read_bytes, written_bytes;
	uint64_t small_reads; /* of less than WS_SMALL_READ bytes */
	/*
	 * Reads and writes that begin at or soon after the end of the one before, and those that
	 * begin elsewhere. Some are neither: the first of a thread, and those whose place is not
	 * known.
	 */
	uint64_t in_order, jumps;
	uint64_t ns; /* of all calls */
};

/*
 * The files that calls between `from` and `to` used, in no order: *count of them, owned by the
 * caller. Pipes, sockets and the like do not count as files.
 */
struct ws_file_use *ws_load_file_use(const struct ws_report *report,
				     const struct ws_names_by_id *who, uint64_t from, uint64_t to,
				     size_t *count);

#endif
