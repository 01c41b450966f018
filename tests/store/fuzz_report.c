/*
 * fuzz_report.c - the report reader against hostile files: it may refuse, leave out and complain,
 * and must not crash, hang or read beyond what is there.
 *
 * The input's first byte chooses a base report (or none: then the rest is the file itself) and what
 * happens to it; what follows are edits of five bytes each: a place, how, and a value. Unless told
 * otherwise, all checksums are put right after that (reseal.h), so that edits reach the code behind
 * them: heads, lengths, codecs, dictionaries, schema, index. A report may come with its journal as
 * a killed recorder leaves it, which is edited likewise.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "query/query.h"
#include "reseal.h"
#include "store/format.h"
#include "../random.h"
#include "../replay.h"

enum { BASES = 4, MOST_ROWS = 4 << 20, MOST_INPUT = 1 << 16 };
enum { KEEP_CHECKS = 0x10, CUT = 0x20, RAW = 0x40, EDIT_JOURNAL = 0x80 };

struct file {
	uint8_t *p;
	size_t n;
};

static struct file base[BASES], base_journal[BASES];
static char folder[256], *path, *journal;
static uint64_t state = RANDOM_SEED;

static uint64_t draw(void)
{
	return random_star(&state);
}

/* ---- base reports ---- */

static struct file take_file(const char *name)
{
	struct file f = {NULL, 0};
	FILE *s = fopen(name, "rb");

	if (!s)
		return f;
	f.p = ws_malloc(1 << 26);
	f.n = fread(f.p, 1, 1 << 26, s);
	fclose(s);
	f.p = ws_realloc(f.p, f.n + 1);
	return f;
}

static void put_file(const char *name, const uint8_t *p, size_t n)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || pwrite(fd, p, n, 0) != (ssize_t)n || ftruncate(fd, (off_t)n))
		abort();
	close(fd);
}

/* Different codecs in each: gaps and spans; steps; zigzag, dictionaries and wide numbers; many
 * strings. */
static uint64_t stepped(uint64_t steps)
{
	return 1000000 + steps * 10 + steps / 67; /* a clock whose steps are no whole nanoseconds */
}

static void add_ranges(struct ws_writer *w, int kind, uint32_t n)
{
	uint64_t t = 1000000, steps = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct ws_row_nvtx r = {.thread = 1 + (kind == 2 ? i % 5 : 0),
					.text = 1 + i % 4,
					.type = WS_NVTX_PUSHPOP};
		char text[32];

		r.start = t += 20 + draw() % 4 * 10;
		r.end = kind == 2 && !(i % 9) ? WS_NO_TIME : (t += 30);
		if (kind == 1) {
			r.start = stepped(steps += 30 + draw() % 300 + (i % 300 == 299) * 1000000);
			r.end = stepped(steps += 30 + draw() % 500);
		}
		if (kind == 2) {
			r.payload = draw();
			r.range_id = (uint64_t[]){5, 1ull << 40, 77, 1ull << 50}[draw() % 4];
		}
		if (kind == 3)
			r.text = ws_writer_string(
				w, text, (size_t)snprintf(text, sizeof(text), "%u", i * 7919));
		ws_writer_add(w, WS_TABLE_nvtx, &r);
	}
}

static void add_small_tables(struct ws_writer *w)
{
	uint32_t s = ws_writer_string(w, "a name", 6);

	ws_writer_add(w, WS_TABLE_meta, &(struct ws_row_meta){s, s});
	ws_writer_add(w, WS_TABLE_collection, &(struct ws_row_collection){1000, 2000});
	for (uint32_t i = 1; i < 4; i++) {
		ws_writer_add(
			w, WS_TABLE_process,
			&(struct ws_row_process){.id = i, .pid = 10 + i, .start = i, .name = s});
		ws_writer_add(w, WS_TABLE_thread, &(struct ws_row_thread){i, i, 10 + i, i});
		ws_writer_add(w, WS_TABLE_thread_name, &(struct ws_row_thread_name){i, i, s, 20});
		ws_writer_add(w, WS_TABLE_osrt,
			      &(struct ws_row_osrt){.start = i,
						    .end = i + 5,
						    .thread = i,
						    .name = s,
						    .result = -(int)i,
						    .error = -1});
	}
}

