/*
 * arena.c - see arena.h. An arena is memory without a name where /dev/shm, whose size shows how
 * much memory the system's owner allows for such use, has room for it; else a file in a temporary
 * folder. The recorder listens on the socket of such memory, and locks such a file (flock). If
 * nobody listens or holds the lock, the recorder died without removing the name. Removing it then
 * does no harm: processes that still map the memory keep it.
 */
#include "record/arena.h"
#include "base/choose.h"
#include "base/mem.h"
#include "base/shrink.h"
#include "record/sealed.h"
#include "ring/arena_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SHARED "/dev/shm"
#define AHEAD (2u << 20)
#define STEP (4u << 20)

static bool is_socket(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISSOCK(st.st_mode);
}

bool ws_area_is_live(const char *path)
{
	bool locked;
	int fd;

	if (is_socket(path))
		return ws_is_socket_live(path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return false;
	locked = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
	close(fd);
	return locked;
}

/* A socket looks dead between getting its name and being listened on, although its recorder
 * lives. */
static void remove_if_stale(const char *path)
{
	struct ws_arena_name name;
	int fd;

	if (!ws_read_arena_name(path, &name))
		return;
	if (is_socket(path)) {
		if (kill((pid_t)name.pid, 0) && errno == ESRCH && !ws_is_socket_live(path))
			unlink(path);
		return;
	}
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		unlink(path);
	close(fd);
}

static void remove_stale_arenas(const char *dir)
{
	char mine[64], path[PATH_MAX];
	DIR *d = opendir(dir);
	struct dirent *entry;

	if (!d)
		return;
	snprintf(mine, sizeof(mine), WS_ARENA_PREFIX "%u-", (unsigned)geteuid());
	while ((entry = readdir(d)))
		if (!strncmp(entry->d_name, mine, strlen(mine)) &&
		    snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) < (int)sizeof(path))
			remove_if_stale(path);
	closedir(d);
}

/*
 * Create a file in `dir` and lock it. -1 with EAGAIN when the caller should try again: before the
 * lock is held, another recorder may take the new file for a stale one and remove its name.
 */
