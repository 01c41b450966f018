/* hookable.c - see hookable.h. */
#include "ring/hookable.h"
#include "ring/arena_name.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ring/syscall.h"

#if defined(__x86_64__)
#define OWN_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OWN_MACHINE EM_AARCH64
#endif

#define SEARCHED (64 << 10) /* glibc's loader names its versions in its first few KiB */

static long open_file(const char *path)
{
	return ws_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0, 0,
			  0);
}

static void close_file(long fd)
{
	ws_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

static long read_at(long fd, void *to, size_t n, uint64_t offset)
{
	return ws_syscall(SYS_pread64, fd, (long)to, (long)n, (long)offset, 0, 0);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool has_word(const char *bytes, long n, const char *word)
{
	long len = (long)strlen(word);

	for (long i = 0; i + len <= n; i++)
		if (!memcmp(bytes + i, word, (size_t)len))
			return true;
	return false;
}

/* A loader is recognised by its name or, if that is unusual, by the private symbol version that
 * only glibc's files define. */
static bool is_glibc_loader(const char *path)
{
	const char word[] = "GLIBC_PRIVATE";
	char piece[1024];
	bool found = false;
	long fd;

	if (!strncmp(base_name(path), "ld-linux", 8))
		return true;
	fd = open_file(path);
	if (fd < 0)
		return !strstr(path, "musl");
	for (uint64_t at = 0; at < SEARCHED && !found; at += sizeof(piece) - sizeof(word)) {
		long n = read_at(fd, piece, sizeof(piece), at);

		if (n <= 0)
			break;
		found = has_word(piece, n, word);
	}
	close_file(fd);
	return found;
}

static bool is_hookable_elf(long fd, const char *path, const char *head, long n)
{
	Elf64_Ehdr header;
	char interpreter[256];
	Elf64_Phdr ph;

	if (n < (long)sizeof(header))
		return false;
	memcpy(&header, head, sizeof(header));
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
	    header.e_machine != OWN_MACHINE)
		return false;
	for (int i = 0; i < header.e_phnum && i < 64; i++) {
		if (read_at(fd, &ph, sizeof(ph),
			    header.e_phoff + (uint64_t)i * header.e_phentsize) != (long)sizeof(ph))
			break;
		if (ph.p_type != PT_INTERP)
			continue;
		n = read_at(fd, interpreter, sizeof(interpreter) - 1, ph.p_offset);
		if (n <= 0)
			break;
		interpreter[n] = 0;
		return is_glibc_loader(interpreter);
	}
	/* A loader may be started by name, with the program as its argument. */
	return strncmp(base_name(path), "ld-musl", 7) != 0;
}

/* The interpreter that a #! line names; false when there is no such line, or it does not end. */
static bool read_interpreter(char *head, long n, char *interpreter, size_t size)
{
	char *text, *end;

	if (n < 3 || head[0] != '#' || head[1] != '!')
		return false;
	head[n] = 0;
	text = head + 2 + strspn(head + 2, " \t");
	end = text + strcspn(text, " \t\r\n");
	if (end == text || (size_t)(end - text) >= size)
		return false;
	memcpy(interpreter, text, (size_t)(end - text));
	interpreter[end - text] = 0;
	return true;
}

bool ws_is_hookable(const char *path)
{
	char head[512], interpreter[256];

	for (int depth = 0; depth < 5; depth++) {
		long fd = open_file(path), n;
		bool hookable = true;

		if (fd < 0)
			return true;
		n = read_at(fd, head, sizeof(head) - 1, 0);
		if (n >= 4 && !memcmp(head, ELFMAG, 4))
			hookable = is_hookable_elf(fd, path, head, n);
		close_file(fd);
		if (!read_interpreter(head, n, interpreter, sizeof(interpreter)))
			return hookable;
		path = interpreter;
	}
	return true;
}

/*
 * Uses access because that ignores the capabilities of a user who is not root, which such a process
 * loses at its exec. Where real and effective user differ, the loader reads no LD_PRELOAD at all.
 */
static bool can_access(const char *path, int mode)
{
	long error = ws_syscall(SYS_faccessat, AT_FDCWD, (long)path, mode, 0, 0, 0);

	return error != -EACCES && error != -EPERM && error != -ENOENT && error != -ENOTDIR &&
	       error != -ELOOP && error != -EROFS;
}

/* Sealed memory can also be reached without its socket, which somebody may have removed. */
static bool can_access_arena(const char *path)
{
	char link[WS_ARENA_LINK], target[WS_ARENA_LINK];
	struct ws_arena_name name;

	if (can_access(path, R_OK | W_OK))
		return true;
	if (!ws_read_arena_name(path, &name) || !name.sealed)
		return false;
	ws_write_arena_link(&name, link, target);
	return can_access(link, R_OK | W_OK);
}

/* Whether a new image could open a file. If not, it ends without a word of ours. */
static bool will_have_descriptor(void)
{
	struct rlimit limit = {0};

	if (ws_syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&limit, 0, 0))
		return true;
	for (rlim_t fd = 0; fd < limit.rlim_cur; fd++) {
		long flags = ws_syscall(SYS_fcntl, (long)fd, F_GETFD, 0, 0, 0, 0);

		if (flags < 0 || flags & FD_CLOEXEC)
			return true;
	}
	return false;
}

bool ws_can_read_hooks(const char *preload, const char *session)
{
	char path[4096];

	if (!will_have_descriptor())
		return false;

	while (*preload) {
		size_t n = strcspn(preload, ":");

		if (n >= sizeof(path))
			return false;
		memcpy(path, preload, n);
		path[n] = 0;
		if (!can_access(path, R_OK))
			return false;
		preload += n + (preload[n] == ':');
	}
	return can_access_arena(session);
}
