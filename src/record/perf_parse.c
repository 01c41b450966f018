/*
 * perf_parse.c - see perf_parse.h. The kernel is trusted as little as a file: every length is
 * checked against the record's size, because the same code reads what a damaged ring holds.
 */
#include "record/perf_parse.h"
#include "base/choose.h"

#include <string.h>

struct tail { /* sample_id of the records that are not samples: the last bytes */
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
	uint64_t id;
};

struct head { /* the beginning of every sample: WS_PERF_SAMPLE_BASE */
	struct perf_event_header header;
	uint64_t id, ip;
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
	uint64_t period;
};

#define MOST_CHAIN 4096u

uint64_t ws_perf_time(const void *rec, size_t size)
{
	const struct perf_event_header *header = rec;
	const char *at = rec;
	struct tail tail;

	if (header->type == PERF_RECORD_SAMPLE)
		return size >= sizeof(struct head) ? ((const struct head *)rec)->time : 0;
	if (size < sizeof(*header) + sizeof(tail))
		return 0;
	memcpy(&tail, at + size - sizeof(tail), sizeof(tail));
	return tail.time;
}

uint64_t ws_perf_id(const void *rec, size_t size)
{
	return size >= sizeof(struct head) ? ((const struct head *)rec)->id : 0;
}

struct in { /* what is left of a sample */
	const char *p;
	size_t left;
};

static const void *take(struct in *in, uint64_t bytes)
{
	const char *at = in->p;

	if (bytes > in->left)
		return NULL;
	in->p += bytes;
	in->left -= bytes;
	return at;
}

static bool take_u64(struct in *in, uint64_t *values)
{
	const void *memory = take(in, sizeof(*values));

	if (memory)
		memcpy(values, memory, sizeof(*values));
	return memory;
}

static bool take_raw(struct in *in, struct ws_perf_sample *sample)
{
	const void *memory = take(in, sizeof(uint32_t));

	if (!memory)
		return false;
	memcpy(&sample->raw_size, memory, sizeof(sample->raw_size));
	if ((sample->raw_size + 4ull) % 8) /* what follows is aligned */
		return false;
	sample->raw = take(in, sample->raw_size);
	return sample->raw;
}

static bool take_branches(struct in *in, struct ws_perf_sample *sample)
{
	if (!take_u64(in, &sample->branch_n) || sample->branch_n > MOST_CHAIN)
		return false;
	sample->branches = take(in, sample->branch_n * sizeof(*sample->branches));
	return sample->branches;
}

static bool take_regs(struct in *in, unsigned regs, struct ws_perf_sample *sample)
{
	const void *memory;
	uint64_t abi;

	if (!take_u64(in, &abi))
		return false;
	if (abi == PERF_SAMPLE_REGS_ABI_NONE)
		return true;
	memory = take(in, 8ull * regs);
	sample->regs = abi == PERF_SAMPLE_REGS_ABI_64 ? memory
						      : NULL; /* a 32-bit program is not unwound */
	return memory;
}

static bool take_stack(struct in *in, struct ws_perf_sample *sample)
{
	uint64_t size, filled;

	if (!take_u64(in, &size))
		return false;
	if (!size)
		return true;
	if (size % 8)
		return false;
	sample->stack = take(in, size);
	if (!sample->stack || !take_u64(in, &filled))
		return false;
	sample->stack_size = ws_min(filled, size);
	return true;
}

static bool parse_sample(const void *rec, size_t size, uint64_t type, unsigned regs,
			 struct ws_perf_rec *out)
{
	const struct head *head = rec;
	struct in in = {(const char *)rec + sizeof(*head), size - sizeof(*head)};
	struct ws_perf_sample *sample = &out->sample;

	if (size < sizeof(*head) || (type & WS_PERF_SAMPLE_BASE) != WS_PERF_SAMPLE_BASE ||
	    type & ~(uint64_t)(WS_PERF_SAMPLE_BASE | WS_PERF_SAMPLE_MORE))
		return false;
	out->pid = head->pid;
	out->tid = head->tid;
	out->time = head->time;
	out->cpu = head->cpu;
	out->id = head->id;
	sample->ip = head->ip;
	sample->period = head->period;
	if (type & PERF_SAMPLE_CALLCHAIN) {
		if (!take_u64(&in, &sample->chain_n) || sample->chain_n > MOST_CHAIN)
			return false;
		sample->chain = take(&in, sample->chain_n * sizeof(*sample->chain));
		if (!sample->chain)
			return false;
	}
	if (type & PERF_SAMPLE_RAW && !take_raw(&in, sample))
		return false;
	if (type & PERF_SAMPLE_BRANCH_STACK && !take_branches(&in, sample))
		return false;
	if (type & PERF_SAMPLE_REGS_USER && !take_regs(&in, regs, sample))
		return false;
	return !(type & PERF_SAMPLE_STACK_USER) || take_stack(&in, sample);
}

