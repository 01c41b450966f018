/*
 * gate.c - see gate.h.
 *
 * One thread accepts all connections, looks up whose they are, and watches those of trusted users
 * without reading: MSG_PEEK leaves the input for the code that takes the connection over. The first
 * line, "METHOD /SECRET/...", decides within its first fifty bytes. Connections that have not shown
 * a secret use only a descriptor. Their number is limited, and the oldest is closed when the limit
 * is reached, so a new one with the secret is let through at once however many are half open.
 */
#include "serve/gate.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "serve/peer.h"

enum {
	MOST_WAITING = 128,
	MOST_METHOD = 16,
	MOST_HEAD = MOST_METHOD + WS_GATE_WORD + 3, /* "METHOD /WORD/" */
	PATIENCE_MS = 15000,			    /* until the first line shows a secret */
	PARTING_MS = 1000,			    /* until the client has read a refusal */
	BURST = 64,				    /* connections accepted between two looks */
	MOST_EVENTS = 64
};
/* Numbers of epoll's events besides those of places. */
enum { LISTENER = MOST_WAITING, STOP };

struct waiting {
	int fd; /* -1: the place is free */
	bool refused;
	int64_t until; /* ms of CLOCK_MONOTONIC */
	uint64_t order;
};

struct ws_gate {
	int listener, events, stop, port;
	pthread_t thread;
	bool started;
	_Atomic bool stopping;
	bool blind; /* the kernel does not distinguish users here */
	const struct ws_gate_use *use;
	struct ws_trusted_users users;
	uint64_t accepted;
	size_t room; /* places that are used */
	struct waiting places[MOST_WAITING];
};

#define REFUSAL(status, sentence)                                            \
	"HTTP/1.1 " status "\r\nContent-Type: text/plain; charset=utf-8\r\n" \
	"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"     \
	"Connection: close\r\n\r\n" sentence "\n"

static const char no_token[] =
	REFUSAL("403 Forbidden", "The address lacks its token: use the whole address that "
				 "warpsight view printed.");
static const char not_yours[] =
	REFUSAL("403 Forbidden", "This page belongs to another user of this machine. Through ssh, "
				 "log in as the user who runs warpsight view.");
static const char too_many[] =
	REFUSAL("503 Service Unavailable", "There are too many connections: close other pages of "
					   "this server.");

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- what a connection shows ---- */

enum sight { SEES_SECRET, SEES_NONE, SEES_TOO_LITTLE };

static enum sight judge_head(const struct ws_gate *gate, const char *head, size_t n)
{
	size_t at = 0;

	while (at < n && at < MOST_METHOD && head[at] >= 'A' && head[at] <= 'Z')
		at++;
	if (at == n)
		return SEES_TOO_LITTLE;
	if (!at || head[at++] != ' ')
		return SEES_NONE;
	if (at == n)
		return SEES_TOO_LITTLE;
	if (head[at++] != '/')
		return SEES_NONE;
	for (size_t i = 0; i < WS_GATE_WORD; i++) {
		if (at + i == n)
			return SEES_TOO_LITTLE;
		if (!isxdigit((unsigned char)head[at + i]))
			return SEES_NONE;
	}
	if (at + WS_GATE_WORD == n)
		return SEES_TOO_LITTLE;
	if (head[at + WS_GATE_WORD] != '/' || !gate->use->knows_word(gate->use->ctx, head + at))
		return SEES_NONE;
	return SEES_SECRET;
}

/* ---- places ---- */

static void leave_place(struct waiting *place)
{
	close(place->fd);
	place->fd = -1;
}

static struct waiting *oldest_place(struct ws_gate *gate)
{
	struct waiting *oldest = NULL;

	for (size_t i = 0; i < gate->room; i++)
		if (gate->places[i].fd >= 0 && (!oldest || gate->places[i].order < oldest->order))
			oldest = &gate->places[i];
	return oldest;
}

static struct waiting *find_place(struct ws_gate *gate)
{
	struct waiting *oldest;

	for (size_t i = 0; i < gate->room; i++)
		if (gate->places[i].fd < 0)
			return &gate->places[i];
	oldest = oldest_place(gate);
	leave_place(oldest);
	return oldest;
}

