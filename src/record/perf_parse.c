/*
 * perf_parse.c - see perf_parse.h. The kernel is trusted as little as a file: every length is
 * checked against the record's size, because the same code reads what a damaged ring holds.
 */
#include "record/perf_parse.h"

#include <string.h>

struct tail { /* sample_id of the records that are not samples: the last bytes */
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, spare;
	uint64_t id;
};

struct head { /* what every sample begins with: WS_PERF_SAMPLE_BASE */
	struct perf_event_header header;
	uint64_t id, ip;
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, spare;
	uint64_t period;
};

#define MOST_CHAIN 4096u

uint64_t ws_perf_time(const void *rec, size_t size)
{
	const struct perf_event_header *h = rec;
	const char *p = rec;
	struct tail t;

	if (h->type == PERF_RECORD_SAMPLE)
		return size >= sizeof(struct head) ? ((const struct head *)rec)->time : 0;
	if (size < sizeof(*h) + sizeof(t))
		return 0;
	memcpy(&t, p + size - sizeof(t), sizeof(t));
	return t.time;
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
	const char *p = in->p;

	if (bytes > in->left)
		return NULL;
	in->p += bytes;
	in->left -= bytes;
	return p;
}

static bool take_u64(struct in *in, uint64_t *v)
{
	const void *p = take(in, sizeof(*v));

	if (p)
		memcpy(v, p, sizeof(*v));
	return p;
}

static bool take_raw(struct in *in, struct ws_perf_sample *s)
{
	const void *p = take(in, sizeof(uint32_t));

	if (!p)
		return false;
	memcpy(&s->raw_size, p, sizeof(s->raw_size));
	if ((s->raw_size + 4ull) % 8) /* what follows is aligned */
		return false;
	s->raw = take(in, s->raw_size);
	return s->raw;
}

static bool take_branches(struct in *in, struct ws_perf_sample *s)
{
	if (!take_u64(in, &s->branch_n) || s->branch_n > MOST_CHAIN)
		return false;
	s->branches = take(in, s->branch_n * sizeof(*s->branches));
	return s->branches;
}

static bool take_regs(struct in *in, unsigned regs, struct ws_perf_sample *s)
{
	const void *p;
	uint64_t abi;

	if (!take_u64(in, &abi))
		return false;
	if (abi == PERF_SAMPLE_REGS_ABI_NONE)
		return true;
	p = take(in, 8ull * regs);
	s->regs = abi == PERF_SAMPLE_REGS_ABI_64 ? p : NULL; /* a 32-bit program is not unwound */
	return p;
}

static bool take_stack(struct in *in, struct ws_perf_sample *s)
{
	uint64_t size, filled;

	if (!take_u64(in, &size))
		return false;
	if (!size)
		return true;
	if (size % 8)
		return false;
	s->stack = take(in, size);
	if (!s->stack || !take_u64(in, &filled))
		return false;
	s->stack_size = filled < size ? filled : size;
	return true;
}

static bool parse_sample(const void *rec, size_t size, uint64_t type, unsigned regs,
			 struct ws_perf_rec *out)
{
	const struct head *h = rec;
	struct in in = {(const char *)rec + sizeof(*h), size - sizeof(*h)};
	struct ws_perf_sample *s = &out->sample;

	if (size < sizeof(*h) || (type & WS_PERF_SAMPLE_BASE) != WS_PERF_SAMPLE_BASE ||
	    type & ~(uint64_t)(WS_PERF_SAMPLE_BASE | WS_PERF_SAMPLE_MORE))
		return false;
	out->pid = h->pid;
	out->tid = h->tid;
	out->time = h->time;
	out->cpu = h->cpu;
	out->id = h->id;
	s->ip = h->ip;
	s->period = h->period;
	if (type & PERF_SAMPLE_CALLCHAIN) {
		if (!take_u64(&in, &s->chain_n) || s->chain_n > MOST_CHAIN)
			return false;
		s->chain = take(&in, s->chain_n * sizeof(*s->chain));
		if (!s->chain)
			return false;
	}
	if (type & PERF_SAMPLE_RAW && !take_raw(&in, s))
		return false;
	if (type & PERF_SAMPLE_BRANCH_STACK && !take_branches(&in, s))
		return false;
	if (type & PERF_SAMPLE_REGS_USER && !take_regs(&in, regs, s))
		return false;
	return !(type & PERF_SAMPLE_STACK_USER) || take_stack(&in, s);
}

