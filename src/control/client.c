/* client.c - see client.h. */
#include "control/client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/address.h"
#include "control/folder.h"

void ws_address_fill(struct sockaddr_un *address, int folder, const char *name)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%.*s.sock", folder,
		 WS_SESSION_NAME_MOST, name);
}

static int connect_address(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

	if (fd >= 0 && !connect(fd, (const void *)address, sizeof(*address)))
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

bool ws_address_is_dead(const struct sockaddr_un *address)
{
	int fd = connect_address(address);

	if (fd < 0)
		return errno == ECONNREFUSED;
	close(fd);
	return false;
}

/* Connect to the session in whichever folder it is; -1 with errno. */
static int connect_session(const char *name)
{
	int folder, fd = -1;

	errno = ENOENT;
	for (unsigned i = 0; fd < 0 && (folder = ws_session_open_folder(i)) != -2; i++) {
		struct sockaddr_un address;

		if (folder < 0)
			continue;
		ws_address_fill(&address, folder, name);
		fd = connect_address(&address);
		close(folder);
	}
	return fd;
}

bool ws_session_exists(const char *name)
{
	int fd = connect_session(name);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static bool is_trusted_server(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
	       (peer.uid == geteuid() || !peer.uid);
}

int ws_session_ask(const char *name, const struct ws_text *request, struct ws_message *answer,
		   struct ws_err *err)
{
	struct ws_err why;
	int fd = connect_session(name), rc = 0;

	*answer = (struct ws_message){0};
	if (fd < 0) {
		ws_fail(err, "there is no session '%s'", name);
		return 1;
	}
	if (!is_trusted_server(fd))
		rc = ws_fail(err, "session '%s' is another user's", name);
	else if (ws_message_send(fd, request, &why) || ws_message_receive(fd, answer, &why))
		rc = ws_fail(err, "session '%s' did not answer: %s", name, why.msg);
	close(fd);
	return rc;
}

/* ---- the list ---- */

static bool is_listed(const struct ws_session_names *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->names[i], name))
			return true;
	return false;
}

/* Does nothing if somebody has made the socket anew in the meantime. */
static void remove_dead(int folder, const char *file, const struct sockaddr_un *address)
{
	ws_session_lock_folder(folder);
	if (ws_address_is_dead(address))
		unlinkat(folder, file, 0);
	ws_session_unlock_folder(folder);
}

static void look_at_entry(struct ws_session_names *list, int folder, const char *file)
{
	size_t length = strlen(file), end = strlen(".sock");
	struct sockaddr_un address;
	char *name;
	int fd;

	if (length <= end || length > WS_SESSION_NAME_MOST + end ||
	    strcmp(file + length - end, ".sock"))
		return;
	name = ws_strndup(file, length - end);
	ws_address_fill(&address, folder, name);
	fd = connect_address(&address);
	if (fd < 0 && errno == ECONNREFUSED)
		remove_dead(folder, file, &address);
	if (fd >= 0)
		close(fd);
	if (fd < 0 || is_listed(list, name)) {
		free(name);
		return;
	}
	ws_grow(list->names, list->cap, list->count + 1);
	list->names[list->count++] = name;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void ws_session_list(struct ws_session_names *list)
{
	int folder;

	*list = (struct ws_session_names){0};
	for (unsigned i = 0; (folder = ws_session_open_folder(i)) != -2; i++) {
		struct dirent *entry;
		DIR *dir = NULL;
		int again = -1;

		if (folder >= 0)
			again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (again >= 0)
			dir = fdopendir(again);
		while (dir && (entry = readdir(dir)))
			look_at_entry(list, folder, entry->d_name);
		if (dir)
			closedir(dir);
		if (folder >= 0)
			close(folder);
	}
	if (list->count)
		qsort(list->names, list->count, sizeof(*list->names), compare_names);
}

void ws_session_free_list(struct ws_session_names *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->names[i]);
	free(list->names);
	*list = (struct ws_session_names){0};
}
