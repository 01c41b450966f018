/* sealed.c - see sealed.h. */
#include "record/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/ticks.h"
#include "ring/arena_name.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

/* The number of filters of the calling process. UINT32_MAX, which excludes nobody, when it has some
 * and the kernel does not count them (before Linux 5.9). */
static uint32_t count_seccomp_filters(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	unsigned mode = 0, count = UINT32_MAX;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Seccomp_filters: %u", &count) != 1)
			sscanf(line, "Seccomp: %u", &mode);
	if (file)
		fclose(file);
	return mode ? count : 0;
}

static int make_memfd(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

static int make_sealed_memory(const char *random, uint64_t size, uint64_t first, uid_t owner)
{
	char name[sizeof(WS_ARENA_PREFIX) + WS_ARENA_RANDOM];
	int fd, error = 0;

	snprintf(name, sizeof(name), WS_ARENA_PREFIX "%s", random);
	fd = make_memfd(name);
	if (fd < 0)
		return -1;
	if (fchmod(fd, 0600) || (owner != (uid_t)-1 && fchown(fd, owner, (gid_t)-1)) ||
	    ftruncate(fd, (off_t)size))
		error = errno;
	if (!error)
		error = posix_fallocate(fd, 0, (off_t)first);
	if (!error && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		error = errno;
	if (!error)
		return fd;
	close(fd);
	errno = error;
	return -1;
}

/* The socket's mode at the time it gets its name becomes the mode of the name. */
static int listen_at(const char *path, uid_t owner)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -1;
	strcpy(address.sun_path, path);
	if (!fchmod(fd, 0600) && !bind(fd, (struct sockaddr *)&address, sizeof(address))) {
		if (!chmod(path, 0600) && (owner == (uid_t)-1 || !chown(path, owner, (gid_t)-1)) &&
		    !listen(fd, SOMAXCONN) && !access(path, F_OK))
			return fd;
		error = errno;
		unlink(path);
		errno = error;
	}
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

int ws_sealed_create(struct ws_sealed *sealed, const char *folder, uint64_t size, uint64_t first,
		     uid_t owner)
{
	char random[WS_ARENA_RANDOM + 1];
	uint64_t bits;
	int error = ENAMETOOLONG;

	if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
		bits = ws_read_counter();
	snprintf(random, sizeof(random), "%016llx", (unsigned long long)bits);
	sealed->memory = make_sealed_memory(random, size, first, owner);
	if (sealed->memory < 0)
		return -1;
	if ((size_t)snprintf(sealed->path, sizeof(sealed->path),
			     "%s/" WS_ARENA_PREFIX "%u-%d-%s-%d-%u", folder, (unsigned)geteuid(),
			     (int)getpid(), random, sealed->memory,
			     count_seccomp_filters()) < sizeof(sealed->path)) {
		sealed->socket = listen_at(sealed->path, owner);
		if (sealed->socket >= 0)
			return 0;
		error = errno;
	}
	close(sealed->memory);
	errno = error;
	return -1;
}

/* ---- who answers ---- */

struct ws_doorman {
	pthread_t thread;
	int socket, memory;
	_Atomic bool stopping;
};

static void send_descriptor(int connection, int fd)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
			      .cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS}};
	char byte = 0;
	struct iovec iovec = {&byte, 1};
	struct msghdr message = {.msg_iov = &iovec,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	sendmsg(connection, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* The rights of the socket's name decide who may connect. */
static void *answer_hooks(void *arg)
{
	const struct ws_doorman *doorman = arg;

	/* Without a free descriptor accept4 does not even see that the socket is shut down. */
	while (!doorman->stopping) {
		int connection = accept4(doorman->socket, NULL, NULL, SOCK_CLOEXEC);

		if (connection >= 0) {
			send_descriptor(connection, doorman->memory);
			close(connection);
		} else if (errno == EINVAL || errno == EBADF) {
			return NULL; /* shut down */
		} else if (errno != EINTR && errno != ECONNABORTED) {
			nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		}
	}
	return NULL;
}

/* The thread blocks signals: the recorder's other threads handle them. */
struct ws_doorman *ws_doorman_start(int socket, int memory)
{
	struct ws_doorman *doorman = ws_calloc(1, sizeof(*doorman));
	sigset_t all, before;
	bool started;

	doorman->socket = socket;
	doorman->memory = memory;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = !pthread_create(&doorman->thread, NULL, answer_hooks, doorman);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (started)
		return doorman;
	free(doorman);
	return NULL;
}

void ws_doorman_stop(struct ws_doorman *doorman)
{
	if (!doorman)
		return;
	doorman->stopping = true;
	shutdown(doorman->socket, SHUT_RDWR);
	pthread_join(doorman->thread, NULL);
	free(doorman);
}

bool ws_is_socket_live(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool live;

	if (fd < 0 || strlen(path) >= sizeof(address.sun_path)) {
		if (fd >= 0)
			close(fd);
		return true; /* nobody knows */
	}
	strcpy(address.sun_path, path);
	live = !connect(fd, (struct sockaddr *)&address, sizeof(address)) || errno == EAGAIN;
	close(fd);
	return live;
}
