/*
 * resources.c - checks of what recording needs: memory, files, limits, and hooks that load.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/paths.h"
#include "doctor/doctor.h"

enum { MIB = 1 << 20, BUDGET_MIB = 256 };

static const char *format_bytes(uint64_t bytes, char out[32])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double value = (double)bytes;
	size_t i = 0;

	while (value >= 1024 && i + 1 < WS_COUNT(units)) {
		value /= 1024;
		i++;
	}
	snprintf(out, 32, "%.*f %s", value < 10 && i, value, units[i]);
	return out;
}

/* Try to make a file of this size in `dir`: 0, or the errno. The file has no name, or loses its
 * name at once. */
static int try_file(const char *dir, size_t bytes)
{
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), error = 0;
	char path[PATH_MAX];

	if (fd < 0 && errno != ENOENT && errno != EACCES && errno != EROFS && errno != ENOTDIR) {
		if (snprintf(path, sizeof(path), "%s/.warpsight-doctor-XXXXXX", dir) >=
		    (int)sizeof(path))
			return ENAMETOOLONG;
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	if (fd < 0)
		return errno;
	if (bytes && fallocate(fd, 0, 0, (off_t)bytes) && errno != EOPNOTSUPP)
		error = errno;
	close(fd);
	return error;
}

static const char *get_tmp_dir(void)
{
	const char *dir = getenv("TMPDIR");

	if (!dir || !*dir)
		dir = "/tmp";
	return dir;
}

void ws_check_shm(struct ws_finding *finding)
{
	char free_text[32], size_text[32];
	struct statvfs space;
	int error = try_file("/dev/shm", 4 * MIB);
	uint64_t free_bytes;

	finding->needed = true;
	if (error) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED, "/dev/shm cannot be used: %s",
			       strerror(error));
		if (try_file(get_tmp_dir(), 4 * MIB))
			finding->health = WS_HEALTH_MISSING;
		else
			ws_add_finding(finding, WS_HEALTH_DEGRADED,
				       "buffers go to %.256s, which may be slower", get_tmp_dir());
		ws_add_fix(finding,
			   "mount a tmpfs on /dev/shm; in a container: docker run --shm-size=512m");
		return;
	}
	if (statvfs("/dev/shm", &space)) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "the free space in /dev/shm is not known: %s", strerror(errno));
		return;
	}
	free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
	ws_add_finding(finding, WS_HEALTH_OK, "%s free of %s in /dev/shm",
		       format_bytes(free_bytes, free_text),
		       format_bytes((uint64_t)space.f_blocks * space.f_frsize, size_text));
	if (free_bytes / MIB < BUDGET_MIB) {
		ws_add_finding(
			finding, WS_HEALTH_DEGRADED,
			"that is less than the %d MiB that event buffers may take: bursts can "
			"lose events",
			BUDGET_MIB);
		ws_add_fix(finding,
			   "docker run --shm-size=512m, or as root: mount -o remount,size=512m "
			   "/dev/shm");
	}
}

void ws_check_tmp(struct ws_finding *finding)
{
	int error = try_file(get_tmp_dir(), 0);

	if (!error) {
		ws_add_finding(finding, WS_HEALTH_OK, "%.256s is writable", get_tmp_dir());
		return;
	}
	ws_add_finding(finding, WS_HEALTH_DEGRADED, "%.256s is not writable: %s", get_tmp_dir(),
		       strerror(error));
	ws_add_fix(finding, "set TMPDIR to a folder that is");
}

void ws_check_cwd(struct ws_finding *finding)
{
	char free_text[32];
	struct statvfs space;
	int error = try_file(".", 0);

	if (error) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED, "not writable: %s", strerror(error));
		ws_add_fix(finding, "say where reports go: warpsight profile -o FILE");
		return;
	}
	if (statvfs(".", &space)) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED,
			       "writable, but its free space is not known: %s", strerror(errno));
		return;
	}
	ws_add_finding(finding, WS_HEALTH_OK, "writable, %s free",
		       format_bytes((uint64_t)space.f_bavail * space.f_frsize, free_text));
	if ((uint64_t)space.f_bavail * space.f_frsize < 1024ull * MIB) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED, "a long recording can fill that");
		ws_add_fix(finding, "write reports elsewhere with -o");
	}
}

static void check_limit(struct ws_finding *finding, const char *what, int which, rlim_t least,
			const char *fix)
{
	struct rlimit limit;

	if (getrlimit(which, &limit)) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED, "%s cannot be read: %s", what,
			       strerror(errno));
		return;
	}
	if (limit.rlim_cur == RLIM_INFINITY) {
		ws_add_finding(finding, WS_HEALTH_OK, "%s unlimited", what);
	} else if (limit.rlim_cur < least) {
		ws_add_finding(finding, WS_HEALTH_DEGRADED, "%s %llu (low)", what,
			       (unsigned long long)limit.rlim_cur);
		ws_add_fix(finding, "%s", fix);
	} else {
		ws_add_finding(finding, WS_HEALTH_OK, "%s %llu", what,
			       (unsigned long long)limit.rlim_cur);
	}
}

