/* tee.c - see tee.h. */
#include "record/tee.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/ticks.h"

#define LAST_READS 64 /* more than a pipe holds, whatever its writers made of it */

struct piece {
	struct piece *next;
	uint64_t time;
	uint8_t stream;
	size_t len;
	char bytes[];
};

struct ws_tee {
	pthread_t thread;
	pthread_mutex_t lock;
	struct piece *first, **last;
	int in[2], given[2], stop[2];
	bool show;
	_Atomic bool forgets; /* what comes is shown and not kept */
	_Atomic bool done;    /* the thread has copied all that there was */
};

/* Without us, the target would have learnt this from its own write. */
static void say_lost(int error)
{
	static _Atomic bool said;
	int kept = errno;

	if (!said)
		ws_say("the target's output could not all be written: %s", strerror(error));
	said = true;
	errno = kept;
}

/* False when nobody reads there any more: the target must then find its pipe broken, as it would
 * without us. */
static bool show_output(int fd, const char *at, size_t n)
{
	while (n) {
		struct pollfd room = {fd, POLLOUT, 0};
		ssize_t w = write(fd, at, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) { /* its creator made it non-blocking */
			poll(&room, 1, -1);
			continue;
		}
		if (w <= 0) {
			if (errno != EPIPE)
				say_lost(errno);
			return errno != EPIPE;
		}
		at += w;
		n -= (size_t)w;
	}
	return true;
}

static bool take_output(struct ws_tee *tee, int i)
{
	char buf[65536];
	ssize_t n = read(tee->in[i], buf, sizeof(buf));
	bool read_on = true;
	struct piece *piece;

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	if (tee->show)
		read_on = show_output(i + 1, buf, (size_t)n);
	if (tee->forgets)
		return read_on;
	piece = ws_malloc(sizeof(*piece) + (size_t)n);
	piece->next = NULL;
	piece->time = ws_read_raw_ns();
	piece->stream = (uint8_t)(i + 1);
	piece->len = (size_t)n;
	memcpy(piece->bytes, buf, (size_t)n);
	pthread_mutex_lock(&tee->lock);
	*tee->last = piece;
	tee->last = &piece->next;
	pthread_mutex_unlock(&tee->lock);
	return read_on;
}

bool ws_tee_is_this_thread(const struct ws_tee *tee)
{
	return pthread_equal(pthread_self(), tee->thread);
}

bool ws_tee_pass_on(struct ws_tee *tee, int wait_ms)
{
	struct pollfd fds[2] = {{tee->in[0], POLLIN, 0}, {tee->in[1], POLLIN, 0}};
	bool any = false;

	if (poll(fds, 2, wait_ms) <= 0)
		return false;
	for (int i = 0; i < 2; i++) {
		char buf[4096];
		ssize_t n = fds[i].revents ? read(tee->in[i], buf, sizeof(buf)) : 0;

		if (fds[i].revents && n <= 0) {
			close(tee->in[i]);
			tee->in[i] = -1;
		}
		if (n > 0 && tee->show)
			show_output(i + 1, buf, (size_t)n);
		any |= n > 0;
	}
	return any;
}

static void copy_until_stopped(struct ws_tee *tee)
{
	bool stopping = false;
	int left = LAST_READS;

	for (;;) {
		struct pollfd fds[3] = {{tee->in[0], POLLIN, 0},
					{tee->in[1], POLLIN, 0},
					{stopping ? -1 : tee->stop[0], POLLIN, 0}};
		int n = poll(fds, 3, stopping ? 0 : -1);

		if (n < 0 && errno != EINTR)
			break;
		for (int i = 0; n > 0 && i < 2; i++)
			if (fds[i].revents && !take_output(tee, i)) {
				close(tee->in[i]);
				tee->in[i] = -1;
			}
		if ((stopping && (n == 0 || !left--)) || (tee->in[0] < 0 && tee->in[1] < 0))
			break;
		if (n > 0 && fds[2].revents)
			stopping = true; /* take what is there, then leave; a process that lives on
					    may write for ever */
	}
	tee->done = true;
}

static void *copy_output(void *arg)
{
	copy_until_stopped(arg);
	return NULL;
}

void ws_tee_forget(struct ws_tee *tee)
{
	tee->forgets = true;
}

void ws_tee_copy_on(struct ws_tee *tee)
{
	ws_tee_forget(tee);
	copy_until_stopped(tee);
}

void ws_tee_copy_rest(struct ws_tee *tee)
{
	close(tee->stop[1]);
	while (!tee->done)
		poll(NULL, 0, 1);
}

struct ws_tee *ws_tee_new(bool show_too, int *out_fd, int *err_fd, struct ws_err *err)
{
	struct ws_tee *tee = ws_calloc(1, sizeof(*tee));
	int p[3][2];

	for (int i = 0; i < 3; i++)
		if (pipe2(p[i], O_CLOEXEC)) {
			ws_fail_errno(err, "cannot make a pipe for the target's output");
			while (i--) {
				close(p[i][0]);
				close(p[i][1]);
			}
			free(tee);
			return NULL;
		}
	tee->last = &tee->first;
	tee->show = show_too;
	pthread_mutex_init(&tee->lock, NULL);
	for (int i = 0; i < 2; i++) {
		tee->in[i] = p[i][0];
		tee->given[i] = p[i][1];
	}
	tee->stop[0] = p[2][0];
	tee->stop[1] = p[2][1];
	/* Now, while it can still be refused: a target whose pipes nobody reads would wait for
	 * ever. */
	if (pthread_create(&tee->thread, NULL, copy_output, tee)) {
		ws_fail(err, "cannot start the thread that reads the target's output: too many "
			     "processes are running");
		for (int i = 0; i < 3; i++) {
			close(p[i][0]);
			close(p[i][1]);
		}
		pthread_mutex_destroy(&tee->lock);
		free(tee);
		return NULL;
	}
	*out_fd = tee->given[0];
	*err_fd = tee->given[1];
	return tee;
}

void ws_tee_started(struct ws_tee *tee)
{
	close(tee->given[0]);
	close(tee->given[1]);
}

void ws_tee_collect(struct ws_tee *tee, struct ws_sink *sink)
{
	struct piece *piece, *next;

	pthread_mutex_lock(&tee->lock);
	piece = tee->first;
	tee->first = NULL;
	tee->last = &tee->first;
	pthread_mutex_unlock(&tee->lock);
	for (; piece; piece = next) {
		struct ws_row_output row = {.start = piece->time, .stream = piece->stream};

		next = piece->next;
		row.bytes = ws_writer_passing_string(sink->writer, piece->bytes, piece->len);
		ws_writer_add(sink->writer, WS_TABLE_output, &row);
		free(piece);
	}
}

void ws_tee_finish(struct ws_tee *tee, struct ws_sink *sink)
{
	close(tee->stop[1]);
	pthread_join(tee->thread, NULL);
	ws_tee_collect(tee, sink);
	close(tee->stop[0]);
	for (int i = 0; i < 2; i++)
		if (tee->in[i] >= 0)
			close(tee->in[i]);
	pthread_mutex_destroy(&tee->lock);
	free(tee);
}
