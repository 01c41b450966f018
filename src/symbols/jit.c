/* jit.c - see jit.h. Files are read whole, up to a limit: they grow by some hundred bytes for each
 * function. */
#include "symbols/jit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/sort.h"
#include "symbols/bytes.h"

#define MOST_BYTES (UINT64_C(1) << 30) /* a jitdump carries the code itself */
#define MOST_TEXT (UINT32_C(1) << 30)
#define LONGEST_NAME 4096
/* A function of more bytes than this is an error in the file. */
#define WIDEST (UINT64_C(1) << 28)

static uint32_t add_jit_text(struct ws_jit *jit, const char *text, size_t length)
{
	uint32_t at;

	length = ws_min(length, LONGEST_NAME);
	if (!length || jit->text_len + length + 2 > MOST_TEXT)
		return 0;
	ws_grow(jit->text, jit->text_cap, jit->text_len + length + 2);
	if (!jit->text_len)
		jit->text[jit->text_len++] = 0;
	at = (uint32_t)jit->text_len;
	memcpy(jit->text + at, text, length);
	jit->text[at + length] = 0;
	jit->text_len = at + length + 1;
	return at;
}

static void add_jit_code(struct ws_jit *jit, uint64_t begin, uint64_t size, const char *name,
			 size_t length)
{
	uint32_t at;

	if (!size || size > WIDEST || begin > UINT64_MAX - size)
		return;
	at = add_jit_text(jit, name, length);
	if (!at)
		return;
	ws_grow(jit->codes, jit->cap, jit->count + 1);
	jit->codes[jit->count++] = (struct ws_jit_code){.begin = begin, .size = size, .name = at};
	jit->widest = ws_max(size, jit->widest);
}

/* ---- perf maps: a line for each function, "begin size name" with numbers in hexadecimal ---- */

/* The value of a hexadecimal digit; -1 when it is none. */
static int parse_digit(char letter)
{
	if (letter >= '0' && letter <= '9')
		return letter - '0';
	if (letter >= 'a' && letter <= 'f')
		return letter - 'a' + 10;
	if (letter >= 'A' && letter <= 'F')
		return letter - 'A' + 10;
	return -1;
}

/* Read a number that a blank ends, and move *p behind it. */
static bool read_hex(const char **p, const char *end, uint64_t *value)
{
	unsigned digits = 0;

	*value = 0;
	if (end - *p > 2 && (*p)[0] == '0' && ((*p)[1] == 'x' || (*p)[1] == 'X'))
		*p += 2;
	for (; *p < end; (*p)++, digits++) {
		int digit = parse_digit(**p);

		if (digit < 0)
			break;
		*value = *value << 4 | (uint64_t)digit;
	}
	return digits && digits <= 16 && *p < end && (**p == ' ' || **p == '\t');
}

static void read_perf_map(struct ws_jit *jit, const char *at, const char *end)
{
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at)), *last;
		uint64_t begin, size;

		if (!stop)
			stop = end;
		last = stop;
		while (last > at && (last[-1] == '\r' || last[-1] == ' '))
			last--;
		if (read_hex(&at, last, &begin)) {
			at++;
			if (read_hex(&at, last, &size) && last > at + 1)
				add_jit_code(jit, begin, size, at + 1, (size_t)(last - at - 1));
		}
		at = stop + 1;
	}
}

/* ---- jitdump ---- */

enum { JIT_LOAD = 0, JIT_MOVE = 1, JIT_DEBUG = 2, JIT_CLOSE = 3 };

static void read_load(struct ws_jit *jit, struct ws_byte_reader reader)
{
	uint64_t address, size;
	const char *name;

	ws_read_uint(&reader, 8); /* pid, tid */
	ws_read_uint(&reader, 8); /* vma */
	address = ws_read_uint(&reader, 8);
	size = ws_read_uint(&reader, 8);
	ws_read_uint(&reader, 8); /* index */
	name = ws_read_nul_text(&reader);
	if (!reader.bad)
		add_jit_code(jit, address, size, name, strlen(name));
}

static void read_move(struct ws_jit *jit, struct ws_byte_reader reader)
{
	uint64_t from, to, size;

	ws_read_uint(&reader, 8); /* pid, tid */
	ws_read_uint(&reader, 8); /* vma */
	from = ws_read_uint(&reader, 8);
	to = ws_read_uint(&reader, 8);
	size = ws_read_uint(&reader, 8);
	if (reader.bad)
		return;
	for (size_t i = jit->count; i-- > 0;)
		if (jit->codes[i].begin == from) {
			struct ws_jit_code moved = jit->codes[i];

			moved.begin = to;
			if (size && size <= WIDEST && to <= UINT64_MAX - size)
				moved.size = size;
			if (to > UINT64_MAX - moved.size)
				return;
			ws_grow(jit->codes, jit->cap, jit->count + 1);
			jit->codes[jit->count++] = moved;
			jit->widest = ws_max(moved.size, jit->widest);
			return;
		}
}

static void read_lines(struct ws_jit *jit, struct ws_byte_reader reader)
{
	uint64_t count;
	uint32_t file = 0;
	const char *last = "";

	ws_read_uint(&reader, 8); /* the function's address */
	count = ws_read_uint(&reader, 8);
	for (uint64_t i = 0; i < count && !reader.bad; i++) {
		uint64_t address = ws_read_uint(&reader, 8);
		uint32_t line = (uint32_t)ws_read_uint(&reader, 4);
		const char *name;

		ws_read_uint(&reader, 4); /* discriminator */
		name = ws_read_nul_text(&reader);
		if (reader.bad)
			break;
		/* 0xff: the same file as before. */
		if (strcmp(name, "\xff") && strcmp(name, last)) {
			file = add_jit_text(jit, name, strlen(name));
			last = name;
		}
		ws_grow(jit->lines, jit->lines_cap, jit->line_count + 1);
		jit->lines[jit->line_count++] = (struct ws_jit_line){address, file, line};
	}
}

