/* input.c - see input.h. The thread that decompresses hands over blocks in a ring of BLOCKS. */
#include "text/input.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/choose.h"

enum { BLOCKS = 4, BLOCK_BYTES = 1 << 20, INPUT_BYTES = 256 << 10 };

struct ws_input {
	int fd;
	uint64_t size, done; /* bytes of the file, and how many of them have been read */
	char *broken;
	/* gzip only */
	bool gzip;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char *blocks[BLOCKS];
	size_t lengths[BLOCKS], block_offset; /* at: in the block being read */
	uint64_t blocks_made, blocks_used;
	bool ended, stop;
	z_stream inflater;
	unsigned char *input;
	uint64_t unpacked_bytes;
};

static size_t read_file(struct ws_input *source, void *out, size_t n)
{
	ssize_t got;

	do
		got = read(source->fd, out, n);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		source->broken = ws_format("it cannot be read: %s", strerror(errno));
		return 0;
	}
	__atomic_fetch_add(&source->done, (uint64_t)got, __ATOMIC_RELAXED);
	return (size_t)got;
}

/* Give the decompressor input if it has none; false at the end of the file. */
static bool feed_inflate(struct ws_input *source)
{
	if (source->inflater.avail_in)
		return true;
	source->inflater.next_in = source->input;
	source->inflater.avail_in = (unsigned)read_file(source, source->input, INPUT_BYTES);
	return source->inflater.avail_in > 0;
}

/* What is wrong where decompressing stops with an error. zlib compares the checksum and the length
 * at the end of each member with what came out. */
static const char *explain_bad_member(const struct ws_input *source)
{
	const char *problem = source->inflater.msg;

	if (problem && !strcmp(problem, "incorrect data check"))
		return "its compressed data are damaged: they do not have the checksum that stands "
		       "at their end";
	if (problem && !strcmp(problem, "incorrect length check"))
		return "its compressed data are damaged: they do not have the length that stands "
		       "at their end";
	return "its compressed data are damaged";
}

/* Get ready for the member that follows the one that just ended. False at the end of the file:
 * zeros behind the last member are padding, anything else is damage. */
static bool begin_next_member(struct ws_input *source)
{
	while (feed_inflate(source)) {
		if (source->inflater.next_in[0] == 0x1f)
			return inflateReset(&source->inflater) == Z_OK;
		if (source->inflater.next_in[0]) {
			source->broken = ws_strdup("what follows its compressed data is damaged");
			return false;
		}
		source->inflater.next_in++;
		source->inflater.avail_in--;
	}
	return false;
}

/* Decompress into one block. Returns its length; sets *last when nothing follows. */
static size_t inflate_block(struct ws_input *source, char *out, bool *last)
{
	source->inflater.next_out = (unsigned char *)out;
	source->inflater.avail_out = BLOCK_BYTES;
	while (source->inflater.avail_out && !*last) {
		const char *problem = "its compressed data end too early";
		int rc = Z_BUF_ERROR;

		if (feed_inflate(source)) {
			rc = inflate(&source->inflater, Z_NO_FLUSH);
			problem = explain_bad_member(source);
		}
		if (rc == Z_STREAM_END) {
			*last = !begin_next_member(source);
		} else if (rc != Z_OK) {
			*last = true;
			if (!source->broken)
				source->broken = ws_strdup(problem);
		}
	}
	return BLOCK_BYTES - source->inflater.avail_out;
}

static void *decompress_blocks(void *arg)
{
	struct ws_input *source = arg;
	bool last = false;

	while (!last) {
		int slot = (int)(source->blocks_made % BLOCKS);
		size_t length = inflate_block(source, source->blocks[slot], &last);

		source->unpacked_bytes += length;
		if (source->unpacked_bytes > WS_INPUT_MOST_BYTES && !last) {
			source->broken = ws_format(
				"it unpacks to more than %llu GiB, which is as much as is read",
				(unsigned long long)(WS_INPUT_MOST_BYTES >> 30));
			last = true;
		}
		pthread_mutex_lock(&source->lock);
		source->lengths[slot] = length;
		source->blocks_made++;
		source->ended = last;
		pthread_cond_broadcast(&source->changed);
		while (source->blocks_made - source->blocks_used == BLOCKS && !source->stop)
			pthread_cond_wait(&source->changed, &source->lock);
		last |= source->stop;
		pthread_mutex_unlock(&source->lock);
	}
	return NULL;
}

