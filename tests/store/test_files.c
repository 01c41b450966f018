/*
 * test_files.c - names, locks and full disks: two recorders never share a file, an old report stays
 * until the new one stands, and what fitted on the disk is readable.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/journal.h"
#include "util.h"

static const struct ws_writer_opts force = {.overwrite = true};

/*
 * Calls of the store, which may behave as on NFS: no RENAME_NOREPLACE; a link whose answer is lost
 * is made, and then the name exists already; an exclusive lock needs a file that may be written.
 */
static bool is_nfs;

int renameat2(int old_folder, const char *old, int new_folder, const char *new, unsigned flags)
{
	if (is_nfs && flags) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_renameat2, old_folder, old, new_folder, new, flags);
}

int link(const char *from, const char *to)
{
	int rc = (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);

	if (!is_nfs || rc)
		return rc;
	errno = EEXIST;
	return -1;
}

int flock(int fd, int operation)
{
	if (is_nfs && operation & LOCK_EX && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) {
		errno = EBADF;
		return -1;
	}
	return (int)syscall(SYS_flock, fd, operation);
}

static void add_ranges(struct ws_writer *writer, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		ws_writer_add(writer, WS_TABLE_nvtx,
			      &(struct ws_row_nvtx){.start = 100 + i * 10,
						    .end = 105 + i * 10,
						    .thread = 1,
						    .payload = draw()});
}

static struct ws_writer *create_report(const char *path, const struct ws_writer_opts *opts)
{
	struct ws_err err;
	struct ws_writer *writer = ws_writer_create(path, opts, &err);

	if (!writer)
		fail_msg("%s", err.msg);
	return writer;
}

static uint64_t rows_in(const char *path)
{
	struct ws_report *report = open_or_fail(path);
	uint64_t n = ws_report_count_rows(report, WS_TABLE_nvtx);

	ws_report_close(report);
	return n;
}

/* ---- names and locks ---- */