/* A text of a record: NUL-terminated within it, or the record does not check out. */
static const char *text(const char *p, const char *end)
{
	return p < end && memchr(p, 0, (size_t)(end - p)) ? p : NULL;
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
			uint8_t build_id_size, spare[3];
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

static bool parse_mmap(const void *rec, const char *end, struct ws_perf_rec *out)
{
	const struct mmap2 *m = rec;
	struct ws_perf_mmap *o = &out->mmap;

	if ((size_t)(end - (const char *)rec) < sizeof(*m) || !(o->path = text(m->path, end)))
		return false;
	out->pid = m->pid;
	out->tid = m->tid;
	o->addr = m->addr;
	o->len = m->len;
	o->offset = m->offset;
	o->prot = m->prot;
	if (!(out->misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
		o->major = m->major;
		o->minor = m->minor;
		o->inode = m->inode;
	} else if (m->build_id_size && m->build_id_size <= sizeof(m->build_id)) {
		o->build_id = m->build_id;
		o->build_id_size = m->build_id_size;
	}
	return true;
}

static bool parse_task(const uint32_t *v, const char *end, struct ws_perf_rec *out)
{
	if ((size_t)(end - (const char *)v) < 16)
		return false;
	out->pid = v[0];
	out->task.ppid = v[1];
	out->tid = v[2];
	out->task.ptid = v[3];
	return true;
}

static bool parse_switch(const uint32_t *v, const char *end, struct ws_perf_rec *out)
{
	if (out->type == PERF_RECORD_SWITCH)
		return true;
	if ((size_t)(end - (const char *)v) < 8)
		return false;
	out->other.pid = v[0];
	out->other.tid = v[1];
	return true;
}

static bool parse_body(const void *rec, const char *end, struct ws_perf_rec *out)
{
	const struct perf_event_header *h = rec;
	const uint32_t *v = (const uint32_t *)(h + 1);
	size_t room = (size_t)(end - (const char *)v);

	switch (h->type) {
	case PERF_RECORD_MMAP2:
		return parse_mmap(rec, end, out);
	case PERF_RECORD_COMM:
		if (room < 9)
			return false;
		out->pid = v[0];
		out->tid = v[1];
		return (out->comm = text((const char *)(v + 2), end));
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		return parse_task(v, end, out);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return parse_switch(v, end, out);
	case PERF_RECORD_LOST:
		if (room < 16)
			return false;
		memcpy(&out->lost, v + 2, sizeof(out->lost));
		return true;
	case PERF_RECORD_LOST_SAMPLES:
		if (room < 8)
			return false;
		memcpy(&out->lost, v, sizeof(out->lost));
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
	const struct perf_event_header *h = rec;
	const char *end = (const char *)rec + size;
	struct tail t;

	memset(out, 0, sizeof(*out));
	if (size < sizeof(*h) || h->size != size)
		return false;
	out->type = h->type;
	out->misc = h->misc;
	if (h->type == PERF_RECORD_SAMPLE)
		return parse_sample(rec, size, type, regs, out);
	if (size < sizeof(*h) + sizeof(t))
		return false;
	memcpy(&t, end - sizeof(t), sizeof(t));
	out->pid = t.pid;
	out->tid = t.tid;
	out->time = t.time;
	out->cpu = t.cpu;
	out->id = t.id;
	return parse_body(rec, end - sizeof(t), out);
}
