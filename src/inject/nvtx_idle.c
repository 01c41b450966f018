/*
 * nvtx_idle.c - naming a range that was pushed while idle and is popped inside a collection.
 *
 * Of its text the first 16 bytes are known for certain. The rest is believed only when the text
 * lies where the program cannot write, as literals do: a buffer may hold another name by now, or be
 * freed. Elsewhere a longer name ends in "…". This is done once for each range that was open when
 * the collection began, so reading /proc/self/maps is cheap enough.
 */
#include <fcntl.h>
#include <sys/syscall.h>

#include "inject/nvtx_state.h"

/* ---- memory that the program cannot write ---- */

struct reader {
	int fd;
	size_t at, filled;
	char buf[4096];
};

static int next_byte(struct reader *reader)
{
	if (reader->at == reader->filled) {
		long n = ws_raw_syscall(SYS_read, reader->fd, (long)reader->buf,
					sizeof(reader->buf), 0, 0, 0);

		if (n <= 0)
			return -1;
		reader->filled = (size_t)n;
		reader->at = 0;
	}
	return (unsigned char)reader->buf[reader->at++];
}

/* A hexadecimal number and the byte after it; false at the end. */
static bool read_number(struct reader *reader, uint64_t *number, int *behind)
{
	int c;

	*number = 0;
	for (;;) {
		c = next_byte(reader);
		if (c >= '0' && c <= '9')
			*number = *number << 4 | (unsigned)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*number = *number << 4 | (unsigned)(c - 'a' + 10);
		else
			break;
	}
	*behind = c;
	return c >= 0;
}

static bool skip_line(struct reader *reader)
{
	int c;

	do
		c = next_byte(reader);
	while (c >= 0 && c != '\n');
	return c >= 0;
}

/* How many bytes from `address` on the program can read but not write; 0 for none. */
static uint64_t measure_constant(struct reader *reader, uint64_t address)
{
	uint64_t low, high;
	int behind;

	do {
		if (!read_number(reader, &low, &behind) || behind != '-' ||
		    !read_number(reader, &high, &behind) || behind != ' ')
			return 0;
		if (address < low)
			return 0;
		if (address < high) {
			bool readable = next_byte(reader) == 'r',
			     writable = next_byte(reader) == 'w';

			return readable && !writable ? high - address : 0;
		}
	} while (skip_line(reader));
	return 0;
}

static uint64_t find_constant_bytes(uint64_t address)
{
	struct reader reader;
	uint64_t bytes = 0;
	long fd;

	if (ws_rt_is_sandboxed())
		return 0;
	fd = ws_raw_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0,
			    0, 0);
	if (fd < 0)
		return 0;
	reader.fd = (int)fd;
	reader.at = reader.filled = 0;
	bytes = measure_constant(&reader, address);
	ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return bytes;
}

/* ---- names ---- */

static struct nvtx_text define_text(struct ws_thread *thread, const char *text, size_t len)
{
	struct nvtx_text out = {0, 0};
	bool local = false;

	out.value = ws_rt_write_string_or_text(thread, text, len, &local, WS_LOSS_NVTX);
	if (!out.value)
		out.flags = WS_OPEN_LOST;
	else if (local)
		out.flags = WS_OPEN_LOCAL_TEXT;
	return out;
}

void ws_nvtx_name_idle_range(struct ws_thread *thread, struct ws_open *open)
{
	const char *text = (const char *)(uintptr_t)open->address;
	char head[WS_OPEN_HEAD_ROOM];
	uint64_t constant = 0;
	struct nvtx_text name;

	if (!ws_read_open_head(open, head))
		constant = find_constant_bytes(open->address);
	/* Another library may have been loaded at the address of the one that held the text. */
	if (constant > sizeof(open->head) && !memcmp(text, open->head, sizeof(open->head)))
		name = define_text(thread, text, strnlen(text, constant));
	else
		name = define_text(thread, head, strlen(head));
	open->payload = 0;
	open->text = name.value;
	open->color = open->category = open->binary = 0;
	open->flags = (uint8_t)((open->flags & ~WS_OPEN_IDLE) | name.flags);
}