/* A text of a record. A record in which it is not NUL-terminated is invalid. */
static const char *text(const char *at, const char *end)
{
	return at < end && memchr(at, 0, (size_t)(end - at)) ? at : NULL;
}

struct mmap2 {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, offset;
	union {
		struct {
			uint32_t major, minor;
			uint64_t inode, generation;
		};
		struct {
			uint8_t build_id_size, reserved[3];
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

static bool parse_mmap(const void *rec, const char *end, struct ws_perf_rec *out)
{
	const struct mmap2 *mmap2 = rec;
	struct ws_perf_mmap *mmap = &out->mmap;

	if ((size_t)(end - (const char *)rec) < sizeof(*mmap2) ||
	    !(mmap->path = text(mmap2->path, end)))
		return false;
	out->pid = mmap2->pid;
	out->tid = mmap2->tid;
	mmap->addr = mmap2->addr;
	mmap->len = mmap2->len;
	mmap->offset = mmap2->offset;
	mmap->prot = mmap2->prot;
	if (!(out->misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
		mmap->major = mmap2->major;
		mmap->minor = mmap2->minor;
		mmap->inode = mmap2->inode;
	} else if (mmap2->build_id_size && mmap2->build_id_size <= sizeof(mmap2->build_id)) {
		mmap->build_id = mmap2->build_id;
		mmap->build_id_size = mmap2->build_id_size;
	}
	return true;
}

static bool parse_task(const uint32_t *values, const char *end, struct ws_perf_rec *out)
{
	if ((size_t)(end - (const char *)values) < 16)
		return false;
	out->pid = values[0];
	out->task.ppid = values[1];
	out->tid = values[2];
	out->task.ptid = values[3];
	return true;
}

static bool parse_switch(const uint32_t *values, const char *end, struct ws_perf_rec *out)
{
	if (out->type == PERF_RECORD_SWITCH)
		return true;
	if ((size_t)(end - (const char *)values) < 8)
		return false;
	out->other.pid = values[0];
	out->other.tid = values[1];
	return true;
}

static bool parse_body(const void *rec, const char *end, struct ws_perf_rec *out)
{
	const struct perf_event_header *header = rec;
	const uint32_t *values = (const uint32_t *)(header + 1);
	size_t room = (size_t)(end - (const char *)values);

	switch (header->type) {
	case PERF_RECORD_MMAP2:
		return parse_mmap(rec, end, out);
	case PERF_RECORD_COMM:
		if (room < 9)
			return false;
		out->pid = values[0];
		out->tid = values[1];
		return (out->comm = text((const char *)(values + 2), end));
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		return parse_task(values, end, out);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return parse_switch(values, end, out);
	case PERF_RECORD_LOST:
		if (room < 16)
			return false;
		memcpy(&out->lost, values + 2, sizeof(out->lost));
		return true;
	case PERF_RECORD_LOST_SAMPLES:
		if (room < 8)
			return false;
		memcpy(&out->lost, values, sizeof(out->lost));
		return true;
	case PERF_RECORD_THROTTLE:
		return true;
	default:
		return false;
	}
}

bool ws_perf_parse(const void *rec, size_t size, uint64_t type, unsigned regs,
		   struct ws_perf_rec *out)
{
	const struct perf_event_header *header = rec;
	const char *end = (const char *)rec + size;
	struct tail tail;

	memset(out, 0, sizeof(*out));
	if (size < sizeof(*header) || header->size != size)
		return false;
	out->type = header->type;
	out->misc = header->misc;
	if (header->type == PERF_RECORD_SAMPLE)
		return parse_sample(rec, size, type, regs, out);
	if (size < sizeof(*header) + sizeof(tail))
		return false;
	memcpy(&tail, end - sizeof(tail), sizeof(tail));
	out->pid = tail.pid;
	out->tid = tail.tid;
	out->time = tail.time;
	out->cpu = tail.cpu;
	out->id = tail.id;
	return parse_body(rec, end - sizeof(tail), out);
}
