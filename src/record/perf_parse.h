/*
 * perf_parse.h - parses records of the kernel's perf buffers.
 *
 * Every event is opened with the same sample_id (TID, TIME, CPU, IDENTIFIER), so the fields that
 * all records share are at the same places, and a record's time can be read without knowing its
 * event. The rest of a sample depends on its event.
 */
#ifndef WS_RECORD_PERF_PARSE_H
#define WS_RECORD_PERF_PARSE_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sample_type bits of every event; further bits only add to them. */
#define WS_PERF_SAMPLE_BASE                                                             \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)
/* Further bits that ws_perf_parse understands. */
#define WS_PERF_SAMPLE_MORE                                                   \
	(PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW | PERF_SAMPLE_BRANCH_STACK | \
	 PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

struct ws_perf_sample {
	uint64_t ip, period;
	const uint64_t *chain; /* addresses, with PERF_CONTEXT_* markers between them */
	uint64_t chain_n;
	const void *raw;
	uint32_t raw_size;
	const struct perf_branch_entry *branches; /* newest first */
	uint64_t branch_n;
	const uint64_t *regs; /* of user space, as the mask of the event orders them; NULL when
				 there are none */
	const uint8_t *stack; /* bytes from the user stack pointer upwards */
	uint64_t stack_size;  /* bytes that were copied */
};

struct ws_perf_mmap {
	uint64_t addr, len, offset, inode;
	uint32_t major, minor, prot;
	const uint8_t *build_id;
	size_t build_id_size;
	const char *path;
};

struct ws_perf_rec {
	uint32_t type;
	uint16_t misc;
	uint32_t pid, tid; /* of the thread it happened on; for tasks, names and mappings the one it
			      is about */
	uint32_t cpu;
	uint64_t time; /* session clock */
	uint64_t id;   /* of the event */
	union {
		struct ws_perf_sample sample;
		struct ws_perf_mmap mmap;
		struct {
			uint32_t ppid, ptid;
		} task;
		struct {
			uint32_t pid, tid; /* who ran before (switched in) or runs next (switched
					      out); 0 when not known */
		} other;
		uint64_t lost;
		const char *comm; /* the new name */
	};
};

/* Least and most bytes of a record. */
#define WS_PERF_LEAST 8u
#define WS_PERF_MOST 65535u

/* Time of a record of `size` bytes, 0 when it is too short to have one. */
uint64_t ws_perf_time(const void *rec, size_t size);
/* The event that a sample belongs to, 0 when it is too short. */
uint64_t ws_perf_id(const void *rec, size_t size);
/*
 * Parse a record of `size` bytes. `type` is its event's sample_type and `regs` how many registers
 * it asked for (both matter for samples only). False when the record is not valid, or is of a type
 * that is not used. Pointers in `out` point into `rec`.
 */
bool ws_perf_parse(const void *rec, size_t size, uint64_t type, unsigned regs,
		   struct ws_perf_rec *out);

#endif
