/* perf_case.h - what test_perf.c and fuzz_perf.c share: records as the kernel writes them. */
#ifndef PERF_CASE_H
#define PERF_CASE_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/perf_private.h"

#define REGS 17u
#define ALL_BITS (WS_PERF_SAMPLE_BASE | WS_PERF_SAMPLE_MORE)

struct bytes { /* a record being made */
	_Alignas(8) char b[65536];
	size_t n;
};

static inline void put(struct bytes *bytes, const void *memory, size_t n)
{
	memcpy(bytes->b + bytes->n, memory, n);
	bytes->n += n;
}

static inline void put64(struct bytes *bytes, uint64_t v)
{
	put(bytes, &v, 8);
}

static inline void put32(struct bytes *bytes, uint32_t a, uint32_t b)
{
	put(bytes, &a, 4);
	put(bytes, &b, 4);
}

static inline void begin(struct bytes *bytes, uint32_t type, uint16_t misc)
{
	struct perf_event_header header = {.type = type, .misc = misc};

	bytes->n = 0;
	put(bytes, &header, sizeof(header));
}

static inline void finish(struct bytes *bytes)
{
	struct perf_event_header header;

	memcpy(&header, bytes->b, sizeof(header));
	header.size = (uint16_t)bytes->n;
	memcpy(bytes->b, &header, sizeof(header));
}

/* What ends every record that is no sample. */
static inline void sample_id(struct bytes *bytes, uint32_t pid, uint32_t tid, uint64_t time,
			     uint32_t cpu, uint64_t id)
{
	put32(bytes, pid, tid);
	put64(bytes, time);
	put32(bytes, cpu, 0);
	put64(bytes, id);
	finish(bytes);
}

/* A sample with everything that `type` asks for. */
static inline void make_sample(struct bytes *bytes, uint64_t type, uint64_t id, uint64_t time)
{
	begin(bytes, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	put64(bytes, id);
	put64(bytes, 0x401000); /* ip */
	put32(bytes, 100, 101);
	put64(bytes, time);
	put32(bytes, 3, 0);
	put64(bytes, 1000000); /* period */
	if (type & PERF_SAMPLE_CALLCHAIN) {
		put64(bytes, 3);
		put64(bytes, (uint64_t)PERF_CONTEXT_USER);
		put64(bytes, 0x401000);
		put64(bytes, 0x402000);
	}
	if (type & PERF_SAMPLE_RAW) {
		put32(bytes, 12, 0x64636261);
		put64(bytes, 0x6867666564636261);
	}
	if (type & PERF_SAMPLE_BRANCH_STACK) {
		struct perf_branch_entry entry = {.from = 0x1000, .to = 0x2000};

		put64(bytes, 1);
		put(bytes, &entry, sizeof(entry));
	}
	if (type & PERF_SAMPLE_REGS_USER) {
		put64(bytes, PERF_SAMPLE_REGS_ABI_64);
		for (unsigned i = 0; i < REGS; i++)
			put64(bytes, 0x700 + i);
	}
	if (type & PERF_SAMPLE_STACK_USER) {
		put64(bytes, 64);
		for (int i = 0; i < 8; i++)
			put64(bytes, (uint64_t)i);
		put64(bytes, 40); /* as much of it was there */
	}
	finish(bytes);
}

/* Take a record apart and look at all that came of it, so that a sanitizer sees every pointer. */
static inline unsigned long look(const void *rec, size_t n, uint64_t type)
{
	struct ws_perf_rec out;
	unsigned long sum = 0;

	if (!ws_perf_parse(rec, n, type, REGS, &out))
		return 0;
	sum = out.pid + out.tid + out.cpu + out.time + out.id;
	if (out.type == PERF_RECORD_SAMPLE) {
		const struct ws_perf_sample *sample = &out.sample;

		for (uint64_t i = 0; i < sample->chain_n; i++)
			sum += sample->chain[i];
		for (uint32_t i = 0; i < sample->raw_size; i++)
			sum += ((const uint8_t *)sample->raw)[i];
		for (uint64_t i = 0; i < sample->branch_n; i++)
			sum += sample->branches[i].from;
		for (unsigned i = 0; sample->regs && i < REGS; i++)
			sum += sample->regs[i];
		for (uint64_t i = 0; i < sample->stack_size; i++)
			sum += sample->stack[i];
	}
	if (out.type == PERF_RECORD_MMAP2) {
		sum += strlen(out.mmap.path);
		for (size_t i = 0; i < out.mmap.build_id_size; i++)
			sum += out.mmap.build_id[i];
	}
	if (out.type == PERF_RECORD_COMM)
		sum += strlen(out.comm);
	return sum | 1;
}

static const char format_text[] =
	"name: sched_waking\nID: 375\nformat:\n"
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
	"\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
	"\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n"
	"\tfield:void * where;\toffset:32;\tsize:8;\tsigned:0;\n"
	"\tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;\n"
	"\tfield:unsigned long args[2];\toffset:48;\tsize:16;\tsigned:0;\n\n"
	"print fmt: \"comm=%s pid=%d\", REC->comm, REC->pid\n";

#endif