static void write_base(int kind, bool crash)
{
	struct ws_writer_opts opts = {.overwrite = true, .block_rows = kind == 1 ? 400 : 150};
	struct ws_writer *w = ws_writer_create(path, &opts, NULL);

	if (!w)
		abort();
	for (int i = 0; i < 4; i++)
		ws_writer_string(w, &"wxyz"[i], 1);
	add_ranges(w, kind, 500);
	add_small_tables(w);
	if (crash) {
		ws_writer_commit(w);
		raise(SIGKILL);
	}
	if (ws_writer_close(w, NULL))
		abort();
}

static void clean_up(void)
{
	unlink(path);
	unlink(journal);
	rmdir(folder);
}

/* The journal is mostly empty space: only its head and what is in use make good targets, but all of
 * it is what a reader gets. */
static void make_bases(void)
{
	for (int k = 0; k < BASES; k++) {
		pid_t pid;

		write_base(k, false);
		base[k] = take_file(path);
		if (k != 3)
			continue;
		pid = fork();
		if (!pid)
			write_base(k, true);
		waitpid(pid, NULL, 0);
		free(base[k].p);
		base[k] = take_file(path);
		base_journal[k] = take_file(journal);
		unlink(journal);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *tmp = getenv("TMPDIR");

	(void)argc;
	(void)argv;
	snprintf(folder, sizeof(folder), "%s/ws-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) ? (tmp ? tmp : "/tmp") : "/dev/shm");
	if (!mkdtemp(folder))
		abort();
	path = ws_format("%s/f.wsrep", folder);
	journal = ws_format("%s.journal", path);
	make_bases();
	atexit(clean_up);
	return 0;
}

/* ---- reading everything ---- */

static int touch(void *ctx, const struct ws_batch *b)
{
	uint64_t sum = 0;

	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		for (size_t i = 0; b->col[c] && i < b->rows; i += 97)
			sum += b->col[c][i];
	__atomic_fetch_add((uint64_t *)ctx, sum, __ATOMIC_RELAXED);
	return 0;
}

static void read_table(const struct ws_report *r, enum ws_table t, uint64_t *sum)
{
	struct ws_scan s = {
		.table = t, .columns = UINT64_MAX, .time_max = UINT64_MAX, .workers = 1};
	struct ws_rows rows;
	struct ws_cursor *c;
	const uint64_t *v;

	for (size_t i = 0; i < ws_report_blocks(r, t); i++) {
		struct ws_block_groups g = ws_report_block_groups(r, t, i);

		for (size_t k = 0; k < g.n; k++)
			*sum += g.v[k].rows + g.v[k].key[WS_GROUP_KEYS - 1] + g.v[k].bins[0] +
				g.v[k].bins[WS_GROUP_BINS - 1];
	}
	if (ws_report_rows(r, t) > MOST_ROWS)
		return; /* a few bytes may stand for a million rows; reading them all is right and
			   slow */
	ws_scan_run(r, &s, touch, sum, NULL);
	s.time_min = 1000500;
	s.columns = 1;
	ws_scan_run(r, &s, touch, sum, NULL);
	s.time_min = 0;
	ws_rows_load(r, &s, &rows, NULL);
	ws_rows_free(&rows);
	c = ws_cursor_open(r, t, 0, UINT64_MAX);
	for (int i = 0; i < 2000 && ws_cursor_next(c, &v); i++)
		*sum += v[0];
	ws_cursor_close(c);
}

static void read_report(const struct ws_report *r)
{
	uint64_t sum = 0;
	size_t len;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		read_table(r, (enum ws_table)t, &sum);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t id = i < 100 ? i : ws_report_string_count(r) - (i - 100);
		const char *s = ws_report_string(r, id, &len);

		if (s[len])
			abort();
		sum += ws_report_string_key(r, id);
	}
	ws_report_verify(r, NULL, NULL);
	struct ws_who *who = ws_who_open(r);

	sum += ws_who_thread(who, 2)->global_tid + (uint64_t)strlen(ws_who_process(who, 1)->name);
	ws_who_close(who);
	ws_meta(r, "x");
	sum += ws_time_zero(r) + ws_time_last(r);
	if (sum == 1)
		puts("");
}

/* ---- one input ---- */

static void edit(struct file *f, const uint8_t *data, size_t n)
{
	for (; n >= 5 && f->n; data += 5, n -= 5) {
		uint32_t value = (uint32_t)(data[3] | data[4] << 8);
		size_t at = (size_t)(data[0] | data[1] << 8 | (data[2] & 0x1f) << 16) % f->n;

		switch (data[2] >> 5) {
		case 0:
			f->p[at] = (uint8_t)value;
			break;
		case 1:
			f->p[at] ^= (uint8_t)(1 << (value & 7));
			break;
		case 2: /* a 32-bit number, small */
			if (at + 4 <= f->n)
				memcpy(f->p + at, &value, 4);
			break;
		case 3: /* all ones */
			memset(f->p + at, 0xff,
			       f->n - at < (value & 15) ? f->n - at : (value & 15));
			break;
		case 4: /* as is elsewhere */
			memmove(f->p + at, f->p + value % f->n,
				(f->n - (at > value % f->n ? at : value % f->n)) % 200);
			break;
		default:
			f->p[at] += (uint8_t)value;
		}
	}
}

static struct file copy_of(const struct file *f)
{
	struct file c = {ws_malloc(f->n + 1), f->n};

	memcpy(c.p, f->p, f->n);
	return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct ws_report *r;
	struct file f, j = {NULL, 0};
	uint8_t how;

	if (n < 1 || n > MOST_INPUT)
		return 0;
	how = *data++;
	n--;
	if (how & RAW) {
		put_file(path, data, n);
	} else {
		f = copy_of(&base[how % BASES]);
		if (how & EDIT_JOURNAL && base_journal[how % BASES].n)
			j = copy_of(&base_journal[how % BASES]);
		edit(j.p ? &j : &f, data, n);
		if (!(how & KEEP_CHECKS) && !j.p)
			reseal(f.p, f.n);
		if (how & CUT && n >= 3)
			f.n = (size_t)(data[0] | data[1] << 8 | data[2] << 16) % (f.n + 1);
		put_file(path, f.p, f.n);
		if (j.p)
			put_file(journal, j.p, j.n);
		free(f.p);
		free(j.p);
	}
	r = ws_report_open(path, NULL);
	if (r)
		read_report(r);
	ws_report_close(r);
	unlink(journal);
	return 0;
}

#ifdef FUZZ_REPLAY
/* Edits near what stands at the beginning of things: there are the heads. */
static size_t make_input(uint8_t *p, int round)
{
	size_t edits = 1 + draw() % 4;
	const struct file *f;

	(void)round;
	p[0] = (uint8_t)(draw() & (draw() % 8 ? 0x03 : 0xbf));
	f = &base[p[0] % BASES];
	for (size_t i = 0; i < edits; i++) {
		size_t at = draw() % (draw() % 2 ? f->n : 6000);

		p[1 + i * 5] = (uint8_t)at;
		p[2 + i * 5] = (uint8_t)(at >> 8);
		p[3 + i * 5] = (uint8_t)((at >> 16 & 0x1f) | (draw() & 0xe0));
		p[4 + i * 5] = (uint8_t)draw();
		p[5 + i * 5] = (uint8_t)(draw() % 4 ? 0 : draw());
	}
	return 1 + edits * 5;
}

int main(int argc, char **argv)
{
	LLVMFuzzerInitialize(&argc, &argv);
	return replay_test(argc, argv, 6000, make_input);
}
#endif