static void discard_input(int fd)
{
	char bytes[4096];

	for (int i = 0; i < 64 && recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
		;
}

static void send_refusal(int fd, const char *refusal)
{
	discard_input(fd);
	(void)!send(fd, refusal, strlen(refusal), MSG_DONTWAIT | MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
}

/* Closing with unread input would discard the refusal: the rest is read and thrown away first. */
static void refuse_place(struct waiting *place, const char *refusal)
{
	send_refusal(place->fd, refusal);
	place->refused = true;
	place->until = now_ms() + PARTING_MS;
}

static void look_at_refused(struct waiting *place)
{
	char byte;

	discard_input(place->fd);
	if (!recv(place->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK))
		leave_place(place);
}

static void pass_on(struct ws_gate *gate, struct waiting *place)
{
	struct sockaddr_in address = {0};
	socklen_t n = sizeof(address);

	getpeername(place->fd, (struct sockaddr *)&address, &n);
	epoll_ctl(gate->events, EPOLL_CTL_DEL, place->fd, NULL);
	if (gate->use->take_connection(gate->use->ctx, place->fd, &address)) {
		place->fd = -1;
		return;
	}
	send_refusal(place->fd, too_many);
	leave_place(place);
}

static void look_at_place(struct ws_gate *gate, struct waiting *place)
{
	char head[MOST_HEAD];
	ssize_t n;

	if (place->fd < 0)
		return;
	if (place->refused) {
		look_at_refused(place);
		return;
	}
	n = recv(place->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		leave_place(place);
		return;
	}
	switch (judge_head(gate, head, (size_t)n)) {
	case SEES_SECRET:
		pass_on(gate, place);
		break;
	case SEES_NONE:
		refuse_place(place, no_token);
		break;
	case SEES_TOO_LITTLE:
		break;
	}
}

/* ---- accepting ---- */

static bool is_answered(const struct ws_gate *gate, int fd)
{
	uid_t uid;

	if (gate->blind)
		return true;
	switch (ws_find_peer(fd, &uid)) {
	case WS_PEER_USER:
		return ws_is_trusted_user(&gate->users, uid);
	case WS_PEER_ELSEWHERE:
		return true; /* the token alone decides */
	case WS_PEER_GONE:
	case WS_PEER_UNKNOWN:
		break;
	}
	return false;
}

static void admit_connection(struct ws_gate *gate, int fd)
{
	struct waiting *place;
	struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};

	if (!is_answered(gate, fd)) {
		send_refusal(fd, not_yours);
		close(fd);
		return;
	}
	place = find_place(gate);
	*place = (struct waiting){
		.fd = fd, .until = now_ms() + PATIENCE_MS, .order = gate->accepted++};
	event.data.u64 = (uint64_t)(place - gate->places);
	if (epoll_ctl(gate->events, EPOLL_CTL_ADD, fd, &event))
		leave_place(place);
	else
		look_at_place(gate, place);
}

static void accept_burst(struct ws_gate *gate)
{
	for (int i = 0; i < BURST; i++) {
		int fd = accept4(gate->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct waiting *oldest;

		if (fd >= 0) {
			admit_connection(gate, fd);
			continue;
		}
		if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
			return;
		oldest = oldest_place(gate);
		if (oldest)
			leave_place(oldest);
		else /* the descriptors are in use elsewhere: do not spin until some are free */
			nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
		return;
	}
}

/* Close the connections whose time is up. Returns how long the next one has, in ms; -1 for no
 * limit. */
static int close_late(struct ws_gate *gate)
{
	int64_t now = now_ms(), next = -1;

	for (size_t i = 0; i < gate->room; i++) {
		struct waiting *place = &gate->places[i];

		if (place->fd >= 0 && place->until <= now)
			leave_place(place);
		if (place->fd >= 0 && (next < 0 || place->until - now < next))
			next = place->until - now;
	}
	return (int)next;
}

static void *watch_gate(void *arg)
{
	struct ws_gate *gate = arg;
	struct epoll_event events[MOST_EVENTS];

	for (;;) {
		int n = epoll_wait(gate->events, events, MOST_EVENTS, close_late(gate));
		bool arrived = false;

		if (gate->stopping)
			return NULL;
		for (int i = 0; i < n; i++) {
			if (events[i].data.u64 == STOP)
				return NULL;
			if (events[i].data.u64 == LISTENER)
				arrived = true;
			else
				look_at_place(gate, &gate->places[events[i].data.u64]);
		}
		/* Accept last: it may give the places that the events above refer to to other
		 * connections. */
		if (arrived)
			accept_burst(gate);
	}
}

/* ---- beginning and end ---- */

static int listen_at(int port, int *got, struct ws_err *err)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
	    !bind(fd, (struct sockaddr *)&address, n) && !listen(fd, SOMAXCONN) &&
	    !getsockname(fd, (struct sockaddr *)&address, &n)) {
		*got = ntohs(address.sin_port);
		return fd;
	}
	if (port)
		ws_fail(err, "cannot listen on port %d of 127.0.0.1: %s; --port chooses another",
			port, strerror(errno));
	else
		ws_fail_errno(err, "cannot listen on 127.0.0.1");
	if (fd >= 0)
		close(fd);
	return -1;
}