static int start_decompressing(struct ws_input *source, struct ws_err *err)
{
	int rc;

	if (inflateInit2(&source->inflater, 15 + 16) != Z_OK)
		return ws_fail(err, "cannot start decompressing");
	source->gzip = true;
	source->input = ws_malloc(INPUT_BYTES);
	for (int i = 0; i < BLOCKS; i++)
		source->blocks[i] = ws_malloc(BLOCK_BYTES);
	pthread_mutex_init(&source->lock, NULL);
	pthread_cond_init(&source->changed, NULL);
	rc = pthread_create(&source->thread, NULL, decompress_blocks, source);
	if (!rc)
		return 0;
	source->stop = true; /* nothing to join */
	source->ended = true;
	errno = rc;
	return ws_fail_errno(err, "cannot start a thread");
}

struct ws_input *ws_open_input(const char *path, struct ws_err *err)
{
	struct ws_input *source = ws_calloc(1, sizeof(*source));
	unsigned char magic[2] = {0};
	struct stat status;

	source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (source->fd < 0 || fstat(source->fd, &status) < 0) {
		ws_fail_errno(err, "cannot open %s", path);
		goto bad;
	}
	if (!S_ISREG(status.st_mode)) {
		ws_fail(err, "cannot import %s: it is not a regular file", path);
		goto bad;
	}
	source->size = (uint64_t)status.st_size;
	if (pread(source->fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b &&
	    start_decompressing(source, err) < 0)
		goto bad;
	return source;
bad:
	ws_close_input(source);
	return NULL;
}

static size_t read_blocks(struct ws_input *source, void *out, size_t n)
{
	size_t available = 0;

	pthread_mutex_lock(&source->lock);
	while (!available) {
		while (source->blocks_used == source->blocks_made && !source->ended)
			pthread_cond_wait(&source->changed, &source->lock);
		if (source->blocks_used == source->blocks_made)
			break;
		available = source->lengths[source->blocks_used % BLOCKS] - source->block_offset;
		if (!available) {
			source->block_offset = 0;
			source->blocks_used++;
			pthread_cond_broadcast(&source->changed);
		}
	}
	pthread_mutex_unlock(&source->lock);
	n = ws_min(n, available);
	if (n) /* the block is ours until blocks_used moves on */
		memcpy(out, source->blocks[source->blocks_used % BLOCKS] + source->block_offset, n);
	source->block_offset += n;
	return n;
}

size_t ws_read_input(struct ws_input *source, void *out, size_t n)
{
	if (source->gzip)
		return read_blocks(source, out, n);
	return read_file(source, out, n);
}

const char *ws_check_input_rest(struct ws_input *source)
{
	char *rest = ws_malloc(INPUT_BYTES);

	while (source->gzip && ws_read_input(source, rest, INPUT_BYTES))
		;
	free(rest);
	return source->broken;
}

const char *ws_explain_broken_input(struct ws_input *source)
{
	return source->broken;
}

uint64_t ws_count_input_read(const struct ws_input *source)
{
	return __atomic_load_n(&source->done, __ATOMIC_RELAXED);
}

uint64_t ws_find_input_size(const struct ws_input *source)
{
	return source->size;
}

void ws_close_input(struct ws_input *source)
{
	if (!source)
		return;
	if (source->gzip) {
		pthread_mutex_lock(&source->lock);
		if (!source->stop) {
			source->stop = true;
			pthread_cond_broadcast(&source->changed);
			pthread_mutex_unlock(&source->lock);
			pthread_join(source->thread, NULL);
		} else {
			pthread_mutex_unlock(&source->lock);
		}
		inflateEnd(&source->inflater);
		free(source->input);
		for (int i = 0; i < BLOCKS; i++)
			free(source->blocks[i]);
		pthread_mutex_destroy(&source->lock);
		pthread_cond_destroy(&source->changed);
	}
	if (source->fd >= 0)
		close(source->fd);
	free(source->broken);
	free(source);
}
