/* jit.c - see jit.h. Files are read whole, up to a bound: they grow by some hundred bytes a
 * function. */
#include "symbols/jit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sort.h"
#include "symbols/bytes.h"

#define MOST_BYTES (UINT64_C(1) << 30) /* a jitdump carries the code itself */
#define MOST_TEXT (UINT32_C(1) << 30)
#define LONGEST_NAME 4096
#define WIDEST (UINT64_C(1) << 28) /* a function of more bytes than this is an error of the file \
				    */

static uint32_t add_text(struct ws_jit *j, const char *s, size_t n)
{
	uint32_t at;

	n = n < LONGEST_NAME ? n : LONGEST_NAME;
	if (!n || j->text_len + n + 2 > MOST_TEXT)
		return 0;
	ws_grow(j->text, j->text_cap, j->text_len + n + 2);
	if (!j->text_len)
		j->text[j->text_len++] = 0;
	at = (uint32_t)j->text_len;
	memcpy(j->text + at, s, n);
	j->text[at + n] = 0;
	j->text_len = at + n + 1;
	return at;
}

static void add_code(struct ws_jit *j, uint64_t begin, uint64_t size, const char *name, size_t n)
{
	uint32_t at;

	if (!size || size > WIDEST || begin > UINT64_MAX - size)
		return;
	at = add_text(j, name, n);
	if (!at)
		return;
	ws_grow(j->v, j->cap, j->n + 1);
	j->v[j->n++] = (struct ws_jit_code){.begin = begin, .size = size, .name = at};
	j->widest = size > j->widest ? size : j->widest;
}

/* ---- perf maps: "begin size name" in hexadecimal, a line a function ---- */

static bool take_hex(const char **p, const char *end, uint64_t *v)
{
	unsigned digits = 0;

	*v = 0;
	if (end - *p > 2 && (*p)[0] == '0' && ((*p)[1] == 'x' || (*p)[1] == 'X'))
		*p += 2;
	for (; *p < end; (*p)++, digits++) {
		char c = **p;
		int d = c >= '0' && c <= '9'   ? c - '0'
			: c >= 'a' && c <= 'f' ? c - 'a' + 10
			: c >= 'A' && c <= 'F' ? c - 'A' + 10
					       : -1;

		if (d < 0)
			break;
		*v = *v << 4 | (uint64_t)d;
	}
	return digits && digits <= 16 && *p < end && (**p == ' ' || **p == '\t');
}

static void read_map(struct ws_jit *j, const char *p, const char *end)
{
	while (p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p)), *last;
		uint64_t begin, size;

		stop = stop ? stop : end;
		last = stop;
		while (last > p && (last[-1] == '\r' || last[-1] == ' '))
			last--;
		if (take_hex(&p, last, &begin)) {
			p++;
			if (take_hex(&p, last, &size) && last > p + 1)
				add_code(j, begin, size, p + 1, (size_t)(last - p - 1));
		}
		p = stop + 1;
	}
}

/* ---- jitdump ---- */

enum { JIT_LOAD = 0, JIT_MOVE = 1, JIT_DEBUG = 2, JIT_CLOSE = 3 };

static void read_load(struct ws_jit *j, struct ws_cursor c)
{
	uint64_t address, size;
	const char *name;

	ws_take(&c, 8); /* pid, tid */
	ws_take(&c, 8); /* vma */
	address = ws_take(&c, 8);
	size = ws_take(&c, 8);
	ws_take(&c, 8); /* index */
	name = ws_take_text(&c);
	if (!c.bad)
		add_code(j, address, size, name, strlen(name));
}

static void read_move(struct ws_jit *j, struct ws_cursor c)
{
	uint64_t from, to, size;

	ws_take(&c, 8); /* pid, tid */
	ws_take(&c, 8); /* vma */
	from = ws_take(&c, 8);
	to = ws_take(&c, 8);
	size = ws_take(&c, 8);
	if (c.bad)
		return;
	for (size_t i = j->n; i-- > 0;)
		if (j->v[i].begin == from) {
			struct ws_jit_code moved = j->v[i];

			moved.begin = to;
			moved.size = size && size <= WIDEST && to <= UINT64_MAX - size ? size
										       : moved.size;
			if (to > UINT64_MAX - moved.size)
				return;
			ws_grow(j->v, j->cap, j->n + 1);
			j->v[j->n++] = moved;
			j->widest = moved.size > j->widest ? moved.size : j->widest;
			return;
		}
}

static void read_lines(struct ws_jit *j, struct ws_cursor c)
{
	uint64_t n;
	uint32_t file = 0;
	const char *last = "";

	ws_take(&c, 8); /* the function's address */
	n = ws_take(&c, 8);
	for (uint64_t i = 0; i < n && !c.bad; i++) {
		uint64_t address = ws_take(&c, 8);
		uint32_t line = (uint32_t)ws_take(&c, 4);
		const char *name;

		ws_take(&c, 4); /* discriminator */
		name = ws_take_text(&c);
		if (c.bad)
			break;
		if (strcmp(name, "\xff") &&
		    strcmp(name, last)) { /* 0xff: the same file as before */
			file = add_text(j, name, strlen(name));
			last = name;
		}
		ws_grow(j->lines, j->lines_cap, j->lines_n + 1);
		j->lines[j->lines_n++] = (struct ws_jit_line){address, file, line};
	}
}

