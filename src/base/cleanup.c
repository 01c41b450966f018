/* cleanup.c - see cleanup.h. The list has a fixed size and the handler calls only async-signal-safe
 * functions. */
#include "base/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_ENTRIES = 16, MAX_PATH_BYTES = 4096 };

enum entry_kind {
	FREE_ENTRY,
	FILE_ENTRY,
	FOLDER_ENTRY,
	PROGRAM_ENTRY,
	OUTPUT_ENTRY,
	SCRATCH_ENTRY
};

static struct {
	volatile sig_atomic_t kind; /* enum entry_kind */
	volatile pid_t pid;
	char path[MAX_PATH_BYTES];
} entries[MAX_ENTRIES];

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction previous_actions[3];
static int entry_count;

void ws_remove_output(const char *path)
{
	_Alignas(struct dirent64) char entries_read[4096];
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	long n;

	if (fd < 0) {
		unlink(path);
		return;
	}
	while ((n = syscall(SYS_getdents64, fd, entries_read, sizeof(entries_read))) > 0)
		for (long at = 0; at < n;) {
			struct dirent64 *entry = (struct dirent64 *)(entries_read + at);

			unlinkat(fd, entry->d_name, 0);
			at += entry->d_reclen;
		}
	close(fd);
	rmdir(path);
}

/* Listing it does not change how signals are handled. */
static bool is_quiet(sig_atomic_t kind)
{
	return kind == OUTPUT_ENTRY || kind == SCRATCH_ENTRY;
}

void ws_cleanup_remove_all(void)
{
	for (int i = MAX_ENTRIES; i--;) {
		if (entries[i].kind == FILE_ENTRY)
			unlink(entries[i].path);
		else if (entries[i].kind == FOLDER_ENTRY)
			rmdir(entries[i].path);
		else if (entries[i].kind == PROGRAM_ENTRY)
			kill(entries[i].pid, SIGTERM);
		else if (is_quiet(entries[i].kind))
			ws_remove_output(entries[i].path);
		entries[i].kind = FREE_ENTRY;
	}
}

void ws_cleanup_remove_scratch(void)
{
	for (int i = 0; i < MAX_ENTRIES; i++)
		if (entries[i].kind == SCRATCH_ENTRY)
			ws_remove_output(entries[i].path);
}

static void on_signal(int sig)
{
	/* The raised signal is delivered after the handler, and the interrupted code may look at
	 * errno. */
	int saved_errno = errno;

	ws_cleanup_remove_all();
	signal(sig, SIG_DFL);
	raise(sig);
	errno = saved_errno;
}

static void catch_signals(bool on)
{
	struct sigaction action = {.sa_handler = on_signal};

	for (int i = 0; i < 3; i++) {
		sigaddset(&action.sa_mask, signals[i]);
		if (!on)
			sigaction(signals[i], &previous_actions[i], NULL);
		else if (!sigaction(signals[i], NULL, &previous_actions[i]) &&
			 previous_actions[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

static int add_entry(enum entry_kind kind, const char *path, pid_t pid)
{
	int i = 0;

	while (i < MAX_ENTRIES && entries[i].kind)
		i++;
	if (i == MAX_ENTRIES || (path && strlen(path) >= MAX_PATH_BYTES))
		return -1;
	if (path)
		strcpy(entries[i].path, path);
	entries[i].pid = pid;
	if (!is_quiet(kind) && !entry_count++)
		catch_signals(true);
	entries[i].kind = kind;
	return i;
}

int ws_cleanup_add_path(const char *path, bool folder)
{
	if (folder)
		return add_entry(FOLDER_ENTRY, path, 0);
	return add_entry(FILE_ENTRY, path, 0);
}

int ws_cleanup_add_program(pid_t pid)
{
	return add_entry(PROGRAM_ENTRY, NULL, pid);
}

int ws_cleanup_add_output(const char *path)
{
	return add_entry(OUTPUT_ENTRY, path, 0);
}

int ws_cleanup_add_scratch(const char *path)
{
	return add_entry(SCRATCH_ENTRY, path, 0);
}

void ws_cleanup_forget(int handle)
{
	bool quiet;

	if (handle < 0)
		return;
	quiet = is_quiet(entries[handle].kind);
	entries[handle].kind = FREE_ENTRY;
	if (!quiet && !--entry_count)
		catch_signals(false);
}
