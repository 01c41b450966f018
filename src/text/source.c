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
	z_stream z;
	unsigned char *input;
	uint64_t out_bytes;
};

static size_t read_file(struct ws_source *s, void *out, size_t n)
{
	ssize_t got;

	do
		got = read(s->fd, out, n);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		s->broken = ws_format("it cannot be read: %s", strerror(errno));
		return 0;
	}
	__atomic_fetch_add(&s->done, (uint64_t)got, __ATOMIC_RELAXED);
	return (size_t)got;
}

/* Input for the decompressor; false at the end of the file. */
static bool feed(struct ws_source *s)
{
	if (s->z.avail_in)
		return true;
	s->z.next_in = s->input;
	s->z.avail_in = (unsigned)read_file(s, s->input, INPUT_BYTES);
	return s->z.avail_in > 0;
}

/* Decompress into one block. Returns its length; *last when nothing follows. */
static size_t inflate_block(struct ws_source *s, char *out, bool *last)
{
	s->z.next_out = (unsigned char *)out;
	s->z.avail_out = BLOCK_BYTES;
	while (s->z.avail_out && !*last) {
		bool fed = feed(s);
		int rc = fed ? inflate(&s->z, Z_NO_FLUSH) : Z_BUF_ERROR;

		if (rc == Z_STREAM_END) { /* another member may follow; anything else that does is
					     padding */
			*last = !feed(s) || s->z.next_in[0] != 0x1f || inflateReset(&s->z) != Z_OK;
		} else if (rc != Z_OK) {
			*last = true;
			if (!s->broken)
				s->broken = ws_format(fed ? "its compressed data are damaged"
							  : "its compressed data end too early");
		}
	}
	return BLOCK_BYTES - s->z.avail_out;
}

static void *decompress(void *arg)
{
	struct ws_source *s = arg;
	bool last = false;

	while (!last) {
		int at = (int)(s->made % BLOCKS);
		size_t n = inflate_block(s, s->block[at], &last);

		s->out_bytes += n;
		if (s->out_bytes > WS_SOURCE_MOST && !last) {
			s->broken = ws_format(
				"it unpacks to more than %llu GiB, which is as much as is read",
				(unsigned long long)(WS_SOURCE_MOST >> 30));
			last = true;
		}
		pthread_mutex_lock(&s->lock);
		s->length[at] = n;
		s->made++;
		s->ended = last;
		pthread_cond_broadcast(&s->changed);
		while (s->made - s->used == BLOCKS && !s->stop)
			pthread_cond_wait(&s->changed, &s->lock);
		last |= s->stop;
		pthread_mutex_unlock(&s->lock);
	}
	return NULL;
}

static int start_gzip(struct ws_source *s, struct ws_err *e)
{
	int rc;

	if (inflateInit2(&s->z, 15 + 16) != Z_OK)
		return ws_fail(e, "cannot start decompressing");
	s->gzip = true;
	s->input = ws_malloc(INPUT_BYTES);
	for (int i = 0; i < BLOCKS; i++)
		s->block[i] = ws_malloc(BLOCK_BYTES);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	rc = pthread_create(&s->thread, NULL, decompress, s);
	if (!rc)
		return 0;
	s->stop = true; /* nothing to join */
	s->ended = true;
	errno = rc;
	return ws_fail_errno(e, "cannot start a thread");
}

struct ws_source *ws_source_open(const char *path, struct ws_err *e)
{
	struct ws_source *s = ws_calloc(1, sizeof(*s));
	unsigned char magic[2] = {0};
	struct stat st;

	s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0 || fstat(s->fd, &st) < 0) {
		ws_fail_errno(e, "cannot open %s", path);
		goto bad;
	}
	if (!S_ISREG(st.st_mode)) {
		ws_fail(e, "cannot import %s: it is not a regular file", path);
		goto bad;
	}
	s->size = (uint64_t)st.st_size;
	if (pread(s->fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b &&
	    start_gzip(s, e) < 0)
		goto bad;
	return s;
bad:
	ws_source_close(s);
	return NULL;
}

static size_t read_blocks(struct ws_source *s, void *out, size_t n)
{
	size_t have = 0;

	pthread_mutex_lock(&s->lock);
	while (!have) {
		while (s->used == s->made && !s->ended)
			pthread_cond_wait(&s->changed, &s->lock);
		if (s->used == s->made)
			break;
		have = s->length[s->used % BLOCKS] - s->at;
		if (!have) {
			s->at = 0;
			s->used++;
			pthread_cond_broadcast(&s->changed);
		}
	}
	pthread_mutex_unlock(&s->lock);
	n = n < have ? n : have;
	if (n) /* the block is ours until `used` moves on */
		memcpy(out, s->block[s->used % BLOCKS] + s->at, n);
	s->at += n;
	return n;
}

size_t ws_source_read(struct ws_source *s, void *out, size_t n)
{
	return s->gzip ? read_blocks(s, out, n) : read_file(s, out, n);
}

const char *ws_source_broken(struct ws_source *s)
{
	return s->broken;
}

uint64_t ws_source_done(const struct ws_source *s)
{
	return __atomic_load_n(&s->done, __ATOMIC_RELAXED);
}

uint64_t ws_source_size(const struct ws_source *s)
{
	return s->size;
}

void ws_source_close(struct ws_source *s)
{
	if (!s)
		return;
	if (s->gzip) {
		pthread_mutex_lock(&s->lock);
		if (!s->stop) {
			s->stop = true;
			pthread_cond_broadcast(&s->changed);
			pthread_mutex_unlock(&s->lock);
			pthread_join(s->thread, NULL);
		} else {
			pthread_mutex_unlock(&s->lock);
		}
		inflateEnd(&s->z);
		free(s->input);
		for (int i = 0; i < BLOCKS; i++)
			free(s->block[i]);
		pthread_mutex_destroy(&s->lock);
		pthread_cond_destroy(&s->changed);
	}
	if (s->fd >= 0)
		close(s->fd);
	free(s->broken);
	free(s);
}
