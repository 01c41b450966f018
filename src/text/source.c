/* source.c - see source.h. The thread that decompresses hands over blocks through a ring of BLOCKS.
 */
#include "text/source.h"

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

struct ws_source {
	int fd;
	uint64_t size, done; /* done: by whoever reads the file */
	char *broken;
	/* gzip only */
	bool gzip;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char *block[BLOCKS];
	size_t length[BLOCKS], at; /* at: in the block being read */
	uint64_t made, used;
	bool ended, stop;
	z_stream zip;
	unsigned char *input;
	uint64_t out_bytes;
};

static size_t read_file(struct ws_source *source, void *out, size_t n)
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

/* Input for the decompressor; false at the end of the file. */
static bool feed(struct ws_source *source)
{
	if (source->zip.avail_in)
		return true;
	source->zip.next_in = source->input;
	source->zip.avail_in = (unsigned)read_file(source, source->input, INPUT_BYTES);
	return source->zip.avail_in > 0;
}

/* Decompress into one block. Returns its length; *last when nothing follows. */
static size_t inflate_block(struct ws_source *source, char *out, bool *last)
{
	source->zip.next_out = (unsigned char *)out;
	source->zip.avail_out = BLOCK_BYTES;
	while (source->zip.avail_out && !*last) {
		bool fed = feed(source);
		int rc = fed ? inflate(&source->zip, Z_NO_FLUSH) : Z_BUF_ERROR;

		if (rc == Z_STREAM_END) { /* another member may follow; anything else that does is
					     padding */
			*last = !feed(source) || source->zip.next_in[0] != 0x1f ||
				inflateReset(&source->zip) != Z_OK;
		} else if (rc != Z_OK) {
			*last = true;
			if (!source->broken)
				source->broken =
					ws_format(fed ? "its compressed data are damaged"
						      : "its compressed data end too early");
		}
	}
	return BLOCK_BYTES - source->zip.avail_out;
}

static void *decompress(void *arg)
{
	struct ws_source *source = arg;
	bool last = false;

	while (!last) {
		int at = (int)(source->made % BLOCKS);
		size_t n = inflate_block(source, source->block[at], &last);

		source->out_bytes += n;
		if (source->out_bytes > WS_SOURCE_MOST && !last) {
			source->broken = ws_format(
				"it unpacks to more than %llu GiB, which is as much as is read",
				(unsigned long long)(WS_SOURCE_MOST >> 30));
			last = true;
		}
		pthread_mutex_lock(&source->lock);
		source->length[at] = n;
		source->made++;
		source->ended = last;
		pthread_cond_broadcast(&source->changed);
		while (source->made - source->used == BLOCKS && !source->stop)
			pthread_cond_wait(&source->changed, &source->lock);
		last |= source->stop;
		pthread_mutex_unlock(&source->lock);
	}
	return NULL;
}

static int start_gzip(struct ws_source *source, struct ws_err *err)
{
	int rc;

	if (inflateInit2(&source->zip, 15 + 16) != Z_OK)
		return ws_fail(err, "cannot start decompressing");
	source->gzip = true;
	source->input = ws_malloc(INPUT_BYTES);
	for (int i = 0; i < BLOCKS; i++)
		source->block[i] = ws_malloc(BLOCK_BYTES);
	pthread_mutex_init(&source->lock, NULL);
	pthread_cond_init(&source->changed, NULL);
	rc = pthread_create(&source->thread, NULL, decompress, source);
	if (!rc)
		return 0;
	source->stop = true; /* nothing to join */
	source->ended = true;
	errno = rc;
	return ws_fail_errno(err, "cannot start a thread");
}

struct ws_source *ws_source_open(const char *path, struct ws_err *err)
{
	struct ws_source *source = ws_calloc(1, sizeof(*source));
	unsigned char magic[2] = {0};
	struct stat st;

	source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (source->fd < 0 || fstat(source->fd, &st) < 0) {
		ws_fail_errno(err, "cannot open %s", path);
		goto bad;
	}
	if (!S_ISREG(st.st_mode)) {
		ws_fail(err, "cannot import %s: it is not a regular file", path);
		goto bad;
	}
	source->size = (uint64_t)st.st_size;
	if (pread(source->fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b &&
	    start_gzip(source, err) < 0)
		goto bad;
	return source;
bad:
	ws_source_close(source);
	return NULL;
}

static size_t read_blocks(struct ws_source *source, void *out, size_t n)
{
	size_t have = 0;

	pthread_mutex_lock(&source->lock);
	while (!have) {
		while (source->used == source->made && !source->ended)
			pthread_cond_wait(&source->changed, &source->lock);
		if (source->used == source->made)
			break;
		have = source->length[source->used % BLOCKS] - source->at;
		if (!have) {
			source->at = 0;
			source->used++;
			pthread_cond_broadcast(&source->changed);
		}
	}
	pthread_mutex_unlock(&source->lock);
	n = ws_min(n, have);
	if (n) /* the block is ours until `used` moves on */
		memcpy(out, source->block[source->used % BLOCKS] + source->at, n);
	source->at += n;
	return n;
}

size_t ws_source_read(struct ws_source *source, void *out, size_t n)
{
	return source->gzip ? read_blocks(source, out, n) : read_file(source, out, n);
}

const char *ws_source_broken(struct ws_source *source)
{
	return source->broken;
}

uint64_t ws_source_done(const struct ws_source *source)
{
	return __atomic_load_n(&source->done, __ATOMIC_RELAXED);
}

uint64_t ws_source_size(const struct ws_source *source)
{
	return source->size;
}

void ws_source_close(struct ws_source *source)
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
		inflateEnd(&source->zip);
		free(source->input);
		for (int i = 0; i < BLOCKS; i++)
			free(source->block[i]);
		pthread_mutex_destroy(&source->lock);
		pthread_cond_destroy(&source->changed);
	}
	if (source->fd >= 0)
		close(source->fd);
	free(source->broken);
	free(source);
}