static void read_jitdump(struct ws_jit *jit, const uint8_t *data, size_t n)
{
	struct ws_byte_reader reader = {data, data + n, false};
	uint32_t header;

	ws_read_uint(&reader, 4); /* magic */
	if (ws_read_uint(&reader, 4) != 1)
		return;
	header = (uint32_t)ws_read_uint(&reader, 4);
	if (reader.bad || header < 40 || header > n)
		return;
	reader.bytes = data + header;
	while (reader.end - reader.bytes >= 16) {
		const uint8_t *at = reader.bytes;
		uint32_t id = (uint32_t)ws_read_uint(&reader, 4),
			 size = (uint32_t)ws_read_uint(&reader, 4);
		struct ws_byte_reader body;

		/* The generator may have been killed while it wrote. */
		if (size < 16 || size > (uint64_t)(reader.end - at))
			return;
		body = (struct ws_byte_reader){at + 16, at + size, false};
		if (id == JIT_LOAD)
			read_load(jit, body);
		else if (id == JIT_MOVE)
			read_move(jit, body);
		else if (id == JIT_DEBUG)
			read_lines(jit, body);
		else if (id == JIT_CLOSE)
			return;
		reader.bytes = at + size;
	}
}

/* ---- the interface ---- */

void ws_jit_read_memory(struct ws_jit *jit, const void *data, size_t n)
{
	/* 0x4A695444, as a little-endian machine writes it. */
	static const char magic[4] = {'D', 'T', 'i', 'J'};

	if (n >= 40 && !memcmp(data, magic, 4))
		read_jitdump(jit, data, n);
	else
		read_perf_map(jit, data, (const char *)data + n);
}

/* Read up to *n bytes; *n gets how many there were. */
static bool read_whole(int fd, char *to, size_t *n)
{
	size_t got = 0;

	while (got < *n) {
		ssize_t part = read(fd, to + got, *n - got);

		if (part < 0)
			return false;
		if (!part)
			break;
		got += (size_t)part;
	}
	*n = got;
	return true;
}

int ws_jit_read_file(struct ws_jit *jit, const char *path, uint64_t since_s, uint64_t until_s,
		     struct ws_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = 0;
	struct stat st;
	char *data;
	size_t size;

	if (fd < 0)
		return ws_fail_errno(err, "cannot open %s", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		rc = ws_fail(err, "%s is not a regular file", path);
	} else if ((since_s && (uint64_t)st.st_mtim.tv_sec + 1 < since_s) ||
		   (until_s && (uint64_t)st.st_mtim.tv_sec > until_s)) {
		rc = ws_fail(err, "%s was not written during the recording", path);
	} else {
		size = (size_t)(ws_min((uint64_t)st.st_size, MOST_BYTES));
		data = ws_malloc(size + 1);
		if (read_whole(fd, data, &size))
			ws_jit_read_memory(jit, data, size);
		else
			rc = ws_fail_errno(err, "cannot read %s", path);
		free(data);
	}
	close(fd);
	return rc;
}

static int compare_begins(const void *first, const void *second)
{
	const struct ws_jit_code *left = first, *right = second;

	return ws_compare(left->begin, right->begin);
}

static int compare_addresses(const void *first, const void *second)
{
	const struct ws_jit_line *left = first, *right = second;

	return ws_compare(left->address, right->address);
}

void ws_jit_sort(struct ws_jit *jit)
{
	if (jit->count)
		qsort(jit->codes, jit->count, sizeof(*jit->codes), compare_begins);
	if (jit->line_count)
		qsort(jit->lines, jit->line_count, sizeof(*jit->lines), compare_addresses);
}

/* The line of an address in the function that begins at `begin`. */
static void find_jit_line(const struct ws_jit *jit, uint64_t address, uint64_t begin,
			  const char **file, uint32_t *line)
{
	size_t low;

	*file = "";
	*line = 0;
	low = ws_bisect(jit->line_count, mid, jit->lines[mid].address <= address);
	if (low && jit->lines[low - 1].address >= begin) {
		*file = jit->text + jit->lines[low - 1].file;
		*line = jit->lines[low - 1].line;
	}
}

const char *ws_jit_find(const struct ws_jit *jit, uint64_t address, uint64_t *begin,
			const char **file, uint32_t *line)
{
	const char *name = NULL;
	size_t low = ws_bisect(jit->count, mid, jit->codes[mid].begin <= address);

	for (size_t i = low; i-- > 0 && address - jit->codes[i].begin < jit->widest;) {
		const struct ws_jit_code *code = &jit->codes[i];

		if (address - code->begin >= code->size)
			continue;
		if (name && strcmp(name, jit->text + code->name))
			return NULL;
		name = jit->text + code->name;
		*begin = code->begin;
	}
	if (name)
		find_jit_line(jit, address, *begin, file, line);
	return name;
}

void ws_jit_free(struct ws_jit *jit)
{
	free(jit->codes);
	free(jit->text);
	free(jit->lines);
	memset(jit, 0, sizeof(*jit));
}