static void private_and_tidy(void **state)
{
	char *path = in_folder("private.wsrep"), *journal = ws_journal_path(path);
	mode_t old = umask(0);
	struct ws_writer *writer = create_report(path, NULL);
	struct stat st;

	(void)state;
	umask(old);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(stat(journal, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size); /* allocated in full */
	assert_true(ws_writer_journaled(writer));
	assert_string_equal(ws_writer_path(writer), path);
	add_ranges(writer, 5);
	assert_int_equal(ws_writer_close(writer, NULL), 0);
	assert_int_not_equal(access(journal, F_OK), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size < 20000 &&
		    st.st_blocks * 512 < 40000); /* nothing allocated ahead is left */
	free(path);
	path = in_folder("gone.wsrep");
	writer = create_report(path, NULL);
	ws_writer_discard(writer);
	assert_int_not_equal(access(path, F_OK), 0);
	free(path);
	free(journal);
}

static void existing_file_stays(void **state)
{
	char *path = in_folder("there.wsrep");
	struct ws_err err;
	size_t n;

	(void)state;
	unlink(path);
	write_file(path, "precious", 8);
	assert_null(ws_writer_create(path, NULL, &err));
	assert_non_null(strstr(err.msg, "exists already"));
	assert_non_null(strstr(err.msg, path));
	char *at = read_file(path, &n);

	assert_int_equal(n, 8);
	assert_memory_equal(at, "precious", 8);
	free(at);
	struct ws_writer *writer = create_report(path, &force);

	add_ranges(writer, 3);
	assert_int_equal(ws_writer_close(writer, NULL), 0);
	assert_int_equal(rows_in(path), 3);
	free(path);
}

static void two_recorders(void **state)
{
	char *path = in_folder("two.wsrep");
	struct ws_writer *writer = create_report(path, &force);
	struct ws_err err;

	(void)state;
	assert_null(ws_writer_create(path, NULL, &err));
	assert_non_null(strstr(err.msg, "being written by another recorder"));
	assert_null(ws_writer_create(path, &force, &err));
	assert_non_null(strstr(err.msg, "being written by another recorder"));
	add_ranges(writer, 77);
	assert_int_equal(ws_writer_close(writer, NULL), 0);
	assert_int_equal(rows_in(path), 77);
	free(path);
}

/* Many processes want one name at once; at any time at most one has it, and its rows are what is
 * there in the end. */
static void race_for_a_name(void **state)
{
	char *path = in_folder("race.wsrep");
	pid_t pid[12];
	int won = 0;

	(void)state;
	unlink(path);
	for (int k = 0; k < 12; k++) {
		pid[k] = fork();
		if (!pid[k]) {
			struct ws_writer *writer = ws_writer_create(path, NULL, NULL);

			if (!writer)
				_exit(1);
			add_ranges(writer, 1000 + (uint64_t)k);
			_exit(ws_writer_close(writer, NULL) ? 2 : 0);
		}
	}
	for (int k = 0; k < 12; k++) {
		int status;

		waitpid(pid[k], &status, 0);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
		if (!WEXITSTATUS(status)) {
			won++;
			assert_int_equal(rows_in(path), 1000 + k);
		}
	}
	assert_int_equal(won, 1);
	free(path);
}

static void network_file_system(void **state)
{
	char *path = in_folder("nfs.wsrep");
	struct ws_writer *writer;
	struct ws_err err;

	is_nfs = true;
	existing_file_stays(state);
	two_recorders(state);
	race_for_a_name(state);
	writer = create_report(path, NULL);
	assert_true(ws_report_is_taken(path));
	add_ranges(writer, 9);
	assert_int_equal(ws_writer_close(writer, NULL), 0);
	assert_false(ws_report_is_taken(path));
	assert_null(ws_writer_create(path, NULL, &err));
	writer = create_report(path, &force);
	add_ranges(writer, 8);
	assert_int_equal(ws_writer_close(writer, NULL), 0);
	is_nfs = false;
	assert_int_equal(rows_in(path), 8);
	free(path);
}

static void bad_places(void **state)
{
	char *dir = in_folder("dir"), *fifo = in_folder("fifo"), *link = in_folder("link.wsrep");
	struct ws_err err;

	(void)state;
	assert_null(ws_writer_create("/nonexistent/folder/x.wsrep", NULL, &err));
	assert_non_null(strstr(err.msg, "/nonexistent/folder/x.wsrep"));
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_null(ws_writer_create(dir, &force, &err));
	assert_non_null(strstr(err.msg, "not a regular file"));
	rmdir(dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_null(ws_writer_create(fifo, &force, &err));
	assert_non_null(strstr(err.msg, "not a regular file"));
	assert_null(ws_report_open(fifo, &err));
	assert_int_equal(symlink("/etc/passwd", link), 0);
	assert_null(ws_writer_create(link, &force, &err));
	assert_int_equal(access("/etc/passwd", R_OK), 0);
	free(dir);
	free(fifo);
	free(link);
}

/* The old report can be read until the new one stands, and the journal of a recorder that died is
 * no obstacle. */
static void overwrite_after_a_crash(void **state)
{
	char *path = in_folder("crash.wsrep");
	pid_t pid = fork();
	struct ws_err err;

	(void)state;
	if (!pid) {
		struct ws_writer *writer = ws_writer_create(path, NULL, NULL);

		if (!writer)
			_exit(1);
		add_ranges(writer, 10);
		ws_writer_commit(writer);
		raise(SIGKILL);
	}
	waitpid(pid, NULL, 0);
	assert_int_equal(rows_in(path), 10);
	assert_null(ws_writer_create(path, NULL, &err));
	assert_non_null(strstr(err.msg, "exists already"));
	struct ws_writer *writer = create_report(path, &force);

	add_ranges(writer, 4);
	ws_writer_commit(writer);
	assert_int_equal(rows_in(path), 4); /* not the old journal's */
	assert_int_equal(ws_writer_close(writer, NULL), 0);
	assert_int_equal(rows_in(path), 4);
	free(path);
}

/* ---- full disks ---- */

/*
 * In a child: write more than fits into `path`, with a small table beside; then check that what is
 * there is readable, closed, and together with what is reported lost makes up everything. Exit
 * status 0 when all is well.
 */
static int overfill_disk(const char *path, bool journaled, uint32_t block_rows)
{
	enum { ROWS = 4500000 };
	struct ws_writer_opts opts = {.block_rows = block_rows};
	struct ws_err err = {""};
	struct ws_writer *writer = ws_writer_create(path, &opts, &err);
	uint64_t lost;
	int rc = 0;

	if (!writer || ws_writer_journaled(writer) != journaled)
		return 10;
	add_ranges(writer, ROWS);
	ws_writer_commit(writer);
	if (!ws_writer_error(writer, &err) || !strstr(err.msg, path))
		return 11;
	ws_writer_add(writer, WS_TABLE_loss,
		      &(struct ws_row_loss){.kind = ws_writer_string(writer, "nvtx", 4),
					    .events = ws_writer_lost(writer)});
	ws_writer_add(writer, WS_TABLE_nvtx,
		      &(struct ws_row_nvtx){.start = 1}); /* goes nowhere, and does no harm */
	lost = ws_writer_lost(writer);
	if (!lost || ws_writer_close(writer, &err) != -1)
		return 12;
	struct ws_report *report = ws_report_open(path, &err);

	if (!report)
		return 13;
	if (!ws_report_is_complete(report) || ws_report_verify(report, NULL, NULL))
		rc = 14;
	else if (ws_report_count_rows(report, WS_TABLE_loss) != 1)
		rc = 15;
	else if (!ws_report_count_rows(report, WS_TABLE_nvtx) ||
		 ws_report_count_rows(report, WS_TABLE_nvtx) + lost > ROWS ||
		 ws_report_count_rows(report, WS_TABLE_nvtx) + lost + 65536 < ROWS)
		rc = 16;
	ws_report_close(report);
	return rc;
}

static int child_status(pid_t pid)
{
	int status;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void size_limit(void **state)
{
	char *path = in_folder("limit.wsrep"), *small = in_folder("limit2.wsrep");
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		struct rlimit limit = {27 << 20, 27 << 20};

		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(overfill_disk(path, true, 0));
	}
	assert_int_equal(child_status(pid), 0);
	pid = fork();
	if (!pid) { /* the journal does not fit either: plain memory then */
		struct rlimit limit = {3 << 20, 3 << 20};

		setrlimit(RLIMIT_FSIZE, &limit);
		_exit(overfill_disk(small, false, 0));
	}
	assert_int_equal(child_status(pid), 0);
	free(path);
	free(small);
}

/* A file system of our own, as small as wanted; needs user namespaces or root. */
static bool own_disk(const char *at, const char *kind, const char *size)
{
	uid_t uid = getuid();
	char map[64], *path;
	int fd;

	if (uid && !unshare(CLONE_NEWUSER)) {
		path = "/proc/self/uid_map";
		fd = open(path, O_WRONLY);
		if (fd >= 0) {
			int n = snprintf(map, sizeof(map), "0 %u 1", uid);

			if (write(fd, map, (size_t)n) != n)
				return false;
			close(fd);
		}
	}
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return false;
	return !mount(kind, at, kind, 0, size);
}

/*
 * Have a child do `what` in a folder that is a disk of its own, and want its exit status to be 0.
 * Where nothing can be mounted, the library's skip() comes out of Debian 12's cmocka as a failure;
 * a note says the same.
 */
static void on_own_disk(const char *kind, const char *size,
			int (*what)(const char *at, const void *ctx), const void *ctx)
{
	char *at = in_folder("disk");
	pid_t pid;
	int status;

	assert_int_equal(mkdir(at, 0700), 0);
	pid = fork();
	if (!pid)
		_exit(own_disk(at, kind, size) ? what(at, ctx) : 77);
	status = child_status(pid);
	rmdir(at);
	free(at);
	if (status == 77)
		printf("# skipped: a small disk cannot be mounted here\n");
	else
		assert_int_equal(status, 0);
}

struct filling {
	bool journaled;
	uint32_t block_rows;
};

static int fill_disk(const char *at, const void *ctx)
{
	const struct filling *filling = ctx;

	return overfill_disk(ws_format("%s/full.wsrep", at), filling->journaled,
			     filling->block_rows);
}

static void test_disk(const char *options, bool journaled, uint32_t block_rows)
{
	on_own_disk("tmpfs", options, fill_disk, &(struct filling){journaled, block_rows});
}

static void full_disk(void **state)
{
	(void)state;
	test_disk("size=36m", true, 0);
}

static void full_disk_without_journal(void **state)
{
	(void)state;
	test_disk("size=6m", false, 0);
}

/* Thousands of small blocks: hardly anything is left over by chance, and the index needs a lot. */
static void full_disk_small_blocks(void **state)
{
	(void)state;
	test_disk("size=36m", true, 400);
}

static int create_without_space(const char *at, const void *ctx)
{
	char *path = ws_format("%s/x.wsrep", at);
	struct ws_err err = {""};

	(void)ctx;
	write_file(ws_format("%s/filler", at), calloc(1, 64 << 10), 64 << 10);
	if (ws_writer_create(path, NULL, &err) || !strstr(err.msg, path) ||
	    !strstr(err.msg, strerror(ENOSPC)))
		return 20;
	return access(path, F_OK) ? 0 : 21;
}

/* The very beginning does not fit: an error, nothing left behind. */
static void no_space_at_all(void **state)
{
	(void)state;
	on_own_disk("tmpfs", "size=64k", create_without_space, NULL);
}

static int write_all(const char *at, const void *ctx)
{
	char *path = ws_format("%s/x.wsrep", at);
	struct ws_writer *writer = ws_writer_create(path, NULL, NULL);
	struct ws_report *report;

	(void)ctx;
	if (!writer || !ws_writer_journaled(writer))
		return 20;
	add_ranges(writer, 200000);
	if (ws_writer_close(writer, NULL))
		return 21;
	report = ws_report_open(path, NULL);
	return report && ws_report_is_complete(report) &&
			       ws_report_count_rows(report, WS_TABLE_nvtx) == 200000
		       ? 0
		       : 22;
}

/* ramfs cannot allocate ahead: the journal is filled with zeros instead, and the report does
 * without. */
static void no_allocation_ahead(void **state)
{
	(void)state;
	on_own_disk("ramfs", NULL, write_all, NULL);
}

static void recover_to_full_place(void **state)
{
	char *path = in_folder("from.wsrep");
	struct ws_err err;
	struct ws_writer *writer = create_report(path, NULL);

	(void)state;
	add_ranges(writer, 5);
	assert_int_equal(ws_writer_close(writer, NULL), 0);
	assert_int_equal(ws_report_recover(path, "/nonexistent/y.wsrep", NULL, &err), -1);
	assert_non_null(strstr(err.msg, "/nonexistent/y.wsrep"));
	assert_int_equal(ws_report_recover("/nonexistent/x", NULL, NULL, &err), -1);
	uint64_t rows = 0;

	assert_int_equal(ws_report_recover(path, NULL, &rows, &err),
			 0); /* a complete one stays as it is */
	assert_int_equal(rows, 5);
	assert_int_equal(rows_in(path), 5);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(private_and_tidy),
		cmocka_unit_test(existing_file_stays),
		cmocka_unit_test(two_recorders),
		cmocka_unit_test(race_for_a_name),
		cmocka_unit_test(network_file_system),
		cmocka_unit_test(bad_places),
		cmocka_unit_test(overwrite_after_a_crash),
		cmocka_unit_test(size_limit),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(full_disk_without_journal),
		cmocka_unit_test(full_disk_small_blocks),
		cmocka_unit_test(no_space_at_all),
		cmocka_unit_test(no_allocation_ahead),
		cmocka_unit_test(recover_to_full_place),
	};
	int rc;

	make_folder();
	rc = cmocka_run_group_tests_name("store-files", tests, NULL, NULL);
	end_folder();
	return rc;
}
