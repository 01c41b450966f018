/*
 * server.c - see server.h.
 *
 * A thread accepts; each connection has a thread of its own, so that a `stop` that waits for a
 * report does not hold up a `status`. There are few threads: a connection carries one request, must
 * send it within seconds, and only processes of the recorder's user (or root) may connect.
 */
#include "control/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/address.h"
#include "control/folder.h"
#include "text/json_write.h"

enum { MOST_CONNECTIONS = 32, BACKLOG = 64, PATIENCE_S = 3 };
/* Priority of the threads that receive commands, where setting it is permitted: a target that keeps
 * every core busy must not delay a command to end its recording. */
enum { SOON = -10 };

struct ws_server {
	ws_server_handler handler;
	void *ctx;
	char name[WS_SESSION_NAME_MOST + 8]; /* of the socket in its folder */
	int folder, listener, stop;
	bool hidden;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned connections;
};

struct connection {
	struct ws_server *server;
	int fd;
};

/* ---- one connection ---- */

static void refuse_request(int fd, const char *why)
{
	struct ws_text answer = {0};
	struct ws_err err;

	ws_message_put_flag(&answer, "done", false);
	ws_put_json_string(&answer, "message", why);
	ws_message_send(fd, &answer, &err);
	ws_text_free(&answer);
}

static void answer_request(struct ws_server *server, int fd)
{
	struct ws_message request;
	struct ws_text answer = {0};
	struct ws_err err;

	if (ws_message_receive(fd, &request, &err)) {
		refuse_request(fd, err.msg);
	} else {
		server->handler(server->ctx, &request, &answer);
		if (ws_message_send(fd, &answer, &err))
			refuse_request(fd, err.msg); /* sender gone, or too long */
	}
	ws_message_free(&request);
	ws_text_free(&answer);
}

static void *serve_connection(void *arg)
{
	struct connection *connection = arg;
	struct ws_server *server = connection->server;

	setpriority(PRIO_PROCESS, 0, SOON);
	answer_request(server, connection->fd);
	close(connection->fd);
	free(connection);
	pthread_mutex_lock(&server->lock);
	server->connections--;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
	return NULL;
}

static bool is_our_users(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
	       (peer.uid == geteuid() || !peer.uid);
}

static bool take_place(struct ws_server *server)
{
	bool taken;

	pthread_mutex_lock(&server->lock);
	taken = server->connections < MOST_CONNECTIONS;
	server->connections += taken;
	pthread_mutex_unlock(&server->lock);
	return taken;
}

static void give_place_back(struct ws_server *server)
{
	pthread_mutex_lock(&server->lock);
	server->connections--;
	pthread_mutex_unlock(&server->lock);
}

static int start_detached(void *(*run)(void *), void *arg)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int rc;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attributes, run, arg);
	pthread_attr_destroy(&attributes);
	return rc;
}

static void accept_connection(struct ws_server *server)
{
	const struct timeval patience = {PATIENCE_S, 0};
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
	struct connection *connection;

	if (fd < 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!is_our_users(fd)) {
		refuse_request(fd, "this session is another user's");
		close(fd);
		return;
	}
	if (!take_place(server)) {
		refuse_request(fd, "too many commands speak to this session at once");
		close(fd);
		return;
	}
	connection = ws_calloc(1, sizeof(*connection));
	*connection = (struct connection){server, fd};
	if (start_detached(serve_connection, connection)) {
		free(connection);
		refuse_request(fd, "no thread could be started to answer");
		close(fd);
		give_place_back(server);
	}
}

static void *accept_connections(void *arg)
{
	struct ws_server *server = arg;
	struct pollfd waited[2] = {{.fd = server->listener, .events = POLLIN},
				   {.fd = server->stop, .events = POLLIN}};

	setpriority(PRIO_PROCESS, 0, SOON);
	for (;;) {
		if (poll(waited, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (waited[0].revents & POLLIN)
			accept_connection(server);
		else if (waited[1].revents)
			return NULL; /* all earlier connections have been accepted */
	}
}

/* ---- beginning and end ---- */

/* Bind the listener; -1 with errno. A socket that nobody listens to is replaced. */
static int bind_listener(struct ws_server *server, const struct sockaddr_un *address)
{
	int rc;

	ws_session_lock_folder(server->folder);
	rc = bind(server->listener, (const void *)address, sizeof(*address));
	if (rc && errno == EADDRINUSE && ws_address_is_dead(address)) {
		unlinkat(server->folder, server->name, 0);
		rc = bind(server->listener, (const void *)address, sizeof(*address));
	}
	if (!rc)
		rc = listen(server->listener, BACKLOG);
	ws_session_unlock_folder(server->folder);
	return rc;
}

static int open_listener(struct ws_server *server, const char *name, struct ws_err *err)
{
	struct sockaddr_un address;

	server->folder = ws_session_make_folder(err);
	if (server->folder < 0)
		return -1;
	snprintf(server->name, sizeof(server->name), "%s.sock", name);
	ws_address_fill(&address, server->folder, name);
	server->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->listener < 0)
		return ws_fail_errno(err, "cannot make a socket");
	if (!bind_listener(server, &address))
		return 0;
	if (errno == EADDRINUSE)
		return ws_fail(err, "there is a session '%s' already", name);
	return ws_fail_errno(err, "cannot make the socket of session '%s'", name);
}

static void free_server(struct ws_server *server)
{
	if (server->listener >= 0)
		close(server->listener);
	if (server->folder >= 0)
		close(server->folder);
	if (server->stop >= 0)
		close(server->stop);
	pthread_cond_destroy(&server->changed);
	pthread_mutex_destroy(&server->lock);
	free(server);
}

/* The new thread blocks all signals: the recorder's main thread handles them. */
static int start_thread(struct ws_server *server)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	rc = pthread_create(&server->thread, NULL, accept_connections, server);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int ws_server_start(struct ws_server **out, const char *name, ws_server_handler handler, void *ctx,
		    struct ws_err *err)
{
	struct ws_server *server = ws_calloc(1, sizeof(*server));

	server->handler = handler;
	server->ctx = ctx;
	server->folder = server->listener = -1;
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->changed, NULL);
	server->stop = eventfd(0, EFD_CLOEXEC);
	if (open_listener(server, name, err)) {
		free_server(server);
		return -1;
	}
	if (server->stop < 0 || start_thread(server)) {
		unlinkat(server->folder, server->name, 0);
		free_server(server);
		return ws_fail(err, "the socket of session '%s' cannot be served", name);
	}
	*out = server;
	return 0;
}

void ws_server_hide(struct ws_server *server)
{
	if (!server || server->hidden)
		return;
	server->hidden = true;
	ws_session_lock_folder(server->folder);
	unlinkat(server->folder, server->name, 0);
	ws_session_unlock_folder(server->folder);
}

void ws_server_end(struct ws_server *server)
{
	if (!server)
		return;
	ws_server_hide(server);
	eventfd_write(server->stop, 1);
	pthread_join(server->thread, NULL);
	pthread_mutex_lock(&server->lock);
	while (server->connections)
		pthread_cond_wait(&server->changed, &server->lock);
	pthread_mutex_unlock(&server->lock);
	free_server(server);
}