size_t ws_share_of_descriptors(size_t most)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return most;
	return ws_max(ws_min(most, (size_t)limit.rlim_cur / 4), (size_t)1);
}

static bool is_same_end(int connected, const struct sockaddr_in *peer)
{
	struct sockaddr_in own;
	socklen_t n = sizeof(own);

	return !getsockname(connected, (struct sockaddr *)&own, &n) &&
	       own.sin_port == peer->sin_port;
}

/* The accepted end of our own connection shows this. Where no connection can be made, the kernel is
 * assumed to distinguish users. */
static bool is_own_peer_known(const struct ws_gate *gate, int connected)
{
	for (int i = 0; i < BURST; i++) {
		struct sockaddr_in address;
		socklen_t n = sizeof(address);
		int fd = accept4(gate->listener, (struct sockaddr *)&address, &n, SOCK_CLOEXEC);
		bool same, known;
		uid_t uid;

		if (fd < 0)
			break;
		same = is_same_end(connected, &address);
		known = ws_find_peer(fd, &uid) == WS_PEER_USER && uid == geteuid();
		close(fd);
		if (same)
			return known;
	}
	return true;
}

/* Tried on a connection to itself, before anyone is answered. */
static bool distinguishes_users(const struct ws_gate *gate)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)gate->port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct timeval limit = {.tv_sec = 1};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool known = true;

	if (fd < 0)
		return true;
	if (!setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) &&
	    !connect(fd, (struct sockaddr *)&address, sizeof(address)))
		known = is_own_peer_known(gate, fd);
	close(fd);
	return known;
}

struct ws_gate *ws_gate_open(int port, struct ws_err *err)
{
	struct ws_gate *gate;
	int got, fd = listen_at(port, &got, err);

	if (fd < 0)
		return NULL;
	gate = ws_calloc(1, sizeof(*gate));
	gate->listener = fd;
	gate->port = got;
	gate->events = gate->stop = -1;
	gate->room = ws_share_of_descriptors(MOST_WAITING);
	for (size_t i = 0; i < WS_COUNT(gate->places); i++)
		gate->places[i].fd = -1;
	ws_find_trusted_users(&gate->users);
	gate->blind = !distinguishes_users(gate);
	return gate;
}

int ws_gate_port(const struct ws_gate *gate)
{
	return gate->port;
}

bool ws_gate_knows_users(const struct ws_gate *gate)
{
	return !gate->blind;
}

static int watch_fd(struct ws_gate *gate, int fd, uint64_t number)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = number};

	return epoll_ctl(gate->events, EPOLL_CTL_ADD, fd, &event);
}

int ws_gate_start(struct ws_gate *gate, const struct ws_gate_use *use, struct ws_err *err)
{
	gate->use = use;
	gate->events = epoll_create1(EPOLL_CLOEXEC);
	gate->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (gate->events < 0 || gate->stop < 0 || watch_fd(gate, gate->listener, LISTENER) ||
	    watch_fd(gate, gate->stop, STOP))
		return ws_fail_errno(err, "cannot answer on 127.0.0.1");
	gate->started = !pthread_create(&gate->thread, NULL, watch_gate, gate);
	return gate->started
		       ? 0
		       : ws_fail(err, "cannot answer on 127.0.0.1: there are too many threads");
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void ws_gate_close(struct ws_gate *gate)
{
	if (!gate)
		return;
	if (gate->started) {
		gate->stopping = true;
		/* Either of them ends the thread's wait. */
		if (write(gate->stop, &(uint64_t){1}, sizeof(uint64_t)) < 0)
			shutdown(gate->listener, SHUT_RDWR);
		pthread_join(gate->thread, NULL);
	}
	for (size_t i = 0; i < gate->room; i++)
		close_fd(gate->places[i].fd);
	close_fd(gate->events);
	close_fd(gate->stop);
	close_fd(gate->listener);
	free(gate);
}
