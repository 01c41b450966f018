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
};

/* False when nobody reads there any more: the target must then find its pipe broken, as it would
 * have alone. */
static bool show(int fd, const char *p, size_t n)
{
	while (n) {
		struct pollfd room = {fd, POLLOUT, 0};
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) { /* whoever made it made it non-blocking */
			poll(&room, 1, -1);
			continue;
		}
		if (w <= 0)
			return errno != EPIPE;
		p += w;
		n -= (size_t)w;
	}
	return true;
}

static bool take(struct ws_tee *t, int i)
{
	char buf[65536];
	ssize_t n = read(t->in[i], buf, sizeof(buf));
	bool read_on = true;
	struct piece *p;

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	if (t->show)
		read_on = show(i + 1, buf, (size_t)n);
	p = ws_malloc(sizeof(*p) + (size_t)n);
	p->next = NULL;
	p->time = ws_raw_ns();
	p->stream = (uint8_t)(i + 1);
	p->len = (size_t)n;
	memcpy(p->bytes, buf, (size_t)n);
	pthread_mutex_lock(&t->lock);
	*t->last = p;
	t->last = &p->next;
	pthread_mutex_unlock(&t->lock);
	return read_on;
}

static void *run(void *arg)
{
	struct ws_tee *t = arg;
	bool stopping = false;
	int left = LAST_READS;

	for (;;) {
		struct pollfd fds[3] = {{t->in[0], POLLIN, 0},
					{t->in[1], POLLIN, 0},
					{stopping ? -1 : t->stop[0], POLLIN, 0}};
		int n = poll(fds, 3, stopping ? 0 : -1);

		if (n < 0 && errno != EINTR)
			break;
		for (int i = 0; n > 0 && i < 2; i++)
			if (fds[i].revents && !take(t, i)) {
				close(t->in[i]);
				t->in[i] = -1;
			}
		if ((stopping && (n == 0 || !left--)) || (t->in[0] < 0 && t->in[1] < 0))
			break;
		if (n > 0 && fds[2].revents)
			stopping = true; /* take what is there, then leave; a process that lives on
					    may write for ever */
	}
	return NULL;
}

struct ws_tee *ws_tee_new(bool show_too, int *out_fd, int *err_fd, struct ws_err *e)
{
	struct ws_tee *t = ws_calloc(1, sizeof(*t));
	int p[3][2];

	for (int i = 0; i < 3; i++)
		if (pipe2(p[i], O_CLOEXEC)) {
			ws_fail_errno(e, "cannot make a pipe for the target's output");
			while (i--) {
				close(p[i][0]);
				close(p[i][1]);
			}
			free(t);
			return NULL;
		}
	t->last = &t->first;
	t->show = show_too;
	pthread_mutex_init(&t->lock, NULL);
	for (int i = 0; i < 2; i++) {
		t->in[i] = p[i][0];
		t->given[i] = p[i][1];
	}
	t->stop[0] = p[2][0];
	t->stop[1] = p[2][1];
	/* Now, while it can still be refused: a target whose pipes nobody reads would wait for
	 * ever. */
	if (pthread_create(&t->thread, NULL, run, t)) {
		ws_fail(e, "cannot start the thread that reads the target's output: too many "
			   "processes are running");
		for (int i = 0; i < 3; i++) {
			close(p[i][0]);
			close(p[i][1]);
		}
		pthread_mutex_destroy(&t->lock);
		free(t);
		return NULL;
	}
	*out_fd = t->given[0];
	*err_fd = t->given[1];
	return t;
}

void ws_tee_started(struct ws_tee *t)
{
	close(t->given[0]);
	close(t->given[1]);
}

void ws_tee_collect(struct ws_tee *t, struct ws_sink *s)
{
	struct piece *p, *next;

	pthread_mutex_lock(&t->lock);
	p = t->first;
	t->first = NULL;
	t->last = &t->first;
	pthread_mutex_unlock(&t->lock);
	for (; p; p = next) {
		struct ws_row_output row = {.start = p->time, .stream = p->stream};

		next = p->next;
		row.bytes = ws_writer_string(s->writer, p->bytes, p->len);
		ws_writer_add(s->writer, WS_TABLE_output, &row);
		free(p);
	}
}

void ws_tee_finish(struct ws_tee *t, struct ws_sink *s)
{
	close(t->stop[1]);
	pthread_join(t->thread, NULL);
	ws_tee_collect(t, s);
	close(t->stop[0]);
	for (int i = 0; i < 2; i++)
		if (t->in[i] >= 0)
			close(t->in[i]);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