static int make_locked_file(struct ws_area *area, const char *dir)
{
	uint64_t random;
	struct stat st;
	int fd, error;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = ws_read_counter();
	if ((size_t)snprintf(area->path, sizeof(area->path), "%s/" WS_ARENA_PREFIX "%u-%d-%016llx",
			     dir, (unsigned)geteuid(), (int)getpid(),
			     (unsigned long long)random) >= sizeof(area->path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = open(area->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -1;
	while ((error = flock(fd, LOCK_EX) ? errno : 0) == EINTR)
		;
	if (!error && !fstat(fd, &st) && st.st_nlink)
		return fd;
	unlink(area->path);
	close(fd);
	errno = ws_or(error, EAGAIN);
	return -1;
}

static bool has_room(const char *dir, uint64_t room)
{
	struct statvfs vfs;

	return !statvfs(dir, &vfs) && (uint64_t)vfs.f_bavail * vfs.f_frsize >= room;
}

/* WARPSIGHT_ARENA=file is for tests. */
static int try_sealed(struct ws_area *area, uint64_t size, uint64_t first, uid_t owner)
{
	const char *wanted = getenv("WARPSIGHT_ARENA");
	struct ws_sealed sealed;

	if (!has_room(SHARED, size * 4) || (wanted && !strcmp(wanted, "file")))
		return -1;
	remove_stale_arenas(SHARED);
	if (ws_sealed_create(&sealed, SHARED, size, first, owner))
		return -1;
	area->sealed = true;
	area->fd = sealed.memory;
	area->socket = sealed.socket;
	strcpy(area->path, sealed.path);
	return 0;
}

static int try_folder(struct ws_area *area, const char *dir, uint64_t size, uint64_t first,
		      uint64_t room)
{
	int error = 0;

	if (!has_room(dir, room))
		return -1;
	remove_stale_arenas(dir);
	while ((area->fd = make_locked_file(area, dir)) < 0)
		if (errno != EAGAIN)
			return -1;
	if (ftruncate(area->fd, (off_t)size) ||
	    (error = posix_fallocate(area->fd, 0, (off_t)first))) {
		error = ws_or(error, errno);
		unlink(area->path);
		close(area->fd);
		errno = error;
		return -1;
	}
	return 0;
}

/* The number of folders in which arenas may be. */
enum { DIRS = 4 };

static void list_folders(const char *folders[DIRS])
{
	const char *tmp = getenv("TMPDIR");

	folders[0] = SHARED;
	folders[1] = tmp && *tmp ? tmp : "/tmp";
	folders[2] = "/tmp";
	folders[3] = "/var/tmp";
}

void ws_area_each_folder(void (*fn)(void *ctx, const char *folder), void *ctx)
{
	const char *folders[DIRS];

	list_folders(folders);
	for (int i = 0; i < DIRS; i++)
		if (i != 2 || strcmp(folders[1], folders[2]))
			fn(ctx, folders[i]);
}

/*
 * The target needs /dev/shm too (a container gives it 64 MiB, and PyTorch's workers pass tensors
 * through it). So it is used only when the whole budget is a small part of it. A folder with too
 * little room is used only when there is no other.
 */
static int make_memory(struct ws_area *area, uint64_t size, uint64_t first, uid_t owner,
		       struct ws_err *err)
{
	const uint64_t room[] = {size * 4, size * 2, first * 4};
	const char *dirs[DIRS];

	if (!try_sealed(area, size, first, owner))
		return 0;
	list_folders(dirs);
	for (size_t r = 0; r < WS_COUNT(room); r++)
		for (size_t i = r ? 1 : 0; i < DIRS; i++)
			if (!try_folder(area, dirs[i], size, first, room[r]))
				return 0;
	if (!try_folder(area, SHARED, size, first, first * 4))
		return 0;
	if (errno == EFBIG)
		return ws_fail(err,
			       "the limit on the size of files (ulimit -f) leaves no room for the "
			       "shared memory of a recording (%llu KiB)",
			       (unsigned long long)(size >> 10));
	return ws_fail(err,
		       "no room for the shared memory of a recording (%llu MiB) in /dev/shm, %s or "
		       "/tmp: free some, or set TMPDIR to a "
		       "folder that can be written to",
		       (unsigned long long)(first * 4 >> 20), dirs[1]);
}

/*
 * The target has these limits too. The mapped arena counts against its address space, most of which
 * must stay free for the program, and no file can be larger than the limit on files.
 */
static uint64_t check_limits(uint64_t budget, uint64_t head)
{
	struct rlimit limit;

	budget = ws_min(budget, (uint64_t)ws_address_space() / 16);
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	    limit.rlim_cur > head && budget > limit.rlim_cur - head)
		budget = limit.rlim_cur - head;
	return budget;
}

int ws_area_create(struct ws_area *area, uint64_t budget, uid_t owner, struct ws_err *err)
{
	uint64_t head = WS_ALIGN_UP(sizeof(struct ws_arena), (uint64_t)WS_CHUNK_SIZE);
	uint64_t room = check_limits(budget, head), chunks = room / WS_CHUNK_SIZE,
		 count = room / 4 / WS_BUFFER_SIZE, size, first, buffers;
	struct stat st;
	void *memory;

	memset(area, 0, sizeof(*area));
	if (chunks < 8)
		chunks = 8;
	if (chunks > WS_MAX_CHUNKS - 1 - head / WS_CHUNK_SIZE)
		chunks = WS_MAX_CHUNKS - 1 - head / WS_CHUNK_SIZE;
	if (count > WS_BUFFERS)
		count = WS_BUFFERS;
	buffers = WS_ALIGN_UP(head + chunks * WS_CHUNK_SIZE, (uint64_t)WS_BUFFER_SIZE);
	size = buffers + count * WS_BUFFER_SIZE;
	if (check_limits(size, head) < size) { /* CUPTI's buffers are then private memory */
		size = head + chunks * WS_CHUNK_SIZE;
		count = 0;
	}
	first = head + (chunks * WS_CHUNK_SIZE < STEP ? chunks * WS_CHUNK_SIZE : STEP);
	if (make_memory(area, size, first, owner, err))
		return -1;
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, area->fd, 0);
	if (memory == MAP_FAILED || (owner != (uid_t)-1 && fchown(area->fd, owner, (gid_t)-1))) {
		ws_fail_errno(err, "cannot use the shared memory %s", area->path);
		unlink(area->path);
		close(area->fd);
		if (area->sealed)
			close(area->socket);
		return -1;
	}
	ws_guard_mapping(memory, size, true);
	area->arena = memory;
	area->arena->magic = WS_ARENA_MAGIC;
	area->arena->version = WS_ARENA_VERSION;
	area->arena->size = size;
	area->arena->chunk_first = (uint32_t)(head / WS_CHUNK_SIZE);
	area->arena->chunk_count = (uint32_t)chunks;
	area->arena->buffer_first = (uint32_t)(buffers / WS_BUFFER_SIZE);
	area->arena->buffer_count = (uint32_t)count;
	area->arena->recorder_pid = getpid();
	area->arena->text_used = 1; /* offset 0 is the empty text */
	if (!stat("/proc/self/ns/pid", &st))
		area->arena->recorder_pid_ns = st.st_ino;
	atomic_store(&area->arena->chunk_next, area->arena->chunk_first);
	atomic_store(&area->arena->chunk_backed, (uint32_t)(first / WS_CHUNK_SIZE));
	ws_area_adopt(area);
	area->owner = owner;
	return 0;
}

void ws_area_adopt(struct ws_area *area)
{
	const struct ws_arena *arena = area->arena;

	area->size = arena->size;
	area->chunk_first = arena->chunk_first;
	area->chunk_end = arena->chunk_first + arena->chunk_count;
	area->buffer_first = arena->buffer_first;
	area->buffer_count = ws_min(arena->buffer_count, WS_BUFFERS);
	area->pid_ns = arena->recorder_pid_ns;
	area->owner = (uid_t)-1;
}

uint32_t ws_area_text(struct ws_area *area, const char *text, size_t len)
{
	struct ws_arena *arena = area->arena;
	uint32_t at = arena->text_used;

	if (len + 1 > WS_ARENA_TEXT - at) {
		area->text_full = true;
		return 0;
	}
	memcpy(arena->text + at, text, len);
	arena->text[at + len] = 0;
	arena->text_used += (uint32_t)len + 1;
	return at;
}

void ws_area_feed(struct ws_area *area)
{
	uint32_t next = atomic_load_explicit(&area->arena->chunk_next, memory_order_relaxed);
	uint32_t backed = atomic_load_explicit(&area->arena->chunk_backed, memory_order_relaxed);

	/* Numbers that make no sense are ignored; the hooks then extend the arena themselves. */
	if (backed >= next && backed >= area->chunk_first && backed - next < AHEAD / WS_CHUNK_SIZE)
		ws_extend_arena_below(area->arena, area->fd, STEP / WS_CHUNK_SIZE, area->chunk_end);
}

bool ws_area_repair(struct ws_area *area)
{
	struct stat st;

	if (fstat(area->fd, &st) || (uint64_t)st.st_size >= area->size)
		return false;
	/* The new part reads as zeros: the hooks then see that nothing is collected and that there
	 * is no memory. */
	if (ftruncate(area->fd, (off_t)area->size))
		return false;
	return true;
}

void ws_area_admit(struct ws_area *area)
{
	if (area->sealed)
		area->doorman = ws_doorman_start(area->socket, area->fd);
}

void ws_area_destroy(struct ws_area *area)
{
	if (!area->arena)
		return;
	atomic_store(&area->arena->closed, 1);
	ws_switch_collecting(area->arena, false);
	unlink(area->path);
	ws_doorman_stop(area->doorman);
	if (area->sealed)
		close(area->socket);
	ws_unguard_mapping(area->arena);
	munmap(area->arena, area->size);
	close(area->fd);
	area->arena = NULL;
}