static void check_cgroup(struct ws_finding *finding)
{
	static const char *const memory[] = {"/sys/fs/cgroup/memory.max",
					     "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
	char text[128], limit_text[32];

	for (size_t i = 0; i < WS_COUNT(memory); i++) {
		enum ws_health health = WS_HEALTH_OK;
		unsigned long long bytes;

		/* Version 1 says "no limit" with a huge number. */
		if (!ws_read_small_file(memory[i], text, sizeof(text)) ||
		    (bytes = strtoull(text, NULL, 10)) == 0 || bytes > 1ull << 60)
			continue;
		if (bytes / MIB < 2 * BUDGET_MIB) {
			health = WS_HEALTH_DEGRADED;
			ws_add_fix(
				finding,
				"give the container at least 512 MiB more than the program needs");
		}
		ws_add_finding(finding, health, "the control group may use %s of memory",
			       format_bytes(bytes, limit_text));
	}
	if (ws_read_small_file("/sys/fs/cgroup/cpu.max", text, sizeof(text)) &&
	    strncmp(text, "max", 3)) {
		enum ws_health health = WS_HEALTH_OK;
		double quota = 0, period = 0;

		if (sscanf(text, "%lf %lf", &quota, &period) != 2 || period <= 0)
			return;
		if (quota / period < 1)
			health = WS_HEALTH_DEGRADED;
		ws_add_finding(finding, health, "the control group may use %.2f CPUs",
			       quota / period);
	}
}

void ws_check_limits(struct ws_finding *finding)
{
	check_limit(finding, "open files", RLIMIT_NOFILE, 256, "ulimit -n 1024");
	check_limit(finding, "processes", RLIMIT_NPROC, 64, "ulimit -u 1024");
	check_limit(finding, "locked memory", RLIMIT_MEMLOCK, 0, "");
	check_limit(finding, "file size", RLIMIT_FSIZE, (rlim_t)1 << 30, "ulimit -f unlimited");
	check_cgroup(finding);
}

/* Start a shell that does nothing, with the hooks loaded; the loader's complaints go to fd. */
static void exec_with_hooks(int fd, void *arg)
{
	char *words[] = {"sh", "-c", ":", NULL}, *variables[] = {arg, NULL};

	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	execve("/bin/sh", words, variables);
	dprintf(fd, "/bin/sh cannot be started: %s", strerror(errno));
	_exit(1);
}

static void try_hooks(struct ws_finding *finding, const char *paths)
{
	char *setting = ws_format("LD_PRELOAD=%s", paths);
	struct ws_text said = {0};
	bool well = ws_run_in_child(exec_with_hooks, setting, 10, &said);

	while (said.len && said.text[said.len - 1] == '\n')
		said.text[--said.len] = 0;
	if (well && !said.len) {
		ws_add_finding(finding, WS_HEALTH_OK, "loaded into /bin/sh without complaint");
	} else {
		if (!said.len)
			ws_text_puts(&said, "nothing, but failed");
		ws_add_finding(finding, WS_HEALTH_MISSING,
			       "a program that was to load the hooks said: %.512s", said.text);
		ws_add_fix(finding,
			   "the programs to be recorded need glibc 2.28 or newer and the same "
			   "architecture");
	}
	ws_text_free(&said);
	free(setting);
}

void ws_check_preload(struct ws_finding *finding)
{
	static const char *const libraries[] = {"libwarpsight-hooks.so", "libwarpsight-osrt.so",
						"libwarpsight-sample.so"};
	const char *own = getenv("LD_PRELOAD");
	char path[PATH_MAX];
	struct ws_text all = {0};
	struct ws_err err;

	finding->needed = true;
	for (size_t i = 0; i < WS_COUNT(libraries); i++) {
		if (ws_find_hook_library(libraries[i], path, sizeof(path), &err)) {
			ws_add_finding(finding, WS_HEALTH_MISSING, "%s", err.msg);
			ws_text_free(&all);
			return;
		}
		if (i)
			ws_text_puts(&all, ":");
		ws_text_puts(&all, path);
	}
	ws_add_finding(finding, WS_HEALTH_OK, "found in %.*s", (int)(strrchr(path, '/') - path),
		       path);
	try_hooks(finding, all.text);
	ws_text_free(&all);
	if (finding->health)
		return;
	if (own && *own)
		ws_add_finding(finding, WS_HEALTH_OK,
			       "LD_PRELOAD is set already (%.256s) and will be kept", own);
	if (getauxval(AT_SECURE)) {
		ws_add_finding(
			finding, WS_HEALTH_DEGRADED,
			"this program runs with raised privileges, so that the loader ignores "
			"LD_PRELOAD");
		ws_add_fix(finding, "run warpsight without set-user-id bit or file capabilities");
	}
	if (!access("/lib/ld-musl-x86_64.so.1", F_OK) || !access("/lib/ld-musl-aarch64.so.1", F_OK))
		ws_add_finding(finding, WS_HEALTH_OK,
			       "programs linked with musl are there; those are not recorded");
}