static void read_dump(struct ws_jit *j, const uint8_t *data, size_t n)
{
	struct ws_cursor c = {data, data + n, false};
	uint32_t header;

	ws_take(&c, 4); /* magic */
	if (ws_take(&c, 4) != 1)
		return;
	header = (uint32_t)ws_take(&c, 4);
	if (c.bad || header < 40 || header > n)
		return;
	c.p = data + header;
	while (c.end - c.p >= 16) {
		const uint8_t *at = c.p;
		uint32_t id = (uint32_t)ws_take(&c, 4), size = (uint32_t)ws_take(&c, 4);
		struct ws_cursor body;

		if (size < 16 ||
		    size > (uint64_t)(c.end - at)) /* the generator was killed while it wrote */
			return;
		body = (struct ws_cursor){at + 16, at + size, false};
		if (id == JIT_LOAD)
			read_load(j, body);
		else if (id == JIT_MOVE)
			read_move(j, body);
		else if (id == JIT_DEBUG)
			read_lines(j, body);
		else if (id == JIT_CLOSE)
			return;
		c.p = at + size;
	}
}

/* ---- the interface ---- */

void ws_jit_read(struct ws_jit *j, const void *data, size_t n)
{
	static const char magic[4] = {'D', 'T', 'i',
				      'J'}; /* 0x4A695444, as a little-endian machine writes it */

	if (n >= 40 && !memcmp(data, magic, 4))
		read_dump(j, data, n);
	else
		read_map(j, data, (const char *)data + n);
}

static bool read_all(int fd, char *to, size_t *n)
{
	size_t got = 0;

	while (got < *n) {
		ssize_t r = read(fd, to + got, *n - got);

		if (r < 0)
			return false;
		if (!r)
			break;
		got += (size_t)r;
	}
	*n = got;
	return true;
}

int ws_jit_read_file(struct ws_jit *j, const char *path, uint64_t since_s, uint64_t until_s,
		     struct ws_err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = 0;
	struct stat st;
	char *data;
	size_t n;

	if (fd < 0)
		return ws_fail_errno(e, "cannot open %s", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		rc = ws_fail(e, "%s is not a regular file", path);
	} else if ((since_s && (uint64_t)st.st_mtim.tv_sec + 1 < since_s) ||
		   (until_s && (uint64_t)st.st_mtim.tv_sec > until_s)) {
		rc = ws_fail(e, "%s was not written during the recording", path);
	} else {
		n = (uint64_t)st.st_size < MOST_BYTES ? (size_t)st.st_size : (size_t)MOST_BYTES;
		data = ws_malloc(n + 1);
		if (read_all(fd, data, &n))
			ws_jit_read(j, data, n);
		else
			rc = ws_fail_errno(e, "cannot read %s", path);
		free(data);
	}
	close(fd);
	return rc;
}

static int by_begin(const void *a, const void *b)
{
	const struct ws_jit_code *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int by_address(const void *a, const void *b)
{
	const struct ws_jit_line *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

void ws_jit_sort(struct ws_jit *j)
{
	if (j->n)
		qsort(j->v, j->n, sizeof(*j->v), by_begin);
	if (j->lines_n)
		qsort(j->lines, j->lines_n, sizeof(*j->lines), by_address);
}

static void find_line(const struct ws_jit *j, uint64_t address, uint64_t begin, const char **file,
		      uint32_t *line)
{
	size_t low;

	*file = "";
	*line = 0;
	low = ws_bisect(j->lines_n, mid, j->lines[mid].address <= address);
	if (low && j->lines[low - 1].address >= begin) {
		*file = j->text + j->lines[low - 1].file;
		*line = j->lines[low - 1].line;
	}
}

const char *ws_jit_find(const struct ws_jit *j, uint64_t address, uint64_t *begin,
			const char **file, uint32_t *line)
{
	const char *name = NULL;
	size_t low = ws_bisect(j->n, mid, j->v[mid].begin <= address);

	for (size_t i = low; i-- > 0 && address - j->v[i].begin < j->widest;) {
		const struct ws_jit_code *c = &j->v[i];

		if (address - c->begin >= c->size)
			continue;
		if (name && strcmp(name, j->text + c->name))
			return NULL;
		name = j->text + c->name;
		*begin = c->begin;
	}
	if (name)
		find_line(j, address, *begin, file, line);
	return name;
}

void ws_jit_free(struct ws_jit *j)
{
	free(j->v);
	free(j->text);
	free(j->lines);
	memset(j, 0, sizeof(*j));
}
